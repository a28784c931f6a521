//! Receivers with clocks of their own show the same picture at the same time. Skips with a printed reason where time namespaces
//! cannot be had.

use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::common::{Running, have_ffmpeg, layercast, real_time};
use super::latency::{WARM_UP, tap};
use super::{Helper, encoder, port};

/// A command in a time namespace whose monotonic clock is ahead by `seconds`.
fn ahead(seconds: u64, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--time", "--monotonic"])
        .args([&seconds.to_string(), program]);
    command
}

fn have_time_namespaces() -> bool {
    let made = ahead(60, "true").stderr(Stdio::null()).status();
    let have = made.is_ok_and(|status| status.success());
    if !have {
        println!("skipped: unshare --user --time does not work here");
    }
    have
}

/// The binary, in such a namespace.
fn layercast_ahead(seconds: u64) -> Command {
    let binary = layercast().get_program().to_owned();
    ahead(seconds, binary.to_str().expect("UTF-8"))
}

/// A path to a node with this delay and up to 5 ms more each way, and its address.
fn path(to: &str, delay: &str) -> (Helper, String) {
    let listen = format!("127.0.0.1:{}", port());
    let mut command = layercast();
    command
        .args(["emulate", "--listen", &listen, "--to", to])
        .args(["--delay", delay, "--jitter", "5ms"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (Helper(command.spawn().expect("the binary runs")), listen)
}

#[real_time]
fn receivers_behind_unlike_paths_with_unlike_clocks_show_a_picture_at_the_same_time() {
    if !have_ffmpeg() || !have_time_namespaces() {
        return;
    }
    let input = port();
    let x264 = "-c:v libx264 -preset ultrafast -g 25 -bf 0 -b:v 1M -c:a mp2";
    let to = format!("udp://127.0.0.1:{input}?pkt_size=1316");
    let encoder = encoder(x264, &["-f", "mpegts", &to]);
    let from = format!("udp://127.0.0.1:{input}");
    let server = Running::start(&[
        "serve",
        &from,
        "--measure",
        "1s",
        "--insecure",
        "--name",
        "live",
    ]);
    let flow = server.url.rsplit('/').next().expect("a flow").to_owned();
    // One of them behind a switch, whose clock is a third one.
    let (_far, address) = path(&server.address, "40ms");
    let upstream = format!("layercast://{address}");
    let switch = ["switch", "--upstream", &upstream, "--insecure"];
    let switch = Running::start_by(layercast_ahead(1_000), &switch);
    let (_near, near) = path(&server.address, "3ms");
    let (_last, last) = path(&switch.address, "10ms");
    let receivers = [(near, 3_600), (last, 50)].map(|(address, seconds)| {
        let (sink, shown) = tap(None);
        let out = format!("udp://127.0.0.1:{sink}");
        let url = format!("layercast://{address}/{flow}");
        let mut join = layercast_ahead(seconds);
        join.args(["join", &url, "--json", "--for", "16s", "--out", &out])
            .args(["--sync", "400ms", "--name", &format!("r{seconds}")])
            .stderr(Stdio::null());
        let ran = thread::spawn(move || join.output().expect("the binary runs"));
        (ran, shown, seconds)
    });
    let [first, second] = receivers.map(|(ran, shown, seconds)| {
        let output = ran.join().expect("a run");
        let text = String::from_utf8_lossy(&output.stdout);
        let summary: Value = text
            .lines()
            .last()
            .and_then(|line| serde_json::from_str(line).ok())
            .unwrap_or_else(|| panic!("no summary in {text:?}"));
        assert!(text.contains("plays by the clock of the source"), "{text}");
        let clock = &summary["sink"]["source_clock"];
        let said = clock["ahead_us"].as_i64().expect("a clock") as u32;
        let truth = (seconds as u32).wrapping_mul(1_000_000).wrapping_neg();
        let off = said.wrapping_sub(truth) as i32;
        assert!(off.abs() < 3_000, "off by {off} us: {clock}");
        let late_us = summary["timers"]["worst_us"].as_f64().expect("timers");
        let shown = shown.recv().expect("what a tap saw");
        (shown, clock["hops"].clone(), late_us / 1e3)
    });
    drop(encoder);
    assert_eq!((first.1, second.1), (1.into(), 2.into()));
    // A busy host hands pictures over late, whatever the clocks.
    let late = f64::max(first.2, second.2);
    let begun = first.0.values().chain(second.0.values()).min();
    let begun = *begun.expect("pictures came through");
    let mut apart: Vec<f64> = first
        .0
        .iter()
        .filter(|(_, at)| at.duration_since(begun) > WARM_UP)
        .filter_map(|(pts, at)| {
            let other = second.0.get(pts)?;
            let apart = at.max(other).duration_since(*at.min(other));
            Some(apart.as_secs_f64() * 1e3)
        })
        .collect();
    apart.sort_by(f64::total_cmp);
    assert!(apart.len() > 150, "{} pictures", apart.len());
    let (p50, p95) = (apart[apart.len() / 2], apart[apart.len() * 95 / 100]);
    println!("p50 {p50:.2} ms, p95 {p95:.2} ms apart; timers up to {late:.2} ms late");
    assert!(
        p50 <= 5.0 && p95 <= 5.0 + late,
        "{p50} and {p95} ms apart, {late} ms late"
    );
}
