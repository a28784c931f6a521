//! Chromium with the page: pictures are decoded and shown, the dashboard tells the reason, a wrong token is refused in words.

use std::process::{Child, Command, Stdio};

use flaky_test::flaky_test as real_time;
use serde_json::Value;
use tempfile::TempDir;

use crate::media;
use crate::site::{Site, TOKEN, av1, soon};

/// Chromium without a window, with a profile of its own.
struct Chromium {
    child: Child,
    _profile: TempDir,
}

impl Chromium {
    /// Opens a page; `None` if Chromium is not there, which is printed.
    fn open(url: &str) -> Option<Chromium> {
        let profile = tempfile::tempdir().expect("a directory");
        let started = Command::new("chromium")
            .args(
                "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage"
                    .split(' '),
            )
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("{url}&report"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => Some(Chromium {
                child,
                _profile: profile,
            }),
            Err(error) => {
                eprintln!("skipped: chromium: {error} (make test-browser installs it)");
                None
            }
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first report that `wanted` holds for.
async fn report(site: &mut Site, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let found = async {
        loop {
            let report = site.reports.recv().await.expect("reports");
            if wanted(&report) {
                return report;
            }
            last = report;
        }
    };
    soon(what, found).await
}

/// What the page says of itself when it plays.
async fn playing(site: &mut Site) -> Value {
    let is_playing = |it: &Value| it["type"] == "player" && it["shown"].as_u64() >= Some(40);
    let player = report(site, "playing", is_playing).await;
    assert_eq!(
        (&player["errors"], &player["message"], &player["stalls"]),
        (&0.into(), &"".into(), &0.into()),
        "{player}"
    );
    assert!(
        player["brightness"].as_f64() > Some(20.0),
        "the picture is black: {player}"
    );
    assert!(player["decoded"].as_u64() >= Some(40), "{player}");
    assert_eq!(player["size"], "320 × 180");
    assert!(player["firstMs"].as_u64() < Some(2_000), "{player}");
    player
}

#[real_time(tokio)]
async fn the_page_plays_over_webtransport_and_shows_who_gets_what_and_why() {
    let Some(mut site) = Site::with_film(60, 4).await else {
        return;
    };
    let Some(_chromium) = Chromium::open(&site.url) else {
        return;
    };
    let player = playing(&mut site).await;
    assert_eq!(
        (&player["transport"], &player["why"]),
        (&"WebTransport".into(), &"".into())
    );
    let why = "level 1: the link to rook has 1.2 Mbit/s left, E2 needs 1.9";
    site.show(1, why, "green");
    let is_shown = |it: &Value| it["type"] == "dashboard" && it["members"][0]["name"] == "phone";
    let board = report(&mut site, "the dashboard", is_shown).await;
    let phone = &board["members"][0];
    assert_eq!(
        (&phone["levelName"], &phone["zone"]),
        (&"BL+E1".into(), &"green".into())
    );
    assert_eq!(phone["reason"], why);
    // The monitor of the receiver says that it does not get what was agreed.
    site.show(1, why, "red");
    let is_red = |it: &Value| it["members"][0]["zone"] == "red";
    report(&mut site, "red", is_red).await;
}

/// The page with the transport that the fragment of its URL asks for.
async fn plays_over(transport: &str, name: &str) {
    let Some(mut site) = Site::with_film(60, 4).await else {
        return;
    };
    let Some(_chromium) = Chromium::open(&format!("{}&transport={transport}", site.url)) else {
        return;
    };
    assert_eq!(playing(&mut site).await["transport"], name);
}

#[real_time(tokio)]
#[ignore = "make test-browser: another Chromium"]
async fn the_page_plays_over_a_websocket() {
    plays_over("websocket", "WebSocket").await;
}

#[real_time(tokio)]
#[ignore = "make test-browser: another Chromium"]
async fn the_page_plays_fragmented_mp4() {
    plays_over("mse", "WebSocket, fragmented MP4").await;
}

#[real_time(tokio)]
#[ignore = "make test-browser: another Chromium"]
async fn the_page_plays_av1_with_and_without_webcodecs() {
    for transport in ["webtransport", "mse"] {
        let Some(film) = av1(60) else { return };
        let mut site = Site::with_media(0, film, 4).await;
        let Some(_chromium) = Chromium::open(&format!("{}&transport={transport}", site.url)) else {
            return;
        };
        let player = playing(&mut site).await;
        let codec = player["codec"].as_str().unwrap_or_default();
        assert!(codec.starts_with("av01.0.00M.08"), "{player}");
    }
}

#[real_time(tokio)]
#[ignore = "make test-browser: another Chromium"]
async fn without_a_udp_port_the_page_plays_over_a_websocket_and_says_why() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let Some(mut site) = Site::with_film_at(port, 60, 4).await else {
        return;
    };
    let Some(_chromium) = Chromium::open(&site.url) else {
        return;
    };
    let player = playing(&mut site).await;
    assert_eq!(player["transport"], "WebSocket");
    let why = player["why"].as_str().unwrap_or_default();
    assert!(why.starts_with(&format!("UDP port {port}")), "{why}");
}

#[real_time(tokio)]
#[ignore = "make test-browser: another Chromium"]
async fn a_page_that_finds_all_places_taken_says_so_and_plays_when_one_is_free() {
    let Some(mut site) = Site::with_film(60, 1).await else {
        return;
    };
    let other = media::watch(&site, "").await.expect("a viewer");
    let mut boards = Vec::new();
    for _ in 0..4 {
        boards.push(site.hold_board().await);
    }
    let Some(_chromium) = Chromium::open(&site.url) else {
        return;
    };
    let why = "all places for dashboards are taken, 4 in all (layercast web --viewers)";
    let is_told = |it: &Value| it["type"] == "notice" && it["text"] == why;
    report(&mut site, "the reason of the dashboard", is_told).await;
    drop(boards);
    let why = "all places for viewers are taken, 1 in all (layercast web --viewers)";
    let is_told = |it: &Value| it["type"] == "player" && it["message"] == why;
    report(&mut site, "the reason", is_told).await;
    drop(other);
    assert_eq!(playing(&mut site).await["transport"], "WebTransport");
}

#[real_time(tokio)]
async fn a_wrong_token_is_refused_in_words() {
    let mut site = Site::of(Vec::new(), 4).await;
    let url = site.url.replace(TOKEN, "another-token-altogether");
    let Some(_chromium) = Chromium::open(&url) else {
        return;
    };
    let refused = report(&mut site, "a refusal", |it| it["type"] == "refused").await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("token of this page is wrong"), "{message}");
}
