//! Aggregators, and the bars: 10,000 receivers and 100,000.

use std::time::Instant;

use layercast_core::Span;
use layercast_multicast::SenderConfig;
use layercast_sim::group::{Branch, Group, GroupSummary, Invited, LinkSpec};

use crate::common::{layercast, link, receivers, run, star};

/// Aggregators for a hundred receivers each.
fn with_aggregators(sender: SenderConfig, packets: u64, hubs: u32, back_loss: f64) -> Group {
    // A LAN at each, as far away as its aggregator.
    let lan = LinkSpec {
        delay: (Span::from_ms(1), Span::from_ms(1)),
        back_loss,
        ..link(0.01)
    };
    let wan = LinkSpec {
        delay: (Span::from_ms(10), Span::from_ms(50)),
        ..link(0.0)
    };
    let hub = Branch {
        name: "hub".to_owned(),
        receiver: None,
        aggregates: true,
        ..receivers(None, wan, hubs)
    };
    Group {
        branches: vec![hub, receivers(Some(0), lan, 100)],
        invited: Invited::Listed,
        ..star(sender, packets, 1, 0.0)
    }
}

#[test]
fn an_aggregator_answers_for_a_hundred() {
    for (sender, most) in [(layercast(), 1.10), (SenderConfig::rmtp(), 2.6)] {
        for back_loss in [0.0, 0.05] {
            let summary = run(with_aggregators(sender.clone(), 500, 10, back_loss));
            assert_eq!(summary.failure, None);
            assert_eq!(summary.outcomes.delivered, 1_000, "{summary:#?}");
            assert_eq!(summary.outcomes.complete, 1_000);
            assert!(summary.transmissions_per_packet < most, "{summary:#?}");
            let came = summary.feedback.came.packets;
            assert!(came < 300, "{:?}", summary.feedback);
            assert!(summary.aggregators.reports >= 1_000);
        }
    }
}

/// Prints what a run cost and gave; the greatest memory of the process is from /proc.
fn report(name: &str, group: Group) -> GroupSummary {
    let started = Instant::now();
    let summary = run(group);
    let seconds = started.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{name}: {seconds:.2} s, {}, {} events, {:.4} transmissions, {:?}, last {:.2} s, feedback {} peak {}",
        peak.unwrap_or("").trim(),
        summary.events,
        summary.transmissions_per_packet,
        summary.outcomes,
        summary.completion_s.last,
        summary.feedback.came.packets,
        summary.feedback.came.peak,
    );
    summary
}

#[test]
#[ignore = "the bars of docs/src/results/bench-simulator.md: run alone, with --release and --nocapture"]
fn ten_thousand_and_a_hundred_thousand_receivers() {
    let runs = [
        ("layercast 10,000", star(layercast(), 2_000, 10_000, 0.01)),
        (
            "rmtp 10,000",
            star(SenderConfig::rmtp(), 2_000, 10_000, 0.01),
        ),
        (
            "layercast 100,000 with aggregators",
            with_aggregators(layercast(), 2_000, 1_000, 0.0),
        ),
        (
            "rmtp 100,000 with aggregators",
            with_aggregators(SenderConfig::rmtp(), 2_000, 1_000, 0.0),
        ),
    ];
    for (name, group) in runs {
        if std::env::var("RUN").is_ok_and(|wanted| !name.contains(&wanted)) {
            continue;
        }
        let summary = report(name, group);
        assert_eq!(summary.outcomes.delivered, summary.receivers, "{name}");
    }
}
