//! Places of values in scenario files.

use std::fmt::{self, Write};

use serde_path_to_error::{Path, Segment};

/// A step from a value to one inside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The field or variant of this name.
    Key(String),
    /// The element of a list, from 0.
    Index(usize),
}

/// The steps from the whole file to a value. As a text they are a key of TOML with indices, such as `link[2].rate` or
/// `tcp."a.b"`: keys with other signs are in quotes, so [`parse`](Place::parse) finds the same steps again.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Place(pub Vec<Step>);

impl Place {
    /// The steps of a text; what is no place ends it.
    pub fn parse(text: &str) -> Place {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            if rest.is_empty() {
                break;
            }
            let (step, behind) = if let Some(inside) = rest.strip_prefix('[') {
                let found = inside.split_once(']');
                let index = found.and_then(|(index, behind)| Some((index.parse().ok()?, behind)));
                let Some((index, behind)) = index else { break };
                (Step::Index(index), behind)
            } else if let Some(inside) = rest.strip_prefix('"') {
                let Some((key, behind)) = unquoted(inside) else {
                    break;
                };
                (Step::Key(key), behind)
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                (Step::Key(rest[..end].to_owned()), &rest[end..])
            };
            steps.push(step);
            rest = behind;
        }
        Place(steps)
    }

    /// The field `name` of the table here.
    pub fn key(mut self, name: &str) -> Place {
        self.0.push(Step::Key(name.to_owned()));
        self
    }

    /// The table around the field `name`, if this is the place of such a field.
    pub fn without(mut self, name: &str) -> Place {
        if self.0.last().is_some_and(|last| last.is_key(name)) {
            self.0.pop();
        }
        self
    }

    /// Whether this is `outer` or inside it.
    pub fn is_within(&self, outer: &Place) -> bool {
        self.0.starts_with(&outer.0)
    }
}

impl Step {
    /// Whether it leads to the field `name`.
    pub fn is_key(&self, name: &str) -> bool {
        matches!(self, Step::Key(key) if key == name)
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Place {
        let step = |segment: &Segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { variant } => Some(Step::Key(variant.clone())),
            Segment::Unknown => None,
        };
        Place(path.iter().map_while(step).collect())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    f.write_str(if n == 0 { "" } else { "." })?;
                    write_key(f, key)?;
                }
            }
        }
        Ok(())
    }
}

fn write_key(f: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !key.is_empty() && key.chars().all(is_bare) {
        return f.write_str(key);
    }
    f.write_char('"')?;
    for c in key.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// The key up to its closing quote, and what is behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((key, chars.as_str())),
            '\\' => match chars.next()? {
                'u' => {
                    let digits = chars.as_str().get(..4)?;
                    key.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    chars = chars.as_str()[4..].chars();
                }
                c => key.push(c),
            },
            c => key.push(c),
        }
    }
}

/// A message whose control characters do nothing to a terminal: it may quote keys and values of a file.
pub(crate) fn printable(message: &str) -> String {
    let mut safe = String::with_capacity(message.len());
    for c in message.chars() {
        match c.is_control() {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_keys_are_in_quotes() {
        for (keys, text) in [
            (&["tcp", "low", "ecn"][..], "tcp.low.ecn"),
            (&["tcp", "a.b"], "tcp.\"a.b\""),
            (&["x]"], "\"x]\""),
            (&["q\"uote", ""], "\"q\\\"uote\".\"\""),
            (&["back`tick\\"], "\"back`tick\\\\\""),
            (&["\u{1b}[31m"], "\"\\u001b[31m\""),
        ] {
            let steps = keys.iter().map(|key| Step::Key((*key).to_owned()));
            assert_eq!(Place(steps.collect()).to_string(), text);
        }
        let place = Place::parse("link[2].ends[1]");
        assert_eq!(place.to_string(), "link[2].ends[1]");
        assert_eq!(place.0[1..3], [Step::Index(2), Step::Key("ends".into())]);
    }

    proptest! {
        #[test]
        fn the_text_of_a_place_has_the_same_steps(
            keys in proptest::collection::vec(("\\PC{0,4}|[\\x00-\\x1f.\"\\\\\\[\\]`']{0,4}", 0..12_usize, any::<bool>()), 0..5)
        ) {
            let steps = keys.into_iter().map(|(key, index, is_key)| match is_key {
                true => Step::Key(key),
                false => Step::Index(index),
            });
            let place = Place(steps.collect());
            prop_assert_eq!(Place::parse(&place.to_string()), place);
        }

        #[test]
        fn any_text_can_be_parsed(text in "\\PC{0,20}|[.\"\\\\\\[\\]0-9u]{0,20}") {
            Place::parse(&text);
        }
    }
}
