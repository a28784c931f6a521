//! Twenty receivers that come and go and three switches that are restarted, all at random from a seed.
//!
//! `cargo run --release -p layercast-net --example soak -- SECONDS [SEED [FILE]]` writes what came of it
//! as JSON to FILE or standard output; the exit code is 1 if a base-layer frame was lost on an undisturbed
//! way, a flow stood still, or the memory grew by more than 5 % after the warm-up.

#[path = "../tests/all/common/mod.rs"]
mod common;
#[path = "../tests/all/common/soak.rs"]
mod soak;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use soak::{Plan, Report, soak};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, rest @ ..] = arguments.as_slice() else {
        return Err("usage: soak SECONDS [SEED [FILE]]".into());
    };
    let length = Duration::from_secs(seconds.parse()?);
    let seed = rest.first().map_or(Ok(1), |seed| seed.parse())?;
    let plan = Plan {
        seed,
        length,
        receivers: 20,
        restarts: Some(Duration::from_secs(20)),
        fresh_names: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut seconds = 0;
    let report = runtime.block_on(soak(plan, move |report| {
        seconds += 1;
        if seconds % 60 == 0 {
            let kib = report.rss.last().map_or(0, |(_, kib)| *kib);
            eprintln!(
                "soak: {seconds} s, {} joins, {} restarts, lost {:?}, {} troubles, {kib} KiB",
                report.joins,
                report.restarts,
                report.lost,
                report.troubles.len()
            );
        }
    }));
    let (early, late) = memory(&report).ok_or("too short to tell of memory")?;
    let growth = late as f64 / early as f64 - 1.0;
    let stuck = report.troubles.iter().filter(|text| {
        text.contains("stuck") || text.contains("never played") || text.contains("failed")
    });
    let verdict = serde_json::json!({
        "base_lost": report.lost.base,
        "valid": report.host_lost == 0,
        "stuck": stuck.count(),
        "members_left": report.members_left,
        "rss_early_kib": early,
        "rss_late_kib": late,
        "rss_growth_percent": (growth * 1_000.0).round() / 10.0,
    });
    let good = report.lost.base == 0
        && verdict["stuck"] == 0
        && report.members_left == 0
        && growth <= 0.05;
    let all = serde_json::json!({ "kept": good, "verdict": verdict, "report": report });
    let text = serde_json::to_string_pretty(&all)?;
    match rest.get(1) {
        Some(file) => std::fs::write(file, text)?,
        None => println!("{text}"),
    }
    eprintln!("soak: {verdict}");
    Ok(ExitCode::from(u8::from(!good)))
}

/// Median resident memory in KiB of the first and of the last third after a sixth to warm up.
fn memory(report: &Report) -> Option<(u64, u64)> {
    let warm = &report.rss[report.rss.len() / 6..];
    let third = warm.len() / 3;
    let median = |part: &[(f64, u64)]| {
        let mut values: Vec<u64> = part.iter().map(|(_, kib)| *kib).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    Some((
        median(&warm[..third])?,
        median(&warm[warm.len() - third..])?,
    ))
}
