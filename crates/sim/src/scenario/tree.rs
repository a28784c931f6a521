//! A scenario file as a tree of values. TOML and JSON become the same tree before their fields are read: what reads the fields, the larger part of this
//! crate, is compiled for one format.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use crate::place::{Place, Step};

/// A place, and what is wrong there in the words of serde.
pub(super) type Wrong = (Place, String);

/// The values of a TOML document, and the first of them that no field takes: a date, infinity or no number. Nothing is in
/// its place, so what is wrong around it shows, too.
pub(super) fn of_table(table: &DeTable<'_>) -> (Value, Option<Wrong>) {
    let mut wrong = None;
    let map = Reading(None).table(table, &mut wrong);
    (Value::Object(map), wrong)
}

/// The steps to a value, the last one first.
#[derive(Clone, Copy)]
struct Reading<'a>(Option<(&'a Reading<'a>, Name<'a>)>);

#[derive(Clone, Copy)]
enum Name<'a> {
    Key(&'a str),
    Index(usize),
}

impl Reading<'_> {
    fn table(&self, table: &DeTable<'_>, wrong: &mut Option<Wrong>) -> Map<String, Value> {
        let fields = table.iter().map(|(key, value)| {
            let key = key.get_ref().as_ref();
            let value = Reading(Some((self, Name::Key(key)))).value(value.get_ref(), wrong);
            (key.to_owned(), value)
        });
        fields.collect()
    }

    fn value(&self, value: &DeValue<'_>, wrong: &mut Option<Wrong>) -> Value {
        let what = match value {
            DeValue::String(text) => return Value::String(text.as_ref().to_owned()),
            DeValue::Boolean(value) => return Value::Bool(*value),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                let number = i64::from_str_radix(digits, radix).map(Number::from);
                match number.or_else(|_| u64::from_str_radix(digits, radix).map(Number::from)) {
                    Ok(number) => return Value::Number(number),
                    Err(_) => "integer number overflowed".to_owned(),
                }
            }
            DeValue::Float(number) => {
                let number: f64 = number.as_str().parse().unwrap_or(f64::INFINITY);
                match Number::from_f64(number) {
                    Some(number) => return Value::Number(number),
                    None => {
                        format!("invalid value: floating point `{number}`, expected f64")
                    }
                }
            }
            DeValue::Datetime(time) => format!("invalid type: date {time}, expected a string"),
            DeValue::Array(values) => {
                let values = values.iter().enumerate().map(|(n, value)| {
                    Reading(Some((self, Name::Index(n)))).value(value.get_ref(), wrong)
                });
                return Value::Array(values.collect());
            }
            DeValue::Table(table) => return Value::Object(self.table(table, wrong)),
        };
        wrong.get_or_insert_with(|| (self.place(), what));
        Value::Null
    }

    fn place(&self) -> Place {
        let mut steps = Vec::new();
        let mut at = self;
        while let Some((outer, name)) = &at.0 {
            steps.push(match name {
                Name::Key(key) => Step::Key((*key).to_owned()),
                Name::Index(n) => Step::Index(*n),
            });
            at = outer;
        }
        steps.reverse();
        Place(steps)
    }
}

/// The values of a JSON document, each key once in its object.
pub(super) struct Json;

impl<'de> DeserializeSeed<'de> for Json {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Json {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(Json)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if values.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate field `{key}`")));
            }
            let value = map.next_value_seed(Json)?;
            values.insert(key, value);
        }
        Ok(values.into())
    }
}

/// The line of the field at `place` of a JSON document, or of the end of the innermost object or list that is there.
pub(super) fn line_in_json(text: &str, place: &Place) -> Option<usize> {
    let found = Search(&place.0).deserialize(&mut serde_json::Deserializer::from_str(text));
    found.err().map(|error| error.line())
}

/// Fails at the value to which these steps lead: errors of the parser have a line.
struct Search<'p>(&'p [Step]);

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if let [Step::Index(before), rest @ ..] = self.0 {
            let mut at = 0;
            while at < *before && seq.next_element::<IgnoredAny>()?.is_some() {
                at += 1;
            }
            seq.next_element_seed(Search(rest))?;
        }
        Err(A::Error::custom("here"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if let [step, rest @ ..] = self.0 {
            while let Some(key) = map.next_key::<String>()? {
                match step.is_key(&key) {
                    true => map.next_value_seed(Search(rest))?,
                    false => drop(map.next_value::<IgnoredAny>()?),
                }
            }
        }
        Err(A::Error::custom("here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_toml(text: &str) -> (Value, Option<Wrong>) {
        of_table(DeTable::parse(text).expect("TOML").get_ref())
    }

    #[test]
    fn toml_becomes_what_json_would_be() {
        let text = "a = 0xff\nb = -1.5\nc = [true, { d = 'x' }]\n[e.f]\ng = 18446744073709551615\n";
        let same = r#"{"a": 255, "b": -1.5, "c": [true, {"d": "x"}], "e": {"f": {"g": 18446744073709551615}}}"#;
        let json = Json.deserialize(&mut serde_json::Deserializer::from_str(same));
        assert_eq!(of_toml(text), (json.expect("JSON"), None));
    }

    #[test]
    fn what_no_field_takes_has_its_path() {
        for (text, path) in [
            ("a = nan", "a"),
            ("[[a]]\n[[a]]\nb = [1, [-inf]]", "a[1].b[1][0]"),
            ("a.b = 1e999", "a.b"),
            ("a = 2026-01-01", "a"),
            ("a = 18446744073709551616", "a"),
        ] {
            let (_, wrong) = of_toml(text);
            let (place, _) = wrong.unwrap_or_else(|| panic!("{text}"));
            assert_eq!(place.to_string(), path, "{text}");
        }
    }

    #[test]
    fn fields_of_json_have_lines() {
        let text = "{\n\"a\": 1,\n\"b\": [\n{\"c\": 2},\n{\n\"c\": 3}],\n\"d\": {}\n}";
        for (path, line) in [
            ("a", 2),
            ("b[0].c", 4),
            ("b[1].c", 6),
            ("b[7]", 6),
            ("d", 7),
            ("e", 8),
        ] {
            assert_eq!(
                line_in_json(text, &Place::parse(path)),
                Some(line),
                "{path}"
            );
        }
    }

    #[test]
    fn a_key_twice_is_refused() {
        let twice = Json.deserialize(&mut serde_json::Deserializer::from_str(
            r#"{"a": 1, "a": 2}"#,
        ));
        assert!(twice.is_err_and(|error| error.to_string().contains("duplicate field `a`")));
    }
}
