//! Transport and program streams as encoders, multiplexers and recorders really write them.

use bytes::Bytes;
use layercast_core::{FrameRate, Level, PerLayer, Serial, Span, Time};
use layercast_media::{
    Advice, Clip, Container, FlowWriter, Frame, Ingest, Map, MediaError, OutputForm, PaceChange,
    Picture, Received, StreamState, TimedFrame, VideoCodec,
};

use crate::common::mux::{MAP, Mux, Times, VIDEO, pat, pictures, pmt, section, times};

const MPEG1: u8 = 1;
const SOUND: u16 = 0x200;

fn parse(bytes: Vec<u8>) -> Clip {
    Clip::parse(Bytes::from(bytes)).expect("a clip")
}

fn error(bytes: Vec<u8>) -> String {
    Clip::parse(Bytes::from(bytes))
        .expect_err("no clip")
        .to_string()
}

/// Two GOPs, a picture a PES packet, with what `tables` writes before each key frame.
fn stream(tables: impl Fn(&mut Mux, usize)) -> Vec<u8> {
    let mut mux = Mux::default();
    for (index, picture) in pictures(2).iter().enumerate() {
        if index % 10 == 0 {
            tables(&mut mux, index);
        }
        mux.pes(VIDEO, 0xE0, times(index), picture);
    }
    mux.out
}

fn plain() -> Vec<u8> {
    stream(|mux, _| mux.tables(MPEG1))
}

/// The kinds of the pictures.
fn kinds(clip: &Clip) -> String {
    let pictures = clip.frames.iter().filter(|it| it.picture != Picture::Data);
    pictures.map(|it| format!("{:?}", it.picture)).collect()
}

/// When the pictures are due, in milliseconds.
fn picture_times(clip: &Clip) -> Vec<u64> {
    let pictures = clip.frames.iter().filter(|it| it.picture != Picture::Data);
    pictures.filter_map(|it| Some(it.time?.as_ms())).collect()
}

const TWO_GOPS: &str = "IPBBPBBPBBIPBBPBBPBB";

/// The elementary stream of the video in packets.
fn video_of(packets: &[u8]) -> Vec<u8> {
    let mut video = Vec::new();
    for packet in packets.chunks(188) {
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let start = match packet[3] & 0x20 {
            0 => 4,
            _ => 5 + usize::from(packet[4]),
        };
        let payload = &packet[start..];
        if pid == VIDEO && packet[3] & 0x10 != 0 {
            let head = match packet[1] & 0x40 {
                0 => 0,
                _ => 9 + usize::from(payload[8]),
            };
            video.extend_from_slice(&payload[head..]);
        }
    }
    video
}

/// What a receiver of `level` writes.
fn received(clip: &Clip, level: Level) -> Vec<u8> {
    let mut writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, OutputForm::Native);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (index, frame) in clip.frames.iter().enumerate() {
        if level.includes(frame.layer) {
            let frame = Received {
                seq: Serial(index as u32),
                layer: frame.layer,
                gop_start: frame.gop_start,
                sound: frame.sound,
                missing: PerLayer::default(),
                emitted: Time::ZERO + Span::from_secs(9) + frame.time.expect("a time"),
                data: frame.data.as_ref().expect("real"),
            };
            writer.frame(&frame, &mut out, &mut ends);
        }
    }
    out
}

/// The whole of `wanted` is in the stream, and receivers of any level get their pictures of it.
fn all_of(bytes: Vec<u8>, wanted: &[Vec<u8>], case: &str) -> Clip {
    let clip = parse(bytes);
    assert_eq!(kinds(&clip).len(), wanted.len(), "{case}");
    let layers = |level: Level| {
        let frames = clip
            .frames
            .iter()
            .enumerate()
            .filter(|(_, it)| it.picture != Picture::Data);
        let numbered = frames.map(|(_, frame)| frame.layer).enumerate();
        let of_level = numbered.filter(move |(_, layer)| level.includes(*layer));
        of_level
            .flat_map(|(index, _)| wanted[index].clone())
            .collect::<Vec<u8>>()
    };
    for level in [Level::BASE, Level::E1, Level::FULL] {
        assert_eq!(
            video_of(&received(&clip, level)),
            layers(level),
            "{case} {level}"
        );
    }
    clip
}

#[test]
fn tables_share_packets_and_reach_over_several() {
    let map = pmt(1, 0, true, &[(MPEG1, VIDEO, &[])]);
    let other = section(0xC0, 1, true, 0, &[1; 20]);
    let descriptors = [&[5u8, 100][..], &[b'x'; 100]].concat();
    let long = pmt(1, 0, true, &[(MPEG1, VIDEO, &descriptors)]);
    let front = section(0xC0, 1, true, 0, &[1; 120]);
    let streams = [
        stream(|mux, _| {
            mux.sections(0, &[&pat(&[(1, MAP)])]);
            mux.sections(MAP, &[&other, &map]);
        }),
        stream(|mux, _| {
            mux.sections(0, &[&pat(&[(1, MAP)])]);
            mux.sections(MAP, &[&front, &long]);
        }),
        // The map ends in the packet in which another section begins.
        stream(|mux, _| {
            mux.sections(0, &[&pat(&[(1, MAP)])]);
            let (a, b) = long.split_at(100);
            let mut second = [&[b.len() as u8][..], b, &other].concat();
            second.resize(184, 0xFF);
            mux.packet(MAP, true, None, &[&[83u8][..], &[0xFF; 83], a].concat());
            mux.packet(MAP, true, None, &second);
        }),
    ];
    for (case, bytes) in streams.into_iter().enumerate() {
        let clip = all_of(bytes, &pictures(2), &case.to_string());
        assert_eq!(kinds(&clip), TWO_GOPS, "{case}");
    }
}

#[test]
fn packets_that_come_twice_count_once() {
    let bytes = plain();
    let twice: Vec<u8> = bytes.chunks(188).flat_map(|it| [it, it].concat()).collect();
    let clip = all_of(twice, &pictures(2), "all twice");
    assert_eq!(clip, parse(bytes));
}

#[test]
fn damaged_missing_and_absent_tables_are_told_apart() {
    let damaged = stream(|mux, _| {
        let (mut pat, mut map) = (pat(&[(1, MAP)]), pmt(1, 0, true, &[(MPEG1, VIDEO, &[])]));
        *pat.last_mut().expect("bytes") ^= 1;
        *map.last_mut().expect("bytes") ^= 1;
        mux.sections(0, &[&pat]);
        mux.sections(MAP, &[&map]);
    });
    assert!(error(damaged).contains("wrong checksum (CRC-32)"));
    let no_map = stream(|mux, _| mux.sections(0, &[&pat(&[(7, MAP)])]));
    assert!(error(no_map).contains("lists program 7, but the map (PMT)"));
    assert!(error(stream(|_, _| {})).contains("no program tables (PAT and PMT)"));
}

#[test]
fn pictures_that_share_a_pes_packet_are_frames_of_their_own() {
    let pictures = pictures(3);
    let grouped = |sizes: &[usize]| {
        let mut mux = Mux::default();
        let mut index = 0;
        for &size in sizes.iter().cycle() {
            if index == pictures.len() {
                break;
            }
            if index % 10 == 0 {
                mux.tables(MPEG1);
            }
            mux.pes(
                VIDEO,
                0xE0,
                times(index),
                &pictures[index..index + size].concat(),
            );
            index += size;
        }
        mux.out
    };
    let one = parse(grouped(&[1]));
    for sizes in [
        &[10][..],
        &[1, 1, 1, 1, 1, 1, 1, 1, 2],
        &[2, 1, 1, 1, 1, 1, 1, 1, 1],
    ] {
        let clip = all_of(grouped(sizes), &pictures, &format!("{sizes:?}"));
        assert_eq!(kinds(&clip), kinds(&one), "{sizes:?}");
        let times = picture_times(&clip);
        assert_eq!(
            times,
            (0..30).map(|n| n * 40).collect::<Vec<u64>>(),
            "{sizes:?}"
        );
    }
    // A P picture and the I picture behind it in one PES packet.
    let last_with_key = grouped(&[9, 2, 9, 1, 9]);
    assert_eq!(kinds(&parse(last_with_key)), kinds(&one));
}

#[test]
fn a_picture_reaches_over_pes_packets_that_begin_anywhere() {
    let pictures = pictures(3);
    let whole = pictures.concat();
    for size in [150, 700, 5_000] {
        let mut mux = Mux::default();
        mux.tables(MPEG1);
        let mut at = 0;
        for piece in whole.chunks(size) {
            let index = at / pictures[1].len();
            at += piece.len();
            let given = times(index.min(29));
            let pcr = given.pcr;
            mux.pes(
                VIDEO,
                0xE0,
                Times {
                    pcr,
                    ..Times::default()
                },
                piece,
            );
        }
        all_of(mux.out, &pictures, &size.to_string());
    }
}

#[test]
fn packets_of_192_and_204_bytes_and_garbage_between_are_read() {
    let bytes = plain();
    let clip = parse(bytes.clone());
    let timed = |packet: &[u8]| [&[0x47, 0, 1, 2], packet].concat();
    let coded = |packet: &[u8]| [packet, &[0; 16]].concat();
    let wrapped =
        |wrap: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<u8> { bytes.chunks(188).flat_map(wrap).collect() };
    assert_eq!(parse(wrapped(&timed)), clip);
    assert_eq!(parse(wrapped(&coded)), clip);
    let garbage = [&[9; 5_000][..], &bytes].concat();
    assert_eq!(parse(garbage), clip);
    let middle = bytes.len() / 188 / 2 * 188;
    // They may as well be in the packet before.
    let between = [&bytes[..middle], &[9; 700], &bytes[middle..]].concat();
    let marked = parse(between);
    assert_eq!(
        (marked.damaged(), marked.frames.len()),
        (1, clip.frames.len())
    );
    let pairs = marked.frames.iter().zip(&clip.frames);
    assert_eq!(pairs.filter(|it| it.0 != it.1).count(), 1);
}

#[test]
fn a_map_that_changes_moves_the_video_and_one_that_is_to_come_does_not() {
    let build = |late: (u8, u16), next: bool| {
        let mut mux = Mux::default();
        for (index, picture) in pictures(4).iter().enumerate() {
            let (kind, pid) = if index >= 20 { late } else { (MPEG1, VIDEO) };
            if index % 10 == 0 {
                let version = u8::from(index >= 20);
                mux.sections(0, &[&pat(&[(1, MAP)])]);
                mux.sections(MAP, &[&pmt(1, version, true, &[(kind, pid, &[])])]);
                if next {
                    mux.sections(MAP, &[&pmt(1, 9, false, &[(0x1B, 0x300, &[])])]);
                }
            }
            mux.pes(pid, 0xE0, times(index), picture);
        }
        mux.out
    };
    let same = parse(build((MPEG1, VIDEO), false));
    for (late, next) in [
        ((MPEG1, 0x300), false),
        ((2, VIDEO), false),
        ((MPEG1, VIDEO), true),
    ] {
        let bytes = build(late, next);
        let clip = parse(bytes.clone());
        assert_eq!(kinds(&clip), kinds(&same), "{late:?}");
        assert_eq!(clip.frames.iter().filter(|it| it.gop_start).count(), 4);
        // The same stream as it arrives live, in datagrams of seven packets and of no whole packets.
        for size in [1_316, 1_000] {
            let datagrams: Vec<Vec<u8>> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            let (frames, ingest) = live(&datagrams);
            assert_eq!(ingest.problem(), None);
            let pictures = frames.iter().filter(|it| it.picture != Picture::Data);
            let kinds_of: String = pictures.map(|it| format!("{:?}", it.picture)).collect();
            assert_eq!(kinds_of, kinds(&same), "{late:?} in datagrams of {size}");
            assert_eq!(frames.iter().filter(|it| it.gop_start).count(), 4);
        }
    }
}

/// Two GOPs of two programs: sound alone, and video at program 2.
fn two_programs(programs: &[(u16, u16)], late: bool) -> Vec<u8> {
    let mut mux = Mux::default();
    for (index, picture) in pictures(2).iter().enumerate() {
        if index % 5 == 0 {
            mux.sections(0, &[&pat(programs)]);
            if late {
                mux.sections(MAP + 1, &[&pmt(2, 0, true, &[(MPEG1, VIDEO, &[])])]);
            }
            mux.sections(MAP, &[&pmt(1, 0, true, &[(3, SOUND, &[])])]);
            if !late {
                mux.sections(MAP + 1, &[&pmt(2, 0, true, &[(MPEG1, VIDEO, &[])])]);
            }
        }
        let sound = Times {
            dts: None,
            ..times(index)
        };
        mux.pes(SOUND, 0xC0, sound, &[7; 60]);
        mux.pes(VIDEO, 0xE0, times(index), picture);
    }
    mux.out
}

#[test]
fn the_first_program_with_video_is_layered() {
    for programs in [
        &[(0, 16), (2, MAP + 1)][..],
        &[(1, MAP), (2, MAP + 1)],
        &[(9, 0x1388), (2, MAP + 1)],
    ] {
        for late in [false, true] {
            let clip = parse(two_programs(programs, late));
            assert_eq!(kinds(&clip), TWO_GOPS, "{programs:?}");
        }
    }
}

#[test]
fn a_program_that_is_asked_for_is_served_alone() {
    let bytes = Bytes::from(two_programs(&[(1, MAP), (2, MAP + 1)], false));
    let sound = Clip::of_program(bytes.clone(), Some(1), Map::Auto).expect("program 1");
    assert_eq!((kinds(&sound).len(), sound.info.video), (0, None));
    let video = Clip::of_program(bytes.clone(), Some(2), Map::Auto).expect("program 2");
    assert_eq!(kinds(&video), TWO_GOPS);
    let out = received(&video, Level::FULL);
    let pids: std::collections::BTreeSet<u16> = out
        .chunks(188)
        .map(|it| u16::from_be_bytes([it[1] & 0x1F, it[2]]))
        .collect();
    assert_eq!(pids.into_iter().collect::<Vec<_>>(), [0, VIDEO, MAP + 1]);
    // What it lists is that program alone.
    let again = Clip::of_program(Bytes::from(out.clone()), Some(1), Map::Auto);
    assert!(again.is_err_and(|it| it.to_string().contains("no program 1; it has 2")));
    assert_eq!(kinds(&parse(out)), TWO_GOPS);
    let unknown = Clip::of_program(bytes, Some(3), Map::Auto).expect_err("no such program");
    assert!(
        unknown.to_string().contains("no program 3; it has 1, 2"),
        "{unknown}"
    );
}

#[test]
fn time_stamps_that_are_missing_are_interpolated() {
    let build = |given: &dyn Fn(usize, Times) -> Times| {
        let mut mux = Mux::default();
        for (index, picture) in pictures(3).iter().enumerate() {
            if index % 10 == 0 {
                mux.tables(MPEG1);
            }
            mux.pes(VIDEO, 0xE0, given(index, times(index)), picture);
        }
        let clip = parse(mux.out);
        let times = picture_times(&clip);
        assert_eq!(times.len(), 30);
        times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect::<Vec<u64>>()
    };
    let none = |times: Times| Times {
        pts: None,
        dts: None,
        ..times
    };
    let keys = build(&|index, times| if index % 10 == 0 { times } else { none(times) });
    assert_eq!(keys, [40; 29]);
    assert_eq!(build(&|_, times| none(times)), [40; 29]);
    let alone = build(&|_, times| Times { dts: None, ..times });
    assert_eq!(alone[10..], [40; 19]);
    assert!(alone.iter().all(|&step| step <= 120), "{alone:?}");
}

#[test]
fn a_file_is_read_with_the_tables_that_come_later() {
    for at in [2usize, 15, 19] {
        let mut mux = Mux::default();
        for (index, picture) in pictures(2).iter().enumerate() {
            if index == at {
                mux.tables(MPEG1);
            }
            mux.pes(VIDEO, 0xE0, times(index), picture);
        }
        let clip = parse(mux.out);
        assert_eq!(kinds(&clip), TWO_GOPS, "{at}");
        assert_eq!(clip.frames.iter().filter(|it| it.gop_start).count(), 2);
    }
}

#[test]
fn the_rate_is_that_of_pictures() {
    let bytes = two_programs(&[(1, MAP), (2, MAP + 1)], false);
    let clip = parse(bytes);
    assert!(clip.frames.len() > 20, "sound is there");
    let pal = FrameRate { num: 25, den: 1 };
    assert_eq!(clip.picture_rate(), pal);
    assert_eq!(clip.flow_spec().pictures_per_second(), pal);
    assert_eq!(clip.summary().fps, 25.0);
    let gop = clip.flow_spec().gop();
    assert!(gop.as_ms().abs_diff(400) < 30, "{gop:?}");
}

#[test]
fn codecs_that_are_not_layered_are_told() {
    let build = |kind: u8, descriptors: &[u8]| {
        let mut mux = Mux::default();
        for (index, picture) in pictures(2).iter().enumerate() {
            if index % 10 == 0 {
                mux.sections(0, &[&pat(&[(1, MAP)])]);
                mux.sections(MAP, &[&pmt(1, 0, true, &[(kind, VIDEO, descriptors)])]);
            }
            mux.pes(VIDEO, 0xE0, times(index), picture);
        }
        mux.out
    };
    let clip = parse(build(6, &[]));
    let unnamed = Advice::Codec {
        codec: VideoCodec::Unnamed,
    };
    assert_eq!(clip.advice(), [unnamed]);
    let mut ingest = Ingest::new();
    ingest.push(Time::ZERO, &build(6, b"\x05\x04AV01"));
    assert_eq!(ingest.codec(), Some(VideoCodec::Av1));
    let sound = parse(two_programs(&[(1, MAP)], false));
    assert_eq!(sound.advice(), [Advice::NoVideo]);
}

/// The frames of datagrams.
fn live(datagrams: &[Vec<u8>]) -> (Vec<Frame>, Ingest) {
    let mut ingest = Ingest::new();
    for datagram in datagrams {
        ingest.push(Time::ZERO, datagram);
    }
    ingest.finish();
    let frames = std::iter::from_fn(|| ingest.poll())
        .map(|it| it.frame)
        .collect();
    (frames, ingest)
}

#[test]
fn datagrams_are_cut_anywhere_and_a_stray_one_chooses_nothing() {
    let bytes = plain();
    let cut = |size: usize, from: usize| -> Vec<Vec<u8>> {
        bytes[from..].chunks(size).map(<[u8]>::to_vec).collect()
    };
    let (all, _) = live(&cut(1_316, 0));
    for size in [188, 1_000, 1_472] {
        assert_eq!(live(&cut(size, 0)).0, all, "{size}");
        assert!(!live(&cut(size, 3 * size)).0.is_empty(), "{size}");
    }
    for stray in [
        [&[0x80][..], &(1..20).collect::<Vec<u8>>()].concat(),
        b"hello there, is anybody in?".to_vec(),
    ] {
        let mut datagrams = cut(1_316, 0);
        datagrams.insert(0, stray);
        let (frames, ingest) = live(&datagrams);
        assert_eq!(frames, all);
        assert_eq!((ingest.form(), ingest.stats().foreign), ("MPEG-TS", 1));
    }
    let (frames, ingest) = live(&vec![vec![0xFF, 0xF1, 0x50, 0x80, 9]; 3]);
    assert!(frames.is_empty());
    assert!(ingest.problem().is_some_and(|it| it.contains("AAC")));
}

#[test]
fn program_streams_are_read_behind_and_between_garbage() {
    let pack = [0, 0, 1, 0xBA, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8];
    let packet = |data: &[u8]| {
        let [high, low] = (data.len() as u16 + 3).to_be_bytes();
        [&[0, 0, 1, 0xE0, high, low, 0x80, 0, 0], data].concat()
    };
    let parts: Vec<Vec<u8>> = pictures(2).iter().map(|it| packet(it)).collect();
    let whole = [&pack[..], &parts.concat()].concat();
    let clip = parse(whole.clone());
    assert_eq!(
        (clip.info.container, kinds(&clip).as_str()),
        (Container::MpegPs, TWO_GOPS)
    );
    let garbage = [7; 300];
    let dirty = [
        &garbage[..],
        &pack,
        &parts[..9].concat(),
        &garbage,
        &pack,
        &parts[9..].concat(),
    ];
    assert_eq!(kinds(&parse(dirty.concat())), TWO_GOPS);
    let nothing = Clip::parse(Bytes::from([&pack[..], &garbage].concat()));
    assert!(matches!(
        nothing,
        Err(MediaError::Malformed { offset: 14, .. })
    ));
}

/// A stream of 24 s in datagrams. A picture comes at the time that `arrival` gives for its media time, in milliseconds.
fn paced(arrival: impl Fn(u64) -> u64) -> (Vec<PaceChange>, Ingest) {
    let mut mux = Mux::default();
    let mut ingest = Ingest::new();
    let mut changes = Vec::new();
    for (index, picture) in pictures(60).iter().enumerate() {
        if index % 10 == 0 {
            mux.tables(MPEG1);
        }
        mux.pes(VIDEO, 0xE0, times(index), picture);
        let now = Time::ZERO + Span::from_ms(arrival(40 * index as u64));
        for datagram in std::mem::take(&mut mux.out).chunks(1_316) {
            ingest.push(now, datagram);
        }
        while ingest.poll().is_some() {}
        changes.extend(ingest.poll_pace());
    }
    (changes, ingest)
}

#[test]
fn an_encoder_slower_than_real_time_is_told_by_the_stamps_and_the_arrivals() {
    let (changes, ingest) = paced(|ms| ms * 100 / 85);
    assert!(matches!(changes[..], [PaceChange::Slow(_)]), "{changes:?}");
    let stats = ingest.stats();
    assert!(stats.slow);
    let measured = stats.media_ms_per_s.expect("a window");
    assert!((840..=860).contains(&measured), "{measured}");
    let (changes, ingest) = paced(|ms| ms + ms * 37 % 90);
    assert_eq!(changes, []);
    assert!(!ingest.stats().slow);
}

/// 8 s of pictures with sound every 40 ms, each at its time; what `comes` does not let through of the video and of the sound, by
/// time in milliseconds, is missing.
fn beside(
    stamped: bool,
    comes: impl Fn(u16, u64) -> bool,
) -> (Vec<(u64, TimedFrame)>, Vec<Change>) {
    let mut mux = Mux::default();
    let mut ingest = Ingest::new();
    let (mut frames, mut changes) = (Vec::new(), Vec::new());
    for (index, picture) in pictures(20).iter().enumerate() {
        let ms = 40 * index as u64;
        if index % 10 == 0 && comes(0, ms) {
            mux.sections(0, &[&pat(&[(1, MAP)])]);
            mux.sections(
                MAP,
                &[&pmt(1, 0, true, &[(MPEG1, VIDEO, &[]), (3, SOUND, &[])])],
            );
        }
        if comes(VIDEO, ms) {
            mux.pes(VIDEO, 0xE0, times(index), picture);
        }
        if comes(SOUND, ms) {
            // Sound has a clock offset to the pictures of its own.
            let pts = stamped.then(|| times(index).dts.expect("a time") + 20_000);
            let times = Times {
                pts,
                ..Times::default()
            };
            mux.pes(SOUND, 0xC0, times, &[7; 100]);
        }
        let now = Time::ZERO + Span::from_ms(1_000 + ms);
        for datagram in std::mem::take(&mut mux.out).chunks(1_316) {
            ingest.push(now, datagram);
        }
        frames.extend(std::iter::from_fn(|| ingest.poll()).map(|it| (ms, it)));
        let news = std::iter::from_fn(|| ingest.poll_change());
        changes.extend(news.map(|it| {
            let is_back = it.state == StreamState::Back;
            (ms, it.pid, it.kind, is_back, it.has_clock)
        }));
    }
    (frames, changes)
}

/// When a stream changes, its PID and kind, whether it is back, and whether it has the clock.
type Change = (u64, u16, &'static str, bool, bool);

#[test]
fn sound_goes_on_beside_a_video_that_stops() {
    for stamped in [true, false] {
        let gone = 3_000..6_000;
        let (frames, changes) = beside(stamped, |pid, ms| pid != VIDEO || !gone.contains(&ms));
        let first = frames[0].1.stamp.expect("a time");
        let media = |it: &TimedFrame| it.stamp.map(|stamp| stamp.since(first) / 90);
        // From the end of the last picture on, sound comes every 40 or 80 ms and has the time of the pictures that are missing.
        let alone: Vec<_> = frames
            .iter()
            .filter(|it| (3_500..6_000).contains(&it.0))
            .collect();
        assert!(alone.len() > 25, "{stamped}: {}", alone.len());
        for (ms, frame) in &alone {
            assert!(frame.frame.sound && !frame.frame.gop_start);
            let time = media(frame).expect("a time");
            assert!(time.abs_diff(*ms as i64) <= 170, "{stamped}: {ms} {time}");
        }
        let waits = frames.windows(2).map(|two| two[1].0 - two[0].0).max();
        assert!(waits <= Some(400), "{stamped}: {waits:?}");
        // Nothing of the sound is missing, and the pictures are as if nothing had been.
        let sound = frames.iter().filter(|it| it.1.frame.sound);
        let packets = |data: &Bytes| data.chunks(188).filter(|it| it[1] & 0x1F == 2).count();
        let packets: usize = sound
            .filter_map(|it| it.1.frame.data.as_ref())
            .map(packets)
            .sum();
        assert!((198..=200).contains(&packets), "{stamped}: {packets}");
        let pictures = frames.iter().filter(|it| !it.1.frame.sound);
        assert_eq!(pictures.clone().count(), 124, "{stamped}");
        for (ms, frame) in pictures {
            let time = media(frame).expect("a time");
            assert!(
                (0..=400).contains(&(*ms as i64 - time)),
                "{stamped}: {ms} {time}"
            );
        }
        let expected = [
            (5_000, VIDEO, "video", false, true),
            (6_000, VIDEO, "video", true, true),
        ];
        assert_eq!(changes, expected, "{stamped}");
    }
}

#[test]
fn sound_in_long_packets_beside_a_video_that_continues_is_not_alone() {
    let (frames, changes) = beside(true, |pid, ms| pid != SOUND || ms % 520 == 0);
    assert_eq!(changes, []);
    let sounds = frames.iter().filter(|it| it.1.frame.sound).count();
    // Tables, sound or both come in 34 turns; a receiver cannot start with those of the first one.
    assert_eq!((frames.len() - sounds, sounds), (199, 33));
}

#[test]
fn sound_that_stops_is_told_and_a_pause_of_all_streams_is_not() {
    let (frames, changes) = beside(true, |pid, ms| pid != SOUND || ms < 3_000);
    let expected = [(5_000, SOUND, "sound", false, false)];
    assert_eq!(changes, expected);
    assert_eq!(frames.iter().filter(|it| !it.1.frame.sound).count(), 199);
    let (_, changes) = beside(true, |_, ms| !(3_000..6_500).contains(&ms));
    assert_eq!(changes, []);
}

#[test]
fn tables_are_neither_sound_nor_data() {
    let tables = |clip: &Clip| {
        clip.summary()
            .data
            .map_or((0, 0), |it| (it.bytes, it.table_bytes))
    };
    let (bytes, table_bytes) = tables(&parse(plain()));
    assert!(
        bytes == table_bytes,
        "there is no sound: {bytes} {table_bytes}"
    );
    let mut mux = Mux::default();
    for (index, picture) in pictures(2).iter().enumerate() {
        mux.tables(MPEG1);
        mux.pes(VIDEO, 0xE0, times(index), picture);
        mux.pes(SOUND, 0xC0, times(index), &[7; 100]);
    }
    let (bytes, table_bytes) = tables(&parse(mux.out));
    assert!(
        table_bytes > 0 && bytes - table_bytes >= 20 * 188,
        "{bytes} {table_bytes}"
    );
}

#[test]
fn streams_beside_the_video_are_named_by_the_program_maps() {
    let mut mux = Mux::default();
    let expected: [(u16, u8, &[u8], &str); 6] = [
        (0x101, 0x06, &[0x6A, 1, 0], "AC-3"),
        (0x102, 0x86, b"\x05\x04CUEI", "SCTE 35"),
        (
            0x103,
            0x06,
            b"\x52\x01\x00\x56\x05deu\x10\x00",
            "DVB teletext",
        ),
        (0x104, 0x06, b"\x05\x04KLVA", "KLV metadata"),
        // A descriptor that is cut names nothing.
        (0x105, 0x06, &[0x59, 9, 0], "private data"),
        (0x106, 0xC5, &[], "stream type 0xC5"),
    ];
    let listed = expected.iter().map(|it| (it.1, it.0, it.2));
    let first: Vec<(u8, u16, &[u8])> = [(MPEG1, VIDEO, &[][..])]
        .into_iter()
        .chain(listed)
        .collect();
    for (index, picture) in pictures(2).iter().enumerate() {
        mux.sections(0, &[&pat(&[(1, MAP), (2, 0x1001)])]);
        mux.sections(MAP, &[&pmt(1, 0, true, &first)]);
        mux.sections(0x1001, &[&pmt(2, 0, true, &[(0x1B, 0x200, &[])])]);
        mux.pes(VIDEO, 0xE0, times(index), picture);
        // Of 0x106 nothing comes.
        for pid in (0x101..=0x105).chain([0x107, 0x200]) {
            mux.pes(pid, 0xBD, times(index), &[7; 100]);
        }
    }
    let data = parse(mux.out).summary().data.expect("data");
    let found: Vec<(u16, &str)> = data
        .streams
        .iter()
        .map(|it| (it.pid, &it.kind[..]))
        .collect();
    let mut all: Vec<(u16, &str)> = expected.iter().map(|it| (it.0, it.3)).collect();
    all.extend([(0x107, "in no program map"), (0x200, "H.264")]);
    assert_eq!(found, all);
    let of = |pid: u16| {
        data.streams
            .iter()
            .find(|it| it.pid == pid)
            .expect("a stream")
    };
    assert_eq!(of(0x103).language.as_deref(), Some("deu"));
    assert_eq!((of(0x101).language.as_ref(), of(0x106).bytes), (None, 0));
    let bytes: u64 = data.streams.iter().map(|it| it.bytes).sum();
    assert_eq!(bytes + data.table_bytes, data.bytes);
}
