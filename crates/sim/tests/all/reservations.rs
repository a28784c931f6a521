//! Whatever comes and goes, and whatever signalling is lost with a channel: in the end there is a
//! reservation where there is a member behind it, and nowhere else (specs/mets.md 2.10).

use std::fmt::Write;

use crate::common::{run, scenario};
use layercast_core::CellRate;
use layercast_sim::SimSummary;
use proptest::prelude::*;

/// Two flows down a tree; media continue to the end.
const TREE: &str = r#"
name = "tree"
duration = "32s"
carriage = "datagrams"
detection = "200ms"
node = [
    { name = "source", kind = "host" },
    { name = "root", kind = "switch" },
    { name = "left", kind = "switch" },
    { name = "right", kind = "switch" },
    { name = "r0", kind = "host" },
    { name = "r1", kind = "host" },
    { name = "r2", kind = "host" },
    { name = "r3", kind = "host" },
]
link = [
    { a = "source", b = "root", rate = "20 Mbit/s", delay = "1 ms" },
    { a = "root", b = "left", rate = "20 Mbit/s", delay = "3 ms" },
    { a = "root", b = "right", rate = "20 Mbit/s", delay = "5 ms" },
    { a = "root", b = "r0", rate = "20 Mbit/s", delay = "1 ms" },
    { a = "left", b = "r1", rate = "20 Mbit/s", delay = "1 ms" },
    { a = "left", b = "r2", rate = "20 Mbit/s", delay = "1 ms" },
    { a = "right", b = "r3", rate = "20 Mbit/s", delay = "1 ms" },
]
flow = [
    { name = "film", source = "source", clip = { synthetic = "lougher" }, frame_rate = 12, delay_max = "2s" },
    { name = "news", source = "source", clip = { synthetic = "lougher" }, frame_rate = 12, delay_max = "2s" },
]
"#;

/// The links of the tree, in the direction of the media, with the receivers behind each.
const LINKS: [(&str, &str, &[usize]); 7] = [
    ("source", "root", &[0, 1, 2, 3]),
    ("root", "left", &[1, 2]),
    ("root", "right", &[3]),
    ("root", "r0", &[0]),
    ("left", "r1", &[1]),
    ("left", "r2", &[2]),
    ("right", "r3", &[3]),
];

/// All of it is over by then, with time to come to rest.
const LAST: u32 = 16_000;

#[derive(Clone, Debug)]
struct Guest {
    news: bool,
    join: u32,
    stays: Option<u32>,
}

fn guest() -> impl Strategy<Value = Guest> {
    let stays = prop::option::of(100..8_000u32);
    (any::<bool>(), 0..LAST - 8_000, stays).prop_map(|(news, join, stays)| Guest {
        news,
        join,
        stays,
    })
}

/// Link or switch that fails, when and for how long.
fn faults() -> impl Strategy<Value = Vec<(usize, u32, u32)>> {
    prop::collection::vec((0..10usize, 500..LAST - 4_000, 300..4_000u32), 0..4)
}

/// Requests of servers: of which, when, and the mean of the base layer asked for.
fn requests() -> impl Strategy<Value = Vec<(bool, u32, u32)>> {
    let mean = prop_oneof![300..4_000u32, 60_000..90_000u32];
    prop::collection::vec((any::<bool>(), 1_000..LAST, mean), 0..4)
}

fn flow(news: bool) -> &'static str {
    if news { "news" } else { "film" }
}

fn story(guests: &[Guest], faults: &[(usize, u32, u32)], requests: &[(bool, u32, u32)]) -> String {
    let mut text = String::from(TREE);
    for (i, guest) in guests.iter().enumerate() {
        let Guest { news, join, stays } = *guest;
        let name = format!("g{i}");
        let (node, flow) = (format!("r{}", i % 4), flow(news));
        let _ = write!(
            text,
            "[[receiver]]\nname = \"{name}\"\nnode = \"{node}\"\nflow = \"{flow}\"\njoin = \"{join}ms\"\n"
        );
        if let Some(stays) = stays {
            let _ = writeln!(text, "leave = \"{}ms\"", join + stays);
        }
    }
    for &(what, at, length) in faults {
        let (down, up, target) = match LINKS.get(what) {
            Some((a, b, _)) => ("link_down", "link_up", format!("link = [\"{a}\", \"{b}\"]")),
            None => {
                let node = ["root", "left", "right"][what - LINKS.len()];
                ("kill", "restart", format!("node = \"{node}\""))
            }
        };
        for (at, kind) in [(at, down), (at + length, up)] {
            let _ = write!(
                text,
                "[[fault]]\nat = \"{at}ms\"\nkind = \"{kind}\"\n{target}\n"
            );
        }
    }
    for &(news, at, mean) in requests {
        let _ = write!(
            text,
            "[[request]]\nat = \"{at}ms\"\nflow = \"{}\"\noption = {{ flow_spec = {{ layers = {{ BL = {{ mean = {mean}, peak = {mean} }} }} }} }}\n",
            flow(news)
        );
    }
    text
}

/// The base layer a flow has in the end: that of the last request granted.
fn base(summary: &SimSummary, of: usize, requests: &[(bool, u32, u32)], first: u32) -> u32 {
    let mut asked: Vec<_> = requests.iter().collect();
    asked.sort_by_key(|&&(_, at, _)| at);
    let mut answers = summary.flows[of].answers.iter();
    let granted = answers.rfind(|answer| answer.code == "OK");
    granted.map_or(first, |answer| asked[answer.request as usize].2)
}

fn is_served(summary: &SimSummary, name: &str) -> bool {
    let series = &summary.receiver(name).unwrap().series;
    series
        .iter()
        .any(|sample| sample.t >= 28.0 && sample.rate_bps > 0)
}

/// Runs a story and looks at what is reserved in the end.
fn check(
    guests: &[Guest],
    faults: &[(usize, u32, u32)],
    requests: &[(bool, u32, u32)],
) -> Result<(), TestCaseError> {
    let written = scenario(&story(guests, faults, requests));
    let network = written.validate().unwrap();
    let first = |flow: usize| network.flows[flow].config.flow.spec.layers.base.mean.0;
    let means = [first(0), first(1)];
    let summary = run(&written);
    let bases = [0, 1].map(|flow| base(&summary, flow, requests, means[flow]));
    let served: Vec<bool> = (0..guests.len())
        .map(|i| guests[i].stays.is_none() && is_served(&summary, &format!("g{i}")))
        .collect();
    for (i, guest) in guests.iter().enumerate() {
        let receiver = summary.receiver(&format!("g{i}")).unwrap();
        prop_assert!(
            served[i] || guest.stays.is_some() || receiver.refused.is_some(),
            "g{} waits in silence",
            i
        );
        if faults.is_empty() {
            prop_assert_eq!((receiver.lost.base, receiver.late_base), (0, 0), "g{}", i);
        }
    }
    for (from, to, below) in LINKS {
        let wanted: u32 = (0..2)
            .filter(|&flow| {
                let mut members = guests.iter().enumerate();
                members.any(|(i, guest)| {
                    served[i] && usize::from(guest.news) == flow && below.contains(&(i % 4))
                })
            })
            .map(|flow| bases[flow])
            .sum();
        let mut queues = summary.queues.iter();
        let queue = queues
            .find(|queue| queue.node == from && queue.port == to)
            .unwrap();
        prop_assert_eq!(queue.reserved, CellRate(wanted), "{}-{}", from, to);
    }
    // Every request was answered exactly once.
    let answers = summary.flows.iter().flat_map(|flow| &flow.answers);
    let mut answered: Vec<u32> = answers.map(|answer| answer.request).collect();
    answered.sort_unstable();
    let all: Vec<u32> = (0..requests.len() as u32).collect();
    prop_assert_eq!(answered, all);
    Ok(())
}

/// The change is asked for when the branch has expired at the source and the switch below still has
/// its own: that one is refused when it joins again, and those behind it must hear of it.
#[test]
fn a_branch_refused_after_an_outage_does_not_wait_in_silence() {
    let guest = Guest {
        news: false,
        join: 0,
        stays: None,
    };
    let (fault, request) = ((0, 8_139, 2_763), (false, 11_106, 60_000));
    // At the first switch alone, and behind each of them.
    for guests in [1, 4] {
        let guests = vec![guest.clone(); guests];
        check(&guests, &[fault], &[request]).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn there_is_a_reservation_where_there_is_a_member_and_nowhere_else(
        guests in prop::collection::vec(guest(), 1..7), faults in faults(), requests in requests(),
    ) {
        check(&guests, &faults, &requests)?;
    }
}
