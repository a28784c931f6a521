//! The clock of the other end: offset and drift from feedback alone, judged by true time.

use layercast_core::{Layer, Serial, Span, Time, earliest};
use layercast_repair::Means;

use crate::channel::{Hop, Impairment, Packet, Skewed, unit};

const HOUR_US: i64 = 3_600_000_000;
/// Media begin here: a clock may be ahead by less than zero.
const START: u64 = 7_200;

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs(START) + Span::from_secs_f64(seconds)
}

/// A hop between two clocks with media: 25 frames a second, each in four datagrams.
struct Run {
    hop: Hop,
    now: Time,
    frame: u64,
}

impl Run {
    fn new(how: Impairment, seed: u64, clocks: [Skewed; 2]) -> Run {
        let mut hop = Hop::new(how, None, seed, "hop", Means::Auto);
        hop.clocks = clocks;
        let now = at(0.0);
        Run { hop, now, frame: 0 }
    }

    fn until(&mut self, end: Time) {
        while self.now < end {
            let due = at(0.0) + Span::from_ms(40).times(self.frame);
            if due <= self.now {
                for index in 0..4 {
                    let packet = Packet {
                        frame: self.frame,
                        index,
                        of: 4,
                    };
                    let unit = unit(Layer::Base, self.frame as u32 * 40_000, index == 3);
                    self.hop.send(self.now, unit, packet);
                }
                self.frame += 1;
            }
            self.hop.run(self.now);
            let due = at(0.0) + Span::from_ms(40).times(self.frame);
            let next = earliest(self.hop.next(), Some(due)).unwrap_or(end);
            self.now = next.max(self.now + Span::from_us(1)).min(end);
        }
    }

    /// By how much the clock there is believed to be ahead of what it shows, in microseconds.
    fn error(&self) -> Option<i64> {
        let [here, there] = self.hop.clocks.map(|clock| clock.read(self.now));
        let known = self.hop.repairer.clock(here)?;
        let shows = Serial(there.as_us() as u32);
        Some(known.there.diff(shows).into())
    }

    /// The errors each 100 ms until `end`.
    fn errors(&mut self, end: Time) -> Vec<i64> {
        let mut errors = Vec::new();
        while self.now < end {
            self.until((self.now + Span::from_ms(100)).min(end));
            errors.extend(self.error());
        }
        errors
    }
}

/// The value that 95 % of the sizes of `errors` are not above.
fn p95(errors: impl IntoIterator<Item = i64>) -> u64 {
    let mut sizes: Vec<u64> = errors.into_iter().map(i64::unsigned_abs).collect();
    sizes.sort_unstable();
    sizes[sizes.len() * 95 / 100]
}

fn path(loss: f64, delay_ms: u64) -> Impairment {
    Impairment {
        delay: Span::from_ms(delay_ms),
        ..Impairment::loss(loss)
    }
}

/// The clock of the receiving end, ahead by `ahead_us` and gaining `ppm`.
fn skewed(ahead_us: i64, ppm: i64) -> [Skewed; 2] {
    [Skewed::default(), Skewed { ahead_us, ppm }]
}

#[test]
fn an_hour_of_offset_and_200_ppm_are_known_to_within_300_us_in_spite_of_jitter_and_loss() {
    for (seed, loss) in (1..=8).zip([0.0, 0.01, 0.03, 0.05, 0.1].into_iter().cycle()) {
        for (ahead_us, ppm) in [(HOUR_US, 200), (-HOUR_US, -200), (17, 0)] {
            let mut run = Run::new(path(loss, 20), seed, skewed(ahead_us, ppm));
            run.until(at(2.0));
            // With few pairs the drift is not well known.
            for (from, limit) in [(10.0, 900), (120.0, 300)] {
                let errors = run.errors(at(from));
                assert!(errors.len() >= 79, "it is known all the time");
                let p95 = p95(errors);
                assert!(
                    p95 <= limit,
                    "seed {seed}, loss {loss}, {ppm} ppm: {p95} us"
                );
            }
            let here = run.hop.clocks[0].read(run.now);
            let known = run.hop.repairer.clock(here).expect("known");
            let off = known.drift_ppb - ppm as i32 * 1_000;
            assert!(off.abs() < 1_000, "drift off by {off} ppb");
            assert!(known.bound.as_us().abs_diff(21_000) < 300, "{known:?}");
            assert!(known.age < Span::from_ms(50), "{known:?}");
            let delays = [known.delay, known.delay_back].map(Span::as_us);
            assert!(
                delays.iter().all(|it| (19_700..25_300).contains(it)),
                "{known:?}"
            );
        }
    }
}

#[test]
fn three_hops_with_jitter_add_up_to_less_than_1_ms() {
    for seed in 1..=8 {
        // Each node has another clock.
        let clocks = [(0, 0), (HOUR_US, 200), (-5_000_000, -60), (90_000_000, 140)];
        let clocks = clocks.map(|(ahead_us, ppm)| Skewed { ahead_us, ppm });
        let mut sums: Vec<i64> = Vec::new();
        for hop in 0..3 {
            let how = path(0.02, 5 + 12 * hop as u64);
            let mut run = Run::new(how, seed * 10 + hop as u64, [clocks[hop], clocks[hop + 1]]);
            run.until(at(10.0));
            let errors = run.errors(at(90.0));
            sums.resize(errors.len(), 0);
            for (sum, error) in sums.iter_mut().zip(errors) {
                *sum += error;
            }
        }
        let p95 = p95(sums);
        assert!(p95 <= 1_000, "seed {seed}: {p95} us");
    }
}

#[test]
fn it_is_known_within_100_ms_of_the_first_datagram_and_within_its_bound_from_then_on() {
    for seed in 1..=20 {
        let mut run = Run::new(path(0.05, 20), seed, skewed(HOUR_US, 200));
        run.until(at(0.1));
        let bound = |run: &Run| {
            let here = run.hop.clocks[0].read(run.now);
            run.hop.repairer.clock(here).map(|it| it.bound.as_us())
        };
        while run.now < at(20.0) {
            let (error, bound) = (run.error().expect("known"), bound(&run).expect("known"));
            assert!(
                error.unsigned_abs() <= bound,
                "{error} us, bound {bound} us"
            );
            run.until(run.now + Span::from_ms(20));
        }
    }
}

#[test]
fn a_clock_that_is_set_is_known_again_soon() {
    // More and less than the one-way delay.
    for step_us in [1_500_000_000, 3_000_000, 40_000, 4_000, -4_000] {
        for seed in 1..=4 {
            let mut run = Run::new(path(0.02, 20), seed, skewed(HOUR_US, 50));
            run.until(at(40.0));
            run.hop.clocks[1].ahead_us += step_us;
            let soon = if step_us > 25_000 { 0.5 } else { 3.5 };
            run.until(at(40.0 + soon));
            let error = run.error().expect("known").unsigned_abs();
            assert!(error < 2_500, "{step_us} us: {error} us soon after");
            let errors = run.errors(at(60.0));
            let p95 = p95(errors.into_iter().skip(100));
            assert!(p95 <= 300, "{step_us} us, seed {seed}: {p95} us");
        }
    }
}

#[test]
fn a_queue_that_stands_in_one_direction_moves_nothing() {
    let mut run = Run::new(path(0.0, 20), 1, skewed(-1_000_000, 100));
    run.until(at(30.0));
    run.hop.forward.delay_by(Span::from_ms(80));
    let errors = run.errors(at(75.0));
    let p95 = p95(errors);
    assert!(p95 <= 300, "{p95} us");
}

#[test]
fn a_fixed_asymmetry_is_invisible_and_half_of_it_is_the_error() {
    let mut run = Run::new(path(0.0, 20), 1, skewed(0, 0));
    run.hop.forward.delay_by(Span::from_ms(20));
    run.until(at(30.0));
    let error = run.error().expect("known");
    assert!((9_800..10_200).contains(&error), "{error} us");
    let known = run.hop.repairer.clock(run.now).expect("known");
    assert!(known.bound.as_us() as i64 >= error, "{known:?}");
}
