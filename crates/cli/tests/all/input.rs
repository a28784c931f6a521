//! Files that are no stream to be served: each is named, and the command in the message makes one of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{complaint, folder, have_ffmpeg, json, run};

/// Pictures of each file: a second of them.
const PICTURES: u64 = 25;

/// A file that ffmpeg makes of a second of a test picture and a tone.
fn file(folder: &Path, name: &str, options: &str) -> PathBuf {
    let path = folder.join(name);
    let sources =
        "-v error -nostdin -y -f lavfi -i testsrc2=s=160x120:r=25:d=1 -f lavfi -i sine=d=1";
    let status = Command::new("ffmpeg")
        .args(sources.split(' '))
        .args(["-pix_fmt", "yuv420p", "-threads", "1"])
        .args(options.split_whitespace())
        .arg(&path)
        .status();
    assert!(status.expect("ffmpeg starts").success(), "{name}");
    path
}

fn probe(path: &Path) -> Output {
    let path = path.to_str().expect("UTF-8");
    run(&["probe", path, "--via", "none", "--json"])
}

/// Runs the command that the message about `file` shows, and probes what it makes.
fn follow(folder: &Path, file: &Path, what: &str) -> serde_json::Value {
    let refused = probe(file);
    let text = complaint(&refused);
    assert_eq!(refused.status.code(), Some(1), "{}: {text}", file.display());
    assert!(text.contains(what), "{}: {text}", file.display());
    let from = text.find("ffmpeg -").expect("a command");
    let clip = folder.join("clip.ts");
    let _ = std::fs::remove_file(&clip);
    let line = text[from..].lines().next().unwrap_or_default();
    // A pair of parentheses or a further sentence may follow it.
    let end = line.find("CLIP.ts").expect("its end") + "CLIP.ts".len();
    let command = line[..end].replace("FILE", &file.display().to_string());
    let command = command.replace("CLIP.ts", &clip.display().to_string());
    let command = command.replacen("ffmpeg ", "ffmpeg -v error -nostdin -y ", 1);
    let status = Command::new("sh").args(["-c", &command]).status();
    assert!(status.expect("a shell").success(), "{command}");
    json(&probe(&clip))
}

#[test]
fn the_command_in_the_message_makes_a_clip_of_the_file() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("input");
    let x264 = "-c:v libx264 -preset ultrafast -g 25 -bf 2";
    let mp4 = file(&folder, "h264.mp4", &format!("{x264} -c:a aac"));
    let copies = ["h264.mkv", "h264.flv", "h264.avi"].map(|name| {
        let to = folder.join(name);
        let args = ["-v", "error", "-nostdin", "-y", "-i"];
        let status = Command::new("ffmpeg")
            .args(args)
            .arg(&mp4)
            .args(["-c", "copy"])
            .arg(&to)
            .status();
        assert!(status.expect("ffmpeg starts").success());
        to
    });
    let lossless = [
        (mp4, "MP4", "h264"),
        (copies[0].clone(), "Matroska", "h264"),
        (copies[1].clone(), "Flash", "h264"),
        (copies[2].clone(), "AVI", "h264"),
        (
            file(&folder, "mpeg4.mp4", "-c:v mpeg4 -g 25 -bf 2 -c:a aac"),
            "MP4",
            "mpeg4",
        ),
        (
            file(&folder, "mpeg4.mkv", "-c:v mpeg4 -g 25 -c:a mp2"),
            "Matroska",
            "mpeg4",
        ),
        (
            file(&folder, "mpeg4.avi", "-c:v mpeg4 -g 25 -bf 2 -c:a mp2"),
            "AVI",
            "mpeg4",
        ),
        (
            file(&folder, "mpeg2.mp4", "-c:v mpeg2video -g 25 -c:a mp2"),
            "MP4",
            "mpeg2",
        ),
        (
            file(&folder, "bare.m4v", "-map 0:v -c:v mpeg4 -g 25 -f m4v"),
            "MPEG-4 part 2",
            "mpeg4",
        ),
    ];
    for (path, what, codec) in lossless {
        let clip = follow(&folder, &path, what);
        assert_eq!(clip["video"], codec, "{}", path.display());
        let sum: u64 = ["I", "P", "B"]
            .iter()
            .filter_map(|kind| clip["pictures"][kind].as_u64())
            .sum();
        assert_eq!(sum, PICTURES, "{}: {clip}", path.display());
        assert_eq!(clip["fps"], 25.0, "{}: {clip}", path.display());
    }
    let encoded = [
        (
            file(&folder, "flv1.flv", "-c:v flv1 -c:a mp3 -ar 44100"),
            "FLV1",
        ),
        (
            file(&folder, "mjpeg.avi", "-c:v mjpeg -c:a mp2"),
            "Motion JPEG",
        ),
    ];
    for (path, what) in encoded {
        assert_eq!(follow(&folder, &path, what)["video"], "h264");
    }
}

#[test]
fn h265_without_a_container_is_a_clip() {
    let has_encoder = || {
        let list = Command::new("ffmpeg")
            .args(["-v", "error", "-encoders"])
            .output();
        list.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("libx265"))
    };
    if !have_ffmpeg() || !has_encoder() {
        return;
    }
    let folder = folder("input-h265");
    let options =
        "-map 0:v -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -f hevc";
    let path = file(&folder, "bare.h265", options);
    let clip = json(&probe(&path));
    assert_eq!((&clip["codec"], &clip["gops"]), (&"h265".into(), &1.into()));
    assert_eq!(clip["fps"], 25.0);
    assert!(clip["pictures"]["B"].as_u64() > Some(0), "{clip}");
}

#[test]
fn a_packet_capture_is_named_with_the_command_that_takes_the_stream_out() {
    let folder = folder("input-pcap");
    let path = folder.join("capture.pcap");
    std::fs::write(
        &path,
        b"\xD4\xC3\xB2\xA1\x02\0\x04\0\0\0\0\0\0\0\0\0\xFF\xFF\0\0\x01\0\0\0",
    )
    .expect("a file");
    let text = path.to_str().expect("UTF-8");
    for args in [
        &["probe", text][..],
        &["serve", text, "--listen", "127.0.0.1:0"],
        &["workload", "analyze", "video", text],
        &["workload", "analyze", "http", text],
    ] {
        let output = run(args);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.contains("a packet capture (pcap)") && said.contains("tshark -r FILE"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn an_address_that_is_not_taken_is_told_with_the_way_round() {
    for scheme in ["srt", "rtmp", "http"] {
        let url = format!("{scheme}://127.0.0.1:9/live");
        let output = run(&["serve", &url, "--via", "none"]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("ffmpeg -i '{scheme}://"))
                && said.contains("layercast serve udp://127.0.0.1:5000"),
            "{said}"
        );
    }
}
