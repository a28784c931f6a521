//! Any sequence of calls.

use std::collections::BTreeMap;

use layercast_admission::{
    CallId, Decision, Estimator, Levels, Mbac, MbacConfig, Promise, Rule, TSpec,
};
use layercast_core::{Rate, Span, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Back(u64),
    Request(u8, u64),
    Rollback(u8),
    Release(u8),
    Resize(u8, u64),
    Survive(u8, u64),
    Arrive(u64, bool),
    Transmit(u64),
    Delay(u64),
    Backlog(u64, u64),
    Capacity(u64),
    Timeout,
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    prop_oneof![
        6 => (0u64..3_000_000).prop_map(Pass),
        1 => any::<u64>().prop_map(Pass),
        1 => any::<u64>().prop_map(Back),
        6 => (any::<u8>(), 1u64..4_000_000).prop_map(|(id, rate)| Request(id, rate)),
        1 => (any::<u8>(), 1u64..u64::MAX).prop_map(|(id, rate)| Request(id, rate)),
        2 => any::<u8>().prop_map(Rollback),
        2 => any::<u8>().prop_map(Release),
        2 => (any::<u8>(), 1u64..8_000_000).prop_map(|(id, rate)| Resize(id, rate)),
        1 => (any::<u8>(), 1u64..8_000_000).prop_map(|(id, rate)| Survive(id, rate)),
        3 => (0u64..10_000_000, any::<bool>()).prop_map(|(bits, late)| Arrive(bits, late)),
        1 => (any::<u64>(), any::<bool>()).prop_map(|(bits, late)| Arrive(bits, late)),
        3 => (0u64..10_000_000).prop_map(Transmit),
        1 => any::<u64>().prop_map(Transmit),
        1 => any::<u64>().prop_map(Delay),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(all, beyond)| Backlog(all, beyond)),
        1 => (1u64..20_000_000).prop_map(Capacity),
        3 => Just(Timeout),
        1 => Just(Poll),
    ]
}

fn configs() -> impl Strategy<Value = MbacConfig> {
    let link = Rate::from_bps(10_000_000);
    let plain = MbacConfig::new(link);
    let jdsz = MbacConfig::jdsz(link, Span::from_secs(3), Some(Span::from_ms(16)), 950);
    let average = |rule| MbacConfig {
        rule,
        estimator: Estimator::Average(300),
        ..plain.clone()
    };
    let options = [
        MbacConfig {
            estimator: Estimator::Levels(Levels::paper(link)),
            ..plain.clone()
        },
        average(Rule::Hoeffding { exceed_ppm: 10 }),
        average(Rule::Tangent { space: 2.0 }),
        jdsz,
        plain,
    ];
    (prop::sample::select(options.to_vec()), any::<[bool; 3]>()).prop_map(
        |(config, [align_samples, fair_block, sliding])| MbacConfig {
            align_samples,
            fair_block,
            max_calls: 64,
            promise: Promise {
                sliding,
                period: Span::from_secs(100),
                ..Promise::default()
            },
            ..config
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No panic; the estimate stays within the highest capacity there was; a call gives back at most what it
    /// added; tables and queues stay within their limits; time and timeouts go forward.
    #[test]
    fn any_sequence_of_calls_keeps_the_invariants(
        config in configs(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut now = Time::ZERO;
        let mut highest = config.capacity.as_bps();
        let mut mbac = Mbac::new(config, now).unwrap();
        let mut raised: BTreeMap<u8, u64> = BTreeMap::new();
        let id = |call: u8| CallId { path: u64::from(call % 3), call: u64::from(call) };
        for step in steps {
            let before = mbac.estimate().as_bps();
            match step {
                Step::Pass(us) => now = now.saturating_add(Span::from_us(us)),
                Step::Back(us) => {
                    let early = now.saturating_sub(Span::from_us(us));
                    mbac.handle_timeout(early);
                }
                Step::Request(call, rate) => {
                    let known = mbac.has(id(call));
                    let spec = TSpec::from_bits(rate as f64, None, Some(1e3));
                    let Ok(spec) = spec else { continue };
                    mbac.handle_timeout(now);
                    let before = mbac.estimate().as_bps();
                    let decision = mbac.request(now, id(call), &spec);
                    prop_assert_eq!(decision.is_err(), known);
                    let added = match decision {
                        Ok(Decision::Admit { .. }) => spec.token_rate().as_bps(),
                        _ => 0,
                    };
                    prop_assert_eq!(mbac.estimate().as_bps(), before + added);
                    if added > 0 {
                        raised.insert(call, added);
                    }
                }
                Step::Rollback(call) => {
                    mbac.handle_timeout(now);
                    let (before, declared) = (mbac.estimate().as_bps(), mbac.report().declared);
                    let known = mbac.has(id(call));
                    prop_assert_eq!(mbac.rollback(now, id(call)).is_ok(), known);
                    let less = before - mbac.estimate().as_bps();
                    let own = declared.as_bps() - mbac.report().declared.as_bps();
                    // A call that shrank gives back more than it has now.
                    let most = raised.remove(&call).unwrap_or(0);
                    prop_assert!(less == 0 || known, "{less} of {own}");
                    prop_assert!(less <= most, "{less} of {most}");
                    let once = mbac.estimate();
                    prop_assert!(mbac.rollback(now, id(call)).is_err());
                    prop_assert_eq!(mbac.estimate(), once);
                }
                Step::Release(call) => {
                    mbac.handle_timeout(now);
                    let before = mbac.estimate();
                    let known = mbac.has(id(call));
                    prop_assert_eq!(mbac.release(now, id(call)).is_ok(), known);
                    prop_assert_eq!(mbac.estimate(), before);
                }
                Step::Resize(call, rate) => {
                    mbac.handle_timeout(now);
                    let before = mbac.estimate().as_bps();
                    let spec = TSpec::peak(Rate::from_bps(rate)).unwrap();
                    let known = mbac.has(id(call));
                    prop_assert_eq!(mbac.resize(now, id(call), &spec).is_ok(), known);
                    let added = mbac.estimate().as_bps() - before;
                    *raised.entry(call).or_default() += added;
                }
                Step::Survive(call, rate) => {
                    let spec = TSpec::peak(Rate::from_bps(rate)).unwrap();
                    mbac.survive(now, id(call), &spec);
                }
                Step::Arrive(bits, late) => mbac.on_arrival(now, bits, late),
                Step::Transmit(bits) => mbac.on_transmit(now, bits),
                Step::Delay(us) => mbac.on_delay(now, Span::from_us(us)),
                Step::Backlog(all, beyond) => mbac.on_backlog(now, all, beyond),
                Step::Capacity(bps) => {
                    mbac.set_capacity(now, Rate::from_bps(bps)).unwrap();
                    highest = highest.max(bps);
                }
                Step::Timeout => {
                    mbac.handle_timeout(now);
                    prop_assert!(mbac.poll_timeout() > now || now == Time::MAX);
                }
                Step::Poll => while mbac.poll_event().is_some() {},
            }
            let report = mbac.report();
            let after = report.estimate.as_bps();
            prop_assert!(after <= highest.max(before), "{after} above {highest}");
            prop_assert!(after <= highest);
            prop_assert!(mbac.calls() <= 64);
            prop_assert!(report.trigger.is_none_or(|trigger| trigger.as_bps() <= highest));
            prop_assert!(report.counts.sizes.len() <= 64);
            prop_assert!(report.window.is_none_or(|window| window >= Span::from_secs(1)));
        }
        let mut kept = 0;
        while mbac.poll_event().is_some() {
            kept += 1;
        }
        prop_assert!(kept <= 1_024);
    }
}
