//! RTP: what is sent comes back as the same frames, in any order, with losses distinguished from layers.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::sync::OnceLock;

use crate::common::{decode, encode, have_ffmpeg};
use bytes::Bytes;
use layercast_core::{Media, PerLayer, Serial, Span, Stream, Time};
use layercast_media::{
    Clip, FlowWriter, Frame, Ingest, LiveClock, OutputForm, Received, SpecMeter, TimedFrame,
};

const FRAMES: usize = 60;
const H264: &str = "-c:v libx264 -g 20 -bf 2 -x264-params scenecut=0:b-pyramid=none";
const H265: &str = "-c:v libx265 -preset ultrafast -g 20 -bf 3 -x265-params temporal-layers=1:log-level=none:open-gop=0";
const OPEN: &str =
    "-c:v libx265 -preset ultrafast -g 20 -bf 3 -x265-params slices=2:log-level=none:open-gop=1";
const AV1: &str = "-c:v libsvtav1 -preset 10 -g 20 -b:v 300k";
const VP8: &str =
    "-c:v libvpx -deadline realtime -cpu-used 8 -g 20 -b:v 300k -auto-alt-ref 1 -lag-in-frames 10";
const VP9: &str =
    "-c:v libvpx-vp9 -deadline good -cpu-used 8 -g 20 -b:v 300k -auto-alt-ref 1 -lag-in-frames 16";
const MPEG: &str = "-g 12 -bf 2 -sc_threshold 1000000000 -c:v";

fn clip(name: &str, options: &str) -> Clip {
    let options = format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p {options}");
    Clip::parse(Bytes::from(encode(name, &options))).expect("a clip")
}

/// The clip as RTP datagrams.
fn datagrams(clip: &Clip) -> Vec<Vec<u8>> {
    let rate = clip.info.frame_rate;
    let mut writer = FlowWriter::new(
        clip.info.codec,
        rate,
        OutputForm::Rtp(0x1234_5678_FFFF_FFF0),
    );
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

fn take(datagrams: &[Vec<u8>]) -> (Vec<TimedFrame>, Ingest) {
    let mut ingest = Ingest::new();
    let mut frames = Vec::new();
    for datagram in datagrams {
        assert!(datagram.len() <= 1_412);
        ingest.push(Time::ZERO, datagram);
        frames.extend(std::iter::from_fn(|| ingest.poll()));
    }
    ingest.finish();
    frames.extend(std::iter::from_fn(|| ingest.poll()));
    (frames, ingest)
}

/// Encoded once: the tests run at the same time, and would write the same files.
fn clips() -> &'static [(Clip, Media)] {
    static CLIPS: OnceLock<[(Clip, Media); 9]> = OnceLock::new();
    CLIPS.get_or_init(|| {
        [
            (clip("rtp.h264", H264), Media::H264),
            (clip("rtp.h265", H265), Media::H265),
            (clip("rtp-open.h265", OPEN), Media::H265),
            (clip("rtp.m1v", &format!("{MPEG} mpeg1video")), Media::Mpeg1),
            (clip("rtp.m2v", &format!("{MPEG} mpeg2video")), Media::Mpeg2),
            (clip("rtp-av1.ivf", AV1), Media::Av1),
            (clip("rtp-vp8.ivf", VP8), Media::Vp8),
            (clip("rtp-vp9.ivf", VP9), Media::Vp9),
            (clip("rtp.ts", &format!("{H264} -f mpegts")), Media::MpegTs),
        ]
    })
}

#[test]
fn frames_come_back_with_even_times() {
    if !have_ffmpeg() {
        return;
    }
    for &(ref clip, media) in clips() {
        let (frames, ingest) = take(&datagrams(clip));
        assert_eq!(ingest.media(), Some(media));
        assert_eq!(ingest.stats().rtp.malformed + ingest.stats().rtp.lost, 0);
        let content = |frame: &Frame| (frame.layer(), frame.gop_start, frame.data.clone());
        if media != Media::MpegTs {
            let got: Vec<_> = frames.iter().map(|it| content(&it.frame)).collect();
            let sent: Vec<_> = clip.frames.iter().map(content).collect();
            assert_eq!(got.len(), sent.len(), "{media:?}");
            assert_eq!(got, sent, "{media:?}");
        }
        assert_eq!(
            frames.iter().filter(|it| it.frame.gop_start).count(),
            clip.frames.iter().filter(|it| it.gop_start).count()
        );
        // Decoding times are evenly spaced, B pictures or not.
        let mut clock = LiveClock::new(Span::from_ms(100));
        let mut last: Option<Span> = None;
        for timed in &frames {
            if timed.frame.picture == layercast_media::Picture::Data {
                continue;
            }
            let now = Time::ZERO + last.unwrap_or_default();
            let due = clock.due(now, timed.stamp);
            if let Some(last) = last {
                assert_eq!(due.as_ms() - last.as_ms(), 40, "{media:?}");
            }
            last = Some(due);
        }
        let mut meter = SpecMeter::new(Span::from_secs(1));
        for timed in &frames {
            meter.push(timed);
        }
        assert!(meter.is_done(), "{media:?}");
        let spec = meter.flow_spec(media, 25, None).expect("a specification");
        spec.validate().expect("valid");
        let whole = clip.flow_spec();
        let ratio = f64::from(spec.layers.base.mean.0) / f64::from(whole.layers.base.mean.0);
        assert!((0.9..1.7).contains(&ratio), "{media:?}: {ratio}");
        if media != Media::MpegTs {
            assert!(
                (24.9..25.1).contains(&spec.frame_rate.as_f64()),
                "{media:?} {spec:?}"
            );
        }
    }
}

#[test]
fn reordering_and_duplicates_change_nothing() {
    if !have_ffmpeg() {
        return;
    }
    for &(ref clip, media) in clips() {
        let sent = datagrams(clip);
        let (expected, _) = take(&sent);
        let mut stream = Stream::new(7, "order");
        let mut mixed = sent.clone();
        for at in 1..mixed.len() - 8 {
            if stream.chance(0.2) {
                let to = at + stream.below(6) as usize;
                mixed.swap(at, to);
            }
            if stream.chance(0.1) {
                let twice = mixed[at].clone();
                mixed.insert(at + 3, twice);
            }
        }
        let (frames, ingest) = take(&mixed);
        assert_eq!(frames, expected, "{media:?}");
        assert_eq!(ingest.stats().rtp.lost, 0);
        assert!(ingest.stats().rtp.dropped > 0);
    }
}

/// Frames in a file.
fn in_ivf(media: Media, frames: &[Frame]) -> Vec<u8> {
    let mut out = b"DKIF\0\0\x20\0".to_vec();
    out.extend_from_slice(if media == Media::Vp8 {
        b"VP80"
    } else {
        b"VP90"
    });
    for word in [176u16, 144, 25, 0, 1, 0, 0, 0, 0, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for (index, frame) in frames.iter().enumerate() {
        let data = frame.data.as_ref().expect("bytes");
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(&(index as u64).to_le_bytes());
        out.extend_from_slice(data);
    }
    out
}

#[test]
fn after_losses_what_is_passed_on_still_decodes() {
    if !have_ffmpeg() {
        return;
    }
    for &(ref clip, media) in &clips()[..8] {
        let sent = datagrams(clip);
        let mut stream = Stream::new(11, "loss");
        let kept: Vec<_> = sent.into_iter().filter(|_| !stream.chance(0.01)).collect();
        let (frames, ingest) = take(&kept);
        assert!(ingest.stats().rtp.lost > 0, "{media:?}");
        assert!(frames.len() > 20, "{media:?}: {}", frames.len());
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|it| it.frame.data.clone().expect("bytes"))
            .collect();
        let format = match media {
            Media::H264 => Some("h264"),
            Media::H265 => Some("hevc"),
            Media::Av1 => Some("obu"),
            _ => None,
        };
        if let Some(format) = format {
            assert_eq!(decode(format, &bytes).len(), frames.len());
        }
        if let Media::Vp8 | Media::Vp9 = media {
            let whole = decode("ivf", &in_ivf(media, &clip.frames));
            let all: Vec<Frame> = frames.iter().map(|it| it.frame.clone()).collect();
            let found = decode("ivf", &in_ivf(media, &all));
            assert!(found.len() > 20, "{media:?}: {}", found.len());
            assert!(found.iter().all(|it| whole.contains(it)), "{media:?}");
        }
        for timed in frames {
            assert!(
                clip.frames.iter().any(|it| it.data == timed.frame.data),
                "whole or not at all"
            );
        }
    }
}
