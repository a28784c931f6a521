//! The monitor from outside.
#![allow(unexpected_cfgs, reason = "loom is no configuration that cargo knows")]

#[cfg(not(loom))]
mod allocation;
#[cfg(not(loom))]
mod contracts;
#[cfg(not(loom))]
mod edges;
#[cfg(not(loom))]
mod hostile;
#[cfg(not(loom))]
mod measures;
#[cfg(not(loom))]
mod rings;
#[cfg(not(loom))]
mod studies;

#[cfg(loom)]
mod orders;

#[cfg(not(loom))]
mod given {
    use layercast_core::{QosAction, QosEvent, Span, Time};
    use layercast_monitor::{Contract, Descriptor, Direction, Monitor, MonitorConfig, Term};

    pub const CONN: u64 = 0x1234;

    pub fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    pub fn event(action: QosAction, dir: u8, ms: u64) -> QosEvent {
        QosEvent::new(CONN, action, dir, at(ms))
    }

    pub fn sent(ms: u64, bytes: u64, total: u64) -> QosEvent {
        event(QosAction::Sent, QosEvent::OUT, ms).packet(bytes, bytes, total)
    }

    /// A monitor with an open connection of XTP.
    pub fn monitor(config: MonitorConfig) -> Monitor {
        let mut monitor = Monitor::new(config).unwrap();
        let open = event(QosAction::Open, QosEvent::OUT, 0).aux(Descriptor::XTP.number());
        monitor.handle_event(at(0), &open);
        monitor
    }

    pub fn give(monitor: &mut Monitor, events: &[QosEvent]) {
        for event in events {
            monitor.handle_event(Time::from_ps(event.t_ns * 1_000), event);
        }
    }

    pub fn rate(monitor: &mut Monitor, ms: u64, bps: f64) {
        let contract = Contract {
            throughput: Some(Term::agreed(bps)),
            ..Contract::default()
        };
        assert!(
            monitor
                .set_contract(at(ms), CONN, Direction::Out, contract)
                .unwrap()
        );
    }
}
