//! Errors of scenario files whose keys have quotes, dots, brackets or control characters: their line, and their text.

use std::path::Path;

use layercast_sim::group::scenario::is_group;
use layercast_sim::internet::scenario::{Scenario, ScenarioError, is_internet};

/// Four lines that are right; the fifth is in the table `run`.
const TOML: &str = "schema = \"internet/1\"\nname = \"x\"\n[run]\nduration = \"1s\"\n";
/// The same in three lines.
const JSON: &str =
    "{\"schema\": \"internet/1\",\n\"name\": \"x\",\n\"run\": {\"duration\": \"1s\"},\n";

#[track_caller]
fn has(error: &ScenarioError, text: &str, line: usize, says: &str) {
    assert_eq!(error.line, Some(line), "{text}\n{error}");
    let message = error.message();
    assert!(message.starts_with(says), "{text}\n{message}\n{says}");
    assert!(!message.contains(char::is_control), "{message:?}");
}

#[test]
fn an_error_of_toml_has_the_line_of_its_key() {
    let deep = format!("x = {}", "[".repeat(200));
    let long = format!("{}a = 1", "a.".repeat(100));
    for (rest, line, says) in [
        ("[tcp.\"a.b\"]\necn = 3", 6, "tcp.\"a.b\".ecn: it is "),
        (
            "[tcp.low]\n[tcp.'x]']\necn = 3",
            7,
            "tcp.\"x]\".ecn: it is ",
        ),
        (
            "[tcp.\"q\\\"uote\"]\n\nnope = 1",
            7,
            "tcp.\"q\\\"uote\".nope: there is no field \"nope\"",
        ),
        (
            "'back`, expected `tick' = 1",
            5,
            "run.\"back`, expected `tick\": there is no field \"back`, expected `tick\"",
        ),
        (
            "\n\"\\u001b[31m\" = 1",
            6,
            "run.\"\\u001b[31m\": there is no field \"\\u{1b}[31m\"",
        ),
        // The key is wrong, whatever its value is.
        (
            "\"x.y\" = 2026-01-01",
            5,
            "run.\"x.y\": there is no field \"x.y\"",
        ),
        (
            "[odd]\n[odd.b]\nc = nan",
            5,
            "odd: there is no field \"odd\"",
        ),
        (
            "[tcp.\"a.b\"]\necn = 2026-01-01",
            6,
            "tcp.\"a.b\".ecn: it is date 2026-01-01",
        ),
        ("[tcp.\"[0]\"]\necn = nan", 6, "tcp.\"[0]\".ecn: it is "),
        (&deep, 5, "this is not TOML: cannot recurse"),
        (&long, 5, "this is not TOML: recursion limit"),
        ("[tcp.\"a b.c\"]", 5, "tcp.\"a b.c\": "),
    ] {
        let text = format!("{TOML}{rest}\n");
        let read = Scenario::from_toml(&text, Path::new(""));
        let error = read.and_then(|scenario| scenario.resolve().map(drop));
        let error = error.map_err(|error| error.located(&text));
        has(&error.expect_err(&text), &text, line, says);
    }
    let json = format!("{JSON}\"tcp\": {{}}}}");
    let error = Scenario::from_toml(&json, Path::new("")).expect_err("JSON");
    has(&error, &json, 1, "this is JSON; a scenario file is TOML");
}

#[test]
fn an_error_of_json_has_the_line_of_its_key() {
    let deep = format!("\"x\": {}", "[".repeat(200));
    for (rest, line, says) in [
        (
            "\"tcp\": {\n\"a.b\": {\n\"ecn\": 3}}}",
            6,
            "tcp.\"a.b\".ecn: it is ",
        ),
        (
            "\"tcp\": {\"low\": {},\n\"x]\": {\"ecn\": 3}}}",
            5,
            "tcp.\"x]\".ecn: it is ",
        ),
        (
            "\"tcp\": {\"q\\\"uote\": {\n\n\"nope\": 1}}}",
            6,
            "tcp.\"q\\\"uote\".nope: there is no field \"nope\"",
        ),
        (
            "\n\"back`, expected `tick\": 1}",
            5,
            "\"back`, expected `tick\": there is no field \"back`, expected `tick\"",
        ),
        (
            "\n\"\\u001b[31m\": 1}",
            5,
            "\"\\u001b[31m\": there is no field \"\\u{1b}[31m\"",
        ),
        (
            "\"\\u001b\": 1,\n\"\\u001b\": 2}",
            5,
            "duplicate field `\\u{1b}`",
        ),
        (&deep, 4, "this is not JSON: recursion limit"),
    ] {
        let text = format!("{JSON}{rest}\n");
        let error = Scenario::from_json(&text, Path::new("")).expect_err(&text);
        has(&error, &text, line, says);
    }
}

#[test]
fn the_schema_is_a_key_of_toml() {
    for (text, internet, group) in [
        ("schema = \"internet/1\"\n", true, false),
        ("\u{feff}schema = 'internet/1'\n", true, false),
        ("\"schema\" = \"group/1\"\n", false, true),
        ("x = [\n[1]]\nschema=\"internet/2\"\n", true, false),
        ("x = '''\nschema = \"internet/1\"\n'''\n", false, false),
        ("[run]\nschema = \"internet/1\"\n", false, false),
        ("# schema = \"internet/1\"\nschema = 3\n", false, false),
        // Broken elsewhere.
        ("schema = \"group/1\"\nname = \"x\nrun = }\n", false, true),
        ("name = \nschema = \"internet/1\"\n[run\n", true, false),
    ] {
        assert_eq!(
            (is_internet(text), is_group(text)),
            (internet, group),
            "{text}"
        );
    }
}
