//! Several threads simulate a network together.
//!
//! Each has a part of it. All continue until the instant at which a packet of another may come that is not known yet: the
//! next event of all and the least delay of a link between them. There they meet and tell each other what comes, and so on
//! (conservative synchronisation: Chandy and Misra 1979; in windows: Lubachevsky 1989). Who goes first of those at one
//! instant does not depend on who is told of it when, so that results are those of one thread.

use std::panic::resume_unwind;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use layercast_core::{Span, Time};

use super::division::Division;
use super::share::Letter;
use super::world::LOOK;
use super::{Internet, Network, NetworkError, Progress, Report, Stopped, Watch};

/// How often a thread looks whether the others are there before it sleeps: some 30 us.
const LOOKS: u32 = 2_000;

/// Where threads meet. There are two of all they write, in turn: while one is read the other is written.
struct Meeting {
    threads: usize,
    here: AtomicUsize,
    /// How often all were here.
    times: AtomicUsize,
    /// One of them will not come any more.
    is_off: AtomicBool,
    /// How many sleep until all are here.
    asleep: AtomicUsize,
    door: Mutex<()>,
    opens: Condvar,
    turns: [Turn; 2],
}

struct Turn {
    /// From each to each.
    letters: Vec<Mutex<Vec<Letter>>>,
    told: Vec<Told>,
    stops: AtomicBool,
}

/// What all want to know of a thread.
#[derive(Default)]
#[repr(align(64))]
struct Told {
    /// When its next event is, in picoseconds.
    next: AtomicU64,
    steps: AtomicU64,
    events: AtomicU64,
    hops: AtomicU64,
    packets: AtomicU64,
}

/// What all threads have done together.
struct Sum {
    steps: u64,
    packets: u64,
    progress: Progress,
}

impl Meeting {
    fn new(threads: usize) -> Meeting {
        let turn = || Turn {
            letters: (0..threads * threads).map(|_| Mutex::default()).collect(),
            told: (0..threads).map(|_| Told::default()).collect(),
            stops: AtomicBool::new(false),
        };
        Meeting {
            threads,
            here: AtomicUsize::new(0),
            times: AtomicUsize::new(0),
            is_off: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            door: Mutex::new(()),
            opens: Condvar::new(),
            turns: [turn(), turn()],
        }
    }

    /// Waits for all others; whether they came.
    fn wait(&self) -> bool {
        let times = self.times.load(SeqCst);
        if self.here.fetch_add(1, SeqCst) + 1 == self.threads {
            self.here.store(0, SeqCst);
            self.times.store(times + 1, SeqCst);
            if self.asleep.load(SeqCst) > 0 {
                self.wake();
            }
        } else {
            let is_over = || self.times.load(SeqCst) != times || self.is_off.load(SeqCst);
            let mut looks = 0..LOOKS;
            while !is_over() && looks.next().is_some() {
                std::hint::spin_loop();
            }
            if !is_over() {
                self.sleep(is_over);
            }
        }
        !self.is_off.load(SeqCst)
    }

    fn sleep(&self, is_over: impl Fn() -> bool) {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        // Who comes last sees that somebody sleeps, or it is seen here that all have come.
        self.asleep.fetch_add(1, SeqCst);
        while !is_over() {
            let woken = self.opens.wait(door);
            door = woken.unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, SeqCst);
    }

    fn wake(&self) {
        drop(self.door.lock());
        self.opens.notify_all();
    }

    /// Nobody is to wait any more.
    fn call_off(&self) {
        self.is_off.store(true, SeqCst);
        self.wake();
    }
}

impl Turn {
    fn sum(&self) -> Sum {
        let sum = |of: fn(&Told) -> &AtomicU64| -> u64 {
            let all = self.told.iter();
            all.map(|told| of(told).load(Relaxed)).sum()
        };
        let next = self.told.iter().map(|it| it.next.load(Relaxed));
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

    fn letters(&self, from: usize, to: usize) -> MutexGuard<'_, Vec<Letter>> {
        let letters = self.letters[to * self.told.len() + from].lock();
        letters.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a meeting off if its thread ends before it should.
struct Attends<'a>(&'a Meeting);

impl Drop for Attends<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.call_off();
        }
    }
}

impl Internet {
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
        let meeting = &Meeting::new(division.parts);
        let stopped = thread::scope(|scope| {
            let others: Vec<_> = (1..division.parts)
                .map(|number| {
                    scope.spawn(move || {
                        let _attends = Attends(meeting);
                        let mut world =
                            Internet::new(network).inspect_err(|_| meeting.call_off())?;
                        world.share(network, division, number);
                        world.go_on_together(meeting, division, number, |_| None);
                        Ok::<_, NetworkError>(world)
                    })
                })
                .collect();
            let _attends = Attends(meeting);
            self.share(network, division, 0);
            let budget = self.budget;
            let mut looked = 0;
            let stopped = self.go_on_together(meeting, division, 0, |sum: &Sum| {
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
        self.share = None;
        Ok(self.finish(stopped, watch))
    }

    /// Lets all happen in one part, as far as the others come along; why it stopped before the end.
    fn go_on_together(
        &mut self,
        meeting: &Meeting,
        division: &Division,
        number: usize,
        mut look: impl FnMut(&Sum) -> Option<Stopped>,
    ) -> Option<Stopped> {
        let until = self.begin();
        let mut stopped = None;
        for turn in meeting.turns.iter().cycle() {
            self.report_to(turn, number);
            if number == 0 {
                turn.stops.store(stopped.is_some(), Relaxed);
            }
            if !meeting.wait() {
                break;
            }
            let sum = turn.sum();
            let first = sum.progress.now;
            let is_stopped = turn.stops.load(Relaxed);
            if first > until || is_stopped {
                self.end_at(if is_stopped { first.min(until) } else { until });
                break;
            }
            for from in (0..meeting.threads).filter(|&from| from != number) {
                for letter in turn.letters(from, number).drain(..) {
                    self.hear(letter);
                }
            }
            let end = first.saturating_add(division.lookahead);
            let end = until.min(end.saturating_sub(Span::from_ps(1)));
            while let Some((at, event)) = self.next()
                && at <= end
            {
                self.happens(at, event);
            }
            self.fill_links_to_others(end);
            stopped = stopped.or_else(|| look(&sum));
        }
        stopped
    }

    /// Puts down what others want to know.
    fn report_to(&mut self, turn: &Turn, number: usize) {
        let next = self.next().map_or(Time::MAX, |(at, _)| at);
        let Some(share) = &mut self.share else {
            return;
        };
        let next = next.min(share.take_first());
        for to in 0..turn.told.len() {
            share.exchange(to, &mut turn.letters(number, to));
        }
        let progress = self.progress();
        let told = &turn.told[number];
        for (place, value) in [
            (&told.next, next.as_ps()),
            (&told.steps, self.steps()),
            (&told.events, progress.events),
            (&told.hops, progress.packet_hops),
            (&told.packets, self.packets_under_way() as u64),
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
    use crate::internet::random::scenario;
    use crate::internet::scenario::Scenario;
    use crate::internet::{Indivisible, Sample};

    fn network(scenario: &str) -> Network {
        let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
        scenario.resolve().unwrap()
    }

    fn run(network: &Network) -> Report {
        Internet::new(network).unwrap().run(&mut ())
    }

    /// In so many parts, if it can be.
    fn divided<W: Watch>(network: &Network, parts: usize, watch: &mut W) -> Option<Report> {
        let mut world = Internet::new(network).unwrap();
        let division = world.divide(network, parts).ok()?;
        assert!((2..=parts).contains(&division.parts()));
        Some(world.run_divided(network, &division, watch).unwrap())
    }

    proptest! {
        #[test]
        fn parts_find_what_the_whole_does(scenario in scenario(vec![]), parts in 2..5_usize) {
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
        let network = network(DUMBBELL);
        let world = Internet::new(&network).unwrap();
        let division = world.divide(&network, 2).unwrap();
        assert_eq!(division.lookahead, Span::from_ms(10));
        assert!((1.5..2.0).contains(&division.gain()), "{}", division.gain());
        let whole = run(&network);
        assert!(whole.flows.iter().all(|it| it.bytes > 0));
        for parts in [2, 3, 8] {
            assert_eq!(divided(&network, parts, &mut ()).unwrap(), whole, "{parts}");
        }
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

    /// A watcher that is asked now and then.
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
        let fifo = DUMBBELL.replace("duration", "ties = \"fifo\", duration");
        assert_eq!(why(&fifo), Indivisible::Fifo);
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
