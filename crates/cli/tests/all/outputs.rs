//! Outputs and inputs that block, are in use, or have no end; and signals.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common;
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

/// How a command ends that gets a signal after a time: `None` if a signal itself killed it.
fn signalled(args: &[&str], after: Duration, name: &str) -> Option<i32> {
    let mut child = layercast()
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    sleep(after);
    signal(&child, name);
    ends_within(&mut child, SOON)
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
            let args = ["join", &server.url, option, &fifo];
            let ended = signalled(&args, Duration::from_secs(1), name);
            assert_eq!(ended, Some(code), "{option} {name}");
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

/// A rendition of `rows` rows with key frames at whole seconds.
fn make_rendition(folder: &Path, rows: u32) -> String {
    let to = folder.join(format!("{rows}.ts"));
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i"])
        .arg(format!(
            "testsrc2=size={}x{rows}:rate=25:duration=3",
            rows * 4 / 3
        ))
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "25"])
        .args(["-sc_threshold", "0", "-bf", "0", "-b:v"])
        .arg(format!("{rows}k"))
        .arg(&to)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    to.display().to_string()
}

#[real_time]
fn no_rendition_that_is_served_is_an_output() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("served-renditions");
    let clips = [120, 240].map(|rows| make_rendition(&folder, rows));
    let serve = ["serve", &clips[0], "--rendition", &clips[1], "--loop"];
    let server = Running::start(&serve);
    for clip in &clips {
        let before = fs::read(clip).expect("the clip");
        for option in ["--out", "--trace"] {
            let output = run(&["join", &server.url, option, clip, "--for", "1s"]);
            assert_eq!(output.status.code(), Some(1), "{option} {clip}");
            let said = complaint(&output);
            assert!(said.contains("serves or writes this file"), "{said}");
            assert_eq!(fs::read(clip).expect("the clip"), before);
        }
    }
}

#[real_time]
fn two_joins_do_not_write_one_file_through_ffmpeg() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("one-writer");
    let clip = make_rendition(&folder, 120);
    let server = Running::start(&["serve", &clip, "--loop"]);
    for name in ["same.mkv", "same.mp4"] {
        let out = folder.join(name).display().to_string();
        let join = ["join", &server.url, "--out", &out, "--for", "5s"];
        let start = || {
            let mut command = layercast();
            command.args(join).stdout(Stdio::null());
            command.stderr(Stdio::piped()).spawn().expect("it runs")
        };
        let both = [start(), start()].map(|it| it.wait_with_output().expect("its end"));
        let mut codes = both.each_ref().map(|it| it.status.code());
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(1)], "{name}: {both:?}");
        let refused = both.iter().find(|it| !it.status.success());
        let said = complaint(refused.expect("one"));
        assert!(said.contains("serves or writes this file"), "{said}");
        let decoded = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-xerror", "-i", &out])
            .args(["-f", "null", "-"])
            .status();
        assert!(decoded.expect("ffmpeg runs").success(), "{name}");
    }
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
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    for (command, name, code) in [(&["probe"][..], "-INT", 130), (&serve, "-TERM", 143)] {
        let mut child = layercast()
            .args(command)
            .arg(&fifo)
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
        let commands: [&[&str]; 4] = [
            &["path", "recv", "--listen", "127.0.0.1:0"],
            &["policer-probe", "--listen", "127.0.0.1:0"],
            &["receive", "--out", &out, "--listen", "127.0.0.1:0"],
            &["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"],
        ];
        for args in commands {
            let ended = signalled(args, Duration::from_secs(1), name);
            assert_eq!(ended, Some(code), "{args:?}");
        }
        // No sender came: nothing stays of the receiver.
        assert_eq!(fs::read_dir(&out).expect("the folder").count(), 0);
    }
}

/// Whether a message has the cause, the place and, on a line of its own, a remedy.
fn has_remedy(said: &str, place: &str) -> bool {
    let mut lines = said
        .lines()
        .skip_while(|line| !line.starts_with("layercast: "));
    lines.next().is_some_and(|line| line.contains(place))
        && lines.next().is_some_and(|line| line.starts_with("  "))
}

#[test]
fn each_output_that_cannot_be_made_is_named_with_a_remedy() {
    let folder = folder("missing-outputs");
    let input = folder.join("a.txt");
    fs::write(&input, "1").expect("a file");
    let input = input.display().to_string();
    let missing = folder.join("missing/x");
    let missing = missing.display().to_string();
    let sim = common::repository("scenarios/quickstart.toml");
    let clip = common::repository("crates/cli/tests/all/main.rs");
    let node = "127.0.0.1:9/film";
    let listen = ["--listen", "127.0.0.1:0"];
    // Before media or a URL are waited for.
    let no_url = format!("@{}", folder.join("no-url").display());
    let commands: [&[&str]; 12] = [
        &["join", node, "--out", &missing],
        &["join", &no_url, "--out", &missing],
        &["join", &no_url, "--trace", &missing],
        &[
            "serve",
            "udp://127.0.0.1:0",
            "--trace",
            &missing,
            listen[0],
            listen[1],
        ],
        &["join", node, "--trace", &missing],
        &["join", node, "--identity", &missing],
        &["sim", &sim, "--pcap", &missing],
        &["sim", &sim, "--trace", &missing],
        &[
            "switch",
            "--upstream",
            "127.0.0.1:9",
            "--insecure",
            "--trace",
            &missing,
            listen[0],
            listen[1],
        ],
        &["send", &input, "--to", "127.0.0.1:9", "--trace", &missing],
        &[
            "receive",
            "--out",
            &folder.join("in").display().to_string(),
            "--trace",
            &missing,
            listen[0],
            listen[1],
        ],
        &["xtpd", &missing, listen[0], listen[1]],
    ];
    for args in commands {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = complaint(&output);
        assert!(has_remedy(&said, &missing), "{args:?}: {said}");
    }
    // A file in place of a folder, and a folder in place of a file.
    let beneath = format!("{clip}/x.m1v");
    for out in [&beneath, &folder.display().to_string()] {
        let said = complaint(&run(&["join", node, "--out", out]));
        assert!(has_remedy(&said, out), "{out}: {said}");
    }
}

#[test]
fn each_port_in_use_is_named_with_a_remedy() {
    let folder = folder("ports-in-use");
    let input = folder.join("a.txt");
    fs::write(&input, "1").expect("a file");
    let held = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let used = held.local_addr().expect("its address").to_string();
    let live = format!("udp://{used}");
    let clip = common::repository("scenarios/quickstart.toml");
    let out = folder.join("in").display().to_string();
    let xtpd = folder.join("xtpd").display().to_string();
    let commands: [&[&str]; 8] = [
        &["serve", &live, "--listen", "127.0.0.1:0"],
        &["switch", "--upstream", "127.0.0.1:9/f", "--listen", &used],
        &["receive", "--out", &out, "--listen", &used],
        &["emulate", "--to", "127.0.0.1:9", "--listen", &used],
        &["policer-probe", "--listen", &used],
        &["path", "recv", "--listen", &used],
        &[
            "fec",
            "edge",
            "--peer",
            "127.0.0.1:9",
            "--in",
            "127.0.0.1:0",
            "--listen",
            &used,
        ],
        &["xtpd", &xtpd, "--listen", &used],
    ];
    for args in commands {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = complaint(&output);
        assert!(
            said.contains("in use") && has_remedy(&said, &used),
            "{args:?}: {said}"
        );
    }
    let said = complaint(&run(&["serve", &clip, "--listen", &used]));
    assert!(has_remedy(&said, &used), "{said}");
}

#[test]
fn a_signal_ends_the_wait_for_a_url_in_a_file() {
    let file = format!("@{}", folder("awaited-url").join("server.url").display());
    let commands: [&[&str]; 3] = [
        &["join", &file],
        &["switch", "--upstream", &file],
        &["stats", &file],
    ];
    for args in commands {
        for (name, code) in [("-INT", 130), ("-TERM", 143)] {
            let ended = signalled(args, Duration::from_millis(500), name);
            assert_eq!(ended, Some(code), "{args:?}");
        }
    }
}

#[real_time]
fn a_reader_that_stalls_does_not_hold_join() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("stalled-reader"), 2);
    let server = Running::start(&["serve", &clip, "--loop"]);
    // The pipe is full before `join` writes its first line.
    let script = "head -c 65536 /dev/zero; exec \"$@\"";
    let mut join = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_layercast")])
        .args(["join", &server.url, "--json", "--for", "3s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let begun = Instant::now();
    assert_eq!(ends_within(&mut join, SOON), Some(1));
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let mut said = String::new();
    std::io::Read::read_to_string(&mut join.stderr.take().expect("a pipe"), &mut said)
        .expect("text");
    assert!(said.contains("standard output has stalled"), "{said}");
}

/// A pipe at `--out -` that no program reads: cause, place and remedy, and no word of a stream without key frames.
#[real_time]
fn a_pipe_that_no_program_reads_is_said_to_be_full() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("unread-pipe"), 2);
    let server = Running::start(&["serve", &clip, "--loop"]);
    let mut join = Command::new(env!("CARGO_BIN_EXE_layercast"))
        .args(["join", &server.url, "--out", "-", "--for", "6s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    assert_eq!(ends_within(&mut join, SOON), Some(1));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut join.stderr.take().expect("a pipe"), &mut said)
        .expect("text");
    for part in [
        "because the output takes them too slowly, or not at all",
        "cannot write standard output: its reader did not take the rest within 2 s",
        "let the program at the other end of the pipe read",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(!said.contains("key frame"), "{said}");
}
