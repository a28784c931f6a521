//! The demo with a network of its own: children that are killed come back, the promise is judged.

#[path = "all/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Command;

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
    // All but the base layer of the first GOP are all pictures.
    let count = |key: &str| receiver[key].as_u64().unwrap();
    assert_eq!(count("shown") + count("frozen"), 75, "{receiver}");
    assert!((60..75).contains(&count("shown")), "{receiver}");
    assert_eq!(summary["no_pictures"], Value::Null);
    let moments = receiver["moments"].as_array().unwrap();
    let levels: Vec<_> = moments.iter().map(|it| it["level"].as_u64()).collect();
    // The first is in that GOP, the others in whole ones.
    assert_eq!(levels, [Some(0), Some(2), Some(2)], "{moments:?}");
    let ages: Vec<_> = moments
        .iter()
        .map(|it| it["age_ms"].as_f64().unwrap())
        .collect();
    assert!(ages[0] > 100.0 && ages[1..] == [0.0, 0.0], "{ages:?}");
    assert_pictures(moments, &out, &page);
}

/// The moments have pictures, and the page has them.
fn assert_pictures(moments: &[Value], out: &Path, page: &str) {
    for key in ["picture", "detail"] {
        for moment in moments {
            let name = moment[key].as_str().unwrap();
            let image = std::fs::read(out.join(name)).unwrap();
            assert!(
                image.starts_with(&[0xFF, 0xD8]) && image.ends_with(&[0xFF, 0xD9]),
                "{name}"
            );
            assert!(
                page.contains(&format!("\"{name}\":\"data:image/jpeg;base64,")),
                "{name}"
            );
        }
    }
}

#[real_time]
fn renditions_are_judged_across_a_change_of_their_size() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("demo-renditions");
    let clip = folder.join("renditions.ts");
    let made = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-nostdin",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x180:rate=25:duration=4",
        ])
        .args([
            "-filter_complex",
            "[0:v]split=2[a][b];[a]scale=160:90[low];[b]null[high]",
        ])
        .args([
            "-map", "[low]", "-map", "[high]", "-c:v", "libx264", "-preset", "veryfast", "-bf",
            "2", "-g", "250",
        ])
        .args([
            "-x264-params",
            "scenecut=0:open-gop=0",
            "-force_key_frames",
            "expr:gte(t,n_forced*1)",
        ])
        .args([
            "-b:v:0",
            "100k",
            "-b:v:1",
            "400k",
            "-program",
            "program_num=1:st=0",
            "-program",
            "program_num=2:st=1",
        ])
        .arg(&clip)
        .status();
    assert!(made.unwrap().success());
    let text = network(&clip.display().to_string(), "6s", "");
    // The film starts before another one than the lowest rendition is granted.
    let text = text.replace(
        "start = \"1s\"",
        "start = \"500ms\"\ncomposition = \"alternative\"",
    );
    let scenario = folder.join("renditions.toml");
    std::fs::write(&scenario, text).unwrap();
    let out = folder.join("out");
    let summary = demo(&scenario, &out);
    let receiver = &summary["receivers"][0];
    assert_eq!(summary["promise"]["base_lost"], 0, "{}", summary["promise"]);
    assert_eq!(receiver["complaints"], Value::Array(Vec::new()));
    assert!(receiver["file"].as_str().unwrap().ends_with("viewer.ts"));
    assert_eq!(
        (&receiver["shown"], &receiver["frozen"]),
        (&Value::from(100), &Value::from(0))
    );
    let moments = receiver["moments"].as_array().unwrap();
    let seen = moments
        .iter()
        .map(|it| [&it["level"], &it["width"], &it["height"], &it["age_ms"]]);
    let seen: Vec<Vec<f64>> = seen
        .map(|it| it.iter().map(|n| n.as_f64().unwrap()).collect())
        .collect();
    assert_eq!(
        seen,
        [
            [0.0, 160.0, 90.0, 0.0],
            [1.0, 320.0, 180.0, 0.0],
            [1.0, 320.0, 180.0, 0.0]
        ]
    );
    assert_pictures(
        moments,
        &out,
        &std::fs::read_to_string(out.join("report.html")).unwrap(),
    );
    // A second of the low rendition, and three that are equal to the best one.
    let psnr = receiver["psnr_db"].as_f64().unwrap();
    assert!((15.0..60.0).contains(&psnr), "{psnr}");
    let flow = &summary["flows"][0];
    assert_eq!(flow["composition"], "alternative");
    assert_eq!(flow["clip"]["renditions"].as_array().unwrap().len(), 2);
}

#[real_time]
fn without_ffmpeg_the_report_says_that_there_are_no_pictures() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("demo-no-ffmpeg");
    let clip = make_clip(&folder, 3);
    let scenario = folder.join("small.toml");
    std::fs::write(&scenario, network(&clip, "3s", "")).unwrap();
    let out = folder.join("out");
    let output = common::layercast()
        .args([
            "demo",
            "--json",
            "--scenario",
            scenario.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
        ])
        .env("LAYERCAST_FFMPEG", "/nowhere/ffmpeg")
        .output()
        .unwrap();
    // What was not decoded is not clean.
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let why = summary["no_pictures"].as_str().unwrap();
    assert!(
        why.contains("ffmpeg cannot decode") && why.contains("No such file"),
        "{why}"
    );
    assert_eq!(summary["receivers"][0]["shown"], Value::Null);
    assert!(
        std::fs::read_to_string(out.join("report.html"))
            .unwrap()
            .contains(why)
    );
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

#[test]
fn the_simulator_writes_what_a_receiver_plays() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("sim-out");
    let clip = make_clip(&folder, 3);
    let scenario = folder.join("small.toml");
    std::fs::write(&scenario, network(&clip, "5s", "")).unwrap();
    let out = folder.join("out");
    let [scenario, path] = [&scenario, &out].map(|path| path.to_str().unwrap());
    let printed = json(&run(&["sim", scenario, "--json", "--out", path]));
    let text = std::fs::read_to_string(out.join("summary.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written, printed);
    // A picture, or a repeat, in each place of the film.
    let (complaints, pictures) = decode(&out.join("viewer.m1v"));
    assert_eq!((complaints.as_str(), pictures), ("", 75));
    let kept = folder.join("kept");
    std::fs::write(&kept, "valuable").unwrap();
    let refused = run(&["sim", scenario, "--out", kept.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{}", complaint(&refused));
    assert!(
        complaint(&refused).contains("kept"),
        "{}",
        complaint(&refused)
    );
}
