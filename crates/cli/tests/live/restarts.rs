//! A server of a live input that is killed and started again with the same identity.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::common::{Running, folder, have_ffmpeg, real_time};
use super::{Helper, SOON, X264, decoded_at_all, encoder, port, receiver};

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn grows(path: &Path, from: u64, within: Duration) -> bool {
    let until = Instant::now() + within;
    while size(path) <= from && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    size(path) > from
}

/// Kills the server of `input`, starts it again, and looks when the receivers write again: one at the server, one
/// behind one switch and one behind two.
fn restarted(name: &str, input: &str) {
    let folder = folder(name);
    let identity = folder.join("server.pem").display().to_string();
    let serve = [
        "serve",
        input,
        "--flow",
        "cam",
        "--measure",
        "1s",
        "--identity",
        &identity,
    ];
    let mut server = Running::start(&serve);
    let one = Running::start(&["switch", "--name", "one", "--upstream", &server.url]);
    let two = Running::start(&["switch", "--name", "two", "--upstream", &one.url]);
    let flow = |url: &str| url.replacen('?', "/cam?", 1);
    let receivers: Vec<(Helper, PathBuf)> = [server.url.clone(), flow(&one.url), flow(&two.url)]
        .iter()
        .enumerate()
        .map(|(index, url)| {
            let got = folder.join(format!("got{index}.ts"));
            let out = got.display().to_string();
            let more = ["--for", "60s"];
            (receiver(url, &format!("r{index}"), "2", &out, &more), got)
        })
        .collect();
    for (_, got) in &receivers {
        assert!(grows(got, 0, SOON), "{}", got.display());
    }
    std::thread::sleep(Duration::from_secs(3));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    // It is ready once it has measured.
    let server = Running::start_at(&serve, &server.address);
    let back = Instant::now();
    // What was in the playout buffers is written by then.
    std::thread::sleep(Duration::from_millis(1_500));
    for (_, got) in &receivers {
        let left = Duration::from_secs(5).saturating_sub(back.elapsed());
        assert!(grows(got, size(got), left), "{}", got.display());
    }
    std::thread::sleep(Duration::from_secs(2));
    for (receiver, got) in receivers {
        drop(receiver);
        let pictures = decoded_at_all(&got);
        assert!(pictures > 60, "{pictures} in {}", got.display());
    }
    drop((one, two, server));
}

#[real_time]
fn receivers_of_a_live_transport_stream_are_back_after_a_restart_of_its_server() {
    if !have_ffmpeg() {
        return;
    }
    let input = port();
    let to = format!("udp://127.0.0.1:{input}?pkt_size=1316");
    let _encoder = encoder(&format!("{X264} -c:a mp2"), &["-f", "mpegts", &to]);
    restarted("restart-ts", &format!("udp://127.0.0.1:{input}"));
}

#[real_time]
fn receivers_of_live_h264_in_rtp_are_back_after_a_restart_of_its_server() {
    if !have_ffmpeg() {
        return;
    }
    let to = format!("rtp://127.0.0.1:{}", port());
    let _encoder = encoder(X264, &["-map", "0:v", "-f", "rtp", &to]);
    restarted("restart-rtp", &to);
}
