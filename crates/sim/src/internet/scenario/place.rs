//! Where a field is.

use std::fmt;

/// A part of the scenario, such as `link[2]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    section: &'static str,
    index: Option<usize>,
}

impl Place {
    /// A section that is there once.
    pub const fn only(section: &'static str) -> Place {
        Place {
            section,
            index: None,
        }
    }

    /// The n-th of its kind.
    pub const fn nth(section: &'static str, index: usize) -> Place {
        Place {
            section,
            index: Some(index),
        }
    }

    /// The path of a field of it.
    pub fn field(self, name: impl fmt::Display) -> String {
        format!("{self}.{name}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}[{index}]", self.section),
            None => f.write_str(self.section),
        }
    }
}
