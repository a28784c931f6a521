//! No event panics, hangs, or makes the monitor grow without bound.

use layercast_core::{QosEvent, Time};
use layercast_monitor::{Monitor, MonitorConfig};
use proptest::prelude::*;

/// Events of few connections, with numbers that are often valid and values that are often extreme.
fn event() -> impl Strategy<Value = QosEvent> {
    let value = || prop_oneof![any::<u64>(), 0..20_000u64, (u64::MAX - 2)..=u64::MAX];
    let head = (0..4u64, 0..14u8, 0..9u8, 0..4u8, any::<u8>());
    let aux = prop_oneof![any::<u32>(), 0..6u32];
    (head, aux, value(), value(), value()).prop_map(
        |((conn, action, info_type, dir, flags), aux, t_ns, a, b)| QosEvent {
            conn,
            action,
            info_type,
            dir,
            flags,
            aux,
            t_ns,
            a,
            b,
        },
    )
}

proptest! {
    #[test]
    fn any_events_are_taken(events in prop::collection::vec((event(), prop_oneof![Just(0u64), 0..1u64 << 40, any::<u64>()]), 0..200)) {
        let mut monitor = Monitor::new(MonitorConfig { connections: 3, ..MonitorConfig::default() }).unwrap();
        let mut now = Time::ZERO;
        for (event, later) in events {
            now += layercast_core::Span::from_ps(later);
            monitor.handle_event(now, &event);
            if event.aux & 1 == 0 {
                monitor.on_timeout(now);
            }
            let next = monitor.next_timeout();
            prop_assert!(event.aux & 1 != 0 || now > Time::from_ps(u64::MAX / 2) || next.is_none_or(|at| at > now - layercast_core::Span::from_ns(1)));
            for conn in 0..4 {
                if let Some(report) = monitor.snapshot(now, conn) {
                    let json = serde_json::to_string(&report).unwrap();
                    prop_assert!(!json.contains("-0.0"));
                }
            }
            prop_assert!(monitor.connections().count() <= 3);
            while monitor.poll_signal().is_some() {}
            while monitor.poll_report().is_some() {}
        }
    }
}
