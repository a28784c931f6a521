//! The lines of the fields of a scenario.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line of byte `at`, from 1.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The line of the field at `path`, or of the innermost table around it that is there.
pub(crate) fn line_of(text: &str, path: &str) -> Option<usize> {
    line_in(DeTable::parse(text).ok()?.get_ref(), text, path)
}

/// The same of a text that was parsed already.
pub(crate) fn line_in(root: &DeTable<'_>, text: &str, path: &str) -> Option<usize> {
    let mut found: Option<usize> = None;
    let mut table = Some(root);
    for step in path.split('.') {
        let (name, indices) = step.split_once('[').unwrap_or((step, ""));
        let Some((_, mut value)) = table?.iter().find(|(key, _)| key.get_ref() == name) else {
            break;
        };
        found = Some(value.span().start);
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            let Some(element) = element(value, index) else {
                break;
            };
            value = element;
            found = Some(value.span().start);
        }
        table = value.get_ref().as_table();
        if table.is_none() {
            break;
        }
    }
    found.map(|at| line_at(text, at))
}

fn element<'a, 'text>(
    value: &'a Spanned<DeValue<'text>>,
    index: &str,
) -> Option<&'a Spanned<DeValue<'text>>> {
    value
        .get_ref()
        .as_array()?
        .get(index.parse::<usize>().ok()?)
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
