//! A camera with a clock in its picture, a server, a switch, and Chromium with the page of `layercast web`: the time from glass to glass.
//!
//! `make test-browser` runs it; `make test` has no browser in its measurements.

#[path = "all/common/mod.rs"]
mod common;

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{Running, have_ffmpeg};
use layercast_protect::JoinUrl;
use layercast_web::{Flow, Web, WebConfig};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const WIDTH: usize = 640;
const HEIGHT: usize = 360;
/// Rows that hold the clock: light and dark blocks, one for each of the low 32 bits of the time in milliseconds.
const CLOCK_ROWS: usize = 24;
const BITS: usize = 32;
/// Between two pictures.
const PERIOD: Duration = Duration::from_millis(40);
/// How long is measured, and what of its start is left out: the playout delay settles.
const MEASURED: Duration = Duration::from_secs(20);
const SETTLED: Duration = Duration::from_secs(6);

/// A process that ends with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn now_ms() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time after 1970").as_millis() as u32
}

/// Writes pictures with the time at which each is written, at 25 pictures/s.
fn film(mut to: ChildStdin) {
    let mut next = Instant::now();
    let mut picture = vec![128_u8; WIDTH * HEIGHT * 3 / 2];
    for number in 0_usize.. {
        let time = now_ms();
        for (at, luma) in picture[..WIDTH * HEIGHT].iter_mut().enumerate() {
            let (x, y) = (at % WIDTH, at / WIDTH);
            *luma = match y < CLOCK_ROWS {
                true if time >> (BITS - 1 - x * BITS / WIDTH) & 1 == 1 => 235,
                true => 16,
                // Something that moves.
                false => ((x + 3 * number) ^ (y + number)) as u8 / 2 + 60,
            };
        }
        if to.write_all(&picture).is_err() {
            return;
        }
        next += PERIOD;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// An encoder without delay, with key pictures every 240 ms; its transport stream is in the pipe. With B pictures the flow has three layers.
fn camera(b_pictures: &str) -> (Helper, std::process::ChildStdout) {
    let mut encoder = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p"])
        .args(["-s", &format!("{WIDTH}x{HEIGHT}"), "-r", "25", "-i", "-"])
        .args("-c:v libx264 -preset ultrafast -tune zerolatency -g 6 -b_strategy 0".split(' '))
        .args([
            "-b:v", "2M", "-maxrate", "2M", "-bufsize", "500k", "-bf", b_pictures,
        ])
        .args("-f mpegts -flush_packets 1 -muxdelay 0 -".split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ffmpeg starts");
    let (input, output) = (encoder.stdin.take(), encoder.stdout.take());
    let input = input.expect("its input");
    thread::spawn(move || film(input));
    (Helper(encoder), output.expect("its output"))
}

/// Chromium with a page, which gets media over `transport`.
fn chromium(url: &str, transport: &str, profile: &std::path::Path) -> Helper {
    let started = Command::new("chromium")
        .args(
            "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage"
                .split(' '),
        )
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("{url}&report&transport={transport}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Helper(started.expect("chromium starts (make test-browser installs it)"))
}

#[test]
#[ignore = "needs Chromium and a machine that does nothing else: make test-browser"]
fn from_glass_to_glass_over_webtransport() {
    from_glass_to_glass("webtransport", 250.0);
}

#[test]
#[ignore = "needs Chromium and a machine that does nothing else: make test-browser"]
fn from_glass_to_glass_over_a_websocket() {
    from_glass_to_glass("websocket", 250.0);
}

#[test]
#[ignore = "needs Chromium and a machine that does nothing else: make test-browser"]
fn from_glass_to_glass_in_fragmented_mp4() {
    from_glass_to_glass("mse", 700.0);
}

/// What the page reports for `measured` after its first picture. Its media come over one switch, to which `port` adds a limit.
fn watched(
    b_pictures: &str,
    port: Option<&str>,
    transport: &str,
    measured: Duration,
) -> Vec<(Instant, Value)> {
    let (_camera, stream) = camera(b_pictures);
    let server = Running::start_with(
        &["serve", "-", "--flow", "cam", "--measure", "2s"],
        stream.into(),
    );
    let limits = port.into_iter().flat_map(|port| ["--port", port]);
    let args: Vec<&str> = ["switch", "--upstream", &server.url]
        .into_iter()
        .chain(limits)
        .collect();
    let switch = Running::start(&args);
    let mut url: JoinUrl = switch.url.parse().expect("a URL");
    url.flow = Some("cam".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (to, mut reports) = mpsc::channel(1_024);
        let flow = Flow {
            name: "cam".to_owned(),
            url: url.to_string(),
        };
        let config = WebConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            names: Vec::new(),
            token: None,
            flows: vec![flow],
            identity: None,
            member: "web".to_owned(),
            viewers: 4,
            reports: Some(to),
        };
        let web = Web::bind(config).await.expect("a web server");
        let profile = tempfile::tempdir().expect("a folder");
        let _chromium = chromium(web.url(), transport, profile.path());
        let serving = web.serve(CancellationToken::new());
        let mut heard: Vec<(Instant, Value)> = Vec::new();
        let listening = async {
            let mut until = None;
            while until.is_none_or(|until| Instant::now() < until) {
                let report = reports.recv().await.expect("reports");
                if report["type"] == "stamp" {
                    until = until.or(Some(Instant::now() + measured));
                }
                heard.push((Instant::now(), report));
            }
        };
        tokio::select! {
            () = serving => panic!("the web server ended"),
            within = tokio::time::timeout(Duration::from_secs(90), listening) => within.expect("pictures within 90 s"),
        }
        heard
    })
}

/// The last figures of the player.
fn figures(reports: &[(Instant, Value)]) -> &Value {
    let player = reports.iter().rev().find(|(_, it)| it["type"] == "player");
    &player.expect("figures of the player").1
}

/// Measures over one switch: 95 % of the pictures within `bound` ms.
fn from_glass_to_glass(transport: &str, bound: f64) {
    if !have_ffmpeg() {
        return;
    }
    let reports = watched("0", None, transport, MEASURED);
    let stamps = reports.iter().filter(|(_, it)| it["type"] == "stamp");
    let stamps: Vec<(Instant, f64)> = stamps.map(|(at, it)| (*at, delay(it))).collect();
    let first = stamps.first().expect("pictures").0;
    let settled = stamps.iter().filter(|(at, _)| *at > first + SETTLED);
    let mut delays: Vec<f64> = settled.map(|(_, delay)| *delay).collect();
    delays.sort_by(f64::total_cmp);
    let share = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let player = figures(&reports);
    println!(
        "glass to glass, {}, one switch, {} pictures: median {:.0} ms, 95 % {:.0} ms, largest {:.0} ms; first picture \
         after {} ms; {} stalls",
        player["transport"],
        delays.len(),
        share(0.5),
        share(0.95),
        share(1.0),
        player["firstMs"],
        player["stalls"]
    );
    assert!(share(0.95) <= bound, "95 % within {:.0} ms", share(0.95));
    assert_eq!(
        (&player["stalls"], &player["errors"]),
        (&0.into(), &0.into()),
        "{player}"
    );
    assert!(player["firstMs"].as_f64() <= Some(500.0), "{player}");
}

#[test]
#[ignore = "needs Chromium and a machine that does nothing else: make test-browser"]
fn a_link_that_falls_to_60_percent_takes_layers_and_no_picture_stands_still() {
    if !have_ffmpeg() {
        return;
    }
    for transport in ["webtransport", "websocket", "mse"] {
        // The flow needs about 2 Mbit/s; times count from the start of the switch.
        let port = "web-0=3Mbit/s,queue=500ms,schedule=20s:60%";
        let reports = watched("2", Some(port), transport, Duration::from_secs(32));
        let rates = reports.iter().filter(|(_, it)| it["type"] == "player");
        let rates: Vec<u64> = rates.filter_map(|(_, it)| it["rate"].as_u64()).collect();
        let player = figures(&reports);
        println!(
            "{}: pictures/s {rates:?}; {} stalls, {} skipped",
            player["transport"], player["stalls"], player["skipped"]
        );
        let middle = |rates: &[u64]| {
            let mut sorted = rates.to_vec();
            sorted.sort_unstable();
            sorted[sorted.len() / 2]
        };
        let (before, after) = (middle(&rates[2..9]), middle(&rates[rates.len() - 7..]));
        assert!(before >= 23 && (3..20).contains(&after), "{rates:?}");
        assert_eq!(
            (&player["stalls"], &player["errors"]),
            (&0.into(), &0.into()),
            "{player}"
        );
    }
}

/// The age of a picture when it was drawn, in milliseconds.
fn delay(stamp: &Value) -> f64 {
    let drawn = stamp["at"].as_f64().expect("a time");
    let code = stamp["code"].as_u64().expect("a code") as u32;
    let drawn_low = (drawn as u64 & u64::from(u32::MAX)) as u32;
    f64::from(drawn_low.wrapping_sub(code) as i32) + drawn.fract()
}
