//! AV1, VP8 and VP9 in the containers in which people have them, in pipes and in RTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::common::{
    Running, complaint, ends_within, folder, have_ffmpeg, json, layercast, real_time, run, signal,
};
use super::through::{clip, web};
use super::{Helper, SOON, decoded_at_all, port};

const VP8: &str = "-c:v libvpx -deadline realtime -cpu-used 8 -g 25 -c:a libopus";
const VP9: &str = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -c:a libopus";
const AV1: &str = "-c:v libsvtav1 -preset 12 -g 25 -c:a libopus";

/// The checksums of the pictures of a file; decoding says nothing.
fn sums(file: &Path) -> Vec<String> {
    let output = Command::new("ffmpeg")
        .args(["-v", "warning", "-nostdin", "-i"])
        .arg(file)
        .args("-map 0:v -fps_mode passthrough -f framemd5 -".split(' '))
        .output()
        .expect("ffmpeg runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.is_empty(), "{}: {said}", file.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|it| !it.starts_with('#'));
    lines
        .map(|it| it.rsplit(' ').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn files_in_other_containers_are_read() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("bare-probed");
    for (name, codec, called) in [
        ("a.webm", VP8, "vp8"),
        ("b.mp4", AV1, "av1"),
        ("c.mkv", VP9, "vp9"),
    ] {
        let file = clip(&folder, name, codec, 2);
        let shown = file.display().to_string();
        for via in ["auto", "ffmpeg"] {
            let output = run(&["probe", "--json", "--via", via, &shown]);
            let probed = json(&output);
            assert_eq!(
                (&probed["codec"], &probed["container"]),
                (&called.into(), &"ivf".into()),
                "{name}"
            );
            assert_eq!(
                (&probed["fps"], &probed["width"]),
                (&25.0.into(), &160.into()),
                "{name}"
            );
            let said = complaint(&output);
            assert!(
                said.contains("without sound") && said.contains("-c:a aac"),
                "{name}: {said}"
            );
        }
        let refused = run(&["probe", "--via", "none", &shown]);
        assert_eq!(refused.status.code(), Some(1), "{}", complaint(&refused));
        // Without sound nothing is left out.
        let silent = folder.join(format!("silent-{name}"));
        let made = Command::new("ffmpeg")
            .args([
                "-v", "error", "-nostdin", "-y", "-i", &shown, "-an", "-c", "copy",
            ])
            .arg(&silent)
            .status();
        assert!(made.expect("ffmpeg runs").success());
        let output = run(&["probe", &silent.display().to_string()]);
        assert_eq!(complaint(&output), "", "{name}");
    }
    let webm = std::fs::read(folder.join("a.webm")).expect("a clip");
    let url = format!("http://127.0.0.1:{}/a.webm", web(webm, 8));
    assert_eq!(json(&run(&["probe", "--json", &url]))["codec"], "vp8");
}

#[real_time]
fn files_in_other_containers_are_served_and_written_to_their_last_frame() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("bare-served");
    for (name, codec, outs) in [
        ("a.webm", VP8, ["got.webm", "got-8.mkv"]),
        ("b.mp4", AV1, ["got.mp4", "got-1.mkv"]),
        ("c.mkv", VP9, ["got-9.webm", "got-9.mkv"]),
    ] {
        let file = clip(&folder, name, codec, 2);
        let expected = sums(&file);
        let shown = file.display().to_string();
        let mut server = Running::start(&["serve", &shown, "--start-when-joined", "2"]);
        thread::scope(|scope| {
            for out in outs {
                let (url, path) = (&server.url, folder.join(out).display().to_string());
                scope.spawn(move || {
                    let output = run(&["join", url, "--name", out, "--out", &path]);
                    assert!(output.status.success(), "{out}: {}", complaint(&output));
                });
            }
        });
        assert_eq!(ends_within(&mut server.child, SOON), Some(0));
        for out in outs {
            assert_eq!(sums(&folder.join(out)), expected, "{name} {out}");
        }
    }
}

#[real_time]
fn pipes_of_ivf_and_webm_are_served_as_they_come() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("bare-piped");
    for (form, codec) in [("ivf", AV1), ("webm", VP8)] {
        let mut encoder = Command::new("ffmpeg")
            .args(
                "-v error -nostdin -re -f lavfi -i testsrc2=size=160x120:rate=25 -t 30".split(' '),
            )
            .args(
                codec
                    .split(" -c:a")
                    .next()
                    .expect("video")
                    .split_whitespace(),
            )
            .args(["-f", form, "-flush_packets", "1", "pipe:1"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("ffmpeg starts");
        let media = encoder.stdout.take().expect("a pipe");
        let mut encoder = Helper(encoder);
        let server = Running::start_with(&["serve", "-", "--measure", "1s"], Stdio::from(media));
        let got = folder.join(format!("got-{form}.webm"));
        let mut receiver = layercast()
            .args(["join", &server.url, "--json", "--out"])
            .arg(&got)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(receiver.stdout.take().expect("a pipe")).lines();
        let mut receiver = Helper(receiver);
        // A busy machine encodes more slowly: what counts is that pictures come before the pipe ends.
        let mut statuses = lines.map_while(Result::ok).filter_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            let frames = line["frames"]
                .as_object()
                .filter(|_| line["report"] == "receiver")?;
            Some(frames.values().filter_map(Value::as_u64).sum::<u64>())
        });
        assert!(statuses.any(|frames| frames >= 50), "{form}: it ended");
        assert_eq!(encoder.0.try_wait().expect("it is known"), None, "{form}");
        signal(&receiver.0, "-INT");
        statuses.for_each(drop);
        ends_within(&mut receiver.0, SOON);
        let pictures = sums(&got).len();
        assert!(pictures >= 40, "{form}: {pictures}");
    }
}

/// The name of an output is compared with the flow before anything is written.
#[test]
fn an_output_whose_name_contradicts_the_flow_is_refused_before_it_exists() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("misnamed");
    let file = clip(&folder, "film.mkv", "-c:v libx264 -g 25 -c:a aac", 20);
    let server = Running::start(&["serve", &file.display().to_string(), "--loop"]);
    for (name, remedy) in [("got.webm", "end it in .ts"), ("got.m1v", "end it in .ts")] {
        let path = folder.join(name);
        let out = path.display().to_string();
        let output = run(&["join", &server.url, "--for", "8s", "--out", &out]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(
            said.contains(name) && said.contains(remedy),
            "{name}: {said}"
        );
        assert!(!path.exists(), "{name}");
    }
    // Video without a container is taken out of the transport stream, if it is of the codec that the name says.
    for (name, is_so) in [("got.h264", true), ("got.h265", false), ("got.m2v", false)] {
        let path = folder.join(name);
        let out = path.display().to_string();
        let output = run(&["join", &server.url, "--for", "4s", "--out", &out]);
        let said = complaint(&output);
        match is_so {
            true => {
                assert!(output.status.success(), "{name}: {said}");
                let start = std::fs::read(&path).unwrap();
                assert!(
                    start.starts_with(&[0, 0, 0, 1]) && decoded_at_all(&path) > 50,
                    "{name}"
                );
            }
            false => {
                assert_eq!(output.status.code(), Some(1), "{name}: {said}");
                assert!(
                    said.contains("another codec than the flow has"),
                    "{name}: {said}"
                );
                assert!(!path.exists(), "{name}");
            }
        }
    }
    // A name of a container that ffmpeg writes is what it says.
    let nut = folder.join("got.nut");
    let out = nut.display().to_string();
    let output = run(&["join", &server.url, "--for", "4s", "--out", &out]);
    assert!(output.status.success(), "{}", complaint(&output));
    let start = std::fs::read(&nut).unwrap();
    assert!(start.starts_with(b"nut/multimedia container"));
}

/// VP8 in MP4, and the other way round: what ffmpeg cannot write is refused, and no empty file stays.
#[test]
fn a_container_that_does_not_carry_the_codec_is_refused_and_leaves_no_file() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("not-carried");
    let x265 = "-c:v libx265 -preset ultrafast -g 25 -x265-params log-level=none -c:a aac";
    for (input, codec, out, code, remedy) in [
        ("a.webm", VP8, "got.mp4", 2, "end it in .webm or .mkv"),
        ("b.mkv", VP9, "got.mov", 2, "end it in .webm or .mkv"),
        // Which codec a transport stream has, only ffmpeg sees.
        ("c.mkv", x265, "got.flv", 1, "write .mkv"),
    ] {
        let file = clip(&folder, input, codec, 20).display().to_string();
        let server = Running::start(&["serve", &file, "--loop"]);
        let path = folder.join(out);
        let shown = path.display().to_string();
        let output = run(&["join", &server.url, "--for", "8s", "--out", &shown]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{out}: {said}");
        assert!(said.contains(remedy), "{out}: {said}");
        assert!(!path.exists(), "{out}");
    }
}

/// AV1, VP8 and VP9 in transport streams, to files, UDP and SRT: refused when the flow is known, before anything is written.
#[test]
fn video_that_no_transport_stream_carries_is_refused_before_anything_is_written() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("not-in-transport");
    let file = clip(&folder, "a.webm", VP8, 20).display().to_string();
    let server = Running::start(&["serve", &file, "--loop"]);
    let path = folder.join("got.ts");
    let shown = path.display().to_string();
    for out in [&*shown, "udp://127.0.0.1:9", "srt://127.0.0.1:9"] {
        let output = run(&["join", &server.url, "--for", "20s", "--out", out]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{out}: {said}");
        for part in [
            out,
            "VP8 video cannot be written as a transport stream",
            "got.webm",
        ] {
            assert!(said.contains(part), "{out}: no {part:?} in {said}");
        }
        assert!(!path.exists(), "{out}");
    }
}

/// What was cut is said by `probe` and `serve`, of files and of pipes, and each reads a pipe as it reads a file.
#[test]
fn an_input_that_ends_inside_a_picture_says_so_as_a_file_and_as_a_pipe() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("cut");
    let x264 = "-c:v libx264 -g 25 -c:a aac";
    for (name, codec, options) in [
        ("a.ts", "h264", x264.to_owned()),
        ("b.mp4", "h264", format!("{x264} -movflags +faststart")),
        ("c.mkv", "h264", x264.to_owned()),
        ("d.webm", "vp8", VP8.to_owned()),
        (
            "e.ivf",
            "vp8",
            "-c:v libvpx -deadline realtime -cpu-used 8 -g 25 -an".to_owned(),
        ),
    ] {
        let path = clip(&folder, name, &options, 2);
        let whole = std::fs::read(&path).expect("a clip");
        for (is_cut, len) in [(false, whole.len()), (true, whole.len() * 3 / 4 + 1)] {
            std::fs::write(&path, &whole[..len]).expect("a clip");
            let shown = path.display().to_string();
            let of_file = run(&["probe", "--json", &shown]);
            let mut command = layercast();
            command.args(["probe", "--json", "-"]);
            command.stdin(std::fs::File::open(&path).expect("a clip"));
            let of_pipe = command.output().expect("probe runs");
            for output in [&of_file, &of_pipe] {
                let probed = json(output);
                let video = probed["video"].as_str().or(probed["codec"].as_str());
                assert_eq!(video, Some(codec), "{name}: {probed}");
                let said = complaint(output);
                let says = said.contains("inside a packet") || probed["truncated"].is_u64();
                assert_eq!(says, is_cut, "{name} {len}: {said} {probed}");
            }
            assert_eq!(json(&of_file)["pictures"], json(&of_pipe)["pictures"]);
            if is_cut && name < "d" {
                // It plays to its end, without a receiver.
                let served = run(&["serve", &shown, "--listen", "127.0.0.1:0"]);
                let said = complaint(&served) + &String::from_utf8_lossy(&served.stdout);
                assert!(said.contains(" inside a p"), "{name}: {said}");
            }
        }
    }
}

/// The size of H.265 in a transport stream is that of its SPS, less what is cropped.
#[test]
fn the_size_of_h265_in_a_transport_stream_is_probed() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("size-h265");
    for (rows, columns) in [(120, 160), (90, 162)] {
        let path = folder.join(format!("{rows}.ts"));
        let made = Command::new("ffmpeg")
            .args("-v error -nostdin -y -f lavfi -i".split(' '))
            .arg(format!("testsrc2=size={columns}x{rows}:rate=25"))
            .args(
                "-t 2 -c:v libx265 -preset ultrafast -g 25 -x265-params log-level=none -f mpegts"
                    .split(' '),
            )
            .arg(&path)
            .status()
            .expect("ffmpeg runs");
        assert!(made.success());
        let probed = json(&run(&["probe", "--json", &path.display().to_string()]));
        assert_eq!(
            (&probed["width"], &probed["height"]),
            (&columns.into(), &rows.into())
        );
    }
}

#[real_time]
fn live_vp8_in_rtp_is_served_and_sent_on() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("bare-rtp");
    let (port, out) = (port(), port());
    let from = format!("rtp://127.0.0.1:{port}");
    let encoder = Command::new("ffmpeg")
        .args("-v error -nostdin -re -f lavfi -i testsrc2=size=160x120:rate=25 -t 40".split(' '))
        .args("-c:v libvpx -deadline realtime -cpu-used 8 -g 25 -f rtp".split(' '))
        .arg(format!("{from}?pkt_size=1200"))
        .stdout(Stdio::null())
        .spawn();
    let _encoder = Helper(encoder.expect("ffmpeg starts"));
    let server = Running::start(&["serve", &from, "--measure", "1s"]);
    let sdp = folder.join("live.sdp");
    let _ = std::fs::remove_file(&sdp);
    let got = folder.join("got.mkv");
    thread::scope(|scope| {
        let (url, sdp, to) = (
            &server.url,
            sdp.display().to_string(),
            format!("rtp://127.0.0.1:{out}"),
        );
        let receiver =
            scope.spawn(move || run(&["join", url, "--for", "12s", "--out", &to, "--sdp", &sdp]));
        let described = folder.join("live.sdp");
        for _ in 0..100 {
            if described.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let player = Command::new("ffmpeg")
            .args("-v error -nostdin -y -protocol_whitelist file,udp,rtp -i".split(' '))
            .arg(&described)
            .args("-frames:v 50 -c copy".split(' '))
            .arg(&got)
            .status();
        assert!(player.expect("ffmpeg runs").success());
        let output = receiver.join().expect("it ends");
        assert!(output.status.success(), "{}", complaint(&output));
    });
    assert!(decoded_at_all(&got) >= 25);
    // A transport stream carries none of it.
    let output = run(&[
        "join",
        &server.url,
        "--for",
        "2s",
        "--out",
        "udp://127.0.0.1:9",
    ]);
    let said = complaint(&output);
    assert!(
        !output.status.success() && said.contains("VP8") && said.contains("got.webm"),
        "{said}"
    );
}

/// Answers requests for the files of a folder.
fn site(folder: &Path) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4_096];
            let len = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..len]).into_owned();
            let name = request.split(' ').nth(1).unwrap_or("/");
            let body = std::fs::read(folder.join(name.trim_start_matches('/')));
            let (status, body) = match body {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(&body);
        }
    });
    port
}

#[real_time]
fn hls_with_av1_is_asked_for_again_in_ivf() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("bare-hls");
    let file = clip(&folder, "clip.mp4", AV1, 6);
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-i"])
        .arg(&file)
        .args("-c copy -f hls -hls_time 1 -hls_segment_type fmp4 -hls_playlist_type vod".split(' '))
        .arg(folder.join("list.m3u8"))
        .current_dir(&folder)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    let url = format!("http://127.0.0.1:{}/list.m3u8", site(&folder));
    let mut server = Running::start(&["serve", &url, "--measure", "1s"]);
    let got = folder.join("got.webm");
    let out = got.display().to_string();
    let output = run(&["join", &server.url, "--out", &out]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(ends_within(&mut server.child, SOON), Some(0));
    let (found, whole) = (sums(&got), sums(&file));
    assert!(found.len() >= 25, "{}", found.len());
    assert!(found.iter().all(|it| whole.contains(it)));
}
