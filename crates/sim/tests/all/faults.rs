//! Nodes and links that fail, and come back.

use std::ops::ControlFlow;

use crate::common::{CHAIN, run, scenario};
use layercast_core::{Cause, Level, Observer, Record, TraceEvent};
use layercast_sim::{Outputs, SimSummary, Simulation};
use proptest::prelude::*;

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

/// That it is gone is known when its farewell has come, and not after the three eras of a node that fails.
#[test]
fn to_a_switch_that_is_stopped_nothing_is_sent_any_more() {
    let sent = |kind: &str| {
        let summary = with_faults(&format!(
            r#"
            [[fault]]
            at = "6s"
            kind = "{kind}"
            node = "two"
            [[fault]]
            at = "12s"
            kind = "restart"
            node = "two"
            "#
        ));
        for name in ["near", "middle", "far"] {
            let receiver = summary.receiver(name).unwrap();
            assert_eq!(receiver.received.last().unwrap().1, Level::FULL, "{name}");
        }
        let mut queues = summary.queues.iter();
        let queue = queues.find(|q| q.node == "one" && q.port == "two");
        queue.unwrap().queue.units_out as f64
    };
    // The film is there for 20 s, and for 14 s of them the switch.
    let (stopped, killed) = (sent("stop"), sent("kill"));
    let eras = (killed - stopped) / stopped * 14.0;
    assert!((2.0..4.0).contains(&eras), "{stopped} {killed}: {eras} s");
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

/// Counts what links lose, and of that what they lose while they are down.
#[derive(Default)]
struct Lost {
    all: u64,
    down: u64,
}

impl Observer for Lost {
    fn record(&mut self, record: &Record<'_>) {
        if let TraceEvent::Lost { count, cause, .. } = record.event
            && record.subject.machine == "link"
        {
            self.all += u64::from(count);
            self.down += u64::from(count) * u64::from(cause == Cause::LinkDown);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Each packet sent on a link arrives or is lost there, also while the link is down; the node takes each one that arrives.
    #[test]
    fn links_that_fail_lose_what_they_do_not_deliver(
        which in 0..3_usize,
        falls in 2_000..9_000_u32,
        lasts in 1..4_000_u32,
        loss in prop::sample::select(vec!["", ", loss = { bernoulli = 0.01 }"]),
        cells in any::<bool>(),
    ) {
        let text = CHAIN.replace("24s", "14s").replace("21s", "10s");
        let text = text.replace(r#"b = "two", rate"#, &format!(r#"b = "two"{loss}, rate"#));
        let carriage = if cells { "cells" } else { "datagrams" };
        let text = text.replace("datagrams", carriage);
        let ends = [r#"["source", "one"]"#, r#"["one", "two"]"#, r#"["three", "far"]"#][which];
        let faults = [(falls, "link_down"), (falls + lasts, "link_up")].map(|(at, kind)| {
            format!("[[fault]]\nat = \"{at}ms\"\nkind = \"{kind}\"\nlink = {ends}\n")
        });
        let network = scenario(&format!("{text}\n{}", faults.concat())).validate().unwrap();
        let mut seen = Lost::default();
        let summary = Simulation::new(network)
            .run(&mut seen, Outputs::default(), |_| ControlFlow::Continue(()))
            .unwrap();
        let links = summary.queues.iter().map(|it| it.link);
        let [mut delivered, mut lost] = [0; 2];
        for link in links {
            // The source is silent for the last seconds.
            prop_assert_eq!(link.sent, link.delivered + link.lost, "{:?}", link);
            (delivered, lost) = (delivered + link.delivered, lost + link.lost);
        }
        prop_assert_eq!(lost, seen.all);
        // A short outage can fall between two packets.
        prop_assert!(seen.down > 0 || lasts < 200, "{} {}", seen.all, seen.down);
        prop_assert_eq!(loss.is_empty(), seen.all == seen.down, "{} {}", seen.all, seen.down);
        let taken = if cells { summary.cell_hops } else { summary.packet_hops };
        prop_assert_eq!(delivered, taken);
    }
}
