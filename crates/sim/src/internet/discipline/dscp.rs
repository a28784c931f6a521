//! The class of a packet: its differentiated services code point.

use layercast_core::quantity::{Quantity, QuantityError};

/// The six bits of the differentiated services field (RFC 2474 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Dscp(u8);

/// Names: RFC 2474 4.2.2, RFC 2597 6, RFC 3246, RFC 5865, RFC 8622.
const NAMES: [(&str, u8); 23] = [
    ("be", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl Dscp {
    /// That of a type-of-service byte.
    pub const fn of_tos(tos: u8) -> Dscp {
        Dscp(tos >> 2)
    }

    /// A type-of-service byte with it, without ECN.
    pub const fn as_tos(self) -> u8 {
        self.0 << 2
    }

    /// From 0 to 63.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// All there are.
    pub fn all() -> impl Iterator<Item = Dscp> {
        (0..64).map(Dscp)
    }
}

impl Quantity for Dscp {
    const ACCEPTED: &'static str = "a class such as \"ef\", \"af41\", \"cs1\", \"le\" or \"be\", or a DSCP from \"0\" to \"63\"";

    fn parse(text: &str) -> Result<Dscp, QuantityError> {
        if let Some((_, value)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Dscp(*value));
        }
        // One text for each number, so that a pattern can say which.
        let is_plain = text == "0" || !text.starts_with(['0', '+']);
        match text.parse() {
            Ok(value @ 0..64) if is_plain => Ok(Dscp(value)),
            _ => Err(QuantityError::new::<Dscp>(format!("{text:?} is no DSCP"))),
        }
    }

    fn write(&self) -> String {
        let named = NAMES.iter().find(|(_, value)| *value == self.0);
        named.map_or_else(|| self.0.to_string(), |(name, _)| (*name).to_owned())
    }

    fn pattern() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("^({}|[1-5]?[0-9]|6[0-3])$", names.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_text() {
        for dscp in Dscp::all() {
            assert_eq!(Dscp::parse(&dscp.write()), Ok(dscp));
            assert_eq!(Dscp::parse(&dscp.value().to_string()), Ok(dscp));
            assert_eq!(Dscp::of_tos(dscp.as_tos() | 3), dscp);
        }
        for text in ["64", "-1", "046", "+1", "EF", "", " ef", "af44"] {
            assert!(Dscp::parse(text).is_err(), "{text}");
        }
    }
}
