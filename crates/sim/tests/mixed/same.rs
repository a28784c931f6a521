//! METS nodes whose links carry nothing else fare as where their ports are the lines of the links.

use std::ops::ControlFlow;

use layercast_core::Off;
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::scenario::Scenario as Layered;
use layercast_sim::{Outputs, Simulation};

use crate::common::*;

/// A scenario of METS, in which ports are the lines of links, and the same as an internetwork. Nodes, flows and what follows are the same text.
struct Both {
    nodes: &'static [(&'static str, &'static str)],
    /// Ends, rate and queue.
    links: &'static [(&'static str, &'static str, &'static str, &'static str)],
    rest: &'static str,
}

impl Both {
    fn layered(&self) -> Layered {
        let mut text = "name = \"same\"\nduration = \"20s\"\n".to_owned();
        for (name, kind) in self.nodes {
            text += &format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
        }
        for (a, b, rate, queue) in self.links {
            text += &format!(
                "[[link]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"{rate}\"\ndelay = \"3 ms\"\nqueue = \"{queue}\"\n"
            );
        }
        Layered::from_toml(&(text + self.rest), &scenarios()).unwrap()
    }

    fn internet(&self) -> Scenario {
        let mut text =
            "schema = \"internet/1\"\nname = \"same\"\nrun = { duration = \"20s\" }\n".to_owned();
        for (name, kind) in self.nodes {
            let kind = if *kind == "switch" { "router" } else { "host" };
            text += &format!("[[{kind}]]\nname = \"{name}\"\n");
        }
        for (a, b, rate, _) in self.links {
            text += &format!(
                "[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\ndelay = \"3ms\"\nqueue = \"unlimited\"\n"
            );
        }
        text += "[mets]\n";
        for (name, kind) in self.nodes {
            text += &format!("[[mets.node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
        }
        for (a, b, _, queue) in self.links {
            text += &format!("[[mets.peering]]\nends = [\"{a}\", \"{b}\"]\nqueue = \"{queue}\"\n");
        }
        text += &self.rest.replace("[[", "[[mets.");
        Scenario::from_toml(&text, &scenarios()).unwrap()
    }

    /// Compares what receivers saw, what ports did, and how sources fared.
    ///
    /// What may differ: the numbers of events, and what an event of one instant does to another, as the order of these is drawn
    /// among others. So the times at which frames arrive may differ by a packet on the line.
    fn check(&self) {
        for seed in 1..=3 {
            let (mut layered, mut internet) = (self.layered(), self.internet());
            (layered.seed, internet.run.seed) = (seed, seed);
            let old = Simulation::new(layered.validate().unwrap());
            let old = old.run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(()));
            let (old, new) = (old.unwrap(), run(&internet));
            for (old, new) in old.flows.iter().zip(&mets(&new).flows) {
                assert_eq!(old.source, new.source, "seed {seed}: {}", old.name);
                assert_eq!(old.receivers.len(), new.receivers.len());
                for (old, new) in old.receivers.iter().zip(&new.receivers) {
                    let name = &old.name;
                    assert_eq!(old.name, new.name);
                    assert_eq!(old.frames, new.frames, "seed {seed}: {name}");
                    assert_eq!(old.lost, new.lost, "seed {seed}: {name}");
                    assert_eq!(old.late, new.late, "seed {seed}: {name}");
                    assert_eq!(old.levels, new.levels, "seed {seed}: {name}");
                    let (old, new) = (old.delay_ms, new.delay_ms);
                    for (old, new) in [(old.p50, new.p50), (old.p99, new.p99)] {
                        assert!((old - new).abs() < 0.01 * old, "{name}: {old} and {new}");
                    }
                }
            }
            let ports = &mets(&new).peerings;
            assert_eq!(old.queues.len(), ports.len());
            for (old, new) in old.queues.iter().zip(ports) {
                let new = &new.port;
                assert_eq!((&old.node, &old.port), (&new.node, &new.port));
                assert_eq!(old.queue.units_out, new.queue.units_out, "{}", old.node);
                assert_eq!(old.queue.dropped(), new.queue.dropped(), "{}", old.node);
                assert_eq!(new.link.lost, 0);
            }
        }
    }
}

#[test]
fn a_chain_of_switches() {
    let chain = Both {
        nodes: &[
            ("server", "host"),
            ("one", "switch"),
            ("two", "switch"),
            ("three", "switch"),
            ("viewer", "host"),
        ],
        links: &[
            ("server", "one", "10 Mbit/s", "500 ms"),
            ("one", "two", "3 Mbit/s", "500 ms"),
            ("two", "three", "2 Mbit/s", "500 ms"),
            ("three", "viewer", "10 Mbit/s", "500 ms"),
        ],
        rest: r#"
            [[flow]]
            name = "film"
            source = "server"
            clip = { synthetic = "canyon" }
            frame_rate = 24
            start = "1s"
            delay_max = "1s"
            [[receiver]]
            node = "viewer"
            flow = "film"
        "#,
    };
    chain.check();
}

#[test]
fn a_tree_with_unequal_branches_a_leaving_receiver_and_a_request() {
    let tree = Both {
        nodes: &[
            ("server", "host"),
            ("other", "host"),
            ("hub", "switch"),
            ("wide", "host"),
            ("mid", "host"),
            ("narrow", "host"),
        ],
        links: &[
            ("server", "hub", "10 Mbit/s", "500 ms"),
            ("other", "hub", "10 Mbit/s", "500 ms"),
            ("hub", "wide", "4 Mbit/s", "500 ms"),
            ("hub", "mid", "1.2 Mbit/s", "500 ms"),
            ("hub", "narrow", "700 kbit/s", "500 ms"),
        ],
        rest: r#"
            [[flow]]
            name = "film"
            source = "server"
            clip = { synthetic = "canyon" }
            frame_rate = 24
            start = "1s"
            delay_max = "1s"
            [[flow]]
            name = "talk"
            source = "other"
            clip = { synthetic = "lougher" }
            frame_rate = 12
            start = "2s"
            delay_max = "1s"
            [[receiver]]
            node = "wide"
            flow = "film"
            [[receiver]]
            node = "mid"
            flow = "film"
            [[receiver]]
            node = "narrow"
            flow = "film"
            [[receiver]]
            name = "guest"
            node = "wide"
            flow = "talk"
            join = "4.03s"
            leave = "12.03s"
            [[request]]
            at = "10s"
            receiver = "mid"
            option = { adapt = "none" }
            [[fault]]
            at = "15.013s"
            kind = "restart"
            node = "narrow"
        "#,
    };
    tree.check();
}

#[test]
fn renditions_to_unlike_receivers() {
    let tree = Both {
        nodes: &[
            ("server", "host"),
            ("hub", "switch"),
            ("wide", "host"),
            ("mid", "host"),
            ("narrow", "host"),
        ],
        links: &[
            ("server", "hub", "10 Mbit/s", "500 ms"),
            ("hub", "wide", "4 Mbit/s", "500 ms"),
            ("hub", "mid", "900 kbit/s", "500 ms"),
            ("hub", "narrow", "350 kbit/s", "500 ms"),
        ],
        rest: r#"
            [[flow]]
            name = "film"
            source = "server"
            clip = { synthetic = "canyon" }
            composition = "alternative"
            frame_rate = 24
            start = "2s"
            delay_max = "1s"
            [[receiver]]
            node = "wide"
            flow = "film"
            [[receiver]]
            node = "mid"
            flow = "film"
            [[receiver]]
            node = "narrow"
            flow = "film"
        "#,
    };
    tree.check();
    let report = run(&tree.internet());
    for (name, level) in [("narrow", 0), ("mid", 1), ("wide", 2)] {
        let frames = receiver(&report, name).frames;
        let counts = [frames.base, frames.e1, frames.e2];
        assert!(counts[level] > 400, "{name}: {counts:?}");
    }
    assert_eq!(
        mets(&report).flows[0].composition,
        layercast_core::Composition::Alternative
    );
}
