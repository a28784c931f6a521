//! `layercast fec` as a user runs it.

use std::fs;

use crate::common::{complaint, folder, json, run};

const TREE: &str = r#"
[[branch]]
name = "wan"
loss = 0.001
hops = 12

[[branch]]
name = "access points"
parent = "wan"
loss = 0.02
count = 40

[[branch]]
name = "office"
parent = "wan"
loss = 0.0001
hops = 3
count = 200
"#;

fn tree(test: &str, text: &str) -> String {
    let path = folder(test).join("tree.toml");
    fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn placements_are_ranked_by_net_gain() {
    let tree = tree("fec-plan", TREE);
    let plan = json(&run(&["fec", "plan", &tree, "--json"]));
    assert_eq!(
        (&plan["receivers"], &plan["links"]),
        (&240.into(), &652.0.into())
    );
    let placements = plan["placements"].as_array().expect("placements");
    assert_eq!(placements.len(), 7);
    let net: Vec<f64> = placements
        .iter()
        .filter_map(|it| it["net_gain"].as_f64())
        .collect();
    assert!(net.is_sorted_by(|a, b| a >= b) && net[0] > 1.2, "{net:?}");
    let text = run(&["fec", "plan", &tree, "--code", "14+2"]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.starts_with("240 receivers, 652 links"), "{text}");
    assert!(text.contains("14+2, 14+2, 14+2"), "{text}");
    let ideal = json(&run(&["fec", "plan", &tree, "--factor", "100", "--json"]));
    assert_eq!(ideal["placements"][0]["overhead"], 1.0);
}

#[test]
fn what_is_wrong_is_named() {
    let circle = tree(
        "fec-circle",
        "[[branch]]\nname = \"a\"\nparent = \"a\"\nloss = 0.1\n",
    );
    let output = run(&["fec", "plan", &circle]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint(&output).contains("branch a is its own ancestor"),
        "{}",
        complaint(&output)
    );
    let lossy = tree("fec-lossy", "[[branch]]\nname = \"a\"\nloss = 1.5\n");
    assert!(complaint(&run(&["fec", "plan", &lossy])).contains("branch a"));
    assert_eq!(
        run(&["fec", "plan", &lossy, "--code", "0+1"]).status.code(),
        Some(2)
    );
    assert_eq!(
        run(&["fec", "plan", "/nowhere/tree.toml"]).status.code(),
        Some(1)
    );
}
