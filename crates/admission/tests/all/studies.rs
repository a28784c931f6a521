//! The link of the paper.

use layercast_admission::study::{Algorithm, Declared, Peaks, Run, Setting, StudyError};

fn jdsz(window_s: f64, bucket: (f64, f64)) -> Setting {
    Setting {
        algorithm: Algorithm::Jdsz {
            window_s,
            bound_ms: Some(16.0),
            utilisation: 95.0,
        },
        declared: Declared::Bucket(bucket.0, bucket.1),
        seconds: 2_000.0,
        ..Setting::default()
    }
}

fn run(setting: &Setting) -> Run {
    setting.run().unwrap()
}

#[test]
fn a_long_window_admits_less_and_large_buckets_admit_least() {
    let long = run(&jdsz(10.0, (1e3, 64e3)));
    let short = run(&jdsz(1.0, (1e3, 64e3)));
    let deep = run(&jdsz(10.0, (20e3, 58.8e3)));
    assert!(short.utilisation > long.utilisation + 10.0);
    assert!(long.utilisation > deep.utilisation + 30.0);
    assert_eq!((long.late, deep.late), (0.0, 0.0));
    assert_eq!(
        (long.rejected_by_rate, deep.rejected_by_delay),
        (100.0, 100.0)
    );
    assert!(short.late > 0.0 && short.max_delay_ms > 16.0);
}

#[test]
fn the_share_of_late_bits_goes_to_the_target() {
    let setting = Setting {
        target: 1.0,
        seconds: 6_000.0,
        ..Setting::default()
    };
    let found = run(&setting);
    assert!((0.8..1.3).contains(&found.late), "{}", found.late);
    assert!(
        (87.0..93.0).contains(&found.utilisation),
        "{}",
        found.utilisation
    );
}

#[test]
fn packets_behave_as_the_fluid() {
    let fluid = Setting {
        target: 1.0,
        seconds: 1_000.0,
        ..Setting::default()
    };
    let packets = Setting {
        packets: true,
        ..fluid.clone()
    };
    let (fluid, packets) = (run(&fluid), run(&packets));
    assert!((fluid.utilisation - packets.utilisation).abs() < 2.0);
    assert!((fluid.window_s / packets.window_s - 1.0).abs() < 0.3);
    assert!(packets.late > 0.3 && packets.late < 4.0, "{}", packets.late);
}

#[test]
fn all_that_arrives_is_sent_or_waits() {
    let setting = Setting {
        arrivals_per_s: 1.0,
        seconds: 500.0,
        ..Setting::default()
    };
    for packets in [false, true] {
        let found = run(&Setting {
            packets,
            ..setting.clone()
        });
        // Nothing is refused: 135 calls of 32 kbit/s in the mean, as many as were offered.
        assert_eq!(found.rejected, 0);
        assert_eq!(found.late, 0.0);
        let mean = found.calls * 0.32;
        assert!(
            (found.utilisation - mean).abs() < 0.7,
            "{} {mean}",
            found.utilisation
        );
    }
}

#[test]
fn small_calls_are_favoured_if_they_declare_their_own_peak() {
    let setting = |declared| Setting {
        peaks: Peaks::Exponential(64e3),
        declared,
        seconds: 2_000.0,
        ..Setting::default()
    };
    let own = run(&setting(Declared::Peak));
    let other = run(&setting(Declared::Independent));
    assert!(own.admitted_peak < 55.0, "{}", own.admitted_peak);
    assert!((60.0..68.0).contains(&other.admitted_peak));
    assert!(own.utilisation > other.utilisation);
}

#[test]
fn admission_by_the_sum_of_peaks_is_never_late_and_half_idle() {
    let found = run(&Setting {
        algorithm: Algorithm::PeakSum,
        seconds: 1_000.0,
        ..Setting::default()
    });
    assert_eq!(found.late, 0.0);
    assert!(
        (40.0..52.0).contains(&found.utilisation),
        "{}",
        found.utilisation
    );
}

#[test]
fn the_same_seed_gives_the_same_log_on_every_machine() {
    let setting = Setting {
        seconds: 300.0,
        ..Setting::default()
    };
    let packets = Setting {
        packets: true,
        ..setting.clone()
    };
    let other = Setting {
        seed: 2,
        ..setting.clone()
    };
    let logs = [setting.clone(), setting, packets, other].map(|it| run(&it).log);
    assert_eq!(logs[0], logs[1]);
    assert_ne!(logs[0], logs[3]);
    assert_eq!(logs[0], "b79af46ea8461689");
    assert_eq!(logs[2], "5845b8670c5d6b98");
}

#[test]
fn settings_out_of_their_bounds_are_refused() {
    let cases = [
        (
            "capacity_bps",
            Setting {
                capacity_bps: 0,
                ..Setting::default()
            },
        ),
        (
            "arrivals_per_s",
            Setting {
                arrivals_per_s: f64::NAN,
                ..Setting::default()
            },
        ),
        (
            "holding_s",
            Setting {
                holding_s: 1e9,
                ..Setting::default()
            },
        ),
        (
            "on_s",
            Setting {
                on_s: 0.0,
                ..Setting::default()
            },
        ),
        (
            "peaks",
            Setting {
                peaks: Peaks::Fixed(0.0),
                ..Setting::default()
            },
        ),
        (
            "seconds",
            Setting {
                seconds: 1e12,
                ..Setting::default()
            },
        ),
        (
            "target",
            Setting {
                target: 100.0,
                ..Setting::default()
            },
        ),
        (
            "points_s",
            Setting {
                points_s: Some(1e-9),
                ..Setting::default()
            },
        ),
    ];
    for (name, setting) in cases {
        match setting.run() {
            Err(StudyError::Bounds(text)) => assert!(text.contains(name), "{text}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
