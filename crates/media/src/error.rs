use thiserror::Error;

use crate::Remedy;

/// Why a clip or a trace cannot be used, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MediaError {
    /// There are no bytes at all.
    #[error(
        "the file is empty; expected H.264, H.265, AV1, VP8, VP9, MPEG-1 or MPEG-2 video, or a transport stream"
    )]
    Empty,
    /// The bytes end before one complete picture.
    #[error("the file ends at byte {offset}; expected {expected}")]
    Truncated {
        /// Where the bytes end.
        offset: u64,
        /// What should have come there.
        expected: &'static str,
    },
    /// The bytes break the syntax of ISO/IEC 11172-2, 13818-2, 11172-1 or 13818-1.
    #[error("at byte {offset}: expected {expected}")]
    Malformed {
        /// Where the offending bytes begin.
        offset: u64,
        /// What should have been there.
        expected: &'static str,
    },
    /// The bytes are something else than a stream that is served.
    #[error(
        "at byte {offset}: expected H.264, H.265, AV1, VP8, VP9, MPEG-1/2 video or a transport stream, but this looks like \
         {looks_like}; {remedy}"
    )]
    Foreign {
        /// Where a sequence or pack header should have been.
        offset: u64,
        /// What the bytes look like.
        looks_like: &'static str,
        /// What makes a stream of it.
        remedy: Remedy,
    },
    /// A stream without the parameter sets that its slices refer to.
    #[error(
        "the {codec} stream has {slices} slices, but not the parameter sets ({}) that they refer to{}; \
         write them into the stream, e.g. ffmpeg -i FILE -c copy -bsf:v dump_extra {}",
        names_of_sets(codec), unread_sets(*.unread), bare_form(codec)
    )]
    ParameterSets {
        /// H.264 or H.265.
        codec: &'static str,
        /// Slices that cannot be read without.
        slices: u64,
        /// Parameter sets that came and could not be read.
        unread: u64,
    },
    /// The form is known, but nothing of it can be served.
    #[error("{problem}")]
    Unusable {
        /// What is missing or wrong, and what helps.
        problem: String,
    },
    /// The text of a frame-size trace is wrong.
    #[error("trace line {line}: {problem}")]
    Trace {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with the line.
        problem: String,
    },
}

fn names_of_sets(codec: &str) -> &'static str {
    match codec {
        "H.265" => "VPS, SPS and PPS",
        _ => "SPS and PPS",
    }
}

fn bare_form(codec: &str) -> &'static str {
    match codec {
        "H.265" => "-f hevc CLIP.h265",
        _ => "-f h264 CLIP.h264",
    }
}

fn unread_sets(count: u64) -> String {
    match count {
        0 => String::new(),
        _ => format!(" ({count} parameter sets came that cannot be read)"),
    }
}

impl MediaError {
    /// The command that encodes any video file as MPEG-1, of which coefficients and pictures can be filtered.
    pub const CONVERT: &'static str =
        "ffmpeg -i FILE -an -c:v mpeg1video -q:v 4 -g 12 -bf 2 -f mpeg1video CLIP.m1v";

    /// The same error with its byte offset mapped by `map` (elementary stream to file).
    pub(crate) fn map_offset(self, map: impl Fn(u64) -> u64) -> MediaError {
        match self {
            MediaError::Truncated { offset, expected } => MediaError::Truncated {
                offset: map(offset),
                expected,
            },
            MediaError::Malformed { offset, expected } => MediaError::Malformed {
                offset: map(offset),
                expected,
            },
            MediaError::Foreign {
                offset,
                looks_like,
                remedy,
            } => MediaError::Foreign {
                offset: map(offset),
                looks_like,
                remedy,
            },
            other => other,
        }
    }
}
