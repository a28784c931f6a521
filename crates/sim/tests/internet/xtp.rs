//! Flows of XTP through an internetwork: the machine of `transport`, beside TCP.

use layercast_core::Span;
use layercast_sim::internet::*;
use layercast_wire::XtpService;
use layercast_xtp::{Ask, RateCounts, Retransmission, XtpConfig, XtpRate};

use super::common::*;

/// The flows of a dumbbell of XTP, each of `bytes` bytes.
fn of_xtp(mut network: Network, bytes: Option<u64>, config: &XtpConfig) -> Network {
    for flow in &mut network.flows {
        let config = Box::new(config.clone());
        let delivery = XtpDelivery::Ip;
        flow.traffic = Traffic::Xtp {
            bytes,
            config,
            delivery,
        };
    }
    network
}

fn stream() -> XtpConfig {
    XtpConfig::new(XtpService::STREAM)
}

/// As the Torino study has it (specs/tcp-xtp-over-atm.md 2.9), at `mbps` for each flow.
fn torino(retransmission: Retransmission, mbps: u64) -> XtpConfig {
    XtpConfig {
        ask: Ask::Every(1),
        fast_nak: true,
        flow_control: false,
        send_buffer: 1 << 20,
        window: 1 << 20,
        hold: retransmission == Retransmission::Selective,
        retransmission,
        out_limit: XtpRate {
            rate: mbps * 125_000,
            burst: 1_500,
        },
        rate_counts: RateCounts::Wire(20),
        ..stream()
    }
}

fn run(network: &Network) -> Report {
    Internet::new(network).expect("a network").run(&mut Nobody)
}

struct Nobody;

impl Watch for Nobody {
    fn sample(&mut self, _: &Sample) {}
}

#[test]
fn every_byte_arrives_over_a_link_that_loses() {
    let mut network = dumbbell(3, 10_000_000, Span::from_ms(5), Limit::Packets(50), 60.0);
    for way in &mut network.links[0].ways {
        way.impair = Impairments::losing(0.02);
    }
    for retransmission in [Retransmission::Selective, Retransmission::GoBackN] {
        let network = of_xtp(network.clone(), Some(1_000_000), &torino(retransmission, 3));
        let report = run(&network);
        for flow in &report.flows {
            assert_eq!(flow.bytes, 1_000_000, "{}", flow.name);
            assert!(flow.completed.is_some_and(|at| at < 30.0), "{flow:?}");
            assert!(flow.retransmitted > 5 && flow.sent > 700, "{flow:?}");
        }
    }
}

#[test]
fn a_rate_below_the_link_is_sent_and_what_repairs_less_gets_through_more() {
    let calm = dumbbell(1, 10_000_000, Span::from_ms(5), Limit::Packets(50), 10.0);
    let report = run(&of_xtp(calm, None, &torino(Retransmission::Selective, 4)));
    // 1448 of 1500 bytes are the user's.
    let expected = 4e6 * 1_448.0 / 1_500.0;
    let goodput = report.flows[0].goodput_bps;
    assert!((goodput / expected - 1.0).abs() < 0.01, "{goodput}");
    assert_eq!(report.flows[0].retransmitted, 0);

    let overload = |retransmission| {
        let network = dumbbell(3, 10_000_000, Span::from_ms(5), Limit::Packets(20), 10.0);
        let report = run(&of_xtp(network, None, &torino(retransmission, 4)));
        assert!(report.queues[0].dropped_full > 0);
        let goodput: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
        goodput
    };
    let (selective, back) = (
        overload(Retransmission::Selective),
        overload(Retransmission::GoBackN),
    );
    assert!(selective > back, "{selective} {back}");
    assert!(selective < 10e6);
}

#[test]
fn the_same_seed_gives_the_same_run_and_flows_stop_when_they_are_told() {
    let mut network = dumbbell(4, 10_000_000, Span::from_ms(5), Limit::Packets(20), 20.0);
    network.links[0].ways[0].impair = Impairments::losing(0.01);
    let mut network = of_xtp(network, None, &stream());
    network.flows[0].traffic = Traffic::Bulk(None);
    network.flows[3].stop = Some(layercast_core::Time::ZERO + Span::from_secs(5));
    let (a, b) = (run(&network), run(&network));
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
    assert!(a.flows.iter().all(|flow| flow.bytes > 100_000), "{a:?}");
    assert!(
        a.flows[3]
            .completed
            .is_some_and(|at| (5.0..7.0).contains(&at)),
        "{:?}",
        a.flows[3]
    );
    network.seed = 2;
    assert_ne!(format!("{a:?}"), format!("{:?}", run(&network)));
}

#[test]
fn a_scenario_says_what_is_different() {
    let text = |flow: &str| {
        format!(
            "schema = \"internet/1\"\nname = \"xtp\"\n[run]\nduration = \"10s\"\n\
             [topology]\nkind = \"dumbbell\"\npairs = 2\n\
             trunk = {{ rate = \"10 Mbit/s\", delay = \"5ms\", queue = \"50 packets\" }}\n\
             access = {{ rate = \"1 Gbit/s\", delay = \"1ms\" }}\n\
             [[flow]]\nfrom = \"left1\"\nto = \"right1\"\n{flow}\n"
        )
    };
    let network = |flow: &str| {
        let scenario = scenario::Scenario::from_toml(&text(flow), std::path::Path::new("."));
        scenario.expect("TOML").resolve()
    };
    let right = "bytes = \"1 MB\"\nxtp = { rate = \"4 Mbit/s\", retransmission = \"go-back-n\", ask = 1, retries = 9 }";
    let found = network(right).expect("a network");
    let Traffic::Xtp { bytes, config, .. } = &found.flows[0].traffic else {
        panic!("{:?}", found.flows[0]);
    };
    assert_eq!(
        (*bytes, config.hold, config.ask, config.retries),
        (Some(1_000_000), false, Ask::Every(1), 9)
    );
    assert_eq!(config.out_limit.rate, 500_000);
    assert_eq!(run(&found).flows[0].bytes, 1_000_000);
    for (wrong, complaint) in [
        ("xtp = { max_data = 1 }", "flow[0].xtp.max_data"),
        ("xtp = { burst = 1500 }", "flow[0].xtp.burst"),
        (
            "xtp = {}\ndatagrams = { gap = \"1ms\", size = \"100 B\" }",
            "flow[0].xtp",
        ),
        ("xtp = {}\nbytes = 0", "flow[0].bytes"),
    ] {
        let error = network(wrong).expect_err(wrong).to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn in_the_ready_made_scenario_each_gets_what_it_asks_for() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/internet");
    let text = std::fs::read_to_string(folder.join("xtp.toml")).expect("a file");
    let scenario = scenario::Scenario::from_toml(&text, &folder).expect("a scenario");
    let network = scenario.resolve().expect("a network");
    assert_eq!(network.warnings(), []);
    let report = run(&network);
    let [tcp, selective, unreliable] = &report.flows[..] else {
        panic!("{report:?}");
    };
    assert_eq!(selective.bytes, 10_000_000);
    let user = 1_448.0 / 1_500.0;
    for (flow, rate) in [(selective, 4e6), (unreliable, 2e6)] {
        let share = flow.goodput_bps / (rate * user);
        assert!((0.95..1.001).contains(&share), "{flow:?}");
    }
    assert_eq!(unreliable.retransmitted, 0);
    // What is left of 10 Mbit/s, and more when the second flow has ended.
    assert!((2.5e6..6e6).contains(&tcp.goodput_bps), "{tcp:?}");
}
