//! Layered flows: the ready-made scenarios, and variants of one network in which each option is set once.

use std::fmt::Write;
use std::ops::ControlFlow;

use layercast_core::{JsonSeq, PerLayer, Span};
use layercast_media::Synthetic;
use layercast_sim::scenario::{ClipSpec, Scenario};
use layercast_sim::{Outputs, Simulation};

use super::Corpus;
use crate::common::{ready_made, scenario};

/// The ready-made scenarios, and for how many seconds they run.
const READY_MADE: &[(&str, u64)] = &[
    ("quickstart", 22),
    ("demo", 30),
    ("e5", 82),
    ("e5b", 1000),
    ("e5c", 1000),
    ("e5d", 1000),
    ("e5f", 1000),
    ("fec", 10),
    ("lossy", 20),
];

/// Two flows of one host that begin at one instant, two switches, four receivers; the line to `narrow` fits two layers.
const TREE: &str = r#"
name = "tree"
duration = "7s"
carriage = "datagrams"
node = [
    { name = "server", kind = "host" },
    { name = "left", kind = "switch" },
    { name = "right", kind = "switch" },
    { name = "near", kind = "host" },
    { name = "far", kind = "host" },
    { name = "narrow", kind = "host" },
]
link = [
    { a = "server", b = "left", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "left", b = "right", rate = "20 Mbit/s", delay = "5 ms", queue = "300 ms", efci = 0.5 },
    { a = "left", b = "near", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "right", b = "far", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "right", b = "narrow", rate = { fits = "film", level = 1, spare = 0.6 }, delay = "1 ms", queue = "500 ms", efci = 0.5 },
]
flow = [
    { name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s", stop = "6s", delay_max = "300ms" },
    { name = "talk", source = "server", clip = { synthetic = "lougher" }, frame_rate = 24, start = "1s", stop = "6s", delay_max = "300ms" },
]
receiver = [
    { node = "near", flow = "film" },
    { node = "far", flow = "film" },
    { node = "narrow", flow = "film" },
    { name = "talk-at-far", node = "far", flow = "talk" },
    { name = "talk-at-narrow", node = "narrow", flow = "talk", level = 0, join = "2s", leave = "5s" },
]
"#;

const DATAGRAMS: &str = "carriage = \"datagrams\"";
const CELLS: &str = "carriage = \"cells\"";
/// The end of the line between the switches.
const TRUNK: &str = "queue = \"300 ms\", efci = 0.5";

/// A variant: its name, what is replaced by what, and what follows.
type Variant = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

const VARIANTS: &[Variant] = &[
    ("plain", &[], ""),
    ("cells", &[(DATAGRAMS, CELLS)], ""),
    (
        "ordered",
        &[(DATAGRAMS, "carriage = \"datagrams\"\nties = \"ordered\"")],
        "",
    ),
    (
        "bytes-at-every-hop",
        &[(
            DATAGRAMS,
            "carriage = \"cells\"\nwire_check = true\naal5_mark = \"first\"",
        )],
        "",
    ),
    (
        "hosts-of-1996",
        &[(
            DATAGRAMS,
            "carriage = \"cells\"\nhost = \"1996\"\nadmission = false",
        )],
        "",
    ),
    (
        "hosts-of-1996-serial",
        &[
            (
                DATAGRAMS,
                "carriage = \"cells\"\nhost = \"1996\"\nadmission = false",
            ),
            (
                "delay_max = \"300ms\"",
                "delay_max = \"500ms\", shaping = \"serial\"",
            ),
        ],
        "",
    ),
    (
        "serial",
        &[
            (
                "delay_max = \"300ms\"",
                "delay_max = \"300ms\", shaping = \"serial\"",
            ),
            (
                "{ node = \"far\", flow = \"film\" }",
                "{ node = \"far\", flow = \"film\", drain = \"6000 cells/s\" }",
            ),
        ],
        "",
    ),
    (
        "unshaped",
        &[(
            "delay_max = \"300ms\"",
            "delay_max = \"300ms\", shaping = \"off\"",
        )],
        "",
    ),
    (
        "staggered",
        &[(
            "delay_max = \"300ms\"",
            "delay_max = \"300ms\", stagger = true",
        )],
        "",
    ),
    (
        "random-phase",
        &[(
            "delay_max = \"300ms\"",
            "delay_max = \"300ms\", random_phase = true",
        )],
        "",
    ),
    (
        "loss",
        &[(TRUNK, "queue = \"300 ms\", loss = { bernoulli = 0.01 }")],
        "",
    ),
    (
        "bursts",
        &[(
            TRUNK,
            "queue = \"300 ms\", loss = { gilbert = { p_gb = 0.01, p_bg = 0.2 } }",
        )],
        "",
    ),
    (
        "jitter",
        &[(
            TRUNK,
            "queue = \"300 ms\", jitter = { normal = \"3 ms\" }, reorder = true, duplicate = 0.01",
        )],
        "",
    ),
    (
        "lost-reservations",
        &[(TRUNK, "queue = \"300 ms\", adapter_loss = 0.3")],
        "",
    ),
    (
        "repair",
        &[(
            TRUNK,
            "queue = \"300 ms\", loss = { bernoulli = 0.03 }, repair = true",
        )],
        "",
    ),
    (
        "parities",
        &[
            (TRUNK, "queue = \"300 ms\", loss = { bernoulli = 0.03 }"),
            (
                "delay_max = \"300ms\"",
                "delay_max = \"300ms\", protect_base = \"6+2\"",
            ),
        ],
        "",
    ),
    (
        "fast-start",
        &[
            (DATAGRAMS, "carriage = \"datagrams\"\nfast_start = true"),
            ("join = \"2s\"", "join = \"2.8s\""),
        ],
        "",
    ),
    (
        "sealed",
        &[(
            DATAGRAMS,
            "carriage = \"datagrams\"\nsecurity = { tokens = true }",
        )],
        "",
    ),
    (
        "core",
        &[(
            "delay_max = \"300ms\"",
            "delay_max = \"300ms\", core = \"right\"",
        )],
        "",
    ),
    (
        "next-frame",
        &[(
            DATAGRAMS,
            "carriage = \"datagrams\"\nlowering = \"next_frame\"\nmerge = \"hull\"",
        )],
        "",
    ),
    (
        "filter",
        &[],
        "filter = [{ node = \"right\", flow = \"film\", to = \"narrow\", rule = \"low-pass:10\" }]",
    ),
    (
        "switch-restarts",
        &[],
        "fault = [{ at = \"3s\", kind = \"kill\", node = \"right\" }, { at = \"4s\", kind = \"restart\", node = \"right\" }]",
    ),
    (
        "server-restarts",
        &[],
        "fault = [{ at = \"3s\", kind = \"restart\", node = \"server\" }]",
    ),
    (
        "receiver-restarts",
        &[],
        "fault = [{ at = \"3s\", kind = \"restart\", node = \"far\" }]",
    ),
    (
        "link-fails",
        &[],
        "fault = [{ at = \"3s\", kind = \"link_down\", link = [\"left\", \"right\"] }, { at = \"3.5s\", kind = \"link_up\", link = [\"left\", \"right\"] }]",
    ),
    (
        "request",
        &[],
        "request = [{ at = \"3s\", flow = \"film\", option = { flow_spec = { layers = { BL = { mean = 4000, peak = 8000 } } } } }]",
    ),
];

/// Variants whose trace and capture belong to the corpus.
const RECORDED: &[&str] = &["plain", "cells", "repair"];

pub fn corpus() -> Corpus {
    let mut corpus = Corpus::new("mets");
    for &(name, seconds) in READY_MADE {
        let mut scenario = ready_made(&format!("{name}.toml"));
        scenario.duration = scenario.duration.min(Span::from_secs(seconds));
        for flow in &mut scenario.flows {
            // Clips on disk are made by another program.
            if let ClipSpec::File(_) = flow.clip {
                flow.clip = ClipSpec::Synthetic(Synthetic::Canyon);
                flow.frame_rate = Some(24.0);
            }
        }
        add(&mut corpus, name, &scenario, false);
    }
    for &(name, replaced, more) in VARIANTS {
        let mut text = TREE.to_owned();
        for (from, to) in replaced {
            assert!(text.contains(from), "{name}: {from}");
            text = text.replace(from, to);
        }
        let mut scenario = scenario(&format!("{text}\n{more}"));
        for seed in 1..=2 {
            scenario.seed = seed;
            let recorded = seed == 1 && RECORDED.contains(&name);
            add(&mut corpus, &format!("tree/{name}"), &scenario, recorded);
        }
    }
    corpus
}

fn add(corpus: &mut Corpus, name: &str, scenario: &Scenario, recorded: bool) {
    let simulation = Simulation::new(scenario.validate().unwrap());
    let go_on = |_| ControlFlow::Continue(());
    let (mut trace, mut capture) = (JsonSeq::new(Vec::new(), name), Vec::new());
    let mut summary = match recorded {
        true => simulation.run(
            &mut trace,
            Outputs {
                pcap: Some(&mut capture),
                ..Outputs::default()
            },
            go_on,
        ),
        false => simulation.run(&mut layercast_core::Off, Outputs::default(), go_on),
    }
    .unwrap();
    let events = std::mem::take(&mut summary.events);
    let mut figures = format!("hops={}+{}", summary.packet_hops, summary.cell_hops);
    for receiver in summary.flows.iter().flat_map(|flow| &flow.receivers) {
        let (frames, lost) = (three(receiver.frames), three(receiver.lost));
        write!(figures, " {}={frames}-{lost}", receiver.name).unwrap();
    }
    let trace = trace.finish().unwrap();
    let others = [("pcapng", &capture[..]), ("trace", &trace[..])];
    let others = if recorded { &others[..] } else { &[] };
    let run = format!("{name}/{}", scenario.seed);
    corpus.add(&run, events, &figures, &summary, others);
}

/// The figures of the three layers.
fn three(of: PerLayer<u64>) -> String {
    format!("{}/{}/{}", of.base, of.e1, of.e2)
}
