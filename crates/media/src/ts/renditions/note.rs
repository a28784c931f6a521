use std::fmt;

use layercast_core::Span;

/// Which of the inputs, or programs of one, a rendition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenditionId {
    /// Of several inputs, the one, from 0 on.
    pub input: Option<usize>,
    /// Its program.
    pub program: u16,
}

impl fmt::Display for RenditionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.input {
            Some(input) => write!(f, "input {}", input + 1),
            None => write!(f, "program {}", self.program),
        }
    }
}

/// What a user should know of renditions. Times count from the first common key frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RenditionNote {
    /// Some renditions have a key frame where others have none: no receiver changes there.
    Apart {
        /// When.
        at: Span,
        /// Those that have one.
        with: Vec<RenditionId>,
        /// Those that have none.
        without: Vec<RenditionId>,
        /// How often that was so.
        times: u64,
    },
    /// Key frames that are decoded at one time are shown at different times.
    Shown {
        /// When.
        at: Span,
        /// Those that are shown at another time than the lowest rendition.
        others: Vec<RenditionId>,
        /// How often that was so.
        times: u64,
    },
    /// Pictures of a rendition do not come any more; the others continue.
    Stopped {
        /// When.
        at: Span,
        /// Which.
        id: RenditionId,
    },
    /// Pictures of a rendition are further ahead of those of the others than they wait; it is left out.
    Ahead {
        /// When.
        at: Span,
        /// Which.
        id: RenditionId,
    },
    /// Pictures of a rendition come again, but their time stamps stay behind those of the others: it is left out.
    Late {
        /// When.
        at: Span,
        /// Which.
        id: RenditionId,
        /// How far behind its pictures are.
        by: Span,
    },
    /// A file is at its end before the others, and the flow ends there.
    Ended {
        /// When.
        at: Span,
        /// Which.
        id: RenditionId,
    },
    /// They come again.
    Back {
        /// When.
        at: Span,
        /// Which.
        id: RenditionId,
    },
}

/// What makes key frames of renditions align.
pub(super) const REMEDY: &str = "let the encoder force key frames at common times and make no others, with the same B pictures \
     in each rendition (ffmpeg: -force_key_frames 'expr:gte(t,n_forced*1)' -bf 2 -x264-params scenecut=0:open-gop=0)";

/// `program 1, program 2`.
pub(super) fn names(ids: &[RenditionId]) -> String {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    names.join(", ")
}

impl fmt::Display for RenditionNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = |times: u64| match times {
            0 | 1 => String::new(),
            times => format!(" ({times} times so far)"),
        };
        match self {
            RenditionNote::Apart {
                at,
                with,
                without,
                times,
            } => write!(
                f,
                "at {:.2} s there is a key frame of {} and none of {}{}: no receiver changes its rendition there; {REMEDY}",
                at.as_secs_f64(),
                names(with),
                names(without),
                again(*times),
            ),
            RenditionNote::Shown { at, others, times } => write!(
                f,
                "the key frame at {:.2} s is shown at another time in {}{}: no receiver changes its rendition there; {REMEDY}",
                at.as_secs_f64(),
                names(others),
                again(*times),
            ),
            RenditionNote::Stopped { at, id } => write!(
                f,
                "from {:.2} s on no pictures of {id} come; the other renditions continue",
                at.as_secs_f64()
            ),
            RenditionNote::Ahead { at, id } => write!(
                f,
                "from {:.2} s on the time stamps of {id} are more than 5 s ahead of the other renditions: it is left out; \
                 let all renditions come from one clock",
                at.as_secs_f64()
            ),
            RenditionNote::Late { at, id, by } => write!(
                f,
                "at {:.2} s pictures of {id} come, but their time stamps are {:.2} s behind those of the other renditions, as of an \
                 encoder that was started again and counts from its own beginning: it is left out, since time stamps say which \
                 pictures are the same; let one encoder make all renditions, or start all of them again together",
                at.as_secs_f64(),
                by.as_secs_f64()
            ),
            RenditionNote::Ended { at, id } => write!(
                f,
                "{id} ends after {:.2} s, and so does the flow: the other renditions are longer",
                at.as_secs_f64()
            ),
            RenditionNote::Back { at, id } => {
                write!(
                    f,
                    "from {:.2} s on pictures of {id} come again",
                    at.as_secs_f64()
                )
            }
        }
    }
}
