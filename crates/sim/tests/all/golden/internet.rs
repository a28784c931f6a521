//! Internetworks: the ready-made scenarios, and random networks.

use std::fmt::Write;
use std::path::Path;

use layercast_core::{Span, Time};
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Network, Watch};
use layercast_sim::scenario::Ties;
use layercast_wire::{Ipv4Packet, PcapNg};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::{Corpus, digest, random};
use crate::common::scenarios;

/// The ready-made scenarios, and for how many milliseconds they run.
const READY_MADE: &[(&str, u64)] = &[
    ("dumbbell", 1_500),
    ("emulate", 1_000),
    ("fat-tree", 30),
    ("parking-lot", 4_000),
    ("star", 250),
    ("transfers", 200),
    ("tree", 1_000),
    ("vbr", 700),
    ("xtp", 2_000),
    ("xtp-multicast", 3_000),
    ("xunet", 60_000),
    ("xunet-chain", 30_000),
];

/// Random networks of a second each.
const RANDOM: usize = 24;

/// Writes all packets to a capture.
struct Capture(PcapNg<Vec<u8>>);

impl Watch for Capture {
    fn sample(&mut self, _: &layercast_sim::internet::Sample) {}

    fn packet(&mut self, at: Time, interface: u32, packet: &Ipv4Packet) {
        self.0.write_ip(interface, at, packet).unwrap();
    }
}

pub fn corpus() -> Corpus {
    let mut corpus = Corpus::new("internet");
    for &(name, ms) in READY_MADE {
        let path = scenarios().join(format!("internet/{name}.toml"));
        let text = std::fs::read_to_string(path).unwrap();
        let mut scenario = Scenario::from_toml(&text, &scenarios()).unwrap();
        let seeds = if name.starts_with("xunet") { 1 } else { 2 };
        for seed in 1..=seeds {
            scenario.run.seed = seed;
            let mut network = scenario.resolve().unwrap();
            network.duration = network.duration.min(Span::from_ms(ms));
            network.warm_up = network.warm_up.min(Span::from_ms(ms / 4));
            add(
                &mut corpus,
                &format!("{name}/{seed}"),
                &network,
                name == "xtp",
            );
        }
    }
    let mut runner = TestRunner::deterministic();
    let others = vec![
        "bytes = 20_000\nxtp = { rate = \"4 Mbit/s\", window = \"64 KiB\", send_buffer = \"64 KiB\" }",
    ];
    for number in 0..RANDOM {
        let text = random::scenario(others.clone());
        let text = text.new_tree(&mut runner).unwrap().current();
        let scenario = Scenario::from_toml(&text, Path::new("")).unwrap();
        let mut network = scenario.resolve().unwrap();
        if number % 4 == 3 {
            network.ties = Ties::Ordered;
        }
        // The name has a digest of the scenario, so a change of the generator shows apart from one of the results.
        let name = format!("random/{number} of={}", &digest(text.as_bytes())[..8]);
        add(&mut corpus, &name, &network, false);
    }
    corpus
}

fn add(corpus: &mut Corpus, name: &str, network: &Network, captured: bool) {
    let mut internet = Internet::new(network).unwrap();
    let mut pcap = PcapNg::new(Vec::new()).unwrap();
    let mut report = if captured {
        internet.capture();
        for interface in internet.interfaces() {
            pcap.add_interface(interface).unwrap();
        }
        let mut capture = Capture(pcap);
        let report = internet.run(&mut capture);
        pcap = capture.0;
        report
    } else {
        internet.run(&mut ())
    };
    let events = std::mem::take(&mut report.events);
    let bytes: u64 = report.flows.iter().map(|flow| flow.bytes).sum();
    let full: u64 = report.queues.iter().map(|queue| queue.dropped_full).sum();
    let other: u64 = report
        .queues
        .iter()
        .map(|it| it.dropped_red + it.lost)
        .sum();
    let again: u64 = report.flows.iter().map(|flow| flow.retransmitted).sum();
    let mut figures = format!(
        "hops={}+{} bytes={bytes} full={full} lost={other} again={again}",
        report.packet_hops, report.cell_hops
    );
    if let Some(atm) = &report.atm {
        let dropped: u64 = atm.queues.iter().map(|queue| queue.dropped).sum();
        write!(figures, " cells-dropped={dropped}").unwrap();
    }
    let pcap = pcap.finish().unwrap();
    let others = [("pcapng", &pcap[..])];
    let others = if captured { &others[..] } else { &[] };
    corpus.add(name, events, &figures, &report, others);
}
