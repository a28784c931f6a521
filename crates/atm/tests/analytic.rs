//! Comparison of the queue with queueing theory.
#![allow(missing_docs, reason = "tests")]

mod common;

use std::collections::VecDeque;

use common::transmit;
use layercast_atm::{Cell, Class, Discipline, FrameId, OutputQueue, QueueConfig, Vcid};
use layercast_core::{Rate, Span, Stream, Time};

/// A queue for two circuits without loss: circuit 1 is of `class`, circuit 2 is best effort.
fn queue(discipline: Discipline, class: Class) -> OutputQueue {
    let config = QueueConfig {
        discipline,
        per_vc_limit: u32::MAX,
        port_limit: u32::MAX,
        ..QueueConfig::new(Rate::from_bps(1_536_000))
    };
    let mut queue = OutputQueue::new(config).expect("a good configuration");
    queue.open(Vcid(1), class, None);
    queue.open(Vcid(2), Class::BestEffort, None);
    queue
}

/// Mean waits, in cell times, of two Poisson streams of single cells with these loads on circuits 1 and 2.
fn mean_waits(queue: &mut OutputQueue, loads: [f64; 2], cells: u32) -> [f64; 2] {
    let cell_time = queue.config().cell_time;
    let total = loads[0] + loads[1];
    let mut gaps = Stream::new(1, "gaps");
    let mut kinds = Stream::new(1, "kinds");
    let mut now = Time::ZERO;
    // A Poisson stream split at random gives two independent ones.
    let arrivals = (0..cells).map(|n| {
        now += Span::from_ps(gaps.exponential(cell_time.as_ps() as f64 / total) as u64);
        let vc = Vcid(1 + u16::from(!kinds.chance(loads[0] / total)));
        (now, Cell::of(FrameId(n), vc, 0, 1))
    });
    let pending = std::cell::RefCell::new([VecDeque::new(), VecDeque::new()]);
    let arrivals = arrivals.inspect(|(at, cell)| {
        pending.borrow_mut()[usize::from(cell.vc.0 - 1)].push_back(*at);
    });
    let mut waits = [(0_u128, 0_u64); 2];
    transmit(queue, Time::ZERO, arrivals, None, |cell, begun| {
        let class = usize::from(cell.vc.0 - 1);
        let came = pending.borrow_mut()[class].pop_front().expect("it came");
        waits[class].0 += u128::from(begun.since(came).as_ps());
        waits[class].1 += 1;
    });
    assert_eq!(waits[0].1 + waits[1].1, u64::from(cells));
    waits.map(|(sum, count)| sum as f64 / count.max(1) as f64 / cell_time.as_ps() as f64)
}

#[track_caller]
fn assert_within_a_percent(mean: f64, theory: f64) {
    let off = mean / theory - 1.0;
    assert!(
        off.abs() < 0.01,
        "{mean} instead of {theory}: {:.2} %",
        100.0 * off
    );
}

#[test]
fn poisson_cells_wait_as_in_an_m_d_1_queue() {
    for (load, cells) in [(0.5, 1_000_000), (0.8, 6_000_000)] {
        let mut queue = queue(Discipline::Fcfs, Class::BestEffort);
        let waits = mean_waits(&mut queue, [load, 0.0], cells);
        // Pollaczek and Khinchine, for a service of one cell time.
        assert_within_a_percent(waits[0], load / (2.0 * (1.0 - load)));
    }
}

#[test]
fn two_classes_wait_as_in_a_non_preemptive_m_d_1_queue() {
    let (high, low) = (0.4, 0.3);
    let mut queue = queue(Discipline::Sp, Class::Level(0));
    let waits = mean_waits(&mut queue, [high, low], 3_000_000);
    // Cobham 1954: the rest of the cell in service, then all cells with precedence.
    let residual = (high + low) / 2.0;
    assert_within_a_percent(waits[0], residual / (1.0 - high));
    assert_within_a_percent(waits[1], residual / (1.0 - high) / (1.0 - high - low));
}

#[test]
fn a_cell_waits_for_at_most_one_of_lower_priority() {
    let mut queue = queue(Discipline::Sp, Class::Level(2));
    let cell_time = queue.config().cell_time;
    let mut stream = Stream::new(1, "inversion");
    let mut now = Time::ZERO;
    let arrivals: Vec<_> = (0..20_000)
        .map(|n| {
            now += Span::from_ps(stream.below(3 * cell_time.as_ps()));
            (now, Cell::of(FrameId(n), Vcid(1), 0, 1))
        })
        .collect();
    let came: Vec<_> = arrivals.iter().map(|(at, _)| *at).collect();
    let low = Cell::of(FrameId(u32::MAX), Vcid(2), 0, 1);
    let mut begun_low = Vec::new();
    let mut waited = Span::ZERO;
    let mut overtaken = 0;
    transmit(
        &mut queue,
        Time::ZERO,
        arrivals,
        Some(low),
        |cell, begun| {
            if cell.vc == Vcid(2) {
                begun_low.push(begun);
                return;
            }
            let came = came[cell.frame.0 as usize];
            // Cells of lower class that began after its arrival overtook it.
            overtaken += begun_low
                .iter()
                .rev()
                .take_while(|low| **low >= came)
                .count();
            let alone = begun_low
                .last()
                .is_some_and(|low| *low + cell_time == begun);
            if alone {
                waited = waited.max(begun.since(came));
            }
        },
    );
    assert_eq!(overtaken, 0);
    assert!(
        waited <= cell_time && waited > cell_time.mul_div(9, 10),
        "{waited}"
    );
}
