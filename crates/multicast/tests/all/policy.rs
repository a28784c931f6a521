//! One policy at a time.

use layercast_core::{Rate, Span, Time};
use layercast_fec::Scheme;
use layercast_multicast::{
    Bits, Completion, ConfigError, Failure, Geometry, Members, Memory, MemoryStore, Outcome,
    RateControl, Rebuilt, ReceiverEvent, Repair, Schedule, Sender, SenderConfig, SenderEvent,
    Store, To, Trigger, Verdict, Virtual, Weak,
};
use layercast_wire::Payload;
use layercast_wire::multicast::{Body, Content, DataFlags, MemberId, Object, Reason};

use crate::net::{Net, PERFECT};
use crate::object::{content, listed, stores};

fn net(config: SenderConfig, receivers: u32) -> Net<Memory, MemoryStore> {
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

fn when(net: &Net<Memory, MemoryStore>, wanted: &SenderEvent) -> Option<Time> {
    let events = net.sender_events.iter();
    events.filter(|it| it.1 == *wanted).map(|it| it.0).next()
}

fn delivered(net: &Net<Memory, MemoryStore>) -> bool {
    let mut all = net.sender.deliveries();
    all.all(|it| it.outcome == Outcome::Delivered)
}

#[test]
fn who_is_busy_is_served_after_the_others() {
    let mut net = net(rmtp(), 4);
    net.start();
    net.run_until(net.now + Span::from_ms(500));
    net.receivers[1].as_mut().unwrap().busy();
    net.drain(2);
    net.run_until(net.now + Span::from_secs(4));
    let others = SenderEvent::Delivered(MemberId(4));
    assert!(when(&net, &others).is_some());
    net.receivers[1].as_mut().unwrap().ready(net.now);
    net.drain(2);
    net.run();
    assert!(when(&net, &SenderEvent::Busy(MemberId(2))).is_some());
    assert!(delivered(&net), "{:?}", net.sender_events);
    // What it missed while it was busy was sent to it alone.
    let stats = net.sender.stats();
    assert_eq!(stats.data, 100 + stats.unicast);
    assert!((50..100).contains(&stats.unicast), "{stats:?}");
}

#[test]
fn who_stays_busy_is_given_up() {
    let mut net = net(rmtp(), 2);
    net.start();
    net.run_until(net.now + Span::from_ms(500));
    net.receivers[1].as_mut().unwrap().busy();
    net.drain(2);
    net.run();
    let failed = SenderEvent::Failed {
        member: MemberId(2),
        reason: Reason::Silent,
    };
    assert!(when(&net, &failed).is_some());
    assert_eq!(net.result(), Some(Ok(())));
}

#[test]
fn who_lacks_too_much_is_postponed_alone_or_with_others() {
    for side in [false, true] {
        let config = SenderConfig {
            weak: Weak::Postpone {
                polls: 100,
                missing_permille: 200,
                side,
            },
            ..rmtp()
        };
        let mut net = net(config, 6);
        let mut random = layercast_core::Stream::new(1, "weak");
        net.fate = Box::new(move |_, to, packet| {
            to >= 5 && matches!(packet.body, Body::Data(_)) && random.chance(0.5)
        });
        net.start();
        net.run();
        assert!(delivered(&net));
        for id in [5, 6] {
            let postponed = when(&net, &SenderEvent::Postponed(MemberId(id)));
            let done = when(&net, &SenderEvent::Delivered(MemberId(id)));
            let last = when(&net, &SenderEvent::Delivered(MemberId(4)));
            assert!(postponed < done && last < done, "{id}");
        }
        let to_side = net.data().filter(|(it, _)| it.to == To::Side).count();
        let alone = net.sender.stats().unicast;
        assert_eq!((to_side > 0, alone > 0), (side, !side));
        // The others got one pass and no more.
        assert_eq!(net.data().filter(|(it, _)| it.to == To::Group).count(), 100);
    }
}

#[test]
fn who_loses_half_both_ways_is_not_taken_for_dead() {
    for seed in 0..100 {
        let config = SenderConfig {
            packet_size: 1_000,
            ..SenderConfig::layercast(Rate::from_bps(10_000_000))
        };
        let scheme = layercast_fec::Scheme::from_number(config.scheme);
        let source = Memory::new("x", content(100_000), scheme);
        let sender = Sender::object(3, config, listed(4), source).unwrap();
        let mut net = Net::new(sender, stores(4), PERFECT, seed);
        let mut random = layercast_core::Stream::new(seed, "half");
        net.fate = Box::new(move |from, to, packet| {
            let opening = matches!(packet.body, Body::Open(_) | Body::Accept(_));
            !opening && (from == 4 || to == 4) && random.chance(0.5)
        });
        net.start();
        net.run();
        assert!(delivered(&net), "{seed}: {:?}", net.sender_events);
    }
}

#[test]
fn few_who_miss_something_get_it_by_unicast() {
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
fn who_gets_wrong_octets_again_says_that_it_failed() {
    let mut net = net(rmtp(), 3);
    let mut poisoned = std::collections::BTreeMap::new();
    net.form = Box::new(move |_, to, packet| {
        let mut packet = packet.clone();
        if let Body::Data(data) = &mut packet.body
            && to == 2
            && data.symbol == layercast_wire::multicast::Symbol::Source(7)
        {
            *poisoned.entry(to).or_insert(0) += 1;
            data.payload = layercast_wire::Payload::Zeros(1_000);
        }
        vec![packet]
    });
    net.start();
    net.run();
    let events = &net.receiver_events[1];
    let corrupt = events.iter().filter(|it| **it == ReceiverEvent::Corrupt);
    assert_eq!(corrupt.count(), 2);
    let told = ReceiverEvent::Closed {
        complete: false,
        reason: Reason::Corrupt,
    };
    assert_eq!(events.last(), Some(&told));
    let outcomes: Vec<_> = net.sender.deliveries().map(|it| it.outcome).collect();
    let failed = Outcome::Failed(Reason::Corrupt);
    assert_eq!(outcomes, [Outcome::Delivered, failed, Outcome::Delivered]);
}

#[test]
fn an_empty_object_with_a_wrong_digest_is_given_up_at_once() {
    for config in [rmtp(), SenderConfig::layercast(Rate::from_bps(1_000_000))] {
        let mut net = net_of(config, 2, 0);
        net.form = Box::new(|_, _, packet| {
            let mut packet = packet.clone();
            if let Body::Open(open) = &mut packet.body
                && let Some(object) = &mut open.object
            {
                object.digest = [1; 32];
            }
            vec![packet]
        });
        net.start();
        net.run();
        let told = ReceiverEvent::Closed {
            complete: false,
            reason: Reason::Corrupt,
        };
        assert_eq!(net.receiver_events[0].last(), Some(&told));
        let outcomes: Vec<_> = net.sender.deliveries().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Outcome::Failed(Reason::Corrupt); 2]);
    }
}

#[test]
fn who_looks_at_its_digest_for_long_is_waited_for() {
    let source = Virtual::new(100_000, 3);
    let config = SenderConfig::layercast(Rate::from_bps(8_000_000));
    let sender = Sender::object(3, config, listed(2), source).unwrap();
    let mut net = Net::new(sender, vec![Slow, Slow], PERFECT, 21);
    net.start();
    let looked = Time::ZERO + Span::from_secs(30);
    net.run_until(looked);
    assert!(!net.sender.is_closed());
    assert!(net.sender.stats().polls < 200, "{:?}", net.sender.stats());
    for receiver in net.receivers.iter_mut().flatten() {
        receiver.verified(looked, true);
    }
    net.run();
    let mut outcomes = net.sender.deliveries().map(|it| it.outcome);
    assert!(outcomes.all(|it| it == Outcome::Delivered));
}

/// A store that says later whether it is right.
#[derive(Clone, Copy)]
struct Slow;

impl Store for Slow {
    fn begin(&mut self, _: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        Ok(Bits::new(geometry.packets()))
    }

    fn packet(&mut self, _: &Geometry, _: u64, _: &Payload) -> Result<(), Reason> {
        Ok(())
    }

    fn parity(&mut self, _: &Geometry, _: u32, _: u32, _: &Payload) -> Result<(), Reason> {
        Ok(())
    }

    fn rebuild(&mut self, _: &Geometry, _: u32, _: &Bits) -> Result<Rebuilt, Reason> {
        Ok(Rebuilt::Whole)
    }

    fn verify(&mut self) -> Verdict {
        Verdict::Later
    }

    fn clear(&mut self) {}
}

#[test]
fn the_rate_follows_the_monitor_bits() {
    let start = Rate::from_bps(800_000);
    let (least, most) = (Rate::from_bps(100_000), Rate::from_bps(1_200_000));
    let monitor = layercast_multicast::Monitor {
        packets: 5,
        wait: Span::from_ms(110),
        ..SenderConfig::monitor(start, least, most)
    };
    for (rate, loss, wanted) in [
        (RateControl::Monitor(monitor), 0.0, most),
        (RateControl::Monitor(monitor), 0.2, least),
        (RateControl::Friendly(monitor), 0.0, most),
        (RateControl::Friendly(monitor), 0.3, least),
    ] {
        let mut net = net(SenderConfig { rate, ..rmtp() }, 5);
        let mut random = layercast_core::Stream::new(1, "loss");
        net.fate = Box::new(move |_, _, packet| {
            matches!(packet.body, Body::Data(_)) && random.chance(loss)
        });
        net.start();
        net.run();
        assert!(delivered(&net));
        let rates = net.sender_events.iter().filter_map(|(_, it)| match it {
            SenderEvent::Rate(rate) => Some(*rate),
            _ => None,
        });
        let reached = if wanted == most {
            rates.max()
        } else {
            rates.min()
        };
        assert_eq!(reached, Some(wanted), "{rate:?} at {loss}");
    }
}

#[test]
fn most_silent_at_once_is_the_path() {
    let mut net = net(rmtp(), 6);
    let mut cut = false;
    net.fate = Box::new(move |from, _, packet| {
        cut |= matches!(packet.body, Body::Poll(_));
        from > 2 && !cut && matches!(packet.body, Body::Report(_))
    });
    net.start();
    net.run();
    let half = SenderEvent::Rate(Rate::from_bps(400_000));
    let halved = when(&net, &half).unwrap();
    assert!(delivered(&net));
    // Nothing came of it: the next pass has the rate again.
    let full = SenderEvent::Rate(Rate::from_bps(800_000));
    assert!(when(&net, &full).is_none_or(|again| again > halved));
}

#[test]
fn who_is_late_for_a_moment_costs_no_rate_and_who_is_longer_only_until_all_answer() {
    let rate = Rate::from_bps(8_000_000);
    let (half, full) = (Rate::from_bps(4_000_000), rate);
    for (lost, wanted) in [(12, vec![]), (60, vec![half, full])] {
        let mut net = net(SenderConfig::layercast(rate), 6);
        let (mut first, mut reports) = (true, 0);
        net.fate = Box::new(move |from, to, packet| match &packet.body {
            // Everybody lacks something of two passes.
            Body::Data(data) if data.round < 2 && to > 0 => {
                core::mem::take(&mut first) || data.flags.has(DataFlags::LAST)
            }
            Body::Report(report) if from > 0 && report.round == 0 => {
                reports += 1;
                reports <= lost
            }
            _ => false,
        });
        net.start();
        net.run();
        assert!(delivered(&net));
        let rates = net.sender_events.iter().filter_map(|(_, it)| match it {
            SenderEvent::Rate(rate) => Some(*rate),
            _ => None,
        });
        assert_eq!(rates.collect::<Vec<_>>(), wanted, "{lost} reports lost");
    }
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
        let told = ReceiverEvent::Closed {
            complete: false,
            reason: Reason::Integrity,
        };
        assert_eq!(events.last(), Some(&told));
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
