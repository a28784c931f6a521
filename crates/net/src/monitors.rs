//! QoS monitors of the receivers of a process, all on one thread that reads their rings (specs/user-to-user-qos.md 2.2).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use layercast_core::{Observer, QosAction, QosEvent, Record, Span, Subject, Time};
use layercast_monitor::{
    ConnectionReport, Consumer, Monitor, MonitorConfig, Producer, RequestLine, RingError, Rule,
    Signal as ZoneSignal, ring,
};

use crate::clock::Clock;
use crate::overall::Overall;

/// Events of a ring: what a flow of a thousand frames a second brings in half a second.
const CAPACITY: usize = 1_024;
/// While events come, the thread sleeps between two looks at the rings: as long as they hold, and no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
const SHORTEST_PAUSE: Duration = Duration::from_micros(250);
/// Windows end this much after their time: until then, what was stamped before their end may still come.
const LAG: Span = Span::from_ms(20);
/// Signals of a receiver that wait to be taken.
const MOST_SIGNALS: usize = 64;
/// A zone changes if two of the last three windows say so: single windows do not make it flap.
const STEADY: (usize, usize) = (2, 3);

/// The QoS monitors of a process, all on one thread that reads their rings. A clone is the same.
///
/// [`run_join`](crate::run_join) has a monitor of its own. Other machines get one from [`watch`](Monitors::watch), and take the [`Producer`] as
/// their observer.
#[derive(Clone)]
pub struct Monitors(Arc<Inner>);

struct Inner {
    line: Arc<RequestLine>,
    state: Mutex<State>,
    thread: Arc<OnceLock<Thread>>,
}

#[derive(Default)]
struct State {
    /// The rings, and what reads each of them.
    rings: Vec<Consumer>,
    monitors: Vec<Watched>,
    watches: u64,
}

struct Watched {
    number: u64,
    /// Places of its ring.
    capacity: usize,
    monitor: Monitor,
    signals: VecDeque<ZoneSignal>,
    /// The connections that are over.
    closed: Overall,
}

/// A handle of a receiver's own monitor, which ends with it.
pub struct Watch {
    monitors: Monitors,
    number: u64,
}

/// An observer that hands records to another one, and events to the ring of a monitor as well.
#[derive(Debug)]
pub struct Measured<O> {
    /// The other one.
    pub user: O,
    /// The ring, if a monitor reads it.
    pub ring: Option<Producer>,
}

impl Monitors {
    /// Those of this process: the thread starts when they are asked for first.
    pub fn of_process() -> Monitors {
        static MONITORS: OnceLock<Monitors> = OnceLock::new();
        MONITORS.get_or_init(Monitors::start).clone()
    }

    /// None yet, and no thread.
    fn new() -> Monitors {
        let thread = Arc::<OnceLock<Thread>>::default();
        let sleeper = Arc::clone(&thread);
        let wake = move || {
            if let Some(thread) = sleeper.get() {
                thread.unpark();
            }
        };
        Monitors(Arc::new(Inner {
            line: Arc::new(RequestLine::new(Rule::RaceFree, wake)),
            state: Mutex::default(),
            thread,
        }))
    }

    fn start() -> Monitors {
        let monitors = Monitors::new();
        let reader = Arc::downgrade(&monitors.0);
        let started = thread::Builder::new()
            .name("monitor".into())
            .spawn(move || read(&reader));
        // Without a thread a ring is read when somebody looks.
        if let Ok(started) = started {
            let _ = monitors.0.thread.set(started.thread().clone());
        }
        monitors
    }

    /// A monitor for one receiver: what feeds it, and what it says.
    pub fn watch(&self) -> (Producer, Watch) {
        let watched = self.watch_more(CAPACITY);
        watched.expect("a power of two is a capacity")
    }

    /// The same for a machine whose ring holds `capacity` events: of very many a second.
    ///
    /// # Errors
    /// The capacity is no power of two, or too large.
    pub fn watch_more(&self, capacity: usize) -> Result<(Producer, Watch), RingError> {
        let (producer, consumer) = ring(capacity, &self.0.line)?;
        let config = MonitorConfig {
            rule: STEADY,
            ..MonitorConfig::default()
        };
        let monitor = Monitor::new(config).expect("a test makes a monitor of it");
        let mut state = self.0.lock();
        let number = state.watches;
        state.watches += 1;
        state.rings.push(consumer);
        state.monitors.push(Watched {
            number,
            capacity,
            monitor,
            signals: VecDeque::new(),
            closed: Overall::default(),
        });
        let watch = Watch {
            monitors: self.clone(),
            number,
        };
        Ok((producer, watch))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread finds that there is nothing to read for any more.
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Reads the rings until the monitors are dropped.
fn read(inner: &Weak<Inner>) {
    let mut pause = LONGEST_PAUSE;
    loop {
        let Some(inner) = inner.upgrade() else {
            return;
        };
        let mut state = inner.lock();
        let fullest = state.drain(Clock::get().now());
        let sleeps = fullest == 0 && inner.line.arm(&state.rings);
        drop(state);
        drop(inner);
        if sleeps {
            thread::park();
            continue;
        }
        pause = match fullest > CAPACITY / 4 {
            true => (pause / 2).max(SHORTEST_PAUSE),
            false => (pause * 2).min(LONGEST_PAUSE),
        };
        thread::sleep(pause);
    }
}

impl State {
    /// Takes all that is in the rings; gives how much the fullest one had.
    fn drain(&mut self, now: Time) -> usize {
        let rings = self.rings.iter_mut().zip(&mut self.monitors);
        rings
            .map(|(ring, watched)| watched.drain(now, ring))
            .max()
            .unwrap_or(0)
    }
}

impl Watched {
    fn drain(&mut self, now: Time, ring: &mut Consumer) -> usize {
        let mut count = 0;
        // No more than a ring has: a producer may be as fast as this.
        while let Some(event) = (count < self.capacity)
            .then(|| ring.get_element())
            .flatten()
        {
            self.monitor.handle_event(now, &event);
            count += 1;
            if [QosAction::Open as u8, QosAction::Close as u8].contains(&event.action) {
                self.end_closed();
            }
        }
        let ended = Time::ZERO + now.since(Time::ZERO + LAG);
        if self.monitor.next_timeout().is_some_and(|at| at <= ended) {
            self.monitor.on_timeout(ended);
        }
        while let Some(signal) = self.monitor.poll_signal() {
            if self.signals.len() < MOST_SIGNALS {
                self.signals.push_back(signal);
            }
        }
        count
    }

    /// Counts connections that are over: the monitor keeps only some of their reports.
    fn end_closed(&mut self) {
        while let Some(report) = self.monitor.poll_report() {
            self.closed.end(&report);
        }
    }
}

impl Watch {
    /// What is known of a connection now, and how its zones changed since this was asked last.
    pub fn look(&self, conn: u64) -> (Option<ConnectionReport>, VecDeque<ZoneSignal>) {
        let now = Clock::get().now();
        let state = &mut *self.monitors.0.lock();
        let place = state.place(self.number);
        let Some(watched) = place.and_then(|at| state.monitors.get_mut(at)) else {
            return Default::default();
        };
        if let Some(ring) = place.and_then(|at| state.rings.get_mut(at)) {
            watched.drain(now, ring);
        }
        let report = watched.monitor.snapshot(now, conn);
        (report, std::mem::take(&mut watched.signals))
    }

    /// What is known of all connections there were, now.
    pub fn overall(&self) -> Overall {
        let now = Clock::get().now();
        let state = &mut *self.monitors.0.lock();
        let place = state.place(self.number);
        let of = place.and_then(|at| Some((state.monitors.get_mut(at)?, state.rings.get_mut(at)?)));
        let Some((watched, ring)) = of else {
            return Overall::default();
        };
        watched.drain(now, ring);
        let overall = watched.closed.with_open(now, &mut watched.monitor);
        Overall {
            events_lost: ring.events_lost(),
            ..overall
        }
    }
}

impl State {
    fn place(&self, number: u64) -> Option<usize> {
        self.monitors.iter().position(|it| it.number == number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.monitors.0.lock();
        if let Some(place) = state.place(self.number) {
            state.rings.swap_remove(place);
            state.monitors.swap_remove(place);
        }
    }
}

impl<O: Observer> Observer for Measured<O> {
    fn record(&mut self, record: &Record<'_>) {
        self.user.record(record);
    }

    fn enabled(&self) -> bool {
        self.user.enabled()
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        if let Some(ring) = &mut self.ring {
            ring.measure(subject, event);
        }
        if self.user.measures() {
            self.user.measure(subject, event);
        }
    }

    fn measures(&self) -> bool {
        self.ring.is_some() || self.user.measures()
    }
}

impl fmt::Debug for Monitors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = self.0.lock().rings.len();
        f.debug_struct("Monitors")
            .field("watched", &watched)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Contract, QosAction, QosInfo, Term, Zone};
    use layercast_monitor::Direction;

    use super::*;

    fn event(action: QosAction, now: Time) -> QosEvent {
        QosEvent::new(7, action, QosEvent::IN, now)
    }

    /// Puts a packet in whose delay was `ms`.
    fn packet(ring: &mut Producer, now: Time, ms: u64) {
        let packet = event(QosAction::Received, now).packet(100, 80, 0);
        let delay = event(QosAction::Delivered, now).with(QosInfo::Time, ms * 1_000_000, 0);
        for event in [packet, delay.flag(QosEvent::CLOCKS, true)] {
            while !ring.put_element(&event) {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_receiver_is_held_to_what_was_agreed() {
        let monitors = Monitors::new();
        let (mut ring, watch) = monitors.watch();
        let (_other, unused) = monitors.watch();
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        ring.put_element(&event(QosAction::Open, at(0)));
        let contract = Contract {
            delay: Some(Term::agreed(0.1)),
            ..Contract::default()
        };
        for event in QosEvent::agreed(7, QosEvent::IN, at(0), &contract) {
            ring.put_element(&event);
        }
        for n in 1..4_100 {
            packet(&mut ring, at(n), if n < 1_000 { 90 } else { 150 });
            if n % 100 == 0 {
                monitors.0.lock().drain(at(n));
            }
        }
        let mut state = monitors.0.lock();
        state.drain(at(4_100));
        let Watched {
            monitor, signals, ..
        } = &mut state.monitors[0];
        let report = monitor.snapshot(at(4_100), 7).unwrap();
        let quality = report.quality(Direction::In).unwrap();
        let delay = quality.delay_s.unwrap();
        assert_eq!(
            (quality.zone, delay.zone, delay.agreed),
            (Zone::Red, Zone::Red, 0.1)
        );
        assert!((delay.measured - 0.15).abs() < 1e-6, "{delay:?}");
        let red = signals.pop_back().unwrap();
        assert_eq!((red.zone_to, signals.len()), (Zone::Red, 0));
        assert_eq!(ring.events_lost(), 0);
        let rings = state.rings.len();
        drop(state);
        drop((watch, unused));
        assert_eq!((rings, monitors.0.lock().rings.len()), (2, 0));
    }

    #[test]
    fn connections_one_after_the_other_are_counted_together() {
        let monitors = Monitors::new();
        let (mut ring, watch) = monitors.watch();
        let now = Clock::get().now();
        let mut put = |conn, action| {
            let event = QosEvent::new(conn, action, QosEvent::IN, now);
            let event = match action {
                QosAction::Received => event.packet(100, 80, 0),
                _ => event,
            };
            assert!(ring.put_element(&event));
        };
        // More than the reports that a monitor keeps of connections that are over.
        for conn in 0..100 {
            put(conn, QosAction::Open);
            put(conn, QosAction::Received);
            put(conn, QosAction::Close);
        }
        put(100, QosAction::Open);
        put(100, QosAction::Received);
        let overall = watch.overall();
        assert_eq!((overall.open, overall.closed), (1, 100));
        let came = overall.inbound;
        assert_eq!(
            (came.packets, came.bits, came.user_bits),
            (101, 101 * 800, 101 * 640)
        );
        assert_eq!((overall.outbound.packets, overall.zone), (0, Zone::Grey));
        // Asked again, it counts nothing twice.
        assert_eq!(watch.overall().inbound.packets, 101);
    }

    #[test]
    fn the_thread_sleeps_without_events_and_is_woken_by_one() {
        let monitors = Monitors::start();
        let (mut ring, watch) = monitors.watch();
        let signals = || monitors.0.line.signals();
        let within = |what: &dyn Fn() -> bool| {
            let asleep = (0..500).any(|_| {
                thread::sleep(Duration::from_millis(10));
                what()
            });
            assert!(asleep, "not within 5 s");
        };
        for n in 1..=3 {
            // It was armed once more after the last event.
            thread::sleep(Duration::from_millis(50));
            ring.put_element(&event(QosAction::Open, Clock::get().now()));
            within(&|| signals() == n);
            within(&|| monitors.0.lock().rings[0].is_empty());
        }
        let (report, _) = watch.look(7);
        assert_eq!(report.map(|it| it.counts.events), Some(1));
    }

    #[test]
    fn the_thread_ends_with_the_monitors() {
        let monitors = Monitors::start();
        let (ring, watch) = monitors.watch();
        let inner = Arc::downgrade(&monitors.0);
        drop((monitors, watch, ring));
        for _ in 0..500 {
            if inner.strong_count() == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("something still has the monitors");
    }
}
