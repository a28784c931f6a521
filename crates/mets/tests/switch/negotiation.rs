//! The node to which members are attached agrees with each of them in the name of the source (specs/user-to-user-qos.md 2.4).

use layercast_core::{Contract, Level, Mediation, Rate, Refusal, Resource, Term};
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchInput};
use layercast_wire::{AdapterKind, Agreed, Bounds, Carriage, Epoch, Signal};

use crate::common::bench::*;
use crate::common::{join_ack, ms};

/// A switch that knows a flow whose delay of 300 to 50 ms is negotiated.
fn negotiating(port: PortConfig) -> Bench {
    let mut bench = idle(port, SwitchConfig::default());
    bench.info.contract = Some(Contract {
        delay: Some(Term {
            worst: Some(0.3),
            target: Some(0.05),
            ..Term::agreed(0.3)
        }),
        ..Contract::default()
    });
    bench.info.mediation = Some(Mediation::PerMember);
    let flow = bench.info.clone();
    bench.advertise(UP, flow);
    bench
}

fn join(bench: &Bench, id: u32, answer: Option<Bounds>) -> Signal {
    Signal::Join {
        flow: bench.info.id,
        epoch: Epoch::default(),
        member: member(id),
        level: Level::FULL,
        proof: None,
        again: false,
        answer: answer.map(Box::new),
    }
}

fn ack(bench: &Bench) -> Signal {
    join_ack(bench.info.id, 101, Level::BASE)
}

fn agreed(signals: &[&Signal]) -> Vec<Option<Agreed>> {
    let acks = signals.iter().filter_map(|it| match it {
        Signal::JoinAck { agreed, .. } => Some(agreed.as_deref().copied()),
        _ => None,
    });
    acks.collect()
}

fn delay(worst: f64) -> Bounds {
    Bounds {
        delay: Some([worst, 0.05]),
        ..Bounds::default()
    }
}

#[test]
fn each_member_hears_what_was_agreed_with_it_and_upstream_only_that_somebody_joins() {
    let mut bench = negotiating(plain(Carriage::Datagrams));
    let signal = join(&bench, 1, Some(delay(0.2)));
    let out = bench.signal(A, signal);
    let [Signal::Join { answer: None, .. }] = &signals_to(&out, UP)[..] else {
        panic!("{out:?}");
    };
    let signal = ack(&bench);
    let out = bench.signal(UP, signal);
    let first = Agreed {
        member: member(1).id,
        bounds: delay(0.2),
    };
    assert_eq!(agreed(&signals_to(&out, A)), [Some(first)]);
    // The flow is here: the answer comes from this node, immediately. An old member hears nothing of a contract.
    let signal = join(&bench, 2, Some(delay(0.001)));
    let out = bench.signal(B, signal);
    let clipped = Agreed {
        member: member(2).id,
        bounds: delay(0.05),
    };
    assert_eq!(agreed(&signals_to(&out, B)), [Some(clipped)]);
    assert_eq!(bench.switch.stats().clipped_answers, 1);
    let signal = join(&bench, 3, None);
    let out = bench.signal(B, signal);
    assert_eq!(agreed(&signals_to(&out, B)), [None]);
    // Another answer in a session that runs.
    let signal = join(&bench, 1, Some(delay(0.1)));
    let out = bench.signal(A, signal);
    let again = Agreed {
        bounds: delay(0.1),
        ..first
    };
    assert_eq!(agreed(&signals_to(&out, A)), [Some(again)]);
}

#[test]
fn two_members_behind_one_port_that_wait_both_hear_of_their_own_contract() {
    let mut bench = negotiating(plain(Carriage::Datagrams));
    for (id, worst) in [(1, 0.2), (2, 0.1)] {
        let signal = join(&bench, id, Some(delay(worst)));
        bench.signal(A, signal);
    }
    let signal = ack(&bench);
    let out = bench.signal(UP, signal);
    let found: Vec<_> = agreed(&signals_to(&out, A))
        .iter()
        .map(|it| it.map(|it| (it.member, it.bounds)))
        .collect();
    let both = [(1, 0.2), (2, 0.1)].map(|(id, worst)| Some((member(id).id, delay(worst))));
    assert_eq!(found, both);
}

#[test]
fn layers_beyond_the_contract_are_not_sent_whatever_a_member_asks_for() {
    let mut bench = negotiating(plain(Carriage::Datagrams));
    let top = bench.info.spec.rate_at(Level::E1).rate().as_bps() as f64;
    let answer = Bounds {
        throughput: Some([0.0, top]),
        ..Bounds::default()
    };
    for (port, id, answer) in [(A, 1, Some(answer)), (B, 2, None)] {
        let signal = join(&bench, id, answer);
        bench.signal(port, signal);
    }
    let signal = ack(&bench);
    bench.signal(UP, signal);
    for (port, id) in [(A, 1), (B, 2)] {
        bench.adapter(port, AdapterKind::Res, 1, id, 2);
    }
    let now = bench.now;
    bench.run(now + layercast_core::Span::from_ms(300));
    bench.adapter(UP, AdapterKind::Adapt, 1, 9, 2);
    assert_eq!((bench.level(A), bench.level(B)), (Some(1), Some(2)));
}

#[test]
fn the_offer_tells_how_fast_the_slowest_line_to_a_member_is() {
    let mut bench = idle(
        PortConfig {
            rate: Some(Rate::from_bps(600_000)),
            ..plain(Carriage::Datagrams)
        },
        SwitchConfig::default(),
    );
    bench.info.mediation = Some(Mediation::PerMember);
    bench.info.path_bps = Some(900_000);
    let lines = |bench: &mut Bench, flow: layercast_wire::FlowInfo| {
        let out = bench.advertise(UP, flow);
        let told: Vec<Option<u64>> = signals_to(&out, A)
            .iter()
            .filter_map(|it| match it {
                Signal::Advertise { flow } => Some(flow.path_bps),
                _ => None,
            })
            .collect();
        told
    };
    let flow = bench.info.clone();
    assert_eq!(lines(&mut bench, flow), [Some(600_000)]);
    let mut other = bench.info.clone();
    (other.id, other.name) = (layercast_core::FlowId(99), "plain".into());
    (other.mediation, other.path_bps) = (None, None);
    assert_eq!(lines(&mut bench, other), [None]);
}

#[test]
fn a_port_whose_rate_is_found_later_tells_its_members_when_it_allows_another_level() {
    let estimated = PortConfig {
        estimated: true,
        ..plain(Carriage::Datagrams)
    };
    let mut bench = negotiating(estimated);
    let signal = join(&bench, 1, Some(Bounds::default()));
    bench.signal(A, signal);
    let signal = ack(&bench);
    bench.signal(UP, signal);
    let e1 = bench.info.spec.rate_at(Level::E1).rate().as_bps();
    let told = |bench: &mut Bench, bps| {
        let rate = Rate::from_bps(bps);
        let out = bench.give(SwitchInput::PortRate { port: A, rate });
        let lines = signals_to(&out, A).into_iter().filter_map(|it| match it {
            Signal::Advertise { flow } => flow.path_bps,
            _ => None,
        });
        assert_eq!(signals_to(&out, B), Vec::<&Signal>::new());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(
        told(&mut bench, 100 * e1),
        Vec::<u64>::new(),
        "all that was offered"
    );
    assert_eq!(told(&mut bench, e1), [e1]);
    assert_eq!(
        told(&mut bench, e1 + 1),
        Vec::<u64>::new(),
        "the same level"
    );
    assert_eq!(told(&mut bench, 100 * e1), [100 * e1]);
    // A flow that is not negotiated has no use for it.
    let mut bench = idle(
        PortConfig {
            estimated: true,
            ..plain(Carriage::Datagrams)
        },
        SwitchConfig::default(),
    );
    assert_eq!(told(&mut bench, 1), Vec::<u64>::new());
}

#[test]
fn members_that_decline_are_listed_until_they_join_and_the_source_hears_of_them() {
    let mut bench = negotiating(plain(Carriage::Datagrams));
    let refusal = Refusal {
        node: "m1".into(),
        resource: Resource::WantedDelay,
        needed: 10_000,
        available: 50_000,
        measured: None,
    };
    let decline = Signal::Decline {
        flow: bench.info.id,
        member: member(1),
        refusal: Box::new(refusal.clone()),
        proof: None,
    };
    bench.run(ms(1_500));
    let out = bench.signal(A, decline.clone());
    assert_eq!(signals_to(&out, UP), [&decline]);
    // Not from where the flow comes, nor of a flow that does not negotiate.
    assert_eq!(bench.signal(UP, decline.clone()), []);
    let refused = |bench: &mut Bench| {
        let out = bench.signal(B, Signal::GetStats { flow: None });
        let [Signal::Stats { members }] = &signals_to(&out, B)[..] else {
            panic!("{out:?}");
        };
        members
            .iter()
            .filter_map(|it| Some((it.joined_at_ms, it.refused.clone()?)))
            .collect::<Vec<_>>()
    };
    bench.run(ms(2_500));
    assert_eq!(refused(&mut bench), [(1_500, refusal)]);
    let signal = join(&bench, 1, Some(Bounds::default()));
    bench.signal(A, signal);
    let signal = ack(&bench);
    bench.signal(UP, signal);
    assert_eq!(refused(&mut bench), []);
}
