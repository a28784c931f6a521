//! `layercast sim --check`: all errors of a scenario that can be found, not only the first.

use std::path::Path;

use layercast_sim::group::scenario::{GroupScenario, is_group};
use layercast_sim::internet::scenario::{self as internet, is_internet};
use layercast_sim::scenario::Scenario;

use crate::failure::{Failure, Outcome};
use crate::{output, scenario};

/// Errors that are looked for at most: the later ones are often consequences of the first.
const MOST: usize = 20;

/// An error of a scenario.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Finding {
    line: Option<usize>,
    field: String,
    message: String,
    /// What to do, if the message does not say it.
    hint: Option<String>,
    /// Fields that the value is compared with.
    others: Vec<String>,
    /// The key of a line that cannot be read at all: a repair takes it out, and it is missing then.
    unread: Option<String>,
}

impl Finding {
    /// Whether it may be there only because the field of `other` was repaired.
    fn follows_from(&self, other: &Finding) -> bool {
        let unread = other.unread.as_deref();
        let is_unknown_name = self.message.contains("there is no ");
        is_unknown_name && gives_names(&other.field)
            || are_related(&self.field, &other.field)
            || unread.is_some_and(|key| self.field.rsplit('.').next() == Some(key))
            || self.others.iter().any(|it| are_related(it, &other.field))
    }
}

/// Whether a value decides which hosts, routers, links or TCP configurations there are: its repair may take away those that others name.
fn gives_names(field: &str) -> bool {
    let of_topology = field.strip_prefix("topology.");
    of_topology.is_some_and(|it| !it.contains('.'))
        || field.ends_with("].name")
        || field.starts_with("tcp.")
}

/// Whether two paths are those of one field, or of a table and a field of it.
fn are_related(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() {
        (one, other)
    } else {
        (other, one)
    };
    let rest = long.strip_prefix(short).filter(|_| !short.is_empty());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
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
    for finding in &found {
        let line = finding
            .line
            .map_or(String::new(), |line| format!(":{line}"));
        let path = path.display();
        let hint = finding.hint.iter().map(|hint| format!("\n  {hint}"));
        let hint: String = hint.collect();
        output::complain(&format!(
            "layercast: {path}{line}: {}{hint}",
            finding.message
        ));
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
        hint: scenario::remedy_located(&error.problem),
        field: error.field,
        ..Finding::default()
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
        hint: scenario::remedy(&error),
        others: error.compared_with().to_vec(),
        unread: None,
    })
}

/// All errors that `check` finds: each is repaired, so that the next one shows.
///
/// A repair puts the first example of the error message in place of the value, or takes the line out. An error that may
/// be there because of a repair is repaired too, but is no finding. The search ends where no repair helps.
fn findings(text: &str, check: &dyn Fn(&str) -> Option<Finding>) -> Vec<Finding> {
    let mut text = text.to_owned();
    // Of each error, whether it may be a consequence of a repair.
    let mut seen: Vec<(Finding, bool)> = Vec::new();
    // Lines behind which a repair has put another one, the latest last.
    let mut added: Vec<usize> = Vec::new();
    // Of each error, the line before all repairs.
    let mut lines: Vec<Option<usize>> = Vec::new();
    let mut next = check(&text);
    while let Some(mut finding) = next {
        if finding.field.is_empty() {
            finding.unread = key_of(&text, finding.line);
        }
        let follows = seen.iter().any(|(known, _)| finding.follows_from(known));
        let candidates = repairs(&text, &finding);
        let at = finding.line;
        let before = |line, &behind: &usize| line - usize::from(line > behind);
        lines.push(at.map(|line| added.iter().rev().fold(line, before)));
        seen.push((finding, follows));
        next = None;
        if seen.len() >= MOST {
            break;
        }
        let mut second_best = None;
        for repaired in candidates {
            let other = check(&repaired);
            let is_new = |it: &Finding| {
                let is_old =
                    |(known, _): &(Finding, bool)| known.field == it.field || known.line == it.line;
                !it.field.is_empty() && !seen.iter().any(is_old)
            };
            let follows = |it: &Finding| seen.iter().any(|(known, _)| it.follows_from(known));
            match &other {
                Some(it) if !is_new(it) => {}
                Some(it) if follows(it) => {
                    second_best.get_or_insert((repaired, other));
                }
                _ => {
                    second_best = Some((repaired, other));
                    break;
                }
            }
        }
        if let Some((repaired, other)) = second_best {
            if repaired.lines().count() > text.lines().count() {
                added.extend(at);
            }
            (text, next) = (repaired, other);
        }
    }
    let reported = seen
        .into_iter()
        .zip(lines)
        .filter(|((_, follows), _)| !follows);
    reported
        .map(|((finding, _), line)| Finding { line, ..finding })
        .collect()
}

/// The key of a line.
fn key_of(text: &str, line: Option<usize>) -> Option<String> {
    let line = text.lines().nth(line?.checked_sub(1)?)?;
    Some(line.split_once('=')?.0.trim().to_owned())
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
    let clips = match finding.field.ends_with(".clip") {
        true => other_clips(lines[index]),
        false => Vec::new(),
    };
    let clips = clips.iter().map(|line| with(line));
    example.into_iter().chain(clips).chain([with("")]).collect()
}

/// The line with a synthetic clip in place of a file: the rest of the scenario can be checked without the file.
fn other_clips(line: &str) -> Vec<String> {
    let found = line.find("clip").and_then(|at| {
        let open = at + line[at..].find('{')?;
        let close = open + line[open..].find('}')?;
        Some((&line[..open], &line[close + 1..]))
    });
    let Some((before, after)) = found else {
        return Vec::new();
    };
    // A synthetic clip needs a frame rate, which a trace has already and a video file may not have.
    let separators = [", frame_rate = 24", "\nframe_rate = 24", ""];
    let with = |rate| format!("{before}{{ synthetic = \"canyon\" }}{rate}{after}");
    separators.map(with).into()
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
        let unclosed = "name = \"m\"\nduration = \"10s\nnode = []\n";
        let found = findings(unclosed, &mets);
        assert!(found[0].message.contains("not TOML"), "{found:#?}");
        let missing = |it: &&Finding| it.field == "duration";
        assert_eq!(found.iter().find(missing), None, "{found:#?}");
    }

    #[test]
    fn one_wrong_line_is_one_finding_and_names_what_would_do() {
        let dumbbell = |run: &str, kind: &str, pairs: &str| {
            format!(
                "schema = \"internet/1\"\nname = \"d\"\n{run}\nduration = \"1s\"\n[topology]\nkind = {kind}\npairs = {pairs}\n\
                 access = {{ rate = \"1 Gbit/s\", delay = \"1ms\" }}\ntrunk = {{ rate = \"1 Mbit/s\", delay = \"1ms\" }}\n\
                 [[flow]]\nfrom = \"left2\"\nto = \"right2\"\n"
            )
        };
        let (run, kind) = ("[run]", "\"dumbbell\"");
        let all = |text: &str| findings(text, &|text| internetwork(text, Path::new("")));
        assert_eq!(all(&dumbbell(run, kind, "2")), []);
        for (text, says) in [
            // The names of the other hosts are gone with the repair.
            (
                dumbbell(run, kind, "0"),
                "topology.pairs: it is 0; expected 1 to ",
            ),
            (
                dumbbell("[[run]]", kind, "2"),
                "run: it is a list of tables; expected one table: [run] in place of [[run]]",
            ),
            (
                dumbbell(run, "1", "2"),
                "topology.kind: it is no text in quotes; expected \"dumbbell\", \"parking-lot\", ",
            ),
            // The flow that names it is right.
            (
                dumbbell("tcp.low = { ecn = \"l4s\" }\n[run]", kind, "2") + "tcp = \"low\"\n",
                "tcp.low.ecn: it is \"l4s\"; expected \"off\", \"rfc3168\" or \"dctcp\"; \"l4s\" is for variant = \"dctcp\"",
            ),
            (
                dumbbell(run, kind, "2").replace(
                    "1 Mbit/s\", ",
                    "1 Mbit/s\", discipline = { dualpi2 = { coupling = 2.5 } }, ",
                ),
                "topology.trunk.discipline.dualpi2.coupling: it is 2.5; expected a whole number from 1 to 10",
            ),
            (
                dumbbell(run, kind, "2").replace(
                    "left2\"\nto = \"right2",
                    "left{1..2}\"\nname = \"bulk\"\nto = \"right{1..2}",
                ),
                "flow[0].name: it is \"bulk\"; expected a name for each of its 2 flows, such as \"bulk{1..2}\", or none",
            ),
        ] {
            let found = all(&text);
            assert_eq!(found.len(), 1, "{found:#?}");
            assert!(found[0].message.starts_with(says), "{found:#?}");
        }
        let found = findings(
            "schema = \"mett\"\nname = \"m\"\nduration = \"10s\"\n",
            &mets,
        );
        assert!(found[0].message.contains("\"internet/1\""), "{found:#?}");
    }

    #[test]
    fn a_clip_that_is_missing_hides_no_other_error() {
        let text = r#"name = "m"
duration = "10s"
node = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]
[[link]]
a = "a"
b = "b"
rate = "10 Mbit/s"
efci = 3.0
[[flow]]
name = "f"
source = "a"
clip = { file = "no/such/clip.m1v" }
[[receiver]]
node = "b"
flow = "g"
"#;
        let found = findings(text, &mets);
        let lines: Vec<_> = found.iter().map(|it| it.line).collect();
        assert_eq!(lines, [Some(12), Some(8), Some(15)], "{found:#?}");
        assert!(found[0].message.starts_with("flow[0].clip: cannot read"));
        let hint = found[0].hint.as_deref().unwrap_or_default();
        assert!(hint.contains("ffmpeg"), "{found:#?}");
    }

    #[test]
    fn what_follows_from_a_repair_is_no_finding() {
        // The duration is repaired to one before the start of the flow.
        let text = r#"name = "m"
duration = "20 sec"
node = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]
[[link]]
a = "a"
b = "b"
rate = { fits = "nothing", level = 1 }
[[flow]]
name = "f"
source = "a"
clip = { synthetic = "canyon" }
frame_rate = 24
start = "19s"
[[receiver]]
node = "b"
flow = "f"
level = 7
"#;
        let found = findings(text, &mets);
        let fields: Vec<&str> = found.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(
            fields,
            ["duration", "receiver[0].level", "link[0].rate.fits"],
            "{found:#?}"
        );
        assert!(are_related("link[3].rate", "link[3].rate.fits"));
        assert!(!are_related("link[3]", "link[31]") && !are_related("", "link"));
    }
}
