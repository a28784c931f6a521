//! Which stages to fuse: the cheapest way to run a chain, by the model of a machine (specs/ilp-hazards.md 2.8).

use std::ops::Range;

use serde::Serialize;
use thiserror::Error;

use crate::generator::Synthetic;
use crate::pipeline::{STRIP, lcm};
use crate::profile::{Function, Profile, Temperature};
use crate::stage::{MAX_UNIT, Shape};
use crate::stages::find;

/// Words of a strip.
const STRIP_WORDS: f64 = (STRIP / 4) as f64;

/// Manipulations that no loop can be fused with.
pub const WHOLE: &[(&str, &str)] = &[
    ("deflate", "its output is of another length than its input"),
    (
        "header-checksum",
        "its result stands before the data that it is over",
    ),
    (
        "cbc-mac",
        "it needs the length of the message before its first block",
    ),
];

/// A stage of a chain that is planned.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Words of its unit.
    pub words: usize,
    /// What the model needs.
    pub function: Function,
    /// Its name in the library.
    pub library: Option<&'static str>,
    /// Whether a library has a loop of it that the model does not have the time of.
    pub library_loop: bool,
    /// Why it cannot be fused.
    pub whole: Option<&'static str>,
}

/// Why a chain cannot be planned.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// No stage at all.
    #[error("a chain has one stage at least")]
    Empty,
    /// More than 64 stages.
    #[error("a chain has 64 stages at most, not {0}")]
    TooLong(usize),
    /// Nothing between two commas: which stage it would be.
    #[error("stage {0} of the chain is empty: there is a comma too many")]
    Gap(usize),
    /// A part that is no stage.
    #[error("{0} is no stage: write a name of the library, STATE/INSTRUCTIONS such as 2/10, or one of {list}", list = whole())]
    Unknown(String),
    /// STATE/INSTRUCTIONS out of range.
    #[error("{0}: {1}")]
    Parameter(String, String),
}

fn whole() -> String {
    let names: Vec<&str> = WHOLE.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl From<&Shape> for Member {
    fn from(shape: &Shape) -> Member {
        Member {
            name: shape.name.to_owned(),
            words: shape.words,
            function: Function {
                state: shape.state_words as u32,
                instr: f64::from(shape.instr_per_word),
                writes: !shape.reads_only,
            },
            library: Some(shape.name),
            library_loop: shape.library_loop,
            whole: None,
        }
    }
}

/// Reads a chain such as `bswap,chacha20,crc32c` or `2/10,2/10,3/40`.
///
/// # Errors
///
/// The part that is no stage.
pub fn parse(chain: &str) -> Result<Vec<Member>, PlanError> {
    let parts: Vec<&str> = chain.split([',', '+']).map(str::trim).collect();
    if parts.iter().all(|part| part.is_empty()) {
        return Err(PlanError::Empty);
    }
    if let Some(at) = parts.iter().position(|part| part.is_empty()) {
        return Err(PlanError::Gap(at + 1));
    }
    parts.into_iter().map(member).collect()
}

fn member(part: &str) -> Result<Member, PlanError> {
    let name = if part == "xdr" { "bswap" } else { part };
    if let Some(entry) = find(name) {
        let mut member = Member::from(&entry.shape);
        part.clone_into(&mut member.name);
        return Ok(member);
    }
    if let Some((name, why)) = WHOLE.iter().find(|(name, _)| *name == part) {
        return Ok(Member {
            name: (*name).to_owned(),
            words: 1,
            function: Function::synthetic(0, 0),
            library: None,
            library_loop: false,
            whole: Some(why),
        });
    }
    let pair = part.split_once('/');
    let pair = pair.and_then(|(state, instr)| Some((state.parse().ok()?, instr.parse().ok()?)));
    let (state, instr) = pair.ok_or_else(|| PlanError::Unknown(part.to_owned()))?;
    Synthetic::new(state, instr).map_err(|why| PlanError::Parameter(part.to_owned(), why))?;
    Ok(Member {
        name: part.to_owned(),
        words: 1,
        function: Function::synthetic(state as u32, instr as u32),
        library: None,
        library_loop: false,
        whole: None,
    })
}

/// Stages of a plan that run in one loop.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Group {
    /// Their names.
    pub stages: Vec<String>,
    /// Octets of a unit.
    pub unit: usize,
    /// Words of state of them all.
    pub state: u32,
    /// Words of state that have no register.
    pub spilled: u32,
    /// Why no other stage can be in this loop; null if that is a question of cost.
    pub alone: Option<String>,
    /// Predicted time of the loop, in ns an octet; null where the model knows nothing of the stage.
    pub ns_per_octet: Option<f64>,
}

/// The cheapest way to run a chain.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plan {
    /// The loops, from the top.
    pub groups: Vec<Group>,
    /// Octets of the strips that the loops run over in turn; null for loops over the whole ADU.
    pub strip: Option<usize>,
    /// Predicted time, in ns an octet: that of the loops and `once_ns`.
    pub ns_per_octet: f64,
    /// Of it, what is needed once, whatever runs; for strips also fetching the data from memory.
    pub once_ns: f64,
    /// Stages whose loops of their own are those of a library, with vector instructions, and whose times the machine file does
    /// not have: the plan may be wrong.
    pub library_loops: Vec<String>,
    /// That of one loop for each stage.
    pub sequential_ns: f64,
    /// That of one loop for all; null if they cannot be fused.
    pub fused_ns: Option<f64>,
    /// That of one loop for each stage in strips.
    pub strip_ns: f64,
    /// Reads and writes of main memory a word, if the whole ADU is in no cache.
    pub memory_accesses: usize,
    /// Why it is this plan.
    pub reason: String,
}

/// A plan of loops, while it is looked for.
#[derive(Clone)]
struct Best {
    ns: f64,
    cuts: Vec<usize>,
}

/// Plans a chain for a machine.
///
/// # Errors
///
/// No stage, or too many.
pub fn plan(
    members: &[Member],
    profile: &Profile,
    temperature: Temperature,
) -> Result<Plan, PlanError> {
    match members.len() {
        0 => return Err(PlanError::Empty),
        more @ 65.. => return Err(PlanError::TooLong(more)),
        _ => {}
    }
    let planner = Planner {
        members,
        profile,
        temperature,
    };
    let whole = planner.cheapest(false);
    let strips = planner.cheapest(true);
    // Strips of one loop are the loop.
    let in_strips = strips.cuts.len() > 2 && strips.ns < whole.ns;
    let best = if in_strips { &strips } else { &whole };
    let apart: Vec<usize> = (0..=members.len()).collect();
    let sequential_ns = planner.cost(&apart, false);
    let all = [0, members.len()];
    let fused_ns = planner
        .fits(0..members.len())
        .then(|| planner.cost(&all, false));
    let groups: Vec<Group> = best
        .cuts
        .windows(2)
        .map(|cut| planner.group(cut[0]..cut[1], in_strips))
        .collect();
    let passes = if in_strips { 1 } else { groups.len() };
    Ok(Plan {
        reason: planner.reason(&groups, in_strips, sequential_ns, fused_ns),
        strip: in_strips.then_some(STRIP),
        ns_per_octet: best.ns,
        once_ns: planner.once(in_strips),
        library_loops: library_loops(members, profile),
        sequential_ns,
        fused_ns,
        strip_ns: planner.cost(&apart, true),
        memory_accesses: 2 * passes,
        groups,
    })
}

/// The names of the stages with a loop of a library that the profile has no time of, each once.
fn library_loops(members: &[Member], profile: &Profile) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let is_known = |it: &Member| it.library.is_some_and(|name| profile.stage(name).is_some());
    for member in members.iter().filter(|it| it.library_loop && !is_known(it)) {
        if !names.contains(&member.name) {
            names.push(member.name.clone());
        }
    }
    names
}

struct Planner<'a> {
    members: &'a [Member],
    profile: &'a Profile,
    temperature: Temperature,
}

impl Planner<'_> {
    fn functions(&self, of: Range<usize>) -> Vec<Function> {
        self.members[of].iter().map(|it| it.function).collect()
    }

    fn unit(&self, of: Range<usize>) -> usize {
        self.members[of]
            .iter()
            .fold(1, |words, it| lcm(words, it.words))
    }

    /// Whether these stages can be in one loop.
    fn fits(&self, of: Range<usize>) -> bool {
        let whole = self.members[of.clone()].iter().any(|it| it.whole.is_some());
        of.len() == 1 || (!whole && self.unit(of) <= MAX_UNIT)
    }

    /// Time of one loop, in ns an octet, without what is needed once.
    fn one(&self, of: Range<usize>, in_strips: bool) -> f64 {
        if of.len() == 1 && self.members[of.start].whole.is_some() {
            return 0.0;
        }
        let functions = self.functions(of.clone());
        let once = self.profile.ns(self.profile.residual);
        let temperature = match in_strips {
            true => Temperature::Warm,
            false => self.temperature,
        };
        let loops = match (self.measured(of.clone(), temperature), of.len()) {
            (Some(ns), _) => ns + once,
            (None, 1) => self.profile.sequential(&functions, temperature),
            (None, _) => self.profile.fused(&functions, temperature),
        };
        // States are loaded and stored, and a loop begins and ends, for each strip.
        let state: u32 = functions.iter().map(|it| it.state).sum();
        let each = self.profile.ns((f64::from(2 * state) + 20.0) / STRIP_WORDS);
        loops - once + if in_strips { each } else { 0.0 }
    }

    /// Time of one loop, if all its stages are measured.
    fn measured(&self, of: Range<usize>, temperature: Temperature) -> Option<f64> {
        let of_member = |it: &Member| Some((it.function, self.profile.stage(it.library?)?));
        let stages: Option<Vec<_>> = self.members[of.clone()].iter().map(of_member).collect();
        self.profile.measured(&stages?, self.unit(of), temperature)
    }

    /// Time of loops that begin at these stages. Strips come from memory once.
    fn cost(&self, cuts: &[usize], in_strips: bool) -> f64 {
        let loops: f64 = cuts
            .windows(2)
            .map(|cut| self.one(cut[0]..cut[1], in_strips))
            .sum();
        loops + self.once(in_strips)
    }

    fn once(&self, in_strips: bool) -> f64 {
        let first = self.functions(0..1);
        let cold = match (in_strips, self.temperature) {
            (true, Temperature::Cold) => {
                self.profile.sequential(&first, Temperature::Cold)
                    - self.profile.sequential(&first, Temperature::Warm)
            }
            _ => 0.0,
        };
        self.profile.ns(self.profile.residual) + cold
    }

    /// The cheapest way to cut the chain into loops.
    fn cheapest(&self, in_strips: bool) -> Best {
        let mut best = vec![Best {
            ns: self.once(in_strips),
            cuts: vec![0],
        }];
        for end in 1..=self.members.len() {
            let ways = (0..end)
                .filter(|start| self.fits(*start..end))
                .map(|start| {
                    let before = &best[start];
                    (before.ns + self.one(start..end, in_strips), start)
                });
            let (ns, start) = ways
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .expect("a stage alone fits");
            let mut cuts = best[start].cuts.clone();
            cuts.push(end);
            best.push(Best { ns, cuts });
        }
        best.pop().expect("the way to the end")
    }

    fn group(&self, of: Range<usize>, in_strips: bool) -> Group {
        let functions = self.functions(of.clone());
        let only = of.start;
        let alone = self.members[only].whole.filter(|_| of.len() == 1);
        Group {
            stages: self.members[of.clone()]
                .iter()
                .map(|it| it.name.clone())
                .collect(),
            unit: 4 * self.unit(of.clone()),
            state: functions.iter().map(|it| it.state).sum(),
            spilled: self.profile.spilled(&functions),
            alone: alone.map(str::to_owned),
            ns_per_octet: alone.is_none().then(|| self.one(of, in_strips)),
        }
    }

    fn reason(
        &self,
        groups: &[Group],
        in_strips: bool,
        sequential_ns: f64,
        fused_ns: Option<f64>,
    ) -> String {
        let registers = self.profile.registers;
        let all: u32 = self.members.iter().map(|it| it.function.state).sum();
        let instr: f64 = self.members.iter().map(|it| it.function.instr).sum();
        if let Some(member) = self.members.iter().find(|it| it.whole.is_some())
            && self.members.len() > 1
        {
            let why = member.whole.unwrap_or_default();
            return format!("{} cannot be fused: {why}", member.name);
        }
        if groups.len() == 1 {
            return match self.members.len() {
                1 => "one stage is one loop".to_owned(),
                _ => {
                    let saved = sequential_ns - fused_ns.unwrap_or_default();
                    format!(
                        "one loop: the stages carry A={all} words of state, the machine has registers for R={registers}; \
                         one loop for each stage takes {saved:.3} ns an octet more"
                    )
                }
            };
        }
        let mut after = 0;
        let cuts: Vec<String> = groups[..groups.len() - 1]
            .iter()
            .map(|group| {
                after += group.stages.len();
                after.to_string()
            })
            .collect();
        let cuts = format!("split after stage {}", cuts.join(", "));
        let strips = if in_strips { ", in strips" } else { "" };
        let unit = 4 * self.unit(0..self.members.len());
        if fused_ns.is_none() {
            return format!("the unit of all stages would be {unit} octets of 256: {cuts}{strips}");
        }
        match (all > registers, self.profile.window) {
            (true, _) => format!(
                "the stages carry A={all} words of state, and the machine has registers for R={registers}: {cuts}{strips}"
            ),
            (false, Some(window)) if instr > window.instr / window.at_once => format!(
                "a chain of {instr} instructions a word, and {:.0} in flight: {cuts}{strips}",
                window.instr
            ),
            _ => format!("a loop of its own costs less than the fused one: {cuts}{strips}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::StageTime;

    fn planned(chain: &str, profile: &Profile, temperature: Temperature) -> Plan {
        plan(&parse(chain).expect("a chain"), profile, temperature).expect("a plan")
    }

    #[test]
    fn what_fits_the_registers_is_fused() {
        let plan = planned("2/10,2/10,2/10", &Profile::ss2(), Temperature::Warm);
        assert_eq!(plan.groups.len(), 1);
        assert_eq!(Some(plan.ns_per_octet), plan.fused_ns);
        assert_eq!(plan.memory_accesses, 2);
    }

    #[test]
    fn a_state_that_fits_no_register_is_split_off() {
        let plan = planned("5/10,5/10,1/10", &Profile::ss2(), Temperature::Warm);
        let loops: Vec<usize> = plan.groups.iter().map(|it| it.stages.len()).collect();
        assert_eq!(loops, [1, 2], "{plan:?}");
        assert!(
            plan.reason.contains("A=11 words of state")
                && plan.reason.ends_with("R=6: split after stage 1"),
            "{}",
            plan.reason
        );
        assert!(plan.ns_per_octet < plan.sequential_ns);
        assert!(Some(plan.ns_per_octet) < plan.fused_ns);
    }

    #[test]
    fn cold_loops_run_in_strips_where_they_cannot_be_fused() {
        let plan = planned("6/10,6/10,6/10", &Profile::ss2(), Temperature::Cold);
        assert_eq!(
            (plan.strip, plan.groups.len(), plan.memory_accesses),
            (Some(1_024), 3, 2)
        );
        assert!((plan.ns_per_octet - plan.strip_ns).abs() < 1e-9);
    }

    #[test]
    fn the_loops_and_what_is_needed_once_add_up() {
        for chain in ["2/10,2/10,2/10", "6/10,6/10,6/10", "bswap,deflate,checksum"] {
            for temperature in [Temperature::Warm, Temperature::Cold] {
                let plan = planned(chain, &Profile::ss2(), temperature);
                let loops: f64 = plan.groups.iter().filter_map(|it| it.ns_per_octet).sum();
                assert!(
                    (loops + plan.once_ns - plan.ns_per_octet).abs() < 1e-9,
                    "{plan:?}"
                );
                assert!(plan.once_ns > 0.0, "{plan:?}");
            }
        }
        // What is said to be saved is the difference of the two times beside it.
        let plan = planned("2/10,2/10,2/10", &Profile::ss2(), Temperature::Warm);
        let saved = format!(
            "takes {:.3} ns an octet more",
            plan.sequential_ns - plan.ns_per_octet
        );
        assert!(plan.reason.ends_with(&saved), "{}", plan.reason);
    }

    #[test]
    fn stages_that_the_model_does_not_know_the_loops_of_are_named() {
        let plan = planned(
            "copy,crc32c,aes-ctr,crc32c",
            &Profile::hp(),
            Temperature::Warm,
        );
        assert_eq!(plan.library_loops, ["crc32c", "aes-ctr"]);
        let plan = planned("bswap,pes,checksum,2/10", &Profile::hp(), Temperature::Warm);
        assert!(plan.library_loops.is_empty(), "{plan:?}");
    }

    #[test]
    fn measured_stages_are_planned_by_their_times() {
        let time = |name: &str, alone: f64, fused: f64| StageTime {
            name: name.to_owned(),
            alone,
            fused,
        };
        let mut machine = Profile::conservative();
        let (alone, fused) = ([0.1, 0.2, 0.05, 0.4], [0.3, 0.1, 0.9, 0.2]);
        machine.stages = ["copy", "bswap", "crc32c", "checksum"]
            .into_iter()
            .zip(alone.into_iter().zip(fused))
            .map(|(name, (alone, fused))| time(name, alone, fused))
            .collect();
        assert_eq!(machine.check(), Ok(()));
        // The loop of a library alone takes a ninth of what it adds to a fused loop.
        let plan = planned("bswap,checksum,crc32c", &machine, Temperature::Warm);
        let loops: Vec<usize> = plan.groups.iter().map(|it| it.stages.len()).collect();
        assert_eq!(loops, [2, 1], "{plan:?}");
        assert!(plan.library_loops.is_empty(), "{plan:?}");
        assert!((plan.sequential_ns - 0.65).abs() < 1e-9, "{plan:?}");
        assert!((plan.ns_per_octet - (0.3 + 0.1 + 0.2 + 0.05)).abs() < 1e-9);
        let all = plan.fused_ns.expect("one loop is possible");
        assert!((all - 1.5).abs() < 1e-9, "{plan:?}");
        // A stage without a time is predicted by the model, and the loop with it.
        let plan = planned("bswap,aes-ctr", &machine, Temperature::Warm);
        assert_eq!(plan.library_loops, ["aes-ctr"]);
        machine.stages[1].alone = f64::NAN;
        let error = machine.check().expect_err("no number");
        assert_eq!(error, "stages.alone must be from 0 to 1000000");
        machine.stages[1].alone = 1e308;
        machine.check().expect_err("absurd");
        machine.stages[1] = machine.stages[0].clone();
        assert_eq!(machine.check(), Err("stages has copy twice".to_owned()));
        machine.stages.clear();
        machine.name = "\u{1b}[31m".to_owned();
        machine.check().expect_err("a sequence for terminals");
    }

    #[test]
    fn a_stage_over_the_whole_message_is_never_fused() {
        let plan = planned("bswap,deflate,checksum", &Profile::hp(), Temperature::Warm);
        assert_eq!(plan.groups.len(), 3);
        assert_eq!(plan.groups[1].ns_per_octet, None);
        assert_eq!(plan.fused_ns, None);
        assert!(plan.reason.contains("another length"), "{}", plan.reason);
    }

    #[test]
    fn what_is_no_chain_is_refused() {
        assert_eq!(parse(" , "), Err(PlanError::Empty));
        assert_eq!(parse("bswap,,crc32c"), Err(PlanError::Gap(2)));
        assert_eq!(parse("bswap,crc32c,"), Err(PlanError::Gap(3)));
        assert_eq!(
            parse("copy,rot13"),
            Err(PlanError::Unknown("rot13".to_owned()))
        );
        for bad in ["2/0", "65/99", "1/401"] {
            assert!(matches!(parse(bad), Err(PlanError::Parameter(..))), "{bad}");
        }
        let many = parse(&["copy"; 65].join(",")).expect("stages");
        let refused = plan(&many, &Profile::ss2(), Temperature::Warm);
        assert_eq!(refused, Err(PlanError::TooLong(65)));
    }

    #[test]
    fn no_other_way_is_cheaper_than_the_plan() {
        let states = [1, 7, 3, 0, 5];
        let members: Vec<Member> = states
            .iter()
            .map(|state| member(&format!("{state}/12")).expect("a stage"))
            .collect();
        for temperature in [Temperature::Warm, Temperature::Cold] {
            let profile = Profile::ss2();
            let found = plan(&members, &profile, temperature).expect("a plan");
            let planner = Planner {
                members: &members,
                profile: &profile,
                temperature,
            };
            for ways in 0..1 << (states.len() - 1) {
                let mut cuts = vec![0];
                cuts.extend((1..states.len()).filter(|at| ways >> (at - 1) & 1 == 1));
                cuts.push(states.len());
                for in_strips in [false, true] {
                    assert!(planner.cost(&cuts, in_strips) >= found.ns_per_octet - 1e-9);
                }
            }
        }
    }
}
