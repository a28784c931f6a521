use layercast_wire::multicast::MemberId;
use layercast_wire::{MAX_NAME, changes_direction};
use thiserror::Error;

/// Why a text cannot be the name of a node, a flow or a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    /// It has no character, or blanks alone.
    #[error("it is empty; give at least one character that is not blank")]
    Empty,
    /// It has this number of bytes.
    #[error("it has {0} bytes; the session protocol carries {most} at most", most = MAX_NAME)]
    TooLong(usize),
    /// A control character: names are shown on terminals and in logs.
    #[error("its character {at} is the control character {found:?}; leave it out")]
    Control {
        /// The place of the character, from 1.
        at: usize,
        /// The character.
        found: char,
    },
    /// A character that changes the direction of writing: the name looks like another one.
    #[error("its character {at} is U+{:04X}, which changes the direction of writing; leave it out", u32::from(*.found))]
    Direction {
        /// The place of the character, from 1.
        at: usize,
        /// The character.
        found: char,
    },
}

/// Checks a name of a node, a flow or a member: 1 to [`MAX_NAME`] bytes, no control characters, and none that change the direction of
/// writing. Neighbours refuse
/// messages with other names.
///
/// # Errors
/// The limit that it exceeds.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong(name.len()));
    }
    for (at, found) in (1..).zip(name.chars()) {
        if found.is_control() {
            return Err(NameError::Control { at, found });
        }
        if changes_direction(found) {
            return Err(NameError::Direction { at, found });
        }
    }
    Ok(())
}

/// The member number of a receiver of files: the first 8 octets of the BLAKE3 digest of its name, big-endian.
pub fn member_of(name: &str) -> MemberId {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(name.as_bytes()).as_bytes();
    MemberId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

#[cfg(test)]
mod tests {
    use layercast_wire::{Member, Signal};

    use super::*;

    #[test]
    fn a_name_is_what_a_neighbour_takes() {
        let long = "x".repeat(MAX_NAME + 1);
        for (name, error) in [
            ("bunny", None),
            ("Häschen in der Grube", None),
            (&long[1..], None),
            ("", Some(NameError::Empty)),
            ("  ", Some(NameError::Empty)),
            (
                "bob\u{202e}gnp",
                Some(NameError::Direction {
                    at: 4,
                    found: '\u{202e}',
                }),
            ),
            (&long, Some(NameError::TooLong(MAX_NAME + 1))),
            (
                "a\x1b[2J",
                Some(NameError::Control {
                    at: 2,
                    found: '\x1b',
                }),
            ),
            (
                "a\u{9b}",
                Some(NameError::Control {
                    at: 2,
                    found: '\u{9b}',
                }),
            ),
            ("a\n", Some(NameError::Control { at: 2, found: '\n' })),
        ] {
            assert_eq!(check_name(name).err(), error, "{name:?}");
            let member = Member {
                name: name.to_owned(),
                id: layercast_core::NodeId(1),
            };
            let flow = layercast_core::FlowId(1);
            let sent = Signal::Leave { flow, member }.to_line();
            // An empty name is well-formed, but belongs to no one.
            assert_eq!(
                sent.is_ok(),
                error.is_none() || name.trim().is_empty(),
                "{name:?}"
            );
        }
    }
}
