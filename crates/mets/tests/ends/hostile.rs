//! Anything may come from the network: no panic, no unbounded memory, and the flow continues.

use crate::bounds::bounds;
use crate::common::*;
use bytes::Bytes;
use layercast_core::{
    CellRate, Contract, FlowId, FrameRate, GroupId, Level, LevelSet, Machine, Mediation, NodeId,
    Off, PerLayer, Serial, Span, Stream, Term,
};
use layercast_mets::{PlayoutConfig, Sink, SinkConfig, SinkEvent, SinkInput, SourceInput};
use layercast_wire::{
    AdapterKind, AdapterMsg, Agreed, Carriage, Cell, Control, Downward, Flags, FlowEnd, FrameType,
    LinkPdu, Member, MemberReport, MetsHeader, MetsPacket, Passing, Payload, Pti, Refusal,
    Resource, Signal, Sound, Upward, Waited, decode_datagram,
};
use proptest::prelude::*;

fn level() -> impl Strategy<Value = Level> {
    (0u8..=2).prop_map(|n| Level::new(n).unwrap())
}

/// Mostly the flow of the test.
fn flow_id() -> impl Strategy<Value = FlowId> {
    prop_oneof![9 => Just(FlowId(7)), 1 => any::<u32>().prop_map(FlowId)]
}

fn end() -> impl Strategy<Value = FlowEnd> {
    (number(), any::<u8>(), any::<u8>()).prop_map(|(seq, e1_count, e2_count)| FlowEnd {
        seq: Serial(seq),
        e1_count,
        e2_count,
    })
}

/// Near the start, near the wrap, or anywhere.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..400, 1 => any::<u32>(), 1 => (u32::MAX - 50)..=u32::MAX]
}

fn packet() -> impl Strategy<Value = LinkPdu> {
    let fields = (
        0u16..5,
        0u8..16,
        flow_id(),
        number(),
        number(),
        any::<[u8; 2]>(),
    );
    let lengths = (1u32..40_000, 0u32..3_000, 0usize..2_000, any::<bool>());
    (fields, lengths).prop_map(|((kind, flags, flow, seq, time, counts), lengths)| {
        let (alf_len, offset, len, congestion) = lengths;
        let mut flags = Flags(flags);
        // Most contradict nothing, so that they get further.
        if counts[0] & 7 != 0 {
            flags = Flags(flags.0 & 9);
            flags.0 |= if offset == 0 { 2 } else { 0 };
            flags.0 |= if offset as usize + len == alf_len as usize {
                4
            } else {
                0
            };
        }
        LinkPdu::Mets(MetsPacket {
            header: MetsHeader {
                kind: FrameType(kind),
                flags,
                flow,
                seq: Serial(seq),
                timestamp_us: time.wrapping_mul(1_000),
                e1_count: counts[0],
                e2_count: counts[1],
                alf_len,
                offset,
                waited: Waited::default(),
                sound: Sound::default(),
                passing: Passing::default(),
            },
            payload: Payload::Zeros(len as u32),
            congestion,
        })
    })
}

fn whole_frame() -> impl Strategy<Value = LinkPdu> {
    (packet(), 1u32..500).prop_map(|(pdu, len)| match pdu {
        LinkPdu::Mets(mut packet) => {
            packet.header.alf_len = len;
            packet.header.offset = 0;
            packet.header.flags = Flags(packet.header.flags.0 & 1 | 6);
            packet.payload = Payload::Zeros(len);
            LinkPdu::Mets(packet)
        }
        other => other,
    })
}

fn adapter() -> impl Strategy<Value = LinkPdu> {
    (any::<bool>(), flow_id(), number(), level(), level()).prop_map(|(res, flow, era, a, b)| {
        LinkPdu::Adapter(AdapterMsg {
            kind: if res {
                AdapterKind::Res
            } else {
                AdapterKind::Adapt
            },
            group: GroupId(3),
            flow,
            era: Serial(era),
            origin: NodeId(era),
            min: a.min(b),
            max: a.max(b),
            hops: 0,
            levels: LevelSet::EMPTY,
            rate_min: CellRate(era),
            rate_max: CellRate(era),
            residual: CellRate(0),
            drain: CellRate(era),
        })
    })
}

fn cell() -> impl Strategy<Value = LinkPdu> {
    let vci = prop_oneof![Just(64u16), Just(34), any::<u16>()];
    (vci, 0u8..8, any::<u8>()).prop_map(|(vci, pti, fill)| {
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci,
            pti: Pti::new(pti),
            clp: false,
            payload: [fill; 48],
        })
    })
}

fn pdu() -> impl Strategy<Value = LinkPdu> {
    prop_oneof![3 => packet(), 3 => whole_frame(), 1 => adapter(), 2 => cell()]
}

fn member() -> impl Strategy<Value = Member> {
    (0u32..20).prop_map(|n| Member {
        name: format!("m{n}"),
        id: NodeId(n),
    })
}

fn signal() -> impl Strategy<Value = Signal> {
    prop_oneof![
        (any::<bool>(), flow_id()).prop_map(|(named, id)| {
            let mut flow = flow(300);
            flow.id = id;
            flow.mediation = named.then_some(Mediation::PerMember);
            if !named {
                flow.name = "other".into();
            }
            Signal::Advertise {
                flow: Box::new(flow),
            }
        }),
        flow_id().prop_map(|flow| Signal::Withdraw {
            flow,
            reason: String::new()
        }),
        (flow_id(), member(), level(), bounds()).prop_map(|(flow, member, level, answer)| {
            Signal::Join {
                flow,
                epoch: layercast_wire::Epoch::default(),
                member,
                level,
                proof: None,
                again: false,
                answer,
            }
        }),
        (flow_id(), level(), bounds()).prop_map(|(flow, level, bounds)| Signal::JoinAck {
            flow,
            vci: 64,
            level,
            agreed: bounds.map(|it| Box::new(Agreed {
                member: NodeId(2),
                bounds: *it,
            })),
        }),
        flow_id().prop_map(|flow| Signal::JoinNak {
            flow,
            refusal: Refusal {
                node: "rook".into(),
                resource: Resource::Link,
                needed: 2,
                available: 1,
                measured: None,
            },
        }),
        (flow_id(), member()).prop_map(|(flow, member)| Signal::Leave { flow, member }),
        (flow_id(), member()).prop_map(|(flow, member)| Signal::Left { flow, member }),
        (flow_id(), any::<bool>()).prop_map(|(flow, on)| Signal::Filtered {
            flow,
            node: "rook".into(),
            filter: on.then_some(layercast_core::FilterKind::Drs),
        }),
        (flow_id(), member(), control()).prop_map(|(flow, member, control)| Signal::ToSource {
            flow,
            member,
            body: Upward::App(control),
        }),
        (flow_id(), member(), control()).prop_map(|(flow, member, control)| Signal::ToMember {
            flow,
            member,
            body: Downward::App(control),
        }),
        (flow_id(), any::<u32>(), prop::option::of(end())).prop_map(|(flow, undelivered, last)| {
            Signal::Close {
                flow,
                undelivered,
                last,
            }
        }),
        (flow_id(), member()).prop_map(|(flow, member)| Signal::Report {
            flow,
            member,
            report: Box::new(MemberReport::default()),
        }),
        Just(Signal::ListFlows),
        prop::option::of(flow_id()).prop_map(|flow| Signal::GetStats { flow }),
        Just(Signal::Flows { flows: Vec::new() }),
        Just(Signal::Error {
            message: String::new()
        }),
    ]
}

fn control() -> impl Strategy<Value = Control> {
    let data = (0u32..3, 0u32..12, 0u32..12).prop_map(|(session, number, oldest)| Control::Data {
        session,
        number,
        oldest,
        data: b"play".to_vec().into(),
    });
    let taken = (0u32..3, 0u32..12).prop_map(|(session, next)| Control::Taken { session, next });
    prop_oneof![data, taken]
}

#[derive(Clone, Debug)]
enum Step {
    Pdu(LinkPdu),
    Signal(Signal),
    Link(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => pdu().prop_map(Step::Pdu),
        2 => signal().prop_map(Step::Signal),
        1 => (0u8..4).prop_map(Step::Link),
        2 => (0u64..1_500).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn anything_in_any_order_never_panics(
        steps in prop::collection::vec(step(), 1..200), cells in any::<bool>(),
    ) {
        let carriage = if cells { Carriage::Cells } else { Carriage::Datagrams };
        let mut source = source_config(carriage, 300);
        source.flow.mediation = Some(if cells { Mediation::SingleRate } else { Mediation::PerMember });
        let sink = SinkConfig {
            wishes: Some(Contract {
                delay: Some(Term::agreed(0.2)),
                ..Contract::default()
            }),
            ..sink_config(carriage)
        };
        let mut world = World::new(source, sink, 6);
        for step in steps {
            match step {
                Step::Pdu(pdu) => {
                    world.input(SinkInput::Pdu(pdu.clone()));
                    world.send_to_source(SourceInput::Pdu(pdu));
                }
                Step::Signal(signal) => {
                    world.input(SinkInput::Signal(signal.clone()));
                    world.send_to_source(SourceInput::Signal(signal));
                }
                Step::Link(0) => world.input(SinkInput::LinkUp),
                Step::Link(1) => world.input(SinkInput::LinkDown),
                Step::Link(2) => world.input(SinkInput::Rejoin),
                Step::Link(_) => {
                    world.sink.allow_raise();
                    let now = world.now;
                    let _ = world.sink.send_control(now, Bytes::from_static(b"pause"));
                }
                Step::Wait(wait) => {
                    let until = world.now + Span::from_ms(wait);
                    world.run_until(until);
                }
            }
        }
        let until = world.now + Span::from_secs(40);
        world.run_until(until);
        let members = world.source.stats().members;
        prop_assert!(members <= 4_096);
    }

    #[test]
    fn random_bytes_never_panic(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..50),
        cells in any::<bool>(),
    ) {
        let carriage = if cells { Carriage::Cells } else { Carriage::Datagrams };
        let mut world = World::perfect(carriage, 2);
        world.run_until(ms(100));
        for mut bytes in datagrams {
            if let [_, kind, _, version, ..] = &mut bytes[..] {
                *kind &= 3;
                *version = 1;
            }
            let mut pdus = Vec::new();
            let _ = decode_datagram(carriage, Bytes::from(bytes), false, &mut |pdu| pdus.push(pdu));
            for pdu in pdus {
                world.input(SinkInput::Pdu(pdu.clone()));
                world.send_to_source(SourceInput::Pdu(pdu));
            }
        }
    }
}

#[test]
fn a_storm_of_foreign_packets_costs_the_flow_nothing() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    let mut random = Stream::new(1, "storm");
    let mut sent = 0u64;
    while world.now < ms(16_000) {
        let until = world.now + Span::from_us(500);
        world.run_until(until);
        let LinkPdu::Mets(mut packet) = any_packet() else {
            unreachable!()
        };
        // Another flow, lengths that lie, numbers far off, each different.
        packet.header.seq = Serial(1 << 31 | (random.below(1 << 20) as u32) << 10);
        match random.below(3) {
            0 => packet.header.flow = FlowId(random.below(1 << 32) as u32),
            1 => packet.header.alf_len = random.below(1 << 32) as u32,
            _ => {}
        }
        sent += 1;
        world.input(SinkInput::Pdu(LinkPdu::Mets(packet)));
    }
    let stats = world.sink.stats();
    assert!(sent > 30_000);
    assert_eq!(stats.played.base, 20);
    assert_eq!(stats.lost, PerLayer::default());
    let dropped = stats.dropped;
    assert!(dropped.unknown > 5_000 && dropped.malformed > 5_000 && dropped.stray > 5_000);
    assert!(world.sink.next_timeout().is_none());
}

/// A node that offers a flow with pictures centuries apart and with the longest delays there are: the times of such a flow stop at
/// the largest one.
#[test]
fn a_flow_whose_pictures_are_centuries_apart_harms_no_receiver() {
    let mut offered = flow(u32::MAX);
    offered.spec.frame_rate = FrameRate {
        num: 1,
        den: u32::MAX,
    };
    offered.spec.gop_n = u8::MAX;
    offered.spread_us = u64::MAX;
    assert_eq!(offered.spec.validate(), Ok(()));
    assert_eq!(offered.spec.gop(), Span::MAX);
    for (playout, plays) in [
        // The bound of 49 days is the playout delay.
        (PlayoutConfig::default(), false),
        (PlayoutConfig::live(), true),
    ] {
        let mut sink = Sink::new(SinkConfig {
            playout,
            ..sink_config(Carriage::Datagrams)
        });
        let signals = [
            Signal::Advertise {
                flow: Box::new(offered.clone()),
            },
            Signal::JoinAck {
                flow: offered.id,
                vci: 0,
                level: Level::FULL,
                agreed: None,
            },
        ];
        let mut now = ms(1_000);
        for signal in signals {
            sink.handle(now, SinkInput::Signal(signal), &mut Off);
            while sink.poll_transmit(now, &mut Off).is_some() {}
        }
        let mut played = 0;
        for seq in 0..20 {
            let LinkPdu::Mets(mut packet) = any_packet() else {
                panic!("a packet");
            };
            packet.header.flags = Flags::FIRST | Flags::LAST | Flags::GOP_START;
            packet.header.alf_len = 10;
            packet.header.seq = Serial(seq);
            packet.header.timestamp_us = now.as_us() as u32;
            sink.handle(now, SinkInput::Pdu(LinkPdu::Mets(packet)), &mut Off);
            for _ in 0..20 {
                while sink.poll_transmit(now, &mut Off).is_some() {}
                while let Some(event) = sink.poll_event() {
                    played += u32::from(matches!(event, SinkEvent::Frame(_)));
                }
                let Some(next) = sink.next_timeout() else {
                    break;
                };
                now = now.max(next.min(now + Span::from_secs(10)));
                sink.on_timeout(now, &mut Off);
            }
        }
        assert_eq!(sink.stats().packets, 20);
        assert_eq!(played > 0, plays, "{:?}", sink.stats());
    }
}

/// A copy of a PDU in which some bits of one field are others.
fn forged(pdu: &LinkPdu, random: &mut Stream) -> LinkPdu {
    let mut pdu = pdu.clone();
    let flip = |random: &mut Stream, bits: u64| 1u32 << random.below(bits);
    match &mut pdu {
        LinkPdu::Mets(packet) => {
            let header = &mut packet.header;
            match random.below(8) {
                0 | 1 => header.seq.0 = header.seq.0.wrapping_add(flip(random, 12)),
                2 => header.seq.0 ^= flip(random, 32),
                3 => header.timestamp_us ^= flip(random, 32),
                4 => header.kind = FrameType(random.below(3) as u16),
                5 => header.e1_count = random.below(256) as u8,
                6 => header.flags.0 ^= 1,
                _ => header.passing = Passing::default(),
            }
            if random.below(2) == 0 {
                // A whole frame of its own, later than all.
                header.flags = Flags(header.flags.0 | 6);
                (header.offset, header.alf_len) = (0, packet.payload.len() as u32);
                header.seq.0 = header.seq.0.wrapping_add(flip(random, 12));
                header.timestamp_us = header.timestamp_us.wrapping_add(flip(random, 25));
            }
        }
        LinkPdu::Adapter(message) => match random.below(4) {
            0 | 1 => message.era.0 = message.era.0.wrapping_add(flip(random, 32)),
            2 => message.origin = NodeId(random.below(9) as u32),
            _ => (message.min, message.max) = (Level::BASE, Level::BASE),
        },
        _ => {}
    }
    pdu
}

/// On a link in the clear somebody sends changed copies of what passes, in both directions.
#[test]
fn a_flow_is_whole_again_within_5_s_of_the_last_forged_datagram() {
    for playout in [PlayoutConfig::default(), PlayoutConfig::live()] {
        for seed in 1..=12 {
            let heard = std::cell::RefCell::new((Vec::new(), Vec::new()));
            let sink = SinkConfig {
                playout,
                ..sink_config(Carriage::Datagrams)
            };
            let mut world = World::new(source_config(Carriage::Datagrams, 300), sink, 90);
            world.down = Box::new(|_, pdu| {
                heard.borrow_mut().0.push(pdu.clone());
                vec![Span::from_ms(5)]
            });
            world.up = Box::new(|_, pdu| {
                heard.borrow_mut().1.push(pdu.clone());
                vec![Span::from_ms(5)]
            });
            let mut random = Stream::new(seed, "forger");
            let (begin, end) = (ms(10_000), ms(13_000));
            world.run_until(begin);
            while world.now < end {
                let until = world.now + Span::from_ms(2);
                world.run_until(until);
                let (down, up) = {
                    let heard = heard.borrow();
                    let newest = |all: &Vec<LinkPdu>, random: &mut Stream| {
                        let back = random.below(40.min(all.len() as u64)) as usize;
                        all[all.len() - 1 - back].clone()
                    };
                    (newest(&heard.0, &mut random), newest(&heard.1, &mut random))
                };
                world.input(SinkInput::Pdu(forged(&down, &mut random)));
                if random.below(20) == 0 {
                    world.send_to_source(SourceInput::Pdu(forged(&up, &mut random)));
                }
            }
            let (from, to) = (ms(18_000), ms(40_000));
            world.run_until(to);
            let played = world.events.iter().filter_map(|(at, event)| match event {
                SinkEvent::Frame(frame) if *at > from => Some((*at, frame)),
                _ => None,
            });
            let times: Vec<_> = played.clone().map(|(at, _)| at).collect();
            // 24 frames/s.
            let expected = to.since(from).as_ms() as usize * 24 / 1_000;
            assert!(
                times.len() + 2 >= expected,
                "seed {seed}, {playout:?}: {} of {expected} frames, the first at {:?}, {:?}",
                times.len(),
                times.first(),
                world.sink.stats()
            );
        }
    }
}
