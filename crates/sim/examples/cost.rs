//! A run of fixed length, for counts of instructions (`scripts/cost.sh`); prints what moved, as JSON.
//!
//! Usage: cost dumbbell|xunet|chain-cells|chain-datagrams

#[path = "../benches/common/chain.rs"]
mod chain;

use std::path::{Path, PathBuf};

use layercast_core::Span;
use layercast_sim::internet::{Internet, scenario};

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let (events, packet_hops, cell_hops) = match what.as_str() {
        "dumbbell" => internet("dumbbell", 10),
        "xunet" => internet("xunet", 100),
        "chain-cells" => chain("cells"),
        "chain-datagrams" => chain("datagrams"),
        _ => {
            eprintln!("usage: cost dumbbell|xunet|chain-cells|chain-datagrams");
            std::process::exit(2);
        }
    };
    let moved = serde_json::json!({
        "run": what, "events": events, "packet_hops": packet_hops, "cell_hops": cell_hops,
    });
    println!("{moved}");
}

/// The first seconds of a ready-made internetwork.
fn internet(name: &str, seconds: u64) -> (u64, u64, u64) {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/internet");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).expect("the scenario");
    let scenario = scenario::Scenario::from_toml(&text, &folder).expect("it is well-formed");
    let mut network = scenario.resolve().expect("it is valid");
    network.duration = Span::from_secs(seconds);
    let report = Internet::new(&network).expect("a network").run(&mut ());
    (report.events, report.packet_hops, report.cell_hops)
}

/// Layered media over the chain.
fn chain(carriage: &str) -> (u64, u64, u64) {
    let summary = chain::run(&chain::chain(carriage, 5));
    (summary.events, summary.packet_hops, summary.cell_hops)
}
