//! The demo with a network of its own: children that are killed come back, the promise is judged.

#[path = "all/common/mod.rs"]
mod common;

use std::path::Path;

use common::{complaint, decode, folder, have_ffmpeg, json, make_clip, real_time, run};
use serde_json::Value;

const NETWORK: &str = r#"
name = "small"
duration = "DURATION"

[[node]]
name = "server"
kind = "host"
[[node]]
name = "core"
kind = "switch"
[[node]]
name = "viewer"
kind = "host"

[[link]]
a = "server"
b = "core"
rate = "20 Mbit/s"
queue = "1 s"
[[link]]
a = "core"
b = "viewer"
rate = "20 Mbit/s"
queue = "1 s"

[[flow]]
name = "film"
source = "server"
clip = { file = "CLIP" }
start = "1s"
delay_max = "500ms"

[[receiver]]
node = "viewer"
flow = "film"
"#;

fn network(clip: &str, duration: &str, more: &str) -> String {
    let network = NETWORK.replace("CLIP", clip).replace("DURATION", duration);
    network + more
}

fn demo(scenario: &Path, out: &Path) -> Value {
    demo_with(scenario, out, &[])
}

fn demo_with(scenario: &Path, out: &Path, more: &[&str]) -> Value {
    let [scenario, out] = [scenario, out].map(|path| path.to_str().unwrap());
    let args = ["demo", "--json", "--scenario", scenario, "--out", out];
    json(&run(&[&args[..], more].concat()))
}

#[real_time]
fn a_demo_keeps_its_promise_and_writes_it_down() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("demo");
    let clip = make_clip(&folder, 3);
    let scenario = folder.join("small.toml");
    std::fs::write(&scenario, network(&clip, "5s", "")).unwrap();
    let out = folder.join("out");
    let summary = demo(&scenario, &out);
    let promise = &summary["promise"];
    assert_eq!(promise["base_lost"], 0, "{promise}");
    assert_eq!(promise["levels_match"], true, "{promise}");
    let receiver = &summary["receivers"][0];
    assert_eq!(receiver["name"], "viewer");
    for key in [
        "link", "levels", "frames", "lost", "late", "delay_ms", "psnr_db", "ssim", "file",
    ] {
        assert!(receiver.get(key).is_some(), "{key}");
    }
    assert_eq!(receiver["complaints"], Value::Array(Vec::new()));
    assert_eq!(receiver["decoded_pictures"], 75);
    // The first GOP is base layer only, all others are whole: well above what misplaced ones give.
    assert!(receiver["psnr_db"].as_f64().unwrap() > 25.0, "{receiver}");
    let written = std::fs::read_to_string(out.join("summary.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), summary);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("viewer"));
}

#[real_time]
fn a_demo_runs_with_its_control_over_xtp() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("demo-xtp");
    let clip = make_clip(&folder, 3);
    let scenario = folder.join("small.toml");
    std::fs::write(&scenario, network(&clip, "5s", "")).unwrap();
    let out = folder.join("out");
    let summary = demo_with(&scenario, &out, &["--control", "xtp"]);
    let receiver = &summary["receivers"][0];
    assert!(receiver["frames"]["BL"].as_u64() > Some(0), "{receiver}");
    assert_eq!(receiver["complaints"], Value::Array(Vec::new()));
    let addresses = std::fs::read_to_string(out.join("addresses.json")).unwrap();
    let addresses: Value = serde_json::from_str(&addresses).unwrap();
    assert_eq!(addresses["core"]["link"]["clear"], "xtp");
}

#[real_time]
fn a_switch_killed_and_restarted_is_back_in_service() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("kill");
    let clip = make_clip(&folder, 12);
    let faults = "[[fault]]\nat = \"4s\"\nkind = \"kill\"\nnode = \"core\"\n\
                  [[fault]]\nat = \"5s\"\nkind = \"restart\"\nnode = \"core\"\n";
    let scenario = folder.join("kill.toml");
    std::fs::write(&scenario, network(&clip, "11s", faults)).unwrap();
    let summary = demo(&scenario, &folder.join("out"));
    let receiver = &summary["receivers"][0];
    let rate = |second: f64| {
        let series = receiver["series"].as_array().unwrap();
        let sample = series.iter().find(|sample| sample["t"] == second);
        sample
            .and_then(|sample| sample["rate_bps"].as_u64())
            .unwrap_or(0)
    };
    assert!(rate(3.0) > 0, "before the fault: {receiver}");
    assert!(rate(9.0) > 0, "back in service: {receiver}");
    let file = folder.join("out/viewer.m1v");
    let (complaints, pictures) = decode(&file);
    assert_eq!(complaints, "");
    assert!(pictures > 150, "{pictures}");
}

#[test]
fn a_missing_clip_says_how_to_make_it() {
    let scenario = folder("missing").join("missing.toml");
    std::fs::write(&scenario, network("not-there.m1v", "5s", "")).unwrap();
    let output = run(&["demo", "--scenario", scenario.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint(&output).contains("ffmpeg -i any.mp4"),
        "{}",
        complaint(&output)
    );
}
