//! Access units are found by their own syntax, and starts get the headers that the stream has elsewhere.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use crate::common::{decode, encode, have_ffmpeg};
use bytes::Bytes;
use layercast_core::{FrameRate, Media, PerLayer, Serial, Time};
use layercast_media::{
    Clip, FlowWriter, H264Writer, MediaError, OutputForm, Received, StreamWriter,
};

const FRAMES: usize = 60;
const RATE: FrameRate = FrameRate { num: 25, den: 1 };
const H264: &str =
    "-c:v libx264 -g 20 -bf 2 -slices 3 -x264-params scenecut=0:b-pyramid=none:aud=1";
const MPEG2: &str = "-c:v mpeg2video -g 20 -bf 2 -sc_threshold 1000000000";
const AUD: u8 = 9;
const SEI: u8 = 6;
const SPS: u8 = 7;
const PPS: u8 = 8;
const FILLER: u8 = 12;

fn source(name: &str, options: &str) -> Vec<u8> {
    let options = format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {options}");
    encode(name, &options)
}

/// Where start codes begin.
fn starts(data: &[u8]) -> Vec<usize> {
    let at = |&at: &usize| data[at..at + 3] == [0, 0, 1];
    (0..data.len().saturating_sub(3)).filter(at).collect()
}

/// NAL units without start codes.
fn nals(data: &[u8]) -> Vec<Vec<u8>> {
    let mut starts = starts(data);
    starts.push(data.len());
    let nal = |pair: &[usize]| {
        let mut nal = data[pair[0] + 3..pair[1]].to_vec();
        while nal.last() == Some(&0) {
            nal.pop();
        }
        nal
    };
    starts.windows(2).map(nal).collect()
}

fn annexb(nals: impl IntoIterator<Item = Vec<u8>>, code: &[u8]) -> Vec<u8> {
    nals.into_iter()
        .flat_map(|nal| [code, &nal].concat())
        .collect()
}

fn kind(nal: &[u8]) -> u8 {
    nal[0] & 31
}

/// What a receiver that joins at the second start writes.
fn joined_late(clip: &Clip) -> Vec<u8> {
    let second = clip.frames.iter().skip(1).position(|it| it.gop_start);
    let second = second.expect("a second start") + 1;
    let (mut h264, mut mpeg, mut out) = (H264Writer::new(), StreamWriter::new(), Vec::new());
    for (index, frame) in clip.frames.iter().enumerate().skip(second) {
        let (seq, data) = (Serial(index as u32), frame.data.as_ref().expect("bytes"));
        match clip.info.codec {
            Media::H264 => h264.frame(seq, frame.layer(), frame.gop_start, data, &mut out),
            _ => mpeg.frame(seq, frame.layer(), frame.gop_start, data, &mut out),
        }
    }
    out
}

/// A stream of which `stripped` frames went into a transport stream.
fn transport(media: Media, clip: &Clip, strip: impl Fn(usize, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut writer = FlowWriter::new(media, RATE, OutputForm::Transport);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (index, frame) in clip.frames.iter().enumerate() {
        let data = strip(index, frame.data.as_ref().expect("bytes"));
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: PerLayer::default(),
            emitted: Time::ZERO + RATE.due(index as u64),
            data: &data,
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    out
}

/// What a receiver that joins a transport stream at its second start writes.
fn transport_joined_late(clip: &Clip) -> Vec<u8> {
    assert_eq!(clip.info.codec, Media::MpegTs);
    let starts: Vec<usize> = (0..clip.frames.len())
        .filter(|&i| clip.frames[i].gop_start)
        .collect();
    assert!(starts.len() >= FRAMES / 20);
    let mut writer = FlowWriter::new(Media::MpegTs, RATE, OutputForm::Native);
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (index, frame) in clip.frames.iter().enumerate().skip(starts[1]) {
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: frame.sound,
            missing: PerLayer::default(),
            emitted: Time::ZERO + frame.time.expect("a time"),
            data: frame.data.as_ref().expect("bytes"),
        };
        writer.frame(&received, &mut out, &mut ends);
    }
    out
}

#[test]
fn odd_access_units_are_as_many_pictures_as_even_ones() {
    if !have_ffmpeg() {
        return;
    }
    let data = source("odd.h264", H264);
    let nals = nals(&data);
    let aud = || vec![AUD, 0xF0];
    let filler = || [&[FILLER][..], &[0xFF; 300], &[0x80]].concat();
    let long = &[0, 0, 0, 1][..];
    let with = |before: &dyn Fn(&[u8]) -> Vec<Vec<u8>>| {
        annexb(
            nals.iter()
                .flat_map(|nal| before(nal).into_iter().chain([nal.clone()])),
            long,
        )
    };
    let slice = |nal: &[u8]| matches!(kind(nal), 1 | 5);
    let odd: [(&str, Vec<u8>); 7] = [
        ("as it is", annexb(nals.clone(), long)),
        (
            "delimiter inside a picture",
            with(&|nal| match kind(nal) {
                AUD => vec![],
                _ => vec![aud()],
            }),
        ),
        (
            "filler before slices",
            with(&|nal| match slice(nal) {
                true => vec![filler()],
                false => vec![],
            }),
        ),
        (
            "filler as a unit of its own",
            with(&|nal| match kind(nal) {
                AUD => vec![aud(), filler()],
                _ => vec![],
            }),
        ),
        (
            "no delimiter",
            annexb(
                nals.iter().filter(|nal| kind(nal) != AUD).cloned(),
                &[0, 0, 1],
            ),
        ),
        (
            "zero bytes between",
            annexb(nals.clone(), &[[0; 40].as_slice(), &[0, 0, 1]].concat()),
        ),
        (
            "bytes behind parameter sets",
            annexb(
                nals.iter().map(|nal| match kind(nal) {
                    SPS | PPS => [&nal[..], &[4, 0x80]].concat(),
                    _ => nal.clone(),
                }),
                long,
            ),
        ),
    ];
    let expected = Clip::parse(Bytes::from(data)).expect("a clip");
    let shape = |clip: &Clip| -> Vec<_> {
        let of = |frame: &layercast_media::Frame| (frame.picture, frame.layer(), frame.gop_start);
        clip.frames.iter().map(of).collect()
    };
    for (name, stream) in odd {
        let clip = Clip::parse(Bytes::from(stream)).expect(name);
        assert_eq!(shape(&clip), shape(&expected), "{name}");
        assert_eq!(decode("h264", &joined_late(&clip)).len(), 40, "{name}");
    }
}

#[test]
fn parameter_sets_that_come_once_go_before_each_start() {
    if !have_ffmpeg() {
        return;
    }
    let data = source("once.h264", H264);
    let original = decode("h264", &data);
    let mut seen = 0;
    let once = nals(&data).into_iter().filter(|nal| {
        seen += usize::from(kind(nal) == SPS);
        seen <= 1 || !matches!(kind(nal), SPS | PPS)
    });
    let clip = Clip::parse(Bytes::from(annexb(once, &[0, 0, 0, 1]))).expect("a clip");
    assert_eq!(clip.frames.iter().filter(|it| it.gop_start).count(), 3);
    assert_eq!(decode("h264", &joined_late(&clip)), original[20..]);
    // The same in a transport stream.
    let stripped = |index: usize, data: &[u8]| match index {
        0 => data.to_vec(),
        _ => annexb(
            nals(data)
                .into_iter()
                .filter(|nal| !matches!(kind(nal), SPS | PPS | SEI)),
            &[0, 0, 0, 1],
        ),
    };
    let stream = transport(Media::H264, &clip, stripped);
    let clip = Clip::parse(Bytes::from(stream)).expect("a transport stream");
    assert_eq!(
        decode("mpegts", &transport_joined_late(&clip)),
        original[20..]
    );
}

#[test]
fn a_sequence_header_that_comes_once_goes_before_each_start() {
    if !have_ffmpeg() {
        return;
    }
    let data = source("once.m2v", MPEG2);
    let original = decode("mpegvideo", &data);
    let whole = Clip::parse(Bytes::from(data)).expect("a clip");
    // The headers end where the GOP header begins.
    let bare = |index: usize, data: &[u8]| match (
        index,
        starts(data).into_iter().find(|&at| data[at + 3] == 0xB8),
    ) {
        (1.., Some(gop)) => data[gop..].to_vec(),
        _ => data.to_vec(),
    };
    let frames = whole.frames.iter().enumerate();
    let once: Vec<u8> = frames
        .flat_map(|(index, frame)| bare(index, frame.data.as_ref().expect("bytes")))
        .collect();
    let clip = Clip::parse(Bytes::from(once)).expect("a clip");
    let starts = |clip: &Clip| clip.frames.iter().filter(|it| it.gop_start).count();
    assert_eq!(starts(&clip), starts(&whole));
    let late = decode("mpegvideo", &joined_late(&clip));
    assert!(
        late.len() >= 40 && late.ends_with(&original[25..]),
        "{}",
        late.len()
    );
    let stream = transport(Media::Mpeg2, &whole, |_, data| data.to_vec());
    let with = Clip::parse(Bytes::from(stream)).expect("a transport stream");
    let late = decode("mpegts", &transport_joined_late(&with));
    let stream = transport(Media::Mpeg2, &whole, bare);
    let clip = Clip::parse(Bytes::from(stream)).expect("a transport stream");
    assert_eq!(decode("mpegts", &transport_joined_late(&clip)), late);
}

#[test]
fn a_stream_without_parameter_sets_is_refused_by_their_name() {
    if !have_ffmpeg() {
        return;
    }
    let nals = nals(&source("never.h264", H264));
    let none = nals
        .iter()
        .filter(|nal| !matches!(kind(nal), SPS | PPS))
        .cloned();
    let error = Clip::parse(Bytes::from(annexb(none, &[0, 0, 0, 1]))).expect_err("no sets");
    assert!(
        matches!(error, MediaError::ParameterSets { codec: "H.264", slices, unread: 0 } if slices > 60)
    );
    let text = error.to_string();
    assert!(
        text.contains("parameter sets (SPS and PPS)") && text.contains("dump_extra"),
        "{text}"
    );
    // An SPS that cannot be read is not the same as none.
    let broken = nals.into_iter().map(|nal| match kind(&nal) {
        SPS => nal[..4].to_vec(),
        _ => nal,
    });
    let error = Clip::parse(Bytes::from(annexb(broken, &[0, 0, 0, 1]))).expect_err("no sets");
    assert!(
        error.to_string().contains("came that cannot be read"),
        "{error}"
    );
}
