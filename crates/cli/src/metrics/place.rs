//! Places in the JSON of a command, whose values become samples of a metric.

use serde_json::Value;

/// A step from a value to values in it.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The entry of this name of an object.
    Key(&'static str),
    /// Each entry of an array, with labels from texts in it: the name of the label, and where its text is, from entry to entry.
    Each(&'static [(&'static str, &'static [&'static str])]),
    /// The same value, if it has no entry of this name.
    Unless(&'static str),
    /// Each entry of an object; its name is the text of this label.
    Keys(&'static str),
    /// Each entry of an array, one for each of these texts of a label.
    Items(&'static str, &'static [&'static str]),
    /// A text, which becomes the text of this label; the value of the sample is 1.
    Text(&'static str),
}

#[cfg(test)]
impl Step {
    /// The names of the labels that it gives.
    pub fn labels(&self) -> Vec<&'static str> {
        match self {
            Step::Key(_) | Step::Unless(_) => Vec::new(),
            Step::Each(named) => named.iter().map(|&(label, _)| label).collect(),
            Step::Keys(label) | Step::Items(label, _) | Step::Text(label) => vec![label],
        }
    }
}

/// The labels of a sample, in the order of the steps.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Passes each sample at a place to `found`: its labels and its value. Truth values are 0 and 1. What is null, absent or of another
/// kind is no sample: an unknown value is never 0.
pub fn samples<'a>(value: &'a Value, place: &[&[Step]], found: &mut dyn FnMut(&Labels<'a>, f64)) {
    walk(value, &place.concat(), &mut Vec::new(), found);
}

fn walk<'a>(
    value: &'a Value,
    steps: &[Step],
    labels: &mut Labels<'a>,
    found: &mut dyn FnMut(&Labels<'a>, f64),
) {
    let Some((step, rest)) = steps.split_first() else {
        let number = value
            .as_f64()
            .or_else(|| value.as_bool().map(|it| f64::from(u8::from(it))));
        if let Some(number) = number {
            found(labels, number);
        }
        return;
    };
    let before = labels.len();
    match *step {
        Step::Key(key) => {
            if let Some(value) = value.get(key) {
                walk(value, rest, labels, found);
            }
        }
        Step::Unless(key) => {
            if value.get(key).is_none() {
                walk(value, rest, labels, found);
            }
        }
        Step::Each(named) => {
            for entry in value.as_array().into_iter().flatten() {
                for &(label, place) in named {
                    let text = place
                        .iter()
                        .try_fold(entry, |value, &key| value.get(key))
                        .and_then(Value::as_str);
                    labels.push((label, text.unwrap_or_default()));
                }
                walk(entry, rest, labels, found);
                labels.truncate(before);
            }
        }
        Step::Keys(label) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                labels.push((label, key));
                walk(value, rest, labels, found);
                labels.truncate(before);
            }
        }
        Step::Items(label, texts) => {
            for (value, text) in value.as_array().into_iter().flatten().zip(texts) {
                labels.push((label, text));
                walk(value, rest, labels, found);
                labels.truncate(before);
            }
        }
        Step::Text(label) => {
            if let Some(text) = value.as_str() {
                labels.push((label, text));
                found(labels, 1.0);
                labels.truncate(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(value: &Value, steps: &[Step]) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        samples(value, &[steps], &mut |labels, value| {
            let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            all.push((labels.join(","), value));
        });
        all
    }

    #[test]
    fn each_entry_gives_a_sample_with_its_labels() {
        let value = json!({ "flows": [
            { "name": "film", "members": [
                { "member": { "name": "ann" }, "lost": { "base": 1, "e1": 2 } },
                { "member": { "name": "bob" }, "lost": { "base": 3 } },
            ] },
        ] });
        let steps = [
            Step::Key("flows"),
            Step::Each(&[("flow", &["name"])]),
            Step::Key("members"),
            Step::Each(&[("member", &["member", "name"])]),
            Step::Key("lost"),
            Step::Keys("layer"),
        ];
        let expected = [
            ("flow=film,member=ann,layer=base", 1.0),
            ("flow=film,member=ann,layer=e1", 2.0),
            ("flow=film,member=bob,layer=base", 3.0),
        ];
        assert_eq!(
            found(&value, &steps),
            expected.map(|(labels, value)| (labels.to_owned(), value))
        );
    }

    #[test]
    fn what_is_unknown_is_no_sample() {
        let value = json!({ "rtt": null, "ok": true, "kind": "link", "rates": [8, 16] });
        assert!(found(&value, &[Step::Key("rtt")]).is_empty());
        assert!(found(&value, &[Step::Key("absent")]).is_empty());
        assert!(found(&value, &[Step::Key("kind")]).is_empty());
        assert_eq!(found(&value, &[Step::Key("ok")]), [(String::new(), 1.0)]);
        assert!(found(&value, &[Step::Unless("kind"), Step::Key("ok")]).is_empty());
        let without = [Step::Unless("absent"), Step::Key("ok")];
        assert_eq!(found(&value, &without), [(String::new(), 1.0)]);
        let text = [Step::Key("kind"), Step::Text("by")];
        assert_eq!(found(&value, &text), [("by=link".to_owned(), 1.0)]);
        let items = [Step::Key("rates"), Step::Items("level", &["BL", "BL+E1"])];
        let rates = [("level=BL", 8.0), ("level=BL+E1", 16.0)];
        assert_eq!(
            found(&value, &items),
            rates.map(|(labels, value)| (labels.to_owned(), value))
        );
    }
}
