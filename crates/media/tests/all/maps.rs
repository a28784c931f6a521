//! The promise of a map: at each level every picture decodes as it does in the whole stream, and the decoder has nothing to
//! say.
//!
//! A real clip is encoded in many ways into transport streams. What a receiver writes at each level, and with levels that
//! change at key frames, is decoded by ffmpeg; each picture is compared with the one of the same time of the whole stream.
//! A handful of encoders run always, all of them with `LAYERCAST_LONG=1`.
//!
//! Skipped with a note where ffmpeg or the clip of `make clips` is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use layercast_core::{Layer, Level, Media, PerLayer, Serial, Time};
use layercast_media::{Advice, Clip, FlowWriter, LevelSummary, Map, OutputForm, Picture, Received};

use crate::common::{self, film, is_long, is_wanted, shares};

/// An encoder: its name, its options of ffmpeg, and the least pictures per second of the base level.
pub struct Encoder {
    pub name: &'static str,
    pub options: &'static str,
    base_fps: f64,
    /// It runs always.
    quick: bool,
}

const fn quick(name: &'static str, options: &'static str, base_fps: f64) -> Encoder {
    Encoder {
        name,
        options,
        base_fps,
        quick: true,
    }
}

const fn long(name: &'static str, options: &'static str, base_fps: f64) -> Encoder {
    Encoder {
        quick: false,
        ..quick(name, options, base_fps)
    }
}

/// Options of x264 with which it makes three levels; advice names them.
const STEPS: &str = "-c:v libx264 -preset veryfast -bf 2 -g 48 -x264-params \
                     scenecut=0:b-adapt=0:b-pyramid=none:mbtree=0:pbratio=1.0";

pub const ENCODERS: [Encoder; 50] = [
    // Whose shares the design of layers was measured with.
    quick("steps", STEPS, 8.0),
    quick(
        "bf2",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -x264-params b-pyramid=none",
        8.0,
    ),
    quick("pyramid", "-c:v libx264 -preset veryfast -g 50 -bf 3", 8.0),
    quick(
        "zerolatency",
        "-c:v libx264 -preset veryfast -g 25 -tune zerolatency",
        25.0,
    ),
    quick(
        "x265-temporal",
        "-c:v libx265 -preset ultrafast -g 25 -bf 3 -x265-params temporal-layers=1:log-level=none",
        8.0,
    ),
    quick(
        "x265-open",
        "-c:v libx265 -preset ultrafast -g 25 -x265-params log-level=none:open-gop=1",
        8.0,
    ),
    quick(
        "open",
        "-c:v libx264 -preset veryfast -g 25 -bf 3 -x264-params open-gop=1",
        8.0,
    ),
    quick(
        "interlaced",
        "-c:v libx264 -preset veryfast -g 24 -bf 2 -flags +ildct+ilme -x264-params tff=1",
        8.0,
    ),
    long("ultrafast", "-c:v libx264 -preset ultrafast -g 25", 25.0),
    long(
        "ultrafast-bf2",
        "-c:v libx264 -preset ultrafast -g 25 -bf 2",
        8.0,
    ),
    long("superfast", "-c:v libx264 -preset superfast -g 25", 8.0),
    long("faster", "-c:v libx264 -preset faster -g 25", 8.0),
    long("fast", "-c:v libx264 -preset fast -g 25", 8.0),
    long("medium", "-c:v libx264 -preset medium -g 50", 8.0),
    long("slow", "-c:v libx264 -preset slow -g 25", 8.0),
    long(
        "slow-bf4",
        "-c:v libx264 -preset slow -g 40 -bf 4 -x264-params b-adapt=0",
        8.0,
    ),
    long("bf0", "-c:v libx264 -preset fast -g 25 -bf 0", 25.0),
    long("bf1", "-c:v libx264 -preset fast -g 25 -bf 1", 8.0),
    long(
        "bf3-flat",
        "-c:v libx264 -preset veryfast -g 24 -bf 3 -x264-params b-adapt=0:b-pyramid=none",
        8.0,
    ),
    long(
        "bf4-flat",
        "-c:v libx264 -preset veryfast -g 25 -bf 4 -x264-params b-adapt=0:b-pyramid=none",
        8.0,
    ),
    long(
        "bf8-flat",
        "-c:v libx264 -preset veryfast -g 50 -bf 8 -x264-params b-adapt=0:b-pyramid=none",
        8.0,
    ),
    long(
        "strict",
        "-c:v libx264 -preset medium -g 25 -bf 3 -x264-params b-pyramid=strict",
        8.0,
    ),
    long(
        "strict-bf5",
        "-c:v libx264 -preset medium -g 25 -bf 5 -x264-params b-pyramid=strict:b-adapt=0",
        8.0,
    ),
    long(
        "open-flat",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -x264-params open-gop=1:b-pyramid=none",
        8.0,
    ),
    long(
        "open-bluray",
        "-c:v libx264 -preset medium -g 25 -bf 3 -x264-params bluray-compat=1:open-gop=1:b-pyramid=strict",
        8.0,
    ),
    long(
        "interlaced-bff",
        "-c:v libx264 -preset medium -g 25 -bf 3 -flags +ildct+ilme -x264-params bff=1",
        8.0,
    ),
    long(
        "fake-interlaced",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -x264-params fake-interlaced=1",
        8.0,
    ),
    long(
        "slices",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -slices 4",
        8.0,
    ),
    long(
        "slice-max",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -x264-params slice-max-size=800",
        8.0,
    ),
    long(
        "weightp",
        "-c:v libx264 -preset medium -g 25 -bf 3 -weightp 2 -vf fade=in:0:40",
        8.0,
    ),
    long(
        "no-weight",
        "-c:v libx264 -preset medium -g 25 -bf 3 -weightp 0 -weightb 0",
        8.0,
    ),
    long(
        "cavlc-baseline",
        "-c:v libx264 -profile:v baseline -g 25",
        25.0,
    ),
    long(
        "refs16",
        "-c:v libx264 -preset medium -g 50 -bf 3 -refs 16",
        8.0,
    ),
    long(
        "aud-hrd",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -aud 1 -b:v 600k -maxrate 600k -bufsize 300k -x264-params nal-hrd=cbr",
        8.0,
    ),
    long(
        "x265",
        "-c:v libx265 -preset ultrafast -g 25 -x265-params log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "x265-flat",
        "-c:v libx265 -preset veryfast -g 25 -bf 4 -x265-params b-pyramid=0:b-adapt=0:log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "x265-medium",
        "-c:v libx265 -preset fast -g 50 -x265-params log-level=none",
        8.0,
    ),
    long(
        "x265-temporal-open",
        "-c:v libx265 -preset veryfast -g 25 -bf 4 -x265-params temporal-layers=1:open-gop=1:log-level=none",
        8.0,
    ),
    long(
        "x265-zerolatency",
        "-c:v libx265 -preset ultrafast -tune zerolatency -g 25 -x265-params log-level=none",
        25.0,
    ),
    long(
        "intra-refresh",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -x264-params intra-refresh=1",
        8.0,
    ),
    long("veryslow", "-c:v libx264 -preset veryslow -g 50", 8.0),
    long(
        "animation",
        "-c:v libx264 -preset medium -tune animation -g 25",
        8.0,
    ),
    long(
        "ten-bit",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -pix_fmt yuv420p10le",
        8.0,
    ),
    long(
        "4:4:4",
        "-c:v libx264 -preset veryfast -g 25 -bf 3 -pix_fmt yuv444p",
        8.0,
    ),
    long(
        "sliced-threads",
        "-c:v libx264 -preset veryfast -tune zerolatency -g 25 -bf 2 -slices 4",
        8.0,
    ),
    long(
        "one-key-frame",
        "-c:v libx264 -preset fast -g 9999 -bf 3 -x264-params keyint=infinite",
        8.0,
    ),
    long(
        "constrained-intra",
        "-c:v libx264 -preset veryfast -g 25 -bf 2 -x264-params constrained-intra=1",
        8.0,
    ),
    long(
        "interlaced-pyramid",
        "-c:v libx264 -preset medium -g 24 -bf 3 -flags +ildct+ilme -x264-params tff=1:b-pyramid=normal:open-gop=0",
        8.0,
    ),
    long(
        "x265-intra-refresh",
        "-c:v libx265 -preset ultrafast -g 25 -bf 2 -x265-params intra-refresh=1:log-level=none",
        8.0,
    ),
    long(
        "x265-slow",
        "-c:v libx265 -preset slow -g 50 -x265-params log-level=none",
        8.0,
    ),
];

/// Pictures that lead a GOP, at most.
const MOST_LEADING: u64 = 4;

/// Three seconds of the film with a cut between two scenes, encoded so.
pub fn encoded(film: &Path, encoder: &Encoder) -> Vec<u8> {
    let name = format!("maps-{}.ts", encoder.name);
    common::once(&name, || encode(film, encoder, &common::file(&name)))
}

fn encode(film: &Path, encoder: &Encoder, out: &Path) -> Vec<u8> {
    // The last scale is the one that counts: some encoders have a filter of their own.
    let has_filter = encoder.options.contains("-vf ");
    let scale = if has_filter { "" } else { "-vf scale=192:108" };
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-y", "-v", "error", "-ss", "2"])
        .arg("-i")
        .arg(film)
        .args("-frames:v 80 -r 25 -an -s 192x108 -threads 1".split(' '))
        .args(scale.split_whitespace())
        .args(encoder.options.split_whitespace())
        .arg(out)
        .status();
    assert!(made.expect("ffmpeg starts").success(), "{}", encoder.name);
    std::fs::read(out).expect("ffmpeg wrote it")
}

/// What a receiver writes that joins at the GOP `first` and whose level at each GOP is this.
fn at_levels(clip: &Clip, first: usize, level_of: impl Fn(usize) -> Level) -> (Vec<u8>, u64) {
    let mut writer = FlowWriter::new(Media::MpegTs, clip.info.frame_rate, OutputForm::Native);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    // Of pictures and of sound.
    let mut missing = [PerLayer::default(); 2];
    let (mut gop, mut level) = (0, level_of(0));
    for (index, frame) in clip.frames.iter().enumerate() {
        if frame.gop_start {
            level = level_of(gop);
            gop += 1;
        }
        if gop <= first {
            continue;
        }
        if !level.includes(frame.layer()) {
            missing[usize::from(frame.sound)][frame.layer()] += 1;
            continue;
        }
        let emitted = frame.time.unwrap_or_default();
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: std::mem::take(&mut missing[usize::from(frame.sound)]),
            emitted: Time::ZERO + emitted,
            data: frame.data.as_ref().expect("a real clip"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    writer.finish(&mut out);
    (out, writer.stats().undecodable)
}

/// The pictures of a stream by their time.
fn pictures(stream: &[u8], name: &str) -> BTreeMap<i64, String> {
    let decoded = common::decode_timed("mpegts", stream);
    let count = decoded.len();
    let found: BTreeMap<i64, String> = decoded.into_iter().collect();
    assert_eq!(found.len(), count, "{name}: each has a time of its own");
    found
}

fn count(clip: &Clip, level: Level) -> usize {
    let frames = clip.frames.iter();
    frames
        .filter(|it| it.picture != Picture::Data && level.includes(it.layer()))
        .count()
}

/// Each picture of `found` is the one of its time in `whole`.
fn assert_same(found: &BTreeMap<i64, String>, whole: &BTreeMap<i64, String>, name: &str) {
    for (time, sum) in found {
        assert_eq!(whole.get(time), Some(sum), "{name}: the picture at {time}");
    }
}

fn keeps_its_promise(film: &Path, encoder: &Encoder, map: Map) -> Vec<LevelSummary> {
    let data = encoded(film, encoder);
    let clip = Clip::of_program(Bytes::from(data.clone()), None, map).expect("a clip");
    let name = format!("{} {map}", encoder.name);
    let whole = pictures(&data, &name);
    assert_eq!(whole.len(), count(&clip, Level::FULL), "{name}");
    let levels = [Level::BASE, Level::E1, Level::FULL];
    for level in levels {
        let name = format!("{name} {level}");
        let (out, undecodable) = at_levels(&clip, 0, |_| level);
        assert_eq!(undecodable, 0, "{name}");
        let found = pictures(&out, &name);
        assert_eq!(found.len(), count(&clip, level), "{name}");
        assert_same(&found, &whole, &name);
    }
    // Up and down at each key frame: what leads an open GOP may be left out, and nothing else.
    let (out, undecodable) = at_levels(&clip, 0, |gop| levels[[2, 0, 1, 2, 0, 2, 1, 0][gop % 8]]);
    let found = pictures(&out, &name);
    assert_same(&found, &whole, &name);
    let may_lead = encoder.name.contains("open") || encoder.name.starts_with("x265");
    assert!(
        undecodable == 0 || may_lead,
        "{name}: {undecodable} left out"
    );
    // Joined later: the pictures that lead the first GOP are left out, and no other.
    let mut starts = clip.frames.iter().enumerate().filter(|it| it.1.gop_start);
    if let Some((second, _)) = starts.nth(1) {
        let rest = clip.frames[second..].iter();
        let left = rest.filter(|it| it.picture != Picture::Data).count();
        let (out, undecodable) = at_levels(&clip, 1, |_| Level::FULL);
        let found = pictures(&out, &name);
        assert_same(&found, &whole, &name);
        let most = if may_lead { MOST_LEADING } else { 0 };
        assert!(undecodable <= most, "{name}: {undecodable} left out");
        assert_eq!(found.len() + undecodable as usize, left, "{name}");
    }
    clip.levels()
}

#[test]
fn every_level_decodes_as_the_whole_stream_does() {
    let Some(film) = film() else { return };
    let wanted = |it: &&Encoder| is_wanted(it.name, it.quick);
    for encoder in ENCODERS.iter().filter(wanted) {
        let maps: &[Map] = match is_long() {
            true => &[Map::Auto, Map::Ipb, Map::Split],
            false => &[Map::Auto],
        };
        for &map in maps {
            // The key frames alone of open GOPs of H.264 have gaps in frame_num, of which a decoder tells.
            let has_gaps = encoder.options.contains("libx264") && encoder.name.contains("open");
            if map == Map::Ipb && has_gaps {
                continue;
            }
            let levels = keeps_its_promise(&film, encoder, map);
            if map == Map::Auto {
                let base = &levels[0];
                println!("{:18} {}", encoder.name, shares(&levels));
                assert!(base.fps >= encoder.base_fps, "{}: {base:?}", encoder.name);
            }
        }
    }
}

#[test]
fn a_stream_without_steps_is_told_with_the_options_that_make_them() {
    let Some(film) = film() else { return };
    let named = |name: &str| ENCODERS.iter().find(|it| it.name == name).expect("it");
    let of = |name: &str, map| {
        let data = encoded(&film, named(name));
        Clip::of_program(Bytes::from(data), None, map).expect("a clip")
    };
    let all_base = of("zerolatency", Map::Auto);
    assert!(all_base.frames.iter().all(|it| it.layer() == Layer::Base));
    assert!(all_base.advice().contains(&Advice::NoSteps {
        media: Media::MpegTs
    }));
    let said = Advice::NoSteps {
        media: Media::MpegTs,
    }
    .to_string();
    let options = STEPS.strip_prefix("-c:v libx264 ").expect("an encoder");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&said).contains(&words(options)), "{said}");
    // The map of METS has a step, with a base of one picture a second.
    let by_kind = of("zerolatency", Map::Ipb).levels();
    assert_eq!(by_kind.len(), 2);
    assert!(
        by_kind[0].fps < 2.0 && by_kind[0].share_percent < 60.0,
        "{by_kind:?}"
    );
    // With the options that are named each level is of use.
    let steps = of("steps", Map::Auto);
    let levels = steps.levels();
    assert_eq!(levels.len(), 3);
    assert!(levels[0].share_percent < 80.0, "{levels:?}");
    assert!(levels[1].share_percent < 92.0, "{levels:?}");
    assert!((levels[1].fps - 17.0).abs() < 1.0, "{levels:?}");
    assert_eq!(steps.advice(), []);
}

#[test]
fn maps_that_do_not_fit_the_codec_are_refused() {
    let Some(film) = film() else { return };
    let mpeg = Bytes::from(std::fs::read(&film).expect("the clip"));
    let encoder = ENCODERS.iter().find(|it| it.name == "bf2").expect("it");
    let h264 = Bytes::from(encoded(&film, encoder));
    let refused = |data: &Bytes, map: Map| match Clip::of_program(data.clone(), None, map) {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    for map in Map::ALL {
        let said = refused(&mpeg, map);
        let fits = matches!(map, Map::Auto | Map::Ipb);
        assert_eq!(said.is_none(), fits, "{map}: {said:?}");
        if let Some(said) = said {
            assert!(
                said.contains(&format!("--map {map}")) && said.contains("--map auto"),
                "{said}"
            );
        }
    }
    assert!(refused(&h264, Map::Temporal).is_some_and(|it| it.contains("no temporal layers")));
    assert_eq!(refused(&h264, Map::Split), None);
}
