use thiserror::Error;

/// Why a frame cannot be filtered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The frame is one of a trace or synthetic clip.
    #[error("the frame has a size but no bytes to filter")]
    NoData,
    /// No sequence header came before the frame.
    #[error("no sequence header came before this frame")]
    NoSequence,
    /// The stream uses what the filters cannot take apart.
    #[error("{0} cannot be filtered")]
    Unsupported(&'static str),
    /// The bytes break the syntax of ISO/IEC 11172-2 or 13818-2.
    #[error("at byte {offset} of the frame: expected {expected}")]
    Malformed {
        /// Offset in the frame.
        offset: u64,
        /// What should have been there.
        expected: &'static str,
    },
}

impl FilterError {
    pub(super) fn malformed(offset: usize, expected: &'static str) -> FilterError {
        FilterError::Malformed {
            offset: offset as u64,
            expected,
        }
    }
}
