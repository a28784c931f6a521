//! Opportunistic recovery, deadlines, inference.

use layercast_core::{Serial, Span};
use layercast_partial_order::pdu::{Body, Report};
use layercast_partial_order::{Config, Hold, Order, Policy, Sender, SenderOptions, Tolerance};

use crate::wire::{config, data, encoded, events, ms, receiver, sent};

fn blocks(policy: Policy, tolerance: Tolerance) -> Config {
    config(Order::blocks(&[2, 1]).unwrap(), policy, &[tolerance; 2])
}

fn fnack(last: u32, list: &[u32]) -> Body {
    Body::Fnack(Report {
        last: Serial(last),
        list: list.iter().map(|&it| Serial(it)).collect(),
    })
}

#[test]
fn what_is_tolerated_is_requested_while_another_flow_blocks() {
    let mut config = blocks(Policy::MediaPerMedia, Tolerance::None);
    config.opportunistic = true;
    let mut receiver = receiver(config);
    receiver.handle(ms(0), data(0, 0, false));
    // SDU (0, 2) misses (0, 1), which is tolerated, but (1, 0) blocks it anyway.
    receiver.handle(ms(1), data(0, 2, false));
    assert_eq!(sent(&mut receiver), [fnack(2, &[1])]);
    assert_eq!(
        receiver.explain(0, 2).unwrap().held[0].hold,
        Hold::Recovery { number: 1 }
    );
    receiver.handle(ms(2), data(0, 1, false));
    receiver.handle(ms(3), data(1, 0, false));
    let seen = events(&mut receiver);
    assert_eq!((seen.delivered.len(), seen.lost.len()), (4, 0));
    // If the repair does not come, the loss is declared when the other flow does not block any more.
    receiver.handle(ms(4), data(0, 3, false));
    receiver.handle(ms(5), data(0, 5, false));
    receiver.handle(ms(6), data(1, 1, false));
    assert_eq!(events(&mut receiver).lost, [(0, 4)]);
}

#[test]
fn an_arrival_proves_what_was_sent_in_the_other_flows() {
    let mut config = blocks(Policy::MediaPerMedia, Tolerance::Full);
    config.infer = true;
    let mut sender = Sender::opened(config.clone(), SenderOptions::default(), ms(0)).unwrap();
    let mut receiver = receiver(config);
    for flow in [1, 0] {
        sender
            .submit(flow, bytes::Bytes::from_static(b"sdu"), ms(0))
            .unwrap();
    }
    let lost = sender.poll_transmit();
    assert!(lost.is_some());
    receiver.handle(ms(0), sender.poll_transmit().unwrap());
    // Nothing of flow 1 arrived; its SDU is requested.
    assert_eq!(sent(&mut receiver), [fnack(0, &[0])]);
    assert_eq!(events(&mut receiver).delivered, [(0, 0)]);
}

#[test]
fn grace_keeps_what_was_only_reordered() {
    for (grace, lost) in [(Span::ZERO, vec![(0, 0)]), (Span::from_ms(20), vec![])] {
        let mut config = config(Order::total(), Policy::PerGroup, &[Tolerance::None]);
        config.flows[0].grace = grace;
        let mut receiver = receiver(config);
        receiver.handle(ms(0), data(0, 1, true));
        receiver.handle(ms(10), data(0, 0, false));
        let seen = events(&mut receiver);
        assert_eq!(seen.lost, lost);
    }
}

#[test]
fn a_loss_is_declared_when_waiting_would_miss_the_play_out() {
    let mut config = config(Order::total(), Policy::PerGroup, &[Tolerance::None]);
    config.flows[0].playout = Some(Span::from_ms(100));
    let mut receiver = receiver(config);
    let stamped = |number, us| {
        let body = Body::Data {
            number: Serial(number),
            ack: false,
            again: false,
            skip: false,
            sent: Vec::new(),
            payload: bytes::Bytes::new(),
        };
        encoded(0, us, body)
    };
    // The first has the shortest transit, 5 ms; SDU 2 takes 20 ms longer: it may wait 80 ms.
    receiver.handle(ms(6), stamped(0, 1_000));
    receiver.handle(ms(105), stamped(2, 80_000));
    assert_eq!(sent(&mut receiver), [fnack(2, &[1])]);
    assert_eq!(receiver.next_timeout(), Some(ms(185)));
    // An acknowledgement does not declare it lost earlier.
    receiver.handle(ms(110), encoded(0, 1, Body::AckReq { highest: None }));
    assert!(matches!(&sent(&mut receiver)[0], Body::AckRes(report) if report.list == [Serial(1)]));
    assert!(events(&mut receiver).lost.is_empty());
    receiver.on_timeout(ms(185));
    let seen = events(&mut receiver);
    assert_eq!((seen.lost, seen.delivered), (vec![(0, 1)], vec![(0, 2)]));
    let explained = receiver.explain(0, 2).unwrap();
    assert_eq!(
        explained.held[0].hold,
        Hold::Deadline { flow: 0, number: 1 }
    );
    assert_eq!(explained.waited(), Span::from_ms(80));
    assert_eq!(receiver.timeline().count(), 2);
}
