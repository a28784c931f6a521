//! VP8 and VP9 in RTP, from and to ffmpeg and GStreamer, whose payloaders of AV1 are newer than those of Debian 12; AV1 as pion
//! packs it.
//!
//! Skipped with a note where one of them is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_core::{Media, PerLayer, Serial, Span, Time};
use layercast_media::{
    Clip, FlowWriter, Frame, Ingest, OutputForm, Received, RtpPacket, RtpSession, TimedFrame,
    session_description,
};

use crate::common::{self, decode, encode, have_ffmpeg, have_gstreamer};

const FRAMES: usize = 60;
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Frames that are not shown among them.
const CODECS: [(Media, &str); 2] = [
    (
        Media::Vp8,
        "-c:v libvpx -deadline good -cpu-used 8 -g 20 -b:v 400k -auto-alt-ref 1 -lag-in-frames 10",
    ),
    (
        Media::Vp9,
        "-c:v libvpx-vp9 -deadline good -cpu-used 8 -g 20 -b:v 400k -auto-alt-ref 1 -lag-in-frames 16",
    ),
];

fn short(media: Media) -> &'static str {
    match media {
        Media::Vp8 => "vp8",
        _ => "vp9",
    }
}

fn clip(test: &str, media: Media, options: &str) -> (std::path::PathBuf, Vec<u8>) {
    let name = format!("peers-{test}-{}.ivf", short(media));
    let data = encode(
        &name,
        &format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {options}"),
    );
    (common::made(&name), data)
}

/// A file with these frames.
fn in_ivf(data: &[u8], frames: &[Frame]) -> Vec<u8> {
    let mut out = data[..32].to_vec();
    for (index, frame) in frames.iter().enumerate() {
        let data = frame.data.as_ref().expect("bytes");
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(&(index as u64).to_le_bytes());
        out.extend_from_slice(data);
    }
    out
}

/// The frames of the packets at a port, until it is silent for a second.
fn received(socket: &UdpSocket, mut ingest: Ingest) -> (Vec<TimedFrame>, Ingest) {
    let (mut frames, mut buffer) = (Vec::new(), [0; 2_000]);
    let begun = Instant::now();
    let mut timeout = Duration::from_secs(20);
    loop {
        socket.set_read_timeout(Some(timeout)).expect("a timeout");
        let Ok(len) = socket.recv(&mut buffer) else {
            break;
        };
        timeout = Duration::from_secs(1);
        let now = Time::ZERO + Span::from_us(begun.elapsed().as_micros() as u64);
        ingest.push(now, &buffer[..len]);
        frames.extend(std::iter::from_fn(|| ingest.poll()));
    }
    ingest.finish();
    frames.extend(std::iter::from_fn(|| ingest.poll()));
    (frames, ingest)
}

/// Programs that send a file to a port.
fn senders(media: Media, file: &Path, port: u16) -> Vec<(&'static str, Command)> {
    let (file, short) = (file.display(), short(media));
    let call = |program: &str, line: String| {
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).stdout(Stdio::null());
        command
    };
    let parse = if media == Media::Vp9 {
        "! vp9parse"
    } else {
        ""
    };
    let gst = |options: &str| {
        call(
            "gst-launch-1.0",
            format!(
                "-q filesrc location={file} ! ivfparse {parse} ! rtp{short}pay {options} ! udpsink host=127.0.0.1 port={port}"
            ),
        )
    };
    let mut all = vec![(
        "ffmpeg",
        call(
            "ffmpeg",
            format!(
                "-nostdin -v error -re -i {file} -c copy -strict experimental -f rtp rtp://127.0.0.1:{port}?pkt_size=1200"
            ),
        ),
    )];
    if have_gstreamer() {
        all.push(("GStreamer", gst("")));
        all.push(("GStreamer with numbers", gst("mtu=600 picture-id-mode=2")));
    }
    all
}

#[test]
fn what_ffmpeg_and_gstreamer_send_is_received() {
    if !have_ffmpeg() {
        return;
    }
    for (media, options) in CODECS {
        let (file, data) = clip("in", media, options);
        let whole = decode("ivf", &data);
        let sent = Clip::parse(Bytes::from(data.clone())).expect("a clip");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("an address").port();
        for (name, mut command) in senders(media, &file, port) {
            let mut child = command.spawn().expect("it starts");
            let (frames, ingest) = received(&socket, Ingest::new());
            assert!(child.wait().expect("it ends").success(), "{name}");
            assert_eq!(ingest.media(), Some(media), "{name}");
            let stats = ingest.stats().rtp;
            assert_eq!(
                (stats.lost, stats.malformed, stats.incomplete),
                (0, 0, 0),
                "{name}"
            );
            let frames: Vec<Frame> = frames.into_iter().map(|it| it.frame).collect();
            let bytes = |it: &[Frame]| it.iter().map(|it| it.data.clone()).collect::<Vec<_>>();
            assert_eq!(bytes(&frames), bytes(&sent.frames), "{name} {media:?}");
            assert_eq!(decode("ivf", &in_ivf(&data, &frames)), whole, "{name}");
        }
    }
}

/// A stream that is joined between two key frames looks like H.264 before it shows what it is.
#[test]
fn a_stream_shows_what_it_is_at_its_next_key_frame() {
    if !have_ffmpeg() || !have_gstreamer() {
        return;
    }
    for (media, options) in CODECS {
        let options = format!("{options} -g 60 -force_key_frames expr:eq(n,45) -b:v 2M");
        let (file, _) = clip("late", media, &options);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("an address").port();
        let all = senders(media, &file, port);
        let (_, mut command) = all.into_iter().nth(1).expect("GStreamer");
        let mut child = command.spawn().expect("it starts");
        let mut buffer = [0; 2_000];
        // The first key frame is missed.
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let mut first = None;
        loop {
            let len = socket.recv(&mut buffer).expect("a datagram");
            let stamp: [u8; 4] = buffer[4..8].try_into().expect("a stamp");
            let stamp = u32::from_be_bytes(stamp);
            if stamp.wrapping_sub(*first.get_or_insert(stamp)) > 9_000 && len > 0 {
                break;
            }
        }
        let (frames, ingest) = received(&socket, Ingest::new());
        child.wait().expect("it ends");
        assert_eq!(ingest.media(), Some(media));
        assert!(
            frames.first().is_some_and(|it| it.frame.gop_start),
            "{media:?}"
        );
        assert!(
            (10..20).contains(&frames.len()),
            "{media:?}: {}",
            frames.len()
        );
    }
}

/// Sends the frames of a clip again and again, until `child` ends, or for `rounds` frames.
fn send(clip: &Clip, port: u16, child: &mut Child, most: usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, OutputForm::Rtp(5));
    for (index, frame) in clip.repeated().enumerate().take(most) {
        if child.try_wait().expect("it runs").is_some() {
            return;
        }
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: false,
            missing: PerLayer::default(),
            emitted: Time::ZERO + clip.info.frame_rate.due(index as u64),
            data: frame.data.as_ref().expect("bytes"),
        };
        writer.frame(&received, &mut out, &mut ends);
        let mut start = 0;
        for end in ends {
            let datagram = &out[std::mem::replace(&mut start, end)..end];
            socket.send_to(datagram, (HERE, port)).expect("it is sent");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ffmpeg_and_gstreamer_receive_what_is_sent() {
    if !have_ffmpeg() {
        return;
    }
    for (media, options) in CODECS {
        let (_, data) = clip("out", media, options);
        let whole = decode("ivf", &data);
        let clip = Clip::parse(Bytes::from(data)).expect("a clip");
        let port = {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.local_addr().expect("an address").port() & !1
        };
        let start = clip.frames[0].data.as_ref().expect("bytes");
        let text = session_description("clip", media, HERE, port, start);
        RtpSession::parse(&text).expect("a description");
        let description = common::file(&format!("peers-{}.sdp", short(media)));
        std::fs::write(&description, &text).expect("it is written");
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg
            .args("-nostdin -v error -protocol_whitelist file,udp,rtp -i".split(' '))
            .arg(&description)
            .args("-frames:v 60 -fps_mode passthrough -f framemd5 -".split(' '));
        let short = short(media);
        let upper = short.to_uppercase();
        let mut gst = Command::new("gst-launch-1.0");
        let caps = format!(
            "caps=application/x-rtp,media=video,clock-rate=90000,encoding-name={upper},payload=96"
        );
        gst.args(["-q", "udpsrc", &format!("port={port}"), "num-buffers=400", &caps]).args(
            format!(
                "! rtp{short}depay ! {short}dec ! videoconvert ! video/x-raw,format=I420 ! checksumsink hash=md5 sync=false"
            )
            .split_whitespace(),
        );
        let mut peers = vec![("ffmpeg", ffmpeg)];
        if have_gstreamer() {
            peers.push(("GStreamer", gst));
        }
        for (name, mut command) in peers {
            let mut child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts");
            send(&clip, port, &mut child, 3_000);
            let output = child.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stderr);
            let text = String::from_utf8_lossy(&output.stdout);
            let sums = text.lines().filter(|line| !line.starts_with('#'));
            let sums: Vec<&str> = sums.filter_map(|line| line.rsplit(' ').next()).collect();
            assert!(sums.len() >= 60, "{name} {media:?}: {} {said}", sums.len());
            // What it joined with refers to what it missed.
            let behind = &sums[30..];
            let known = |sum: &&&str| whole.iter().any(|it| it == **sum);
            assert_eq!(
                behind.iter().filter(known).count(),
                behind.len(),
                "{name} {media:?} {said}"
            );
        }
    }
}

/// `tests/vectors/av1-pion.payloads` are those of pion v1.10.6 (`codecs.AV1Payloader`, 300 octets at most) for the temporal
/// units of `av1.ivf`, each behind its length in 16 bits, with 0 behind each unit.
#[test]
fn av1_as_pion_packs_it_is_received() {
    let all: &[u8] = include_bytes!("../vectors/av1-pion.payloads");
    let file: &[u8] = include_bytes!("../vectors/av1.ivf");
    let clip = Clip::parse(Bytes::from_static(file)).expect("a clip");
    let mut ingest = Ingest::new();
    let (mut rest, mut seq, mut unit) = (all, 65_530u16, 0u32);
    let mut frames = Vec::new();
    while let [high, low, after @ ..] = rest {
        let (payload, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        rest = after;
        if payload.is_empty() {
            unit += 1;
            continue;
        }
        let packet = RtpPacket {
            marker: rest.starts_with(&[0, 0]),
            payload_type: 96,
            seq,
            timestamp: unit * 3_600,
            ssrc: 9,
            payload,
        };
        seq = seq.wrapping_add(1);
        let mut datagram = Vec::new();
        packet.encode_into(&mut datagram);
        ingest.push(Time::ZERO, &datagram);
        frames.extend(std::iter::from_fn(|| ingest.poll()));
    }
    ingest.finish();
    frames.extend(std::iter::from_fn(|| ingest.poll()));
    assert_eq!(ingest.media(), Some(Media::Av1));
    assert_eq!(
        ingest.stats().rtp.malformed + ingest.stats().rtp.incomplete,
        0
    );
    let bytes: Vec<Option<Bytes>> = frames.into_iter().map(|it| it.frame.data).collect();
    let expected: Vec<Option<Bytes>> = clip.frames.into_iter().map(|it| it.data).collect();
    assert_eq!(bytes, expected);
}
