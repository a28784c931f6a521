//! The documents show the programs of this crate, and the programs in `examples/` run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

// These programs send in real time.
use flaky_test::flaky_test as real_time;

fn blocks<'a>(lines: impl Iterator<Item = &'a str>, begin: &str) -> Vec<Vec<&'a str>> {
    let mut blocks = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in lines {
        match &mut open {
            Some(_) if line.starts_with("```") => blocks.extend(open.take()),
            Some(block) => block.push(line),
            None if line == begin => open = Some(Vec::new()),
            None => {}
        }
    }
    blocks
}

#[test]
fn its_five_lines_are_the_doc_tests() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(here.join("../../README.md")).unwrap();
    let source = fs::read_to_string(here.join("src/lib.rs")).unwrap();
    let comments = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let run: Vec<Vec<&str>> = blocks(comments.map(|it| it.strip_prefix(' ').unwrap_or(it)), "```")
        .into_iter()
        .map(|block| {
            let shown = block.into_iter().filter(|line| !line.starts_with("# "));
            shown.collect()
        })
        .collect();
    let shown = blocks(readme.lines(), "```rust");
    assert_eq!(shown.len(), 2);
    for block in shown {
        assert!(block.len() <= 5, "{block:#?}");
        assert!(run.contains(&block), "{block:#?} is none of {run:#?}");
    }
}

#[test]
fn the_programs_of_the_tutorial_are_the_examples() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = here.join("../../docs/src/tutorials/embed-rust.md");
    let page = fs::read_to_string(page).unwrap();
    let shown: Vec<String> = blocks(page.lines(), "```rust")
        .into_iter()
        .map(|block| block.join("\n") + "\n")
        .collect();
    let run = ["source", "sink"].map(|name| {
        let path = here.join("examples").join(name).with_extension("rs");
        fs::read_to_string(path).unwrap()
    });
    assert_eq!(shown, run);
}

/// A program of `examples`, which `cargo test` has built.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(name);
    assert!(
        program.exists(),
        "{program:?} is missing: cargo build -p layercast --examples"
    );
    Command::new(program)
}

/// Starts a program and reads the first line of its standard output.
fn start(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let out = child.stdout.as_mut().unwrap();
    BufReader::with_capacity(1, out)
        .read_line(&mut line)
        .unwrap();
    (child, line.trim().to_owned())
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

#[real_time]
fn the_sink_saves_what_the_source_sends() {
    let path = folder("sink").join("film");
    let (mut source, url) = start(&mut example("source"));
    let mut sink = example("sink");
    let sink = sink.arg(&url).arg(&path).output().unwrap();
    assert!(sink.status.success(), "{sink:?}");
    assert!(source.wait().unwrap().success());
    let printed = String::from_utf8(sink.stdout).unwrap();
    assert!(printed.lines().count() > 150, "{printed}");
    let bytes = |line: &str| line.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
    let all: u64 = printed.lines().map(bytes).sum();
    let saved = fs::read(&path).unwrap();
    assert_eq!(saved.len() as u64, all);
    // Frames consist of their number; none of the last ones is lost when the source ends.
    assert_eq!(saved.last(), Some(&239));
    let last_group = (228..240u32).map(|n| if n % 12 == 0 { 4_000 } else { 1_000 });
    let tail = &saved[saved.len() - last_group.sum::<u32>() as usize..];
    assert_eq!(tail[0], 228);
}

#[real_time]
fn a_file_reaches_two_receivers() {
    let folder = folder("files");
    let file = folder.join("disk.img");
    let content: Vec<u8> = (0..500_000u32).map(|n| (n * 7 % 251) as u8).collect();
    fs::write(&file, &content).unwrap();
    let addresses = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let receivers: Vec<Child> = addresses
        .iter()
        .zip(["ann", "bob"])
        .map(|(address, name)| {
            let mut receive = example("files");
            receive.arg("receive").arg(folder.join(name)).arg(address);
            receive.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let sent = example("files")
        .arg("send")
        .arg(&file)
        .args(&addresses)
        .output()
        .unwrap();
    let printed = String::from_utf8(sent.stdout).unwrap();
    assert!(sent.status.success(), "{printed}");
    assert_eq!(printed.matches("Delivered").count(), 2, "{printed}");
    for (mut receiver, name) in receivers.into_iter().zip(["ann", "bob"]) {
        assert!(receiver.wait().unwrap().success());
        assert_eq!(
            fs::read(folder.join(name).join("disk.img")).unwrap(),
            content
        );
    }
}

#[real_time]
fn the_switch_gives_each_link_the_layers_that_fit() {
    let done = example("switch").output().unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{printed}");
    let frames = |name: &str| -> Vec<u32> {
        let line = printed.lines().find(|line| line.starts_with(name)).unwrap();
        let words = line.split([' ', ',']);
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let (narrow, wide) = (frames("narrow"), frames("wide"));
    // 20 groups of pictures; the first ones pass before a receiver has joined and has its level.
    assert!(narrow[0] >= 10 && wide[0] >= 10, "base layer: {printed}");
    assert!(narrow[1] > 2 * narrow[0] && narrow[2] == 0, "{printed}");
    assert!(wide[2] > 5 * wide[0], "{printed}");
}

#[test]
fn the_simulation_prints_a_table() {
    let done = example("simulate").output().unwrap();
    assert!(done.status.success());
    let printed = String::from_utf8(done.stdout).unwrap();
    let table: Vec<Vec<f64>> = printed
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|it| it.parse().unwrap()).collect())
        .collect();
    assert_eq!(table.len(), 5, "{printed}");
    assert!(
        table.iter().all(|row| row[1] > 7.0 && row[1] < 9.7),
        "{printed}"
    );
    assert!(
        table.windows(2).all(|rows| rows[0][2] < rows[1][2]),
        "{printed}"
    );
}

#[real_time]
fn the_relay_offers_a_camera() {
    let ffmpeg = Command::new("ffmpeg").arg("-version").output();
    if ffmpeg.is_err() && std::env::var("LAYERCAST_REQUIRE_TOOLS").as_deref() != Ok("1") {
        println!("skipped: no ffmpeg");
        return;
    }
    let camera = format!("127.0.0.1:{}", free_port());
    let mut encoder = Command::new("ffmpeg")
        .args(
            "-nostdin -v error -re -f lavfi -i testsrc2=size=160x120:rate=25 -c:v libx264"
                .split(' '),
        )
        .args(
            "-preset ultrafast -g 25 -bf 2 -x264-params scenecut=0:b-pyramid=none -f mpegts"
                .split(' '),
        )
        .arg(format!("udp://{camera}?pkt_size=1316"))
        .spawn()
        .unwrap();
    let (mut relay, url) = start(example("relay").args([&camera, "127.0.0.1:0"]));
    let path = folder("relay").join("got.ts");
    let mut sink = example("sink")
        .arg(&url)
        .arg(&path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(5));
    sink.kill().unwrap();
    relay.kill().unwrap();
    encoder.kill().unwrap();
    for mut child in [sink, relay, encoder] {
        child.wait().unwrap();
    }
    let probe = Command::new("ffprobe")
        .args("-v error -select_streams v -count_packets -show_entries stream=nb_read_packets -of csv=p=0".split(' '))
        .arg(&path)
        .output()
        .unwrap();
    let printed = String::from_utf8(probe.stdout).unwrap();
    let pictures: u32 = printed
        .lines()
        .find_map(|it| it.trim_matches(',').parse().ok())
        .unwrap_or(0);
    // One key frame a second; the others are of enhancement layers.
    assert!(pictures >= 20, "{printed}");
}
