//! What a sink makes of the zones of its monitor, on paths that mark no congestion.

use crate::common::*;
use layercast_core::{Contract, Level, Span, Stream, Term, Time, Zone};
use layercast_wire::{Carriage, LinkPdu};

/// A source and a watched sink; `lost` of the data is lost or late at most.
fn world<'a>(lost: f64, gops: usize) -> World<'a> {
    let mut source = source_config(Carriage::Datagrams, 300);
    source.flow.contract = Some(Contract {
        delay: Some(Term::agreed(0.3)),
        error_rate: Some(Term::agreed(lost)),
        ..Contract::default()
    });
    let mut world = World::new(source, sink_config(Carriage::Datagrams), gops);
    world.watch = Watch::on();
    world
}

/// A line of `rate` cells a second with a queue of `queue`; what finds it full is lost.
fn line<'a>(rate: u64, queue: Span) -> Fate<'a> {
    let mut free = Time::ZERO;
    Box::new(move |now, pdu| {
        let takes = Span::from_us(u64::from(pdu.cells()) * 1_000_000 / rate);
        let leaves = free.max(now) + takes;
        if leaves.since(now) > queue && matches!(pdu, LinkPdu::Mets(_)) {
            return vec![];
        }
        free = leaves;
        vec![leaves.since(now) + Span::from_ms(5)]
    })
}

/// The demands that differ from the one before, with their reasons.
fn changes<'w>(world: &'w World<'_>) -> Vec<(u64, i64, &'w str)> {
    let mut told = vec![(0, 2, "")];
    for (at, level, reason) in &world.watch.demands {
        if told.last().is_some_and(|it| it.1 != *level) {
            told.push((at.since(Time::ZERO).as_ms() / 1_000, *level, reason));
        }
    }
    told.remove(0);
    told
}

#[test]
fn a_line_that_marks_nothing_is_answered_by_one_level_less_when_the_zone_is_red() {
    let mut world = world(0.01, 300);
    // Room for the base layer and E1, not for all.
    world.down = line(2_000, Span::from_ms(200));
    world.run_until(ms(100_000));
    let changes = changes(&world);
    let (at, level, reason) = changes[0];
    assert_eq!((level, reason), (1, "red: lost or late"), "{changes:?}");
    assert!(at < 12, "{changes:?}");
    // With one level less nothing is lost, and all are tried again, ever later.
    let levels: Vec<_> = changes.iter().map(|it| it.1).collect();
    assert_eq!(levels, [1, 2, 1, 2, 1, 2, 1], "{changes:?}");
    let lower: Vec<_> = changes
        .chunks_exact(2)
        .map(|it| it[1].0 - it[0].0)
        .collect();
    assert!(lower.windows(2).all(|it| it[0] < it[1]), "{changes:?}");
    let course = world.watch.course(ms(4_000));
    let pairs = [Zone::Green, Zone::Red].repeat(4);
    assert_eq!(course[..5], pairs[..5], "{course:?}");
}

#[test]
fn loss_that_has_nothing_to_do_with_the_load_takes_no_layers_for_long() {
    let mut world = world(0.01, 300);
    let mut chance = Stream::new(7, "loss");
    world.down = Box::new(move |_, pdu| {
        let lost = matches!(pdu, LinkPdu::Mets(_)) && chance.chance(0.01);
        (!lost).then_some(Span::from_ms(5)).into_iter().collect()
    });
    world.run_until(ms(150_000));
    let demands = &world.watch.demands;
    let in_vain = |it: &&(Time, i64, String)| it.2 == "fewer layers did not help";
    assert!(demands.iter().filter(in_vain).count() >= 2, "{demands:?}");
    let all = demands.iter().filter(|it| it.1 == 2).count();
    assert!(10 * all >= 6 * demands.len(), "{all} of {}", demands.len());
}

#[test]
fn after_a_hole_the_zones_come_back_and_no_layer_is_given_up() {
    let mut world = world(0.01, 150);
    world.down = Box::new(|now, _| match (ms(20_000)..ms(26_000)).contains(&now) {
        true => vec![],
        false => vec![Span::from_ms(5)],
    });
    world.run_until(ms(60_000));
    let course = world.watch.course(ms(4_000));
    // Nothing comes, and nothing is known; then the hole counts as long as the window holds it.
    let (green, grey) = (Zone::Green, Zone::Grey);
    assert_eq!(course[..2], [green, grey], "{course:?}");
    assert_eq!(course[course.len() - 2..], [Zone::Red, green], "{course:?}");
    let back = world.watch.zones.iter().rev().find(|it| it.1.zone != green);
    assert!(back.unwrap().0 <= ms(38_000), "{back:?}");
    assert_eq!(changes(&world), []);
    let levels = world.levels();
    let last = levels.last().unwrap();
    assert_eq!(last.1, Level::FULL);
    assert!(last.0 < ms(28_000), "{levels:?}");
}

#[test]
fn a_queue_that_grows_is_answered_by_the_delay() {
    let mut world = world(1.0, 150);
    world.down = line(2_000, Span::from_secs(2));
    world.run_until(ms(40_000));
    let changes = changes(&world);
    let (at, level, reason) = changes[0];
    assert_eq!((level, reason), (1, "red: delay in the network"));
    assert!(at < 12, "{changes:?}");
    // The queue drains in seconds.
    let course = world.watch.course(ms(4_000));
    let red = course.iter().position(|it| *it == Zone::Red).unwrap();
    assert!(course[red..].contains(&Zone::Green), "{course:?}");
}

#[test]
fn frames_of_which_only_parts_come_are_errors() {
    let mut world = world(0.01, 100);
    world.down = Box::new(|now, pdu| {
        let rest = |it: &LinkPdu| matches!(it, LinkPdu::Mets(packet) if packet.header.offset > 0);
        match now > ms(10_000) && rest(pdu) {
            true => vec![],
            false => vec![Span::from_ms(5)],
        }
    });
    world.run_until(ms(30_000));
    let (_, last) = world.watch.zones.last().unwrap();
    let errors = last.error_rate.unwrap();
    assert_eq!((last.zone, errors.zone), (Zone::Red, Zone::Red));
    assert!(errors.measured > 0.99, "{errors:?}");
}
