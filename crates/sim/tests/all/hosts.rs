//! The hosts of 1996 (specs/mets.md 3.2) around the machines, against the figures of specs/mets.md 4.9 and 5.

use crate::common::{run, scenario};
use layercast_sim::SimSummary;

/// No shaper.
const OFF: &str = "\"off\"";

/// `flows` flows of `rate` frames of `bytes` per second for 10 s.
fn flood(
    [source, sink]: [&str; 2],
    shaping: &str,
    admission: bool,
    [flows, rate, bytes]: [u32; 3],
) -> SimSummary {
    let name = format!(
        "layercast-{}-{flows}-{bytes}-{rate}.trace",
        std::process::id()
    );
    let path = std::env::temp_dir().join(name);
    let lines: Vec<String> = (0..rate * 10)
        .map(|frame| format!("{frame} I {bytes}"))
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let mut text = format!(
        r#"
        name = "flood"
        duration = "10s"
        carriage = "cells"
        admission = {admission}
        node = [
            {{ name = "atc", kind = "host", host = "{source}" }},
            {{ name = "chuff", kind = "switch", host = "1996" }},
            {{ name = "dwp", kind = "host", host = "{sink}" }},
        ]
        link = [
            {{ a = "atc", b = "chuff", rate = "100 Mbit/s", delay = "0.5 us", queue = "4000 cells" }},
            {{ a = "chuff", b = "dwp", rate = "100 Mbit/s", delay = "0.5 us", queue = "4000 cells" }},
        ]
        "#
    );
    for flow in 0..flows {
        text += &format!(
            r#"
            [[flow]]
            name = "f{flow}"
            source = "atc"
            clip = {{ trace = {path:?} }}
            frame_rate = {rate}
            shaping = {shaping}
            [[receiver]]
            name = "r{flow}"
            node = "dwp"
            flow = "f{flow}"
            "#
        );
    }
    let summary = run(&scenario(&text));
    std::fs::remove_file(&path).unwrap();
    summary
}

/// Share of the cells for the receiver that found its interface full.
fn dropped(summary: &SimSummary) -> f64 {
    summary.hosts[0].stats.dropped_cells as f64 / summary.queues[2].link.sent as f64
}

/// The refusals that receivers got instead of the flow.
fn refusals(summary: &SimSummary) -> Vec<String> {
    let receivers = summary.flows.iter().flat_map(|flow| &flow.receivers);
    let refused = receivers.filter_map(|receiver| receiver.refused.as_ref());
    refused.map(ToString::to_string).collect()
}

#[test]
fn a_sender_of_1996_reaches_32_000_cells_per_second() {
    let summary = flood(["1996", "ideal"], OFF, false, [1, 52, 32_000]);
    let rate = summary.queues[0].link.sent as f64 / 10.0;
    assert!((rate / 32_000.0 - 1.0).abs() < 0.02, "{rate} cells/s");
}

#[test]
fn admission_keeps_a_sender_below_nine_tenths_of_its_processor() {
    // A frame of 6000 bytes is 126 cells: 4.106 ms of processor, so 219 a second are too many.
    let summary = flood(["1996", "ideal"], OFF, true, [1, 218, 6_000]);
    assert_eq!(refusals(&summary), [""; 0]);
    let summary = flood(["1996", "ideal"], OFF, true, [1, 222, 6_000]);
    assert!(refusals(&summary)[0].starts_with("atc: not enough host CPU"));
    // The processor is shared by the flows of a host: three of 73 a second fit, four do not.
    let summary = flood(["1996", "ideal"], OFF, true, [4, 70, 6_000]);
    let refused = refusals(&summary);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("atc: not enough host CPU"));
}

#[test]
fn admission_keeps_a_receiver_below_its_no_loss_rate() {
    // Two flows of 126 * 30 = 3780 cells/s are below F/W = 8000, three are above.
    let summary = flood(["ideal", "1996"], OFF, true, [3, 30, 6_000]);
    let refused = refusals(&summary);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0].starts_with("dwp: not enough receiver capacity: needs 1.60 Mbit/s (3780 cells/s), has 186.6 kbit/s (440 cells/s)"),
        "{refused:?}"
    );
    let summary = flood(["ideal", "1996"], OFF, false, [3, 30, 6_000]);
    assert_eq!(refusals(&summary), [""; 0]);
}

#[test]
fn a_receiver_of_1996_keeps_up_with_7_500_cells_per_second_but_not_with_27_500() {
    // 8 kB packets: 172 cells with header and trailer.
    let hosts = ["1996", "1996"];
    let easy = dropped(&flood(hosts, "{ b = 8, p = 1 }", false, [1, 43, 8_192]));
    assert!(easy <= 0.000_1, "{easy}");
    let hard = dropped(&flood(hosts, OFF, false, [1, 160, 8_192]));
    assert!((0.3..0.5).contains(&hard), "{hard}");
}
