//! The tree of a scenario, its links, hosts and codes, with every field checked on the way.

use layercast_core::Span;
use layercast_fec::EncoderConfig;

use super::schema::{BranchSpec, CodeSpec, GroupHostSpec, GroupScenario};
use crate::group::{Branch, Costs, EdgeSpec, HostSpec, LinkSpec, Loss, count};
use crate::internet::scenario::{Problem, ScenarioError, check_title, unknown};
use crate::scenario::units::Quantity;

/// Nodes and receivers at most.
const MOST_NODES: u64 = 4_000_000;
/// How long a packet can be recovered by a code after it was sent.
const HOLD: Span = Span::from_secs(2);
/// Longest delay, cost or wait of a scenario.
const MOST_WAIT: Span = Span::from_secs(600);

impl GroupScenario {
    /// Its branches, each after what it hangs on.
    pub(super) fn tree(&self) -> Result<Vec<Branch>, ScenarioError> {
        let mut branches: Vec<Branch> = Vec::new();
        for (i, spec) in self.branches.iter().enumerate() {
            let at = |name: &str| format!("branch[{i}].{name}");
            check_title(&at("name"), &spec.name)?;
            if let Some(first) = branches.iter().position(|it| it.name == spec.name) {
                let problem = Problem::Duplicate {
                    what: "the branch",
                    name: spec.name.clone(),
                    first: format!("branch[{first}]"),
                };
                return Err(ScenarioError::new(at("name"), problem));
            }
            let parent = match &spec.parent {
                None => None,
                Some(name) => {
                    let names = branches.iter().map(|it| it.name.as_str());
                    let found = branches.iter().position(|it| it.name == *name);
                    // One that comes later in the file would let branches hang on each other.
                    let missing = || unknown(&at("parent"), "branch above", name, names);
                    Some(found.ok_or_else(missing)?)
                }
            };
            let last = !self
                .branches
                .iter()
                .any(|it| it.parent.as_ref() == Some(&spec.name));
            let host = host(&at("host"), &spec.host)?;
            branches.push(Branch {
                name: spec.name.clone(),
                parent,
                link: link(spec, &at)?,
                count: spec.count,
                region: self.region(&spec.name),
                receiver: (last || spec.receiver).then_some(host),
                aggregates: spec.aggregator && !last,
            });
            let nodes = count(&branches);
            if nodes > MOST_NODES {
                let problem = Problem::TooMany {
                    what: "nodes",
                    count: nodes,
                    most: MOST_NODES,
                };
                return Err(ScenarioError::new(at("count"), problem));
            }
        }
        Ok(branches)
    }

    /// The code of a branch, from 1.
    fn region(&self, name: &str) -> u16 {
        let protects = |code: &CodeSpec| code.branches.iter().any(|it| it == name);
        let place = self.codes.iter().position(protects);
        place.map_or(0, |place| place as u16 + 1)
    }

    /// Its codes, that of region 1 first.
    pub(super) fn edges(&self) -> Result<Vec<EdgeSpec>, ScenarioError> {
        let mut edges = Vec::new();
        let mut protected: Vec<&str> = Vec::new();
        for (i, code) in self.codes.iter().enumerate() {
            let at = |name: &str| format!("fec[{i}].{name}");
            if code.branches.is_empty() {
                let problem = Problem::Missing("name the branches that it protects".to_owned());
                return Err(ScenarioError::new(at("branches"), problem));
            }
            for (k, name) in code.branches.iter().enumerate() {
                let field = format!("fec[{i}].branches[{k}]");
                let mut names = self.branches.iter().map(|it| it.name.as_str());
                if !names.clone().any(|it| it == name) {
                    return Err(unknown(&field, "branch", name, &mut names));
                }
                if protected.contains(&name.as_str()) {
                    let accepted = "a branch that no other code protects";
                    return Err(ScenarioError::value(field, format!("{name:?}"), accepted));
                }
                protected.push(name);
            }
            check_wait(at("flush"), code.flush.0)?;
            let encoder = EncoderConfig {
                scheme: code.scheme,
                n: code.n,
                m: code.m,
                mtu: 4_096,
                flush: code.flush.0,
                interleave: code.interleave,
                keep: 0,
            };
            if let Err(error) = encoder.most_payload(&*code.scheme.code()) {
                let problem = Problem::Config(error.to_string());
                return Err(ScenarioError::new(at("n"), problem));
            }
            edges.push(EdgeSpec {
                encoder,
                hold: HOLD,
            });
        }
        Ok(edges)
    }
}

/// A time that is spent again and again: sums of such times stay far from the end of time.
pub(super) fn check_wait(field: impl ToString, time: Span) -> Result<(), ScenarioError> {
    match time <= MOST_WAIT {
        true => Ok(()),
        false => Err(ScenarioError::value(field, time.write(), "at most 10min")),
    }
}

fn link(spec: &BranchSpec, at: &dyn Fn(&str) -> String) -> Result<LinkSpec, ScenarioError> {
    for (name, value) in [("loss", spec.loss), ("back_loss", spec.back_loss)] {
        if !(0.0..1.0).contains(&value) {
            let accepted = "a probability from 0, below 1: no receiver is reachable through a link that loses all";
            return Err(ScenarioError::value(at(name), value, accepted));
        }
    }
    if spec.cells && spec.burst.is_some() {
        let why = "bursts are of packets, not of cells".to_owned();
        return Err(ScenarioError::new(at("burst"), Problem::Needless(why)));
    }
    if spec.hops > 64 {
        return Err(ScenarioError::value(at("hops"), spec.hops, "0 to 64"));
    }
    let loss = match spec.burst {
        None => Loss::Independent(spec.loss),
        Some(mean) => {
            // More often than always no good state can be left.
            let least = (spec.loss / (1.0 - spec.loss)).max(1.0);
            if !(mean >= least && mean <= 1e6) {
                let accepted = format!("packets from {least} on, at most 10^6");
                return Err(ScenarioError::value(at("burst"), mean, accepted));
            }
            Loss::Bursts {
                loss: spec.loss,
                mean,
            }
        }
    };
    check_wait(at("delay"), spec.delay.0)?;
    let least = spec.delay.0;
    let most = spec.delay_to.map_or(least, |it| it.0);
    if most < least || most > MOST_WAIT {
        let accepted = "no less than delay, at most 10min";
        return Err(ScenarioError::value(at("delay_to"), most.write(), accepted));
    }
    if spec.rate.is_some_and(|rate| rate.0.as_bps() == 0) {
        return Err(ScenarioError::value(at("rate"), "0", "more than 0 bit/s"));
    }
    Ok(LinkSpec {
        loss,
        back_loss: spec.back_loss,
        cells: spec.cells,
        hops: spec.hops,
        delay: (least, most),
        rate: spec.rate.map(|rate| rate.0),
        queue: spec.queue.0,
    })
}

pub(super) fn host(at: &str, spec: &GroupHostSpec) -> Result<HostSpec, ScenarioError> {
    if spec.receivers == 0 {
        let field = format!("{at}.receivers");
        return Err(ScenarioError::value(field, 0, "1 or more"));
    }
    for (name, cost) in [
        ("send_data", spec.send_data),
        ("send_control", spec.send_control),
        ("take_data", spec.take_data),
        ("take_control", spec.take_control),
        ("evaluate", spec.evaluate),
    ] {
        check_wait(format!("{at}.{name}"), cost.0)?;
    }
    Ok(HostSpec {
        costs: Costs {
            send_data: spec.send_data.0,
            send_control: spec.send_control.0,
            take_data: spec.take_data.0,
            take_control: spec.take_control.0,
            evaluate: spec.evaluate.0,
        },
        receivers: spec.receivers,
        buffer: spec.buffer.map(|it| it.0),
        charge: spec.charge,
    })
}
