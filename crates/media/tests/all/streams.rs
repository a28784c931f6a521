//! Streams built by hand: what the parser and the writer do with odd, cut, foreign and hostile bytes.

use bytes::Bytes;
use layercast_core::{FrameRate, Layer, Media, Serial, Span};
use layercast_media::{Clip, MediaError, Picture, StreamWriter};
use proptest::prelude::*;

const SEQUENCE: [u8; 12] = [0, 0, 1, 0xB3, 0x0b, 0, 0x90, 0x13, 0xff, 0xff, 0xe0, 0x18];
const EXTENSION: [u8; 10] = [0, 0, 1, 0xB5, 0x14, 0x82, 0, 1, 0, 0];
const GOP: [u8; 8] = [0, 0, 1, 0xB8, 0, 8, 0, 0];
const END: [u8; 4] = [0, 0, 1, 0xB7];
const I: u8 = 1;
const P: u8 = 2;
const B: u8 = 3;
const D: u8 = 4;

fn header(kind: u8, reference: u16) -> Vec<u8> {
    let low = (reference << 6) as u8 | kind << 3;
    vec![0, 0, 1, 0, (reference >> 2) as u8, low, 0xff, 0xf8]
}

fn slices(rows: u8) -> Vec<u8> {
    (1..=rows)
        .flat_map(|row| [0, 0, 1, row, 0x23, row, 0x80])
        .collect()
}

fn picture(kind: u8, reference: u16) -> Vec<u8> {
    [header(kind, reference), slices(9)].concat()
}

fn field(kind: u8, reference: u16, structure: u8) -> Vec<u8> {
    let coding = vec![0, 0, 1, 0xB5, 0x8f, 0xff, 0xf0 | structure, 0x41, 0x80];
    [header(kind, reference), coding, slices(5)].concat()
}

/// Two GOPs, the second open and without a sequence header, as many encoders write them.
fn stream() -> Vec<Vec<u8>> {
    vec![
        [&SEQUENCE[..], &GOP, &picture(I, 0)].concat(),
        picture(P, 3),
        picture(B, 1),
        picture(B, 2),
        [&GOP[..], &picture(I, 2)].concat(),
        picture(B, 0),
        picture(B, 1),
        picture(P, 5),
        picture(B, 3),
        picture(B, 4),
    ]
}

fn parse(bytes: Vec<u8>) -> Result<Clip, MediaError> {
    Clip::parse(Bytes::from(bytes))
}

fn kinds(clip: &Clip) -> String {
    clip.frames
        .iter()
        .map(|frame| format!("{:?}", frame.picture))
        .collect()
}

/// Type and temporal reference of each picture.
fn pictures(stream: &[u8]) -> Vec<(u8, u16)> {
    let starts = stream.windows(6).filter(|w| w[..4] == [0, 0, 1, 0]);
    starts
        .map(|w| (w[5] >> 3 & 7, u16::from(w[4]) << 2 | u16::from(w[5] >> 6)))
        .collect()
}

fn write(clip: &Clip, received: &[usize]) -> (Vec<u8>, StreamWriter) {
    let (mut writer, mut out) = (StreamWriter::new(), Vec::new());
    for &index in received {
        let frame = &clip.frames[index];
        let data = frame.data.as_ref().expect("a real clip");
        let seq = Serial(index as u32);
        writer.frame(seq, frame.layer(), frame.gop_start, data, &mut out);
    }
    writer.finish(&mut out);
    (out, writer)
}

#[test]
fn every_i_picture_carries_a_sequence_header() {
    let parts = stream();
    let clip = parse(parts.concat()).unwrap();
    assert_eq!(kinds(&clip), "IPBBIBBPBB");
    assert_eq!(clip.info.truncated, None);
    assert_eq!((clip.info.width, clip.info.height), (176, 144));
    for (index, frame) in clip.frames.iter().enumerate() {
        let data = frame.data.as_ref().unwrap();
        let expected = if index == 4 {
            [&SEQUENCE[..], &parts[4]].concat()
        } else {
            parts[index].clone()
        };
        assert_eq!(data[..], expected[..], "{index}");
        assert_eq!(frame.size as usize, data.len());
        assert_eq!(frame.gop_start, frame.picture == Picture::I);
    }
}

#[test]
fn b_pictures_of_a_stream_without_p_pictures_are_written() {
    let open = [&GOP[..], &picture(I, 2), &picture(B, 0), &picture(B, 1)].concat();
    let bytes = [&SEQUENCE[..], &GOP, &picture(I, 0), &open, &open].concat();
    let clip = parse(bytes).unwrap();
    assert_eq!(kinds(&clip), "IIBBIBB");
    assert_eq!(clip.frames[2].layer(), Layer::E1);
    let all: Vec<usize> = (0..clip.frames.len()).collect();
    let (_, writer) = write(&clip, &all);
    let stats = writer.stats();
    assert_eq!(
        (stats.written, stats.repeated, stats.undecodable),
        (7, 0, 0)
    );
}

#[test]
fn two_fields_are_one_frame_and_get_the_whole_sequence_header() {
    let stream = [
        &SEQUENCE[..],
        &EXTENSION,
        &GOP,
        &field(I, 0, 1),
        &field(P, 0, 2),
        &field(P, 1, 1),
        &field(P, 1, 2),
        &field(I, 2, 2),
        &field(P, 2, 1),
        &END,
    ]
    .concat();
    let clip = parse(stream.clone()).unwrap();
    assert_eq!(kinds(&clip), "IPI");
    assert_eq!(clip.info.codec, Media::Mpeg2);
    let last = [&SEQUENCE[..], &EXTENSION, &field(I, 2, 2), &field(P, 2, 1)].concat();
    assert_eq!(clip.frames[2].data.as_deref(), Some(&last[..]));
    let without_last_field = parse(stream[..stream.len() - 60].to_vec()).unwrap();
    assert_eq!(kinds(&without_last_field), "IP");
    assert!(without_last_field.info.truncated.is_some());
}

#[test]
fn a_cut_stream_keeps_its_complete_pictures_and_says_where_it_ends() {
    let parts = stream();
    let whole = parts.concat();
    let last = whole.len() - parts[9].len();
    // A cut inside the last slice leaves no trace; from its start code on it does.
    for cut in 4..parts[9].len() {
        let clip = parse(whole[..whole.len() - cut].to_vec()).unwrap();
        assert_eq!(clip.frames.len(), 9, "{cut}");
        // With less than a start code left nothing tells that there was one.
        let expected = (parts[9].len() - cut >= 4).then_some(last as u64);
        assert_eq!(clip.info.truncated, expected, "{cut}");
    }
}

#[test]
fn a_stream_cut_in_its_first_headers_is_an_error_at_its_end() {
    let whole = stream().concat();
    for len in 4..28 {
        let error = parse(whole[..len].to_vec()).unwrap_err();
        assert!(
            matches!(error, MediaError::Truncated { offset, .. } if offset == len as u64),
            "{len}: {error}"
        );
    }
}

#[test]
fn a_stream_cut_in_its_only_picture_is_an_error() {
    let whole = [&SEQUENCE[..], &GOP, &picture(I, 0)].concat();
    assert_eq!(kinds(&parse(whole.clone()).unwrap()), "I");
    let error = parse(whole[..whole.len() - 7].to_vec()).unwrap_err();
    assert!(matches!(error, MediaError::Truncated { .. }), "{error}");
}

#[test]
fn broken_syntax_is_named_with_its_offset() {
    let at = |bytes: &[&[u8]]| match parse(bytes.concat()) {
        Err(MediaError::Malformed { offset, expected }) => (offset, expected),
        other => panic!("{other:?}"),
    };
    let (offset, expected) = at(&[&SEQUENCE, &GOP, &picture(D, 0)]);
    assert_eq!(offset, 20);
    assert!(expected.contains("D pictures"));
    let mut no_rate = SEQUENCE;
    no_rate[7] = 0x10;
    assert_eq!(at(&[&no_rate, &GOP, &picture(I, 0)]).0, 0);
    assert_eq!(at(&[&SEQUENCE, &slices(1)]).0, 12);
    let mut other = SEQUENCE;
    other[4] = 0x0c;
    let first = [&SEQUENCE[..], &GOP, &picture(I, 0)].concat();
    let (offset, expected) = at(&[&first, &other, &GOP, &picture(I, 0)]);
    assert_eq!(offset, first.len() as u64);
    assert!(expected.contains("same picture size"));
}

#[test]
fn leading_pictures_that_nothing_can_decode_are_left_out() {
    let start = [&SEQUENCE[..], &GOP, &picture(B, 0)].concat();
    let clip = parse([start, picture(P, 1), picture(I, 2), END.to_vec()].concat()).unwrap();
    assert_eq!(kinds(&clip), "I");
}

#[test]
fn missing_b_pictures_go_into_their_slots() {
    let clip = parse(stream().concat()).unwrap();
    let (out, writer) = write(&clip, &[0, 1, 4, 7]);
    let expected = [
        (I, 0),
        (P, 3),
        (B, 1),
        (B, 2),
        (I, 2),
        (B, 0),
        (B, 1),
        (P, 5),
        (B, 3),
        (B, 4),
    ];
    assert_eq!(pictures(&out), expected);
    assert_eq!((writer.stats().written, writer.stats().repeated), (4, 6));
    assert!(out.ends_with(&END));
}

#[test]
fn what_depends_on_a_lost_anchor_is_replaced_until_the_next_i_picture() {
    let clip = parse(stream().concat()).unwrap();
    let (out, writer) = write(&clip, &[0, 2, 3, 4, 5, 6, 7]);
    let lost = [(I, 0), (P, 1), (P, 2), (P, 3)];
    assert_eq!(pictures(&out)[..4], lost);
    // The leading B pictures of the next GOP lack the anchor before: repeats in their slots.
    let next = [(I, 2), (B, 0), (B, 1), (P, 5)];
    assert_eq!(pictures(&out)[4..8], next);
    assert_eq!(writer.stats().undecodable, 4);
}

#[test]
fn a_stream_joined_at_an_open_gop_is_marked_closed() {
    let clip = parse(stream().concat()).unwrap();
    let (out, writer) = write(&clip, &[1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(out[..12], SEQUENCE);
    assert_eq!(out[12 + 7] & 0x40, 0x40);
    let expected = [(I, 2), (B, 0), (B, 1), (P, 5), (B, 3), (B, 4)];
    assert_eq!(pictures(&out), expected);
    let stats = writer.stats();
    assert_eq!((stats.skipped, stats.undecodable, stats.written), (2, 2, 4));
}

#[test]
fn a_stream_joined_without_a_gop_header_counts_from_its_first_picture() {
    let parts = [
        [&SEQUENCE[..], &picture(I, 1_022)].concat(),
        picture(B, 1_020),
        picture(P, 1),
        picture(B, 1_023),
        picture(B, 0),
    ];
    let clip = parse(parts.concat()).unwrap();
    let (out, writer) = write(&clip, &[0, 1, 2, 3, 4]);
    let expected = [(I, 0), (P, 1), (P, 3), (B, 1), (B, 2)];
    assert_eq!(pictures(&out).len(), expected.len());
    assert_eq!(pictures(&out)[..2], expected[..2]);
    assert_eq!(writer.stats().undecodable, 1);
}

#[test]
fn a_gap_is_filled_for_ten_seconds_at_most_and_old_frames_are_dropped() {
    let clip = parse(stream().concat()).unwrap();
    let data = |index: usize| clip.frames[index].data.as_deref().unwrap();
    let (mut writer, mut out) = (StreamWriter::new(), Vec::new());
    writer.frame(Serial(0), Layer::Base, true, data(0), &mut out);
    writer.frame(Serial(2_000_000_000), Layer::Base, true, data(4), &mut out);
    writer.frame(Serial(7), Layer::E1, false, data(7), &mut out);
    writer.finish(&mut out);
    let stats = writer.stats();
    assert_eq!((stats.written, stats.stale), (2, 1));
    assert_eq!(stats.unfilled, 2_000_000_000 - 1 - 250);
    // The gap, and the two free slots before the last I picture.
    assert_eq!(stats.repeated, 252);
}

#[test]
fn a_clip_is_repeated_and_cut_to_a_duration() {
    let clip = parse(stream().concat()).unwrap();
    assert_eq!(clip.info.frame_rate, FrameRate { num: 25, den: 1 });
    assert_eq!(clip.duration(), Span::from_ms(400));
    assert_eq!(
        kinds(&clip.with_duration(Span::from_ms(480))),
        "IPBBIBBPBBIP"
    );
    assert_eq!(kinds(&clip.with_duration(Span::from_ms(81))), "IPB");
    assert_eq!(kinds(&clip.with_duration(Span::ZERO)), "I");
}

#[test]
fn rates_are_measured_over_the_clip_and_its_worst_gop() {
    let text: String = [400, 900, 100]
        .iter()
        .enumerate()
        .map(|(gop, size)| format!("{} I {size}\n{} P 24\n", gop * 2, gop * 2 + 1))
        .collect();
    let clip = Clip::parse_trace(&text, FrameRate { num: 10, den: 1 }).unwrap();
    let spec = clip.flow_spec();
    assert_eq!((spec.gop_n, spec.gop_m, spec.max_frame), (2, 1, 900));
    // 9 + 20 + 3 cells of I pictures in 0.6 s, 20 in the 0.2 s of the worst GOP.
    let base = spec.layers.base;
    assert_eq!((base.mean.0, base.peak.0, base.burst), (54, 100, 20));
    let e1 = spec.layers.e1;
    assert_eq!((e1.mean.0, e1.peak.0, e1.burst), (10, 10, 2));
    assert_eq!(spec.validate(), Ok(()));
    let json = serde_json::to_value(clip.summary()).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "container": "trace", "codec": "mpeg1", "width": 0, "height": 0, "fps": 10.0,
            "pictures": {"I": 3, "P": 3, "B": 0}, "gops": 3,
            // 54 and 64 cells/s; 95 % of 64 cells/s, and the 110 cells/s of the worst GOPs. 20 cells take 340 and 181 ms.
            "levels": [
                {"name": "BL", "fps": 5.0, "share_percent": 95.11, "mean_bps": 22896, "peak_bps": 42400,
                 "limit": "25kbit/s", "delay_max_ms": 680},
                {"name": "BL+E1", "fps": 10.0, "share_percent": 100.0, "mean_bps": 27136, "peak_bps": 46640,
                 "limit": "47kbit/s", "delay_max_ms": 362},
            ],
            // 900 bytes of 1472 in six pictures.
            "key_frame_ratio": 3.67,
            "layers": [
                {"name": "BL", "frames": 3, "bytes": 1400, "mean_bps": 18667, "peak_bps": 36000},
                {"name": "E1", "frames": 3, "bytes": 72, "mean_bps": 960, "peak_bps": 960},
                {"name": "E2", "frames": 0, "bytes": 0, "mean_bps": 0, "peak_bps": 0},
            ],
        })
    );
}

fn program_stream() -> Vec<u8> {
    let mut out = vec![0, 0, 1, 0xBA, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8];
    for chunk in stream().concat().chunks(50) {
        out.extend([0, 0, 1, 0xE0]);
        out.extend((chunk.len() as u16 + 3).to_be_bytes());
        out.extend([0x80, 0, 0]);
        out.extend(chunk);
    }
    out
}

/// Valid streams with bytes replaced, inserted and removed, and plain random bytes.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let valid = prop_oneof![
        Just(stream().concat()),
        Just(program_stream()),
        Just(
            [
                &SEQUENCE[..],
                &EXTENSION,
                &GOP,
                &field(I, 0, 1),
                &field(P, 0, 2)
            ]
            .concat()
        ),
    ];
    let edits =
        proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..12);
    let mutated = (valid, edits).prop_map(|(mut bytes, edits)| {
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len().max(1));
            match kind {
                _ if at >= bytes.len() => bytes.push(byte),
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    });
    prop_oneof![mutated, proptest::collection::vec(any::<u8>(), 0..400)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_clip_or_an_error(bytes in hostile()) {
        let len = bytes.len();
        match parse(bytes) {
            Ok(clip) => {
                prop_assert!(clip.frames[0].gop_start);
                let has = |layer| clip.frames.iter().any(|frame| frame.layer() == layer);
                // E2 without E1, as B pictures without P pictures are, is legal MPEG but no layered flow.
                let layered = has(Layer::E1) || !has(Layer::E2);
                prop_assert_eq!(clip.flow_spec().validate().is_ok(), layered);
                let total: usize = clip.frames.iter().map(|frame| frame.size as usize).sum();
                prop_assert!(total <= len + clip.frames.len() * 150);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_text_gives_a_trace_or_an_error(text in "([0-9IPBX# \t\n-]|\\PC){0,60}") {
        let _ = Clip::parse_trace(&text, FrameRate { num: 25, den: 1 });
    }

    #[test]
    fn the_writer_survives_any_frames_and_keeps_count(
        frames in proptest::collection::vec((any::<bool>(), 0..4u32, 0..3usize, any::<bool>(), hostile()), 0..12),
        received in proptest::collection::vec(any::<bool>(), 10),
    ) {
        let clip = parse(stream().concat()).unwrap();
        let (mut writer, mut out) = (StreamWriter::new(), Vec::new());
        let (mut seq, mut start) = (Serial(0), None);
        let hostile = frames.iter().map(|(_, step, layer, gop, data)| {
            (*step, Layer::ALL[*layer], *gop, data.clone())
        });
        let real = clip.frames.iter().zip(&received).filter(|&(_, &received)| received).map(|(frame, _)| {
            (1, frame.layer(), frame.gop_start, frame.data.as_ref().unwrap().to_vec())
        });
        let mut mixed: Vec<_> = real.collect();
        for (index, frame) in hostile.enumerate() {
            mixed.insert((index * 2).min(mixed.len()), frame);
        }
        for (step, layer, gop_start, data) in mixed {
            seq = seq.plus(step);
            writer.frame(seq, layer, gop_start, &data, &mut out);
            if writer.stats().written > 0 {
                let first = *start.get_or_insert(seq);
                let stats = writer.stats();
                prop_assert_eq!(stats.written + stats.repeated, seq.diff(first) as u64 + 1);
            }
        }
        writer.finish(&mut out);
        prop_assert_eq!(out.is_empty(), start.is_none());
    }
}
