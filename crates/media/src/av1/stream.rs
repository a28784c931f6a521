use bytes::Bytes;
use layercast_core::FrameRate;

use super::header::State;
use super::layers::{Layers, Unit, sequence_of};
use super::obu::{is_whole, units_of_annex_b, units_of_section_5};
use crate::ivf::damaged;
use crate::map::{DEFAULT_RATE, Map};
use crate::{Frame, MediaError};

/// Longest temporal unit: what a METS frame holds.
const MAX_UNIT: usize = (1 << 24) - 1;

/// The frames of a stream, and what it says of them.
pub(crate) struct Video {
    pub frames: Vec<(u64, Frame)>,
    pub width: u32,
    pub height: u32,
    pub rate: Option<FrameRate>,
}

/// The temporal units of a file of OBUs, and where the last one begins if it is cut.
pub(crate) fn units(
    data: &[u8],
    is_annex_b: bool,
) -> Result<(Vec<Vec<u8>>, Option<u64>), MediaError> {
    if is_annex_b {
        return units_of_annex_b(data);
    }
    let (units, cut) = units_of_section_5(data);
    Ok((units.into_iter().map(<[u8]>::to_vec).collect(), cut))
}

/// Makes frames of temporal units with their times, with layers as `map` says. Starts at the first unit that a receiver can
/// start at. `rate` is what the container says.
pub(crate) fn video<'a>(
    units: impl Iterator<Item = (u64, &'a [u8])> + Clone,
    rate: Option<FrameRate>,
    map: Map,
) -> Result<Video, MediaError> {
    let mut state = State::default();
    let read = units.map(|(time, data)| (time, data, Unit::read(data, &mut state)));
    let read: Vec<(u64, &[u8], Option<Unit>)> = read.collect();
    // The stream is here as a whole: what it uses counts, not what its operating points say.
    let temporal = read.iter().filter_map(|(.., unit)| (*unit)?.temporal);
    let top = temporal.max().unwrap_or(0);
    if map == Map::Temporal && top == 0 {
        let problem = map.misfit("this AV1 stream");
        return Err(MediaError::Unusable { problem });
    }
    let format = state.sequence.as_ref();
    let rate = rate.or(format.and_then(|it| it.rate));
    let mut layers = Layers::new(map, rate.unwrap_or(DEFAULT_RATE), top);
    let (mut frames, mut sequence) = (Vec::new(), Vec::new());
    for (time, data, unit) in read {
        sequence = sequence_of(data).unwrap_or(sequence);
        if unit.is_none() && !frames.is_empty() && (data.is_empty() || !is_whole(data)) {
            frames.push((time, damaged()));
        }
        let Some(unit) = unit.filter(|unit| !frames.is_empty() || unit.is_start) else {
            continue;
        };
        let layer = layers.layer(unit);
        let data = Bytes::from(unit.completed(data, &sequence));
        if data.len() > MAX_UNIT {
            let problem = format!(
                "the AV1 stream has a temporal unit of {} octets: at most {MAX_UNIT} fit into a frame",
                data.len()
            );
            return Err(MediaError::Unusable { problem });
        }
        let frame = Frame {
            layer,
            gop_start: unit.is_start,
            ..Frame::new(unit.picture(), data)
        };
        frames.push((time, frame));
    }
    match format.filter(|_| !frames.is_empty()) {
        Some(format) => Ok(Video {
            width: format.width,
            height: format.height,
            frames,
            rate,
        }),
        None => Err(MediaError::Unusable {
            problem:
                "the AV1 stream has no key frame with a sequence header, so nothing can be decoded"
                    .into(),
        }),
    }
}
