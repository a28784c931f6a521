//! Opening, closing, pauses.

use bytes::Bytes;
use layercast_core::Time;
use layercast_partial_order::pdu::{Body, Reject};
use layercast_partial_order::{
    LossCause, Order, Policy, Receiver, ReceiverEvent, ReceiverOptions, Sender, SenderEvent,
    SenderOptions, SubmitError, Tolerance,
};

use crate::wire::{config, encoded, events, ms};

fn pair(order: Order, tolerances: &[Tolerance]) -> (Sender, Receiver) {
    let config = config(order, Policy::PerGroup, tolerances);
    let sender = Sender::new(config, SenderOptions::default(), Time::ZERO).unwrap();
    (sender, Receiver::new(ReceiverOptions::default()))
}

/// Carries all datagrams except those that `lose` takes, by direction and number.
fn exchange(
    sender: &mut Sender,
    receiver: &mut Receiver,
    now: Time,
    mut lose: impl FnMut(bool, &Bytes) -> bool,
) {
    loop {
        if let Some(it) = sender.poll_transmit() {
            if !lose(true, &it) {
                receiver.handle(now, it);
            }
        } else if let Some(it) = receiver.poll_transmit() {
            if !lose(false, &it) {
                sender.handle(now, it);
            }
        } else {
            return;
        }
    }
}

#[test]
fn a_connection_opens_and_closes() {
    let (mut sender, mut receiver) = pair(Order::blocks(&[2, 1]).unwrap(), &[Tolerance::Full; 2]);
    assert_eq!(
        sender.submit(0, Bytes::new(), ms(0)),
        Err(SubmitError::NotOpen)
    );
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Opened));
    sender.submit(0, Bytes::from_static(b"a"), ms(1)).unwrap();
    sender.close(ms(2));
    assert!(sender.submit(0, Bytes::new(), ms(2)).is_err());
    exchange(&mut sender, &mut receiver, ms(2), |_, _| false);
    let seen = events(&mut receiver);
    assert_eq!(seen.delivered, [(0, 0)]);
    assert_eq!(
        seen.other,
        [ReceiverEvent::Opened { flows: 2 }, ReceiverEvent::Closed]
    );
    assert_eq!(sender.poll_event(), Some(SenderEvent::Closed));
    assert!(receiver.is_closed() && sender.next_timeout().is_none());
}

#[test]
fn lost_answers_are_repeated() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    let mut lost = 0;
    let mut first = |forward: bool, _: &Bytes| {
        lost += u32::from(!forward);
        !forward && lost == 1
    };
    exchange(&mut sender, &mut receiver, ms(0), &mut first);
    assert!(!sender.is_open());
    sender.on_timeout(ms(100));
    exchange(&mut sender, &mut receiver, ms(100), |_, _| false);
    assert!(sender.is_open());
    // The CLOSE_ACK is lost, too; the repeated CLOSE has another.
    sender.close(ms(200));
    exchange(&mut sender, &mut receiver, ms(200), |forward, _| !forward);
    let again = sender.next_timeout().unwrap();
    sender.on_timeout(again);
    exchange(&mut sender, &mut receiver, again, |_, _| false);
    let closed = std::iter::from_fn(|| sender.poll_event()).any(|it| it == SenderEvent::Closed);
    assert!(closed);
    assert_eq!(
        events(&mut receiver)
            .other
            .iter()
            .filter(|&it| *it == ReceiverEvent::Closed)
            .count(),
        1
    );
}

#[test]
fn open_is_tried_six_times() {
    let (mut sender, _) = pair(Order::total(), &[Tolerance::Full]);
    let mut times = vec![Time::ZERO];
    while let Some(at) = sender.next_timeout() {
        sender.on_timeout(at);
        times.push(at);
    }
    assert_eq!(times[..4], [ms(0), ms(100), ms(300), ms(700)]);
    assert_eq!(std::iter::from_fn(|| sender.poll_transmit()).count(), 6);
    assert_eq!(sender.poll_event(), Some(SenderEvent::PeerDead));
}

#[test]
fn a_restarted_receiver_rejects() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    let mut restarted = Receiver::new(ReceiverOptions::default());
    sender.submit(0, Bytes::new(), ms(1)).unwrap();
    exchange(&mut sender, &mut restarted, ms(1), |_, _| false);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Opened));
    assert_eq!(
        sender.poll_event(),
        Some(SenderEvent::Rejected(Reject::Unknown))
    );
}

#[test]
fn a_second_open_with_other_parameters_is_dropped() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    let other = config(Order::total(), Policy::PerGroup, &[Tolerance::None]);
    receiver.handle(ms(1), encoded(0, 0, Body::Open(other.to_bytes())));
    assert_eq!((receiver.bad_pdus(), receiver.poll_transmit()), (1, None));
    receiver.handle(ms(1), encoded(0, 0, Body::Open(Bytes::from_static(b"?"))));
    assert_eq!(receiver.bad_pdus(), 2);
    let mut fresh = Receiver::new(ReceiverOptions::default());
    fresh.handle(ms(1), encoded(0, 0, Body::Open(Bytes::from_static(b"?"))));
    let answer = layercast_partial_order::pdu::Pdu::decode(fresh.poll_transmit().unwrap()).unwrap();
    assert_eq!(answer.body, Body::Reject(Reject::Invalid));
}

#[test]
fn the_receiver_lowers_the_windows_to_its_buffers() {
    let config = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    let mut sender = Sender::new(config, SenderOptions::default(), Time::ZERO).unwrap();
    let mut receiver = Receiver::new(ReceiverOptions {
        max_waiting: 3,
        ..ReceiverOptions::default()
    });
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    assert_eq!(sender.stats(0).window, 3);
}

#[test]
fn a_close_settles_the_tail() {
    for (tolerance, lost, again) in [
        (Tolerance::Full, vec![], 2),
        (Tolerance::None, vec![(0, 1), (0, 2)], 0),
    ] {
        let (mut sender, mut receiver) = pair(Order::total(), &[tolerance]);
        exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
        for _ in 0..3 {
            sender.submit(0, Bytes::new(), ms(1)).unwrap();
        }
        let mut count = 0;
        exchange(&mut sender, &mut receiver, ms(1), |forward, _| {
            count += u32::from(forward);
            forward && count > 1
        });
        sender.close(ms(9));
        exchange(&mut sender, &mut receiver, ms(9), |_, _| false);
        // With repetitions in flight the second CLOSE finds all settled.
        let at = sender.next_timeout().unwrap_or(ms(9));
        sender.on_timeout(at);
        exchange(&mut sender, &mut receiver, at, |_, _| false);
        assert!(receiver.is_closed());
        let seen = events(&mut receiver);
        assert_eq!(seen.lost, lost);
        assert_eq!(seen.delivered.len() + seen.lost.len(), 3);
        assert_eq!(sender.stats(0).retransmitted, again);
    }
}

#[test]
fn predecessors_that_are_never_sent_do_not_hang_a_close() {
    // SDU (0, 2) needs (1, 0), which the application never submits.
    let (mut sender, mut receiver) = pair(Order::blocks(&[2, 1]).unwrap(), &[Tolerance::Full; 2]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    for _ in 0..3 {
        sender.submit(0, Bytes::new(), ms(1)).unwrap();
    }
    exchange(&mut sender, &mut receiver, ms(1), |_, _| false);
    assert_eq!(events(&mut receiver).delivered, [(0, 0), (0, 1)]);
    sender.close(ms(2));
    exchange(&mut sender, &mut receiver, ms(2), |_, _| false);
    let seen = events(&mut receiver);
    assert_eq!((seen.delivered, seen.lost), (vec![(0, 2)], vec![]));
    assert!(receiver.is_closed());
}

#[test]
fn a_flow_that_pauses_does_not_hold_the_others() {
    let (mut sender, mut receiver) = pair(Order::blocks(&[2, 1]).unwrap(), &[Tolerance::Full; 2]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    sender.pause(1);
    assert_eq!(
        sender.submit(1, Bytes::new(), ms(1)),
        Err(SubmitError::Paused { flow: 1 })
    );
    for at in 0..6 {
        sender.submit(0, Bytes::new(), ms(at)).unwrap();
        exchange(&mut sender, &mut receiver, ms(at), |_, _| false);
    }
    assert_eq!(
        events(&mut receiver).delivered,
        (0..6).map(|it| (0, it)).collect::<Vec<_>>()
    );
    sender.resume(1);
    assert_eq!(sender.submit(1, Bytes::new(), ms(9)), Ok(2));
    exchange(&mut sender, &mut receiver, ms(9), |_, _| false);
    assert_eq!(events(&mut receiver).delivered, [(1, 2)]);
}

#[test]
fn giving_up_delivers_what_waits() {
    let config = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    let mut receiver = crate::wire::receiver(config);
    receiver.handle(ms(0), crate::wire::data(0, 1, false));
    receiver.abort(ms(1));
    assert_eq!(
        receiver.poll_event(),
        Some(ReceiverEvent::Lost {
            flow: 0,
            numbers: vec![0],
            cause: LossCause::Closed
        })
    );
    assert_eq!(events(&mut receiver).delivered, [(0, 1)]);
}

#[test]
fn a_stall_is_a_warning() {
    let config = config(
        Order::blocks(&[2, 1]).unwrap(),
        Policy::MediaPerMedia,
        &[Tolerance::Full; 2],
    );
    let mut receiver = crate::wire::receiver(config);
    for number in 0..3 {
        receiver.handle(ms(8_000), crate::wire::data(0, number, false));
    }
    events(&mut receiver);
    assert_eq!(receiver.next_timeout(), Some(ms(13_000)));
    receiver.on_timeout(ms(12_999));
    assert_eq!(receiver.poll_event(), None);
    receiver.on_timeout(ms(13_000));
    receiver.on_timeout(ms(14_000));
    let seen = events(&mut receiver);
    assert!(
        matches!(
            seen.other[..],
            [ReceiverEvent::Stalled {
                flow: 0,
                number: 2,
                ..
            }]
        ),
        "{seen:?}"
    );
    assert_eq!(receiver.next_timeout(), None);
}
