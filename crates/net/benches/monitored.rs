//! What a monitor costs a receiver of datagrams over loopback, beside a run without it (specs/user-to-user-qos.md 5).
//!
//! The receiver reports two events for each datagram, which is about a million a second. A batch of datagrams is sent, then received by the same
//! thread: the receiver never waits, so that a cost does not hide in a sleep that it saves. Short rounds with and without a monitor take turns, in the
//! order A B, B A, so that neither other load nor the clock of the processor favours one. What is compared is processor time of sending and receiving,
//! pair by pair; the bounds of the median hold with 95 % whatever the distribution of the noise.
#![allow(missing_docs, reason = "a bench has a main function")]

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use layercast_core::{Contract, Observer, QosAction, QosEvent, Subject, Term};
use layercast_net::{Clock, Monitors};
use rustix::time::{ClockId, clock_gettime};

const PAIRS: usize = 200;
const DATAGRAMS: u64 = 20_000;
/// Datagrams sent before they are received: as many as fit into the default buffer of a socket.
const BATCH: u64 = 50;
/// Share of the throughput that a monitor may take at a million events a second (specs/user-to-user-qos.md 5).
const MOST: f64 = 0.01;
const OCTETS: usize = 1_200;
const EVENTS: u64 = 2;

/// Processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Sends and receives `DATAGRAMS` datagrams, and reports them to `obs`: the processor time of a datagram in nanoseconds.
fn round(obs: &mut impl Observer) -> f64 {
    let inlet = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let outlet = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = inlet.local_addr().expect("an address");
    outlet.connect(address).expect("loopback");
    // None of them may be missing: the bench would wait for it.
    inlet
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time");
    let subject = Subject {
        node: "bench",
        machine: "sink",
    };
    let mut buffer = [0; OCTETS];
    let clock = Clock::get();
    let before = used();
    for _ in 0..DATAGRAMS / BATCH {
        for _ in 0..BATCH {
            outlet.send(&[0; OCTETS]).expect("loopback");
        }
        for _ in 0..BATCH {
            inlet.recv(&mut buffer).expect("a datagram");
            let now = clock.now();
            let event = |action| QosEvent::new(7, action, QosEvent::IN, now);
            for _ in 1..EVENTS {
                obs.probe(subject, || {
                    event(QosAction::Received).packet(OCTETS as u64, 0, 0)
                });
            }
            obs.probe(subject, || event(QosAction::Delivered));
        }
    }
    (used() - before).as_nanos() as f64 / DATAGRAMS as f64
}

/// Processor time so far of the thread that reads the rings; `None`: the system does not tell.
fn reader() -> Option<Duration> {
    let mut tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let task = tasks.find(|task| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "monitor")
    })?;
    let ran = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
    Some(Duration::from_nanos(
        ran.split_whitespace().next()?.parse().ok()?,
    ))
}

/// The median, and bounds of it that hold with 95 %: order statistics, by the normal approximation of the binomial distribution.
fn median(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let wide = (0.98 * (n as f64).sqrt()).ceil() as usize;
    let at = |place: usize| values[place.min(n - 1)];
    [
        at((n / 2).saturating_sub(wide)),
        at(n / 2),
        at(n / 2 + wide),
    ]
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
    // Caches and pages of the first rounds are of no interest.
    round(&mut layercast_core::Off);
    round(&mut ring);
    let read = reader();
    for pair in 0..PAIRS {
        if pair % 2 == 0 {
            without.push(round(&mut layercast_core::Off));
        }
        with.push(round(&mut ring));
        if pair % 2 == 1 {
            without.push(round(&mut layercast_core::Off));
        }
    }
    let read = reader().zip(read).map(|(after, before)| after - before);
    let pairs = || with.iter().zip(&without);
    let [_, delta, _] = median(pairs().map(|(on, off)| on - off).collect());
    let shares = pairs().map(|(on, off)| on / off - 1.0);
    let [low, share, high] = median(shares.collect());
    let [_, off, _] = median(without.clone());
    let [_, on, _] = median(with.clone());
    println!(
        "processor time of a datagram: {off:.0} ns without, {on:.0} ns with a monitor; {delta:+.0} ns, {:.1} ns an event; {:.2} million events a second",
        delta / EVENTS as f64,
        EVENTS as f64 * 1e3 / on
    );
    let verdict = match (low, high) {
        (_, high) if high < MOST => "kept",
        (low, _) if low > MOST => "missed",
        _ => "not decided by these rounds",
    };
    println!(
        "{:+.2} % (95 %: {:+.2} to {:+.2} %), at most {:.0} %: {verdict}",
        100.0 * share,
        100.0 * low,
        100.0 * high,
        100.0 * MOST
    );
    if let Some(read) = read {
        let events = (PAIRS as u64 * DATAGRAMS * EVENTS) as f64;
        println!(
            "thread of the monitor: {:.1} ns an event",
            read.as_nanos() as f64 / events
        );
    }
    thread::sleep(Duration::from_millis(100));
    let report = watch.look(7).0.expect("the connection");
    let (took, lost) = (report.counts.events, ring.events_lost());
    println!("events taken: {took}; lost because the ring was full: {lost}");
}
