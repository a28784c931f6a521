use layercast_core::{Span, Time};

use super::packet::{Adaptation, PCR_HZ, PCR_WRAP, put};

/// The clock goes out at least this often; the standard asks for 100 ms (2.7.2), TR 101 290 for 40.
const INTERVAL: Span = Span::from_ms(40);
/// A clock that is off by this jumped.
const JUMP: i64 = PCR_HZ as i64 / 2;
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

    /// Takes the clock of the source in a packet emitted at `emitted`; gives the one to write
    /// instead, and whether it jumps.
    pub fn replace(&mut self, pcr: u64, emitted: Time) -> (u64, bool) {
        let Some((_, then)) = self.anchor else {
            self.anchor = Some((pcr, emitted));
            self.last = Some((pcr, emitted));
            return (pcr, false);
        };
        let before = self.last;
        let exact = self.exact(emitted).unwrap_or(pcr);
        let expected = self.at(emitted).unwrap_or(pcr);
        let off = difference(pcr, exact);
        if off.abs() > JUMP {
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
