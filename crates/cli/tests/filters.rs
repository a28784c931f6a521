//! Filters in nodes and rate shaping at the source, with real processes and real video.

#[path = "all/common/mod.rs"]
mod common;

use common::{Running, complaint, decode, folder, have_ffmpeg, json, make_clip, real_time, run};
use serde_json::Value;

/// Bytes, complaints of the decoder, pictures and the summary of what a receiver got.
fn receive(address: &str, out: &std::path::Path) -> (u64, u64, Value) {
    let file = out.display().to_string();
    let joined = run(&["join", address, "--name", "ann", "--json", "--out", &file]);
    assert_eq!(joined.status.code(), Some(0), "{}", complaint(&joined));
    let text = String::from_utf8_lossy(&joined.stdout);
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(summary["receiver"]["lost"]["BL"], 0);
    let (complaints, pictures) = decode(out);
    assert_eq!(complaints, "");
    (std::fs::metadata(out).unwrap().len(), pictures, summary)
}

#[real_time]
fn what_a_filter_in_a_switch_leaves_decodes_cleanly() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("filters");
    let clip = make_clip(&folder, 4);
    let whole = std::fs::metadata(&clip).unwrap().len();
    for (rule, most) in [("low-pass:6", 0.9), ("thin:0/1", 0.9), ("drs", 1.01)] {
        let args = ["serve", &clip, "--flow", "test", "--start-when-joined", "1"];
        let server = Running::start(&args);
        let filter = format!("test@ann={rule}");
        let switch = Running::start(&["switch", "--upstream", &server.url, "--filter", &filter]);
        // By name: the switch may not have heard of the flow yet.
        let url = switch.url.replacen('?', "/test?", 1);
        let (bytes, pictures, summary) = receive(&url, &folder.join("got.m1v"));
        assert!((95..=100).contains(&pictures), "{rule}: {pictures}");
        let share = bytes as f64 / whole as f64;
        assert!(share < most, "{rule}: {share}");
        assert_eq!(summary["receiver"]["lost"]["E2"], 0, "{rule}");
        assert!(
            summary["receiver"]["frames"]["E2"].as_u64().unwrap() > 40,
            "{rule}"
        );
    }
}

#[real_time]
fn a_source_in_continuous_mode_shapes_the_video_to_the_link() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("continuous");
    let clip = make_clip(&folder, 8);
    let probe = json(&run(&["probe", &clip, "--json"]));
    let mean = |layer: usize| probe["layers"][layer]["mean_bps"].as_f64().unwrap();
    let (base, above) = (mean(0), mean(1) + mean(2));
    // All of the base layer and seven tenths of the rest; cells and headers take a fifth more.
    let rate = 1.2 * (base + 0.7 * above);
    let port = format!("ann={:.0}bit/s,queue=500ms", rate);
    let server = Running::start(&[
        "serve",
        &clip,
        "--adapt",
        "continuous",
        "--start-when-joined",
        "1",
        "--port",
        &port,
    ]);
    let (bytes, pictures, summary) = receive(&server.url, &folder.join("got.m1v"));
    assert!((195..=200).contains(&pictures), "{pictures}");
    let whole = std::fs::metadata(&clip).unwrap().len();
    assert!(bytes < whole * 95 / 100, "{bytes} of {whole}");
    let frames = &summary["receiver"]["frames"];
    // Shaped, not left out.
    assert!(frames["E2"].as_u64().unwrap() > 80, "{frames}");
    assert_eq!(summary["receiver"]["late_base"], 0);
}

#[test]
fn a_filter_that_is_none_is_explained() {
    let output = run(&[
        "switch",
        "--upstream",
        "127.0.0.1:1",
        "--filter",
        "test=blur",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = complaint(&output);
    assert!(complaint.contains("low-pass:1..64"), "{complaint}");
    let output = run(&["switch", "--upstream", "127.0.0.1:1", "--filter", "drs"]);
    assert!(common::complaint(&output).contains("FLOW@NEIGHBOUR=RULE"));
}
