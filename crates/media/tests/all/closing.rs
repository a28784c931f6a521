//! A player learns immediately what the video is, also at base level and with key frames far apart.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::process::Command;

use crate::common::{encode, file, have_ffmpeg};
use bytes::Bytes;
use layercast_core::{Layer, Level, Media, PerLayer, Serial, Span, Time};
use layercast_media::{Clip, FlowWriter, Map, OutputForm, Received};

#[test]
fn the_first_picture_is_ended_where_those_behind_it_are_withheld() {
    if !have_ffmpeg() {
        return;
    }
    let encoded = |name: &str, gop: &str| {
        let options = "-f lavfi -i sine=r=48000 -map 0:v -map 1:a -c:a mp2 -t 12 -s 176x144 -pix_fmt yuv420p \
                       -c:v libx264 -g GOP -keyint_min GOP -bf 2 -f mpegts";
        let stream = encode(name, &options.replace("GOP", gop));
        // With this map the base level is the key frames.
        Clip::of_program(Bytes::from(stream), None, Map::Ipb).expect("a clip")
    };
    let clip = encoded("closing.ts", "200");
    let written_of = |clip: &Clip, level: Level, gop: Option<Span>| {
        let mut writer = FlowWriter::new(Media::MpegTs, clip.info.frame_rate, OutputForm::Native);
        if let Some(gop) = gop {
            writer.set_gop(gop);
        }
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        let frames = clip.frames.iter().enumerate();
        for (index, frame) in frames.filter(|it| level.includes(it.1.layer())) {
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
    };
    let written = |level, gop| written_of(&clip, level, gop);
    let gop = Some(Span::from_secs(8));
    let base = written(Level::BASE, gop);
    let path = file("closing-base.ts");
    std::fs::write(&path, &base).expect("a file");
    let copied = Command::new("ffmpeg")
        .args(["-v", "warning", "-i"])
        .arg(&path)
        .args([
            "-map", "0:v", "-c", "copy", "-copyts", "-f", "framemd5", "-",
        ])
        .output()
        .expect("ffmpeg starts");
    let said = String::from_utf8_lossy(&copied.stderr);
    assert!(copied.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&copied.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let times: Vec<i64> = lines
        .filter_map(|line| line.split(',').nth(2)?.trim().parse().ok())
        .collect();
    assert_eq!(times.len(), 2, "{text}");
    assert_eq!(times[1] - times[0], 8 * 90_000);
    // Two packets more than without, and none where a picture follows immediately.
    assert_eq!(base.len(), written(Level::BASE, None).len() + 2 * 188);
    assert!(clip.frames.iter().any(|it| it.layer() == Layer::E2));
    for level in [Level::E1, Level::FULL] {
        assert_eq!(written(level, gop), written(level, None), "{level}");
    }
    // Key frames every 2 s: the next one is in time, and its own stamps are the only ones.
    let short = encoded("closing-short.ts", "50");
    assert_eq!(
        written_of(&short, Level::BASE, Some(Span::from_secs(2))),
        written_of(&short, Level::BASE, None)
    );
}
