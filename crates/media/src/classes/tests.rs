//! Classes of octets, against streams whose classes are known.

use std::fs;
use std::path::Path;

use layercast_core::DataClass;
use proptest::prelude::*;

use super::start_codes::StartCodes;
use super::*;
use crate::ts::VideoCodec;
use crate::ts::packet::{Adaptation, NULL, PAT, TS_PACKET, put, set_error};
use crate::ts::pes::put_video;
use crate::ts::psi::{pat, pmt, put_section};
use crate::{Clip, Picture};

/// One letter for each octet.
#[derive(Default)]
struct Letters(String);

impl Findings for Letters {
    fn octets(&mut self, class: DataClass, count: usize) {
        self.0.extend(std::iter::repeat_n(class.letter(), count));
    }
}

fn letters(mut classifier: VideoClassifier, pieces: &[&[u8]]) -> String {
    let mut out = Letters::default();
    for piece in pieces {
        classifier.push(piece, &mut out);
    }
    out.0
}

fn mpeg2() -> VideoClassifier {
    VideoClassifier::of(VideoCodec::Mpeg2).expect("a classifier")
}

/// A picture of this coding type with one slice of ten octets.
fn picture(kind: u8) -> Vec<u8> {
    let mut data = vec![0, 0, 1, 0, 0, kind << 3, 0xFF, 0xF8];
    data.extend_from_slice(&[0, 0, 1, 1, 0x12, 0x34]);
    data.extend_from_slice(&[0x55; 10]);
    data
}

#[test]
fn headers_of_mpeg_are_system_data_and_slices_are_of_the_picture() {
    let sequence = [0, 0, 1, 0xB3, 1, 2, 3, 4, 5, 6, 7, 8];
    let gop = [0, 0, 1, 0xB8, 9, 9, 9, 9];
    let mut data = [&sequence[..], &gop].concat();
    let mut expected = "S".repeat(20);
    for (kind, class) in [(1, 'I'), (2, 'P'), (3, 'B'), (4, 'I')] {
        data.extend_from_slice(&picture(kind));
        // Eight octets of picture header, six of slice header.
        expected.push_str(&"S".repeat(14));
        expected.extend(std::iter::repeat_n(class, 10));
    }
    data.extend_from_slice(&[0, 0, 1, 0xB7]);
    expected.push_str("SSSS");
    assert_eq!(letters(mpeg2(), &[&data]), expected);
}

#[test]
fn nothing_is_picture_data_before_the_first_picture_header() {
    assert_eq!(
        letters(mpeg2(), &[&[7; 9], &[0, 0, 1, 1, 2, 3, 4]]),
        "S".repeat(16)
    );
}

#[test]
fn coding_types_that_do_not_exist_are_counted_and_protected() {
    let mut classifier = mpeg2();
    let mut out = Letters::default();
    for kind in [0, 4, 5, 7] {
        classifier.push(&picture(kind), &mut out);
    }
    assert_eq!(out.0.matches('I').count(), 40);
    assert_eq!(out.0.matches('S').count(), 56);
    assert_eq!(classifier.unknown_types(), 3);
}

#[test]
fn a_header_that_is_cut_is_system_data_in_both_pieces() {
    let data = [picture(1), picture(3)].concat();
    let whole = letters(mpeg2(), &[&data]);
    for cut in 0..=data.len() {
        let (front, back) = data.split_at(cut);
        assert_eq!(letters(mpeg2(), &[front, back]), whole, "cut at {cut}");
    }
}

#[test]
fn zeros_at_the_end_of_a_piece_are_protected_whatever_follows() {
    let front = [&picture(2)[..], &[0, 0]].concat();
    let plain = letters(mpeg2(), &[&front, &[5, 5]]);
    assert!(plain.ends_with("PPPPPPPPPPSSPP"), "{plain}");
    // Whole they belong to the slice.
    let whole = letters(mpeg2(), &[&[&front[..], &[5, 5]].concat()]);
    assert!(whole.ends_with("PPPPPPPPPPPPPP"), "{whole}");
}

#[test]
fn nal_units_of_h264_have_classes() {
    let class_of = |head: [u8; 7]| {
        let mut classifier = StartCodes::new(codecs::H264);
        let mut out = Letters::default();
        classifier.push(&[&[0, 0, 1][..], &head, &[0x77; 4]].concat(), &mut out);
        assert_eq!(&out.0[..9], "SSSSSSSSS");
        out.0.pop().expect("a letter")
    };
    // first_mb_in_slice 0 and slice_type: 1 00110 (5, P), 1 00111 (6, B), 1 0001000 (7, I), 1 011 (2, I).
    let (p, b, i7, i2) = (0b1001_1000, 0b1001_1100, 0b1000_1000, 0b1011_1000);
    let nal = |kind: u8, slice: u8| class_of([kind, slice, 0x80, 0x80, 0x80, 0x80, 0x80]);
    assert_eq!(nal(0x65, i7), 'I');
    assert_eq!(nal(0x41, p), 'P');
    assert_eq!(nal(0x41, i7), 'I');
    assert_eq!(nal(0x41, i2), 'I');
    // A B picture that others refer to is needed like a P picture.
    assert_eq!(nal(0x41, b), 'P');
    assert_eq!(nal(0x01, b), 'B');
    assert_eq!(nal(0x01, p), 'B');
    for kind in [0x67, 0x68, 0x06, 0x09] {
        assert_eq!(nal(kind, p), 'S');
    }
    assert_eq!(nal(0x0C, 0xFF), 'B');
}

#[test]
fn nal_units_of_h265_have_classes() {
    let class_of = |kind: u8, temporal: u8| {
        let mut classifier = StartCodes::new(codecs::H265);
        let mut out = Letters::default();
        let head = [0, 0, 1, kind << 1, temporal + 1, 0x80, 1, 1, 1];
        classifier.push(&[&head[..], &[0x77; 4]].concat(), &mut out);
        out.0.pop().expect("a letter")
    };
    assert_eq!((class_of(19, 0), class_of(21, 0)), ('I', 'I'));
    assert_eq!((class_of(1, 0), class_of(0, 0)), ('P', 'B'));
    assert_eq!((class_of(1, 1), class_of(33, 0)), ('B', 'S'));
    assert_eq!(class_of(38, 0), 'B');
}

/// A file of the fuzz corpus.
fn corpus(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    fs::read(path.join(name)).expect("readable")
}

#[test]
fn pictures_of_real_streams_are_counted_as_clips_count_them() {
    let count = |name: &str| {
        let data = corpus(name);
        let report = ClassCensus::of(&data, ClassifierConfig::default());
        let report = report.expect("a stream");
        assert_eq!(report.octets, data.len() as u64);
        let pictures = report.videos[0].pictures.iter();
        let found: Vec<u64> = pictures.map(|it| it.count).collect();
        let clip = Clip::parse(data.into()).expect("a clip");
        let of = |kind: Picture| clip.frames.iter().filter(|it| it.picture == kind).count() as u64;
        (found, [Picture::I, Picture::P, Picture::B].map(of))
    };
    for name in ["mpeg_es/mpeg1", "mpeg_es/mpeg2", "h264/b", "h265/temporal"] {
        let (found, clip) = count(name);
        assert_eq!(found, clip, "{name}");
    }
    // A temporal unit of AV1 may have frames that are not shown.
    let (found, clip) = count("ivf/av1-obu");
    assert_eq!(found[0], clip[0]);
    assert!(found.iter().sum::<u64>() >= clip.iter().sum());
}

const VIDEO: u16 = 0x100;
const SOUND: u16 = 0x101;
const MAP: u16 = 0x1000;

/// Tables that name one video of this stream type.
fn tables(kind: u8) -> Vec<u8> {
    let mut out = Vec::new();
    put_section(PAT, &mut 0, &pat(1, MAP), &mut out);
    put_section(MAP, &mut 0, &pmt(1, kind, VIDEO), &mut out);
    out
}

/// The classes of all packets.
fn classes(classifier: &mut TsClassifier, stream: &[u8]) -> Vec<String> {
    let packets = stream.as_chunks::<TS_PACKET>().0.iter();
    let class = |packet: &[u8; TS_PACKET]| {
        let mut out = String::new();
        let mut end = 0;
        let result = classifier.push(packet, |class, range| {
            assert_eq!(range.start, end);
            assert!(!range.is_empty() && !out.ends_with(class.letter()));
            out.extend(std::iter::repeat_n(class.letter(), range.len()));
            end = range.end;
        });
        assert_eq!(out.len(), TS_PACKET);
        assert!(result.is_ok() || packet[0] != 0x47);
        out
    };
    packets.map(class).collect()
}

/// A PES packet with this elementary stream.
fn video(counter: &mut u8, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let adaptation = Adaptation {
        random_access: true,
        pcr: Some(27_000_000),
    };
    put_video(
        VIDEO,
        counter,
        adaptation,
        (9_000, 3_000),
        [data, &[]],
        &mut out,
    );
    out
}

#[test]
fn headers_of_packets_and_of_pes_packets_are_system_data() {
    let slice = [&picture(3)[..], &[0x66; 300]].concat();
    let stream = [tables(0x02), video(&mut 0, &slice)].concat();
    let mut classifier = TsClassifier::default();
    let found = classes(&mut classifier, &stream);
    assert!(found[..2].iter().all(|it| *it == "S".repeat(188)));
    // Header (4), adaptation field with the clock (8), PES header (19), picture and slice header (14).
    assert_eq!(found[2], "S".repeat(45) + &"B".repeat(143));
    assert_eq!(found[3][..4], *"SSSS");
    assert_eq!(
        found[3].matches('B').count() + found[2].matches('B').count(),
        310
    );
    assert_eq!(
        classifier.videos().collect::<Vec<_>>(),
        [(VIDEO, VideoCodec::Mpeg2)]
    );
}

#[test]
fn a_start_code_may_go_on_behind_packets_of_others() {
    let mut data = picture(3);
    // The next picture header begins with the last octet of the first packet: 188 - 4 - 8 - 19 octets of video.
    data.resize(157 - 1, 0x66);
    data.extend_from_slice(&picture(2));
    let packets = video(&mut 0, &data);
    let (first, second) = packets.split_at(TS_PACKET);
    let mut sound = Vec::new();
    // Emulated start codes of a stream that is no video.
    let noise = [0, 0, 1, 0, 0, 0x18, 0, 0, 1, 1, 9, 9].repeat(12);
    put(SOUND, true, 0, Adaptation::default(), &noise, &mut sound);
    let alone = classes(
        &mut TsClassifier::default(),
        &[tables(0x02), packets.clone()].concat(),
    );
    let mixed = [tables(0x02), first.to_vec(), sound, second.to_vec()].concat();
    let mixed = classes(&mut TsClassifier::default(), &mixed);
    assert_eq!(mixed[3], "S".repeat(188));
    assert_eq!((&mixed[2], &mixed[4]), (&alone[2], &alone[3]));
    assert!(
        mixed[2].ends_with("BS"),
        "the first octet of the start code"
    );
    assert_eq!(mixed[4].matches('P').count(), 10);
    assert!(!mixed[4].contains('B'));
}

#[test]
fn a_pes_header_that_does_not_fit_goes_on_in_the_next_packet() {
    let stuffed = Adaptation::default();
    let header = [0, 0, 1, 0xE0, 0, 0, 0x84, 0x80, 30];
    let mut out = tables(0x02);
    put(VIDEO, true, 0, stuffed, &header[..5], &mut out);
    put(
        VIDEO,
        false,
        1,
        stuffed,
        &[&header[5..], &[0xFF; 10]].concat(),
        &mut out,
    );
    let rest = [&[0xFF; 20][..], &picture(1)].concat();
    put(VIDEO, false, 2, stuffed, &rest, &mut out);
    let found = classes(&mut TsClassifier::default(), &out);
    assert_eq!(found[2..4], ["S".repeat(188), "S".repeat(188)]);
    assert_eq!(found[4], "S".repeat(178) + "IIIIIIIIII");
}

#[test]
fn scrambled_payload_and_video_of_unknown_syntax_have_the_fallback_class() {
    let mut stream = [tables(0x02), video(&mut 0, &picture(3))].concat();
    stream[2 * TS_PACKET + 3] |= 0x80;
    let mut classifier = TsClassifier::default();
    let found = classes(&mut classifier, &stream);
    assert!(found[2].starts_with("SSSS") && found[2].ends_with('I') && !found[2].contains('B'));
    let scrambled = found[2].matches('I').count() as u64;
    assert_eq!(classifier.stats().scrambled_octets, scrambled);

    // VC-1.
    let stream = [tables(0xEA), video(&mut 0, &picture(3))].concat();
    let mut classifier = TsClassifier::new(ClassifierConfig {
        fallback: DataClass::Predicted,
    });
    let found = classes(&mut classifier, &stream);
    assert_eq!(found[2].matches('P').count(), 24);
    assert_eq!(classifier.stats().unread_octets, 24);
}

#[test]
fn a_packet_that_comes_twice_is_padding_the_second_time() {
    let first = video(&mut 0, &picture(1));
    let stream = [tables(0x02), first.clone(), first].concat();
    let mut classifier = TsClassifier::default();
    let found = classes(&mut classifier, &stream);
    assert_eq!(found[2].matches('I').count(), 10);
    assert_eq!(found[3].matches('B').count(), 19 + 24);
    assert_eq!(classifier.stats().repeated_packets, 1);
}

#[test]
fn a_map_that_changes_changes_how_a_stream_is_read() {
    let mut stream = tables(0x02);
    let mut counter = 0;
    stream.extend(video(&mut counter, &picture(1)));
    put_section(MAP, &mut 1, &pmt(1, 0x1B, VIDEO), &mut stream);
    // The same octets are a slice of H.264 to which no other picture refers.
    stream.extend(video(&mut counter, &picture(1)));
    let mut classifier = TsClassifier::default();
    let found = classes(&mut classifier, &stream);
    let count = |packet: usize, class: char| found[packet].matches(class).count();
    assert_eq!((count(2, 'I'), count(2, 'B')), (10, 0));
    assert_eq!((count(4, 'I'), count(4, 'B')), (0, 7));
    assert_eq!(
        classifier.videos().collect::<Vec<_>>(),
        [(VIDEO, VideoCodec::H264)]
    );
}

#[test]
fn lost_synchronisation_is_an_error_until_packets_come_again() {
    let mut classifier = TsClassifier::default();
    let noise = [9; TS_PACKET];
    let mut push = |packet: &[u8; TS_PACKET]| {
        let mut runs = Vec::new();
        let result = classifier.push(packet, |class, range| runs.push((class, range)));
        (result, runs)
    };
    for _ in 0..2 {
        assert_eq!(push(&noise), (Ok(()), vec![(DataClass::Intra, 0..188)]));
    }
    assert_eq!(push(&noise).0, Err(TsSyncLost { packets: 3 }));
    assert_eq!(push(&noise).0, Err(TsSyncLost { packets: 4 }));
    let mut null = Vec::new();
    put(
        NULL,
        false,
        0,
        Adaptation::default(),
        &[0xFF; 184],
        &mut null,
    );
    let null = null.as_chunks().0[0];
    assert_eq!(push(&null).0, Ok(()));
    assert_eq!(push(&noise).0, Ok(()));
    let stats = classifier.stats();
    assert_eq!((stats.sync_losses, stats.unaligned_packets), (1, 5));
}

#[test]
fn a_damaged_packet_is_not_read() {
    let mut stream = [tables(0x02), video(&mut 0, &picture(3))].concat();
    let damaged = [tables(0x02), video(&mut 1, &picture(1))].concat();
    let at = stream.len();
    stream.extend_from_slice(&damaged[2 * TS_PACKET..]);
    set_error(&mut stream[at..]);
    let mut classifier = TsClassifier::default();
    let found = classes(&mut classifier, &stream);
    assert_eq!(found[3].matches('B').count(), 19 + 24);
    assert_eq!(classifier.stats().damaged_packets, 1);
}

#[test]
fn cells_have_the_class_of_their_most_important_octet() {
    let stream = [
        tables(0x02),
        video(&mut 0, &[&picture(3)[..], &[0x66; 317]].concat()),
    ]
    .concat();
    let report = ClassCensus::of(&stream, ClassifierConfig::default()).expect("a stream");
    // The video fills the second pair: 45 octets of headers, and the header of the next packet at 188.
    let cells: Vec<u64> = report.classes.iter().filter_map(|it| it.cells).collect();
    assert_eq!(cells, [8 + 2, 0, 0, 6]);
    let packets: Vec<u64> = report.classes.iter().filter_map(|it| it.packets).collect();
    assert_eq!(packets, [2, 0, 0, 2]);
    let gop = report.videos[0].gop.as_ref();
    assert_eq!(gop, None, "there is no I picture");
}

#[test]
fn the_order_of_pictures_is_reported() {
    let gop = [1, 2, 3, 3, 2, 3, 3].repeat(3);
    let open = [&[3, 2][..], &gop, &[1, 1, 2]].concat();
    let data: Vec<u8> = open.iter().flat_map(|&kind| picture(kind)).collect();
    let data = [&[0, 0, 1, 0xB3, 1, 2, 3, 4, 5, 6, 7, 8][..], &data].concat();
    let report = ClassCensus::of(&data, ClassifierConfig::default()).expect("a stream");
    let video = &report.videos[0];
    let gop = video.gop.as_ref().expect("GOPs");
    assert_eq!((gop.count, gop.min_pictures, gop.max_pictures), (4, 1, 7));
    assert_eq!(
        (gop.pattern.as_str(), gop.pattern_percent),
        ("IPBBPBB", 75.0)
    );
    assert_eq!(gop.reference_distance, 3);
    let counts: Vec<u64> = video.pictures.iter().map(|it| it.count).collect();
    assert_eq!(counts, [5, 8, 13]);
    // The first B picture has the sequence header before it.
    assert_eq!(video.pictures[2].max_octets, 24 + 12);
    assert_eq!(video.pictures[0].mean_octets, 24.0);
}

#[test]
fn streams_without_b_of_i_alone_of_fields_and_without_slices_are_accepted() {
    let sequence = [0, 0, 1, 0xB3, 1, 2, 3, 4, 5, 6, 7, 8];
    let sequence_octets = sequence.len() as u64;
    let empty = [0, 0, 1, 0, 0, 3 << 3, 0xFF, 0xF8];
    let of = |kinds: &[u8]| -> Vec<u8> {
        let pictures = kinds.iter().flat_map(|&kind| match kind {
            0 => empty.to_vec(),
            kind => picture(kind),
        });
        sequence.into_iter().chain(pictures).collect()
    };
    // I, P and B pictures; the longest and the shortest GOP; the distance of references.
    let cases = [
        (&[1, 2, 2, 2, 1, 2, 2, 2][..], [2, 6, 0], (4, 4, 1)),
        (&[1, 1, 1, 1], [4, 0, 0], (1, 1, 1)),
        // Two fields of each frame: of the first one I and P.
        (&[1, 2, 3, 3, 2, 2, 1, 2, 3, 3, 2, 2], [2, 6, 4], (6, 6, 3)),
        // B pictures without a slice.
        (&[1, 0, 0, 2, 1, 0, 0, 2], [2, 2, 4], (4, 4, 3)),
    ];
    for (kinds, counts, (min, max, distance)) in cases {
        let report = ClassCensus::of(&of(kinds), ClassifierConfig::default()).expect("a stream");
        let video = &report.videos[0];
        let count = |class| {
            let of_class = video.pictures.iter().find(|it| it.class == class);
            of_class.map_or(0, |it| it.count)
        };
        let found = [
            DataClass::Intra,
            DataClass::Predicted,
            DataClass::Bidirectional,
        ];
        assert_eq!(found.map(count), counts, "{kinds:?}");
        let gop = video.gop.as_ref().expect("GOPs");
        let found = (gop.min_pictures, gop.max_pictures, gop.reference_distance);
        assert_eq!(found, (min, max, distance), "{kinds:?}");
        let sequence = video.sequence.as_ref().expect("pictures");
        let letters: String = kinds
            .iter()
            .map(|kind| ['B', 'I', 'P', 'B'][usize::from(*kind)])
            .collect();
        assert_eq!(sequence.classes, letters);
        // The first picture has the sequence header.
        let sizes = kinds.iter().map(|&kind| match kind {
            0 => empty.len(),
            kind => picture(kind).len(),
        });
        let mut sizes: Vec<u64> = sizes.map(|it| it as u64).collect();
        sizes[0] += sequence_octets;
        assert_eq!(sequence.octets, sizes, "{kinds:?}");
    }
}

const FILES: [&str; 12] = [
    "mpeg_es/mpeg1",
    "mpeg_es/mpeg2",
    "h264/b",
    "h264/delimiters-and-filler",
    "h264/interlaced",
    "h264/slices",
    "h265/open",
    "h265/temporal",
    "ivf/av1-obu",
    "ts/mpeg2",
    "ts/h264",
    "ts/h265-open",
];

proptest! {
    /// What is no end of a piece has the same class in all ways to cut.
    #[test]
    fn the_cut_changes_at_most_what_may_begin_a_start_code(
        file in 0..9_usize,
        pieces in prop::collection::vec(1_usize..200, 1..40),
    ) {
        let data = corpus(FILES[file]);
        let whole = letters(VideoClassifier::of_stream(&data).expect("known"), &[&data]);
        let (mut rest, mut cuts, mut at) = (&data[..], Vec::new(), 0);
        for len in pieces {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            at += piece.len();
            cuts.push((piece, at));
            rest = behind;
        }
        cuts.push((rest, data.len()));
        let parts: Vec<&[u8]> = cuts.iter().map(|(piece, _)| *piece).collect();
        let cut = letters(VideoClassifier::of_stream(&data).expect("known"), &parts);
        prop_assert_eq!(cut.len(), whole.len());
        for (at, (a, b)) in whole.bytes().zip(cut.bytes()).enumerate() {
            let is_tail = cuts.iter().any(|&(_, end)| at < end && at + 2 >= end && data[at] == 0);
            prop_assert!(a == b || is_tail && b == b'S', "octet {}", at);
        }
    }

    #[test]
    fn damaged_streams_are_counted_whole(
        file in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let mut data = corpus(FILES[file]);
        for (at, octet) in damage {
            let at = at.index(data.len());
            data[at] ^= octet;
        }
        if let Ok(report) = ClassCensus::of(&data, ClassifierConfig::default()) {
            prop_assert_eq!(report.octets + report.skipped_octets, data.len() as u64);
            let sum: u64 = report.classes.iter().map(|it| it.octets).sum();
            prop_assert_eq!(sum, report.octets);
        }
    }
}

#[test]
fn an_octet_of_two_packets_counts_once() {
    // The sixth packet is cut: the seventh begins in it.
    let packet = |number: u8| [&[0x47, 1, 0, 0x10 | number & 15][..], &[number; 184]].concat();
    let mut stream: Vec<u8> = (0..12).flat_map(packet).collect();
    let whole = ClassCensus::of(&stream, ClassifierConfig::default()).expect("a stream");
    assert_eq!((whole.octets, whole.skipped_octets), (12 * 188, 0));
    stream.drain(5 * 188 + 50..6 * 188);
    let cut = ClassCensus::of(&stream, ClassifierConfig::default()).expect("a stream");
    let packets = cut.classes.iter().filter_map(|it| it.packets);
    assert_eq!(packets.sum::<u64>(), 12);
    assert_eq!(cut.octets + cut.skipped_octets, stream.len() as u64);
    let sum: u64 = cut.classes.iter().map(|it| it.octets).sum();
    assert_eq!(sum, cut.octets);
}

#[test]
fn what_is_between_packets_is_counted_in_files_of_each_form() {
    let packet = |number: u8| [&[0x47, 1, 0, 0x10 | number & 15][..], &[number; 184]].concat();
    for (before, behind) in [(0, 0), (4, 0), (0, 16)] {
        let of = |number: u8| [vec![0; before], packet(number), vec![0; behind]].concat();
        let stream: Vec<u8> = (0..12).flat_map(of).collect();
        let report = ClassCensus::of(&stream, ClassifierConfig::default()).expect("a stream");
        assert_eq!(report.octets, 12 * 188);
        assert_eq!(report.skipped_octets, 12 * (before + behind) as u64);
    }
}
