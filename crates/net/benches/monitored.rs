//! What a monitor costs a receiver of datagrams over loopback, beside a run without it (specs/user-to-user-qos.md 5).
//!
//! The receiver reports four events for each datagram, so that there are about a million a second on a fast machine. Rounds with and
//! without a monitor take turns; the time of the receiver's thread is processor time, which other load on the machine does not move.
#![allow(missing_docs, reason = "a bench has a main function")]

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use layercast_core::{Contract, Observer, QosAction, QosEvent, Subject, Term};
use layercast_net::{Clock, Monitors};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 15;
const DATAGRAMS: u64 = 200_000;
const OCTETS: usize = 1_200;
const EVENTS: u64 = 4;

/// Processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What one round took.
struct Round {
    /// Processor time of the receiver for each datagram, in nanoseconds.
    each: f64,
    /// Datagrams that came, per second.
    rate: f64,
}

/// Receives `DATAGRAMS` datagrams, and reports them to `obs`.
fn round(obs: &mut impl Observer) -> Round {
    let inlet = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let outlet = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    outlet
        .connect(inlet.local_addr().expect("an address"))
        .expect("loopback");
    inlet
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time");
    let sender = thread::spawn(move || {
        // The kernel drops what the receiver does not take: more leave than are counted.
        for _ in 0..4 * DATAGRAMS {
            if outlet.send(&[0; OCTETS]).is_err() {
                return;
            }
        }
    });
    let subject = Subject {
        node: "bench",
        machine: "sink",
    };
    let mut buffer = [0; OCTETS];
    let clock = Clock::get();
    let (begun, before) = (Instant::now(), used());
    let mut count = 0;
    while count < DATAGRAMS && inlet.recv(&mut buffer).is_ok() {
        count += 1;
        let now = clock.now();
        let event = |action| QosEvent::new(7, action, QosEvent::IN, now);
        for _ in 1..EVENTS {
            obs.probe(subject, || {
                event(QosAction::Received).packet(OCTETS as u64 / 3, 0, 0)
            });
        }
        obs.probe(subject, || event(QosAction::Delivered));
    }
    let (took, cpu) = (begun.elapsed(), used() - before);
    drop(inlet);
    sender.join().expect("the sender ends");
    Round {
        each: cpu.as_nanos() as f64 / count as f64,
        rate: count as f64 / took.as_secs_f64(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let monitors = Monitors::of_process();
    let (mut ring, watch) = monitors.watch_more(1 << 15).expect("a power of two");
    let now = Clock::get().now();
    ring.put_element(&QosEvent::new(7, QosAction::Open, QosEvent::IN, now));
    let contract = Contract {
        throughput: Some(Term::agreed(1e6)),
        ..Contract::default()
    };
    for event in QosEvent::agreed(7, QosEvent::IN, now, &contract) {
        ring.put_element(&event);
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(round(&mut layercast_core::Off));
        with.push(round(&mut ring));
    }
    let each = |rounds: &[Round]| median(rounds.iter().map(|it| it.each).collect());
    let rate = |rounds: &[Round]| median(rounds.iter().map(|it| it.rate).collect());
    let (off, on) = (each(&without), each(&with));
    let deltas = with.iter().zip(&without).map(|(a, b)| a.each - b.each);
    let delta = median(deltas.collect());
    println!(
        "receiver, processor time of a datagram: {off:.0} ns without, {on:.0} ns with a monitor; {delta:+.0} ns ({:+.2} %), {:.1} ns an event",
        100.0 * delta / off,
        delta / EVENTS as f64
    );
    println!(
        "datagrams per second: {:.0} without, {:.0} with; events per second: {:.0}",
        rate(&without),
        rate(&with),
        rate(&with) * EVENTS as f64
    );
    thread::sleep(Duration::from_millis(100));
    let report = watch.look(7).0.expect("the connection");
    let (took, lost) = (report.counts.events, ring.events_lost());
    println!("events taken: {took}; lost because the ring was full: {lost}");
}
