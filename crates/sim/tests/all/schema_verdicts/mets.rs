//! Scenarios of layered flows.

use super::*;

/// The scenario with synthetic clips instead of media files, which not every machine has.
pub fn without_files(mut scenario: Value) -> Value {
    let flows = scenario.get_mut("flow").and_then(Value::as_array_mut);
    for flow in flows.into_iter().flatten() {
        if flow["clip"]["file"].is_string() {
            flow["clip"] = json!({ "synthetic": "canyon" });
            flow["frame_rate"] = json!(24);
        }
    }
    scenario
}

#[test]
fn the_mets_schema_in_the_repository_is_current() {
    let path = folder("mets.schema.json");
    let current = serde_json::to_string_pretty(&Layered::json_schema()).unwrap() + "\n";
    if std::env::var_os("LAYERCAST_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == current,
        "{} is not what `layercast sim --schema=mets` prints; run: make reference",
        path.display()
    );
}

#[test]
fn the_mets_schema_accepts_the_files_of_the_repository_as_they_are() {
    let mut count = 0;
    for file in std::fs::read_dir(folder("")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let first = text.lines().next();
            assert_eq!(first, Some("#:schema mets.schema.json"), "{path:?}");
            let scenario: Value = toml::from_str(&text).unwrap();
            assert_eq!(schema(&scenario), Ok(()), "{path:?}");
            let read = Layered::from_toml(&text, Path::new(""));
            // What the program writes is a scenario too.
            let written = serde_json::to_value(read.unwrap()).unwrap();
            assert_eq!(schema(&written), Ok(()), "{path:?}");
            count += 1;
        }
    }
    assert!(count > 5);
}

/// A scenario with most kinds of keys. No flow is refused for a lack of bandwidth.
fn layered() -> Value {
    json!({
        "name": "layered", "duration": "10s", "admission": false, "host": "ideal",
        "node": [
            { "name": "a", "kind": "host", "host": { "stall_rate": 0 } },
            { "name": "s", "kind": "switch" },
            { "name": "b", "kind": "host" },
        ],
        "link": [
            { "a": "a", "b": "s", "rate": "10 Mbit/s", "loss": { "bernoulli": 0.01 }, "jitter": { "uniform": "1ms" } },
            { "a": "s", "b": "b", "rate": { "fits": "f", "level": 1, "spare": 0.1 }, "queue": "64 cells" },
        ],
        "flow": [{ "name": "f", "source": "a", "clip": { "synthetic": "canyon" }, "frame_rate": 24.0,
                   "shaping": { "b": 400, "p": 1 }, "policy": { "min_level": 0 }, "protect_base": "6+2" }],
        "receiver": [{ "name": "r", "node": "b", "flow": "f", "level": 2, "playout": { "r": 2.0 } }],
        "filter": [{ "node": "s", "flow": "f", "rule": "keep:I" }],
        "fault": [{ "at": "5s", "kind": "link_down", "link": ["a", "s"] }],
        "request": [{ "at": "1s", "flow": "f", "option": "maint" }],
    })
}

/// Holds both verdicts to be the same for values in and out of range at each of the fields.
#[track_caller]
fn verdicts(fields: &[&str], good: Value, bad: Value) {
    let scenario = layered();
    for field in fields {
        for (fine, values) in [(true, &good), (false, &bad)] {
            for value in values.as_array().unwrap() {
                let changed = with(&scenario, field, value);
                both(fine, &changed, &format!("{field} = {value}"));
            }
        }
    }
}

#[test]
fn both_give_the_same_verdict_on_quantities_of_mets() {
    both(true, &layered(), "the scenario itself");
    verdicts(&["/link/0/rate"], json!(good("rate")), json!(bad("rate")));
    verdicts(
        &["/duration", "/era", "/res_interval"],
        json!([
            "3s",
            "14.499933504006384s",
            "0.5 min",
            "2.e0 s",
            "24 h",
            "86400s"
        ]),
        json!([
            "0s",
            "-5s",
            "10",
            "25 h",
            "86401s",
            "1 day",
            5,
            false,
            [],
            {}
        ]),
    );
    verdicts(
        &[
            "/detection",
            "/link/0/delay",
            "/link/0/jitter/uniform",
            "/receiver/0/join",
            "/fault/0/at",
        ],
        json!(["0s", "20ms", "5e-06s", "4800 h", ".5 us", "0.000 s"]),
        json!(["-20ms", "20", "20 msec", "4801 h", "soon", "1,5 ms", 5, []]),
    );
    verdicts(
        &["/flow/0/stop", "/receiver/0/leave"],
        json!(["1ps", "5s"]),
        json!(["0s", "-1s", "5", 5]),
    );
    verdicts(
        &["/flow/0/delay_max"],
        json!(["1 ms", "800ms", "1193 h"]),
        json!(["0s", "1194 h", "5", "soon", 800]),
    );
    verdicts(
        &["/link/0/queue"],
        json!([
            "256 cells",
            "1 cell",
            "64 KiB",
            "500 ms",
            "1048576 cells",
            "50331695 B"
        ]),
        json!([
            "0 cells",
            "0 B",
            "0 ms",
            "256",
            "64 KB",
            "1048577 cells",
            "50331696 B",
            "-5 cells",
            "50 packets",
            64
        ]),
    );
    verdicts(
        &["/link/0/adapt_capacity"],
        json!(["3500 cells/s", "1 cells/s"]),
        json!(["0 cells/s", "3500", "5 Mbit/s", "4294967296 cells/s", 3500]),
    );
    verdicts(
        &["/link/0/schedule"],
        json!(["10s:60%", "0:0.1%, 5 s : 10000 %", "10s:60%,20s:100%"]),
        json!([
            "",
            "10s",
            "10:60%",
            "10s:60",
            "10s:0%",
            "10s:10001%",
            "10s:60%,",
            60
        ]),
    );
    verdicts(
        &["/receiver/0/drain"],
        json!(["3500 cells/s", "0 cells/s"]),
        json!(["3500", "5 Mbit/s", "4294967296 cells/s", 3500]),
    );
}

#[test]
fn both_give_the_same_verdict_on_numbers_of_mets() {
    verdicts(
        &[
            "/link/0/duplicate",
            "/link/0/adapter_loss",
            "/link/0/loss/bernoulli",
        ],
        json!(good("loss")),
        json!(bad("loss")),
    );
    verdicts(
        &[
            "/link/0/efci",
            "/link/0/bl_share",
            "/receiver/0/playout/a",
            "/receiver/0/playout/beta",
        ],
        json!([0.01, 0.5, 1]),
        json!([0, 1.01, -0.1, "1%", true]),
    );
    verdicts(
        &["/receiver/0/playout/r"],
        json!([2, 0.5, 100]),
        json!([0, 101, -1, "2"]),
    );
    verdicts(
        &["/link/1/rate/spare"],
        json!([0, 0.05, 1000]),
        json!([-0.1, 1001, "5%"]),
    );
    verdicts(
        &["/node/0/host/stall_rate"],
        json!([0, 1.5, 1000]),
        json!([-1, 1001, "1"]),
    );
    verdicts(
        &["/flow/0/frame_rate"],
        json!([24, 0.5, 1000]),
        json!([0, -1, 1000.0001, 1001, "24", true]),
    );
    verdicts(
        &[
            "/flow/0/top",
            "/receiver/0/level",
            "/link/1/rate/level",
            "/flow/0/policy/max_level",
        ],
        json!([0, 1, 2]),
        json!([3, -1, 1.5, "1", true, []]),
    );
    verdicts(&["/seed"], json!([0, 7]), json!([-1, 1.5, "7"]));
}

#[test]
fn both_give_the_same_verdict_on_words_and_tables_of_mets() {
    verdicts(
        &["/carriage"],
        json!(["cells", "datagrams"]),
        json!(["pigeons", 5]),
    );
    verdicts(
        &["/aal5_mark"],
        json!(["last", "first"]),
        json!(["middle", 5]),
    );
    verdicts(
        &["/ties"],
        json!(["random", "ordered"]),
        json!(["sometimes", 5]),
    );
    verdicts(&["/merge"], json!(["join", "hull"]), json!(["split", {}]));
    verdicts(
        &["/lowering"],
        json!(["gop_start", "next_frame"]),
        json!(["gopstart"]),
    );
    verdicts(
        &["/receiver/0/probe"],
        json!(["paper", "backoff"]),
        json!(["never"]),
    );
    verdicts(&["/node/1/kind"], json!(["switch"]), json!(["router", 5]));
    verdicts(
        &["/host", "/node/2/host"],
        json!(["ideal", "1996", "1996-486", { "send_cell": "3us", "stall_rate": 1000 }]),
        json!(["1997", { "send_byte": "3us" }, { "stall_rate": 1001 }, { "nic_cells": -1 }, { "send_cell": 3 }, 5]),
    );
    verdicts(
        &["/link/0/loss"],
        json!([{ "bernoulli": 0.5 }, { "gilbert": { "p_gb": 0.1, "p_bg": 0.2, "bad": 1 } }]),
        json!([{ "poisson": 0.1 }, 0.1, {}, { "gilbert": { "p_gb": 2, "p_bg": 0.2 } }, { "gilbert": { "p_gb": 0.1 } }]),
    );
    verdicts(
        &["/flow/0/clip"],
        json!([{ "synthetic": "canyon" }, { "synthetic": "lougher" }, { "synthetic": "flight" }]),
        json!([{ "synthetic": "ocean" }, "canyon", {}, { "url": "x" }]),
    );
    verdicts(
        &["/flow/0/shaping"],
        json!(["serial", "off", { "peak_factor": 1 }, { "b": 400, "p": 1 }]),
        json!(["smooth", { "peak_factor": 0.5 }, { "b": 0, "p": 1 }, { "b": 4, "p": 0 }, { "b": 4 }, { "depth": 4 }, 5, []]),
    );
    verdicts(
        &["/flow/0/protect_base"],
        json!([
            "6+2",
            "auto",
            "reed-solomon:20+4",
            "xor-shift:auto",
            "raptorq:10+2"
        ]),
        json!(["6", "6+0", "0+2", "256+1", "rs:6+2", "6+2+1", "", 6]),
    );
    verdicts(
        &["/filter/0/rule"],
        json!([
            "keep:I",
            "keep:IP",
            "drs",
            "low-pass:1",
            "low-pass:64",
            "thin:0/1",
            "thin:1/2",
            "thin:254/255"
        ]),
        json!([
            "keep:B",
            "low-pass:0",
            "low-pass:65",
            "thin:1/0",
            "thin:1/256",
            "drs:",
            "",
            5
        ]),
    );
    verdicts(
        &["/fault/0/kind"],
        json!(["link_down", "link_up"]),
        json!(["explode", 5]),
    );
    verdicts(
        &["/fault"],
        json!([
            [{ "at": "5s", "kind": "stop", "node": "s" }],
            [{ "at": "5s", "kind": "link_up", "link": ["a", "s"] }],
        ]),
        json!([
            [{ "at": "5s", "kind": "stop" }],
            [{ "at": "5s", "kind": "kill", "link": ["a", "s"] }],
            [{ "at": "5s", "kind": "link_down", "node": "s" }],
            [{ "at": "5s", "kind": "restart", "node": "s", "link": ["a", "s"] }],
        ]),
    );
    verdicts(
        &["/fault/0/link"],
        json!([["a", "s"]]),
        json!([["a"], ["a", "s", "b"], "a", 5]),
    );
    verdicts(
        &["/name", "/receiver/0/name"],
        json!(["x", "a-b_c.d", "é", "é".repeat(64)]),
        json!([
            "",
            "a b",
            "a/b",
            "x".repeat(65),
            "é".repeat(65),
            "a\u{1b}[2J",
            "a\n",
            5
        ]),
    );
}

#[test]
fn both_give_the_same_verdict_on_policies_and_requests_of_mets() {
    let alarm = json!({ "metric": "loss", "op": ">", "threshold": 5, "window_ms": 1000, "hysteresis": 1, "oneshot": false });
    let wrong_alarm = with(&alarm, "/metric", &json!("cost"));
    verdicts(
        &["/flow/0/policy", "/receiver/0/policy"],
        json!([
            {}, { "mode": "signal", "adapt": "continuous" }, { "on_scarce": { "filter": "drs" }, "on_plenty": "ignore" },
            { "min_level": 1, "max_level": 2 }, { "filters": ["jitter", { "lowpass": 64 }], "events": [alarm] },
        ]),
        json!([
            { "adapt": 1 }, { "level": 0 }, { "signal_period_ms": 0 }, { "late_threshold": 256 }, { "late_threshold": 0 },
            { "missed_deadline_threshold": 0 }, { "filters": [{ "lowpass": 65 }] }, { "filters": [{ "lowpass": 0 }] },
            { "min_level": 3 }, { "on_scarce": "panic" }, { "on_scarce": { "filter": "mixer" } }, { "events": [wrong_alarm] },
            { "events": vec![alarm.clone(); 65] }, 5, "none",
        ]),
    );
    verdicts(
        &["/request/0/option"],
        json!([
            "maint", "monitor", "signal", { "adapt": "none" }, { "qos_policy": { "max_level": 0 } },
            { "flow_spec": { "delay_max_ms": 200, "layers": { "BL": { "mean": 4000, "peak": 8000 } } } },
            { "filter": ["drs", { "lowpass": 10 }] }, { "event": alarm },
        ]),
        json!([
            "stop", 5, {}, { "adapt": "some" }, { "flow_spec": { "delay": 3 } }, { "flow_spec": { "delay_max_ms": -1 } },
            { "filter": ["mixer"] }, { "filter": "drs" }, { "event": { "metric": "loss" } }, { "event": wrong_alarm },
        ]),
    );
}

#[test]
fn both_refuse_scenarios_of_mets_without_a_required_key_or_with_an_unknown_one() {
    for (table, required) in [
        ("", &["name", "duration", "node"][..]),
        ("/node/0", &["name", "kind"]),
        ("/link/0", &["a", "b", "rate"]),
        ("/flow/0", &["name", "source", "clip"]),
        ("/receiver/0", &["node", "flow"]),
        ("/filter/0", &["node", "flow", "rule"]),
        ("/fault/0", &["at", "kind"]),
        ("/request/0", &["at", "option"]),
    ] {
        for key in required {
            let mut without = layered();
            let table = without.pointer_mut(table).and_then(Value::as_object_mut);
            table.unwrap().remove(*key).unwrap();
            both(false, &without, &format!("{key} is missing"));
        }
        both(
            false,
            &with(&layered(), &format!("{table}/colour"), &json!(3)),
            table,
        );
    }
    for table in [
        "/node/0/host",
        "/flow/0/policy",
        "/receiver/0/playout",
        "/link/1/rate",
        "/link/0/jitter",
    ] {
        both(
            false,
            &with(&layered(), &format!("{table}/colour"), &json!(3)),
            table,
        );
    }
    both(false, &with(&layered(), "/node", &json!([])), "no nodes");
}

#[test]
fn the_schema_of_a_policy_has_its_keys_and_defaults() {
    let schema = Layered::json_schema();
    let properties = schema["$defs"]["Policy"]["properties"].as_object().unwrap();
    let defaults = properties
        .iter()
        .map(|(name, form)| (name.clone(), form["default"].clone()));
    let written = serde_json::to_value(layercast_core::QosPolicy::default()).unwrap();
    assert_eq!(Value::Object(defaults.collect()), written);
}
