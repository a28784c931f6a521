use bytes::{Bytes, BytesMut};
use layercast_core::{Serial, Span};
use layercast_partial_order::pdu::{Body, Pdu, PduError, Reject, Report};
use layercast_partial_order::{Config, FlowConfig, MAX_PDU, Order, Policy, Sdu, Tolerance};
use proptest::prelude::*;

fn bytes(pdu: &Pdu) -> Bytes {
    let mut out = BytesMut::new();
    pdu.encode(&mut out);
    out.freeze()
}

#[test]
fn the_layout_of_data() {
    let body = Body::Data {
        number: Serial(7),
        ack: true,
        again: false,
        skip: false,
        sent: Vec::new(),
        payload: Bytes::from_static(b"x"),
    };
    let pdu = Pdu {
        flow: 2,
        connection: 0x0102_0304,
        stamp: 9,
        body,
    };
    assert_eq!(
        bytes(&pdu)[..],
        [0x11, 1, 0, 2, 1, 2, 3, 4, 0, 0, 0, 9, 0, 0, 0, 7, b'x']
    );
}

#[test]
fn the_layout_of_a_list() {
    let report = Report {
        last: Serial(6),
        list: vec![Serial(3), Serial(5)],
    };
    let pdu = Pdu {
        flow: 0,
        connection: 0,
        stamp: 0,
        body: Body::Fnack(report),
    };
    assert_eq!(
        bytes(&pdu)[12..],
        [0, 0, 0, 6, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5]
    );
}

fn list() -> impl Strategy<Value = Vec<Serial>> {
    prop::collection::vec(any::<u32>().prop_map(Serial), 0..20)
}

fn body() -> impl Strategy<Value = Body> {
    let report = || {
        (any::<u32>(), list()).prop_map(|(last, list)| Report {
            last: Serial(last),
            list,
        })
    };
    let payload = prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        (any::<u32>(), any::<[bool; 3]>(), list(), payload.clone()).prop_map(
            |(number, [ack, again, skip], sent, payload)| {
                Body::Data {
                    number: Serial(number),
                    ack,
                    again,
                    skip,
                    sent,
                    payload,
                }
            }
        ),
        any::<Option<u32>>().prop_map(|it| Body::AckReq {
            highest: it.map(Serial)
        }),
        report().prop_map(Body::AckRes),
        report().prop_map(Body::Fnack),
        (any::<u64>(), payload).prop_map(|(token, config)| Body::Open { token, config }),
        any::<u64>().prop_map(Body::Retry),
        prop::collection::vec(any::<u16>(), 0..9).prop_map(Body::OpenAck),
        list().prop_map(Body::Close),
        Just(Body::CloseAck),
        list().prop_map(Body::Gone),
        prop_oneof![
            Just(Reject::Unknown),
            Just(Reject::Invalid),
            Just(Reject::Resources),
            Just(Reject::Ended)
        ]
        .prop_map(Body::Reject),
    ]
}

fn tolerance() -> impl Strategy<Value = Tolerance> {
    prop_oneof![
        Just(Tolerance::Full),
        Just(Tolerance::None),
        any::<u32>().prop_map(Tolerance::Consecutive),
        (0_u32..1_000_001, 1_u32..65_536).prop_map(|(ppm, window)| Tolerance::Rate { ppm, window }),
        (0_u32..1_000_001).prop_map(|ppm| Tolerance::Cumulative { ppm }),
    ]
}

proptest! {
    #[test]
    fn every_pdu_comes_back(flow: u16, connection: u32, stamp: u32, body in body()) {
        let pdu = Pdu { flow, connection, stamp, body };
        prop_assert_eq!(Pdu::decode(bytes(&pdu)), Ok(pdu));
    }

    #[test]
    fn decoding_is_total_and_exact(raw in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(pdu) = Pdu::decode(Bytes::from(raw.clone()))
            && !matches!(pdu.body, Body::AckRes(_) | Body::Fnack(_) | Body::Gone(_) | Body::Close(_))
        {
            prop_assert_eq!(&bytes(&pdu)[..], &raw[..]);
        }
    }

    #[test]
    fn a_cut_pdu_is_refused_or_shorter(body in body(), cut in 1_usize..8) {
        let whole = bytes(&Pdu { flow: 0, connection: 1, stamp: 0, body: body.clone() });
        if let Ok(pdu) = Pdu::decode(whole.slice(..whole.len().saturating_sub(cut))) {
            prop_assert!(pdu.body != body);
        }
    }

    #[test]
    fn every_configuration_comes_back(
        flows in prop::collection::vec((1_u64..1_000_000, tolerance(), 1_u16..4_097, any::<[bool; 2]>()), 1..8),
        flags: [bool; 3],
        blocks: bool,
        connection: u32,
    ) {
        let order = if blocks { Order::blocks_with(&vec![3; flows.len()], &vec![true; flows.len()]) } else { Order::none(flows.len()) };
        let flows = flows.into_iter().map(|(us, tolerance, max_window, [playout, grace])| FlowConfig {
            max_window,
            playout: playout.then_some(Span::from_ms(7)),
            grace: if grace && !playout { Span::from_ms(3) } else { Span::ZERO },
            initial: Serial(us as u32),
            ..FlowConfig::new(Span::from_us(us), tolerance)
        });
        let policy = if flags[0] { Policy::PerGroup } else { Policy::MediaPerMedia };
        let mut config = Config::new(connection, flows.collect(), order.unwrap(), policy);
        (config.opportunistic, config.infer) = (flags[1], flags[2]);
        prop_assert_eq!(config.check(MAX_PDU), Ok(()));
        prop_assert_eq!(Config::from_bytes(connection, config.to_bytes()), Ok(config));
    }

    #[test]
    fn reading_a_configuration_is_total(raw in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Config::from_bytes(1, Bytes::from(raw));
    }
}

#[test]
fn a_finite_order_comes_back_and_fits_one_pdu() {
    let order = crate::order::figure_1();
    let flows = vec![FlowConfig::new(Span::from_ms(40), Tolerance::Full); 4];
    let config = Config::new(1, flows, order, Policy::PerGroup);
    assert_eq!(config.check(MAX_PDU), Ok(()));
    assert_eq!(Config::from_bytes(1, config.to_bytes()), Ok(config));
    let dense: Vec<_> = (0..30)
        .flat_map(|a| {
            (0..30).map(move |b| (Sdu { flow: 0, number: a }, Sdu { flow: 1, number: b }))
        })
        .collect();
    let flows = vec![FlowConfig::new(Span::from_ms(40), Tolerance::Full); 2];
    let config = Config::new(
        1,
        flows,
        Order::dag(&[30, 30], &dense).unwrap(),
        Policy::PerGroup,
    );
    assert!(
        config
            .check(MAX_PDU)
            .unwrap_err()
            .to_string()
            .contains("fewer edges")
    );
}

#[test]
fn bad_bytes_are_named() {
    let good = bytes(&Pdu {
        flow: 0,
        connection: 1,
        stamp: 0,
        body: Body::CloseAck,
    });
    let with = |at: usize, byte: u8| {
        let mut raw = good.to_vec();
        raw[at] = byte;
        Pdu::decode(Bytes::from(raw))
    };
    assert_eq!(Pdu::decode(good.slice(..5)), Err(PduError::Short));
    assert_eq!(with(0, 0x28), Err(PduError::Version(2)));
    assert_eq!(with(0, 0x1f), Err(PduError::Unknown));
    assert_eq!(with(1, 0x80), Err(PduError::Unknown));
    let long = [good, Bytes::from_static(b"x")].concat();
    assert_eq!(Pdu::decode(Bytes::from(long)), Err(PduError::Long));
    // A list that claims more than there is.
    let mut raw = bytes(&Pdu {
        flow: 0,
        connection: 1,
        stamp: 0,
        body: Body::Gone(vec![Serial(1)]),
    })
    .to_vec();
    raw[13] = 200;
    assert_eq!(Pdu::decode(Bytes::from(raw)), Err(PduError::Short));
}
