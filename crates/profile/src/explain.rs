//! The three levels of a profile, with the formulas that lead from one to the next.

use std::collections::BTreeMap;

use layercast_core::Term;
use serde::Serialize;

use crate::error::ProfileError;
use crate::mapping::{Mapped, Mapping, Unit};
use crate::profile::{Commitment, Direction, Profile, Stream, Wish};
use crate::ratio::Ratio;
use crate::tables::{Codec, EndDelays, Tables};

/// A stream at the three levels.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Levels {
    /// Name of the stream.
    pub stream: String,
    /// Which way it goes.
    pub direction: Direction,
    /// What the user wants, in words.
    pub user: String,
    /// What the application sends for it.
    pub application: String,
    /// What the network carries for it.
    pub network: Network,
    /// What the network is asked for.
    pub contract: Contract,
    /// Where the delay goes.
    pub budget: Budget,
    /// The formulas with their values, from the user to the network.
    pub formulas: Vec<String>,
}

/// What the network carries for a stream.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Network {
    /// Data units of the application per second, N.
    pub per_second: u64,
    /// The data unit of the network.
    pub unit: Unit,
    /// Rates at the three levels.
    #[serde(flatten)]
    pub rates: Mapped,
}

impl std::ops::Deref for Network {
    type Target = Mapped;

    fn deref(&self) -> &Mapped {
        &self.rates
    }
}

/// What the network is asked for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Contract {
    /// Mean rate in bit/s, with all headers.
    pub mean_bps: u64,
    /// Rate of the busiest second in bit/s.
    pub peak_bps: u64,
    /// Delay in the network in milliseconds: the worst that is accepted, and the one that is wanted.
    pub delay_ms: [f64; 2],
    /// Jitter in milliseconds, of streams with a clock: the same.
    pub jitter_ms: Option<[f64; 2]>,
    /// Share of lost data units: the same.
    pub loss: [f64; 2],
    /// Rate that comes in each second, in bit/s: the least that is accepted, and the one that is wanted; null: it varies.
    pub rate_bps: Option<[f64; 2]>,
    /// How firmly it is promised.
    pub commitment: Commitment,
}

impl Contract {
    /// What a monitor holds a receiver's stream to: the worst that is accepted.
    pub fn promise(&self) -> layercast_core::Contract {
        let worst = |[worst, target]: [f64; 2], unit: f64| Term {
            worst: Some(worst / unit),
            target: Some(target / unit),
            ..Term::agreed(worst / unit)
        };
        // Of a rate that varies nothing is too little.
        let rate = self.rate_bps.map_or(Term::agreed(0.0), |it| worst(it, 1.0));
        layercast_core::Contract {
            throughput: Some(Term {
                mean: Some(self.mean_bps as f64),
                peak: Some(self.peak_bps as f64),
                ..rate
            }),
            delay: Some(worst(self.delay_ms, 1e3)),
            jitter: self.jitter_ms.map(|it| worst(it, 1e3)),
            error_rate: Some(worst(self.loss, 1.0)),
        }
    }
}

/// Where the delay of a stream goes: the sum is its bound.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Budget {
    /// Delays inside the ends, in milliseconds.
    #[serde(flatten)]
    pub ends: EndDelays,
    /// What is left for the network, in milliseconds.
    pub network: f64,
    /// The bound, in milliseconds.
    pub bound: f64,
}

impl Profile {
    /// Each stream at the three levels, over data units of the network like `unit`.
    ///
    /// # Errors
    /// A word or codec is not in the tables, a product is beyond 2^64, or the ends alone take longer than the delay bound.
    pub fn explain(&self, tables: &Tables, unit: Unit) -> Result<Vec<Levels>, ProfileError> {
        let levels = self.stream.iter().map(|it| explain(it, tables, unit));
        levels.collect()
    }
}

/// What a wish means for the application.
pub(crate) struct Application {
    /// Data units per second.
    pub per_second: u64,
    /// Octets of a data unit before compression.
    pub user: u64,
    pub codec: Codec,
    /// The wish in words, and how the octets before compression come about.
    pub wish: String,
    pub text: String,
    pub formula: String,
    pub ends: EndDelays,
}

/// Looks a word up in a table; the error lists the words that are there.
fn word<'a, T>(
    stream: &str,
    field: &str,
    table: &'a BTreeMap<String, T>,
    word: &str,
) -> Result<&'a T, ProfileError> {
    table.get(word).ok_or_else(|| {
        let known: Vec<&str> = table.keys().map(String::as_str).collect();
        ProfileError::value(
            stream,
            field,
            format!(
                "{word:?} is not in the tables, which have {}",
                known.join(", ")
            ),
        )
    })
}

/// Octets of `bits`, and the error of a product beyond 2^64.
fn octets(stream: &str, bits: Option<u64>) -> Result<u64, ProfileError> {
    bits.map(|bits| bits.div_ceil(8))
        .ok_or_else(|| ProfileError::value(stream, "S(u)", "beyond 2^64 bits"))
}

pub(crate) fn application(stream: &Stream, tables: &Tables) -> Result<Application, ProfileError> {
    let name = &*stream.name;
    Ok(match &stream.wish {
        Wish::Video {
            size,
            fluency,
            colour,
            codec,
        } => {
            let &(width, height) = word(name, "size", &tables.size, size)?;
            let &rate = word(name, "fluency", &tables.fluency, fluency)?;
            let found = word(name, "codec", &tables.codec.video, codec)?;
            let (bits, tone) = match colour {
                true => (tables.pixel.colour, "in colour"),
                false => (tables.pixel.grey, "in grey"),
            };
            let product = u64::from(width)
                .checked_mul(height.into())
                .and_then(|it| it.checked_mul(bits.into()));
            let user = octets(name, product)?;
            Application {
                per_second: rate.into(),
                user,
                codec: *found,
                wish: format!("{size} pictures {tone}, {fluency} fluency"),
                text: format!("{width}x{height}, {rate} pictures/s, {bits} bit/pixel, {codec}"),
                formula: format!(
                    "S(u) = {width} x {height} x {bits} bit = {user} octets, N = {rate}/s"
                ),
                ends: tables.delay.video,
            }
        }
        Wish::Audio { sound, codec } => {
            let it = word(name, "sound", &tables.sound, sound)?;
            let found = word(name, "codec", &tables.codec.audio, codec)?;
            let product = u64::from(it.rate)
                .checked_mul(it.bits.into())
                .and_then(|all| all.checked_mul(it.channels.into()));
            let user = octets(name, product.map(|all| all.div_ceil(it.packets.into())))?;
            Application {
                per_second: it.packets.into(),
                user,
                codec: *found,
                wish: format!("{sound} sound"),
                text: format!(
                    "{} samples/s of {} bit, {} channel{}, {} packets/s, {codec}",
                    it.rate,
                    it.bits,
                    it.channels,
                    if it.channels == 1 { "" } else { "s" },
                    it.packets
                ),
                formula: format!(
                    "S(u) = {} x {} x {} bit / {} = {user} octets, N = {}/s",
                    it.rate, it.bits, it.channels, it.packets, it.packets
                ),
                ends: tables.delay.audio,
            }
        }
        &Wish::Data { octets, per_second } => Application {
            per_second,
            user: octets,
            codec: Codec {
                factor: Ratio::ONE,
                peak: 1.0,
            },
            wish: "data".into(),
            text: format!("{per_second} units/s of {octets} octets"),
            formula: format!("S(u) = {octets} octets, N = {per_second}/s"),
            ends: tables.delay.data,
        },
    })
}

fn explain(stream: &Stream, tables: &Tables, unit: Unit) -> Result<Levels, ProfileError> {
    let it = application(stream, tables)?;
    let mapping = Mapping {
        per_second: it.per_second,
        user: it.user,
        factor: it.codec.factor,
        unit,
    };
    let rates = mapping.map().map_err(|error| ProfileError::Mapping {
        stream: stream.name.clone(),
        error,
    })?;
    let mean_bps = rates.carried_bps();
    let bound = stream.delay_ms[0];
    let mut ends = it.ends;
    // A buffer that hides the jitter is as long as that.
    ends.playout = ends
        .playout
        .max(stream.jitter_ms.map_or(0.0, |[worst, _]| worst));
    let inside: f64 = ends.terms().iter().map(|(_, ms)| ms).sum();
    let network = bound - inside;
    if network < 0.0 {
        return Err(ProfileError::value(
            &stream.name,
            "delay_ms",
            format!(
                "the ends alone take {inside} ms, more than the bound of {bound} ms: a larger bound, less jitter (its buffer takes {} ms), or quicker ends ([delay] of the tables)",
                ends.playout
            ),
        ));
    }
    let target = (stream.delay_ms[1] - inside).max(0.0);
    let Mapped {
        application_octets,
        units,
        network_bps,
        ..
    } = rates;
    let Unit { payload, size, .. } = unit;
    let mut formulas = vec![
        it.formula,
        format!(
            "S(a) = {} x S(u) = {application_octets} octets, R(a) = N S(a) = {} bit/s",
            it.codec.factor, rates.application_bps
        ),
        format!("nu = ceil({application_octets} / {payload}) = {units}"),
        format!(
            "R(n) = nu N S(n) = {units} x {} x {size} octets = {network_bps} bit/s, each unit full",
            it.per_second
        ),
    ];
    if let Some(exact) = rates.exact_bps {
        formulas.push(format!(
            "the last unit not filled up: N (S(a) + nu {}) = {exact} bit/s",
            size - payload
        ));
    }
    Ok(Levels {
        stream: stream.name.clone(),
        direction: stream.direction,
        user: it.wish,
        application: it.text,
        network: Network {
            per_second: it.per_second,
            unit,
            rates,
        },
        contract: Contract {
            mean_bps,
            // The cast saturates.
            peak_bps: (mean_bps as f64 * it.codec.peak).round() as u64,
            delay_ms: [network, target],
            jitter_ms: stream.jitter_ms,
            loss: stream.loss,
            rate_bps: stream.rate_bps,
            commitment: stream.commitment,
        },
        budget: Budget {
            ends,
            network,
            bound,
        },
        formulas,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PRESETS;

    #[test]
    fn each_preset_has_three_levels_over_cells_and_datagrams() {
        for (name, _) in PRESETS {
            let profile = Profile::preset(name).unwrap();
            for unit in [Unit::CELL, Unit::datagram(1_500)] {
                for levels in profile.explain(&Tables::default(), unit).unwrap() {
                    let (budget, contract) = (levels.budget, levels.contract);
                    let ends: f64 = budget.ends.terms().iter().map(|(_, ms)| ms).sum();
                    assert!((ends + budget.network - budget.bound).abs() < 1e-9);
                    assert!(contract.peak_bps >= contract.mean_bps);
                    assert!(contract.mean_bps > levels.network.application_bps);
                    assert!(contract.delay_ms[1] <= contract.delay_ms[0]);
                }
            }
        }
    }

    #[test]
    fn a_word_that_is_not_in_the_tables_is_named_beside_those_that_are() {
        let text = PRESETS[3].1.replace("size = \"medium\"", "size = \"huge\"");
        let error = Profile::from_toml(&text)
            .unwrap()
            .explain(&Tables::default(), Unit::CELL);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("stream camera, size") && error.contains("medium"),
            "{error}"
        );
    }

    #[test]
    fn a_bound_that_the_ends_use_up_is_refused_with_what_helps() {
        let text = PRESETS[3]
            .1
            .replace("delay_ms = [150, 100]", "delay_ms = [50, 10]");
        let error = Profile::from_toml(&text)
            .unwrap()
            .explain(&Tables::default(), Unit::CELL);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("77 ms, more than the bound of 50 ms"),
            "{error}"
        );
    }
}
