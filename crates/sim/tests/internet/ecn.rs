//! Marks instead of drops: DCTCP at a threshold, and TCP with ECN at RED.

use layercast_core::Span;
use layercast_sim::internet::*;
use layercast_tcp::{EcnMode, TcpConfig, Variant};

use super::common::*;

/// `flows` flows to one host through a port of `bps` that marks above `threshold` packets, with a round trip of 100 us.
fn dctcp(flows: u32, bps: u64, threshold: u32, seconds: f64) -> Network {
    let tcp = TcpConfig {
        variant: Variant::Dctcp,
        ecn: EcnMode::EachMark,
        slow_tick: Span::from_us(10),
        min_rto: 1_000,
        first_rto: 1_000,
        max_rto: 1_000_000,
        timestamps: false,
        send_buffer: 4 << 20,
        recv_buffer: 4 << 20,
        ..modern(1_460)
    };
    let host = |name: String| (name, Some(tcp.clone()));
    let mut nodes = vec![("switch".to_owned(), None), host("sink".to_owned())];
    nodes.extend((0..flows).map(|n| host(format!("host{n}"))));
    let mut network = network(nodes, seconds);
    network.warm_up = Span::from_secs_f64(seconds / 2.0);
    let delay = Span::from_us(24);
    let mut port = link(0, 1, bps, delay, Limit::Packets(1_000));
    port.ways[0].queue.mark = Some(Limit::Packets(threshold));
    network.links.push(port);
    for n in 0..flows {
        let access = link(2 + n, 0, 4 * bps, delay, Limit::Unlimited);
        network.links.push(access);
        let bulk = Traffic::Bulk(None);
        let mut flow = flow(&format!("flow{n}"), 2 + n, 1, Span::ZERO, bulk);
        flow.start_jitter = Span::from_ms(1);
        network.flows.push(flow);
    }
    network
}

#[test]
fn the_queue_of_dctcp_is_its_threshold_and_the_sawtooth_of_theory() {
    // Alizadeh et al., Data Center TCP, SIGCOMM 2010, 3.3 and figure 12: 10 Gbit/s, 100 us, K = 40. At most K + N packets, and
    // a sawtooth of sqrt(2 N (C RTT + K)) / 2 below it if all flows reduce their windows in one round trip.
    for flows in [2, 10] {
        let report = run(&dctcp(flows, 10_000_000_000, 40, 0.2));
        let queue = &report.queues[0];
        let (n, k) = (f64::from(flows), 40.0);
        let path = 10e9 * 100e-6 / 8.0 / 1_500.0;
        let most = k + n;
        let least = most - (2.0 * n * (path + k)).sqrt() / 2.0;
        let mean = queue.mean_waiting;
        assert!((least..=most).contains(&mean), "{least} {mean} {most}");
        // An acknowledgement of two segments releases two.
        let largest = f64::from(queue.max_waiting);
        assert!((most - n..=most + n + 3.0).contains(&largest), "{queue:?}");
        assert!(queue.utilisation > 0.999, "{queue:?}");
        assert_eq!((queue.dropped_full, report.flows[0].timeouts), (0, 0));
        let shares = report.flows.iter().map(|flow| flow.goodput_bps / 10e9 * n);
        assert!(shares.clone().all(|share| (0.7..1.3).contains(&share)));
    }
}

#[test]
fn at_a_gigabit_the_queue_is_that_of_the_testbed() {
    // The same paper, 4.1 and figure 13: 1 Gbit/s, K = 20, 2 flows at 0.95 Gbit/s, a queue of about 20 packets.
    let report = run(&dctcp(2, 1_000_000_000, 20, 0.6));
    let queue = &report.queues[0];
    assert!((15.0..23.0).contains(&queue.mean_waiting), "{queue:?}");
    let goodput: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
    assert!(goodput > 0.95e9, "{goodput}");
    // Without marks the queue is full.
    let mut tail = dctcp(2, 1_000_000_000, 20, 0.6);
    tail.links[0].ways[0].queue = Queue {
        limit: Limit::Packets(400),
        red: None,
        mark: None,
    };
    let tail = run(&tail).queues.swap_remove(0);
    assert!(tail.mean_waiting > 10.0 * 20.0, "{tail:?}");
}

#[test]
fn a_threshold_in_bytes_is_one_in_packets() {
    let mut network = dctcp(2, 1_000_000_000, 20, 0.2);
    let packets = run(&network).queues.swap_remove(0);
    // With half of the packet that is being sent, on average.
    network.links[0].ways[0].queue.mark = Some(Limit::Bytes(41 * 750));
    let bytes = run(&network).queues.swap_remove(0);
    let off = bytes.mean_waiting - packets.mean_waiting;
    assert!(off.abs() < 1.0, "{bytes:?} {packets:?}");
}

#[test]
fn red_marks_instead_of_dropping() {
    let run = |ecn: EcnMode, is_marking: bool| {
        let mut network = dumbbell(10, 20_000_000, Span::from_ms(20), Limit::Packets(300), 20.0);
        network.warm_up = Span::from_secs(5);
        network.links[0].ways[0].queue.red = Some(Red {
            min: 20.0,
            max: 60.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: is_marking,
        });
        for node in &mut network.nodes {
            if let Role::Host(config) = &mut node.role {
                (config.variant, config.ecn) = (Variant::Sack, ecn);
            }
        }
        run(&network)
    };
    let marked = run(EcnMode::Classic, true);
    let (queue, flows) = (&marked.queues[0], &marked.flows);
    assert!(queue.marked > 100, "{queue:?}");
    assert_eq!((queue.dropped_red, queue.dropped_full), (0, 0));
    let again: u64 = flows.iter().map(|flow| flow.retransmitted).sum();
    let reduced: u64 = flows.iter().map(|flow| flow.ecn_reductions).sum();
    // At most one reduction for a mark; several marks in a window are one.
    assert!(again == 0 && reduced > 50 && reduced <= queue.marked);
    // As often as it would drop.
    let dropped = run(EcnMode::Off, true);
    assert_eq!(dropped.queues[0].marked, 0);
    let ratio = queue.marked as f64 / dropped.queues[0].dropped_red as f64;
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
    // A queue that does not mark drops, whatever the hosts can.
    let old = run(EcnMode::Classic, false);
    assert!(old.queues[0].marked == 0 && old.queues[0].dropped_red > 50);
}

#[test]
fn marks_survive_in_packets_that_are_cut() {
    let mut network = dctcp(2, 1_000_000_000, 20, 0.1);
    // The threshold is at the second of two links; the parts of a packet are put together behind it.
    network.links[0].mtu = 800;
    let report = run(&network);
    assert!(report.queues[0].marked > 100);
    assert!(report.flows.iter().all(|flow| flow.ecn_reductions > 10));
}
