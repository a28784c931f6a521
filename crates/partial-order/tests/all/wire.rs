//! A sender and a receiver joined directly, for tests.

use bytes::{Bytes, BytesMut};
use layercast_core::{Serial, Span, Time};
use layercast_partial_order::pdu::{Body, Pdu};
use layercast_partial_order::{
    Config, FlowConfig, Order, Policy, Receiver, ReceiverEvent, ReceiverOptions, Tolerance,
};

pub fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// A flow with an SDU each 40 ms.
pub fn flow(tolerance: Tolerance) -> FlowConfig {
    FlowConfig::new(Span::from_ms(40), tolerance)
}

pub fn config(order: Order, policy: Policy, tolerances: &[Tolerance]) -> Config {
    Config::new(
        1,
        tolerances.iter().map(|&it| flow(it)).collect(),
        order,
        policy,
    )
}

pub fn receiver(config: Config) -> Receiver {
    let options = ReceiverOptions {
        explain: 64,
        ..ReceiverOptions::default()
    };
    Receiver::opened(config, options, Time::ZERO).unwrap()
}

pub fn encoded(flow: usize, stamp: u32, body: Body) -> Bytes {
    let mut bytes = BytesMut::new();
    Pdu {
        flow: flow as u16,
        connection: 1,
        stamp,
        body,
    }
    .encode(&mut bytes);
    bytes.freeze()
}

pub fn data(flow: usize, number: u32, ack: bool) -> Bytes {
    let payload = Bytes::from(vec![flow as u8, number as u8]);
    let stamp = u32::from(ack) * 5;
    encoded(
        flow,
        stamp,
        Body::Data {
            number: Serial(number),
            ack,
            again: false,
            skip: false,
            sent: Vec::new(),
            payload,
        },
    )
}

/// Deliveries as `(flow, number)`, losses as `(flow, number)`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub delivered: Vec<(usize, u64)>,
    pub lost: Vec<(usize, u64)>,
    pub other: Vec<ReceiverEvent>,
}

pub fn events(receiver: &mut Receiver) -> Seen {
    let mut seen = Seen::default();
    while let Some(event) = receiver.poll_event() {
        match event {
            ReceiverEvent::Deliver { flow, number, .. } => seen.delivered.push((flow, number)),
            ReceiverEvent::Lost { flow, numbers, .. } => {
                seen.lost.extend(numbers.iter().map(|&it| (flow, it)))
            }
            other => seen.other.push(other),
        }
    }
    seen
}

pub fn sent(receiver: &mut Receiver) -> Vec<Body> {
    std::iter::from_fn(|| receiver.poll_transmit())
        .map(|it| Pdu::decode(it).unwrap().body)
        .collect()
}
