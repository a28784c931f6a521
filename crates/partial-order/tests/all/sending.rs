//! Windows, requests and retransmissions of the sender.

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};
use layercast_partial_order::pdu::{Body, Pdu, Report};
use layercast_partial_order::{
    Config, KEEP_ALIVE, Order, PEER_TIMEOUT, Policy, Sender, SenderEvent, SenderOptions,
    SubmitError, Tolerance, WindowRule,
};

use crate::wire::{config, encoded, ms};

fn one() -> Config {
    config(Order::total(), Policy::PerGroup, &[Tolerance::Full])
}

fn opened(config: Config, options: SenderOptions) -> Sender {
    Sender::opened(config, options, Time::ZERO).unwrap()
}

fn lan() -> SenderOptions {
    SenderOptions {
        initial_rtt: Span::from_ms(10),
        ..SenderOptions::default()
    }
}

pub fn sent(sender: &mut Sender) -> Vec<Pdu> {
    std::iter::from_fn(|| sender.poll_transmit())
        .map(|it| Pdu::decode(it).unwrap())
        .collect()
}

/// Numbers of the DATA PDUs, those sent again negative.
fn numbers(sender: &mut Sender) -> Vec<i64> {
    let number = |pdu: Pdu| match pdu.body {
        Body::Data { number, again, .. } => Some(if again {
            -i64::from(number.0)
        } else {
            i64::from(number.0)
        }),
        _ => None,
    };
    sent(sender).into_iter().filter_map(number).collect()
}

fn submit(sender: &mut Sender, count: u64, now: Time) {
    for _ in 0..count {
        sender.submit(0, Bytes::from_static(b"sdu"), now).unwrap();
    }
}

fn report(last: u32, list: &[u32]) -> Report {
    Report {
        last: Serial(last),
        list: list.iter().map(|&it| Serial(it)).collect(),
    }
}

#[test]
fn the_window_is_four_request_periods() {
    // n = floor(RTT PF) + 1: 1 in a LAN, 3 at 100 ms, 8 at 300 ms and 25 SDUs a second.
    for (rtt, n) in [(10, 1), (100, 3), (300, 8)] {
        let options = SenderOptions {
            initial_rtt: Span::from_ms(rtt),
            ..SenderOptions::default()
        };
        let mut sender = opened(one(), options);
        assert_eq!(sender.stats(0).window, 4 * n);
        submit(&mut sender, 4 * n, ms(0));
        let acks = sent(&mut sender)
            .into_iter()
            .map(|pdu| matches!(pdu.body, Body::Data { ack: true, .. }));
        let asked: Vec<u64> = acks.zip(1..).filter(|it| it.0).map(|it| it.1).collect();
        assert_eq!(asked, [n, 2 * n, 3 * n, 4 * n]);
    }
}

#[test]
fn an_exhausted_window_refuses_and_is_writable_again() {
    let mut sender = opened(one(), lan());
    submit(&mut sender, 4, ms(0));
    assert_eq!(
        sender.submit(0, Bytes::new(), ms(0)),
        Err(SubmitError::Full { flow: 0 })
    );
    // The lock timer: 1.1 RTT.
    assert_eq!(sender.next_timeout(), Some(ms(11)));
    sent(&mut sender);
    sender.on_timeout(ms(11));
    let request = sent(&mut sender);
    assert_eq!(
        request[0].body,
        Body::AckReq {
            highest: Some(Serial(3))
        }
    );
    assert_eq!(request[0].stamp, 11_000);
    assert_eq!(sender.next_timeout(), Some(ms(22)));
    sender.handle(ms(15), encoded(0, 11_000, Body::AckRes(report(3, &[]))));
    assert_eq!(sender.poll_event(), Some(SenderEvent::Writable { flow: 0 }));
    assert_eq!(sender.stats(0).buffered, 0);
    // RTT = 7/8 10 ms + 1/8 4 ms.
    assert_eq!(sender.stats(0).rtt, Span::from_us(9_250));
    assert_eq!(sender.next_timeout(), Some(ms(15) + KEEP_ALIVE));
}

#[test]
fn a_request_is_held_off_for_a_round_trip() {
    // F5.
    let mut sender = opened(one(), lan());
    submit(&mut sender, 3, ms(0));
    assert_eq!(numbers(&mut sender), [0, 1, 2]);
    for (at, again) in [
        (5, vec![0, -1]),
        (6, vec![]),
        (14, vec![]),
        (15, vec![0, -1]),
    ] {
        sender.handle(ms(at), encoded(0, 0, Body::Fnack(report(2, &[0, 1]))));
        assert_eq!(numbers(&mut sender), again, "at {at} ms");
    }
    assert_eq!(sender.stats(0).retransmitted, 4);
}

#[test]
fn a_lost_tail_is_sent_again_after_a_request() {
    // F3: four consecutive losses lock a window of four.
    let mut sender = opened(one(), lan());
    submit(&mut sender, 4, ms(0));
    sent(&mut sender);
    sender.on_timeout(ms(11));
    sent(&mut sender);
    sender.handle(
        ms(14),
        encoded(0, 11_000, Body::AckRes(report(u32::MAX, &[]))),
    );
    assert_eq!(numbers(&mut sender), [0, -1, -2, -3]);
    // The answer to an older request says nothing of what left after it.
    let mut sender = opened(one(), lan());
    submit(&mut sender, 4, ms(10));
    sent(&mut sender);
    sender.handle(
        ms(14),
        encoded(0, 5_000, Body::AckRes(report(u32::MAX, &[]))),
    );
    assert_eq!(numbers(&mut sender), [0; 0]);
}

#[test]
fn what_is_not_held_is_gone() {
    let mut sender = opened(one(), lan());
    submit(&mut sender, 2, ms(0));
    sent(&mut sender);
    sender.handle(ms(1), encoded(0, 0, Body::AckRes(report(0, &[]))));
    sender.handle(ms(1), encoded(0, 0, Body::Fnack(report(1, &[0]))));
    assert_eq!(sent(&mut sender)[0].body, Body::Gone(vec![Serial(0)]));
}

#[test]
fn contradictions_free_nothing() {
    let mut sender = opened(one(), lan());
    submit(&mut sender, 3, ms(0));
    for body in [
        Body::AckRes(report(3, &[])),
        Body::AckRes(report(u32::MAX / 2, &[])),
        Body::Fnack(report(1, &[2])),
        Body::Fnack(report(2, &[9])),
    ] {
        sender.handle(ms(1), encoded(0, 0, body));
    }
    sender.handle(ms(1), encoded(7, 0, Body::AckRes(report(2, &[]))));
    sender.handle(ms(1), Bytes::from_static(b"noise"));
    assert_eq!(sender.stats(0).buffered, 3);
    assert_eq!(sender.stats(0).bad_pdu + sender.bad_pdus(), 6);
}

#[test]
fn numbers_wrap() {
    let mut wrapping = one();
    wrapping.flows[0].initial = Serial(u32::MAX - 1);
    let mut sender = opened(wrapping.clone(), lan());
    let mut receiver = crate::wire::receiver(wrapping);
    let mut delivered = Vec::new();
    for round in 0..10 {
        submit(&mut sender, 1, ms(round));
        while let Some(it) = sender.poll_transmit() {
            receiver.handle(ms(round), it);
        }
        while let Some(it) = receiver.poll_transmit() {
            sender.handle(ms(round), it);
        }
        delivered.extend(crate::wire::events(&mut receiver).delivered);
    }
    assert_eq!(delivered, (0..10).map(|it| (0, it)).collect::<Vec<_>>());
    assert_eq!((sender.stats(0).buffered, sender.stats(0).bad_pdu), (0, 0));
}

#[test]
fn limits_of_submissions() {
    let mut sender = opened(one(), lan());
    assert_eq!(
        sender.submit(0, Bytes::from(vec![0; 2_000]), ms(0)),
        Err(SubmitError::TooBig {
            bytes: 2_000,
            most: 1_024
        })
    );
    assert_eq!(
        sender.submit(3, Bytes::new(), ms(0)),
        Err(SubmitError::Beyond { flow: 3 })
    );
    // An empty SDU takes a number.
    assert_eq!(sender.submit(0, Bytes::new(), ms(0)), Ok(0));
    let finite = Order::dag(&[1], &[]).unwrap();
    let mut sender = opened(config(finite, Policy::PerGroup, &[Tolerance::Full]), lan());
    assert_eq!(sender.submit(0, Bytes::new(), ms(0)), Ok(0));
    assert_eq!(
        sender.submit(0, Bytes::new(), ms(0)),
        Err(SubmitError::Beyond { flow: 0 })
    );
}

#[test]
fn requests_slow_down_and_a_silent_peer_is_dead() {
    let mut sender = opened(one(), lan());
    submit(&mut sender, 4, ms(0));
    let (mut requests, mut now) = (Vec::new(), Time::ZERO);
    while let Some(at) = sender.next_timeout() {
        now = at;
        sender.on_timeout(at);
        requests.extend(
            sent(&mut sender)
                .iter()
                .filter(|it| matches!(it.body, Body::AckReq { .. }))
                .map(|_| at),
        );
        if sender.poll_event() == Some(SenderEvent::PeerDead) {
            break;
        }
    }
    assert_eq!(requests[..4], [ms(11), ms(22), ms(33), ms(44)]);
    let last = requests[requests.len() - 1].since(requests[requests.len() - 2]);
    assert_eq!(last, Span::from_secs(1));
    assert_eq!(now, ms(11) + PEER_TIMEOUT);
    assert_eq!(sender.next_timeout(), None);
    assert_eq!(
        sender.submit(0, Bytes::new(), now),
        Err(SubmitError::NotOpen)
    );
}

#[test]
fn the_unacknowledged_tail_of_a_silent_flow_is_asked_for() {
    let mut sender = opened(one(), lan());
    submit(&mut sender, 1, ms(5));
    assert_eq!(sender.next_timeout(), Some(ms(1_005)));
    sent(&mut sender);
    sender.on_timeout(ms(1_005));
    assert!(matches!(sent(&mut sender)[0].body, Body::AckReq { .. }));
    sender.handle(
        ms(1_009),
        encoded(0, 1_005_000, Body::AckRes(report(u32::MAX, &[]))),
    );
    assert_eq!(numbers(&mut sender), [0]);
    assert_eq!(sender.stats(0).retransmitted, 1);
}

#[test]
fn a_wild_sample_is_clamped() {
    let mut sender = opened(one(), lan());
    submit(&mut sender, 1, ms(1));
    // A stamp from the future: the difference wraps.
    sender.handle(ms(1), encoded(0, 5_000_000, Body::AckRes(report(0, &[]))));
    let stats = sender.stats(0);
    assert!(
        stats.rtt <= Span::from_ms(1_259) && stats.window <= 256,
        "{stats:?}"
    );
}

#[test]
fn the_clock_of_stamps_wraps() {
    // 2^32 microseconds: 71 minutes.
    let wrap = Time::ZERO + Span::from_us(1 << 32);
    let before = wrap - Span::from_ms(2);
    let mut sender = Sender::opened(one(), lan(), before).unwrap();
    submit(&mut sender, 1, before);
    let stamp = sent(&mut sender)[0].stamp;
    assert_eq!(stamp, u32::MAX - 1_999);
    let now = wrap + Span::from_ms(2);
    sender.handle(now, encoded(0, stamp, Body::AckRes(report(0, &[]))));
    // 7/8 10 ms + 1/8 4 ms.
    assert_eq!(sender.stats(0).rtt, Span::from_us(9_250));
}

#[test]
fn the_paper_has_four_pdus_and_no_stamps() {
    let mut strict = one();
    strict.strict_paper = true;
    let mut sender = Sender::new(strict, lan(), Time::ZERO).unwrap();
    submit(&mut sender, 4, ms(0));
    sender.on_timeout(ms(11));
    let all = sent(&mut sender);
    assert!(all.iter().all(|it| it.stamp == 0));
    assert_eq!(all[4].body, Body::AckReq { highest: None });
    // RTT by the number with the Ack bit: 7/8 10 ms + 1/8 18 ms.
    sender.handle(ms(18), encoded(0, 0, Body::AckRes(report(0, &[]))));
    assert_eq!(sender.stats(0).rtt, Span::from_ms(11));
}

#[test]
fn a_fixed_window_stays() {
    let options = SenderOptions {
        window: WindowRule::Fixed(2),
        ..lan()
    };
    let mut sender = opened(one(), options);
    submit(&mut sender, 2, ms(0));
    assert!(sender.submit(0, Bytes::new(), ms(0)).is_err());
}
