use layercast_core::{Rate, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::{CellFlags, FrameId};

mod ahead;
mod conservation;
mod order;
mod runs;

const T1: Rate = Rate::from_bps(1_536_000);
const A: Vcid = Vcid(1);
const B: Vcid = Vcid(2);

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn queue(discipline: Discipline) -> OutputQueue {
    queue_with(QueueConfig {
        discipline,
        ..QueueConfig::new(T1)
    })
}

fn queue_with(config: QueueConfig) -> OutputQueue {
    OutputQueue::new(config).expect("a good configuration")
}

/// Adds the cells of a frame one by one at one time; returns how many were accepted.
fn put(queue: &mut OutputQueue, now: Time, vc: Vcid, frame: u32, cells: u32) -> u32 {
    let each = (0..cells).map(|index| Cell::of(FrameId(frame), vc, index, cells));
    each.map(|cell| u32::from(queue.enqueue(now, cell).is_ok()))
        .sum()
}

/// The frames of the cells sent back to back from `now` on, and when each began.
fn drain(queue: &mut OutputQueue, mut now: Time) -> Vec<(u32, Time)> {
    let mut sent = Vec::new();
    loop {
        if let Some(cell) = queue.dequeue(now) {
            sent.push((cell.frame.0, now));
            now += queue.config().cell_time;
        } else if let Some(next) = queue.next_eligible() {
            assert!(next > now, "the queue would be asked again without a delay");
            now = next;
        } else {
            return sent;
        }
    }
}

fn frames(sent: &[(u32, Time)]) -> Vec<u32> {
    sent.iter().map(|(frame, _)| *frame).collect()
}

fn traffic(x_min_ms: u64, x_ave_ms: u64, interval_ms: u64) -> TrafficSpec {
    TrafficSpec {
        x_min: Span::from_ms(x_min_ms),
        x_ave: Span::from_ms(x_ave_ms),
        interval: Span::from_ms(interval_ms),
    }
}

/// Any of all disciplines.
fn discipline() -> impl Strategy<Value = Discipline> {
    prop::sample::select(vec![
        Discipline::Fcfs,
        Discipline::Sp,
        Discipline::RcspWc,
        Discipline::RcspNwc,
        Discipline::Drr,
        Discipline::Edf,
    ])
}

/// Opens one circuit of each class, numbers 0 to 5, lowest class first in the queue.
fn one_of_each(discipline: Discipline) -> Vec<u32> {
    let mut queue = queue(discipline);
    let levels = (0..4).map(Class::Level);
    let classes: Vec<_> = levels
        .chain([Class::Signalling, Class::BestEffort])
        .collect();
    for (vc, class) in classes.iter().enumerate() {
        queue.open(Vcid(vc as u16), *class, Some(traffic(20, 20, 20)));
    }
    for vc in (0..6).rev() {
        put(&mut queue, Time::ZERO, Vcid(vc), u32::from(vc), 1);
    }
    frames(&drain(&mut queue, Time::ZERO))
}

#[test]
fn levels_go_before_signalling_and_signalling_before_best_effort() {
    for discipline in [Discipline::Sp, Discipline::RcspWc, Discipline::RcspNwc] {
        assert_eq!(
            one_of_each(discipline),
            [0, 1, 2, 3, 4, 5],
            "{discipline:?}"
        );
    }
    // Without priorities data is sent in the order of arrival; signalling is not data.
    assert_eq!(one_of_each(Discipline::Fcfs), [4, 5, 3, 2, 1, 0]);
}

#[test]
fn without_a_contract_there_is_no_level_under_rate_control() {
    let mut queue = queue(Discipline::RcspNwc);
    queue.open(A, Class::Level(0), None);
    queue.open(B, Class::BestEffort, None);
    put(&mut queue, Time::ZERO, B, 2, 1);
    put(&mut queue, Time::ZERO, A, 1, 1);
    assert_eq!(frames(&drain(&mut queue, Time::ZERO)), [2, 1]);
}

#[test]
fn a_damaged_frame_is_discarded_but_for_its_delimiter() {
    let mut config = QueueConfig::new(T1);
    config.per_vc_limit = 4;
    let mut queue = queue_with(config);
    queue.open(A, Class::BestEffort, None);
    assert_eq!(
        put(&mut queue, Time::ZERO, A, 1, 5),
        4,
        "the last finds no room"
    );
    queue.dequeue(Time::ZERO);
    // One place is left: the first cell gets it, the loss of the second damages the frame.
    let cell = |index| Cell::of(FrameId(2), A, index, 6);
    let cause = |dropped: Result<(), Dropped>| dropped.map_err(|dropped| dropped.cause);
    assert_eq!(cause(queue.enqueue(Time::ZERO, cell(0))), Ok(()));
    assert_eq!(
        cause(queue.enqueue(Time::ZERO, cell(1))),
        Err(DropCause::VcLimit)
    );
    queue.dequeue(Time::ZERO);
    queue.dequeue(Time::ZERO);
    for index in 2..5 {
        assert_eq!(
            cause(queue.enqueue(Time::ZERO, cell(index))),
            Err(DropCause::Ppd)
        );
    }
    assert_eq!(cause(queue.enqueue(Time::ZERO, cell(5))), Ok(()));
    assert_eq!(queue.stats().dropped.vc_limit, 2);
    assert_eq!(queue.stats().dropped.ppd, 3);
    assert_eq!(
        put(&mut queue, Time::ZERO, A, 3, 1),
        1,
        "the next frame is whole"
    );
}

#[test]
fn without_a_discard_policy_the_rest_of_a_frame_is_queued() {
    let mut config = QueueConfig::new(T1);
    config.discard = Discard::None;
    config.port_limit = 2;
    let mut queue = queue_with(config);
    queue.open(A, Class::BestEffort, None);
    let cell = |index| Cell::of(FrameId(1), A, index, 9);
    for index in 0..3 {
        let _ = queue.enqueue(Time::ZERO, cell(index));
    }
    assert_eq!(queue.stats().dropped.port_limit, 1);
    queue.dequeue(Time::ZERO);
    assert_eq!(queue.enqueue(Time::ZERO, cell(3)), Ok(()));
}

#[test]
fn early_discard_refuses_frames_whole_and_lets_begun_ones_pass() {
    let mut config = QueueConfig::new(T1);
    config.discard = Discard::Epd { threshold: 4 };
    let mut queue = queue_with(config);
    queue.open(A, Class::BestEffort, None);
    queue.open(B, Class::BestEffort, None);
    assert_eq!(
        put(&mut queue, Time::ZERO, A, 1, 9),
        9,
        "begun below the threshold"
    );
    assert_eq!(
        put(&mut queue, Time::ZERO, B, 2, 9),
        1,
        "only the delimiter"
    );
    assert_eq!(queue.stats().dropped.epd, 8);
    assert_eq!(put(&mut queue, Time::ZERO, B, 3, 1), 0);
    assert_eq!(queue.stats().dropped.epd, 9);
}

#[test]
fn limits_hold_for_a_circuit_and_for_the_port() {
    let mut config = QueueConfig::new(T1);
    (config.per_vc_limit, config.port_limit) = (5, 8);
    config.discard = Discard::None;
    let mut queue = queue_with(config);
    queue.open(A, Class::BestEffort, None);
    queue.open(B, Class::BestEffort, None);
    assert_eq!(put(&mut queue, Time::ZERO, A, 1, 7), 5);
    assert_eq!(put(&mut queue, Time::ZERO, B, 2, 7), 3);
    let dropped = queue.stats().dropped;
    assert_eq!((dropped.vc_limit, dropped.port_limit), (2, 4));
    assert_eq!((queue.len(), queue.stats().max_len), (8, 8));
}

#[test]
fn marked_cells_find_room_only_below_their_limit() {
    let mut config = QueueConfig::new(T1);
    (config.port_limit, config.low_limit) = (8, 3);
    config.discard = Discard::None;
    let mut queue = queue_with(config);
    queue.open(A, Class::BestEffort, None);
    let low = |frame| {
        let mut cell = Cell::of(FrameId(frame), A, 0, 1);
        cell.flags = cell.flags.with(CellFlags::LOW);
        cell
    };
    let taken = (0..5).map(|frame| queue.enqueue(Time::ZERO, low(frame)).is_ok());
    assert_eq!(taken.filter(|taken| *taken).count(), 3);
    assert_eq!(put(&mut queue, Time::ZERO, A, 9, 7), 5);
    assert!(queue.enqueue(Time::ZERO, low(10)).is_err());
    let dropped = queue.stats().dropped;
    assert_eq!((dropped.low, dropped.port_limit), (2, 3));
}

#[test]
fn a_contract_has_room_in_a_full_port() {
    let mut config = QueueConfig::new(T1);
    (config.discipline, config.port_limit) = (Discipline::RcspNwc, 3);
    let mut queue = queue_with(config);
    queue.open(A, Class::Level(1), Some(traffic(20, 50, 500)));
    queue.open(B, Class::BestEffort, None);
    assert_eq!(put(&mut queue, Time::ZERO, B, 1, 9), 3);
    // Ten cells spaced by 20 ms, the eleventh half a second after the first, and so on up to two seconds.
    assert_eq!(
        put(&mut queue, Time::ZERO, A, 2, 60),
        41,
        "0.00 to 0.18, 0.50 to 0.68, ... 2.00 s"
    );
    let stats = queue.stats();
    assert_eq!(
        stats.dropped.regulator, 2,
        "the delimiter is too late as well"
    );
    assert_eq!((stats.levels().received, stats.levels().dropped), (60, 19));
}

#[test]
fn ineligible_cells_share_the_buffer_only_if_they_may_be_sent() {
    for (discipline, got_in) in [(Discipline::RcspWc, 1), (Discipline::RcspNwc, 5)] {
        let mut config = QueueConfig::new(T1);
        (config.discipline, config.port_limit) = (discipline, 3);
        let mut queue = queue_with(config);
        queue.open(A, Class::Level(1), Some(traffic(20, 20, 1_000)));
        queue.open(B, Class::BestEffort, None);
        assert_eq!(put(&mut queue, Time::ZERO, B, 1, 3), 3);
        assert_eq!(
            put(&mut queue, Time::ZERO, A, 2, 5),
            got_in,
            "{discipline:?}"
        );
    }
}

#[test]
fn cells_are_released_on_the_grid_and_the_grid_costs_no_rate() {
    let mut queue = queue(Discipline::RcspNwc);
    queue.open(A, Class::Level(1), Some(traffic(5, 5, 5)));
    let grid = queue.config().grid();
    let start = Time::from_ps(1);
    assert_eq!(put(&mut queue, start, A, 1, 100), 100);
    let sent = drain(&mut queue, start);
    for (k, (_, begun)) in sent.iter().enumerate() {
        let eligible = start + Span::from_ms(5).times(k as u64);
        assert_eq!(begun.as_ps() % grid.as_ps(), 0);
        assert!(
            *begun >= eligible && begun.since(eligible) < grid,
            "{k}: {begun:?}"
        );
    }
}

#[test]
fn a_work_conserving_port_never_idles_and_one_that_holds_does() {
    let run = |discipline| {
        let mut queue = queue(discipline);
        queue.open(A, Class::Level(1), Some(traffic(20, 20, 20)));
        queue.open(B, Class::BestEffort, None);
        put(&mut queue, Time::ZERO, A, 1, 5);
        put(&mut queue, Time::ZERO, B, 2, 2);
        drain(&mut queue, Time::ZERO)
    };
    let cell = QueueConfig::new(T1).cell_time;
    let back_to_back: Vec<_> = (0..7).map(|k| Time::ZERO + cell.times(k)).collect();
    let sent = run(Discipline::RcspWc);
    assert_eq!(
        frames(&sent),
        [1, 2, 2, 1, 1, 1, 1],
        "ineligible after best effort"
    );
    let begun: Vec<_> = sent.iter().map(|(_, begun)| *begun).collect();
    assert_eq!(begun, back_to_back);
    let sent = run(Discipline::RcspNwc);
    assert_eq!(frames(&sent), [1, 2, 2, 1, 1, 1, 1]);
    assert!(sent[3].1 >= ms(20) && sent[6].1 >= ms(80));
}

#[test]
fn a_cell_that_becomes_eligible_overtakes_best_effort() {
    let mut queue = queue(Discipline::RcspWc);
    queue.open(A, Class::Level(1), Some(traffic(20, 20, 20)));
    queue.open(B, Class::BestEffort, None);
    put(&mut queue, Time::ZERO, A, 1, 2);
    put(&mut queue, Time::ZERO, B, 2, 100);
    let sent = drain(&mut queue, Time::ZERO);
    let second = sent.iter().skip(1).find(|(frame, _)| *frame == 1);
    let (_, begun) = second.expect("the second cell");
    let grid = queue.config().grid();
    assert!(*begun >= ms(20) && begun.since(ms(20)) < grid + queue.config().cell_time);
}

#[test]
fn a_closed_circuit_is_sent_and_forgotten() {
    for discipline in [
        Discipline::Fcfs,
        Discipline::RcspNwc,
        Discipline::Drr,
        Discipline::Edf,
    ] {
        let mut queue = queue(discipline);
        queue.open(A, Class::Level(1), Some(traffic(20, 20, 1_000)));
        put(&mut queue, Time::ZERO, A, 1, 3);
        queue.close(A);
        assert_eq!(put(&mut queue, Time::ZERO, A, 2, 1), 0);
        assert_eq!(queue.stats().dropped.unknown_vc, 1);
        assert_eq!(frames(&drain(&mut queue, Time::ZERO)), [1, 1, 1]);
        // Removed: the new circuit of that number starts with a fresh contract.
        queue.open(A, Class::Level(1), Some(traffic(20, 20, 1_000)));
        put(&mut queue, Time::ZERO, A, 3, 1);
        assert_eq!(drain(&mut queue, Time::ZERO), [(3, Time::ZERO)]);
    }
}

#[test]
fn a_number_used_again_too_early_loses_no_cell() {
    let mut queue = queue(Discipline::RcspNwc);
    queue.open(A, Class::Level(1), Some(traffic(20, 20, 1_000)));
    put(&mut queue, Time::ZERO, A, 1, 3);
    queue.close(A);
    queue.open(A, Class::BestEffort, None);
    put(&mut queue, Time::ZERO, A, 2, 2);
    assert_eq!(frames(&drain(&mut queue, Time::ZERO)), [1, 2, 2, 1, 1]);
}

#[test]
fn a_cell_passes_if_nothing_is_in_its_way_and_leaves_the_same_counts() {
    for discipline in [Discipline::Sp, Discipline::Drr, Discipline::Edf] {
        passes(queue(discipline));
    }
    let mut held = queue(Discipline::RcspNwc);
    held.open(A, Class::Level(1), Some(traffic(20, 50, 500)));
    assert!(!held.pass(A), "its contract counts");
}

fn passes(mut queue: OutputQueue) {
    queue.open(A, Class::Level(1), None);
    let cell = |index| Cell::of(FrameId(1), A, index, 3);
    let mut slow = queue_with(*queue.config());
    slow.open(A, Class::Level(1), None);
    for index in 0..3 {
        assert!(queue.pass(A));
        assert!(slow.enqueue(ms(0), cell(index)).is_ok());
        assert_eq!(slow.dequeue(ms(0)), Some(cell(index)));
    }
    assert_eq!(queue.stats(), slow.stats());
    assert!(queue.enqueue(ms(0), cell(0)).is_ok());
    assert!(!queue.pass(A), "it would overtake");
    queue.dequeue(ms(0));
    queue.close(A);
    assert!(!queue.pass(A), "no circuit is open");
}

#[test]
fn numbers_beyond_the_port_and_unknown_ones_are_counted() {
    let mut config = QueueConfig::new(T1);
    config.max_vcs = 10;
    let mut queue = queue_with(config);
    queue.open(Vcid(10), Class::BestEffort, None);
    queue.close(Vcid(u16::MAX));
    assert_eq!(put(&mut queue, Time::ZERO, Vcid(10), 1, 1), 0);
    assert_eq!(put(&mut queue, Time::ZERO, A, 1, 1), 0);
    assert_eq!(queue.stats().dropped.unknown_vc, 2);
    assert!(queue.is_empty());
}

/// Fig. 5-9 of the thesis (specs/insane-study.md 2.5): a burst of one conversation delays the next one on its
/// circuit, although they do not overlap in time.
#[test]
fn conversations_interfere_on_a_shared_regulated_circuit() {
    const FTP_DOWN: (u64, u64, u64) = (20, 20, 2_000);
    let late = |second: Vcid, pause: Span| {
        let mut queue = queue(Discipline::RcspNwc);
        for vc in [A, B] {
            let (x_min, x_ave, interval) = FTP_DOWN;
            queue.open(vc, Class::Level(3), Some(traffic(x_min, x_ave, interval)));
        }
        // A burst of 60 cells, 1.2 s of contract, arrives within 60 ms.
        let mut now = Time::ZERO;
        for index in 0..60 {
            let cell = Cell::of(FrameId(1), A, index, 60);
            queue.enqueue(now, cell).expect("room");
            now += Span::from_ms(1);
        }
        now += pause;
        put(&mut queue, now, second, 2, 1);
        let sent = drain(&mut queue, Time::ZERO);
        let (_, begun) = sent.iter().find(|(frame, _)| *frame == 2).expect("sent");
        begun.since(now)
    };
    let grid = QueueConfig::new(T1).grid() + QueueConfig::new(T1).cell_time;
    let pause = Span::from_ms(440);
    // The burst uses 60 times 20 ms of its contract, of which 500 ms have passed.
    let owed = Span::from_ms(700);
    let shared = late(A, pause);
    assert!(
        shared >= owed && shared.saturating_sub(owed) <= grid,
        "{shared}"
    );
    assert!(late(B, pause) <= grid, "a circuit of its own");
    assert!(
        late(A, Span::from_secs(10)) <= grid,
        "a cached circuit has forgotten"
    );
}
