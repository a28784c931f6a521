//! What a switch answers to a neighbour that asks for flows and members.

use crate::common::bench::{A, B, Bench, UP, bench, idle, member, plain, signals_to};
use crate::common::ends::Source;
use crate::common::ms;
use layercast_core::{CellRate, FlowId, Level, NodeId, PortId, Quality, Zone};
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchInput};
use layercast_wire::{AdapterKind, Carriage, Limit, Member, MemberReport, MemberStats, Signal};

impl Bench {
    fn report(&mut self, port: PortId, flow: u32, id: u32) {
        let report = MemberReport {
            late: u64::from(id),
            ..MemberReport::default()
        };
        let (flow, member) = (FlowId(flow), member(id));
        self.signal(
            port,
            Signal::Report {
                flow,
                member,
                report: Box::new(report),
            },
        );
    }

    fn members(&mut self, flow: Option<u32>) -> Vec<MemberStats> {
        let flow = flow.map(FlowId);
        let out = self.signal(B, Signal::GetStats { flow });
        let [Signal::Stats { members }] = &signals_to(&out, B)[..] else {
            panic!("{out:?}");
        };
        members.clone()
    }
}

/// A line that carries a canyon with all its layers, unless `capacity` says less, and a member that asks for a level.
fn asking(capacity: u32, wish: u8, given: u8) -> Bench {
    let port = PortConfig {
        adapt_capacity: Some(CellRate(capacity)),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = bench(port, SwitchConfig::default());
    bench.join(A, 1);
    bench.adapter(A, AdapterKind::Res, 1, 1, wish);
    bench.run(ms(300));
    bench.adapter(UP, AdapterKind::Adapt, 1, 9, given);
    bench.report(A, 1, 1);
    bench
}

#[test]
fn a_member_below_the_highest_level_is_listed_with_what_keeps_it_there() {
    let wide = 10_000;
    let link = Limit::Link {
        needed: CellRate(960 + 1_920),
        available: CellRate(1_060),
    };
    for (capacity, wish, given, limit) in [
        (wide, 2, 2, None),
        (wide, 1, 2, Some(Limit::Demand { level: Level::E1 })),
        (wide, 2, 1, Some(Limit::Upstream { level: Level::E1 })),
        (480 + 960 + 100, 2, 2, Some(link)),
    ] {
        let members = asking(capacity, wish, given).members(None);
        assert_eq!(members.len(), 1);
        assert_eq!(members[0].limit, limit, "{capacity} {wish} {given}");
        let around = (members[0].upstream.as_deref(), members[0].next.as_deref());
        assert_eq!(around, (Some("0"), Some("1")));
    }
}

/// A report is up to a period old; what a neighbour is granted is known.
#[test]
fn a_neighbour_is_listed_with_the_level_granted_now_and_others_with_that_of_their_report() {
    let mut bench = asking(10_000, 2, 2);
    // That of the port.
    let neighbour = Member {
        name: A.0.to_string(),
        id: NodeId(1),
    };
    for (member, next, level) in [
        (member(1), Some("1"), Level::BASE),
        (neighbour, None, Level::FULL),
    ] {
        let name = member.name.clone();
        let report = Signal::Report {
            flow: FlowId(1),
            member,
            report: Box::default(),
        };
        bench.signal(A, report);
        let members = bench.members(None);
        let listed = members.iter().find(|it| it.member.name == name);
        let listed = listed.map(|it| (it.next.as_deref(), it.level));
        assert_eq!(listed, Some((next, level)));
    }
}

#[test]
fn a_member_that_asks_for_less_after_congestion_is_listed_with_the_link_that_is_too_slow() {
    // A line of just the rate of the busiest GOPs is not too slow.
    for (capacity, marked, is_too_slow) in [
        (100_000, 7, false),
        (4_500, 7, false),
        (4_499, 7, true),
        (3_300, 0, false),
        (3_300, 7, true),
    ] {
        let mut bench = asking(capacity, 1, 2);
        let mut info = bench.info.clone();
        info.revision += 1;
        for rate in [
            &mut info.spec.layers.base,
            &mut info.spec.layers.e1,
            &mut info.spec.layers.e2,
        ] {
            rate.peak = CellRate(1_500);
        }
        bench.advertise(UP, info);
        let report = MemberReport {
            marked,
            ..MemberReport::default()
        };
        let (flow, member) = (FlowId(1), member(1));
        bench.signal(
            A,
            Signal::Report {
                flow,
                member,
                report: Box::new(report),
            },
        );
        let needed = CellRate(4_500);
        let (level, available) = (Level::E1, CellRate(capacity));
        let limit = match is_too_slow {
            true => Limit::Bursts {
                level,
                needed,
                available,
            },
            false => Limit::Demand { level },
        };
        assert_eq!(
            bench.members(None)[0].limit,
            Some(limit),
            "{capacity} {marked}"
        );
    }
}

#[test]
fn a_member_that_is_gone_without_a_farewell_is_listed_for_a_minute_more() {
    for leaves in [false, true] {
        let mut bench = asking(10_000, 2, 2);
        let report = MemberReport {
            quality: Some(Quality {
                zone: Zone::Green,
                ..Quality::default()
            }),
            ..MemberReport::default()
        };
        let (flow, member) = (FlowId(1), member(1));
        if leaves {
            bench.signal(A, Signal::Leave { flow, member });
            assert_eq!(bench.members(None), []);
            continue;
        }
        let report = Box::new(report);
        bench.signal(
            A,
            Signal::Report {
                flow,
                member,
                report,
            },
        );
        bench.give(SwitchInput::PortDown { port: A });
        let mut seen = Vec::new();
        for s in 1..80 {
            bench.run(ms(300 + s * 1_000));
            let members = bench.members(None);
            let listed = |it: &MemberStats| {
                let zone = it.report.unwrap().quality.unwrap().zone;
                (it.gone, zone, it.report_age_ms.unwrap() / 1_000)
            };
            seen.push(members.first().map(listed));
        }
        assert_eq!(seen[0], Some((false, Zone::Green, 1)));
        // From three seconds on it counts as gone.
        let gone: Vec<u64> = seen
            .iter()
            .flatten()
            .filter(|it| it.0 && it.1 == Zone::Grey)
            .map(|it| it.2)
            .collect();
        assert_eq!(
            gone,
            (gone[0]..gone[0] + 60).collect::<Vec<_>>(),
            "{seen:?}"
        );
        assert!((3..=4).contains(&gone[0]), "{gone:?}");
        assert_eq!(seen.last(), Some(&None));
    }
}

#[test]
fn a_killed_member_is_listed_whether_its_reports_or_its_session_end_first() {
    // Its last report came up to a period before the last packet, so its reports are missed first, or both together.
    for down_ms in [0, 2_900, 3_300, 4_000, 20_000] {
        let mut bench = asking(10_000, 2, 2);
        let (mut seen, mut told) = (Vec::new(), 0);
        for ms_after in (0..80_000).step_by(100) {
            let mut out = bench.run(ms(300 + ms_after));
            if ms_after == down_ms {
                out.extend(bench.give(SwitchInput::PortDown { port: A }));
            }
            told += signals_to(&out, UP)
                .iter()
                .filter(|it| matches!(it, Signal::Left { .. }))
                .count();
            if ms_after % 1_000 == 0 {
                seen.push(bench.members(None).first().map(|it| it.gone));
            }
        }
        let gone: Vec<usize> = (0..80).filter(|s| seen[*s] == Some(true)).collect();
        assert!((3..=7).contains(&gone[0]), "{down_ms}: {seen:?}");
        assert!(
            (60..=61).contains(&gone.len()) && gone.len() == gone[gone.len() - 1] - gone[0] + 1,
            "{down_ms}: {seen:?}"
        );
        assert!(seen[..gone[0]].iter().all(|it| *it == Some(false)));
        assert_eq!(told, 1, "{down_ms}: the source hears of it once");
    }
}

#[test]
fn a_member_that_was_silent_and_leaves_is_not_listed() {
    let mut bench = asking(10_000, 2, 2);
    bench.run(ms(4_500));
    assert!(bench.members(None)[0].gone);
    let (flow, member) = (FlowId(1), member(1));
    let out = bench.signal(A, Signal::Leave { flow, member });
    let left = signals_to(&out, UP);
    assert!(matches!(left[0], Signal::Left { .. }), "{left:?}");
    assert_eq!(bench.members(None), []);
}

#[test]
fn a_member_that_comes_back_is_listed_once() {
    let mut bench = asking(10_000, 2, 2);
    bench.give(SwitchInput::PortDown { port: A });
    bench.run(ms(6_000));
    assert!(bench.members(None)[0].gone);
    bench.reconnect(A);
    bench.join(A, 1);
    bench.report(A, 1, 1);
    let members = bench.members(None);
    assert_eq!(
        members.iter().map(|it| it.gone).collect::<Vec<_>>(),
        [false]
    );
}

#[test]
fn members_are_listed_by_flow_with_their_time_and_limit() {
    let mut bench = asking(10_000, 1, 1);
    let second = Source::canyon(2, Carriage::Datagrams).info;
    bench.advertise(UP, second);
    bench.run(ms(1_500));
    bench.join(B, 2);
    bench.report(B, 1, 2);
    bench.join_flow((FlowId(2), UP), B, 3);
    bench.report(B, 2, 3);
    let listed = |bench: &mut Bench, flow| {
        let members = bench.members(flow).into_iter();
        let listed = members.map(|it| {
            assert_eq!(it.node, "switch");
            assert_eq!(it.report.unwrap().late, u64::from(it.member.id.0));
            (it.flow.0, it.member.id.0, it.joined_at_ms, it.limit)
        });
        listed.collect::<Vec<_>>()
    };
    let first = [
        (1, 1, 0, Some(Limit::Demand { level: Level::E1 })),
        (1, 2, 1_500, Some(Limit::NoDemand)),
    ];
    let second = [(2, 3, 1_500, Some(Limit::NoDemand))];
    assert_eq!(listed(&mut bench, Some(1)), first);
    assert_eq!(listed(&mut bench, Some(2)), second);
    assert_eq!(listed(&mut bench, Some(3)), []);
    assert_eq!(listed(&mut bench, None), [&first[..], &second[..]].concat());
}

#[test]
fn a_long_list_is_answered_in_several_messages() {
    let mut bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
    for id in 1..=20 {
        bench.advertise(UP, Source::canyon(id, Carriage::Datagrams).info);
    }
    let out = bench.signal(A, Signal::ListFlows);
    let parts = signals_to(&out, A).into_iter().map(|signal| match signal {
        Signal::Flows { flows } => flows.iter().map(|flow| flow.id.0).collect(),
        _ => panic!("{signal:?}"),
    });
    let parts: Vec<Vec<u32>> = parts.collect();
    assert_eq!(parts, [(1..=16).collect(), (17..=20).collect::<Vec<_>>()]);
}

#[test]
fn a_member_that_gets_less_than_it_selected_says_what_that_is() {
    let mut bench = asking(1_000, 1, 2);
    let (flow, member) = (FlowId(1), member(1));
    let report = |wanted| Signal::Report {
        flow,
        member: member.clone(),
        report: Box::new(MemberReport {
            level: Level::BASE,
            wanted,
            ..MemberReport::default()
        }),
    };
    for (told, shown) in [(Some(Level::FULL), Level::FULL), (None, Level::BASE)] {
        bench.signal(A, report(told));
        assert_eq!(bench.members(None)[0].wanted, shown);
    }
}
