//! Any input: no panic, bounded memory, counters that add up.

use layercast_core::{Span, Time};
use layercast_sync_index::pdu::{Control, FullPart, Pdu, Probe, Reason};
use layercast_sync_index::{
    Arrival, Estimator, EstimatorConfig, Event, Filter, Format, Mode, Numbers, Outcome,
    ProbeReceiver,
};
use proptest::prelude::*;

fn config() -> impl Strategy<Value = EstimatorConfig> {
    let choices = (any::<bool>(), any::<bool>());
    (2_u16..20, 1_u16..12, 0.01_f64..0.99, choices).prop_map(
        |(lags, windows, percentile, (rolling, paper))| EstimatorConfig {
            lags,
            windows,
            percentile,
            mode: if rolling {
                Mode::Rolling
            } else {
                Mode::Tumbling
            },
            filter: if paper { Filter::Paper } else { Filter::Robust },
            ..EstimatorConfig::default()
        },
    )
}

/// Steps of numbers: mostly forward, sometimes anywhere.
fn step() -> impl Strategy<Value = i64> {
    prop_oneof![
        20 => Just(1_i64),
        4 => 2_i64..5,
        3 => -30_i64..1,
        1 => -3_000_i64..3_000,
        1 => any::<i32>().prop_map(i64::from),
    ]
}

proptest! {
    #[test]
    fn any_arrivals_are_counted_once(
        config in config(),
        short in any::<bool>(),
        packets in prop::collection::vec(
            (step(), -5_000_i64..30_000, prop::option::of(any::<u64>()), 0_u32..80, any::<bool>()),
            1..600,
        ),
    ) {
        let numbers = if short { Numbers::Short } else { Numbers::Long };
        let mut estimator = Estimator::new(config, Span::from_ms(10), numbers).unwrap();
        let (mut seq, mut now_us, count) = (0_i64, 10_000_000_i64, packets.len() as u64);
        let mut told = 0;
        for (step, us, sent_ns, skipped, late) in packets {
            seq += step;
            now_us = (now_us + us).max(0);
            let at = Time::ZERO + Span::from_us(now_us as u64);
            estimator.on_timeout(at);
            estimator.arrive(Arrival { at, seq: seq as u32, sent_ns, late, skipped });
            while let Some(event) = estimator.poll_event() {
                told += 1;
                match event {
                    Event::Outcome(Outcome::Estimate(it)) => {
                        prop_assert!(it.xi_ms >= 0.0 && it.xi_ms.is_finite());
                        prop_assert!(it.mean_ms.is_finite() && it.loss_ppm < 200_000);
                        prop_assert!(it.queue_ms.is_none_or(f64::is_finite));
                    }
                    Event::Window(it) => prop_assert!(it.sd_ms.is_none_or(|sd| sd >= 0.0)),
                    _ => {}
                }
            }
        }
        let it = estimator.counters();
        prop_assert_eq!(it.in_order + it.reordered + it.duplicates + it.stale, count);
        prop_assert_eq!(it.in_order + it.reordered + it.lost + it.skipped, it.slots);
        prop_assert!(told < 300 * (count + 1));
    }

    #[test]
    fn any_datagram_is_taken_without_harm(
        datagrams in prop::collection::vec((0_u8..4, 0_u8..6, any::<u32>(), prop::collection::vec(any::<u8>(), 0..110)), 1..200),
    ) {
        let mut receiver = ProbeReceiver::new(EstimatorConfig::default(), None).unwrap();
        let mut now = Time::ZERO;
        let (mut came, mut left) = ([0_usize; 4], [0_usize; 4]);
        for (from, kind, number, bytes) in datagrams {
            now += Span::from_ms(u64::from(number % 40));
            let (session, key, period_us) = (1, 2, number % 20_000);
            let full = FullPart { late: false, fin: number % 9 == 0, skipped: number % 64, period_us, sent_ns: number.into() };
            let datagram = match kind {
                0 => Control::Hello { session, key, token: u64::from(number % 2) * 77, period_us, format: Format::Full }.encode().to_vec(),
                1 => Probe { session, seq: number % 300, full: Some(full) }.encode().to_vec(),
                2 => Probe { session, seq: number, full: None }.encode().to_vec(),
                3 => Control::Fin { session, key }.encode().to_vec(),
                _ => bytes,
            };
            let place = usize::from(from);
            came[place] += datagram.len();
            let was_known = receiver.estimator(&from).is_some();
            let _ = receiver.handle(now, from, 77, &datagram);
            receiver.on_timeout(now);
            while let Some((to, answer)) = receiver.poll_transmit() {
                left[usize::from(to)] += answer.len();
            }
            if !was_known && receiver.estimator(&from).is_none() && came[place] > 0 {
                // A report is longer than a call, and only for measured senders.
                prop_assert!(left[place] <= 3 * came[place] + 2_000);
            }
            while receiver.poll_event().is_some() {}
        }
    }

    #[test]
    fn what_is_encoded_is_decoded(
        session in any::<u32>(), key in any::<u64>(), number in any::<u32>(), xi in 0_u64..1_000_000_000_000,
        queue in prop::option::of(0_u64..1_000_000_000), flags in (any::<bool>(), any::<bool>()), skipped in 0_u32..64,
    ) {
        let of_ns = |ns: u64| ns as f64 / 1e6;
        let estimate = layercast_sync_index::Estimate {
            xi_ms: of_ns(xi),
            xi_over_period: of_ns(xi) * 1e3 / 10_000.0,
            mean_ms: of_ns(xi / 2),
            queue_ms: queue.map(of_ns),
            loss_ppm: number % 1_000_000,
            floor_ms: 0.25,
            reordered: key,
            lost: key / 2,
            n: 30,
            m: 10,
            eps: 0.3,
            period_us: 10_000,
            coarse_clock: flags.0,
            sender_unreliable: flags.1,
        };
        let outcomes = [None, Some(Outcome::Estimate(estimate)), Some(Outcome::NoSignal { loss_ppm: 5 }), Some(Outcome::Insufficient { loss_ppm: 7 })];
        let mut controls: Vec<Control> = outcomes
            .into_iter()
            .map(|outcome| Control::Report { session, key, number, age_ms: number / 3, outcome })
            .collect();
        controls.push(Control::Hello { session, key, token: key ^ 5, period_us: number, format: Format::Compact });
        controls.push(Control::Ok { session, key, token: 3, accepted: flags.0 });
        controls.push(Control::Stop { session, key, reason: Reason::SelfCongestion });
        controls.push(Control::Fin { session, key });
        for control in controls {
            prop_assert_eq!(Pdu::decode(&control.encode()), Ok(Pdu::Control(control)));
        }
        let full = FullPart { late: flags.0, fin: flags.1, skipped, period_us: number, sent_ns: key };
        let probe = Probe { session, seq: number, full: Some(full) };
        prop_assert_eq!(Pdu::decode(&probe.encode()), Ok(Pdu::Probe(probe)));
    }
}
