//! Queues held against what theory says of them.

use layercast_core::{Rate, Span};
use layercast_sim::internet::*;

use super::common::*;

/// Datagrams with random gaps through one link of 100 Mbit/s, at this load.
fn single_queue(load: f64, size: SizeLaw) -> QueueReport {
    let host = |name: &str| (name.to_owned(), Some(modern(1_448)));
    let mut network = network(vec![host("a"), host("b")], 3_000.0);
    let rate = 100_000_000;
    network
        .links
        .push(link(0, 1, rate, Span::from_ms(1), Limit::Unlimited));
    network.links[0].mtu = 65_535;
    let mean = match size {
        SizeLaw::Constant(bytes) => f64::from(bytes),
        SizeLaw::Exponential(mean) => mean,
        SizeLaw::Cells { mean, .. } => 48.0 * mean - 8.0,
    };
    let gap = Span::from_secs_f64(mean * 8.0 / rate as f64 / load);
    let traffic = Traffic::Datagrams {
        gap: Law::Exponential(gap),
        size,
        bursts: None,
    };
    network.flows.push(flow("load", 0, 1, Span::ZERO, traffic));
    network.warm_up = Span::from_secs(10);
    run(&network).queues.swap_remove(0)
}

#[test]
fn constant_sizes_wait_as_in_md1() {
    for load in [0.5, 0.8] {
        let found = single_queue(load, SizeLaw::Constant(5_000));
        let service = 5_000.0 * 8.0 / 100e6;
        let expected = load * service / (2.0 * (1.0 - load));
        let off = found.mean_wait / expected - 1.0;
        assert!(off.abs() < 0.01, "load {load}: {off}");
        assert!((found.utilisation / load - 1.0).abs() < 0.01);
    }
}

#[test]
fn exponential_sizes_wait_as_in_mm1() {
    for load in [0.5, 0.8] {
        let found = single_queue(load, SizeLaw::Exponential(5_000.0));
        let service = 5_000.0 * 8.0 / 100e6;
        let expected = load * service / (1.0 - load);
        let off = found.mean_wait / expected - 1.0;
        assert!(off.abs() < 0.01, "load {load}: {off}");
    }
}

#[test]
fn red_keeps_the_queue_short_of_a_full_one() {
    let mut network = dumbbell(20, 20_000_000, Span::from_ms(20), Limit::Packets(300), 30.0);
    network.warm_up = Span::from_secs(10);
    let tail = run(&network).queues.swap_remove(0);
    for way in &mut network.links[0].ways {
        way.queue.red = Some(Red {
            min: 20.0,
            max: 60.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: false,
        });
    }
    let red = run(&network).queues.swap_remove(0);
    assert!(red.dropped_red > 100 && red.dropped_full == 0, "{red:?}");
    assert!(
        red.mean_waiting < 0.5 * tail.mean_waiting,
        "{red:?} {tail:?}"
    );
    assert!(red.utilisation > 0.9, "{red:?}");
}

#[test]
fn a_shared_medium_serves_one_after_the_other() {
    let host = |name: &str| (name.to_owned(), Some(modern(1_448)));
    let mut network = network(vec![host("a"), host("b"), host("c")], 1.0);
    network.lans.push(Lan {
        name: "lan".to_owned(),
        rate: Rate::from_bps(10_000_000),
        latency: Span::from_us(10),
        mtu: 1_500,
        stations: vec![NodeIndex(0), NodeIndex(1), NodeIndex(2)],
    });
    // Both send at the same instants: one of each pair waits for the other, 1.2 ms.
    for (name, from) in [("first", 0), ("second", 1)] {
        let traffic = Traffic::Datagrams {
            gap: Law::Constant(Span::from_ms(10)),
            size: SizeLaw::Constant(1_500),
            bursts: None,
        };
        network.flows.push(flow(name, from, 2, Span::ZERO, traffic));
    }
    let report = run(&network);
    let delays: Vec<f64> = report.flows.iter().filter_map(|it| it.mean_delay).collect();
    let sum = delays[0] + delays[1];
    assert!(
        (sum - (1.2e-3 + 2.4e-3 + 2.0 * 10e-6)).abs() < 1e-9,
        "{delays:?}"
    );
    // A draw decides which arrives first, so that neither always does.
    assert!((delays[0] - delays[1]).abs() < 0.6e-3, "{delays:?}");
}

#[test]
fn a_slow_processor_bounds_what_a_router_forwards() {
    let mut network = dumbbell(1, 1_000_000_000, Span::from_ms(1), Limit::Unlimited, 2.0);
    network.flows[0].traffic = Traffic::Datagrams {
        gap: Law::Constant(Span::from_us(500)),
        size: SizeLaw::Constant(1_000),
        bursts: None,
    };
    network.nodes[0].cpu.per_packet = Span::from_us(800);
    network.nodes[0].cpu.per_byte = Span::from_ns(200);
    let flow = &run(&network).flows[0];
    // 800 us and 1000 bytes of 200 ns: one packet a millisecond.
    assert_eq!(flow.sent, 4_001);
    assert!((1_990..=2_000).contains(&flow.received), "{flow:?}");
}

/// Hosts 2 and 3 at routers 0 and 1: datagrams of `bytes` bytes every `us` microseconds.
fn sending(us: u64, bytes: u32) -> Network {
    let mut network = dumbbell(1, 1_000_000_000, Span::from_ms(1), Limit::Unlimited, 1.0);
    network.flows[0].traffic = Traffic::Datagrams {
        gap: Law::Constant(Span::from_us(us)),
        size: SizeLaw::Constant(bytes),
        bursts: None,
    };
    network
}

#[test]
fn a_processor_takes_time_for_what_its_host_sends() {
    let mut network = sending(1_000, 500);
    network.nodes[2].cpu.per_sent = Span::from_us(100);
    network.nodes[2].cpu.per_sent_byte = Span::from_ns(1_000);
    let report = run(&network);
    let mut free = network.clone();
    free.nodes[2].cpu = CpuCost::default();
    let quick = run(&free);
    let delay = |report: &Report| report.flows[0].mean_delay.expect("datagrams");
    // 500 bytes of a microsecond each.
    let more = delay(&report) - delay(&quick);
    assert!((more - 600e-6).abs() < 1e-9, "{more}");
    // Faster than that it sends no more than one each 600 us, and nothing is lost.
    let mut network = sending(300, 500);
    network.nodes[2].cpu.per_sent = Span::from_us(600);
    let report = run(&network);
    let flow = &report.flows[0];
    assert!(
        flow.sent > 3_300 && (1_660..=1_667).contains(&flow.received),
        "{flow:?}"
    );
    // With jitter the same on average, and not to the packet.
    network.nodes[2].cpu.jitter = 0.5;
    let shaky = run(&network);
    let received = shaky.flows[0].received;
    assert!((1_600..=1_740).contains(&received) && received != flow.received);
}

#[test]
fn a_busy_processor_drops_what_comes_beyond_its_queue() {
    let mut network = sending(500, 100);
    network.nodes[3].cpu.per_packet = Span::from_us(1_000);
    network.nodes[3].cpu.queue = Some(20);
    let report = run(&network);
    let flow = &report.flows[0];
    assert!((990..=1_000).contains(&flow.received), "{flow:?}");
    let lost = report.node_drops.busy;
    assert!(
        lost > 900 && flow.sent - flow.received - lost <= 30,
        "{flow:?} {lost}"
    );
}
