//! A congestion control from outside of the crate, and a connection that begins established.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use layercast_core::{Machine, Off, Span, Time};
use layercast_tcp::{
    Acked, CongestionControl, ControlFactory, Endpoint, Profile, State, TcpConfig, TcpEvent,
    Variant, Window,
};
use layercast_wire::Payload;

use super::net::{Net, PORT, address, ms};

/// A window of ten segments, whatever happens; counts what it hears of.
#[derive(Debug)]
struct Fixed(Arc<[AtomicU32; 3]>);

impl Fixed {
    fn hears(&self, what: usize) {
        self.0[what].fetch_add(1, Ordering::Relaxed);
    }
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        assert!(acked.bytes > 0 && acked.flight >= acked.bytes);
        self.hears(0);
        window.set_cwnd(10 * window.mss());
    }

    fn on_loss(&mut self, window: &mut Window, _: u64) {
        self.hears(1);
        window.set_ssthresh(10 * window.mss());
    }

    fn on_timeout(&mut self) {
        self.hears(2);
    }
}

#[test]
fn a_control_of_ones_own_has_the_window() {
    let heard = Arc::new([0, 0, 0].map(AtomicU32::new));
    let theirs = heard.clone();
    let config = TcpConfig {
        variant: Variant::Sack,
        control: Some(ControlFactory::new(move || Fixed(theirs.clone()))),
        ..TcpConfig::from(Profile::Modern)
    };
    let mut count = 0;
    let channel = move |host, packet: layercast_tcp::TcpPacket| {
        count += u32::from(host == 0 && !packet.segment.payload.is_empty());
        match host == 0 && count % 100 == 50 {
            true => Vec::new(),
            false => vec![(ms(50), packet)],
        }
    };
    let mut net = Net::new([config.clone(), config], Box::new(channel));
    let (near, far) = net.open();
    net.sink = Some((1, far));
    net.stream(near, Span::from_secs(20));
    let info = net.hosts[0].info(near).unwrap();
    assert_eq!(info.cwnd, 10 * u64::from(info.mss));
    // Ten segments in a round trip of 100 ms, less what recoveries cost.
    let expected = 200.0 * 10.0 * f64::from(info.mss);
    assert!(
        (net.sunk as f64 / expected - 0.95).abs() < 0.05,
        "{} of {expected}",
        net.sunk
    );
    let [acked, lost, _] = [0, 1, 2].map(|what| heard[what].load(Ordering::Relaxed));
    let stats = net.hosts[0].stats();
    assert!(acked > 500 && lost > 10, "{acked} {lost}");
    assert_eq!(u64::from(lost), stats.fast_retransmits + stats.timeouts);
}

#[test]
fn an_established_connection_has_sent_nothing_and_knows_no_round_trip() {
    let host = |name| Endpoint::new(TcpConfig::from(Profile::Modern), name, &[7; 32]).unwrap();
    let (mut client, mut server) = (host("a"), host("b"));
    server.listen(PORT, 1).unwrap();
    let (local, remote) = (address(0, 0), address(1, PORT));
    let id = client.connect(Time::ZERO, local, remote).unwrap();
    client.establish(id, &mut server, Time::ZERO).unwrap();
    let (theirs, _) = server.accept(PORT).expect("it is there");
    for info in [client.info(id), server.info(theirs)].map(Option::unwrap) {
        assert_eq!(info.state, State::Established);
        assert_eq!((info.srtt, info.rto), (Span::ZERO, Span::from_secs(1)));
        assert_eq!(info.cwnd, 10 * u64::from(info.mss));
    }
    assert_eq!(client.poll_event(), Some(TcpEvent::Connected(id)));
    // Nothing is due.
    let later = Time::ZERO + Span::from_secs(2);
    for host in [&mut client, &mut server] {
        host.on_timeout(later, &mut Off);
        assert_eq!(host.poll_transmit(later, &mut Off), None);
        assert_eq!(host.next_timeout(), None);
    }
    // The first segment carries data.
    client.write(id, &Payload::Zeros(100)).unwrap();
    let packet = client.poll_transmit(Time::ZERO, &mut Off);
    assert_eq!(packet.map(|it| it.segment.payload.len()), Some(100));
    // To a port without a listener nothing is established.
    let other = client.connect(Time::ZERO, local, address(1, 81)).unwrap();
    assert!(client.establish(other, &mut server, Time::ZERO).is_err());
}
