use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::{FrameId, Vcid};

use DataClass::{Bidirectional, Intra, Predicted, System};

fn buffer(size: u32, policy: SharedPolicy) -> SharedBuffer {
    let config = SharedBufferConfig {
        size,
        policy,
        ..SharedBufferConfig::default()
    };
    SharedBuffer::new(config).expect("a good configuration")
}

fn cell(vc: u16, frame: u32, class: DataClass, index: u32, count: u32) -> Cell {
    Cell::of(FrameId(frame), Vcid(vc), index, count).with_class(class)
}

/// A frame of one cell.
fn one(frame: u32, class: DataClass) -> Cell {
    cell(1, frame, class, 0, 1)
}

/// Which cells leave: number of the frame.
fn rest(buffer: &mut SharedBuffer) -> Vec<u32> {
    std::iter::from_fn(|| buffer.dequeue())
        .map(|it| it.frame.0)
        .collect()
}

#[test]
fn a_full_buffer_discards_by_policy() {
    let arrivals = [
        (1, Bidirectional),
        (2, Predicted),
        (3, Intra),
        (4, System),
        (5, System),
        (6, Intra),
        (7, Predicted),
        (8, Bidirectional),
    ];
    let left = |policy| {
        let mut buffer = buffer(4, policy);
        for (frame, class) in arrivals {
            buffer.enqueue(one(frame, class));
        }
        rest(&mut buffer)
    };
    assert_eq!(left(SharedPolicy::Fifo), [1, 2, 3, 4]);
    // 5 and 6 have CLP = 0: they take the places of the youngest with CLP = 1, whatever its second bit.
    assert_eq!(left(SharedPolicy::Clp), [3, 4, 5, 6]);
    // B goes first, then P; then nothing below I is left for 7 and 8.
    assert_eq!(left(SharedPolicy::ExClp), [3, 4, 5, 6]);
    let mut clp = buffer(2, SharedPolicy::Clp);
    let mut exclp = buffer(2, SharedPolicy::ExClp);
    for buffer in [&mut clp, &mut exclp] {
        buffer.enqueue(one(1, Bidirectional));
        buffer.enqueue(one(2, Predicted));
        buffer.enqueue(one(3, System));
    }
    assert_eq!((rest(&mut clp), rest(&mut exclp)), (vec![1, 3], vec![2, 3]));
}

#[test]
fn the_youngest_of_the_lowest_class_is_pushed_out_of_any_circuit() {
    let mut buffer = buffer(4, SharedPolicy::ExClp);
    for (vc, frame, class) in [
        (1, 1, Bidirectional),
        (2, 2, Bidirectional),
        (1, 3, Predicted),
        (2, 4, Intra),
    ] {
        buffer.enqueue(cell(vc, frame, class, 0, 1));
    }
    let pushed = |taken: Taken| match taken {
        Taken::PushedOut(cell) => Some(cell.frame.0),
        _ => None,
    };
    let mut put = |frame, class| pushed(buffer.enqueue(cell(3, frame, class, 0, 1)));
    assert_eq!(put(5, System), Some(2));
    assert_eq!(put(6, Predicted), Some(1));
    // Of P the younger one.
    assert_eq!(put(7, Intra), Some(6));
    assert_eq!(put(8, Predicted), None);
    assert_eq!(rest(&mut buffer), [3, 4, 5, 7]);
    let stats = buffer.stats();
    assert_eq!(
        (stats[3].pushed_out, stats[2].pushed_out, stats[2].discarded),
        (2, 1, 1)
    );
}

#[test]
fn parts_and_thresholds_are_percent_of_the_buffer() {
    let count = |policy, class| {
        let mut buffer = buffer(1_000, policy);
        (0..2_000).for_each(|frame| {
            buffer.enqueue(one(frame, class));
        });
        buffer.len()
    };
    let of = |policy| DataClass::ALL.map(|class| count(policy, class));
    assert_eq!(of(SharedPolicy::Dedicated), [50, 530, 290, 130]);
    assert_eq!(of(SharedPolicy::Thresholds), [1_000, 950, 850, 700]);
    assert_eq!(of(SharedPolicy::ExClpEpd), [1_000, 950, 850, 700]);
    assert_eq!(of(SharedPolicy::Fifo), [1_000; 4]);
}

/// Puts cells of a frame; which of them were taken.
fn frame(buffer: &mut SharedBuffer, vc: u16, frame: u32, class: DataClass, count: u32) -> String {
    let taken =
        (0..count).map(
            |index| match buffer.enqueue(cell(vc, frame, class, index, count)) {
                Taken::Queued => '+',
                Taken::PushedOut(_) => '!',
                Taken::Discarded => '-',
            },
        );
    taken.collect()
}

#[test]
fn a_frame_of_p_is_refused_as_a_whole_and_taken_below_the_hysteresis() {
    let mut it = buffer(100, SharedPolicy::ExClpEpd);
    assert_eq!(
        frame(&mut it, 1, 1, Predicted, 90),
        "+".repeat(90),
        "begun below 85, so taken whole"
    );
    assert_eq!(frame(&mut it, 1, 2, Predicted, 4), "----");
    // 75 is not below 75.
    (0..15).for_each(|_| {
        it.dequeue();
    });
    assert_eq!(frame(&mut it, 1, 3, Predicted, 4), "----");
    it.dequeue();
    assert_eq!(frame(&mut it, 1, 4, Predicted, 4), "++++");
}

#[test]
fn a_group_of_b_is_refused_until_an_i_or_p_picture_comes() {
    let mut it = buffer(100, SharedPolicy::ExClpEpd);
    frame(&mut it, 2, 1, Predicted, 68);
    // Above 70 in the middle of the frame: the rest goes, but its end keeps the next frame whole.
    assert_eq!(frame(&mut it, 1, 2, Bidirectional, 6), "++---+");
    (0..60).for_each(|_| {
        it.dequeue();
    });
    // The buffer is nearly empty, but the group is not at its end; headers do not end it.
    assert_eq!(frame(&mut it, 1, 3, Bidirectional, 3), "---");
    assert_eq!(frame(&mut it, 1, 4, System, 1), "+");
    assert_eq!(frame(&mut it, 1, 5, Bidirectional, 3), "---");
    assert_eq!(frame(&mut it, 1, 6, Predicted, 2), "++");
    assert_eq!(frame(&mut it, 1, 7, Bidirectional, 3), "+++");
    // Another circuit was never refused.
    assert_eq!(frame(&mut it, 3, 8, Bidirectional, 3), "+++");
}

#[test]
fn the_rest_of_a_frame_that_lost_a_cell_is_discarded_except_its_end() {
    let config = SharedBufferConfig {
        size: 10,
        thresholds: [100; 4],
        ..SharedBufferConfig::default()
    };
    let mut it = SharedBuffer::new(config).expect("a good configuration");
    for index in 0..10 {
        it.enqueue(cell(1, 1, Predicted, index, 16));
    }
    // Two cells of headers take the places of its youngest two.
    assert_eq!(frame(&mut it, 2, 2, System, 1), "!");
    assert_eq!(frame(&mut it, 2, 3, System, 1), "!");
    (0..3).for_each(|_| {
        it.dequeue();
    });
    let rest = (10..16).map(|index| it.enqueue(cell(1, 1, Predicted, index, 16)));
    let rest: Vec<Taken> = rest.collect();
    let discarded = [Taken::Discarded; 5];
    assert_eq!((&rest[..5], rest[5]), (&discarded[..], Taken::Queued));
    assert_eq!(frame(&mut it, 1, 4, Predicted, 2), "++");
}

#[test]
fn the_end_of_a_frame_is_not_pushed_out_while_another_cell_is_there() {
    let mut it = buffer(3, SharedPolicy::ExClp);
    frame(&mut it, 1, 1, Bidirectional, 3);
    let Taken::PushedOut(victim) = it.enqueue(cell(2, 2, System, 0, 1)) else {
        panic!("a cell is pushed out");
    };
    assert!(!victim.is_last());
}

#[test]
fn headers_alone_above_the_link_are_an_alarm() {
    let mut it = buffer(10, SharedPolicy::ExClpEpd);
    (0..10).for_each(|number| {
        it.enqueue(one(number, System));
    });
    assert_eq!(it.critical_losses(), 0);
    assert_eq!(it.enqueue(one(10, System)), Taken::Discarded);
    assert_eq!(it.critical_losses(), 1);
}

#[test]
fn buffers_that_cannot_be_are_refused() {
    let with = |change: fn(&mut SharedBufferConfig)| {
        let mut config = SharedBufferConfig::default();
        change(&mut config);
        SharedBuffer::new(config).map(|_| ()).expect_err("refused")
    };
    assert_eq!(with(|it| it.size = 0), SharedBufferError::Size);
    assert!(matches!(
        with(|it| it.thresholds[2] = 101),
        SharedBufferError::Percent { percent: 101, .. }
    ));
    assert!(matches!(
        with(|it| it.hysteresis = 200),
        SharedBufferError::Percent { percent: 200, .. }
    ));
    assert!(matches!(
        with(|it| it.parts = [50; 4]),
        SharedBufferError::Percent { percent: 200, .. }
    ));
}

/// The next cell of the model; policies that know references also discard cells that wait.
fn next(model: &mut VecDeque<Cell>, left: Option<Cell>, policy: SharedPolicy) -> Option<Cell> {
    if policy.knows_references() {
        let gone = model.iter().take_while(|&&it| Some(it) != left).count();
        model.drain(..gone);
    }
    model.pop_front()
}

/// Puts a picture of one circuit, a header and then cells of one frame each; how many of these are taken.
fn picture(buffer: &mut SharedBuffer, vc: u16, number: u32, class: DataClass, cells: u32) -> u32 {
    let before = buffer.stats()[class.index()].discarded;
    buffer.enqueue(cell(vc, 100 * number, System, 0, 1));
    (1..=cells).for_each(|frame| {
        buffer.enqueue(cell(vc, 100 * number + frame, class, 0, 1));
    });
    cells - (buffer.stats()[class.index()].discarded - before) as u32
}

#[test]
fn what_refers_to_a_lost_picture_is_discarded_up_to_the_next_i_picture() {
    let config = SharedBufferConfig {
        size: 40,
        policy: SharedPolicy::Dependent,
        thresholds: [100, 100, 100, 70],
        ..SharedBufferConfig::default()
    };
    let mut it = SharedBuffer::new(config).expect("a good configuration");
    assert_eq!(picture(&mut it, 1, 1, Intra, 3), 3);
    assert_eq!(picture(&mut it, 2, 1, Intra, 18), 18);
    assert_eq!(picture(&mut it, 1, 2, Predicted, 5), 5);
    assert_eq!(picture(&mut it, 1, 3, Bidirectional, 4), 0, "at 29 of 40");
    // I fills the buffer, and then takes the place of a cell of P: all of it and of what refers to it goes.
    let held = it.len();
    assert_eq!(picture(&mut it, 3, 1, Intra, 40 - held - 1), 40 - held - 1);
    assert_eq!(it.len(), 40);
    assert!(
        matches!(it.enqueue(cell(4, 1, System, 0, 1)), Taken::PushedOut(victim) if victim.class() == Predicted)
    );
    assert_eq!(it.stats()[Predicted.index()].pushed_out, 5);
    while it.dequeue().is_some() {}
    assert_eq!(picture(&mut it, 1, 4, Bidirectional, 4), 0);
    assert_eq!(picture(&mut it, 1, 5, Predicted, 4), 0);
    // Headers and sound are never useless.
    assert_eq!(it.len(), 2);
    assert_eq!(picture(&mut it, 1, 6, Intra, 2), 2);
    assert_eq!(
        picture(&mut it, 1, 7, Bidirectional, 2),
        0,
        "it refers to the lost P"
    );
    assert_eq!(picture(&mut it, 1, 8, Predicted, 2), 2);
    assert_eq!(picture(&mut it, 1, 9, Bidirectional, 2), 2);
    // Others did not notice.
    assert_eq!(picture(&mut it, 2, 2, Predicted, 2), 2);
}

#[test]
fn videos_lose_whole_gops_in_turn() {
    let config = SharedBufferConfig {
        size: 100,
        policy: SharedPolicy::WholeGops,
        ..SharedBufferConfig::default()
    };
    let mut it = SharedBuffer::new(config).expect("a good configuration");
    let mut lost = [0; 3];
    for round in 0..12 {
        for vc in 0..3 {
            // The first video comes when the buffer is fullest: it alone would lose all.
            while it.len() > 55 - u32::from(vc) {
                it.dequeue();
            }
            while it.len() < 55 - u32::from(vc) {
                it.enqueue(cell(9, 7, System, 0, 1));
            }
            let taken = picture(&mut it, vc, 2 * round, Intra, 2);
            let with = picture(&mut it, vc, 2 * round + 1, Predicted, 2);
            assert_eq!(taken, with, "a GOP is one whole");
            lost[usize::from(vc)] += u32::from(taken == 0);
        }
    }
    assert!(lost.iter().sum::<u32>() >= 12, "{lost:?}");
    assert!(lost.iter().all(|&it| it.abs_diff(lost[0]) <= 1), "{lost:?}");
}

proptest! {
    /// Against a plain list: order, number and class of the output; no cell is made or lost.
    #[test]
    fn the_order_of_arrival_is_kept(
        policy in prop::sample::select(&SharedPolicy::ALL[..]),
        size in 1_u32..30,
        events in prop::collection::vec((0_u8..4, 0_u16..3, 1_u32..5, any::<bool>()), 0..200),
    ) {
        let mut it = buffer(size, policy);
        let mut model: VecDeque<Cell> = VecDeque::new();
        let mut frames = 0;
        for (rank, vc, count, leaves) in events {
            frames += 1;
            for index in 0..count {
                let arriving = cell(vc, frames, DataClass::of_rank(rank), index, count);
                match it.enqueue(arriving) {
                    Taken::Queued => model.push_back(arriving),
                    Taken::PushedOut(victim) => {
                        prop_assert!(victim.class() > arriving.class());
                        let place = model.iter().rposition(|&it| it == victim);
                        model.remove(place.expect("it was there"));
                        model.push_back(arriving);
                    }
                    Taken::Discarded => {}
                }
                match policy.knows_references() {
                    true => prop_assert!(it.len() as usize <= model.len()),
                    false => prop_assert_eq!(it.len() as usize, model.len()),
                }
                prop_assert!(it.len() <= size);
            }
            if leaves {
                let left = it.dequeue();
                prop_assert_eq!(left, next(&mut model, left, policy));
            }
        }
        for stats in it.stats() {
            let gone = stats.sent + stats.discarded + stats.pushed_out;
            prop_assert!(gone <= stats.received);
        }
        while let Some(left) = it.dequeue() {
            prop_assert_eq!(Some(left), next(&mut model, Some(left), policy));
        }
        prop_assert!(model.is_empty() || policy.knows_references());
        for stats in it.stats() {
            prop_assert_eq!(stats.sent + stats.discarded + stats.pushed_out, stats.received);
        }
    }
}
