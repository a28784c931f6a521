//! The lines of the fields of a scenario.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Place, Step};

/// The line of byte `at`, from 1.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The line of the field at `path`, or of the innermost table around it that is there.
pub(crate) fn line_of(text: &str, path: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    line_in(table.get_ref(), text, &Place::parse(path))
}

/// The same of a text that was parsed already.
pub(crate) fn line_in(root: &DeTable<'_>, text: &str, place: &Place) -> Option<usize> {
    let (first, rest) = place.0.split_first()?;
    let mut value = in_table(root, first)?;
    for step in rest {
        let inner = match (value.get_ref(), step) {
            (DeValue::Table(table), step) => in_table(table, step),
            (DeValue::Array(values), Step::Index(index)) => values.get(*index),
            _ => None,
        };
        let Some(inner) = inner else { break };
        value = inner;
    }
    Some(line_at(text, value.span().start))
}

fn in_table<'a, 'text>(
    table: &'a DeTable<'text>,
    step: &Step,
) -> Option<&'a Spanned<DeValue<'text>>> {
    let mut fields = table.iter();
    fields
        .find(|(key, _)| step.is_key(key.get_ref()))
        .map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_line() {
        let text = "schema = \"internet/1\"\n\n[run]\nduration = \"1s\"\n\n[[link]]\nends = [\n\"a\",\n\"b\"]\n\
                    [[link]]\nrate = \"1 bit/s\"\n[atm]\n[[atm.link]]\nrate = \"x\"\n";
        for (path, line) in [
            ("schema", Some(1)),
            ("run", Some(3)),
            ("run.duration", Some(4)),
            ("run.warm_up", Some(3)),
            ("link[0].ends[1]", Some(9)),
            ("link[1].rate", Some(11)),
            ("link[1].delay", Some(10)),
            ("atm.link[0].rate", Some(14)),
            ("flow[0]", None),
        ] {
            assert_eq!(line_of(text, path), line, "{path}");
        }
        assert_eq!(line_of("= no toml", "run"), None);
    }
}
