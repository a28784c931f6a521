//! Core switches: where receivers meet the source's output, also where there is more than one way
//! (specs/mets.md 2.10).

use crate::common::{run, scenario};
use layercast_sim::SimSummary;

/// A ring of four switches; the way from `east` to the source is shorter by `south`.
const RING: &str = r#"
name = "ring"
duration = "24s"
carriage = "datagrams"
node = [
    { name = "source", kind = "host" },
    { name = "west", kind = "switch" },
    { name = "north", kind = "switch" },
    { name = "south", kind = "switch" },
    { name = "east", kind = "switch" },
    { name = "early", kind = "host" },
    { name = "late", kind = "host" },
    { name = "aside", kind = "host" },
]
link = [
    { a = "source", b = "west", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "west", b = "south", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "south", b = "east", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "west", b = "north", rate = "100 Mbit/s", delay = "9 ms" },
    { a = "north", b = "east", rate = "100 Mbit/s", delay = "9 ms" },
    { a = "east", b = "early", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "east", b = "late", rate = "100 Mbit/s", delay = "1 ms" },
    { a = "west", b = "aside", rate = "100 Mbit/s", delay = "1 ms" },
]
flow = [
    { name = "film", source = "source", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s", stop = "21s", delay_max = "400ms", core = "north" },
]
receiver = [
    { node = "early", flow = "film" },
    { node = "late", flow = "film", join = "5s" },
    { node = "aside", flow = "film" },
]
"#;

fn units(summary: &SimSummary, from: &str, to: &str) -> u64 {
    let queue = summary
        .queues
        .iter()
        .find(|queue| queue.node == from && queue.port == to);
    queue.unwrap().queue.units_out
}

#[test]
fn joins_go_by_the_core_and_the_tree_is_the_union_of_the_ways() {
    let direct = run(&scenario(&RING.replace(r#", core = "north""#, "")));
    let by_core = run(&scenario(RING));
    assert!(units(&direct, "south", "east") > 1_000);
    assert!(units(&by_core, "south", "east") < 100);
    assert!(units(&by_core, "north", "east") > 1_000);
    for name in ["early", "late", "aside"] {
        let receiver = by_core.receiver(name).unwrap();
        assert_eq!((receiver.lost, receiver.late), Default::default(), "{name}");
    }
    assert_eq!(by_core.receiver("early").unwrap().frames.base, 40);
    // On the way between source and core the tree branches where it is reached.
    assert!(by_core.receiver("aside").unwrap().delay_ms.p50 < 300.0);
    assert_eq!(by_core.receiver("aside").unwrap().frames.base, 40);
}

#[test]
fn the_core_is_chosen_for_the_members_that_are_there_at_the_start() {
    let auto = RING.replace(r#"core = "north""#, r#"core = "auto""#);
    let network = scenario(&auto).validate().unwrap();
    let core = network.flows[0].config.flow.core.as_deref();
    // west: 1 to the source, 3 and 1 to the members; all others are farther.
    assert_eq!(core, Some("west"));
    let far = auto.replace(r#"{ node = "aside", flow = "film" },"#, "");
    let network = scenario(&far).validate().unwrap();
    // All on the way are equal, and east is nearest the receiver.
    assert_eq!(network.flows[0].config.flow.core.as_deref(), Some("east"));
}

#[test]
fn a_core_that_is_not_there_is_named_in_the_refusal() {
    let cut = format!(
        r#"{}
        [[fault]]
        at = "0s"
        kind = "kill"
        node = "north"
        "#,
        RING.replace("join = \"5s\"", "join = \"2s\"")
    );
    let summary = run(&scenario(&cut));
    for name in ["early", "late", "aside"] {
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(
            receiver.refused.as_deref(),
            Some("north: no answer within 5000 ms"),
            "{name}"
        );
    }
}

#[test]
fn when_the_core_fails_those_behind_it_are_told_and_served_again_when_it_is_back() {
    let fails = format!(
        r#"{RING}
        [[fault]]
        at = "8s"
        kind = "kill"
        node = "north"
        [[fault]]
        at = "13s"
        kind = "restart"
        node = "north"
        "#
    );
    let summary = run(&scenario(&fails));
    let aside = summary.receiver("aside").unwrap();
    assert_eq!((aside.frames.base, aside.lost), (40, Default::default()));
    for name in ["early", "late"] {
        let receiver = summary.receiver(name).unwrap();
        let released = receiver.released.iter().map(|(_, reason)| reason.as_str());
        assert_eq!(
            released.collect::<Vec<_>>(),
            ["the way to its source is lost"],
            "{name}"
        );
        let (at, _) = receiver.released[0];
        assert!((11.0..13.0).contains(&at), "{name}: {at}");
        let late = receiver.series.iter().filter(|sample| sample.t >= 17.0);
        assert!(late.take(3).all(|sample| sample.rate_bps > 0), "{name}");
    }
}
