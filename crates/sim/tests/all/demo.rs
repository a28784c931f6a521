//! The demo, with traces of about the sizes of its clips, so that it needs no video.

use std::fmt::Write;
use std::path::PathBuf;

use crate::common::{ready_made, run};
use layercast_sim::SimSummary;
use layercast_sim::scenario::ClipSpec;

/// A trace of 40 s at 25 frames/s: an I picture each `gop`, an anchor each 3, sizes varied by 5 %.
fn trace(name: &str, gop: usize, [i, p, b]: [u32; 3]) -> ClipSpec {
    let mut text = String::new();
    for frame in 0..1_000 {
        let (kind, size) = match frame % gop {
            0 => ('I', i),
            n if n % 3 == 1 => ('P', p),
            _ => ('B', b),
        };
        let size = size / 100 * (95 + (frame * 7 % 11) as u32);
        writeln!(text, "{frame} {kind} {size}").unwrap();
    }
    let path = std::env::temp_dir().join(format!("layercast-{}-{name}.trace", std::process::id()));
    std::fs::write(&path, text).unwrap();
    ClipSpec::Trace(path)
}

fn demo(seed: u64) -> SimSummary {
    let mut scenario = ready_made("demo.toml");
    scenario.seed = seed;
    let clips = [
        trace("bunny", 12, [74_500, 14_700, 8_850]),
        trace("bikes", 6, [44_000, 19_000, 11_000]),
        // Of the best rendition; the sizes of the others are modelled.
        trace("renditions", 25, [70_000, 13_500, 8_000]),
    ];
    for (flow, clip) in scenario.flows.iter_mut().zip(clips) {
        flow.clip = clip;
        flow.frame_rate = Some(25.0);
    }
    let summary = run(&scenario);
    for flow in scenario.flows {
        if let ClipSpec::Trace(path) = flow.clip {
            let _: Result<(), _> = std::fs::remove_file::<PathBuf>(path);
        }
    }
    summary
}

#[test]
fn the_promise_holds_and_the_guest_squeezes_only_the_wide_receiver() {
    for seed in 1..=20 {
        check(seed, &demo(seed));
    }
}

fn check(seed: u64, summary: &SimSummary) {
    for (name, levels) in [
        ("wide", &[2, 0, 2][..]),
        ("mid", &[1]),
        ("narrow", &[0]),
        ("large", &[2]),
        ("medium", &[1]),
        ("small", &[0]),
        ("guest", &[0]),
    ] {
        let receiver = summary.receiver(name).unwrap();
        let received: Vec<u8> = receiver
            .received
            .iter()
            .map(|entry| entry.1.get())
            .collect();
        assert_eq!(received, levels, "seed {seed}: {name}");
        assert_eq!(
            (receiver.lost.base, receiver.late_base),
            (0, 0),
            "seed {seed}: {name}"
        );
        assert_eq!(receiver.off_boundary, 0, "seed {seed}: {name}");
    }
    let wide = summary.receiver("wide").unwrap();
    let changes: Vec<f64> = wide.received.iter().map(|entry| entry.0).collect();
    assert!(
        (10.0..12.5).contains(&changes[1]),
        "seed {seed}: {changes:?}"
    );
    assert!(
        (25.0..28.5).contains(&changes[2]),
        "seed {seed}: {changes:?}"
    );
    for queue in &summary.queues {
        assert_eq!(
            queue.queue.queue_full.base, 0,
            "seed {seed}: {} to {}",
            queue.node, queue.port
        );
    }
}
