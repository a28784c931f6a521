//! RACK-TLP and HyStart++ in networks: the loss of last segments, reordering, and the first overflow.

use std::path::Path;

use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Report};

fn run(scenario: &str) -> Report {
    let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
    Internet::new(&scenario.resolve().unwrap())
        .unwrap()
        .run(&mut ())
}

/// With the TCP as it is, and with this line in its table.
fn beside(scenario: &str, line: &str) -> [Report; 2] {
    ["", line].map(|line| run(&scenario.replace("# more", line)))
}

/// 200 short transfers, one after the other, over a path that loses 2 % of the data.
const SHORT: &str = r#"
    schema = "internet/1"
    name = "short"
    run = { duration = "60s", seed = 5 }
    topology = { kind = "dumbbell", pairs = 2, access = { rate = "1 Gbit/s", delay = "1ms" }, trunk = { rate = "50 Mbit/s", delay = "18ms", queue = "200 packets", loss = 0.02, back = { loss = 0 } } }
    generate = [{ name = "web", sizes = "const(14000) B", from = ["left1"], to = ["right1"], gap = "250ms", flows = 200, established = true }]
    [tcp.default]
    variant = "cubic"
    # more
"#;

#[test]
fn short_transfers_wait_for_no_time_out() {
    let [old, new] = beside(SHORT, "recovery = \"rack\"").map(|it| it.generators[0].clone());
    assert_eq!((old.completed, new.completed), (200, 200));
    assert!(old.timeouts >= 10, "{old:?}");
    assert!(new.timeouts <= old.timeouts / 4, "{new:?} {old:?}");
    let [old, new] = [old, new].map(|it| it.completion.unwrap().p95);
    assert!(new < old, "{new} {old}");
}

/// A path with jitter that lets segments overtake each other, and loses nothing.
const REORDERS: &str = r#"
    schema = "internet/1"
    name = "reorders"
    run = { duration = "20s", warm_up = "2s", seed = 5 }
    topology = { kind = "dumbbell", pairs = 1, access = { rate = "1 Gbit/s", delay = "1ms" }, trunk = { rate = "20 Mbit/s", delay = "18ms", queue = "200 packets", jitter = { uniform = "4ms" }, reorder = true } }
    flow = [{ name = "bulk", from = "left1", to = "right1" }]
    [tcp.default]
    variant = "cubic"
    recv_buffer = "150 kB"
    # more
"#;

/// What RACK-TLP makes of this jitter, over some seeds, beside three duplicates: at most one segment in a thousand is sent again.
fn is_no_loss(jitter: &str, timestamps: bool, least_bps: f64) {
    for seed in 1..5 {
        let scenario = REORDERS
            .replace("4ms", jitter)
            .replace("seed = 5", &format!("seed = {seed}"));
        let scenario = format!("{scenario}\n    timestamps = {timestamps}\n");
        let [old, new] = beside(&scenario, "recovery = \"rack\"").map(|it| it.flows[0].clone());
        assert!(old.fast_retransmits > 15, "{old:?}");
        assert!(1_000 * new.retransmitted <= new.sent, "{new:?}");
        assert!(new.timeouts == 0 && new.goodput_bps > least_bps, "{new:?}");
        assert!(new.goodput_bps > 1.3 * old.goodput_bps, "{new:?} {old:?}");
    }
}

#[test]
fn reordering_is_no_loss() {
    is_no_loss("4ms", true, 18e6);
}

/// Reordering beyond a quarter of the round trip: duplicates that the receiver reports make the window wider (RFC 8985 6.2, step 4).
#[test]
fn reordering_beyond_the_window_makes_it_wider() {
    for timestamps in [true, false] {
        is_no_loss("16ms", timestamps, 15e6);
    }
}

/// Losses on a path that reorders across several round trips: each transfer ends, since a timer runs as long as anything is missing.
#[test]
fn every_transfer_ends_on_a_path_that_loses_and_reorders() {
    for more in ["frto = false", "frto = true", "recovery = \"rack\""] {
        let report = run(&format!(
            r#"
            schema = "internet/1"
            name = "lossy"
            run = {{ duration = "600s" }}
            tcp.default = {{ profile = "modern", {more} }}
            [topology]
            kind = "star"
            hosts = 20
            access = {{ rate = "100 Mbit/s", delay = "2ms", queue = "50 packets", loss = 0.05, jitter = {{ uniform = "100ms" }}, reorder = true }}
            [[generate]]
            flows = 1500
            gap = "exp(5ms)"
            from = ["host{{1..20}}"]
            sizes = "exp(30000) B"
            "#
        ));
        let generator = &report.generators[0];
        assert_eq!(
            (generator.started, generator.completed),
            (1_500, 1_500),
            "{more}"
        );
    }
}

/// Acknowledgements that overtake each other have old timestamps. Each is no reason for another one: both ends would answer without end.
#[test]
fn acknowledgements_do_not_answer_each_other() {
    let report = run(r#"
        schema = "internet/1"
        name = "storm"
        run = { duration = "3s" }
        host = [{ name = "a" }, { name = "b" }]
        link = [{ ends = ["a", "b"], rate = "1 Gbit/s", delay = "1ms", duplicate = 1.0, jitter = { uniform = "50ms" }, reorder = true }]
        flow = [{ from = "a", to = "b", bytes = "400 kB", established = true }]
        "#);
    assert!(report.flows[0].completed.is_some());
    let sent: u64 = report.queues.iter().map(|it| it.sent).sum();
    assert!(sent < 5_000, "{sent}");
}
