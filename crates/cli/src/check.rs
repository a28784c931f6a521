//! `layercast sim --check`: all errors of a scenario that can be found, not only the first.

use std::path::Path;

use layercast_sim::group::scenario::{GroupScenario, is_group};
use layercast_sim::internet::scenario::{self as internet, is_internet};
use layercast_sim::scenario::Scenario;

use crate::failure::{Failure, Outcome};

/// Errors that are looked for at most: the later ones are often consequences of the first.
const MOST: usize = 20;

/// An error of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finding {
    line: Option<usize>,
    field: String,
    message: String,
}

/// Prints every error that is found in `text`, which was read from `path`, and fails if there is one.
pub fn check(path: &Path, text: &str) -> Outcome {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found = match text {
        text if is_internet(text) => findings(text, &|text| internetwork(text, folder)),
        text if is_group(text) => findings(text, &group),
        text => findings(text, &mets),
    };
    found.sort_by_key(|it| it.line.unwrap_or(usize::MAX));
    for Finding { line, message, .. } in &found {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        eprintln!("layercast: {}{line}: {message}", path.display());
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Failure::Unsatisfied),
    }
}

fn internetwork(text: &str, folder: &Path) -> Option<Finding> {
    let read = internet::Scenario::from_toml(text, folder);
    let checked = read.and_then(|scenario| scenario.resolve_attached().map(drop));
    checked.err().map(|error| located(text, error))
}

fn group(text: &str) -> Option<Finding> {
    let read = GroupScenario::from_toml(text);
    let checked = read.and_then(|scenario| scenario.resolve().map(drop));
    checked.err().map(|error| located(text, error))
}

fn located(text: &str, error: internet::ScenarioError) -> Finding {
    let error = error.located(text);
    Finding {
        line: error.line,
        message: error.message(),
        field: error.field,
    }
}

fn mets(text: &str) -> Option<Finding> {
    let read = Scenario::from_toml(text, Path::new(""));
    let error = read
        .and_then(|scenario| scenario.validate().map(drop))
        .err()?;
    Some(Finding {
        line: error.line(text),
        field: error.field().to_owned(),
        message: error.message(),
    })
}

/// All errors that `check` finds: each is repaired, so that the next one shows.
///
/// A repair puts the first example of the error message in place of the value, or takes the line out. The search
/// ends where neither helps.
fn findings(text: &str, check: &dyn Fn(&str) -> Option<Finding>) -> Vec<Finding> {
    let mut text = text.to_owned();
    let mut found: Vec<Finding> = Vec::new();
    let mut next = check(&text);
    while let Some(finding) = next {
        found.push(finding);
        next = None;
        let Some(last) = found.last().filter(|_| found.len() < MOST) else {
            break;
        };
        for repaired in repairs(&text, last) {
            let other = check(&repaired);
            let helps = |it: &Finding| {
                !it.field.is_empty()
                    && !found
                        .iter()
                        .any(|known| known.field == it.field || known.line == it.line)
            };
            if other.as_ref().is_none_or(helps) {
                (text, next) = (repaired, other);
                break;
            }
        }
    }
    found
}

/// The text with its wrong line repaired in several ways.
fn repairs(text: &str, finding: &Finding) -> Vec<String> {
    let Some(index) = finding.line.and_then(|line| line.checked_sub(1)) else {
        return Vec::new();
    };
    let lines: Vec<&str> = text.lines().collect();
    let Some((key, _)) = lines.get(index).and_then(|line| line.split_once('=')) else {
        return Vec::new();
    };
    let with = |line: &str| {
        let mut lines = lines.clone();
        lines[index] = line;
        lines.join("\n") + "\n"
    };
    let example = example(&finding.message);
    let example = example.map(|example| with(&format!("{key}= {example}")));
    example.into_iter().chain([with("")]).collect()
}

/// The value that an error message suggests: the name that may be meant, or the first example.
fn example(message: &str) -> Option<String> {
    let behind = ["did you mean \"", "such as \"", "like \""];
    let suggested = behind.iter().find_map(|start| {
        let (_, rest) = message.split_once(start)?;
        rest.split_once('"').map(|(value, _)| format!("{value:?}"))
    });
    // A number in range: "expected 68 to 65535 bytes", "expected a number from 0 to 1".
    suggested.or_else(|| {
        let (_, rest) = message.split_once("expected ")?;
        let number = rest.split(' ').find(|word| word.parse::<f64>().is_ok())?;
        Some(number.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_a_file_is_found_with_its_line() {
        let text = r#"schema = "internet/1"
name = "many"
nam = "x"
[run]
duration = "10 sec"
[topology]
kind = "dumbbell"
pairs = 2
[topology.access]
rate = "1 Gbit/s"
delay = "-20ms"
[topology.trunk]
rate = "10 Mbps"
delay = "1ms"
loss = 1.5
mtu = 20
[[flow]]
from = "left1"
to = "rihgt1"
"#;
        let found = findings(text, &|text| internetwork(text, Path::new("")));
        let lines: Vec<usize> = found.iter().filter_map(|it| it.line).collect();
        let mut sorted = lines.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [3, 5, 11, 13, 15, 16, 19], "{found:#?}");
        let trunk = found.iter().find(|it| it.line == Some(13)).unwrap();
        assert!(
            trunk.message.starts_with("topology.trunk.rate: "),
            "{}",
            trunk.message
        );
    }

    #[test]
    fn a_file_of_mets_and_a_group_are_checked_alike() {
        let mets_text = "name = \"m\"\nduration = \"10\"\ncarriage = \"pigeon\"\n";
        let found = findings(mets_text, &mets);
        // The third: it has no nodes.
        assert_eq!(found.len(), 3, "{found:#?}");
        let group_text = "schema = \"group/1\"\nname = \"g\"\n[session]\nprofile = \"layercast\"\npackets = 3\nrate = \"1 Mbps\"\n\
                          [[branch]]\nname = \"b\"\nloss = 2\ncolour = 3\n";
        let found = findings(group_text, &group);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert_eq!(findings("= no toml", &mets).len(), 1);
    }
}
