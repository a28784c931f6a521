//! Over lossy links, and whatever nodes start again, a frame is played once, or counted as lost, late or withheld.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use layercast_core::{Observer, PerLayer, Record, TraceEvent};
use layercast_sim::{Outputs, Simulation};
use proptest::prelude::*;

use crate::common::scenario;

/// Nodes of the line, the source first and the receiver last.
const LINE: [&str; 4] = ["server", "near", "far", "guest"];
/// Frames of the film: 11 s.
const FRAMES: u64 = 11 * 24;

#[derive(Clone, Debug)]
struct Plan {
    loss: String,
    duplicate: f64,
    jitter_ms: u64,
    delay_max_ms: u64,
    repair: &'static str,
    /// When nodes start again, in milliseconds, and which.
    restarts: Vec<(u64, usize)>,
    seed: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let loss = prop_oneof![
        (0.0..0.15_f64).prop_map(|p| format!("{{ bernoulli = {p} }}")),
        (2.0..20.0_f64, 0.0..0.08_f64).prop_map(|(burst, p)| {
            let (enter, leave) = (p / (1.0 - p) / burst, 1.0 / burst);
            format!("{{ gilbert = {{ p_gb = {enter}, p_bg = {leave} }} }}")
        }),
    ];
    let repair = prop::sample::select(vec!["auto", "arq", "fec", "off"]);
    let restarts = prop::collection::vec((2_000..10_000_u64, 0..LINE.len()), 0..4);
    let path = (loss, 0.0..0.1_f64, 0..25_u64, 150..800_u64);
    (path, repair, restarts, any::<u32>()).prop_map(|(path, repair, restarts, seed)| Plan {
        loss: path.0,
        duplicate: path.1,
        jitter_ms: path.2,
        delay_max_ms: path.3,
        repair,
        restarts,
        seed: seed.into(),
    })
}

impl Plan {
    fn text(&self) -> String {
        let mut text = format!(
            "name = \"restarts\"\ncarriage = \"datagrams\"\nduration = \"16s\"\nseed = {}\n",
            self.seed
        );
        for name in LINE {
            let kind = match name {
                "near" | "far" => "switch",
                _ => "host",
            };
            text += &format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
        }
        for ends in LINE.windows(2) {
            text += &format!(
                "[[link]]\na = \"{}\"\nb = \"{}\"\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"500 ms\"\n\
                 loss = {}\nduplicate = {}\njitter = {{ uniform = \"{} ms\" }}\nreorder = true\nrepair = \"{}\"\n",
                ends[0], ends[1], self.loss, self.duplicate, self.jitter_ms, self.repair
            );
        }
        for (at, node) in &self.restarts {
            text += &format!(
                "[[fault]]\nat = \"{at} ms\"\nkind = \"restart\"\nnode = \"{}\"\n",
                LINE[*node]
            );
        }
        text + &format!(
            "[[flow]]\nname = \"film\"\nsource = \"server\"\nclip = {{ synthetic = \"canyon\" }}\nframe_rate = 24\n\
             start = \"1s\"\nstop = \"12s\"\ndelay_max = \"{} ms\"\n\
             [[receiver]]\nnode = \"guest\"\nflow = \"film\"\n",
            self.delay_max_ms
        )
    }

    fn restarts(&self, name: &str) -> usize {
        let of = |it: &&(u64, usize)| LINE[it.1] == name;
        self.restarts.iter().filter(of).count()
    }
}

/// How often each frame was sent, played and late.
#[derive(Default, Debug)]
struct Frames {
    sent: BTreeMap<u32, usize>,
    played: BTreeMap<u32, usize>,
    late: BTreeMap<u32, usize>,
}

impl Observer for Frames {
    fn record(&mut self, record: &Record<'_>) {
        let (counts, seq) = match (record.subject.machine, &record.event) {
            ("source", TraceEvent::Sent { seq, .. }) => (&mut self.sent, seq),
            ("sink", TraceEvent::Played { seq, .. }) => (&mut self.played, seq),
            ("sink", TraceEvent::Late { seq, .. }) => (&mut self.late, seq),
            _ => return,
        };
        *counts.entry(*seq).or_default() += 1;
    }
}

fn sum(counts: &PerLayer<u64>) -> u64 {
    counts.base + counts.e1 + counts.e2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn each_frame_is_played_once_or_counted_with_its_cause(plan in plan()) {
        let network = scenario(&plan.text()).validate().unwrap();
        let mut frames = Frames::default();
        let summary = Simulation::new(network)
            .run(&mut frames, Outputs::default(), |_| ControlFlow::Continue(()))
            .unwrap();
        let receiver = summary.receiver("guest").unwrap();
        // A receiver that starts again knows nothing of what it played before.
        let lives = 1 + plan.restarts("guest");
        let ends = frames.played.iter().chain(&frames.late);
        for (seq, times) in ends {
            let sent = frames.sent.get(seq).copied().unwrap_or_default();
            prop_assert!(*times <= sent * lives, "frame {} was sent {} times, and came {} times", seq, sent, times);
        }
        let played: usize = frames.played.values().sum();
        prop_assert_eq!(played as u64, sum(&receiver.frames));
        prop_assert_eq!(frames.late.values().sum::<usize>() as u64, receiver.late);
        let counted = sum(&receiver.frames) + sum(&receiver.lost) + sum(&receiver.withheld)
            + sum(&receiver.outage) + receiver.late;
        // A source that starts again sends the film from its begin.
        let offered = FRAMES * (1 + plan.restarts("server")) as u64;
        prop_assert!(counted <= offered * lives as u64, "{} counted: {:?}", counted, receiver);
        if lives > 1 || plan.restarts("server") > 0 {
            return Ok(());
        }
        // None is missing from the first frame that is played on to the end of the flow. A receiver that was there before the flow counts
        // those before, too.
        let Some(first) = frames.played.keys().min() else {
            return Ok(());
        };
        let possible = FRAMES - u64::from(*first)..=FRAMES;
        prop_assert!(possible.contains(&counted), "{} counted from {} on: {:?}", counted, first, receiver);
    }
}
