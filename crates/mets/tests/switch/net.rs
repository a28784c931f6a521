//! Switches wired to each other: joins, adaptation, squeezes, failures and restarts.

use crate::common::ends::{Receiver, Source};
use crate::common::{END, Net, link, ms};
use layercast_core::{Level, Span};
use layercast_mets::switch::{PortConfig, SwitchEvent};
use layercast_wire::{Carriage, Resource, Signal};
use proptest::prelude::*;

const WIDE: u32 = 100_000;
const BOTH: [Carriage; 2] = [Carriage::Cells, Carriage::Datagrams];

fn receiver(name: &str, want: Level, carriage: Carriage) -> Receiver {
    Receiver::new(name, 1, want, carriage)
}

/// atc -- chuff -- sparrow, a receiver at each switch but the first.
fn chain(carriage: Carriage, capacity: u32) -> Net {
    let mut net = Net::default();
    let nodes = ["atc", "chuff", "sparrow"].map(|name| net.node(name));
    net.wire(nodes[0], nodes[1], link(carriage, WIDE));
    net.wire(nodes[1], nodes[2], link(carriage, capacity));
    net
}

#[test]
fn dwp_gets_e1_and_mr_little_gets_all_from_one_stream() {
    for carriage in BOTH {
        let mut net = chain(carriage, WIDE);
        net.source(0, Source::canyon(1, carriage));
        net.receiver(
            1,
            receiver("dwp", Level::E1, carriage),
            link(carriage, WIDE),
        );
        net.receiver(
            1,
            receiver("mr-little", Level::FULL, carriage),
            link(carriage, WIDE),
        );
        net.run(ms(10_000));
        for receiver in &net.receivers {
            receiver.check();
            assert_eq!(receiver.told(), receiver.want);
        }
        let (dwp, mr_little) = (&net.receivers[0], &net.receivers[1]);
        assert_eq!(dwp.count(ms(0)).e2, 0);
        assert!(dwp.count(ms(5_000)).e1 >= 27);
        assert!(mr_little.count(ms(5_000)).e2 >= 75);
        // One join went to the source, one demand: the larger.
        assert_eq!(net.sources[0].1.joins, 1);
        assert_eq!(net.sources[0].1.asked.last().unwrap().1, Level::FULL);
    }
}

#[test]
fn nobody_gets_more_than_base_before_the_first_adapt() {
    let mut net = chain(Carriage::Cells, WIDE);
    net.source(0, Source::canyon(1, Carriage::Cells));
    net.receiver(
        2,
        receiver("dwp", Level::BASE, Carriage::Cells),
        link(Carriage::Cells, WIDE),
    );
    net.run(ms(4_000));
    net.receivers[0].check();
    let count = net.receivers[0].count(ms(0));
    assert_eq!((count.e1, count.e2), (0, 0));
    assert!(count.base >= 7);
}

/// E5 of specs/mets.md: Canyon over a link of 3500 cells/s beside other base layers.
#[test]
fn base_layers_of_others_squeeze_the_enhancement_layers() {
    for carriage in BOTH {
        let mut net = chain(carriage, 3_500);
        net.source(0, Source::canyon(1, carriage));
        net.source(0, Source::new(2, carriage, [2_150, 0, 0]));
        net.source(0, Source::new(3, carriage, [600, 0, 0]));
        let wide = || link(carriage, WIDE);
        let base = Level::BASE;
        net.receiver(2, Receiver::new("flight", 2, base, carriage), wide());
        net.receiver(2, receiver("canyon", Level::FULL, carriage), wide());
        net.run(ms(20_000));
        let told = |net: &Net| net.receivers[1].told().get();
        assert_eq!(told(&net), 0, "residual 870");
        net.leave(0);
        net.run(ms(23_000));
        assert_eq!(told(&net), 2, "residual 3020");
        net.run(ms(50_000));
        net.receiver(2, Receiver::new("lougher", 3, base, carriage), wide());
        net.run(ms(50_100));
        assert_eq!(told(&net), 1, "residual 2420, reported immediately");
        net.run(ms(60_000));
        assert_eq!(told(&net), 1);
        net.leave(2);
        net.run(ms(65_000));
        assert_eq!(told(&net), 2, "and back");
        for receiver in &net.receivers {
            receiver.check();
        }
        let levels: Vec<u8> = net.receivers[1].adapts.iter().map(|a| a.1.get()).collect();
        let mut steps = levels.clone();
        steps.dedup();
        assert_eq!(steps, [0, 2, 1, 2]);
        let granted = |event: &SwitchEvent| match event {
            SwitchEvent::Granted { reason, .. } => Some(*reason),
            _ => None,
        };
        let mut reasons = net.nodes[1]
            .events
            .iter()
            .filter_map(|(_, event)| granted(event));
        assert!(reasons.any(|reason| reason == "base layer admitted"));
    }
}

#[test]
fn a_base_layer_that_does_not_fit_is_refused_with_the_shortfall() {
    let mut net = chain(Carriage::Datagrams, 1_000);
    let wide = || link(Carriage::Datagrams, WIDE);
    net.source(0, Source::canyon(1, Carriage::Datagrams));
    net.source(0, Source::new(2, Carriage::Datagrams, [600, 0, 0]));
    net.receiver(
        2,
        receiver("first", Level::FULL, Carriage::Datagrams),
        wide(),
    );
    net.run(ms(3_000));
    let second = Receiver::new("second", 2, Level::BASE, Carriage::Datagrams);
    net.receiver(2, second, wide());
    net.run(ms(10_000));
    let refusal = &net.receivers[1].refusals[0];
    assert_eq!(refusal.node, "chuff");
    assert_eq!(refusal.resource, Resource::Link);
    assert_eq!((refusal.needed, refusal.available), (600, 520));
    net.receivers[0].check();
    assert!(net.receivers[0].count(ms(3_000)).base >= 13);
    // What sparrow had set aside for it is free again.
    assert_eq!(net.switch(2).reserved_on(layercast_core::PortId(2)).0, 0);
}

#[test]
fn a_refusal_of_the_source_reaches_the_receiver() {
    let mut net = chain(Carriage::Cells, WIDE);
    let mut source = Source::canyon(1, Carriage::Cells);
    source.refuse = true;
    net.source(0, source);
    net.receiver(
        2,
        receiver("dwp", Level::FULL, Carriage::Cells),
        link(Carriage::Cells, WIDE),
    );
    net.run(ms(2_000));
    assert_eq!(net.receivers[0].refusals[0].resource, Resource::HostCpu);
    for node in 0..3 {
        for port in 0..2 {
            assert_eq!(
                net.switch(node).reserved_on(layercast_core::PortId(port)).0,
                0
            );
        }
    }
}

#[test]
fn cells_and_datagrams_are_not_mixed() {
    let mut net = chain(Carriage::Cells, WIDE);
    net.source(0, Source::canyon(1, Carriage::Cells));
    let carriage = Carriage::Datagrams;
    net.receiver(
        2,
        receiver("dwp", Level::FULL, carriage),
        link(carriage, WIDE),
    );
    net.run(ms(2_000));
    assert_eq!(net.receivers[0].refusals[0].resource, Resource::Carriage);
}

#[test]
fn after_the_last_leave_nothing_flows_and_nothing_is_reserved() {
    let mut net = chain(Carriage::Datagrams, WIDE);
    net.source(0, Source::canyon(1, Carriage::Datagrams));
    let wide = || link(Carriage::Datagrams, WIDE);
    net.receiver(2, receiver("a", Level::FULL, Carriage::Datagrams), wide());
    net.receiver(2, receiver("b", Level::E1, Carriage::Datagrams), wide());
    net.run(ms(5_000));
    net.leave(0);
    net.run(ms(8_000));
    assert_eq!(net.sources[0].1.leaves, 0);
    assert_eq!(
        net.sources[0].1.asked.last().unwrap().1,
        Level::E1,
        "the merge drops it"
    );
    net.leave(1);
    net.run(ms(9_000));
    assert_eq!(net.sources[0].1.leaves, 1);
    let copies = net.switch(0).copies();
    net.run(ms(12_000));
    assert_eq!(net.switch(0).copies(), copies);
    assert_eq!(net.switch(1).reserved_on(layercast_core::PortId(1)).0, 0);
    net.receivers[1].check();
}

#[test]
fn a_restarted_switch_is_back_in_service() {
    for carriage in BOTH {
        let mut net = chain(carriage, WIDE);
        net.source(0, Source::canyon(1, carriage));
        net.receiver(
            0,
            receiver("near", Level::FULL, carriage),
            link(carriage, WIDE),
        );
        net.receiver(
            2,
            receiver("far", Level::FULL, carriage),
            link(carriage, WIDE),
        );
        net.run(ms(6_000));
        net.kill(1);
        net.run(ms(8_000));
        net.restart(1);
        net.run(ms(14_000));
        let (near, far) = (&net.receivers[0], &net.receivers[1]);
        near.check();
        assert_eq!(near.told(), Level::FULL, "the rest continued");
        assert_eq!(far.told(), Level::FULL);
        assert!(
            far.count(ms(12_000)).e2 >= 28,
            "{carriage:?} {:?}",
            far.count(ms(12_000))
        );
        assert_eq!(far.count(ms(12_000)).base, near.count(ms(12_000)).base);
        assert!(far.refusals.is_empty());
    }
}

#[test]
fn a_switch_that_stays_away_costs_its_branch_after_three_eras() {
    let mut net = chain(Carriage::Datagrams, WIDE);
    net.source(0, Source::canyon(1, Carriage::Datagrams));
    let wide = link(Carriage::Datagrams, WIDE);
    net.receiver(2, receiver("far", Level::FULL, Carriage::Datagrams), wide);
    net.run(ms(5_000));
    net.kill(1);
    net.run(ms(7_000));
    assert_eq!(net.level(0, 1, layercast_core::PortId(0)), Some(2));
    net.run(ms(8_600));
    assert_eq!(net.level(0, 1, layercast_core::PortId(0)), None);
    assert_eq!(net.switch(0).reserved_on(layercast_core::PortId(0)).0, 0);
    let expired = |event: &SwitchEvent| matches!(event, SwitchEvent::BranchExpired { .. });
    assert!(net.nodes[0].events.iter().any(|(_, event)| expired(event)));
    assert_eq!(net.sources[0].1.leaves, 1);
    // It is restarted after all: everything is built again without touching the server.
    net.restart(1);
    net.run(ms(14_000));
    assert_eq!(net.receivers[0].told(), Level::FULL);
    assert!(net.receivers[0].count(ms(12_000)).e2 >= 28);
}

#[test]
fn a_silent_member_falls_to_the_base_layer_and_keeps_it() {
    let mut net = chain(Carriage::Cells, WIDE);
    net.source(0, Source::canyon(1, Carriage::Cells));
    let wide = || link(Carriage::Cells, WIDE);
    let port = net.receiver(1, receiver("mute", Level::FULL, Carriage::Cells), wide());
    net.receiver(1, receiver("other", Level::FULL, Carriage::Cells), wide());
    net.run(ms(5_000));
    assert_eq!(net.level(1, 1, port), Some(2));
    net.silence(0, false);
    net.run(ms(9_000));
    assert_eq!(
        net.level(1, 1, port),
        Some(0),
        "the channel is up: level 0, still a branch"
    );
    net.receivers[1].check();
    assert_eq!(net.receivers[1].told(), Level::FULL);
    net.silence(0, true);
    net.run(ms(9_400));
    assert_eq!(net.level(1, 1, port), None);
}

#[test]
fn close_comes_after_the_last_frame() {
    let mut net = chain(Carriage::Datagrams, WIDE);
    // 4000 cells/s on the last link: the queue is long when the source ends.
    let narrow = PortConfig {
        rate: Some(layercast_core::Rate::from_bps(4_000 * 424)),
        ..link(Carriage::Datagrams, 4_000)
    };
    net.source(0, Source::canyon(1, Carriage::Datagrams));
    net.receiver(2, receiver("dwp", Level::FULL, Carriage::Datagrams), narrow);
    net.run(ms(5_020));
    net.close(0);
    net.run(ms(5_500));
    let receiver = &net.receivers[0];
    let last = receiver.frames.last().unwrap();
    assert_eq!(last.seq, net.sources[0].1.frame - 1);
    assert!(last.at <= receiver.closed_at.unwrap() + Span::from_us(200));
    // It is passed on as it came.
    assert!(matches!(&receiver.close, Some(Signal::Close { last, .. }) if *last == Some(END)));
    net.run(ms(9_000));
    for node in 0..3 {
        let gone = |event: &SwitchEvent| matches!(event, SwitchEvent::FlowGone { .. });
        assert!(net.nodes[node].events.iter().any(|(_, event)| gone(event)));
        assert_eq!(
            layercast_core::Machine::next_timeout(net.switch(node)),
            None
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    /// Whatever the order of joins, leaves and rate changes: every GOP arrives complete at the level that was
    /// reported before it.
    #[test]
    fn every_gop_is_complete_at_the_level_that_was_told(
        capacity in 500u32..7_000,
        cells in any::<bool>(),
        joins in prop::collection::vec((0u64..8_000, 0u8..3, 1u32..3, prop::option::of(500u64..6_000)), 1..5),
    ) {
        let carriage = if cells { Carriage::Cells } else { Carriage::Datagrams };
        let mut net = chain(carriage, capacity);
        net.source(0, Source::canyon(1, carriage));
        net.source(0, Source::new(2, carriage, [300, 600, 800]));
        let mut steps: Vec<(u64, Option<usize>, u8, u32)> = Vec::new();
        let mut order: Vec<_> = joins.clone();
        order.sort();
        for (index, &(at, want, flow, stay)) in order.iter().enumerate() {
            steps.push((at, None, want, flow));
            if let Some(stay) = stay {
                steps.push((at + stay, Some(index), 0, 0));
            }
        }
        steps.sort();
        for (at, leaving, want, flow) in steps {
            net.run(ms(at.max(net.now.as_us() / 1_000)));
            match leaving {
                Some(index) => net.leave(index),
                None => {
                    let name = format!("r{}", net.receivers.len());
                    let want = Level::new(want).unwrap();
                    let receiver = Receiver::new(&name, flow, want, carriage);
                    net.receiver(2, receiver, link(carriage, WIDE));
                }
            }
        }
        net.run(ms(20_000));
        for receiver in &net.receivers {
            receiver.check();
            prop_assert!(receiver.told() <= receiver.want);
        }
        let reserved = net.switch(1).reserved_on(layercast_core::PortId(1)).0;
        prop_assert!(reserved <= capacity);
        for node in 0..3 {
            for port in net.switch(node).stats().ports.values() {
                prop_assert_eq!(port.dropped().base, 0);
            }
        }
    }

    /// A middle switch that dies and comes back at any time, once or twice.
    #[test]
    fn the_base_layer_returns_after_any_restart(
        down in prop::collection::vec((500u64..4_000, 50u64..5_000), 1..3),
        node in 1usize..3,
    ) {
        let mut net = chain(Carriage::Datagrams, WIDE);
        net.source(0, Source::canyon(1, Carriage::Datagrams));
        let wide = link(Carriage::Datagrams, WIDE);
        net.receiver(2, receiver("far", Level::FULL, Carriage::Datagrams), wide);
        for (up, away) in down {
            net.run(net.now + Span::from_ms(up));
            net.kill(node);
            net.run(net.now + Span::from_ms(away));
            net.restart(node);
        }
        let end = net.now + Span::from_secs(8);
        net.run(end);
        let last = net.receivers[0].count(end - Span::from_secs(3));
        prop_assert!(last.base >= 5 && last.e2 >= 40, "{:?}", last);
    }
}
