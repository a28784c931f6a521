//! Frames of a file that are not in their order, by their times.

use layercast_core::Media;

use crate::av1;
use crate::vpx::Unit;

/// Frames are not further from their place than this.
const FARTHEST: usize = 256;

/// Leaves frames without octets, as those that are cut, from the first one on that came too early up to the last one that came too late.
/// What refers to them is left out with them.
///
/// A time that goes back to one that was there, or before all of them, begins another timeline: at a key frame that is sound.
pub(super) fn mark(frames: &mut [(u64, &[u8])], codec: Media) {
    for at in 1..frames.len() {
        let (time, data) = frames[at];
        // Frames may have the time of the one before: layers of one picture.
        if time >= frames[at - 1].0 {
            continue;
        }
        let nearest = at.saturating_sub(FARTHEST);
        let before = frames[nearest..at].iter().rposition(|it| it.0 <= time);
        match before.map(|it| nearest + it) {
            Some(before) if frames[before].0 < time => {
                frames[before + 1..=at].iter_mut().for_each(|it| it.1 = &[]);
            }
            _ if is_key(data, codec) => {}
            _ => frames[at].1 = &[],
        }
    }
}

fn is_key(data: &[u8], codec: Media) -> bool {
    match codec {
        Media::Vp8 => Unit::vp8_tag(data).is_some_and(|it| it.is_start),
        Media::Vp9 => Unit::vp9(data).is_some_and(|it| it.is_start),
        _ => {
            let unit = av1::Unit::read(data, &mut av1::State::default());
            unit.is_some_and(|it| it.is_start)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = &[0x10, 0, 0, 0x9D, 0x01, 0x2A, 176, 0, 144, 0];
    const INTER: &[u8] = &[0x11, 0, 0];
    const NONE: [usize; 0] = [];

    /// The places of frames that are marked, of those with these times; that at `key` and the first are key frames.
    fn marked(times: &[u64], key: usize) -> Vec<usize> {
        let of = |(at, &time)| (time, if at == 0 || at == key { KEY } else { INTER });
        let mut frames: Vec<(u64, &[u8])> = times.iter().enumerate().map(of).collect();
        mark(&mut frames, Media::Vp8);
        let all = 0..times.len();
        all.filter(|&at| frames[at].1.is_empty()).collect()
    }

    #[test]
    fn frames_that_are_exchanged_are_marked_and_other_timelines_are_not() {
        assert_eq!(marked(&[0, 1, 2, 3, 7, 8, 8, 9], 0), NONE);
        assert_eq!(marked(&[0, 1, 3, 2, 4, 5], 0), [2, 3]);
        // A key frame too, behind the next one or before the last one.
        assert_eq!(marked(&[0, 1, 3, 2, 4, 5], 3), [2, 3]);
        assert_eq!(marked(&[0, 1, 3, 2, 4, 5], 2), [2, 3]);
        assert_eq!(marked(&[0, 1, 4, 2, 3, 5], 0), [2, 3]);
        // Another timeline with a key frame, and without.
        assert_eq!(marked(&[0, 1, 2, 3, 0, 1, 2, 3, 4], 4), NONE);
        assert_eq!(marked(&[5, 6, 7, 0, 1, 2, 3, 4], 3), NONE);
        assert_eq!(marked(&[0, 1, 2, 3, 1, 2, 3, 4], 0), [4]);
    }
}
