//! `[atm]`: switches, their links, and what their ports do.

use layercast_atm::policy::{Policy, PolicyNameError};
use layercast_core::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::{Builder, Thing};
use super::check::{check_delay, check_mtu, check_rate, check_span, kind};
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::quantity::MOST_QUEUED;
use super::range::{names, pairs};
use super::schema::mtu;
use crate::internet::components::Components;
use crate::internet::network::{AtmBackbone, AtmEnd, AtmLink, AtmQueue, Discard, NodeIndex};
use crate::scenario::form;
use crate::text::{Text, above_zero_to, up_to};

/// The ATM backbone: routers and hosts reach it through one adapter each.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AtmSpec {
    /// How IP uses circuits: `<qos>-<mux>-<vc>`, such as "noqos-conv-svc" or "sp-telnet-app-svccache".
    pub policy: String,
    /// Limits of the output ports of switches and adapters.
    pub queue: AtmQueueSpec,
    /// Time a controller takes for each signalling message.
    #[schemars(extend("pattern" = up_to(60)))]
    pub signalling_delay: Text<Span>,
    /// Largest IP packet.
    #[schemars(range(min = 68, max = 65_535))]
    pub mtu: u32,
    /// A switched circuit that no packet used for this time is released, or kept for reuse.
    #[schemars(extend("pattern" = above_zero_to(86_400)))]
    pub idle: Text<Span>,
    /// An adapter discards an incomplete frame after this time without a cell; default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = above_zero_to(60)))]
    pub reassembly_timer: Option<Text<Span>>,
    /// Whether all links share one clock: cells begin to leave at multiples of the cell time, and delays are rounded up to
    /// them; all links have one rate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slots: bool,
    /// Switches.
    #[serde(rename = "switch", skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchSpec>,
    /// Links that carry cells.
    #[serde(rename = "link", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<AtmLinkSpec>,
}

impl Default for AtmSpec {
    fn default() -> AtmSpec {
        AtmSpec {
            policy: "noqos-conv-svc".to_owned(),
            queue: AtmQueueSpec::default(),
            signalling_delay: Text(Span::ZERO),
            mtu: mtu(),
            idle: Text(Span::from_secs(10)),
            reassembly_timer: None,
            slots: false,
            switches: Vec::new(),
            links: Vec::new(),
        }
    }
}

/// Limits of an output port, in cells.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AtmQueueSpec {
    /// Discarding of frames that lost a cell, or will.
    pub discard: DiscardName,
    /// Threshold of early discard in cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_QUEUED))]
    pub early_above: Option<u64>,
    /// Cells of one circuit.
    #[schemars(range(min = 1, max = MOST_QUEUED))]
    pub per_vc_limit: u64,
    /// Cells of all circuits without contract.
    #[schemars(range(min = 1, max = MOST_QUEUED))]
    pub port_limit: u64,
    /// Cells in the port of an adapter, of one circuit and of all; default: as in a switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_QUEUED))]
    pub adapter_limit: Option<u64>,
    /// Queue length above which tagged cells (CLP = 1) are dropped; default: as for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_QUEUED))]
    pub low_limit: Option<u64>,
    /// Circuits of a port.
    pub max_vcs: u64,
    /// Policy "drr": quantum of an elevated circuit in cells; that of others is 1.
    pub drr_weight: u64,
}

impl Default for AtmQueueSpec {
    fn default() -> AtmQueueSpec {
        AtmQueueSpec {
            discard: DiscardName::Partial,
            early_above: None,
            per_vc_limit: 170,
            port_limit: 800,
            adapter_limit: None,
            low_limit: None,
            max_vcs: 8_192,
            drr_weight: 8,
        }
    }
}

/// Discarding of whole frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiscardName {
    /// Cells are dropped one by one.
    None,
    /// The rest of a frame that lost a cell, except its last cell.
    Partial,
    /// Whole frames above `early_above` cells.
    Early,
}

/// A switch, or several with a range in its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Unique.
    #[schemars(extend("minLength" = 1, "pattern" = form::NAMES))]
    pub name: String,
}

/// A full-duplex link between two switches, or between a router or host and a switch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtmLinkSpec {
    /// Two switches, or a router or host and a switch; also with ranges.
    pub ends: [String; 2],
    /// Rate of cells, headers included; also "3622 cells/s".
    pub rate: Text<Rate>,
    /// Propagation delay.
    #[schemars(extend("pattern" = up_to(3_600)))]
    pub delay: Text<Span>,
}

const PLACE: Place = Place::only("atm");

impl AtmSpec {
    /// Adds its switches and links.
    pub(super) fn build(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        for (i, switch) in self.switches.iter().enumerate() {
            let place = Place::nth("atm.switch", i);
            for name in names(&place.field("name"), &switch.name)? {
                to.switch(place, name)?;
            }
        }
        for (i, link) in self.links.iter().enumerate() {
            let place = Place::nth("atm.link", i);
            check_rate(&place.field("rate"), link.rate.0)?;
            check_delay(&place.field("delay"), link.delay.0)?;
            let [left, right] = &link.ends;
            let left = names(&place.field("ends[0]"), left)?;
            let right = names(&place.field("ends[1]"), right)?;
            for ends in pairs(&place.field("ends"), left, right)? {
                self.link(to, place, link, &ends)?;
            }
        }
        Ok(())
    }

    fn link(
        &self,
        to: &mut Builder<'_>,
        place: Place,
        spec: &AtmLinkSpec,
        names: &[String; 2],
    ) -> Result<(), ScenarioError> {
        let fields = [place.field("ends[0]"), place.field("ends[1]")];
        let end = |i: usize| end(to, &fields[i], &names[i]);
        let ends = [end(0)?, end(1)?];
        if ends[0] == ends[1] {
            let problem = Problem::Loop(names[0].clone());
            return Err(ScenarioError::new(place.field("ends"), problem));
        }
        if let [AtmEnd::Adapter(_), AtmEnd::Adapter(_)] = ends {
            let accepted = "a switch at one end at least; nodes without a switch have a [[link]]";
            let value = format!("{:?} and {:?}, two nodes", names[0], names[1]);
            return Err(ScenarioError::value(place.field("ends"), value, accepted));
        }
        for (i, end) in ends.iter().enumerate() {
            if let AtmEnd::Adapter(node) = end {
                to.adapter(place, &format!("ends[{i}]"), *node)?;
            }
        }
        let (rate, delay) = (spec.rate.0, spec.delay.0);
        if let Some(first) = to
            .atm_links
            .first()
            .filter(|it| self.slots && it.rate != rate)
        {
            let accepted = format!(
                "{}, the rate of the first link; atm.slots needs one rate of all",
                first.rate
            );
            return Err(ScenarioError::value(
                place.field("rate"),
                rate.to_string(),
                accepted,
            ));
        }
        to.atm_link(place, names, AtmLink { ends, rate, delay })
    }

    /// The backbone of all switches and links there are.
    pub(super) fn finish(&self, from: &mut Builder<'_>) -> Result<AtmBackbone, ScenarioError> {
        check_mtu(&PLACE.field("mtu"), self.mtu)?;
        let (field, most) = (PLACE.field("signalling_delay"), Span::from_secs(60));
        check_span(&field, self.signalling_delay.0, Span::ZERO, most)?;
        let field = PLACE.field("idle");
        check_span(
            &field,
            self.idle.0,
            Span::from_us(1),
            Span::from_secs(86_400),
        )?;
        let reassembly_timer = self.reassembly_timer.map(|timer| timer.0);
        if let Some(timer) = reassembly_timer {
            let field = PLACE.field("reassembly_timer");
            check_span(&field, timer, Span::from_us(1), most)?;
        }
        let policy: Policy = self.policy.parse().map_err(|error: PolicyNameError| {
            ScenarioError::new(PLACE.field("policy"), Problem::Config(error.to_string()))
        })?;
        let queue = self.queue.queue()?;
        let (switches, links) = (
            std::mem::take(&mut from.switches),
            std::mem::take(&mut from.atm_links),
        );
        if switches.is_empty() {
            let problem = Problem::Missing("a backbone needs a [[atm.switch]] at least".to_owned());
            return Err(ScenarioError::new(PLACE.field("switch"), problem));
        }
        connected(from, &switches, &links)?;
        Ok(AtmBackbone {
            switches,
            links,
            queue,
            policy: policy.to_string(),
            signalling_delay: self.signalling_delay.0,
            mtu: self.mtu,
            idle: self.idle.0,
            reassembly_timer,
            slots: self.slots,
            per_cell: false,
        })
    }
}

impl AtmQueueSpec {
    fn queue(&self) -> Result<AtmQueue, ScenarioError> {
        let bounded = |name: &str, value: u64, most: u64| {
            let field = format!("atm.queue.{name}");
            match (1..=most).contains(&value) {
                true => Ok(value as u32),
                false => Err(ScenarioError::value(field, value, format!("1 to {most}"))),
            }
        };
        let discard = match (self.discard, self.early_above) {
            (DiscardName::None, None) => Discard::None,
            (DiscardName::Partial, None) => Discard::Partial,
            (DiscardName::Early, Some(above)) => {
                Discard::Early(bounded("early_above", above, MOST_QUEUED)?)
            }
            (DiscardName::Early, None) => {
                let problem = Problem::Missing("discard = \"early\" needs it".to_owned());
                return Err(ScenarioError::new("atm.queue.early_above", problem));
            }
            (_, Some(_)) => {
                let problem = Problem::Needless("it needs discard = \"early\"".to_owned());
                return Err(ScenarioError::new("atm.queue.early_above", problem));
            }
        };
        Ok(AtmQueue {
            discard,
            per_vc_limit: bounded("per_vc_limit", self.per_vc_limit, MOST_QUEUED)?,
            port_limit: bounded("port_limit", self.port_limit, MOST_QUEUED)?,
            adapter_limit: match self.adapter_limit {
                Some(limit) => Some(bounded("adapter_limit", limit, MOST_QUEUED)?),
                None => None,
            },
            low_limit: match self.low_limit {
                Some(limit) => bounded("low_limit", limit, MOST_QUEUED)?,
                None => u32::MAX,
            },
            max_vcs: bounded("max_vcs", self.max_vcs, 65_000)? as u16,
            drr_weight: bounded("drr_weight", self.drr_weight, 1_000_000)?,
        })
    }
}

impl Builder<'_> {
    /// Takes note that a node has an adapter, its only one.
    pub(super) fn adapter(
        &mut self,
        place: Place,
        field: &str,
        node: NodeIndex,
    ) -> Result<(), ScenarioError> {
        if let Some(first) = self.adapters.insert(node, place) {
            let name = &self.nodes[node.0 as usize].name;
            let problem = Problem::Attachment(format!(
                "{name:?} has an ATM link already, in {first}; a node has one adapter"
            ));
            return Err(ScenarioError::new(place.field(field), problem));
        }
        self.attach(node, place);
        Ok(())
    }

    /// Adds a link between two ends of these names.
    pub(super) fn atm_link(
        &mut self,
        place: Place,
        names: &[impl AsRef<str>; 2],
        link: AtmLink,
    ) -> Result<(), ScenarioError> {
        if let [AtmEnd::Switch(a), AtmEnd::Switch(b)] = link.ends
            && let Some(first) = self.trunks.insert([a.min(b), a.max(b)], place)
        {
            let [a, b] = names;
            let problem = Problem::Duplicate {
                what: "link",
                name: format!("{}-{}", a.as_ref(), b.as_ref()),
                first: first.to_string(),
            };
            return Err(ScenarioError::new(place.field("ends"), problem));
        }
        self.atm_links.push(link);
        Ok(())
    }
}

fn end(of: &Builder<'_>, field: &str, name: &str) -> Result<AtmEnd, ScenarioError> {
    match of.thing(field, "switch, router or host", name)? {
        Thing::Switch(index) => Ok(AtmEnd::Switch(index)),
        Thing::Router(index) | Thing::Host(index) => Ok(AtmEnd::Adapter(index)),
        thing => Err(kind(field, name, thing, "a switch, router or host")),
    }
}

/// Checks that every switch reaches every other.
fn connected(
    from: &Builder<'_>,
    switches: &[String],
    links: &[AtmLink],
) -> Result<(), ScenarioError> {
    let mut sets = Components::new(switches.len());
    for link in links {
        if let [AtmEnd::Switch(a), AtmEnd::Switch(b)] = link.ends {
            sets.join(a, b);
        }
    }
    for (i, switch) in switches.iter().enumerate() {
        if !sets.same(0, i as u32) {
            let problem = Problem::NoPath {
                from: switches[0].clone(),
                to: switch.clone(),
            };
            let place = from.place_of(switch).unwrap_or(PLACE);
            return Err(ScenarioError::new(place.field("name"), problem));
        }
    }
    Ok(())
}
