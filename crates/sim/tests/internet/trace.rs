//! What an observer sees of an internetwork.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use layercast_core::quantity::Quantity as _;
use layercast_core::{Cause, Observer, Record, Span, TraceEvent};
use layercast_link::Outages;
use layercast_sim::internet::*;

use super::common::*;

/// Losses of each place by cause, states that each machine of each node reaches, and the last instant.
#[derive(Default)]
struct Seen {
    lost: BTreeMap<(String, &'static str, String), u64>,
    states: BTreeMap<(String, &'static str, String), u64>,
    last: layercast_core::Time,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Seen>>);

impl Observer for Shared {
    fn record(&mut self, record: &Record<'_>) {
        let mut seen = self.0.lock().unwrap();
        assert!(record.time >= seen.last, "{record:?} after {}", seen.last);
        seen.last = record.time;
        let (node, machine) = (record.subject.node.to_owned(), record.subject.machine);
        match &record.event {
            TraceEvent::Lost { count, cause, .. } => {
                let cause = cause_name(*cause).to_owned();
                *seen.lost.entry((node, machine, cause)).or_default() += u64::from(*count);
            }
            TraceEvent::State { to, .. } => {
                let to = (*to).to_owned();
                *seen.states.entry((node, machine, to)).or_default() += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::QueueFull => "full",
        Cause::EarlyDrop => "early",
        Cause::LinkLoss => "lost",
        Cause::LinkDown => "down",
        other => panic!("{other:?}"),
    }
}

/// Two directions of a slow link: one with RED that is down for a time, the other with losses; and an unlimited link.
fn network() -> Network {
    let mut network = dumbbell(3, 5_000_000, Span::from_ms(5), Limit::Packets(20), 20.0);
    let red = Red {
        min: 3.0,
        max: 10.0,
        max_p: 0.1,
        weight: 0.02,
        gentle: false,
        ecn: false,
    };
    network.links[0].ways[0].queue.red = Some(red);
    network.links[0].ways[1].impair = Impairments::losing(0.02);
    network.links[0].down[0] = Outages::parse("3s..3.2s").unwrap();
    // Back from right to left, through the direction that loses.
    network.flows.push(flow(
        "back",
        5,
        2,
        Span::from_ms(3),
        Traffic::Bulk(Some(200_000)),
    ));
    network
}

#[test]
fn the_trace_has_each_lost_packet_and_each_connection() {
    let network = network();
    let plain = run(&network);
    let seen = Shared::default();
    let mut internet = Internet::new(&network).unwrap();
    internet.observe(seen.clone());
    let mut report = internet.run(&mut ());
    // Several unobserved packets take one event.
    assert!(report.events >= plain.events);
    report.events = plain.events;
    assert_eq!(report, plain, "an observer changes no result");

    let seen = seen.0.lock().unwrap();
    let mut expected = BTreeMap::new();
    for queue in &report.queues {
        let counts = [
            ("full", queue.dropped_full),
            ("early", queue.dropped_red),
            ("lost", queue.lost),
            ("down", queue.down),
        ];
        for (cause, count) in counts.into_iter().filter(|it| it.1 > 0) {
            expected.insert((queue.name.clone(), "link", cause.to_owned()), count);
        }
    }
    let causes: Vec<&str> = expected.keys().map(|key| key.2.as_str()).collect();
    assert!(
        ["early", "lost", "down"]
            .iter()
            .all(|it| causes.contains(it)),
        "{causes:?}"
    );
    assert_eq!(seen.lost, expected);
    // Connections without end stand at both ends; the one of 200,000 bytes is over.
    let count = |node: &str, to: &str| {
        let key = (node.to_owned(), "tcp", to.to_owned());
        seen.states.get(&key).copied().unwrap_or_default()
    };
    for host in ["left0", "left1", "left2", "right0", "right1", "right2"] {
        assert!(count(host, "ESTABLISHED") >= 1, "{host}: {:?}", seen.states);
    }
    assert_eq!(
        (count("right0", "TIME-WAIT"), count("left0", "CLOSED")),
        (1, 1)
    );
}
