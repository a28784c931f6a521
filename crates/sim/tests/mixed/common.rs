//! Scenarios of the tests.

use std::path::{Path, PathBuf};

use layercast_mets::ReceiverSummary;
use layercast_sim::internet::scenario::{Scenario, ScenarioError};
use layercast_sim::internet::{Internet, MetsReport, Report};

/// The folder of the ready-made scenarios.
pub fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// A ready-made scenario.
pub fn ready_made(name: &str) -> Scenario {
    let path = scenarios().join(format!("internet/{name}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    Scenario::from_toml(&text, &scenarios()).unwrap()
}

/// The report of a run.
pub fn run(scenario: &Scenario) -> Report {
    let network = scenario.resolve().unwrap();
    Internet::new(&network).unwrap().run(&mut ())
}

/// The report of the METS nodes.
pub fn mets(report: &Report) -> &MetsReport {
    report.mets.as_ref().expect("there are METS nodes")
}

/// What a receiver saw.
pub fn receiver<'r>(report: &'r Report, name: &str) -> &'r ReceiverSummary {
    let flows = mets(report).flows.iter();
    let mut receivers = flows.flat_map(|flow| &flow.receivers);
    receivers.find(|it| it.name == name).expect("a receiver")
}

/// The drops of a link.
pub fn drops(report: &Report, link: &str) -> u64 {
    let queue = report.queues.iter().find(|queue| queue.name == link);
    let queue = queue.expect("a link");
    queue.dropped_full + queue.dropped_red
}

/// The error of a scenario.
pub fn error(text: &str) -> ScenarioError {
    let scenario = Scenario::from_toml(text, &scenarios());
    let resolved = scenario.and_then(|scenario| scenario.resolve());
    resolved.expect_err("it is wrong").located(text)
}
