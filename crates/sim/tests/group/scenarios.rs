//! Scenario files: those that come with Layercast, and what is wrong with others.

use std::path::{Path, PathBuf};

use layercast_sim::group::Simulation;
use layercast_sim::group::scenario::{GroupScenario, is_group};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn ready_made(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("group/{name}.toml"))).unwrap()
}

#[test]
fn ready_made_scenarios_run_and_deliver() {
    for name in ["star", "tree", "frm", "rmtp", "aggregators"] {
        let text = ready_made(name);
        assert!(is_group(&text));
        let scenario = GroupScenario::from_toml(&text).unwrap();
        let json = serde_json::to_string(&scenario).unwrap();
        assert_eq!(GroupScenario::from_json(&json).unwrap(), scenario);
        let mut simulation = Simulation::new(scenario.resolve().unwrap()).unwrap();
        simulation.run(|_| true);
        let summary = simulation.summary();
        assert_eq!(
            (&summary.failure, summary.partial),
            (&None, false),
            "{name}"
        );
        let expelled = summary.sent.ejected;
        assert_eq!(
            summary.outcomes.delivered + expelled,
            summary.receivers,
            "{name}: {:?}",
            summary.outcomes
        );
    }
}

/// The error of a scenario in which `from` is replaced.
fn error(name: &str, from: &str, to: &str) -> String {
    let text = ready_made(name).replacen(from, to, 1);
    let resolved = GroupScenario::from_toml(&text).and_then(|scenario| scenario.resolve());
    let found = resolved.expect_err("it is wrong");
    found.located(&text).to_string()
}

#[test]
fn errors_name_the_line_and_what_would_do() {
    for (name, from, to, wanted) in [
        (
            "star",
            "loss = 0.01",
            "loss = 1.0",
            "line 14: branch[0].loss: it is 1; expected a probability from 0, below 1",
        ),
        (
            "star",
            "rate = \"8 Mbit/s\"",
            "",
            "line 6: session.rate: it is missing",
        ),
        (
            "star",
            "rate = \"8 Mbit/s\"",
            "rate = \"8\"",
            "line 9: session.rate: \"8\" has no unit",
        ),
        (
            "star",
            "packets = 2000",
            "packets = 0",
            "line 8: session.packets: it is 0; expected 1 to",
        ),
        (
            "star",
            "count = 1000",
            "count = 9000000",
            "branch[0].count: that makes 9000001 nodes",
        ),
        (
            "star",
            "delay_to = \"50ms\"",
            "delay_to = \"5ms\"",
            "line 16: branch[0].delay_to",
        ),
        (
            "star",
            "packets",
            "pakets",
            "line 8: session.pakets: there is no field \"pakets\"; did you mean \"packets\"?",
        ),
        (
            "tree",
            "parent = \"shared\"",
            "parent = \"shard\"",
            "there is no branch above \"shard\"; did you mean \"shared\"?",
        ),
        (
            "tree",
            "branches = [\"lan\"]",
            "branches = [\"lan\", \"lan\"]",
            "fec[0].branches[1]",
        ),
        ("tree", "n = 20", "n = 0", "n must be at least 1"),
        (
            "tree",
            "name = \"wan\"",
            "name = \"shared\"",
            "the branch shared is there already, in branch[0]",
        ),
        (
            "frm",
            "receivers = \"9..10\"",
            "receivers = \"9..11\"",
            "fault[0].receivers: it is 11; expected the number of a receiver: 1 to 10",
        ),
        (
            "frm",
            "k = 1.5",
            "k = 0.5",
            "session.k: it is 0.5; expected above 1",
        ),
        (
            "frm",
            "[stream]\npackets = 1500\ninterval = \"10ms\"\nservice = \"0.5ms\"",
            "",
            "stream: it is missing",
        ),
        (
            "rmtp",
            "delta = \"3ms\"",
            "spread = \"3ms\"",
            "session.spread: it means nothing here",
        ),
        (
            "rmtp",
            "packets = 2000",
            "packets = 2000\nsize = \"2 MB\"",
            "it is one of size and packets",
        ),
    ] {
        let found = error(name, from, to);
        assert!(found.contains(wanted), "{name}, {to}: {found}");
    }
}

#[test]
fn the_json_schema_in_the_repository_is_current() {
    let path = folder().join("group.schema.json");
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let current = serde_json::to_string_pretty(&GroupScenario::json_schema()).unwrap() + "\n";
    if std::env::var_os("LAYERCAST_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    if std::env::var_os("LAYERCAST_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    } else {
        assert!(
            found == current,
            "write {} again: LAYERCAST_WRITE_SCHEMA=1",
            path.display()
        );
    }
}

#[test]
fn a_byte_order_mark_before_the_schema_hides_nothing() {
    let text = ready_made("star");
    let text = text.split_once("schema = ").unwrap().1;
    let marked = format!("\u{feff}schema = {text}");
    assert!(is_group(&marked));
    let scenario = GroupScenario::from_toml(&marked).unwrap();
    assert_eq!(scenario, GroupScenario::from_toml(&marked[3..]).unwrap());
}
