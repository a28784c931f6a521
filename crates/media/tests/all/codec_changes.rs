//! Live streams whose video becomes another codec: the flow keeps its own.

use layercast_core::{Span, Time};
use layercast_media::{
    Ingest, IngestStats, Picture, RtpPacket, StreamChange, StreamState, TimedFrame, VideoCodec,
};

use crate::common::mux::{MAP, Mux, Times, VIDEO, pat, pictures, pmt, times};

const MPEG1: u8 = 1;
const MPEG2: u8 = 2;
const H264: u8 = 0x1B;
const H265: u8 = 0x24;
const PRIVATE: u8 = 6;
const SOUND: u16 = 0x200;
const OTHER: u16 = 0x300;

/// Twelve GOPs of ten pictures with sound, of which the second four have another program map.
const AWAY: std::ops::Range<usize> = 40..80;

/// The video in place of the first one.
struct Change {
    name: &'static str,
    /// The programs of the PAT: number and PID of the map.
    programs: &'static [(u16, u16)],
    /// The video in the maps.
    listed: &'static [(u8, u16)],
    /// Where pictures come, and whether they are those of the first codec.
    comes: Option<(u16, bool)>,
}

const ONE: &[(u16, u16)] = &[(1, MAP)];

/// The frames with the index of the picture with which they came, the changes that were reported, and the packets sent in `AWAY` to the
/// PID of the pictures.
struct Outcome {
    frames: Vec<(usize, TimedFrame)>,
    changes: Vec<StreamChange>,
    stats: IngestStats,
    sent: u64,
}

impl Outcome {
    /// Which pictures left, by the picture with which they came.
    fn pictures(&self) -> usize {
        let pictures = self.frames.iter();
        pictures
            .filter(|it| it.1.frame.picture != Picture::Data)
            .count()
    }

    /// The packets that left while the map was another one.
    fn packets_away(&self) -> Vec<[u8; 188]> {
        let away = self.frames.iter().filter(|it| AWAY.contains(&it.0));
        let data = away.filter_map(|it| it.1.frame.data.as_ref());
        data.flat_map(|it| it.as_chunks().0.to_vec()).collect()
    }
}

fn run(change: &Change, in_rtp: bool) -> Outcome {
    let mut mux = Mux::default();
    let mut ingest = Ingest::new();
    let (mut frames, mut changes, mut sent, mut seq) = (Vec::new(), Vec::new(), 0, 0);
    for (index, picture) in pictures(12).iter().enumerate() {
        let is_away = AWAY.contains(&index);
        if index % 10 == 0 {
            let programs = if is_away { change.programs } else { ONE };
            let video = if is_away {
                change.listed
            } else {
                &[(MPEG1, VIDEO)]
            };
            let version = (index / 40) as u8;
            mux.sections(0, &[&pat(programs)]);
            for &(program, pid) in programs {
                let mut streams: Vec<(u8, u16, &[u8])> = video
                    .iter()
                    .map(|&(kind, pid)| (kind, pid, &[][..]))
                    .collect();
                streams.push((3, SOUND, &[]));
                mux.sections(pid, &[&pmt(program, version, true, &streams)]);
            }
        }
        let before = mux.out.len();
        match (is_away, change.comes) {
            (false, _) => mux.pes(VIDEO, 0xE0, times(index), picture),
            (true, Some((pid, true))) => mux.pes(pid, 0xE0, times(index), picture),
            (true, Some((pid, false))) => mux.pes(pid, 0xE0, times(index), &[0xEE; 500]),
            (true, None) => {}
        }
        if is_away {
            sent += (mux.out.len() - before) as u64 / 188;
        }
        let sound = Times {
            pts: times(index).dts,
            ..Times::default()
        };
        mux.pes(SOUND, 0xC0, sound, &[7; 100]);
        let now = Time::ZERO + Span::from_ms(1_000 + 40 * index as u64);
        for payload in std::mem::take(&mut mux.out).chunks(1_316) {
            let packet = RtpPacket {
                marker: false,
                payload_type: 33,
                seq,
                timestamp: 3_600 * index as u32,
                ssrc: 7,
                payload,
            };
            seq = seq.wrapping_add(1);
            match in_rtp {
                true => ingest.push(now, &rtp(&packet)),
                false => ingest.push(now, payload),
            }
        }
        frames.extend(std::iter::from_fn(|| ingest.poll()).map(|it| (index, it)));
        changes.extend(std::iter::from_fn(|| ingest.poll_change()));
    }
    Outcome {
        frames,
        changes,
        stats: ingest.stats(),
        sent,
    }
}

fn rtp(packet: &RtpPacket) -> Vec<u8> {
    let mut datagram = vec![0x80, packet.payload_type];
    datagram.extend_from_slice(&packet.seq.to_be_bytes());
    datagram.extend_from_slice(&packet.timestamp.to_be_bytes());
    datagram.extend_from_slice(&packet.ssrc.to_be_bytes());
    datagram.extend_from_slice(packet.payload);
    datagram
}

fn pid(packet: &[u8; 188]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1F, packet[2]])
}

/// The codec that comes, and where, instead of MPEG-1 video.
fn other(pid: u16, comes: VideoCodec, has_clock: bool) -> StreamChange {
    let flow = VideoCodec::Mpeg1;
    let state = StreamState::OtherCodec { flow, comes };
    StreamChange {
        pid,
        kind: "video",
        state,
        has_clock,
    }
}

fn back(pid: u16) -> StreamChange {
    StreamChange {
        pid,
        kind: "video",
        state: StreamState::Back,
        has_clock: false,
    }
}

#[test]
fn video_of_another_codec_is_left_out_until_the_first_codec_comes_again() {
    let unlisted = StreamChange {
        state: StreamState::Unlisted,
        has_clock: false,
        ..back(VIDEO)
    };
    let cases = [
        (
            Change {
                name: "another codec on the PID",
                programs: ONE,
                listed: &[(H265, VIDEO)],
                comes: Some((VIDEO, false)),
            },
            other(VIDEO, VideoCodec::H265, true),
        ),
        (
            Change {
                name: "another codec on another PID",
                programs: ONE,
                listed: &[(H264, OTHER)],
                comes: Some((OTHER, false)),
            },
            other(OTHER, VideoCodec::H264, true),
        ),
        (
            Change {
                name: "a codec that the map does not name",
                programs: ONE,
                listed: &[(PRIVATE, VIDEO)],
                comes: Some((VIDEO, false)),
            },
            other(VIDEO, VideoCodec::Unnamed, true),
        ),
        (
            Change {
                name: "another program with another codec",
                programs: &[(2, MAP + 1)],
                listed: &[(H265, OTHER)],
                comes: Some((OTHER, false)),
            },
            other(OTHER, VideoCodec::H265, true),
        ),
        (
            Change {
                name: "a map without video, whose packets continue",
                programs: ONE,
                listed: &[],
                comes: Some((VIDEO, true)),
            },
            unlisted,
        ),
    ];
    for (change, told) in &cases {
        for in_rtp in [false, true] {
            let case = format!("{}, in RTP: {in_rtp}", change.name);
            let outcome = run(change, in_rtp);
            assert_eq!(outcome.changes, [*told, back(VIDEO)], "{case}");
            // The last picture waits for its end.
            assert_eq!(outcome.pictures(), 79, "{case}");
            if !in_rtp {
                assert_eq!(outcome.stats.ts.other_codec, outcome.sent, "{case}");
            }
            let packets = outcome.packets_away();
            // The last picture before comes with the first packets of the others.
            let late: Vec<u16> = packets
                .iter()
                .map(pid)
                .filter(|pid| *pid == OTHER)
                .collect();
            assert!(late.is_empty(), "{case}");
            let foreign = packets
                .iter()
                .any(|it| it[100..180].iter().all(|it| *it == 0xEE));
            assert!(!foreign, "{case}");
            let sounds = packets.iter().filter(|it| pid(it) == SOUND).count();
            assert!(sounds >= 35, "{case}: {sounds}");
            // The map that receivers get names what they get.
            let maps: Vec<_> = packets
                .iter()
                .filter(|it| [MAP, MAP + 1].contains(&pid(it)))
                .collect();
            assert!(maps.len() >= 3, "{case}: {}", maps.len());
            for map in maps {
                let len = usize::from(map[7]);
                assert_eq!(len, 9 + 4 + 5, "{case}: it has one stream");
            }
        }
    }
}

#[test]
fn video_of_the_same_codec_is_followed_wherever_it_goes() {
    let follows = |name, programs, listed, pid| Change {
        name,
        programs,
        listed,
        comes: Some((pid, true)),
    };
    for change in [
        follows("another PID", ONE, &[(MPEG1, OTHER)], OTHER),
        follows(
            "behind another codec",
            ONE,
            &[(H265, OTHER), (MPEG1, VIDEO)],
            VIDEO,
        ),
        follows(
            "behind another",
            ONE,
            &[(MPEG1, OTHER), (MPEG1, VIDEO)],
            VIDEO,
        ),
        follows("named as MPEG-2", ONE, &[(MPEG2, VIDEO)], VIDEO),
        follows("another program", &[(2, MAP + 1)], &[(MPEG1, OTHER)], OTHER),
    ] {
        let outcome = run(&change, false);
        assert_eq!(outcome.changes, [], "{}", change.name);
        assert_eq!(outcome.pictures(), 119, "{}", change.name);
        assert_eq!(outcome.stats.ts.other_codec, 0, "{}", change.name);
    }
}

#[test]
fn scrambled_streams_are_named_once() {
    let scrambled = |which: u16, access: bool| {
        let mut mux = Mux::default();
        for (index, picture) in pictures(3).iter().enumerate() {
            if index % 10 == 0 {
                let streams: [(u8, u16, &[u8]); 2] = [(MPEG1, VIDEO, &[]), (3, SOUND, &[])];
                mux.sections(0, &[&pat(ONE)]);
                mux.sections(MAP, &[&pmt(1, 0, true, &streams)]);
            }
            mux.pes(VIDEO, 0xE0, times(index), picture);
            mux.pes(SOUND, 0xC0, times(index), &[7; 100]);
        }
        for packet in mux.out.as_chunks_mut::<188>().0 {
            if pid(packet) == which {
                packet[3] |= 0x80;
                // The first packets of pictures have a clock, and so an adaptation field.
                if access && packet[1] & 0x40 != 0 {
                    packet[5] |= 0x40;
                }
            }
        }
        let mut ingest = Ingest::new();
        for datagram in mux.out.chunks(1_316) {
            ingest.push(Time::ZERO, datagram);
        }
        ingest.finish();
        let changes: Vec<_> = std::iter::from_fn(|| ingest.poll_change()).collect();
        let of_file = layercast_media::Clip::parse(mux.out.into());
        (changes, ingest, of_file)
    };
    let told = |pid, kind| StreamChange {
        pid,
        kind,
        state: StreamState::Scrambled,
        has_clock: false,
    };
    let (changes, ingest, of_file) = scrambled(VIDEO, false);
    assert_eq!(changes, [told(VIDEO, "video")]);
    assert!(ingest.stats().ts.scrambled > 30);
    let problems = [
        ingest.problem().expect("a problem"),
        of_file.expect_err("no start").to_string(),
    ];
    for problem in problems {
        assert!(
            problem.contains("is scrambled") && problem.contains("descramble"),
            "{problem}"
        );
    }
    let (changes, ingest, of_file) = scrambled(VIDEO, true);
    assert_eq!(changes, [told(VIDEO, "video")]);
    assert_eq!(ingest.problem(), None);
    assert!(of_file.is_ok());
    let (changes, ingest, _) = scrambled(SOUND, false);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].pid, changes[0].state),
        (SOUND, StreamState::Scrambled)
    );
    assert_eq!(ingest.stats().ts.scrambled, 0);
}

/// The changes that are reported and the frames of a stream whose map and packets are changed by `change` in `AWAY`.
fn changed(
    map: impl Fn(bool, u8) -> Vec<u8>,
    change: impl Fn(&mut [u8; 188]),
) -> (Vec<StreamChange>, Vec<(usize, TimedFrame)>) {
    let (mut mux, mut ingest) = (Mux::default(), Ingest::new());
    let (mut frames, mut changes) = (Vec::new(), Vec::new());
    for (index, picture) in pictures(12).iter().enumerate() {
        let is_away = AWAY.contains(&index);
        if index % 10 == 0 {
            mux.sections(0, &[&pat(ONE)]);
            mux.sections(MAP, &[&map(is_away, (index / 40) as u8)]);
        }
        mux.pes(VIDEO, 0xE0, times(index), picture);
        mux.pes(
            SOUND,
            0xC0,
            times(index),
            &[if is_away { 9 } else { 7 }; 100],
        );
        let mut out = std::mem::take(&mut mux.out);
        if is_away {
            out.as_chunks_mut().0.iter_mut().for_each(&change);
        }
        let now = Time::ZERO + Span::from_ms(1_000 + 40 * index as u64);
        out.chunks(1_316).for_each(|it| ingest.push(now, it));
        frames.extend(std::iter::from_fn(|| ingest.poll()).map(|it| (index, it)));
        changes.extend(std::iter::from_fn(|| ingest.poll_change()));
    }
    (changes, frames)
}

/// The packets of frames with a PID.
fn packets(frames: &[(usize, TimedFrame)], of: u16) -> Vec<[u8; 188]> {
    let data = frames.iter().filter_map(|it| it.1.frame.data.as_ref());
    let packets = data.flat_map(|it| it.as_chunks().0.to_vec());
    packets.filter(|it| pid(it) == of).collect()
}

/// The versions of maps in turn, and how many streams each has.
fn versions(frames: &[(usize, TimedFrame)]) -> Vec<(u8, usize)> {
    let maps = packets(frames, MAP);
    let of = |it: &[u8; 188]| (it[10] >> 1 & 31, (usize::from(it[7]) - 13) / 5);
    let mut versions: Vec<_> = maps.iter().map(of).collect();
    versions.dedup();
    versions
}

const AAC: u8 = 0x0F;

#[test]
fn sound_of_another_codec_on_its_pid_is_left_out_until_the_first_codec_comes_again() {
    // The encoder begins again with the same version each time, or counts.
    for counts in [false, true] {
        let map = |is_away: bool, version: u8| {
            let sound = if is_away { AAC } else { 3 };
            let streams: [(u8, u16, &[u8]); 2] = [(MPEG1, VIDEO, &[]), (sound, SOUND, &[])];
            pmt(1, if counts { version } else { 0 }, true, &streams)
        };
        let (changes, frames) = changed(map, |_| {});
        let told = StreamChange {
            pid: SOUND,
            kind: "sound",
            state: StreamState::OtherSound {
                flow: "MPEG audio",
                comes: "AAC",
            },
            has_clock: false,
        };
        let again = StreamChange {
            state: StreamState::Back,
            ..told
        };
        assert_eq!(changes, [told, again], "{counts}");
        let sounds = packets(&frames, SOUND);
        assert!(sounds.iter().all(|it| it[187] == 7), "{counts}");
        assert!(sounds.len() >= 79, "{counts}: {}", sounds.len());
        // Maps that follow one another differ in their versions.
        let versions = versions(&frames);
        let streams: Vec<usize> = versions.iter().map(|it| it.1).collect();
        assert_eq!(streams, [2, 1, 2], "{counts}: {versions:?}");
        assert!(
            versions.windows(2).all(|it| it[0].0 != it[1].0),
            "{versions:?}"
        );
        let pictures = frames
            .iter()
            .filter(|it| it.1.frame.picture != Picture::Data);
        assert_eq!(pictures.count(), 119, "{counts}");
    }
}

#[test]
fn video_that_is_scrambled_later_is_left_out_until_a_key_frame_in_the_clear() {
    let map = |_: bool, _: u8| {
        let streams: [(u8, u16, &[u8]); 2] = [(MPEG1, VIDEO, &[]), (3, SOUND, &[])];
        pmt(1, 0, true, &streams)
    };
    let (changes, frames) = changed(map, |packet| {
        if pid(packet) == VIDEO {
            packet[3] |= 0x80;
        }
    });
    let told = StreamChange {
        state: StreamState::NowScrambled,
        ..back(VIDEO)
    };
    assert_eq!(changes, [told, back(VIDEO)]);
    assert!(packets(&frames, VIDEO).iter().all(|it| it[3] & 0xC0 == 0));
    let pictures = frames
        .iter()
        .filter(|it| it.1.frame.picture != Picture::Data);
    // The last picture waits for its end.
    assert_eq!(pictures.count(), 79);
    assert!(packets(&frames, SOUND).len() >= 115);
}
