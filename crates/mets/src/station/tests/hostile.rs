//! Anything that may come from the network or a driver, in any order.

use layercast_core::{CELL_PAYLOAD, CellRate, GroupId, Level, LevelSet, Serial};
use layercast_link::QueueConfig;
use layercast_wire::{ADAPTER_VCI, AdapterKind, AdapterMsg, Cell, Epoch, Member, Pti};
use proptest::prelude::*;

use super::*;

/// What happens to a station.
#[derive(Clone, Debug)]
enum Step {
    Give(SwitchInput),
    Sink(usize, SinkInput),
    Timer(Part),
    All,
    Wait(u64),
    Stall(u64),
    Feed(usize),
    Remove(usize),
    SetSink(usize, bool),
}

fn signal() -> impl Strategy<Value = Signal> {
    let flow = || (0u32..4).prop_map(FlowId);
    let member = || {
        (0u32..3).prop_map(|id| Member {
            name: format!("m{id}"),
            id: NodeId(id),
        })
    };
    prop_oneof![
        4 => (0u32..4).prop_map(|flow| Signal::Advertise { flow: Box::new(info(flow)) }),
        6 => (flow(), member()).prop_map(|(flow, member)| Signal::Join {
            flow,
            epoch: Epoch::default(),
            member,
            level: Level::FULL,
            proof: None, again: false, answer: None, }),
        4 => (flow(), 60u16..70).prop_map(|(flow, vci)| Signal::JoinAck { flow, vci, level: Level::FULL, agreed: None }),
        2 => (flow(), member()).prop_map(|(flow, member)| Signal::Leave { flow, member }),
        1 => flow().prop_map(|flow| Signal::Close { flow, undelivered: 1, last: None }),
        1 => flow().prop_map(|flow| Signal::Withdraw { flow, reason: "why".into() }),
        1 => Just(Signal::ListFlows),
        1 => prop::option::of(flow()).prop_map(|flow| Signal::GetStats { flow }),
        1 => Just(Signal::Error { message: "no".into() }),
    ]
}

fn pdu() -> impl Strategy<Value = LinkPdu> {
    let adapter = (0u32..4, any::<bool>(), any::<u32>(), 0u32..8);
    let adapter = adapter.prop_map(|(flow, res, era, origin)| AdapterMsg {
        kind: if res {
            AdapterKind::Res
        } else {
            AdapterKind::Adapt
        },
        group: GroupId(flow),
        flow: FlowId(flow),
        era: Serial(era % 64),
        origin: NodeId(origin),
        min: Level::BASE,
        max: Level::FULL,
        hops: 0,
        levels: LevelSet::EMPTY,
        rate_min: CellRate(era),
        rate_max: CellRate(era),
        residual: CellRate(0),
        drain: CellRate(era % 5_000),
    });
    let cell = (
        prop_oneof![60u16..70, Just(ADAPTER_VCI)],
        0u8..8,
        any::<u8>(),
    );
    let cell = cell.prop_map(|(vci, pti, fill)| {
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci,
            pti: Pti::new(pti),
            clp: false,
            payload: [fill; CELL_PAYLOAD],
        })
    });
    prop_oneof![
        2 => adapter.clone().prop_map(LinkPdu::Adapter),
        2 => adapter.prop_map(|message| LinkPdu::Cell(message.to_cell())),
        4 => cell,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let port = || prop_oneof![8 => Just(LINK), 1 => Just(PortId(7)), 1 => Just(PortId::LOCAL)];
    let place = || 0usize..3;
    let part = prop_oneof![
        Just(Part::Switch),
        Just(Part::Pacer),
        Just(Part::Host),
        place().prop_map(Part::Source),
        place().prop_map(Part::Sink),
    ];
    prop_oneof![
        8 => (port(), signal()).prop_map(|(port, signal)| Step::Give(SwitchInput::Signal { port, signal })),
        10 => (port(), pdu()).prop_map(|(port, pdu)| Step::Give(SwitchInput::Pdu { port, pdu })),
        2 => port().prop_map(|port| Step::Give(SwitchInput::PortUp { port })),
        1 => port().prop_map(|port| Step::Give(SwitchInput::PortDown { port })),
        1 => (port(), 1u64..100_000_000).prop_map(|(port, bps)| {
            Step::Give(SwitchInput::PortRate { port, rate: Rate::from_bps(bps) })
        }),
        1 => place().prop_map(|place| Step::Sink(place, SinkInput::Leave)),
        6 => part.prop_map(Step::Timer),
        4 => Just(Step::All),
        8 => (0u64..400_000).prop_map(Step::Wait),
        1 => (0u64..50_000).prop_map(Step::Stall),
        2 => place().prop_map(Step::Feed),
        1 => place().prop_map(Step::Remove),
        2 => (place(), any::<bool>()).prop_map(|(place, there)| Step::SetSink(place, there)),
        1 => Just(Step::Give(SwitchInput::Stop)),
    ]
}

fn take(station: &mut Station, now: Time, step: &Step) {
    match step.clone() {
        Step::Give(input) => station.handle(now, input, &mut Off),
        Step::Sink(place, input) => station.give_sink(now, place, input, &mut Off),
        Step::Timer(part) => station.on_timeout_of(part, now, &mut Off),
        Step::All => station.on_timeout(now, &mut Off),
        Step::Wait(_) => {}
        Step::Stall(us) => station.stall(now, Span::from_us(us)),
        Step::Feed(place) => {
            if let Some(source) = station.source_mut(place) {
                feed(source, now, &mut frames());
            }
        }
        Step::Remove(place) => {
            if place < station.sources().len() {
                station.remove_source(place);
            }
        }
        Step::SetSink(place, there) => {
            let config = SinkConfig::new("host", NodeId(2), "flow-1", Carriage::Cells);
            station.set_sink(place, there.then(|| Sink::new(config)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn anything_in_any_order_does_no_harm(
        steps in prop::collection::vec(step(), 1..120),
        switch in any::<bool>(),
        cells in any::<bool>(),
        grain in prop::sample::select(vec![0, 250]),
        slow in any::<bool>(),
    ) {
        let carriage = if cells { Carriage::Cells } else { Carriage::Datagrams };
        let mut costs = if slow { costs(switch) } else { HostConfig::default() };
        costs.grain = Span::from_us(grain);
        let mut station = match switch {
            true => server(&[1, 2], carriage, costs),
            false => host(&[1, 2], carriage, costs),
        };
        let mut now = Time::ZERO;
        for step in &steps {
            if let Step::Wait(us) = step {
                now += Span::from_us(*us);
            }
            take(&mut station, now, step);
            let (sent, _) = drain(&mut station, now);
            // A second of two flows is less than that.
            prop_assert!(sent.len() < 20_000, "{}", sent.len());
            prop_assert!(station.inner.is_empty());
            prop_assert!(station.poll_transmit(now, &mut Off).is_none());
            prop_assert!(station.poll_event().is_none());
        }
        // Its timers end, or move on with time.
        for _ in 0..50 {
            station.on_timeout(now, &mut Off);
            drain(&mut station, now);
            let Some(next) = station.next_timeout() else { break };
            now = now.max(next) + Span::from_us(1);
        }
        prop_assert!(station.inner.capacity() < 4_096);
        let waiting = station.switch().and_then(|switch| switch.queue(LINK)).unwrap_or(0);
        prop_assert!(waiting <= QueueConfig::default().limit);
    }
}
