//! Frames of AV1, VP8 and VP9 that are shorter than their headers say.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use bytes::Bytes;
use layercast_core::{PerLayer, Serial, Time};
use layercast_media::{Clip, FlowWriter, Ingest, Map, OutputForm, Received};

use crate::common::{decode, encode, have_ffmpeg};

/// The header of an IVF file, and of each frame.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 12;
const GOP: usize = 10;

/// The frames of an IVF file with their headers.
fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &file[HEADER..];
    let mut all = Vec::new();
    while let Some(len) = rest.first_chunk() {
        let len = u32::from_le_bytes(*len) as usize + FRAME_HEADER;
        all.push(rest[..len].to_vec());
        rest = &rest[len..];
    }
    all
}

/// The sizes of the frames that come out of a pipe, and how many were left out.
fn piped(header: &[u8], frames: &[Vec<u8>]) -> (Vec<usize>, u64) {
    let mut ingest = Ingest::pipe();
    ingest.push(Time::ZERO, header);
    frames.iter().for_each(|it| ingest.push(Time::ZERO, it));
    ingest.finish();
    let sizes = std::iter::from_fn(|| ingest.poll()).map(|it| it.frame.size as usize);
    (sizes.collect(), ingest.stats().rtp.incomplete)
}

#[test]
fn a_frame_without_its_parts_is_left_out_with_what_refers_to_it() {
    if !have_ffmpeg() {
        return;
    }
    // Two tiles side by side and two below one another; odd sizes; frames that are not shown; other profiles.
    let vp9 = "-c:v libvpx-vp9 -cpu-used 8 -g 10 -keyint_min 10 -b:v 600k";
    let cases = [
        format!("-s 640x360 {vp9} -tile-columns 1 -tile-rows 1 -deadline realtime"),
        format!("-s 178x146 {vp9} -deadline realtime -error-resilient 1"),
        format!("-s 640x360 {vp9} -auto-alt-ref 1 -lag-in-frames 16 -deadline good"),
        format!("-s 176x144 -pix_fmt yuv444p {vp9} -deadline realtime -aq-mode 3"),
        format!("-s 176x144 -pix_fmt yuv420p10le {vp9} -deadline realtime"),
        "-s 640x360 -c:v libvpx -cpu-used 8 -g 10 -keyint_min 10 -b:v 600k".to_owned(),
    ];
    for (number, options) in cases.iter().enumerate() {
        let file = encode(
            &format!("cut-{number}.ivf"),
            &format!("-frames:v 30 {options}"),
        );
        let (header, all) = (&file[..HEADER], frames(&file));
        let sizes: Vec<usize> = all.iter().map(|it| it.len() - FRAME_HEADER).collect();
        assert_eq!(piped(header, &all), (sizes.clone(), 0), "{options}");
        // In the second GOP, so that frames before and behind it show.
        let at = GOP + 3;
        let is_cut_in = |len: usize| {
            let mut cut = all.clone();
            cut[at].truncate(FRAME_HEADER + len);
            cut[at][..4].copy_from_slice(&(len as u32).to_le_bytes());
            piped(header, &cut)
        };
        let before = all[..at].len();
        for len in [1, 4, 12] {
            let (got, left_out) = is_cut_in(len);
            assert_eq!(got[..before], sizes[..before], "{options}: {len}");
            assert_eq!(got.len() + left_out as usize, all.len(), "{options}: {len}");
            assert!((2..=7).contains(&left_out), "{options}: {len}: {left_out}");
        }
    }
    // Of several tiles the size of each but the last tells more.
    let file = encode("cut-0.ivf", &format!("-frames:v 30 {}", cases[0]));
    let mut all = frames(&file);
    let key = &mut all[GOP];
    let len = (key.len() - FRAME_HEADER) / 2;
    key.truncate(FRAME_HEADER + len);
    key[..4].copy_from_slice(&(len as u32).to_le_bytes());
    let (got, left_out) = piped(&file[..HEADER], &all);
    assert_eq!((got.len(), left_out), (2 * GOP, GOP as u64));
}

/// Token partitions but the last have sizes.
#[test]
fn a_frame_of_vp8_without_one_of_its_token_partitions_is_left_out() {
    if !have_ffmpeg() {
        return;
    }
    let vp8 =
        "-frames:v 30 -s 640x360 -c:v libvpx -slices 4 -cpu-used 8 -g 10 -keyint_min 10 -b:v 600k";
    let file = encode("cut-partitions.ivf", vp8);
    let mut all = frames(&file);
    assert_eq!(piped(&file[..HEADER], &all).1, 0);
    let key = &mut all[GOP];
    let len = (key.len() - FRAME_HEADER) / 2;
    key.truncate(FRAME_HEADER + len);
    key[..4].copy_from_slice(&(len as u32).to_le_bytes());
    let (got, left_out) = piped(&file[..HEADER], &all);
    assert_eq!((got.len(), left_out), (2 * GOP, GOP as u64));
    // A file keeps its place, and says it.
    let cut = [&file[..HEADER], &all.concat()].concat();
    let clip = Clip::parse(Bytes::from(cut)).expect("a clip");
    assert_eq!((clip.frames.len(), clip.damaged()), (30, 1));
}

#[test]
fn a_frame_of_a_file_that_is_shorter_than_it_says_costs_no_other() {
    if !have_ffmpeg() {
        return;
    }
    for codec in [
        "libvpx -cpu-used 8",
        "libvpx-vp9 -cpu-used 8 -deadline realtime",
    ] {
        let options =
            format!("-frames:v 30 -s 320x180 -c:v {codec} -g 10 -keyint_min 10 -b:v 600k");
        let file = encode("cut-short.ivf", &options);
        let whole = Clip::parse(Bytes::from(file.clone())).expect("a clip");
        assert_eq!(whole.damaged(), 0);
        for missing in [1, 4, 8, 12, 30] {
            let mut all = frames(&file);
            let len = all[GOP + 3].len() - missing;
            all[GOP + 3].truncate(len);
            let cut = [&file[..HEADER], &all.concat()].concat();
            let clip = Clip::parse(Bytes::from(cut)).expect("a clip");
            assert_eq!((clip.frames.len(), clip.damaged()), (30, 1), "{missing}");
            for (index, (frame, before)) in clip.frames.iter().zip(&whole.frames).enumerate() {
                assert_eq!(
                    frame.data == before.data,
                    index != GOP + 3,
                    "{missing} {index}"
                );
                assert_eq!(frame.time, before.time);
            }
        }
    }
}

/// What a receiver writes of a file, and how many pictures are marked in it.
fn written(file: Vec<u8>, map: Map) -> (Vec<u8>, u64) {
    let clip = Clip::of_program(Bytes::from(file), None, map).expect("a clip");
    let mut writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, OutputForm::Native);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (number, frame) in (0..).zip(&clip.frames) {
        let received = Received {
            seq: Serial(number),
            layer: frame.layer,
            gop_start: frame.gop_start,
            sound: false,
            missing: PerLayer::default(),
            emitted: Time::from_ps(40_000_000_000 * u64::from(number)),
            data: frame.data.as_ref().expect("its octets"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    (out, clip.damaged())
}

/// The frames of a file without their headers.
fn bodies(file: &[u8]) -> Vec<Vec<u8>> {
    let body = |it: Vec<u8>| it[FRAME_HEADER..].to_vec();
    frames(file).into_iter().map(body).collect()
}

/// Whichever frame is damaged, and however: what is written begins again at the next key frame.
#[test]
fn nothing_that_refers_to_a_damaged_frame_is_written() {
    if !have_ffmpeg() {
        return;
    }
    for (codec, map) in [
        ("libaom-av1 -cpu-used 8 -lag-in-frames 8", Map::Auto),
        ("libaom-av1 -cpu-used 8 -lag-in-frames 8", Map::Ipb),
        ("libvpx-vp9 -cpu-used 8 -lag-in-frames 8", Map::Auto),
        ("libvpx -cpu-used 8", Map::Ipb),
    ] {
        let name = format!(
            "damaged-{}.ivf",
            codec.replace(|it: char| !it.is_alphanumeric(), "-")
        );
        let options =
            format!("-frames:v 30 -s 176x144 -c:v {codec} -g 10 -keyint_min 10 -b:v 300k");
        let file = encode(&name, &options);
        let (header, all) = (&file[..HEADER], frames(&file));
        let (whole, marked) = written(file.clone(), map);
        let whole_bodies = bodies(&whole);
        assert_eq!((whole_bodies.len(), marked), (all.len(), 0), "{codec}");
        let clip = Clip::of_program(Bytes::from(file.clone()), None, map).expect("a clip");
        let next_start = |from: usize| {
            let mut later = from..all.len();
            later
                .find(|&at| clip.frames[at].gop_start)
                .unwrap_or(all.len())
        };
        for at in 1..all.len() - 1 {
            let without = |to: usize| [&whole_bodies[..at], &whole_bodies[to..]].concat();
            let mut half = all.clone();
            let len = half[at].len() - FRAME_HEADER;
            half[at].truncate(FRAME_HEADER + len / 2);
            let mut inserted = all.clone();
            inserted[at].splice(FRAME_HEADER + len / 2.., vec![0xEE; len - len / 2 + 50]);
            for damaged in [half, inserted] {
                let (got, marked) = written([header, &damaged.concat()].concat(), map);
                assert_eq!(marked, 1, "{codec} {map} {at}");
                let expected = without(next_start(at + 1));
                assert_eq!(bodies(&got), expected, "{codec} {map} {at}");
            }
            let mut exchanged = all.clone();
            exchanged.swap(at, at + 1);
            let (got, marked) = written([header, &exchanged.concat()].concat(), map);
            assert_eq!(marked, 2, "{codec} {map} {at}");
            assert_eq!(
                bodies(&got),
                without(next_start(at + 2)),
                "{codec} {map} {at}"
            );
        }
        // A decoder takes it so.
        let mut cut = all.clone();
        cut[GOP + 3].truncate(FRAME_HEADER + 3);
        let (got, _) = written([header, &cut.concat()].concat(), map);
        let shown = decode("ivf", &whole);
        assert!(
            decode("ivf", &got).iter().all(|it| shown.contains(it)),
            "{codec}"
        );
    }
}

/// What a decoder shows is a picture of the source, or is marked.
#[test]
fn octets_in_the_middle_of_a_transport_packet_damage_its_picture() {
    if !have_ffmpeg() {
        return;
    }
    let file = encode(
        "inserted.ts",
        "-frames:v 50 -s 320x180 -c:v libx264 -g 10 -bf 2",
    );
    let whole = Clip::parse(Bytes::from(file.clone())).expect("a clip");
    assert_eq!(whole.damaged(), 0);
    let mut places = (0..file.len() / 188).filter(|at| {
        let pid = u16::from_be_bytes([file[188 * at + 1] & 0x1F, file[188 * at + 2]]);
        pid == 0x100
    });
    let place = 188 * places.nth(40).expect("a packet of the video");
    for (at, inserted) in [
        (20, 188),
        (100, 376),
        (187, 188),
        (100, 50),
        (5, 1_000),
        (60, 3_008),
    ] {
        let (before, behind) = file.split_at(place + at);
        let data = [before, &vec![0xEE; inserted], behind].concat();
        let clip = Clip::parse(Bytes::from(data)).expect("a clip");
        assert!(
            (1..=2).contains(&clip.damaged()),
            "{at} {inserted}: {}",
            clip.damaged()
        );
        let is_marked = |data: &Bytes| data.chunks(188).any(|it| it[1] & 0x80 != 0);
        let whole: Vec<_> = whole.frames.iter().filter(|it| !it.sound).collect();
        let pictures = clip.frames.iter().filter(|it| !it.sound);
        for frame in pictures.filter(|it| !it.data.as_ref().is_some_and(is_marked)) {
            assert!(
                whole.iter().any(|it| it.data == frame.data),
                "{at} {inserted}"
            );
        }
    }
}
