//! `layercast policer-probe` through a token bucket of the kernel, in a network namespace of its own. Skips with a
//! printed reason where there can be none.

#[path = "all/common/mod.rs"]
mod common;

use std::process::Command;

use common::real_time;
use serde_json::Value;

#[real_time]
fn rate_and_burst_of_the_kernels_token_bucket_are_found() {
    // (rate in kbit/s, burst in bytes); at most one packet waits for a token.
    for (kbit, burst) in [(10_000, 64_000), (2_000, 30_000)] {
        let Some(found) = probe(kbit, burst) else {
            return;
        };
        let off = |found: &Value, told: u64| {
            (found.as_f64().expect("a number") / told as f64 - 1.0).abs()
        };
        assert_eq!(found["policed"], true, "{found}");
        assert!(off(&found["rate_bps"], 1_000 * kbit) <= 0.05, "{found}");
        assert!(off(&found["burst_bytes"], burst) <= 0.05, "{found}");
    }
}

#[test]
fn what_cannot_be_probed_says_why() {
    let output = common::run(&["policer-probe"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(common::complaint(&output).contains("--listen"));
    let output = common::run(&["policer-probe", "127.0.0.1:9", "--packet", "20"]);
    assert_eq!(output.status.code(), Some(2));
}

/// What the command says of a bucket on the loopback of a namespace; none if that cannot be had.
fn probe(kbit: u64, burst: u64) -> Option<Value> {
    // Of the kernel: with Ethernet headers of 14 bytes; the queue in front holds one packet of 1000 bytes, which is part of
    // the burst as seen from outside.
    let (packet, frame) = (1_000, 1_014);
    let bucket = (burst - packet) * frame / packet;
    let rate = kbit * frame / packet;
    let script = format!(
        "ip link set lo up && tc qdisc add dev lo root tbf rate {rate}kbit burst {bucket} limit {frame} || exit 77
         {layercast} policer-probe --listen 127.0.0.1:9400 >&2 & answering=$!
         {layercast} policer-probe 127.0.0.1:9400 --packet {packet} --json; code=$?
         kill $answering; exit $code",
        layercast = env!("CARGO_BIN_EXE_layercast"),
    );
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--net", "sh", "-c", &script]);
    let output = inside.output().ok().or_else(|| {
        println!("skipped: unshare does not run");
        None
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(0)
        && (said.contains("unshare") || output.status.code() == Some(77))
    {
        println!("skipped: {}", said.trim());
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}
