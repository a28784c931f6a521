//! Received streams before a strict judge: does ffmpeg decode them without a complaint, which pictures do they show, and
//! how far are these from the film?

use std::path::Path;

use super::decoder;
use super::film::{Film, Places};
use super::shown::Shown;

/// What ffmpeg found out about one received stream.
#[derive(Debug, Default, PartialEq)]
pub struct Quality {
    /// Pictures that came out of the decoder.
    pub decoded_pictures: u64,
    /// Every line the decoder complained with.
    pub complaints: Vec<String>,
    /// Mean PSNR over all planes in dB against the pictures of the film of the same instants; 100 when not a single bit
    /// differs.
    pub psnr_db: Option<f64>,
    /// Mean SSIM over all planes, 1 for equal pictures.
    pub ssim: Option<f64>,
    /// Which pictures of the film are shown; `None` if that is not known.
    pub shown: Option<Shown>,
}

/// The PSNR we give for equal pictures, which have none.
pub const PSNR_EQUAL: f64 = 100.0;

/// Decodes `received` strictly, and compares it with the pictures of `film`, of an elementary stream from number `first`
/// on.
///
/// An ffmpeg that cannot be started is a complaint; so is a stream that never began.
pub fn judge(received: &Path, film: &Film, first: Option<u64>) -> Quality {
    let mut quality = Quality::default();
    let decoded = match decoder::decode(received, "0:v", None) {
        Ok(decoded) => decoded,
        Err(error) => {
            let what = format!("ffmpeg cannot decode {}: {error}", received.display());
            quality.complaints = vec![what];
            return quality;
        }
    };
    quality.complaints = decoded.complaints;
    quality.decoded_pictures = decoded.pictures.len() as u64;
    quality.shown = Shown::of(&decoded.pictures, film, first);
    if let Some(period) = quality.shown.as_ref().and_then(Shown::period) {
        compare(received, film, period, &mut quality);
    }
    quality
}

/// Compares what is shown with the pictures `first` to `last` of the film, in their size. Pictures of elementary streams
/// are stamped by their numbers: they have no times worth trusting.
fn compare(received: &Path, film: &Film, (first, last): (u64, u64), quality: &mut Quality) {
    let (width, height) = (film.summary.width, film.summary.height);
    let stamps = match film.places() {
        Places::Times => "",
        _ => ",setpts=N/25/TB",
    };
    let end = last + 1;
    let graph = format!(
        "[0:v]scale={width}:{height}:flags=bicubic{stamps},split[a][b];\
         [{}]trim=start_frame={first}:end_frame={end}{stamps},split[c][d];\
         [c][a]psnr=shortest=1;[d][b]ssim=shortest=1",
        film.pictures_in("1")
    );
    let output = decoder::ffmpeg(received).and_then(|mut ffmpeg| {
        ffmpeg
            .args(["-v", "info", "-nostats", "-hide_banner", "-copyts"])
            // A change of the size of the pictures must not begin the comparison again.
            .args(["-reinit_filter", "0", "-i", "pipe:0", "-i"])
            .arg(&film.path)
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

/// The mean over all planes and pictures that the filter `psnr` of ffmpeg gives, in dB.
pub fn psnr(log: &str) -> Option<f64> {
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
}
