use std::fmt;
use std::str::FromStr;

use layercast_core::{FilterKind, Level};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a filter in a flow does to its frames (specs/mets.md 2.13); written `keep:I`, `keep:IP`,
/// `thin:1/2`, `low-pass:10` or `drs`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FilterRule {
    /// Picture dropping: keep the layers of this level, `keep:I` or `keep:IP`.
    Keep(Level),
    /// Picture dropping: keep `keep` out of every `of` B pictures, as `thin:1/2`. A repeat stands for each of
    /// the others, so that the stream stays whole.
    Thin {
        /// B pictures kept ...
        keep: u8,
        /// ... out of this number.
        of: u8,
    },
    /// Keep the first n of the 64 coefficients of each block, as `low-pass:10`.
    LowPass(u8),
    /// Dynamic rate shaping to the rate that is granted.
    Drs,
}

/// Text that names no filter.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "filter {0:?} is none of keep:I, keep:IP, thin:M/N (M of N B pictures), low-pass:1..64, drs"
)]
pub struct RuleError(String);

impl FilterRule {
    /// The rule for a filter that a policy names; `None` for the jitter filter, which is the
    /// receiver's own. Picture dropping keeps every other B picture.
    pub fn of_kind(kind: FilterKind) -> Option<FilterRule> {
        match kind {
            FilterKind::Jitter => None,
            FilterKind::PictureDrop => Some(FilterRule::Thin { keep: 1, of: 2 }),
            FilterKind::LowPass(k) => Some(FilterRule::LowPass(k.clamp(1, 64))),
            FilterKind::Drs => Some(FilterRule::Drs),
        }
    }

    /// The kind of filter it is.
    pub fn kind(self) -> FilterKind {
        match self {
            FilterRule::Keep(_) | FilterRule::Thin { .. } => FilterKind::PictureDrop,
            FilterRule::LowPass(k) => FilterKind::LowPass(k),
            FilterRule::Drs => FilterKind::Drs,
        }
    }

    /// The highest level that is left behind it.
    pub fn top(self) -> Level {
        match self {
            FilterRule::Keep(level) => level,
            _ => Level::FULL,
        }
    }
}

impl fmt::Display for FilterRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterRule::Keep(level) if *level == Level::BASE => f.write_str("keep:I"),
            FilterRule::Keep(_) => f.write_str("keep:IP"),
            FilterRule::Thin { keep, of } => write!(f, "thin:{keep}/{of}"),
            FilterRule::LowPass(k) => write!(f, "low-pass:{k}"),
            FilterRule::Drs => f.write_str("drs"),
        }
    }
}

impl FromStr for FilterRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<FilterRule, RuleError> {
        let fail = || RuleError(text.to_owned());
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        match (name, value) {
            ("keep", "I") => Ok(FilterRule::Keep(Level::BASE)),
            ("keep", "IP") => Ok(FilterRule::Keep(Level::E1)),
            ("drs", "") if name == text => Ok(FilterRule::Drs),
            ("low-pass", k) => match k.parse() {
                Ok(k @ 1..=64) => Ok(FilterRule::LowPass(k)),
                _ => Err(fail()),
            },
            ("thin", part) => {
                let (keep, of) = part.split_once('/').ok_or_else(fail)?;
                match (keep.parse(), of.parse()) {
                    (Ok(keep), Ok(of)) if keep < of => Ok(FilterRule::Thin { keep, of }),
                    _ => Err(fail()),
                }
            }
            _ => Err(fail()),
        }
    }
}

impl TryFrom<String> for FilterRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<FilterRule, RuleError> {
        text.parse()
    }
}

impl From<FilterRule> for String {
    fn from(rule: FilterRule) -> String {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "keep:I",
            "keep:IP",
            "thin:1/2",
            "thin:0/3",
            "low-pass:10",
            "drs",
        ] {
            assert_eq!(text.parse::<FilterRule>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "keep",
            "keep:B",
            "thin:2/2",
            "thin:1",
            "low-pass:0",
            "low-pass:65",
            "drs:",
        ] {
            let error = text.parse::<FilterRule>().unwrap_err().to_string();
            assert!(error.contains("low-pass:1..64"), "{error}");
        }
    }
}
