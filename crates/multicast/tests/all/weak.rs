//! Receivers that hold up the others.

use layercast_core::{Rate, Span};
use layercast_multicast::{Memory, Sender, SenderConfig, SenderEvent, To, Weak};
use layercast_wire::multicast::{Body, MemberId, Reason};

use crate::net::{Net, PERFECT};
use crate::object::{content, listed, stores};
use crate::policy::{delivered, net, rmtp, when};
#[test]
fn busy_receivers_are_served_after_the_others() {
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
    // What it missed while it was busy was sent to it by unicast.
    let stats = net.sender.stats();
    assert_eq!(stats.data, 100 + stats.unicast);
    assert!((50..100).contains(&stats.unicast), "{stats:?}");
}

#[test]
fn a_receiver_that_stays_busy_is_given_up() {
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
fn receivers_that_lack_too_much_are_postponed() {
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
        // The other receivers got exactly one pass.
        assert_eq!(net.data().filter(|(it, _)| it.to == To::Group).count(), 100);
    }
}

#[test]
fn a_receiver_with_half_loss_each_way_is_not_considered_dead() {
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
