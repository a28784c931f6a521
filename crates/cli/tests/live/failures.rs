//! Inputs that lose packets, hang or are killed: what is said of that, and what receivers write.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{
    Running, complaint, decode, ends_within, folder, have_ffmpeg, json, layercast, real_time, run,
    signal,
};
use super::{Helper, SOON, port};

const H264: &str =
    "-c:v libx264 -preset ultrafast -g 25 -bf 2 -b:v 600k -x264-params scenecut=0:b-pyramid=none";

pub fn clip(folder: &Path, name: &str, seconds: u32) -> String {
    let to = folder.join(name);
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i"])
        .arg(format!("testsrc2=size=320x240:rate=25:duration={seconds}"))
        .args(H264.split_whitespace())
        .arg(&to)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    to.display().to_string()
}

/// Sends a transport stream of `seconds` at an even rate, without the datagrams for which `lost` is true.
fn send(stream: Vec<u8>, seconds: u32, port: u16, lost: fn(usize) -> bool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let datagrams: Vec<&[u8]> = stream.chunks(7 * 188).collect();
    let step = Duration::from_secs(u64::from(seconds)) / datagrams.len() as u32;
    let begin = Instant::now();
    for (at, datagram) in datagrams.iter().enumerate() {
        thread::sleep((begin + step * at as u32).saturating_duration_since(Instant::now()));
        if !lost(at) {
            // The server may not listen yet.
            let _ = socket.send_to(datagram, ("127.0.0.1", port));
        }
    }
}

#[real_time]
fn packets_that_are_lost_on_the_way_in_break_no_picture_and_are_told_everywhere() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-input-loss");
    let stream = std::fs::read(clip(&folder, "clip.ts", 14)).expect("a clip");
    let input = port();
    let sender = thread::spawn(move || send(stream, 14, input, |at| at > 300 && at % 60 == 0));
    let from = format!("udp://127.0.0.1:{input}");
    let mut server = Running::start(&["serve", &from, "--flow", "cam", "--measure", "1s"]);
    let got = folder.join("got.ts");
    let out = got.display().to_string();
    let url = server.url.clone();
    let joined = thread::spawn(move || run(&["join", &url, "--for", "8s", "--out", &out]));
    let told = server.wait_for_event("on the way in");
    for part in [
        "packets of the input were lost",
        "picture",
        "receive buffer",
        "srt://",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let output = joined.join().expect("it ends");
    let said = complaint(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    for part in ["damaged on the way into the source", "cannot be shown"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let stats = json(&run(&["stats", &server.url, "--json"]));
    assert!(
        stats["flows"][0]["input_damaged"].as_u64() > Some(0),
        "{stats}"
    );
    let (broken, pictures) = decode(&got);
    assert_eq!(broken, "", "no picture is broken");
    assert!(pictures > 25, "{pictures}");
    sender.join().expect("it ends");
}

/// Something that is called ffmpeg and never ends.
fn hanging(folder: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let program = folder.join("ffmpeg");
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("it is written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", folder.display())
}

#[real_time]
fn an_ffmpeg_that_gives_nothing_is_not_waited_for_without_an_end() {
    if !have_ffmpeg() {
        return;
    }
    let cases = [
        (
            "hangs",
            "while :; do sleep 1; done",
            "did not continue for 30 s",
        ),
        ("stopped", "kill -STOP $$", "was stopped by a signal"),
    ];
    let begun = Instant::now();
    let probes = cases.map(|(name, text, says)| {
        let folder = folder(&format!("live-{name}"));
        let file = clip(&folder, "clip.mp4", 1);
        let path = hanging(&folder, text);
        let probe = layercast()
            .args(["probe", &file])
            .env("PATH", path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        (probe.expect("the binary runs"), says)
    });
    for (mut probe, says) in probes {
        assert_eq!(ends_within(&mut probe, SOON), Some(1), "{says}");
        let said = complaint(&probe.wait_with_output().expect("its output"));
        assert!(said.contains(says) && said.contains("killed"), "{said}");
    }
    assert!(
        begun.elapsed() > Duration::from_secs(25),
        "{:?}",
        begun.elapsed()
    );
}

/// The children of a process that run ffmpeg.
fn programs(parent: u32) -> Vec<u32> {
    let children = Command::new("pgrep")
        .args(["-P", &parent.to_string(), "ffmpeg"])
        .output();
    let children = children.expect("pgrep runs").stdout;
    let children = String::from_utf8_lossy(&children);
    children
        .lines()
        .filter_map(|it| it.trim().parse().ok())
        .collect()
}

#[real_time]
fn a_flow_whose_ffmpeg_is_killed_is_cut_short_at_the_server_and_at_receivers() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-killed");
    let file = std::fs::File::open(clip(&folder, "clip.mkv", 30)).expect("a clip");
    let args = ["serve", "-", "--flow", "cam", "--measure", "1s"];
    let mut server = Running::start_with(&args, file.into());
    let got = folder.join("got.ts").display().to_string();
    let mut receiver = layercast()
        .args(["join", &server.url, "--out", &got])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    thread::sleep(Duration::from_secs(3));
    let programs = programs(server.child.id());
    assert_eq!(programs.len(), 1, "it comes through ffmpeg");
    let killed = Command::new("kill")
        .args(["-KILL", &programs[0].to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(ends_within(&mut receiver, SOON), Some(3));
    let said = complaint(&receiver.wait_with_output().expect("its output"));
    assert!(said.contains("was cut short"), "{said}");
    assert_eq!(ends_within(&mut server.child, SOON), Some(1));
    let mut said = String::new();
    let mut stderr = server.child.stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
    assert!(said.contains("SIGKILL") && said.contains("dmesg"), "{said}");
}

#[real_time]
fn of_two_receivers_with_one_identity_the_first_one_ends_and_says_why() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-one-identity");
    let file = clip(&folder, "clip.ts", 20);
    let server = Running::start(&["serve", &file, "--loop"]);
    let identity = folder.join("ann.pem").display().to_string();
    let join = || {
        let child = layercast()
            .args(["join", &server.url, "--identity", &identity, "--for", "30s"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        child.expect("the binary runs")
    };
    let mut first = join();
    thread::sleep(Duration::from_secs(3));
    let mut second = Helper(join());
    assert_eq!(ends_within(&mut first, SOON), Some(1));
    let said = complaint(&first.wait_with_output().expect("its output"));
    for part in ["another receiver with the identity", "of its own"] {
        assert!(said.contains(part), "{said}");
    }
    thread::sleep(Duration::from_secs(3));
    assert!(
        second.0.try_wait().expect("a child").is_none(),
        "the second one continues"
    );
    signal(&second.0, "-INT");
}

#[test]
fn a_page_server_that_is_stopped_leaves_its_flows() {
    if !have_ffmpeg() {
        return;
    }
    let film = clip(&folder("web-leaves"), "film.ts", 4);
    let server = Running::start(&["serve", &film, "--loop"]);
    let members = || {
        let stats = json(&run(&["stats", &server.url, "--json"]));
        let members = stats["flows"][0]["members"].as_array();
        members.cloned().unwrap_or_default()
    };
    let until = |within: Duration, count: usize| {
        let begun = Instant::now();
        loop {
            let found = members();
            if found.len() == count {
                return;
            }
            assert!(begun.elapsed() < within, "{count} expected: {found:?}");
        }
    };
    for name in ["-TERM", "-INT"] {
        let page = layercast()
            .args(["web", &server.url, "--listen", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut page = Helper(page.expect("the binary runs"));
        until(SOON, 1);
        signal(&page.0, name);
        ends_within(&mut page.0, SOON);
        // One that falls silent is listed for a minute.
        until(Duration::from_secs(20), 0);
    }
}
