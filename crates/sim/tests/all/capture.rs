//! tshark opens what the simulator writes.

use crate::common::{CHAIN, capture, scenario};
use crate::tshark;
use layercast_wire::Carriage;

#[test]
fn datagrams_are_udp_between_documentation_addresses() {
    let mut scenario = scenario(CHAIN);
    scenario.duration = layercast_core::Span::from_secs(3);
    let (summary, pcap) = capture(&scenario);
    let fields = ["ip.src", "udp.length", "_ws.malformed"];
    let Some(lines) = tshark::fields("udp", &pcap, &fields) else {
        return;
    };
    let sent: u64 = summary.queues.iter().map(|queue| queue.link.sent).sum();
    assert_eq!(lines.len() as u64, sent);
    assert!(
        lines.iter().all(|line| line[0].starts_with("192.0.2.")),
        "{:?}",
        lines.first()
    );
    assert!(lines.iter().all(|line| line[2].is_empty()));
}

#[test]
fn cells_are_atm() {
    let mut scenario = scenario(CHAIN);
    scenario.carriage = Carriage::Cells;
    scenario.duration = layercast_core::Span::from_ms(1_500);
    let (summary, pcap) = capture(&scenario);
    let fields = ["frame.protocols", "atm.vci"];
    let Some(lines) = tshark::fields("atm", &pcap, &fields) else {
        return;
    };
    let sent: u64 = summary.queues.iter().map(|queue| queue.link.sent).sum();
    assert_eq!(lines.len() as u64, sent);
    assert!(
        lines.iter().all(|line| line[0].starts_with("erf:atm")),
        "{:?}",
        lines.first()
    );
}
