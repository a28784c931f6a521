//! The QoS monitor of each node, beside what the simulator knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use layercast_core::{Observer, QosEvent, Record, Span, Subject, Time};
use layercast_monitor::{
    ConnectionReport, Contract, Direction, Method, MonitorConfig, Watched, Watching,
};
use layercast_sim::internet::*;
use layercast_wire::XtpService;
use layercast_xtp::{Ask, XtpConfig};

use super::common::*;

/// An observer that the test keeps.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Watching>>>);

impl Shared {
    fn new() -> Shared {
        let watching = Watching::new(MonitorConfig::default(), Contract::default()).unwrap();
        Shared(Arc::new(Mutex::new(Some(watching))))
    }

    fn finish(self, now: Time) -> BTreeMap<String, Watched> {
        self.0.lock().unwrap().take().unwrap().finish(now)
    }
}

impl Observer for Shared {
    fn record(&mut self, _: &Record<'_>) {}

    fn enabled(&self) -> bool {
        false
    }

    fn measures(&self) -> bool {
        true
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        if let Some(watching) = self.0.lock().unwrap().as_mut() {
            watching.measure(subject, event);
        }
    }
}

/// One transfer of XTP of `bytes` octets from left to right.
fn transfer(bytes: u64, loss: f64) -> Network {
    let mut network = network(
        vec![
            ("left".into(), Some(modern(1_460))),
            ("right".into(), Some(modern(1_460))),
        ],
        30.0,
    );
    let limit = Limit::Packets(500);
    let cable = link(0, 1, 10_000_000, Span::from_ms(10), limit);
    network.links.push(cable);
    network.links[0].ways[0].impair = Impairments::losing(loss);
    let config = Box::new(XtpConfig {
        ask: Ask::Every(1),
        ..XtpConfig::new(XtpService::STREAM)
    });
    let delivery = XtpDelivery::Ip;
    let traffic = Traffic::Xtp {
        bytes: Some(bytes),
        config,
        delivery,
    };
    network
        .flows
        .push(flow("transfer", 0, 1, Span::ZERO, traffic));
    network
}

fn run(network: &Network) -> (Report, BTreeMap<String, ConnectionReport>) {
    let plain = Internet::new(network).unwrap().run(&mut ());
    let seen = Shared::new();
    let mut internet = Internet::new(network).unwrap();
    internet.observe(seen.clone());
    let report = internet.run(&mut ());
    assert_eq!(report, plain, "a monitor changes no result");
    let last = |watched: Watched| watched.reports.last().cloned().expect("a connection");
    let nodes = seen.finish(Time::ZERO + network.duration);
    (
        report,
        nodes
            .into_iter()
            .map(|(name, it)| (name, last(it)))
            .collect(),
    )
}

#[test]
fn a_monitor_sees_what_the_link_carried() {
    let (report, nodes) = run(&transfer(1_000_000, 0.0));
    let (left, right) = (&nodes["left"], &nodes["right"]);
    let out = left.direction(Direction::Out);
    let inward = right.direction(Direction::In);
    // All that left came, and 20 octets of IP are below.
    assert_eq!((out.bits, out.packets), (inward.bits, inward.packets));
    let carried: u64 = report
        .queues
        .iter()
        .find(|it| it.name.starts_with("left"))
        .unwrap()
        .bytes;
    assert_eq!(out.bits / 8 + 20 * out.packets, carried);
    assert_eq!((out.user_bits, inward.user_bits), (8_000_000, 8_000_000));
    assert_eq!(
        (
            out.error_bits,
            left.counts.malformed,
            left.counts.bad_reports
        ),
        (0, 0, 0)
    );
    let delay = out.delay.unwrap();
    assert_eq!(delay.method, Method::HalfRtt);
    assert!(delay.current_ns >= 10_000_000, "{delay:?}");
}

#[test]
fn a_monitor_sees_the_datagrams_that_left_and_came() {
    let mut network = transfer(1, 0.1);
    let traffic = Traffic::Datagrams {
        gap: Law::Constant(Span::from_ms(10)),
        size: SizeLaw::Constant(1_000),
        bursts: None,
    };
    network.flows = vec![flow("datagrams", 0, 1, Span::ZERO, traffic)];
    let (report, nodes) = run(&network);
    let out = nodes["left"].direction(Direction::Out);
    let inward = nodes["right"].direction(Direction::In);
    let flow = &report.flows[0];
    assert!(flow.received < flow.sent && flow.received > flow.sent * 8 / 10);
    assert_eq!((out.packets, inward.packets), (flow.sent, flow.received));
    // 20 octets of IP are not of UDP; 8 of UDP are not of the user.
    assert_eq!(out.bits, 8 * 980 * flow.sent);
    assert_eq!(inward.user_bits, 8 * 972 * flow.received);
    assert_eq!((out.error_bits, out.delay), (0, None), "UDP tells neither");
}

#[test]
fn reports_of_spans_tell_the_bits_that_a_link_lost() {
    let (report, nodes) = run(&transfer(2_000_000, 0.03));
    let out = nodes["left"].direction(Direction::Out);
    let lost: u64 = report.queues.iter().map(|it| it.lost).sum();
    let packet = 8 * XtpConfig::new(XtpService::STREAM).max_data as u64;
    let bound = lost * packet;
    // What is lost again was counted; what no report mentions, because it came again first, was not.
    assert!(
        out.error_bits <= bound && out.error_bits * 10 >= bound * 8,
        "{} of {bound}",
        out.error_bits
    );
    assert!(out.error_bits_literal >= out.error_bits);
    assert_eq!(out.user_bits, 16_000_000, "each octet once");
    assert!(out.bits > nodes["right"].direction(Direction::In).bits);
}

#[test]
fn the_same_monitor_serves_tcp() {
    let mut network = transfer(2_000_000, 0.01);
    network.flows[0].traffic = Traffic::Bulk(Some(2_000_000));
    // A time-out sends again what has arrived, too, which no sender can tell from what is lost.
    let runs = (1..20).map(|seed| {
        network.seed = seed;
        run(&network)
    });
    let mut runs = runs.filter(|(report, _)| report.flows[0].timeouts == 0);
    let (report, nodes) = runs.next().expect("most runs have no time-out");
    let (left, right) = (&nodes["left"], &nodes["right"]);
    assert_eq!(
        (left.transport, right.transport),
        (Some("tcp"), Some("tcp"))
    );
    let out = left.direction(Direction::Out);
    let there = report
        .queues
        .iter()
        .find(|it| it.name.starts_with("left"))
        .unwrap();
    assert_eq!(out.packets, there.sent);
    assert_eq!(out.bits / 8 + 20 * out.packets, there.bytes);
    assert_eq!(out.user_bits, 16_000_000, "each octet once");
    let inward = right.direction(Direction::In);
    assert_eq!(inward.packets, there.sent - there.lost);
    assert_eq!(inward.user_bits, 16_000_000, "each octet once");
    // What is lost again was counted before.
    let bound = 8 * 1_460 * there.lost;
    assert!(
        out.error_bits <= bound && out.error_bits * 10 >= bound * 9,
        "{} of {bound}",
        out.error_bits
    );
    let delay = out.delay.unwrap();
    assert_eq!(delay.method, Method::HalfRtt);
    assert!(
        delay.samples > 10 && delay.max_ns >= 10_000_000,
        "{delay:?}"
    );
    assert_eq!((left.counts.malformed, left.counts.bad_reports), (0, 0));
}
