//! Bounds and bad input of the receiver.

use bytes::Bytes;
use layercast_core::Serial;
use layercast_partial_order::pdu::{Body, Pdu};
use layercast_partial_order::{Order, Policy, Receiver, ReceiverOptions, Tolerance};
use proptest::prelude::*;

use crate::wire::{config, data, encoded, events, flow, ms, receiver, sent};

#[test]
fn numbers_far_ahead_are_refused() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::None]));
    receiver.handle(ms(0), data(0, 1 << 30, true));
    receiver.handle(
        ms(0),
        encoded(
            0,
            1,
            Body::AckReq {
                highest: Some(Serial(1 << 30)),
            },
        ),
    );
    receiver.handle(ms(0), encoded(0, 0, Body::Close(vec![Serial(1 << 30)])));
    receiver.handle(ms(0), encoded(0, 0, Body::Close(vec![])));
    receiver.handle(ms(0), encoded(9, 0, Body::AckReq { highest: None }));
    receiver.handle(ms(0), encoded(0, 0, Body::CloseAck));
    receiver.handle(ms(0), Bytes::from_static(b"noise"));
    assert_eq!((receiver.bad_pdus(), sent(&mut receiver).len()), (7, 0));
    assert_eq!(events(&mut receiver), crate::wire::Seen::default());
}

#[test]
fn a_full_buffer_drops_and_lists() {
    let mut config = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    config.flows[0].max_window = 4;
    let mut receiver = receiver(config);
    for number in 1..=6 {
        receiver.handle(ms(0), data(0, number, false));
    }
    let stats = receiver.stats(0);
    assert_eq!((stats.buffered, stats.overflow), (4, 2));
    let Some(Body::Fnack(report)) = sent(&mut receiver).pop() else {
        panic!("no request")
    };
    assert!(
        report.list.contains(&Serial(0)) && report.list.contains(&Serial(5)),
        "{report:?}"
    );
    receiver.handle(ms(1), data(0, 0, false));
    assert_eq!(events(&mut receiver).delivered.len(), 5);
    receiver.handle(ms(2), data(0, 5, false));
    receiver.handle(ms(2), data(0, 6, false));
    assert_eq!(events(&mut receiver).delivered, [(0, 5), (0, 6)]);
}

#[test]
fn a_long_list_is_cut_and_nothing_unlisted_is_freed() {
    let config = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    let mut receiver = Receiver::opened(
        config,
        ReceiverOptions {
            max_pdu: 1_232,
            ..ReceiverOptions::default()
        },
        ms(0),
    )
    .unwrap();
    receiver.handle(ms(0), data(0, 900, false));
    let Body::Fnack(report) = &sent(&mut receiver)[0] else {
        panic!("no request")
    };
    assert_eq!((report.list.len(), report.last), (303, Serial(302)));
    assert_eq!(report.list.last(), Some(&Serial(302)));
}

#[test]
fn answers_before_the_first_data_are_short() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::Full]));
    let request = encoded(
        0,
        1,
        Body::AckReq {
            highest: Some(Serial(500)),
        },
    );
    receiver.handle(ms(0), request.clone());
    let answer = receiver.poll_transmit().unwrap();
    assert!(
        answer.len() <= 3 * request.len(),
        "{} for {}",
        answer.len(),
        request.len()
    );
    assert!(
        matches!(Pdu::decode(answer).unwrap().body, Body::AckRes(report) if report.last == Serial(5))
    );
}

#[test]
fn an_sdu_larger_than_agreed_is_refused() {
    let mut small = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    small.flows[0].max_sdu = 1;
    let mut receiver = receiver(small);
    receiver.handle(ms(0), data(0, 0, false));
    assert_eq!(
        (
            events(&mut receiver).delivered.len(),
            receiver.stats(0).bad_pdu
        ),
        (0, 1)
    );
}

#[test]
fn configurations_out_of_bounds_are_refused() {
    let good = config(Order::total(), Policy::PerGroup, &[Tolerance::Full]);
    let with = |change: &dyn Fn(&mut layercast_partial_order::Config)| {
        let mut bad = good.clone();
        change(&mut bad);
        Receiver::opened(bad, ReceiverOptions::default(), ms(0))
            .unwrap_err()
            .to_string()
    };
    assert!(with(&|it| it.flows[0].period = layercast_core::Span::ZERO).contains("period"));
    assert!(with(&|it| it.flows[0].max_window = 0).contains("window"));
    assert!(with(&|it| it.flows[0].max_sdu = 9_000).contains("fit"));
    assert!(
        with(&|it| it.flows[0].tolerance = Tolerance::Rate {
            ppm: 2_000_000,
            window: 9
        })
        .contains("tolerance")
    );
    assert!(
        with(&|it| it.flows.push(flow(Tolerance::Full))).contains("1 flows, the connection has 2")
    );
}

proptest! {
    /// Whatever arrives: no panic, bounded memory, and no SDU is settled twice.
    #[test]
    fn any_datagrams_are_survived(
        raw in prop::collection::vec((0_u8..12, any::<u8>(), 0_u16..3, 0_u32..40, prop::collection::vec(any::<u8>(), 0..24)), 0..200),
        group: bool,
    ) {
        let policy = if group { Policy::PerGroup } else { Policy::MediaPerMedia };
        let mut receiver = receiver(config(Order::blocks(&[2, 1]).unwrap(), policy, &[Tolerance::rate(0.2), Tolerance::Consecutive(1)]));
        let mut settled = std::collections::BTreeSet::new();
        for (at, (kind, flags, flow, number, tail)) in raw.into_iter().enumerate() {
            let mut bytes = vec![0x10 | kind, flags & 0x13 & if kind == 1 { 0xff } else { 0 }];
            bytes.extend(flow.to_be_bytes());
            bytes.extend(1_u32.to_be_bytes());
            bytes.extend(0_u32.to_be_bytes());
            bytes.extend(number.to_be_bytes());
            bytes.extend(tail);
            receiver.handle(ms(at as u64), Bytes::from(bytes));
            let answers = sent(&mut receiver);
            prop_assert!(answers.len() <= 8);
            let seen = events(&mut receiver);
            for it in seen.delivered.into_iter().chain(seen.lost) {
                prop_assert!(settled.insert(it), "{:?} twice", it);
            }
        }
    }
}
