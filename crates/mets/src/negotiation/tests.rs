use layercast_core::{FlowId, LayerRate, PerLayer, Term};
use proptest::prelude::*;

use super::*;

fn between(worst: f64, target: f64) -> Option<Term> {
    Some(Term {
        worst: Some(worst),
        target: Some(target),
        ..Term::agreed(worst)
    })
}

/// Levels of 0.2, 0.6 and 1.4 Mbit/s; a delay of 250 to 150 ms, jitter of 40 to 20 ms, loss of 1 to 0.1 %, 0.3 to 1.4 Mbit/s.
fn flow() -> FlowInfo {
    let layer = |mean| LayerRate {
        mean: CellRate(mean),
        ..LayerRate::default()
    };
    let (base, e1, e2) = (layer(472), layer(943), layer(1_887));
    FlowInfo {
        spec: FlowSpec {
            layers: PerLayer { base, e1, e2 },
            ..FlowSpec::default()
        },
        contract: Some(Contract {
            throughput: between(3e5, 1.4e6),
            delay: between(0.25, 0.15),
            jitter: between(0.04, 0.02),
            error_rate: between(0.01, 0.001),
        }),
        mediation: Some(Mediation::PerMember),
        ..FlowInfo::new(FlowId(7), "talk", "atc")
    }
}

fn ask(flow: &FlowInfo, wishes: &Contract) -> Result<Terms, String> {
    answer("dwp", (flow, &flow.spec), wishes, None).map_err(|it| it.to_string())
}

#[test]
fn a_member_accepts_what_it_wants_counters_within_the_offer_and_refuses_outside() {
    let flow = flow();
    let offered = flow.contract.unwrap();
    let same = ask(&flow, &offered).unwrap();
    assert_eq!((same.bounds.is_empty(), same.level), (true, Level::FULL));
    let loose = Contract {
        delay: between(0.4, 0.1),
        ..Contract::default()
    };
    assert!(ask(&flow, &loose).unwrap().bounds.is_empty());
    let stricter = Contract {
        delay: between(0.2, 0.1),
        error_rate: between(0.005, 0.0),
        ..offered
    };
    let counter = ask(&flow, &stricter).unwrap();
    assert_eq!(counter.level, Level::FULL);
    let bounds = Bounds {
        delay: Some([0.2, 0.15]),
        error_rate: Some([0.005, 0.001]),
        ..Bounds::default()
    };
    assert_eq!(counter.bounds, bounds);
    let contract = counter.bounds.over(&offered);
    assert_eq!(contract.delay, between(0.2, 0.15));
    assert_eq!(contract.jitter, offered.jitter);
    for (wishes, says) in [
        (
            Contract {
                delay: between(0.1, 0.05),
                ..offered
            },
            "dwp: delay: 100 ms at most is wanted, 150 ms at best is offered",
        ),
        (
            Contract {
                jitter: between(0.01, 0.01),
                ..offered
            },
            "dwp: jitter: 10 ms at most is wanted, 20 ms at best is offered",
        ),
        (
            Contract {
                error_rate: between(1e-11, 1e-11),
                ..offered
            },
            "dwp: error rate: 0.00000000001 at most is wanted, 0.001 at best is offered",
        ),
        (
            Contract {
                throughput: between(2e6, 3e6),
                ..offered
            },
            "dwp: throughput: 2.00 Mbit/s at least is wanted, 1.40 Mbit/s at most is offered",
        ),
        (
            Contract {
                throughput: between(1e5, 2.5e5),
                ..offered
            },
            "dwp: throughput: 250.0 kbit/s at most is wanted, 300.0 kbit/s at least is offered",
        ),
        (
            Contract {
                throughput: between(3e5, 5e5),
                ..offered
            },
            "dwp: throughput: no level of the flow lies between the least and the most that is accepted: the one below takes \
             200.1 kbit/s, the one above 600.0 kbit/s",
        ),
    ] {
        assert_eq!(ask(&flow, &wishes), Err(says.to_owned()));
    }
}

#[test]
fn the_slowest_line_and_the_delay_of_the_path_bound_what_is_agreed() {
    let mut flow = flow();
    flow.path_bps = Some(700_000);
    let wishes = flow.contract.unwrap();
    let terms = ask(&flow, &wishes).unwrap();
    assert_eq!(terms.level, Level::E1);
    assert_eq!(terms.bounds.throughput, Some([3e5, 7e5]));
    assert_eq!(agree(&flow, &terms.bounds), (terms, false));
    // Its host takes less than its line.
    let host = answer("dwp", (&flow, &flow.spec), &wishes, Some(CellRate(1_000)));
    assert_eq!(host.unwrap_err().resource, Resource::LevelThroughput);
    let host = answer("dwp", (&flow, &flow.spec), &wishes, Some(CellRate(500)));
    assert_eq!(
        host.unwrap_err().to_string(),
        "dwp: throughput: 300.0 kbit/s at least is needed, the line to dwp or its host carries 212.0 kbit/s at most"
    );
    flow.path_bps = Some(400_000);
    let says = ask(&flow, &wishes).unwrap_err();
    assert_eq!(
        says,
        "dwp: throughput: no level of the flow lies between the least and the most that is accepted: the one below takes \
         200.1 kbit/s, the one above 600.0 kbit/s"
    );
    flow.path_bps = None;
    flow.path_delay_us = 180_000;
    assert!(ask(&flow, &wishes).unwrap().bounds.is_empty());
    let hasty = Contract {
        delay: between(0.17, 0.1),
        ..wishes
    };
    let says = ask(&flow, &hasty).unwrap_err();
    assert_eq!(
        says,
        "dwp: delay: 170 ms at most is wanted, the largest key frame takes 180 ms to dwp, out of the server and over the lines"
    );
}

#[test]
fn of_a_flow_that_nobody_negotiates_of_the_member_goes_by_its_own_wishes() {
    let flow = FlowInfo {
        mediation: None,
        contract: None,
        ..flow()
    };
    let wishes = Contract {
        delay: between(0.01, 0.005),
        error_rate: between(1e-11, 1e-11),
        ..Contract::default()
    };
    let terms = ask(&flow, &wishes).unwrap();
    let contract = terms.bounds.over(&flow.contract_of(&flow.spec));
    let agreed = |parameter| contract.term(parameter).map(|it| it.agreed);
    assert_eq!(agreed(Parameter::Delay), Some(0.01));
    assert_eq!(agreed(Parameter::ErrorRate), Some(1e-11));
}

#[test]
fn an_answer_beyond_the_offer_is_clipped() {
    let flow = flow();
    let wild = Bounds {
        throughput: Some([1.0, 1e12]),
        delay: Some([86_400.0, 0.0]),
        jitter: Some([0.0, 0.0]),
        error_rate: Some([1.0, 1.0]),
    };
    let (terms, clipped) = agree(&flow, &wild);
    assert!(clipped);
    let bounds = Bounds {
        throughput: Some([3e5, 1.4e6]),
        delay: Some([0.25, 0.15]),
        jitter: Some([0.02, 0.02]),
        error_rate: Some([0.01, 0.01]),
    };
    assert_eq!((terms.bounds, terms.level), (bounds, Level::FULL));
    let little = Bounds {
        throughput: Some([3e5, 3e5]),
        ..Bounds::default()
    };
    assert_eq!(agree(&flow, &little).0.level, Level::BASE);
}

#[test]
fn a_red_zone_lowers_the_contract_no_further_than_the_member_accepts() {
    let flow = flow();
    let all = flow.contract.unwrap();
    let whole = ask(&flow, &all).unwrap();
    let lower = |level| lowered((&flow, &flow.spec), &whole, &all, level);
    let e1 = lower(Level::E1).unwrap();
    assert_eq!(e1.level, Level::E1);
    assert_eq!(agree(&flow, &e1.bounds), (e1, false));
    assert_eq!(lower(Level::BASE), None, "0.2 Mbit/s are less than 0.3");
    assert_eq!(lower(Level::FULL), Some(whole));
}

fn terms() -> impl Strategy<Value = Contract> {
    let pair = |most: f64| proptest::option::of((0.0..most, 0.0..=1.0));
    (pair(3e6), pair(0.5), pair(0.1), pair(0.05)).prop_map(|(rate, delay, jitter, loss)| {
        let less = |it: Option<(f64, f64)>| it.and_then(|(a, share)| between(a, a * share));
        Contract {
            throughput: rate.and_then(|(a, share)| between(a * share, a)),
            delay: less(delay),
            jitter: less(jitter),
            error_rate: less(loss),
        }
    })
}

proptest! {
    /// Node and member come to the same agreement, which is within offer and wishes.
    #[test]
    fn both_ends_agree(
        offered in terms(), wishes in terms(), line in proptest::option::of(1u64..3_000_000), delay in 0u64..600_000,
    ) {
        let flow = FlowInfo {
            contract: Some(offered),
            path_bps: line,
            path_delay_us: delay,
            ..flow()
        };
        let Ok(answered) = answer("dwp", (&flow, &flow.spec), &wishes, None) else { return Ok(()) };
        prop_assert_eq!(answered.bounds.check(), Ok(()));
        let (agreed, clipped) = agree(&flow, &answered.bounds);
        prop_assert!(!clipped);
        prop_assert_eq!(agreed, answered);
        let contract = agreed.bounds.over(&flow.contract_of(&flow.spec));
        prop_assert_eq!(contract.check(), Ok(()));
        prop_assert!(is_within(&contract, &contract));
        for parameter in [Parameter::Delay, Parameter::Jitter, Parameter::ErrorRate] {
            let agreed = contract.term(parameter).map_or(f64::MAX, |it| it.agreed);
            for side in [&wishes, &offered] {
                let bound = side.term(parameter).map_or(f64::MAX, |it| it.agreed);
                prop_assert!(agreed <= bound, "{parameter:?}: {agreed} beyond {bound}");
            }
        }
    }

    /// A refusal for throughput has the values of the sides that it names.
    #[test]
    fn a_refusal_has_what_each_side_said(
        offered in terms(), wishes in terms(), line in proptest::option::of(1u64..3_000_000), host in proptest::option::of(1u32..8_000),
    ) {
        let contract = Contract { throughput: offered.throughput, ..Contract::default() };
        let flow = FlowInfo { contract: Some(contract), path_bps: line, ..flow() };
        let wish = Contract { throughput: wishes.throughput, ..Contract::default() };
        let host = host.map(CellRate);
        let Err(refusal) = answer("dwp", (&flow, &flow.spec), &wish, host) else { return Ok(()) };
        let units = |value: f64| value.round() as u64;
        let level = |level| units(rate_of(&flow.spec, level));
        let offer = interval(&flow, &contract, Parameter::Throughput);
        let (wanted, wanted_most) = (wish.throughput.map(|it| units(it.agreed)), wish.throughput.and_then(|it| it.target).map(units));
        let offered = [units(offer.worst), level(Level::BASE)];
        let lines = [line, host.map(|it| it.rate().as_bps())];
        let Refusal { needed, available, .. } = refusal;
        match refusal.resource {
            Resource::WantedThroughput => {
                prop_assert_eq!((Some(needed), available), (wanted, units(offer.best)));
            }
            Resource::OfferedThroughput => {
                prop_assert!(offered.contains(&needed));
                prop_assert_eq!(Some(available), wanted_most);
            }
            Resource::LineThroughput => {
                prop_assert!(offered.contains(&needed) || Some(needed) == wanted);
                prop_assert!(lines.contains(&Some(available)));
            }
            Resource::LevelThroughput => {
                let pair = (available, needed);
                let steps = [(Level::BASE, Level::E1), (Level::E1, Level::FULL)];
                prop_assert!(steps.iter().any(|&(a, b)| (level(a), level(b)) == pair));
            }
            other => prop_assert!(false, "{other:?}"),
        }
        if refusal.resource != Resource::LevelThroughput {
            prop_assert!(needed >= available, "{}", refusal);
        }
    }

    /// Whatever is answered, what is agreed is possible and within the offer.
    #[test]
    fn no_answer_takes_the_contract_beyond_the_offer(offered in terms(), wild in terms()) {
        let flow = FlowInfo { contract: Some(offered), ..flow() };
        let (agreed, _) = agree(&flow, &Bounds {
            throughput: wild.throughput.map(|it| [it.agreed, it.target.unwrap_or_default()]),
            delay: wild.delay.map(|it| [it.agreed, it.target.unwrap_or_default()]),
            ..Bounds::default()
        });
        let contract = agreed.bounds.over(&offered);
        prop_assert_eq!(contract.check(), Ok(()));
        if let (Some(a), Some(o)) = (contract.delay, offered.delay) {
            prop_assert!(a.agreed <= o.agreed && a.agreed >= o.target.unwrap_or(0.0));
        }
        prop_assert_eq!(agree(&flow, &agreed.bounds), (agreed, false));
    }
}
