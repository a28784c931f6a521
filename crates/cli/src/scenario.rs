//! Reading scenario files, with errors that point at the line.

use std::io::ErrorKind;
use std::path::Path;

use layercast_core::Span;
use layercast_core::quantity::Quantity;
use layercast_mets::ParityConfig;
use layercast_sim::file;
use layercast_sim::group::scenario::is_group;
use layercast_sim::internet::scenario as internet;
use layercast_sim::scenario::{Network, Scenario, ScenarioError};

use crate::failure::{Failure, Outcome};
use crate::input;

/// What the command line puts in place of what the scenario says.
#[derive(Clone, Copy, Default, Debug)]
pub struct Override {
    /// Seed of the run.
    pub seed: Option<u64>,
    /// The run is no longer than this.
    pub at_most: Option<Span>,
    /// How the base layers of all flows are protected.
    pub protect_base: Option<ProtectBase>,
}

impl Override {
    /// How long a scenario of this duration runs; a note says if that is less than asked for.
    pub fn shorten(&self, duration: Span) -> Span {
        let Some(most) = self.at_most else {
            return duration;
        };
        if most > duration {
            eprintln!(
                "note: the scenario ends after {}, before the {} asked for; its file has the duration",
                duration.write(),
                most.write()
            );
        }
        duration.min(most)
    }
}

/// What `--protect-base` puts in place of what a scenario says: parities, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectBase(pub Option<ParityConfig>);

/// What file is expected.
const KIND: &str = "a scenario or tree is a short text in TOML, which names clips, traces and distributions by their paths";

/// The text of the scenario file at `path`, or of standard input.
///
/// # Errors
/// It cannot be read, is no regular file, or is too large.
pub fn read(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        let (octets, _) = input::begin(path, file::MAX_TEXT_FILE + 1)?;
        if octets.len() as u64 > file::MAX_TEXT_FILE {
            let what = format!(
                "{}: more than {} MiB came",
                path.display(),
                file::MAX_TEXT_FILE >> 20
            );
            return Err(Failure::new(what).hint(format!(
                "{KIND}: check what the program before the pipe writes"
            )));
        }
        return file::text(octets).map_err(|error| at_line(path, None, &error.to_string()));
    }
    let text = file::read_text(path, file::MAX_TEXT_FILE);
    text.map_err(|error| Failure::text(path, KIND, &error))
}

/// Reads the scenario that was read from `path`; relative paths of clips start at the working directory.
pub fn load((path, text): (&Path, &str), instead: Override) -> Result<Scenario, Failure> {
    let mut scenario =
        Scenario::from_toml(text, Path::new("")).map_err(|error| explain(path, text, &error))?;
    scenario.seed = instead.seed.unwrap_or(scenario.seed);
    scenario.duration = instead.shorten(scenario.duration);
    if let Some(ProtectBase(parities)) = instead.protect_base {
        for flow in &mut scenario.flows {
            flow.protect_base = parities;
        }
    }
    Ok(scenario)
}

/// Tables of the other kinds of scenarios that those of METS do not have.
const TABLES: [(&str, &[&str]); 2] = [
    ("group/1", &["session", "branch"]),
    (
        "internet/1",
        &["router", "lan", "topology", "tcp", "workload"],
    ),
];

/// Fails if the text is that of another kind of scenario without its line `schema`, which would be read as one of METS.
///
/// # Errors
/// The line of the first such table, and the line that is missing.
pub fn names_its_schema(path: &Path, text: &str) -> Outcome {
    if internet::is_internet(text) || is_group(text) {
        return Ok(());
    }
    // A byte order mark is no part of the first key.
    let text = text.trim_start_matches('\u{feff}');
    let (tables, _) = toml::de::DeTable::parse_recoverable(text);
    if let Some((key, value)) = tables.get_ref().get_key_value("schema") {
        let before = text[..key.span().start].matches('\n').count();
        let word = text[value.span()].lines().next().unwrap_or_default();
        let word: String = word.chars().take(60).collect();
        let message = format!(
            "schema: it is {word}; expected \"internet/1\" or \"group/1\"; a scenario of layered flows has none"
        );
        return Err(at_line(path, Some(before + 1), &message));
    }
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        // Keys after the first header belong to a table.
        let header = line.starts_with('[');
        is_inside |= header;
        if is_inside && !header {
            continue;
        }
        let key = line.trim_start_matches('[');
        let key = key.split(|it: char| !it.is_alphanumeric()).next();
        let is_of = |tables: &[&str]| key.is_some_and(|key| tables.contains(&key));
        if let Some((schema, _)) = TABLES.iter().find(|(_, tables)| is_of(tables)) {
            let message = format!("scenarios of METS have no \"{}\"", key.unwrap_or_default());
            let remedy = format!(
                "if this is a scenario of {schema}, it starts with the line schema = \"{schema}\""
            );
            return Err(at_line(path, Some(number + 1), &message).hint(remedy));
        }
    }
    Ok(())
}

/// The folder of the clips that `make clips` makes.
const DEMO_CLIPS: &str = "target/demo";

/// What to do about a clip of a scenario that cannot be read.
pub fn remedy(error: &ScenarioError) -> Option<String> {
    let ScenarioError::Read { path, error, .. } = error else {
        return None;
    };
    let here = "relative paths of clips start at the working directory";
    let shown = path.display();
    Some(match error.kind() {
        ErrorKind::NotFound if path.starts_with(DEMO_CLIPS) => {
            format!("`make clips`, in the root of the repository, makes it; {here}")
        }
        ErrorKind::NotFound => format!(
            "{here}; this makes a clip: ffmpeg -i any.mp4 -an -c:v mpeg1video -g 12 -bf 2 {shown}"
        ),
        _ => Failure::remedy(path, "read", error),
    })
}

/// What to do about a file that a scenario of an internetwork names and that cannot be read.
pub fn remedy_located(problem: &internet::Problem) -> Option<String> {
    match problem {
        internet::Problem::Read { path, error } => Some(Failure::remedy(path, "read", error)),
        _ => None,
    }
}

/// An error of the scenario at `path` as one line that starts with the place.
pub fn explain(path: &Path, text: &str, error: &ScenarioError) -> Failure {
    hinted(
        at_line(path, error.line(text), &error.message()),
        remedy(error),
    )
}

/// The same of a scenario of an internetwork or a group.
pub fn explain_located(path: &Path, text: &str, error: internet::ScenarioError) -> Failure {
    let error = error.located(text);
    hinted(
        at_line(path, error.line, &error.message()),
        remedy_located(&error.problem),
    )
}

fn hinted(failure: Failure, remedy: Option<String>) -> Failure {
    match remedy {
        Some(remedy) => failure.hint(remedy),
        None => failure,
    }
}

fn at_line(path: &Path, line: Option<usize>, message: &str) -> Failure {
    let line = line.map_or(String::new(), |line| format!(":{line}"));
    Failure::new(format!("{}{line}: {message}", path.display()))
}

/// What `scenario`, which was read from `path`, means for every machine.
pub fn resolve((path, text): (&Path, &str), scenario: &Scenario) -> Result<Network, Failure> {
    scenario
        .validate()
        .map_err(|error| explain(path, text, &error))
}
