//! The ring, with threads and when it is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use layercast_core::{AnyObserver, Observer, QosAction, QosEvent, Subject, Time};
use layercast_monitor::{RequestLine, RingError, Rule, ring};

use crate::given::*;

fn idle() -> Arc<RequestLine> {
    Arc::new(RequestLine::new(Rule::RaceFree, || {}))
}

#[test]
fn capacities_are_powers_of_two() {
    for capacity in [0, 1, 3, 1 << 25] {
        assert_eq!(
            ring(capacity, &idle()).unwrap_err(),
            RingError::Capacity(capacity)
        );
    }
}

#[test]
fn a_full_ring_drops_the_newest_and_tells_of_it_by_connection() {
    let (mut producer, mut consumer) = ring(8, &idle()).unwrap();
    let event = |conn| QosEvent::new(conn, QosAction::Sent, QosEvent::OUT, Time::ZERO);
    for n in 0..8 {
        assert!(producer.put_element(&event(n)));
    }
    for conn in [1, 2, 1] {
        assert!(!producer.put_element(&event(conn)));
    }
    assert_eq!((producer.events_lost(), consumer.events_lost()), (3, 3));
    for n in 0..8 {
        assert_eq!(consumer.get_element().unwrap().conn, n);
    }
    assert!(producer.put_element(&event(9)));
    let next = |consumer: &mut layercast_monitor::Consumer| {
        let event = consumer.get_element()?;
        Some((event.conn, event.action, event.a))
    };
    let lost = QosAction::EventsLost as u8;
    assert_eq!(next(&mut consumer), Some((2, lost, 1)));
    assert_eq!(next(&mut consumer), Some((1, lost, 2)));
    assert_eq!(next(&mut consumer), Some((9, QosAction::Sent as u8, 0)));
    assert_eq!(next(&mut consumer), None);
}

#[test]
fn losses_of_very_many_connections_are_told_as_one() {
    let (mut producer, mut consumer) = ring(2, &idle()).unwrap();
    for conn in 1..=202 {
        producer.put_element(&QosEvent::new(conn, QosAction::Sent, 2, Time::ZERO));
    }
    let (mut told, mut of_all) = (0, 0);
    loop {
        while let Some(event) = consumer.get_element() {
            if event.action == QosAction::EventsLost as u8 {
                told += event.a;
                of_all += if event.conn == 0 { event.a } else { 0 };
            }
        }
        if told >= producer.events_lost() {
            break;
        }
        producer.put_element(&QosEvent::new(1, QosAction::Sent, 2, Time::ZERO));
    }
    assert!(of_all >= 137, "{of_all} of {told}");
    assert!(told >= 200);
}

#[test]
fn a_ring_is_an_observer_of_machines() {
    let (producer, mut consumer) = ring(8, &idle()).unwrap();
    let subject = Subject {
        node: "a",
        machine: "xtp",
    };
    let mut observer = AnyObserver::owning(producer);
    assert!(!observer.enabled());
    observer.probe(subject, || sent(1, 100, 100));
    assert_eq!(consumer.get_element(), Some(sent(1, 100, 100)));
}

#[test]
fn a_reader_that_waits_is_woken_once() {
    let rung = Arc::new(AtomicBool::new(false));
    let bell = Arc::clone(&rung);
    let line = Arc::new(RequestLine::new(Rule::RaceFree, move || {
        assert!(!bell.swap(true, Ordering::SeqCst), "rung twice");
    }));
    let (mut one, first) = ring(4, &line).unwrap();
    let (mut two, second) = ring(4, &line).unwrap();
    let mut rings = [first, second];
    one.put_element(&sent(0, 1, 1));
    assert!(!rung.load(Ordering::SeqCst), "no reader waits");
    assert!(!line.arm(&rings), "there is something to read");
    rings[0].get_element().unwrap();
    assert!(line.arm(&rings));
    two.put_element(&sent(0, 1, 1));
    one.put_element(&sent(0, 1, 1));
    assert!(rung.load(Ordering::SeqCst));
    assert_eq!(line.signals(), 1);
}

/// Producers and a reader that sleeps whenever it may: a lost wake-up would hang the test.
#[test]
fn threads_lose_no_event_and_no_wake_up() {
    const EVENTS: u64 = 50_000;
    let reader = thread::current();
    let line = Arc::new(RequestLine::new(Rule::RaceFree, move || reader.unpark()));
    let (ends, mut rings): (Vec<_>, Vec<_>) = (0..3).map(|_| ring(64, &line).unwrap()).unzip();
    let threads: Vec<_> = ends
        .into_iter()
        .map(|mut end| {
            thread::spawn(move || {
                for n in 1..=EVENTS {
                    let event = QosEvent {
                        a: n,
                        b: !n,
                        ..sent(0, 1, 1)
                    };
                    while !end.put_element(&event) {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut last = [0; 3];
    while last.iter().any(|it| *it < EVENTS) {
        let mut idle = true;
        for (who, ring) in rings.iter_mut().enumerate() {
            while let Some(event) = ring.get_element() {
                idle = false;
                if event.action != QosAction::EventsLost as u8 {
                    assert_eq!((event.a, event.b), (last[who] + 1, !(last[who] + 1)));
                    last[who] += 1;
                }
            }
        }
        if idle && last.iter().any(|it| *it < EVENTS) && line.arm(&rings) {
            thread::park();
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(line.signals() > 0);
}
