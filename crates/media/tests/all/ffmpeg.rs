//! What the writer writes is decoded by ffmpeg without a word, with every picture in its place.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use bytes::Bytes;
use layercast_core::{Layer, Level, PerLayer, Serial, Stream, Time};
use layercast_media::{
    Clip, Container, FlowWriter, Frame, OutputForm, Received, StreamWriter, WriterStats,
};

use crate::common::{file, made, once};

/// How the sources are encoded: name, ffmpeg arguments after the input.
const SOURCES: [(&str, &str); 8] = [
    ("mpeg1", "-s 176x144 -c:v mpeg1video -g 12 -bf 2"),
    ("mpeg1-wide", "-s 640x360 -c:v mpeg1video -g 12 -bf 2"),
    ("mpeg1-pal", "-s 720x576 -c:v mpeg1video -g 12 -bf 2 -q:v 2"),
    ("mpeg1-one-b", "-s 194x98 -c:v mpeg1video -g 15 -bf 1"),
    ("mpeg2", "-s 176x144 -c:v mpeg2video -g 12 -bf 2"),
    ("mpeg2-wide", "-s 640x360 -c:v mpeg2video -g 12 -bf 2"),
    ("mpeg2-tall", "-s 32x2832 -c:v mpeg2video -g 12 -bf 2"),
    (
        "mpeg2-interlaced",
        "-s 720x576 -c:v mpeg2video -g 12 -bf 2 -vf setfield=tff -flags +ildct+ilme -q:v 2",
    ),
];
const FRAMES: usize = 75;

fn have_ffmpeg() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = Command::new("ffmpeg").arg("-version").output().is_ok();
        let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(found || !required, "ffmpeg is required but missing");
        if !found {
            eprintln!("skipped: ffmpeg is not installed");
        }
        found
    })
}

fn ffmpeg(arguments: &str, files: &[(&str, &Path)]) -> Output {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-y", "-v", "warning"]);
    for word in arguments.split_whitespace() {
        match files.iter().find(|(name, _)| *name == word) {
            Some((_, path)) => command.arg(path),
            None => command.arg(word),
        };
    }
    command.output().expect("ffmpeg starts")
}

fn encode(name: &str, options: &str) -> Bytes {
    let path = file(name);
    let arguments =
        format!("-f lavfi -i testsrc2=rate=25 -frames:v {FRAMES} {options} -threads 1 OUT");
    let output = ffmpeg(&arguments, &[("OUT", &path)]);
    assert!(output.status.success(), "{output:?}");
    Bytes::from(std::fs::read(&path).expect("ffmpeg wrote the clip"))
}

/// The file of a source, which all tests share.
fn source_file(name: &str) -> String {
    let extension = if name.starts_with("mpeg1") {
        "m1v"
    } else {
        "m2v"
    };
    format!("source-{name}.{extension}")
}

fn source(name: &str, options: &str) -> Clip {
    let file = source_file(name);
    let data = once(&file, || encode(&file, options).into());
    let clip = Clip::parse(Bytes::from(data)).expect("a clip");
    assert_eq!(clip.frames.len(), FRAMES);
    clip
}

/// The checksum of each decoded picture, in display order; decoding must not print anything.
fn decode(name: &str, stream: &[u8]) -> Vec<String> {
    let path = file(name);
    std::fs::write(&path, stream).expect("a file");
    // Through a pipe: of any file that is an elementary stream ffmpeg says that it has to estimate
    // the duration.
    let output = Command::new("ffmpeg")
        .args("-v warning -xerror -i pipe:0 -fps_mode passthrough -f framemd5 -".split(' '))
        .stdin(std::fs::File::open(&path).expect("the file"))
        .output()
        .expect("ffmpeg starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let sums = text.lines().filter(|line| !line.starts_with('#'));
    sums.map(|line| line.rsplit(' ').next().unwrap_or_default().to_string())
        .collect()
}

/// What a receiver writes that gets the frames for which `received` is true.
fn receive(clip: &Clip, received: impl Fn(usize, &Frame) -> bool) -> (Vec<u8>, WriterStats) {
    let (mut writer, mut out) = (StreamWriter::new(), Vec::new());
    let mut first = None;
    // A start just before the wrap checks the arithmetic on the way.
    let base = Serial(u32::MAX - 20);
    for (index, frame) in clip.frames.iter().enumerate() {
        if received(index, frame) {
            let data = frame.data.as_ref().expect("a real clip");
            writer.frame(
                base.plus(index as u32),
                frame.layer(),
                frame.gop_start,
                data,
                &mut out,
            );
            let stats = writer.stats();
            if stats.written > 0 {
                let first = *first.get_or_insert(index);
                assert_eq!(
                    stats.written + stats.repeated,
                    (index - first + 1) as u64,
                    "one picture out for each in"
                );
            }
        }
    }
    writer.finish(&mut out);
    (out, writer.stats())
}

/// Receives, decodes, and checks that each received picture has its position of the source, and that every
/// other repeats one shown before; those before the first received show that one.
fn check(
    test: &str,
    sources: &[(&str, &str)],
    starts_at: impl Fn(&Clip) -> usize,
    received: impl Fn(usize, &Frame) -> bool,
    verdict: impl Fn(&Clip, WriterStats),
) {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in sources {
        let clip = source(name, options);
        let whole: Vec<u8> = clip
            .frames
            .iter()
            .flat_map(|frame| frame.data.clone().unwrap_or_default())
            .collect();
        let original = decode(&format!("{test}-{name}-whole.mpg"), &whole);
        assert_eq!(original.len(), FRAMES);
        let (out, stats) = receive(&clip, &received);
        let name = format!("{test}-{name}.mpg");
        let pictures = decode(&name, &out);
        assert_eq!(
            pictures.len() as u64,
            stats.written + stats.repeated,
            "{name}"
        );
        let original = &original[starts_at(&clip)..];
        let same = pictures.iter().zip(original).filter(|(a, b)| a == b);
        let same = same.count() as u64;
        assert!(same >= stats.written, "{name}: {same} in place, {stats:?}");
        let begin = (0..pictures.len())
            .find(|&at| pictures[at] == original[at])
            .unwrap_or(0);
        assert!(
            pictures[..begin]
                .iter()
                .all(|early| *early == pictures[begin])
        );
        for at in begin..pictures.len() {
            let frozen = pictures[..at].contains(&pictures[at]);
            let in_place = pictures[at] == original[at];
            assert!(
                in_place || frozen,
                "{name}: picture {at} is no repeat of an earlier one"
            );
        }
        verdict(&clip, stats);
    }
}

fn from_start(_: &Clip) -> usize {
    0
}

#[test]
fn a_whole_stream_comes_back_bit_by_bit() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let clip = source(name, options);
        let (out, stats) = receive(&clip, |_, _| true);
        let original = std::fs::read(made(&source_file(name))).expect("it");
        assert_eq!(out[..out.len() - 4], original[..], "{name}");
        assert_eq!(stats.written, FRAMES as u64);
        assert_eq!(decode(&format!("whole-{name}.mpg"), &out).len(), FRAMES);
    }
}

#[test]
fn without_e2_every_anchor_stands_in_its_place() {
    check(
        "no-e2",
        &SOURCES,
        from_start,
        |_, frame| frame.layer() != Layer::E2,
        |clip, stats| {
            assert_eq!(stats.undecodable, 0);
            assert_eq!(stats.written + stats.repeated, clip.frames.len() as u64);
        },
    );
}

#[test]
fn with_the_base_layer_alone_every_i_picture_stands_in_its_place() {
    check(
        "base",
        &SOURCES,
        from_start,
        |_, frame| frame.layer() == Layer::Base,
        |clip, stats| {
            assert_eq!(stats.undecodable, 0);
            assert_eq!(stats.written, clip.summary().pictures.i);
        },
    );
}

#[test]
fn random_losses_are_filled() {
    for seed in 0..6 {
        let lost: Vec<bool> = {
            let mut stream = Stream::new(seed, "loss");
            let p = [0.02, 0.1, 0.3][seed as usize % 3];
            (0..FRAMES).map(|_| stream.chance(p)).collect()
        };
        check(
            &format!("loss-{seed}"),
            &[SOURCES[0], SOURCES[3], SOURCES[4], SOURCES[7]],
            |clip| {
                let start = |i: &usize| clip.frames[*i].gop_start && !lost[*i];
                (0..FRAMES).find(start).unwrap_or(0)
            },
            |index, _| !lost[index],
            |_, stats| assert_eq!(stats.stale + stats.unfilled, 0),
        );
    }
}

#[test]
fn levels_change_at_gop_starts() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in [SOURCES[0], SOURCES[1], SOURCES[4], SOURCES[7]] {
        let clip = source(name, options);
        let levels = [2, 0, 2, 1, 0, 1, 2];
        let mut gop = 0;
        let wanted: Vec<bool> = clip
            .frames
            .iter()
            .enumerate()
            .map(|(index, frame)| {
                gop += usize::from(frame.gop_start && index > 0);
                let level = Level::new(levels[gop % levels.len()]).expect("a level");
                level.includes(frame.layer())
            })
            .collect();
        check(
            "levels",
            &[(name, options)],
            from_start,
            |index, _| wanted[index],
            // After a rise the leading B pictures lack the anchor before: two a rise.
            |_, stats| assert!((1..=6).contains(&stats.undecodable), "{stats:?}"),
        );
    }
}

#[test]
fn a_receiver_that_joins_in_mid_gop_starts_at_the_next_i_picture() {
    for (test, join, level) in [
        ("join-full", 5, Level::FULL),
        ("join-e1", 17, Level::E1),
        ("join-base", 30, Level::BASE),
    ] {
        check(
            test,
            &SOURCES,
            |clip| {
                let start = |i: &usize| clip.frames[*i].gop_start;
                (join..FRAMES).find(start).unwrap_or(0)
            },
            |index, frame| index >= join && level.includes(frame.layer()),
            |_, stats| assert!(stats.skipped > 0 || level == Level::BASE),
        );
    }
}

#[test]
fn a_lost_gop_start_is_bridged_to_the_next_one() {
    check(
        "lost-i",
        &SOURCES,
        from_start,
        |index, frame| index == 0 || !frame.gop_start || index > 30,
        |_, stats| assert!(stats.undecodable >= 20, "{stats:?}"),
    );
}

#[test]
fn closed_gops_need_nothing_of_their_neighbours() {
    let options = "-s 176x144 -g 12 -bf 2 -flags +cgop -sc_threshold 1000000000";
    let (one, two) = (
        format!("-c:v mpeg1video {options}"),
        format!("-c:v mpeg2video {options}"),
    );
    check(
        "closed",
        &[("mpeg1-closed", &one), ("mpeg2-closed", &two)],
        from_start,
        |index, frame| frame.gop_start || !(10..20).contains(&index),
        |_, stats| assert_eq!(stats.undecodable, 0),
    );
}

#[test]
fn program_streams_hold_the_same_frames_as_their_elementary_stream() {
    if !have_ffmpeg() {
        return;
    }
    for (codec, muxer, extension) in [("mpeg1video", "mpeg", "m1v"), ("mpeg2video", "vob", "m2v")] {
        let video = format!("-s 176x144 -c:v {codec} -g 12 -bf 2");
        let plain = encode(&format!("ps-{codec}.{extension}"), &video);
        let name = format!("ps-{codec}.mpg");
        let arguments = format!(
            "-f lavfi -i testsrc2=rate=25 -f lavfi -i sine -frames:v {FRAMES} -shortest {video} \
             -threads 1 -c:a mp2 -f {muxer} OUT"
        );
        let output = ffmpeg(&arguments, &[("OUT", &file(&name))]);
        assert!(output.status.success(), "{output:?}");
        let program = Bytes::from(std::fs::read(file(&name)).expect("a file"));
        let (plain, muxed) = (
            Clip::parse(plain).expect("es"),
            Clip::parse(program.clone()).expect("ps"),
        );
        assert_eq!(muxed.info.container, Container::MpegPs);
        let kinds = |clip: &Clip| clip.frames.iter().map(|f| f.picture).collect::<Vec<_>>();
        assert_eq!(kinds(&muxed), kinds(&plain));
        assert_eq!(muxed.info.truncated, None);
        let cut = Clip::parse(program.slice(..program.len() / 2 + 1_000)).expect("half of it");
        assert!(cut.info.truncated.is_some() && cut.frames.len() < FRAMES);
    }
}

#[test]
fn at_every_level_a_flow_that_ends_has_one_picture_for_each_of_the_source() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in [SOURCES[0], SOURCES[4]] {
        let clip = source(name, options);
        let rate = clip.info.frame_rate;
        for (form, extension) in [(OutputForm::Native, "mpg"), (OutputForm::Transport, "ts")] {
            for level in [Level::BASE, Level::E1, Level::FULL] {
                let mut writer = FlowWriter::new(clip.info.codec, rate, form);
                let (mut out, mut ends) = (Vec::new(), Vec::new());
                let frames = clip.frames.iter().enumerate();
                for (index, frame) in frames.filter(|it| level.includes(it.1.layer())) {
                    let received = Received {
                        seq: Serial(index as u32),
                        layer: frame.layer(),
                        gop_start: frame.gop_start,
                        sound: frame.sound,
                        missing: PerLayer::default(),
                        emitted: Time::ZERO + rate.due(index as u64),
                        data: frame.data.as_ref().expect("a real clip"),
                    };
                    writer.frame(&received, &mut out, &mut ends);
                }
                writer.end_at(Serial(FRAMES as u32 - 1), &mut out, &mut ends);
                writer.end_at(Serial(3), &mut out, &mut ends);
                writer.finish(&mut out);
                let stats = writer.stats();
                assert_eq!(
                    stats.written + stats.repeated,
                    FRAMES as u64,
                    "{name} {level}"
                );
                let pictures = decode(&format!("ends-{name}-{level}.{extension}"), &out);
                assert_eq!(pictures.len(), FRAMES, "{name} {level} {form:?}");
            }
        }
    }
}
