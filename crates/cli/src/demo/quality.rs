//! Received streams before a strict judge: does ffmpeg decode them without a complaint, and how
//! far are the pictures from the source?

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What ffmpeg found out about one received stream.
#[derive(Debug, Default, PartialEq)]
pub struct Quality {
    /// Pictures that came out of the decoder.
    pub decoded_pictures: u64,
    /// Every line the decoder complained with.
    pub complaints: Vec<String>,
    /// Mean PSNR over all planes in dB against the source pictures of the same instants; 100 when
    /// not a single bit differs.
    pub psnr_db: Option<f64>,
    /// Mean SSIM over all planes, 1 for equal pictures.
    pub ssim: Option<f64>,
}

/// The PSNR we give for equal pictures, which have none.
const PSNR_EQUAL: f64 = 100.0;

/// The ffmpeg to call: `LAYERCAST_FFMPEG`, or the one in the path.
///
/// The stream comes through a pipe: about a plain file of an elementary stream ffmpeg always warns
/// that it has to guess the duration.
fn ffmpeg(stream: &Path) -> io::Result<Command> {
    let name = std::env::var_os("LAYERCAST_FFMPEG").unwrap_or_else(|| "ffmpeg".into());
    let mut command = Command::new(name);
    command.stdin(Stdio::from(File::open(stream)?));
    Ok(command)
}

/// Decodes `received` strictly, and compares it with the pictures of `source` from number `first` on.
///
/// An ffmpeg that cannot be started is a complaint; so is a stream that never began.
pub fn judge(received: &Path, source: &Path, first: Option<u64>) -> Quality {
    let mut quality = Quality::default();
    let decode = ffmpeg(received).and_then(|mut ffmpeg| {
        ffmpeg
            .args(["-v", "warning", "-xerror", "-progress", "pipe:1"])
            .args(["-i", "pipe:0", "-map", "0:v"])
            .args(["-fps_mode", "passthrough", "-f", "null", "-"])
            .output()
    });
    let decode = match decode {
        Ok(decode) => decode,
        Err(error) => {
            let what = format!("ffmpeg cannot decode {}: {error}", received.display());
            quality.complaints = vec![what];
            return quality;
        }
    };
    quality.complaints = complaints(&decode);
    quality.decoded_pictures = pictures(&decode.stdout);
    if let Some(first) = first.filter(|_| quality.decoded_pictures > 0) {
        compare(received, source, first, &mut quality);
    }
    quality
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

fn pictures(progress: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(progress);
    let mut frames = text.lines().filter_map(|line| line.strip_prefix("frame="));
    frames
        .next_back()
        .and_then(|n| n.trim().parse().ok())
        .unwrap_or(0)
}

/// Both streams are re-stamped by picture number: elementary streams have no times worth trusting.
fn compare(received: &Path, source: &Path, first: u64, quality: &mut Quality) {
    let graph = format!(
        "[0:v]setpts=N/25/TB,split[a][b];\
         [1:v]trim=start_frame={first},setpts=N/25/TB,split[c][d];\
         [a][c]psnr=shortest=1;[b][d]ssim=shortest=1"
    );
    let output = ffmpeg(received).and_then(|mut ffmpeg| {
        ffmpeg
            .args(["-v", "info", "-nostats", "-hide_banner"])
            .args(["-i", "pipe:0", "-i"])
            .arg(source)
            .args(["-lavfi", &graph, "-fps_mode", "passthrough"])
            .args(["-f", "null", "-"])
            .output()
    });
    if let Ok(output) = output {
        let log = String::from_utf8_lossy(&output.stderr);
        quality.psnr_db = psnr(&log);
        quality.ssim = ssim(&log);
    }
}

fn psnr(log: &str) -> Option<f64> {
    let line = log.lines().rfind(|line| line.contains("PSNR y:"))?;
    match word_after(line, "average:")? {
        "inf" => Some(PSNR_EQUAL),
        number => number.parse().ok(),
    }
}

fn ssim(log: &str) -> Option<f64> {
    let line = log.lines().rfind(|line| line.contains("SSIM Y:"))?;
    word_after(line, "All:")?.parse().ok()
}

fn word_after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_once(key)?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[Parsed_ssim_7 @ 0x55] SSIM Y:0.950913 (13.090365) U:0.97 (15.3) V:0.97 (15.2) All:0.957361 (13.70)
[Parsed_psnr_6 @ 0x56] PSNR y:30.66 u:38.24 v:37.69 average:32.193838 min:25.2 max:inf
";

    #[test]
    fn figures_are_read_from_the_log() {
        assert_eq!(psnr(LOG), Some(32.193838));
        assert_eq!(ssim(LOG), Some(0.957361));
        assert_eq!(
            psnr("PSNR y:inf u:inf v:inf average:inf min:inf"),
            Some(100.0)
        );
        assert_eq!(psnr("nothing"), None);
    }

    #[test]
    fn the_last_progress_report_counts() {
        assert_eq!(
            pictures(b"frame=3\nprogress=continue\nframe=17\nprogress=end\n"),
            17
        );
        assert_eq!(pictures(b""), 0);
    }
}
