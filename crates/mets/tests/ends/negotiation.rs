//! A member with a profile and a source that negotiates (specs/user-to-user-qos.md 2.4): in the join, and while the flow runs.

use crate::common::*;
use layercast_core::{
    Answered, Contract, Layer, Level, Mediation, NodeId, QosOption, RequestId, Resource, Span,
    Status, Term, Zone,
};
use layercast_mets::{SinkConfig, SinkEvent, SinkInput, SourceEvent, SourceInput};
use layercast_wire::{Agreed, Bounds, Carriage, FlowInfo, LinkPdu, Signal};

fn between(worst: f64, target: f64) -> Option<Term> {
    Some(Term {
        worst: Some(worst),
        target: Some(target),
        ..Term::agreed(worst)
    })
}

/// 0.1 to 1.4 Mbit/s, a delay of 300 to 50 ms; the levels take 0.2, 0.6 and 1.4 Mbit/s.
fn offer() -> Contract {
    Contract {
        throughput: between(1e5, 1.424_640e6),
        delay: between(0.3, 0.05),
        error_rate: between(0.01, 0.0),
        ..Contract::default()
    }
}

fn world<'a>(wishes: Contract, gops: usize) -> World<'a> {
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.contract = Some(offer());
    source.flow.mediation = Some(Mediation::PerMember);
    let sink = SinkConfig {
        wishes: Some(wishes),
        ..sink_config(Carriage::Datagrams)
    };
    World::new(source, sink, gops)
}

/// What was agreed, in order: the answer, the least throughput and the most, the delay, the level, and whether the source did.
fn agreed(world: &World<'_>) -> Vec<(Answered, Level, Contract, bool)> {
    let agreed = world.events.iter().filter_map(|(_, event)| match event {
        SinkEvent::Agreed {
            answer,
            contract,
            level,
            committed,
        } => Some((*answer, *level, **contract, *committed)),
        _ => None,
    });
    agreed.collect()
}

fn answers(world: &World<'_>) -> usize {
    let is_ack = |it: &&Signal| matches!(it, Signal::JoinAck { .. });
    world.told.iter().filter(is_ack).count()
}

#[test]
fn an_offer_is_accepted_or_countered_in_the_join_without_another_round_trip() {
    let plain = {
        let mut world = World::perfect(Carriage::Datagrams, 6);
        world.run_until(ms(4_000));
        let at = |it: &&(layercast_core::Time, SinkEvent)| matches!(it.1, SinkEvent::Joined { .. });
        (answers(&world), world.events.iter().find(at).unwrap().0)
    };
    let e1 = Contract {
        throughput: between(1e5, 7e5),
        delay: between(0.2, 0.02),
        ..offer()
    };
    let mut found = Vec::new();
    for wishes in [offer(), e1] {
        let mut world = world(wishes, 6);
        world.run_until(ms(4_000));
        let at = |it: &&(layercast_core::Time, SinkEvent)| matches!(it.1, SinkEvent::Agreed { .. });
        let since = world.events.iter().find(at).unwrap().0;
        assert_eq!((answers(&world), since), plain);
        let levels: Vec<Level> = world.levels().iter().map(|it| it.1).collect();
        let [agreed] = agreed(&world)[..] else {
            panic!("{:?}", world.events);
        };
        found.push((agreed.0, agreed.1, agreed.3, levels[0]));
        let delay = agreed.2.delay.unwrap();
        assert_eq!(delay.agreed, wishes.delay.unwrap().agreed);
        let e2 = world
            .played()
            .any(|it| it.layer == layercast_core::Layer::E2);
        assert_eq!(e2, wishes == offer(), "layers beyond the contract");
    }
    assert_eq!(
        found,
        [
            (Answered::Accept, Level::FULL, true, Level::FULL),
            (Answered::Counter, Level::E1, true, Level::E1),
        ]
    );
}

#[test]
fn a_member_that_wants_what_is_not_offered_does_not_join_and_the_source_hears_why() {
    let wishes = Contract {
        delay: between(0.04, 0.01),
        ..offer()
    };
    let mut world = world(wishes, 2);
    world.run_until(ms(2_000));
    let refused = world.events.iter().find_map(|(_, it)| match it {
        SinkEvent::Refused(refusal) => Some(refusal.clone()),
        _ => None,
    });
    let refusal = refused.expect("a refusal");
    assert_eq!(refusal.resource, Resource::WantedDelay);
    assert_eq!((refusal.needed, refusal.available), (40_000, 50_000));
    assert_eq!(answers(&world), 0);
    assert_eq!(world.source.stats().declined, 1);
    let heard = world.source_events.iter().find_map(|(_, it)| match it {
        SourceEvent::MemberDeclined { refusal, .. } => Some(refusal.clone()),
        _ => None,
    });
    assert_eq!(heard, Some(refusal));
    // A member that asks again gets the same answer.
    world.input(SinkInput::Rejoin);
    world.run_until(ms(3_000));
    assert!(!world.sink.joined());
}

#[test]
fn with_a_source_that_does_not_negotiate_the_member_goes_by_its_own_answer() {
    let wishes = Contract {
        throughput: between(1e5, 7e5),
        delay: between(0.08, 0.02),
        ..Contract::default()
    };
    let mut world = world(wishes, 6);
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.mediation = None;
    world.replace_source(layercast_mets::Source::new(source).unwrap(), 6);
    world.run_until(ms(4_000));
    let [(answer, level, contract, committed)] = agreed(&world)[..] else {
        panic!("{:?}", world.events);
    };
    assert_eq!(
        (answer, level, committed),
        (Answered::Counter, Level::E1, false)
    );
    assert_eq!(contract.delay.unwrap().agreed, 0.08);
    // The source has no use for a refusal.
    assert_eq!(world.source.stats().declined, 0);
}

#[test]
fn the_contract_in_force_counts_until_another_one_is_agreed() {
    let mut world = world(offer(), 40);
    world.run_until(ms(3_000));
    world.signal_delay = Span::from_ms(400);
    let fewer = Contract {
        throughput: between(1e5, 7e5),
        ..offer()
    };
    let now = world.now;
    assert_eq!(world.sink.set_wishes(now, Some(fewer)), Ok(()));
    world.run_until(ms(3_300));
    assert_eq!(agreed(&world).len(), 1, "not agreed yet");
    world.run_until(ms(6_000));
    let last = *agreed(&world).last().unwrap();
    assert_eq!(
        (last.0, last.1, last.3),
        (Answered::Counter, Level::E1, true)
    );
    assert_eq!(world.levels().last().unwrap().1, Level::E1);
    // What cannot be had changes nothing.
    let hasty = Contract {
        delay: between(0.01, 0.01),
        ..offer()
    };
    let now = world.now;
    let refusal = world.sink.set_wishes(now, Some(hasty)).unwrap_err();
    assert_eq!(refusal.resource, Resource::WantedDelay);
    // All layers again, and then without a profile.
    let now = world.now;
    assert_eq!(world.sink.set_wishes(now, Some(offer())), Ok(()));
    world.run_until(ms(10_000));
    assert_eq!(agreed(&world).len(), 3);
    assert_eq!(world.levels().last().unwrap().1, Level::FULL);
    let now = world.now;
    assert_eq!(world.sink.set_wishes(now, None), Ok(()));
    world.run_until(ms(11_000));
    assert!(world.sink.joined());
}

/// The line to the member is found to carry this much.
fn find(world: &mut World<'_>, path_bps: Option<u64>) {
    let flow = FlowInfo {
        path_bps,
        ..world.source.flow().clone()
    };
    let flow = Box::new(flow);
    let before = agreed(world).len();
    world.input(SinkInput::Signal(Signal::Advertise { flow }));
    assert_eq!(agreed(world).len(), before, "not agreed yet");
    let now = world.now;
    world.run_until(now + Span::from_secs(3));
}

#[test]
fn a_line_whose_rate_is_found_after_the_join_is_agreed_anew_while_the_contract_before_counts() {
    let mut world = world(offer(), 60);
    world.run_until(ms(3_000));
    let whole = (Level::FULL, 1_424_640, true, Level::FULL);
    let less = (Level::E1, 700_000, true, Level::E1);
    for (line, expected, count) in [
        (Some(5_000_000), whole, 1),
        (Some(700_000), less, 2),
        // Less than the member accepts: what was agreed stays.
        (Some(50_000), less, 2),
        (Some(700_000), less, 2),
        (None, whole, 3),
    ] {
        find(&mut world, line);
        let all = agreed(&world);
        let (_, level, contract, committed) = *all.last().unwrap();
        let most = contract.throughput.unwrap().target.unwrap() as u64;
        let found = (level, most, committed, world.levels().last().unwrap().1);
        assert_eq!((found, all.len()), (expected, count), "{line:?}");
    }
    assert!(world.sink.joined());
}

#[test]
fn the_mediator_of_a_group_hears_of_a_line_whose_rate_is_found_after_the_join() {
    let mut world = world(offer(), 60);
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.contract = Some(offer());
    source.flow.mediation = Some(Mediation::SingleRate);
    world.replace_source(layercast_mets::Source::new(source).unwrap(), 60);
    world.run_until(ms(3_000));
    find(&mut world, Some(700_000));
    assert_eq!(group_rates(&world).first(), Some(&Some(700_000)));
}

#[test]
fn a_change_of_the_flow_is_answered_anew_and_refused_by_a_member_that_cannot_have_it() {
    let wishes = Contract {
        delay: between(0.25, 0.05),
        ..offer()
    };
    let mut world = world(wishes, 60);
    world.run_until(ms(3_000));
    let change = |world: &mut World<'_>, delay_max_ms| {
        let mut spec = world.source.flow().spec.clone();
        spec.delay_max_ms = delay_max_ms;
        let now = world.now;
        let option = QosOption::FlowSpec(spec);
        world.source.request(now, RequestId(delay_max_ms), option);
        world.run_until(now + Span::from_secs(4));
    };
    let loss = |world: &mut World<'_>| {
        let mut spec = world.source.flow().spec.clone();
        spec.loss_max_permille = 50;
        let now = world.now;
        world
            .source
            .request(now, RequestId(9), QosOption::FlowSpec(spec));
        world.run_until(now + Span::from_secs(4));
    };
    loss(&mut world);
    let refused = world.source_events.iter().any(|(_, it)| {
        matches!(it, SourceEvent::Answer { status: Status::Admit(refusal), .. }
            if refusal.resource == Resource::WantedErrorRate)
    });
    assert!(refused, "more loss than the member accepts");
    assert_eq!(agreed(&world).len(), 1);
    change(&mut world, 200);
    let last = *agreed(&world).last().unwrap();
    assert_eq!(last.2.delay.unwrap().agreed, 0.2, "what is promised now");
    assert!(world.sink.joined());
}

#[test]
fn an_agreement_nobody_asked_for_changes_nothing() {
    let mut world = world(offer(), 10);
    world.run_until(ms(3_000));
    let hostile = |member, bounds| {
        SinkInput::Signal(Signal::JoinAck {
            flow: layercast_core::FlowId(7),
            vci: 64,
            level: Level::FULL,
            agreed: Some(Box::new(Agreed { member, bounds })),
        })
    };
    let before = agreed(&world);
    let worse = Bounds {
        delay: Some([9.0, 9.0]),
        throughput: Some([0.0, 1e12]),
        ..Bounds::default()
    };
    world.input(hostile(NodeId(3), worse));
    assert_eq!(agreed(&world), before, "of another member");
    world.input(hostile(NodeId(2), worse));
    assert_eq!(world.sink.stats().dropped.malformed, 1);
    let contracts = agreed(&world);
    let last = contracts.last().unwrap();
    assert_eq!(last.2, before[0].2, "its own answer counts");
}

#[test]
fn a_red_zone_makes_the_contract_one_of_fewer_layers_until_all_come_again() {
    let mut world = world(offer(), 300);
    world.watch = Watch::on();
    // Room for the base layer and E1, not for all; nothing marks.
    let mut free = layercast_core::Time::ZERO;
    world.down = Box::new(move |now, pdu| {
        let takes = Span::from_us(u64::from(pdu.cells()) * 1_000_000 / 2_000);
        let leaves = free.max(now) + takes;
        if leaves.since(now) > Span::from_ms(200) && matches!(pdu, LinkPdu::Mets(_)) {
            return vec![];
        }
        free = leaves;
        vec![leaves.since(now) + Span::from_ms(5)]
    });
    world.run_until(ms(60_000));
    let levels: Vec<Level> = agreed(&world).iter().map(|it| it.1).collect();
    assert_eq!(
        levels[..3],
        [Level::FULL, Level::E1, Level::FULL],
        "{levels:?}"
    );
    assert!(
        agreed(&world).iter().all(|it| it.3),
        "the source agrees to each"
    );
    assert!(world.watch.course(ms(4_000)).contains(&Zone::Red));
    // An answer each time the level changed, and no more.
    assert!(levels.len() <= 8, "{levels:?}");
}

#[test]
fn the_source_clips_an_answer_beyond_its_offer() {
    let mut world = world(offer(), 4);
    world.run_until(ms(2_000));
    let before = world.source.stats().rejected;
    world.send_to_source(SourceInput::Signal(Signal::Join {
        flow: layercast_core::FlowId(7),
        epoch: layercast_wire::Epoch::default(),
        member: layercast_wire::Member {
            name: "eve".into(),
            id: NodeId(9),
        },
        level: Level::FULL,
        proof: None,
        again: false,
        answer: Some(Box::new(Bounds {
            delay: Some([0.001, 0.0]),
            ..Bounds::default()
        })),
    }));
    assert_eq!(world.source.stats().rejected, before + 1);
    let told = world.told.iter().rev().find_map(|it| match it {
        Signal::JoinAck { agreed, .. } => agreed.clone(),
        _ => None,
    });
    let told = told.expect("an agreement");
    assert_eq!(told.bounds.delay, Some([0.05, 0.05]));
}

/// The rate of the group each time that it changed, and the level from then on.
fn group_rates(world: &World<'_>) -> Vec<Option<u64>> {
    let changes = world.source_events.iter().filter_map(|(_, it)| match it {
        SourceEvent::Renegotiated { flow } => Some(flow.group_bps),
        _ => None,
    });
    changes.collect()
}

#[test]
fn a_group_of_one_rate_gets_the_least_of_what_its_members_take_until_they_leave() {
    let mut world = world(offer(), 60);
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.contract = Some(offer());
    source.flow.mediation = Some(Mediation::SingleRate);
    world.replace_source(layercast_mets::Source::new(source).unwrap(), 60);
    world.run_until(ms(4_000));
    assert_eq!(group_rates(&world), []);
    let eve = layercast_wire::Member {
        name: "eve".into(),
        id: NodeId(9),
    };
    let report = |most_bps| {
        SourceInput::Signal(Signal::Report {
            flow: layercast_core::FlowId(7),
            member: eve.clone(),
            report: Box::new(layercast_wire::MemberReport {
                most_bps: Some(most_bps),
                ..layercast_wire::MemberReport::default()
            }),
        })
    };
    let told = |world: &World<'_>| *agreed(world).last().unwrap();
    let before = told(&world);
    world.send_to_source(report(700_000));
    assert_eq!(agreed(&world).len(), 1, "the contract in force counts");
    world.run_until(ms(6_000));
    assert_eq!(group_rates(&world), [Some(700_000)]);
    let (answer, level, contract, committed) = told(&world);
    assert_eq!(
        (answer, level, committed),
        (Answered::Accept, Level::E1, true)
    );
    assert_eq!(contract.throughput.unwrap().target, Some(7e5));
    assert_eq!(world.levels().last().unwrap().1, Level::E1);
    // Absurd: no member can take the promise away from the others.
    world.send_to_source(report(1));
    world.run_until(ms(9_000));
    let base = world
        .source
        .flow()
        .spec
        .rate_at(Level::BASE)
        .rate()
        .as_bps();
    assert_eq!(world.source.flow().group_bps, Some(base));
    world.send_to_source(SourceInput::Signal(Signal::Leave {
        flow: layercast_core::FlowId(7),
        member: eve,
    }));
    world.run_until(ms(13_000));
    assert_eq!(world.source.flow().group_bps, None);
    assert_eq!(told(&world), before);
    assert_eq!(world.levels().last().unwrap().1, Level::FULL);
    let rates = world.source_events.iter().filter_map(|(_, it)| match it {
        SourceEvent::GroupRate { most_bps, member } => {
            Some((*most_bps, member.as_ref().map(|it| &*it.name)))
        }
        _ => None,
    });
    let eve = Some("eve");
    assert_eq!(
        rates.collect::<Vec<_>>(),
        [(Some(700_000), eve), (Some(base), eve), (None, None)]
    );
}

#[test]
fn a_member_that_gets_fewer_layers_than_were_agreed_is_not_held_to_their_rate() {
    let promise = Contract {
        throughput: between(4e5, 1.424_640e6),
        ..offer()
    };
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.contract = Some(promise);
    source.flow.mediation = Some(Mediation::PerMember);
    let sink = SinkConfig {
        wishes: Some(promise),
        ..sink_config(Carriage::Datagrams)
    };
    let mut world = World::new(source, sink, 40);
    world.watch = Watch::on();
    // From the sixth second on there is room for the base layer alone, and nothing is granted.
    world.down = Box::new(move |now, pdu| {
        let above = match pdu {
            LinkPdu::Mets(packet) => {
                let layer = packet.header.kind.layer();
                layer.is_some_and(|it| it > Layer::Base)
            }
            LinkPdu::Adapter(_) => true,
            _ => false,
        };
        match above && now >= ms(6_000) {
            true => vec![],
            false => vec![Span::from_ms(5)],
        }
    });
    world.run_until(ms(15_000));
    let levels = world.levels();
    let level_at = |t| {
        let until = levels.iter().take_while(|it| it.0 <= t);
        until.last().map(|it| it.1)
    };
    let judged = world.watch.zones.iter().map(|(at, quality)| {
        let from = *at - Span::from_ms(1_100);
        let low = level_at(from) == Some(Level::BASE) && level_at(*at) == Some(Level::BASE);
        (*at, low, quality.throughput_bps.is_some())
    });
    let judged: Vec<_> = judged.collect();
    let whole = judged
        .iter()
        .filter(|it| it.0 > ms(4_000) && it.0 < ms(6_000));
    assert!(whole.clone().count() > 0, "{judged:?}");
    assert!(
        whole.clone().all(|it| it.2),
        "all its layers come: {judged:?}"
    );
    let low: Vec<_> = judged.iter().filter(|it| it.1).collect();
    assert!(low.iter().all(|it| !it.2), "{judged:?}");
    assert!(low.len() > 2, "{judged:?}");
}

#[test]
fn a_member_that_cannot_have_the_rate_of_another_keeps_the_group_at_its_own() {
    let wishes = Contract {
        throughput: between(1e6, 1.424_640e6),
        ..offer()
    };
    let mut world = world(wishes, 40);
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.contract = Some(offer());
    source.flow.mediation = Some(Mediation::SingleRate);
    world.replace_source(layercast_mets::Source::new(source).unwrap(), 40);
    world.run_until(ms(3_000));
    for _ in 0..3 {
        world.send_to_source(SourceInput::Signal(Signal::Report {
            flow: layercast_core::FlowId(7),
            member: layercast_wire::Member {
                name: "eve".into(),
                id: NodeId(9),
            },
            report: Box::new(layercast_wire::MemberReport {
                most_bps: Some(700_000),
                ..layercast_wire::MemberReport::default()
            }),
        }));
        let now = world.now;
        world.run_until(now + Span::from_secs(1));
    }
    assert_eq!(group_rates(&world), []);
    let proposals = world
        .told
        .iter()
        .filter(|it| matches!(it, Signal::Change { .. }));
    assert_eq!(
        proposals.count(),
        1,
        "what was refused is not proposed again"
    );
    assert_eq!(world.levels().last().unwrap().1, Level::FULL);
}
