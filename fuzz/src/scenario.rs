//! Scenarios of internetworks: whatever a file says, it is a network that runs, or an error.

use std::path::Path;

use layercast_core::{Span, Time};
use layercast_sim::internet::Internet;
use layercast_sim::internet::scenario::Scenario;

/// A scenario as TOML: written and read again it says the same; what it describes is built, and runs.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Scenario::from_json(text, Path::new("."));
    let Ok(scenario) = Scenario::from_toml(text, Path::new(".")) else {
        return;
    };
    let written = scenario.to_toml().expect("what was read can be written");
    let again = Scenario::from_toml(&written, Path::new(".")).expect("and be read again");
    assert_eq!(again, scenario);
    if !is_small(&scenario, text) {
        return;
    }
    let resolved = scenario.resolve();
    assert_eq!(again.resolve().is_ok(), resolved.is_ok());
    let Ok(mut network) = resolved else {
        return;
    };
    network.duration = network.duration.min(Span::from_secs(5));
    network.warm_up = network.warm_up.min(Span::from_secs(1));
    network.budget.events = network.budget.events.min(20_000);
    let mut internet = Internet::new(&network).expect("what was checked can be built");
    let report = internet.run(&mut ());
    assert!(internet.progress().now <= Time::ZERO + network.duration);
    let rates = report.flows.iter().map(|flow| flow.goodput_bps);
    assert!(rates.into_iter().all(f64::is_finite));
}

/// Whether it asks for few nodes: a million are allowed, and take their time.
fn is_small(scenario: &Scenario, text: &str) -> bool {
    let sizes = scenario.topology.iter().flat_map(|it| {
        let sizes = [it.pairs, it.hops, it.k, it.hosts, it.depth, it.fanout];
        sizes.into_iter().chain([it.workstations, it.servers])
    });
    // Ranges of names: to 99, and two in a line.
    let digits = |to: &str| to.bytes().take_while(u8::is_ascii_digit).count();
    let short = |line: &str| {
        let ends: Vec<usize> = line
            .split("..")
            .skip(1)
            .map(|to| digits(to.trim()))
            .collect();
        ends.len() <= 2 && ends.into_iter().all(|digits| digits <= 2)
    };
    sizes.flatten().all(|size| size <= 6) && text.lines().all(short)
}
