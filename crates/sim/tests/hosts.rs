//! The hosts of 1996 (mets.md 3.2) around the machines, against the figures of mets.md 4.9 and 5.

mod common;

use common::{run, scenario};
use layercast_sim::SimSummary;

/// No shaper.
const OFF: &str = "\"off\"";

/// `flows` flows of `rate` frames of `bytes` per second for 10 s.
fn flood(source: &str, sink: &str, shaping: &str, flows: u32, rate: u32, bytes: u32) -> SimSummary {
    let name = format!("layercast-{}-{bytes}-{rate}.trace", std::process::id());
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

#[test]
fn a_sender_of_1996_reaches_32_000_cells_per_second() {
    // Two flows, because one of them alone would not be admitted above nine tenths.
    let summary = flood("1996", "ideal", OFF, 2, 26, 32_000);
    let rate = summary.queues[0].link.sent as f64 / 10.0;
    assert!((rate / 32_000.0 - 1.0).abs() < 0.02, "{rate} cells/s");
}

#[test]
fn a_receiver_of_1996_keeps_up_with_7_500_cells_per_second_but_not_with_27_500() {
    // 8 kB packets: 172 cells with header and trailer.
    let easy = dropped(&flood("1996", "1996", "{ b = 8, p = 1 }", 1, 43, 8_192));
    assert!(easy <= 0.000_1, "{easy}");
    let hard = dropped(&flood("1996", "1996", OFF, 1, 160, 8_192));
    assert!((0.3..0.5).contains(&hard), "{hard}");
}
