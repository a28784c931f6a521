//! Calls of ffmpeg: a strict decoder, and what it says.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A decoded picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decoded {
    /// Its time stamp in seconds.
    pub at: f64,
    /// A checksum of its samples.
    pub sum: u32,
}

/// What came of decoding a stream.
#[derive(Debug, Default, PartialEq)]
pub struct Pictures {
    /// In the order in which they are shown.
    pub pictures: Vec<Decoded>,
    /// Every line the decoder complained with.
    pub complaints: Vec<String>,
}

/// The ffmpeg to call: `LAYERCAST_FFMPEG`, or the one in the path.
///
/// The stream comes through a pipe: about a plain file of an elementary stream ffmpeg always warns
/// that it has to guess the duration.
pub fn ffmpeg(stream: &Path) -> io::Result<Command> {
    let mut command = Command::new(name());
    command.stdin(Stdio::from(File::open(stream)?));
    Ok(command)
}

/// What is called.
pub fn name() -> OsString {
    std::env::var_os("LAYERCAST_FFMPEG").unwrap_or_else(|| "ffmpeg".into())
}

/// Decodes the pictures `map` of `stream` strictly, `most` of them if it is given.
///
/// # Errors
/// The stream cannot be read; ffmpeg cannot be started.
pub fn decode(stream: &Path, map: &str, most: Option<u64>) -> io::Result<Pictures> {
    let mut command = ffmpeg(stream)?;
    command
        .args(["-v", "warning", "-xerror", "-copyts"])
        .args(["-i", "pipe:0", "-map", map]);
    if let Some(most) = most {
        command.args(["-frames:v", &most.to_string()]);
    }
    command.args(["-fps_mode", "passthrough", "-f", "framecrc", "pipe:1"]);
    let output = command.output()?;
    Ok(Pictures {
        pictures: pictures(&String::from_utf8_lossy(&output.stdout)),
        complaints: complaints(&output),
    })
}

/// Reads the lines `stream, dts, pts, duration, size, checksum`; times are in units of the line `#tb 0: 1/25`.
fn pictures(text: &str) -> Vec<Decoded> {
    let mut unit = 0.0;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((num, den)) = line
            .strip_prefix("#tb 0: ")
            .and_then(|it| it.split_once('/'))
        {
            let number = |text: &str| text.trim().parse::<f64>().unwrap_or(0.0);
            unit = number(num) / number(den).max(1.0);
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let sum = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        if let [_, _, pts, _, _, checksum, ..] = fields[..]
            && let (Ok(pts), Some(sum)) = (pts.parse::<f64>(), sum(checksum))
        {
            found.push(Decoded {
                at: pts * unit,
                sum,
            });
        }
    }
    found
}

fn complaints(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut complaints: Vec<String> = lines.map(str::to_owned).collect();
    if !output.status.success() && complaints.is_empty() {
        complaints.push(format!("ffmpeg ended with {}", output.status));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_read_with_their_times_and_checksums() {
        let text = "#software: Lavf59.27.100\n#tb 0: 1/25\n#media_type 0: video\n#sar 0: 0/1\n\
                    0,         37,         37,        1,  1382400, 0xfdc9a0b1\n\
                    0,         39,         39,        1,  1382400, 0x00000001\n";
        let expected = [(37.0 / 25.0, 0xfdc9_a0b1), (39.0 / 25.0, 1)];
        assert_eq!(
            pictures(text),
            expected.map(|(at, sum)| Decoded { at, sum })
        );
        assert_eq!(pictures("0, 1, x, 1, 1, 0x1\n0, 1, 1, 1, 1, 1\n"), []);
    }
}
