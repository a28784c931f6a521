//! The station as its drivers use it.

mod hostile;

use std::collections::BTreeMap;

use crate::switch::{PortConfig, SwitchConfig};
use crate::{AppFrame, SinkConfig, SourceConfig, feed};
use allocation_counter::measure;
use layercast_core::{
    CELL_PAYLOAD, CellRate, FlowId, FlowSpec, GroupId, Layer, LayerRate, Level, NodeId, Off,
    PerLayer, Rate,
};
use layercast_link::host::{ReceiveCosts, SendCosts};
use layercast_wire::{
    ADAPTER_VCI, Carriage, Cell, Epoch, FlowInfo, LinkPdu, Member, Payload, Pti, Signal,
};

use super::*;

const LINK: PortId = PortId(0);
const DELAY: Span = Span::from_ms(2);

fn info(flow: u32) -> FlowInfo {
    let layer = |mean| LayerRate {
        mean: CellRate(mean),
        ..LayerRate::default()
    };
    let layers = PerLayer {
        base: layer(480),
        e1: layer(960),
        e2: layer(1_920),
    };
    FlowInfo {
        group: GroupId(flow),
        spec: FlowSpec {
            flow_id: FlowId(flow),
            layers,
            delay_max_ms: 300,
            ..FlowSpec::default()
        },
        clock: "test".into(),
        ..FlowInfo::new(FlowId(flow), &format!("flow-{flow}"), "server")
    }
}

/// `IPBBPBBPBBBB` in coded order, without end.
fn frames() -> impl Iterator<Item = AppFrame> {
    (0..).map(|n| {
        let (layer, cells) = match b"IPBBPBBPBBBB"[n % 12] {
            b'I' => (Layer::Base, 240),
            b'P' => (Layer::E1, 160),
            _ => (Layer::E2, 120),
        };
        AppFrame {
            layer,
            gop_start: n % 12 == 0,
            sound: false,
            time: None,
            payload: Payload::Zeros(cells * 48 - 40),
        }
    })
}

/// A node with these flows and one link.
fn server(flows: &[u32], carriage: Carriage, host: HostConfig) -> Station {
    let mut switch = Switch::new(SwitchConfig {
        name: "server".into(),
        id: NodeId(1),
        ..SwitchConfig::default()
    });
    let port = PortConfig {
        name: "host".into(),
        rate: Some(Rate::from_bps(100_000_000)),
        carriage,
        ..PortConfig::default()
    };
    switch.add_port(LINK, port);
    let mut station = Station::new(StationConfig {
        switch: Some(switch),
        host,
        ..StationConfig::default()
    });
    for &flow in flows {
        let mut config = SourceConfig::new("server", NodeId(1), info(flow), carriage);
        // Each source has a circuit of its own.
        config.vci = 64 + flow as u16;
        let mut source = Source::new(config).unwrap();
        feed(&mut source, Time::ZERO, &mut frames());
        station.add_source(source);
    }
    station
}

/// A host with a sink for each of these flows.
fn host(flows: &[u32], carriage: Carriage, costs: HostConfig) -> Station {
    let mut station = Station::new(StationConfig {
        host: costs,
        rate: Some(Rate::from_bps(100_000_000)),
        ..StationConfig::default()
    });
    for (place, flow) in flows.iter().enumerate() {
        let name = format!("flow-{flow}");
        let config = SinkConfig::new("host", NodeId(2), &name, carriage);
        station.set_sink(place, Some(Sink::new(config)));
    }
    station
}

/// The pentium of 1996 as a sender, or as a receiver.
fn costs(sends: bool) -> HostConfig {
    HostConfig {
        send: if sends {
            SendCosts::PENTIUM_1996
        } else {
            SendCosts::default()
        },
        receive: (!sends).then_some(ReceiveCosts::PENTIUM_1996),
        ..HostConfig::default()
    }
}

/// Takes what a station sends, and feeds its sources.
fn drain(station: &mut Station, now: Time) -> (Vec<SwitchTransmit>, Vec<StationEvent>) {
    let (mut sent, mut events) = (Vec::new(), Vec::new());
    loop {
        while let Some(transmit) = station.poll_transmit(now, &mut Off) {
            sent.push(transmit);
        }
        let mut fed = false;
        while let Some(event) = station.poll_event() {
            if let StationEvent::Source(place, SourceEvent::NeedFrames(_)) = event {
                feed(station.source_mut(place).unwrap(), now, &mut frames());
                fed = true;
            }
            events.push(event);
        }
        if !fed {
            return (sent, events);
        }
    }
}

/// How a driver runs the timers.
#[derive(Clone, Copy, PartialEq)]
enum Timers {
    /// Those of the station.
    Whole,
    /// Those of each part.
    Parts,
}

const PARTS: [Part; 7] = [
    Part::Source(0),
    Part::Source(1),
    Part::Sink(0),
    Part::Sink(1),
    Part::Switch,
    Part::Host,
    Part::Pacer,
];

/// Runs a server and a host for `span`; gives what each sent, and the frames that were played.
fn run(mut ends: [Station; 2], span: Span, timers: Timers) -> (Vec<String>, [u64; 2]) {
    let mut under_way: BTreeMap<(Time, u64), (usize, SwitchInput)> = BTreeMap::new();
    let (mut log, mut played, mut sent) = (Vec::new(), [0; 2], 0);
    for end in [1, 0] {
        ends[end].handle(Time::ZERO, SwitchInput::PortUp { port: LINK }, &mut Off);
    }
    let mut now = Time::ZERO;
    loop {
        for (end, station) in ends.iter_mut().enumerate() {
            let (transmits, events) = drain(station, now);
            for transmit in transmits {
                log.push(format!("{now:?} {end} {transmit:?}"));
                let (at, input) = match transmit {
                    SwitchTransmit::Pdu {
                        port,
                        pdu,
                        at: (start, tx),
                    } => (start + tx, SwitchInput::Pdu { port, pdu }),
                    SwitchTransmit::Signal { port, signal } => {
                        (now, SwitchInput::Signal { port, signal })
                    }
                };
                sent += 1;
                under_way.insert((at + DELAY, sent), (1 - end, input));
            }
            for event in events {
                if let StationEvent::Sink(place, SinkEvent::Frame(_)) = event {
                    played[place] += 1;
                }
            }
        }
        let arrival = under_way.keys().next().map(|key| key.0);
        let timeouts = ends.each_ref().map(Station::next_timeout);
        let next = timeouts.into_iter().fold(arrival, earliest);
        let Some(next) = next.filter(|at| at.since(Time::ZERO) < span) else {
            return (log, played);
        };
        now = now.max(next);
        while let Some(entry) = under_way.first_entry()
            && entry.key().0 <= now
        {
            let (end, input) = entry.remove();
            ends[end].handle(now, input, &mut Off);
        }
        for end in &mut ends {
            match timers {
                Timers::Whole if end.next_timeout().is_some_and(|at| at <= now) => {
                    end.on_timeout(now, &mut Off);
                }
                Timers::Whole => {}
                Timers::Parts => {
                    for part in PARTS {
                        if end.timeout_of(part).is_some_and(|at| at <= now) {
                            end.on_timeout_of(part, now, &mut Off);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn two_flows_reach_their_sinks_with_and_without_the_costs_of_hosts() {
    for carriage in [Carriage::Cells, Carriage::Datagrams] {
        for slow in [false, true] {
            let [send, receive] = match slow {
                true => [costs(true), costs(false)],
                false => [HostConfig::default(); 2],
            };
            let server = server(&[1, 2], carriage, send);
            let host = host(&[1, 2], carriage, receive);
            let (_, played) = run([server, host], Span::from_secs(3), Timers::Whole);
            // 24 frames/s from the join on; the slow host takes in one flow and a half.
            let least = if slow { 10 } else { 50 };
            assert!(
                played.iter().all(|&frames| frames > least),
                "{slow} {played:?}"
            );
        }
    }
}

#[test]
fn a_driver_that_runs_the_timers_of_the_parts_sends_the_same() {
    for carriage in [Carriage::Cells, Carriage::Datagrams] {
        let ends = || {
            let server = server(&[1, 2], carriage, costs(true));
            [server, host(&[1, 2], carriage, costs(false))]
        };
        let span = Span::from_secs(2);
        let whole = run(ends(), span, Timers::Whole);
        let parts = run(ends(), span, Timers::Parts);
        assert!(whole.0.len() > 200, "{}", whole.0.len());
        assert!(whole == parts);
    }
}

/// A server whose link is up, drained.
fn ready(flows: &[u32]) -> Station {
    let mut station = server(flows, Carriage::Datagrams, HostConfig::default());
    station.handle(Time::ZERO, SwitchInput::PortUp { port: LINK }, &mut Off);
    drain(&mut station, Time::ZERO);
    station
}

/// What the switch of a station has for its sources.
fn for_sources(signal: Signal) -> SwitchTransmit {
    let port = PortId::LOCAL;
    SwitchTransmit::Signal { port, signal }
}

/// How many sources answer.
fn answers(station: &mut Station) -> usize {
    let mut sources = station.sources.iter_mut();
    let answered = sources
        .by_ref()
        .filter_map(|source| source.poll_transmit(Time::ZERO, &mut Off));
    answered.count()
}

#[test]
fn a_signal_without_a_flow_goes_to_all_sources_and_one_with_a_flow_to_its_own() {
    let mut station = ready(&[1, 2, 3]);
    station.give_inner(Time::ZERO, for_sources(Signal::ListFlows), &mut Off);
    assert_eq!(answers(&mut station), 3);
    let flow = None;
    station.give_inner(Time::ZERO, for_sources(Signal::GetStats { flow }), &mut Off);
    assert_eq!(answers(&mut station), 3);
    let flow = Some(FlowId(2));
    station.give_inner(Time::ZERO, for_sources(Signal::GetStats { flow }), &mut Off);
    assert_eq!(answers(&mut station), 1);
    assert_eq!(station.stats(), StationStats::default());
    let flow = Some(FlowId(9));
    station.give_inner(Time::ZERO, for_sources(Signal::GetStats { flow }), &mut Off);
    assert_eq!(answers(&mut station), 0);
    assert_eq!(station.stats().elsewhere, 1);
}

#[test]
fn what_does_not_decode_is_counted_by_the_station() {
    let mut station = ready(&[1, 2]);
    let pdu = LinkPdu::Cell(Cell {
        vpi: 0,
        vci: ADAPTER_VCI,
        pti: Pti::data(false, true),
        clp: false,
        payload: [0xff; CELL_PAYLOAD],
    });
    let (port, start, tx) = (PortId::LOCAL, Time::ZERO, Span::ZERO);
    let transmit = SwitchTransmit::Pdu {
        port,
        pdu,
        at: (start, tx),
    };
    station.give_inner(Time::ZERO, transmit, &mut Off);
    let stats = StationStats {
        malformed: 1,
        elsewhere: 0,
    };
    assert_eq!(station.stats(), stats);
    assert!(
        station
            .sources()
            .iter()
            .all(|source| source.stats().rejected == 0)
    );
}

#[test]
fn the_switch_is_asked_after_each_unit_of_a_source() {
    let mut station = server(&[1], Carriage::Cells, HostConfig::default());
    let up = SwitchInput::PortUp { port: LINK };
    station.handle(Time::ZERO, up, &mut Off);
    drain(&mut station, Time::ZERO);
    let member = Member {
        name: "host".into(),
        id: NodeId(2),
    };
    let signal = Signal::Join {
        flow: FlowId(1),
        epoch: Epoch::default(),
        member,
        level: Level::FULL,
        proof: None,
        again: false,
        answer: None,
    };
    station.handle(
        Time::ZERO,
        SwitchInput::Signal { port: LINK, signal },
        &mut Off,
    );
    drain(&mut station, Time::ZERO);
    let units = |station: &Station| station.switch().unwrap().stats().ports["local"].units_in;
    let mut now = Time::ZERO;
    let mut bursts = 0;
    for _ in 0..400 {
        now = now.max(station.next_timeout().unwrap());
        station.on_timeout(now, &mut Off);
        let before = units(&station);
        if station.poll_transmit(now, &mut Off).is_some() {
            // The first unit leaves before the source is asked for the next one.
            assert!(units(&station) - before <= 1);
        }
        drain(&mut station, now);
        bursts += u64::from(units(&station) - before > 1);
    }
    assert!(bursts > 0, "the source never had two units");
}

#[test]
fn a_source_that_is_removed_leaves_the_others_in_their_order() {
    let mut station = ready(&[1, 2, 3]);
    assert_eq!(station.remove_source(1).flow().id, FlowId(2));
    let left: Vec<FlowId> = station.sources().iter().map(|it| it.flow().id).collect();
    assert_eq!(left, [FlowId(1), FlowId(3)]);
    assert_eq!(station.source_of(FlowId(3)), Some(1));
    assert!(station.source_mut(2).is_none());
}

#[test]
fn forwarding_allocates_nothing_for_each_unit() {
    let carriage = Carriage::Cells;
    let ends = [
        server(&[1], carriage, HostConfig::default()),
        host(&[], carriage, HostConfig::default()),
    ];
    let [mut server, _] = ends;
    let cell = |vci| {
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci,
            pti: Pti::data(false, false),
            clp: false,
            payload: [0; CELL_PAYLOAD],
        })
    };
    let mut offer = |from: u64, cells: u64| {
        for n in from..from + cells {
            let now = Time::ZERO + Span::from_us(10 * n);
            let pdu = cell(64 + (n % 4) as u16);
            server.handle(now, SwitchInput::Pdu { port: LINK, pdu }, &mut Off);
            while server.poll_transmit(now, &mut Off).is_some() {}
            while server.poll_event().is_some() {}
        }
    };
    offer(0, 100);
    let asked = measure(|| offer(100, 5_000));
    assert!(asked.count_total < 50, "{} allocations", asked.count_total);
}
