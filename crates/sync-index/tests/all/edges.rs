//! Bad input: each case of section 7 of the specification.

use layercast_core::{Rate, Span, Time};
use layercast_sync_index::pdu::Pdu;
use layercast_sync_index::{
    Arrival, ConfigError, Estimator, EstimatorConfig, Event, Filter, Format, Mode, Numbers,
    Outcome, ProbeConfig, ProbeError, RtpTrain,
};

use crate::index::{estimator, events, outcomes};

const PERIOD: Span = Span::from_ms(10);

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_secs(5) + Span::from_ms(ms)
}

fn nominal(k: u32) -> Arrival {
    Arrival::new(at(10 * u64::from(k)), k)
}

#[test]
fn values_out_of_range_name_the_field_and_the_range() {
    let new = |change: fn(&mut EstimatorConfig)| {
        let mut config = EstimatorConfig::default();
        change(&mut config);
        Estimator::new(config, PERIOD, Numbers::Long).unwrap_err()
    };
    assert_eq!(new(|it| it.lags = 1), ConfigError::Lags(1));
    assert_eq!(new(|it| it.windows = 0), ConfigError::Windows(0));
    assert_eq!(new(|it| it.windows = 257), ConfigError::Windows(257));
    for eps in [0.0, 1.0, -0.1] {
        let config = EstimatorConfig {
            percentile: eps,
            ..EstimatorConfig::default()
        };
        let error = Estimator::new(config, PERIOD, Numbers::Long).unwrap_err();
        assert!(error.to_string().contains("above 0 and below 1"), "{error}");
    }
    assert!(
        new(|it| it.percentile = f64::NAN)
            .to_string()
            .contains("epsilon")
    );
    for period in [Span::ZERO, Span::from_us(999), Span::from_ms(1_001)] {
        let error = Estimator::new(EstimatorConfig::default(), period, Numbers::Long).unwrap_err();
        assert!(error.to_string().contains("1 ms to 1 s"), "{error}");
    }
}

#[test]
fn a_train_is_at_most_a_twentieth_of_the_stated_path() {
    let mut config = ProbeConfig::new(1, 1);
    assert_eq!(config.rate().as_bps(), 41_600);
    config.capacity = Some(Rate::from_bps(9_600));
    assert!(matches!(config.check(), Err(ConfigError::TooFast { .. })));
    config.capacity = Some(Rate::from_bps(1_536_000));
    assert_eq!(config.check(), Ok(()));
    config.format = Format::Compact;
    assert_eq!(config.rate().as_bps(), 25_600);
}

#[test]
fn damaged_datagrams_have_a_cause() {
    assert_eq!(Pdu::decode(&[]), Err(ProbeError::Short(0)));
    assert_eq!(Pdu::decode(&[1, 2, 3]), Err(ProbeError::Magic));
    assert_eq!(Pdu::decode(&[9; 24]), Err(ProbeError::Magic));
    assert_eq!(
        Pdu::decode(&[0x53, 0x42, 9, 0, 0]),
        Err(ProbeError::Version(9))
    );
    assert_eq!(
        Pdu::decode(&[0x53, 0x42, 1, 0, 0]),
        Err(ProbeError::Short(5))
    );
    assert_eq!(
        Pdu::decode(&[0x53, 0x43, 1, 77, 0]),
        Err(ProbeError::Kind(77))
    );
}

#[test]
fn numbers_wrap() {
    for (numbers, top) in [
        (Numbers::Short, u32::from(u16::MAX)),
        (Numbers::Long, u32::MAX),
    ] {
        let mut estimator = Estimator::new(EstimatorConfig::default(), PERIOD, numbers).unwrap();
        for k in 0..301_u32 {
            let seq = (top - 100).wrapping_add(k) & top;
            estimator.arrive(Arrival::new(at(10 * u64::from(k)), seq));
        }
        let found = outcomes(&events(&mut estimator));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].estimate().unwrap().xi_ms, 0.0);
        assert_eq!(estimator.counters().lost, 0);
    }
}

#[test]
fn two_successive_numbers_far_behind_are_a_restart_and_one_is_an_old_packet() {
    let mut estimator = estimator(EstimatorConfig::default());
    for k in 100_000..100_150 {
        estimator.arrive(nominal(k));
    }
    events(&mut estimator);
    estimator.arrive(Arrival::new(at(1_001_500), 7));
    estimator.arrive(nominal(100_150));
    assert!(!events(&mut estimator).contains(&Event::Restarted));
    for (place, seq) in (500..802).enumerate() {
        estimator.arrive(Arrival::new(at(1_001_510 + 10 * place as u64), seq));
    }
    let found = events(&mut estimator);
    assert_eq!(
        found.iter().filter(|it| **it == Event::Restarted).count(),
        1
    );
    // No window has packets of both: the block has the 300 lags behind the restart.
    assert_eq!(outcomes(&found).len(), 1);
    assert_eq!(outcomes(&found)[0].estimate().unwrap().xi_ms, 0.0);
    assert_eq!(estimator.counters().stale, 2);
}

#[test]
fn loss_lowers_and_then_ends_the_signal() {
    for (every, filter) in [
        (4_u32, Filter::Robust),
        (4, Filter::Paper),
        (30, Filter::Robust),
    ] {
        let config = EstimatorConfig {
            filter,
            ..EstimatorConfig::default()
        };
        let mut estimator = estimator(config);
        for k in (0..500).filter(|k| k % every != 1) {
            estimator.arrive(nominal(k));
        }
        let found = outcomes(&events(&mut estimator))[0];
        match (every, found) {
            (4, Outcome::NoSignal { loss_ppm }) => assert!((240_000..=260_000).contains(&loss_ppm)),
            (30, Outcome::Estimate(it)) => assert!(it.loss_ppm < 50_000),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_sender_that_leaves_most_slots_out_gives_no_index() {
    let mut estimator = estimator(EstimatorConfig::default());
    for k in (0..=300).step_by(3) {
        estimator.arrive(Arrival {
            skipped: 2,
            ..nominal(k)
        });
    }
    let found = outcomes(&events(&mut estimator));
    assert_eq!(found, [Outcome::Insufficient { loss_ppm: 0 }]);
    let counters = estimator.counters();
    assert_eq!((counters.lost, counters.skipped), (0, 200));
}

#[test]
fn silence_is_no_signal_and_windows_begin_anew() {
    let mut estimator = estimator(EstimatorConfig::default());
    for k in 0..250 {
        estimator.arrive(nominal(k));
    }
    let due = estimator.next_timeout().unwrap();
    assert_eq!(due, at(2_490) + Span::from_secs(1));
    estimator.on_timeout(due);
    estimator.on_timeout(due + Span::from_secs(9));
    let found = outcomes(&events(&mut estimator));
    assert_eq!(
        found,
        [Outcome::NoSignal {
            loss_ppm: 1_000_000
        }]
    );
    for k in 600..900 {
        estimator.arrive(nominal(k));
    }
    assert_eq!(outcomes(&events(&mut estimator)), []);
    estimator.arrive(nominal(900));
    assert_eq!(outcomes(&events(&mut estimator)).len(), 1);
    assert_eq!(estimator.counters().lost, 350);
}

#[test]
fn a_jump_of_numbers_beyond_a_block_costs_no_time() {
    let mut estimator = estimator(EstimatorConfig::default());
    for k in [0, 1, 2_000_000_000, 2_000_000_001] {
        estimator.arrive(Arrival::new(at(k / 1_000_000), k as u32));
    }
    let found = outcomes(&events(&mut estimator));
    assert!(
        matches!(
            found[..],
            [Outcome::NoSignal {
                loss_ppm: 999_999..
            }]
        ),
        "{found:?}"
    );
}

#[test]
fn a_clock_that_goes_back_gives_a_lag_of_zero() {
    let config = EstimatorConfig {
        filter: Filter::Paper,
        ..EstimatorConfig::default()
    };
    let mut estimator = estimator(config);
    estimator.arrive(Arrival::new(at(50), 0));
    estimator.arrive(Arrival::new(at(20), 1));
    let found = events(&mut estimator);
    assert_eq!(found, [Event::Lag { slot: 1, ms: 0.0 }]);
    assert_eq!(estimator.counters().clock_anomalies, 1);
}

#[test]
fn departures_that_cannot_be_are_replaced_by_slots() {
    let mut estimator = estimator(EstimatorConfig::default());
    for (k, sent) in [0, u64::MAX, 3, u64::MAX / 2].into_iter().enumerate() {
        estimator.arrive(Arrival {
            sent_ns: Some(sent),
            ..nominal(k as u32)
        });
    }
    let found = events(&mut estimator);
    let lags = |it: &Event| matches!(it, Event::Lag { ms, .. } if (*ms - 10.0).abs() < 1e-9);
    assert!(found.len() == 3 && found.iter().all(lags), "{found:?}");
    assert_eq!(estimator.counters().clock_anomalies, 3);
}

#[test]
fn a_path_slower_than_the_train_is_told() {
    let config = EstimatorConfig {
        mode: Mode::Tumbling,
        ..EstimatorConfig::default()
    };
    let mut estimator = estimator(config);
    for k in 0..=300_u32 {
        estimator.arrive(Arrival::new(at(11 * u64::from(k)), k));
    }
    assert!(events(&mut estimator).contains(&Event::SelfCongestion));
}

#[test]
fn a_voice_flow_is_a_train() {
    let rtp = |seq: u16, stamp: u32, source: u32| {
        let mut packet = vec![0x80, 0];
        packet.extend(seq.to_be_bytes());
        packet.extend(stamp.to_be_bytes());
        packet.extend(source.to_be_bytes());
        packet
    };
    let config = EstimatorConfig::default();
    let mut train = RtpTrain::new(config, Span::from_ms(20), 8_000).unwrap();
    assert_eq!(train.handle(at(0), b"no"), Err(ProbeError::Short(2)));
    assert_eq!(train.handle(at(0), &[0; 12]), Err(ProbeError::Magic));
    let stamp = |k: u32| (u32::MAX - 1_000).wrapping_add(160 * k);
    for k in 0..=300_u32 {
        // A pause of 2 s in the speech is in the time stamps, not in the numbers.
        let pause = if k > 100 { 2_000 } else { 0 };
        let when = at(20 * u64::from(k) + pause);
        train.estimator().on_timeout(when);
        let sent = stamp(k).wrapping_add(8 * pause as u32);
        train.handle(when, &rtp(k as u16, sent, 7)).unwrap();
        if pause == 0 && k == 100 {
            assert_eq!(train.handle(when, &rtp(3, 4, 8)), Err(ProbeError::Session));
        }
    }
    let found = outcomes(&events(train.estimator()));
    // The pause is longer than a second: no signal, then a new block.
    assert_eq!(
        found,
        [Outcome::NoSignal {
            loss_ppm: 1_000_000
        }]
    );
    for k in 301..=401_u32 {
        let sent = stamp(k).wrapping_add(16_000);
        train
            .handle(at(20 * u64::from(k) + 2_000), &rtp(k as u16, sent, 7))
            .unwrap();
    }
    let found = outcomes(&events(train.estimator()));
    assert!(found[0].estimate().unwrap().xi_ms < 1e-6, "{found:?}");
}
