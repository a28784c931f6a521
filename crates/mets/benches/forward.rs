//! Media selector and port path: time for each cell or datagram to one and to eight ports.
#![allow(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

#[path = "../tests/switch/common/mod.rs"]
mod common;

use common::ends::{Source, message};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use layercast_core::{FlowId, Level, Machine, NodeId, Off, PortId, Rate, Serial, Time};
use layercast_link::QueueConfig;
use layercast_mets::switch::{PortConfig, Switch, SwitchConfig, SwitchInput};
use layercast_wire::{AdapterKind, Carriage, LinkPdu, Member, Signal};

/// A switch that sends one flow to `branches` ports, and a second of the flow.
fn prepare(carriage: Carriage, branches: u16) -> (Switch, Vec<(Time, LinkPdu)>) {
    let mut switch = Switch::new(SwitchConfig::default());
    let mut source = Source::canyon(1, carriage);
    let now = Time::ZERO;
    let local = PortId::LOCAL;
    let flow = FlowId(1);
    let signal = |port, signal| SwitchInput::Signal { port, signal };
    let flow_info = source.info.clone();
    let advertise = signal(
        local,
        Signal::Advertise {
            flow: Box::new(flow_info),
        },
    );
    switch.handle(now, advertise, &mut Off);
    let info = source.info.clone();
    let adapter = |kind, port| SwitchInput::Pdu {
        port,
        pdu: LinkPdu::Adapter(message(&info, kind, Serial(1), NodeId(1), Level::FULL)),
    };
    for port in (0..branches).map(PortId) {
        let config = PortConfig {
            name: port.0.to_string(),
            rate: Some(Rate::from_bps(10_000_000_000)),
            carriage,
            queue: QueueConfig::of_limit(1 << 20),
            ..PortConfig::default()
        };
        switch.add_port(port, config);
        let member = Member {
            name: "m".into(),
            id: NodeId(1),
        };
        let level = Level::FULL;
        for input in [
            SwitchInput::PortUp { port },
            signal(
                port,
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
            signal(
                local,
                Signal::JoinAck {
                    flow,
                    vci: 101,
                    level,
                    agreed: None,
                },
            ),
            adapter(AdapterKind::Res, port),
        ] {
            switch.handle(now, input, &mut Off);
        }
    }
    switch.handle(now, adapter(AdapterKind::Adapt, local), &mut Off);
    while switch.poll_transmit(now, &mut Off).is_some() {}
    let frames = (0..24).flat_map(|_| {
        let due = source.next_frame().unwrap_or(now);
        source.emit(due)
    });
    let units = frames.collect();
    (switch, units)
}

fn run(switch: &mut Switch, units: Vec<(Time, LinkPdu)>) -> u64 {
    let port = PortId::LOCAL;
    let mut out = 0;
    for (now, pdu) in units {
        switch.handle(now, SwitchInput::Pdu { port, pdu }, &mut Off);
        while switch.poll_transmit(now, &mut Off).is_some() {
            out += 1;
        }
    }
    out
}

fn forward(c: &mut Criterion) {
    for (name, carriage) in [("cell", Carriage::Cells), ("datagram", Carriage::Datagrams)] {
        let mut group = c.benchmark_group(format!("switch/{name}"));
        for branches in [1, 8] {
            let (_, units) = prepare(carriage, branches);
            group.throughput(Throughput::Elements(units.len() as u64));
            group.bench_function(BenchmarkId::new("ports", branches), |b| {
                let setup = || prepare(carriage, branches);
                let route = |(mut switch, units): (Switch, Vec<_>)| {
                    let sent = run(&mut switch, units);
                    assert!(sent > 0);
                    switch
                };
                b.iter_batched(setup, route, BatchSize::LargeInput);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, forward);
criterion_main!(benches);
