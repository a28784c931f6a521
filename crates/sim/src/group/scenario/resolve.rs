//! From the scenario as written to the group that runs, with every field checked on the way.

use layercast_core::{Span, Time};

use super::schema::{FaultName, FaultSpec, GroupScenario, ProfileName};
use super::session::check_receiver;
use super::tree::{check_wait, host};
use crate::group::{Content, Fault, FaultKind, Group, Invited, receivers};
use crate::internet::scenario::{Bytes, Problem, ScenarioError, check_title};
use crate::scenario::units::Quantity;

/// Packets of an object or a stream at most.
const MOST_PACKETS: u64 = 100_000_000;
impl GroupScenario {
    /// Checks everything and gives the group that it describes.
    pub fn resolve(&self) -> Result<Group, ScenarioError> {
        check_title("name", &self.name)?;
        let branches = self.tree()?;
        let receivers = receivers(&branches) as u32;
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
            check_wait("stream.interval", stream.interval.0)?;
            check_wait("stream.service", stream.service.0)?;
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
                (FaultName::Service, Some(service)) => {
                    check_wait(at("service"), service.0)?;
                    FaultKind::Service(service.0)
                }
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
