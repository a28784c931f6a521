//! `layercast filter`: a clip at a lower rate.

use std::io::Write;
use std::path::Path;

use layercast_core::{Layer, Media, PerLayer, Rate, Serial};
use layercast_media::{
    Clip, Container, DropRule, FilterError, Filtered, Frame, Map, MediaError, PictureDrop,
    StreamWriter,
};
use serde::Serialize;

use crate::args::{self, Via};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Table, are, count, print, print_json};
use crate::probe::read_clip;
use crate::signals;

/// What the filter did, layer by layer.
#[derive(Debug, Serialize)]
struct Report {
    /// The filter: "low-pass", "rate" or "keep".
    filter: &'static str,
    /// The layers, base layer first.
    layers: Vec<Change>,
    /// All layers together.
    total: Change,
    /// Bytes of the output stream: repeats take the place of pictures that are left out, and the stream has an end.
    bytes_written: u64,
    /// Frames that exceed their budget although nothing is left to drop.
    over_budget: u64,
}

/// A layer before and after the filter.
#[derive(Debug, Default, Serialize)]
struct Change {
    /// Name of the layer, or "total".
    name: String,
    /// Frames of the input.
    frames_in: u64,
    /// Frames of the output.
    frames_out: u64,
    /// Bytes of the input.
    bytes_in: u64,
    /// Bytes of the output.
    bytes_out: u64,
    /// Mean rate of the input.
    mean_bps_in: Rate,
    /// Mean rate of the output.
    mean_bps_out: Rate,
}

/// Runs the command.
pub fn run(args: &args::Filter) -> Outcome {
    signals::exit_on_first()?;
    output::check(Some(&args.file), &[&args.out])?;
    let clip = read_clip(&args.file, None, Map::Auto, Via::None)?;
    filterable(&clip, &args.file)?;
    let explain = |(index, error): (usize, FilterError)| {
        let failure = Failure::new(format!("{}: frame {index}: {error}", args.file.display()));
        match error {
            FilterError::Unsupported(_) => failure.hint(format!("try: {}", MediaError::CONVERT)),
            _ => failure,
        }
    };
    let mut drop = None;
    let (filter, filtered) = match (args.low_pass, args.rate, args.keep) {
        (Some(k), ..) => ("low-pass", Some(clip.low_pass(k).map_err(explain)?)),
        (_, Some(rate), _) => ("rate", Some(clip.shape(rate).map_err(explain)?)),
        (.., keep) => {
            drop = Some(PictureDrop::new(match keep {
                Some(args::Keep::Ip) => DropRule::KeepIp,
                _ => DropRule::KeepI,
            }));
            ("keep", None)
        }
    };
    let frames = filtered.as_ref().map_or(&clip.frames, |it| &it.clip.frames);
    let kept = frames.iter().map(|frame| {
        drop.as_mut()
            .is_none_or(|drop| drop.keeps(frame))
            .then_some(frame)
    });
    let kept: Vec<Option<&Frame>> = kept.collect();
    let stream = stream(&kept, &args.file)?;
    write(&args.out, &stream)?;
    let report = Report {
        bytes_written: stream.len() as u64,
        ..report(filter, &clip, &kept, filtered.as_ref())
    };
    let stdout_is_free = args.out != Path::new("-");
    match (args.json, stdout_is_free) {
        (true, true) => print_json(&report),
        (true, false) => crate::output::Lines::Stderr.write(&report),
        (false, true) => print(&table(&report)),
        (false, false) => {
            let written = output::Lines::Stderr.text(&table(&report));
            written.map_err(|error| output::Lines::Stderr.failure(&error))
        }
    }
}

/// Whether the filters can take the clip apart: they know the coefficients and pictures of MPEG-1/2 video.
fn filterable(clip: &Clip, path: &Path) -> Outcome {
    let (what, way) = match (clip.info.container, clip.info.codec) {
        (Container::MpegTs, _) => (
            "a transport stream",
            "take the MPEG-1/2 video out of it first, e.g. ffmpeg -i FILE -an -c copy -f mpeg2video CLIP.m2v"
                .to_owned(),
        ),
        (_, Media::Mpeg1 | Media::Mpeg2 | Media::Opaque) => return Ok(()),
        (_, codec) => (codec.name(), format!("try: {}", MediaError::CONVERT)),
    };
    let problem = format!("{what} cannot be filtered: the filters take MPEG-1/2 video streams");
    Err(Failure::of(path, problem).hint(way))
}

/// The frames as a stream, with repeats where one is missing.
fn stream(frames: &[Option<&Frame>], source: &Path) -> Result<Vec<u8>, Failure> {
    let (mut writer, mut out) = (StreamWriter::new(), Vec::new());
    for (index, frame) in frames.iter().enumerate() {
        let Some(frame) = frame else { continue };
        let Some(data) = &frame.data else {
            let what = format!("{}: {}", source.display(), FilterError::NoData);
            return Err(Failure::new(what));
        };
        let seq = Serial(index as u32);
        writer.frame(seq, frame.layer(), frame.gop_start, data, &mut out);
    }
    writer.finish(&mut out);
    Ok(out)
}

fn write(path: &Path, stream: &[u8]) -> Outcome {
    let mut out = output::open(path)?;
    let written = out.write_all(stream).and_then(|()| out.flush());
    written.map_err(|error| output::unwritten(path, &error))
}

fn report(
    filter: &'static str,
    clip: &Clip,
    kept: &[Option<&Frame>],
    filtered: Option<&Filtered>,
) -> Report {
    let mut layers = PerLayer::<Change>::default();
    for (before, after) in clip.frames.iter().zip(kept) {
        let change = &mut layers[before.layer()];
        change.frames_in += 1;
        change.bytes_in += u64::from(before.size);
        if let Some(after) = after {
            change.frames_out += 1;
            change.bytes_out += u64::from(after.size);
        }
    }
    let seconds = clip.duration().as_secs_f64();
    let rate = |bytes: u64| Rate::from_bps((bytes as f64 * 8.0 / seconds).round() as u64);
    let finished = |name: String, change: &Change| Change {
        name,
        mean_bps_in: rate(change.bytes_in),
        mean_bps_out: rate(change.bytes_out),
        ..*change
    };
    let all = Layer::ALL.map(|layer| &layers[layer]);
    let sum = |count: fn(&Change) -> u64| all.iter().map(|change| count(change)).sum();
    let total = Change {
        frames_in: sum(|it| it.frames_in),
        frames_out: sum(|it| it.frames_out),
        bytes_in: sum(|it| it.bytes_in),
        bytes_out: sum(|it| it.bytes_out),
        ..Change::default()
    };
    Report {
        filter,
        total: finished("all".to_owned(), &total),
        layers: layers
            .iter()
            .map(|(layer, change)| finished(layer.to_string(), change))
            .collect(),
        bytes_written: 0,
        over_budget: filtered.map_or(0, |it| it.stats.over_budget),
    }
}

fn table(report: &Report) -> String {
    let mut table = Table::new(&["layer", "frames", "kept", "before", "after", "left"]);
    for change in report.layers.iter().chain([&report.total]) {
        let left = 100.0 * change.bytes_out as f64 / change.bytes_in.max(1) as f64;
        table.row([
            change.name.clone(),
            change.frames_in.to_string(),
            change.frames_out.to_string(),
            change.mean_bps_in.to_string(),
            change.mean_bps_out.to_string(),
            format!("{left:.1} %"),
        ]);
    }
    let mut text = table.render();
    let (written, kept) = (report.bytes_written, report.total.bytes_out);
    if written > kept {
        text.push_str(&format!(
            "\n  {written} bytes are written: {} more than the pictures that are kept, with repeats in the place of the others\n",
            written - kept
        ));
    }
    if report.over_budget > 0 {
        text.push_str(&format!(
            "\n  {} {} over budget with nothing left to drop but headers, vectors and DC\n  \
             coefficients; --keep drops whole pictures\n",
            count(report.over_budget, "frame"),
            are(report.over_budget)
        ));
    }
    text
}
