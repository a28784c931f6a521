//! The plans of random chains, all measured, beside the one that the planner chooses (specs/ilp-hazards.md 8).

use serde::Serialize;

use crate::generator::{CHAINS, KINDS, Synthetic, chains};
use crate::harness::{Harness, HarnessError, Way, is_right, of_part};
use crate::pipeline::STRIP;
use crate::planner::{Plan, parse, plan};
use crate::profile::{Profile, Temperature};

/// A random chain: the way that the planner chooses, and the fastest one.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Trial {
    /// Words of state and instructions of each function, as `layercast ilp explain` takes them.
    pub chain: String,
    /// Whether the buffers were in the cache.
    pub temperature: Temperature,
    /// Ways to run it; all were measured.
    pub ways: usize,
    /// The way of the planner.
    pub planned: Timed,
    /// The fastest way.
    pub fastest: Timed,
}

/// A way to run a chain, and its time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Timed {
    /// Functions of each loop.
    pub loops: Vec<usize>,
    /// Whether the loops run over one strip after the other.
    pub in_strips: bool,
    /// Its shortest time, in ns an octet.
    pub ns: f64,
}

impl Trial {
    /// Whether the way of the planner takes at most 10 % more than the fastest one.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.planned.ns <= 1.1 * self.fastest.ns
    }
}

/// Measures all ways to run the first `count` random chains, of [`CHAINS`] at most.
///
/// # Errors
///
/// A loop computes something else than its functions.
pub fn run(
    harness: &mut Harness<'_>,
    profile: &Profile,
    count: usize,
    temperature: Temperature,
) -> Result<Vec<Trial>, HarnessError> {
    let chains = chains().into_iter().take(count.min(CHAINS));
    chains
        .map(|chain| one(harness, profile, &chain, temperature))
        .collect()
}

fn one(
    harness: &mut Harness<'_>,
    profile: &Profile,
    chain: &[usize],
    temperature: Temperature,
) -> Result<Trial, HarnessError> {
    let names = chain.iter().map(|kind| match KINDS[*kind] {
        // A step without state is a rotation and an addition.
        (0, steps) => format!("0/{}", 2 * steps),
        (state, instr) => format!("{state}/{instr}"),
    });
    let names: Vec<String> = names.collect();
    let name = names.join(",");
    let planned = parse(&name).and_then(|members| plan(&members, profile, temperature));
    let planned = shape(&planned.expect("the chain is one of synthetic functions"));
    let mut shapes = Vec::new();
    for loops in compositions(chain.len()) {
        // Strips of one loop are the loop.
        let strips = if loops.len() > 1 { 2 } else { 1 };
        shapes.extend(
            [false, true]
                .map(|it| (loops.clone(), it))
                .into_iter()
                .take(strips),
        );
    }
    let ways = shapes.iter().map(|shape| way(chain, shape));
    let ways = ways.collect::<Result<Vec<Way>, HarnessError>>()?;
    let times = harness.compare(&ways, temperature);
    let timed = shapes.into_iter().zip(times);
    let timed: Vec<Timed> = timed
        .map(|((loops, in_strips), time)| Timed {
            loops,
            in_strips,
            ns: time.min,
        })
        .collect();
    let is_planned = |it: &&Timed| (&it.loops, it.in_strips) == (&planned.0, planned.1);
    let chosen = timed.iter().find(is_planned);
    let fastest = timed.iter().min_by(|a, b| a.ns.total_cmp(&b.ns));
    Ok(Trial {
        chain: name,
        temperature,
        ways: timed.len(),
        planned: chosen.expect("all ways are measured").clone(),
        fastest: fastest.expect("a chain has a way").clone(),
    })
}

/// Functions of each loop, and whether they run in strips.
fn shape(plan: &Plan) -> (Vec<usize>, bool) {
    let loops = plan.groups.iter().map(|group| group.stages.len());
    (loops.collect(), plan.strip.is_some())
}

/// The ways to cut a chain of `count` functions into loops.
fn compositions(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 1..=count {
        for rest in compositions(count - first) {
            all.push([vec![first], rest].concat());
        }
    }
    all
}

fn way(chain: &[usize], (loops, in_strips): &(Vec<usize>, bool)) -> Result<Way, HarnessError> {
    let mut rest = chain;
    let mut found = Vec::new();
    for count in loops {
        let (part, after) = rest.split_at(*count);
        rest = after;
        let functions = part
            .iter()
            .map(|kind| Synthetic::new(KINDS[*kind].0, KINDS[*kind].1));
        let functions: Vec<Synthetic> = functions.flatten().collect();
        let (state, instr) = KINDS[part[0]];
        let one = of_part(part).ok_or(HarnessError::NoLoop(*count, state, instr))?;
        if !is_right(one, &functions) {
            return Err(HarnessError::InvalidBenchmark {
                functions: *count,
                state,
                instr,
            });
        }
        found.push(one);
    }
    Ok(Way {
        loops: found,
        strip: in_strips.then_some(STRIP / 4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock by which every run takes the same time: whatever is planned is as fast as the fastest way.
    #[test]
    fn each_chain_has_all_its_ways_and_the_planned_one_is_among_them() {
        let mut time = 0;
        let mut clock = || {
            time += 1_000;
            time
        };
        let mut harness = Harness::new(&mut clock, 1 << 12);
        for temperature in [Temperature::Warm, Temperature::Cold] {
            let trials = run(&mut harness, &Profile::ss2(), 12, temperature).unwrap();
            assert_eq!(trials.len(), 12);
            for trial in trials {
                let functions = trial.chain.split(',').count();
                assert_eq!(trial.ways, (1 << functions) - 1, "{trial:?}");
                assert_eq!(trial.planned.loops.iter().sum::<usize>(), functions);
                assert!(
                    temperature == Temperature::Cold || trial.is_right(),
                    "{trial:?}"
                );
            }
        }
    }

    #[test]
    fn the_chains_are_as_many_and_as_long_as_they_should_be() {
        let chains = chains();
        assert_eq!(chains.len(), CHAINS);
        for length in 2..=4 {
            let count = chains.iter().filter(|it| it.len() == length).count();
            assert!(count > 20, "{length}: {count}");
        }
        // All loops are there, and right.
        for chain in &chains {
            for loops in compositions(chain.len()) {
                way(chain, &(loops, false)).unwrap();
            }
        }
    }
}
