//! Reading scenario files, with errors that point at the line.

use std::fs;
use std::path::{Path, PathBuf};

use layercast_core::Span;
use layercast_sim::internet::scenario as internet;
use layercast_sim::scenario::{ClipSpec, Network, Scenario, ScenarioError};
use layercast_transport::mets::ParityConfig;

use crate::failure::Failure;

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

/// What `--protect-base` puts in place of what a scenario says: parities, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectBase(pub Option<ParityConfig>);

/// Reads the scenario at `path`; relative paths of clips start at the working directory.
pub fn load(path: &Path, instead: Override) -> Result<Scenario, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, "read", &error))?;
    let mut scenario =
        Scenario::from_toml(&text, Path::new("")).map_err(|error| explain(path, &text, &error))?;
    scenario.seed = instead.seed.unwrap_or(scenario.seed);
    if let Some(limit) = instead.at_most {
        scenario.duration = scenario.duration.min(limit);
    }
    if let Some(ProtectBase(parities)) = instead.protect_base {
        for flow in &mut scenario.flows {
            flow.protect_base = parities;
        }
    }
    Ok(scenario)
}

/// The clip files that `scenario` names but that do not exist.
fn missing_clips(scenario: &Scenario) -> Vec<PathBuf> {
    let files = scenario.flows.iter().filter_map(|flow| match &flow.clip {
        ClipSpec::File(file) | ClipSpec::Trace(file) => Some(scenario.base_dir.join(file)),
        ClipSpec::Synthetic(_) => None,
    });
    files.filter(|file| !file.exists()).collect()
}

/// The folder of the clips that `make clips` makes.
const DEMO_CLIPS: &str = "target/demo";

/// Refuses a scenario, which was read from `path`, if a clip of it is missing; names the command that makes the clip.
///
/// # Errors
/// A file of a clip does not exist.
pub fn check_clips(path: &Path, scenario: &Scenario) -> Result<(), Failure> {
    let missing = missing_clips(scenario);
    let Some(clip) = missing.first() else {
        return Ok(());
    };
    let shown = clip.display();
    // The file is read again for the line of the field.
    let text = fs::read_to_string(path).unwrap_or_default();
    let name = shown.to_string();
    let line = text.lines().position(|line| line.contains(&name));
    let failure = at_line(
        path,
        line.map(|line| line + 1),
        &format!("the clip {shown} does not exist"),
    );
    let here = "relative paths of clips start at the working directory";
    Err(failure.hint(match clip.starts_with(DEMO_CLIPS) {
        true => format!("`make clips`, in the root of the repository, makes it; {here}"),
        false => format!(
            "{here}; this makes a clip: ffmpeg -i any.mp4 -an -c:v mpeg1video -g 12 -bf 2 {shown}"
        ),
    }))
}

/// An error of the scenario at `path` as one line that starts with the place.
pub fn explain(path: &Path, text: &str, error: &ScenarioError) -> Failure {
    at_line(path, error.line(text), &error.message())
}

/// The same of a scenario of an internetwork or a group.
pub fn explain_located(path: &Path, text: &str, error: internet::ScenarioError) -> Failure {
    let error = error.located(text);
    at_line(path, error.line, &error.message())
}

fn at_line(path: &Path, line: Option<usize>, message: &str) -> Failure {
    let line = line.map_or(String::new(), |line| format!(":{line}"));
    Failure::new(format!("{}{line}: {message}", path.display()))
}

/// What `scenario`, which was read from `path`, means for every machine.
pub fn resolve(path: &Path, scenario: &Scenario) -> Result<Network, Failure> {
    check_clips(path, scenario)?;
    let network = scenario.validate();
    network.map_err(|error| {
        // The file is read again for the line of the field.
        let text = fs::read_to_string(path).unwrap_or_default();
        explain(path, &text, &error)
    })
}
