use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_multicast::{
    Completion, Members, Outcome, ReceiverEvent, Repair, SendError, Sender, SenderConfig,
    SenderEvent, Trigger, Virtual, VirtualStore, Weak,
};
use layercast_wire::multicast::{Body, MemberId, Reason};
use proptest::prelude::*;

use crate::net::{Faults, Net, PERFECT};

pub type Stream = Net<Virtual, VirtualStore>;

/// A packet that contains its number.
fn packet(number: u64) -> Bytes {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(100 + (number % 50) as usize, number as u8);
    bytes.into()
}

pub fn stream(config: SenderConfig, receivers: u32, faults: Faults, seed: u64) -> Stream {
    let members = Members::Anyone {
        expect: Some(receivers),
        most: 1_000,
        late: false,
    };
    let sender = Sender::stream(9, config, members).unwrap();
    let stores = vec![VirtualStore; receivers as usize];
    let mut net = Net::new(sender, stores, faults, seed);
    net.delay = Span::from_ms(10);
    net
}

/// Sends a packet every 10 ms up to `count`; users read one packet per interval.
pub struct Users {
    sent: u64,
    count: u64,
    pub taken: Vec<u64>,
    pub every: Vec<u64>,
}

impl Users {
    pub fn new(receivers: usize, count: u64) -> Users {
        Users {
            sent: 0,
            count,
            taken: vec![0; receivers],
            every: vec![1; receivers],
        }
    }

    pub fn run(&mut self, net: &mut Stream, ms: u64) {
        for at in 0..ms {
            net.run_until(net.now + Span::from_ms(1));
            if at % 10 == 0 && self.sent < self.count {
                match net.sender.send_packet(packet(self.sent).into()) {
                    Ok(()) => self.sent += 1,
                    Err(error) => assert!(
                        matches!(error, SendError::WouldBlock | SendError::NotOpen),
                        "{error}"
                    ),
                }
                if self.sent == self.count {
                    net.sender.end();
                }
                net.drain(0);
            }
            for (number, taken) in self.taken.iter_mut().enumerate() {
                if at % self.every[number] != 0 {
                    continue;
                }
                let Some(receiver) = &mut net.receivers[number] else {
                    continue;
                };
                if let Some(payload) = receiver.take() {
                    assert_eq!(payload, packet(*taken).into(), "receiver {number}");
                    *taken += 1;
                }
            }
        }
    }
}

pub fn no_ejection() -> SenderConfig {
    SenderConfig {
        weak: Weak::Keep,
        ..SenderConfig::frm()
    }
}

#[test]
fn the_stream_arrives_whole_whatever_the_repair() {
    let selective = SenderConfig {
        repair: Repair::Selective {
            unicast_below_permille: 300,
        },
        trigger: Trigger::Timer {
            on_complete: true,
            idle: Span::from_secs(1),
        },
        ..no_ejection()
    };
    let mut again = Vec::new();
    for config in [no_ejection(), selective] {
        let faults = Faults {
            loss: 0.02,
            twice: 0.02,
            damage: 0.01,
            poison: 0.0,
            jitter: Span::from_ms(3),
        };
        let mut net = stream(config, 5, faults, 4);
        net.start();
        let mut users = Users::new(5, 400);
        users.run(&mut net, 30_000);
        assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events.last());
        assert_eq!(users.taken, [400; 5]);
        let closed = |events: &Vec<ReceiverEvent>| {
            events
                .iter()
                .any(|event| matches!(event, ReceiverEvent::Closed { complete: true, .. }))
        };
        assert!(net.receiver_events.iter().all(closed));
        again.push(*net.sender.stats());
    }
    assert!(again[1].again * 2 < again[0].again, "{again:?}");
    assert!(again[1].unicast > 0 && again[0].unicast == 0, "{again:?}");
}

#[test]
fn nothing_is_released_before_everybody_has_it() {
    let mut net = stream(no_ejection(), 3, PERFECT, 5);
    net.start();
    let mut users = Users::new(3, 1_000);
    // The third user never reads.
    users.every[2] = u64::MAX;
    users.run(&mut net, 3_000);
    let released = net
        .sender_events
        .iter()
        .any(|(_, event)| matches!(event, SenderEvent::Released { .. }));
    assert!(!released);
    assert_eq!(users.sent, 32, "the window is full");
    assert_eq!(net.sender.window(), (32, 32));
    let full = net.sender.send_packet(packet(0).into());
    assert_eq!(full, Err(SendError::WouldBlock));
    users.every[2] = 1;
    users.run(&mut net, 20_000);
    assert_eq!(users.taken, [1_000; 3]);
}

#[test]
fn slow_receivers_are_expelled_and_informed() {
    let config = SenderConfig {
        packet_size: 2_000,
        ..SenderConfig::frm()
    };
    let mut net = stream(config, 6, PERFECT, 6);
    net.start();
    let mut users = Users::new(6, 2_000);
    users.run(&mut net, 2_000);
    users.every[4] = 20;
    users.every[5] = 20;
    users.run(&mut net, 8_000);
    let ejected: Vec<MemberId> = net
        .sender_events
        .iter()
        .filter_map(|(_, event)| match event {
            SenderEvent::Ejected { member, .. } => Some(*member),
            _ => None,
        })
        .collect();
    assert_eq!(ejected, [MemberId(5), MemberId(6)]);
    for number in [4, 5] {
        let expected = ReceiverEvent::Closed {
            complete: false,
            reason: Reason::Slow,
        };
        assert_eq!(net.receiver_events[number].last(), Some(&expected));
    }
    // The other receivers keep their rate.
    assert!(users.taken[0] > 900, "{:?}", users.taken);
    users.run(&mut net, 20_000);
    assert_eq!(net.result(), Some(Ok(())));
    assert_eq!(users.taken[..4], [2_000; 4]);
}

#[test]
fn a_slow_group_is_not_expelled() {
    let mut net = stream(SenderConfig::frm(), 3, PERFECT, 6);
    net.start();
    let mut users = Users::new(3, 300);
    users.every = vec![25; 3];
    users.run(&mut net, 10_000);
    assert_eq!(net.sender.stats().ejected, 0);
    let degraded = |(_, event): &(Time, SenderEvent)| matches!(event, SenderEvent::Degraded { .. });
    assert!(net.sender_events.iter().any(degraded));
}

#[test]
fn a_dead_receiver_is_noticed_within_the_handshakes() {
    for (mandatory, ends) in [
        (3, Some(Err(layercast_multicast::Failure::Integrity))),
        (1, None),
    ] {
        let config = SenderConfig {
            completion: Completion::Both(Box::new((
                Completion::AtLeast(2),
                Completion::Key(vec![MemberId(mandatory)]),
            ))),
            ..no_ejection()
        };
        let mut net = stream(config, 3, PERFECT, 7);
        net.start();
        let mut users = Users::new(3, 500);
        users.run(&mut net, 1_000);
        net.crash(3);
        let died = net.now;
        users.run(&mut net, 3_000);
        assert_eq!(net.result(), ends);
        let failed = net.sender_events.iter().find_map(|(at, event)| {
            let dead = SenderEvent::Failed {
                member: MemberId(3),
                reason: Reason::Silent,
            };
            (*event == dead).then_some(at.since(died))
        });
        // Four handshakes, each twice as long as the one before, starting at 30 ms.
        assert!(
            failed.is_some_and(|it| it < Span::from_ms(1_500)),
            "{failed:?}"
        );
        if ends.is_none() {
            users.run(&mut net, 10_000);
            assert_eq!(users.taken[..2], [500; 2]);
            let outcomes: Vec<_> = net.sender.deliveries().map(|it| it.outcome).collect();
            let silent = Outcome::Failed(Reason::Silent);
            assert_eq!(outcomes, [Outcome::Delivered, Outcome::Delivered, silent]);
        }
    }
}

#[test]
fn at_most_one_repair_in_two_rounds() {
    let faults = Faults {
        loss: 0.1,
        ..PERFECT
    };
    let mut net = stream(no_ejection(), 4, faults, 8);
    net.start();
    Users::new(4, 200).run(&mut net, 20_000);
    let mut polls = 0;
    let mut repaired_at = None;
    let mut repairs = 0;
    let mut again = false;
    for (_, from, transmit) in &net.log {
        match &transmit.packet.body {
            Body::Poll(poll) if *from == 0 && !poll.handshake => {
                polls += 1;
                again = false;
            }
            Body::Data(data) if data.flags.0 != 0 && !again => {
                again = true;
                repairs += 1;
                if let Some(before) = repaired_at {
                    assert!(polls - before != 1, "polls {before} and {polls}");
                }
                repaired_at = Some(polls);
            }
            _ => {}
        }
    }
    assert!(repairs > 5);
    assert_eq!(net.result(), Some(Ok(())));
}

#[test]
fn members_of_best_effort_are_not_waited_for() {
    let config = SenderConfig {
        best_effort: vec![MemberId(2)],
        ..no_ejection()
    };
    let mut net = stream(config, 2, PERFECT, 9);
    net.start();
    let mut users = Users::new(2, 200);
    users.every[1] = u64::MAX;
    users.run(&mut net, 5_000);
    assert_eq!(net.result(), Some(Ok(())));
    assert_eq!(users.taken[0], 200);
}

#[test]
fn an_idle_stream_is_polled_less_and_less() {
    let mut net = stream(no_ejection(), 2, PERFECT, 10);
    net.start();
    net.run_until(net.now + Span::from_secs(20));
    let polls = net.sender.stats().polls;
    assert!((20..40).contains(&polls), "{polls}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Each case takes as long as ten others.
        cases: ProptestConfig::default().cases.div_ceil(16),
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    })]

    /// Users read the stream in order (checked by `Users`); a receiver that is present at the end has all of it or
    /// knows that it has not.
    #[test]
    fn streams_are_complete_or_reported_as_failed(
        receivers in 1u32..6,
        rates in (0.0..0.15f64, 0.0..0.1f64, 0.0..0.05f64, 0u64..20),
        policies in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        crash in prop::option::of((100u64..3_000, 1u32..6)),
        slow in prop::option::of((0usize..6, 1u64..40)),
        seed: u64,
    ) {
        let faults = Faults {
            loss: rates.0,
            twice: rates.1,
            damage: rates.2,
            poison: 0.0,
            jitter: Span::from_ms(rates.3),
        };
        let (on_complete, selective, eject, release_on_received) = policies;
        let config = SenderConfig {
            trigger: Trigger::Timer { on_complete, idle: Span::from_secs(1) },
            repair: match selective {
                true => Repair::Selective { unicast_below_permille: 400 },
                false => Repair::GoBackN,
            },
            weak: if eject { SenderConfig::frm().weak } else { Weak::Keep },
            release_on_received,
            ..SenderConfig::frm()
        };
        let mut net = stream(config, receivers, faults, seed);
        net.start();
        let mut users = Users::new(receivers as usize, 100);
        if let Some((user, every)) = slow {
            users.every[user % receivers as usize] = every;
        }
        let crashed = crash.map(|(ms, receiver)| {
            users.run(&mut net, ms);
            let receiver = 1 + (receiver - 1) % receivers;
            net.crash(receiver);
            receiver
        });
        for _ in 0..200 {
            if net.result().is_some() {
                break;
            }
            users.run(&mut net, 2_000);
        }
        prop_assert!(net.result().is_some(), "it never ends");
        // Receivers that were not informed of the end leave after ten seconds; users read what is left.
        users.run(&mut net, 12_000);
        for delivery in net.sender.deliveries() {
            let user = delivery.member.0 as usize - 1;
            if delivery.outcome == Outcome::Delivered && crashed != Some(user as u32 + 1) {
                prop_assert_eq!(users.taken[user], 100);
            }
        }
        for (user, receiver) in net.receivers.iter().enumerate() {
            let Some(receiver) = receiver else { continue };
            let events = &net.receiver_events[user];
            if events.contains(&ReceiverEvent::Joined) {
                prop_assert!(receiver.is_closed(), "receiver {} does not know", user + 1);
            }
            let whole = |it: &ReceiverEvent| matches!(it, ReceiverEvent::Closed { complete: true, .. });
            if events.iter().any(whole) {
                prop_assert_eq!(users.taken[user], users.sent);
            }
        }
    }
}
