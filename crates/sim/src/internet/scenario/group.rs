//! `xtp = { group = { ... } }` of a flow: one sender, many receivers.

use layercast_core::{Span, Time};
use layercast_xtp::XtpGroup;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::Builder;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::names;
use super::schema::{FlowSpec, Scenario};
use super::xtp::XtpSpec;
use crate::internet::check::{GROUP_HEADERS, least_mtu};
use crate::internet::components::Components;
use crate::internet::network::{NodeIndex, Receiver, Traffic, XtpDelivery};
use crate::scenario::units::Quantity;
use crate::text::Text;

/// Multicast (specs/xtp.md 2.13): all hosts of `to` receive one stream.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupSpec {
    /// Hosts of `to` that are not invited but join; also `"host{1..20}"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Time of the join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<Text<Span>>,
    /// Receivers to wait for before the first data; default: all invited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wait_for: Option<u32>,
    /// Consecutive unanswered handshakes after which a receiver is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub misses: Option<u32>,
    /// Longest random delay of the report of a gap, which is omitted if the repair arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Text<Span>>,
    /// Fail if a receiver fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Drop receivers that release no window; otherwise the transmitter waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_laggards: Option<bool>,
}

impl GroupSpec {
    /// The configuration of the machine, with this number of receivers of which these are invited.
    fn config(
        &self,
        place: Place,
        receivers: u32,
        invited: u32,
    ) -> Result<XtpGroup, ScenarioError> {
        let base = XtpGroup::default();
        let wait_for = self.wait_for.unwrap_or(invited.max(1));
        if !(1..=receivers).contains(&wait_for) {
            let accepted = format!("from 1 to {receivers}, the receivers there are");
            let field = place.field("xtp.group.wait_for");
            return Err(ScenarioError::value(field, wait_for, accepted));
        }
        Ok(XtpGroup {
            receivers: receivers.max(base.receivers),
            wait_for,
            misses: self.misses.unwrap_or(base.misses),
            slot: self.slot.map_or(base.slot, |slot| slot.0),
            strict: self.strict.unwrap_or(base.strict),
            drop_laggards: self.drop_laggards.unwrap_or(base.drop_laggards),
            ..base
        })
    }
}

/// A flow to many receivers: its ends, the sender first, and what it sends.
pub(super) fn flow(
    (place, spec): (Place, &FlowSpec),
    (xtp, group): (&XtpSpec, &GroupSpec),
    scenario: &Scenario,
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<(Vec<String>, Vec<NodeIndex>, Traffic), ScenarioError> {
    let needless = |field: &str, why: &str| {
        let problem = Problem::Needless(why.to_owned());
        Err(ScenarioError::new(place.field(field), problem))
    };
    if xtp.delivery() != XtpDelivery::Ip {
        return needless("xtp.delivery", "packets to a group go over IP");
    }
    if scenario.atm.is_some() {
        let why = "there is no multicast over ATM: leave out [atm], or one flow for each receiver instead";
        return needless("xtp.group", why);
    }
    if spec.contract.is_some() {
        return needless("contract", "there is no multicast over ATM");
    }
    if spec.stagger.0 != Span::ZERO {
        return needless("stagger", "it is one flow; xtp.group.late come later");
    }
    let from = names(&place.field("from"), &spec.from)?;
    let to = names(&place.field("to"), &spec.to)?;
    let [from] = from.as_slice() else {
        let accepted = "one host: a group has one sender";
        return Err(ScenarioError::value(
            place.field("from"),
            format!("{} hosts", from.len()),
            accepted,
        ));
    };
    let late = late(place, spec, group, &to, scenario.run.duration.0)?;
    let mut ends = Vec::new();
    let mut receivers: Vec<Receiver> = Vec::new();
    for name in &to {
        let [sender, node] = network.two_hosts(place, &[from.clone(), name.clone()], sets)?;
        if receivers.iter().any(|it| it.node == node) {
            let problem = Problem::Duplicate {
                what: "the receiver",
                name: format!("{name:?}"),
                first: place.field("to"),
            };
            return Err(ScenarioError::new(place.field("to"), problem));
        }
        let is_late = late.as_ref().filter(|(names, _)| names.contains(name));
        let join = is_late.map(|(_, at)| *at);
        receivers.push(Receiver { node, join });
        if ends.is_empty() {
            ends.push(sender);
        }
        ends.push(node);
    }
    let mut config = xtp.config(place)?;
    if let Some(mtu) = least_mtu(&network.links, &network.lans)
        && config.max_data + GROUP_HEADERS > mtu
    {
        let most = mtu.saturating_sub(GROUP_HEADERS);
        let accepted = format!(
            "at most {most}: packets to a group are not cut, and the least mtu of links and LANs is {mtu}"
        );
        let field = place.field("xtp.max_data");
        return Err(ScenarioError::value(field, config.max_data, accepted));
    }
    let invited = receivers.iter().filter(|it| it.join.is_none()).count();
    config.group = group.config(place, receivers.len() as u32, invited as u32)?;
    config.validate().map_err(|error| {
        let problem = Problem::Config(error.problem.into_owned());
        ScenarioError::new(place.field(format_args!("xtp.{}", error.field)), problem)
    })?;
    let traffic = Traffic::XtpMulticast {
        bytes: spec.bytes.map(|bytes| bytes.0),
        config: Box::new(config),
        receivers,
    };
    Ok((vec![from.clone(), spec.to.clone()], ends, traffic))
}

/// The receivers that join later, with the times.
fn late(
    place: Place,
    spec: &FlowSpec,
    group: &GroupSpec,
    to: &[String],
    duration: Span,
) -> Result<Option<(Vec<String>, Time)>, ScenarioError> {
    let missing = |field: &str, such: &str| {
        let problem = Problem::Missing(such.to_owned());
        Err(ScenarioError::new(place.field(field), problem))
    };
    let (pattern, at) = match (&group.late, group.join) {
        (None, None) => return Ok(None),
        (Some(_), None) => {
            return missing("xtp.group.join", "late needs it, such as join = \"2s\"");
        }
        (None, Some(_)) => {
            return missing("xtp.group.late", "join needs it, such as late = \"host3\"");
        }
        (Some(pattern), Some(at)) => (pattern, at.0),
    };
    let field = place.field("xtp.group.late");
    let late = names(&field, pattern)?;
    if let Some(other) = late.iter().find(|name| !to.contains(name)) {
        let accepted = format!("some of to, {:?}", spec.to);
        return Err(ScenarioError::value(field, format!("{other:?}"), accepted));
    }
    let end = spec.stop.map_or(duration, |stop| stop.0);
    if at <= spec.start.0 || at >= end {
        let (from, to) = (spec.start.0.write(), end.write());
        let accepted = format!("after the start, {from}, and before the end, {to}");
        let field = place.field("xtp.group.join");
        return Err(ScenarioError::value(field, at.write(), accepted));
    }
    Ok(Some((late, Time::ZERO.saturating_add(at))))
}
