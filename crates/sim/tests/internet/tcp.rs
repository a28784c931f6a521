use layercast_core::quantity::Quantity as _;
use layercast_core::{Span, Time};
use layercast_link::Outages;
use layercast_sim::internet::*;
use layercast_tcp::{TcpConfig, Variant};

use super::common::*;

#[test]
fn ten_flows_fill_a_link_and_share_it() {
    let limit = Limit::Packets(200);
    let network = dumbbell(10, 100_000_000, Span::from_ms(10), limit, 20.0);
    let report = run(&network);
    let total: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
    // 1448 of 1500 bytes are data.
    assert!(total > 0.93 * 96.5e6 && total < 96.6e6, "{total}");
    let squares: f64 = report.flows.iter().map(|it| it.goodput_bps.powi(2)).sum();
    let fairness = total * total / (10.0 * squares);
    assert!(fairness > 0.8, "{fairness}");
    let bottleneck = &report.queues[0];
    assert!(bottleneck.dropped_full > 0);
    assert_eq!(bottleneck.max_waiting, 200);
    assert!(bottleneck.utilisation > 0.95 && bottleneck.utilisation <= 1.0);
    let retransmitted: u64 = report.flows.iter().map(|flow| flow.retransmitted).sum();
    assert!(retransmitted >= bottleneck.dropped_full / 2);
}

#[test]
fn a_bounded_transfer_ends_and_says_when() {
    let mut network = dumbbell(1, 10_000_000, Span::from_ms(20), Limit::Unlimited, 10.0);
    network.flows[0].traffic = Traffic::Bulk(Some(1_000_000));
    let flow = &run(&network).flows[0];
    assert_eq!(flow.bytes, 1_000_000);
    // The bytes with their headers at 10 Mbit/s, and a few round trips of 44 ms.
    let least = 1_000_000.0 * 1_500.0 / 1_448.0 * 8.0 / 10e6;
    let took = flow.completed.expect("an end");
    assert!(took > least && took < least + 0.4, "{took}");
    assert_eq!((flow.retransmitted, flow.timeouts), (0, 0));
}

/// What is under way at the stop is delivered after it: it counts, and so does its time.
#[test]
fn the_goodput_of_a_flow_that_stops_is_that_of_its_link_at_most() {
    let run = |traffic: Traffic| {
        let mut network = dumbbell(1, 10_000_000, Span::from_ms(20), Limit::Unlimited, 1.5);
        network.flows[0].traffic = traffic;
        network.flows[0].stop = Some(Time::ZERO + Span::from_secs(1));
        run(&network).flows.swap_remove(0)
    };
    // 20 Mbit/s for a second: it is all there after two.
    let gap = Law::Constant(Span::from_us(600));
    let size = SizeLaw::Constant(1_500);
    for traffic in [
        Traffic::Bulk(None),
        Traffic::Datagrams {
            gap,
            size,
            bursts: None,
        },
    ] {
        let flow = run(traffic);
        assert_eq!(flow.completed, None);
        assert!(
            (8e6..10e6).contains(&flow.goodput_bps),
            "{}",
            flow.goodput_bps
        );
    }
}

#[test]
fn loss_on_the_way_loses_no_data() {
    let mut network = dumbbell(1, 10_000_000, Span::from_ms(5), Limit::Unlimited, 60.0);
    network.flows[0].traffic = Traffic::Bulk(Some(2_000_000));
    for way in &mut network.links[0].ways {
        way.impair = Impairments::losing(0.02);
    }
    let report = run(&network);
    assert_eq!(report.flows[0].bytes, 2_000_000);
    assert!(report.flows[0].completed.is_some());
    assert!(report.queues[0].lost > 10 && report.flows[0].retransmitted >= report.queues[0].lost);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let bytes = |seed| {
        let mut network = dumbbell(3, 5_000_000, Span::from_ms(10), Limit::Packets(20), 5.0);
        network.seed = seed;
        serde_json::to_string(&run(&network)).expect("JSON")
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn large_segments_are_cut_and_put_together() {
    let mut network = dumbbell(1, 10_000_000, Span::from_ms(1), Limit::Unlimited, 5.0);
    network.flows[0].traffic = Traffic::Bulk(Some(300_000));
    network.links[0].mtu = 576;
    let report = run(&network);
    assert_eq!(report.flows[0].bytes, 300_000);
    // Each segment of 1500 bytes goes in three parts through the middle.
    assert!(report.queues[0].sent > 3 * 207);
}

#[test]
fn an_overshoot_of_slow_start_is_not_repeated_for_ever() {
    // The segments lost in it stay outstanding until the time-out, more than twice what the path holds.
    let mut network = dumbbell(1, 100_000_000, Span::from_ms(3), Limit::Packets(84), 5.0);
    for way in &mut network.links[0].ways {
        way.queue.red = Some(Red {
            min: 7.0,
            max: 21.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: false,
        });
    }
    let tcp = TcpConfig {
        variant: Variant::Sack,
        fast_tick: None,
        timestamps: false,
        ..modern(1_448)
    };
    for node in &mut network.nodes {
        if let Role::Host(host) = &mut node.role {
            **host = tcp.clone();
        }
    }
    network.warm_up = Span::from_secs(1);
    let flow = &run(&network).flows[0];
    assert!(flow.goodput_bps > 70e6, "{flow:?}");
}

/// Equal flows of NewReno at a queue of one packet: with the same start and the same round trip they move in step, and a flow that finds
/// the queue full finds it full again (phase effects, Floyd and Jacobson 1992).
fn at_a_queue_of_one_packet(jitter: Span, seed: u64) -> Vec<f64> {
    let mut network = dumbbell(4, 10_000_000, Span::from_ms(10), Limit::Packets(1), 200.0);
    for node in &mut network.nodes {
        if let Role::Host(config) = &mut node.role {
            config.variant = Variant::NewReno;
            config.sack = false;
        }
    }
    network.seed = seed;
    network.warm_up = Span::from_secs(20);
    for flow in &mut network.flows {
        flow.start_jitter = jitter;
    }
    let report = run(&network);
    report
        .flows
        .iter()
        .map(|flow| flow.goodput_bps / 1e6)
        .collect()
}

#[test]
fn equal_flows_share_a_queue_of_one_packet() {
    for seed in 1..4 {
        let rates = at_a_queue_of_one_packet(Span::from_secs(1), seed);
        let mean = rates.iter().sum::<f64>() / 4.0;
        assert!(
            rates.iter().all(|rate| (rate / mean - 1.0).abs() < 0.1),
            "{seed}: {rates:?}"
        );
    }
}

/// Nothing is sent again that is on its way, where nothing is reordered and no acknowledgement is lost.
#[test]
fn no_more_is_sent_again_than_a_queue_has_dropped() {
    let mut judged = 0;
    for variant in [Variant::Sack, Variant::Cubic, Variant::Linux] {
        for (bps, limit) in [(10_000_000, 20), (50_000_000, 200), (50_000_000, 400)] {
            let mut network = dumbbell(1, bps, Span::from_ms(20), Limit::Packets(limit), 15.0);
            for node in &mut network.nodes {
                if let Role::Host(config) = &mut node.role {
                    config.variant = variant;
                    // With nothing new to send, RFC 6675 sends the last segment again (NextSeg, rule 4).
                    (config.send_buffer, config.recv_buffer) = (8 << 20, 8 << 20);
                }
            }
            let report = run(&network);
            let (flow, queue) = (&report.flows[0], &report.queues[0]);
            // A time-out sends again what has arrived, too.
            if flow.timeouts == 0 && queue.dropped_full > 0 {
                judged += 1;
                let most = queue.dropped_full;
                assert!(flow.retransmitted <= most, "{variant:?} {most} {flow:?}");
            }
        }
    }
    assert!(judged > 1, "{judged}");
}

/// The connection of a flow that gives up tells what it did until then, and when that was.
#[test]
fn a_connection_that_fails_keeps_its_counters() {
    let run = |down: &str, traffic: Traffic| {
        let mut network = dumbbell(1, 10_000_000, Span::from_ms(5), Limit::Unlimited, 30.0);
        network.links[0].down = [(); 2].map(|()| Outages::parse(down).unwrap());
        network.flows[0].traffic = traffic;
        for node in &mut network.nodes {
            if let Role::Host(tcp) = &mut node.role {
                tcp.max_retries = 3;
            }
        }
        run(&network).flows.swap_remove(0)
    };
    let late = run("2s..29s", Traffic::Bulk(None));
    let at = late.failed.expect("a failure");
    assert!(at > 2.0 && at < 29.0, "{at}");
    assert!(late.bytes > 1_000_000 && late.offered_bytes > Some(late.bytes));
    assert!(late.sent * 1_448 > late.bytes && late.received > 500);
    assert_eq!(late.timeouts, 4, "{late:?}");
    // The first segment does not arrive either.
    let never = run("0s..29s", Traffic::Bulk(Some(1_000)));
    assert!(never.failed.is_some() && never.completed.is_none());
    assert_eq!((never.sent, never.offered_bytes), (4, Some(0)), "{never:?}");
    // Without a failure nothing is said of one.
    let whole = run("2s..2100ms", Traffic::Bulk(Some(5_000_000)));
    assert!(whole.failed.is_none() && whole.completed.is_some());
    let json = serde_json::to_string(&whole).unwrap();
    assert!(!json.contains("failed"), "{json}");
}
