//! Edge cases of specs/fully-reliable-multicast.md 7 and specs/rmtp-large-scale.md 7 that no other file has;
//! docs/src/reference/edge-cases.md lists all.

use layercast_core::{Off, Span, Time};
use layercast_multicast::{
    ConfigError, Deadline, Members, Memory, MemoryStore, Outcome, Peer, Schedule, Sender,
    SenderConfig, SenderEvent, VirtualStore, Weak,
};
use layercast_wire::multicast::{Body, MemberId, Reason, State, Symbol};

use crate::net::{Net, PERFECT};
use crate::object::content;
use crate::policy::{net_of, rmtp};
use crate::stream::{Users, no_ejection, stream};

fn outcomes(net: &Net<Memory, MemoryStore>) -> Vec<Outcome> {
    let mut all: Vec<_> = net
        .sender
        .deliveries()
        .map(|it| (it.member, it.outcome))
        .collect();
    all.sort_by_key(|it| it.0);
    all.into_iter().map(|it| it.1).collect()
}

#[test]
fn an_incomplete_receiver_fails_after_the_last_pass_and_the_others_complete() {
    let config = SenderConfig {
        rounds: 4,
        weak: Weak::Keep,
        ..rmtp()
    };
    let mut net = net_of(config, 3, 20_000);
    // One packet never reaches the second receiver.
    net.fate = Box::new(|_, to, packet| match &packet.body {
        Body::Data(data) => to == 2 && data.symbol == Symbol::Source(7),
        _ => false,
    });
    net.start();
    net.run();
    let failed = Outcome::Failed(Reason::Rounds);
    let has = Outcome::Delivered;
    assert_eq!(outcomes(&net), [has, failed, has]);
    let lacks = net
        .sender
        .deliveries()
        .find(|it| it.member == MemberId(2))
        .map(|it| it.at);
    assert_eq!(lacks, Some(1), "its missing packets are reported");
}

#[test]
fn a_list_that_no_packet_holds_comes_in_several_and_is_repaired_in_one_pass() {
    let mut net = net_of(rmtp(), 2, 600_000);
    // Every second of 600 packets: 300 ranges, of which a packet holds 96.
    net.fate = Box::new(|_, to, packet| match &packet.body {
        Body::Data(data) => {
            to == 2
                && data.round == 0
                && matches!(data.symbol, Symbol::Source(n) if n % 2 == 0 && n != 0)
        }
        _ => false,
    });
    net.start();
    net.run();
    assert_eq!(outcomes(&net), [Outcome::Delivered; 2]);
    assert_eq!(net.sender.stats().rounds, 2);
    let nacks = net.log.iter().filter(|(_, from, transmit)| {
        *from == 2
            && matches!(&transmit.packet.body,
                Body::Report(it) if matches!(it.state, State::Missing(_)))
    });
    assert_eq!(nacks.count(), 4);
    assert_eq!(net.data().count(), 600 + 299);
}

#[test]
fn polls_of_the_silent_are_no_burst() {
    let delta = Span::from_ms(3);
    let config = SenderConfig {
        schedule: Schedule::BackOff {
            delta,
            unasked: true,
        },
        ..rmtp()
    };
    let mut net = net_of(config, 60, 20_000);
    let mut heard = 0;
    // The first answers of a third of them are lost.
    net.fate = Box::new(move |from, _, packet| {
        let lost = from > 40 && heard < 20 && matches!(packet.body, Body::Report(_));
        heard += u32::from(lost);
        lost
    });
    net.start();
    net.run();
    assert_eq!(outcomes(&net), [Outcome::Delivered; 60]);
    let polls: Vec<_> = net
        .log
        .iter()
        .filter(|(_, from, transmit)| *from == 0 && matches!(transmit.packet.body, Body::Poll(_)))
        .map(|it| it.0)
        .collect();
    assert!(polls.len() >= 20, "{} polls", polls.len());
    assert!(polls.windows(2).all(|it| it[1].since(it[0]) >= delta));
}

#[test]
fn a_receiver_that_dies_after_its_receipt_is_delivered() {
    let mut net = net_of(rmtp(), 3, 20_000);
    // All packets of the second receiver after its first report are lost, including its good-bye.
    let mut said = false;
    net.fate = Box::new(move |from, _, packet| {
        if from != 2 || matches!(packet.body, Body::Accept(_)) {
            return false;
        }
        let lost = said;
        said |= matches!(packet.body, Body::Report(_));
        lost
    });
    net.start();
    net.run();
    assert_eq!(outcomes(&net), [Outcome::Delivered; 3]);
    assert_eq!(net.result(), Some(Ok(())));
}

#[test]
fn a_surplus_that_is_too_small_costs_polls_and_late_answers_are_counted() {
    let config = SenderConfig {
        deadline: Deadline::Linear {
            tat: Span::from_ms(60),
            alpha: Span::ZERO,
        },
        ..rmtp()
    };
    let mut net = net_of(config, 4, 20_000);
    // Round trip of 100 ms.
    net.start();
    net.run();
    assert_eq!(outcomes(&net), [Outcome::Delivered; 4]);
    let stats = net.sender.stats();
    assert!(stats.polls_each > 0 && stats.late > 0, "{stats:?}");
}

#[test]
fn lists_of_members_have_no_duplicates_and_are_not_empty() {
    let refused = |members: Vec<u64>| {
        let members = members.into_iter().map(|id| (MemberId(id), None)).collect();
        let source = Memory::new("x", content(10), None);
        Sender::object(1, rmtp(), Members::Listed(members), source).err()
    };
    assert_eq!(refused(vec![1, 2]), None);
    assert_eq!(
        refused(vec![1, 2, 1]),
        Some(ConfigError::Twice(MemberId(1)))
    );
    assert!(refused(Vec::new()).is_some());
}

#[test]
fn a_lost_poll_kills_no_receiver() {
    let mut net = stream(no_ejection(), 4, PERFECT, 6);
    let mut polls = 0;
    net.fate = Box::new(move |from, _, packet| {
        // Three successive polls, for each of the four.
        let poll = from == 0 && matches!(packet.body, Body::Poll(_));
        polls += u32::from(poll);
        poll && (41..53).contains(&polls)
    });
    net.start();
    let mut users = Users::new(4, 300);
    users.run(&mut net, 15_000);
    assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events.last());
    assert_eq!(users.taken, [300; 4]);
    assert!(net.sender.stats().handshakes > 0);
    let failed = |(_, event): &(_, SenderEvent)| matches!(event, SenderEvent::Failed { .. });
    assert!(!net.sender_events.iter().any(failed));
}

#[test]
fn the_last_packet_is_missed_though_nothing_follows_it() {
    let mut net = stream(no_ejection(), 2, PERFECT, 6);
    let mut lost = false;
    net.fate = Box::new(move |_, to, packet| match &packet.body {
        Body::Data(data) => {
            data.symbol == Symbol::Source(4) && to == 2 && !core::mem::replace(&mut lost, true)
        }
        _ => false,
    });
    net.start();
    let mut users = Users::new(2, 5);
    users.run(&mut net, 5_000);
    assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events.last());
    assert_eq!(users.taken, [5; 2]);
    assert_eq!(net.sender.stats().again, 1);
}

#[test]
fn another_life_of_a_streams_member_is_no_heir_of_the_first() {
    let mut net = stream(no_ejection(), 3, PERFECT, 6);
    net.start();
    let mut users = Users::new(3, 300);
    users.run(&mut net, 1_000);
    net.crash(3);
    net.restart(3, 2, VirtualStore);
    users.run(&mut net, 15_000);
    assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events.last());
    assert_eq!(users.taken[..2], [300; 2]);
    let last = net
        .sender
        .deliveries()
        .find(|it| it.member == MemberId(3))
        .map(|it| it.outcome);
    assert!(matches!(last, Some(Outcome::Failed(_))), "{last:?}");
}

#[test]
fn expelled_receivers_have_no_effect() {
    let config = SenderConfig {
        packet_size: 2_000,
        ..SenderConfig::frm()
    };
    let mut net = stream(config, 4, PERFECT, 6);
    // The expelled receiver is not informed, and continues to answer.
    net.fate = Box::new(|_, to, packet| to == 4 && matches!(packet.body, Body::Eject(_)));
    net.form = Box::new(|_, to, packet| {
        let mut packet = packet.clone();
        if let (4, Body::Poll(poll)) = (to, &mut packet.body) {
            poll.ejected.clear();
        }
        vec![packet]
    });
    net.start();
    let mut users = Users::new(4, 800);
    users.every[3] = 40;
    users.run(&mut net, 20_000);
    assert_eq!(net.sender.stats().ejected, 1);
    assert_eq!(users.taken[..3], [800; 3]);
    assert_eq!(net.result(), Some(Ok(())));
    let own = net.log.iter().filter(|(_, from, transmit)| {
        *from == 4 && matches!(transmit.packet.body, Body::Report(_))
    });
    assert!(own.count() > 20, "it continues to answer");
}

#[test]
fn packets_that_come_back_to_their_sender_are_not_taken_for_answers() {
    let mut net = net_of(rmtp(), 2, 20_000);
    net.start();
    net.run_until(net.now + Span::from_ms(400));
    let own: Vec<_> = net
        .log
        .iter()
        .filter(|(_, from, _)| *from == 0)
        .map(|(_, _, transmit)| transmit.packet.clone())
        .collect();
    assert!(own.len() > 3);
    for packet in &own {
        net.sender.handle(net.now, Peer(77), packet, &mut Off);
    }
    assert_eq!(net.sender.stats().strangers, own.len() as u64);
    net.run();
    assert_eq!(outcomes(&net), [Outcome::Delivered; 2]);
}

/// Polls from any peer without pause: waiting answers take no more memory than one of them.
#[test]
fn polls_without_pause_do_not_fill_the_memory_of_a_receiver() {
    let mut net = net_of(SenderConfig::rmtp(), 1, 1_000);
    net.start();
    let announced = net.log.iter().find_map(|(_, _, it)| match &it.packet.body {
        Body::Open(open) => Some(*open.clone()),
        _ => None,
    });
    let mut open = announced.unwrap();
    let object = open.object.as_mut().unwrap();
    (object.size, object.block, object.scheme) = (1 << 39, 256, 3);
    open.terms.content = layercast_wire::multicast::Content::Counts;
    let packet = |body| layercast_wire::multicast::Packet { session: 1, body };
    let mut receiver = crate::net::receiver(1, 1, VirtualStore);
    let now = Time::ZERO + Span::from_secs(1);
    let mut hear = |body| receiver.handle(now, Peer(0), &packet(body), &mut Off);
    hear(Body::Open(Box::new(open)));
    for sync in 1..50 {
        hear(Body::Poll(Box::new(layercast_wire::multicast::Poll {
            sync,
            round: 1,
            stamp: 0,
            upto: 0,
            sent: 0,
            ask: layercast_wire::multicast::Ask::Everyone,
            spread_us: 0,
            group: 1,
            handshake: true,
            separate: false,
            closing: false,
            ejected: Vec::new(),
            heard: layercast_wire::multicast::Needs::new(),
        })));
    }
    let mut out = 0;
    while receiver.poll_transmit(now, &mut Off).is_some() {
        out += 1;
    }
    assert!((1_024..=1_100).contains(&out), "{out}");
}

/// A path that delivers polls and no data: the receiver fails after two passes, and all others complete.
#[test]
fn a_receiver_that_no_data_reach_has_failed_after_two_passes() {
    for all in [false, true] {
        let config = SenderConfig {
            weak: Weak::Keep,
            ..rmtp()
        };
        let mut net = net_of(config, 3, 300_000);
        net.fate = Box::new(move |_, to, packet| {
            matches!(packet.body, Body::Data(_)) && to != 0 && (all || to == 2)
        });
        net.start();
        net.run();
        let failed = Outcome::Failed(Reason::Mtu);
        let has = Outcome::Delivered;
        let wanted = if all { [failed; 3] } else { [has, failed, has] };
        assert_eq!(outcomes(&net), wanted);
        assert!(net.sender.stats().rounds <= 3, "{:?}", net.sender.stats());
    }
}
