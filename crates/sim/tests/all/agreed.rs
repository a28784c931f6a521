//! What a flow promises its receivers travels with it, and a monitor compares (specs/user-to-user-qos.md 2.4).

use std::ops::ControlFlow;

use layercast_core::{Contract, Off, Term, Time, Zone};
use layercast_monitor::{ConnectionReport, Direction, MonitorConfig, Watching};
use layercast_sim::{Outputs, Simulation};

use crate::common::{CHAIN, scenario};

/// The last report of a receiver, of a run in which `more` happens; what monitors say of `contract` is compared, if it is not empty.
fn watched(receiver: &str, more: &str, contract: Contract) -> ConnectionReport {
    let scenario = scenario(&format!("{CHAIN}\n{more}"));
    let run = |observer: &mut (dyn layercast_core::Observer + Send)| {
        let network = scenario.validate().unwrap();
        let end = Time::ZERO + network.duration;
        let mut summary = Simulation::new(network)
            .run(observer, Outputs::default(), |_| ControlFlow::Continue(()))
            .unwrap();
        summary.wall_seconds = 0.0;
        (serde_json::to_value(&summary).unwrap(), end)
    };
    let mut watching = Watching::new(MonitorConfig::default(), contract).unwrap();
    let (with, end) = run(&mut watching);
    assert_eq!(with, run(&mut Off).0, "a monitor changes no result");
    let mut nodes = watching.finish(end);
    let node = nodes.remove(receiver).unwrap();
    node.reports.last().unwrap().clone()
}

fn agreed(report: &ConnectionReport) -> [Option<f64>; 4] {
    let contract = report.direction(Direction::In).contract;
    layercast_core::Parameter::ALL.map(|it| Some(contract.term(it)?.agreed))
}

#[test]
fn the_bounds_of_the_flow_are_what_its_receivers_are_held_to() {
    let report = watched("far", "", Contract::default());
    let [throughput, delay, jitter, loss] = agreed(&report);
    assert_eq!((throughput, jitter, loss), (None, None, Some(0.01)));
    let quality = report.quality(Direction::In).unwrap();
    let judged = quality.delay_s.unwrap();
    assert_eq!((Some(judged.agreed), judged.zone), (delay, Zone::Green));
    assert_eq!(quality.error_rate.unwrap().measured, 0.0);
}

#[test]
fn a_change_of_the_flow_changes_what_its_receivers_are_held_to() {
    let change = "[[request]]\nat = \"4s\"\nflow = \"film\"\noption = { flow_spec = { delay_max_ms = 1700 } }";
    let [before, after] = ["", change].map(|it| agreed(&watched("far", it, Contract::default())));
    assert_ne!(before[1], Some(1.7));
    assert_eq!(after, [None, Some(1.7), None, Some(0.01)]);
}

#[test]
fn the_contract_of_an_experiment_is_in_place_of_that_of_the_flow() {
    let contract = Contract {
        jitter: Some(Term::agreed(0.04)),
        ..Contract::default()
    };
    let report = watched("far", "", contract);
    assert_eq!(agreed(&report), [None, None, Some(0.04), None]);
}
