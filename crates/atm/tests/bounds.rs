//! The guarantee of rate-controlled static priority: no cell of an admitted circuit is sent after its bound.
#![allow(missing_docs, reason = "tests")]

mod common;

use common::transmit;
use layercast_atm::{
    Admission, Cell, Class, Contract, Discipline, FrameId, OutputQueue, QueueConfig, TrafficSpec,
    Vcid,
};
use layercast_core::{Rate, Span, Time};
use proptest::prelude::*;

const BEST_EFFORT: Vcid = Vcid(0);

fn config(discipline: Discipline) -> QueueConfig {
    QueueConfig {
        discipline,
        ..QueueConfig::new(Rate::from_bps(1_536_000))
    }
}

/// Eligibility by the definition, from all past arrivals.
fn eligibility(traffic: &TrafficSpec, arrivals: &[Time]) -> Vec<Time> {
    let n = traffic.cells_per_interval() as usize;
    let mut eligible: Vec<Time> = Vec::new();
    for (k, at) in arrivals.iter().enumerate() {
        let spaced = k.checked_sub(1).map(|last| eligible[last] + traffic.x_min);
        let averaged = k
            .checked_sub(n)
            .map(|past| eligible[past] + traffic.interval);
        let bounds = [Some(*at), spaced, averaged];
        eligible.extend(bounds.into_iter().flatten().max());
    }
    eligible
}

/// A circuit: its contract and the arrivals of its cells.
#[derive(Debug)]
struct Source {
    contract: Contract,
    arrivals: Vec<Time>,
}

/// Longest time from the eligibility of a cell to the end of its transmission, for each level; `None` for a level
/// without circuits. A best-effort cell is always waiting. With an admission test only admitted circuits send.
fn worst(
    discipline: Discipline,
    start: Time,
    sources: &[Source],
    mut admission: Option<Admission>,
) -> [Option<Span>; 4] {
    let config = config(discipline);
    let mut queue = OutputQueue::new(config).expect("a good configuration");
    queue.open(BEST_EFFORT, Class::BestEffort, None);
    let mut levels = vec![0];
    let mut eligible = vec![Vec::new()];
    let mut cells = Vec::new();
    for source in sources {
        if let Some(admission) = &mut admission
            && admission.admit(&source.contract).is_err()
        {
            continue;
        }
        let level = new_link().level_for(source.contract.delay);
        let level = level.expect("a bound that a level has");
        let vc = Vcid(levels.len() as u16);
        levels.push(level);
        queue.open(vc, Class::Level(level), Some(source.contract.traffic));
        eligible.push(eligibility(&source.contract.traffic, &source.arrivals));
        let arrivals = source.arrivals.iter().zip(0..);
        cells.extend(arrivals.map(|(at, n)| (*at, Cell::of(FrameId(n), vc, 0, 1))));
    }
    cells.sort_by_key(|(at, cell)| (*at, cell.vc, cell.frame));
    let mut worst = [None; 4];
    let filler = Cell::of(FrameId(u32::MAX), BEST_EFFORT, 0, 1);
    transmit(&mut queue, start, cells, Some(filler), |cell, begun| {
        if cell.vc != BEST_EFFORT {
            let vc = usize::from(cell.vc.0);
            let from = eligible[vc][cell.frame.0 as usize];
            let took = (begun + config.cell_time).since(from);
            let worst = &mut worst[usize::from(levels[vc])];
            *worst = Some(took).max(*worst);
        }
    });
    worst
}

fn new_link() -> Admission {
    Admission::new(config(Discipline::RcspNwc).cell_time)
}

fn bound(level: usize) -> Span {
    let cell_time = config(Discipline::RcspNwc).cell_time;
    cell_time.times([16, 32, 64, 128][level] + 8)
}

/// Sources with delays up to `delays` that begin together, `phase` after the grid.
fn sources(delays: u64, phase: u64) -> impl Strategy<Value = Vec<Source>> {
    prop::collection::vec(source(delays, phase), 1..60)
}

fn source(delays: u64, phase: u64) -> impl Strategy<Value = Source> {
    let fields = (
        1_u64..40_000,
        0_u64..30_000,
        1_u64..12,
        5_000..delays,
        any::<bool>(),
        prop::collection::vec(0_u64..60_000, 1..40),
    );
    fields.prop_map(move |(x_min, more, n, delay, greedy, gaps)| {
        let x_min = Span::from_us(277 + x_min);
        let x_ave = x_min + Span::from_us(more);
        let interval = x_ave.times(n) + Span::from_us(more % 1_000);
        let traffic = TrafficSpec {
            x_min,
            x_ave,
            interval,
        };
        // Greedy sources send all that is allowed from the beginning, the others at times more than that.
        let mut now = Time::from_ps(phase);
        let arrivals = gaps.iter().map(|gap| {
            let at = now;
            now += Span::from_us(if greedy { 0 } else { *gap });
            at
        });
        Source {
            arrivals: arrivals.collect(),
            contract: Contract {
                traffic,
                delay: Span::from_us(delay),
            },
        }
    })
}

proptest! {
    #[test]
    fn no_cell_of_an_admitted_circuit_is_late(
        mut sources in (prop::sample::select(vec![8_000, 17_000, 35_000, 60_000]), 0..2_200_000_000_u64)
            .prop_flat_map(|(delays, phase)| sources(delays, phase)),
        offset in 0_u64..276_041_666,
    ) {
        // A cell of a conforming source is eligible on arrival, so its delay is that of the switch. Cells beyond the
        // horizon are excluded.
        for source in &mut sources {
            let eligible = eligibility(&source.contract.traffic, &source.arrivals);
            let horizon = Span::from_secs(2);
            let pairs = eligible.iter().zip(&source.arrivals);
            let kept = pairs.take_while(|(eligible, at)| eligible.since(**at) <= horizon).count();
            source.arrivals.truncate(kept);
            if kept % 2 == 0 {
                source.arrivals.copy_from_slice(&eligible[..kept]);
            }
        }
        for discipline in [Discipline::RcspNwc, Discipline::RcspWc] {
            let worst = worst(discipline, Time::from_ps(offset), &sources, Some(new_link()));
            for (level, worst) in worst.iter().enumerate() {
                let late = worst.is_some_and(|worst| worst > bound(level));
                prop_assert!(!late, "{discipline:?} level {level}: {worst:?} > {}", bound(level));
            }
        }
    }
}

/// Sources of level 0 that send one cell each at the same time.
fn at_once(count: usize, at: Time) -> Vec<Source> {
    let cell_time = config(Discipline::RcspNwc).cell_time;
    let slow = cell_time.times(1_000);
    let traffic = TrafficSpec {
        x_min: slow,
        x_ave: slow,
        interval: slow,
    };
    let source = || Source {
        contract: Contract {
            traffic,
            delay: cell_time.times(16),
        },
        arrivals: vec![at],
    };
    (0..count).map(|_| source()).collect()
}

/// Slack of the bound of level 0 when this number of cells arrives just after a slot of the grid began and waits for
/// its end behind a best-effort cell that begins just before it. Negative values: picoseconds too late.
fn left_of_bound(count: usize, admission: Option<Admission>) -> i64 {
    let QueueConfig { cell_time, .. } = config(Discipline::RcspNwc);
    let grid = config(Discipline::RcspNwc).grid();
    let at = Time::from_ps(grid.as_ps() + 1);
    let start = Time::from_ps(cell_time.as_ps() - 1);
    let sources = at_once(count, at);
    let worst = worst(Discipline::RcspNwc, start, &sources, admission);
    let worst = worst[0].expect("cells of level 0");
    bound(0).as_ps() as i64 - worst.as_ps() as i64
}

#[test]
fn the_bound_is_reached_and_one_circuit_more_would_break_it() {
    assert_eq!(left_of_bound(15, None), 2);
    let cell_time = config(Discipline::RcspNwc).cell_time.as_ps() as i64;
    assert_eq!(left_of_bound(16, None), 2 - cell_time);
    assert_eq!(
        left_of_bound(16, Some(new_link())),
        2,
        "the last is refused"
    );
}
