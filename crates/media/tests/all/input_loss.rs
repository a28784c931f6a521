//! Datagrams that are lost on the way into a source: no receiver shows a picture that is not one of the encoder.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use bytes::Bytes;
use layercast_core::{Media, PerLayer, Serial, Span, Stream, Time};
use layercast_media::{
    Clip, FlowWriter, Frame, Ingest, InputLoss, OutputForm, Received, TimedFrame, Undecodable,
    WriterStats,
};

use crate::common::mux::{Mux, Times, VIDEO, pictures, times};
use crate::common::{decode, decode_anyway, encode, have_ffmpeg};

pub const FRAMES: usize = 100;

/// Name and ffmpeg options of the video.
const SOURCES: [(&str, &str); 5] = [
    (
        "h264",
        "-c:v libx264 -g 25 -bf 2 -x264-params scenecut=0:b-pyramid=none",
    ),
    ("slices", "-c:v libx264 -g 25 -bf 3 -x264-params slices=4"),
    (
        "h265",
        "-c:v libx265 -preset ultrafast -g 25 -bf 3 -x265-params log-level=none",
    ),
    (
        "mpeg2",
        "-c:v mpeg2video -g 12 -bf 2 -sc_threshold 1000000000",
    ),
    (
        "mpeg1",
        "-c:v mpeg1video -g 12 -bf 2 -sc_threshold 1000000000",
    ),
];

fn transport_stream(name: &str, options: &str) -> Vec<u8> {
    let options = format!("-frames:v {FRAMES} -s 352x288 -pix_fmt yuv420p {options} -f mpegts");
    encode(&format!("input-loss-{name}.ts"), &options)
}

/// What a source passes on of the datagrams that come, and what it says was lost.
pub fn taken<'a>(datagrams: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, InputLoss) {
    let mut ingest = Ingest::new();
    let mut frames: Vec<TimedFrame> = Vec::new();
    for (at, datagram) in datagrams.into_iter().enumerate() {
        ingest.push(Time::ZERO + Span::from_ms(at as u64), datagram);
        frames.extend(std::iter::from_fn(|| ingest.poll()));
    }
    ingest.finish();
    frames.extend(std::iter::from_fn(|| ingest.poll()));
    let frames = frames.into_iter().map(|it| it.frame).collect();
    (frames, ingest.stats().loss())
}

/// What a receiver writes that gets all of them.
pub fn written(media: Media, frames: &[Frame], undecodable: Undecodable) -> (Vec<u8>, WriterStats) {
    let rate = layercast_core::FrameRate { num: 25, den: 1 };
    let mut writer = FlowWriter::new(media, rate, OutputForm::Native);
    writer.set_undecodable(undecodable);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (index, frame) in frames.iter().enumerate() {
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: PerLayer::default(),
            emitted: Time::ZERO + Span::from_secs(9) + rate.due(index as u64),
            data: frame.data.as_ref().expect("bytes"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    writer.finish(&mut out);
    (out, writer.stats())
}

/// Which datagrams are lost: bursts of up to `burst` of them.
fn lost(count: usize, seed: u64, burst: u64) -> Vec<bool> {
    let mut stream = Stream::new(seed, "input loss");
    let mut lost = vec![false; count];
    let mut at = 30;
    while at < count {
        let len = 1 + stream.below(burst) as usize;
        let end = (at + len).min(count);
        lost[at..end].fill(true);
        at = end + 20 + stream.below(200) as usize;
    }
    lost
}

/// A burst is shorter than the continuity counter: 16 packets, two datagrams.
#[test]
fn receivers_of_a_transport_stream_show_no_picture_that_is_damaged() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let data = transport_stream(name, options);
        let original = decode("mpegts", &data);
        let datagrams: Vec<&[u8]> = data.chunks(7 * 188).collect();
        let (frames, none) = taken(datagrams.iter().copied());
        assert_eq!(none, InputLoss::default(), "{name}");
        let whole = decode(
            "mpegts",
            &written(Media::MpegTs, &frames, Undecodable::LeaveOut).0,
        );
        assert_eq!(whole, original, "{name}: nothing is lost");
        let (mut seen, mut broken) = (0, 0);
        for seed in 0..4 {
            let lost = lost(datagrams.len(), seed, 2);
            let kept = datagrams.iter().zip(&lost).filter(|(_, lost)| !**lost);
            let (frames, loss) = taken(kept.map(|(it, _)| *it));
            let (out, stats) = written(Media::MpegTs, &frames, Undecodable::LeaveOut);
            assert!(
                loss.packets > 0 && loss.pictures > 0,
                "{name} {seed}: {loss:?}"
            );
            assert_eq!(stats.damaged, loss.pictures, "{name} {seed}: {stats:?}");
            assert!(stats.undecodable >= stats.damaged);
            let shown = decode("mpegts", &out);
            for (at, picture) in shown.iter().enumerate() {
                assert!(original.contains(picture), "{name} {seed} {at}: {stats:?}");
            }
            seen += shown.len();
            // Without the marks these are shown.
            let (mut marked, _) = written(Media::MpegTs, &frames, Undecodable::Mark);
            marked.chunks_mut(188).for_each(|it| it[1] &= 0x7F);
            let shown = decode_anyway("mpegts", &marked);
            broken += shown.iter().filter(|it| !original.contains(it)).count();
        }
        assert!(seen > FRAMES && broken > 0, "{name}: {seen} {broken}");
    }
}

/// Where a file ends inside a picture, and what a receiver of it shows.
#[test]
fn a_file_that_is_cut_inside_a_picture_shows_no_part_of_it_and_says_so() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let data = transport_stream(name, options);
        let original = decode("mpegts", &data);
        let whole = Clip::parse(Bytes::copy_from_slice(&data)).expect("a clip");
        assert_eq!(whole.info.truncated, None, "{name}");
        let (mut cut_inside, mut broken) = (0, 0);
        for cut in (0..8).map(|it| data.len() * 3 / 5 / 188 * 188 + it * 188 * 11 + 1 + it * 23) {
            let data = &data[..cut];
            let clip = Clip::parse(Bytes::copy_from_slice(data)).expect("a clip");
            let (piped, loss) = taken(data.chunks(1_316));
            let (out, stats) = written(Media::MpegTs, &clip.frames, Undecodable::LeaveOut);
            let live = written(Media::MpegTs, &piped, Undecodable::LeaveOut).0;
            let shown = decode("mpegts", &out);
            assert_eq!(decode("mpegts", &live), shown, "{name} {cut}");
            for picture in &shown {
                assert!(original.contains(picture), "{name} {cut}");
            }
            assert!(stats.damaged <= 1 && loss.pictures == stats.damaged);
            match clip.info.truncated {
                Some(at) => assert_eq!((data[at as usize], at < cut as u64), (0x47, true)),
                None => panic!("{name} {cut}: it ends inside a packet"),
            }
            cut_inside += stats.damaged;
            let without_marks = decode_anyway("mpegts", data);
            broken += without_marks
                .iter()
                .filter(|it| !original.contains(it))
                .count();
        }
        assert!(
            cut_inside > 3 && broken > 0,
            "{name}: {cut_inside} {broken}"
        );
    }
}

/// Streams that end inside a picture, and such that do not.
#[test]
fn the_end_of_a_picture_is_known_by_its_length_its_stuffing_or_its_last_code() {
    let picture = |len: usize, end: &[u8]| {
        let mut picture = pictures(1)[0].clone();
        picture.truncate(200);
        picture.resize(len, 7);
        picture.extend_from_slice(end);
        picture
    };
    // With its header of 14 octets, the first packet holds 170 octets of a picture, and further ones 184.
    let full = 170 + 184;
    let shown = Times {
        dts: None,
        pcr: None,
        ..times(1)
    };
    for (len, end, cut, marked) in [
        (full - 9, &[][..], 0, false),
        (full - 9, &[][..], 1, true),
        // Octets that fit exactly are not known to be cut.
        (full, &[][..], 0, false),
        (full - 2, &[0, 0][..], 0, false),
        (full - 4, &[0, 0, 1, 0xB7][..], 0, false),
        (full + 60, &[][..], 188, false),
        (full + 60, &[][..], 100, true),
        // Of the last packet, only the sync byte is there.
        (full - 9, &[][..], 187, true),
    ] {
        let mut mux = Mux::default();
        mux.tables(1);
        mux.pes(VIDEO, 0xE0, times(0), &pictures(1)[0]);
        mux.pes(VIDEO, 0xE0, shown, &picture(len, end));
        let data = &mux.out[..mux.out.len() - cut];
        let clip = Clip::parse(Bytes::copy_from_slice(data)).expect("a clip");
        let stats = written(Media::MpegTs, &clip.frames, Undecodable::LeaveOut).1;
        assert_eq!(
            (stats.damaged, clip.info.truncated.is_some()),
            (u64::from(marked), marked),
            "{len} {end:?} {cut}"
        );
    }
}

/// Some multiplexers do not count: what they send is whole.
#[test]
fn counters_that_never_count_damage_few_pictures() {
    if !have_ffmpeg() {
        return;
    }
    let (name, options) = SOURCES[0];
    let mut data = transport_stream(name, options);
    data.chunks_mut(188).for_each(|packet| packet[3] &= 0xF0);
    let (frames, loss) = taken(data.chunks(7 * 188));
    assert!(loss.packets > 100 && loss.pictures < 5, "{loss:?}");
    assert!(frames.iter().filter(|it| it.gop_start).count() >= 3);
}

#[test]
fn receivers_of_rtp_show_no_picture_that_is_damaged() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let (format, media) = match name {
            "mpeg2" => ("mpeg2video", Media::Mpeg2),
            "mpeg1" => ("mpeg1video", Media::Mpeg1),
            "h265" => ("hevc", Media::H265),
            _ => ("h264", Media::H264),
        };
        let options =
            format!("-frames:v {FRAMES} -s 352x288 -pix_fmt yuv420p {options} -f {format}");
        let data = encode(&format!("input-loss-{name}.{format}"), &options);
        // The demultiplexer has another name than the multiplexer.
        let format = match media {
            Media::Mpeg1 | Media::Mpeg2 => "mpegvideo",
            _ => format,
        };
        let original = decode_anyway(format, &data);
        let clip = Clip::parse(Bytes::from(data)).expect("a clip");
        let datagrams = datagrams(&clip);
        let (mut seen, mut left_out) = (0, 0);
        for seed in 0..4 {
            let lost = lost(datagrams.len(), seed, 20);
            let kept = datagrams.iter().zip(&lost).filter(|(_, lost)| !**lost);
            let (frames, loss) = taken(kept.map(|(it, _)| &it[..]));
            assert!(loss.packets > 0, "{name} {seed}: {loss:?}");
            left_out += loss.pictures;
            // The receivers see no gap.
            let bytes: Vec<u8> = frames
                .iter()
                .flat_map(|it| it.data.clone().expect("bytes"))
                .collect();
            let shown = decode_anyway(format, &bytes);
            for (at, picture) in shown.iter().enumerate() {
                assert!(
                    original.contains(picture),
                    "{name} {seed} {at}: {loss:?}, {media:?}"
                );
            }
            seen += shown.len();
        }
        assert!(seen > FRAMES && left_out > 0, "{name}: {seen} {left_out}");
    }
}

/// Whatever a key frame loses costs its GOP and nothing else, also where those behind it count on as if it had never been.
#[test]
fn a_lost_packet_of_a_key_frame_costs_its_gop_and_no_more() {
    if !have_ffmpeg() {
        return;
    }
    // 16 pictures of a GOP are referred to by others, and `frame_num` wraps at 16; so a GOP may begin as the one before would continue.
    let sources = [
        ("wraps", "h264", 25, "-c:v libx264 -g 25 -bf 2"),
        (
            "short",
            "hevc",
            4,
            "-c:v libx265 -preset ultrafast -g 4 -bf 0 -x265-params log-level=none:ref=4:open-gop=0",
        ),
    ];
    for (name, format, gop, options) in sources {
        let options =
            format!("-frames:v {FRAMES} -s 352x288 -pix_fmt yuv420p {options} -f {format}");
        let data = encode(&format!("input-loss-{name}.{format}"), &options);
        let original = decode(format, &data);
        let clip = Clip::parse(Bytes::from(data)).expect("a clip");
        let datagrams = datagrams(&clip);
        let pictures: Vec<_> = datagrams.chunk_by(|a, b| a[4..8] == b[4..8]).collect();
        assert_eq!((pictures.len(), original.len()), (FRAMES, FRAMES), "{name}");
        for start in [gop, 2 * gop] {
            assert!(clip.frames[start].gop_start, "{name}");
            let packets = pictures[start].len();
            let each = (0..packets).map(|at| at..at + 1);
            for lost in each.chain([0..packets, 1..packets]) {
                let kept = pictures.iter().enumerate().flat_map(|(index, picture)| {
                    let packets = picture.iter().enumerate();
                    let kept = packets.filter(|(at, _)| index != start || !lost.contains(at));
                    kept.map(|it| &it.1[..]).collect::<Vec<&[u8]>>()
                });
                let (frames, loss) = taken(kept);
                let bytes: Vec<u8> = frames
                    .iter()
                    .flat_map(|it| it.data.clone().expect("bytes"))
                    .collect();
                let shown = decode(format, &bytes);
                let expected = [&original[..start], &original[start + gop..]].concat();
                // The first one may hold no more than parameter sets that are known.
                let nothing = lost == (0..1) && shown == original;
                let wrong = shown.iter().filter(|it| !original.contains(it)).count();
                assert_eq!(wrong, 0, "{name} {start} {lost:?} of {packets}: {loss:?}");
                assert!(
                    nothing || shown == expected,
                    "{name} {start} {lost:?} of {packets}: {} shown",
                    shown.len()
                );
            }
        }
    }
}

/// Datagrams cut short, and holes in a file.
#[test]
fn receivers_show_no_picture_of_a_stream_with_octets_missing() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let data = transport_stream(name, options);
        let original = decode("mpegts", &data);
        let (mut seen, mut left_out) = (0, 0);
        let mut look = |what: &str, frames: &[Frame]| {
            let (out, stats) = written(Media::MpegTs, frames, Undecodable::LeaveOut);
            let shown = decode_anyway("mpegts", &out);
            for (at, picture) in shown.iter().enumerate() {
                assert!(original.contains(picture), "{name} {what} {at}: {stats:?}");
            }
            (seen, left_out) = (seen + shown.len(), left_out + stats.damaged);
        };
        for seed in 0..4 {
            let mut random = Stream::new(seed, "cut");
            let datagrams: Vec<&[u8]> = data.chunks(7 * 188).collect();
            let cut = datagrams.iter().enumerate().map(|(at, it)| match at {
                30.. if random.below(20) == 0 => &it[..random.below(it.len() as u64) as usize],
                _ => it,
            });
            let cut: Vec<&[u8]> = cut.filter(|it| !it.is_empty()).collect();
            look("datagrams", &taken(cut.iter().copied()).0);
            // Some of 16 packets and a part of one, so that no counter shows them.
            for packets in [16, random.below(30) as usize] {
                let hole = packets * 188 + 1 + random.below(187) as usize;
                let from = data.len() / 3 + random.below(data.len() as u64 / 3) as usize;
                let file = [&data[..from], &data[from + hole..]].concat();
                let clip = Clip::parse(Bytes::from(file)).expect("a clip");
                look("hole", &clip.frames);
            }
        }
        assert!(
            seen > 6 * FRAMES && left_out > 20,
            "{name}: {seen} {left_out}"
        );
    }
}

/// Packets that are damaged in a file, or not there. What is joined to it, and a file that does not count, is whole.
#[test]
fn a_file_with_damaged_packets_shows_no_picture_that_is_damaged() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let data = transport_stream(name, options);
        let original = decode("mpegts", &data);
        let parse = |data: Vec<u8>| Clip::parse(Bytes::from(data)).expect("a clip");
        let (mut seen, mut left_out) = (0, 0);
        for seed in 0..8 {
            let mut random = Stream::new(seed, "damage");
            let mut damaged = Vec::new();
            let mut missing = 0;
            for (at, packet) in data.chunks(188).enumerate() {
                let mut packet = packet.to_vec();
                if missing == 0 && at > 200 && random.below(150) == 0 {
                    missing = 1 + random.below(12);
                }
                match missing.checked_sub(1) {
                    Some(left) => missing = left,
                    None => {
                        damaged.extend_from_slice(&packet);
                        continue;
                    }
                }
                // The error indicator of ISO/IEC 13818-1, 2.4.3.3: the octets of the packet are wrong.
                if seed % 2 == 0 {
                    packet[1] |= 0x80;
                    packet[4..].fill(0x5A);
                    damaged.extend_from_slice(&packet);
                }
            }
            let clip = parse(damaged);
            let (out, stats) = written(Media::MpegTs, &clip.frames, Undecodable::LeaveOut);
            assert_eq!(clip.damaged(), stats.damaged, "{name} {seed}");
            let shown = decode_anyway("mpegts", &out);
            for (at, picture) in shown.iter().enumerate() {
                assert!(original.contains(picture), "{name} {seed} {at}: {stats:?}");
            }
            (seen, left_out) = (seen + shown.len(), left_out + stats.damaged);
        }
        assert!(seen > FRAMES && left_out > 20, "{name}: {seen} {left_out}");

        let joined = parse([&data[..], &data[..]].concat());
        let mut silent = data.clone();
        silent.chunks_mut(188).for_each(|packet| packet[3] &= 0xF0);
        for (what, clip, pictures) in [
            ("joined", joined, 2 * FRAMES),
            ("silent", parse(silent), FRAMES),
        ] {
            let out = written(Media::MpegTs, &clip.frames, Undecodable::LeaveOut).0;
            let shown = decode_anyway("mpegts", &out).len();
            assert_eq!((clip.damaged(), shown), (0, pictures), "{name} {what}");
        }
    }
}

/// The clip as RTP datagrams.
pub fn datagrams(clip: &Clip) -> Vec<Vec<u8>> {
    let rate = clip.info.frame_rate;
    let mut writer = FlowWriter::new(clip.info.codec, rate, OutputForm::Rtp(7));
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (index, frame) in clip.frames.iter().enumerate() {
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: PerLayer::default(),
            emitted: Time::ZERO + Span::from_secs(9) + rate.due(index as u64),
            data: frame.data.as_ref().expect("a real clip"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    let mut start = 0;
    ends.iter()
        .map(|&end| out[std::mem::replace(&mut start, end)..end].to_vec())
        .collect()
}
