//! The words of the dashboard for what a node says.

use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/src/reference/schemas/stats.schema.json");
const WORDS: &str = include_str!("../../assets/counters.js");

#[test]
fn each_value_of_a_link_and_a_flow_has_a_word_and_a_unit() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (name, path) in [
        ("LinkReport", "link"),
        ("PathReport", "link.path"),
        ("ClockReport", "link.clock"),
        ("FlowStats", "flow"),
        ("Contract", "flow.contract"),
    ] {
        let properties = schema["$defs"][name]["properties"].as_object().unwrap();
        assert!(properties.len() > 3, "{name}: {properties:?}");
        for key in properties.keys() {
            let entry = format!("\"{path}.{key}\": [");
            assert!(WORDS.contains(&entry), "no {entry} in assets/counters.js");
        }
    }
}

#[test]
fn what_identifies_a_link_or_a_flow_comes_first() {
    let place = |key: &str| WORDS.find(&format!("\"{key}\": [")).unwrap();
    let flow = [
        "flow.name",
        "flow.source",
        "flow.fps",
        "flow.level_bps",
        "flow.contract",
        "flow.advice",
    ];
    assert!(flow.map(place).is_sorted());
    let link = [
        "link.neighbour",
        "link.sent",
        "link.lost",
        "link.repaired",
        "link.rtt_us",
        "link.path",
    ];
    assert!(link.map(place).is_sorted());
    // The page keeps to that order, whatever that of the object is.
    assert!(WORDS.contains(".sort(([a], [b]) => place(a) - place(b))"));
}
