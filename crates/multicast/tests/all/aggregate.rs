use std::collections::BTreeSet;

use layercast_core::{Off, Rate, Span, Stream};
use layercast_fec::Scheme;
use layercast_multicast::{
    Aggregator, AggregatorConfig, Deadline, Members, Memory, MemoryStore, Outcome, Peer, Repair,
    Schedule, Sender, SenderConfig, Virtual, VirtualStore, Weak,
};
use layercast_wire::multicast::{Body, MemberId, Reason, Symbol};
use proptest::prelude::*;

use crate::net::{FIRST_AGGREGATOR, Faults, Net, PERFECT};
use crate::object::{content, stores};

fn members(expect: u32) -> Members {
    Members::Anyone {
        expect: Some(expect),
        most: 10_000,
        late: true,
    }
}

fn layercast() -> SenderConfig {
    SenderConfig {
        packet_size: 500,
        block: 10,
        repair: Repair::Parity {
            proactive: 0,
            most: 100,
        },
        ..SenderConfig::layercast(Rate::from_bps(1_000_000))
    }
}

fn rmtp() -> SenderConfig {
    SenderConfig {
        packet_size: 500,
        deadline: Deadline::Linear {
            tat: Span::from_ms(300),
            alpha: Span::from_ms(500),
        },
        ..SenderConfig::rmtp()
    }
}

fn objects(
    config: SenderConfig,
    receivers: u32,
    each: u32,
    faults: Faults,
) -> Net<Memory, MemoryStore> {
    let scheme = Scheme::from_number(config.scheme);
    let source = Memory::new("x", content(40_000), scheme);
    let sender = Sender::object(5, config, members(receivers), source).unwrap();
    let mut net = Net::new(sender, stores(receivers), faults, 11);
    net.aggregate(each);
    net
}

#[test]
fn a_hundred_receivers_behind_five_aggregators() {
    for config in [layercast(), rmtp()] {
        for loss in [0.0, 0.05] {
            let faults = Faults {
                loss,
                jitter: Span::from_ms(5),
                ..PERFECT
            };
            let mut net = objects(config.clone(), 100, 20, faults);
            net.start();
            net.run();
            assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events);
            for receiver in net.receivers.iter().flatten() {
                assert!(receiver.is_complete());
                assert_eq!(receiver.store().bytes(), &content(40_000)[..]);
            }
            let deliveries: Vec<_> = net.sender.deliveries().collect();
            assert_eq!(deliveries.len(), 5);
            for it in &deliveries {
                assert_eq!((it.outcome, it.complete), (Outcome::Delivered, it.weight));
                // A receiver that joins when the others are complete may no longer be counted.
                let least = if loss > 0.0 { 19 } else { 20 };
                assert!((least..=20).contains(&it.weight), "{it:?}");
            }
            let reports = net.sender.stats().reports;
            assert!(reports < 60, "{reports} reports at loss {loss}");
        }
    }
}

fn feedback(body: &Body) -> bool {
    matches!(body, Body::Report(_) | Body::Poll(_) | Body::Release { .. })
}

/// Which packets of the first pass are lost, for which receivers, and the loss of feedback.
fn losses() -> impl Strategy<Value = (usize, u32, u32, Vec<(u32, u64)>, f64, u64)> {
    let lost = prop::collection::vec((1u32..12, 0u64..80), 0..60);
    let share = prop_oneof![Just(0.0), 0.0..0.3];
    (0usize..4, 1u32..12, 1u32..5, lost, share, any::<u64>())
}

proptest! {
    #[test]
    fn only_lost_packets_are_sent_again(
        (profile, receivers, each, lost, share, seed) in losses(),
    ) {
        let lost: BTreeSet<(u32, u64)> = lost.into_iter().filter(|it| it.0 <= receivers).collect();
        let asked = Schedule::BackOff { delta: Span::from_ms(3), unasked: false };
        let suppressed = Schedule::Suppress {
            delta: Span::from_us(200),
            above: 0,
            spread: Span::from_ms(400),
        };
        let config = match profile {
            0 => rmtp(),
            1 => SenderConfig { schedule: asked, ..rmtp() },
            2 => layercast(),
            _ => SenderConfig { schedule: suppressed, ..layercast() },
        };
        let coded = config.scheme != 0;
        let mut net = objects(config, receivers, each, PERFECT);
        let (fates, mut random) = (lost.clone(), Stream::new(seed, "feedback"));
        net.fate = Box::new(move |_, to, packet| match &packet.body {
            Body::Data(data) if data.round == 0 => {
                matches!(data.symbol, Symbol::Source(number) if fates.contains(&(to, number)))
            }
            body => feedback(body) && random.chance(share),
        });
        net.start();
        net.run();
        let union = lost.iter().map(|it| it.1).collect::<BTreeSet<_>>().len();
        let worst = (0..8).map(|block| {
            let of = |who| move |it: &&(u32, u64)| it.0 == who && it.1 / 10 == block;
            (1..=receivers).map(|who| lost.iter().filter(of(who)).count()).max().unwrap_or(0)
        });
        let wanted = 80 + if coded { worst.sum() } else { union };
        let sent = net.data().count();
        prop_assert!(sent <= wanted, "{} instead of {}", sent, wanted);
        if share == 0.0 {
            prop_assert_eq!(sent, wanted);
            prop_assert_eq!(net.result(), Some(Ok(())));
            prop_assert!(net.receivers.iter().flatten().all(|it| it.is_complete()));
            let rounds = u64::from(net.sender.stats().rounds);
            // With suppression the sender has yet to learn the delay of aggregators.
            prop_assert!(rounds <= 2 + u64::from(profile == 3), "{} passes", rounds);
        }
    }
}

#[test]
fn an_aggregator_that_starts_anew_speaks_for_its_receivers_again() {
    for config in [layercast(), rmtp()] {
        let faults = Faults {
            loss: 0.05,
            ..PERFECT
        };
        let mut net = objects(config, 20, 10, faults);
        net.start();
        net.run_until(net.now + Span::from_ms(300));
        net.aggregators[0] = None;
        net.run_until(net.now + Span::from_ms(500));
        net.restart_aggregator(0, 2);
        net.run();
        assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events);
        for receiver in net.receivers.iter().flatten() {
            assert!(receiver.is_complete());
        }
        let outcomes = net.sender.deliveries().map(|it| it.outcome);
        assert!(outcomes.eq([Outcome::Delivered; 2]));
    }
}

#[test]
fn a_receiver_that_dies_behind_an_aggregator_is_counted_and_named_there() {
    let mut net = objects(layercast(), 20, 10, PERFECT);
    net.start();
    net.run_until(net.now + Span::from_ms(400));
    net.crash(13);
    net.run();
    assert_eq!(net.result(), Some(Ok(())));
    let mut complete: Vec<_> = net
        .sender
        .deliveries()
        .map(|it| (it.member, it.complete))
        .collect();
    complete.sort();
    let first = u64::from(FIRST_AGGREGATOR);
    assert_eq!(complete, [(MemberId(first), 10), (MemberId(first + 1), 9)]);
    let dead: Vec<_> = net.aggregators[1]
        .iter()
        .flat_map(|it| it.deliveries())
        .filter(|it| it.outcome != Outcome::Delivered)
        .map(|it| (it.member.0, it.outcome))
        .collect();
    assert_eq!(dead, [(13, Outcome::Failed(Reason::Silent))]);
}

#[test]
fn a_stream_behind_aggregators_is_kept_for_the_slowest() {
    let config = SenderConfig {
        weak: Weak::Keep,
        ..SenderConfig::frm()
    };
    let sender = Sender::stream(5, config, members(12)).unwrap();
    let faults = Faults {
        loss: 0.02,
        ..PERFECT
    };
    let mut net: Net<Virtual, VirtualStore> = Net::new(sender, vec![VirtualStore; 12], faults, 12);
    net.delay = Span::from_ms(5);
    net.aggregate(6);
    net.start();
    net.run_until(net.now + Span::from_secs(2));
    let mut taken = [0; 12];
    for number in 0..200u64 {
        while net
            .sender
            .send_packet(number.to_be_bytes().to_vec().into_payload())
            .is_err()
        {
            net.run_until(net.now + Span::from_ms(5));
            take(&mut net, &mut taken);
        }
        net.drain(0);
        net.run_until(net.now + Span::from_ms(5));
        take(&mut net, &mut taken);
    }
    net.sender.end();
    for _ in 0..2_000 {
        net.run_until(net.now + Span::from_ms(5));
        take(&mut net, &mut taken);
    }
    assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events.last());
    assert_eq!(taken, [200; 12]);
    let echoes = net.log.iter().filter(|(_, from, transmit)| {
        *from > 1_000 && matches!(transmit.packet.body, Body::Report(_))
    });
    let reports = net.sender.stats().reports;
    assert!(echoes.count() as u64 >= reports && reports > 10);
}

#[test]
fn an_aggregator_with_a_key_hears_only_senders_that_have_it() {
    let master = [9; 32];
    let config = SenderConfig {
        receipts: Some(master),
        ..layercast()
    };
    let mut net = objects(config, 20, 10, PERFECT);
    for (number, aggregator) in (FIRST_AGGREGATOR..).zip(&mut net.aggregators) {
        let own = AggregatorConfig::new(MemberId(number.into()), 10);
        *aggregator = Some(Aggregator::new(own.with_key(Some(&master))));
    }
    // An attacker without the key is the first to announce a session.
    let mallory = Peer(77);
    let mut forged = Sender::object(
        66,
        layercast(),
        members(20),
        Memory::new("y", content(900), None),
    )
    .unwrap();
    forged.start(net.now);
    let announcement = forged.poll_transmit(net.now, &mut Off).unwrap().packet;
    for aggregator in net.aggregators.iter_mut().flatten() {
        aggregator.handle(net.now, mallory, &announcement, &mut Off);
        assert_eq!(aggregator.stats().forged, 1);
    }
    net.start();
    net.run();
    assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events);
    let outcomes = net.sender.deliveries().map(|it| (it.outcome, it.complete));
    assert!(outcomes.eq([(Outcome::Delivered, 10); 2]));
    assert_eq!(net.sender.stats().forged, 0);
}

trait IntoPayload {
    fn into_payload(self) -> layercast_wire::Payload;
}

impl IntoPayload for Vec<u8> {
    fn into_payload(self) -> layercast_wire::Payload {
        layercast_wire::Payload::Bytes(self.into())
    }
}

/// Every user reads what is available.
fn take(net: &mut Net<Virtual, VirtualStore>, taken: &mut [u64; 12]) {
    for (receiver, taken) in net.receivers.iter_mut().flatten().zip(taken) {
        while let Some(payload) = receiver.take() {
            assert_eq!(payload, taken.to_be_bytes().to_vec().into_payload());
            *taken += 1;
        }
    }
}
