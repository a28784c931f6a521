use layercast_core::{Span, Time};

use super::packet::{Adaptation, PCR_HZ, PCR_WRAP, put};

/// The clock goes out at least this often; the standard asks for 100 ms (2.7.2), TR 101 290 for 40.
const INTERVAL: Span = Span::from_ms(40);
/// A clock that is off by this jumped.
const JUMP: i64 = PCR_HZ as i64 / 2;
/// A clock that goes back by this jumped, as it never does otherwise. Less is the order in which datagrams came.
const BACK: i64 = PCR_HZ as i64 / 50;
/// A pause in the stream longer than this is not filled with clock ticks.
const PAUSE: Span = Span::from_secs(2);
/// Bytes of one clock packet.
const ONE: Span = Span::from_us(1);

/// The program clock of an output stream: runs with the emission times of the frames, follows the
/// clock of the source slowly, and fills the gaps that withheld layers leave.
#[derive(Clone, Default, Debug)]
pub(crate) struct OutputClock {
    /// The last clock written, and its emission time.
    last: Option<(u64, Time)>,
    /// What clock belongs to an emission time.
    anchor: Option<(u64, Time)>,
    /// The last clock of the source, and its emission time.
    source: Option<(u64, Time)>,
}

impl OutputClock {
    /// The clock that belongs to an emission time.
    fn exact(&self, emitted: Time) -> Option<u64> {
        let (pcr, then) = self.anchor?;
        Some(
            match emitted >= then {
                true => pcr + ticks(emitted.since(then)),
                false => (pcr + PCR_WRAP).saturating_sub(ticks(then.since(emitted))),
            } % PCR_WRAP,
        )
    }

    /// The clock at an emission time, never at or before the last one.
    pub fn at(&mut self, emitted: Time) -> Option<u64> {
        let exact = self.exact(emitted)?;
        let value = match self.last {
            Some((last, _)) if difference(exact, last) <= 0 => (last + ticks(ONE)) % PCR_WRAP,
            _ => exact,
        };
        self.last = Some((value, emitted));
        Some(value)
    }

    /// Takes the clock of the source in a packet emitted at `emitted`, and whether the source says that it jumps; gives the one to
    /// write instead, and whether that jumps.
    pub fn replace(&mut self, pcr: u64, emitted: Time, is_new: bool) -> (u64, bool) {
        // Sound and pictures overtake each other: an earlier clock may belong to an earlier time.
        let goes_back = self
            .source
            .replace((pcr, emitted))
            .is_some_and(|(last, at)| difference(pcr, last) < -BACK && emitted >= at);
        let Some((_, then)) = self.anchor else {
            self.anchor = Some((pcr, emitted));
            self.last = Some((pcr, emitted));
            return (pcr, false);
        };
        let before = self.last;
        let exact = self.exact(emitted).unwrap_or(pcr);
        let expected = self.at(emitted).unwrap_or(pcr);
        let off = difference(pcr, exact);
        if off.abs() > JUMP || goes_back || is_new {
            self.anchor = Some((pcr, emitted));
            self.last = Some((pcr, emitted));
            return (pcr, before.is_some());
        }
        // Frames are emitted at their media time: clocks that drift apart come together again.
        if let Some((anchor, _)) = &mut self.anchor {
            *anchor = (*anchor + PCR_WRAP).wrapping_add_signed(off / 64) % PCR_WRAP;
        }
        debug_assert!(self.anchor.is_some_and(|(_, at)| at == then));
        (expected, false)
    }

    /// Appends clock packets for the time since the last one up to `emitted`.
    pub fn fill(&mut self, pid: u16, continuity: u8, emitted: Time, out: &mut Vec<u8>) {
        let Some((_, mut at)) = self.last else { return };
        if emitted.since(at) > PAUSE {
            return;
        }
        while emitted.since(at) > INTERVAL {
            at += INTERVAL;
            let Some(pcr) = self.at(at) else { return };
            let adaptation = Adaptation {
                pcr: Some(pcr),
                ..Adaptation::default()
            };
            put(pid, false, continuity, adaptation, &[], out);
        }
    }

    /// Sets the clock at an emission time.
    pub fn set(&mut self, pcr: u64, emitted: Time) {
        self.anchor = Some((pcr % PCR_WRAP, emitted));
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.anchor.is_some()
    }
}

fn ticks(span: Span) -> u64 {
    span.mul_div(PCR_HZ, 1_000_000_000_000).as_ps()
}

/// `a - b` on a clock that wraps.
pub(crate) fn difference(a: u64, b: u64) -> i64 {
    let ahead = (a + PCR_WRAP - b % PCR_WRAP) % PCR_WRAP;
    match ahead < PCR_WRAP / 2 {
        true => ahead as i64,
        false => ahead as i64 - PCR_WRAP as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// The clocks of a source at these times, in milliseconds, as they are written, and whether they jump.
    fn written(clocks: &[(u64, u64)]) -> Vec<(u64, bool)> {
        let mut clock = OutputClock::default();
        let each = clocks.iter().map(|&(ms, pcr)| {
            let (pcr, jumps) = clock.replace(pcr * PCR_HZ / 1_000, at(ms), false);
            (pcr * 1_000 / PCR_HZ, jumps)
        });
        each.collect()
    }

    #[test]
    fn a_clock_that_goes_back_jumps_however_little() {
        for back in [80, 300, 3_000] {
            let jumped = written(&[
                (0, 9_000),
                (40, 9_040),
                (80, 9_080 - back),
                (120, 9_120 - back),
            ]);
            let behind = [(9_080 - back, true), (9_120 - back, false)];
            assert_eq!(jumped[2..], behind, "{back}");
        }
        // A datagram that came late, sound that overtook a picture, and a clock that is a little off: not.
        for (ms, pcr) in [(80, 9_035), (20, 9_015), (80, 9_095)] {
            let all = written(&[(0, 9_000), (40, 9_040), (ms, pcr), (120, 9_120)]);
            assert!(all.iter().all(|it| !it.1), "{all:?}");
        }
        // A source that says so is believed.
        let mut clock = OutputClock::default();
        clock.replace(9_000_000, at(0), true);
        assert_eq!(clock.replace(9_500_000, at(0), true), (9_500_000, true));
    }
}
