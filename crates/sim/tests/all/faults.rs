//! Nodes and links that fail, and come back.

use crate::common::{CHAIN, run, scenario};
use layercast_core::Level;
use layercast_sim::SimSummary;

fn with_faults(faults: &str) -> SimSummary {
    run(&scenario(&format!("{CHAIN}\n{faults}")))
}

/// Seconds in which the receiver played nothing while the film ran.
fn silent_seconds(summary: &SimSummary, name: &str) -> Vec<f64> {
    let receiver = summary.receiver(name).unwrap();
    let running = receiver
        .series
        .iter()
        .filter(|sample| sample.t >= 2.0 && sample.t < 20.0);
    running
        .filter(|sample| sample.rate_bps == 0)
        .map(|sample| sample.t)
        .collect()
}

#[test]
fn without_faults_everybody_gets_everything() {
    let summary = with_faults("");
    for name in ["near", "middle", "far"] {
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(receiver.frames.base, 40, "{name}");
        assert_eq!((receiver.lost, receiver.late), Default::default(), "{name}");
        assert_eq!(receiver.received.last().unwrap().1, Level::FULL, "{name}");
    }
}

#[test]
fn a_killed_switch_takes_down_only_what_is_behind_it_and_serves_again_after_a_restart() {
    let summary = with_faults(
        r#"
        [[fault]]
        at = "6s"
        kind = "kill"
        node = "two"
        [[fault]]
        at = "9s"
        kind = "restart"
        node = "two"
        "#,
    );
    let near = summary.receiver("near").unwrap();
    assert_eq!(
        (near.frames.base, near.lost, near.late),
        (40, Default::default(), 0)
    );
    for name in ["middle", "far"] {
        let silent = silent_seconds(&summary, name);
        assert!(
            silent.contains(&7.0) && silent.contains(&8.0),
            "{name} {silent:?}"
        );
        assert!(
            silent.iter().all(|t| (6.0..12.0).contains(t)),
            "{name} {silent:?}"
        );
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(receiver.received.last().unwrap().1, Level::FULL, "{name}");
        assert_eq!(receiver.late_base, 0, "{name}");
    }
}

#[test]
fn a_killed_receiver_does_not_disturb_the_others_and_its_branch_expires() {
    let summary = with_faults(
        r#"
        [[fault]]
        at = "6s"
        kind = "kill"
        node = "far"
        "#,
    );
    for name in ["near", "middle"] {
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(
            (receiver.frames.base, receiver.lost, receiver.late),
            (40, Default::default(), 0)
        );
    }
    // Three eras later nothing goes that way any more.
    let units = |node: &str, port: &str| {
        let queue = summary
            .queues
            .iter()
            .find(|q| q.node == node && q.port == port);
        queue.unwrap().queue.units_out as f64
    };
    let ratio = units("two", "three") / units("one", "two");
    assert!((0.3..0.5).contains(&ratio), "{ratio}");
}

#[test]
fn a_restarted_receiver_joins_again() {
    let summary = with_faults(
        r#"
        [[fault]]
        at = "6s"
        kind = "kill"
        node = "far"
        [[fault]]
        at = "8s"
        kind = "restart"
        node = "far"
        "#,
    );
    let far = summary.receiver("far").unwrap();
    assert!((34..40).contains(&far.frames.base), "{:?}", far.frames);
    assert_eq!(far.received.last().unwrap().1, Level::FULL);
}

#[test]
fn a_restarted_source_starts_the_flow_anew() {
    let summary = with_faults(
        r#"
        [[fault]]
        at = "6s"
        kind = "restart"
        node = "source"
        "#,
    );
    for name in ["near", "middle", "far"] {
        let silent = silent_seconds(&summary, name);
        assert!(
            silent.iter().all(|t| (6.0..11.0).contains(t)),
            "{name} {silent:?}"
        );
    }
}

#[test]
fn a_link_that_comes_back_carries_the_flow_again() {
    let summary = with_faults(
        r#"
        [[fault]]
        at = "6s"
        kind = "link_down"
        link = ["two", "one"]
        [[fault]]
        at = "8s"
        kind = "link_up"
        link = ["one", "two"]
        "#,
    );
    let near = summary.receiver("near").unwrap();
    assert_eq!((near.frames.base, near.lost.base), (40, 0));
    for name in ["middle", "far"] {
        let silent = silent_seconds(&summary, name);
        assert!(silent.contains(&7.0), "{name} {silent:?}");
        assert!(
            silent.iter().all(|t| (6.0..11.0).contains(t)),
            "{name} {silent:?}"
        );
    }
}
