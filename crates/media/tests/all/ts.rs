//! Transport streams: whatever layers a receiver gets, what it writes is legal, and ffmpeg decodes its
//! video and its audio without a word.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use crate::common;

use std::collections::HashMap;

use crate::common::{decode, encode, have_ffmpeg};
use bytes::Bytes;
use layercast_core::{Layer, Level, Media, PerLayer, Serial, Span, Stream, Time};
use layercast_media::{
    Clip, Container, FlowWriter, Frame, OutputForm, Received, Undecodable, WriterStats,
};

const FRAMES: usize = 75;
const SOUND: &str = "-f lavfi -i sine=r=48000 -map 0:v -map 1:a -c:a mp2 -shortest";

/// Name and ffmpeg options of the video.
const SOURCES: [(&str, &str); 4] = [
    (
        "h264",
        "-c:v libx264 -g 25 -bf 2 -x264-params scenecut=0:b-pyramid=none",
    ),
    (
        "mpeg2",
        "-c:v mpeg2video -g 12 -bf 2 -sc_threshold 1000000000",
    ),
    (
        "mpeg1",
        "-c:v mpeg1video -g 12 -bf 2 -sc_threshold 1000000000",
    ),
    (
        "interlaced",
        "-c:v libx264 -g 24 -bf 2 -flags +ildct+ilme -x264-params tff=1",
    ),
];

fn source(test: &str, name: &str, options: &str) -> (Vec<u8>, Clip) {
    let options = format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {options} -f mpegts");
    let data = encode_with_sound(&format!("{test}-{name}.ts"), &options);
    let clip = Clip::parse(Bytes::from(data.clone())).expect("a clip");
    assert_eq!(clip.info.container, Container::MpegTs);
    assert_eq!(clip.info.codec, Media::MpegTs);
    (data, clip)
}

fn encode_with_sound(name: &str, options: &str) -> Vec<u8> {
    let path = common::file(&format!("{name}.es.ts"));
    encode(&format!("{name}.es.ts"), options);
    let out = common::file(name);
    let status = std::process::Command::new("ffmpeg")
        .args(["-nostdin", "-y", "-v", "error", "-i"])
        .arg(&path)
        .args(SOUND.split_whitespace())
        .args(["-c:v", "copy", "-f", "mpegts"])
        .arg(&out)
        .status();
    assert!(status.expect("ffmpeg starts").success());
    std::fs::read(out).expect("ffmpeg wrote it")
}

/// What a receiver writes that gets the frames for which `received` is true.
fn receive(
    clip: &Clip,
    form: OutputForm,
    received: impl Fn(usize, &Frame) -> bool,
) -> (Vec<u8>, Vec<usize>) {
    let writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, form);
    let (out, ends, _) = receive_with(writer, clip, received);
    (out, ends)
}

/// What `writer` makes of the frames for which `received` is true.
fn receive_with(
    mut writer: FlowWriter,
    clip: &Clip,
    received: impl Fn(usize, &Frame) -> bool,
) -> (Vec<u8>, Vec<usize>, WriterStats) {
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    // Of pictures and of sound.
    let mut missing = [PerLayer::default(); 2];
    for (index, frame) in clip.frames.iter().enumerate() {
        if !received(index, frame) {
            missing[usize::from(frame.sound)][frame.layer()] += 1;
        } else {
            let due = frame.time.unwrap_or(clip.info.frame_rate.due(index as u64));
            let frame = Received {
                seq: Serial(index as u32),
                layer: frame.layer(),
                gop_start: frame.gop_start,
                sound: frame.sound,
                missing: std::mem::take(&mut missing[usize::from(frame.sound)]),
                emitted: Time::ZERO + Span::from_secs(5_000) + due,
                data: frame.data.as_ref().expect("a real clip"),
            };
            writer.frame(&frame, &mut out, &mut ends);
        }
    }
    writer.finish(&mut out);
    (out, ends, writer.stats())
}

/// Holds the stream against ISO/IEC 13818-1: whole packets, counters without a jump, tables and clock
/// often enough, the clock going forward.
fn check_legal(stream: &[u8]) {
    let (packets, rest) = stream.as_chunks::<188>();
    assert!(rest.is_empty() && !packets.is_empty());
    let mut counters: HashMap<u16, u8> = HashMap::new();
    let mut clock: Option<u64> = None;
    let mut tables = 0;
    for packet in packets {
        assert_eq!(packet[0], 0x47);
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let (field, payload) = (packet[3] & 0x20 != 0, packet[3] & 0x10 != 0);
        let counter = packet[3] & 15;
        if let Some(last) = counters.insert(pid, counter) {
            let expected = if payload { (last + 1) & 15 } else { last };
            assert_eq!(counter, expected, "continuity of {pid:#x}");
        }
        tables += usize::from(pid == 0);
        if field && packet[4] >= 7 && packet[5] & 0x10 != 0 {
            let base = packet[6..10]
                .iter()
                .fold(0u64, |n, &b| n << 8 | u64::from(b))
                << 1
                | u64::from(packet[10] >> 7);
            let pcr = base * 300 + (u64::from(packet[10] & 1) << 8 | u64::from(packet[11]));
            if let Some(last) = clock {
                let step = pcr.checked_sub(last).expect("the clock goes forward");
                assert!(step > 0 && step <= 2_700_000, "{step} ticks between clocks");
            }
            clock = Some(pcr);
        }
    }
    assert!(clock.is_some() && tables >= 2);
}

#[test]
fn every_level_is_a_legal_stream_with_all_its_sound() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let (data, clip) = source("levels", name, options);
        let original = decode("mpegts", &data);
        assert_eq!(original.len(), FRAMES, "{name}");
        let sound = common::decode_stream("mpegts", &data, "0:a");
        for level in [Level::FULL, Level::E1, Level::BASE] {
            let (out, _) = receive(&clip, OutputForm::Native, |_, frame| {
                level.includes(frame.layer())
            });
            check_legal(&out);
            let pictures = decode("mpegts", &out);
            let wanted = clip.frames.iter().filter(|frame| {
                level.includes(frame.layer()) && frame.picture != layercast_media::Picture::Data
            });
            assert_eq!(pictures.len(), wanted.count(), "{name} {level}");
            assert!(
                pictures.iter().all(|it| original.contains(it)),
                "{name} {level}"
            );
            let heard = common::decode_stream("mpegts", &out, "0:a");
            assert_eq!(heard, sound, "{name} {level}");
        }
    }
}

/// A picture that refers to a lost one is left out, or marked: a decoder shows pictures of the source and no others.
#[test]
fn pictures_without_their_references_are_left_out_or_marked() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let (data, clip) = source("broken", name, options);
        let original = decode("mpegts", &data);
        let (mut damaged, mut undecodable, mut seen) = (0, 0, 0);
        for seed in 0..4 {
            let mut stream = Stream::new(seed, "loss");
            let lost: Vec<bool> = clip.frames.iter().map(|_| stream.chance(0.05)).collect();
            let write = |undecodable| {
                let mut writer =
                    FlowWriter::new(Media::MpegTs, clip.info.frame_rate, OutputForm::Native);
                writer.set_undecodable(undecodable);
                receive_with(writer, &clip, |index, _| !lost[index])
            };
            let (out, _, stats) = write(Undecodable::LeaveOut);
            check_legal(&out);
            let pictures = common::decode_anyway("mpegts", &out);
            seen += pictures.len();
            for (at, picture) in pictures.iter().enumerate() {
                assert!(original.contains(picture), "{name} {seed} {at}: {stats:?}");
            }
            let (mut marked, _, all) = write(Undecodable::Mark);
            assert_eq!(all.undecodable, stats.undecodable);
            assert_eq!(all.written, stats.written + stats.undecodable);
            undecodable += stats.undecodable;
            // With the mark taken away, these are the pictures that would have been shown.
            for packet in marked.chunks_mut(188) {
                packet[1] &= 0x7F;
            }
            let shown = common::decode_anyway("mpegts", &marked);
            damaged += shown.iter().filter(|it| !original.contains(it)).count();
        }
        let all = seen > FRAMES && undecodable > 0 && damaged > 0;
        assert!(all, "{name}: {seen} {undecodable} {damaged}");
    }
}

/// Sound is written while pictures wait for one that is repaired: each stream in the output stays whole.
#[test]
fn sound_that_overtakes_pictures_leaves_each_stream_as_it_is() {
    if !have_ffmpeg() {
        return;
    }
    let by_pid = |stream: &[u8]| {
        let mut streams: HashMap<u16, Vec<u8>> = HashMap::new();
        for packet in stream.as_chunks::<188>().0 {
            let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
            let from = match packet[3] & 0x30 {
                0x10 => 4,
                0x30 => 5 + usize::from(packet[4]),
                _ => continue,
            };
            streams.entry(pid).or_default().extend(&packet[from..]);
        }
        streams
    };
    let (name, options) = SOURCES[0];
    let (data, clip) = source("overtaken", name, options);
    let (in_order, _) = receive(&clip, OutputForm::Native, |_, _| true);
    // Every tenth picture is late, and sound of the next 90 ms is written before it.
    let mut order: Vec<(usize, usize)> = (0..clip.frames.len()).map(|at| (at, at)).collect();
    let mut pictures = 0;
    for (place, at) in &mut order {
        let frame = &clip.frames[*at];
        pictures += usize::from(!frame.sound);
        let late = pictures % 10 == 5 && !frame.sound;
        let ahead = |other: &Frame| {
            other.sound && other.time <= frame.time.map(|it| it + Span::from_ms(90))
        };
        if late {
            let last = clip.frames.iter().skip(*at).rposition(ahead);
            *place = last.map_or(*at, |last| *at + last);
        }
    }
    let picture_at = |at: usize| !clip.frames[at].sound;
    // Pictures stay in order among each other.
    for n in 1..order.len() {
        if picture_at(order[n].1) {
            let before = order[..n].iter().rfind(|it| picture_at(it.1));
            order[n].0 = before.map_or(order[n].0, |before| order[n].0.max(before.0));
        }
    }
    order.sort_by_key(|&(place, at)| (place, picture_at(at), at));
    assert!(!order.is_sorted_by_key(|it| it.1), "sound overtakes");
    let mut writer = FlowWriter::new(Media::MpegTs, clip.info.frame_rate, OutputForm::Native);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (_, at) in order {
        let frame = &clip.frames[at];
        let received = Received {
            seq: Serial(at as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: PerLayer::default(),
            emitted: Time::ZERO + frame.time.expect("a stamped frame"),
            data: frame.data.as_ref().expect("a real clip"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    let stats = writer.stats();
    assert_eq!(stats.written, clip.frames.len() as u64, "{stats:?}");
    check_legal(&out);
    assert_eq!(by_pid(&out), by_pid(&in_order));
    assert_eq!(decode("mpegts", &out), decode("mpegts", &data));
}

#[test]
fn a_receiver_that_joins_later_gets_tables_first() {
    if !have_ffmpeg() {
        return;
    }
    let (name, options) = SOURCES[0];
    let (_, clip) = source("join", name, options);
    let (out, _) = receive(&clip, OutputForm::Native, |index, frame| {
        index > clip.frames.len() / 3 && frame.layer() != Layer::E2
    });
    check_legal(&out);
    assert_eq!(out[1..3], [0x40, 0], "a PAT comes first");
    assert!(decode("mpegts", &out).len() >= 8);
}

#[test]
fn the_flow_is_specified_by_its_frames() {
    if !have_ffmpeg() {
        return;
    }
    let (name, options) = SOURCES[0];
    let (_, clip) = source("spec", name, options);
    let spec = clip.flow_spec();
    spec.validate().expect("valid");
    assert_eq!(spec.media, Media::MpegTs);
    assert_eq!(spec.top_level(), Level::FULL);
    let seconds = clip.duration().as_secs_f64();
    assert!((2.9..3.2).contains(&seconds), "{seconds}");
    // Twice round, media times continue.
    let twice = clip.with_duration(Span::from_secs(6));
    let times: Vec<Span> = twice.frames.iter().filter_map(|frame| frame.time).collect();
    assert!(times.is_sorted() && times.len() == twice.frames.len());
}

#[test]
fn elementary_streams_are_put_into_transport_streams() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let format = if options.contains("264") {
            "h264"
        } else {
            "mpegvideo"
        };
        let extension =
            ["h264", "m2v", "m1v", "h264"][SOURCES.iter().position(|it| it.0 == name).unwrap_or(0)];
        let file = format!("mux-{name}.{extension}");
        let options = format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {options}");
        let data = encode(&file, &options);
        let original = decode(format, &data);
        let clip = Clip::parse(Bytes::from(data)).expect("a clip");
        for level in [Level::FULL, Level::E1, Level::BASE] {
            let (out, _) = receive(&clip, OutputForm::Transport, |_, frame| {
                level.includes(frame.layer())
            });
            check_legal(&out);
            let pictures = decode("mpegts", &out);
            assert!(
                pictures.iter().all(|it| original.contains(it)),
                "{name} {level}"
            );
            // Each picture is shown at its own place in time.
            let times = common::times("mpegts", &out);
            assert_eq!(times.len(), pictures.len());
            let places: Vec<usize> = pictures
                .iter()
                .map(|it| {
                    original
                        .iter()
                        .position(|known| known == it)
                        .expect("known")
                })
                .collect();
            if level == Level::FULL {
                assert_eq!(pictures, original, "{name}");
            }
            for (pair, time) in places.windows(2).zip(times.windows(2)) {
                assert!(time[1] > time[0], "{name} {level}");
                if pair[1] > pair[0] && format == "h264" {
                    let apart = (time[1] - time[0]) / 3_600;
                    assert_eq!(apart as usize, pair[1] - pair[0], "{name} {level}");
                }
            }
        }
    }
}
