//! Files and names that a command refuses: the error has the cause, the place and a remedy.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{complaint, folder, repository, run};

/// Time in which a command refuses its input, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

fn scenario(clip: &str, rate: &str) -> String {
    format!(
        r#"name = "inputs"
duration = "2s"
node = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
link = [{{ a = "a", b = "b", rate = "10 Mbit/s" }}]
[[flow]]
name = "film"
source = "a"
clip = {clip}
{rate}
[[receiver]]
node = "b"
flow = "film"
"#
    )
}

/// What a folder has that is no regular file of a moderate size.
fn not_regular(folder: &Path) -> Vec<(String, &'static str)> {
    let fifo = folder.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let large = folder.join("large");
    let file = File::create(&large).expect("a file");
    file.set_len(10 << 30).expect("a sparse file");
    vec![
        ("/dev/zero".to_owned(), "it is a device"),
        (fifo.display().to_string(), "it is a FIFO"),
        (folder.display().to_string(), "it is a folder"),
        (large.display().to_string(), "it is larger than"),
    ]
}

#[test]
fn clips_that_are_no_regular_files_are_refused_with_line_and_remedy() {
    let folder = folder("clips-refused");
    let path = folder.join("s.toml");
    let shown = path.display().to_string();
    for (clip, why) in not_regular(&folder) {
        for (kind, rate) in [("file", ""), ("trace", "frame_rate = 24")] {
            let field = format!("{{ {kind} = {clip:?} }}");
            fs::write(&path, scenario(&field, rate)).expect("a scenario");
            for args in [&["sim", &shown][..], &["sim", &shown, "--check"]] {
                let begun = Instant::now();
                let output = run(args);
                assert!(begun.elapsed() < SOON, "{args:?}: {:?}", begun.elapsed());
                let said = complaint(&output);
                assert_eq!(output.status.code(), Some(1), "{said}");
                let first = format!("{shown}:8: flow[0].clip: cannot read {clip}: {why}");
                let mut lines = said.lines().skip_while(|line| !line.contains(&first));
                assert!(lines.next().is_some(), "{first:?} is not in {said}");
                assert!(
                    lines.next().is_some_and(|it| it.starts_with("  ")),
                    "{said}"
                );
            }
        }
    }
}

#[test]
fn scenarios_trees_and_traces_that_are_no_regular_files_are_refused() {
    let folder = folder("texts-refused");
    for (path, why) in not_regular(&folder) {
        let commands: [&[&str]; 5] = [
            &["sim", &path],
            &["sim", &path, "--check"],
            &["emulate", &path],
            &["fec", "plan", &path],
            &["workload", "import", "--unit", "ms", &path],
        ];
        for args in commands {
            let begun = Instant::now();
            let output = run(args);
            assert!(begun.elapsed() < SOON, "{args:?}: {:?}", begun.elapsed());
            let said = complaint(&output);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
            let what = format!("cannot read {path}: {why}");
            assert!(said.contains(&what), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_clip_that_is_missing_is_named_by_check_with_line_and_remedy() {
    let folder = folder("clip-missing");
    let path = folder.join("s.toml");
    fs::write(&path, scenario("{ file = \"no/such.m1v\" }", "")).expect("a scenario");
    let output = run(&["sim", &path.display().to_string(), "--check"]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(
        said.contains("s.toml:8: flow[0].clip: cannot read no/such.m1v") && said.contains("ffmpeg"),
        "{said}"
    );
    assert_eq!(said.matches("layercast: ").count(), 1, "{said}");
}

#[test]
fn names_that_the_protocol_does_not_carry_are_refused_with_the_limit() {
    let long = "x".repeat(70_000);
    let escape = "a\u{1b}[2Jb";
    for (name, limit) in [
        ("", "it is empty"),
        (
            long.as_str(),
            "it has 70000 bytes; the session protocol carries 256 at most",
        ),
        (escape, "its character 2 is the control character '\\u{1b}'"),
    ] {
        let url = format!("127.0.0.1:9/{}", name.replace('\u{1b}', "%1b"));
        let commands: [(&[&str], &str); 11] = [
            (&["serve", "clip.ts", "--name", name], "--name"),
            (&["serve", "clip.ts", "--flow", name], "--flow"),
            (
                &["switch", "--upstream", "127.0.0.1:9", "--name", name],
                "--name",
            ),
            (&["join", "127.0.0.1:9/film", "--name", name], "--name"),
            (&["join", &url], "flow"),
            (&["token", "--identity", "x.pem", "--flow", name], "--flow"),
            (
                &[
                    "token",
                    "--identity",
                    "x.pem",
                    "--flow",
                    "f",
                    "--member",
                    name,
                ],
                "--member",
            ),
            (&["receive", "--out", "x", "--name", name], "--name"),
            (
                &["send", "x", "--to", "127.0.0.1:9", "--key-members", name],
                "--key-members",
            ),
            (&["serve", "clip.ts", "--core", name], "--core"),
            (
                &["send", "x", "--to", "127.0.0.1:9", "--members", name],
                "--members",
            ),
        ];
        for (args, place) in commands {
            if name.is_empty() && args.len() == 2 {
                // HOST:PORT/ has no flow.
                continue;
            }
            let output = run(args);
            let said = complaint(&output);
            assert_eq!(output.status.code(), Some(2), "{place}: {said}");
            assert!(said.contains(place) && said.contains(limit), "{said}");
            assert!(!said.contains('\u{1b}') && said.len() < 1_000, "{said}");
        }
    }
}

#[test]
fn steps_of_a_schedule_that_go_back_in_time_are_refused_with_their_place() {
    let steps = "10s:60%,5s:10%";
    let port = format!("x=1Mbit/s,schedule={steps}");
    let commands: [&[&str]; 2] = [
        &["serve", "clip.ts", "--port", &port],
        &[
            "emulate",
            "--to",
            "127.0.0.1:9",
            "--rate",
            "1Mbit/s",
            "--schedule",
            steps,
        ],
    ];
    for args in commands {
        let output = run(args);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("step 2 (5s:10%) is not after step 1 (10s:60%)"),
            "{said}"
        );
    }
}

#[test]
fn the_kind_of_a_schema_follows_an_equals_sign() {
    let output = run(&["sim", "--schema", "mets"]);
    assert_eq!(output.status.code(), Some(2));
    let said = complaint(&output);
    assert!(said.contains("--schema=mets"), "{said}");
    let output = run(&["sim", "--schema=mets"]);
    assert_eq!(output.status.code(), Some(0));
    let output = run(&["sim", "--schema", "--json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_scenario_of_another_kind_without_its_schema_is_recognised() {
    let path = folder("no-schema").join("s.toml");
    let shown = path.display().to_string();
    for (file, schema, at) in [
        ("internet/dumbbell.toml", "internet/1", "have no \"tcp\""),
        ("group/star.toml", "group/1", "have no \"session\""),
    ] {
        let whole = fs::read_to_string(repository(&format!("scenarios/{file}"))).expect("a file");
        let bare = whole.lines().filter(|line| !line.starts_with("schema"));
        fs::write(&path, bare.collect::<Vec<_>>().join("\n")).expect("a scenario");
        for args in [&["sim", &shown][..], &["sim", &shown, "--check"]] {
            let output = run(args);
            let said = complaint(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            let line = format!("starts with the line schema = \"{schema}\"");
            assert!(said.contains(at) && said.contains(&line), "{said}");
            assert_eq!(said.lines().count(), 2, "{said}");
        }
    }
}

#[test]
fn more_receivers_than_there_are_members_are_refused() {
    let send = |enough: &str| {
        let args = [
            "send",
            "nosuch",
            "--to",
            "127.0.0.1:9",
            "--members",
            "ann,bob",
        ];
        run(&[&args[..], &["--enough", enough]].concat())
    };
    let output = send("3");
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--enough 3 is more than --members has (2)"),
        "{said}"
    );
    for possible in ["2", "100%"] {
        let said = complaint(&send(possible));
        assert!(said.contains("cannot send nosuch"), "{said}");
    }
}
