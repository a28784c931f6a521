use layercast_core::{FrameRate, Layer, Media, Span};

use super::frames::{Frames, frames};
use super::{Header, disorder};
use crate::live::share_of;
use crate::map::{DEFAULT_RATE, Map};
use crate::mpeg::es::Stream;
use crate::vpx::{self, Unit};
use crate::{Frame, MediaError, Picture, av1, vp9};

/// The codec of a four-character code, of those that are served.
pub(crate) fn codec_of(fourcc: [u8; 4]) -> Option<Media> {
    Some(match &fourcc {
        b"AV01" => Media::Av1,
        b"VP80" => Media::Vp8,
        b"VP90" => Media::Vp9,
        _ => return None,
    })
}

/// Reads a file of a codec that is served.
pub(crate) fn parse(data: &[u8], map: Map) -> Result<Stream, MediaError> {
    let header =
        Header::read(data).and_then(|(header, at)| Some((header, at, codec_of(header.fourcc)?)));
    let Some((header, at, codec)) = header else {
        return Err(MediaError::Malformed {
            offset: 0,
            expected: "the header of an IVF file with AV1, VP8 or VP9",
        });
    };
    let of_codec = match map {
        Map::Vp8Ts3 => codec == Media::Vp8,
        Map::Vp9Ts3 => codec == Media::Vp9,
        Map::Split | Map::Temporal => codec == Media::Av1,
        Map::Auto | Map::Ipb => true,
    };
    if !of_codec {
        return Err(MediaError::Unusable {
            problem: map.misfit(codec.name()),
        });
    }
    let Frames { mut frames, cut } = frames(data, at)?;
    disorder::mark(&mut frames, codec);
    let rate = rate_of(header.clock, &frames);
    let mut stream = Stream {
        codec,
        width: header.width,
        height: header.height,
        frame_rate: rate.unwrap_or(DEFAULT_RATE),
        frames: Vec::new(),
        truncated: cut,
    };
    let timed = match codec {
        Media::Av1 => {
            let video = av1::stream::video(frames.iter().copied(), rate, map)?;
            (stream.width, stream.height) = (video.width, video.height);
            stream.frame_rate = video.rate.unwrap_or(DEFAULT_RATE);
            video.frames
        }
        _ => vpx_frames(&frames, codec, map)?,
    };
    let first = timed.first().map_or(0, |(time, _)| *time);
    let mut latest = Span::ZERO;
    stream.frames = timed
        .into_iter()
        .map(|(time, frame)| {
            latest = latest.max(time_of(time.saturating_sub(first), header.clock));
            Frame {
                time: Some(latest),
                ..frame
            }
        })
        .collect();
    Ok(stream)
}

/// Reads a file of OBUs.
pub(crate) fn parse_obus(data: &[u8], map: Map) -> Result<Stream, MediaError> {
    let (units, cut) = av1::stream::units(data, av1::is_annex_b(data))?;
    let timed = (0..).zip(units.iter().map(|unit| &unit[..]));
    let video = av1::stream::video(timed, None, map)?;
    Ok(Stream {
        codec: Media::Av1,
        width: video.width,
        height: video.height,
        frame_rate: video.rate.unwrap_or(DEFAULT_RATE),
        frames: video.frames.into_iter().map(|(_, frame)| frame).collect(),
        truncated: cut,
    })
}

/// In the place of a frame that is cut or cannot be read: receivers leave it out with those that refer to it.
pub(crate) const DAMAGED: bytes::Bytes = bytes::Bytes::from_static(&[0]);

/// A frame of which nothing is known: any frame may refer to it, also of the base layer.
pub(crate) fn damaged() -> Frame {
    Frame {
        layer: Layer::Base,
        ..Frame::new(Picture::P, DAMAGED)
    }
}

fn vpx_frames(
    frames: &[(u64, &[u8])],
    codec: Media,
    map: Map,
) -> Result<Vec<(u64, Frame)>, MediaError> {
    let is_vp9 = codec == Media::Vp9;
    let mut layers = vpx::Layers::default();
    layers.map = map;
    let mut found: Vec<(u64, Frame)> = Vec::new();
    let mut references = vp9::References::default();
    for &(time, data) in frames {
        let unit = match is_vp9 {
            true => Unit::vp9(data).filter(|_| references.has_parts(data)),
            false => Unit::vp8(data),
        };
        // One that cannot be read has a place too.
        let read = unit.unwrap_or(Unit {
            is_start: false,
            is_reference: false,
            size: None,
        });
        let layer = layers
            .layer(read, is_vp9)
            .map_err(|place| MediaError::Unusable {
                problem: vpx::misplaced(map, place),
            })?;
        if !found.is_empty() || read.is_start {
            let frame = match unit {
                Some(unit) => Frame {
                    layer,
                    gop_start: unit.is_start,
                    ..Frame::new(unit.picture(), bytes::Bytes::copy_from_slice(data))
                },
                None => damaged(),
            };
            found.push((time, frame));
        }
    }
    if found.is_empty() {
        return Err(MediaError::Unusable {
            problem: format!(
                "the {} stream has no key frame, so nothing can be decoded",
                codec.name()
            ),
        });
    }
    Ok(found)
}

/// Frames per second, by the times of the first and the last.
fn rate_of(clock: FrameRate, frames: &[(u64, &[u8])]) -> Option<FrameRate> {
    let (first, last) = (frames.first()?.0, frames.last()?.0);
    let passed = last
        .checked_sub(first)
        .filter(|it| (1..1 << 40).contains(it))?;
    let rate = share_of(clock, frames.len() as u64 - 1, passed);
    (rate.num / rate.den.max(1) <= 1_000).then_some(rate)
}

/// A time in ticks of a clock.
fn time_of(ticks: u64, clock: FrameRate) -> Span {
    let ps = 1_000_000_000_000 * u128::from(ticks) * u128::from(clock.den) / u128::from(clock.num);
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX / 2))
}
