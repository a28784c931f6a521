use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// What the values of a distribution are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Unit {
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Files of a session or page.
    #[serde(rename = "files")]
    Files,
    /// Pages in a row.
    #[serde(rename = "pages")]
    Pages,
    /// News articles.
    #[serde(rename = "articles")]
    Articles,
    /// Packets of a run.
    #[serde(rename = "packets")]
    Packets,
}

/// What a distribution can be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// How long.
    Time,
    /// How many bytes; none at all is possible.
    Size,
    /// How many; at least one.
    Count,
}

const NAMES: [(Unit, &str); 7] = [
    (Unit::Millis, "ms"),
    (Unit::Seconds, "s"),
    (Unit::Bytes, "B"),
    (Unit::Files, "files"),
    (Unit::Pages, "pages"),
    (Unit::Articles, "articles"),
    (Unit::Packets, "packets"),
];

impl Unit {
    /// What it measures.
    pub fn dimension(self) -> Dimension {
        match self {
            Unit::Millis | Unit::Seconds => Dimension::Time,
            Unit::Bytes => Dimension::Size,
            Unit::Files | Unit::Pages | Unit::Articles | Unit::Packets => Dimension::Count,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(unit, _)| unit == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

impl FromStr for Unit {
    type Err = ();

    fn from_str(text: &str) -> Result<Unit, ()> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(unit, _)| *unit).ok_or(())
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dimension::Time => "a time (ms, s)",
            Dimension::Size => "a size (B)",
            Dimension::Count => "a count (files, pages, articles, packets)",
        })
    }
}
