//! How fast the simulator moves PDUs over a chain of three switches (four links).

#![allow(missing_docs, reason = "criterion_group! makes a public function")]
use std::ops::ControlFlow;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use layercast_core::Off;
use layercast_sim::scenario::Scenario;
use layercast_sim::{SimSummary, Simulation};

const CHAIN: &str = r#"
name = "chain"
duration = "31s"
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
    { name = "film", source = "source", clip = { synthetic = "canyon" }, frame_rate = 240, stop = "30s", delay_max = "300ms" },
]
receiver = [{ node = "sink", flow = "film" }]
"#;

fn chain(carriage: &str) -> Simulation {
    let text = format!("carriage = \"{carriage}\"\n{CHAIN}");
    let scenario = Scenario::from_toml(&text, Path::new("")).expect("the scenario is well-formed");
    Simulation::new(scenario.validate().expect("the scenario is valid"))
}

fn run(simulation: &Simulation) -> SimSummary {
    let summary = simulation.run(&mut Off, None, |_| ControlFlow::Continue(()));
    summary.expect("nothing is written, so nothing can fail")
}

fn hops(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain");
    group.sample_size(10);
    for (carriage, unit) in [("cells", "cell hops"), ("datagrams", "packet hops")] {
        let simulation = chain(carriage);
        let summary = run(&simulation);
        group.throughput(Throughput::Elements(match carriage {
            "cells" => summary.cell_hops,
            _ => summary.packet_hops,
        }));
        group.bench_function(unit, |b| b.iter(|| run(&simulation)));
    }
    group.finish();
}

criterion_group!(benches, hops);
criterion_main!(benches);
