//! Moments of a film as each receiver saw them: small pictures for the report.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::decoder;
use super::film::Film;
use super::shown::Shown;

/// Moments of a film, in eighths of the time in which any receiver shows it.
const EIGHTHS: [u64; 3] = [1, 4, 7];
/// Columns of a small picture.
const COLUMNS: u32 = 320;
/// Folder of the pictures, in the output folder.
const FOLDER: &str = "pictures";

/// What a receiver saw at a moment of the film.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Moment {
    /// Seconds from the beginning of the film.
    pub film_s: f64,
    /// Level of the picture: 0 is the base layer.
    pub level: u8,
    /// Columns of the picture that was decoded.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Time of the film for which it has been shown already, in milliseconds; 0 for a new picture.
    pub age_ms: f64,
    /// The picture as a JPEG file in the output folder, scaled to 320 columns.
    pub picture: String,
    /// Its middle in the size of the film, as a JPEG file in the output folder.
    pub detail: String,
}

/// The numbers of the pictures of a film that are compared, for receivers that saw it in these periods.
pub fn chosen(periods: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let whole = periods.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let of = |(first, last): (u64, u64)| EIGHTHS.map(|it| first + (last - first) * it / 8).to_vec();
    whole.map(of).unwrap_or_default()
}

/// What is needed of a receiver.
pub struct Seen<'a> {
    /// Its name.
    pub name: &'a str,
    /// The stream that it wrote.
    pub stream: &'a Path,
    /// What is shown of the film.
    pub shown: &'a Shown,
    /// The level received at a time of the scenario, in seconds.
    pub level_at: &'a dyn Fn(f64) -> u8,
}

/// The pictures `numbers` of `film` as a receiver saw them; `None` where it saw nothing. Files go to `out`.
///
/// # Errors
/// ffmpeg cannot be started or gives other pictures than it decoded before; a file cannot be written.
pub fn moments(
    seen: &Seen<'_>,
    film: &Film,
    numbers: &[u64],
    out: &Path,
) -> io::Result<Vec<Option<Moment>>> {
    let instants: Vec<_> = numbers
        .iter()
        .map(|&number| seen.shown.at(number))
        .collect();
    let places: BTreeSet<usize> = instants.iter().flatten().map(|it| it.place).collect();
    let found = pictures(seen.stream, film, &places)?;
    fs::create_dir_all(out.join(FOLDER))?;
    let mut moments = Vec::new();
    for (index, (&number, instant)) in numbers.iter().zip(&instants).enumerate() {
        let Some(instant) = instant else {
            moments.push(None);
            continue;
        };
        let at = places.range(..instant.place).count();
        let picture = found
            .get(at)
            .ok_or_else(|| io::Error::other("ffmpeg left out a picture that it decoded before"))?;
        let file = |what: &str| format!("{FOLDER}/{}-{}{what}.jpg", seen.name, index + 1);
        let files = [file(""), file("-detail")];
        for (file, jpeg) in files.iter().zip(&picture.jpegs) {
            fs::write(out.join(file), jpeg)?;
        }
        let [whole, detail] = files;
        let film_s = film.seconds(number);
        let level = film
            .level_of(picture.width, picture.height)
            .map(|it| it.get());
        moments.push(Some(Moment {
            film_s,
            level: level.unwrap_or_else(|| (seen.level_at)(film.start_s + film_s)),
            width: picture.width,
            height: picture.height,
            age_ms: film.seconds(instant.age) * 1e3,
            picture: whole,
            detail,
        }));
    }
    Ok(moments)
}

/// A picture that was decoded.
struct Picture {
    width: u32,
    height: u32,
    /// The whole of it, and its middle.
    jpegs: [Vec<u8>; 2],
}

/// Decodes the pictures at `places` of a stream.
fn pictures(stream: &Path, film: &Film, places: &BTreeSet<usize>) -> io::Result<Vec<Picture>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let (width, height) = (film.summary.width.max(2), film.summary.height.max(2));
    let even = |n: u32| n.max(2) / 2 * 2;
    let box_height =
        even((u64::from(height) * u64::from(COLUMNS) / u64::from(width)).min(4_096) as u32);
    let (crop_width, crop_height) = (even(width.min(COLUMNS)), even(height.min(box_height)));
    let is_one: Vec<String> = places.iter().map(|it| format!("eq(n\\,{it})")).collect();
    // Stamps by number: the middle of a picture comes between it and the next one.
    let graph = format!(
        "[0:v]select={},showinfo,setpts=2*N/TB,split[a][b];\
         [a]scale={COLUMNS}:{box_height}:flags=bicubic,format=yuvj420p[whole];\
         [b]setpts=PTS+1/TB,scale={width}:{height}:flags=bicubic,crop={crop_width}:{crop_height},\
         scale={COLUMNS}:{box_height}:flags=bicubic,format=yuvj420p[middle];\
         [whole][middle]interleave",
        is_one.join("+")
    );
    let output = decoder::ffmpeg(stream)?
        .args(["-v", "info", "-nostats", "-hide_banner"])
        // A change of the size of the pictures must not begin the count again.
        .args(["-reinit_filter", "0", "-i", "pipe:0"])
        .args(["-filter_complex", &graph, "-fps_mode", "passthrough"])
        .args(["-frames:v", &(2 * places.len()).to_string()])
        .args(["-c:v", "mjpeg", "-q:v", "4", "-f", "mjpeg", "pipe:1"])
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let mut jpegs = split(&output.stdout).into_iter();
    let found = sizes(&log).into_iter().map_while(|(width, height)| {
        let jpegs = [jpegs.next()?.to_vec(), jpegs.next()?.to_vec()];
        Some(Picture {
            width,
            height,
            jpegs,
        })
    });
    Ok(found.collect())
}

/// The sizes in the lines of the filter `showinfo`: `.. s:640x360 ..`.
fn sizes(log: &str) -> Vec<(u32, u32)> {
    let lines = log
        .lines()
        .filter(|line| line.contains("showinfo") && line.contains(" n:"));
    let size = |line: &str| {
        let word = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix("s:"))?;
        let (width, height) = word.split_once('x')?;
        Some((width.parse().ok()?, height.parse().ok()?))
    };
    lines.filter_map(size).collect()
}

/// JPEG images that follow each other: the code of the end occurs nowhere else in an image without a preview.
fn split(mut images: &[u8]) -> Vec<&[u8]> {
    const END: [u8; 2] = [0xFF, 0xD9];
    let mut found = Vec::new();
    while let Some(at) = images.windows(2).position(|it| it == END) {
        let (image, rest) = images.split_at(at + 2);
        found.push(image);
        images = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_lie_in_the_time_in_which_anybody_saw_the_film() {
        assert_eq!(chosen([(0, 999), (12, 800)].into_iter()), [124, 499, 874]);
        assert_eq!(chosen([(200, 575)].into_iter()), [246, 387, 528]);
        assert!(chosen(std::iter::empty()).is_empty());
    }

    #[test]
    fn sizes_and_images_are_read() {
        let log = "[Parsed_showinfo_1 @ 0x5] config in time_base: 1/25, frame_rate: 25/1\n\
                   [Parsed_showinfo_1 @ 0x5] n:   0 pts:     37 pts_time:1.48 pos: 1 fmt:yuv420p sar:0/1 s:640x360 i:P\n\
                   [Parsed_showinfo_1 @ 0x5] color_range:unknown\n";
        assert_eq!(sizes(log), [(640, 360)]);
        let images = [0xFF, 0xD8, 1, 0xFF, 0xD9, 0xFF, 0xD8, 2, 3, 0xFF, 0xD9, 9];
        assert_eq!(split(&images), [&images[..5], &images[5..11]]);
    }
}
