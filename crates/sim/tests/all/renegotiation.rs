//! Requests of applications while media flow: a change by a server applies to all members or to none; a change
//! by a client applies to that client only (specs/mets.md 2.2).

use crate::common::{CHAIN, run, scenario};
use layercast_core::{CellRate, Level};
use layercast_mets::ReceiverSummary;
use layercast_sim::SimSummary;

fn with(more: &str) -> SimSummary {
    run(&scenario(&format!("{CHAIN}\n{more}")))
}

/// What base layers have reserved between two nodes in the end.
fn reserved(summary: &SimSummary, from: &str, to: &str) -> CellRate {
    let queue = summary
        .queues
        .iter()
        .find(|queue| queue.node == from && queue.port == to);
    queue.unwrap().reserved
}

fn codes(summary: &SimSummary) -> Vec<&'static str> {
    summary.flows[0].answers.iter().map(|it| it.code).collect()
}

const TREE: [(&str, &str); 6] = [
    ("source", "one"),
    ("one", "two"),
    ("two", "three"),
    ("one", "near"),
    ("two", "middle"),
    ("three", "far"),
];

#[test]
fn a_server_raises_the_base_layer_at_every_hop_and_nobody_loses_a_base_frame() {
    let summary = with(
        r#"
        [[request]]
        at = "8s"
        flow = "film"
        option = { flow_spec = { layers = { BL = { mean = 4000, peak = 8000 } } } }
        "#,
    );
    assert_eq!(codes(&summary), ["OK"]);
    // A GOP of 12 pictures at 24 per second: in force half a second later at the latest.
    let at = summary.flows[0].answers[0].t;
    assert!((8.0..8.6).contains(&at), "{at}");
    for (from, to) in TREE {
        assert_eq!(reserved(&summary, from, to), CellRate(4_000), "{from}-{to}");
    }
    for name in ["near", "middle", "far"] {
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(receiver.frames.base, 40, "{name}");
        assert_eq!((receiver.lost, receiver.late), Default::default(), "{name}");
    }
}

#[test]
fn a_raise_that_one_link_cannot_carry_changes_nothing_anywhere() {
    let narrow = CHAIN.replace(
        r#"a = "two", b = "three", rate = "100 Mbit/s""#,
        r#"a = "two", b = "three", rate = "2 Mbit/s""#,
    );
    // There the largest picture takes longer.
    let narrow = narrow.replace(r#"delay_max = "300ms""#, r#"delay_max = "600ms""#);
    let before = run(&scenario(&narrow));
    let summary = run(&scenario(&format!(
        r#"{narrow}
        [[request]]
        at = "8s"
        flow = "film"
        option = {{ flow_spec = {{ layers = {{ BL = {{ mean = 5000, peak = 5000 }} }} }} }}
        "#
    )));
    let answer = &summary.flows[0].answers[0];
    assert_eq!(answer.code, "EADMIT");
    // Nine tenths of 2 Mbit/s are 4245 cells of 53 bytes per second.
    let detail = "two: not enough bandwidth for the base layer: needs 2.12 Mbit/s (5000 cells/s), has 1.80 Mbit/s (4244 ";
    assert!(answer.detail.starts_with(detail), "{}", answer.detail);
    for (from, to) in TREE {
        let [then, now] = [&before, &summary].map(|it| reserved(it, from, to));
        assert_eq!(then, now, "{from}-{to}");
    }
    for name in ["near", "middle", "far"] {
        assert_eq!(summary.receiver(name), before.receiver(name), "{name}");
    }
}

#[test]
fn what_a_server_lets_go_is_free_for_others_from_then_on() {
    // The link takes one base layer of this size, and a little.
    let scarce = CHAIN.replace(
        r#"a = "one", b = "two", rate = "100 Mbit/s", delay = "1 ms""#,
        r#"a = "one", b = "two", rate = "100 Mbit/s", delay = "1 ms", adapt_capacity = "700 cells/s""#,
    );
    let scarce = scarce.replace(
        "flow = [",
        r#"flow = [
    { name = "news", source = "source", clip = { synthetic = "canyon" }, frame_rate = 24 },"#,
    );
    let scarce = scarce.replace(
        r#"{ node = "far", flow = "film" },"#,
        r#"{ node = "far", flow = "news", join = "12s" },"#,
    );
    let refused = run(&scenario(&scarce));
    let far = refused.receiver("far").unwrap();
    assert!(far.refused.as_ref().unwrap().starts_with("one: not enough"));
    let lowered = run(&scenario(&format!(
        r#"{scarce}
        [[request]]
        at = "8s"
        flow = "film"
        option = {{ flow_spec = {{ layers = {{ BL = {{ mean = 100 }} }} }} }}
        "#
    )));
    let far = lowered.receiver("far").unwrap();
    assert_eq!((far.refused.as_ref(), far.lost.base), (None, 0));
    assert!(far.frames.base > 15, "{:?}", far.frames);
    assert_eq!(lowered.receiver("middle").unwrap().lost.base, 0);
}

#[test]
fn a_client_changes_nothing_for_others() {
    let before = with("");
    let summary = with(
        r#"
        [[request]]
        at = "8s"
        receiver = "near"
        option = { qos_policy = { max_level = 0 } }
        [[request]]
        at = "8s"
        receiver = "near"
        option = { flow_spec = { gop_n = 24 } }
        [[request]]
        at = "9s"
        receiver = "near"
        option = { flow_spec = { delay_max_ms = 3 } }
        [[request]]
        at = "9s"
        receiver = "near"
        option = { filter = ["drs"] }
        "#,
    );
    let codes: Vec<_> = codes(&summary);
    assert_eq!(codes, ["OK", "EPOLICY", "EADMIT", "ENOFILTER"]);
    let near = summary.receiver("near").unwrap();
    assert_eq!(near.levels.last().unwrap().1, Level::BASE);
    assert_eq!((near.frames.base, near.lost), (40, Default::default()));
    assert!(near.withheld.e2 > 0);
    for name in ["middle", "far"] {
        assert_eq!(summary.receiver(name), before.receiver(name), "{name}");
    }
}

#[test]
fn a_server_answers_each_request_once_and_one_at_a_time() {
    let summary = with(
        r#"
        [[request]]
        at = "8s"
        flow = "film"
        option = { flow_spec = { delay_max_ms = 400 } }
        [[request]]
        at = "8s"
        flow = "film"
        option = "maint"
        [[request]]
        at = "9s"
        flow = "film"
        option = "signal"
        [[request]]
        at = "9s"
        flow = "film"
        option = { flow_spec = { max_frame = 0 } }
        [[request]]
        at = "23s"
        flow = "film"
        option = "monitor"
        "#,
    );
    let answers = summary.flows[0].answers.iter();
    let mut answers: Vec<_> = answers.map(|it| (it.request, it.code)).collect();
    answers.sort_unstable();
    let expected = [
        (0, "OK"),
        (1, "EBUSY"),
        (2, "OK"),
        (3, "EINVAL"),
        (4, "ECLOSED"),
    ];
    assert_eq!(answers, expected);
    let detail = &summary.flows[0].answers[3].detail;
    assert!(detail.starts_with("max_frame 0 is not in"), "{detail}");
    // The playout delay is the bound, and moved with it.
    for name in ["near", "middle", "far"] {
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(receiver.series.last().unwrap().playout_ms, Some(400.0));
        assert_eq!((receiver.frames.base, receiver.lost.base), (40, 0));
    }
}

#[test]
fn a_change_that_a_dead_link_swallows_times_out_and_is_void() {
    let summary = with(
        r#"
        detection = "20s"
        [[fault]]
        at = "8s"
        kind = "link_down"
        link = ["two", "three"]
        [[request]]
        at = "8s"
        flow = "film"
        option = { flow_spec = { layers = { BL = { mean = 4000, peak = 8000 } } } }
        "#,
    );
    assert_eq!(codes(&summary), ["ETIMEDOUT"]);
    let at = summary.flows[0].answers[0].t;
    assert!((12.9..13.5).contains(&at), "{at}");
    let before = with("");
    for (from, to) in TREE {
        let [then, now] = [&before, &summary].map(|it| reserved(it, from, to));
        assert_eq!(then, now, "{from}-{to}");
    }
    assert_eq!(summary.receiver("near").unwrap().lost.base, 0);
}

#[test]
fn a_filter_that_a_server_chooses_stands_next_to_it_for_everybody_until_it_is_chosen_no_more() {
    let before = with("");
    let summary = with(
        r#"
        [[request]]
        at = "8s"
        flow = "film"
        option = { filter = ["jitter", { lowpass = 10 }] }
        [[request]]
        at = "14s"
        flow = "film"
        option = { filter = ["jitter"] }
        [[request]]
        at = "16s"
        flow = "film"
        option = { filter = ["drs", { lowpass = 10 }] }
        "#,
    );
    assert_eq!(codes(&summary), ["OK", "OK", "EINVAL"]);
    assert!(before.filters.is_empty());
    let [filter] = &summary.filters[..] else {
        panic!("{:?}", summary.filters);
    };
    assert_eq!((&*filter.node, &*filter.branch), ("source", "film/one"));
    // Six seconds of 24 frames, from one start of a GOP of 12 to another.
    let stats = filter.stats.filter;
    assert!((132..=156).contains(&stats.frames), "{stats:?}");
    let left = stats.bytes_out as f64 / stats.bytes_in as f64;
    assert!((0.75..0.79).contains(&left), "{stats:?}");
    for name in ["near", "middle", "far"] {
        let [receiver, whole] = [&summary, &before].map(|it| it.receiver(name).unwrap());
        assert_eq!((receiver.lost, receiver.late), Default::default(), "{name}");
        assert_eq!(receiver.frames, whole.frames, "{name}");
        let cells = |it: &ReceiverSummary| {
            let while_filtered = it.series.iter().filter(|it| (9.5..13.5).contains(&it.t));
            let cells = while_filtered.map(|it| it.cells.base + it.cells.e1 + it.cells.e2);
            f64::from(cells.sum::<u32>())
        };
        let share = cells(receiver) / cells(whole);
        assert!((0.74..0.80).contains(&share), "{name}: {share}");
    }
}
