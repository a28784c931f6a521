//! Flows of alternative layers (`composition = "alternative"`).

use crate::common::{json, ready_made, run, scenario};
use layercast_core::{Composition, Level, PerLayer};
use layercast_sim::SimSummary;
use layercast_sim::scenario::Scenario;

/// A source and three receivers: one with room for all levels, one for the middle and one for the lowest.
fn three(composition: &str, more: &str) -> Scenario {
    scenario(&format!(
        r#"
name = "renditions"
duration = "24s"
carriage = "datagrams"
wire_check = true
node = [
    {{ name = "source", kind = "host" }},
    {{ name = "switch", kind = "switch" }},
    {{ name = "wide", kind = "host" }},
    {{ name = "middle", kind = "host" }},
    {{ name = "narrow", kind = "host" }},
]
link = [
    {{ a = "source", b = "switch", rate = "100 Mbit/s", delay = "1 ms", queue = "500 ms" }},
    {{ a = "switch", b = "wide", rate = "100 Mbit/s", delay = "1 ms", queue = "500 ms" }},
    {{ a = "switch", b = "middle", rate = {{ fits = "film", level = 1, spare = 0.2 }}, delay = "1 ms", queue = "500 ms" }},
    {{ a = "switch", b = "narrow", rate = {{ fits = "film", level = 0, spare = 0.2 }}, delay = "1 ms", queue = "500 ms" }},
]
receiver = [
    {{ node = "wide", flow = "film" }},
    {{ node = "middle", flow = "film" }},
    {{ node = "narrow", flow = "film" }},
]
flow = [
    {{ name = "film", source = "source", clip = {{ synthetic = "canyon" }}, frame_rate = 24, start = "2s", stop = "22s", delay_max = "800ms", {composition} }},
]
{more}
"#
    ))
}

const ALTERNATIVE: &str = "composition = \"alternative\"";

fn frames(summary: &SimSummary, name: &str) -> PerLayer<u64> {
    let receiver = summary.receiver(name).unwrap();
    assert_eq!(receiver.lost, PerLayer::default(), "{name}: {receiver:#?}");
    assert_eq!(receiver.late, 0, "{name}");
    receiver.frames
}

fn last_level(summary: &SimSummary, name: &str) -> Level {
    summary.receiver(name).unwrap().levels.last().unwrap().1
}

#[test]
fn every_receiver_has_all_pictures_in_the_rendition_that_its_link_carries() {
    let summary = run(&three(ALTERNATIVE, ""));
    assert_eq!(summary.flows[0].composition, Composition::Alternative);
    assert_eq!(summary.wire_errors, 0);
    for (name, level) in [("narrow", 0), ("middle", 1), ("wide", 2)] {
        let frames = frames(&summary, name);
        let all: u64 = frames.iter().map(|(_, count)| count).sum();
        assert_eq!(all, 480, "{name}: 20 s of 24 pictures: {frames:?}");
        assert_eq!(last_level(&summary, name).get(), level, "{name}");
        let (_, own) = frames.iter().nth(usize::from(level)).unwrap();
        assert!(*own >= 470, "{name}: {frames:?}");
    }
}

#[test]
fn the_same_clip_with_additive_layers_leaves_pictures_out() {
    for composition in ["", "composition = \"additive\""] {
        let summary = run(&three(composition, ""));
        let narrow = frames(&summary, "narrow");
        // One picture of twelve is an I picture.
        assert_eq!((narrow.base, narrow.e1, narrow.e2), (40, 0, 0));
        assert!(!json(&summary).contains("composition"));
    }
}

#[test]
fn a_link_that_gets_narrow_gets_a_lower_rendition_and_loses_no_picture() {
    let summary = run(&ready_made("renditions.toml"));
    for (name, levels) in [
        ("high", &[2][..]),
        ("middle", &[1]),
        ("low", &[0]),
        ("shared", &[2, 1, 2]),
    ] {
        let frames = frames(&summary, name);
        let all: u64 = frames.iter().map(|(_, count)| count).sum();
        assert_eq!(all, 480, "{name}: {frames:?}");
        let received = &summary.receiver(name).unwrap().received;
        let seen: Vec<u8> = received.iter().map(|(_, level)| level.get()).collect();
        assert!(seen.ends_with(levels), "{name}: {received:?}");
    }
}

#[test]
fn what_does_not_fit_alternative_layers_is_named() {
    let refused = |composition: &str, more: &str| {
        let error = three(composition, more).validate().unwrap_err();
        error.to_string()
    };
    let filter = "[[filter]]\nnode = \"switch\"\nflow = \"film\"\nrule = \"keep:I\"";
    let text = refused(ALTERNATIVE, filter);
    assert!(text.starts_with("filter[0].flow"), "{text}");
    assert!(
        text.contains("of alternative layers only whole ones"),
        "{text}"
    );
    let shaped = format!("{ALTERNATIVE}, policy = {{ adapt = \"continuous\" }}");
    let text = refused(&shaped, "");
    assert!(
        text.contains("of alternative layers only whole ones"),
        "{text}"
    );
}

#[test]
fn a_renegotiation_does_not_change_the_composition() {
    let request = |spec: &str| {
        let more = format!(
            "[[request]]\nat = \"8s\"\nflow = \"film\"\noption = {{ flow_spec = {{ {spec} }} }}"
        );
        let summary = run(&three(ALTERNATIVE, &more));
        let answer = &summary.flows[0].answers[0];
        (answer.code, answer.detail.clone())
    };
    let (code, detail) = request("composition = \"additive\"");
    assert_eq!(code, "EINVAL", "{detail}");
    assert!(detail.contains("cannot follow alternative"), "{detail}");
    assert_eq!(request("composition = \"alternative\", gop_m = 1").0, "OK");
}
