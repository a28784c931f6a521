//! What an event costs the protocol, and the monitor.
#![allow(missing_docs, reason = "criterion_group! makes a public function")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use layercast_core::{QosAction, QosEvent, Span, Time};
use layercast_monitor::{CAPACITY, Monitor, MonitorConfig, RequestLine, Rule, ring};

fn event(n: u64) -> QosEvent {
    let now = Time::ZERO + Span::from_us(n);
    QosEvent::new(7, QosAction::Sent, QosEvent::OUT, now).packet(1_500, 1_460, 1_500 * n)
}

fn put(criterion: &mut Criterion) {
    for rule in [Rule::RaceFree, Rule::Literal] {
        let line = Arc::new(RequestLine::new(rule, || {}));
        let (mut producer, mut consumer) = ring(CAPACITY, &line).expect("a power of two");
        let mut n = 0;
        criterion.bench_function(
            &format!("put_element, then get_element, {rule:?}"),
            |bencher| {
                bencher.iter(|| {
                    n += 1;
                    producer.put_element(black_box(&event(n)));
                    black_box(consumer.get_element())
                });
            },
        );
        criterion.bench_function(&format!("put_element, {rule:?}"), |bencher| {
            // The ring is emptied outside the time that is measured.
            bencher.iter_custom(|rounds| {
                let mut took = std::time::Duration::ZERO;
                let mut left = rounds;
                while left > 0 {
                    let some = left.min(CAPACITY as u64);
                    let begun = std::time::Instant::now();
                    for k in 0..some {
                        producer.put_element(black_box(&event(k)));
                    }
                    took += begun.elapsed();
                    while consumer.get_element().is_some() {}
                    left -= some;
                }
                took
            });
        });
    }
}

fn handle(criterion: &mut Criterion) {
    let mut monitor = Monitor::new(MonitorConfig::default()).expect("the default is sound");
    let mut n = 0;
    criterion.bench_function("handle_event, a packet each microsecond", |bencher| {
        bencher.iter(|| {
            n += 1;
            monitor.handle_event(Time::ZERO + Span::from_us(n), black_box(&event(n)));
        });
    });
}

criterion_group!(benches, put, handle);
criterion_main!(benches);
