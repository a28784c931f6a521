//! Clips of flows: loaded, reduced to the layers that are sent, cut or repeated to length.

use std::io;
use std::path::PathBuf;

use layercast_core::{Composition, FrameRate, Level, Span, Stream};
use layercast_media::{Clip, MediaError};
use rand_core::RngCore;

use super::error::ScenarioError;
use super::limits::MOST_FRAMES;
use super::schema::{ClipSpec, FlowEntry, Scenario};
use crate::file;

/// Frames a synthetic clip is never longer than: 11 hours at 24 frames/s.
const MAX_FRAMES: u64 = 1_000_000;

/// The clip of flow `i`, to be sent for `length` at most.
pub(super) fn load(scenario: &Scenario, i: usize, length: Span) -> Result<Clip, ScenarioError> {
    let flow = &scenario.flows[i];
    let clip = match &flow.clip {
        ClipSpec::Synthetic(kind) => {
            let rate = given_rate(flow, i)?;
            let factor = match flow.composition {
                // As if all layers were there: those that are not sent are left out below.
                Composition::Additive => layers_factor(*kind, flow.top),
                Composition::Alternative => 1.0,
            };
            let all = length.as_secs_f64() * rate.as_f64() * factor;
            let frames = (all.ceil() as u64 + 1).min(MAX_FRAMES) as u32;
            let name = format!("{}/clip", flow.name);
            let seed = Stream::new(scenario.seed, &name).next_u64();
            let clip = Clip::synthetic(*kind, rate, frames, seed);
            of_sizes(&clip, flow).with_duration(length)
        }
        ClipSpec::Trace(path) => {
            let rate = given_rate(flow, i)?;
            let path = scenario.base_dir.join(path);
            let text = file::read_text(&path, file::MAX_DATA_FILE);
            let text = text.map_err(|error| unreadable(i, path, error))?;
            let clip = Clip::parse_trace(&text, rate).map_err(|error| unusable(i, error))?;
            of_sizes(&clip, flow)
        }
        ClipSpec::File(path) => {
            if let Some(rate) = flow.frame_rate {
                let accepted = "nothing: a video file carries its own frame rate";
                return Err(ScenarioError::value(
                    format!("flow[{i}].frame_rate"),
                    rate,
                    accepted,
                ));
            }
            let path = scenario.base_dir.join(path);
            let data = file::read(&path, file::MAX_CLIP_FILE);
            let data = data.map_err(|error| unreadable(i, path, error))?.into();
            let clip = match flow.composition {
                Composition::Additive => Clip::parse(data),
                Composition::Alternative => Clip::of_renditions(&[data]).map(|it| it.clip),
            };
            only(&clip.map_err(|error| unusable(i, error))?, flow.top)
        }
    };
    Ok(match flow.stop {
        Some(_) => clip.with_duration(length),
        None => shorter(clip, length),
    })
}

/// What a flow sends of a clip that has sizes only.
fn of_sizes(clip: &Clip, flow: &FlowEntry) -> Clip {
    match flow.composition {
        Composition::Additive => Clip {
            info: clip.info.clone(),
            ..only(clip, flow.top)
        },
        Composition::Alternative => clip.as_renditions(flow.top),
    }
}

fn unusable(flow: usize, error: MediaError) -> ScenarioError {
    ScenarioError::Clip {
        field: format!("flow[{flow}].clip"),
        error,
    }
}

fn unreadable(flow: usize, path: PathBuf, error: io::Error) -> ScenarioError {
    ScenarioError::Read {
        field: format!("flow[{flow}].clip"),
        path,
        error,
    }
}

/// How many frames of all layers there are for one that is sent.
fn layers_factor(kind: layercast_media::Synthetic, top: Level) -> f64 {
    let gop = Clip::synthetic(kind, FrameRate { num: 24, den: 1 }, 12, 0);
    let sent = gop
        .frames
        .iter()
        .filter(|frame| top.includes(frame.layer()))
        .count();
    gop.frames.len() as f64 / sent.max(1) as f64
}

/// The frames up to level `top`; the frame rate shrinks with their number.
fn only(clip: &Clip, top: Level) -> Clip {
    let frames: Vec<_> = clip
        .frames
        .iter()
        .filter(|frame| top.includes(frame.layer()))
        .cloned()
        .collect();
    let mut info = clip.info.clone();
    let shrink = |n: u32, factor: usize| n.checked_mul(u32::try_from(factor).ok()?);
    let rate = info.frame_rate;
    if frames.len() < clip.frames.len()
        && let (Some(num), Some(den)) = (
            shrink(rate.num, frames.len()),
            shrink(rate.den, clip.frames.len()),
        )
    {
        info.frame_rate = FrameRate { num, den };
    }
    Clip { info, frames }
}

/// Cuts a clip that is longer than `length`.
fn shorter(clip: Clip, length: Span) -> Clip {
    if clip.duration() > length {
        clip.with_duration(length)
    } else {
        clip
    }
}

/// The frame rate that a synthetic clip or trace must be given.
fn given_rate(flow: &FlowEntry, i: usize) -> Result<FrameRate, ScenarioError> {
    let field = || format!("flow[{i}].frame_rate");
    let accepted = "frames per second above 0, at most 1000";
    let Some(rate) = flow.frame_rate else {
        return Err(ScenarioError::value(field(), "missing", accepted));
    };
    let milli = (rate * 1_000.0).round();
    if milli < 1.0 || !(0.0..=MOST_FRAMES).contains(&rate) {
        return Err(ScenarioError::value(field(), rate, accepted));
    }
    let milli = milli as u32;
    Ok(if milli.is_multiple_of(1_000) {
        FrameRate {
            num: milli / 1_000,
            den: 1,
        }
    } else {
        FrameRate {
            num: milli,
            den: 1_000,
        }
    })
}
