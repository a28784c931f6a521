//! Reading and writing of what is signed: big-endian numbers, names with their length before them.

use thiserror::Error;

/// Octets that are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OctetsError {
    /// Too few or too many.
    #[error("wrong length")]
    Length,
    /// Made by a later version.
    #[error("unknown version {0}")]
    Version(u8),
    /// A number or name out of range.
    #[error("{0} out of range")]
    Range(&'static str),
}

/// Takes values off the front.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], OctetsError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(OctetsError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, OctetsError> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub fn u32(&mut self) -> Result<u32, OctetsError> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, OctetsError> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn name(&mut self) -> Result<&'a str, OctetsError> {
        let len = usize::from(u16::from_be_bytes(self.array()?));
        if len > self.0.len() {
            return Err(OctetsError::Length);
        }
        let (name, rest) = self.0.split_at(len);
        self.0 = rest;
        let name = core::str::from_utf8(name).map_err(|_| OctetsError::Range("name"))?;
        match name.len() <= MAX_NAME && !name.chars().any(char::is_control) {
            true => Ok(name),
            false => Err(OctetsError::Range("name")),
        }
    }

    pub fn end(self) -> Result<(), OctetsError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(OctetsError::Length),
        }
    }
}

/// Longest name in octets, as in the session protocol.
const MAX_NAME: usize = 256;

/// Appends a name; one that is too long is cut, and what it belongs to will not verify.
pub(crate) fn put_name(out: &mut Vec<u8>, name: &str) {
    let octets = &name.as_bytes()[..name.len().min(MAX_NAME)];
    out.extend_from_slice(&(octets.len() as u16).to_be_bytes());
    out.extend_from_slice(octets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_end_with_the_octets_and_nothing_may_follow_the_last_value() {
        let mut reader = Reader(b"\0\x01a");
        assert_eq!(reader.name(), Ok("a"));
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(Reader(b"\0\x02a").name(), Err(OctetsError::Length));
        assert_eq!(Reader(b"a").end(), Err(OctetsError::Length));
    }
}
