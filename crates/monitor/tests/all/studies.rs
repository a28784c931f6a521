//! The request line and the host of the paper.

use layercast_monitor::study::{Arrivals, HostSetting, LineRule, LineSetting, StudyError};

fn share(arrivals: Arrivals, rule: LineRule, rho: f64) -> f64 {
    let setting = LineSetting {
        arrivals,
        rule,
        rho,
        service_ns: 500_000,
        events: 200_000,
        seed: 1,
    };
    let found = setting.run().unwrap();
    assert_eq!(found.lost, 0);
    found.signals as f64 / found.events as f64
}

#[test]
fn the_line_is_raised_as_often_as_queues_say() {
    for rho in [0.128, 0.15, 0.5, 0.8, 0.9] {
        let literal = share(Arrivals::Poisson, LineRule::Literal, rho);
        assert!(
            (literal - (1.0 - rho) * rho.exp()).abs() < 0.01,
            "{rho}: {literal}"
        );
        let free = share(Arrivals::Poisson, LineRule::RaceFree, rho);
        assert!((free - (1.0 - rho)).abs() < 0.01, "{rho}: {free}");
        assert_eq!(share(Arrivals::Regular, LineRule::Literal, rho), 1.0);
    }
}

#[test]
fn a_transfer_of_1996_takes_twenty_seconds() {
    let host = HostSetting {
        bytes: 1 << 20,
        packet: 1_024,
        packet_ns: 17_030_000,
        events_per_packet: 5,
        event_ns: 500_000,
        redraw_ns: 0,
    };
    let found = host.run().unwrap();
    assert_eq!((found.packets, found.events), (1_024, 5_120));
    assert!((found.seconds - 20.0).abs() < 0.01, "{}", found.seconds);
    assert_eq!(
        found.wakeups, found.events,
        "each event is a change of context"
    );
    let without = HostSetting {
        events_per_packet: 0,
        ..host
    }
    .run()
    .unwrap();
    assert!((1.0 - without.seconds / found.seconds - 0.128).abs() < 0.001);
}

#[test]
fn impossible_settings_are_refused() {
    let line = LineSetting {
        arrivals: Arrivals::Regular,
        rule: LineRule::Literal,
        rho: 0.5,
        service_ns: 1,
        events: 1,
        seed: 1,
    };
    for rho in [0.0, 1.0, f64::NAN, -1.0] {
        assert_eq!(LineSetting { rho, ..line }.run(), Err(StudyError::Load));
    }
    assert_eq!(
        LineSetting { events: 0, ..line }.run(),
        Err(StudyError::Events)
    );
    assert_eq!(
        LineSetting {
            service_ns: 0,
            ..line
        }
        .run(),
        Err(StudyError::Time)
    );
}
