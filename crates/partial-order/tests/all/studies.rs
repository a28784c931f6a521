//! The studies: the shape of the paper's figures, in short runs.

use layercast_partial_order::study::{Arrivals, Path, Phase, Run, Setting, Source};
use layercast_partial_order::{Policy, Tolerance};

fn setting(share: f64, policy: Policy) -> Setting {
    let tolerance = Tolerance::rate(share);
    let source = |period_ms, bytes, count| Source {
        period_ms,
        bytes,
        count,
        late_ms: 0.0,
        tolerance,
    };
    Setting {
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
        seconds: 60.0,
        seed: 3,
        phase: Phase::Start,
        window_tenths: 40,
        window: None,
        opportunistic: false,
        infer: false,
        grace_ms: 0.0,
        playout_ms: None,
        strict_paper: false,
        above_udp_ms: None,
    }
}

const BOTH: [Policy; 2] = [Policy::MediaPerMedia, Policy::PerGroup];

fn again(run: &Run) -> u64 {
    run.flows.iter().map(|it| it.retransmitted).sum()
}

#[test]
fn tolerance_above_the_loss_ends_retransmissions() {
    for policy in BOTH {
        let [none, most] = [0.0, 0.2].map(|share| setting(share, policy).run().unwrap());
        assert!(none.closed && most.closed);
        assert!(
            again(&none) > 100 && again(&most) < 5,
            "{} {}",
            again(&none),
            again(&most)
        );
        assert!(
            none.atdv_ms > 3.0 * most.atdv_ms,
            "{} {}",
            none.atdv_ms,
            most.atdv_ms
        );
        assert!(none.flows.iter().all(|it| it.lost == 0));
    }
}

#[test]
fn a_late_flow_costs_media_per_media_more() {
    let [media, group] = BOTH.map(|policy| {
        let mut late = setting(0.2, policy);
        late.flows[1].late_ms = 20.0;
        late.run().unwrap()
    });
    assert!(
        media.atdv_ms > group.atdv_ms + 1.0,
        "{} {}",
        media.atdv_ms,
        group.atdv_ms
    );
}

#[test]
fn without_tolerance_or_loss_the_traces_are_equal() {
    // I7 and I6.
    for (share, loss) in [(0.0, 0.1), (0.1, 0.0)] {
        let [media, group] = BOTH.map(|policy| {
            let mut it = setting(share, policy);
            it.path.loss = loss;
            it.run().unwrap()
        });
        assert_eq!(media.trace, group.trace);
        if loss == 0.0 {
            assert!(
                again(&group) == 0
                    && group
                        .flows
                        .iter()
                        .all(|it| it.lost == 0 && it.delivered == it.submitted)
            );
        }
    }
}

#[test]
fn the_form_of_the_paper_runs_too() {
    for share in [0.0, 0.05] {
        let mut strict = setting(share, Policy::PerGroup);
        strict.strict_paper = true;
        let run = strict.run().unwrap();
        let settled: u64 = run.flows.iter().map(|it| it.delivered + it.lost).sum();
        assert!(run.longest_gap_ms < 2_000.0, "{}", run.longest_gap_ms);
        assert!(settled >= 2_249, "{settled}");
    }
}

#[test]
fn inference_lowers_the_delay_of_recovery() {
    let [plain, infer] = [false, true].map(|infer| {
        let mut it = setting(0.0, Policy::MediaPerMedia);
        it.infer = infer;
        it.run().unwrap()
    });
    assert!(
        infer.atdv_ms < 0.93 * plain.atdv_ms,
        "{} {}",
        infer.atdv_ms,
        plain.atdv_ms
    );
}

#[test]
fn opportunistic_recovery_loses_less() {
    let [plain, more] = [false, true].map(|opportunistic| {
        let mut it = setting(0.2, Policy::MediaPerMedia);
        it.opportunistic = opportunistic;
        it.run().unwrap()
    });
    let lost = |run: &Run| run.flows.iter().map(|it| it.lost).sum::<u64>();
    assert!(
        lost(&more) < lost(&plain),
        "{} {}",
        lost(&more),
        lost(&plain)
    );
}

#[test]
fn a_play_out_delay_turns_loss_into_delay() {
    let mut it = setting(0.2, Policy::PerGroup);
    it.playout_ms = Some(150.0);
    let run = it.run().unwrap();
    let greedy = setting(0.2, Policy::PerGroup).run().unwrap();
    let lost = |run: &Run| run.flows.iter().map(|it| it.lost).sum::<u64>();
    assert!(
        run.closed && 3 * lost(&run) < lost(&greedy),
        "{} {}",
        lost(&run),
        lost(&greedy)
    );
    assert!(
        run.flows.iter().all(|it| it.p95_ms < 165.0),
        "{:?}",
        run.flows
    );
}

#[test]
fn a_flow_that_is_always_late_uses_its_tolerance() {
    let mut it = setting(0.2, Policy::PerGroup);
    it.path.loss = 0.0;
    it.flows[1].late_ms = 100.0;
    let late = &it.run().unwrap().flows[1];
    let share = late.lost as f64 / late.submitted as f64;
    assert!((0.17..0.22).contains(&share), "{share}");
    assert!(late.late >= late.lost, "{late:?}");
    // A grace longer than the offset keeps them.
    it.grace_ms = 150.0;
    let kept = it.run().unwrap();
    assert_eq!(kept.flows.iter().map(|it| it.lost).sum::<u64>(), 0);
}

#[test]
fn a_window_that_is_too_small_delays_submissions_beyond_the_end() {
    // Submissions that wait for the window at the end of the run are waited for, at most a minute.
    let mut it = setting(0.2, Policy::PerGroup);
    it.path.delay_ms = 150.0;
    (it.window_tenths, it.seconds) = (10, 20.0);
    let run = it.run().unwrap();
    assert!(2 * run.flows[0].blocked > run.flows[0].submitted);
}

#[test]
fn an_application_above_udp_loses_what_the_path_loses() {
    let mut it = setting(0.2, Policy::PerGroup);
    it.above_udp_ms = Some(40.0);
    let run = it.run().unwrap();
    let (lost, all) = run
        .flows
        .iter()
        .fold((0, 0), |sum, it| (sum.0 + it.lost, sum.1 + it.submitted));
    let share = lost as f64 / all as f64;
    assert!((0.06..0.14).contains(&share), "{share}");
}

#[test]
fn permuted_arrivals_of_figure_1() {
    let mut edges = Vec::new();
    for pair in 0..47_u64 {
        for (from, to) in [(2, 2), (2, 3), (3, 2), (3, 3)] {
            edges.push([(from, pair), (to, pair + 1)]);
        }
    }
    let mut sequence = vec![(0, 0), (1, 0), (1, 1)];
    sequence.extend((0..48).flat_map(|pair| [(2, pair), (3, pair)]));
    let mut arrivals = Arrivals {
        counts: vec![1, 2, 48, 48],
        edges,
        sequence,
        displacement: 4,
        permutations: 20,
    };
    let some = arrivals.run().unwrap();
    assert!(
        some.correct && some.delivered_on_arrival > 0.3 && some.delivered_on_arrival < 1.0,
        "{some:?}"
    );
    assert_eq!(some.linear_extensions, (941_094_u128 << 48).to_string());
    arrivals.displacement = 0;
    let none = arrivals.run().unwrap();
    assert!(
        none.correct && none.delivered_on_arrival == 1.0 && none.waiting_max == 0.0,
        "{none:?}"
    );
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let mut it = setting(0.2, Policy::PerGroup);
    it.path.loss = 1.0;
    assert!(it.run().unwrap_err().to_string().contains("loss"));
    let mut it = setting(0.2, Policy::PerGroup);
    it.flows[0].count = 0;
    assert!(it.run().unwrap_err().to_string().contains("flow 0 has 0"));
}
