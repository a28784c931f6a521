//! Observers get what happened, and do not change the behaviour.

use layercast_core::{JsonSeq, QosAction, QosEvent, Rate};
use layercast_multicast::{Members, Outcome, Sender, SenderConfig, Virtual, VirtualStore};
use serde_json::Value;

use crate::net::{Faults, Net, PERFECT, Told};
use crate::object::listed;

const RECEIVERS: u32 = 6;

/// Six receivers with 10 % loss and some duplicates, with or without aggregators.
fn net(aggregators: bool) -> Net<Virtual, VirtualStore> {
    let config = SenderConfig::layercast(Rate::from_bps(20_000_000));
    let source = Virtual::new(400 * u64::from(config.packet_size), config.scheme);
    let members = match aggregators {
        true => Members::Anyone {
            expect: Some(RECEIVERS),
            most: 100,
            late: false,
        },
        false => listed(RECEIVERS),
    };
    let sender = Sender::object(7, config, members, source).unwrap();
    let faults = Faults {
        loss: 0.1,
        twice: 0.05,
        ..PERFECT
    };
    let mut net = Net::new(sender, vec![VirtualStore; RECEIVERS as usize], faults, 5);
    if aggregators {
        net.aggregate(3);
    }
    let receivers = net.receivers.iter_mut().flatten();
    for (number, receiver) in receivers.enumerate() {
        receiver.set_name(&format!("r{number}"));
    }
    for (number, aggregator) in net.aggregators.iter_mut().flatten().enumerate() {
        aggregator.set_name(&format!("a{number}"));
    }
    net
}

/// Runs the network with an observer; returns the records.
fn watched(net: &mut Net<Virtual, VirtualStore>) -> Vec<Value> {
    net.trace = Some(JsonSeq::new(Vec::new(), "test"));
    net.start();
    net.run();
    let text = net.trace.take().unwrap().finish().unwrap();
    let text = String::from_utf8(text).unwrap();
    let records = text.split('\u{1e}').skip(2);
    records
        .map(|it| serde_json::from_str(it).unwrap())
        .collect()
}

/// Records of one machine and one kind.
fn of<'a>(records: &'a [Value], node: &str, event: &str) -> Vec<&'a Value> {
    let those = records.iter();
    those
        .filter(|it| it["node"] == node && it["event"] == event)
        .collect()
}

#[test]
fn every_packet_state_and_drop_is_reported() {
    for aggregators in [false, true] {
        let mut net = net(aggregators);
        let records = watched(&mut net);
        let times: Vec<u64> = records
            .iter()
            .map(|it| it["time"].as_u64().unwrap())
            .collect();
        assert!(times.is_sorted());
        let sent = of(&records, "sender", "packet");
        let sent = sent.iter().filter(|it| it["sent"] == true);
        let data = sent
            .clone()
            .filter(|it| it["what"] == "data" || it["what"] == "parity");
        assert_eq!(data.count() as u64, net.sender.stats().data);
        let parities = sent.filter(|it| it["what"] == "parity").count() as u64;
        assert_eq!(parities, net.sender.stats().parities);
        assert!(parities > 0);
        let mut names = vec!["sender".to_owned()];
        names.extend((0..net.receivers.len()).map(|number| format!("r{number}")));
        names.extend((0..net.aggregators.len()).map(|number| format!("a{number}")));
        for name in &names {
            let states = of(&records, name, "state");
            assert_eq!(states[0]["from"], "idle");
            let chained = states.windows(2).all(|it| it[0]["to"] == it[1]["from"]);
            assert!(chained, "{name}: {states:?}");
            assert_eq!(states.last().unwrap()["to"], "closed", "{name}");
        }
        for (number, receiver) in net.receivers.iter().flatten().enumerate() {
            let lost = of(&records, &format!("r{number}"), "lost");
            let twice = lost.iter().filter(|it| it["cause"] == "duplicate");
            let twice: u64 = twice.map(|it| it["count"].as_u64().unwrap()).sum();
            assert_eq!(twice, receiver.stats().duplicates);
            assert!(twice > 0);
            let decided = of(&records, &format!("r{number}"), "decision");
            let complete = decided.iter().filter(|it| it["what"] == "complete");
            assert_eq!(complete.count(), 1);
        }
        let decided = of(&records, "sender", "decision");
        let delivered = decided.iter().filter(|it| it["what"] == "delivered");
        assert_eq!(delivered.count(), net.sender.deliveries().count());
    }
}

#[test]
fn observation_changes_nothing() {
    let (mut alone, mut seen) = (net(true), net(true));
    alone.start();
    alone.run();
    let records = watched(&mut seen);
    assert!(records.len() > 1_000);
    assert_eq!(alone.now, seen.now);
    assert_eq!(alone.sender.stats(), seen.sender.stats());
    assert_eq!(alone.log.len(), seen.log.len());
    assert!(
        alone
            .sender
            .deliveries()
            .all(|it| it.outcome == Outcome::Delivered)
    );
}

#[test]
fn a_monitor_hears_of_the_session_its_packets_losses_and_round_trips() {
    let mut net = net(false);
    net.told = Some(Told::default());
    net.start();
    net.run();
    let told = net.told.take().unwrap().0;
    let of = |node: &str, action: QosAction| {
        let events = told[node].iter();
        events.filter(move |it| it.action == action as u8)
    };
    for node in ["sender", "r0", "r5"] {
        let events = &told[node];
        let (first, last) = (events[0], events[events.len() - 1]);
        assert_eq!((first.action, first.aux), (QosAction::Open as u8, 6));
        assert_eq!(last.action, QosAction::Close as u8, "{node}");
        assert!(events.iter().all(|it| it.conn == 7));
        let ends = [QosAction::Open, QosAction::Close].map(|it| of(node, it).count());
        assert_eq!(ends, [1, 1], "{node}");
    }
    let user = |node, action| -> u64 {
        let new = of(node, action).filter(|it| it.flags & QosEvent::AGAIN == 0);
        new.map(|it| u64::from(it.aux) / 8).sum()
    };
    // Repairs are no new data, and neither are parities.
    let stats = *net.sender.stats();
    assert!(stats.parities + stats.again > 0);
    let octets = user("sender", QosAction::Sent);
    assert!(octets > 0 && octets <= stats.octets, "{octets}");
    assert!(octets < stats.octets, "some were repairs");
    for node in ["r0", "r5"] {
        assert!(user(node, QosAction::Received) <= octets, "{node}");
    }
    let lost: u32 = of("r0", QosAction::Dropped).map(|it| it.aux).sum();
    let share = f64::from(lost) / stats.data as f64;
    assert!((0.03..0.2).contains(&share), "{lost} of {}", stats.data);
    let answers: Vec<u64> = of("sender", QosAction::ProbeEnd).map(|it| it.a).collect();
    assert!(answers.len() >= RECEIVERS as usize, "{answers:?}");
    assert!(answers.iter().all(|ns| *ns < 1_000_000_000), "{answers:?}");
}
