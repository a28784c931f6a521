use thiserror::Error;

use super::MAX_FILE_NAME;
use crate::changes_direction;

/// Why a name is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum NameFault {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is `.` or `..`.
    #[error("it leads out of its folder")]
    Dots,
    /// It has a slash.
    #[error("it has a slash")]
    Slash,
    /// It has a control character, NUL among them, or a separator of lines.
    #[error("it has the control character U+{:04X}", u32::from(*.0))]
    Control(char),
    /// It has a character that changes the direction of writing, which makes it look like another name
    /// (Unicode Standard Annex 9, table 4).
    #[error("it has U+{:04X}, which changes the direction of writing", u32::from(*.0))]
    Direction(char),
    /// It has more than [`MAX_FILE_NAME`] octets.
    #[error("it has more than {MAX_FILE_NAME} octets")]
    Long,
}

/// Accepts a name without a path that can be created in a folder and printed without harm. Octets that are not UTF-8
/// are accepted: Linux has such names.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &[u8]) -> Result<(), NameFault> {
    match name {
        [] => return Err(NameFault::Empty),
        b"." | b".." => return Err(NameFault::Dots),
        _ if name.len() > MAX_FILE_NAME => return Err(NameFault::Long),
        _ => {}
    }
    let text = name.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    for c in text {
        match c {
            '/' => return Err(NameFault::Slash),
            '\u{2028}' | '\u{2029}' => return Err(NameFault::Control(c)),
            _ if c.is_control() => return Err(NameFault::Control(c)),
            _ if changes_direction(c) => return Err(NameFault::Direction(c)),
            _ => {}
        }
    }
    Ok(())
}
