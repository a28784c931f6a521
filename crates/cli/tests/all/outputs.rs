//! Outputs and inputs that block, are in use, or have no end; and signals.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{
    Running, complaint, ends_within, folder, have_ffmpeg, layercast, make_clip, real_time, run,
    signal,
};

const SOON: Duration = Duration::from_secs(30);

fn make_fifo(path: &Path) -> String {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
    path.display().to_string()
}

#[real_time]
fn a_fifo_that_no_program_reads_does_not_keep_join() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("unread-fifo");
    let clip = make_clip(&folder, 2);
    let server = Running::start(&["serve", &clip, "--loop"]);
    let fifo = make_fifo(&folder.join("fifo"));
    let begun = Instant::now();
    let output = run(&["join", &server.url, "--out", &fifo, "--for", "2s"]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(said.contains("no program has opened this FIFO"), "{said}");
    assert!(begun.elapsed() < SOON);
    for option in ["--out", "--trace"] {
        for (name, code) in [("-INT", 130), ("-TERM", 143)] {
            let mut join = layercast()
                .args(["join", &server.url, option, &fifo])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the binary runs");
            sleep(Duration::from_secs(1));
            signal(&join, name);
            assert_eq!(ends_within(&mut join, SOON), Some(code), "{option} {name}");
        }
    }
}

#[test]
fn a_join_that_fails_leaves_the_file_as_it_is() {
    let folder = folder("kept-output");
    let kept = folder.join("kept.ts");
    fs::write(&kept, "valuable").expect("a file");
    let output = run(&["join", "127.0.0.1:9", "--out", &kept.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&kept).expect("the file"), b"valuable");
    let absent = folder.join("absent.ts");
    run(&[
        "join",
        "127.0.0.1:9",
        "--out",
        &absent.display().to_string(),
    ]);
    assert!(!absent.exists());
}

#[real_time]
fn the_file_that_is_served_is_no_output() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("served-output"), 1);
    let before = fs::read(&clip).expect("the clip");
    let server = Running::start(&["serve", &clip, "--loop"]);
    let output = run(&["join", &server.url, "--out", &clip, "--for", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(said.contains("serves or writes this file"), "{said}");
    assert_eq!(fs::read(&clip).expect("the clip"), before);
    let output = run(&["filter", &clip, "--keep", "i", "-o", &clip]);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
    assert_eq!(fs::read(&clip).expect("the clip"), before);
}

#[test]
fn inputs_without_an_end_are_refused_with_the_cause() {
    let output = run(&["probe", "/dev/zero"]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(
        said.contains("/dev/zero") && said.contains("zero bytes"),
        "{said}"
    );
}

#[test]
fn a_fifo_that_no_program_writes_is_told() {
    let fifo = make_fifo(&folder("unwritten-fifo").join("fifo"));
    for (command, name, code) in [("probe", "-INT", 130), ("serve", "-TERM", 143)] {
        let mut child = layercast()
            .args([command, &fifo])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        sleep(Duration::from_secs(4));
        signal(&child, name);
        assert_eq!(ends_within(&mut child, SOON), Some(code));
        let output = child.wait_with_output().expect("it has ended");
        let said = complaint(&output);
        assert!(said.contains("no data yet"), "{said}");
    }
}

#[test]
fn commands_that_wait_end_with_the_code_of_the_signal() {
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let out = folder("stopped-receive").display().to_string();
        let commands: [&[&str]; 3] = [
            &["policer-probe", "--listen", "127.0.0.1:0"],
            &["receive", "--out", &out, "--listen", "127.0.0.1:0"],
            &["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"],
        ];
        for args in commands {
            let mut child = layercast()
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the binary runs");
            sleep(Duration::from_secs(1));
            signal(&child, name);
            assert_eq!(ends_within(&mut child, SOON), Some(code), "{args:?}");
        }
        // No sender came: nothing stays of the receiver.
        assert_eq!(fs::read_dir(&out).expect("the folder").count(), 0);
    }
}
