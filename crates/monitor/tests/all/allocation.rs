//! In steady state an event costs no allocation.

use std::sync::Arc;

use layercast_core::{QosAction, QosEvent, QosInfo, Span, Time};
use layercast_monitor::{CAPACITY, Contract, Direction, RequestLine, Rule, Term, ring};

use crate::given::*;

#[test]
fn an_event_allocates_nothing_once_the_windows_are_full() {
    let line = Arc::new(RequestLine::new(Rule::RaceFree, || {}));
    let (mut producer, mut consumer) = ring(CAPACITY, &line).unwrap();
    let mut monitor = monitor(Default::default());
    let contract = Contract {
        throughput: Some(Term::agreed(1e6)),
        jitter: Some(Term::agreed(0.1)),
        ..Contract::default()
    };
    monitor
        .set_contract(at(0), CONN, Direction::Out, contract)
        .unwrap();
    // Each millisecond what the paper's five events are.
    let mut step = |n: u64| {
        let now = Time::ZERO + Span::from_ms(n);
        let of = |action| QosEvent::new(CONN, action, QosEvent::OUT, now);
        let seq = 1_000 * n;
        let events = [
            of(QosAction::Sent).packet(1_000, 1_000, seq),
            of(QosAction::ProbeStart).with(QosInfo::Rtt, n, 0),
            of(QosAction::Received)
                .flag(0, true)
                .with(QosInfo::None, 0, 0),
            of(QosAction::ProbeEnd).with(QosInfo::Rtt, n - 5.min(n), 0),
            of(QosAction::ErrReport)
                .with(QosInfo::SpansHead, seq, seq - 1_000)
                .aux(0),
        ];
        for event in &events {
            producer.put_element(event);
            while let Some(event) = consumer.get_element() {
                monitor.handle_event(now, &event);
            }
        }
        monitor.on_timeout(now);
        while monitor.poll_signal().is_some() {}
    };
    (1..25_000).for_each(&mut step);
    let found = allocation_counter::measure(|| (25_000..35_000).for_each(&mut step));
    assert_eq!(found.count_total, 0);
}
