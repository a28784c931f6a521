//! RTP as senders really send it: other sources on the port, markers on every slice, fragments that do not come,
//! parameter sets elsewhere, other codecs.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::sync::OnceLock;

use crate::common::{decode, encode, have_ffmpeg};
use layercast_core::{Media, Span, Time};
use layercast_media::{
    Picture, RtpNote, RtpPacket, RtpReceiver, RtpSession, RtpSource, TimedFrame,
};

const FRAMES: usize = 50;
/// Between two pictures.
const STEP: Span = Span::from_ms(40);
const OURS: RtpSource = RtpSource {
    ssrc: 0x1122_3344,
    payload_type: 96,
};
const OTHER: RtpSource = RtpSource {
    ssrc: 0x99,
    payload_type: 97,
};

/// Pictures of four slices, each a list of NAL units.
fn pictures() -> &'static [Vec<Vec<u8>>] {
    static PICTURES: OnceLock<Vec<Vec<Vec<u8>>>> = OnceLock::new();
    PICTURES.get_or_init(|| {
        let options = "-s 176x144 -pix_fmt yuv420p -c:v libx264 -g 10 -bf 0 -slices 4 -x264-params scenecut=0:aud=1";
        let data = encode("sources.h264", &format!("-frames:v {FRAMES} {options}"));
        let mut pictures: Vec<Vec<Vec<u8>>> = Vec::new();
        let mut rest = &data[..];
        while let Some(at) = rest.windows(3).position(|it| it == [0, 0, 1]) {
            rest = &rest[at + 3..];
            let end = rest.windows(3).position(|it| it == [0, 0, 1]).unwrap_or(rest.len());
            let mut nal = rest[..end].to_vec();
            while nal.last() == Some(&0) {
                nal.pop();
            }
            if kind(&nal) == 9 {
                pictures.push(Vec::new());
            }
            pictures.last_mut().expect("a delimiter first").push(nal);
        }
        assert_eq!(pictures.len(), FRAMES);
        pictures
    })
}

fn kind(nal: &[u8]) -> u8 {
    nal[0] & 31
}

fn at(picture: usize) -> Time {
    Time::ZERO + Span::from_secs(1) + STEP.times(picture as u64)
}

/// A datagram and when it comes.
type Sent = (Time, Vec<u8>);

fn packet(source: RtpSource, seq: u16, timestamp: u32, payload: &[u8], marker: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let RtpSource { ssrc, payload_type } = source;
    RtpPacket {
        marker,
        payload_type,
        seq,
        timestamp,
        ssrc,
        payload,
    }
    .encode_into(&mut out);
    out
}

/// Payloads of a NAL unit: whole, or in fragments.
fn payloads(nal: &[u8], most: usize) -> Vec<Vec<u8>> {
    if nal.len() <= most {
        return vec![nal.to_vec()];
    }
    let pieces: Vec<&[u8]> = nal[1..].chunks(most).collect();
    let last = pieces.len() - 1;
    let fragment = |(index, piece): (usize, &&[u8])| {
        let bits = if index == 0 { 0x80 } else { 0 } | if index == last { 0x40 } else { 0 };
        [&[nal[0] & 0xE0 | 28, bits | nal[0] & 31][..], piece].concat()
    };
    pieces.iter().enumerate().map(fragment).collect()
}

/// The stream in packets; `marker` says of picture, NAL unit and whether it is the last.
fn stream(marker: impl Fn(&[u8], bool) -> bool, most: usize) -> Vec<Sent> {
    let (mut sent, mut seq) = (Vec::new(), 65_500u16);
    for (index, picture) in pictures().iter().enumerate() {
        for (at_nal, nal) in picture.iter().enumerate() {
            let parts = payloads(nal, most);
            for (part, payload) in parts.iter().enumerate() {
                let last = part + 1 == parts.len();
                let marker = last && marker(nal, at_nal + 1 == picture.len());
                let timestamp = 5_000 + 3_600 * index as u32;
                sent.push((at(index), packet(OURS, seq, timestamp, payload, marker)));
                seq = seq.wrapping_add(1);
            }
        }
    }
    sent
}

fn ordinary() -> Vec<Sent> {
    stream(|_, last| last, 1_200)
}

/// Gives the datagrams to a receiver, and time in between.
fn receive(receiver: &mut RtpReceiver, sent: &[Sent]) -> Vec<(Time, TimedFrame)> {
    let mut frames = Vec::new();
    for (now, datagram) in sent {
        while let Some(due) = receiver.next_timeout().filter(|due| due < now) {
            receiver.on_timeout(due);
            frames.extend(std::iter::from_fn(|| receiver.poll()).map(|it| (due, it)));
            assert!(receiver.next_timeout().is_none_or(|next| next > due));
        }
        receiver.push(*now, datagram);
        frames.extend(std::iter::from_fn(|| receiver.poll()).map(|it| (*now, it)));
    }
    receiver.finish();
    let end = sent.last().map_or(Time::ZERO, |it| it.0);
    frames.extend(std::iter::from_fn(|| receiver.poll()).map(|it| (end, it)));
    frames
}

fn bytes(frames: &[(Time, TimedFrame)]) -> Vec<u8> {
    frames
        .iter()
        .flat_map(|(_, it)| it.frame.data.clone().expect("bytes"))
        .collect()
}

/// Whole pictures, and what a decoder makes of them without a complaint.
fn received(sent: &[Sent]) -> (Vec<String>, RtpReceiver) {
    let mut receiver = RtpReceiver::new();
    let frames = receive(&mut receiver, sent);
    let decoded = decode("h264", &bytes(&frames));
    assert_eq!(decoded.len(), frames.len());
    (decoded, receiver)
}

#[test]
fn a_picture_ends_with_its_time_stamp_whatever_the_markers_say() {
    if !have_ffmpeg() {
        return;
    }
    let (expected, receiver) = received(&ordinary());
    assert_eq!(
        (expected.len(), receiver.media()),
        (FRAMES, Some(Media::H264))
    );
    let each = received(&stream(|_, _| true, 1_200)).0;
    assert_eq!(each, expected);
    let none = received(&stream(|_, _| false, 1_200)).0;
    assert_eq!(none, expected);
    // Parameter sets with the time stamp of the picture before.
    let mut late = stream(|nal, last| last || kind(nal) == 7, 1_200);
    for (index, (_, datagram)) in late.iter_mut().enumerate() {
        let front = matches!(datagram[12] & 31, 6..=9);
        let stamp = u32::from_be_bytes(datagram[4..8].try_into().expect("a stamp"));
        if front && index > 0 {
            datagram[4..8].copy_from_slice(&(stamp - 3_600).to_be_bytes());
        }
    }
    assert_eq!(received(&late).0, expected);
}

#[test]
fn markers_that_are_right_save_the_wait_for_the_next_picture() {
    if !have_ffmpeg() {
        return;
    }
    let mut receiver = RtpReceiver::new();
    let frames = receive(&mut receiver, &ordinary());
    let waited = |index: usize| frames[index].0.since(at(index));
    assert_eq!(waited(2), STEP);
    assert!((20..FRAMES).all(|index| waited(index) == Span::ZERO));
}

#[test]
fn one_lost_packet_costs_no_more_than_its_gop_and_a_tenth_of_a_second() {
    if !have_ffmpeg() {
        return;
    }
    // Ten pictures a second of one packet each.
    let whole = pictures().iter().enumerate().map(|(index, picture)| {
        let aggregate = picture.iter().fold(vec![24 | 0x60], |mut all, nal| {
            all.extend_from_slice(&(nal.len() as u16).to_be_bytes());
            all.extend_from_slice(nal);
            all
        });
        let now = Time::ZERO + Span::from_ms(100).times(index as u64);
        (
            now,
            packet(OURS, index as u16, 9_000 * index as u32, &aggregate, true),
        )
    });
    let lost = 23;
    let kept: Vec<Sent> = whole
        .enumerate()
        .filter(|(index, _)| *index != lost)
        .map(|it| it.1)
        .collect();
    let mut receiver = RtpReceiver::new();
    let frames = receive(&mut receiver, &kept);
    assert_eq!(decode("h264", &bytes(&frames)).len(), frames.len());
    // The rest of its GOP of ten is missing, and nothing else.
    assert_eq!(frames.len(), FRAMES - 7);
    let start = frames
        .iter()
        .find(|(now, it)| now.as_us() > 2_200_000 && it.frame.gop_start);
    let late = start.expect("a start").0.as_us() / 1_000 - 3_000;
    assert!(late <= 100, "{late} ms");
    assert_eq!(receiver.stats().lost, 1);
}

#[test]
fn other_sources_on_the_port_are_counted_and_named_once() {
    if !have_ffmpeg() {
        return;
    }
    let expected = received(&ordinary()).0;
    let noise = |index: usize| packet(OTHER, index as u16, index as u32 * 960, &[0x41; 80], false);
    let same_ssrc = RtpSource {
        payload_type: 100,
        ..OURS
    };
    let rtcp = [&[0x80, 200, 0, 6][..], &[7; 24]].concat();
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42][..], &[0; 12]].concat();
    let ts_like = [&[0x47][..], &[0x41; 187]].concat();
    let mut sent = vec![
        (at(0), stun),
        (at(0), packet(OTHER, 7, 960, &ts_like, false)),
    ];
    for (index, one) in ordinary().into_iter().enumerate() {
        sent.push(one.clone());
        sent.push((one.0, noise(index)));
        sent.push((
            one.0,
            packet(same_ssrc, index as u16, 1, &[0x41; 80], false),
        ));
        sent.push((one.0, rtcp.clone()));
    }
    let (decoded, mut receiver) = received(&sent);
    assert_eq!(decoded, expected);
    let stats = receiver.stats();
    let count = ordinary().len() as u64;
    assert_eq!((stats.packets, stats.lost, stats.dropped), (count, 0, 0));
    assert_eq!(
        (stats.control, stats.other_sources),
        (count + 1, 2 * count + 1)
    );
    let notes: Vec<RtpNote> = std::iter::from_fn(|| receiver.poll_note()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    for source in [OTHER, same_ssrc] {
        let names = |note: &RtpNote| matches!(*note, RtpNote::Ignored { other, taken, .. } if other == source && taken == OURS);
        assert!(notes.iter().any(names), "{notes:?}");
    }
    let text = notes[0].to_string();
    assert!(text.contains("SSRC 0x00000099, payload type 97"), "{text}");
    // With many packets it is named again, with their number.
    for index in 0..1_000u16 {
        let datagram = packet(OTHER, index, 0, &[0x41; 80], false);
        receiver.push(sent[sent.len() - 1].0, &datagram);
    }
    let again = receiver.poll_note().expect("a note").to_string();
    assert!(again.contains("packets so far: 1000"), "{again}");
    assert_eq!(receiver.poll_note(), None);
}

#[test]
fn a_source_that_fell_silent_is_replaced_by_the_next() {
    if !have_ffmpeg() {
        return;
    }
    let first = ordinary();
    let restarted = RtpSource {
        ssrc: 0xABCD,
        ..OURS
    };
    let again = |after: Span| {
        let shift = STEP.times(FRAMES as u64) + after;
        let sent = ordinary().into_iter().map(move |(at, mut datagram)| {
            datagram[8..12].copy_from_slice(&restarted.ssrc.to_be_bytes());
            datagram[4] ^= 0x40;
            (at + shift, datagram)
        });
        first.iter().cloned().chain(sent).collect::<Vec<Sent>>()
    };
    let mut receiver = RtpReceiver::new();
    let frames = receive(&mut receiver, &again(Span::from_secs(2)));
    assert_eq!(frames.len(), 2 * FRAMES);
    assert_eq!(
        receiver.poll_note(),
        Some(RtpNote::Replaced {
            old: OURS,
            new: restarted
        })
    );
    // A source that only looks like video does not take the place meanwhile.
    let mut sent = again(Span::from_secs(2));
    let noise = (0..250).map(|index| {
        let datagram = packet(OTHER, index, u32::from(index) * 960, &[0x41; 80], false);
        (at(0) + Span::from_ms(20).times(index.into()), datagram)
    });
    sent.extend(noise);
    sent.sort_by_key(|it| it.0);
    let mut receiver = RtpReceiver::new();
    assert_eq!(receive(&mut receiver, &sent).len(), 2 * FRAMES);
    // No pause is needed: packets within a second of the last packet of the first are kept and taken then.
    let mut receiver = RtpReceiver::new();
    let frames = receive(&mut receiver, &again(Span::from_ms(10)));
    assert!(frames.len() > 2 * FRAMES - 11, "{}", frames.len());
}

#[test]
fn fragments_that_do_not_come_cost_their_picture_and_what_refers_to_it() {
    if !have_ffmpeg() {
        return;
    }
    // A P picture in the third GOP.
    let (odd, stamp) = (23usize, 5_000 + 3_600 * 23u32);
    let of_odd = |datagram: &[u8]| datagram[4..8] == stamp.to_be_bytes() && datagram[12] & 31 == 28;
    let all = stream(|_, last| last, 60);
    assert!(all.iter().filter(|it| of_odd(&it.1)).count() > 4);
    let drop = |bit: u8, renumber: bool| -> Vec<Sent> {
        let kept = all
            .iter()
            .filter(|it| !of_odd(&it.1) || it.1[13] & bit == 0);
        let mut sent: Vec<Sent> = kept.cloned().collect();
        if renumber {
            for (index, (_, datagram)) in sent.iter_mut().enumerate() {
                datagram[2..4].copy_from_slice(&(index as u16).to_be_bytes());
            }
        }
        sent
    };
    for (bit, renumber) in [(0x80, false), (0x40, false), (0x80, true), (0x40, true)] {
        let (decoded, receiver) = received(&drop(bit, renumber));
        assert_eq!(decoded.len(), odd + FRAMES - 30, "{bit:#x} {renumber}");
        assert!(receiver.stats().incomplete > 0);
    }
    // Small slices as fragments with start and end.
    let both = |(now, mut datagram): Sent| {
        if matches!(datagram[12] & 31, 1 | 5) {
            let first = datagram[12];
            datagram.splice(12..13, [first & 0xE0 | 28, 0xC0 | first & 31]);
        }
        (now, datagram)
    };
    let sent: Vec<Sent> = ordinary().into_iter().map(both).collect();
    assert_eq!(received(&sent).0.len(), FRAMES);
}

#[test]
fn several_nal_units_sent_as_one_are_taken_apart() {
    if !have_ffmpeg() {
        return;
    }
    let expected = received(&ordinary()).0;
    for leading in [false, true] {
        let (mut sent, mut seq) = (Vec::new(), 0);
        for (index, picture) in pictures().iter().enumerate() {
            let merged: Vec<u8> = picture[1..]
                .iter()
                .flat_map(|nal| [&[0, 0, 0, 1][..], nal].concat())
                .collect();
            let merged = if leading { &merged[..] } else { &merged[4..] };
            let parts = if leading {
                vec![merged.to_vec()]
            } else {
                payloads(merged, 1_000)
            };
            for (part, payload) in parts.iter().enumerate() {
                let marker = part + 1 == parts.len();
                sent.push((
                    at(index),
                    packet(OURS, seq, 3_600 * index as u32, payload, marker),
                ));
                seq += 1;
            }
        }
        assert_eq!(received(&sent).0, expected, "{leading}");
    }
}

#[test]
fn parameter_sets_come_from_the_session_description() {
    if !have_ffmpeg() {
        return;
    }
    let bare: Vec<Sent> = ordinary()
        .into_iter()
        .filter(|it| !matches!(it.1[12] & 31, 7 | 8))
        .enumerate()
        .map(|(seq, (now, mut datagram))| {
            datagram[2..4].copy_from_slice(&(seq as u16).to_be_bytes());
            (now, datagram)
        })
        .collect();
    let mut receiver = RtpReceiver::new();
    assert!(receive(&mut receiver, &bare).is_empty());
    let problem = receiver.problem().expect("a reason");
    assert!(
        problem.contains("parameter sets") && problem.contains("--sdp"),
        "{problem}"
    );

    let start: Vec<u8> = pictures()[0]
        .iter()
        .flat_map(|nal| [&[0, 0, 1][..], nal].concat())
        .collect();
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let text = layercast_media::session_description("clip", Media::H264, here, 5_004, &start);
    let session = RtpSession::parse(&text).expect("a description");
    let mut receiver = RtpReceiver::of_session(&session);
    let frames = receive(&mut receiver, &bare);
    assert_eq!(frames.len(), FRAMES);
    assert_eq!(decode("h264", &bytes(&frames)), received(&ordinary()).0);
    assert_eq!(receiver.problem(), None);
}

/// What is said of a stream of which no frame may be given: 200 packets of this payload type, and the ticks from one payload to the next.
fn refusal(payload_type: u8, ticks: u32, payload: &dyn Fn(usize) -> Vec<u8>) -> String {
    let source = RtpSource {
        payload_type,
        ..OURS
    };
    let mut receiver = RtpReceiver::new();
    let mut timestamp = 0u32;
    for index in 0..200 {
        let datagram = packet(source, index as u16, timestamp, &payload(index), true);
        receiver.push(at(index), &datagram);
        assert_eq!(
            receiver.media(),
            None,
            "payload type {payload_type}, packet {index}"
        );
        // Three packets a picture.
        timestamp += match ticks {
            3_600 if index % 3 < 2 => 0,
            ticks => ticks,
        };
    }
    receiver.finish();
    assert!(receiver.poll().is_none() && receiver.media().is_none());
    receiver.problem().expect("a reason")
}

/// Octets without a pattern.
fn noise(index: usize, octets: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32.wrapping_mul(index as u32 + 1);
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..octets).map(next).collect()
}

#[test]
fn other_codecs_are_named() {
    /// The first packet of a picture begins with these octets, the others have no pattern.
    fn pictures_of(head: &'static [u8]) -> impl Fn(usize) -> Vec<u8> {
        move |index| match index % 3 {
            0 => [head, &noise(index, 900)].concat(),
            _ => noise(index, 900),
        }
    }
    let sized = |index: usize| 200 + index % 50;
    let aac = |index| {
        let [high, low] = ((sized(index) as u16) << 3).to_be_bytes();
        [&[0, 16, high, low][..], &noise(index, sized(index))].concat()
    };
    let latm = |index| [&[sized(index) as u8][..], &noise(index, sized(index))].concat();
    let xiph = |index| {
        let [high, low] = (sized(index) as u16).to_be_bytes();
        [&[1, 2, 3, 1, high, low][..], &noise(index, sized(index))].concat()
    };
    let lines = |index: usize| match index % 3 {
        // The end of a line, and the beginning of the next.
        0 => [
            &[0, 0, 1, 0, 0, 7, 0x80, 9, 0, 200, 0, 8, 0, 0][..],
            &noise(index, 456),
        ]
        .concat(),
        _ => [&[0, 0, 2, 0, 0, 8, 0, 0][..], &noise(index, 512)].concat(),
    };
    // Silence, and then a tone of 48 samples in two channels of 24 bits.
    let pcm = |index| {
        if index < 20 {
            vec![0; 288]
        } else {
            noise(index, 288)
        }
    };
    // Each looks like a picture parameter set of H.264.
    let opus = |index| [&[0x48][..], &noise(index, sized(index))].concat();
    let parity = |index| {
        let head = [0, index as u8, 0, 9, 0xA1, 0, 0, 0, 1, 2, 3, 4, 0, 10, 5, 0];
        [&head[..], &noise(index, 1_316)].concat()
    };
    let frame = |id: u8| {
        move |index| {
            [
                &[0, 1, 0x0B, 0x77, 1, 2, 3, id << 3],
                &noise(index, 400)[..],
            ]
            .concat()
        }
    };
    let h266 = |index: usize| match index % 60 {
        0 => [&[0, 0x79][..], &noise(index, 40)].concat(),
        _ => [&[0, 0x01][..], &noise(index, 900)].concat(),
    };
    type Payloads<'a> = &'a dyn Fn(usize) -> Vec<u8>;
    let cases: [(&str, u8, u32, Payloads); 18] = [
        (
            "MPEG-4 part 2 video",
            96,
            3_600,
            &pictures_of(&[0, 0, 1, 0xB6]),
        ),
        ("H.263 video", 97, 3_600, &pictures_of(&[4, 0, 0x80, 2])),
        (
            "JPEG 2000 video",
            98,
            3_600,
            &pictures_of(&[0x30, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0x4F, 0xFF, 0x51]),
        ),
        ("uncompressed video", 96, 3_600, &lines),
        ("H.266 video", 99, 3_600, &h266),
        ("AAC sound (", 97, 1_024, &aac),
        ("AAC sound (LATM)", 97, 1_024, &latm),
        ("Theora video or Vorbis sound", 97, 1_024, &xiph),
        ("PCM sound", 97, 48, &pcm),
        ("Opus sound", 111, 960, &opus),
        ("MPEG sound", 97, 2_160, &|index| {
            [&[0, 0, 0, 0, 0xFF, 0xFB], &noise(index, 400)[..]].concat()
        }),
        ("(AC-3|E)", 97, 1_536, &frame(8)),
        ("E-AC-3 sound", 97, 1_536, &frame(16)),
        ("parities of SMPTE 2022-1", 96, 900, &parity),
        ("a codec that is not known", 96, 3_600, &|index| {
            noise(index, 900)
        }),
        ("G.711 sound", 0, 160, &|_| vec![0xD5; 160]),
        ("JPEG video", 26, 3_600, &pictures_of(&[0; 8])),
        (
            "a codec that is not known",
            22,
            3_600,
            &pictures_of(&[0x67; 8]),
        ),
    ];
    for (name, payload_type, ticks, payload) in cases {
        let text = refusal(payload_type, ticks, payload);
        let name = name.replace("(AC-3|E)", "RTP with AC-3 sound");
        assert!(text.contains(&name), "{name}: {text}");
        let helps = ["not with H.264", "port of the media"];
        assert!(helps.iter().any(|it| text.contains(it)), "{text}");
    }
}

/// The sequence header of AV1 in a payload.
const AV1_SEQUENCE: [u8; 13] = [
    0x18, 0x08, 0, 0, 0, 2, 0xAF, 0xFF, 0x9F, 0x7F, 0x20, 0x08, 0,
];

#[test]
fn one_payload_that_looks_like_another_codec_shows_nothing() {
    // In MPEG-4 part 2 of which one packet looks like the beginning of AV1, another one like that of VP8, VP9 or H.264.
    let vp8 = [0x10, 0x10, 0, 0, 0x9D, 1, 0x2A, 0x60, 1, 0x20, 1, 0, 0];
    let vp9 = [
        0x08, 0x82, 0x49, 0x83, 0x42, 0, 0x15, 0xF0, 0x11, 0xE0, 0, 0, 0,
    ];
    let h264 = [0x65, 0x88, 0x84, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    for strange in [AV1_SEQUENCE, vp8, vp9, h264] {
        let mpeg4 = |index: usize| match index % 3 {
            0 => [&[0, 0, 1, 0xB6, 0x10], &noise(index, 900)[..]].concat(),
            _ if index == 50 => strange.to_vec(),
            _ => noise(index, 900),
        };
        let text = refusal(96, 3_600, &mpeg4);
        assert!(text.contains("MPEG-4 part 2 video"), "{text}");
        // Nor in what is not known.
        let other = |index: usize| match index {
            50 => strange.to_vec(),
            _ => noise(index, 900),
        };
        let text = refusal(96, 3_600, &other);
        assert!(text.contains("a codec that is not known"), "{text}");
    }
}

#[test]
fn a_stream_whose_codec_changes_is_told_so() {
    if !have_ffmpeg() {
        return;
    }
    let mpeg4 = |index: usize| match index % 3 {
        0 => [&[0, 0, 1, 0xB6, 0x10], &noise(index, 900)[..]].concat(),
        _ => noise(index, 900),
    };
    let vp8 = |index: usize| match index % 3 {
        0 => [
            &[0x10, 0x10, 0, 0, 0x9D, 1, 0x2A, 0x60, 1, 0x20, 1],
            &noise(index, 900)[..],
        ]
        .concat(),
        _ => [&[0], &noise(index, 900)[..]].concat(),
    };
    let h265 = |index: usize| match index % 30 {
        0 => [&[0x40, 1, 0x0C, 1], &noise(index, 20)[..]].concat(),
        1 => [&[0x42, 1, 1, 1], &noise(index, 40)[..]].concat(),
        2 => [&[0x44, 1, 0xC1], &noise(index, 8)[..]].concat(),
        3 => [&[0x26, 1, 0xAF], &noise(index, 900)[..]].concat(),
        _ => [&[0x02, 1, 0xD0], &noise(index, 900)[..]].concat(),
    };
    let transport = |index: usize| {
        let packet = [
            &[0x47, 1, 0, 0x10 | index as u8 & 15],
            &noise(index, 184)[..],
        ]
        .concat();
        packet.repeat(5)
    };
    type Payloads<'a> = &'a dyn Fn(usize) -> Vec<u8>;
    let others: [(&str, Payloads); 4] = [
        ("MPEG-4 part 2 video", &mpeg4),
        ("VP8", &vp8),
        ("H.265", &h265),
        ("MPEG-TS", &transport),
    ];
    let clean = bytes(&receive(&mut RtpReceiver::new(), &ordinary()));
    // What the first codec brings from its next key frame on is served again.
    let twice = [&clean[..], &clean].concat();
    // By the same source, and by another one after a silence.
    for source in [
        OURS,
        RtpSource {
            ssrc: 0xABCD,
            ..OURS
        },
    ] {
        for (name, payload) in others {
            let mut sent = ordinary();
            let first = sent
                .last()
                .map_or(0, |it| u16::from_be_bytes([it.1[2], it.1[3]]));
            for index in 0..300 {
                let timestamp = 5_000 + 3_600 * (FRAMES + index / 3) as u32;
                let seq = first.wrapping_add(1 + index as u16);
                let datagram = packet(source, seq, timestamp, &payload(index), index % 3 == 2);
                sent.push((at(2 * FRAMES + index / 3), datagram));
            }
            let again = ordinary();
            let begin = u16::from_be_bytes([again[0].1[2], again[0].1[3]]);
            let behind = if source == OURS { 301 } else { 1 };
            for (index, (now, mut datagram)) in again.into_iter().enumerate() {
                let seq = first.wrapping_add(behind + index as u16);
                let stamp = u32::from_be_bytes(datagram[4..8].try_into().expect("four"));
                let stamp = stamp + 3_600 * 4 * FRAMES as u32;
                assert_ne!(seq, begin);
                datagram[2..4].copy_from_slice(&seq.to_be_bytes());
                datagram[4..8].copy_from_slice(&stamp.to_be_bytes());
                sent.push((now + STEP.times(4 * FRAMES as u64), datagram));
            }
            let mut receiver = RtpReceiver::new();
            let frames = receive(&mut receiver, &sent);
            let got = bytes(&frames);
            let counts = (frames.len(), got.len(), twice.len());
            assert!(got == twice, "{name} by {source}: {counts:?}");
            assert_eq!(receiver.media(), Some(Media::H264));
            // Nothing of that was lost on the way.
            let stats = receiver.stats();
            assert_eq!((stats.lost, stats.incomplete), (0, 0), "{name} by {source}");
            let notes: Vec<RtpNote> = std::iter::from_fn(|| receiver.poll_note()).collect();
            let told = RtpNote::OtherCodec {
                source,
                carries: name,
                stream: "H.264",
            };
            assert_eq!(
                notes.iter().filter(|it| **it == told).count(),
                1,
                "{notes:?}"
            );
        }
    }
    // The same codec is none.
    let mut receiver = RtpReceiver::new();
    receive(&mut receiver, &ordinary());
    assert_eq!(receiver.poll_note(), None);
}

#[test]
fn a_source_that_replaces_another_does_not_change_the_codec() {
    if !have_ffmpeg() {
        return;
    }
    let mut receiver = RtpReceiver::new();
    let first = receive(&mut receiver, &ordinary());
    assert_eq!(first.len(), FRAMES);
    // It carries the same codec, but shows no picture; then one comes that carries another.
    let again = RtpSource {
        ssrc: 0xABCD,
        ..OURS
    };
    let vp8 = |index: usize| match index % 3 {
        0 => [
            &[0x10, 0x10, 0, 0, 0x9D, 1, 0x2A, 0x60, 1, 0x20, 1],
            &noise(index, 900)[..],
        ]
        .concat(),
        _ => [&[0], &noise(index, 900)[..]].concat(),
    };
    let sps = pictures()[0]
        .iter()
        .find(|it| kind(it) == 7)
        .expect("a set");
    let sent = |index: usize| match index {
        0..300 => (again, sps.clone()),
        _ => (OTHER, vp8(index)),
    };
    let sent: Vec<Sent> = (0..900)
        .map(|index| {
            let (source, payload) = sent(index);
            let stamp = 3_600 * index as u32;
            let datagram = packet(source, index as u16, stamp, &payload, true);
            (at(3 * FRAMES + index), datagram)
        })
        .collect();
    assert!(receive(&mut receiver, &sent).is_empty());
    assert_eq!(receiver.media(), Some(Media::H264));
    let notes: Vec<RtpNote> = std::iter::from_fn(|| receiver.poll_note()).collect();
    let told = RtpNote::OtherCodec {
        source: OTHER,
        carries: "VP8",
        stream: "H.264",
    };
    assert_eq!(
        notes.iter().filter(|it| **it == told).count(),
        1,
        "{notes:?}"
    );
}

#[test]
fn a_payload_type_that_is_unassigned_is_one_of_an_application() {
    if !have_ffmpeg() {
        return;
    }
    // Browsers take 35 to 63 where those from 96 on do not suffice.
    for (payload_type, media) in [(41, Some(Media::H264)), (22, None)] {
        let mut sent = ordinary();
        for (_, datagram) in &mut sent {
            datagram[1] = datagram[1] & 0x80 | payload_type;
        }
        assert_eq!(received_media(&sent), media);
    }
}

fn received_media(sent: &[Sent]) -> Option<Media> {
    let mut receiver = RtpReceiver::new();
    receive(&mut receiver, sent);
    receiver.media()
}

#[test]
fn a_source_that_shows_no_picture_does_not_hold_the_port() {
    if !have_ffmpeg() {
        return;
    }
    let filling = [&[0x47, 0x1F, 0xFF, 0x10][..], &[0xFF; 184]].concat();
    // Payloads that are not what the type says; and stuffing, which is MPEG-TS without a programme.
    for (payload_type, payload, before) in [
        (32, vec![0x55; 400], 900),
        (33, vec![0x55; 400], 900),
        (33, filling.repeat(7), 11_000),
    ] {
        let junk = RtpSource {
            ssrc: 7,
            payload_type,
        };
        let mut receiver = RtpReceiver::new();
        let mut seq = 0;
        let mut of_junk = |now: Time| {
            seq += 1;
            let stamp = 3_600 * u32::from(seq);
            (now, packet(junk, seq, stamp, &payload, false))
        };
        let first: Vec<Sent> = (0..before / 20)
            .map(|n| of_junk(Time::ZERO + Span::from_ms(n * 20)))
            .collect();
        for (now, datagram) in &first {
            receiver.push(*now, datagram);
            while let Some(frame) = receiver.poll() {
                let picture = frame.frame.picture;
                assert_eq!(picture, Picture::Data, "{payload_type}");
            }
        }
        let problem = receiver.problem().unwrap_or_default();
        assert!(
            problem.contains("payload type 33")
                || problem.contains("payload type 32")
                || before > 900,
            "{problem}"
        );
        let later = Span::from_ms(before);
        let both: Vec<Sent> = ordinary()
            .into_iter()
            .flat_map(|(now, datagram)| [of_junk(now + later), (now + later, datagram)])
            .collect();
        let frames = receive(&mut receiver, &both);
        assert!(
            frames.len() >= FRAMES - 1,
            "{payload_type}: {} frames",
            frames.len()
        );
        let notes: Vec<RtpNote> = std::iter::from_fn(|| receiver.poll_note()).collect();
        let replaced = RtpNote::Unusable {
            old: junk,
            new: OURS,
        };
        assert!(notes.contains(&replaced), "{notes:?}");
    }
}
