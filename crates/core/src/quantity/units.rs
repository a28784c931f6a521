//! The units, and what is suggested for a unit that does not exist.

use crate::CELL_BITS;

/// Units of one dimension with their size in the smallest one.
#[derive(Clone, Copy, Debug)]
pub struct UnitTable(pub &'static [(&'static str, u128)]);

/// Times, in picoseconds.
pub const TIME: UnitTable = UnitTable(&[
    ("s", 1_000_000_000_000),
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ns", 1_000),
    ("ps", 1),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
]);

/// Rates, in bit/s.
pub const BITS: UnitTable = UnitTable(&[
    ("Tbit/s", 1_000_000_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
    ("Tb/s", 1_000_000_000_000),
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
    ("cells/s", CELL_BITS as u128),
]);

/// Sizes, in bytes.
pub const BYTES: UnitTable = UnitTable(&[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
]);

/// Numbers of cells.
pub const CELLS: UnitTable = UnitTable(&[("cells", 1), ("cell", 1)]);
/// Rates in cells/s.
pub const CELL_RATES: UnitTable = UnitTable(&[("cells/s", 1)]);
/// Numbers of packets.
pub const PACKETS: UnitTable = UnitTable(&[("packets", 1), ("packet", 1)]);

/// The units in which values are written, the largest first.
pub(super) const WRITTEN_TIME: &[(&str, u128)] = &[
    ("s", 1_000_000_000_000),
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("ns", 1_000),
    ("ps", 1),
];
pub(super) const WRITTEN_BITS: &[(&str, u128)] = &[
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
];
pub(super) const WRITTEN_BYTES: &[(&str, u128)] = &[("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Words that people write for a unit, in lower case.
const WORDS: &[(&str, &[&str])] = &[
    ("sec", &["s"]),
    ("secs", &["s"]),
    ("second", &["s"]),
    ("seconds", &["s"]),
    ("m", &["min", "ms"]),
    ("mins", &["min"]),
    ("minute", &["min"]),
    ("minutes", &["min"]),
    ("hr", &["h"]),
    ("hour", &["h"]),
    ("hours", &["h"]),
    ("d", &["h"]),
    ("day", &["h"]),
    ("days", &["h"]),
    ("msec", &["ms"]),
    ("millis", &["ms"]),
    ("usec", &["us"]),
    ("k", &["kbit/s", "kB"]),
    ("g", &["Gbit/s", "GB"]),
    ("kb", &["kB", "KiB"]),
    ("kib", &["KiB"]),
    ("byte", &["B"]),
    ("bytes", &["B"]),
    ("octets", &["B"]),
    ("pkt", &["packets"]),
    ("pkts", &["packets"]),
    ("p", &["packets"]),
];

impl UnitTable {
    /// The size of a unit.
    pub(super) fn factor(self, unit: &str) -> Option<u128> {
        self.0.iter().find(|(name, _)| *name == unit).map(|it| it.1)
    }

    /// Whether `unit` is one of these.
    pub(super) fn has(self, unit: &str) -> bool {
        self.factor(unit).is_some()
    }
}

/// The units of `tables` that `unit` may mean, most likely first.
pub(super) fn suggest(unit: &str, tables: &[UnitTable]) -> Vec<&'static str> {
    let known = || {
        tables
            .iter()
            .flat_map(|table| table.0)
            .map(|(name, _)| *name)
    };
    let lower = unit.to_lowercase();
    let words = WORDS.iter().filter(|(word, _)| *word == lower);
    let mut found: Vec<&str> = words
        .flat_map(|(_, units)| units.iter().copied())
        .filter(|unit| known().any(|name| name == *unit))
        .collect();
    // "Mbps", "Mbps/s", "Mbits/s" and "Mbit" are Mbit/s.
    let stem = lower.trim_end_matches("/s").trim_end_matches("/sec");
    let stem = stem.trim_end_matches("ps").trim_end_matches('s');
    let same = |a: &str, b: &str| {
        let mut tables = tables.iter();
        tables.any(|table| table.has(a) && table.factor(a) == table.factor(b))
    };
    for spelling in [
        lower.clone(),
        stem.replace('b', "bit") + "/s",
        format!("{stem}/s"),
        lower.clone() + "s",
    ] {
        for name in known() {
            if name.to_lowercase() == spelling && !found.iter().any(|it| same(it, name)) {
                found.push(name);
            }
        }
    }
    found.truncate(2);
    found
}
