//! Layered media over a chain of three switches (four links).

use std::ops::ControlFlow;
use std::path::Path;

use layercast_core::Off;
use layercast_sim::scenario::Scenario;
use layercast_sim::{Outputs, SimSummary, Simulation};

/// A source, three switches in a row, a receiver.
const CHAIN: &str = r#"
name = "chain"
node = [
    { name = "source", kind = "host" },
    { name = "one", kind = "switch" },
    { name = "two", kind = "switch" },
    { name = "three", kind = "switch" },
    { name = "sink", kind = "host" },
]
link = [
    { a = "source", b = "one", rate = "1 Gbit/s", delay = "10 us" },
    { a = "one", b = "two", rate = "1 Gbit/s", delay = "10 us" },
    { a = "two", b = "three", rate = "1 Gbit/s", delay = "10 us" },
    { a = "three", b = "sink", rate = "1 Gbit/s", delay = "10 us" },
]
flow = [
    { name = "film", source = "source", clip = { synthetic = "canyon" }, frame_rate = 240, stop = "STOPs", delay_max = "300ms" },
]
receiver = [{ node = "sink", flow = "film" }]
"#;

/// The chain, with this many seconds of media.
pub fn chain(carriage: &str, seconds: u64) -> Simulation {
    let text = format!(
        "carriage = \"{carriage}\"\nduration = \"{}s\"\n{}",
        seconds + 1,
        CHAIN.replace("STOP", &seconds.to_string())
    );
    let scenario = Scenario::from_toml(&text, Path::new("")).expect("the scenario is well-formed");
    Simulation::new(scenario.validate().expect("the scenario is valid"))
}

/// Runs it to its end.
pub fn run(simulation: &Simulation) -> SimSummary {
    let summary = simulation.run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(()));
    summary.expect("nothing is written, so nothing can fail")
}
