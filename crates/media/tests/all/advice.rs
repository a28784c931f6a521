//! Advice is applied: a real clip is encoded in a way that calls for it, then with the options that it names, and the
//! advice is gone.
//!
//! Skipped with a note where ffmpeg or the clip of `make clips` is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use layercast_media::{Advice, Clip};

use crate::common::film;

/// What is reported of 5 s of the film, encoded so.
fn advice(film: &Path, name: &str, options: &str) -> Vec<Advice> {
    let extension = match options.contains("libx264") {
        true => "h264",
        false => "m1v",
    };
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("advice-{name}.{extension}"));
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-y", "-v", "error", "-i"])
        .arg(film)
        .args(["-t", "5", "-an"])
        .args(options.split_whitespace())
        .arg(&out)
        .status();
    assert!(made.expect("ffmpeg starts").success(), "{options}");
    let data = Bytes::from(std::fs::read(&out).expect("ffmpeg wrote it"));
    Clip::parse(data).expect("a clip").advice()
}

/// The options of ffmpeg that an advice names: `(ffmpeg at 25 pictures/s: -g 25)`.
fn cure(advice: &Advice) -> String {
    let text = advice.to_string();
    let (_, rest) = text.split_once("(ffmpeg").expect("it names options");
    let (_, rest) = rest.split_once(": ").expect("options");
    let (options, _) = rest.split_once([',', ')']).expect("an end");
    options.to_owned()
}

#[test]
fn what_advice_names_makes_it_go_away() {
    let Some(film) = film() else {
        return;
    };
    let small = "-vf scale=320:180 -c:v libx264 -preset veryfast";
    type Kind = fn(&Advice) -> bool;
    let cases: [(&str, String, Kind); 5] = [
        (
            "bursts",
            "-c:v mpeg1video -g 12 -bf 2 -b:v 1M".to_owned(),
            |it| matches!(it, Advice::Bursts { .. }),
        ),
        ("no-b", format!("{small} -g 25 -bf 0"), |it| {
            matches!(it, Advice::NoSteps { .. })
        }),
        ("intra", format!("{small} -g 1"), |it| {
            *it == Advice::BaseOnly
        }),
        (
            "long",
            format!("{small} -g 250 -sc_threshold 0 -bf 2"),
            |it| matches!(it, Advice::LongGop { .. }),
        ),
        ("short", format!("{small} -g 2 -bf 0"), |it| {
            matches!(it, Advice::ShortGop { .. })
        }),
    ];
    for (name, options, is_it) in cases {
        let before = advice(&film, name, &options);
        let told = before.iter().find(|it| is_it(it));
        let told = told.unwrap_or_else(|| panic!("{name}: {before:?}"));
        // Of an option that is given twice ffmpeg takes the last.
        let after = advice(
            &film,
            &format!("{name}-cured"),
            &format!("{options} {}", cure(told)),
        );
        assert!(
            !after.iter().any(is_it),
            "{name}, {}: {after:?}",
            cure(told)
        );
    }
}

#[test]
fn the_clip_of_the_readme_needs_no_advice() {
    let Some(film) = film() else {
        return;
    };
    let readme = include_str!("../../../../README.md");
    let line = readme
        .lines()
        .find(|line| line.starts_with("ffmpeg -i any.mp4"));
    let line = line.expect("README makes a clip");
    let options = line
        .split_once("-an ")
        .and_then(|(_, rest)| rest.split_once(" clip.m1v"));
    let (options, _) = options.expect("its options");
    assert_eq!(advice(&film, "readme", options), []);
}
