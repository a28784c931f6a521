//! Temporal layers as encoders make them through their own interfaces: libaom (L1T3) and OpenH264. ffmpeg has no options for
//! these, so small programs in C call them.
//!
//! Skipped with a note where ffmpeg, a C compiler or a library is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` and
//! `LAYERCAST_LONG=1` are set (`make interop`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytes::Bytes;
use layercast_core::Layer;
use layercast_media::{Clip, Frame, Map, OutputForm};

use crate::codecs::{LEVELS, assert_within, at_levels};
use crate::common::{self, decode, have_ffmpeg, is_long, shares};

const FRAMES: usize = 80;
const GOP: usize = 24;

/// A program in C: its name, its library, and ffmpeg's format of its output.
pub struct Encoder {
    pub name: &'static str,
    library: &'static str,
    pub format: &'static str,
}

pub const ENCODERS: [Encoder; 2] = [
    Encoder {
        name: "aom_l1t3",
        library: "aom",
        format: "ivf",
    },
    Encoder {
        name: "openh264_t3",
        library: "openh264",
        format: "h264",
    },
];

/// The program, compiled.
fn built(encoder: &Encoder) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/encoders");
    let program = common::file(encoder.name);
    let made = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(folder.join(format!("{}.c", encoder.name)))
        .arg(format!("-l{}", encoder.library))
        .output();
    if made.is_ok_and(|it| it.status.success()) {
        return Some(program);
    }
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    let what = format!("cc {}.c -l{}", encoder.name, encoder.library);
    assert!(!(required && is_long()), "{what} is required and fails");
    eprintln!("skipped: {what} fails");
    None
}

/// What the encoder makes of a test picture.
pub fn encoded(encoder: &Encoder) -> Option<Vec<u8>> {
    let program = built(encoder)?;
    let raw = format!("{}.yuv", encoder.name);
    let options = format!("-frames:v {FRAMES} -s 176x144 -pix_fmt yuv420p -f rawvideo");
    common::encode(&raw, &options);
    let pixels = std::fs::File::open(common::made(&raw)).expect("pixels");
    let output = Command::new(program)
        .args(["176", "144", "200", &GOP.to_string()])
        .stdin(Stdio::from(pixels))
        .stderr(Stdio::null())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", encoder.name);
    Some(output.stdout)
}

#[test]
fn temporal_layers_of_libaom_and_openh264_are_levels() {
    if !have_ffmpeg() {
        return;
    }
    for encoder in &ENCODERS {
        let Some(data) = encoded(encoder) else {
            continue;
        };
        let name = encoder.name;
        let whole = decode(encoder.format, &data);
        assert_eq!(whole.len(), FRAMES, "{name}");
        for map in [Map::Temporal, Map::Auto] {
            let clip = Clip::of_program(Bytes::from(data.clone()), None, map).expect("a clip");
            let layers: Vec<Layer> = clip.frames.iter().map(Frame::layer).collect();
            let pattern = [Layer::Base, Layer::E2, Layer::E1, Layer::E2];
            let expected: Vec<Layer> = (0..FRAMES).map(|n| pattern[n % GOP % 4]).collect();
            assert_eq!(layers, expected, "{name} {map}");
            for level in LEVELS {
                let (out, sent, undecodable) = at_levels(&clip, OutputForm::Native, |_| level);
                let found = decode(encoder.format, &out);
                assert_eq!((found.len(), undecodable), (sent, 0), "{name} {level}");
                assert_within(&found, &whole, name);
            }
            let changing = |gop: usize| LEVELS[[2, 0, 1, 2][gop % 4]];
            let (out, sent, _) = at_levels(&clip, OutputForm::Native, changing);
            let found = decode(encoder.format, &out);
            assert_eq!(found.len(), sent, "{name}");
            assert_within(&found, &whole, name);
            if map == Map::Auto {
                println!("{name:18} {}", shares(&clip.levels()));
            }
        }
    }
}
