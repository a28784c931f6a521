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

#[test]
fn reordering_is_no_loss() {
    let [old, new] = beside(REORDERS, "recovery = \"rack\"").map(|it| it.flows[0].clone());
    assert!(old.fast_retransmits > 20, "{old:?}");
    assert_eq!((new.retransmitted, new.timeouts), (0, 0), "{new:?}");
    assert!(new.goodput_bps > 1.3 * old.goodput_bps, "{new:?} {old:?}");
}

/// Reordering beyond a quarter of the round trip: duplicates that the receiver reports make the window wider (RFC 8985 6.2, step 4).
#[test]
fn reordering_beyond_the_window_makes_it_wider() {
    for timestamps in [true, false] {
        let scenario = REORDERS.replace("4ms", "16ms");
        let scenario = format!("{scenario}\n    timestamps = {timestamps}\n");
        let [old, new] = beside(&scenario, "recovery = \"rack\"").map(|it| it.flows[0].clone());
        assert_eq!((new.retransmitted, new.timeouts), (0, 0), "{new:?}");
        assert!(new.goodput_bps > 15e6, "{new:?}");
        assert!(old.goodput_bps < 3e6, "{old:?}");
    }
}

/// A single connection over a path with a queue of twice what it holds.
const OVERSHOOTS: &str = r#"
    schema = "internet/1"
    name = "overshoots"
    run = { duration = "3s", seed = 5 }
    topology = { kind = "dumbbell", pairs = 1, access = { rate = "1 Gbit/s", delay = "1ms" }, trunk = { rate = "50 Mbit/s", delay = "24ms", queue = "430 packets" } }
    flow = [{ name = "bulk", from = "left1", to = "right1" }]
    [tcp.default]
    variant = "cubic"
    send_buffer = "8 MiB"
    recv_buffer = "8 MiB"
    # more
"#;

#[test]
fn the_first_slow_start_overflows_the_queue_less() {
    let [old, new] = beside(OVERSHOOTS, "slow_start = \"hystart++\"").map(|it| {
        let trunk = it.queues.iter().find(|it| it.name == "left->right");
        (trunk.unwrap().dropped_full, it.flows[0].goodput_bps)
    });
    assert!(old.0 > 200, "{old:?}");
    assert!(new.0 < old.0 / 2, "{new:?} {old:?}");
    assert!(new.1 > 0.95 * old.1, "{new:?} {old:?}");
}

#[test]
fn what_does_not_go_together_is_said() {
    let error = |line: &str| {
        let text = SHORT.replace("# more", line);
        let scenario = Scenario::from_toml(&text, Path::new(".")).unwrap();
        scenario.resolve().unwrap_err().to_string()
    };
    let said = error("sack = false\n    recovery = \"rack\"");
    assert!(
        said.contains("tcp.default.recovery: RACK needs sack = true"),
        "{said}"
    );
    let text = SHORT.replace("\"cubic\"", "\"linux\"");
    let scenario = text.replace("# more", "slow_start = \"hystart++\"");
    let scenario = Scenario::from_toml(&scenario, Path::new(".")).unwrap();
    let said = scenario.resolve().unwrap_err().to_string();
    assert!(
        said.contains("tcp.default.slow_start: HyStart++ needs"),
        "{said}"
    );
}
