use mp4_atom::{Any, Codec, ReadFrom};

use super::*;

const SETS: &[u8] = &[
    0, 0, 0, 1, 9, 0xF0, 0, 0, 0, 1, 0x67, 0x64, 0, 0x1F, 0xAC, 0, 0, 0, 1, 0x68, 0xEB, 0xE3, 0xCB,
];
const IDR: &[u8] = &[0, 0, 1, 0x65, 0x88, 0x84, 0x21];
const OTHER: &[u8] = &[0, 0, 0, 1, 0x41, 0x9A, 0x24, 0x6C, 0x41];

fn video() -> VideoInfo {
    VideoInfo {
        codec: "avc1.64001F".to_owned(),
        size: Some((320, 180)),
    }
}

fn picture(is_key: bool, time_ms: i64, decode_ms: i64, units: &[&[u8]]) -> Chunk {
    Chunk::picture(
        is_key,
        (time_ms * 1_000, decode_ms * 1_000),
        &units.concat(),
    )
}

/// Flags, time in milliseconds and boxes of a message.
fn read(message: &[u8]) -> (u8, i64, Vec<Any>) {
    let time = i64::from_be_bytes(message[4..12].try_into().unwrap());
    let (mut rest, mut boxes) = (&message[12..], Vec::new());
    while !rest.is_empty() {
        boxes.push(Any::read_from(&mut rest).unwrap());
    }
    (message[1], time / 1_000, boxes)
}

/// Time, duration and composition offset in milliseconds, flags and octets of a fragment; its sample is where it says.
fn sample(message: &[u8]) -> (u64, u32, i64, u32, Vec<u8>) {
    let (_, _, boxes) = read(message);
    let [Any::Moof(moof), Any::Mdat(mdat)] = &boxes[..] else {
        panic!("{boxes:?}");
    };
    let traf = &moof.traf[0];
    let run = &traf.trun[0];
    let entry = run.samples.get(0).unwrap();
    let at = 12 + run.data_offset.unwrap() as usize;
    assert_eq!(message[at..], mdat.data[..]);
    assert_eq!(entry.size, Some(mdat.data.len() as u32));
    let time = traf.tfdt.as_ref().unwrap().base_media_decode_time / 1_000;
    let (duration, after) = (entry.duration.unwrap() / 1_000, entry.cts.unwrap() / 1_000);
    (
        time,
        duration,
        after,
        entry.flags.unwrap(),
        mdat.data.clone(),
    )
}

#[test]
fn pictures_have_their_times_and_lengths_instead_of_start_codes() {
    let mut mp4 = Mp4::default();
    // Nothing is known of the stream yet.
    assert!(
        mp4.messages(&picture(false, 40, 40, &[OTHER]), &video())
            .is_empty()
    );
    let first = mp4.messages(&picture(true, 90_120, 90_040, &[SETS, IDR]), &video());
    assert_eq!(first.len(), 2);
    let (flags, time, boxes) = read(&first[0]);
    assert_eq!((flags, time), (3, 1_000));
    let [Any::Ftyp(_), Any::Moov(moov)] = &boxes[..] else {
        panic!("{boxes:?}");
    };
    let stbl = &moov.trak[0].mdia.minf.stbl;
    let Codec::Avc1(avc1) = &stbl.stsd.codecs[0] else {
        panic!("{stbl:?}");
    };
    assert_eq!((avc1.visual.width, avc1.visual.height), (320, 180));
    assert_eq!(avc1.avcc.sequence_parameter_sets, [SETS[10..15].to_vec()]);
    assert_eq!(avc1.avcc.picture_parameter_sets, [SETS[19..].to_vec()]);
    let idr = [&[0, 0, 0, 4][..], &IDR[3..]].concat();
    assert_eq!(sample(&first[1]), (1_000, 250, 80, SYNC, idr));
    // A P picture, a B picture that is presented before it, and a step that is longer than others.
    let data = [&[0, 0, 0, 5][..], &OTHER[4..]].concat();
    for (time, decode, expected) in [
        (90_240, 90_080, (1_040, 250, 160)),
        (90_120, 90_120, (1_080, 250, 0)),
        (90_560, 90_560, (1_520, 440, 0)),
    ] {
        let messages = mp4.messages(&picture(false, time, decode, &[OTHER]), &video());
        let (at, duration, after, flags, octets) = sample(&messages[0]);
        assert_eq!((messages.len(), (at, duration, after)), (1, expected));
        assert_eq!((flags, &octets), (DEPENDS, &data));
    }
    // The same parameter sets again, and others.
    let again = mp4.messages(&picture(true, 90_640, 90_640, &[SETS, IDR]), &video());
    assert_eq!(again.len(), 1);
    let other = [&SETS[..14], &[0xAD], &SETS[15..]].concat();
    let changed = mp4.messages(&picture(true, 90_680, 90_680, &[&other, IDR]), &video());
    assert_eq!(changed.len(), 2);
}

#[test]
fn the_time_line_continues_when_the_stream_begins_again() {
    let mut mp4 = Mp4::default();
    let mut time = |is_key: bool, ms: i64| {
        let units = if is_key { &[SETS, IDR][..] } else { &[OTHER] };
        let messages = mp4.messages(&picture(is_key, ms, ms, units), &video());
        messages.last().map(|it| sample(it).0)
    };
    assert_eq!(
        [time(true, 90_000), time(false, 90_040)],
        [Some(1_000), Some(1_040)]
    );
    // Pictures of another stream come, of which one can only be begun with a key picture.
    assert_eq!([time(false, 40), time(true, 80)], [None, Some(1_290)]);
    assert_eq!([time(false, 120), time(false, 50_000)], [Some(1_330), None]);
    assert_eq!(
        [time(true, 60_000), time(true, 60_040)],
        [Some(1_580), Some(1_620)]
    );
    let frame = [0xFF, 0xF1, 0x4C, 0x80, 1, 0x3F, 0xFC, 7, 8];
    let sound = |time_us| Chunk::sound(time_us, &frame);
    assert_eq!(mp4.messages(&sound(80_000), &video()).len(), 0);
    assert_eq!(mp4.messages(&sound(60_000_000), &video()).len(), 2);
}

#[test]
fn sound_is_without_its_headers_and_begins_with_the_pictures() {
    let frame = [0xFF, 0xF1, 0x4C, 0x80, 1, 0x3F, 0xFC, 7, 8];
    let mut mp4 = Mp4::default();
    assert!(
        mp4.messages(&Chunk::sound(10_000_000, &frame), &video())
            .is_empty()
    );
    mp4.messages(&picture(true, 10_080, 10_000, &[SETS, IDR]), &video());
    let first = mp4.messages(&Chunk::sound(9_900_000, &frame), &video());
    let (_, _, boxes) = read(&first[0]);
    let Some(Any::Moov(moov)) = boxes.last() else {
        panic!("{boxes:?}");
    };
    let Codec::Mp4a(mp4a) = &moov.trak[0].mdia.minf.stbl.stsd.codecs[0] else {
        panic!("{moov:?}");
    };
    let specific = mp4a.esds.es_desc.dec_config.dec_specific.as_ref().unwrap();
    // AAC LC, 48 kHz, two channels.
    assert_eq!(
        (specific.profile, specific.freq_index, specific.chan_conf),
        (2, 3, 2)
    );
    assert_eq!(sample(&first[1]), (900, 21, 0, SYNC, vec![7, 8]));
    let second = mp4.messages(&Chunk::sound(9_921_333, &frame), &video());
    assert_eq!((second.len(), sample(&second[0]).0), (1, 921));
    // Before the beginning of the time line, and no frame.
    assert!(mp4.messages(&Chunk::sound(0, &frame), &video()).is_empty());
    assert!(
        mp4.messages(&Chunk::sound(10_000_000, &frame[1..]), &video())
            .is_empty()
    );
}

#[test]
fn other_codecs_and_damaged_pictures_give_nothing() {
    let mut mp4 = Mp4::default();
    for codec in ["hev1.1.6.L93.B0", "av01.0.00M.08", "x", ""] {
        let video = VideoInfo {
            codec: codec.to_owned(),
            size: None,
        };
        assert!(
            mp4.messages(&picture(true, 40, 40, &[SETS, IDR]), &video)
                .is_empty()
        );
    }
    let no_size = VideoInfo {
        size: None,
        ..video()
    };
    for units in [&[SETS, IDR][..], &[IDR], &[&[0, 0, 1]], &[]] {
        assert!(
            mp4.messages(&picture(true, 40, 40, units), &no_size)
                .is_empty()
        );
    }
}
