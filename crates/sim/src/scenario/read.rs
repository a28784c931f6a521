//! Reading a scenario file: every error has the path of its field, its line, the cause and the accepted values.

use std::sync::LazyLock;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;
use toml::de::DeTable;

use super::tree::{self, Json, Wrong};
use crate::line::{line_at, line_in};

/// The JSON Schema of a kind of file, which is made when the first error quotes it.
pub(crate) type Schema = &'static LazyLock<Value>;

/// Why a text is no scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Misread {
    /// Line in the text, from 1.
    pub line: Option<usize>,
    /// Path of the field, such as `link[2].rate`; empty if the syntax is wrong.
    pub field: String,
    /// The cause and the accepted values.
    pub what: String,
}

/// Reads TOML; `schema` is the JSON Schema of the file, if there is one: errors quote its ranges and descriptions.
pub(crate) fn from_toml<T: DeserializeOwned>(
    text: &str,
    schema: Option<Schema>,
) -> Result<T, Misread> {
    let table = DeTable::parse(text).map_err(|error| Misread {
        line: error.span().map(|span| line_at(text, span.start)),
        field: String::new(),
        what: format!("this is not TOML: {}", error.message()),
    })?;
    let table = table.get_ref();
    let tree = tree::of_table(table);
    tree.and_then(|tree| fields(&tree))
        .map_err(|(path, message)| {
            let (field, what) = explain(path, &message, schema);
            // What is missing at the top belongs to the whole file.
            let line = line_in(table, text, &field).or(Some(1));
            Misread { line, field, what }
        })
}

/// Reads JSON of the same schema.
pub(crate) fn from_json<T: DeserializeOwned>(
    text: &str,
    schema: Option<Schema>,
) -> Result<T, Misread> {
    let mut from = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let tree = Json.deserialize(serde_path_to_error::Deserializer::new(
        &mut from, &mut track,
    ));
    let tree = tree.and_then(|tree| from.end().map(|()| tree));
    let tree = tree.map_err(|error| {
        let said = error.to_string();
        let message = said
            .rsplit_once(" at line ")
            .map_or(said.as_str(), |it| it.0);
        let (field, what) = match error.is_data() {
            true => explain(track.path().to_string(), message, schema),
            false => (String::new(), format!("this is not JSON: {message}")),
        };
        let line = Some(error.line());
        Misread { line, field, what }
    })?;
    fields(&tree).map_err(|(path, message)| {
        let (field, what) = explain(path, &message, schema);
        let line = tree::line_in_json(text, &field);
        Misread { line, field, what }
    })
}

fn fields<T: DeserializeOwned>(tree: &Value) -> Result<T, Wrong> {
    serde_path_to_error::deserialize(tree)
        .map_err(|error| (error.path().to_string(), error.into_inner().to_string()))
}

/// The field and the explanation of an error of serde at `path`.
fn explain(path: String, message: &str, schema: Option<Schema>) -> (String, String) {
    let path = if path == "." { String::new() } else { path };
    let schema = schema.map(|schema| &**schema);
    if let Some((name, known)) = parts(message, "unknown field ") {
        let parent = match path.strip_suffix(name.as_str()) {
            Some(parent) => parent.trim_end_matches('.').to_owned(),
            None => path,
        };
        let known = names(known);
        let field = join(&parent, &name);
        if field == "schema" {
            let what = "a scenario of layered flows has none; an internetwork has \"internet/1\", a multicast group \"group/1\"";
            return (field, what.to_owned());
        }
        return (field, no_such("field", &name, &known));
    }
    if let Some(name) = message.strip_prefix("missing field ").and_then(quoted) {
        let field = join(&path, name);
        let about = schema.and_then(|schema| about(schema, &field));
        let about = about.and_then(|it| it.description);
        let about = about.map_or(String::new(), |it| format!(": {it}"));
        return (field, format!("it is missing{about}"));
    }
    if let Some(table) = schema.and_then(|it| listed(it, &path)) {
        let what = format!(
            "it is a list of tables; expected one table: [{table}] in place of [[{table}]]"
        );
        return (table.to_owned(), what);
    }
    let forms = schema.map(|schema| forms(schema, &path));
    let forms = forms.filter(|it| !it.is_empty());
    if let Some((name, known)) = parts(message, "unknown variant ") {
        let what = match forms {
            Some(forms) => format!("it is {name:?}; expected {forms}"),
            None => format!("it is {}", no_such("", &name, &names(known))),
        };
        return (path, what);
    }
    // An enum with a wrong number of keys, or of the wrong type.
    let ends = ["expected string or map", "expected map with a single key"];
    let is_enum = ends.iter().any(|end| message.ends_with(end));
    if let (true, Some(forms)) = (is_enum, forms) {
        return (path, format!("expected {forms}"));
    }
    let words = schema.and_then(|schema| words(schema, &path));
    if let (true, Some(words)) = (is_enum, words) {
        return (path, format!("it is no text in quotes; expected {words}"));
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "];
    let found = wrong.iter().find_map(|start| message.strip_prefix(start));
    let Some((found, expected)) = found.and_then(|rest| rest.split_once(", expected ")) else {
        return (path, message.to_owned());
    };
    // An enum has the name of a form without its table.
    if let ("unit variant", Some((parent, form))) = (found, path.rsplit_once('.')) {
        let what = format!("it is a name alone; expected a table: {{ {form} = {{}} }}");
        return (parent.to_owned(), what);
    }
    let about = schema.and_then(|schema| about(schema, &path));
    let about = about.unwrap_or_default();
    let expected = about.range.unwrap_or_else(|| plain(expected));
    let description = about
        .description
        .map_or(String::new(), |it| format!(" ({it})"));
    let what = format!("it is {}; expected {expected}{description}", value(found));
    (path, what)
}

fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    }
}

/// `` `name`, expected ... `` behind `start`: the name and the rest.
fn parts<'m>(message: &'m str, start: &str) -> Option<(String, &'m str)> {
    let rest = message.strip_prefix(start)?.strip_prefix('`')?;
    let (name, rest) = rest.split_once("`, ")?;
    Some((name.to_owned(), rest))
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`')
}

/// The names between backticks.
fn names(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// That `name` is none of `known`, with the nearest of them.
fn no_such(what: &str, name: &str, known: &[&str]) -> String {
    let said = match what {
        "" => format!("{name:?}"),
        what => format!("there is no {what} {name:?}"),
    };
    let nearest = nearest(name, known.iter().copied());
    let nearest = nearest.map_or(String::new(), |it| format!("; did you mean {it:?}?"));
    match known {
        [] => format!("{said}; there are no fields here"),
        known => format!(
            "{said}{nearest}{} expected {}",
            if nearest.is_empty() { ";" } else { "" },
            either(known)
        ),
    }
}

/// `a, b or c`.
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// The name of `known` that is most like `name`, if it is like it at all.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = known.map(|known| (strsim::normalized_damerau_levenshtein(name, known), known));
    let best = near.filter(|(near, _)| *near >= 0.5);
    best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1)
}

/// A value as the file says it.
fn value(found: &str) -> String {
    for start in ["string ", "integer ", "floating point ", "boolean "] {
        if let Some(value) = found.strip_prefix(start) {
            return value.trim_matches('`').to_owned();
        }
    }
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        "null" | "unit value" => "nothing".to_owned(),
        other => other.to_owned(),
    }
}

/// What serde calls the types of Rust, in words.
fn plain(expected: &str) -> String {
    match expected {
        "f64" | "f32" => "a number".to_owned(),
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i64" => "a whole number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "string" => "a text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => match other.strip_prefix("an array of length ") {
            Some(length) => format!("a list of {length}"),
            None => other.to_owned(),
        },
    }
}

/// What a JSON Schema says about a field.
#[derive(Default)]
struct About {
    description: Option<String>,
    /// The numbers that it takes.
    range: Option<String>,
}

/// The node of the field at `path`, and the nearest description on the way to it.
fn node<'s>(schema: &'s Value, path: &str) -> Option<(&'s Value, Option<&'s str>)> {
    let mut node = dereference(schema, schema)?;
    let mut description = None;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let (name, index) = step.split_once('[').unwrap_or((step, ""));
        let next = node["properties"].get(name);
        let next = next.or_else(|| node.get("additionalProperties").filter(|it| it.is_object()));
        // A table of one key, whose name says which form it has.
        let form = || {
            let forms = node["oneOf"].as_array()?.iter();
            let mut forms = forms.filter_map(|form| form["properties"].get(name));
            forms.next()
        };
        node = next.or_else(form)?;
        description = node["description"].as_str().or(description);
        node = dereference(schema, node)?;
        if !index.is_empty() {
            node = dereference(schema, node.get("items")?)?;
        }
    }
    Some((node, description))
}

/// What the schema says about the field at `path`.
fn about(schema: &Value, path: &str) -> Option<About> {
    let (node, description) = node(schema, path)?;
    let description = description.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let kinds: Vec<&Value> = match &node["type"] {
        Value::Array(kinds) => kinds.iter().filter(|kind| *kind != "null").collect(),
        kind => vec![kind],
    };
    // Where a text would do as well, the reader names both forms.
    let noun = match kinds.as_slice() {
        [kind] if *kind == "number" => "a number",
        [kind] if *kind == "integer" => "a whole number",
        _ => {
            return Some(About {
                description,
                range: None,
            });
        }
    };
    // Without the ".0" of a whole number.
    let bound = |name: &str| node.get(name).and_then(Value::as_f64);
    let least = bound("minimum").map(|it| format!(" from {it}"));
    let to = if least.is_some() { " to" } else { ", at most" };
    let low = least.or_else(|| bound("exclusiveMinimum").map(|it| format!(" above {it}")));
    let high = bound("maximum").map(|it| format!("{to} {it}"));
    let high = high.or_else(|| bound("exclusiveMaximum").map(|it| format!(", below {it}")));
    let range = format!(
        "{noun}{}{}",
        low.unwrap_or_default(),
        high.unwrap_or_default()
    );
    Some(About {
        description,
        range: Some(range),
    })
}

/// The tables of one key that the field at `path` may be, such as `{ uniform = .. } or { normal = .. }`; empty if it is none.
fn forms(schema: &Value, path: &str) -> String {
    let Some(tables) = node(schema, path).and_then(|(node, _)| node["oneOf"].as_array()) else {
        return String::new();
    };
    let form = |form: &Value| match form["required"].as_array()?.as_slice() {
        [key] if form["type"] == "object" => Some(format!("{{ {} = .. }}", key.as_str()?)),
        _ => None,
    };
    let forms: Option<Vec<String>> = tables.iter().map(form).collect();
    let forms = forms.unwrap_or_default();
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    either(&forms)
}

/// The words that the field at `path` may be; `None` if it is something else.
fn words(schema: &Value, path: &str) -> Option<String> {
    let (node, _) = node(schema, path)?;
    let quoted = |value: &Value| value.as_str().map(|word| format!("{word:?}"));
    let of_form = |form: &Value| quoted(form.get("const")?);
    let words: Option<Vec<String>> = match (node["enum"].as_array(), node["oneOf"].as_array()) {
        (Some(words), _) => words.iter().map(quoted).collect(),
        (None, Some(forms)) => forms.iter().map(of_form).collect(),
        (None, None) => None,
    };
    let words = words.filter(|it| !it.is_empty())?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(either(&words))
}

/// The part of `path` that has an index and is a single table by the schema.
fn listed<'p>(schema: &Value, path: &'p str) -> Option<&'p str> {
    let mut ends = path.match_indices('[').map(|(at, _)| &path[..at]);
    ends.find(|table| {
        let found = node(schema, table);
        found.is_some_and(|(node, _)| node["type"] == "object" && node.get("items").is_none())
    })
}

/// The node itself, or the definition that it refers to.
fn dereference<'s>(schema: &'s Value, node: &'s Value) -> Option<&'s Value> {
    let reference = node["$ref"].as_str().or_else(|| {
        // An optional table is "this or null".
        let either = node["anyOf"].as_array()?;
        either.iter().find_map(|it| it["$ref"].as_str())
    });
    match reference {
        None => Some(node),
        Some(reference) => schema.pointer(reference.strip_prefix('#')?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, message: &str) -> (String, String) {
        explain(path.to_owned(), message, None)
    }

    #[test]
    fn messages_of_serde_become_cause_and_remedy() {
        for (path, message, field, what) in [
            (
                "link[2]",
                "unknown field `rat`, expected one of `rate`, `delay`, `mtu`",
                "link[2].rat",
                "there is no field \"rat\"; did you mean \"rate\"? expected rate, delay or mtu",
            ),
            (
                "link[2].rat",
                "unknown field `rat`, expected `rate`",
                "link[2].rat",
                "there is no field \"rat\"; did you mean \"rate\"? expected rate",
            ),
            (".", "missing field `name`", "name", "it is missing"),
            (
                "run.ties",
                "unknown variant `orderd`, expected `random` or `ordered`",
                "run.ties",
                "it is \"orderd\"; did you mean \"ordered\"? expected random or ordered",
            ),
            (
                "link[0].loss",
                "invalid type: string \"1%\", expected f64",
                "link[0].loss",
                "it is \"1%\"; expected a number",
            ),
            (
                "link[0]",
                "invalid type: integer `5`, expected struct LinkSpec",
                "link[0]",
                "it is 5; expected a table",
            ),
            (
                "link[0].ends",
                "invalid length 3, expected an array of length 2",
                "link[0].ends",
                "it is 3; expected a list of 2",
            ),
        ] {
            assert_eq!(said(path, message), (field.to_owned(), what.to_owned()));
        }
    }
}
