//! What is done about losses on a link: `repair = true`, or by name.

use std::fmt;

use layercast_repair::Means;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What is done about losses on a link; `None`: nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkRepair(pub Option<Means>);

const NAMES: [(&str, Option<Means>); 4] = [
    ("auto", Some(Means::Auto)),
    ("off", None),
    ("arq", Some(Means::Requests)),
    ("fec", Some(Means::Parities)),
];
const ACCEPTED: &str = "true, false, \"auto\", \"arq\", \"fec\" or \"off\"";

impl<'de> Deserialize<'de> for LinkRepair {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LinkRepair, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = LinkRepair;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ACCEPTED)
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<LinkRepair, E> {
                Ok(LinkRepair(on.then_some(Means::Auto)))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<LinkRepair, E> {
                let found = NAMES.iter().find(|(name, _)| *name == word);
                let found = found.map(|(_, means)| LinkRepair(*means));
                found.ok_or_else(|| E::custom(format!("it is {word:?}; expected {ACCEPTED}")))
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl Serialize for LinkRepair {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => to.serialize_bool(false),
            Some(Means::Auto) => to.serialize_bool(true),
            Some(Means::Requests) => to.serialize_str("arq"),
            Some(Means::Parities) => to.serialize_str("fec"),
        }
    }
}
