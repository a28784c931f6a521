//! What the receiver delivers, declares lost and requests.

use layercast_core::Serial;
use layercast_partial_order::pdu::{Body, Pdu, Report};
use layercast_partial_order::{
    Hold, LossCause, Order, Policy, ReceiverEvent, Sender, SenderOptions, Tolerance,
};

use crate::wire::{config, data, encoded, events, ms, receiver, sent};

fn blocks(policy: Policy, tolerances: [Tolerance; 2]) -> layercast_partial_order::Receiver {
    receiver(config(Order::blocks(&[2, 1]).unwrap(), policy, &tolerances))
}

fn list(last: u32, list: &[u32]) -> Report {
    Report {
        last: Serial(last),
        list: list.iter().map(|&it| Serial(it)).collect(),
    }
}

#[test]
fn a_total_order_without_loss_is_tcp() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::Full]));
    for number in [0, 2, 3, 1] {
        receiver.handle(ms(0), data(0, number, false));
    }
    let seen = events(&mut receiver);
    assert_eq!(seen.delivered, [(0, 0), (0, 1), (0, 2), (0, 3)]);
    assert_eq!(
        sent(&mut receiver),
        [Body::Fnack(list(2, &[1])), Body::Fnack(list(3, &[1]))]
    );
}

#[test]
fn no_order_and_any_loss_is_udp() {
    let mut receiver = receiver(config(
        Order::none(1).unwrap(),
        Policy::PerGroup,
        &[Tolerance::None],
    ));
    for number in [3, 0, 2] {
        receiver.handle(ms(0), data(0, number, false));
    }
    assert_eq!(events(&mut receiver).delivered, [(0, 3), (0, 0), (0, 2)]);
    assert!(sent(&mut receiver).is_empty());
}

#[test]
fn the_group_declares_lost_what_media_per_media_waits_for() {
    let tolerances = [Tolerance::Consecutive(1); 2];
    let mut grouped = blocks(Policy::PerGroup, tolerances);
    let mut single = blocks(Policy::MediaPerMedia, tolerances);
    for it in [&mut grouped, &mut single] {
        for number in [0, 1, 2] {
            it.handle(ms(u64::from(number)), data(0, number, false));
        }
    }
    // The block of sound is missing: SDU (0, 2) is in the next block.
    let seen = events(&mut grouped);
    assert_eq!(
        (seen.delivered, seen.lost),
        (vec![(0, 0), (0, 1), (0, 2)], vec![(1, 0)])
    );
    assert_eq!(events(&mut single).delivered, [(0, 0), (0, 1)]);
    single.handle(ms(9), data(1, 0, false));
    assert_eq!(events(&mut single).delivered, [(1, 0), (0, 2)]);
    let explained = single.explain(0, 2).unwrap();
    assert_eq!(explained.held.len(), 1);
    assert_eq!(
        explained.held[0].hold,
        Hold::OtherFlow { flow: 1, number: 0 }
    );
    assert_eq!(
        (explained.held[0].from, explained.held[0].until),
        (ms(2), ms(9))
    );
    assert_eq!(single.explain(0, 0).unwrap().held, []);
    assert_eq!(single.explain(0, 77), None);
    // An SDU that arrives after it was declared lost is late, not delivered.
    grouped.handle(ms(9), data(1, 0, false));
    let seen = events(&mut grouped);
    assert_eq!(
        (seen.delivered, seen.other),
        (vec![], vec![ReceiverEvent::Late { flow: 1, number: 0 }])
    );
    assert_eq!((grouped.stats(1).late, grouped.stats(1).duplicate), (1, 0));
    grouped.handle(ms(9), data(0, 2, false));
    assert_eq!(grouped.stats(0).duplicate, 1);
}

#[test]
fn the_tolerance_of_the_other_flow_holds_the_group() {
    let mut receiver = blocks(Policy::PerGroup, [Tolerance::None, Tolerance::Full]);
    for number in [0, 1, 2] {
        receiver.handle(ms(0), data(0, number, false));
    }
    assert_eq!(events(&mut receiver).delivered.len(), 2);
    let held = receiver.explain(0, 2).unwrap().held;
    assert_eq!(held[0].hold, Hold::OtherTolerance { flow: 1, number: 0 });
}

#[test]
fn losses_of_the_own_flow_are_decided_while_the_other_flow_waits() {
    // F2: both flows lost an SDU that they tolerate, and each waits for the other.
    let mut receiver = blocks(Policy::MediaPerMedia, [Tolerance::Consecutive(1); 2]);
    receiver.handle(ms(0), data(0, 0, false));
    receiver.handle(ms(1), data(0, 2, false));
    assert_eq!(events(&mut receiver).lost, [(0, 1)]);
    receiver.handle(ms(2), data(1, 1, false));
    let seen = events(&mut receiver);
    assert_eq!(seen.lost, [(1, 0)]);
    assert_eq!(seen.delivered, [(1, 1), (0, 2)]);
}

#[test]
fn a_list_has_every_missing_number() {
    // F1: also those above the SDU that caused it.
    let mut receiver = blocks(Policy::MediaPerMedia, [Tolerance::Full; 2]);
    for number in [1, 5, 3] {
        receiver.handle(ms(0), data(0, number, false));
    }
    let bodies = sent(&mut receiver);
    assert_eq!(bodies.last(), Some(&Body::Fnack(list(5, &[0, 2, 4]))));
    // An acknowledgement lists the same, because the flow tolerates none.
    receiver.handle(
        ms(1),
        encoded(
            0,
            9,
            Body::AckReq {
                highest: Some(Serial(7)),
            },
        ),
    );
    assert_eq!(
        sent(&mut receiver),
        [Body::AckRes(list(7, &[0, 2, 4, 6, 7]))]
    );
}

#[test]
fn what_an_acknowledgement_leaves_out_is_declared_lost() {
    let mut receiver = receiver(config(
        Order::none(1).unwrap(),
        Policy::PerGroup,
        &[Tolerance::Consecutive(1)],
    ));
    receiver.handle(ms(0), data(0, 1, true));
    assert_eq!(sent(&mut receiver), [Body::AckRes(list(1, &[]))]);
    assert_eq!(events(&mut receiver).lost, [(0, 0)]);
}

#[test]
fn a_request_answers_the_ack_bit() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::Full]));
    receiver.handle(ms(0), data(0, 1, true));
    assert_eq!(sent(&mut receiver), [Body::Fnack(list(1, &[0]))]);
    receiver.handle(ms(0), data(0, 0, true));
    assert_eq!(sent(&mut receiver), [Body::AckRes(list(1, &[]))]);
}

#[test]
fn answers_echo_the_stamp_of_what_they_answer() {
    // F6: an ACK_RES and a FNACK for an Ack bit; nothing for a DATA PDU that was sent again.
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::Full]));
    let again = |number, again| {
        let body = Body::Data {
            number: Serial(number),
            ack: true,
            again,
            skip: false,
            sent: Vec::new(),
            payload: bytes::Bytes::new(),
        };
        encoded(0, 70 + number, body)
    };
    receiver.handle(ms(0), again(0, false));
    receiver.handle(ms(1), again(2, false));
    receiver.handle(ms(2), again(1, true));
    receiver.handle(ms(3), encoded(0, 99, Body::AckReq { highest: None }));
    let stamps: Vec<u32> = std::iter::from_fn(|| receiver.poll_transmit())
        .map(|it| Pdu::decode(it).unwrap().stamp)
        .collect();
    assert_eq!(stamps, [70, 72, 0, 99]);
}

#[test]
fn any_loss_is_never_requested_and_the_sender_is_freed() {
    let config = config(
        Order::none(1).unwrap(),
        Policy::PerGroup,
        &[Tolerance::None],
    );
    let mut sender = Sender::opened(config.clone(), SenderOptions::default(), ms(0)).unwrap();
    let mut receiver = receiver(config);
    for number in 0..60 {
        let now = ms(40 * number);
        assert_eq!(sender.submit(0, bytes::Bytes::new(), now), Ok(number));
        while let Some(it) = sender.poll_transmit() {
            // Each second SDU is lost.
            if number % 2 == 0 {
                receiver.handle(now, it);
            }
        }
        while let Some(it) = receiver.poll_transmit() {
            sender.handle(now, it);
        }
    }
    let stats = receiver.stats(0);
    assert_eq!((stats.fnack, stats.buffered, stats.buffered_max), (0, 0, 0));
    assert!(stats.lost > 10 && sender.stats(0).retransmitted == 0);
    assert!(sender.stats(0).buffered < 4, "{:?}", sender.stats(0));
}

#[test]
fn nothing_received_is_the_number_before_the_first() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::Full]));
    receiver.handle(ms(0), encoded(0, 1, Body::AckReq { highest: None }));
    assert_eq!(sent(&mut receiver), [Body::AckRes(list(u32::MAX, &[]))]);
}

#[test]
fn a_buffered_predecessor_is_delivered_not_lost() {
    // F7.
    let order = Order::dag(&[2, 2], &[(sdu(0, 0), sdu(1, 0)), (sdu(1, 0), sdu(1, 1))]);
    let mut receiver = receiver(config(
        order.unwrap(),
        Policy::PerGroup,
        &[Tolerance::Consecutive(1), Tolerance::Full],
    ));
    receiver.handle(ms(0), data(1, 1, false));
    assert!(events(&mut receiver).delivered.is_empty());
    receiver.handle(ms(0), data(1, 0, false));
    let seen = events(&mut receiver);
    assert_eq!(
        (seen.lost, seen.delivered),
        (vec![(0, 0)], vec![(1, 0), (1, 1)])
    );
}

fn sdu(flow: usize, number: u64) -> layercast_partial_order::Sdu {
    layercast_partial_order::Sdu { flow, number }
}

#[test]
fn what_is_gone_is_lost_and_a_violation_is_said() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::Full]));
    receiver.handle(ms(0), data(0, 2, false));
    receiver.handle(
        ms(1),
        encoded(0, 0, Body::Gone(vec![Serial(0), Serial(1), Serial(9)])),
    );
    let lost = receiver.poll_event();
    assert_eq!(
        lost,
        Some(ReceiverEvent::Lost {
            flow: 0,
            numbers: vec![0, 1],
            cause: LossCause::SenderGone
        })
    );
    assert_eq!(
        receiver.poll_event(),
        Some(ReceiverEvent::QosViolated { flow: 0 })
    );
    assert_eq!(events(&mut receiver).delivered, [(0, 2)]);
}
