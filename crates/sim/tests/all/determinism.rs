//! The same scenario and seed give the same bytes, whatever else is going on.

use crate::common;

use std::ops::ControlFlow;

use crate::common::{CHAIN, capture, json, ready_made, run, scenario};
use layercast_core::{Observer, Off, Record, Span, Time};
use layercast_sim::scenario::{HostChoice, JitterSpec, LossSpec, Scenario};
use layercast_sim::{Outputs, SimSummary, Simulation};
use layercast_wire::Carriage;

/// A scenario in which everything random is on.
fn rough(carriage: Carriage) -> Scenario {
    let mut scenario = scenario(CHAIN);
    scenario.carriage = carriage;
    scenario.host = HostChoice::Pentium1996;
    for flow in &mut scenario.flows {
        flow.random_phase = true;
    }
    for link in &mut scenario.links {
        link.loss = Some(LossSpec::Bernoulli(0.001));
        link.jitter = Some(JitterSpec::Uniform(layercast_core::Span::from_ms(1)));
        link.duplicate = 0.001;
    }
    scenario
}

#[test]
fn two_runs_give_the_same_summary_and_the_same_capture() {
    for carriage in [Carriage::Cells, Carriage::Datagrams] {
        let scenario = rough(carriage);
        let (first, second) = (capture(&scenario), capture(&scenario));
        assert_eq!(json(&first.0), json(&second.0));
        assert!(first.1 == second.1, "captures differ");
        assert!(first.0.receiver("far").unwrap().frames.base > 5);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let mut scenario = rough(Carriage::Datagrams);
    let first = run(&scenario);
    scenario.seed += 1;
    assert_ne!(first.flows, run(&scenario).flows);
}

#[test]
fn going_through_bytes_at_every_hop_changes_nothing() {
    for carriage in [Carriage::Cells, Carriage::Datagrams] {
        let mut scenario = rough(carriage);
        let values = run(&scenario);
        scenario.wire_check = true;
        let mut bytes = run(&scenario);
        assert_eq!(bytes.wire_errors, 0);
        assert!(std::mem::take(&mut bytes.signal_octets) > 0);
        assert_eq!(json(&values), json(&bytes));
    }
}

#[test]
fn neither_observer_nor_capture_changes_the_run() {
    struct Count(u64);
    impl Observer for Count {
        fn record(&mut self, _: &Record<'_>) {
            self.0 += 1;
        }
    }
    let scenario = rough(Carriage::Datagrams);
    let mut count = Count(0);
    let simulation = Simulation::new(scenario.validate().unwrap());
    let observed = simulation
        .run(
            &mut count,
            Outputs::default(),
            |_| ControlFlow::Continue(()),
        )
        .unwrap();
    assert!(count.0 > 1_000, "{}", count.0);
    assert_eq!(json(&observed), json(&run(&scenario)));
    assert_eq!(json(&observed), json(&capture(&scenario).0));
}

#[test]
fn randomness_elsewhere_does_not_move_what_it_does_not_touch() {
    let mut plain = scenario(CHAIN);
    plain.links[0].jitter = Some(JitterSpec::Uniform(layercast_core::Span::from_ms(1)));
    let mut lossy = plain.clone();
    let last = lossy.links.last_mut().unwrap();
    last.loss = Some(LossSpec::Bernoulli(0.01));
    let (plain, lossy) = (run(&plain), run(&lossy));
    assert_ne!(plain.receiver("far"), lossy.receiver("far"));
    for name in ["near", "middle"] {
        assert_eq!(plain.receiver(name), lossy.receiver(name), "{name}");
    }
}

#[test]
fn a_scenario_survives_being_written_and_read() {
    for name in [
        "quickstart.toml",
        "lossy.toml",
        "e5.toml",
        "demo.toml",
        "renditions.toml",
    ] {
        let scenario = ready_made(name);
        let text = toml::to_string(&scenario).unwrap();
        let again = common::scenario(&text);
        assert_eq!(scenario, again, "{name}");
        let text = serde_json::to_string(&scenario).unwrap();
        let again = Scenario::from_json(&text, std::path::Path::new("")).unwrap();
        assert_eq!(scenario, again, "{name}");
    }
}

/// Figures of one run, so that another machine, compiler or profile that computes differently
/// does not go unnoticed.
#[test]
fn the_quickstart_gives_what_it_always_gave() {
    let summary = run(&ready_made("quickstart.toml"));
    let narrow = summary.receiver("narrow").unwrap();
    let wide = summary.receiver("wide").unwrap();
    assert_eq!(
        (wide.frames.base, wide.frames.e1, wide.frames.e2),
        (20, 60, 160)
    );
    assert_eq!(
        (narrow.frames.base, narrow.frames.e1, narrow.frames.e2),
        (20, 60, 0)
    );
    assert_eq!((wide.lost, wide.late), Default::default());
    assert_eq!((narrow.lost, narrow.late), Default::default());
}

#[test]
fn a_run_broken_off_is_the_beginning_of_the_whole_one() {
    let scenario = scenario(CHAIN);
    let (whole, all) = capture(&scenario);
    let mut part = Vec::new();
    let simulation = Simulation::new(scenario.validate().unwrap());
    let until_3_s = |now: Time| match now >= Time::ZERO + Span::from_secs(3) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let summary = simulation
        .run(
            &mut Off,
            Outputs {
                pcap: Some(&mut part),
                ..Outputs::default()
            },
            until_3_s,
        )
        .unwrap();
    assert_eq!((summary.sim_seconds, whole.sim_seconds), (3.0, 24.0));
    let frames = |summary: &SimSummary| summary.flows[0].receivers[0].frames.base;
    assert!((1..frames(&whole) / 4).contains(&frames(&summary)));
    assert!(part.len() > 10_000 && all.starts_with(&part));
}
