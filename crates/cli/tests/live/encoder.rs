//! The encoder of a live flow that follows what the path carries: the script of docs/src/how-to/unknown-path.md.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::common::{
    Running, ends_within, folder, have_ffmpeg, layercast, real_time, repository, signal,
};
use super::{Helper, SOON, port, receiver};

/// The script of the page, kept in `folder`.
fn script(folder: &Path) -> String {
    let page = std::fs::read_to_string(repository("docs/src/how-to/unknown-path.md"));
    let page = page.expect("the page is there");
    let mut blocks = page.split("```");
    let block = blocks.find_map(|block| block.strip_prefix("sh\n#!/bin/sh\n"));
    let file = folder.join("encode.sh");
    std::fs::write(&file, block.expect("the page has the script")).expect("it is written");
    file.display().to_string()
}

fn read(path: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| line.parse().expect("whole bit/s"))
        .collect()
}

fn lives(process: &str) -> bool {
    let asked = Command::new("kill")
        .args(["-0", process])
        .stderr(Stdio::null())
        .status();
    asked.expect("kill runs").success()
}

/// Waits until `what` gives something.
fn wait_for<T>(what: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(Instant::now() < until, "nothing within {SOON:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[real_time]
fn an_encoder_follows_what_the_path_carries_and_ends_with_the_server() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-encoder");
    let script = script(&folder);
    let [told, process] = ["told", "process"].map(|name| folder.join(name));
    let input = port();
    let from = format!("udp://127.0.0.1:{input}");
    let show = |path: &Path| path.display().to_string();
    let command = format!(
        "echo $$ > '{}'; tee '{}' | sh '{script}' 127.0.0.1:{input}",
        show(&process),
        show(&told)
    );
    let rates = "600kbit/s,400kbit/s,400kbit/s";
    let mut args = vec!["serve", &from, "--flow", "cam", "--rates", rates];
    args.extend(["--rate", "auto", "--insecure", "--encoder-cmd", &command]);
    let mut server = Running::start(&args);
    // Cells of 53 octets have 48 of the stream.
    let full = 1_400_000 * 48 / 53;
    let first = wait_for(|| read(&told).first().copied());
    assert!(first.abs_diff(full) < full / 50, "{first} of {full}");
    let path = layercast()
        .args([
            "emulate",
            "--listen",
            "127.0.0.1:0",
            "--to",
            &server.address,
        ])
        .args([
            "--rate",
            "2Mbit/s",
            "--schedule",
            "8s:40%",
            "--delay",
            "10ms",
        ])
        .args(["--queue", "400ms", "--json"])
        .stdout(Stdio::piped())
        .spawn();
    let mut path = Helper(path.expect("the binary runs"));
    let called = address_of(&mut path);
    let url = server.url.replacen(&server.address, &called, 1);
    let out = folder.join("got.ts").display().to_string();
    let _receiver = receiver(
        &url,
        "ann",
        "2",
        &out,
        &["--playout", "800ms", "--for", "60s"],
    );
    // The path carries 800 kbit/s, with the headers of IP and UDP.
    let lower = wait_for(|| {
        read(&told)
            .into_iter()
            .find(|&rate| rate < 800_000 * 48 / 53)
    });
    assert!(lower > 200_000, "{lower}");
    let target = server.wait_for_report("target", |line| line["target_bps"] == lower);
    assert_eq!(target["flow"], "cam");
    // The flow is declared at that share, so that its layers find room there.
    server.wait_for_event("renegotiated: reserved are now BL");
    let shell = std::fs::read_to_string(&process).expect("it is written");
    let shell = shell.trim().to_owned();
    assert!(lives(&shell));
    signal(&server.child, "-INT");
    assert_eq!(ends_within(&mut server.child, SOON), Some(130));
    assert!(!lives(&shell), "the encoder ends with the server");
}

#[real_time]
fn the_end_of_an_encoder_is_told_and_the_server_goes_on() {
    if !have_ffmpeg() {
        return;
    }
    let input = port();
    let from = format!("udp://127.0.0.1:{input}");
    let command = format!(
        "read rate; ffmpeg -v error -nostdin -re -f lavfi -i testsrc2=size=160x120:rate=25 -t 6 \
         -c:v mpeg2video -b:v 300k -g 10 -bf 2 -f mpegts 'udp://127.0.0.1:{input}?pkt_size=1316'; exit 7"
    );
    let rates = ["--rates", "200kbit/s,100kbit/s,100kbit/s"];
    let mut server =
        Running::start(&[&["serve", &from, "--encoder-cmd", &command], &rates[..]].concat());
    let said = server.wait_for_event("the encoder (--encoder-cmd");
    assert!(said.contains("ended: exit status: 7"), "{said}");
    server.wait_for_event("no media arrive");
    signal(&server.child, "-INT");
    assert_eq!(ends_within(&mut server.child, SOON), Some(130));
}

/// Where an emulated path listens.
fn address_of(path: &mut Helper) -> String {
    use std::io::{BufRead, BufReader};
    let mut lines = BufReader::new(path.0.stdout.take().expect("a pipe")).lines();
    let ready = lines.next().expect("a line").expect("a line");
    let ready: serde_json::Value = serde_json::from_str(&ready).expect("JSON");
    // What it says later is read, so that it does not wait for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    ready["address"].as_str().expect("an address").to_owned()
}
