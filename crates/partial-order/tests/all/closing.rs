//! Opening, closing, pauses.

use bytes::Bytes;
use layercast_core::Time;
use layercast_partial_order::pdu::{Body, Reject};
use layercast_partial_order::{
    KEEP_ALIVE, LossCause, Order, PEER_TIMEOUT, Policy, Receiver, ReceiverEvent, ReceiverOptions,
    Sender, SenderEvent, SenderOptions, SubmitError, Tolerance,
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

fn open(config: Bytes) -> Body {
    Body::Open { token: 0, config }
}

#[test]
fn a_second_open_with_other_parameters_is_dropped() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    let other = config(Order::total(), Policy::PerGroup, &[Tolerance::None]);
    receiver.handle(ms(1), encoded(0, 0, open(other.to_bytes())));
    assert_eq!((receiver.bad_pdus(), receiver.poll_transmit()), (1, None));
    receiver.handle(ms(1), encoded(0, 0, open(Bytes::from_static(b"?"))));
    assert_eq!(receiver.bad_pdus(), 2);
    let mut fresh = Receiver::new(ReceiverOptions::default());
    fresh.handle(ms(1), encoded(0, 0, open(Bytes::from_static(b"?"))));
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
    assert_eq!(receiver.next_timeout(), Some(ms(8_000) + PEER_TIMEOUT));
}

#[test]
fn an_unproved_address_gets_a_token_and_no_state() {
    let config = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    let mut sender = Sender::new(config, SenderOptions::default(), Time::ZERO).unwrap();
    let mut receiver = Receiver::new(ReceiverOptions::default());
    let request = sender.poll_transmit().unwrap();
    for _ in 0..3 {
        receiver.handle_unproved(ms(1), request.clone(), 77);
        let retry = receiver.poll_transmit().unwrap();
        assert!(retry.len() <= request.len());
        assert!(receiver.config().is_none() && receiver.poll_event().is_none());
        sender.handle(ms(1), retry);
    }
    // The repetition of a token is dropped; the first causes one OPEN.
    let again = sender.poll_transmit().unwrap();
    assert_eq!((sender.poll_transmit(), sender.bad_pdus()), (None, 2));
    receiver.handle_unproved(ms(2), again.clone(), 78);
    assert!(receiver.config().is_none());
    receiver.poll_transmit();
    receiver.handle_unproved(ms(2), again, 77);
    assert_eq!(
        receiver.poll_event(),
        Some(ReceiverEvent::Opened { flows: 1 })
    );
    sender.handle(ms(2), receiver.poll_transmit().unwrap());
    assert_eq!(sender.poll_event(), Some(SenderEvent::Opened));
    // A token for an open connection changes nothing.
    sender.handle(ms(3), encoded(0, 0, Body::Retry(5)));
    assert!(sender.is_open() && sender.poll_transmit().is_none());
}

#[test]
fn tokens_are_answered_a_limited_number_of_times() {
    let (mut sender, _) = pair(Order::total(), &[Tolerance::Full]);
    sender.poll_transmit();
    for token in 1..=50 {
        sender.handle(ms(1), encoded(0, 0, Body::Retry(token)));
    }
    assert_eq!(std::iter::from_fn(|| sender.poll_transmit()).count(), 6);
}

#[test]
fn whatever_a_stranger_sends_is_answered_by_three_times_its_size_at_most() {
    let config = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    let datagrams = [
        encoded(0, 0, open(Bytes::new())),
        encoded(0, 0, open(config.to_bytes())),
        encoded(0, 1, Body::AckReq { highest: None }),
        encoded(0, 0, Body::Close(vec![])),
        crate::wire::data(0, 0, true),
    ];
    for datagram in datagrams {
        let mut receiver = Receiver::new(ReceiverOptions::default());
        receiver.handle_unproved(ms(0), datagram.clone(), 9);
        let answer: usize = std::iter::from_fn(|| receiver.poll_transmit())
            .map(|it| it.len())
            .sum();
        assert!(answer > 0 && answer <= 3 * datagram.len());
    }
}

#[test]
fn a_silent_sender_is_given_up_with_its_losses() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    for _ in 0..3 {
        sender.submit(0, Bytes::new(), ms(1)).unwrap();
    }
    let second = |it: &Bytes| it[0] & 0x0f == 1 && it[15] == 1;
    exchange(&mut sender, &mut receiver, ms(1), |_, it| second(it));
    events(&mut receiver);
    let at = receiver.next_timeout().unwrap();
    receiver.on_timeout(at);
    receiver.on_timeout(ms(1) + PEER_TIMEOUT);
    let all: Vec<_> = std::iter::from_fn(|| receiver.poll_event()).collect();
    let lost = ReceiverEvent::Lost {
        flow: 0,
        numbers: vec![1],
        cause: LossCause::Closed,
    };
    assert!(all.contains(&lost), "{all:?}");
    assert!(matches!(
        all[all.len() - 2],
        ReceiverEvent::Deliver { number: 2, .. }
    ));
    assert_eq!(all[all.len() - 1], ReceiverEvent::PeerDead);
    assert!(receiver.is_closed() && receiver.next_timeout().is_none());
}

#[test]
fn an_idle_connection_is_kept_and_a_receiver_that_vanishes_is_noticed() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    let mut now = ms(0);
    while now < ms(60_000) {
        let timers = [sender.next_timeout(), receiver.next_timeout()];
        now = timers.into_iter().flatten().min().unwrap();
        sender.on_timeout(now);
        receiver.on_timeout(now);
        exchange(&mut sender, &mut receiver, now, |_, _| false);
    }
    assert!(sender.is_open() && !receiver.is_closed());
    assert!((15..=21).contains(&sender.stats(0).ack_req));
    // From here on nothing arrives any more.
    let since = now;
    while let Some(at) = sender.next_timeout() {
        sender.on_timeout(at);
        while sender.poll_transmit().is_some() {}
        now = at;
    }
    assert!(std::iter::from_fn(|| sender.poll_event()).any(|it| it == SenderEvent::PeerDead));
    assert!(now.since(since) <= KEEP_ALIVE + PEER_TIMEOUT);
}

#[test]
fn an_end_that_gives_up_informs_the_other() {
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    events(&mut receiver);
    sender.abort();
    exchange(&mut sender, &mut receiver, ms(1), |_, _| false);
    assert_eq!(receiver.poll_event(), Some(ReceiverEvent::PeerDead));
    let (mut sender, mut receiver) = pair(Order::total(), &[Tolerance::Full]);
    exchange(&mut sender, &mut receiver, ms(0), |_, _| false);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Opened));
    receiver.abort(ms(1));
    exchange(&mut sender, &mut receiver, ms(1), |_, _| false);
    let ended = SenderEvent::Rejected(Reject::Ended);
    assert_eq!(sender.poll_event(), Some(ended));
    assert!(sender.next_timeout().is_none());
}
