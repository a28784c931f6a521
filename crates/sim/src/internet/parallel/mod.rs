//! Parallel simulation of one network by several threads.
//!
//! Each thread simulates a part of the network up to the end of a window: the earliest next event of all threads plus the
//! lookahead, which is the least delay of a link between two parts. At a barrier the threads exchange the packets that cross
//! between parts, and the next window begins (conservative synchronisation: Chandy and Misra 1979; in windows: Lubachevsky
//! 1989). The order of simultaneous events does not depend on the order of messages, so the results equal those of one thread.

mod division;
mod share;

use std::panic::resume_unwind;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use layercast_core::{Span, Time};

use super::error::NetworkError;
use super::medium::outbox::Message;
use super::network::Network;
use super::report::{Progress, Report, Stopped, Watch};
use super::world::{Internet, LOOK};

pub use division::{Division, Indivisible};

/// Spin iterations of a waiting thread before it sleeps: some 30 us.
const SPINS: u32 = 2_000;

/// The barrier of the threads. Exchanged data are double-buffered: one round is read while the other is written.
struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    /// Incremented each time all threads have arrived.
    generation: AtomicUsize,
    /// A thread has ended early: no thread waits any more.
    is_cancelled: AtomicBool,
    /// Threads that sleep until all have arrived.
    asleep: AtomicUsize,
    mutex: Mutex<()>,
    opens: Condvar,
    rounds: [Round; 2],
}

struct Round {
    /// From each thread to each.
    messages: Vec<Mutex<Vec<Message>>>,
    reports: Vec<ThreadReport>,
    stops: AtomicBool,
}

/// The state of a thread that all others read.
#[derive(Default)]
#[repr(align(64))]
struct ThreadReport {
    /// The time of its next event, in picoseconds.
    next: AtomicU64,
    steps: AtomicU64,
    events: AtomicU64,
    hops: AtomicU64,
    packets: AtomicU64,
}

/// The sums over all threads.
struct Sum {
    steps: u64,
    packets: u64,
    progress: Progress,
}

impl Barrier {
    fn new(threads: usize) -> Barrier {
        let round = || Round {
            messages: (0..threads * threads).map(|_| Mutex::default()).collect(),
            reports: (0..threads).map(|_| ThreadReport::default()).collect(),
            stops: AtomicBool::new(false),
        };
        Barrier {
            threads,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            is_cancelled: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            mutex: Mutex::new(()),
            opens: Condvar::new(),
            rounds: [round(), round()],
        }
    }

    /// Waits for all other threads; returns false if the barrier was cancelled.
    fn wait(&self) -> bool {
        let generation = self.generation.load(SeqCst);
        if self.arrived.fetch_add(1, SeqCst) + 1 == self.threads {
            self.arrived.store(0, SeqCst);
            self.generation.store(generation + 1, SeqCst);
            if self.asleep.load(SeqCst) > 0 {
                self.wake();
            }
        } else {
            let is_over =
                || self.generation.load(SeqCst) != generation || self.is_cancelled.load(SeqCst);
            let mut spins = 0..SPINS;
            while !is_over() && spins.next().is_some() {
                std::hint::spin_loop();
            }
            if !is_over() {
                self.sleep(is_over);
            }
        }
        !self.is_cancelled.load(SeqCst)
    }

    fn sleep(&self, is_over: impl Fn() -> bool) {
        let mut mutex = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        // Either the last thread to arrive sees the sleeper, or the sleeper sees that all have arrived.
        self.asleep.fetch_add(1, SeqCst);
        while !is_over() {
            let woken = self.opens.wait(mutex);
            mutex = woken.unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, SeqCst);
    }

    fn wake(&self) {
        drop(self.mutex.lock());
        self.opens.notify_all();
    }

    /// Releases all waiting threads for good.
    fn cancel(&self) {
        self.is_cancelled.store(true, SeqCst);
        self.wake();
    }
}

impl Round {
    fn sum(&self) -> Sum {
        let sum = |of: fn(&ThreadReport) -> &AtomicU64| -> u64 {
            let all = self.reports.iter();
            all.map(|report| of(report).load(Relaxed)).sum()
        };
        let next = self.reports.iter().map(|it| it.next.load(Relaxed));
        Sum {
            steps: sum(|it| &it.steps),
            packets: sum(|it| &it.packets),
            progress: Progress {
                now: next.min().map_or(Time::MAX, Time::from_ps),
                events: sum(|it| &it.events),
                packet_hops: sum(|it| &it.hops),
                cell_hops: 0,
            },
        }
    }

    fn messages(&self, from: usize, to: usize) -> MutexGuard<'_, Vec<Message>> {
        let messages = self.messages[to * self.reports.len() + from].lock();
        messages.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancels the barrier if its thread panics.
struct CancelOnPanic<'a>(&'a Barrier);

impl Drop for CancelOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel();
        }
    }
}

impl Internet<'_> {
    /// Runs to the end in parts, each with a thread of its own, or until the watcher or the budget stops it.
    ///
    /// The report is that of [`run`](Self::run). `network` is what this was built from, and the division one of it: others
    /// are built from it, too. What has begun already, or whose packets are [captured](Self::capture), one thread runs.
    pub fn run_divided<W: Watch>(
        &mut self,
        network: &Network,
        division: &Division,
        watch: &mut W,
    ) -> Result<Report, NetworkError> {
        if !self.is_untouched() {
            return Ok(self.run(watch));
        }
        let barrier = &Barrier::new(division.parts);
        let stopped = thread::scope(|scope| {
            let others: Vec<_> = (1..division.parts)
                .map(|number| {
                    scope.spawn(move || {
                        let _guard = CancelOnPanic(barrier);
                        let mut world = Internet::new(network).inspect_err(|_| barrier.cancel())?;
                        world.share(network, division, number);
                        world.run_part(barrier, division, number, |_| None);
                        Ok::<_, NetworkError>(world)
                    })
                })
                .collect();
            let _guard = CancelOnPanic(barrier);
            self.share(network, division, 0);
            let budget = self.budget;
            let mut looked = 0;
            let stopped = self.run_part(barrier, division, 0, |sum: &Sum| {
                if sum.steps - looked < LOOK {
                    return None;
                }
                looked = sum.steps;
                budget.judge(watch, sum.progress, sum.packets)
            });
            for other in others {
                let other = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                self.absorb(network, division, other?);
            }
            Ok::<_, NetworkError>(stopped)
        })?;
        self.medium.outbox = None;
        Ok(self.finish(stopped, watch))
    }

    /// Simulates one part in step with the others; returns the reason if it stopped before the end.
    fn run_part(
        &mut self,
        barrier: &Barrier,
        division: &Division,
        number: usize,
        mut look: impl FnMut(&Sum) -> Option<Stopped>,
    ) -> Option<Stopped> {
        let until = self.begin();
        let mut stopped = None;
        for round in barrier.rounds.iter().cycle() {
            self.publish(round, number);
            if number == 0 {
                round.stops.store(stopped.is_some(), Relaxed);
            }
            if !barrier.wait() {
                break;
            }
            let sum = round.sum();
            let first = sum.progress.now;
            let is_stopped = round.stops.load(Relaxed);
            if first > until || is_stopped {
                self.end_at(if is_stopped { first.min(until) } else { until });
                break;
            }
            for from in (0..barrier.threads).filter(|&from| from != number) {
                for message in round.messages(from, number).drain(..) {
                    self.take_message(message);
                }
            }
            let end = first.saturating_add(division.lookahead);
            let end = until.min(end.saturating_sub(Span::from_ps(1)));
            while let Some((at, event)) = self.next()
                && at <= end
            {
                self.happens(at, event);
            }
            self.medium.fill_links_to_others(end);
            stopped = stopped.or_else(|| look(&sum));
        }
        stopped
    }

    /// Publishes the state of this thread, and its messages, for the others.
    fn publish(&mut self, round: &Round, number: usize) {
        let next = self.next().map_or(Time::MAX, |(at, _)| at);
        let Some(outbox) = &mut self.medium.outbox else {
            return;
        };
        let next = next.min(outbox.take_first());
        for to in 0..round.reports.len() {
            outbox.exchange(to, &mut round.messages(number, to));
        }
        let progress = self.progress();
        let report = &round.reports[number];
        for (place, value) in [
            (&report.next, next.as_ps()),
            (&report.steps, self.steps()),
            (&report.events, progress.events),
            (&report.hops, progress.packet_hops),
            (&report.packets, self.packets_under_way() as u64),
        ] {
            place.store(value, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::internet::random::{impaired, scenario};
    use crate::internet::scenario::Scenario;
    use crate::internet::{Indivisible, Sample};
    use crate::ties::Ties;

    fn network(scenario: &str) -> Network {
        let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
        scenario.resolve().unwrap()
    }

    fn run(network: &Network) -> Report {
        Internet::new(network).unwrap().run(&mut ())
    }

    /// A run in `parts` parts, if the network can be divided.
    fn divided<W: Watch>(network: &Network, parts: usize, watch: &mut W) -> Option<Report> {
        let mut world = Internet::new(network).unwrap();
        let division = world.divide(network, parts).ok()?;
        assert!((2..=parts).contains(&division.parts()));
        Some(world.run_divided(network, &division, watch).unwrap())
    }

    proptest! {
        // Each case is two runs, half a second in a debug build.
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]
        #[test]
        fn parts_find_what_the_whole_does(
            scenario in prop_oneof![scenario(vec![]), impaired(vec![])],
            parts in 2..5_usize,
        ) {
            let network = network(&scenario);
            let found = divided(&network, parts, &mut ());
            prop_assume!(found.is_some());
            prop_assert_eq!(Some(run(&network)), found, "in {} parts: {}", parts, &scenario);
        }
    }

    /// Two far ends with more flows than one, on either side of which there are hosts with processors.
    const DUMBBELL: &str = r#"
        schema = "internet/1"
        name = "dumbbell"
        run = { duration = "3s", warm_up = "500ms" }
        topology = { kind = "dumbbell", pairs = 8, access = { rate = "1 Gbit/s", delay = "1ms" }, trunk = { rate = "50 Mbit/s", delay = "10ms", queue = "60 packets" } }

        [[flow]]
        from = "left{1..6}"
        to = "right{1..6}"

        [[flow]]
        from = "right{5..8}"
        to = "left{5..8}"
        bytes = 4_000_000

        [[flow]]
        from = "left{7..8}"
        to = "right{7..8}"
        datagrams = { gap = "exp(3ms)", size = "900 B" }
    "#;

    #[test]
    fn a_dumbbell_is_cut_at_its_trunk() {
        let mut network = network(DUMBBELL);
        let world = Internet::new(&network).unwrap();
        let division = world.divide(&network, 2).unwrap();
        assert_eq!(division.lookahead, Span::from_ms(10));
        assert!((1.5..2.0).contains(&division.gain()), "{}", division.gain());
        let whole = run(&network);
        assert!(whole.flows.iter().all(|it| it.bytes > 0));
        for parts in [2, 3, 8] {
            assert_eq!(divided(&network, parts, &mut ()).unwrap(), whole, "{parts}");
        }
        // A fixed order is none of scheduling, so it can be divided, too.
        network.ties = Ties::Ordered;
        let ordered = run(&network);
        assert_ne!(ordered, whole);
        assert_eq!(divided(&network, 3, &mut ()).unwrap(), ordered);
    }

    /// Stations of a LAN stay together, and so do a host and its processor.
    #[test]
    fn lans_and_processors_of_hosts_are_in_one_part() {
        let scenario = r#"
            schema = "internet/1"
            name = "offices"
            run = { duration = "3s", seed = 5 }
            lan = [
                { name = "a", rate = "10 Mbit/s", stations = ["ra", "a{1..4}"] },
                { name = "b", rate = "10 Mbit/s", stations = ["rb", "b{1..4}"] },
                { name = "c", rate = "10 Mbit/s", stations = ["rc", "c{1..4}"] },
            ]
            router = [{ name = "ra" }, { name = "rb" }, { name = "rc" }]
            link = [
                { ends = ["ra", "rb"], rate = "3 Mbit/s", delay = "4ms", queue = "20 packets", loss = 0.01 },
                { ends = ["rb", "rc"], rate = "3 Mbit/s", delay = "7ms", queue = "20 packets", red = { min = 3, max = 12 } },
            ]
            host = [
                { name = "a{1..4}" },
                { name = "b{1..4}" },
                { name = "c{1..4}", cpu = { per_packet = "300us", per_sent = "200us", per_byte = "100ns", jitter = 0.3 } },
            ]
            flow = [
                { from = "a{1..4}", to = "b{1..4}" },
                { from = "b{1..4}", to = "c{1..4}" },
                { from = "c{1..4}", to = "a{1..4}", datagrams = { gap = "exp(20ms)", size = "700 B" } },
            ]
        "#;
        let network = network(scenario);
        let whole = run(&network);
        assert!(whole.flows.iter().all(|it| it.received > 10), "{whole:#?}");
        for parts in [2, 3] {
            let found = divided(&network, parts, &mut ()).unwrap();
            assert_eq!(found, whole, "in {parts} parts");
        }
    }

    /// A watcher that counts its progress calls.
    struct Asked<F>(F);

    impl<F: FnMut() -> bool> Watch for Asked<F> {
        fn sample(&mut self, _: &Sample) {}

        fn progress(&mut self, _: Progress) -> bool {
            (self.0)()
        }
    }

    #[test]
    fn the_watcher_and_the_budget_stop_all_of_them() {
        let mut network = network(&DUMBBELL.replace("3s", "9s"));
        let mut times = 0..2;
        let mut impatient = Asked(|| times.next().is_some());
        let stopped = divided(&network, 2, &mut impatient).unwrap();
        assert_eq!(stopped.stopped, Some(Stopped::Interrupted));
        assert!((0.1..8.9).contains(&stopped.seconds), "{}", stopped.seconds);
        network.budget.events = 30_000;
        let stopped = divided(&network, 2, &mut ()).unwrap();
        assert_eq!(stopped.stopped, Some(Stopped::EventBudget));
        assert!(
            (30_000..70_000).contains(&stopped.events),
            "{}",
            stopped.events
        );
    }

    /// Its thread must not leave the others waiting.
    #[test]
    fn a_watcher_that_panics_ends_all_of_them() {
        let network = network(DUMBBELL);
        let run = || divided(&network, 3, &mut Asked(|| panic!("the watcher is broken")));
        assert!(std::panic::catch_unwind(run).is_err());
    }

    #[test]
    fn what_cannot_be_divided_says_why() {
        let why = |scenario: &str| {
            let network = network(scenario);
            let world = Internet::new(&network).unwrap();
            world.divide(&network, 2).map(|it| it.parts()).unwrap_err()
        };
        let xtp = DUMBBELL.replace("bytes = 4_000_000", "xtp = {}");
        assert_eq!(why(&xtp), Indivisible::Mixed);
        let flat = DUMBBELL.replace("10ms", "0s").replace("1ms", "0s");
        assert_eq!(why(&flat), Indivisible::Whole);
        // All parts of a packet that is cut must come to where it is put together.
        let cut = DUMBBELL
            .replace("900 B", "9000 B")
            .replace("left{7..8}", "left{1..8}");
        let cut = cut.replace("right{7..8}", "right{1..8}");
        assert_eq!(why(&cut), Indivisible::Whole);
    }
}
