//! Scenarios that cannot be run: the error says which field, what it says and what would do.

use std::path::Path;

use crate::common::{CHAIN, scenarios};
use layercast_sim::scenario::{Scenario, ScenarioError};
use proptest::prelude::*;

fn resolve(text: &str) -> Result<(), ScenarioError> {
    Scenario::from_toml(text, Path::new(""))?
        .validate()
        .map(drop)
}

/// The error of the chain with a change.
fn error_of(from: &str, to: &str) -> ScenarioError {
    assert!(CHAIN.contains(from), "{from}");
    let changed = CHAIN.replacen(from, to, 1);
    resolve(&changed).expect_err(&format!("{from} -> {to}"))
}

#[track_caller]
fn says(error: &ScenarioError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn text_errors_show_the_line_and_what_is_accepted() {
    let error = error_of("duration = \"24s\"", "duration = \"24 parsecs\"");
    assert!(matches!(error, ScenarioError::Text { .. }));
    says(
        &error,
        &["line 3: duration: ", "24 parsecs", "a time such as"],
    );
    says(
        &error_of("carriage = \"datagrams\"", "carriage = \"pigeons\""),
        &["line 4: carriage: ", "pigeons", "cells"],
    );
    says(
        &error_of("name = \"chain\"", "nmae = \"chain\""),
        &["line 2: nmae: ", "did you mean \"name\"?"],
    );
    says(
        &error_of("\"100 Mbit/s\"", "\"fast\""),
        &["link[0].rate: ", "fast", "a rate like"],
    );
    says(
        &error_of("\"100 Mbit/s\"", "{ fits = \"film\" }"),
        &["level"],
    );
    says(
        &error_of("rate = \"100 Mbit/s\"", "rate = 100"),
        &["link[0].rate: it is 100; expected ", "a rate like"],
    );
    says(
        &error_of("\"canyon\"", "\"grand canyon\""),
        &["grand canyon", "canyon", "lougher"],
    );
    says(
        &error_of("{ node = \"near\"", "{ level = 3, node = \"near\""),
        &["level 3 is not 0, 1 or 2"],
    );
    says(
        &error_of("frame_rate = 24", "frame_rate = 24, shaping = \"slow\""),
        &["slow", "off"],
    );
    says(
        &error_of("frame_rate = 24", "frame_rate = 24, shaping = { b = 4 }"),
        &["{ b = 4, p = 1 }"],
    );
    says(
        &error_of("carriage", "host = \"2026\"\ncarriage"),
        &["2026", "1996"],
    );
    says(
        &error_of("\"100 Mbit/s\"", "\"100 Mbps\""),
        &["did you mean \"100 Mbit/s\"? expected a rate like"],
    );
    let (bernoulli, uniform) = (
        "expected { bernoulli = .. } or { gilbert = .. }",
        "expected { uniform = .. } or { normal = .. }",
    );
    for (value, said) in [
        ("loss = 0.1", bernoulli),
        ("loss = \"5 %\"", bernoulli),
        ("loss = { random = 0.1 }", bernoulli),
        ("jitter = \"5 ms\"", uniform),
    ] {
        let error = error_of(
            "rate = \"100 Mbit/s\"",
            &format!("rate = \"100 Mbit/s\", {value}"),
        );
        says(&error, &["link[0].", said]);
    }
    let two = "{ synthetic = \"canyon\", file = \"a.m1v\" }";
    says(
        &error_of("{ synthetic = \"canyon\" }", two),
        &["clip: expected { synthetic = .. }, { file = .. } or { trace = .. }"],
    );
}

#[test]
fn wrong_values_are_named_with_their_field() {
    for (from, to, parts) in [
        (
            "duration = \"24s\"",
            "duration = \"0s\"",
            &["duration is 0"][..],
        ),
        (
            "carriage",
            "era = \"1ns\"\ncarriage",
            &["era is 1ns", "1ms to 24h"],
        ),
        (
            "name = \"chain\"",
            "name = \"a/b\"",
            &["name is", "letters"],
        ),
        (
            "{ name = \"two\"",
            "{ name = \"one\"",
            &["node[2].name", "\"one\" is there already"],
        ),
        (
            "b = \"near\"",
            "b = \"nowhere\"",
            &["link[3].b", "no node \"nowhere\"", "middle"],
        ),
        (
            "a = \"three\", b = \"far\"",
            "a = \"far\", b = \"far\"",
            &["link[5].b is far", "another node"],
        ),
        (
            "a = \"three\", b = \"far\"",
            "a = \"two\", b = \"one\"",
            &["link[5]", "two-one", "already"],
        ),
        (
            "\"100 Mbit/s\"",
            "\"0 Mbit/s\"",
            &["link[0].rate: \"0 Mbit/s\" is zero"],
        ),
        (
            "delay = \"1 ms\"",
            "efci = 1.5",
            &["link[0].efci is 1.5", "at most 1"],
        ),
        (
            "delay = \"1 ms\"",
            "bl_share = 0",
            &["link[0].bl_share is 0"],
        ),
        (
            "delay = \"1 ms\"",
            "queue = \"0 cells\"",
            &["link[0].queue", "1 to"],
        ),
        ("delay = \"1 ms\"", "queue = \"40 days\"", &["40 days"]),
        (
            "delay = \"1 ms\"",
            "adapt_capacity = \"0 cells/s\"",
            &["adapt_capacity is 0"],
        ),
        (
            "delay = \"1 ms\"",
            "schedule = \"9s:50%,5s:100%\"",
            &["step 2 (5s:100%) is not after step 1 (9s:50%)"],
        ),
        (
            "delay = \"1 ms\"",
            "loss = { bernoulli = 2.0 }",
            &["link[0]", "2 is not a probability"],
        ),
        ("delay = \"1 ms\"", "duplicate = nan", &["link[0]", "NaN"]),
        (
            "\"100 Mbit/s\"",
            "{ fits = \"play\", level = 1 }",
            &["link[0].rate.fits", "no flow \"play\"", "film"],
        ),
        (
            "\"100 Mbit/s\"",
            "{ fits = \"film\", level = 1, spare = -1 }",
            &["rate.spare is -1"],
        ),
        (
            "source = \"source\"",
            "source = \"one\"",
            &["flow[0].source is one", "host"],
        ),
        ("frame_rate = 24, ", "", &["flow[0].frame_rate is missing"]),
        (
            "frame_rate = 24",
            "frame_rate = 0",
            &["flow[0].frame_rate is 0"],
        ),
        (
            "frame_rate = 24",
            "frame_rate = inf",
            &["flow[0].frame_rate: it is inf; expected a number above 0"],
        ),
        (
            "start = \"1s\"",
            "start = \"24s\"",
            &["flow[0].start", "before the end"],
        ),
        (
            "stop = \"21s\"",
            "stop = \"1s\"",
            &["flow[0].stop is 1s", "after the start"],
        ),
        (
            "delay_max = \"300ms\"",
            "delay_max = \"3us\"",
            &["flow[0].delay_max is 3us"],
        ),
        (
            "frame_rate = 24",
            "frame_rate = 24, shaping = { b = 0, p = 1 }",
            &["flow[0]", "b"],
        ),
        (
            "frame_rate = 24",
            "frame_rate = 24, policy = { min_level = 2, max_level = 1 }",
            &["flow[0].policy", "min_level"],
        ),
        (
            "node = \"near\"",
            "node = \"one\"",
            &["receiver[0].node is one", "host"],
        ),
        (
            "node = \"near\"",
            "node = \"source\"",
            &["receiver[0].node is source", "without sources"],
        ),
        (
            "{ node = \"near\", flow = \"film\" }",
            "{ node = \"near\", flow = \"play\" }",
            &["receiver[0].flow", "\"play\""],
        ),
        (
            "{ node = \"middle\",",
            "{ name = \"near\", node = \"middle\",",
            &["receiver[1].name", "already"],
        ),
        (
            "{ node = \"near\",",
            "{ join = \"9s\", leave = \"8s\", node = \"near\",",
            &["receiver[0].leave is 8s", "after join"],
        ),
        (
            "{ node = \"near\",",
            "{ playout = { a = 2.0 }, node = \"near\",",
            &["receiver[0].playout.a is 2"],
        ),
        (
            "    { a = \"two\", b = \"three\", rate = \"100 Mbit/s\", delay = \"1 ms\" },\n",
            "",
            &["receiver[2].flow", "no way", "\"source\"", "\"far\""],
        ),
        (
            "    { a = \"three\", b = \"far\", rate = \"100 Mbit/s\", delay = \"1 ms\" },\n",
            "",
            &["receiver[2].node is far", "exactly one link"],
        ),
        (
            "{ a = \"three\", b = \"far\", rate = \"100 Mbit/s\"",
            "{ a = \"three\", b = \"far\", rate = \"400 cells/s\"",
            &["receiver[2].flow is film", "between three and far"],
        ),
        (
            "receiver =",
            "fault = [{ at = \"1s\", kind = \"kill\" }]\nreceiver =",
            &["fault[0] is kill", "node = "],
        ),
        (
            "receiver =",
            "fault = [{ at = \"1s\", kind = \"kill\", node = \"x\" }]\nreceiver =",
            &["fault[0].node", "\"x\""],
        ),
        (
            "receiver =",
            "fault = [{ at = \"1s\", kind = \"link_up\", link = [\"one\", \"far\"] }]\nreceiver =",
            &["fault[0].link", "two nodes that are linked"],
        ),
        (
            "carriage",
            "host = { stall_rate = -1.0 }\ncarriage",
            &["host.stall_rate is -1"],
        ),
    ] {
        says(&error_of(from, to), parts);
    }
}

#[test]
fn clips_that_are_not_there_or_no_video_are_named() {
    let missing = "clip = { file = \"no/such/file.m1v\" }, start";
    let text = CHAIN.replace(
        "clip = { synthetic = \"canyon\" }, frame_rate = 24, start",
        missing,
    );
    let error = resolve(&text).unwrap_err();
    says(&error, &["no/such/file.m1v", "No such file"]);
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let error = resolve(&text.replace("no/such/file.m1v", toml)).unwrap_err();
    says(&error, &["flow[0].clip", "expected"]);
    let trace = text.replace(
        "{ file = \"no/such/file.m1v\" }",
        &format!("{{ trace = \"{toml}\" }}, frame_rate = 24"),
    );
    says(
        &resolve(&trace).unwrap_err(),
        &["flow[0].clip", "trace line 1"],
    );
}

#[test]
fn an_empty_scenario_is_an_error() {
    says(&resolve("").unwrap_err(), &["name"]);
    says(
        &resolve("name = \"x\"\nduration = \"1s\"").unwrap_err(),
        &["node is empty"],
    );
}

/// A queue below one packet works, but nothing larger passes.
#[test]
fn a_queue_without_room_for_a_packet_is_warned_of() {
    let text = std::fs::read_to_string(scenarios().join("quickstart.toml")).unwrap();
    let warnings = |text: &str| {
        let scenario = Scenario::from_toml(text, &scenarios()).unwrap();
        scenario.validate().unwrap().warnings()
    };
    assert_eq!(warnings(&text), []);
    let changed = text.replace("queue = \"500 ms\"", "queue = \"1 cells\"");
    assert_ne!(changed, text);
    let told: Vec<String> = warnings(&changed).iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1);
    let parts = [
        "link[0], link[1], link[2]",
        "room for 1 cell of 48 octets",
        "give at least queue = \"",
    ];
    assert!(parts.iter().all(|part| told[0].contains(part)), "{told:?}");
    // What it names is enough.
    let enough = told[0].rsplit('"').nth(1).unwrap();
    assert_eq!(warnings(&text.replace("500 ms", enough)), []);
}

/// Texts near enough to scenarios to get past the first checks.
fn ready_made_texts() -> Vec<String> {
    let names = ["quickstart.toml", "lossy.toml"];
    let read = |name| std::fs::read_to_string(scenarios().join(name)).unwrap();
    names
        .map(read)
        .into_iter()
        .chain([CHAIN.to_owned()])
        .collect()
}

proptest! {
    #[test]
    fn any_text_is_resolved_or_refused(text: String) {
        let _ = resolve(&text);
    }

    #[test]
    fn a_scenario_with_a_number_or_word_exchanged_is_resolved_or_refused(
        which in 0..3_usize, place in 0..400_usize, with in "[0-9]{1,9}|[a-z]{1,6}|\"|\\]|-1|nan|inf",
    ) {
        let text = &ready_made_texts()[which];
        let words: Vec<(usize, &str)> = text
            .match_indices(|c: char| c.is_alphanumeric())
            .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric()))
            .collect();
        let (at, _) = words[place % words.len()];
        let end = text[at..].find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |n| at + n);
        let changed = format!("{}{with}{}", &text[..at], &text[end..]);
        let _ = resolve(&changed);
    }
}
