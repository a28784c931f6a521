//! Datagrams at both ends of a synchronous train.

use layercast_core::{Span, Time};
use layercast_sync_index::pdu::Pdu;
use layercast_sync_index::{EstimatorConfig, ProbeConfig, ProbeReceiver, ProbeSender, RtpTrain};

/// The token of the sender.
pub const TOKEN: u64 = 7;
/// Its session and key.
pub const SESSION: (u32, u64) = (0x0102_0304, 9);

/// Datagrams, each behind its length in an octet: for a receiver, a sender, and the estimator of an RTP flow.
pub fn sync_index(data: &[u8]) {
    let mut now = Time::ZERO + Span::from_secs(1);
    let config = EstimatorConfig {
        lags: 3,
        windows: 4,
        ..EstimatorConfig::default()
    };
    let mut receiver = ProbeReceiver::new(config, None).expect("a valid configuration");
    let train = ProbeConfig::new(SESSION.0, SESSION.1);
    let mut sender = ProbeSender::new(train, now).expect("a valid configuration");
    let mut rtp = RtpTrain::new(config, Span::from_ms(20), 8_000).expect("a valid configuration");
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first() {
        let (datagram, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        now += Span::from_ms(1 + u64::from(*len) % 16);
        if let Ok(pdu) = Pdu::decode(datagram) {
            let again = match &pdu {
                Pdu::Probe(probe) => probe.encode(),
                Pdu::Control(control) => control.encode(),
            };
            // Fields are clamped to their ranges once.
            match Pdu::decode(&again).expect("what was encoded") {
                Pdu::Control(control) => assert_eq!(control.encode(), again),
                probe => assert_eq!(probe, pdu),
            }
        }
        let was_open = receiver.estimator(&1).is_some();
        let _ = receiver.handle(now, 1_u8, TOKEN, datagram);
        receiver.on_timeout(now);
        let mut octets = 0;
        while let Some((_, answer)) = receiver.poll_transmit() {
            octets += answer.len();
        }
        let is_open = receiver.estimator(&1).is_some();
        assert!(was_open || is_open || octets <= 3 * datagram.len().max(40));
        while receiver.poll_event().is_some() {}
        if let Some(estimator) = receiver.estimator(&1) {
            let it = estimator.counters();
            assert_eq!(it.in_order + it.reordered + it.lost + it.skipped, it.slots);
        }

        let _ = sender.handle_datagram(now, datagram);
        sender.on_timeout(now);
        let out = std::iter::from_fn(|| sender.poll_transmit(now)).count();
        assert!(out <= 4, "{out} datagrams at one instant");
        while sender.poll_event().is_some() {}

        let _ = rtp.handle(now, datagram);
        let estimator = rtp.estimator();
        estimator.on_timeout(now);
        while estimator.poll_event().is_some() {}
    }
}
