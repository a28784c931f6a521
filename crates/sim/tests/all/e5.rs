//! Experiment E5 of the METS papers: adaptation (specs/mets.md 4.8, acceptance in 5, E5-1 to E5-3).

use crate::common::{ready_made, run};
use layercast_core::Level;
use layercast_mets::ReceiverSummary;
use layercast_sim::SimSummary;

/// The level in force at `t`.
fn level_at(receiver: &ReceiverSummary, t: f64) -> Level {
    let before = receiver.levels.iter().take_while(|entry| entry.0 <= t);
    before.last().map_or(Level::BASE, |entry| entry.1)
}

/// Base-layer frames that must be played: all, but for the last second of Flight, whose receiver
/// leaves when the flow ends.
fn all_base(receiver: &str) -> u64 {
    match receiver {
        "canyon-at-dwp" => 160,
        "lougher-at-dwp" => 150,
        "flight-at-dwp" => 97,
        other => panic!("no receiver {other} in E5"),
    }
}

fn check(summary: &SimSummary) {
    let seed = summary.seed;
    let canyon = summary.receiver("canyon-at-dwp").unwrap();
    let levels = &canyon.levels;
    let early = levels
        .iter()
        .find(|entry| entry.0 <= 20.0 && entry.1 != Level::BASE);
    assert_eq!(early, None, "seed {seed}: only the base layer up to 20 s");
    assert_eq!(
        level_at(canyon, 22.0),
        Level::FULL,
        "seed {seed}: {levels:?}"
    );
    assert_eq!(
        level_at(canyon, 49.9),
        Level::FULL,
        "seed {seed}: {levels:?}"
    );
    assert_eq!(level_at(canyon, 52.0), Level::E1, "seed {seed}: {levels:?}");
    assert_eq!(level_at(canyon, 79.9), Level::E1, "seed {seed}: {levels:?}");
    let received: Vec<u8> = canyon.received.iter().map(|entry| entry.1.get()).collect();
    assert_eq!(received, [0, 2, 1], "seed {seed}: what was seen");
    assert_eq!(
        canyon.off_boundary, 0,
        "seed {seed}: changes on GOP boundaries"
    );
    for name in ["canyon-at-dwp", "flight-at-dwp", "lougher-at-dwp"] {
        let receiver = summary.receiver(name).unwrap();
        assert_eq!(receiver.lost.base, 0, "seed {seed}: {name}");
        assert_eq!(receiver.late_base, 0, "seed {seed}: {name}");
        assert!(
            receiver.frames.base >= all_base(name),
            "seed {seed}: {name}"
        );
    }
}

#[test]
fn levels_go_0_2_1_in_time_without_base_layer_loss_for_20_seeds() {
    let mut scenario = ready_made("e5.toml");
    for seed in 1..=20 {
        scenario.seed = seed;
        check(&run(&scenario));
    }
}

/// `layercast-lab reproduce mets/e5` checks 100 seeds.
#[test]
fn random_phases_cost_no_base_frame() {
    let mut scenario = ready_made("e5.toml");
    for seed in 21..=40 {
        scenario.seed = seed;
        let summary = run(&scenario);
        for receiver in summary.flows.iter().flat_map(|flow| &flow.receivers) {
            let bad = (receiver.lost.base, receiver.late_base);
            assert_eq!(bad, (0, 0), "seed {seed}: {}", receiver.name);
            let all = all_base(&receiver.name);
            assert!(
                receiver.frames.base >= all,
                "seed {seed}: {}",
                receiver.name
            );
        }
        for queue in &summary.queues {
            assert_eq!(queue.queue.dropped().base, 0, "seed {seed}: {}", queue.node);
        }
    }
}

#[test]
fn a_base_layer_that_does_not_fit_is_refused_with_the_shortfall() {
    let mut scenario = ready_made("e5.toml");
    // Room for Canyon and Flight, but not for Lougher on top.
    scenario.flows[1].stop = None;
    scenario.receivers[1].leave = None;
    scenario.links[3].adapt_capacity = Some(layercast_core::CellRate(3_000));
    let summary = run(&scenario);
    let refused = summary.receiver("lougher-at-dwp").unwrap();
    let reason = refused.refused.as_deref().unwrap();
    assert!(reason.starts_with("rook: not enough bandwidth"), "{reason}");
    assert!(
        reason.contains("cells/s") && reason.ends_with("short"),
        "{reason}"
    );
    assert_eq!(refused.frames.base, 0);
    for name in ["canyon-at-dwp", "flight-at-dwp"] {
        let other = summary.receiver(name).unwrap();
        assert_eq!((other.lost.base, other.late_base), (0, 0), "{name}");
    }
}
