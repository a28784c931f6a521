//! What an H.264 receiver writes is decoded by ffmpeg without a word, whatever layers it gets.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use crate::common;

use crate::common::{decode, encode, have_ffmpeg};
use bytes::Bytes;
use layercast_core::{FrameRate, Layer, Level, Media, PerLayer, Serial, Stream, Time};
use layercast_media::{
    Clip, Container, FlowWriter, Frame, H264Writer, Map, MediaError, OutputForm, Picture, Received,
    WriterStats,
};

const FRAMES: usize = 75;
const RECOMMENDED: &str = "-c:v libx264 -g 25 -x264-params scenecut=0:b-pyramid=none -bf 2";

const PYRAMID: &str = "-c:v libx264 -g 25 -bf 3";

/// Name and x264 options.
const SOURCES: [(&str, &str); 8] = [
    ("recommended", RECOMMENDED),
    ("pyramid", PYRAMID),
    ("no-b", "-c:v libx264 -g 25 -bf 0"),
    ("baseline", "-c:v libx264 -profile:v baseline -g 25"),
    ("zerolatency", "-c:v libx264 -g 25 -tune zerolatency"),
    ("slices", "-c:v libx264 -g 25 -bf 2 -slices 4 -aud 1"),
    (
        "interlaced",
        "-c:v libx264 -g 24 -bf 2 -flags +ildct+ilme -x264-params tff=1",
    ),
    ("crf", "-c:v libx264 -g 20 -bf 2 -crf 28"),
];
const OPEN_GOP: &str = "-c:v libx264 -g 25 -bf 2 -x264-params open-gop=1:scenecut=0:b-pyramid=none";

fn source(test: &str, name: &str, options: &str) -> Clip {
    let data = encode(
        &format!("{test}-{name}.h264"),
        &format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {options}"),
    );
    let clip = Clip::parse(Bytes::from(data)).expect("a clip");
    assert_eq!(clip.info.container, Container::H264);
    assert_eq!(clip.info.codec, Media::H264);
    assert_eq!((clip.info.width, clip.info.height), (176, 144));
    assert_eq!(clip.info.frame_rate, FrameRate { num: 25, den: 1 });
    assert_eq!(clip.frames.len(), FRAMES, "{name}");
    clip
}

/// The same source with another map.
fn mapped(test: &str, name: &str, map: Map) -> Clip {
    let data = std::fs::read(common::made(&format!("{test}-{name}.h264"))).expect("the file");
    Clip::of_program(Bytes::from(data), None, map).expect("a clip")
}

fn receive(clip: &Clip, received: impl Fn(usize, &Frame) -> bool) -> (Vec<u8>, WriterStats) {
    let (mut writer, mut out) = (H264Writer::new(), Vec::new());
    let base = Serial(u32::MAX - 20);
    for (index, frame) in clip.frames.iter().enumerate() {
        if received(index, frame) {
            let data = frame.data.as_ref().expect("a real clip");
            let seq = base.plus(index as u32);
            writer.frame(seq, frame.layer(), frame.gop_start, data, &mut out);
        }
    }
    (out, writer.stats())
}

#[test]
fn every_level_decodes_without_a_word_to_pictures_of_the_source() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let clip = source("levels", name, options);
        let file = std::fs::read(common::made(&format!("levels-{name}.h264"))).expect("the file");
        let original = decode("h264", &file);
        assert_eq!(original.len(), FRAMES, "{name}");
        for level in [Level::BASE, Level::E1, Level::FULL] {
            let (out, stats) = receive(&clip, |_, frame| level.includes(frame.layer()));
            if level == Level::FULL && name != "slices" {
                assert_eq!(out.len(), file.len(), "{name}");
            }
            let wanted = clip.frames.iter().filter(|f| level.includes(f.layer()));
            assert_eq!(stats.written, wanted.count() as u64, "{name} {level}");
            let pictures = decode("h264", &out);
            assert_eq!(pictures.len() as u64, stats.written, "{name} {level}");
            let mut rest = original.iter();
            for picture in &pictures {
                let found = rest.any(|known| known == picture);
                assert!(found, "{name} {level}: a picture of the source, in order");
            }
        }
    }
}

#[test]
fn layers_follow_reference_and_kind() {
    if !have_ffmpeg() {
        return;
    }
    let clip = source("layers", "recommended", RECOMMENDED);
    let spec = clip.flow_spec();
    assert_eq!((spec.gop_n, spec.gop_m), (25, 3));
    spec.validate().expect("a valid specification");
    let by_kind = mapped("layers", "recommended", Map::Ipb);
    for (index, (frame, of_kind)) in clip.frames.iter().zip(&by_kind.frames).enumerate() {
        assert_eq!(frame.gop_start, index % 25 == 0);
        let is_b = frame.picture == Picture::B;
        assert_eq!(frame.layer() == Layer::Base, !is_b, "{index}");
        assert_eq!(of_kind.layer(), of_kind.picture.layer(), "{index}");
    }
    // One B picture of two is in E1, one in E2.
    let count = |layer| clip.frames.iter().filter(|it| it.layer() == layer).count();
    let (e1, e2) = (count(Layer::E1), count(Layer::E2));
    assert!(e1 > 5 && e1.abs_diff(e2) * 4 < e1 + e2, "{e1} and {e2}");
    // B pictures that others refer to are not left out before those.
    source("layers", "pyramid", PYRAMID);
    for (map, wanted) in [(Map::Auto, Layer::Base), (Map::Ipb, Layer::E1)] {
        let pyramid = mapped("layers", "pyramid", map);
        let is_reference = |data: &[u8]| {
            let slices = nals(data);
            slices
                .iter()
                .any(|nal| nal[0] & 31 == 1 && nal[0] & 0x60 != 0)
        };
        let b = pyramid.frames.iter().filter(|it| it.picture == Picture::B);
        let (references, others): (Vec<_>, Vec<_>) =
            b.partition(|it| is_reference(it.data.as_ref().expect("data")));
        assert!(references.len() > 5 && others.len() > 10);
        assert!(references.iter().all(|it| it.layer() == wanted), "{map}");
        assert!(others.iter().all(|it| it.layer() > Layer::Base), "{map}");
    }
}

#[test]
fn open_gops_are_joined_at_their_i_pictures() {
    if !have_ffmpeg() {
        return;
    }
    let clip = source("open", "open", OPEN_GOP);
    let starts: Vec<usize> = (0..FRAMES).filter(|&i| clip.frames[i].gop_start).collect();
    assert!(starts.len() >= 3, "{starts:?}");
    // A decoder that joins an open GOP complains of references that are missing, and is right from the
    // next GOP on.
    let original = common::decode_anyway(
        "h264",
        &std::fs::read(common::made("open-open.h264")).expect("it"),
    );
    let (out, stats) = receive(&clip, |index, _| index > starts[0]);
    assert!(
        stats.undecodable >= 1,
        "leading pictures are left out: {stats:?}"
    );
    let pictures = common::decode_anyway("h264", &out);
    // Some it does not show before it is sure.
    assert!(pictures.len() >= 25);
    let settled = &pictures[pictures.len() - 10..];
    assert!(settled.iter().all(|picture| original.contains(picture)));
}

#[test]
fn after_a_loss_the_stream_goes_on_at_the_next_start() {
    if !have_ffmpeg() {
        return;
    }
    for seed in 0..4 {
        let mut stream = Stream::new(seed, "loss");
        let lost: Vec<bool> = (0..FRAMES).map(|_| stream.chance(0.05)).collect();
        for (name, options) in [SOURCES[1], SOURCES[6]] {
            let clip = source(&format!("loss-{seed}"), name, options);
            let (out, stats) = receive(&clip, |index, _| !lost[index]);
            let pictures = decode("h264", &out);
            // A picture whose successor is missing may be held back at the end of the stream.
            assert_eq!(
                pictures.len() as u64,
                stats.written,
                "{name} {seed} {stats:?}"
            );
            let received = lost.iter().filter(|&&lost| !lost).count() as u64;
            let all = stats.written + stats.undecodable + stats.skipped;
            assert_eq!(all, received);
        }
    }
}

/// What a receiver writes that knows of which layers frames are missing, as every receiver of a flow does.
fn informed(clip: &Clip, received: impl Fn(usize, &Frame) -> bool) -> (Vec<u8>, WriterStats) {
    let mut writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, OutputForm::Native);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut missing = PerLayer::<u32>::default();
    for (index, frame) in clip.frames.iter().enumerate() {
        if !received(index, frame) {
            missing[frame.layer()] += 1;
            continue;
        }
        let emitted = clip.info.frame_rate.due(index as u64);
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            // What is missing is said of pictures and of sound apart.
            missing: match frame.sound {
                true => PerLayer::default(),
                false => std::mem::take(&mut missing),
            },
            emitted: Time::ZERO + frame.time.unwrap_or(emitted),
            data: frame.data.as_ref().expect("a real clip"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    writer.finish(&mut out);
    (out, writer.stats())
}

#[test]
fn without_its_idr_picture_nothing_of_a_gop_is_written_wherever_the_count_wraps() {
    if !have_ffmpeg() {
        return;
    }
    // The count of reference pictures is at each of its 16 values when the IDR picture is lost.
    for (name, options) in [("no-b", "-bf 0"), ("pyramid", "-bf 3")] {
        for gop in 16..=36 {
            let frames = 3 * gop;
            let options = format!(
                "-frames:v {frames} -s 96x64 -c:v libx264 -refs 1 -g {gop} -keyint_min {gop} \
                 -sc_threshold 0 {options}"
            );
            // A container changes nothing of the count.
            let forms: &[&str] = if gop % 4 == 1 {
                &["h264", "ts"]
            } else {
                &["h264"]
            };
            for &form in forms {
                let data = encode(&format!("lost-idr-{name}-{gop}.{form}"), &options);
                let clip = Clip::parse(Bytes::from(data)).expect("a clip");
                // Frames of a transport stream that are no pictures come between.
                let pictures = clip.frames.iter().enumerate().filter(|(_, it)| !it.sound);
                let pictures: Vec<usize> = pictures.map(|(index, _)| index).collect();
                assert_eq!(pictures.len(), frames, "{name} {gop} {form}");
                for place in [0, gop, 2 * gop] {
                    assert!(
                        clip.frames[pictures[place]].gop_start,
                        "{name} {gop} {form}"
                    );
                }
                for lost in 1..4 {
                    let lost_ones = &pictures[gop..gop + lost];
                    let (out, stats) = informed(&clip, |index, _| !lost_ones.contains(&index));
                    let told = format!("{name} {gop} {form}, {lost} lost: {stats:?}");
                    assert_eq!(stats.undecodable, (gop - lost) as u64, "{told}");
                    if lost == 1 && gop % 4 == 1 {
                        let format = if form == "ts" { "mpegts" } else { form };
                        assert_eq!(decode(format, &out).len(), 2 * gop, "{told}");
                    }
                }
                // What is withheld is no loss.
                for level in [Level::BASE, Level::E1] {
                    let (_, stats) = informed(&clip, |_, frame| level.includes(frame.layer()));
                    assert_eq!(stats.undecodable, 0, "{name} {gop} {form} {level}");
                }
            }
        }
    }
}

#[test]
fn parameter_sets_stand_before_every_start() {
    if !have_ffmpeg() {
        return;
    }
    let name = "bare.h264";
    let options = format!("-frames:v {FRAMES} -s 176x144 {RECOMMENDED}");
    let whole = encode(name, &options);
    // Only the first unit has them.
    let is_sps = |code: &&[u8]| code[..3] == [0, 0, 1] && code[3] & 31 == 7;
    let first_idr = whole
        .windows(4)
        .position(|c| c[..3] == [0, 0, 1] && c[3] & 31 == 5);
    let first_idr = first_idr.expect("an IDR picture");
    let mut bare = whole[..first_idr].to_vec();
    let mut rest = &whole[first_idr..];
    while let Some(at) = rest.windows(4).position(|c| is_sps(&c)) {
        let end = rest[at + 4..]
            .windows(4)
            .position(|c| c[..3] == [0, 0, 1] && ![7, 8].contains(&(c[3] & 31)));
        bare.extend_from_slice(&rest[..at]);
        rest = &rest[at + 4 + end.expect("a picture follows")..];
    }
    bare.extend_from_slice(rest);
    assert_eq!(bare.windows(4).filter(is_sps).count(), 1);
    let clip = Clip::parse(Bytes::from(bare)).expect("a clip");
    let starts = clip.frames.iter().filter(|frame| frame.gop_start);
    for frame in starts {
        let data = frame.data.as_ref().expect("data");
        assert_eq!(data.windows(4).filter(is_sps).count(), 1);
    }
    let (out, _) = receive(&clip, |index, _| index >= 40);
    assert_eq!(decode("h264", &out).len(), 25);
}

/// The NAL units of a stream, without start codes.
fn nals(data: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> = (0..data.len().saturating_sub(3))
        .filter(|&at| data[at..at + 3] == [0, 0, 1])
        .collect();
    let ends = starts.iter().skip(1).copied().chain([data.len()]);
    let units = starts.iter().zip(ends).map(|(&at, end)| &data[at + 3..end]);
    units
        .map(|unit| {
            let zeros = unit.iter().rev().take_while(|&&byte| byte == 0).count();
            &unit[..unit.len() - zeros]
        })
        .collect()
}

#[test]
fn temporal_layers_come_before_references() {
    if !have_ffmpeg() {
        return;
    }
    // A stream without B pictures, all of which others refer to; the label is what counts.
    let options = format!("-frames:v {FRAMES} -s 176x144 -c:v libx264 -g 24 -bf 0");
    let plain = encode("temporal.h264", &options);
    let pattern = [0u8, 2, 1, 2];
    for label in ["prefix", "sub-sequence"] {
        let (mut labelled, mut pictures) = (Vec::new(), 0);
        for nal in nals(&plain) {
            if matches!(nal[0] & 31, 1 | 5) {
                let temporal = pattern[pictures % 4];
                labelled.extend_from_slice(&[0, 0, 1]);
                match label {
                    "prefix" => labelled.extend_from_slice(&prefix(temporal)),
                    // SEI with sub_seq_layer_num, sub_seq_id 0, and four flags (D.1.11).
                    _ => {
                        let number = [0b1100_0010, 0b0101_0000, 0b0111_0000][usize::from(temporal)];
                        labelled.extend_from_slice(&[6, 10, 2, number, 0x80, 0x80]);
                    }
                }
                pictures += 1;
            }
            labelled.extend_from_slice(&[0, 0, 1]);
            labelled.extend_from_slice(nal);
        }
        let clip = Clip::parse(Bytes::from(labelled)).expect("a clip");
        assert_eq!(clip.frames.len(), FRAMES, "{label}");
        for (index, frame) in clip.frames.iter().enumerate() {
            let layer = match pattern[index % 4] {
                _ if frame.gop_start => Layer::Base,
                0 => Layer::Base,
                1 => Layer::E1,
                _ => Layer::E2,
            };
            assert_eq!(frame.layer(), layer, "{label} {index}");
            assert_eq!(frame.gop_start, index % 24 == 0);
        }
    }
}

/// NAL type 14 and `nal_unit_header_svc_extension` (G.7.3.1.1).
fn prefix(temporal: u8) -> [u8; 4] {
    [0x6E, 0x80, 0x80, temporal << 5 | 7]
}

#[test]
fn a_lone_temporal_layer_is_split_by_references() {
    if !have_ffmpeg() {
        return;
    }
    let options = format!("-frames:v {FRAMES} -s 176x144 {RECOMMENDED}");
    let plain = encode("lone.h264", &options);
    let mut labelled = Vec::new();
    for nal in nals(&plain) {
        if matches!(nal[0] & 31, 1 | 5) {
            labelled.extend_from_slice(&[0, 0, 1]);
            labelled.extend_from_slice(&prefix(0));
        }
        labelled.extend_from_slice(&[0, 0, 1]);
        labelled.extend_from_slice(nal);
    }
    let layers = |data: &[u8], map| {
        let clip = Clip::of_program(Bytes::copy_from_slice(data), None, map)?;
        Ok(clip.frames.iter().map(Frame::layer).collect::<Vec<_>>())
    };
    let known: Result<_, MediaError> = layers(&plain, Map::Auto);
    assert_eq!(layers(&labelled, Map::Auto), known);
    assert!(known.is_ok_and(|it| it.contains(&Layer::E1) && it.contains(&Layer::E2)));
    assert!(layers(&labelled, Map::Temporal).is_err());
}
