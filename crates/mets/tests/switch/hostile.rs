//! Any input on any port in any order: nothing panics, nothing grows without bound, and what was
//! promised stays promised.

use crate::bounds::bounds;
use crate::common::ends::{Source, message, packet};
use crate::common::join_ack;
use layercast_core::{
    CellRate, FlowId, GroupId, Layer, Level, LevelSet, Machine, Mediation, NodeId, Off, PortId,
    Rate, Serial, Span, Time,
};
use layercast_link::QueueConfig;
use layercast_mets::switch::{PortConfig, Switch, SwitchConfig, SwitchInput, SwitchTransmit};
use layercast_wire::{
    ADAPTER_VCI, AdapterKind, AdapterMsg, Agreed, Carriage, Cell, Control, Downward, FlowInfo,
    FrameType, LinkPdu, Mark, Member, MemberReport, Pti, Refusal, Resource, Signal, Upward,
};
use proptest::prelude::*;

const CAPACITY: u32 = 3_000;
const QUEUE: u32 = 64;

fn info(id: u32, mark: Mark) -> FlowInfo {
    let mut info = Source::canyon(id, Carriage::Cells).info;
    info.aal5_mark = mark;
    info.mediation = id.is_multiple_of(2).then_some(Mediation::SingleRate);
    info.contract = info.mediation.map(|_| layercast_core::Contract {
        delay: Some(layercast_core::Term {
            target: Some(0.1),
            ..layercast_core::Term::agreed(0.3)
        }),
        ..layercast_core::Contract::default()
    });
    info
}

fn ports() -> impl Strategy<Value = PortId> {
    // Port 4 does not exist.
    prop_oneof![8 => (0u16..5).prop_map(PortId), 1 => Just(PortId::LOCAL)]
}

fn member() -> impl Strategy<Value = Member> {
    (0u32..6).prop_map(|id| Member {
        name: format!("m{id}"),
        id: NodeId(id),
    })
}

fn level() -> impl Strategy<Value = Level> {
    (0u8..3).prop_map(|n| Level::new(n).unwrap())
}

fn signal() -> impl Strategy<Value = Signal> {
    let flow = || (0u32..5).prop_map(FlowId);
    prop_oneof![
        4 => (0u32..5, any::<bool>()).prop_map(|(id, first)| Signal::Advertise {
            flow: Box::new(info(id, if first { Mark::First } else { Mark::Last })),
        }),
        8 => (flow(), member(), level(), bounds())
            .prop_map(|(flow, member, level, answer)| Signal::Join { flow, epoch: layercast_wire::Epoch::default(), member, level, proof: None, again: false, answer }),
        6 => (flow(), 60u16..70, level(), bounds())
            .prop_map(|(flow, vci, level, bounds)| Signal::JoinAck { flow, vci, level, agreed: bounds.map(|it| Box::new(Agreed { member: NodeId(1), bounds: *it })) }),
        2 => (flow(), member()).prop_map(|(flow, member)| Signal::Decline {
            flow,
            member,
            refusal: Box::new(Refusal {
                node: "x".into(),
                resource: Resource::WantedDelay,
                needed: 1,
                available: 2, measured: None, }),
            proof: None,
        }),
        1 => (flow(), any::<bool>()).prop_map(|(flow, unknown)| Signal::JoinNak {
            flow,
            refusal: Refusal {
                node: "x".into(),
                resource: if unknown { Resource::UnknownFlow } else { Resource::Link },
                needed: 1,
                available: 0, measured: None, },
        }),
        3 => (flow(), member()).prop_map(|(flow, member)| Signal::Leave { flow, member }),
        1 => (flow(), member()).prop_map(|(flow, member)| Signal::Left { flow, member }),
        2 => (flow(), member(), 0u8..4).prop_map(|(flow, member, kind)| Signal::Filter {
            flow,
            member,
            filter: match kind {
                0 => None,
                1 => Some(layercast_core::FilterKind::Drs),
                2 => Some(layercast_core::FilterKind::PictureDrop),
                _ => Some(layercast_core::FilterKind::LowPass(9)),
            },
        }),
        2 => (flow(), member()).prop_map(|(flow, member)| Signal::ToSource {
            flow,
            member,
            body: Upward::App(Control::Taken { session: 1, next: 1 }),
        }),
        2 => (flow(), member()).prop_map(|(flow, member)| Signal::ToMember {
            flow,
            member,
            body: Downward::App(Control::Taken { session: 1, next: 1 }),
        }),
        2 => (flow(), member()).prop_map(|(flow, member)| Signal::Report {
            flow,
            member,
            report: Box::new(MemberReport::default()),
        }),
        1 => flow().prop_map(|flow| Signal::Close { flow, undelivered: 1, last: None }),
        1 => flow().prop_map(|flow| Signal::Withdraw { flow, reason: "why".into() }),
        1 => Just(Signal::ListFlows),
        1 => Just(Signal::GetStats { flow: None }),
        1 => Just(Signal::Error { message: "no".into() }),
    ]
}

fn adapter() -> impl Strategy<Value = AdapterMsg> {
    (
        0u32..5,
        any::<bool>(),
        any::<u32>(),
        0u32..400,
        level(),
        level(),
    )
        .prop_map(|(flow, res, era, origin, min, max)| {
            let kind = if res {
                AdapterKind::Res
            } else {
                AdapterKind::Adapt
            };
            AdapterMsg {
                // Sometimes inverted, which the decoder would not let through.
                min,
                hops: 255,
                levels: LevelSet::EMPTY,
                ..message(
                    &info(flow, Mark::Last),
                    kind,
                    Serial(era),
                    NodeId(origin),
                    max,
                )
            }
        })
}

fn pdu() -> impl Strategy<Value = LinkPdu> {
    let head = (0u16..5, 0u8..32, 0u32..5, any::<u32>(), any::<u32>());
    let cell = (60u16..70, 0u8..8, any::<bool>(), head).prop_map(|(vci, pti, valid, head)| {
        let (kind, flags, flow, seq, alf_len) = head;
        let mut header = packet(&info(flow, Mark::Last), seq, Layer::Base, 10, 0, 10).header;
        header.kind = FrameType(kind);
        header.flags.0 = flags;
        header.alf_len = alf_len & 0xff_ffff;
        let mut payload = [0xa5; 48];
        if valid {
            payload[..24].copy_from_slice(&header.encode());
        }
        let pti = Pti::new(pti);
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci,
            pti,
            clp: false,
            payload,
        })
    });
    let datagram = (head_of_packet(), 1u32..2_000).prop_map(|((flow, seq, layer), len)| {
        let layer = Layer::ALL[layer];
        let info = info(flow, Mark::Last);
        LinkPdu::Mets(packet(&info, seq, layer, len, 0, 1_176))
    });
    let noise = prop::array::uniform32(any::<u8>()).prop_map(|bytes| {
        let mut payload = [0; 48];
        payload[..32].copy_from_slice(&bytes);
        let pti = Pti::new(bytes[0]);
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci: ADAPTER_VCI,
            pti,
            clp: false,
            payload,
        })
    });
    prop_oneof![
        6 => cell,
        6 => datagram,
        4 => adapter().prop_map(LinkPdu::Adapter),
        2 => adapter().prop_map(|message| LinkPdu::Cell(message.to_cell())),
        1 => noise,
    ]
}

fn head_of_packet() -> impl Strategy<Value = (u32, u32, usize)> {
    (0u32..5, any::<u32>(), 0usize..3)
}

fn input() -> impl Strategy<Value = SwitchInput> {
    prop_oneof![
        8 => (ports(), signal()).prop_map(|(port, signal)| SwitchInput::Signal { port, signal }),
        12 => (ports(), pdu()).prop_map(|(port, pdu)| SwitchInput::Pdu { port, pdu }),
        2 => ports().prop_map(|port| SwitchInput::PortUp { port }),
        1 => ports().prop_map(|port| SwitchInput::PortDown { port }),
        1 => Just(SwitchInput::Stop),
    ]
}

/// Where the three flows of the well-behaved neighbours come from, and where they may go.
const TREE: [(PortId, [PortId; 2]); 3] = [
    (PortId(0), [PortId(1), PortId::LOCAL]),
    (PortId::LOCAL, [PortId(0), PortId(1)]),
    (PortId(2), [PortId(3), PortId::LOCAL]),
];

/// What a neighbour would send that keeps to the protocol, so that the hostile inputs between
/// find branches, grants and queues to break.
fn sensible() -> impl Strategy<Value = Vec<SwitchInput>> {
    let choice = (
        0usize..3,
        0usize..2,
        0u8..8,
        member(),
        level(),
        any::<u32>(),
    );
    choice.prop_map(|(index, side, what, member, level, number)| {
        let flow = FlowId(index as u32);
        let (upstream, downstream) = TREE[index];
        let down = downstream[side];
        let info = info(flow.0, Mark::Last);
        let signal = |port, signal| vec![SwitchInput::Signal { port, signal }];
        let carriage = if index == 2 {
            Carriage::Datagrams
        } else {
            Carriage::Cells
        };
        let adapter = |port, kind| {
            let message = message(&info, kind, Serial(number % 64), member.id, level);
            vec![SwitchInput::Pdu {
                port,
                pdu: LinkPdu::Adapter(message),
            }]
        };
        match what {
            0 => signal(
                upstream,
                Signal::Advertise {
                    flow: Box::new(info),
                },
            ),
            1 => signal(
                down,
                Signal::Join {
                    flow,
                    epoch: layercast_wire::Epoch::default(),
                    member,
                    level,
                    proof: None,
                    again: false,
                    answer: None,
                },
            ),
            2 => signal(upstream, join_ack(flow, 100 + index as u16, level)),
            3 => adapter(down, AdapterKind::Res),
            4 => adapter(upstream, AdapterKind::Adapt),
            5 => vec![
                SwitchInput::PortUp { port: down },
                SwitchInput::PortUp { port: upstream },
            ],
            _ => {
                // A frame, sometimes without its end.
                let mut source = Source::canyon(flow.0, carriage);
                source.frame = [0, number % 36][number as usize & 1];
                let due = source.next_frame().unwrap();
                let pdus = source.emit(due).into_iter().map(|(_, pdu)| pdu);
                pdus.take(1 + (number >> 8) as usize % 250)
                    .map(|pdu| SwitchInput::Pdu {
                        port: upstream,
                        pdu,
                    })
                    .collect()
            }
        }
    })
}

fn step() -> impl Strategy<Value = Vec<SwitchInput>> {
    prop_oneof![3 => sensible(), 1 => input().prop_map(|input| vec![input])]
}

fn switch() -> Switch {
    let mut switch = Switch::new(SwitchConfig {
        max_flows: 3,
        max_members: 8,
        cpu_per_cell: Some(Span::from_us(450)),
        ..SwitchConfig::default()
    });
    for id in 0..4 {
        let carriage = carriage_of(PortId(id));
        let config = PortConfig {
            name: id.to_string(),
            // Slow enough for queues to fill.
            rate: Some(Rate::from_bps(4_240_000)),
            carriage,
            queue: QueueConfig::of_limit(QUEUE),
            adapt_capacity: Some(CellRate(CAPACITY)),
            bl_permille: 100,
            ..PortConfig::default()
        };
        switch.add_port(PortId(id), config);
    }
    switch
}

fn carriage_of(port: PortId) -> Carriage {
    if port.0 < 2 {
        Carriage::Cells
    } else {
        Carriage::Datagrams
    }
}

/// Drains the switch and checks what it must never break.
fn settle(switch: &mut Switch, now: Time) {
    let mut given = 0;
    while let Some(out) = switch.poll_transmit(now, &mut Off) {
        given += 1;
        assert!(given < 10_000, "one input must not cause endless output");
        if let SwitchTransmit::Pdu { port, pdu, at } = out {
            assert!(at.0 <= now);
            let carriage = carriage_of(port);
            let is_cell = matches!(pdu, LinkPdu::Cell(_));
            assert!(port == PortId::LOCAL || is_cell == (carriage == Carriage::Cells));
        }
    }
    while switch.poll_event().is_some() {}
    for port in 0..4 {
        let id = PortId(port);
        assert!(switch.queue(id).unwrap() <= QUEUE);
        let line = Rate::from_bps(4_240_000).cells();
        assert!(switch.reserved_on(id).0 <= (line.0 / 10).min(CAPACITY));
        let granted = switch.granted_on(id).0;
        // A level is only left standing above its grant while ADAPT finds no room.
        let stuck = switch.stats().ports[&port.to_string()].adapter_dropped > 0;
        assert!(
            granted <= CAPACITY || stuck,
            "{granted} granted on port {port}"
        );
    }
}

proptest! {
    #[test]
    fn no_sequence_of_inputs_breaks_a_promise(
        steps in prop::collection::vec((step(), 0u64..60, any::<bool>()), 1..200),
    ) {
        let mut switch = switch();
        let mut now = Time::ZERO;
        for (inputs, wait, punctual) in steps {
            now += Span::from_ms(wait);
            if punctual {
                switch.on_timeout(now, &mut Off);
                settle(&mut switch, now);
            }
            for input in inputs {
                switch.handle(now, input, &mut Off);
            }
            settle(&mut switch, now);
            if let Some(next) = switch.next_timeout() {
                prop_assert!(next > now || !punctual);
            }
        }
        // All links break: after three eras and an interval no branch is left.
        for port in 0..4 {
            switch.handle(now, SwitchInput::PortDown { port: PortId(port) }, &mut Off);
        }
        let end = now + Span::from_ms(5_300);
        while let Some(next) = switch.next_timeout().filter(|&next| next <= end) {
            let at = next.max(now);
            switch.on_timeout(at, &mut Off);
            settle(&mut switch, at);
        }
        switch.on_timeout(end, &mut Off);
        for port in 0..4 {
            prop_assert_eq!(switch.reserved_on(PortId(port)).0, 0);
        }
    }

    /// Fields from the whole range of their types.
    #[test]
    fn wild_adapter_messages_do_no_harm(
        messages in prop::collection::vec(
            (any::<bool>(), any::<[u32; 4]>(), any::<u8>(), level(), level(), ports()), 1..100),
    ) {
        let mut switch = switch();
        for (res, words, hops, min, max, port) in messages {
            let message = AdapterMsg {
                kind: if res { AdapterKind::Res } else { AdapterKind::Adapt },
                group: GroupId(words[0]),
                flow: FlowId(words[1]),
                era: Serial(words[2]),
                origin: NodeId(words[3]),
                min,
                max,
                hops,
                levels: LevelSet::EMPTY,
                rate_min: CellRate(words[0]),
                rate_max: CellRate(words[1]),
                residual: CellRate(words[2]),
                drain: CellRate(words[3]),
            };
            let pdu = LinkPdu::Adapter(message);
            switch.handle(Time::ZERO, SwitchInput::Pdu { port, pdu }, &mut Off);
            settle(&mut switch, Time::ZERO);
        }
        prop_assert_eq!(switch.next_timeout(), None, "no state was made");
    }
}
