//! The further experiments on adaptation: merging, filters in nodes, lost messages, any rate
//! (specs/mets.md 4.8, E5b, E5c, E5e, E5f).

use crate::common::{ready_made, run};
use layercast_core::{Layer, Level};
use layercast_media::FilterRule;
use layercast_mets::ReceiverSummary;
use layercast_qos::Merge;
use layercast_sim::SimSummary;
use layercast_sim::scenario::Scenario;

fn level_at(receiver: &ReceiverSummary, t: f64) -> Level {
    let before = receiver.levels.iter().take_while(|entry| entry.0 <= t);
    before.last().map_or(Level::BASE, |entry| entry.1)
}

/// Mean cells/s above the base layer in the whole seconds of [from, to).
fn above_base(receiver: &ReceiverSummary, from: f64, to: f64) -> f64 {
    let inside = receiver
        .series
        .iter()
        .filter(|it| it.t >= from && it.t < to);
    let cells: Vec<u32> = inside.map(|it| it.cells.e1 + it.cells.e2).collect();
    f64::from(cells.iter().sum::<u32>()) / cells.len() as f64
}

fn assert_base_layer(summary: &SimSummary) {
    for receiver in summary.flows.iter().flat_map(|flow| &flow.receivers) {
        let (seed, name) = (summary.seed, &receiver.name);
        assert_eq!(receiver.lost.base, 0, "seed {seed}: {name}");
        assert_eq!(receiver.late_base, 0, "seed {seed}: {name}");
        assert!(receiver.frames.base > 50, "seed {seed}: {name}");
        assert_eq!(receiver.off_boundary, 0, "seed {seed}: {name}");
    }
}

fn seeds(name: &str, change: impl Fn(&mut Scenario)) -> Vec<SimSummary> {
    let mut scenario = ready_made(name);
    change(&mut scenario);
    let runs = (1..=5).map(|seed| {
        scenario.seed = seed;
        run(&scenario)
    });
    runs.collect()
}

#[test]
fn e5b_two_receivers_get_what_each_branch_can_carry() {
    for merge in [Merge::Join, Merge::Hull] {
        for summary in seeds("e5b.toml", |scenario| scenario.merge = merge) {
            assert_base_layer(&summary);
            let dwp = summary.receiver("canyon-at-dwp").unwrap();
            let little = summary.receiver("canyon-at-mr-little").unwrap();
            for t in [4.0, 20.0, 39.0] {
                assert_eq!(level_at(dwp, t), Level::E1);
                assert_eq!(level_at(little, t), Level::FULL);
            }
            assert_eq!((dwp.frames.e2, dwp.lost.e2, dwp.lost.e1), (0, 0, 0));
            assert!(dwp.frames.e1 > 200 && little.frames.e2 > 500);
            assert_eq!(little.lost.e2, 0);
        }
    }
}

#[test]
fn e5c_a_filter_at_rook_makes_room_for_all_pictures() {
    let without = seeds("e5c.toml", |scenario| scenario.filters.clear());
    for summary in &without {
        let dwp = summary.receiver("canyon-at-dwp").unwrap();
        assert_eq!(level_at(dwp, 30.0), Level::E1);
    }
    let rules = [
        (FilterRule::LowPass(10), 0.755 * 2_880.0),
        (FilterRule::Drs, 2_520.0),
    ];
    for (rule, expected) in rules {
        for summary in seeds("e5c.toml", |scenario| scenario.filters[0].rule = rule) {
            assert_base_layer(&summary);
            let dwp = summary.receiver("canyon-at-dwp").unwrap();
            let little = summary.receiver("canyon-at-mr-little").unwrap();
            assert_eq!(level_at(dwp, 30.0), Level::FULL, "{rule}: {:?}", dwp.levels);
            let got = above_base(dwp, 10.0, 38.0);
            assert!((got / expected - 1.0).abs() < 0.05, "{rule}: {got}");
            let whole = above_base(little, 10.0, 38.0);
            assert!((whole / 2_880.0 - 1.0).abs() < 0.05, "{rule}: {whole}");
            assert_eq!(dwp.lost.e1 + dwp.lost.e2, 0, "{rule}");
            // The source is asked for whole layers, by rook and not by dwp.
            assert_eq!(summary.flows[0].source.level, Level::FULL);
            assert_eq!(summary.filters[0].node, "rook");
            assert!(summary.filters[0].stats.filter.passed == 0);
        }
    }
}

#[test]
fn e5c_picture_dropping_at_rook_leaves_a_whole_stream() {
    let keep = |scenario: &mut Scenario| scenario.filters[0].rule = FilterRule::Keep(Level::E1);
    for summary in seeds("e5c.toml", keep) {
        assert_base_layer(&summary);
        let dwp = summary.receiver("canyon-at-dwp").unwrap();
        assert_eq!(level_at(dwp, 30.0), Level::E1);
        assert_eq!((dwp.frames.e2, dwp.lost.e2), (0, 0));
    }
    let thin = FilterRule::Thin { keep: 1, of: 2 };
    for summary in seeds("e5c.toml", |scenario| scenario.filters[0].rule = thin) {
        assert_base_layer(&summary);
        let dwp = summary.receiver("canyon-at-dwp").unwrap();
        assert_eq!(level_at(dwp, 30.0), Level::FULL);
        assert!(
            dwp.frames.e2 > 450,
            "each picture has a frame, if a small one"
        );
        assert_eq!(dwp.lost.e2, 0);
        let got = above_base(dwp, 10.0, 38.0);
        assert!(
            (1_900.0..2_050.0).contains(&got),
            "E1 and half of E2: {got}"
        );
    }
}

#[test]
fn e5e_a_fifth_of_res_and_adapt_lost_costs_time_but_no_base_layer() {
    let lossy = |scenario: &mut Scenario| {
        for link in &mut scenario.links {
            link.adapter_loss = 0.2;
        }
    };
    for summary in seeds("e5.toml", lossy) {
        let canyon = summary.receiver("canyon-at-dwp").unwrap();
        for receiver in summary.flows.iter().flat_map(|flow| &flow.receivers) {
            assert_eq!((receiver.lost.base, receiver.late_base), (0, 0));
        }
        // Silence of three eras lowers a level, the next message that passes brings it back; nothing
        // ever brings more than there is.
        let top = |from: f64, to: f64| {
            let changes = canyon.levels.iter();
            let inside = changes.filter(|entry| entry.0 >= from && entry.0 < to);
            inside.map(|entry| entry.1).max().unwrap_or_default()
        };
        assert_eq!(top(0.0, 20.0), Level::BASE);
        assert_eq!(top(20.0, 50.0), Level::FULL, "{:?}", canyon.levels);
        assert_eq!(top(50.5, 80.0), Level::E1, "{:?}", canyon.levels);
    }
}

#[test]
fn e5f_any_rate_follows_what_is_left_within_five_per_cent() {
    let mut scenario = ready_made("e5f.toml");
    for seed in 1..=5 {
        scenario.seed = seed;
        let network = scenario.validate().unwrap();
        let spec = |flow: usize| &network.flows[flow].config.flow.spec;
        let base = |flow: usize| f64::from(spec(flow).layers.base.mean.0);
        let most = f64::from(spec(0).above_base(Level::FULL).0);
        let summary = run(&scenario);
        assert_base_layer(&summary);
        let canyon = summary.receiver("canyon-at-dwp").unwrap();
        for (from, to, others) in [
            (4.0, 20.0, base(1)),
            (24.0, 50.0, 0.0),
            (54.0, 79.0, base(2)),
        ] {
            let residual = (3_500.0 - base(0) - others).min(most);
            let got = above_base(canyon, from, to);
            let off = got / residual - 1.0;
            assert!(
                off.abs() < 0.05,
                "seed {seed}, {from} s: {got} of {residual}"
            );
        }
        assert_eq!(
            canyon.lost.e1 + canyon.lost.e2,
            0,
            "shaped frames all arrive"
        );
    }
}

#[test]
fn whole_layers_and_any_rate_share_a_link() {
    let two = |scenario: &mut Scenario| {
        scenario.flows.truncate(1);
        scenario.receivers.truncate(1);
        let mut discrete = scenario.flows[0].clone();
        discrete.name = "Discrete".into();
        discrete.policy = Default::default();
        scenario.flows.push(discrete);
        let mut receiver = scenario.receivers[0].clone();
        receiver.name = Some("discrete-at-dwp".into());
        receiver.flow = "Discrete".into();
        scenario.receivers.push(receiver);
        scenario.duration = layercast_core::Span::from_secs(42);
        for flow in &mut scenario.flows {
            flow.stop = Some(layercast_core::Span::from_secs(40));
        }
    };
    for summary in seeds("e5f.toml", two) {
        assert_base_layer(&summary);
        let any = summary.receiver("canyon-at-dwp").unwrap();
        let whole = summary.receiver("discrete-at-dwp").unwrap();
        // 3500 less two base layers of about 480: half each; E1 fits, the other takes the rest.
        assert_eq!(level_at(whole, 30.0), Level::E1);
        let (a, b) = (above_base(any, 8.0, 38.0), above_base(whole, 8.0, 38.0));
        assert!((b / 960.0 - 1.0).abs() < 0.05, "{b}");
        assert!((a / 1_580.0 - 1.0).abs() < 0.06, "{a}");
        assert_eq!(any.lost[Layer::E1] + whole.lost[Layer::E1], 0);
    }
}
