//! What a machine takes for loads, stores, loops and spilled words (specs/ilp-hazards.md 2.4).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The stage that a fused loop of measured stages begins with: loads and stores.
pub(crate) const COPY: &str = "copy";

/// Bytes of the name of a machine or stage at most.
const LONGEST_NAME: usize = 64;
/// The least of constants that divide.
const LEAST: f64 = 1e-6;
/// The most of any constant: sums of products of them are finite.
const MOST: f64 = 1e6;

/// Cycles that cold buffers add to each pass and word.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cold {
    /// Whatever the loop does.
    pub fixed: f64,
    /// More where there is little to schedule: this at 4 instructions, falling with the instructions of the loop.
    #[serde(default)]
    pub little: f64,
}

impl Cold {
    /// Cycles a pass and word of a loop with `instr` instructions.
    fn cycles(self, instr: f64) -> f64 {
        self.fixed + self.little * (-(instr - 4.0) / 20.0).exp()
    }
}

/// What out-of-order machines add to the model (specs/ilp-hazards.md 8).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Instructions that a machine has in flight. The instructions of a block are one chain; as many chains run beside one
    /// another as blocks are in the window.
    pub instr: f64,
    /// Most instructions in a cycle, however many blocks there are.
    pub at_once: f64,
    /// Cycles that a spilled word adds where the buffers are cold.
    #[serde(default)]
    pub cold_spill: f64,
}

/// What a stage of the library takes on a machine, measured with warm buffers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTime {
    /// Its name.
    pub name: String,
    /// A loop of its own, in ns an octet: that of a library, if there is one.
    pub alone: f64,
    /// What it adds to a fused loop, in ns an octet; of `copy` the loop itself, with its loads and stores.
    pub fused: f64,
}

/// Constants of a machine. Cycles are for a word of four octets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name of the machine.
    pub name: String,
    /// Time of a cycle, in ns.
    pub cycle_ns: f64,
    /// A load from the cache.
    pub load: f64,
    /// A store.
    pub store: f64,
    /// The rest of a loop.
    pub round: f64,
    /// More of a pass of a loop of one stage, with cold buffers.
    pub cold_alone: Cold,
    /// More of a pass of a fused loop, with cold buffers.
    pub cold_fused: Cold,
    /// Once, whatever runs.
    pub residual: f64,
    /// A word of state that has no register.
    pub spill: f64,
    /// Words of state that have one.
    pub registers: u32,
    /// Of an out-of-order machine.
    #[serde(default)]
    pub window: Option<Window>,
    /// Stages of the library, measured. The model predicts the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTime>,
}

impl Profile {
    /// SPARCstation 2 of 1990: 40 MHz, one cache for code and data.
    #[must_use]
    pub fn ss2() -> Profile {
        let cold = Cold {
            fixed: 7.0,
            little: 0.0,
        };
        Profile {
            name: "ss2".to_owned(),
            cycle_ns: 25.0,
            load: 2.0,
            store: 4.7,
            round: 4.1,
            cold_alone: cold,
            cold_fused: cold,
            residual: 6.4,
            spill: 5.0,
            registers: 6,
            window: None,
            stages: Vec::new(),
        }
    }

    /// HP 9000/735 of 1992: 99 MHz.
    #[must_use]
    pub fn hp() -> Profile {
        Profile {
            name: "hp".to_owned(),
            cycle_ns: 10.1,
            load: 1.0,
            store: 1.0,
            round: 2.0,
            cold_alone: Cold {
                fixed: 3.3,
                little: 2.7,
            },
            cold_fused: Cold {
                fixed: 4.8,
                little: 0.0,
            },
            residual: 1.5,
            spill: 1.2,
            registers: 15,
            window: None,
            stages: Vec::new(),
        }
    }

    /// Where nothing is known of the machine: few registers, and a high price of going without.
    #[must_use]
    pub fn conservative() -> Profile {
        let cold = Cold {
            fixed: 1.0,
            little: 0.0,
        };
        Profile {
            name: "conservative".to_owned(),
            cycle_ns: 0.33,
            load: 0.5,
            store: 1.0,
            round: 0.5,
            cold_alone: cold,
            cold_fused: cold,
            residual: 0.0,
            spill: 5.0,
            registers: 8,
            window: None,
            stages: Vec::new(),
        }
    }

    /// The machines of the program by name.
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        match name {
            "ss2" => Some(Profile::ss2()),
            "hp" => Some(Profile::hp()),
            "conservative" => Some(Profile::conservative()),
            _ => None,
        }
    }

    /// Whether the constants can be those of a machine.
    ///
    /// # Errors
    ///
    /// The field that is out of range, and its range; a stage that is listed twice; a name with control characters.
    pub fn check(&self) -> Result<(), String> {
        let names = self.stages.iter().map(|stage| &stage.name);
        for name in std::iter::once(&self.name).chain(names.clone()) {
            if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
                return Err(format!(
                    "name must have 1 to {LONGEST_NAME} bytes without control characters"
                ));
            }
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = names.into_iter().find(|name| !known.insert(name.as_str())) {
            return Err(format!("stages has {twice} twice"));
        }
        let window = self.window.unwrap_or(Window {
            instr: 1.0,
            at_once: 1.0,
            cold_spill: 0.0,
        });
        let fields = [
            ("cycle_ns", self.cycle_ns, LEAST),
            ("load", self.load, 0.0),
            ("store", self.store, 0.0),
            ("round", self.round, 0.0),
            ("cold_alone.fixed", self.cold_alone.fixed, 0.0),
            ("cold_alone.little", self.cold_alone.little, 0.0),
            ("cold_fused.fixed", self.cold_fused.fixed, 0.0),
            ("cold_fused.little", self.cold_fused.little, 0.0),
            ("residual", self.residual, 0.0),
            ("spill", self.spill, 0.0),
            ("window.instr", window.instr, LEAST),
            ("window.at_once", window.at_once, 1.0),
            ("window.cold_spill", window.cold_spill, 0.0),
        ];
        let stages = self.stages.iter().flat_map(|stage| {
            [
                ("stages.alone", stage.alone, 0.0),
                ("stages.fused", stage.fused, 0.0),
            ]
        });
        let out = |&(_, value, least): &(_, f64, f64)| !(least..=MOST).contains(&value);
        match fields.into_iter().chain(stages).find(out) {
            Some((name, _, least)) => Err(format!("{name} must be from {least} to {MOST}")),
            None => Ok(()),
        }
    }

    /// Cycles of loading, storing and going round once.
    #[must_use]
    pub fn pass(&self) -> f64 {
        self.load + self.store + self.round
    }

    /// The state of a function above which adding it to a fused loop costs more than a loop of its own, once registers
    /// are used up.
    #[must_use]
    pub fn break_even_state(&self) -> f64 {
        self.pass() / self.spill
    }
}

/// Whether the buffers of a loop are in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Temperature {
    /// They are.
    #[default]
    Warm,
    /// They are not, and are not between two loops either.
    Cold,
}

/// A data manipulation as the model sees it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Words of state.
    pub state: u32,
    /// Arithmetic instructions a word.
    pub instr: f64,
    /// Whether it writes.
    pub writes: bool,
}

impl Function {
    /// One of the paper's, which all write.
    #[must_use]
    pub fn synthetic(state: u32, instr: u32) -> Function {
        Function {
            state,
            instr: f64::from(instr),
            writes: true,
        }
    }
}

impl Profile {
    /// Cycles a word of one loop with these functions, without what is needed once.
    fn body(&self, functions: &[Function], temperature: Temperature, fused: bool) -> Loop {
        let instr: f64 = functions.iter().map(|it| it.instr).sum();
        let state: u32 = functions.iter().map(|it| it.state).sum();
        let spilled = state.saturating_sub(self.registers);
        let cold = self.cold(instr, temperature, fused);
        let surcharge = match (temperature, &self.window) {
            (Temperature::Cold, Some(window)) => window.cold_spill,
            _ => 0.0,
        };
        Loop {
            instr: self.instructions(instr),
            spill: (self.spill + surcharge) * f64::from(spilled),
            pass: self.load + self.round + cold,
            spilled,
        }
    }

    /// Cycles that cold buffers add to a pass of a loop with `instr` instructions.
    fn cold(&self, instr: f64, temperature: Temperature, fused: bool) -> f64 {
        match (temperature, fused) {
            (Temperature::Warm, _) => 0.0,
            (Temperature::Cold, true) => self.cold_fused.cycles(instr),
            (Temperature::Cold, false) => self.cold_alone.cycles(instr),
        }
    }

    /// What is measured of a stage.
    #[must_use]
    pub fn stage(&self, name: &str) -> Option<&StageTime> {
        self.stages.iter().find(|it| it.name == name)
    }

    /// Time of one loop of measured stages, in ns an octet, without what is needed once. `unit` is the words after which the
    /// state of one stage gives way to that of the next.
    pub(crate) fn measured(
        &self,
        stages: &[(Function, &StageTime)],
        unit: usize,
        temperature: Temperature,
    ) -> Option<f64> {
        let instr = stages.iter().map(|(function, _)| function.instr).sum();
        if let [(_, only)] = stages {
            return Some(only.alone + self.ns(self.cold(instr, temperature, false)));
        }
        let spilled = |state: u32| state.saturating_sub(self.registers);
        let state = stages.iter().map(|(function, _)| function.state).sum();
        // What a stage spills alone is in its measured time.
        let own: u32 = stages.iter().map(|(it, _)| spilled(it.state)).sum();
        let more = f64::from(spilled(state).saturating_sub(own)) * self.spill / unit as f64;
        let added = stages.iter().filter(|(_, it)| it.name != COPY);
        let added: f64 = added.map(|(_, it)| it.fused).sum();
        let cycles = more + self.cold(instr, temperature, true);
        Some(self.stage(COPY)?.fused + added + self.ns(cycles))
    }

    /// Cycles of `instr` instructions of one block. Blocks overlap while more than one is in the window.
    fn instructions(&self, instr: f64) -> f64 {
        match self.window {
            Some(window) if instr > 0.0 => {
                instr / (window.instr / instr).clamp(1.0, window.at_once)
            }
            _ => instr,
        }
    }

    /// Time of one loop for each function, in ns an octet.
    #[must_use]
    pub fn sequential(&self, functions: &[Function], temperature: Temperature) -> f64 {
        let loops = functions.iter().map(|function| {
            let one = self.body(std::slice::from_ref(function), temperature, false);
            one.cycles() + f64::from(u8::from(function.writes)) * self.store
        });
        self.ns(loops.sum::<f64>() + self.residual)
    }

    /// Time of one fused loop, in ns an octet.
    #[must_use]
    pub fn fused(&self, functions: &[Function], temperature: Temperature) -> f64 {
        let one = self.body(functions, temperature, true);
        let writes = functions.iter().any(|it| it.writes);
        self.ns(one.cycles() + f64::from(u8::from(writes)) * self.store + self.residual)
    }

    /// Words without a register in a fused loop.
    #[must_use]
    pub fn spilled(&self, functions: &[Function]) -> u32 {
        self.body(functions, Temperature::Warm, true).spilled
    }

    /// Cycles a word to ns an octet.
    #[must_use]
    pub fn ns(&self, cycles: f64) -> f64 {
        cycles * self.cycle_ns / 4.0
    }
}

/// Parts of the cycles of a loop.
struct Loop {
    instr: f64,
    spill: f64,
    pass: f64,
    spilled: u32,
}

impl Loop {
    fn cycles(&self) -> f64 {
        self.instr + self.spill + self.pass
    }
}
