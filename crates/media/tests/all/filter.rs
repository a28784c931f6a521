//! The filters on real streams: what they write is decoded by ffmpeg without a word, and is as good as
//! it should be.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::io::Write;
use std::process::{Command, Stdio};

use bytes::Bytes;
use layercast_core::{Layer, Rate, Serial};
use layercast_media::{
    Clip, CoefficientFilter, DropRule, FilterError, Frame, Picture, PictureDrop, Shaping,
    StreamWriter,
};

/// How the sources are encoded: name, ffmpeg arguments after the input.
const SOURCES: [(&str, &str); 4] = [
    ("mpeg1", "-c:v mpeg1video -q:v 3"),
    ("mpeg2", "-c:v mpeg2video -q:v 3"),
    (
        "mpeg2-interlaced",
        "-c:v mpeg2video -q:v 3 -vf setfield=tff -flags +ildct+ilme -intra_vlc 1 -alternate_scan 1",
    ),
    // The quantiser changes inside slices.
    (
        "mpeg2-constant-rate",
        "-c:v mpeg2video -b:v 1500k -maxrate 1500k -bufsize 1M -non_linear_quant 1 -qmax 28",
    ),
];
const WIDTH: usize = 352;
const HEIGHT: usize = 288;
const FRAMES: usize = 50;

fn have_ffmpeg() -> bool {
    let found = Command::new("ffmpeg").arg("-version").output().is_ok();
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "ffmpeg is required but missing");
    if !found {
        eprintln!("skipped: ffmpeg is not installed");
    }
    found
}

/// Runs ffmpeg with `input` at its standard input; gives what it writes there. It must not say a word.
fn ffmpeg(name: &str, arguments: &str, input: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new("ffmpeg")
        .args(["-y", "-v", "warning", "-xerror"])
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("ffmpeg ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    feeder.join().expect("no panic").expect("ffmpeg reads all");
    output.stdout
}

fn source(options: &str) -> Clip {
    let arguments = format!(
        "-f lavfi -i testsrc2=s={WIDTH}x{HEIGHT}:r=25 -frames:v {FRAMES} {options} -g 12 -bf 2 \
         -threads 1 -f mpeg2video -"
    );
    let arguments = match options.contains("mpeg1video") {
        true => arguments.replace("-f mpeg2video", "-f mpeg1video"),
        false => arguments,
    };
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error"])
        .args(arguments.split_whitespace())
        .output()
        .expect("ffmpeg starts");
    assert!(output.status.success(), "{output:?}");
    let clip = Clip::parse(Bytes::from(output.stdout)).expect("a clip");
    assert_eq!(clip.frames.len(), FRAMES);
    clip
}

fn bytes(frames: &[Frame]) -> Vec<u8> {
    let data = frames.iter().map(|frame| frame.data.as_deref());
    data.flat_map(|data| data.expect("real frames").to_vec())
        .collect()
}

fn size(frames: &[Frame]) -> usize {
    frames.iter().map(|frame| frame.size as usize).sum()
}

/// The decoded pictures in display order.
fn decode(name: &str, frames: &[Frame]) -> Vec<u8> {
    let arguments = "-i pipe:0 -fps_mode passthrough -f rawvideo -pix_fmt yuv420p -";
    let pictures = ffmpeg(name, arguments, bytes(frames));
    assert_eq!(pictures.len(), FRAMES * WIDTH * HEIGHT * 3 / 2, "{name}");
    pictures
}

/// PSNR of the luminance of all pictures, in dB.
fn psnr(a: &[u8], b: &[u8]) -> f64 {
    let (picture, luminance) = (WIDTH * HEIGHT * 3 / 2, WIDTH * HEIGHT);
    let pictures = a.chunks(picture).zip(b.chunks(picture));
    let errors = pictures.flat_map(|(a, b)| a[..luminance].iter().zip(&b[..luminance]));
    let sum: f64 = errors
        .map(|(&a, &b)| f64::from(i32::from(a) - i32::from(b)).powi(2))
        .sum();
    10.0 * (255.0 * 255.0 * (FRAMES * luminance) as f64 / sum).log10()
}

fn low_pass(clip: &Clip, k: u8) -> Vec<Frame> {
    clip.low_pass(k).expect("a clean stream").clip.frames
}

#[test]
fn a_low_pass_that_keeps_all_changes_no_bit() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let clip = source(options);
        let frames = low_pass(&clip, 64);
        let same = decode(name, &frames) == decode(name, &clip.frames);
        assert!(same, "{name}");
        if !name.ends_with("rate") {
            // Without the stuffing of a constant rate, the streams themselves are the same.
            assert!(bytes(&frames) == bytes(&clip.frames), "{name}");
        }
    }
}

#[test]
fn quality_and_rate_fall_with_k_and_every_stream_is_legal() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let clip = source(options);
        let original = decode(name, &clip.frames);
        let (mut quality, mut rate) = (f64::INFINITY, usize::MAX);
        for k in [32, 16, 8, 4, 2, 1] {
            let frames = low_pass(&clip, k);
            let psnr = psnr(&decode(&format!("{name} k={k}"), &frames), &original);
            let size = size(&frames);
            println!("{name} k={k}: {size} bytes, {psnr:.2} dB");
            assert!(psnr < quality && size < rate, "{name} k={k}");
            (quality, rate) = (psnr, size);
        }
        assert!(quality > 15.0, "{name}: {quality} dB are left");
    }
}

#[test]
fn shaping_is_not_worse_than_a_low_pass_of_the_same_size() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let clip = source(options);
        let original = decode(name, &clip.frames);
        for k in [2, 5, 10, 20] {
            let uniform = low_pass(&clip, k);
            let mut filter = CoefficientFilter::new(Shaping::LowPass(64));
            let frames = clip.frames.iter().zip(&uniform);
            let shaped: Vec<Frame> = frames
                .map(|(frame, uniform)| {
                    let budget = uniform.size;
                    filter.set_shaping(Shaping::Drs { budget });
                    filter.apply(frame).expect("a clean stream")
                })
                .collect();
            let quality = |frames: &[Frame]| psnr(&decode(name, frames), &original);
            let (uniform_db, shaped_db) = (quality(&uniform), quality(&shaped));
            println!("{name} k={k}: low-pass {uniform_db:.2} dB, shaped {shaped_db:.2} dB");
            assert!(shaped_db >= uniform_db, "{name} k={k}");
            assert_eq!(filter.stats().over_budget, 0);
            for (shaped, uniform) in shaped.iter().zip(&uniform) {
                assert!(shaped.size <= uniform.size);
            }
        }
    }
}

#[test]
fn a_shaped_clip_has_its_rate_within_5_percent() {
    if !have_ffmpeg() {
        return;
    }
    for (name, options) in SOURCES {
        let clip = source(options);
        let seconds = clip.duration().as_secs_f64();
        let rate_of = |frames: &[Frame]| size(frames) as f64 * 8.0 / seconds;
        let least = rate_of(&clip.shape(Rate::from_bps(1)).expect("shaped").clip.frames);
        let most = rate_of(&clip.frames);
        for part in [0.15, 0.3, 0.5, 0.7] {
            let rate = least + part * (most - least);
            let shaped = clip.shape(Rate::from_bps(rate as u64)).expect("shaped");
            let reached = rate_of(&shaped.clip.frames);
            println!("{name}: {rate:.0} asked, {reached:.0} bit/s reached");
            assert!((reached / rate - 1.0).abs() < 0.05, "{name}");
            decode(&format!("{name} at {rate:.0} bit/s"), &shaped.clip.frames);
        }
    }
}

#[test]
fn a_rate_that_headers_and_vectors_exceed_is_reported() {
    if !have_ffmpeg() {
        return;
    }
    let clip = source(SOURCES[1].1);
    let shaped = clip.shape(Rate::from_bps(1_000)).expect("shaped");
    assert_eq!(shaped.stats.over_budget, FRAMES as u64);
    decode("bare", &shaped.clip.frames);
}

#[test]
fn pictures_left_after_dropping_stand_in_their_places() {
    if !have_ffmpeg() {
        return;
    }
    let (picture, keep, of) = (Picture::B, 1, 2);
    let thin = DropRule::Thin { picture, keep, of };
    for (name, options) in SOURCES {
        let clip = source(options);
        let original = decode(name, &clip.frames);
        let mut quality = 0.0;
        for rule in [DropRule::KeepI, DropRule::KeepIp, thin] {
            let (mut filter, mut writer) = (PictureDrop::new(rule), StreamWriter::new());
            let mut out = Vec::new();
            for (index, frame) in clip.frames.iter().enumerate() {
                if filter.keeps(frame) {
                    let data = frame.data.as_ref().expect("real frames");
                    let seq = Serial(index as u32);
                    writer.frame(seq, frame.layer(), frame.gop_start, data, &mut out);
                }
            }
            writer.finish(&mut out);
            assert_eq!(writer.stats().undecodable, 0);
            let arguments = "-i pipe:0 -fps_mode passthrough -f rawvideo -pix_fmt yuv420p -";
            let mut pictures = ffmpeg(&format!("{name} {rule:?}"), arguments, out);
            // The last pictures of the clip are missing if they were dropped.
            assert!(pictures.len() <= original.len());
            let last = pictures.split_off(pictures.len() - WIDTH * HEIGHT * 3 / 2);
            while pictures.len() < original.len() {
                pictures.extend_from_slice(&last);
            }
            let psnr = psnr(&pictures, &original);
            println!("{name} {rule:?}: {psnr:.2} dB");
            assert!(psnr > quality, "{name}: more pictures are better");
            quality = psnr;
        }
    }
}

#[test]
fn what_cannot_be_filtered_is_named() {
    let frame = Frame {
        picture: Picture::P,
        layer: Layer::E1,
        time: None,
        gop_start: false,
        sound: false,
        size: 100,
        data: None,
    };
    let mut filter = CoefficientFilter::new(Shaping::LowPass(5));
    assert_eq!(filter.apply(&frame), Err(FilterError::NoData));
    // A slice, before any header.
    let with = |data: &'static [u8]| Frame {
        data: Some(Bytes::from_static(data)),
        ..frame.clone()
    };
    let slice = with(&[0, 0, 1, 1, 0x0A]);
    assert_eq!(filter.apply(&slice), Err(FilterError::NoSequence));
    // An MPEG-2 sequence with 4:2:2 chroma.
    let chroma_422 = with(&[
        0, 0, 1, 0xB3, 0x0b, 0, 0x90, 0x13, 0xff, 0xff, 0xe0, 0x18, 0, 0, 1, 0xB5, 0x14, 0x8c, 0,
        1, 0, 0, 0, 0, 1, 0, 0, 0x0f, 0xff, 0xf8, 0, 0, 1, 1, 0x0A,
    ]);
    let error = FilterError::Unsupported("chroma other than 4:2:0");
    assert_eq!(filter.apply(&chroma_422), Err(error));
    assert_eq!(filter.stats().frames, 0);
}
