//! TCP that shares a link with the group.

use layercast_core::{Rate, Span, Time};
use layercast_multicast::{RateControl, SenderConfig};
use layercast_sim::group::{Branch, CrossSpec, Group, GroupSummary, LinkSpec};
use layercast_tcp::{Profile, TcpConfig};

use crate::common::{layercast, link, receivers, run, star};

/// Ten receivers behind a bottleneck of 8 Mbit/s, 20 ms long, with `flows` connections beside them.
fn shared(sender: SenderConfig, packets: u64, flows: u32) -> Group {
    let mut group = star(sender, packets, 10, 0.0);
    let bottleneck = Branch {
        name: "bottleneck".to_owned(),
        receiver: None,
        link: LinkSpec {
            delay: (Span::from_ms(20), Span::from_ms(20)),
            rate: Some(Rate::from_bps(8_000_000)),
            queue: 60_000,
            ..link(0.0)
        },
        ..receivers(None, link(0.0), 1)
    };
    let access = Branch {
        name: "access".to_owned(),
        receiver: None,
        ..receivers(None, link(0.0), 1)
    };
    let near = LinkSpec {
        delay: (Span::from_ms(1), Span::from_ms(1)),
        ..link(0.0)
    };
    group.branches = vec![
        access,
        Branch {
            parent: Some(0),
            ..bottleneck
        },
        receivers(Some(1), near, 10),
    ];
    if flows > 0 {
        group.cross = vec![CrossSpec {
            branch: 1,
            flows,
            delay: Span::from_ms(10),
            tcp: TcpConfig::from(Profile::Modern),
        }];
    }
    group.until = Time::ZERO + Span::from_secs(600);
    group
}

fn rates(summary: &GroupSummary) -> &[f64] {
    &summary.cross[0].goodput_bps
}

#[test]
fn connections_share_what_the_group_leaves() {
    // A tenth of the line, for a long time.
    let slow = SenderConfig {
        rate: RateControl::Fixed(Rate::from_bps(800_000)),
        ..layercast()
    };
    let summary = run(shared(slow, 3_000, 4));
    assert_eq!((summary.failure.clone(), summary.partial), (None, false));
    assert_eq!(summary.outcomes.delivered, 10);
    let all: f64 = rates(&summary).iter().sum();
    assert!((6.0e6..7.3e6).contains(&all), "{all}");
    assert!(
        rates(&summary).iter().all(|rate| *rate > 0.1 * all),
        "{:?}",
        rates(&summary)
    );
    assert!(summary.cross[0].count.dropped > 0 && summary.cross[0].count.lost == 0);
}

#[test]
fn a_group_that_takes_all_leaves_little_and_the_run_ends_with_the_session() {
    let summary = run(shared(layercast(), 3_000, 1));
    assert_eq!(summary.outcomes.delivered, 10);
    assert!(rates(&summary)[0] < 3e6, "{:?}", rates(&summary));
    assert!(!summary.partial);
    let alone = run(shared(layercast(), 3_000, 0));
    assert!(alone.ended_s < summary.ended_s && alone.cross.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let once = || run(shared(layercast(), 500, 3));
    assert_eq!(once(), once());
}
