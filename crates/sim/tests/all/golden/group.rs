//! Groups of receivers: the ready-made scenarios and variants of them.

use layercast_core::{JsonSeq, Off, Span, Time};
use layercast_sim::group::scenario::GroupScenario;
use layercast_sim::group::{Content, Group, Simulation};

use super::Corpus;
use crate::common::scenarios;

/// Most packets of an object or stream, so that a run is short.
const PACKETS: u64 = 60;

/// A change of a group.
type Change = fn(&mut Group);

const VARIANTS: &[(&str, Change)] = &[
    ("ready-made", |_| {}),
    ("lossy", |group| {
        for branch in &mut group.branches {
            branch.link.loss = layercast_sim::group::Loss::Independent(0.05);
            branch.link.back_loss = 0.02;
        }
    }),
    ("slow", |group| {
        for branch in &mut group.branches {
            branch.link.rate = Some(layercast_core::Rate::from_bps(2_000_000));
            branch.link.queue = 30_000;
        }
    }),
    ("each-receiver", |group| {
        group.per_receiver = true;
        group.until = Time::ZERO + Span::from_secs(12);
    }),
];

pub fn corpus() -> Corpus {
    let mut corpus = Corpus::new("group");
    for name in ["star", "tree", "frm", "rmtp", "aggregators"] {
        let path = scenarios().join(format!("group/{name}.toml"));
        let text = std::fs::read_to_string(path).unwrap();
        let scenario = GroupScenario::from_toml(&text).unwrap();
        for (variant, change) in VARIANTS {
            let mut group = scenario.resolve().unwrap();
            match &mut group.content {
                Content::Object { octets } => {
                    *octets = (*octets).min(PACKETS * u64::from(group.sender.packet_size));
                }
                Content::Stream { packets, .. } => *packets = (*packets).min(PACKETS),
            }
            change(&mut group);
            let recorded = *variant == "ready-made" && name == "frm";
            add(&mut corpus, &format!("{name}/{variant}"), group, recorded);
        }
    }
    corpus
}

fn add(corpus: &mut Corpus, name: &str, group: Group, recorded: bool) {
    let (mut trace, mut off) = (JsonSeq::new(Vec::new(), name), Off);
    let mut simulation = match recorded {
        true => Simulation::observed(group, &mut trace),
        false => Simulation::observed(group, &mut off),
    }
    .unwrap();
    simulation.run(|_| true);
    let mut summary = simulation.summary();
    drop(simulation);
    let events = std::mem::take(&mut summary.events);
    let figures = format!(
        "sent={}+{} again={} delivered={} per-packet={:.4} last={:.3}s",
        summary.sent.data,
        summary.sent.control,
        summary.sent.again,
        summary.outcomes.delivered,
        summary.transmissions_per_packet,
        summary.completion_s.last
    );
    let trace = trace.finish().unwrap();
    let others = [("trace", &trace[..])];
    let others = if recorded { &others[..] } else { &[] };
    corpus.add(name, events, &figures, &summary, others);
}
