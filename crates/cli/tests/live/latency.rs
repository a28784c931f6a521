//! The delay of a live stream from UDP in to UDP out, and the start of streams whose key frames are far apart.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::common::{Running, have_ffmpeg, layercast, real_time, run};
use super::{Helper, encoder, port};

const PACKET: usize = 188;
/// Time for which a stream is received.
const RECEIVED: &str = "9s";
/// The first GOP and what the join needs do not count.
pub const WARM_UP: Duration = Duration::from_secs(4);

/// When pictures arrive, by their presentation time stamps.
pub type Arrivals = HashMap<u64, Instant>;

/// The presentation time stamps of the pictures that begin in a datagram of a transport stream.
fn pictures(datagram: &[u8]) -> Vec<u64> {
    let begun = datagram.chunks_exact(PACKET).filter_map(|packet| {
        let starts = packet[0] == 0x47 && packet[1] & 0x40 != 0 && packet[3] & 0x10 != 0;
        let skipped = match packet[3] & 0x20 {
            0 => 4,
            _ => 5 + usize::from(packet[4]),
        };
        let pes = packet.get(skipped..).filter(|_| starts)?;
        let stamped =
            matches!(pes, [0, 0, 1, 0xE0..=0xEF, _, _, _, flags, ..] if flags & 0x80 != 0);
        let pts = pes.get(9..14).filter(|_| stamped)?;
        let bits = |at: usize| u64::from(pts[at]);
        Some(
            (bits(0) >> 1 & 7) << 30
                | bits(1) << 22
                | (bits(2) >> 1) << 15
                | bits(3) << 7
                | bits(4) >> 1,
        )
    });
    begun.collect()
}

/// Notes when pictures arrive at a port, and passes the datagrams on; until nothing comes for two seconds.
pub fn tap(to: Option<u16>) -> (u16, mpsc::Receiver<Arrivals>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = socket.local_addr().expect("its address").port();
    let (done, arrivals) = mpsc::channel();
    thread::spawn(move || {
        let mut seen = Arrivals::new();
        let mut buffer = [0; 65_536];
        let mut quiet = Duration::from_secs(40);
        loop {
            socket.set_read_timeout(Some(quiet)).expect("a timeout");
            let Ok(len) = socket.recv(&mut buffer) else {
                break;
            };
            quiet = Duration::from_secs(2);
            let now = Instant::now();
            if let Some(to) = to {
                let _ = socket.send_to(&buffer[..len], ("127.0.0.1", to));
            }
            for pts in pictures(&buffer[..len]) {
                seen.entry(pts).or_insert(now);
            }
        }
        let _ = done.send(seen);
    });
    (port, arrivals)
}

/// What came of a chain of server, switch and receiver.
struct Measured {
    /// Median delay in milliseconds.
    median: f64,
    /// `end_to_end_ms` of the receiver.
    told: Value,
}

/// The buffer of SRT in the test of its front end, in milliseconds.
const SRT_BUFFER: u32 = 20;

/// Passes the datagrams of a UDP port on by SRT.
fn relay(from: u16, to: u16) -> Helper {
    let to = format!("srt://127.0.0.1:{to}?latency={SRT_BUFFER}000&pkt_size=1316");
    // SRT calls again for this time.
    let to = format!("{to}&connect_timeout=20000");
    let child = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-f", "data", "-i"])
        .arg(format!("udp://127.0.0.1:{from}"))
        .args("-map 0 -c copy -flush_packets 1 -f data".split_whitespace())
        .arg(to)
        .spawn();
    Helper(child.expect("ffmpeg starts"))
}

/// Sends a stream with key frames `gop` pictures apart through a server with the options `serve`, a switch and a
/// receiver with the options `join`.
fn measure(gop: u32, serve: &[&str], join: &[&str]) -> Measured {
    measure_over("udp", gop, serve, join)
}

/// The same; the server gets the stream by UDP, or by SRT.
fn measure_over(scheme: &str, gop: u32, serve: &[&str], join: &[&str]) -> Measured {
    let input = port();
    let (tapped, from) = match scheme {
        "srt" => (
            port(),
            format!("srt://127.0.0.1:{input}?mode=listener&latency={SRT_BUFFER}000"),
        ),
        _ => (input, format!("udp://127.0.0.1:{input}")),
    };
    let (source, arrived) = tap(Some(tapped));
    let (sink, left) = tap(None);
    let x264 = format!(
        "-c:v libx264 -preset ultrafast -g {gop} -bf 2 -x264-params scenecut=0:b-pyramid=none -c:a mp2"
    );
    let to = format!("udp://127.0.0.1:{source}?pkt_size=1316");
    let encoder = encoder(&x264, &["-f", "mpegts", &to]);
    let _relay = (scheme == "srt").then(|| relay(tapped, input));
    let server = Running::start(&[&["serve", &from, "--measure", "1s"], serve].concat());
    let switch = Running::start(&["switch", "--upstream", &server.url]);
    let flow = switch.url.replacen('?', "/live?", 1);
    let out = format!("udp://127.0.0.1:{sink}");
    let output = layercast()
        .args([
            "join", &flow, "--name", "ann", "--json", "--for", RECEIVED, "--out", &out,
        ])
        .args(join)
        .stderr(Stdio::null())
        .output()
        .expect("the binary runs");
    drop(encoder);
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().expect("a summary");
    let summary: Value = serde_json::from_str(last).expect("JSON");
    let [arrived, left] = [arrived, left].map(|it| it.recv().expect("what a tap saw"));
    let begun = *left.values().min().expect("pictures came through");
    let mut delays: Vec<f64> = left
        .iter()
        .filter(|(_, at)| at.duration_since(begun) > WARM_UP)
        .filter_map(|(pts, at)| Some(at.duration_since(*arrived.get(pts)?).as_secs_f64() * 1e3))
        .collect();
    delays.sort_by(f64::total_cmp);
    assert!(delays.len() > 40, "{} pictures", delays.len());
    Measured {
        median: delays[delays.len() / 2],
        told: summary["receiver"]["end_to_end_ms"].clone(),
    }
}

#[real_time]
fn the_delay_is_small_and_does_not_depend_on_the_gop() {
    if !have_ffmpeg() {
        return;
    }
    let [short, long] = thread::scope(|scope| {
        [12, 100]
            .map(|gop| scope.spawn(move || measure(gop, &[], &[])))
            .map(|chain| chain.join().expect("a measurement"))
    });
    for measured in [&short, &long] {
        assert!(measured.median < 300.0, "{} ms", measured.median);
        let part = |name: &str| measured.told[name].as_f64().expect("a part");
        let sum: f64 = ["ingest", "queue", "path", "playout"]
            .map(part)
            .iter()
            .sum();
        assert!((sum - part("mean")).abs() < 0.01, "{}", measured.told);
        // A picture is complete when the next one begins: 40 ms later.
        assert!(part("ingest") > 30.0, "{}", measured.told);
        // From the last byte to the hand-over is nearly from the first to the first.
        let apart = (measured.median - part("p50")).abs();
        assert!(apart < 60.0, "{} and {}", measured.median, measured.told);
    }
    let apart = (short.median - long.median).abs();
    assert!(apart < 60.0, "{} and {} ms", short.median, long.median);
}

#[real_time]
fn the_low_latency_line_holds_a_tenth_of_a_second() {
    if !have_ffmpeg() {
        return;
    }
    let measured = measure(50, &["--lead", "0"], &["--playout", "20ms"]);
    assert!(measured.median < 150.0, "{} ms", measured.median);
}

#[real_time]
fn what_comes_by_srt_takes_its_buffer_and_hardly_more() {
    if !have_ffmpeg() {
        return;
    }
    let [udp, srt] = thread::scope(|scope| {
        ["udp", "srt"]
            .map(|it| scope.spawn(move || measure_over(it, 25, &[], &["--playout", "40ms"])))
            .map(|chain| chain.join().expect("a measurement"))
    });
    let more = srt.median - udp.median;
    let most = f64::from(SRT_BUFFER) + 25.0;
    assert!(more < most, "{} and {} ms", srt.median, udp.median);
}

/// Waits for a text of a command that prints a line each second.
#[track_caller]
fn said(lines: &mut impl Iterator<Item = Value>, is_meant: impl Fn(&str) -> bool) {
    let until = Instant::now() + Duration::from_secs(40);
    let mut texts = Vec::new();
    while let Some(line) = lines.next().filter(|_| Instant::now() < until) {
        let text = line["text"].as_str().unwrap_or_default();
        if is_meant(text) {
            return;
        }
        texts.extend(Some(text.to_owned()).filter(|it| !it.is_empty()));
    }
    panic!("it said only {texts:#?}");
}

#[real_time]
fn a_stream_with_rare_key_frames_is_offered_soon_and_with_a_warning() {
    if !have_ffmpeg() {
        return;
    }
    let input = port();
    let to = format!("udp://127.0.0.1:{input}?pkt_size=1316");
    let x264 = "-c:v libx264 -preset ultrafast -g 200 -bf 2 -x264-params scenecut=0:b-pyramid=none";
    let from = format!("udp://127.0.0.1:{input}");
    // The server begins in the middle of a GOP.
    let _encoder = encoder(x264, &["-f", "mpegts", &to]);
    thread::sleep(Duration::from_millis(1_500));
    let mut child = layercast()
        .args(["serve", &from, "--listen", "127.0.0.1:0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let begun = Instant::now();
    let _server = Helper(child);
    let mut lines =
        lines.map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON"));
    let (mut warned, mut url) = (false, String::new());
    for line in lines.by_ref() {
        let text = line["text"].as_str().unwrap_or_default();
        warned |= text.contains("warning: key frames are") && text.contains("-g 25");
        if let Some(found) = line["url"].as_str() {
            url = found.to_owned();
            break;
        }
    }
    let took = begun.elapsed();
    // ffmpeg needs a moment to start.
    assert!(warned && took < Duration::from_secs(8), "{warned} {took:?}");
    let flow = || {
        let stats = run(&["stats", &url, "--json"]);
        let stats: Value = serde_json::from_slice(&stats.stdout).expect("JSON");
        stats["flows"][0].clone()
    };
    // Frame rate and layers are those of the pictures before the first key frame.
    let offered = flow();
    let level = |flow: &Value, level: usize| flow["level_bps"][level].as_f64().expect("a rate");
    let fps = |flow: &Value| flow["fps"].as_f64().expect("a rate");
    assert!((24.0..26.0).contains(&fps(&offered)), "{offered}");
    assert!(level(&offered, 0) < level(&offered, 1), "{offered}");
    assert!(level(&offered, 1) < level(&offered, 2), "{offered}");
    let receiver = layercast()
        .args(["join", &url, "--name", "ann", "--for", "12s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    // The length is known once two key frames came.
    said(&mut lines, |text| text.contains("8.0 s apart"));
    // Then the reservation follows.
    said(&mut lines, |text| {
        text.starts_with("renegotiated: reserved are now")
    });
    let measured = flow();
    assert!((24.9..25.1).contains(&fps(&measured)), "{measured}");
    let output = receiver.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let summary: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let played: u64 = ["BL", "E1", "E2"]
        .iter()
        .filter_map(|layer| summary["receiver"]["frames"][layer].as_u64())
        .sum();
    assert!(played > 100, "{summary}");
}
