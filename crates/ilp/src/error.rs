//! What can go wrong on the data path.

use thiserror::Error;

/// Why an ADU could not be sent or is not delivered (specs/ilp-code-generation.md 7).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum IlpError {
    /// The buffer of the sender is too small.
    #[error("the buffer has {has} octets, and the ADU takes more")]
    NoRoom {
        /// Octets of the buffer.
        has: usize,
    },
    /// A value has more elements than its type permits.
    #[error("{len} elements where {max} are permitted")]
    TooLong {
        /// Elements.
        len: usize,
        /// Most elements of the type.
        max: usize,
    },
    /// The input ends within a value.
    #[error("the input ends at octet {at}, within a value")]
    Truncated {
        /// Octets before the missing ones.
        at: usize,
    },
    /// The ADU ends before the input does.
    #[error("{0} octets behind the ADU")]
    TrailingBytes(usize),
    /// The words that fill the last unit are not zero.
    #[error("the padding is not zero")]
    BadPadding,
    /// A boolean, an enumeration or a union with a value that it does not have.
    #[error("{0} is no value of the type")]
    UnknownAdu(u32),
    /// Text that is not UTF-8.
    #[error("text that is not UTF-8")]
    BadText,
    /// Values within values beyond [`crate::adu::MAX_DEPTH`].
    #[error("values are nested too deep")]
    TooDeep,
    /// The result of a stage differs from that in the trailer: the lowest such stage.
    #[error("the {stage} does not match (level {level})")]
    Integrity {
        /// 1 is the bottom stage.
        level: usize,
        /// Name of the stage.
        stage: &'static str,
    },
}

impl IlpError {
    /// The code of the paper's functions: the level of the lowest stage that differs, or a negative number for a format error.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            IlpError::Integrity { level, .. } => i32::try_from(*level).unwrap_or(i32::MAX),
            IlpError::NoRoom { .. } => -1,
            IlpError::TooLong { .. } => -2,
            IlpError::Truncated { .. } => -3,
            IlpError::TrailingBytes(_) => -4,
            IlpError::BadPadding => -5,
            IlpError::UnknownAdu(_) => -6,
            IlpError::BadText => -7,
            IlpError::TooDeep => -8,
        }
    }
}
