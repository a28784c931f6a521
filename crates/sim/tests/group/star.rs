use layercast_multicast::SenderConfig;

use crate::common::{layercast, run, star};

#[test]
fn parities_cost_less_than_the_union_of_what_is_missing() {
    let parity = run(star(layercast(), 1_000, 1_000, 0.01));
    let union = run(star(SenderConfig::rmtp(), 1_000, 1_000, 0.01));
    for summary in [&parity, &union] {
        assert_eq!(summary.failure, None);
        assert_eq!(summary.outcomes.delivered, 1_000, "{summary:#?}");
        assert_eq!(summary.outcomes.complete, 1_000);
    }
    // Computed: 1.056 (specs/packet-level-fec.md 8) and 2.096 (5).
    assert!(parity.transmissions_per_packet <= 1.10, "{parity:#?}");
    let union = union.transmissions_per_packet;
    assert!((union / 2.096 - 1.0).abs() < 0.02, "{union}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let group = star(layercast(), 300, 100, 0.05);
    let first = run(group.clone());
    assert_eq!(run(group.clone()), first);
    let other = run(layercast_sim::group::Group { seed: 2, ..group });
    assert_ne!(other.completion_s, first.completion_s);
}
