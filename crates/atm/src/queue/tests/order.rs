//! The two disciplines without priority of classes: turns and deadlines.

use proptest::prelude::*;

use super::*;

const CELL: Span = Span::from_ms(1);

/// A link with a cell time of one millisecond and unlimited room.
fn wide(discipline: Discipline) -> QueueConfig {
    QueueConfig {
        discipline,
        per_vc_limit: 10_000,
        port_limit: 100_000,
        cell_time: CELL,
        ..QueueConfig::new(T1)
    }
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![(0u8..4).prop_map(Class::Level), Just(Class::BestEffort)]
}

/// Bursts: milliseconds since the previous one, circuit, cells.
fn bursts() -> impl Strategy<Value = Vec<(u64, u16, u32)>> {
    prop::collection::vec((1u64..30, 0u16..6, 1u32..20), 1..60)
}

/// The cells sent for these bursts, and when each began; a frame is a burst.
fn serve(queue: &mut OutputQueue, bursts: &[(u64, u16, u32)]) -> Vec<(Cell, Time)> {
    let mut sent = Vec::new();
    let (mut now, mut free) = (Time::ZERO, Time::ZERO);
    for (&(wait, vc, cells), frame) in bursts.iter().zip(0..) {
        now += Span::from_ms(wait);
        while free <= now
            && let Some(cell) = queue.dequeue(free)
        {
            sent.push((cell, free));
            free += CELL;
        }
        free = free.max(now);
        put(queue, now, Vcid(vc), frame, cells);
    }
    while let Some(cell) = queue.dequeue(free) {
        sent.push((cell, free));
        free += CELL;
    }
    sent
}

#[test]
fn signalling_goes_before_turns_and_deadlines() {
    assert_eq!(one_of_each(Discipline::Drr), [4, 5, 3, 2, 1, 0]);
    assert_eq!(one_of_each(Discipline::Edf), [4, 0, 1, 2, 3, 5]);
}

#[test]
fn a_turn_is_a_cell_or_the_weight_of_a_level() {
    let mut config = wide(Discipline::Drr);
    config.drr_weight = 3;
    let mut queue = queue_with(config);
    queue.open(A, Class::BestEffort, None);
    queue.open(B, Class::Level(2), None);
    put(&mut queue, Time::ZERO, A, 1, 5);
    put(&mut queue, Time::ZERO, B, 2, 7);
    let sent = frames(&drain(&mut queue, Time::ZERO));
    assert_eq!(sent, [1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 1, 1]);
}

#[test]
fn a_new_circuit_is_first_but_only_once() {
    let mut queue = queue_with(wide(Discipline::Drr));
    let c = Vcid(3);
    for vc in [A, B, c] {
        queue.open(vc, Class::BestEffort, None);
    }
    put(&mut queue, Time::ZERO, A, 1, 4);
    put(&mut queue, Time::ZERO, B, 2, 4);
    let mut next = || queue.dequeue(Time::ZERO).map(|cell| cell.frame.0);
    assert_eq!([next(), next(), next()], [Some(1), Some(2), Some(1)]);
    // It is B's turn.
    put(&mut queue, Time::ZERO, c, 3, 1);
    let mut next = || queue.dequeue(Time::ZERO).map(|cell| cell.frame.0);
    assert_eq!(next(), Some(3));
    // Another single cell of C waits behind B, which C overtook before.
    put(&mut queue, Time::ZERO, c, 4, 1);
    let sent = frames(&drain(&mut queue, Time::ZERO));
    assert_eq!(sent, [2, 4, 1, 2, 1, 2]);
}

#[test]
fn long_queues_leave_room_for_short_ones() {
    let mut config = QueueConfig::new(T1);
    (config.discipline, config.discard) = (Discipline::Drr, Discard::None);
    (config.per_vc_limit, config.port_limit) = (100, 12);
    let mut queue = queue_with(config);
    for vc in 1..4 {
        queue.open(Vcid(vc), Class::BestEffort, None);
    }
    assert_eq!(
        put(&mut queue, Time::ZERO, A, 1, 20),
        6,
        "as many as are free"
    );
    assert_eq!(put(&mut queue, Time::ZERO, B, 2, 20), 3);
    assert_eq!(put(&mut queue, Time::ZERO, A, 3, 1), 0);
    assert_eq!(put(&mut queue, Time::ZERO, Vcid(3), 4, 1), 1);
    assert_eq!(queue.stats().dropped.vc_limit, 14 + 17 + 1);
}

#[test]
fn of_equal_deadlines_the_first_to_come_goes_first() {
    let mut queue = queue_with(wide(Discipline::Edf));
    queue.open(A, Class::Level(0), None);
    queue.open(B, Class::BestEffort, None);
    put(&mut queue, ms(0), B, 1, 1);
    // Both have the deadline 256 ms.
    put(&mut queue, ms(240), A, 2, 1);
    put(&mut queue, ms(241), B, 3, 1);
    put(&mut queue, ms(241), A, 4, 1);
    assert_eq!(frames(&drain(&mut queue, ms(241))), [1, 2, 4, 3]);
}

proptest! {
    #[test]
    fn turns_are_fair_after_any_past(
        classes in prop::array::uniform6(class()), past in bursts(), weight in 1u32..9,
    ) {
        let mut queue = queue_with(QueueConfig { drr_weight: weight, ..wide(Discipline::Drr) });
        for (class, vc) in classes.iter().zip(0..) {
            queue.open(Vcid(vc), *class, None);
        }
        let mut now = Time::ZERO;
        for &(sent, vc, cells) in &past {
            put(&mut queue, now, Vcid(vc), 0, cells);
            for _ in 0..sent {
                queue.dequeue(now);
            }
        }
        // From here on all circuits have cells to send.
        for vc in 0..6 {
            put(&mut queue, now, Vcid(vc), 1, 2_000);
        }
        let turn = |vc: usize| match classes[vc] {
            Class::Level(_) => weight,
            _ => 1,
        };
        let round: u32 = (0..6).map(turn).sum();
        let mut served = [0u32; 6];
        let mut last = [0u32; 6];
        for n in 1..=20 * round {
            let vc = usize::from(queue.dequeue(now).expect("all wait").vc.0);
            // No circuit waits longer than one turn of all others plus the first turns of new ones.
            prop_assert!(n - last[vc] <= 2 * round, "{vc} after {} cells", n - last[vc]);
            (served[vc], last[vc]) = (served[vc] + 1, n);
            now += CELL;
            let turns = |vc: usize| f64::from(served[vc]) / f64::from(turn(vc));
            for other in 0..6 {
                // One turn, plus one for a new circuit.
                prop_assert!((turns(vc) - turns(other)).abs() <= 2.0, "{served:?}");
            }
        }
    }

    #[test]
    fn no_deadline_is_sent_before_an_earlier_one_that_waits(
        classes in prop::array::uniform6(class()), bursts in bursts(),
    ) {
        let mut queue = queue_with(wide(Discipline::Edf));
        for (class, vc) in classes.iter().zip(0..) {
            queue.open(Vcid(vc), *class, None);
        }
        let sent = serve(&mut queue, &bursts);
        let mut came = Time::ZERO;
        let mut waiting: Vec<_> = bursts.iter().zip(0..).flat_map(|(&(wait, vc, cells), frame)| {
            came += Span::from_ms(wait);
            let bound = match classes[usize::from(vc)] {
                Class::Level(level) => 16 << level,
                _ => 256,
            };
            let cell = (came + CELL.times(bound), came, FrameId(frame));
            std::iter::repeat_n(cell, cells as usize)
        }).collect();
        prop_assert_eq!(sent.len(), waiting.len());
        for (cell, begun) in sent {
            // A cell that arrives when the link becomes free is too late.
            let there = waiting.iter().filter(|(_, came, _)| *came < begun);
            let there = there.min().or(waiting.iter().filter(|(_, came, _)| *came == begun).min());
            prop_assert_eq!(there.map(|(.., frame)| *frame), Some(cell.frame));
            let place = waiting.iter().position(|it| it.2 == cell.frame);
            waiting.remove(place.expect("it waits"));
        }
    }
}
