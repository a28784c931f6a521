use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CELL_BITS, Span};

/// A bit rate in bit/s, counted with every header on the link in question.
///
/// ```
/// use layercast_core::{CellRate, Rate, Span};
///
/// let line = Rate::from_bps(10_000_000);
/// assert_eq!(line.time_for(1_250), Span::from_ms(1));
/// assert_eq!(line.bytes_in(Span::from_ms(1)), 1_250);
/// assert_eq!(line.cells(), CellRate(23_584));
/// assert_eq!(CellRate(1_000).rate(), Rate::from_bps(424_000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(u64);

/// A rate in ATM cells per second, the unit of METS signalling (specs/mets.md 2.11).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellRate(pub u32);

impl Rate {
    /// `bps` bit/s.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// bit/s.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate; forever at rate zero.
    #[inline]
    pub const fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        Span::from_ps(1_000_000_000_000).mul_div(bytes.saturating_mul(8), self.0)
    }

    /// How many bytes take this time at this rate, to the nearest.
    pub const fn bytes_in(self, span: Span) -> u64 {
        const BYTE: u128 = 8 * 1_000_000_000_000;
        let bytes = (span.as_ps() as u128 * self.0 as u128 + BYTE / 2) / BYTE;
        if bytes > u64::MAX as u128 {
            u64::MAX
        } else {
            bytes as u64
        }
    }

    /// How many 53-byte cells per second this rate carries, rounded down.
    pub const fn cells(self) -> CellRate {
        let cells = self.0 / CELL_BITS;
        CellRate(if cells > u32::MAX as u64 {
            u32::MAX
        } else {
            cells as u32
        })
    }
}

impl CellRate {
    /// The bit rate on the wire: 424 bit a cell.
    pub const fn rate(self) -> Rate {
        Rate(self.0 as u64 * CELL_BITS)
    }

    /// The sum, stopping at `u32::MAX`.
    pub const fn saturating_add(self, other: CellRate) -> CellRate {
        CellRate(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub const fn saturating_sub(self, other: CellRate) -> CellRate {
        CellRate(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bps if bps >= 1_000_000_000 => write!(f, "{:.2} Gbit/s", bps as f64 / 1e9),
            bps if bps >= 1_000_000 => write!(f, "{:.2} Mbit/s", bps as f64 / 1e6),
            bps if bps >= 1_000 => write!(f, "{:.1} kbit/s", bps as f64 / 1e3),
            bps => write!(f, "{bps} bit/s"),
        }
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for CellRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cells/s", self.0)
    }
}

impl fmt::Debug for CellRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_takes_4_24_us_at_100_mbps() {
        assert_eq!(
            Rate::from_bps(100_000_000).time_for(53),
            Span::from_ns(4_240)
        );
        assert_eq!(Rate::from_bps(100_000_000).cells(), CellRate(235_849));
        assert_eq!(Rate::from_bps(0).time_for(1), Span::MAX);
    }
}
