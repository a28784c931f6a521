//! Inputs that ffmpeg opens: files of other containers, and what is pushed by SRT, RTMP, RTSP and TCP.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::common::{
    Running, complaint, decode, ends_within, folder, have_ffmpeg, json, layercast, real_time, run,
};
use super::{Helper, SOON, decoded, decoded_anyway, decoded_at_all, port};

/// A clip with sound in the container of its name.
pub fn clip(folder: &Path, name: &str, codec: &str, seconds: u32) -> PathBuf {
    let to = folder.join(name);
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i"])
        .arg("testsrc2=size=160x120:rate=25")
        .args(["-f", "lavfi", "-i", "sine=r=48000", "-t"])
        .arg(seconds.to_string())
        .args(codec.split_whitespace())
        .arg(&to)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    to
}

const H264: &str =
    "-c:v libx264 -preset ultrafast -g 25 -bf 2 -x264-params scenecut=0:b-pyramid=none -c:a aac";

/// Whether a socket of this machine listens at `port`.
fn is_listened_at(port: u16) -> bool {
    let end = format!(":{port:04X}");
    let tables = ["tcp", "tcp6", "udp", "udp6"];
    tables.iter().any(|table| {
        let sockets = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        sockets.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().unwrap_or_default();
            let state = fields.nth(1).unwrap_or_default();
            // Listening, or bound without a peer.
            local.ends_with(&end) && matches!(state, "0A" | "07")
        })
    })
}

/// Sends `clip` for some seconds in real time, again and again, to `to`; waits until a server listens there, and calls until
/// one takes it, as encoders do.
fn push(clip: &Path, seconds: u32, to: &[&str]) -> Helper {
    let url = to.last().expect("a URL");
    let port = url.rsplit_once(':').expect("a port").1;
    let port = port.split(|it: char| !it.is_ascii_digit()).next();
    let port = port.and_then(|it| it.parse().ok()).expect("a port");
    soon(|| is_listened_at(port));
    let until = Instant::now() + SOON;
    loop {
        let mut command = Command::new("ffmpeg");
        command
            .args(["-v", "quiet", "-nostdin", "-re", "-stream_loop", "-1", "-i"])
            .arg(clip)
            .args(["-c", "copy", "-t", &seconds.to_string()])
            .args(to)
            .stdout(Stdio::null());
        let mut sender = Helper(command.spawn().expect("ffmpeg starts"));
        thread::sleep(Duration::from_millis(1_000));
        if sender.0.try_wait().expect("a child").is_none() {
            return sender;
        }
        assert!(Instant::now() < until, "no server takes it at {to:?}");
    }
}

/// The children of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("processes");
    let found = processes.filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Behind the name: the state, and the parent.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        (fields.next()? == parent.to_string() && state != "Z").then_some(id)
    });
    found.collect()
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[track_caller]
fn soon(is_so: impl Fn() -> bool) {
    let until = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < until, "not within {SOON:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_of_another_container_is_its_transport_stream() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-files");
    let whole = clip(&folder, "clip.ts", H264, 3);
    let expected = json(&run(&["probe", "--json", &whole.display().to_string()]));
    for name in [
        "clip.mp4",
        "clip.mkv",
        "clip.mov",
        "clip.avi",
        "concat:clip.mp4",
    ] {
        let file = folder.join(name);
        let copied = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-y", "-i"])
            .arg(&whole)
            .args(["-c", "copy"])
            .arg(format!("file:{}", file.display()))
            .status();
        assert!(copied.expect("ffmpeg runs").success(), "{name}");
        let probed = json(&run(&["probe", "--json", &file.display().to_string()]));
        for field in ["codec", "container", "pictures", "gops", "width", "fps"] {
            assert_eq!(probed[field], expected[field], "{name}: {field}");
        }
    }
}

#[real_time]
fn a_file_of_another_container_is_served_to_its_last_frame_and_again() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-served");
    let file = clip(&folder, "clip.mp4", H264, 3).display().to_string();
    let mut server = Running::start(&["serve", &file, "--start-when-joined", "1"]);
    let got = folder.join("got.ts");
    let out = got.display().to_string();
    let output = run(&["join", &server.url, "--out", &out]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(ends_within(&mut server.child, SOON), Some(0));
    assert_eq!(decode(&got), (String::new(), 75));
    assert!(decoded(&got, "0:a") > 120);
    let server = Running::start(&["serve", &file, "--loop"]);
    let output = run(&["join", &server.url, "--for", "5s", "--out", &out]);
    assert!(output.status.success(), "{}", complaint(&output));
    let pictures = decoded_at_all(&got);
    assert!((90..=130).contains(&pictures), "{pictures}");
}

#[test]
fn what_ffmpeg_cannot_open_is_named_with_cause_and_remedy() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-refused");
    let vp9 = clip(
        &folder,
        "vp9.webm",
        "-c:v libvpx-vp9 -deadline realtime -c:a libopus",
        1,
    );
    let garbage = folder.join("garbage.mp4");
    std::fs::write(&garbage, [b"\0\0\0\x18ftypmp42", &[7; 5_000][..]].concat()).expect("a file");
    let [vp9, garbage] = [vp9, garbage].map(|it| it.display().to_string());
    let free = port();
    let [srt, rtmp, rtsp, http] =
        ["srt", "rtmp", "rtsp", "http"].map(|it| format!("{it}://127.0.0.1:{free}/a"));
    let listens = TcpListener::bind("127.0.0.1:0").expect("a port");
    let used = listens.local_addr().expect("its address").port();
    let used = format!("rtmp://127.0.0.1:{used}/live?listen=1");
    let cases: [(&[&str], &[&str]); 10] = [
        (
            &[&vp9, "--via", "none"],
            &["its video is VP9", "CLIP.ivf", "libx264"],
        ),
        (
            &[&garbage],
            &["cannot read", "garbage.mp4", "Invalid data", "ffprobe"],
        ),
        (
            &["/no/such.mp4"],
            &["cannot read /no/such.mp4", "check the path"],
        ),
        (&[&srt], &["cannot read srt://", "Connection to", "mode"]),
        (&[&rtmp], &["Connection refused", "rtmp://:1935/live"]),
        (&[&rtsp], &["Connection refused"]),
        (&[&http], &["Connection refused"]),
        (
            &["http://host.invalid/a.ts"],
            &["resolve", "check the host name"],
        ),
        (
            &["carrier://pigeon"],
            &["Protocol not found", "no protocol \"carrier\""],
        ),
        (&[&used], &["Address already in use", "choose another port"]),
    ];
    for (args, parts) in cases {
        let listen = ["--listen", "127.0.0.1:0"];
        let output = run(&[&["serve"], args, &listen].concat());
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{args:?}: no {part:?} in {said}");
        }
        assert_eq!(said.matches("layercast: ").count(), 1, "{said}");
    }
    let mp4 = clip(&folder, "clip.mp4", H264, 1).display().to_string();
    let missing = layercast()
        .args(["probe", &mp4])
        .env("PATH", &folder)
        .output()
        .expect("the binary runs");
    let said = complaint(&missing);
    assert!(
        said.contains("needs ffmpeg") && said.contains("apt install ffmpeg"),
        "{said}"
    );
    let own = run(&["probe", &mp4, "--via", "none"]);
    assert!(
        complaint(&own).contains("looks like an MP4"),
        "{}",
        complaint(&own)
    );
    let refused = run(&["serve", "srt://h:9000", "--via", "none"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        complaint(&refused).contains("bridge it"),
        "{}",
        complaint(&refused)
    );
}

/// Answers each request with `body`, once for each of `times`.
pub fn web(body: impl Into<Vec<u8>>, times: usize) -> u16 {
    let body = body.into();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in listener.incoming().take(times) {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4_096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.apple.mpegurl\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&body);
        }
    });
    port
}

#[test]
fn probe_reads_what_is_fetched_as_serve_does() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-fetched");
    let file = clip(&folder, "clip.ts", H264, 2);
    let port = web(std::fs::read(&file).expect("a clip"), 8);
    let url = format!("http://127.0.0.1:{port}/clip.ts");
    let fetched = json(&run(&["probe", "--json", &url]));
    let expected = json(&run(&["probe", "--json", &file.display().to_string()]));
    assert_eq!(fetched["pictures"], expected["pictures"]);
    let output = run(&["probe", "--via", "none", &url]);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
}

#[test]
fn a_playlist_of_the_network_reads_no_file_of_this_machine() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-playlist");
    let secret = clip(&folder, "secret.ts", H264, 2);
    let named = format!("file://{}", secret.display());
    let list = format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{named}\n#EXT-X-ENDLIST\n");
    let port = web(list, 8);
    let url = format!("http://127.0.0.1:{port}/list.m3u8");
    let output = run(&["serve", &url, "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let said = complaint(&output);
    assert!(said.contains("cannot read http://"), "{said}");
}

/// Serves what is pushed to `url` by two senders, one after the other; the flow and its URL stay.
fn pushed(name: &str, url: &str, to: &[&str]) {
    let folder = folder(&format!("through-{name}"));
    let clip = clip(&folder, "clip.mp4", H264, 4);
    let server = thread::scope(|scope| {
        let server = scope.spawn(|| Running::start(&["serve", url, "--measure", "1s"]));
        let _first = push(&clip, 8, to);
        let server = server.join().expect("it starts");
        let got = folder.join("first.ts");
        let out = got.display().to_string();
        let output = run(&["join", &server.url, "--for", "3s", "--out", &out]);
        assert!(output.status.success(), "{}", complaint(&output));
        let pictures = decoded_at_all(&got);
        assert!((35..=100).contains(&pictures), "{name}: {pictures}");
        server
    });
    let mut server = server;
    let left = server.wait_for_event("left; waiting for the next one");
    // A key in the path is hidden.
    let shown = match url
        .strip_prefix("rtmp://")
        .and_then(|it| it.rsplit_once('/'))
    {
        Some((place, _)) if place.contains('/') => format!("rtmp://{place}/***"),
        _ => url.to_owned(),
    };
    assert!(left.contains(&shown), "{left}");
    let _second = push(&clip, 60, to);
    server.wait_for_event("again (restart ");
    let got = folder.join("second.ts");
    let out = got.display().to_string();
    let output = run(&["join", &server.url, "--for", "4s", "--out", &out]);
    assert!(output.status.success(), "{}", complaint(&output));
    let pictures = decoded_at_all(&got);
    assert!((25..=125).contains(&pictures), "{name}: {pictures}");
    // A child that is killed is no sender that leaves.
    let program = children(server.child.id());
    assert_eq!(program.len(), 1, "{program:?}");
    let killed = Command::new("kill")
        .args(["-9", &program[0].to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    let said = server.wait_for_event("is not received any more");
    for part in [
        &*shown,
        "ffmpeg ended with signal: 9 (SIGKILL)",
        "something killed it",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    soon(|| {
        children(server.child.id())
            .iter()
            .any(|it| *it != program[0])
    });
    let program = children(server.child.id());
    // Killed, it cannot end its child: the kernel does.
    server.child.kill().expect("it runs");
    soon(|| !is_there(program[0]));
}

#[real_time]
fn what_is_pushed_by_srt_is_served() {
    if !have_ffmpeg() {
        return;
    }
    let port = port();
    let to = format!("srt://127.0.0.1:{port}?pkt_size=1316");
    pushed(
        "srt",
        &format!("srt://127.0.0.1:{port}?mode=listener"),
        &["-f", "mpegts", &to],
    );
}

#[real_time]
fn what_is_pushed_by_rtmp_is_served() {
    if !have_ffmpeg() {
        return;
    }
    let port = port();
    let to = format!("rtmp://127.0.0.1:{port}/live/key");
    pushed(
        "rtmp",
        &format!("rtmp://:{port}/live/key"),
        &["-f", "flv", &to],
    );
}

#[real_time]
fn what_is_pushed_by_rtsp_is_served() {
    if !have_ffmpeg() {
        return;
    }
    let port = port();
    let to = format!("rtsp://127.0.0.1:{port}/cam");
    let over_tcp = ["-f", "rtsp", "-rtsp_transport", "tcp", &to];
    pushed("rtsp", &format!("rtsp://:{port}/cam"), &over_tcp);
}

#[real_time]
fn a_matroska_stream_over_tcp_is_served_and_garbage_before_it_is_survived() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-tcp");
    let clip = clip(&folder, "clip.mp4", H264, 4);
    let port = port();
    let url = format!("tcp://:{port}");
    let to = format!("tcp://127.0.0.1:{port}");
    let server = thread::scope(|scope| {
        let server = scope.spawn(|| Running::start(&["serve", &url, "--measure", "1s"]));
        // A stranger, first.
        soon(|| {
            let stranger = std::net::TcpStream::connect(("127.0.0.1", port));
            stranger.is_ok_and(|mut it| it.write_all(&[b'x'; 20_000]).is_ok())
        });
        thread::sleep(Duration::from_secs(2));
        let pushing = scope.spawn(|| push(&clip, 30, &["-f", "matroska", &to]));
        let server = server.join().expect("it starts");
        (server, pushing.join().expect("it starts"))
    });
    let got = folder.join("got.ts");
    let out = got.display().to_string();
    let output = run(&["join", &server.0.url, "--for", "4s", "--out", &out]);
    assert!(output.status.success(), "{}", complaint(&output));
    let pictures = decoded_at_all(&got);
    assert!((45..=125).contains(&pictures), "{pictures}");
}

#[real_time]
fn an_end_by_a_signal_takes_the_child_along() {
    if !have_ffmpeg() {
        return;
    }
    let mut child = layercast()
        .args([
            "serve",
            &format!("srt://:{}", port()),
            "--listen",
            "127.0.0.1:0",
            "--json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    soon(|| !children(child.id()).is_empty());
    let program = children(child.id());
    super::common::signal(&child, "-INT");
    assert_eq!(ends_within(&mut child, SOON), Some(130));
    soon(|| !program.iter().any(|&it| is_there(it)));
    let mut text = String::new();
    let _ = child
        .stdout
        .take()
        .map(|mut it| it.read_to_string(&mut text));
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert!(
        first["text"]
            .as_str()
            .is_some_and(|it| it.contains("waiting for media at srt://"))
    );
}

/// Pictures that ffmpeg decodes of a whole file, without a message.
fn whole(file: &Path) -> u64 {
    let (said, pictures) = decode(file);
    assert_eq!(said, "", "{}", file.display());
    pictures
}

#[real_time]
fn containers_are_written_to_the_last_frame() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-out");
    let file = clip(&folder, "clip.ts", H264, 3).display().to_string();
    let names = ["got.mkv", "got.mp4"];
    let mut server = Running::start(&["serve", &file, "--start-when-joined", "2"]);
    thread::scope(|scope| {
        for name in names {
            let (url, out) = (&server.url, folder.join(name).display().to_string());
            scope.spawn(move || {
                let output = run(&["join", url, "--name", name, "--out", &out]);
                assert!(output.status.success(), "{name}: {}", complaint(&output));
            });
        }
    });
    assert_eq!(ends_within(&mut server.child, SOON), Some(0));
    for name in names {
        let got = folder.join(name);
        assert_eq!(decoded(&got, "0:v"), 75, "{name}");
        assert!(decoded(&got, "0:a") > 120, "{name}");
    }
    assert_eq!(whole(&folder.join("got.mkv")), 75);
}

#[real_time]
fn a_stream_is_passed_on_by_srt_rtmp_and_rtsp() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-passed");
    let file = clip(&folder, "clip.mp4", H264, 4).display().to_string();
    let server = Running::start(&["serve", &file, "--loop"]);
    let [srt, rtmp, rtsp] = [port(), port(), port()];
    let inputs = [
        (
            "srt",
            vec![
                "-i".to_owned(),
                format!("srt://127.0.0.1:{srt}?mode=listener"),
            ],
        ),
        (
            "rtmp",
            vec![
                "-listen".to_owned(),
                "1".to_owned(),
                "-i".to_owned(),
                format!("rtmp://127.0.0.1:{rtmp}/live"),
            ],
        ),
        (
            "rtsp",
            vec![
                "-rtsp_flags".to_owned(),
                "listen".to_owned(),
                "-i".to_owned(),
                format!("rtsp://127.0.0.1:{rtsp}/live"),
            ],
        ),
    ];
    let mut players = Vec::new();
    for (name, input) in &inputs {
        let got = folder.join(format!("{name}.ts"));
        let child = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-y"])
            .args(input)
            // RTP has no decoding times, without which ffmpeg copies no pictures that come in another order.
            .args(match *name {
                "rtsp" => ["-c:v", "mpeg2video", "-c:a", "mp2"],
                _ => ["-c:v", "copy", "-c:a", "copy"],
            })
            .arg(&got)
            .spawn();
        players.push((Helper(child.expect("ffmpeg starts")), got));
    }
    // They listen soon.
    thread::sleep(Duration::from_millis(1_500));
    let outputs = [
        format!("srt://127.0.0.1:{srt}"),
        format!("rtmp://127.0.0.1:{rtmp}/live"),
        format!("rtsp://127.0.0.1:{rtsp}/live"),
    ];
    thread::scope(|scope| {
        for (name, out) in ["srt", "rtmp", "rtsp"].iter().zip(&outputs) {
            let url = &server.url;
            scope.spawn(move || {
                let args = ["join", url, "--name", name, "--out", out, "--for", "6s"];
                let output = run(&args);
                assert!(output.status.success(), "{name}: {}", complaint(&output));
            });
        }
    });
    for (mut player, got) in players {
        assert!(ends_within(&mut player.0, SOON).is_some());
        let pictures = decoded_at_all(&got);
        assert!(
            (100..=165).contains(&pictures),
            "{}: {pictures}",
            got.display()
        );
        let sound = decoded_anyway(&got, "0:a");
        assert!(sound > 100, "{}: {sound}", got.display());
    }
}

#[real_time]
fn an_output_that_fails_is_named_with_its_cause_and_does_not_keep_the_receiver() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("through-failed");
    let file = clip(&folder, "clip.mp4", H264, 4).display().to_string();
    let server = Running::start(&["serve", &file, "--loop"]);
    let free = port();
    for (out, parts) in [
        (
            format!("rtmp://127.0.0.1:{free}/live"),
            ["cannot write rtmp://", "Connection refused"],
        ),
        (
            "carrier://pigeon".to_owned(),
            ["Protocol not found", "no protocol \"carrier\""],
        ),
    ] {
        let begun = Instant::now();
        let output = run(&["join", &server.url, "--out", &out, "--for", "60s"]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(40));
        for part in parts {
            assert!(said.contains(part), "{out}: no {part:?} in {said}");
        }
    }
    // `join` is killed in the middle, and ffmpeg still closes the file.
    let got = folder.join("killed.mp4");
    let out = got.display().to_string();
    let mut receiver = layercast()
        .args(["join", &server.url, "--out", &out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    soon(|| !children(receiver.id()).is_empty());
    let program = children(receiver.id());
    thread::sleep(Duration::from_secs(3));
    receiver.kill().expect("it runs");
    receiver.wait().expect("it ends");
    soon(|| !program.iter().any(|&it| is_there(it)));
    assert!(decoded_at_all(&got) > 25);
    let missing = layercast()
        .args(["join", &server.url, "--out", "srt://127.0.0.1:9"])
        .env("PATH", &folder)
        .output()
        .expect("the binary runs");
    let said = complaint(&missing);
    assert!(
        said.contains("--out srt://127.0.0.1:9 needs ffmpeg"),
        "{said}"
    );
}
