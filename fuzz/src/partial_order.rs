//! Datagrams at both ends of a partial order connection.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use layercast_core::{Span, Time};
use layercast_partial_order::pdu::Pdu;
use layercast_partial_order::{
    Config, FlowConfig, Order, Policy, Receiver, ReceiverEvent, ReceiverOptions, Sender,
    SenderOptions, Tolerance,
};

/// The number of the connection that is open at the start.
const CONNECTION: u32 = 1;
/// PDUs that may leave a receiver for one that came: an answer for each flow, and one more.
const MOST_OUT: usize = 4;

/// Two flows in blocks of two and one SDUs.
pub fn config() -> Config {
    let flows = vec![
        FlowConfig::new(Span::from_ms(40), Tolerance::rate(0.2)),
        FlowConfig::new(Span::from_ms(80), Tolerance::Full),
    ];
    let order = Order::blocks(&[2, 1]).expect("a valid order");
    let mut config = Config::new(CONNECTION, flows, order, Policy::PerGroup);
    (config.opportunistic, config.infer) = (true, true);
    config
}

/// Datagrams, each behind its length in two octets: for a receiver that waits, one that is open, and a sender.
pub fn partial_order(data: &[u8]) {
    let mut now = Time::ZERO + Span::from_secs(1);
    let options = ReceiverOptions {
        max_waiting: 64,
        explain: 8,
        ..ReceiverOptions::default()
    };
    let mut waiting = Receiver::new(options);
    let mut open = Receiver::opened(config(), options, now).expect("a valid configuration");
    let mut sender =
        Sender::opened(config(), SenderOptions::default(), now).expect("a valid configuration");
    let mut settled = BTreeSet::new();
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
        let (datagram, behind) = behind.split_at(len);
        rest = behind;
        now += Span::from_ms(1 + len as u64 % 16);
        let datagram = Bytes::copy_from_slice(datagram);
        if let Ok(pdu) = Pdu::decode(datagram.clone()) {
            let mut again = BytesMut::new();
            pdu.encode(&mut again);
            assert_eq!(Pdu::decode(again.freeze()), Ok(pdu));
        }
        let _ = sender.submit(len % 2, Bytes::new(), now);
        sender.handle(now, datagram.clone());
        sender.on_timeout(now);
        while sender.poll_transmit().is_some() {}
        while sender.poll_event().is_some() {}

        waiting.handle_unproved(now, datagram.clone(), 7);
        waiting.on_timeout(now);
        let was_open = waiting.config().is_some();
        let mut octets = 0;
        while let Some(answer) = waiting.poll_transmit() {
            octets += answer.len();
        }
        assert!(was_open || octets <= 3 * datagram.len());
        while waiting.poll_event().is_some() {}

        open.handle(now, datagram);
        open.on_timeout(now);
        let out = std::iter::from_fn(|| open.poll_transmit()).count();
        assert!(out <= MOST_OUT, "{out} PDUs for one");
        while let Some(event) = open.poll_event() {
            match event {
                ReceiverEvent::Deliver { flow, number, .. } => {
                    assert!(settled.insert((flow, number)), "({flow}, {number}) twice");
                }
                ReceiverEvent::Lost { flow, numbers, .. } => {
                    for number in numbers {
                        assert!(settled.insert((flow, number)), "({flow}, {number}) twice");
                    }
                }
                _ => {}
            }
        }
    }
}
