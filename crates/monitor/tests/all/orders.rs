//! Each order of the memory accesses of ring and request line (`make loom`).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use layercast_core::Time;
use layercast_monitor::{Consumer, QosAction, QosEvent, RequestLine, Rule, ring};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

fn event(n: u64) -> QosEvent {
    QosEvent {
        b: n,
        ..QosEvent::new(n, QosAction::Sent, QosEvent::OUT, Time::ZERO)
    }
}

fn drain(rings: &mut [Consumer], found: &mut Vec<u64>) {
    for ring in rings.iter_mut() {
        while let Some(event) = ring.get_element() {
            assert_eq!(event.conn, event.b, "an event of two halves");
            found.push(event.conn);
        }
    }
}

/// Whether a reader can sleep while there is something to read, and no signal comes any more.
fn sleeps_on(rule: Rule, producers: u64, events: u64) -> bool {
    // Not loom's: it remembers from one order to the next.
    let missed = std::sync::Arc::new(AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&missed);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let bell = Arc::new(AtomicU64::new(0));
        let ringer = Arc::clone(&bell);
        let line = Arc::new(RequestLine::new(rule, move || {
            ringer.fetch_add(1, Ordering::SeqCst);
        }));
        let (ends, mut rings): (Vec<_>, Vec<_>) =
            (0..producers).map(|_| ring(2, &line).unwrap()).unzip();
        let mut threads: Vec<_> = ends
            .into_iter()
            .enumerate()
            .map(|(who, mut end)| {
                loom::thread::spawn(move || {
                    for n in 0..events {
                        assert!(end.put_element(&event(10 * who as u64 + n)));
                    }
                })
            })
            .collect();
        let mut found = Vec::new();
        // Awake, the signal taken: it reads, and then sleeps until all producers are done.
        bell.swap(0, Ordering::SeqCst);
        drain(&mut rings, &mut found);
        let sleeps = line.arm(&rings);
        for thread in threads.drain(..) {
            thread.join().unwrap();
        }
        let signals = bell.load(Ordering::SeqCst);
        let is_left = rings.iter().any(|ring| !ring.is_empty());
        if sleeps && is_left && signals == 0 {
            seen.store(true, Relaxed);
        }
        assert!(rule == Rule::Literal || signals <= 1, "raised twice");
        drain(&mut rings, &mut found);
        found.sort_unstable();
        let all = (0..producers).flat_map(|who| (0..events).map(move |n| 10 * who + n));
        assert_eq!(found, all.collect::<Vec<_>>());
    });
    missed.load(Relaxed)
}

#[test]
fn no_reader_sleeps_on() {
    assert!(!sleeps_on(Rule::RaceFree, 1, 2));
}

#[test]
fn two_producers_share_a_line() {
    assert!(!sleeps_on(Rule::RaceFree, 2, 1));
}

/// The rule of the paper misses a wake-up in some order.
#[test]
fn the_rule_of_the_paper_has_a_race() {
    assert!(sleeps_on(Rule::Literal, 1, 2));
}
