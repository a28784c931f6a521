//! Random media: frames of any size, receivers that come and go, losses, and sources that start again.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::ends::{Receiver, Source};
use crate::common::{Net, link};
use layercast_core::{Level, Machine, PerLayer, PortId, Rate, Span, Stream, Time};
use layercast_link::QueueConfig;
use layercast_mets::switch::PortConfig;
use layercast_wire::Carriage;
use proptest::prelude::*;

/// Mean cells/s of the layers of two flows. A frame of the base layer has up to half of the first.
const RATES: [[u32; 3]; 2] = [[480, 960, 1_920], [300, 600, 800]];
/// Cells in a queue: enough for the largest base frames of both flows in the quarter that only they may use.
const QUEUE: u32 = 2_048;

#[derive(Clone, Debug)]
enum Step {
    /// A receiver joins flow `.0` at switch `.1` and wants level `.2`.
    Join(usize, usize, u8),
    /// A receiver leaves, or is gone without a word.
    Leave(usize, bool),
    /// The frames of a flow get other sizes, in thousandths of what is declared; of enhancement layers also more than that.
    Sizes(usize, [u32; 3]),
    /// The source of a flow starts again.
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = || 0usize..2;
    prop_oneof![
        4 => (flow(), 0usize..2, 0u8..3).prop_map(|(flow, node, want)| Step::Join(flow, node, want)),
        2 => (0usize..8, any::<bool>()).prop_map(|(index, farewell)| Step::Leave(index, farewell)),
        2 => (flow(), 1u32..=1_000, 0u32..3_000, 0u32..3_000)
            .prop_map(|(flow, base, e1, e2)| Step::Sizes(flow, [base, e1, e2])),
        1 => flow().prop_map(Step::Restart),
    ]
}

/// A line of this many cells/s.
fn line(carriage: Carriage, cells: u32) -> PortConfig {
    PortConfig {
        rate: Some(Rate::from_bps(u64::from(cells) * 424)),
        queue: QueueConfig::of_limit(QUEUE),
        ..link(carriage, cells)
    }
}

/// The source of a flow that is in progress.
fn running(net: &Net, flow: usize) -> usize {
    let id = flow as u32 + 1;
    let of_flow = |(_, source): &(usize, Source)| source.info.id.0 == id;
    net.sources.iter().rposition(of_flow).unwrap()
}

fn resize(source: &mut Source, [base, e1, e2]: [u32; 3]) {
    let rates = RATES[source.info.id.0 as usize - 1];
    let part = |mean: u32, frames: u32, permille: u32| mean * permille / frames / 1_000;
    source.sizes = PerLayer {
        base: part(rates[0], 2, base).max(1),
        e1: part(rates[1], 6, e1),
        e2: part(rates[2], 16, e2),
    };
}

fn act(net: &mut Net, carriage: Carriage, capacity: u32, step: &Step) {
    match *step {
        Step::Join(flow, node, want) => {
            let name = format!("r{}", net.receivers.len());
            let want = Level::new(want).unwrap();
            let receiver = Receiver::new(&name, flow as u32 + 1, want, carriage);
            net.receiver(node, receiver, line(carriage, capacity));
        }
        Step::Leave(index, farewell) if index < net.receivers.len() => match farewell {
            true => net.leave(index),
            false => net.silence(index, true),
        },
        Step::Leave(..) => {}
        Step::Sizes(flow, sizes) => {
            let running = running(net, flow);
            resize(&mut net.sources[running].1, sizes);
        }
        Step::Restart(flow) => {
            let before = running(net, flow);
            let old = &net.sources[before].1;
            // At the next start of a GOP, so that the flow stays within its rate.
            let gop = u64::from(old.frame.next_multiple_of(12));
            let start = old.start + old.info.spec.frame_rate.due(gop);
            let mut source = Source::new(flow as u32 + 1, carriage, RATES[flow]);
            source.info.epoch.0 = start.as_us() + 1;
            source.start = start;
            net.run(start);
            net.close(before);
            net.source(0, source);
        }
    }
}

/// What must hold at any time.
fn check(net: &Net, capacity: u32) {
    for node in 0..net.nodes.len() {
        let switch = net.switch(node);
        for (name, port) in switch.stats().ports {
            assert_eq!(
                port.dropped().base,
                0,
                "base layer at port {name} of {node}"
            );
            let Ok(id) = name.parse().map(PortId) else {
                continue;
            };
            assert!(switch.queue(id).unwrap() <= QUEUE);
            assert!(switch.reserved_on(id).0 <= capacity);
        }
    }
}

/// What must add up once nothing is in a queue or on a line.
fn check_sums(net: &Net) {
    for node in 0..net.nodes.len() {
        let stats = net.switch(node).stats();
        let sum =
            |of: fn(&layercast_link::PortStats) -> u64| stats.ports.values().map(of).sum::<u64>();
        let (sent, dropped) = (sum(|it| it.units_out), sum(|it| it.dropped().total()));
        assert_eq!(
            sent + dropped,
            stats.copies + sum(|it| it.adapter),
            "node {node}: {stats:?}"
        );
    }
    let port = |node: usize, name: &str| net.switch(node).stats().ports[name];
    for (from, to) in [(0, 1), (1, 0)] {
        let lost = net
            .lost
            .get(&(from, PortId(0)))
            .copied()
            .unwrap_or_default();
        assert_eq!(
            port(from, "0").units_out - lost,
            port(to, "0").units_in,
            "{from} to {to}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 16))]

    #[test]
    fn random_media_keep_the_base_layer_and_leave_nothing_behind(
        capacity in 400u32..5_000,
        cells in prop::bool::weighted(0.2),
        lossy in any::<bool>(),
        seed in any::<u64>(),
        steps in prop::collection::vec((50u64..700, step()), 1..12),
    ) {
        let carriage = if cells { Carriage::Cells } else { Carriage::Datagrams };
        let mut net = Net::default();
        let nodes = ["atc", "site"].map(|name| net.node(name));
        net.wire(nodes[0], nodes[1], line(carriage, capacity));
        let fresh: Vec<usize> = nodes.map(|node| format!("{:?}", net.switch(node)).len()).to_vec();
        for (flow, rates) in RATES.into_iter().enumerate() {
            net.source(0, Source::new(flow as u32 + 1, carriage, rates));
        }
        let lossy = Rc::new(RefCell::new(lossy.then(|| Stream::new(seed, "losses"))));
        let losses = Rc::clone(&lossy);
        net.loses = Some(Box::new(move || {
            losses.borrow_mut().as_mut().is_some_and(|stream| stream.below(100) < 8)
        }));
        for (wait, step) in &steps {
            let until = net.now + Span::from_ms(*wait);
            net.run(until);
            act(&mut net, carriage, capacity, step);
            check(&net, capacity);
        }
        // Without losses each receiver that was admitted gets each base frame.
        *lossy.borrow_mut() = None;
        let settled = net.now + Span::from_secs(3);
        net.run(settled);
        let end = settled + Span::from_secs(2);
        net.run(end);
        check(&net, capacity);
        for receiver in net.receivers.iter().filter(|it| it.joined && !it.silent) {
            // Two a second; one may be on its way at either end.
            let base = receiver.count(settled).base;
            prop_assert!((3..=5).contains(&base), "{} got {base}: {:?}", receiver.member.name, steps);
            prop_assert!(receiver.told() <= receiver.want);
        }
        for index in 0..net.receivers.len() {
            net.leave(index);
        }
        let last = net.now + Span::from_ms(500);
        net.run(last);
        for flow in 0..2 {
            let running = running(&net, flow);
            net.close(running);
        }
        // Members that are gone are listed for 60 s.
        let over: Time = net.now + Span::from_secs(70);
        net.run(over);
        check_sums(&net);
        for (node, fresh) in nodes.into_iter().zip(fresh) {
            let switch = net.switch(node);
            prop_assert_eq!(switch.next_timeout(), None);
            for name in switch.stats().ports.keys() {
                let id = name.parse().map_or(PortId::LOCAL, PortId);
                prop_assert_eq!((switch.queue(id), switch.reserved_on(id).0), (Some(0), 0));
            }
            // The ports of receivers that left stay, as their driver has not removed them.
            let ports = switch.stats().ports.len();
            let size = format!("{switch:?}").len();
            prop_assert!(size < fresh * (ports + 1), "{size} of {fresh}, {ports} ports");
        }
    }
}
