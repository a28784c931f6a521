//! From the scenario as written to the group that runs, with every field checked on the way.

use layercast_core::{Span, Time};
use layercast_fec::EncoderConfig;

use super::schema::{
    BranchSpec, CodeSpec, FaultName, FaultSpec, GroupHostSpec, GroupScenario, ProfileName,
};
use super::session::check_receiver;
use crate::group::{
    Branch, Content, Costs, EdgeSpec, Fault, FaultKind, Group, HostSpec, Invited, LinkSpec, Loss,
    count,
};
use crate::internet::scenario::{Bytes, Problem, ScenarioError, unknown};
use crate::scenario::units::Quantity;

/// Nodes and receivers at most.
const MOST_NODES: u64 = 4_000_000;
/// Packets of an object or a stream at most.
const MOST_PACKETS: u64 = 100_000_000;
/// How long a packet can be recovered by a code after it was sent.
const HOLD: Span = Span::from_secs(2);

impl GroupScenario {
    /// Checks everything and gives the group that it describes.
    pub fn resolve(&self) -> Result<Group, ScenarioError> {
        let branches = self.tree()?;
        let receivers = receivers(&branches);
        if receivers == 0 {
            let problem = Problem::Missing("a tree needs receivers: a [[branch]]".to_owned());
            return Err(ScenarioError::new("branch", problem));
        }
        let sender = self.session.config(receivers)?;
        let longest = Span::from_secs(100 * 86_400);
        if self.run.duration.0 == Span::ZERO || self.run.duration.0 > longest {
            let value = self.run.duration.0.write();
            let accepted = "more than 0, at most 100 days";
            return Err(ScenarioError::value("run.duration", value, accepted));
        }
        let content = self.content(sender.packet_size, sender.window)?;
        let known = self.branches.iter().any(|it| it.aggregator);
        let listed = self
            .session
            .listed
            .unwrap_or(!self.session.late && (known || self.session.profile == ProfileName::Rmtp));
        Ok(Group {
            name: self.name.clone(),
            seed: self.run.seed,
            until: Time::ZERO + self.run.duration.0,
            most_events: self.run.events,
            edges: self.edges()?,
            cross: self.cross(&branches)?,
            branches,
            source: host("source", &self.source)?,
            sender,
            invited: match listed {
                true => Invited::Listed,
                false => Invited::Anyone {
                    late: self.session.late,
                },
            },
            content,
            faults: self.faults(receivers)?,
            per_receiver: self.run.per_receiver,
        })
    }

    fn tree(&self) -> Result<Vec<Branch>, ScenarioError> {
        let mut branches: Vec<Branch> = Vec::new();
        for (i, spec) in self.branches.iter().enumerate() {
            let at = |name: &str| format!("branch[{i}].{name}");
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

    fn edges(&self) -> Result<Vec<EdgeSpec>, ScenarioError> {
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

    fn content(&self, packet_size: u16, window: u32) -> Result<Content, ScenarioError> {
        let session = &self.session;
        let frm = session.profile == ProfileName::Frm;
        if let Some(stream) = &self.stream {
            if !frm {
                let why = "streams are of the profile frm".to_owned();
                return Err(ScenarioError::new("stream", Problem::Needless(why)));
            }
            check_packets("stream.packets", stream.packets)?;
            if stream.interval.0 == Span::ZERO {
                let value = stream.interval.0.write();
                return Err(ScenarioError::value(
                    "stream.interval",
                    value,
                    "more than 0",
                ));
            }
            return Ok(Content::Stream {
                packets: stream.packets,
                octets: packet_size,
                interval: stream.interval.0,
                service: stream.service.0,
                buffer: stream.buffer.unwrap_or(window),
            });
        }
        if frm {
            let missing = "the profile frm needs a [stream]".to_owned();
            return Err(ScenarioError::new("stream", Problem::Missing(missing)));
        }
        match (session.size, session.packets) {
            (Some(Bytes(octets)), None) => {
                check_packets("session.size", octets.div_ceil(packet_size.max(1).into()))?;
                Ok(Content::Object { octets })
            }
            (None, Some(packets)) => {
                check_packets("session.packets", packets)?;
                let octets = packets * u64::from(packet_size);
                Ok(Content::Object { octets })
            }
            (None, None) => {
                let missing = "say how large the object is: size or packets".to_owned();
                Err(ScenarioError::new(
                    "session.size",
                    Problem::Missing(missing),
                ))
            }
            (Some(_), Some(_)) => {
                let why = "it is one of size and packets".to_owned();
                Err(ScenarioError::new(
                    "session.packets",
                    Problem::Needless(why),
                ))
            }
        }
    }

    fn faults(&self, receivers: u32) -> Result<Vec<Fault>, ScenarioError> {
        let mut faults = Vec::new();
        for (i, spec) in self.faults.iter().enumerate() {
            let at = |name: &str| format!("fault[{i}].{name}");
            let (first, end) = numbers(&at("receivers"), spec, receivers)?;
            let what = match (spec.what, spec.service) {
                (FaultName::Service, Some(service)) => FaultKind::Service(service.0),
                (FaultName::Service, None) => {
                    let missing = "say what a packet takes".to_owned();
                    return Err(ScenarioError::new(at("service"), Problem::Missing(missing)));
                }
                (_, Some(_)) => {
                    let why = "it is of what = \"service\"".to_owned();
                    return Err(ScenarioError::new(at("service"), Problem::Needless(why)));
                }
                (FaultName::Busy, None) => FaultKind::Busy,
                (FaultName::Ready, None) => FaultKind::Ready,
                (FaultName::Kill, None) => FaultKind::Kill,
                (FaultName::Resume, None) => FaultKind::Restart { resume: true },
                (FaultName::Restart, None) => FaultKind::Restart { resume: false },
            };
            faults.push(Fault {
                at: Time::ZERO + spec.at.0,
                first,
                end,
                what,
            });
        }
        faults.sort_by_key(|fault| fault.at);
        Ok(faults)
    }
}

/// Receivers that branches make.
fn receivers(branches: &[Branch]) -> u32 {
    let mut copies: Vec<u64> = Vec::new();
    let mut all = 0;
    for branch in branches {
        let above = branch.parent.map_or(1, |parent| copies[parent]);
        copies.push(above * u64::from(branch.count));
        if branch.receiver.is_some() {
            all += above * u64::from(branch.count);
        }
    }
    all as u32
}

fn link(spec: &BranchSpec, at: &dyn Fn(&str) -> String) -> Result<LinkSpec, ScenarioError> {
    for (name, value) in [("loss", spec.loss), ("back_loss", spec.back_loss)] {
        if !(0.0..1.0).contains(&value) {
            let accepted =
                "a probability from 0, below 1: through a link that loses all nobody gets it";
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
    let least = spec.delay.0;
    let most = spec.delay_to.map_or(least, |it| it.0);
    if most < least || most > Span::from_secs(600) {
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

fn host(at: &str, spec: &GroupHostSpec) -> Result<HostSpec, ScenarioError> {
    if spec.receivers == 0 {
        let field = format!("{at}.receivers");
        return Err(ScenarioError::value(field, 0, "1 or more"));
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

fn check_packets(field: &str, packets: u64) -> Result<(), ScenarioError> {
    match (1..=MOST_PACKETS).contains(&packets) {
        true => Ok(()),
        false => {
            let accepted = format!("1 to {MOST_PACKETS} packets");
            Err(ScenarioError::value(field, packets, accepted))
        }
    }
}

/// The receivers of a fault, from 0, without the last.
fn numbers(field: &str, spec: &FaultSpec, receivers: u32) -> Result<(u32, u32), ScenarioError> {
    let text = spec.receivers.trim();
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else {
        let accepted = "a number or a range such as \"1..10\"";
        return Err(ScenarioError::value(field, format!("{text:?}"), accepted));
    };
    check_receiver(field, first, receivers)?;
    check_receiver(field, last, receivers)?;
    if last < first {
        return Err(ScenarioError::value(field, text, "first..last"));
    }
    Ok((first - 1, last))
}
