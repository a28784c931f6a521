//! Outputs on a full disk (`/dev/full` of Linux): the command fails, and its error names the output.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{
    Running, complaint, ends_within, folder, have_ffmpeg, layercast, make_clip, real_time, run,
    signal,
};

const FULL: &str = "/dev/full";
/// Time in which a command notices that it cannot write.
const SOON: Duration = Duration::from_secs(30);

/// Whether there is a device that is always full; a test that needs it is left out otherwise.
fn have_full() -> bool {
    let found = Path::new(FULL).exists();
    if !found {
        println!("left out: there is no {FULL}");
    }
    found
}

/// Runs `args` with standard output on a full disk; gives standard error.
fn into_full(args: &[&str]) -> String {
    let full = File::options().write(true).open(FULL).expect("the device");
    let mut child = layercast()
        .args(args)
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let begun = Instant::now();
    let code = ends_within(&mut child, SOON);
    let output = child.wait_with_output().expect("it has ended");
    let said = complaint(&output);
    assert_eq!(
        code,
        Some(1),
        "{args:?} after {:?}: {said}",
        begun.elapsed()
    );
    said
}

/// The error is there once, names the output, and has a remedy; no other program is said to have stalled.
#[track_caller]
fn is_named(said: &str, name: &str) {
    let named = format!("layercast: cannot write {name}: No space left on device");
    assert_eq!(said.matches(&named).count(), 1, "{said}");
    assert!(said.contains("free some space"), "{said}");
    assert!(!said.contains("stalled"), "{said}");
}

#[test]
fn what_does_not_fit_on_standard_output_is_an_error() {
    if !have_full() {
        return;
    }
    let folder = folder("full-stdout");
    let file = folder.join("a.txt");
    fs::write(&file, "1").expect("a file");
    let file = file.display().to_string();
    let out = folder.join("received").display().to_string();
    let dumbbell = common::repository("scenarios/internet/dumbbell.toml");
    let group = common::repository("scenarios/group/star.toml");
    let commands: [&[&str]; 12] = [
        &["--help"],
        &["--version"],
        &["help", "fec", "plan"],
        &["send", &file, "--to", "127.0.0.1:9", "--dry-run", "--json"],
        &["sim", &dumbbell, "--duration", "1s"],
        &["sim", &dumbbell, "--duration", "1s", "--json"],
        &["sim", &group, "--check"],
        &["sim", "--schema=mets"],
        &[
            "send",
            &file,
            "--to",
            "127.0.0.1:9",
            "--wait",
            "1s",
            "--json",
        ],
        &[
            "receive",
            "--out",
            &out,
            "--listen",
            "127.0.0.1:0",
            "--wait",
            "1s",
            "--json",
        ],
        &["workload", "sample", "http.reply", "-n", "9"],
        &[
            "emulate",
            "--to",
            "127.0.0.1:9",
            "--listen",
            "127.0.0.1:0",
            "--json",
        ],
    ];
    for args in commands {
        is_named(&into_full(args), "standard output");
    }
}

#[test]
fn a_node_says_that_its_url_could_not_be_written_and_runs() {
    if !have_full() {
        return;
    }
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("full-url"), 2);
    let full = File::options().write(true).open(FULL).expect("the device");
    let mut node = layercast()
        .args(["serve", &clip, "--loop", "--listen", "127.0.0.1:0"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stderr = node.stderr.take().expect("a pipe");
    let lines = BufReader::new(stderr).lines().map_while(Result::ok);
    // The last line of the message; a node that does not print it is ended by the limit of the tests.
    let mut said = Vec::new();
    for line in lines {
        said.push(line);
        if said.last().is_some_and(|it| it.contains("its URL is ")) {
            break;
        }
    }
    let runs = node.try_wait().expect("a state").is_none();
    node.kill().expect("it runs");
    node.wait().expect("it has ended");
    is_named(&said.join("\n"), "standard output");
    assert!(runs);
}

#[real_time]
fn what_a_receiver_or_a_query_writes_to_a_full_disk_is_an_error() {
    if !have_full() {
        return;
    }
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("full-join"), 10);
    let server = Running::start(&["serve", &clip, "--loop"]);
    for args in [
        &["stats", &server.url][..],
        &["stats", &server.url, "--json"],
        &["join", &server.url, "--list"],
        &["join", &server.url, "--json", "--for", "3s"],
        &["join", &server.url, "--out", "-"],
    ] {
        is_named(&into_full(args), "standard output");
    }
    for option in ["--trace", "--out", "--explain"] {
        let output = run(&["join", &server.url, option, FULL, "--for", "3s"]);
        assert_eq!(output.status.code(), Some(1), "{option}");
        is_named(&complaint(&output), FULL);
    }
}

#[test]
fn files_of_the_simulator_on_a_full_disk_are_named() {
    if !have_full() {
        return;
    }
    let dumbbell = common::repository("scenarios/internet/dumbbell.toml");
    let layered = common::repository("scenarios/quickstart.toml");
    for args in [
        &["sim", &dumbbell, "--duration", "1s", "--pcap", FULL][..],
        &["sim", &layered, "--duration", "2s", "--pcap", FULL],
        &["sim", &layered, "--duration", "2s", "--trace", FULL],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        is_named(&complaint(&output), FULL);
    }
    for name in ["summary.json", "samples.parquet", "flows.parquet"] {
        let out = folder("full-out");
        let path = out.join(name);
        symlink(FULL, &path).expect("a link");
        let out = out.display().to_string();
        let output = run(&["sim", &dumbbell, "--duration", "1s", "--out", &out]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        is_named(&complaint(&output), &path.display().to_string());
    }
}

#[real_time]
fn a_trace_that_is_lost_is_said_when_it_happens_and_the_command_continues() {
    if !have_full() {
        return;
    }
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("full-trace"), 10);
    let server = Running::start(&["serve", &clip, "--loop"]);
    for option in ["--trace", "--explain"] {
        let mut child = layercast()
            .args(["join", &server.url, option, FULL])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = child.stderr.take().expect("a pipe");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        // Of a command that does not say it, the test is ended by its limit.
        let mut said = Vec::new();
        for line in lines.by_ref() {
            said.push(line);
            if said
                .last()
                .is_some_and(|it| it.contains("continues without"))
            {
                break;
            }
        }
        assert!(child.try_wait().expect("a state").is_none(), "{option}");
        signal(&child, "-INT");
        said.extend(lines);
        assert_eq!(ends_within(&mut child, SOON), Some(130), "{option}");
        is_named(&said.join("\n"), FULL);
        // The summary is there all the same.
        assert!(said.join("\n").contains("played"), "{said:?}");
    }
}
