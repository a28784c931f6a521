//! Sealed media and tokens in a whole network.

use crate::common::{CHAIN, json, run, scenario};
use layercast_core::{Level, PerLayer};

const NONE: PerLayer<u64> = PerLayer {
    base: 0,
    e1: 0,
    e2: 0,
};

/// The chain, sealed; the receiver in the middle leaves at 9 s.
fn secured(carriage: &str, far: &str) -> String {
    CHAIN
        .replace(
            "carriage = \"datagrams\"",
            &format!("carriage = \"{carriage}\"\nsecurity = {{ tokens = true }}"),
        )
        .replace(
            "{ node = \"middle\", flow = \"film\" }",
            "{ node = \"middle\", flow = \"film\", leave = \"9s\" }",
        )
        .replace("{ node = \"far\", flow = \"film\" }", far)
}

const FAR: &str = "{ node = \"far\", flow = \"film\" }";

#[test]
fn a_new_key_when_somebody_leaves_costs_the_others_nothing() {
    for carriage in ["datagrams", "cells"] {
        let text = secured(carriage, FAR);
        let summary = run(&scenario(&text));
        for name in ["near", "far"] {
            let receiver = summary.receiver(name).unwrap();
            assert_eq!(
                (receiver.frames.base, receiver.lost, receiver.late),
                (40, NONE, 0),
                "{name}"
            );
            assert_eq!(receiver.received.last().unwrap().1, Level::FULL);
        }
        let flow = &summary.flows[0];
        assert_eq!(
            (flow.source.rekeys, flow.source.denied),
            (1, 0),
            "{carriage}"
        );
        assert_eq!(
            json(&summary),
            json(&run(&scenario(&text))),
            "the same bytes again"
        );
    }
}

#[test]
fn a_receiver_without_a_token_is_refused_and_disturbs_nobody() {
    let far = "{ node = \"far\", flow = \"film\", token = false }";
    let summary = run(&scenario(&secured("datagrams", far)));
    let refused = summary.receiver("far").unwrap();
    assert!(
        refused.refused.as_ref().unwrap().contains("token"),
        "{refused:?}"
    );
    assert_eq!(refused.frames, NONE);
    let near = summary.receiver("near").unwrap();
    assert_eq!((near.frames.base, near.lost), (40, NONE));
}

#[test]
fn a_source_that_restarts_is_played_again() {
    let fault = r#"
        [[fault]]
        at = "6s"
        kind = "kill"
        node = "source"
        [[fault]]
        at = "8s"
        kind = "restart"
        node = "source"
    "#;
    let summary = run(&scenario(&format!(
        "{}\n{fault}",
        secured("datagrams", FAR)
    )));
    let near = summary.receiver("near").unwrap();
    let again = near
        .series
        .iter()
        .filter(|sample| sample.t >= 12.0 && sample.rate_bps > 0);
    assert!(again.count() >= 8, "{:?}", near.series);
}
