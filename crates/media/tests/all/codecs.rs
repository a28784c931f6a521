//! The promise of the maps for elementary streams: at each level every picture decodes as it does in the whole stream, and
//! the decoder has nothing to say.
//!
//! A test picture is encoded in many ways. What a receiver writes at each level, and with levels that change at key frames, is
//! decoded by ffmpeg; its pictures are those of the whole stream, in order. A handful of encoders run always, all of them
//! with `LAYERCAST_LONG=1`.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use layercast_core::{Layer, Level, Media, PerLayer, Serial, Span, Time};
use layercast_media::{
    Clip, FlowWriter, Frame, Ingest, Map, OutputForm, Picture, Received, RtpReceiver, RtpSession,
    session_description,
};

use crate::common::{self, decode, have_ffmpeg, is_long, is_wanted, shares};

/// An encoder: its name, which is that of its file, ffmpeg's format of that, its options, and the least pictures per second
/// of the base level.
pub struct Encoder {
    pub name: &'static str,
    pub format: &'static str,
    pub options: &'static str,
    base_fps: f64,
    /// It runs always.
    quick: bool,
}

const fn quick(
    name: &'static str,
    format: &'static str,
    options: &'static str,
    base_fps: f64,
) -> Encoder {
    Encoder {
        name,
        format,
        options,
        base_fps,
        quick: true,
    }
}

const fn long(
    name: &'static str,
    format: &'static str,
    options: &'static str,
    base_fps: f64,
) -> Encoder {
    Encoder {
        quick: false,
        ..quick(name, format, options, base_fps)
    }
}

const FRAMES: usize = 80;

pub const ENCODERS: [Encoder; 29] = [
    quick(
        "temporal.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -g 25 -bf 3 -x265-params temporal-layers=1:log-level=none",
        8.0,
    ),
    quick(
        "open.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -g 25 -x265-params log-level=none:open-gop=1",
        8.0,
    ),
    quick(
        "slices-aud.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -g 25 -bf 2 -x265-params slices=3:aud=1:hrd=1:vbv-maxrate=900:vbv-bufsize=900:log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "pyramid.h265",
        "hevc",
        "-c:v libx265 -preset fast -g 50 -x265-params log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "flat.h265",
        "hevc",
        "-c:v libx265 -preset veryfast -g 25 -bf 4 -x265-params b-pyramid=0:b-adapt=0:log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "temporal-open.h265",
        "hevc",
        "-c:v libx265 -preset veryfast -g 25 -bf 4 -x265-params temporal-layers=1:open-gop=1:log-level=none",
        8.0,
    ),
    long(
        "zerolatency.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -tune zerolatency -g 25 -x265-params log-level=none",
        25.0,
    ),
    long(
        "ten-bit.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -g 25 -pix_fmt yuv422p10le -x265-params log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "interlaced.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -g 24 -x265-params interlace=tff:log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "scaling.h265",
        "hevc",
        "-c:v libx265 -preset veryfast -g 25 -x265-params scaling-list=default:wpp=0:log-level=none:open-gop=0",
        8.0,
    ),
    long(
        "lossless-444.h265",
        "hevc",
        "-c:v libx265 -preset ultrafast -g 25 -pix_fmt yuv444p -x265-params lossless=1:log-level=none:open-gop=0",
        8.0,
    ),
    quick(
        "svt.av1.ivf",
        "ivf",
        "-c:v libsvtav1 -preset 10 -g 25 -b:v 300k",
        8.0,
    ),
    quick(
        "aom.obu",
        "obu",
        "-c:v libaom-av1 -cpu-used 8 -g 25 -b:v 300k",
        8.0,
    ),
    quick(
        "three-layers.vp9.ivf",
        "ivf",
        "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -b:v 200k -minrate 200k -maxrate 200k -lag-in-frames 0 -error-resilient 1 -ts-parameters TS",
        6.0,
    ),
    quick(
        "three-layers.vp8.ivf",
        "ivf",
        "-c:v libvpx -deadline realtime -cpu-used 8 -g 25 -b:v 200k -minrate 200k -maxrate 200k -lag-in-frames 0 -error-resilient 1 -ts-parameters TS",
        6.0,
    ),
    long(
        "aom.av1.ivf",
        "ivf",
        "-c:v libaom-av1 -cpu-used 8 -g 50 -b:v 300k",
        8.0,
    ),
    long(
        "realtime.av1.ivf",
        "ivf",
        "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 25 -b:v 300k",
        25.0,
    ),
    long(
        "svt-preset-6.av1.ivf",
        "ivf",
        "-c:v libsvtav1 -preset 6 -g 40 -b:v 300k",
        8.0,
    ),
    long(
        "vp9.ivf",
        "ivf",
        "-c:v libvpx-vp9 -cpu-used 8 -g 25 -b:v 300k",
        25.0,
    ),
    long(
        "vp8.ivf",
        "ivf",
        "-c:v libvpx -cpu-used 8 -g 25 -b:v 300k -auto-alt-ref 1 -lag-in-frames 10",
        25.0,
    ),
    long(
        "tiles.av1.ivf",
        "ivf",
        "-c:v libaom-av1 -cpu-used 8 -g 25 -b:v 300k -tiles 2x2",
        8.0,
    ),
    long(
        "ten-bit.av1.ivf",
        "ivf",
        "-c:v libsvtav1 -preset 10 -g 25 -pix_fmt yuv420p10le",
        8.0,
    ),
    long(
        "resilient.av1.ivf",
        "ivf",
        "-c:v libaom-av1 -cpu-used 8 -g 25 -b:v 300k -aom-params error-resilient=1",
        8.0,
    ),
    long(
        "screen.av1.ivf",
        "ivf",
        "-c:v libaom-av1 -cpu-used 8 -g 25 -b:v 300k -aom-params tune-content=screen:enable-palette=1",
        8.0,
    ),
    long(
        "superres.av1.ivf",
        "ivf",
        "-c:v libsvtav1 -preset 10 -g 25 -svtav1-params superres-mode=1:superres-denom=12",
        8.0,
    ),
    long(
        "grain.av1.ivf",
        "ivf",
        "-c:v libaom-av1 -cpu-used 8 -g 25 -b:v 300k -denoise-noise-level 25",
        8.0,
    ),
    long(
        "low-delay.av1.ivf",
        "ivf",
        "-c:v libsvtav1 -preset 10 -g 25 -b:v 300k -svtav1-params pred-struct=1",
        8.0,
    ),
    long(
        "open.av1.ivf",
        "ivf",
        "-c:v libsvtav1 -preset 10 -g 25 -b:v 300k -svtav1-params irefresh-type=1",
        8.0,
    ),
    long(
        "rav1e.av1.ivf",
        "ivf",
        "-c:v librav1e -speed 10 -g 25 -b:v 300k",
        8.0,
    ),
];

/// Three temporal layers of libvpx.
const TS: &str = "ts_number_layers=3:ts_target_bitrate=100,150,200:ts_rate_decimator=4,2,1:ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3";

pub const LEVELS: [Level; 3] = [Level::BASE, Level::E1, Level::FULL];

pub fn encoded(encoder: &Encoder) -> Vec<u8> {
    let name = format!("codecs-{}", encoder.name);
    common::once(&name, || {
        let size = match encoder.options.contains("pix_fmt") {
            true => "-s 176x144",
            false => "-s 176x144 -pix_fmt yuv420p",
        };
        let options = format!(
            "-frames:v {FRAMES} {size} {} -f {}",
            encoder.options.replace("TS", TS),
            encoder.format
        );
        common::encode(&name, &options)
    })
}

/// The forms in which a receiver writes it, and ffmpeg's names of them.
fn forms(encoder: &Encoder) -> Vec<(OutputForm, &'static str)> {
    match encoder.format {
        "hevc" => vec![
            (OutputForm::Native, "hevc"),
            (OutputForm::Transport, "mpegts"),
        ],
        _ if encoder.options.contains("av1") => {
            vec![(OutputForm::Native, "ivf"), (OutputForm::Obu, "obu")]
        }
        format => vec![(OutputForm::Native, format)],
    }
}

/// The maps that fit it.
fn maps(encoder: &Encoder) -> &'static [Map] {
    let has = |text| encoder.options.contains(text);
    match (has("libvpx-vp9"), has("libvpx"), has("TS")) {
        (true, _, true) => &[Map::Vp9Ts3, Map::Auto, Map::Ipb],
        (_, true, true) => &[Map::Vp8Ts3, Map::Auto, Map::Ipb],
        (_, true, false) => &[Map::Auto, Map::Ipb],
        _ => &[Map::Auto, Map::Ipb, Map::Split],
    }
}

/// What a receiver writes whose level at each key frame is this, how many frames it got, and how many of them it leaves out.
pub fn at_levels(
    clip: &Clip,
    form: OutputForm,
    level_of: impl Fn(usize) -> Level,
) -> (Vec<u8>, usize, u64) {
    let (mut gop, mut level) = (0, level_of(0));
    received(clip, form, |_, frame| {
        if frame.gop_start {
            level = level_of(gop);
            gop += 1;
        }
        level.includes(frame.layer())
    })
}

/// The same of one that gets these frames.
fn received(
    clip: &Clip,
    form: OutputForm,
    mut gets: impl FnMut(usize, &Frame) -> bool,
) -> (Vec<u8>, usize, u64) {
    let mut writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, form);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut missing = PerLayer::default();
    let mut sent = 0;
    for (index, frame) in clip.frames.iter().enumerate() {
        if !gets(index, frame) {
            missing[frame.layer()] += 1;
            continue;
        }
        sent += 1;
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: std::mem::take(&mut missing),
            emitted: Time::ZERO + clip.info.frame_rate.due(index as u64),
            data: frame.data.as_ref().expect("a real clip"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    writer.finish(&mut out);
    (out, sent, writer.stats().undecodable)
}

/// Each picture of `found` is one of `whole`, in order.
pub fn assert_within(found: &[String], whole: &[String], name: &str) {
    let mut rest = whole.iter();
    for (at, picture) in found.iter().enumerate() {
        let is_there = rest.any(|known| known == picture);
        assert!(is_there, "{name}: picture {at} is not one of the source");
    }
}

fn keeps_its_promise(encoder: &Encoder, map: Map) {
    let data = encoded(encoder);
    let clip = Clip::of_program(Bytes::from(data.clone()), None, map).expect("a clip");
    let name = format!("{} {map}", encoder.name);
    let whole = decode(encoder.format, &data);
    let pictures = |it: &Clip| {
        let frames = it.frames.iter();
        frames.filter(|it| it.picture != Picture::Data).count()
    };
    assert_eq!((whole.len(), pictures(&clip)), (FRAMES, FRAMES), "{name}");
    assert_eq!((clip.info.width, clip.info.height), (176, 144), "{name}");
    assert_eq!(clip.info.frame_rate.as_f64(), 25.0, "{name}");
    for level in LEVELS {
        let name = format!("{name} {level}");
        for (form, format) in forms(encoder) {
            let (out, sent, undecodable) = at_levels(&clip, form, |_| level);
            assert_eq!(undecodable, 0, "{name}");
            let found = decode(format, &out);
            assert_eq!(found.len(), sent, "{name} {format}");
            assert_within(&found, &whole, &name);
        }
    }
    // Up and down at each key frame: what leads an open GOP may be left out, and nothing else.
    let level = |gop: usize| LEVELS[[2, 0, 1, 2, 0, 2, 1, 0][gop % 8]];
    let (form, format) = forms(encoder)[0];
    let (out, sent, undecodable) = at_levels(&clip, form, level);
    let found = decode(format, &out);
    assert_eq!(found.len() as u64, sent as u64 - undecodable, "{name}");
    assert_within(&found, &whole, &name);
    assert!(
        undecodable == 0 || encoder.name.contains("open"),
        "{name}: {undecodable} left out"
    );
    let levels = clip.levels();
    if map == maps(encoder)[0] {
        println!("{:20} {}", encoder.name, shares(&levels));
        assert!(levels[0].fps >= encoder.base_fps, "{name}: {levels:?}");
    }
}

#[test]
fn every_level_decodes_as_the_whole_stream_does() {
    if !have_ffmpeg() {
        return;
    }
    let wanted = |it: &&Encoder| is_wanted(it.name, it.quick);
    for encoder in ENCODERS.iter().filter(wanted) {
        let maps = maps(encoder);
        for &map in if is_long() { maps } else { &maps[..1] } {
            keeps_its_promise(encoder, map);
        }
    }
}

/// The NAL units of a stream, with start codes.
fn nals(data: &[u8]) -> Vec<&[u8]> {
    let is_start = |&at: &usize| data[at..].starts_with(&[0, 0, 1]);
    let mut starts: Vec<usize> = (0..data.len()).filter(is_start).collect();
    starts.push(data.len());
    starts.windows(2).map(|it| &data[it[0]..it[1]]).collect()
}

#[test]
fn starts_of_h265_get_the_parameter_sets_that_the_stream_has_once() {
    if !have_ffmpeg() {
        return;
    }
    let data = encoded(&ENCODERS[0]);
    let whole = Clip::parse(Bytes::from(data.clone())).expect("a clip");
    let is_set = |nal: &[u8]| (32..=34).contains(&(nal[3] >> 1));
    let mut sets = 0;
    let once = nals(&data).into_iter().filter(|nal| {
        sets += u32::from(is_set(nal));
        !is_set(nal) || sets <= 3
    });
    let once: Vec<u8> = once.flatten().copied().collect();
    assert!(once.len() < data.len());
    let clip = Clip::parse(Bytes::from(once)).expect("a clip");
    assert_eq!(clip.frames.len(), whole.frames.len());
    let starts = clip.frames.iter().filter(|it| it.gop_start);
    let mut count = 0;
    for frame in starts {
        count += 1;
        let data = frame.data.as_deref().expect("a real clip");
        let kinds: Vec<u8> = nals(data).iter().map(|nal| nal[3] >> 1).collect();
        assert_eq!(kinds[..3], [32, 33, 34]);
    }
    assert_eq!(count, 4);
    // A receiver may join at any of them.
    let second = clip.frames.iter().rposition(|it| it.gop_start);
    let rest = Clip {
        frames: clip.frames[second.expect("starts")..].to_vec(),
        ..clip
    };
    let (out, sent, _) = at_levels(&rest, OutputForm::Native, |_| Level::FULL);
    assert_eq!(decode("hevc", &out).len(), sent);
}

#[test]
fn streams_that_begin_anywhere_or_lack_their_sets_are_told() {
    if !have_ffmpeg() {
        return;
    }
    let data = encoded(&ENCODERS[0]);
    // Behind the first slice: it begins with one of a picture between two starts.
    let cut: Vec<u8> = nals(&data)[12..].concat();
    let clip = Clip::parse(Bytes::from(cut)).expect("a clip");
    assert_eq!(clip.frames.len(), FRAMES - 25);
    let no_sets: Vec<u8> = [
        &[0, 0, 0, 1, 0x46, 1, 0x50][..],
        &nals(&data)
            .into_iter()
            .filter(|nal| !(32..=34).contains(&(nal[3] >> 1)))
            .collect::<Vec<_>>()
            .concat(),
    ]
    .concat();
    let error = Clip::parse(Bytes::from(no_sets))
        .expect_err("no sets")
        .to_string();
    assert!(
        error.contains("H.265") && error.contains("VPS, SPS and PPS") && error.contains("-f hevc"),
        "{error}"
    );
}

/// After any loss no broken picture is written: what refers to a lost picture is left out, and nothing else.
#[test]
fn what_refers_to_a_lost_picture_is_left_out() {
    if !have_ffmpeg() {
        return;
    }
    let all = std::env::var("LAYERCAST_LONG").is_ok_and(|value| value == "1");
    let named = |name: &str| ENCODERS.iter().find(|it| it.name == name);
    let names = [
        "temporal.h265",
        "open.h265",
        "svt.av1.ivf",
        "three-layers.vp9.ivf",
    ];
    for encoder in names.into_iter().filter_map(named) {
        let data = encoded(encoder);
        let whole = decode(encoder.format, &data);
        let clip = Clip::of_program(Bytes::from(data), None, maps(encoder)[0]).expect("a clip");
        let mut left_out = Vec::new();
        for lost in (1..40).step_by(if all { 1 } else { 5 }) {
            let name = format!("{} without {lost}", encoder.name);
            let layer = clip.frames[lost].layer();
            for (form, format) in forms(encoder) {
                let (out, sent, undecodable) = received(&clip, form, |at, _| at != lost);
                let found = decode(format, &out);
                assert_eq!(found.len() as u64, sent as u64 - undecodable, "{name}");
                assert_within(&found, &whole, &name);
                if !clip.frames[lost].gop_start {
                    left_out.push((layer, lost, undecodable));
                }
            }
        }
        // Nothing refers to pictures of E2; of AV1 and VP9 that shows once one came.
        let known = left_out.iter().filter(|it| it.1 >= 10);
        let of = |layer| known.clone().filter(move |it| it.0 == layer);
        assert!(of(Layer::E2).all(|it| it.2 == 0), "{left_out:?}");
        assert!(of(Layer::Base).any(|it| it.2 > 5), "{left_out:?}");
    }
}

/// The OBUs of a temporal unit, which have sizes and no extensions.
fn obus(unit: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut found) = (unit, Vec::new());
    while let [_, after @ ..] = rest {
        let digits = after.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let size = after[..digits].iter().rev();
        let len = size.fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7F));
        let (obu, behind) = rest.split_at(1 + digits + len);
        found.push(obu.to_vec());
        rest = behind;
    }
    found
}

/// A stream of AV1 whose pictures that no others refer to are of the temporal layers 1 and 2.
fn with_temporal_layers(data: Vec<u8>) -> Vec<u8> {
    let clip = Clip::of_program(Bytes::from(data.clone()), None, Map::Split).expect("a clip");
    let mut out = data[..32].to_vec();
    for (index, frame) in clip.frames.iter().enumerate() {
        let mut unit = Vec::new();
        for obu in obus(frame.data.as_deref().expect("a real clip")) {
            let is_frame = matches!(obu[0] >> 3, 3 | 6);
            unit.push(obu[0] | if is_frame { 4 } else { 0 });
            if is_frame {
                unit.push((frame.layer() as u8) << 5);
            }
            unit.extend_from_slice(&obu[1..]);
        }
        out.extend_from_slice(&(unit.len() as u32).to_le_bytes());
        out.extend_from_slice(&(index as u64).to_le_bytes());
        out.extend_from_slice(&unit);
    }
    out
}

#[test]
fn temporal_layers_of_av1_are_levels() {
    if !have_ffmpeg() {
        return;
    }
    let encoder = ENCODERS.iter().find(|it| it.name == "svt.av1.ivf");
    let encoder = encoder.expect("it");
    let plain = encoded(encoder);
    let layers = |data: &[u8], map: Map| -> Result<Vec<Layer>, String> {
        let clip = Clip::of_program(Bytes::copy_from_slice(data), None, map);
        let clip = clip.map_err(|error| error.to_string())?;
        Ok(clip.frames.iter().map(Frame::layer).collect())
    };
    let refused = layers(&plain, Map::Temporal).expect_err("none");
    assert!(refused.contains("no temporal layers"), "{refused}");
    let data = with_temporal_layers(plain.clone());
    let split = layers(&plain, Map::Split);
    assert_eq!(layers(&data, Map::Auto), split);
    assert_eq!(layers(&data, Map::Temporal), split);
    let whole = decode("ivf", &data);
    assert_eq!(whole, decode("ivf", &plain));
    let clip = Clip::parse(Bytes::from(data)).expect("a clip");
    for level in LEVELS {
        let (out, sent, undecodable) = at_levels(&clip, OutputForm::Native, |_| level);
        let found = decode("ivf", &out);
        assert_eq!((found.len(), undecodable), (sent, 0), "{level}");
        assert_within(&found, &whole, "temporal layers");
    }
}

/// The length of each part in front of it.
fn sized(parts: &[Vec<u8>]) -> Vec<u8> {
    let leb = |mut len: usize| {
        let mut out = Vec::new();
        while len > 0x7F {
            out.push(len as u8 | 0x80);
            len >>= 7;
        }
        out.push(len as u8);
        out
    };
    let sized = parts.iter().map(|it| [leb(it.len()), it.clone()].concat());
    sized.collect::<Vec<_>>().concat()
}

#[test]
fn av1_is_read_in_each_of_its_forms() {
    if !have_ffmpeg() {
        return;
    }
    let encoder = ENCODERS.iter().find(|it| it.name == "aom.obu");
    let data = encoded(encoder.expect("it"));
    let clip = Clip::parse(Bytes::from(data.clone())).expect("a clip");
    // The length-delimited form (Annex B): units, frames and OBUs behind their lengths.
    let units = clip.frames.iter().map(|frame| {
        let unit = frame.data.as_deref().expect("a real clip");
        sized(&[sized(&obus(unit))])
    });
    let annex_b: Vec<u8> = units
        .map(|frame| sized(&[frame]))
        .collect::<Vec<_>>()
        .concat();
    let first = Clip::parse(Bytes::from(annex_b)).expect("a clip");
    assert_eq!(first.frames, clip.frames);
    // A file that was cut short.
    let cut = Clip::parse(Bytes::copy_from_slice(&data[..data.len() - 5])).expect("a clip");
    assert_eq!(cut.frames.len(), FRAMES - 1);
    assert!(cut.info.truncated.is_some());
    // What has no container but IVF.
    let udp = OutputForm::Transport.misfit(Media::Av1).expect("a reason");
    assert!(udp.contains("AV1") && udp.contains("got.webm"), "{udp}");
    assert!(OutputForm::Obu.misfit(Media::Vp9).is_some());
    assert_eq!(OutputForm::Obu.misfit(Media::Av1), None);
}

#[test]
fn maps_by_place_are_checked_where_the_stream_shows_it() {
    if !have_ffmpeg() {
        return;
    }
    let named = |name: &str| encoded(ENCODERS.iter().find(|it| it.name == name).expect("it"));
    let refused = |data: &[u8], map: Map| {
        let clip = Clip::of_program(Bytes::copy_from_slice(data), None, map);
        clip.err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let layered = named("three-layers.vp9.ivf");
    assert_eq!(refused(&layered, Map::Vp9Ts3), "");
    assert!(refused(&layered, Map::Vp8Ts3).contains("it is for VP8"));
    assert!(refused(&layered, Map::Split).contains("--map split"));
    // From its second frame on the places are others.
    let first = 12 + u32::from_le_bytes([layered[32], layered[33], layered[34], layered[35]]);
    let cut = [&layered[..32], &layered[32 + first as usize..]].concat();
    let text = refused(&cut, Map::Vp9Ts3);
    assert!(text.contains("others refer to frame"), "{text}");
    let plain = named("vp9.ivf");
    assert!(refused(&plain, Map::Vp9Ts3).contains("-error-resilient 1"));
    let h265 = named("temporal.h265");
    assert!(refused(&h265, Map::Vp9Ts3).contains("it is for VP9"));
}

#[test]
fn h265_that_ffmpeg_sends_in_rtp_is_received() {
    if !have_ffmpeg() {
        return;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let port = socket.local_addr().expect("an address").port();
    let options = "-nostdin -v error -re -f lavfi -i testsrc2=rate=25:size=320x240 -frames:v 60 -c:v libx265 -preset ultrafast \
                   -g 20 -bf 3 -x265-params temporal-layers=1:log-level=none:repeat-headers=1 -f rtp";
    let mut child = Command::new("ffmpeg")
        .args(options.split_whitespace())
        .arg(format!("rtp://127.0.0.1:{port}?pkt_size=1200"))
        .stdout(Stdio::null())
        .spawn()
        .expect("ffmpeg starts");
    let mut ingest = Ingest::new();
    let (mut frames, mut buffer) = (Vec::new(), [0; 2_000]);
    let begun = Instant::now();
    // The last pictures come together when the encoder ends.
    while frames.len() < 55 {
        let len = socket.recv(&mut buffer).expect("a datagram");
        let now = Time::ZERO + Span::from_us(begun.elapsed().as_micros() as u64);
        ingest.push(now, &buffer[..len]);
        frames.extend(std::iter::from_fn(|| ingest.poll()));
    }
    child.wait().expect("ffmpeg ends");
    assert_eq!(ingest.form(), "H.265 in RTP");
    let stats = ingest.stats().rtp;
    assert_eq!((stats.lost, stats.malformed, stats.incomplete), (0, 0, 0));
    assert!(frames[0].frame.gop_start);
    let layers = [Layer::Base, Layer::E1, Layer::E2];
    for layer in layers {
        assert!(frames.iter().any(|it| it.frame.layer() == layer), "{layer}");
    }
    let bytes = frames
        .iter()
        .flat_map(|it| it.frame.data.clone().expect("bytes"));
    let bytes: Vec<u8> = bytes.collect();
    assert_eq!(decode("hevc", &bytes).len(), frames.len());
}

#[test]
fn ffmpeg_receives_h265_in_rtp_by_its_description() {
    if !have_ffmpeg() {
        return;
    }
    let data = encoded(&ENCODERS[0]);
    let whole = decode("hevc", &data);
    let clip = Clip::parse(Bytes::from(data)).expect("a clip");
    // Free at this moment.
    let port = {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("an address").port() & !1
    };
    let start = clip.frames[0].data.as_ref().expect("bytes");
    let here = IpAddr::from([127, 0, 0, 1]);
    let text = session_description("clip", Media::H265, here, port, start);
    let description = common::file("codecs-rtp.sdp");
    std::fs::write(&description, &text).expect("it is written");
    let parsed = RtpSession::parse(&text).expect("a description");
    assert_eq!(RtpReceiver::of_session(&parsed).problem(), None);
    let child = Command::new("ffmpeg")
        .args("-nostdin -v error -protocol_whitelist file,udp,rtp -i".split(' '))
        .arg(&description)
        .args("-frames:v 60 -fps_mode passthrough -f framemd5 -".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg starts");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut writer = FlowWriter::new(Media::H265, clip.info.frame_rate, OutputForm::Rtp(5));
    // Again and again, until ffmpeg has seen enough.
    let mut child = child;
    for (index, frame) in clip.repeated().enumerate().take(1_500) {
        if child.try_wait().expect("it runs").is_some() {
            break;
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
            sender.send_to(datagram, (here, port)).expect("it is sent");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("ffmpeg ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let sums = text.lines().filter(|line| !line.starts_with('#'));
    let sums: Vec<&str> = sums.filter_map(|line| line.rsplit(' ').next()).collect();
    let known = |sum: &&&str| whole.iter().any(|it| it == **sum);
    let said = String::from_utf8_lossy(&output.stderr);
    // It joins between two key frames.
    assert_eq!(sums.len(), 60, "{said}");
    assert!(sums.iter().filter(known).count() >= 35, "{said}");
}

/// Whatever is changed in a stream, it becomes frames or an error, and those a stream.
#[test]
fn mutated_streams_are_safe() {
    if !have_ffmpeg() {
        return;
    }
    let mut random = layercast_core::Stream::new(7, "mutations");
    for encoder in ENCODERS.iter().filter(|it| it.quick) {
        let data = encoded(encoder);
        for _ in 0..30 {
            let mut mutated = data.clone();
            for _ in 0..1 + random.below(40) {
                let at = random.below(mutated.len() as u64) as usize;
                match random.below(4) {
                    0 => mutated.truncate(at.max(mutated.len() / 2)),
                    1 => drop(mutated.splice(at..at, [0, 0, 1])),
                    _ => mutated[at] = random.below(256) as u8,
                }
            }
            let most = 3 * mutated.len() + 300_000;
            if let Ok(clip) = Clip::of_program(Bytes::from(mutated), None, maps(encoder)[0]) {
                let sum: usize = clip.frames.iter().map(|it| it.size as usize).sum();
                assert!(sum <= most, "{sum} octets of frames");
                for form in [
                    OutputForm::Native,
                    OutputForm::Transport,
                    OutputForm::Rtp(1),
                ] {
                    at_levels(&clip, form, |gop| LEVELS[gop % 3]);
                }
            }
        }
    }
}
