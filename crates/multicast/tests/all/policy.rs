//! Single policies.

use layercast_core::{Rate, Span, Time};
use layercast_fec::Scheme;
use layercast_multicast::{
    Completion, ConfigError, Failure, Members, Memory, MemoryStore, Outcome, ReceiverEvent, Repair,
    Schedule, Sender, SenderConfig, SenderEvent, To, Trigger, Virtual,
};
use layercast_wire::multicast::{Body, Content, MemberId, Reason};

use crate::net::{Net, PERFECT};
use crate::object::{content, listed, stores};

pub fn net(config: SenderConfig, receivers: u32) -> Net<Memory, MemoryStore> {
    net_of(config, receivers, 100_000)
}

pub fn net_of(config: SenderConfig, receivers: u32, octets: usize) -> Net<Memory, MemoryStore> {
    let scheme = Scheme::from_number(config.scheme);
    let source = Memory::new("x", content(octets), scheme);
    let sender = Sender::object(3, config, listed(receivers), source).unwrap();
    Net::new(sender, stores(receivers), PERFECT, 21)
}

pub fn rmtp() -> SenderConfig {
    SenderConfig {
        packet_size: 1_000,
        ..SenderConfig::rmtp()
    }
}

pub fn when(net: &Net<Memory, MemoryStore>, wanted: &SenderEvent) -> Option<Time> {
    let events = net.sender_events.iter();
    events.filter(|it| it.1 == *wanted).map(|it| it.0).next()
}

pub fn delivered(net: &Net<Memory, MemoryStore>) -> bool {
    let mut all = net.sender.deliveries();
    all.all(|it| it.outcome == Outcome::Delivered)
}

#[test]
fn few_incomplete_receivers_are_repaired_by_unicast() {
    let config = SenderConfig {
        repair: Repair::Selective {
            unicast_below_permille: 300,
        },
        ..rmtp()
    };
    let mut net = net(config, 10);
    let mut lost = 0;
    net.fate = Box::new(move |_, to, packet| {
        lost += u32::from(to == 3 && matches!(packet.body, Body::Data(_)));
        to == 3 && matches!(packet.body, Body::Data(_)) && lost % 10 == 0 && lost <= 100
    });
    net.start();
    net.run();
    assert!(delivered(&net));
    let again: Vec<To> = net
        .data()
        .filter(|(_, data)| data.round > 0)
        .map(|(it, _)| it.to)
        .collect();
    assert_eq!(again, [To::One(layercast_multicast::Peer(3)); 10]);
}

#[test]
fn a_session_without_its_members_ends() {
    let mut empty = net(rmtp(), 2);
    empty.fate = Box::new(|from, _, _| from > 0);
    empty.start();
    empty.run();
    assert_eq!(empty.result(), Some(Err(Failure::NoReceivers)));
    assert_eq!(empty.data().count(), 0);
    let mut outcomes = empty.sender.deliveries().map(|it| it.outcome);
    assert!(outcomes.all(|it| it == Outcome::NeverConnected));

    let config = SenderConfig {
        completion: Completion::All,
        ..rmtp()
    };
    let mut left = net(config, 3);
    left.start();
    left.run_until(left.now + Span::from_ms(600));
    left.receivers[0].as_mut().unwrap().leave(Reason::User);
    left.drain(1);
    left.run();
    assert_eq!(left.result(), Some(Err(Failure::Integrity)));
    for events in &left.receiver_events[1..] {
        let expected = ReceiverEvent::Closed {
            complete: false,
            reason: Reason::Integrity,
        };
        assert_eq!(events.last(), Some(&expected));
    }
}

#[test]
fn objects_of_no_octets_and_of_one_packet() {
    for octets in [0, 1, 1_000] {
        let source = Memory::new("x", content(octets), None);
        let sender = Sender::object(3, rmtp(), listed(2), source).unwrap();
        let mut net = Net::new(sender, stores(2), PERFECT, 22);
        net.start();
        net.run();
        assert!(delivered(&net), "{octets}");
        assert_eq!(net.data().count(), octets.div_ceil(1_000));
    }
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let refused = |config: SenderConfig| {
        let source = Virtual::new(1_000, 3);
        let members = listed(1);
        Sender::object(1, config, members, source).err()
    };
    let layercast = || SenderConfig::layercast(Rate::from_bps(1));
    assert_eq!(refused(layercast()), None);
    let zero = SenderConfig {
        packet_size: 0,
        ..rmtp()
    };
    assert_eq!(refused(zero), Some(ConfigError::Zero("packet_size")));
    let conflicts = [
        SenderConfig {
            content: Content::Ranges,
            ..layercast()
        },
        SenderConfig {
            scheme: 0,
            ..layercast()
        },
        SenderConfig {
            repair: Repair::GoBackN,
            ..layercast()
        },
        SenderConfig {
            content: Content::Levels,
            ..rmtp()
        },
        SenderConfig {
            schedule: Schedule::Suppress {
                delta: Span::ZERO,
                above: 0,
                spread: Span::ZERO,
            },
            ..rmtp()
        },
    ];
    for config in conflicts {
        assert!(matches!(refused(config), Some(ConfigError::Conflict(_))));
    }
    assert_eq!(refused(SenderConfig::frm()), Some(ConfigError::Trigger));
    let members = Members::Listed(Vec::new());
    let stream = Sender::stream(1, rmtp(), members.clone()).err();
    assert_eq!(stream, Some(ConfigError::Trigger));
    let nobody = Sender::stream(1, SenderConfig::frm(), members).err();
    assert_eq!(nobody, Some(ConfigError::NoMembers));
    let twice = Members::Listed(vec![(MemberId(4), None), (MemberId(4), None)]);
    let twice = Sender::stream(1, SenderConfig::frm(), twice).err();
    assert_eq!(twice, Some(ConfigError::Twice(MemberId(4))));
    let ranges = SenderConfig {
        trigger: Trigger::Timer {
            on_complete: true,
            idle: Span::ZERO,
        },
        ..rmtp()
    };
    assert!(matches!(
        Sender::stream(1, ranges, listed(1)).err(),
        Some(ConfigError::Conflict(_))
    ));
}

#[test]
fn a_session_that_all_expected_receivers_refuse_ends_at_once() {
    let members = Members::Anyone {
        expect: Some(2),
        most: 10,
        late: true,
    };
    let source = Memory::new("x", content(100_000), None);
    let sender = Sender::object(3, rmtp(), members, source).unwrap();
    // There is no room for it.
    let small = (0..2).map(|_| MemoryStore::new(10)).collect();
    let mut net = Net::new(sender, small, PERFECT, 1);
    let began = net.now;
    net.start();
    net.run();
    assert_eq!(net.result(), Some(Err(Failure::Refused)));
    let reason = Outcome::Failed(Reason::NoRoom);
    assert!(net.sender.deliveries().all(|it| it.outcome == reason));
    let (closed, _) = net.sender_events.last().unwrap();
    assert!(closed.since(began) < Span::from_ms(200), "{closed:?}");
}
