//! Frame-serial pacing and staggered phases in the simulator (specs/mets.md 8): many flows into one slow
//! host.

use crate::common::{run, scenario};
use layercast_core::CellRate;
use layercast_sim::SimSummary;
use layercast_sim::scenario::{Scenario, Warning};

/// `flows` Canyon flows at 12 frames/s for 20 s, all started in step unless staggered.
fn canyons(flows: u32, flow: &str, receiver: &str) -> SimSummary {
    run(&setup(flows, flow, receiver))
}

fn setup(flows: u32, flow: &str, receiver: &str) -> Scenario {
    let mut text = String::from(
        r#"
        name = "canyons"
        duration = "25s"
        carriage = "cells"
        admission = false
        host = "1996"
        node = [
            { name = "atc", kind = "host" },
            { name = "chuff", kind = "switch" },
            { name = "dwp", kind = "host" },
        ]
        link = [
            { a = "atc", b = "chuff", rate = "100 Mbit/s" },
            { a = "chuff", b = "dwp", rate = "100 Mbit/s" },
        ]
        "#,
    );
    for n in 0..flows {
        text += &format!(
            r#"
            [[flow]]
            name = "f{n}"
            source = "atc"
            clip = {{ synthetic = "canyon" }}
            frame_rate = 12
            start = "2s"
            stop = "22s"
            delay_max = "1s"
            {flow}
            [[receiver]]
            name = "r{n}"
            node = "dwp"
            flow = "f{n}"
            {receiver}
            "#
        );
    }
    scenario(&text)
}

/// Share of the frames sent that were not played.
fn lost(summary: &SimSummary) -> f64 {
    let (mut sent, mut played) = (0, 0);
    for flow in &summary.flows {
        sent += flow.source.sent.iter().map(|(_, n)| n).sum::<u64>();
        played += flow.receivers[0].frames.iter().map(|(_, n)| n).sum::<u64>();
    }
    1.0 - played as f64 / sent as f64
}

#[test]
fn whole_frames_at_the_receivers_rate_lose_less_than_buckets_and_than_nothing() {
    let serial = lost(&canyons(8, "shaping = \"serial\"", ""));
    let bucket = lost(&canyons(8, "shaping = { b = 4, p = 1 }", ""));
    let off = lost(&canyons(8, "shaping = \"off\"", ""));
    assert!(
        serial < 0.7 * bucket && serial < 0.7 * off,
        "{serial} {bucket} {off}"
    );
}

#[test]
fn without_the_receivers_rate_serial_pacing_is_the_bucket() {
    let unknown = canyons(2, "shaping = \"serial\"", "drain = \"0 cells/s\"");
    let bucket = canyons(
        2,
        "shaping = { peak_factor = 2.4 }",
        "drain = \"0 cells/s\"",
    );
    assert_eq!(unknown.flows, bucket.flows);
    let known = canyons(2, "shaping = \"serial\"", "");
    assert_ne!(known.flows, bucket.flows);
}

#[test]
fn staggered_flows_lose_less_than_flows_in_step() {
    let step = lost(&canyons(6, "shaping = \"off\"", ""));
    let staggered = lost(&canyons(6, "shaping = \"off\"\nstagger = true", ""));
    assert!(staggered < step, "{staggered} {step}");
}

#[test]
fn buckets_that_let_through_more_than_the_receiver_takes_in_are_warned_of() {
    let warnings = |flows, shaping: &str| {
        let network = setup(flows, shaping, "").validate().unwrap();
        network.warnings()
    };
    // Nine tenths of a cell in 56 us are 16 071 cells/s.
    assert_eq!(warnings(4, "shaping = { b = 4, p = 1 }"), []);
    let above = warnings(5, "shaping = { b = 4, p = 1 }");
    let expected = Warning::AboveDrain {
        node: "dwp".into(),
        flows: 5,
        rate: CellRate(20_000),
        drain: CellRate(16_071),
    };
    assert_eq!(above, [expected]);
    assert!(above[0].to_string().contains("16071 cells/s"));
    assert_eq!(warnings(8, "shaping = \"serial\""), []);
    assert_eq!(warnings(8, "").len(), 1);
}
