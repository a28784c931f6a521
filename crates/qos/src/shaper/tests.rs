use std::collections::BTreeMap;

use proptest::prelude::*;

use layercast_core::CellRate;

use super::*;

const FLOW: FlowId = FlowId(1);

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn bucket(b: u32, p: u32) -> BucketParams {
    BucketParams::new(b, p).unwrap()
}

/// A shaper with one flow.
fn shaper(params: BucketParams, bound: u32) -> Shaper<u32> {
    let mut shaper = Shaper::new(ShaperConfig::default());
    shaper.add_flow(Time::ZERO, FLOW, params, bound);
    shaper
}

fn fill(shaper: &mut Shaper<u32>, now: Time, id: FlowId, cells: u32) {
    for cell in 0..cells {
        shaper.enqueue(now, id, Layer::Base, 0, 1, cell).unwrap();
    }
}

/// Runs every tick that is asked for up to `end` ms and gives the millisecond of each release.
fn run<T>(shaper: &mut Shaper<T>, end: u64) -> Vec<(u64, FlowId, T)> {
    let mut released = Vec::new();
    while let Some(now) = shaper.next_tick().filter(|&now| now <= ms(end)) {
        shaper.on_tick(now);
        let at = now.as_us() / 1_000;
        released.extend(std::iter::from_fn(|| shaper.pop()).map(|(id, item)| (at, id, item)));
    }
    released
}

#[test]
fn a_backlogged_flow_gets_b_cells_every_p_ticks() {
    let mut shaper = shaper(BucketParams::for_rate(CellRate(17_500)), 100_000);
    fill(&mut shaper, Time::ZERO, FLOW, 50_000);
    let released = run(&mut shaper, 2_000);
    assert_eq!(released.len(), 35_000 + 35);
}

#[test]
fn an_idle_shaper_wants_no_tick_and_an_empty_bucket_waits_for_its_refresh() {
    let mut shaper = shaper(bucket(2, 10), 100);
    assert_eq!(shaper.next_tick(), None);
    fill(&mut shaper, ms(3) + Span::from_us(400), FLOW, 3);
    assert_eq!(shaper.next_tick(), Some(ms(4)));
    shaper.on_tick(ms(4));
    assert_eq!(shaper.next_tick(), Some(ms(10)));
    shaper.on_tick(ms(10));
    assert_eq!(shaper.next_tick(), None);
    assert_eq!(std::iter::from_fn(|| shaper.pop()).count(), 3);
    assert_eq!(shaper.missed_ticks(), 0);
}

#[test]
fn an_early_tick_releases_nothing() {
    let mut shaper = shaper(bucket(2, 1), 100);
    fill(&mut shaper, ms(3), FLOW, 1);
    shaper.on_tick(ms(3));
    assert_eq!(shaper.pop(), None);
    shaper.on_tick(ms(4));
    assert!(shaper.pop().is_some());
}

/// Cells that leave of a flow at 4 cells a tick, 10 of which come in each, on a host that runs at these instants.
fn sent_by_a_host_that_runs_at(instants: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut shaper = shaper(bucket(4, 1), 100_000);
    let mut before = 0;
    let sent = instants.map(|at| {
        fill(&mut shaper, ms(before), FLOW, 10 * (at - before) as u32);
        before = at;
        shaper.on_tick(ms(at));
        std::iter::from_fn(|| shaper.pop()).count()
    });
    sent.collect()
}

#[test]
fn a_host_that_runs_late_again_and_again_keeps_the_rate() {
    let sent = sent_by_a_host_that_runs_at((1..=50).map(|n| 20 * n));
    assert_eq!(sent[1..], [80; 49]);
}

#[test]
fn the_burst_after_a_long_stall_is_bounded() {
    let sent = sent_by_a_host_that_runs_at([1, 2, 2_002, 2_003].into_iter());
    assert_eq!(sent, [4, 4, 200, 4]);
}

#[test]
fn each_tick_that_is_run_late_keeps_its_budget() {
    let mut shaper = Shaper::new(ShaperConfig {
        tick_budget: Some(32),
        ..ShaperConfig::default()
    });
    shaper.add_flow(Time::ZERO, FLOW, bucket(100, 5), 10_000);
    fill(&mut shaper, Time::ZERO, FLOW, 1_000);
    shaper.on_tick(ms(1));
    assert_eq!(std::iter::from_fn(|| shaper.pop()).count(), 32);
    // 32, 32 and the rest of the first hundred; a refresh at 5 ms, of which a tick takes 32.
    shaper.on_tick(ms(5));
    assert_eq!(std::iter::from_fn(|| shaper.pop()).count(), 100);
    assert_eq!(shaper.missed_ticks(), 3);
}

#[test]
fn flows_take_turns_and_the_turn_rotates() {
    let mut shaper = Shaper::new(ShaperConfig {
        tick_budget: Some(1),
        ..ShaperConfig::default()
    });
    for id in [3, 1, 2] {
        shaper.add_flow(Time::ZERO, FlowId(id), bucket(5, 1), 100);
        fill(&mut shaper, Time::ZERO, FlowId(id), 30);
    }
    let mut sent = BTreeMap::new();
    for (_, id, _) in run(&mut shaper, 30) {
        *sent.entry(id.0).or_insert(0) += 1;
    }
    assert_eq!(sent, BTreeMap::from([(1, 10), (2, 10), (3, 10)]));
}

#[test]
fn cells_of_two_flows_interleave_within_a_tick() {
    let mut shaper = Shaper::new(ShaperConfig::default());
    for id in [1, 2] {
        shaper.add_flow(Time::ZERO, FlowId(id), bucket(3, 1), 100);
        fill(&mut shaper, Time::ZERO, FlowId(id), 3);
    }
    let order: Vec<_> = run(&mut shaper, 1)
        .into_iter()
        .map(|(_, id, _)| id.0)
        .collect();
    assert_eq!(order, [2, 1, 2, 1, 2, 1]);
}

#[test]
fn new_parameters_wait_for_the_refresh_but_the_credit_is_cut_at_once() {
    let mut shaper = shaper(bucket(10, 10), 1_000);
    fill(&mut shaper, Time::ZERO, FLOW, 100);
    shaper.reconfigure(Time::ZERO, FLOW, bucket(4, 2));
    assert_eq!(run(&mut shaper, 9).len(), 4);
    let times: Vec<_> = run(&mut shaper, 13)
        .into_iter()
        .map(|(at, ..)| at)
        .collect();
    assert_eq!(times, [10, 10, 10, 10, 12, 12, 12, 12]);
}

#[test]
fn rate_zero_pauses_and_keeps_the_queue() {
    let mut shaper = shaper(bucket(2, 1), 100);
    fill(&mut shaper, Time::ZERO, FLOW, 6);
    assert_eq!(run(&mut shaper, 1).len(), 2);
    shaper.reconfigure(ms(1), FLOW, BucketParams::PAUSED);
    assert_eq!(shaper.next_tick(), None);
    assert_eq!(shaper.stats(FLOW).unwrap().queued, 4);
    shaper.reconfigure(ms(100), FLOW, bucket(2, 1));
    assert_eq!(run(&mut shaper, 102).len(), 4);
    assert_eq!(shaper.missed_ticks(), 0);
}

#[test]
fn a_datagram_may_overdraw_and_the_debt_is_repaid() {
    let mut shaper = shaper(bucket(10, 1), 1_000);
    for item in 0..3 {
        shaper
            .enqueue(Time::ZERO, FLOW, Layer::Base, 0, 25, item)
            .unwrap();
    }
    // Credits: 10 - 25 = -15, -5, 5 - 25 = -20 (at 3 ms), -10, 0, 10 (at 6 ms).
    let times: Vec<_> = run(&mut shaper, 20)
        .into_iter()
        .map(|(at, ..)| at)
        .collect();
    assert_eq!(times, [1, 3, 6]);
}

#[test]
fn base_layer_is_pushed_back_when_the_queue_is_full_of_it() {
    let mut shaper = shaper(bucket(1, 1), 3);
    fill(&mut shaper, Time::ZERO, FLOW, 3);
    let full = shaper.enqueue(Time::ZERO, FLOW, Layer::Base, 1, 1, 9);
    assert_eq!(full, Err(ShaperError::PushBack(FLOW)));
    assert_eq!(run(&mut shaper, 1).len(), 1);
    assert_eq!(shaper.enqueue(ms(1), FLOW, Layer::Base, 1, 1, 9), Ok(()));
    assert_eq!(shaper.stats(FLOW).unwrap().dropped, PerLayer::default());
}

#[test]
fn whole_enhancement_frames_give_way_newest_and_highest_first() {
    let mut shaper = shaper(bucket(1, 1), 10);
    // Frames of 2 cells: E2, E1, E2, E2, E1.
    let frames = [Layer::E2, Layer::E1, Layer::E2, Layer::E2, Layer::E1];
    for (key, layer) in frames.into_iter().enumerate() {
        for _ in 0..2 {
            let key = key as u32;
            shaper
                .enqueue(Time::ZERO, FLOW, layer, key, 1, key)
                .unwrap();
        }
    }
    // The first cell of frame 0 leaves, so that frame cannot be dropped whole any more.
    assert_eq!(run(&mut shaper, 1).len(), 1);
    assert_eq!(shaper.make_room(FLOW, Layer::Base, 7), Ok(()));
    let dropped = PerLayer {
        base: 0,
        e1: 1,
        e2: 2,
    };
    assert_eq!(shaper.stats(FLOW).unwrap().dropped, dropped);
    let left: Vec<_> = run(&mut shaper, 20)
        .into_iter()
        .map(|(_, _, key)| key)
        .collect();
    assert_eq!(left, [0, 1, 1]);
}

#[test]
fn an_enhancement_frame_that_does_not_fit_is_refused_to_its_end() {
    let mut shaper = shaper(bucket(1, 1), 4);
    fill(&mut shaper, Time::ZERO, FLOW, 2);
    let results: Vec<_> = (0..5)
        .map(|_| {
            shaper
                .enqueue(Time::ZERO, FLOW, Layer::E1, 7, 1, 99)
                .is_ok()
        })
        .collect();
    assert_eq!(results, [true, true, false, false, false]);
    assert_eq!(shaper.stats(FLOW).unwrap().dropped.e1, 1);
    assert!(run(&mut shaper, 20).iter().all(|&(.., cell)| cell != 99));
}

#[test]
fn an_unknown_flow_is_an_error() {
    let mut shaper = shaper(bucket(1, 1), 4);
    let unknown = FlowId(9);
    assert_eq!(
        shaper.enqueue(Time::ZERO, unknown, Layer::Base, 0, 1, 0),
        Err(ShaperError::UnknownFlow(unknown))
    );
    fill(&mut shaper, Time::ZERO, FLOW, 2);
    assert_eq!(shaper.remove_flow(FLOW), 2);
    assert_eq!(shaper.next_tick(), None);
    assert_eq!(shaper.stats(FLOW), None);
}

#[test]
fn the_queue_bound_is_two_gops_or_4_mib() {
    assert_eq!(queue_bound(1_000, 684), 2_000);
    assert_eq!(queue_bound(1_000_000, 684), 87_381);
    assert_eq!(queue_bound(100, 684), 684);
}

/// The shaper as printed, run tick by tick.
struct Printed {
    flows: Vec<(i64, i64, u32, u32, VecDeque<u32>)>,
    rr: usize,
    budget: u32,
}

impl Printed {
    fn tick(&mut self) -> Vec<u32> {
        let n = self.flows.len();
        self.rr = (self.rr + 1) % n;
        for (b, r, p, t, _) in &mut self.flows {
            *t -= 1;
            if *t == 0 {
                *r = *b + (*r).min(0);
                *t = *p;
            }
        }
        let (mut budget, mut out) = (self.budget, Vec::new());
        loop {
            let before = out.len();
            for i in 0..n {
                let at = (self.rr + i) % n;
                let (_, r, _, _, queue) = &mut self.flows[at];
                if *r > 0
                    && budget > 0
                    && let Some(cost) = queue.pop_front()
                {
                    *r -= i64::from(cost);
                    budget = budget.saturating_sub(cost);
                    out.push(at as u32);
                }
            }
            if out.len() == before {
                return out;
            }
        }
    }
}

proptest! {
    #[test]
    fn no_aligned_interval_of_p_ticks_carries_more_than_b_cells(
        b in 1u32..40, p in 1u32..30,
        arrivals in prop::collection::vec((0u64..300, 1u32..60), 1..20),
        budget in prop::option::of(1u32..40),
    ) {
        let mut shaper = Shaper::new(ShaperConfig { tick_budget: budget, ..Default::default() });
        shaper.add_flow(Time::ZERO, FLOW, bucket(b, p), 100_000);
        let mut arrivals = arrivals;
        arrivals.sort_unstable();
        let mut released = Vec::new();
        for (at, cells) in arrivals {
            released.extend(run(&mut shaper, at));
            fill(&mut shaper, ms(at), FLOW, cells);
        }
        released.extend(run(&mut shaper, 100_000));
        let mut per_interval = BTreeMap::new();
        for (at, ..) in released {
            *per_interval.entry(at / u64::from(p)).or_insert(0) += 1;
        }
        prop_assert!(per_interval.values().all(|&cells| cells <= b));
        prop_assert_eq!(shaper.stats(FLOW).unwrap().queued, 0);
    }

    #[test]
    fn running_only_the_ticks_asked_for_equals_the_printed_loop(
        params in prop::collection::vec((1u32..8, 1u32..12), 1..4),
        arrivals in prop::collection::vec((0u64..150, 0usize..4, 1u32..12), 0..60),
        budget in prop::option::of(1u32..10),
    ) {
        let mut shaper = Shaper::new(ShaperConfig { tick_budget: budget, ..Default::default() });
        let mut printed = Printed { flows: Vec::new(), rr: 0, budget: budget.unwrap_or(u32::MAX) };
        for (i, &(b, p)) in params.iter().enumerate() {
            shaper.add_flow(Time::ZERO, FlowId(i as u32), bucket(b, p), 100_000);
            printed.flows.push((b.into(), b.into(), p, p, VecDeque::new()));
        }
        for at in 0..400u64 {
            let expected = if at == 0 { Vec::new() } else { printed.tick() };
            let released = run(&mut shaper, at);
            prop_assert!(released.iter().all(|&(tick, ..)| tick == at));
            let ids: Vec<u32> = released.iter().map(|&(_, id, ())| id.0).collect();
            prop_assert_eq!(ids, expected, "tick {}", at);
            for &(_, flow, cost) in arrivals.iter().filter(|arrival| arrival.0 == at) {
                let flow = flow % params.len();
                let now = ms(at) + Span::from_us(300);
                shaper.enqueue(now, FlowId(flow as u32), Layer::Base, 0, cost, ()).unwrap();
                printed.flows[flow].4.push_back(cost);
            }
        }
        prop_assert_eq!(shaper.missed_ticks(), 0);
    }
}
