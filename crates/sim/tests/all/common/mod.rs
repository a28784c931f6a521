//! What the tests of the simulator share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use layercast_core::Off;
use layercast_sim::scenario::Scenario;
use layercast_sim::{Outputs, SimSummary, Simulation};

/// The folder of the ready-made scenarios.
pub fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// A ready-made scenario.
pub fn ready_made(name: &str) -> Scenario {
    Scenario::load(&scenarios().join(name)).unwrap()
}

/// A scenario from its text.
pub fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text, Path::new("")).unwrap()
}

/// Runs a scenario without looking at it.
pub fn run(scenario: &Scenario) -> SimSummary {
    let network = scenario.validate().unwrap();
    Simulation::new(network)
        .run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(()))
        .unwrap()
}

/// Runs a scenario and captures all links.
pub fn capture(scenario: &Scenario) -> (SimSummary, Vec<u8>) {
    let mut pcap = Vec::new();
    let network = scenario.validate().unwrap();
    let simulation = Simulation::new(network);
    let outputs = Outputs {
        pcap: Some(&mut pcap),
        ..Outputs::default()
    };
    let summary = simulation
        .run(&mut Off, outputs, |_| ControlFlow::Continue(()))
        .unwrap();
    (summary, pcap)
}

/// The summary as it is printed.
pub fn json(summary: &SimSummary) -> String {
    serde_json::to_string(summary).unwrap()
}

/// A source, three switches in a row with a receiver at each, 20 s of Canyon.
pub const CHAIN: &str = r#"
name = "chain"
duration = "24s"
carriage = "datagrams"
node = [
    { name = "source", kind = "host" },
    { name = "one", kind = "switch" },
    { name = "two", kind = "switch" },
    { name = "three", kind = "switch" },
    { name = "near", kind = "host" },
    { name = "middle", kind = "host" },
    { name = "far", kind = "host" },
]
link = [
    { a = "source", b = "one", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "one", b = "two", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "two", b = "three", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "one", b = "near", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "two", b = "middle", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "three", b = "far", rate = "100 Mbit/s", delay = "1 ms" },
]
flow = [
    { name = "film", source = "source", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s", stop = "21s", delay_max = "300ms" },
]
receiver = [
    { node = "near", flow = "film" },
    { node = "middle", flow = "film" },
    { node = "far", flow = "film" },
]
"#;
