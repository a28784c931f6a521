//! Corrupt objects, and slow verification.

use layercast_core::{Rate, Span, Time};
use layercast_multicast::{
    Bits, Geometry, Outcome, Rebuilt, ReceiverEvent, Sender, SenderConfig, SenderEvent, Store,
    Verdict, Virtual,
};
use layercast_wire::Payload;
use layercast_wire::multicast::{Body, MemberId, Object, Reason};

use crate::net::{Net, PERFECT};
use crate::object::listed;
use crate::policy::{net, net_of, rmtp};
#[test]
fn a_second_corrupt_object_is_a_failure() {
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
    let closed = ReceiverEvent::Closed {
        complete: false,
        reason: Reason::Corrupt,
    };
    assert_eq!(events.last(), Some(&closed));
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
        let closed = ReceiverEvent::Closed {
            complete: false,
            reason: Reason::Corrupt,
        };
        assert_eq!(net.receiver_events[0].last(), Some(&closed));
        let outcomes: Vec<_> = net.sender.deliveries().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Outcome::Failed(Reason::Corrupt); 2]);
    }
}

#[test]
fn slow_verification_is_waited_for() {
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

#[test]
fn a_receiver_is_complete_when_it_has_verified_also_while_a_silent_one_is_waited_for() {
    let source = Virtual::new(100_000, 3);
    let config = SenderConfig::layercast(Rate::from_bps(8_000_000));
    let sender = Sender::object(3, config, listed(2), source).unwrap();
    let mut net = Net::new(sender, vec![Slow, Slow], PERFECT, 21);
    net.start();
    net.run_until(Time::ZERO + Span::from_ms(1_150));
    net.crash(2);
    let looked = Time::ZERO + Span::from_secs(3);
    net.run_until(looked);
    net.receivers[0].as_mut().unwrap().verified(looked, true);
    net.run();
    let is_about = |event: &SenderEvent, member| match *event {
        SenderEvent::Delivered(it) | SenderEvent::Failed { member: it, .. } => {
            it == MemberId(member)
        }
        _ => false,
    };
    let at = |member| {
        let mut events = net.sender_events.iter();
        events.find(|(_, it)| is_about(it, member)).unwrap()
    };
    let ((complete, delivered), (gone, failed)) = (at(1), at(2));
    assert_eq!(*delivered, SenderEvent::Delivered(MemberId(1)));
    assert!(complete.since(looked) < Span::from_ms(200), "{complete:?}");
    assert!(matches!(failed, SenderEvent::Failed { .. }), "{failed:?}");
    assert!(gone.since(looked) > Span::from_secs(20), "{gone:?}");
}

/// A store that reports the result of the verification later.
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
