use layercast_fec::model::{Effect, PlanError, Tree, TreeFile, TreeFileError, plan, residual};
use serde_json::json;

fn names(found: &[String]) -> Vec<&str> {
    found.iter().map(String::as_str).collect()
}

#[test]
fn the_paper_s_placements_are_ranked() {
    let tree = Tree::tree4(30, 15, 5, 3_000, 25, [1e-3, 1e-3, 1e-4]);
    let plan = plan(&tree, Effect::Factor(100.0)).expect("a plan");
    assert_eq!(
        (plan.receivers, plan.links, plan.placements.len()),
        (3_000, 10.0 + 120.0 * 15.0 + 15_000.0, 7)
    );
    let gain = |parts: &[&str]| {
        let found = plan.placements.iter().find(|it| names(&it.parts) == parts);
        found.map(|it| (it.gain * 1_000.0).round() / 1_000.0)
    };
    assert_eq!(
        (gain(&["shared", "wan"]), gain(&["lan"])),
        (Some(1.152), Some(1.091))
    );
    assert_eq!(names(&plan.placements[0].parts), ["shared", "wan", "lan"]);
    assert!(
        plan.placements
            .iter()
            .all(|it| it.overhead == 1.0 && it.net_gain == it.gain)
    );
}

#[test]
fn parities_count_on_the_links_that_carry_them() {
    let tree = Tree::tree3(30, 5, 30, 1e-3, 1e-2);
    let plan = plan(&tree, Effect::Code { n: 14, m: 2 }).expect("a plan");
    let branch = plan
        .placements
        .iter()
        .find(|it| names(&it.parts) == ["branch"])
        .expect("a placement");
    let overhead = 1.0 + 150.0 / 175.0 * 2.0 / 14.0;
    assert!((branch.overhead - overhead).abs() < 1e-12);
    assert!((branch.net_gain - branch.gain / overhead).abs() < 1e-12);
    assert_eq!(branch.parity_links, 150.0);
    // The branch has the loss after decoding of the formula.
    let decoded = residual(14, 2, 1.0 - 0.99_f64.powi(5));
    let without = Tree::tree3(6, 1, 30, 1.0 - 0.999_f64.powi(25), decoded);
    let direct = Tree {
        below: vec![layercast_fec::model::Branch {
            hops: 1,
            ..without.below[0].clone()
        }],
    };
    assert!((branch.expected - direct.expected().expect("a tree")).abs() < 1e-12);
}

/// The best code of a search is at least as good as any fixed one, and has no gain without loss.
#[test]
fn codes_are_chosen_part_by_part() {
    let tree = Tree::tree3(30, 5, 30, 1e-3, 1e-2);
    let best = plan(&tree, Effect::Best { block: 100 }).expect("a plan");
    for (n, m) in [(7, 1), (14, 2), (42, 3), (20, 4)] {
        let fixed = plan(&tree, Effect::Code { n, m }).expect("a plan");
        assert!(
            best.placements[0].net_gain >= fixed.placements[0].net_gain,
            "{n}+{m}"
        );
    }
    assert!(best.placements[0].net_gain > 1.3);
    let perfect = plan(
        &Tree::tree3(30, 5, 30, 0.0, 0.0),
        Effect::Best { block: 100 },
    )
    .expect("a plan");
    assert!(
        perfect
            .placements
            .iter()
            .all(|it| it.net_gain == 1.0 && it.codes.iter().all(|it| it[1] == 0))
    );
}

#[test]
fn effects_that_are_none_are_refused() {
    let tree = Tree::tree3(30, 5, 30, 1e-3, 1e-2);
    for effect in [
        Effect::Factor(0.5),
        Effect::Factor(f64::NAN),
        Effect::Code { n: 0, m: 1 },
        Effect::Code { n: 5, m: 0 },
        Effect::Best { block: 1 },
    ] {
        assert!(
            matches!(plan(&tree, effect), Err(PlanError::Effect(_))),
            "{effect:?}"
        );
    }
}

fn file(branches: serde_json::Value) -> Result<(Tree, Vec<String>), TreeFileError> {
    let file: TreeFile = serde_json::from_value(json!({ "branch": branches })).expect("a file");
    file.tree()
}

#[test]
fn a_file_describes_a_tree() {
    let (tree, warnings) = file(json!([
        { "name": "cells", "parent": "wan", "loss": 0.02, "count": 40, "part": "wifi" },
        { "name": "wan", "loss": 0.001, "hops": 12 },
        { "name": "office", "parent": "wan", "loss": 0.0001, "hops": 3, "count": 200 },
        { "name": "empty", "parent": "wan", "loss": 0.1, "receiver": false },
    ]))
    .expect("a tree");
    assert_eq!((tree.receivers(), tree.links()), (240, 12.0 + 40.0 + 600.0));
    assert_eq!(warnings, ["branch empty has no receivers and is left out"]);
    let plan = plan(&tree, Effect::Best { block: 64 }).expect("a plan");
    assert_eq!(names(&plan.placements[0].parts)[..1], ["wan"]);
    let single = plan.placements.iter().filter(|it| it.parts.len() == 1);
    let best = single
        .max_by(|a, b| a.net_gain.total_cmp(&b.net_gain))
        .expect("placements");
    assert_eq!(names(&best.parts), ["wifi"]);
}

#[test]
fn files_that_describe_none_name_the_branch() {
    let branch =
        |name: &str, parent: Option<&str>| json!({ "name": name, "parent": parent, "loss": 0.1 });
    let twice = file(json!([branch("a", None), branch("a", None)]));
    assert_eq!(twice, Err(TreeFileError::Twice("a".to_owned())));
    let orphan = file(json!([branch("a", Some("b"))]));
    assert!(matches!(orphan, Err(TreeFileError::Parent { .. })));
    let circle = file(json!([
        branch("x", None),
        branch("a", Some("b")),
        branch("b", Some("a"))
    ]));
    assert_eq!(circle, Err(TreeFileError::Cycle("a".to_owned())));
    let chain = (0..1_000).map(|it: u32| {
        let parent = it.checked_sub(1).map(|it| it.to_string());
        branch(&it.to_string(), parent.as_deref())
    });
    let chain: Vec<_> = chain.collect();
    assert!(matches!(file(json!(chain)), Err(TreeFileError::Deep(_))));
}

#[test]
fn the_json_schema_in_the_repository_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/tree.schema.json"
    );
    let current = serde_json::to_string_pretty(&TreeFile::json_schema()).expect("a schema") + "\n";
    if std::env::var_os("LAYERCAST_WRITE_SCHEMA").is_some() {
        std::fs::write(path, &current).expect("written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == current, "{path} is out of date: make reference");
}
