//! The profile of a machine, fitted to loops that run on it.

use serde::{Deserialize, Serialize};

use crate::generator::points;
use crate::harness::{Harness, HarnessError, Loop, of_grid, verify};
use crate::pipeline::STRIP;
use crate::profile::{Function, Profile, Temperature, Window};

/// A measured point of the experiments E1 to E3, in ns an octet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Functions.
    pub functions: usize,
    /// Words of state of each.
    pub state: usize,
    /// Instructions of each.
    pub instr: usize,
    /// Whether the buffers were in the cache.
    pub temperature: Temperature,
    /// One loop each.
    pub sequential_ns: f64,
    /// One loop for all.
    pub fused_ns: f64,
    /// One loop each in strips; null where the buffers were warm.
    pub strip_ns: Option<f64>,
}

/// Runs every loop of the program, warm and cold.
///
/// # Errors
///
/// A loop computes something else, or the machine is too busy.
pub fn measure(harness: &mut Harness<'_>) -> Result<Vec<Point>, HarnessError> {
    let mut measured = Vec::new();
    for (functions, state, instr, cold) in points() {
        let find = |n: usize| {
            verify(n, state, instr)?;
            of_grid(n, state, instr).ok_or(HarnessError::NoLoop(n, state, instr))
        };
        let (one, fused) = (find(1)?, find(functions)?);
        let apart: Vec<Loop> = vec![one; functions];
        for temperature in [Temperature::Warm, Temperature::Cold] {
            if temperature == Temperature::Cold && !cold {
                continue;
            }
            let strip = match temperature {
                Temperature::Warm => None,
                Temperature::Cold => Some(harness.time_strips(&apart, STRIP / 4).median),
            };
            measured.push(Point {
                functions,
                state,
                instr,
                temperature,
                sequential_ns: harness.time(&apart, temperature)?.median,
                fused_ns: harness.time(&[fused], temperature)?.median,
                strip_ns: strip,
            });
        }
    }
    Ok(measured)
}

/// A profile and how well it predicts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fit {
    /// The constants.
    pub profile: Profile,
    /// Median of how far predictions are off, as a share.
    pub median_error: f64,
    /// A tenth of the predictions is off by more.
    pub p90_error: f64,
    /// Share of the points at which the way that is predicted to be faster takes at most 10 % more than the faster one.
    pub right: f64,
}

fn of(point: &Point) -> Vec<Function> {
    vec![Function::synthetic(point.state as u32, point.instr as u32); point.functions]
}

/// Predicted and measured times of a point.
fn pairs(profile: &Profile, point: &Point) -> [(f64, f64); 2] {
    let functions = of(point);
    let alone = profile.sequential(&functions, point.temperature);
    let fused = profile.fused(&functions, point.temperature);
    [(alone, point.sequential_ns), (fused, point.fused_ns)]
}

fn loss(profile: &Profile, points: &[Point]) -> f64 {
    let off = points.iter().flat_map(|point| pairs(profile, point));
    // Noise spoils single points: what is far off counts as its distance, not its square.
    off.map(|(told, here)| (told / here).ln().abs().min(2.0))
        .sum()
}

/// Fits the constants of the model to measured points, by one constant after another.
#[must_use]
pub fn fit(name: &str, points: &[Point]) -> Fit {
    let mut best = Profile {
        name: name.to_owned(),
        registers: 12,
        spill: 1.0,
        window: Some(Window {
            instr: 250.0,
            at_once: 3.0,
            cold_spill: 0.5,
        }),
        ..Profile::conservative()
    };
    let mut least = loss(&best, points);
    let steps = [1.6, 1.25, 1.1, 1.04];
    for step in steps {
        loop {
            let before = least;
            for constant in 0..CONSTANTS {
                for factor in [step, 1.0 / step] {
                    while let Some(next) = moved(&best, constant, factor) {
                        let now = loss(&next, points);
                        if now >= least - 1e-9 {
                            break;
                        }
                        (best, least) = (next, now);
                    }
                }
            }
            if before - least < 1e-3 {
                break;
            }
        }
    }
    let mut off: Vec<f64> = points
        .iter()
        .flat_map(|point| pairs(&best, point))
        .map(|(told, here)| (told / here - 1.0).abs())
        .collect();
    off.sort_by(f64::total_cmp);
    let right = points.iter().filter(|point| {
        let [alone, fused] = pairs(&best, point);
        let chosen = if alone.0 < fused.0 { alone.1 } else { fused.1 };
        chosen <= 1.1 * alone.1.min(fused.1)
    });
    let share = right.count() as f64 / points.len().max(1) as f64;
    let at = |part: f64| off.get((off.len() as f64 * part) as usize).copied();
    Fit {
        profile: best,
        median_error: at(0.5).unwrap_or(0.0),
        p90_error: at(0.9).unwrap_or(0.0),
        right: share,
    }
}

/// Constants that are fitted.
const CONSTANTS: usize = 10;

/// The profile with one constant changed; none where that leaves its range.
fn moved(profile: &Profile, constant: usize, factor: f64) -> Option<Profile> {
    let mut next = profile.clone();
    let mut window = next.window?;
    match constant {
        0 => next.cycle_ns *= factor,
        1 => next.load *= factor,
        2 => next.store *= factor,
        3 => next.spill *= factor,
        4 => {
            let up = u32::from(factor > 1.0) * 2;
            next.registers = (next.registers + up).checked_sub(1)?;
        }
        5 => window.instr *= factor,
        6 => window.at_once *= factor,
        7 => window.cold_spill *= factor,
        8 => next.cold_alone.fixed *= factor,
        _ => next.cold_fused.fixed *= factor,
    }
    next.window = Some(window);
    let small = next.registers < 2 || window.at_once < 1.0 || window.instr < 8.0;
    let large = next.registers > 64 || window.at_once > 8.0 || window.instr > 4_096.0;
    (!small && !large).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_the_model_is_found_again() {
        let machine = Profile {
            cycle_ns: 0.3,
            load: 0.7,
            store: 0.9,
            round: 0.5,
            residual: 0.0,
            spill: 2.4,
            registers: 13,
            window: Some(Window {
                instr: 180.0,
                at_once: 3.4,
                cold_spill: 2.0,
            }),
            ..Profile::hp()
        };
        let measured = points()
            .into_iter()
            .flat_map(|(functions, state, instr, _)| {
                [Temperature::Warm, Temperature::Cold].map(|temperature| {
                    let mut point = Point {
                        functions,
                        state,
                        instr,
                        temperature,
                        sequential_ns: 0.0,
                        fused_ns: 0.0,
                        strip_ns: None,
                    };
                    point.sequential_ns = machine.sequential(&of(&point), temperature);
                    point.fused_ns = machine.fused(&of(&point), temperature);
                    point
                })
            });
        let measured: Vec<Point> = measured.collect();
        let fit = fit("again", &measured);
        assert!(fit.right >= 0.9 && fit.median_error < 0.1, "{fit:?}");
        assert_eq!(fit.profile.check(), Ok(()));
        let registers = fit.profile.registers;
        assert!((11..=15).contains(&registers), "{fit:?}");
    }
}
