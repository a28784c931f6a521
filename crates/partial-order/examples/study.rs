//! Runs one setting of the paper's experiment, 10 % loss on a LAN, with both policies:
//! `cargo run -p layercast-partial-order --example study -- 10` for a tolerance of 10 %.

use layercast_partial_order::study::{Path, Phase, Setting, Source};
use layercast_partial_order::{Policy, Tolerance};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let percent: f64 = std::env::args().nth(1).map_or(Ok(10.0), |it| it.parse())?;
    println!("tolerance {percent} %, loss 10 %, 120 s");
    for policy in [Policy::MediaPerMedia, Policy::PerGroup] {
        let tolerance = Tolerance::rate(percent / 100.0);
        let source = |period_ms, bytes, count| Source {
            period_ms,
            bytes,
            count,
            late_ms: 0.0,
            tolerance,
        };
        let setting = Setting {
            flows: vec![source(40.0, 1_000, 2), source(80.0, 640, 1)],
            path: Path {
                bps: 10e6,
                delay_ms: 2.0,
                jitter_ms: 4.0,
                loss: 0.1,
                loss_back: true,
                cells: false,
            },
            policy,
            seconds: 120.0,
            seed: 1,
            phase: Phase::Start,
            window_tenths: 40,
            window: None,
            opportunistic: false,
            infer: false,
            grace_ms: 0.0,
            playout_ms: None,
            strict_paper: false,
            above_udp_ms: None,
        };
        let run = setting.run()?;
        println!(
            "{policy:?}: ATDV {:.1} ms, closed {}",
            run.atdv_ms, run.closed
        );
        for (flow, it) in run.flows.iter().enumerate() {
            println!(
                "  flow {flow}: {} submitted, {} delivered, {} lost, {} sent again, mean delay {:.1} ms, 95 % below {:.1} ms",
                it.submitted, it.delivered, it.lost, it.retransmitted, it.delay_ms, it.p95_ms
            );
        }
    }
    Ok(())
}
