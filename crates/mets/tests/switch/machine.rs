//! One switch and its rules, input by input.

use crate::common::bench::{A, B, Bench, UP, bench, member, plain, signals_to};
use crate::common::ends::{Source, message};
use crate::common::{join_ack, ms};
use layercast_core::{
    CellRate, FlowId, Layer, Level, Machine, NodeId, Observer, PortId, Rate, Record, Serial, Span,
    Time,
};
use layercast_link::{Discard, QueueConfig};
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchInput, SwitchTransmit};
use layercast_wire::{
    ADAPTER_VCI, AdapterKind, AdapterMsg, Carriage, Epoch, LinkPdu, Mark, MemberReport,
    Reassembler, Resource, Signal, packet_of,
};

fn res_in(out: &[SwitchTransmit]) -> Vec<AdapterMsg> {
    let messages = out.iter().filter_map(|out| match out {
        SwitchTransmit::Pdu {
            port,
            pdu: LinkPdu::Adapter(message),
            ..
        } if *port == UP => Some(*message),
        _ => None,
    });
    messages.collect()
}

#[test]
fn demands_are_merged_once_per_interval_whatever_the_storm() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.join(B, 2);
    bench.run(ms(1_000));
    for era in 0..50 {
        bench.adapter(A, AdapterKind::Res, era, 1, (era % 3) as u8);
    }
    bench.adapter(A, AdapterKind::Res, 50, 1, 0);
    bench.adapter(B, AdapterKind::Res, 0, 2, 1);
    let out = bench.run(ms(1_250));
    let sent = res_in(&out);
    assert_eq!(sent.len(), 1, "one RES for 52");
    assert_eq!(
        (sent[0].min, sent[0].max),
        (Level::BASE, Level::E1),
        "the last of A wins"
    );
    assert_eq!(sent[0].origin, SwitchConfig::default().id);
    assert_eq!(
        res_in(&bench.run(ms(2_000))),
        [],
        "nothing new, nothing sent"
    );
}

#[test]
fn adapt_of_an_older_era_is_ignored_across_the_wrap() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.adapter(A, AdapterKind::Res, 0, 1, 2);
    bench.run(ms(300));
    bench.adapter(UP, AdapterKind::Adapt, 1, 9, 2);
    assert_eq!(bench.level(A), Some(2));
    bench.adapter(UP, AdapterKind::Adapt, u32::MAX, 9, 0);
    assert_eq!(bench.level(A), Some(2));
    assert_eq!(bench.switch.stats().rejected_pdus.stale, 1);
    // A source that started again counts from zero; after three eras it is believed.
    bench.run(ms(2_000));
    bench.adapter(A, AdapterKind::Res, 1, 1, 2);
    bench.run(ms(3_500));
    bench.adapter(UP, AdapterKind::Adapt, u32::MAX, 9, 1);
    assert_eq!(bench.level(A), Some(1));
}

#[test]
fn forged_adapts_of_a_far_era_lower_nothing_and_keep_none_of_the_source_out() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.adapter(A, AdapterKind::Res, 0, 1, 2);
    bench.run(ms(300));
    bench.adapter(UP, AdapterKind::Adapt, 1, 9, 2);
    for _ in 0..20 {
        bench.adapter(UP, AdapterKind::Adapt, 1 << 30, 9, 0);
        assert_eq!(bench.level(A), Some(2));
    }
    bench.adapter(UP, AdapterKind::Adapt, 2, 9, 1);
    assert_eq!(bench.level(A), Some(1));
    assert_eq!(bench.switch.stats().rejected_pdus.stale, 20);
}

#[test]
fn messages_from_the_wrong_side_are_counted_and_dropped() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.adapter(B, AdapterKind::Res, 0, 5, 2);
    bench.adapter(UP, AdapterKind::Res, 0, 5, 2);
    bench.adapter(A, AdapterKind::Adapt, 0, 5, 2);
    bench.info.group.0 += 1;
    bench.adapter(A, AdapterKind::Res, 0, 5, 2);
    bench.info.id = FlowId(77);
    bench.adapter(A, AdapterKind::Res, 0, 5, 2);
    assert_eq!(bench.switch.stats().rejected_pdus.unknown, 5);
}

#[test]
fn a_join_without_answer_is_refused_and_its_reservation_freed() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    let flow = bench.info.id;
    let join = |id| Signal::Join {
        flow,
        epoch: Epoch::default(),
        member: member(id),
        level: Level::FULL,
        proof: None,
        again: false,
        answer: None,
    };
    bench.signal(A, join(1));
    assert_eq!(bench.switch.reserved_on(A), CellRate(480));
    bench.run(ms(4_900));
    assert_eq!(bench.switch.reserved_on(A), CellRate(480));
    bench.run(ms(5_300));
    assert_eq!(bench.switch.reserved_on(A), CellRate(0));
    assert_eq!(bench.refusals(), [Resource::Timeout]);
}

#[test]
fn every_limit_has_a_refusal_of_its_own() {
    let config = SwitchConfig {
        cpu_per_cell: Some(Span::from_ms(1)),
        max_members: 1,
        max_flows: 1,
        ..SwitchConfig::default()
    };
    let mut bench = bench(plain(Carriage::Datagrams), config);
    let flow = bench.info.id;
    let join = |flow, id| Signal::Join {
        flow,
        epoch: Epoch::default(),
        member: member(id),
        level: Level::FULL,
        proof: None,
        again: false,
        answer: None,
    };
    bench.signal(A, join(FlowId(99), 1));
    assert_eq!(bench.refusals(), [Resource::UnknownFlow]);
    bench.join(A, 1);
    bench.signal(B, join(flow, 2));
    assert_eq!(bench.refusals(), [Resource::TooManyMembers]);
    let second = Source::canyon(2, Carriage::Datagrams).info;
    bench.advertise(UP, second);
    assert_eq!(bench.switch.stats().rejected_signals.advertise, 1);
    let config = SwitchConfig {
        cpu_per_cell: Some(Span::from_ms(1)),
        ..SwitchConfig::default()
    };
    let mut bench = self::bench(plain(Carriage::Datagrams), config);
    bench.join(A, 1);
    bench.signal(B, join(flow, 2));
    assert_eq!(
        bench.refusals(),
        [Resource::SwitchCpu],
        "960 of 900 permille"
    );
    let slow = PortConfig {
        rate: Some(Rate::from_bps(1_000 * 424)),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = self::bench(slow, SwitchConfig::default());
    bench.info.spec.delay_max_ms = 100;
    let flow = bench.info.clone();
    bench.advertise(UP, flow);
    bench.signal(A, join(FlowId(1), 1));
    assert_eq!(
        bench.refusals(),
        [Resource::Delay],
        "an I picture takes 240 ms"
    );
}

#[test]
fn a_flow_from_a_second_place_is_refused_while_the_first_lives() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    let flow = bench.info.clone();
    bench.advertise(B, flow.clone());
    assert_eq!(bench.switch.stats().rejected_signals.advertise, 1);
    bench.give(SwitchInput::PortDown { port: UP });
    bench.advertise(B, flow);
    let out = bench.signal(
        A,
        Signal::Join {
            flow: FlowId(1),
            epoch: Epoch::default(),
            member: member(1),
            level: Level::FULL,
            proof: None,
            again: false,
            answer: None,
        },
    );
    let to_b = |out: &SwitchTransmit| matches!(out, SwitchTransmit::Signal { port, signal: Signal::Join { .. } } if *port == B);
    assert!(
        out.iter().any(to_b),
        "the join goes to where the flow is now"
    );
}

#[test]
fn another_life_of_a_flow_takes_the_place_of_the_first() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    let mut flow = bench.info.clone();
    flow.epoch = Epoch(9);
    let id = flow.id;
    let out = bench.advertise(UP, flow.clone());
    assert!(told_to_ask_again(&out), "{out:?}");
    assert_eq!(signals_to(&out, UP), [] as [&Signal; 0], "nothing to leave");
    assert_eq!(bench.flows(), [(id, Epoch(9))], "listed once");
    assert_eq!(bench.switch.reserved_on(A), CellRate(0));
    // A join that was on its way when the flow began again: the neighbour hears the advertisement.
    let join = bench.join_of(Epoch::default());
    assert_eq!(bench.signal(A, join), []);
    assert_eq!(bench.switch.stats().rejected_signals.life, 1);
    let join = bench.join_of(Epoch(9));
    let out = bench.signal(A, join);
    assert!(
        matches!(
            signals_to(&out, UP)[..],
            [Signal::Join {
                epoch: Epoch(9),
                ..
            }]
        ),
        "{out:?}"
    );
    // What another neighbour tells of the first life, or of a third one, counts for nothing while this way stands.
    for (count, epoch) in [(1, Epoch::default()), (2, Epoch(12))] {
        flow.epoch = epoch;
        bench.advertise(B, flow.clone());
        assert_eq!(bench.flows(), [(id, Epoch(9))]);
        assert_eq!(bench.switch.stats().rejected_signals.advertise, count);
    }
    // When it is lost the third one is the flow.
    let out = bench.give(SwitchInput::PortDown { port: UP });
    assert_eq!(bench.flows(), [(id, Epoch(12))]);
    assert!(told_to_ask_again(&out), "{out:?}");
    // The node upstream is believed even if the clock of the source was set back.
    flow.epoch = Epoch(3);
    bench.advertise(B, flow);
    assert_eq!(bench.flows(), [(id, Epoch(3))]);
}

#[test]
fn media_of_another_life_are_counted_and_not_forwarded() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    let LinkPdu::Mets(mut packet) = bench.source.emit(Time::ZERO).remove(0).1 else {
        panic!("not a datagram");
    };
    packet.header.flags = packet.header.flags.with_life(3);
    let pdu = LinkPdu::Mets(packet);
    assert_eq!(bench.give(SwitchInput::Pdu { port: UP, pdu }), []);
    assert_eq!(bench.switch.stats().rejected_pdus.life, 1);
}

#[test]
fn a_flow_that_the_node_upstream_does_not_confirm_is_given_up() {
    for refused in [false, true] {
        let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
        bench.join(A, 1);
        bench.give(SwitchInput::PortDown { port: UP });
        bench.give(SwitchInput::PortUp { port: UP });
        let flow = bench.info.id;
        if refused {
            let refusal = layercast_wire::Refusal {
                node: "up".into(),
                resource: Resource::UnknownFlow,
                needed: 0,
                available: 0,
                measured: None,
            };
            bench.signal(UP, Signal::JoinNak { flow, refusal });
        }
        let out = bench.run(ms(2_900));
        assert_eq!(signals_to(&out, A), [] as [&Signal; 0]);
        let out = bench.run(ms(3_600));
        assert!(
            matches!(signals_to(&out, A)[..], [Signal::Withdraw { .. }]),
            "{refused} {out:?}"
        );
        assert_eq!(bench.flows(), []);
    }
    // One that is confirmed stays.
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.give(SwitchInput::PortDown { port: UP });
    bench.give(SwitchInput::PortUp { port: UP });
    let flow = bench.info.clone();
    bench.advertise(UP, flow);
    bench.run(ms(10_000));
    assert_eq!(bench.flows().len(), 1);
    // A flow without a member below is abandoned too.
    let mut bench = self::bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.give(SwitchInput::PortDown { port: UP });
    bench.run(ms(4_000));
    assert_eq!(bench.flows(), []);
}

#[test]
fn a_flow_whose_way_is_lost_is_not_listed_beside_its_successor() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.give(SwitchInput::PortDown { port: UP });
    assert_eq!(bench.flows().len(), 1, "it may come back");
    let mut flow = bench.info.clone();
    flow.id = FlowId(77);
    bench.advertise(A, flow);
    assert_eq!(bench.flows(), [(FlowId(77), Epoch::default())]);
}

#[test]
fn media_that_overtake_the_answer_to_a_join_are_the_answer() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    let join = bench.join_of(Epoch::default());
    bench.signal(A, join);
    assert_eq!(bench.level(A), None);
    let frame = bench.source.emit(Time::ZERO);
    let units = frame.len();
    let mut out = Vec::new();
    for (at, pdu) in frame {
        out.extend(bench.run(at));
        out.extend(bench.give(SwitchInput::Pdu { port: UP, pdu }));
    }
    let end = bench.now + Span::from_ms(50);
    out.extend(bench.run(end));
    assert!(matches!(signals_to(&out, A)[..], [Signal::JoinAck { .. }]));
    let media = |out: &&SwitchTransmit| {
        matches!(
            out,
            SwitchTransmit::Pdu {
                port: A,
                pdu: LinkPdu::Mets(_),
                ..
            }
        )
    };
    assert_eq!(
        out.iter().filter(media).count(),
        units,
        "nothing is missing"
    );
    // The answer itself changes nothing more.
    let (flow, level) = (bench.info.id, Level::BASE);
    assert_eq!(bench.signal(UP, join_ack(flow, 64, level)), []);
    // A source of this node sends in any case: its media are no answer.
    let local = PortId::LOCAL;
    let mut source = Source::canyon(2, Carriage::Datagrams);
    let flow = source.info.clone();
    bench.info = flow.clone();
    bench.advertise(local, flow);
    let join = bench.join_of(Epoch::default());
    bench.signal(A, join);
    let pdu = source.emit(Time::ZERO).remove(0).1;
    bench.give(SwitchInput::Pdu { port: local, pdu });
    assert_eq!(bench.level(A), None);
}

#[test]
fn headroom_costs_no_level_that_the_stream_as_measured_fits() {
    // 480 + 960 + 1920 cells/s are reserved, a quarter more than the 2688 that were measured.
    for (line, permille, level) in [(3_000, 250, 2), (2_687, 250, 1), (3_000, 0, 1)] {
        let port = PortConfig {
            adapt_capacity: Some(CellRate(line)),
            ..plain(Carriage::Datagrams)
        };
        let mut bench = bench(port, SwitchConfig::default());
        let mut flow = bench.info.clone();
        flow.epoch = Epoch(1);
        flow.spec.headroom_permille = permille;
        bench.advertise(UP, flow);
        let join = bench.join_of(Epoch(1));
        bench.signal(A, join);
        let (flow, vci) = (bench.info.id, 64);
        bench.signal(UP, join_ack(flow, vci, Level::BASE));
        bench.adapter(A, AdapterKind::Res, 1, 1, 2);
        bench.run(ms(300));
        bench.adapter(UP, AdapterKind::Adapt, 1, 9, 2);
        assert_eq!(bench.level(A), Some(level), "{line} {permille}");
    }
}

#[test]
fn reports_go_upstream_and_are_told_to_who_asks() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    let report = MemberReport {
        late: 3,
        ..MemberReport::default()
    };
    let flow = FlowId(1);
    let out = bench.signal(
        A,
        Signal::Report {
            flow,
            member: member(8),
            report: Box::new(report),
        },
    );
    assert!(matches!(&out[..], [SwitchTransmit::Signal { port, .. }] if *port == UP));
    let out = bench.signal(B, Signal::GetStats { flow: None });
    let [
        SwitchTransmit::Signal {
            signal: Signal::Stats { members },
            ..
        },
    ] = &out[..]
    else {
        panic!("{out:?}");
    };
    assert_eq!(members[0].member, member(8));
    assert_eq!(members[0].report.unwrap().late, 3);
    let out = bench.signal(B, Signal::ListFlows);
    assert!(matches!(
        &out[..],
        [SwitchTransmit::Signal { signal: Signal::Flows { flows }, .. }] if flows.len() == 1
    ));
}

/// All frames of `seconds` through a line that carries half of them; gives frames that arrived
/// whole at A, by layer, and how many were offered.
fn overload(carriage: Carriage, discard: Discard, seconds: u32) -> ([u32; 3], [u32; 3]) {
    let config = PortConfig {
        // Canyon needs 3360 cells/s.
        rate: Some(Rate::from_bps(1_680 * 424)),
        adapt_capacity: None,
        // Room for an I picture above the E1 limit.
        queue: QueueConfig::of_limit(1_200),
        discard,
        ..plain(carriage)
    };
    let mut bench = bench(config, SwitchConfig::default());
    bench.join(A, 1);
    // The grants come from the line; to overload it, the source gets past them.
    let spec = &mut bench.info.spec;
    spec.layers.e1.mean = CellRate(1);
    spec.layers.e2.mean = CellRate(1);
    let flow = bench.info.clone();
    bench.signal(
        UP,
        Signal::Withdraw {
            flow: flow.id,
            reason: "new rates".into(),
        },
    );
    bench.run(ms(4_000));
    bench.source.start = bench.now;
    bench.advertise(UP, flow);
    bench.join(A, 1);
    let (mut offered, mut got) = ([0; 3], [0; 3]);
    let mut cells = Reassembler::new(Mark::Last);
    let mut open = (u32::MAX, 0);
    let mut count = |out: Vec<SwitchTransmit>| {
        for out in out {
            let packet = match out {
                SwitchTransmit::Pdu { port, pdu, .. } if port == A => match pdu {
                    LinkPdu::Mets(packet) => packet,
                    LinkPdu::Cell(cell) if cell.vci != ADAPTER_VCI => match cells.push(&cell) {
                        Some(Ok(frame)) => packet_of(frame).unwrap(),
                        _ => continue,
                    },
                    _ => continue,
                },
                _ => continue,
            };
            let header = packet.header;
            if open.0 != header.seq.0 {
                open = (header.seq.0, 0);
            }
            open.1 += packet.payload.len() as u32;
            if open.1 == header.alf_len {
                got[header.kind.layer().unwrap().index()] += 1;
            }
        }
    };
    for frame in 0..24 * seconds {
        let due = bench.source.next_frame().unwrap();
        if frame % 12 == 0 {
            bench.adapter(A, AdapterKind::Res, frame, 1, 2);
            count(bench.run(due));
            bench.adapter(UP, AdapterKind::Adapt, frame, 9, 2);
        }
        count(bench.run(due));
        let pdus = bench.source.emit(due);
        for (index, (at, pdu)) in pdus.into_iter().enumerate() {
            if index == 0 {
                let layer = [Layer::Base, Layer::E1, Layer::E2].into_iter();
                let kind = bench.source.kind_of(frame);
                offered[layer
                    .filter(|&l| l == kind)
                    .map(Layer::index)
                    .next()
                    .unwrap()] += 1;
            }
            count(bench.run(at));
            count(bench.give(SwitchInput::Pdu { port: UP, pdu }));
        }
    }
    let end = bench.now + Span::from_secs(2);
    count(bench.run(end));
    (got, offered)
}

#[test]
fn selective_discard_saves_every_base_frame_at_twice_the_line_rate() {
    for carriage in [Carriage::Cells, Carriage::Datagrams] {
        let (got, offered) = overload(carriage, Discard::default(), 30);
        assert_eq!(got[0], offered[0], "{carriage:?}");
        assert!(got[2] < offered[2], "E2 had to go: {got:?} of {offered:?}");
        assert!(got[1] > offered[1] / 2, "{got:?} of {offered:?}");
        let plain = Discard {
            selective: false,
            partial: false,
            ..Discard::default()
        };
        let (got, offered) = overload(carriage, plain, 30);
        assert!(
            got[0] < offered[0],
            "without it base frames are lost: {got:?}"
        );
    }
}

/// Writes down every record as one line.
#[derive(Default)]
struct Diary(Vec<String>);

impl Observer for Diary {
    fn record(&mut self, record: &Record<'_>) {
        self.0.push(serde_json::to_string(record).unwrap());
    }
}

#[test]
fn the_observer_hears_every_decision_with_its_reason() {
    let narrow = PortConfig {
        adapt_capacity: Some(CellRate(2_000)),
        queue: QueueConfig::of_limit(4),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = bench(narrow, SwitchConfig::default());
    let mut diary = Diary::default();
    let (flow, level) = (FlowId(1), Level::FULL);
    let info = bench.info.clone();
    let adapter = |port, kind, era| {
        let message = message(&info, kind, Serial(era), NodeId(1), Level::FULL);
        let pdu = LinkPdu::Adapter(message);
        SwitchInput::Pdu { port, pdu }
    };
    let frame = bench.source.emit(Time::ZERO).remove(0).1;
    let signal = |port, signal| SwitchInput::Signal { port, signal };
    let other = FlowId(9);
    for input in [
        signal(
            A,
            Signal::Join {
                flow,
                epoch: Epoch::default(),
                member: member(1),
                level,
                proof: None,
                again: false,
                answer: None,
            },
        ),
        signal(UP, join_ack(flow, 64, level)),
        signal(
            B,
            Signal::Join {
                flow: other,
                epoch: Epoch::default(),
                member: member(2),
                level,
                proof: None,
                again: false,
                answer: None,
            },
        ),
        adapter(A, AdapterKind::Res, 1),
        SwitchInput::Pdu {
            port: UP,
            pdu: frame,
        },
    ] {
        bench.switch.handle(bench.now, input, &mut diary);
    }
    bench.switch.on_timeout(ms(300), &mut diary);
    bench
        .switch
        .handle(ms(300), adapter(UP, AdapterKind::Adapt, 1), &mut diary);
    let heard = |what: &str| diary.0.iter().any(|line| line.contains(what));
    for what in [
        r#""what":"admit","value":480,"reason":"base layer reserved""#,
        r#""what":"refuse","value":0,"reason":"no such flow""#,
        r#""what":"grant","value":1,"reason":"fair share of the link""#,
        r#""what":"res","value":1,"reason":"merged demand of the branches""#,
        r#""what":"adapt","value":1,"reason":"fair share of the link""#,
        r#""event":"timer","name":"res_interval""#,
        r#""event":"lost","flow":1,"layer":"BL","count":1,"cause":"queue_full""#,
        r#""machine":"switch""#,
    ] {
        assert!(heard(what), "{what} is missing in {:#?}", diary.0);
    }
}

#[test]
fn a_port_that_is_removed_takes_its_branches_along() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.switch.remove_port(A);
    let left = bench.drain();
    assert!(matches!(
        &left[..],
        [
            SwitchTransmit::Signal {
                port: UP,
                signal: Signal::Left { .. }
            },
            SwitchTransmit::Signal {
                port: UP,
                signal: Signal::Leave { .. }
            },
        ]
    ));
    assert_eq!(bench.level(A), None);
}

#[test]
fn media_that_nobody_wants_is_no_fault() {
    for carriage in [Carriage::Datagrams, Carriage::Cells] {
        let mut bench = bench(plain(carriage), SwitchConfig::default());
        let local = PortId::LOCAL;
        let mut source = Source::canyon(2, carriage);
        let flow = source.info.clone();
        bench.advertise(local, flow);
        let frame = source.emit(Time::ZERO);
        let units = frame.len() as u64;
        for (_, pdu) in frame {
            bench.give(SwitchInput::Pdu { port: local, pdu });
        }
        let stats = bench.switch.stats();
        assert_eq!(stats.unwanted, units, "{carriage:?}");
        assert_eq!(stats.rejected_pdus, Default::default());
    }
}

#[test]
fn a_neighbour_that_lost_its_memory_holds_no_branch() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    let restart = |bench: &mut Bench, port| {
        bench.give(SwitchInput::PortDown { port });
        bench.give(SwitchInput::PortUp { port });
    };
    bench.join(A, 1);
    bench.join(B, 3);
    restart(&mut bench, A);
    restart(&mut bench, B);
    // It comes back in the name of another member, and that one leaves.
    bench.join(A, 2);
    let (flow, member) = (bench.info.id, member(2));
    bench.signal(A, Signal::Leave { flow, member });
    assert_eq!(bench.level(A), None);
    // The other neighbour does not ask for the flow any more.
    bench.run(ms(2_900));
    assert_eq!(bench.level(B), Some(0));
    bench.run(ms(3_300));
    assert_eq!(bench.level(B), None);
    assert_eq!(bench.switch.reserved_on(B), CellRate(0));
}

#[test]
fn a_switch_that_lowers_a_branch_by_itself_says_so_in_an_era_that_counts() {
    let port = PortConfig {
        adapt_capacity: Some(CellRate(480 + 960 + 1_920)),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = bench(port, SwitchConfig::default());
    bench.join(A, 1);
    bench.adapter(A, AdapterKind::Res, 1, 1, 2);
    bench.run(ms(300));
    bench.adapter(UP, AdapterKind::Adapt, 100, 9, 2);
    assert_eq!(bench.level(A), Some(2));
    // The node upstream starts again; any era of its is welcome.
    bench.give(SwitchInput::PortDown { port: UP });
    bench.give(SwitchInput::PortUp { port: UP });
    let flow = bench.info.id;
    let (vci, level) = (101, Level::BASE);
    bench.signal(UP, join_ack(flow, vci, level));
    // Before it has said anything, another base layer takes room.
    let guest = Source::canyon(2, Carriage::Datagrams).info;
    let (id, member) = (guest.id, member(2));
    bench.advertise(UP, guest);
    let level = Level::FULL;
    bench.signal(
        A,
        Signal::Join {
            flow: id,
            epoch: Epoch::default(),
            member,
            level,
            proof: None,
            again: false,
            answer: None,
        },
    );
    let vci = 102;
    let mut out = bench.signal(UP, join_ack(id, vci, level));
    assert_eq!(bench.level(A), Some(1));
    out.extend(bench.run(ms(310)));
    let said = out.iter().find_map(|out| match out {
        SwitchTransmit::Pdu {
            pdu: LinkPdu::Adapter(message),
            ..
        } => Some((message.kind, message.era, message.max)),
        _ => None,
    });
    assert_eq!(said, Some((AdapterKind::Adapt, Serial(100), Level::E1)));
}

/// Whether those behind `A` heard that the flow is gone, and then of it again.
fn told_to_ask_again(out: &[SwitchTransmit]) -> bool {
    let signals = out.iter().filter_map(|out| match out {
        SwitchTransmit::Signal { port: A, signal } => Some(signal),
        _ => None,
    });
    matches!(
        &signals.collect::<Vec<_>>()[..],
        [Signal::Withdraw { .. }, Signal::Advertise { .. }]
    )
}

#[test]
fn who_loses_an_acknowledged_branch_is_told_to_ask_again() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    bench.give(SwitchInput::PortDown { port: UP });
    bench.give(SwitchInput::PortUp { port: UP });
    let refusal = layercast_wire::Refusal {
        node: "up".into(),
        resource: Resource::Link,
        needed: 2,
        available: 1,
        measured: None,
    };
    let flow = bench.info.id;
    let out = bench.signal(UP, Signal::JoinNak { flow, refusal });
    assert!(told_to_ask_again(&out), "{out:?}");
    assert_eq!(bench.switch.reserved_on(A), CellRate(0));
}

#[test]
fn a_farewell_that_waits_for_data_is_said_before_the_flow_comes_anew() {
    let slow = PortConfig {
        rate: Some(Rate::from_bps(1_000_000)),
        bl_permille: 1_000,
        ..plain(Carriage::Datagrams)
    };
    let mut bench = bench(slow, SwitchConfig::default());
    bench.join(A, 1);
    assert!(bench.level(A).is_some());
    for (_, pdu) in bench.source.emit(Time::ZERO) {
        bench.give(SwitchInput::Pdu { port: UP, pdu });
    }
    let (flow, reason) = (bench.info.clone(), "moved".to_owned());
    let id = flow.id;
    let mut out = bench.signal(UP, Signal::Withdraw { flow: id, reason });
    assert!(
        out.iter()
            .all(|out| !matches!(out, SwitchTransmit::Signal { .. }))
    );
    out.extend(bench.advertise(UP, flow));
    assert!(told_to_ask_again(&out), "{out:?}");
}
