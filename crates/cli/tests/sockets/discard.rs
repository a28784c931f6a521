//! Ports that discard by class in front of lines that are too narrow: the streams behind them are decoded.

use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::common::{Running, complaint, folder, have_ffmpeg, real_time, repository, run};

/// Rate of the lines: the film takes half as much again.
const LINE: &str = "2Mbit/s";
/// Seconds that a receiver is there.
const SECONDS: &str = "14s";

/// Checksums of the pictures of a video, in the order in which they are shown.
fn pictures(video: &Path) -> Vec<String> {
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(video)
        .args(["-map", "0:v", "-fps_mode", "passthrough"])
        .args(["-f", "framemd5", "-"])
        .output()
        .expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit(',').next())
        .map(|sum| sum.trim().to_owned())
        .collect()
}

/// Of a received stream: pictures, and how many of them are those of the film in their place.
fn right(film: &[String], received: &Path, first: usize) -> (usize, usize) {
    let received = pictures(received);
    let same = received.iter().zip(&film[first..]);
    (received.len(), same.filter(|(a, b)| a == b).count())
}

#[real_time]
fn of_three_policies_at_one_switch_those_that_know_pictures_keep_more_of_them() {
    let film = repository("target/demo/clip.m1v");
    if !have_ffmpeg() {
        return;
    }
    if !Path::new(&film).exists() {
        eprintln!("left out: {film} is missing: make clips");
        return;
    }
    let folder = folder("discard");
    let server = Running::start(&["serve", &film, "--flow", "film", "--delay-max", "1s"]);
    let policies = ["fifo", "exclp_epd", "whole_gops"];
    let ports =
        policies.map(|policy| format!("{policy}={LINE},queue=400ms,discard={policy},adapt=off"));
    let mut args = vec!["switch", "--upstream", &server.url];
    args.extend(ports.iter().flat_map(|port| ["--port", port]));
    let switch = Running::start(&args);
    let url = switch.url.replacen('?', "/film?", 1);
    let runs = thread::scope(|scope| {
        let join = |policy: &'static str| {
            let out = folder.join(policy).with_extension("m1v");
            let url = url.clone();
            scope.spawn(move || {
                let path = out.display().to_string();
                // A receiver does not ask for fewer layers: the queue alone decides.
                let args = ["join", &url, "--name", policy, "--on-scarce", "inform"];
                let more = ["--for", SECONDS, "--out", &path, "--json"];
                (run(&[&args[..], &more].concat()), out)
            })
        };
        let runs = policies.map(join);
        runs.map(|run| run.join().expect("a receiver ends"))
    });
    let film = pictures(Path::new(&film));
    let shares = runs.map(|(output, out)| {
        assert!(output.status.success(), "{}", complaint(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().map(serde_json::from_str::<Value>);
        let report = last.expect("a line").expect("a summary");
        let first = report["first_picture"].as_u64().expect("it began");
        let (all, right) = right(&film, &out, first as usize);
        eprintln!("{}: {right} of {all} pictures", out.display());
        // In the place of each picture that did not come there is a repeat.
        assert!(all > 250, "{all} pictures: {report}");
        right as f64 / all as f64
    });
    let [fifo, epd, whole] = shares;
    // More is lost than B pictures have, so that each policy loses; that which knows nothing loses in each GOP.
    assert!(fifo < 0.3, "{shares:?}");
    assert!(epd > fifo, "{shares:?}");
    assert!(whole > fifo + 0.25, "{shares:?}");
}

/// Packets of a stream of a file, as ffprobe counts them.
fn packets(file: &Path, stream: &str) -> u32 {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", stream, "-count_packets"])
        .args(["-show_entries", "stream=nb_read_packets", "-of", "csv=p=0"])
        .arg(file)
        .output()
        .expect("ffprobe runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .next()
        .and_then(|line| line.trim().parse().ok())
        .unwrap_or_default()
}

#[real_time]
fn a_port_that_gives_up_whole_gops_keeps_the_sound() {
    let clip = repository("target/demo/clip.m1v");
    if !have_ffmpeg() {
        return;
    }
    if !Path::new(&clip).exists() {
        eprintln!("left out: {clip} is missing: make clips");
        return;
    }
    let folder = folder("discard-sound");
    let film = folder.join("film.ts");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-i", &clip])
        .args(["-f", "lavfi", "-i", "sine=r=48000", "-t", "18"])
        .args(
            "-vf scale=480:-2 -c:v libx264 -preset veryfast -g 24 -bf 2 -b:v 1M -c:a aac -b:a 96k"
                .split(' '),
        )
        .args([
            "-x264-params",
            "scenecut=0:b-adapt=0:b-pyramid=none:mbtree=0:pbratio=1.0",
        ])
        .arg(&film)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    let path = film.display().to_string();
    let server = Running::start(&["serve", &path, "--flow", "film", "--delay-max", "2s"]);
    // The film takes 1.4 Mbit/s with its headers, more where it moves. The base layer is admitted before the line falls.
    let port = "x=1500kbit/s,queue=800ms,discard=whole_gops,adapt=off,schedule=8s:50%";
    let switch = Running::start(&["switch", "--upstream", &server.url, "--port", port]);
    let url = switch.url.replacen('?', "/film?", 1);
    let out = folder.join("out.ts");
    let to = out.display().to_string();
    let args = ["join", &url, "--name", "x", "--on-scarce", "inform"];
    let output = run(&[&args[..], &["--for", SECONDS, "--out", &to, "--json"]].concat());
    assert!(output.status.success(), "{}", complaint(&output));
    let (pictures, sound) = (packets(&out, "v:0"), packets(&out, "a:0"));
    eprintln!("{pictures} pictures, {sound} packets of sound");
    // 25 pictures and 46.9 packets of sound a second: the receiver had all sound for at least 10 s, and gave up pictures.
    assert!(sound > 46 * 10, "{sound}");
    assert!(
        pictures * 46 < sound * 25 * 9 / 10,
        "nothing was discarded: {pictures}, {sound}"
    );
}
