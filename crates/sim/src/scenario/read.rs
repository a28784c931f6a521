//! Reading a scenario file: every error has the path of its field, its line, the cause and the accepted values.

use std::sync::LazyLock;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;
use toml::de::DeTable;

use super::tree::{self, Json, Wrong};
use crate::line::{line_at, line_in};
use crate::place::{Place, Step, printable};

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

impl Misread {
    fn new(line: Option<usize>, place: &Place, what: &str) -> Misread {
        let (field, what) = (place.to_string(), printable(what));
        Misread { line, field, what }
    }
}

/// Reads TOML; `schema` is the JSON Schema of the file, if there is one: errors quote its ranges and descriptions.
pub(crate) fn from_toml<T: DeserializeOwned>(
    text: &str,
    schema: Option<Schema>,
) -> Result<T, Misread> {
    let table = DeTable::parse(text).map_err(|error| not_toml(text, &error))?;
    let table = table.get_ref();
    let (tree, untaken) = tree::of_table(table);
    let read = fields(&tree);
    let told = |(place, message): Wrong| explain(place, &message, schema);
    let (place, what) = match (read, untaken) {
        (Ok(read), None) => return Ok(read),
        (Err(wrong), None) => told(wrong),
        // Of a date under an unknown key the key is wrong.
        (Err(wrong), Some(untaken)) if wrong.1.starts_with(UNKNOWN_FIELD) => {
            let (place, what) = told(wrong);
            match untaken.0.is_within(&place) {
                true => (place, what),
                false => told(untaken),
            }
        }
        (_, Some(untaken)) => told(untaken),
    };
    // What is missing at the top belongs to the whole file.
    let line = line_in(table, text, &place).or(Some(1));
    Err(Misread::new(line, &place, &what))
}

fn not_toml(text: &str, error: &toml::de::Error) -> Misread {
    // Only a key of too many parts has no place.
    let line = error
        .span()
        .map_or_else(|| longest_key(text), |span| line_at(text, span.start));
    let is_json = text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let what = match is_json {
        true => "this is JSON; a scenario file is TOML, such as name = \"film\"".to_owned(),
        false => format!("this is not TOML: {}", error.message()),
    };
    Misread::new(Some(line), &Place::default(), &what)
}

/// The line of the key with the most parts.
fn longest_key(text: &str) -> usize {
    let parts = |line: &str| line.split('=').next().unwrap_or(line).matches('.').count();
    let lines = text.lines().zip(1..);
    // The first of several.
    let longest = lines.max_by_key(|(line, number)| (parts(line), std::cmp::Reverse(*number)));
    longest.map_or(1, |it| it.1)
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
        let (place, what) = match error.is_data() {
            true => explain(Place::from(&track.path()), message, schema),
            false => (Place::default(), format!("this is not JSON: {message}")),
        };
        Misread::new(Some(error.line()), &place, &what)
    })?;
    fields(&tree).map_err(|(place, message)| {
        let (place, what) = explain(place, &message, schema);
        Misread::new(tree::line_in_json(text, &place), &place, &what)
    })
}

fn fields<T: DeserializeOwned>(tree: &Value) -> Result<T, Wrong> {
    serde_path_to_error::deserialize(tree)
        .map_err(|error| (Place::from(error.path()), error.into_inner().to_string()))
}

const UNKNOWN_FIELD: &str = "unknown field ";

/// The field and the explanation of an error of serde at `place`.
fn explain(place: Place, message: &str, schema: Option<Schema>) -> (Place, String) {
    let schema = schema.map(|schema| &**schema);
    if let Some((name, known)) = parts(message, UNKNOWN_FIELD) {
        let known = names(known);
        let field = place.without(&name).key(&name);
        if matches!(field.0.as_slice(), [only] if only.is_key("schema")) {
            let what = "a scenario of layered flows has none; an internetwork has \"internet/1\", a multicast group \"group/1\"";
            return (field, what.to_owned());
        }
        return (field, no_such("field", &name, &known));
    }
    if let Some(name) = message.strip_prefix("missing field ").and_then(quoted) {
        let field = place.key(name);
        let about = schema.and_then(|schema| about(schema, &field.0));
        let about = about.and_then(|it| it.description);
        let about = about.map_or(String::new(), |it| format!(": {it}"));
        return (field, format!("it is missing{about}"));
    }
    if let Some(table) = schema.and_then(|it| listed(it, &place)) {
        let what = format!(
            "it is a list of tables; expected one table: [{table}] in place of [[{table}]]"
        );
        return (table, what);
    }
    let forms = schema.map(|schema| forms(schema, &place.0));
    let forms = forms.filter(|it| !it.is_empty());
    if let Some((name, known)) = parts(message, "unknown variant ") {
        let what = match forms {
            Some(forms) => format!("it is {name:?}; expected {forms}"),
            None => format!("it is {}", no_such("", &name, &names(known))),
        };
        return (place, what);
    }
    // An enum with a wrong number of keys, or of the wrong type.
    let ends = ["expected string or map", "expected map with a single key"];
    let is_enum = ends.iter().any(|end| message.ends_with(end));
    if let (true, Some(forms)) = (is_enum, forms) {
        return (place, format!("expected {forms}"));
    }
    let words = schema.and_then(|schema| words(schema, &place.0));
    if let (true, Some(words)) = (is_enum, words) {
        return (place, format!("it is no text in quotes; expected {words}"));
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "];
    let found = wrong.iter().find_map(|start| message.strip_prefix(start));
    let Some((found, expected)) = found.and_then(|rest| rest.split_once(", expected ")) else {
        return (place, message.to_owned());
    };
    // An enum has the name of a form without its table.
    if let ("unit variant", [outer @ .., Step::Key(form)]) = (found, place.0.as_slice()) {
        let what = format!("it is a name alone; expected a table: {{ {form} = {{}} }}");
        return (Place(outer.to_vec()), what);
    }
    let about = schema.and_then(|schema| about(schema, &place.0));
    let about = about.unwrap_or_default();
    let expected = about.range.unwrap_or_else(|| plain(expected));
    let description = about
        .description
        .map_or(String::new(), |it| format!(" ({it})"));
    let what = format!("it is {}; expected {expected}{description}", value(found));
    (place, what)
}

/// `` `name`, expected ... `` behind `start`: the name and the rest.
fn parts<'m>(message: &'m str, start: &str) -> Option<(String, &'m str)> {
    let rest = message.strip_prefix(start)?.strip_prefix('`')?;
    // The name is of the file and may have any signs; the accepted ones have none of these.
    let ends = ["`, expected ", "`, there are no "];
    let end = ends.iter().filter_map(|end| rest.rfind(end)).max()?;
    Some((rest[..end].to_owned(), &rest[end + "`, ".len()..]))
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

/// The node of the field at this place, and the nearest description on the way to it.
fn node<'s>(schema: &'s Value, steps: &[Step]) -> Option<(&'s Value, Option<&'s str>)> {
    let mut node = dereference(schema, schema)?;
    let mut description = None;
    for step in steps {
        let Step::Key(name) = step else {
            node = dereference(schema, node.get("items")?)?;
            continue;
        };
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
    }
    Some((node, description))
}

/// What the schema says about the field at this place.
fn about(schema: &Value, steps: &[Step]) -> Option<About> {
    let (node, description) = node(schema, steps)?;
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

/// The tables of one key that the field at this place may be, such as `{ uniform = .. } or { normal = .. }`; empty if it is none.
fn forms(schema: &Value, steps: &[Step]) -> String {
    let Some(tables) = node(schema, steps).and_then(|(node, _)| node["oneOf"].as_array()) else {
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

/// The words that the field at this place may be; `None` if it is something else.
fn words(schema: &Value, steps: &[Step]) -> Option<String> {
    let (node, _) = node(schema, steps)?;
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

/// The part of `place` that has an index and is a single table by the schema.
fn listed(schema: &Value, place: &Place) -> Option<Place> {
    let indices = place.0.iter().enumerate();
    let mut tables = indices.filter(|(_, step)| matches!(step, Step::Index(_)));
    let (end, _) = tables.find(|&(end, _)| {
        let found = node(schema, &place.0[..end]);
        found.is_some_and(|(node, _)| node["type"] == "object" && node.get("items").is_none())
    })?;
    Some(Place(place.0[..end].to_vec()))
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
        let (place, what) = explain(Place::parse(path), message, None);
        (place.to_string(), what)
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
            ("", "missing field `name`", "name", "it is missing"),
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
