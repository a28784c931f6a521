//! RTP with parities of SMPTE 2022-1, in and out.

use std::net::UdpSocket;
use std::process::Stdio;
use std::thread;

use super::common::{Running, folder, have_ffmpeg, layercast, real_time, run};
use super::through::clip;
use super::{Helper, decoded, port};

const H264: &str = "-c:v libx264 -preset ultrafast -g 25 -bf 2 -x264-params scenecut=0:b-pyramid=none:repeat-headers=1 -an";

/// Passes packets on from one port to another until the test ends, but for each ninth one if it `loses`.
fn pass(from: u16, to: u16, loses: bool) {
    let socket = UdpSocket::bind(("127.0.0.1", from)).expect("a socket");
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        for number in 1_u64.. {
            let Ok((length, _)) = socket.recv_from(&mut buffer) else {
                return;
            };
            if !(loses && number % 9 == 0) {
                let _ = socket.send_to(&buffer[..length], ("127.0.0.1", to));
            }
        }
    });
}

#[real_time]
fn rtp_that_loses_each_ninth_packet_is_whole_with_parities() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-parities");
    let clip = clip(&folder, "clip.ts", H264, 20);
    // Each of them with the ports 2 and 4 above.
    let out = port();
    let input = std::iter::repeat_with(port).find(|it| *it > out + 4);
    let input = input.expect("a port");
    for beside in [0, 2, 4] {
        pass(out + beside, input + beside, beside == 0);
    }
    let clip = clip.to_str().expect("UTF-8");
    let first = Running::start(&["serve", clip, "--insecure", "--start-when-joined", "1"]);
    let mut sender = layercast();
    sender
        .args([
            "join",
            &first.url,
            "--out",
            &format!("rtp://127.0.0.1:{out}"),
        ])
        .args(["--rtp-fec", "5x5", "--sdp"])
        .arg(folder.join("out.sdp"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _sender = Helper(sender.spawn().expect("the binary runs"));
    let from = format!("rtp://127.0.0.1:{input}");
    let mut second = Running::start(&["serve", &from, "--rtp-fec", "--insecure"]);
    let received = folder.join("received.ts");
    let got = received.to_str().expect("UTF-8");
    let output = run(&["join", &second.url, "--for", "8s", "--out", got]);
    assert!(output.status.success(), "{output:?}");
    assert!(decoded(&received, "0:v") > 150);
    let said = second.wait_for_event("came back");
    assert!(said.contains("all of them"), "{said}");
    // Programs get the counts.
    let fits = |line: &serde_json::Value| line["parities"]["recovered"].as_u64() > Some(5);
    let counted = second.wait_for_report("node", fits);
    assert_eq!(counted["parities"]["lost"], 0, "{counted}");
}

#[test]
fn parities_belong_to_rtp() {
    for (args, part) in [
        (
            &["serve", "udp://127.0.0.1:9", "--rtp-fec"][..],
            "serve rtp://HOST:PORT --rtp-fec",
        ),
        (
            &["join", "127.0.0.1:1/a", "--out", "a.ts", "--rtp-fec", "5x5"][..],
            "--out rtp://HOST:PORT",
        ),
        (
            &[
                "join",
                "127.0.0.1:1/a",
                "--out",
                "rtp://127.0.0.1:2",
                "--rtp-fec",
                "5",
            ][..],
            "such as 5x5",
        ),
        (
            &[
                "join",
                "127.0.0.1:1/a",
                "--out",
                "rtp://127.0.0.1:2",
                "--rtp-fec",
                "50x50",
            ][..],
            "50",
        ),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = super::complaint(&output);
        assert!(said.contains(part), "{said}");
    }
}
