//! Live media in and out, between real encoders and players.

#[path = "live/bare.rs"]
mod bare;
#[path = "all/common/mod.rs"]
mod common;
#[path = "live/elsewhere.rs"]
mod elsewhere;
#[path = "live/encoder.rs"]
mod encoder;
#[path = "live/failures.rs"]
mod failures;
#[path = "live/latency.rs"]
mod latency;
#[path = "live/parities.rs"]
mod parities;
#[path = "live/restarts.rs"]
mod restarts;
#[path = "live/sync.rs"]
mod sync;
#[path = "live/through.rs"]
mod through;

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{
    Running, complaint, decode, ends_within, folder, free_port as port, have_ffmpeg, layercast,
    real_time, run,
};

const SOON: Duration = Duration::from_secs(60);
const X264: &str =
    "-c:v libx264 -preset ultrafast -g 10 -bf 2 -x264-params scenecut=0:b-pyramid=none";

/// A process that ends with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An encoder: a test picture and a tone, as they would come from a camera, to `to`.
fn encoder(video: &str, to: &[&str]) -> Helper {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-v", "error", "-nostdin", "-re", "-f", "lavfi", "-i"])
        .args([
            "testsrc2=size=160x120:rate=25",
            "-f",
            "lavfi",
            "-i",
            "sine=r=48000",
        ])
        .args(["-t", "60"])
        .args(video.split_whitespace())
        .args(to)
        .stdout(Stdio::null());
    Helper(command.spawn().expect("ffmpeg starts"))
}

/// An encoder of a picture that is still for eight seconds, and then takes many times as much, to two
/// places.
fn growing(to: [u16; 2]) -> Helper {
    let source = "testsrc2=size=160x120:rate=25,noise=alls=60:allf=t:enable='gt(t,8)'";
    let outputs = to.map(|port| format!("udp://127.0.0.1:{port}?pkt_size=1316"));
    let mut command = Command::new("ffmpeg");
    command.args([
        "-v", "error", "-nostdin", "-re", "-f", "lavfi", "-i", source,
    ]);
    for output in &outputs {
        command
            .args("-t 60 -c:v mpeg2video -q:v 8 -g 10 -bf 2 -f mpegts".split_whitespace())
            .arg(output);
    }
    Helper(
        command
            .stdout(Stdio::null())
            .spawn()
            .expect("ffmpeg starts"),
    )
}

#[real_time]
fn a_stream_that_outgrows_its_reservation_is_renegotiated_or_refused() {
    if !have_ffmpeg() {
        return;
    }
    let ports = [port(), port()];
    let _encoder = growing(ports);
    let serve = |port: u16, more: &[&str]| {
        let input = format!("udp://127.0.0.1:{port}");
        let args = ["serve", &input, "--flow", "cam", "--measure", "2s"];
        Running::start(&[&args, more].concat())
    };
    let [mut wide, mut narrow] = std::thread::scope(|scope| {
        let narrow = scope.spawn(|| serve(ports[1], &["--port", "ann=260kbit/s"]));
        [serve(ports[0], &[]), narrow.join().expect("it starts")]
    });
    let _receivers = [&wide, &narrow].map(|server| {
        let child = layercast()
            .args(["join", &server.url, "--name", "ann", "--level", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Helper(child.expect("the binary runs"))
    });
    wide.wait_for_event("more than the");
    wide.wait_for_event("renegotiated: reserved are now BL");
    let refused = narrow.wait_for_event("cannot be reserved: ");
    assert!(refused.contains("not enough bandwidth"), "{refused}");
}

#[real_time]
fn a_second_stream_is_admitted_above_the_declared_sum_once_the_first_is_measured() {
    if !have_ffmpeg() {
        return;
    }
    // They declare these rates for their base layers, and send far less.
    let serve = |(flow, rate): (&str, &str)| {
        let port = port();
        let to = format!("udp://127.0.0.1:{port}?pkt_size=1316");
        let encoder = encoder(&format!("{X264} -c:a aac"), &["-f", "mpegts", &to]);
        let input = format!("udp://127.0.0.1:{port}");
        let args = ["serve", &input, "--flow", flow, "--rates", rate];
        // The key frames alone.
        let little = ["--headroom", "0", "--map", "ipb"];
        let server = Running::start(&[&args[..], &little].concat());
        (encoder, server)
    };
    let flows = [
        ("one", "600kbit/s"),
        ("two", "600kbit/s"),
        ("wide", "1200kbit/s"),
    ];
    let servers = std::thread::scope(|scope| {
        let serve = &serve;
        let starting = flows.map(|flow| scope.spawn(move || serve(flow)));
        starting.map(|server| server.join().expect("it starts"))
    });
    let upstream = servers
        .iter()
        .flat_map(|(_, server)| ["--upstream", &server.url]);
    let upstream: Vec<&str> = upstream.collect();
    for (how, admitted) in [("declared", false), ("measured", true)] {
        let args = ["switch", "--name", "root", "--port", "leaf=1Mbit/s"];
        let root = Running::start(&[&args[..], &upstream, &["--admission", how]].concat());
        let leaf = Running::start(&["switch", "--name", "leaf", "--upstream", &root.url]);
        let flow = |name: &str| leaf.url.replacen('?', &format!("/{name}?"), 1);
        let ann = layercast()
            .args(["join", &flow("one"), "--name", "ann", "--level", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let _ann = Helper(ann.expect("the binary runs"));
        // A window has measured the first one.
        std::thread::sleep(Duration::from_secs(6));
        let join = |name: &str| {
            let url = flow(name);
            let bob = ["join", &url, "--name", "bob", "--level", "0", "--for", "3s"];
            run(&[&bob[..], &["--json"]].concat())
        };
        let bob = join("two");
        assert_eq!(bob.status.success(), admitted, "{how}: {}", complaint(&bob));
        let refused = complaint(&if admitted { join("wide") } else { bob });
        let mut said = vec!["root: not enough bandwidth"];
        if admitted {
            said.extend(["; measured over ", " s, trigger ", " of 0.1 % promised: "]);
            said.push("; more than the link can ever carry");
        }
        for part in said {
            assert!(refused.contains(part), "no {part:?} in {refused}");
        }
    }
}

/// Records what `input` gives for six seconds, as a player would open it.
fn recorder(input: &[&str], to: &Path) -> Helper {
    let child = Command::new("ffmpeg")
        .args(["-v", "warning", "-nostdin", "-y"])
        .args(input)
        .args(["-t", "6", "-c", "copy", "-f", "mpegts"])
        .arg(to)
        .stderr(Stdio::piped())
        .spawn();
    Helper(child.expect("ffmpeg starts"))
}

/// A receiver that writes to `out`.
fn receiver(address: &str, name: &str, level: &str, out: &str, more: &[&str]) -> Helper {
    let child = layercast()
        .args([
            "join", address, "--name", name, "--level", level, "--out", out,
        ])
        .args(if more.contains(&"--for") {
            &[][..]
        } else {
            &["--for", "20s"]
        })
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Helper(child.expect("the binary runs"))
}

/// Frames of the first stream of a kind that ffmpeg decodes, silently.
fn decoded(file: &Path, kind: &str) -> u64 {
    let output = Command::new("ffmpeg")
        .args(["-v", "warning", "-progress", "pipe:1", "-nostdin", "-i"])
        .arg(file)
        .args(["-map", kind, "-f", "framecrc", "-"])
        .output()
        .expect("ffmpeg runs");
    assert_eq!(complaint(&output), "", "{}", file.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let frames = text.lines().filter(|line| line.starts_with("0,"));
    frames.count() as u64
}

/// Pictures that ffmpeg decodes of a file with gaps, whatever it says of them.
fn decoded_at_all(file: &Path) -> u64 {
    decoded_anyway(file, "0:v")
}

/// Frames of one kind (`0:a`) that ffmpeg decodes of a file with gaps, whatever it says of them.
fn decoded_anyway(file: &Path, kind: &str) -> u64 {
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(file)
        .args(["-map", kind, "-f", "framecrc", "-"])
        .output()
        .expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.starts_with("0,")).count() as u64
}

/// Whether GStreamer with the named elements can be used.
fn have_gstreamer(elements: &[&str]) -> bool {
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    for element in elements {
        let found = Command::new("gst-inspect-1.0")
            .args(["--exists", element])
            .status()
            .is_ok_and(|status| status.success());
        assert!(found || !required, "GStreamer's {element} is missing");
        if !found {
            eprintln!("left out: GStreamer's {element} is missing");
            return false;
        }
    }
    true
}

/// Runs a pipeline of GStreamer until `buffers` pictures came out of it.
fn gstreamer(pipeline: &str) -> Helper {
    let child = Command::new("gst-launch-1.0")
        .arg("-q")
        .args(pipeline.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    Helper(child.expect("gst-launch-1.0 starts"))
}

#[real_time]
fn a_live_transport_stream_goes_through_a_switch_to_players_at_every_level() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-ts");
    let (input, full, base) = (port(), port(), port());
    let to = format!("udp://127.0.0.1:{input}?pkt_size=1316");
    let _encoder = encoder(&format!("{X264} -c:a mp2"), &["-f", "mpegts", &to]);
    let from = format!("udp://127.0.0.1:{input}");
    let server = Running::start(&["serve", &from, "--measure", "1s"]);
    let switch = Running::start(&["switch", "--upstream", &server.url]);
    // By name: the switch may not have heard of the flow yet.
    let flow = switch.url.replacen('?', "/live?", 1);
    let mut recorders = Vec::new();
    let mut receivers = Vec::new();
    for (name, level, port) in [("full", "2", full), ("base", "0", base)] {
        let at = format!("udp://127.0.0.1:{port}?timeout=30000000&buffer_size=2000000");
        let file = folder.join(format!("{name}.ts"));
        recorders.push((recorder(&["-i", &at], &file), file));
        let out = format!("udp://127.0.0.1:{port}");
        receivers.push(receiver(&flow, name, level, &out, &[]));
    }
    let played = have_gstreamer(&["udpsrc", "tsdemux", "h264parse", "avdec_h264"]).then(|| {
        let port = port();
        let player = gstreamer(&format!(
            "udpsrc port={port} num-buffers=300 ! tsdemux ! h264parse ! avdec_h264 ! fakesink"
        ));
        let out = format!("udp://127.0.0.1:{port}");
        receivers.push(receiver(&flow, "gst", "2", &out, &[]));
        player
    });
    let mut counts = Vec::new();
    for (mut recorder, file) in recorders {
        assert_eq!(ends_within(&mut recorder.0, SOON), Some(0));
        counts.push((decoded(&file, "0:v"), decoded(&file, "0:a")));
    }
    // Six seconds of 25 pictures, of the first two eras perhaps the base layer only; at base level four
    // pictures in ten (one I and three P), and all the sound.
    let [(full, sound), (base, base_sound)] = counts[..] else {
        panic!("two recordings");
    };
    assert!((95..=160).contains(&full), "{full} pictures");
    assert!((48..=72).contains(&base), "{base} pictures at base level");
    assert!(sound >= 200 && base_sound >= 200, "{sound} {base_sound}");
    if let Some(mut player) = played {
        assert_eq!(ends_within(&mut player.0, SOON), Some(0));
    }
}

#[real_time]
fn live_h264_in_rtp_is_played_from_its_session_description() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-rtp");
    let (input, output) = (port(), port());
    let to = format!("rtp://127.0.0.1:{input}");
    let _encoder = encoder(X264, &["-map", "0:v", "-f", "rtp", &to]);
    let server = Running::start(&["serve", &to, "--measure", "1s", "--flow", "camera"]);
    let sdp = folder.join("camera.sdp");
    let sdp_name = sdp.display().to_string();
    let out = format!("rtp://127.0.0.1:{output}");
    let _receiver = receiver(&server.url, "ann", "2", &out, &["--sdp", &sdp_name]);
    for _ in 0..200 {
        if std::fs::metadata(&sdp).is_ok_and(|file| file.len() > 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = std::fs::read_to_string(&sdp).expect("a session description");
    assert!(
        text.contains("H264/90000") && text.contains("sprop-parameter-sets="),
        "{text}"
    );
    // Decoded, not copied: RTP has no decoding times, which ffmpeg's muxers want of B pictures.
    let player = Command::new("ffmpeg")
        .args([
            "-v",
            "warning",
            "-nostdin",
            "-protocol_whitelist",
            "file,udp,rtp",
        ])
        .args(["-i", &sdp_name, "-t", "3", "-f", "framecrc", "-"])
        .output()
        .expect("ffmpeg runs");
    // It opens the stream in mid GOP, where B pictures miss one that they refer to.
    let said = complaint(&player);
    let only_that = said.lines().all(|line| line.contains("co located POCs"));
    assert!(only_that, "{said}");
    let text = String::from_utf8_lossy(&player.stdout);
    let pictures = text.lines().filter(|line| line.starts_with("0,")).count();
    assert!((55..=85).contains(&pictures), "{pictures} pictures");
    if have_gstreamer(&["udpsrc", "rtph264depay", "avdec_h264"]) {
        // The player keeps the port for itself only once ffmpeg has given it up.
        let mut player = gstreamer(&format!(
            "udpsrc port={output} num-buffers=200 \
             caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=H264 \
             ! rtph264depay ! avdec_h264 ! fakesink"
        ));
        assert_eq!(ends_within(&mut player.0, SOON), Some(0));
    }
}

#[real_time]
fn a_transport_stream_in_rtp_and_mpeg_video_in_rtp_are_played() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-mp2t");
    for (name, video, form) in [
        ("mp2t", "-c:v mpeg2video -g 10 -bf 2 -c:a mp2", "rtp_mpegts"),
        (
            "mpv",
            "-c:v mpeg2video -g 10 -bf 2 -sc_threshold 1000000000 -map 0:v",
            "rtp",
        ),
    ] {
        let (input, output) = (port(), port());
        let to = format!("rtp://127.0.0.1:{input}");
        let _encoder = encoder(video, &["-f", form, &to]);
        let server = Running::start(&["serve", &to, "--measure", "1s"]);
        let sdp = folder.join(format!("{name}.sdp"));
        let sdp_name = sdp.display().to_string();
        let out = format!("rtp://127.0.0.1:{output}");
        let _receiver = receiver(&server.url, "ann", "2", &out, &["--sdp", &sdp_name]);
        for _ in 0..200 {
            if std::fs::metadata(&sdp).is_ok_and(|file| file.len() > 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let file = folder.join(format!("{name}.ts"));
        let input = ["-protocol_whitelist", "file,udp,rtp", "-i", &sdp_name];
        let mut recorder = recorder(&input, &file);
        assert_eq!(ends_within(&mut recorder.0, SOON), Some(0), "{name}");
        let pictures = decoded(&file, "0:v");
        assert!(
            (90..=160).contains(&pictures),
            "{name}: {pictures} pictures"
        );
    }
}

#[real_time]
fn a_transport_stream_on_standard_input_is_served_to_its_end() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("live-pipe");
    let mut encoder = Helper(
        Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-re", "-f", "lavfi", "-i"])
            .args(["testsrc2=size=160x120:rate=25:duration=8"])
            .args(X264.split_whitespace())
            .args(["-f", "mpegts", "-"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("ffmpeg starts"),
    );
    let stdout = encoder.0.stdout.take().expect("a pipe");
    let mut server = Running::start_with(&["serve", "-", "--measure", "1s"], stdout.into());
    let got = folder.join("got.ts");
    let mut receiver = receiver(&server.url, "ann", "2", &got.display().to_string(), &[]);
    assert_eq!(ends_within(&mut receiver.0, SOON), Some(0));
    assert_eq!(ends_within(&mut server.child, SOON), Some(0));
    let (complaints, pictures) = decode(&got);
    assert_eq!(complaints, "");
    // All but what went by before the receiver was there.
    assert!((120..=200).contains(&pictures), "{pictures} pictures");
}

#[real_time]
fn silence_and_strange_bytes_are_named() {
    let port = port();
    let from = format!("udp://127.0.0.1:{port}");
    let server = [
        "serve",
        &from,
        "--patience",
        "1s",
        "--listen",
        "127.0.0.1:0",
    ];
    let silent = run(&server);
    assert_eq!(silent.status.code(), Some(1));
    let said = complaint(&silent);
    assert!(
        said.contains(&format!("nothing arrives at 127.0.0.1:{port} for 1s")),
        "{said}"
    );

    let noise = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..60 {
            let _ = socket.send_to(b"no media at all", ("127.0.0.1", port));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let strange = run(&[&server[..], &["--measure", "100ms"]].concat());
    assert_eq!(strange.status.code(), Some(1));
    let said = complaint(&strange);
    assert!(
        said.contains("neither MPEG-TS") && said.contains("nor RTP"),
        "{said}"
    );
    noise.join().expect("a thread");

    let wrong = run(&["serve", &from, "--loop", "--listen", "127.0.0.1:0"]);
    assert_eq!(wrong.status.code(), Some(2));
}
