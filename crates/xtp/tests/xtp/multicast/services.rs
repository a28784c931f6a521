//! What multicast does, seen at the packets and at the users.

use layercast_core::{Machine, Span};
use layercast_wire::{XtpBody, XtpDiagValue, XtpOptions, XtpService};
use layercast_xtp::{Retransmission, XtpConfig, XtpEvent, XtpFailure, XtpGroup};

use super::net::{Group, at, group, host, reliable};
use crate::net::ms;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

fn kinds(net: &Group, from: usize) -> Vec<&'static str> {
    let own = net.sent.iter().filter(|it| it.1 == from);
    own.map(|it| match it.3.body {
        XtpBody::First { .. } => "FIRST",
        XtpBody::Jcntl { .. } => "JCNTL",
        XtpBody::Cntl(_) => "CNTL",
        XtpBody::Ecntl { .. } => "ECNTL",
        XtpBody::Data(_) => "DATA",
        _ => "other",
    })
    .collect()
}

#[test]
fn all_who_listen_are_invited_and_get_every_byte() {
    let mut net = Group::new(5, ms(10));
    let config = XtpConfig {
        group: XtpGroup {
            wait_for: 4,
            ..XtpGroup::default()
        },
        ..reliable()
    };
    let near = net.open(&config, &reliable());
    let data = pattern(40_000);
    net.send(near, &data);
    net.hosts[0].close_write(near).unwrap();
    net.run(Span::from_secs(2));
    for n in 1..5 {
        let far = net.accept(n);
        net.drain();
        assert!(
            net.reported(n, XtpEvent::Joined(far, 0)),
            "{:?}",
            net.events[n]
        );
        assert_eq!(net.read(n, far), data, "{n}");
        net.drain();
        assert!(
            net.reported(n, XtpEvent::PeerClosed(far)) && net.reported(n, XtpEvent::Closed(far))
        );
        assert!(net.reported(0, XtpEvent::ReceiverDone(near, host(n))));
        // It asks, confirms, answers, and takes its leave.
        assert_eq!(&kinds(&net, n)[..2], ["JCNTL", "CNTL"]);
    }
    assert!(
        net.reported(0, XtpEvent::Closed(near)),
        "{:?}",
        net.events[0]
    );
    assert!(
        net.sent
            .iter()
            .all(|it| it.3.options.has(XtpOptions::MULTI))
    );
    // Data go once, to all.
    let data = net
        .sent
        .iter()
        .filter(|it| matches!(it.3.body, XtpBody::Data(_)));
    assert!(data.clone().all(|it| it.2 == group().net));
    assert_eq!(data.count(), 40_000_usize.div_ceil(1_448));
    assert_eq!(
        kinds(&net, 0).iter().filter(|it| **it == "JCNTL").count(),
        4
    );
}

#[test]
fn what_one_misses_is_repaired_for_all_at_once() {
    for (retransmission, most) in [
        (Retransmission::Selective, 3),
        (Retransmission::GoBackN, 40),
    ] {
        let mut net = Group::new(9, ms(10));
        let config = XtpConfig {
            retransmission,
            group: XtpGroup {
                wait_for: 8,
                ..XtpGroup::default()
            },
            ..reliable()
        };
        let near = net.open(&config, &reliable());
        net.run(ms(500));
        // Packets 3 and 7 are lost on the way to every receiver, packet 12 on the way to the fourth.
        let mut count = 0;
        net.way = Box::new(move |from, to, it| {
            if from == 0 && matches!(it.packet.body, XtpBody::Data(_)) {
                count += u32::from(to == 1);
                if [3, 7].contains(&count) || (count == 12 && to == 4) {
                    return Vec::new();
                }
            }
            vec![(ms(10), it)]
        });
        let data = pattern(60_000);
        net.send(near, &data);
        net.run(Span::from_secs(2));
        for n in 1..9 {
            let far = net.accept(n);
            assert_eq!(net.read(n, far), data, "{n}");
        }
        let again = net.hosts[0].stats().retransmitted;
        assert!((3..=most).contains(&again), "{retransmission:?}: {again}");
    }
}

#[test]
fn one_who_joins_in_the_middle_gets_everything_from_there() {
    for by_host in [false, true] {
        let mut net = Group::new(3, ms(10));
        let large = XtpConfig {
            window: 1 << 20,
            ..reliable()
        };
        let near = net.open(&large, &large);
        net.hosts[2].unlisten(net.now, super::net::PORT);
        let (first, second) = (pattern(30_000), pattern(50_000));
        net.send(near, &first);
        net.run(Span::from_secs(1));
        let remote = match by_host {
            true => at(0, super::net::PORT),
            false => group(),
        };
        let now = net.now;
        let late = net.hosts[2]
            .join(now, at(2, 6_000), remote, &reliable())
            .unwrap();
        net.run(Span::from_secs(1));
        assert!(
            net.reported(2, XtpEvent::Joined(late, 30_000)),
            "{:?}",
            net.events[2]
        );
        assert_eq!(net.hosts[0].info(near).unwrap().receivers, 2);
        net.send(near, &second);
        net.hosts[0].close_write(near).unwrap();
        net.run(Span::from_secs(1));
        assert_eq!(net.read(2, late), second);
        let early = net.accept(1);
        assert_eq!(net.read(1, early), [first, second].concat());
        assert!(net.reported(0, XtpEvent::Closed(near)) && net.reported(2, XtpEvent::Closed(late)));
    }
}

#[test]
fn one_who_dies_is_dropped_and_the_others_go_on() {
    for strict in [false, true] {
        let mut net = Group::new(4, ms(10));
        let config = XtpConfig {
            group: XtpGroup {
                wait_for: 3,
                strict,
                ..XtpGroup::default()
            },
            ..reliable()
        };
        let near = net.open(&config, &reliable());
        net.run(Span::from_secs(1));
        net.dead[2] = true;
        let data = pattern(60_000);
        net.send(near, &data);
        net.run(Span::from_secs(60));
        let far = net.accept(1);
        if strict {
            assert_eq!(net.failure(0), Some(XtpFailure::TimedOut));
            net.drain();
            assert_eq!(net.failure(1), Some(XtpFailure::Abandoned));
            continue;
        }
        assert_eq!(net.read(1, far), data);
        assert!(net.reported(0, XtpEvent::ReceiverLost(near, host(2), 0)));
        assert_eq!(net.hosts[0].info(near).unwrap().receivers, 2);
        assert_eq!(net.failure(0), None);
        assert_eq!(net.hosts[0].stats().lost_receivers, 1);
    }
}

#[test]
fn one_who_leaves_holds_nobody_up() {
    let mut net = Group::new(3, ms(10));
    let near = net.open(&reliable(), &reliable());
    net.run(Span::from_secs(1));
    let (one, two) = (net.accept(1), net.accept(2));
    net.send(near, &pattern(10_000));
    net.run(Span::from_secs(1));
    let now = net.now;
    net.hosts[1].close(now, one).unwrap();
    net.run(ms(100));
    let last = net.sent.iter().rfind(|it| it.1 == 1).unwrap();
    let ends = XtpOptions::MULTI | XtpOptions::RCLOSE | XtpOptions::END;
    assert_eq!(last.3.options, ends);
    assert!(net.reported(0, XtpEvent::ReceiverLost(near, host(1), 10_000)));
    net.send(near, &pattern(10_000));
    net.hosts[0].close_write(near).unwrap();
    net.run(Span::from_secs(1));
    assert_eq!(net.read(2, two).len(), 20_000);
    assert!(net.reported(0, XtpEvent::Closed(near)));
}

#[test]
fn without_anybody_a_reliable_transmitter_waits_and_invites_and_gives_up() {
    let mut net = Group::new(2, ms(10));
    let near = net.open(&reliable(), &reliable());
    net.dead[1] = true;
    net.run(Span::from_secs(20));
    let invitations = kinds(&net, 0).iter().filter(|it| **it == "FIRST").count();
    assert!((5..=7).contains(&invitations), "{invitations}");
    net.dead[1] = false;
    net.send(near, b"at last");
    net.run(Span::from_secs(40));
    let far = net.accept(1);
    assert_eq!(net.read(1, far), b"at last");
    net.dead[1] = true;
    net.send(near, b"and no one");
    net.run(Span::from_secs(60));
    assert!(net.reported(0, XtpEvent::NoReceivers(near)));
    assert_eq!(net.failure(0), None);
    net.run(Span::from_secs(200));
    assert_eq!(net.failure(0), Some(XtpFailure::TimedOut));
    assert_eq!(net.hosts[0].next_timeout(), None);
}

#[test]
fn a_receiver_that_takes_nothing_is_waited_for_or_dropped() {
    for drop_laggards in [false, true] {
        let mut net = Group::new(3, ms(10));
        let config = XtpConfig {
            send_buffer: 1 << 20,
            group: XtpGroup {
                wait_for: 2,
                drop_laggards,
                ..XtpGroup::default()
            },
            ..reliable()
        };
        let near = net.open(&config, &reliable());
        net.run(Span::from_secs(1));
        let (one, two) = (net.accept(1), net.accept(2));
        let data = pattern(300_000);
        net.send(near, &data);
        let mut got = Vec::new();
        for _ in 0..600 {
            net.run(ms(100));
            got.extend(net.read(1, one));
        }
        match drop_laggards {
            true => {
                assert_eq!(got, data);
                assert_eq!(net.failure(2), Some(XtpFailure::Abandoned));
            }
            false => {
                assert_eq!(got.len(), 64 << 10);
                while got.len() < data.len() {
                    net.read(2, two);
                    net.run(ms(100));
                    got.extend(net.read(1, one));
                }
                assert_eq!((got, net.failure(2)), (data, None));
            }
        }
    }
}

#[test]
fn the_transmitter_keeps_to_what_the_slowest_takes() {
    let mut net = Group::new(3, ms(10));
    let config = XtpConfig {
        send_buffer: 1 << 20,
        window: 1 << 20,
        group: XtpGroup {
            wait_for: 2,
            ..XtpGroup::default()
        },
        ..reliable()
    };
    let near = net.open(&config, &config);
    net.run(Span::from_secs(1));
    let slow = layercast_xtp::XtpRate {
        rate: 50_000,
        burst: 3_000,
    };
    let (one, _) = (net.accept(1), net.accept(2));
    net.hosts[1].set_traffic(one, slow, slow).unwrap();
    net.run(Span::from_secs(1));
    net.send(near, &pattern(500_000));
    net.run(Span::from_secs(4));
    let sent = net.hosts[0].info(near).unwrap().counts.bytes_sent;
    assert!((190_000..=210_000).contains(&sent), "{sent}");
}

#[test]
fn a_stream_that_nobody_acknowledges_is_one_way() {
    let mut net = Group::new(4, ms(10));
    let config = XtpConfig {
        window: 1 << 20,
        ..XtpConfig::new(XtpService::MULTICAST)
    };
    let near = net.open(&config, &config);
    let data = pattern(1_000);
    net.send(near, &data);
    net.run(ms(100));
    net.dead[3] = true;
    for _ in 0..100 {
        net.send(near, &data);
        net.run(ms(10));
    }
    // A late receiver learns the position.
    net.hosts[2].unlisten(net.now, super::net::PORT);
    let late = net.join(2, &config);
    net.run(ms(100));
    net.send(near, &data);
    net.hosts[0].close_write(near).unwrap();
    net.run(ms(100));
    let far = net.accept(1);
    assert_eq!(net.read(1, far).len(), 102_000);
    assert_eq!(net.read(2, late).len(), 1_000);
    net.drain();
    assert!(
        net.reported(2, XtpEvent::Joined(late, 101_000)),
        "{:?}",
        net.events[2]
    );
    assert!(net.reported(1, XtpEvent::Closed(far)) && net.reported(2, XtpEvent::Closed(late)));
    assert!(net.reported(0, XtpEvent::Closed(near)));
    assert_eq!(kinds(&net, 1), Vec::<&str>::new());
    // A receiver that was away gets nothing any more, and fails in the end.
    net.dead[3] = false;
    let far = net.accept(3);
    net.run(Span::from_secs(200));
    assert!(net.reported(3, XtpEvent::Failed(far, XtpFailure::TimedOut)));
}

#[test]
fn who_cannot_be_let_in_is_told_why() {
    let mut net = Group::new(3, ms(10));
    let config = XtpConfig {
        group: XtpGroup {
            receivers: 1,
            ..XtpGroup::default()
        },
        ..reliable()
    };
    let near = net.open(&config, &reliable());
    net.hosts[2].unlisten(net.now, super::net::PORT);
    net.run(Span::from_secs(1));
    net.join(2, &reliable());
    net.run(Span::from_secs(1));
    let full = XtpFailure::Refused(XtpDiagValue::NO_RESOURCE);
    assert_eq!(net.failure(2), Some(full));
    let small = XtpConfig {
        max_data: 500,
        ..reliable()
    };
    net.events[2].clear();
    net.join(2, &small);
    net.run(Span::from_secs(1));
    let refused = XtpFailure::Refused(XtpDiagValue::TRAFFIC_REFUSED);
    assert_eq!(net.failure(2), Some(refused));
    // And a request without a transmitter fails.
    let now = net.now;
    net.hosts[0].abort(now, near).unwrap();
    net.events[2].clear();
    net.join(2, &reliable());
    net.run(Span::from_secs(200));
    assert_eq!(net.failure(2), Some(XtpFailure::TimedOut));
    let far = net.accept(1);
    net.drain();
    assert!(net.reported(1, XtpEvent::Failed(far, XtpFailure::Abandoned)));
}

#[test]
fn bad_news_of_many_wait_and_mostly_need_not_be_told() {
    let tell = |slot| {
        let mut net = Group::new(101, ms(10));
        let config = XtpConfig {
            fast_nak: true,
            ask: layercast_xtp::Ask::Never,
            // Answers that come late are no reason for a handshake.
            least_wait: Span::from_secs(1),
            group: XtpGroup {
                wait_for: 100,
                slot,
                ..XtpGroup::default()
            },
            ..reliable()
        };
        let near = net.open(&config, &config);
        net.run(Span::from_secs(1));
        let mut count = 0;
        net.way = Box::new(move |from, _, it| {
            count += u32::from(from == 0);
            // The third packet is lost for every receiver.
            let lost = from == 0 && (201..=300).contains(&count);
            if lost { Vec::new() } else { vec![(ms(10), it)] }
        });
        let before = net.sent.len();
        for _ in 0..10 {
            net.send(near, &pattern(1_000));
            net.run(ms(1));
        }
        net.run(ms(500));
        let far = net.accept(50);
        assert_eq!(net.read(50, far).len(), 10_000);
        let news = net.sent[before..].iter().filter(|it| it.1 > 0);
        news.filter(|it| matches!(it.3.body, XtpBody::Ecntl { .. }))
            .count()
    };
    let (at_once, slotted) = (tell(Span::ZERO), tell(ms(500)));
    assert!(at_once >= 300 && slotted <= 40, "{at_once} and {slotted}");
}
