//! Times loops with warm and with cold buffers (specs/ilp-hazards.md 2.6). The clock is the caller's.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use thiserror::Error;

use crate::generator::{MAX_FUNCTIONS, MAX_STATE, Synthetic, constant};
use crate::profile::Temperature;

/// A loop: input, output, and the words of state of all its functions.
pub type Loop = fn(&[AtomicU32], &[AtomicU32], &mut [u32]);

mod loops {
    use super::{AtomicU32, Loop, Relaxed};

    include!(concat!(env!("OUT_DIR"), "/loops.rs"));
}

/// The loops of the program: functions, words of state, instructions.
pub use loops::{GRID, PARTS};

/// The loop for functions all alike, if the program has it.
#[must_use]
pub fn of_grid(functions: usize, state: usize, instr: usize) -> Option<Loop> {
    let like =
        |(n, s, a, _): &&(usize, usize, usize, Loop)| (*n, *s, *a) == (functions, state, instr);
    GRID.iter().find(like).map(|(.., it)| *it)
}

/// The loop for functions that are places in [`KINDS`](crate::generator::KINDS), if the program has it.
#[must_use]
pub fn of_part(functions: &[usize]) -> Option<Loop> {
    let found = PARTS.binary_search_by(|(part, _)| (*part).cmp(functions));
    found.ok().map(|at| PARTS[at].1)
}

/// The real loops beside the synthetic ones of the same parameters: byte swap, trivial cipher, checksum.
pub mod pair {
    use super::{AtomicU32, Loop, Relaxed, loops};

    const KEY: u32 = 0x9e37_79b9;

    fn swap(input: &[AtomicU32], output: &[AtomicU32], _: &mut [u32]) {
        for (x, y) in input.iter().zip(output) {
            y.store(x.load(Relaxed).swap_bytes(), Relaxed);
        }
    }

    fn cipher(input: &[AtomicU32], output: &[AtomicU32], _: &mut [u32]) {
        for (x, y) in input.iter().zip(output) {
            let word = (x.load(Relaxed) ^ KEY).rotate_left(5).wrapping_add(KEY);
            y.store(word, Relaxed);
        }
    }

    fn checksum(input: &[AtomicU32], _: &[AtomicU32], state: &mut [u32]) {
        let mut sum = u64::from(state[0]);
        for x in input {
            sum += u64::from(x.load(Relaxed));
        }
        state[0] = (sum ^ (sum >> 32)) as u32;
    }

    fn fused(input: &[AtomicU32], output: &[AtomicU32], state: &mut [u32]) {
        let mut sum = u64::from(state[0]);
        for (x, y) in input.iter().zip(output) {
            let word = x.load(Relaxed).swap_bytes();
            let word = (word ^ KEY).rotate_left(5).wrapping_add(KEY);
            sum += u64::from(word);
            y.store(word, Relaxed);
        }
        state[0] = (sum ^ (sum >> 32)) as u32;
    }

    /// One loop each, and the fused one; the last function only reads.
    pub const REAL: (&[Loop], Loop) = (&[swap, cipher, checksum], fused);
    /// The same from the generator.
    pub const SYNTHETIC: (&[Loop], Loop) = (
        &[loops::pair_0, loops::pair_1, loops::pair_2],
        loops::pair_fused,
    );
}

/// What a loop must leave: the words, and its states.
pub fn interpret(functions: &[Synthetic], words: &mut [u32], states: &mut [u32]) {
    for w in words.iter_mut() {
        let mut at = 0;
        for function in functions {
            let state = &mut states[at..at + function.state];
            at += function.state;
            let mut t = [*w; 2];
            for j in 0..function.instr {
                let t = &mut t[if function.indep { j % 2 } else { 0 }];
                match function.state {
                    0 => *t = t.rotate_left(5).wrapping_add(constant(j)),
                    s if j < s && j % 2 == 0 => state[j] = state[j].wrapping_add(*t),
                    s if j < s => state[j] ^= *t,
                    s if j % 2 == 0 => *t = t.wrapping_add(state[(j - s) % s]),
                    s => *t ^= state[(j - s) % s],
                }
            }
            *w = if function.indep { t[0] ^ t[1] } else { t[0] };
        }
    }
}

/// A digest of words in order: FNV-1a of 64 bits.
pub fn digest(words: impl Iterator<Item = u32>) -> u64 {
    words
        .flat_map(u32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |digest, octet| {
            (digest ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// Why there is no number.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum HarnessError {
    /// What a loop computes is not what it should.
    #[error(
        "a loop of {functions} functions, state {state}, {instr} instructions computes something else"
    )]
    InvalidBenchmark {
        /// Functions of the loop.
        functions: usize,
        /// Words of state of each.
        state: usize,
        /// Instructions of each.
        instr: usize,
    },
    /// Other work disturbs the runs.
    #[error(
        "the machine is too busy: a tenth of the runs takes {told} times the median, and {most} is permitted",
        told = above(*.0),
        most = MOST_NOISE
    )]
    Noisy(f64),
    /// The program has no such loop.
    #[error("the program has no loop of {0} functions, state {1}, {2} instructions")]
    NoLoop(usize, usize, usize),
}

/// A tenth of the runs may take this many times the median.
const MOST_NOISE: f64 = 1.5;

/// What is above [`MOST_NOISE`], with as many digits as show that it is.
fn above(noise: f64) -> String {
    let digits = (1..=6).find(|digits| {
        let told = format!("{noise:.digits$}").parse::<f64>();
        told.is_ok_and(|told| told > MOST_NOISE)
    });
    format!("{noise:.*}", digits.unwrap_or(15))
}

/// Time of runs, in ns an octet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Time {
    /// The shortest.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// A tenth takes longer.
    pub p90: f64,
}

impl Time {
    /// Of runs over one buffer, in ns.
    fn of(mut runs: Vec<u64>) -> Time {
        runs.sort_unstable();
        let ns = |at: usize| runs[at] as f64 / (4 * WORDS) as f64;
        Time {
            min: ns(0),
            median: ns(runs.len() / 2),
            p90: ns(runs.len() * 9 / 10),
        }
    }
}

/// A way to run a chain: loops one after another, each over the whole buffer, or all over one strip after the other.
#[derive(Clone, Debug)]
pub struct Way {
    /// The loops.
    pub loops: Vec<Loop>,
    /// Words of a strip; none for the whole buffer.
    pub strip: Option<usize>,
}

/// Buffers and clock of measurements.
pub struct Harness<'a> {
    now_ns: &'a mut dyn FnMut() -> u64,
    /// Pairs of buffers, each pair at another place in its page: equal places make loads wait for stores.
    arena: Vec<AtomicU32>,
    /// Read to push everything else out of the caches.
    junk: Vec<AtomicU32>,
    overhead_ns: u64,
    /// Whether busy machines are measured, too.
    pub forced: bool,
}

/// Words of a buffer: 16 KiB.
const WORDS: usize = 4_096;
/// Words between buffers: no two begin at one place of a page.
const APART: usize = WORDS + 16 * 5;
/// Pairs of buffers for cold runs.
const PAIRS: usize = 96;
/// Runs of warm buffers.
const RUNS: usize = 301;
/// Rounds of ways that are compared, with warm and with cold buffers, and runs over warm buffers in each.
const WARM_ROUNDS: usize = 41;
const COLD_ROUNDS: usize = 2;
const RUNS_IN_ROUND: usize = 4;

impl<'a> Harness<'a> {
    /// With a clock in ns, and the octets of the largest cache.
    pub fn new(now_ns: &'a mut dyn FnMut() -> u64, cache: usize) -> Harness<'a> {
        let word = |at: usize| AtomicU32::new((at as u32).wrapping_mul(0x9e37_79b9));
        let overhead = (0..200).map(|_| {
            let start = now_ns();
            now_ns() - start
        });
        let mut overhead: Vec<u64> = overhead.collect();
        overhead.sort_unstable();
        Harness {
            overhead_ns: overhead[overhead.len() / 2],
            now_ns,
            arena: (0..2 * PAIRS * APART).map(word).collect(),
            junk: (0..cache / 2).map(word).collect(),
            forced: false,
        }
    }

    fn pair(&self, at: usize) -> (&[AtomicU32], &[AtomicU32]) {
        let from = 2 * at * APART;
        let to = from + APART;
        (&self.arena[from..from + WORDS], &self.arena[to..to + WORDS])
    }

    fn flush(&self) {
        // A cache line of 64 octets has 16 words.
        let sum = self
            .junk
            .iter()
            .step_by(16)
            .fold(0_u32, |sum, word| sum.wrapping_add(word.load(Relaxed)));
        std::hint::black_box(sum);
    }

    /// Times a run of one loop after another, from buffer to buffer and back: all on one pair if warm, each on pairs that
    /// are in no cache if cold.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Noisy`], unless forced.
    pub fn time(&mut self, loops: &[Loop], temperature: Temperature) -> Result<Time, HarnessError> {
        let taken = match temperature {
            Temperature::Warm => {
                let mut states = vec![[1_u32; MAX_STATE * MAX_FUNCTIONS]; loops.len()];
                let mut taken = vec![0; RUNS];
                // The first run warms the buffers.
                for run in 0..=RUNS {
                    let mut total = 0;
                    for (at, one) in loops.iter().enumerate() {
                        total += self.run(*one, at, 0, &mut states[at]);
                    }
                    if run > 0 {
                        taken[run - 1] = total;
                    }
                }
                std::hint::black_box(&states);
                taken
            }
            Temperature::Cold => self.cold(loops),
        };
        let time = Time::of(taken);
        let noise = time.p90 / time.median;
        match noise <= MOST_NOISE || self.forced {
            true => Ok(time),
            false => Err(HarnessError::Noisy(noise)),
        }
    }

    /// Times ways to run one chain. They alternate: what disturbs the machine for a while disturbs all of them.
    pub fn compare(&mut self, ways: &[Way], temperature: Temperature) -> Vec<Time> {
        let mut taken = vec![Vec::new(); ways.len()];
        let rounds = match temperature {
            // The first one warms the buffers.
            Temperature::Warm => WARM_ROUNDS + 1,
            Temperature::Cold => COLD_ROUNDS,
        };
        for round in 0..rounds {
            for (way, taken) in ways.iter().zip(&mut taken) {
                match (temperature, way.strip) {
                    (Temperature::Warm, _) => {
                        let total = self.warm(way);
                        if round > 0 {
                            taken.push(total);
                        }
                    }
                    (Temperature::Cold, Some(words)) => {
                        taken.extend(self.strips(&way.loops, words));
                    }
                    (Temperature::Cold, None) => taken.extend(self.cold(&way.loops)),
                }
            }
        }
        taken.into_iter().map(Time::of).collect()
    }

    /// Time of a run over one pair of buffers, the mean of a few.
    fn warm(&mut self, way: &Way) -> u64 {
        let mut states = vec![[1_u32; MAX_STATE * MAX_FUNCTIONS]; way.loops.len()];
        let start = (self.now_ns)();
        let (input, output) = self.pair(0);
        for _ in 0..RUNS_IN_ROUND {
            match way.strip {
                Some(words) => in_strips((input, output), &way.loops, words, &mut states),
                None => {
                    for (at, (one, state)) in way.loops.iter().zip(&mut states).enumerate() {
                        match at % 2 {
                            0 => one(input, output, state),
                            _ => one(output, input, state),
                        }
                    }
                }
            }
        }
        let total = ((self.now_ns)() - start).saturating_sub(self.overhead_ns);
        std::hint::black_box(&states);
        total / RUNS_IN_ROUND as u64
    }

    /// Times of a run of one loop after another over each pair of buffers; no cache has the pair before any loop.
    fn cold(&mut self, loops: &[Loop]) -> Vec<u64> {
        let mut states = vec![[1_u32; MAX_STATE * MAX_FUNCTIONS]; loops.len()];
        let mut taken = vec![0; PAIRS];
        for (at, one) in loops.iter().enumerate() {
            self.flush();
            for (pair, total) in taken.iter_mut().enumerate() {
                *total += self.run(*one, at, pair, &mut states[at]);
            }
        }
        std::hint::black_box(&states);
        taken
    }

    fn run(&mut self, one: Loop, at: usize, pair: usize, state: &mut [u32]) -> u64 {
        let start = (self.now_ns)();
        let (input, output) = self.pair(pair);
        match at % 2 {
            0 => one(input, output, state),
            _ => one(output, input, state),
        }
        let end = (self.now_ns)();
        (end - start).saturating_sub(self.overhead_ns)
    }

    /// Times a run in strips of `words` words, which stay in the first-level cache, however busy the machine is.
    pub fn time_strips(&mut self, loops: &[Loop], words: usize) -> Time {
        Time::of(self.strips(loops, words))
    }

    fn strips(&mut self, loops: &[Loop], words: usize) -> Vec<u64> {
        let mut states = vec![[1_u32; MAX_STATE * MAX_FUNCTIONS]; loops.len()];
        let mut taken = vec![0_u64; PAIRS];
        self.flush();
        for (pair, total) in taken.iter_mut().enumerate() {
            let start = (self.now_ns)();
            in_strips(self.pair(pair), loops, words, &mut states);
            *total = ((self.now_ns)() - start).saturating_sub(self.overhead_ns);
        }
        std::hint::black_box(&states);
        taken
    }
}

/// Loops over one strip after the other; the first one writes to the output, where the others work.
fn in_strips<S: AsMut<[u32]>>(
    (input, output): (&[AtomicU32], &[AtomicU32]),
    loops: &[Loop],
    words: usize,
    states: &mut [S],
) {
    for (input, output) in input.chunks(words).zip(output.chunks(words)) {
        for (at, (one, state)) in loops.iter().zip(&mut *states).enumerate() {
            let input = if at == 0 { input } else { output };
            one(input, output, state.as_mut());
        }
    }
}

/// Runs a loop of the grid over a buffer and compares digests with the interpreter.
///
/// # Errors
///
/// They differ.
pub fn verify(functions: usize, state: usize, instr: usize) -> Result<(), HarnessError> {
    let one = of_grid(functions, state, instr);
    let one = one.ok_or(HarnessError::NoLoop(functions, state, instr))?;
    let like = Synthetic::new(state, instr).ok();
    let like = like.map(|like| vec![like; functions]);
    match like.is_some_and(|like| is_right(one, &like)) {
        true => Ok(()),
        false => Err(HarnessError::InvalidBenchmark {
            functions,
            state,
            instr,
        }),
    }
}

/// Whether a loop computes what the interpreter does.
#[must_use]
pub fn is_right(one: Loop, functions: &[Synthetic]) -> bool {
    let mut words: Vec<u32> = (0..257_u32)
        .map(|at| at.wrapping_mul(0x85eb_ca6b))
        .collect();
    let input: Vec<AtomicU32> = words.iter().map(|word| AtomicU32::new(*word)).collect();
    let output: Vec<AtomicU32> = words.iter().map(|_| AtomicU32::new(0)).collect();
    let mut found = vec![3; functions.iter().map(|it| it.state).sum()];
    let mut wanted = found.clone();
    one(&input, &output, &mut found);
    interpret(functions, &mut words, &mut wanted);
    let output = output.iter().map(|word| word.load(Relaxed));
    digest(output.chain(found)) == digest(words.into_iter().chain(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_of_the_grid_computes_what_the_interpreter_does() {
        assert!(GRID.len() > 60);
        for (functions, state, instr, _) in GRID {
            assert_eq!(verify(*functions, *state, *instr), Ok(()));
        }
    }

    #[test]
    fn a_busy_machine_gives_no_number_unless_forced() {
        let mut time = 0_u64;
        // Each fifth run is five times as long.
        let mut clock = || {
            time += if time / 1_000 % 10 == 9 { 5_000 } else { 1_000 };
            time
        };
        let mut harness = Harness::new(&mut clock, 1 << 16);
        let one = [of_grid(1, 2, 10).expect("in the grid")];
        let refused = harness.time(&one, Temperature::Warm);
        assert!(
            matches!(refused, Err(HarnessError::Noisy(_))),
            "{refused:?}"
        );
        assert_eq!(above(2.04), "2.0");
        assert_eq!(above(1.503), "1.503");
        assert_eq!(above(1.500_04), "1.50004");
        harness.forced = true;
        assert!(harness.time(&one, Temperature::Warm).is_ok());
    }
}
