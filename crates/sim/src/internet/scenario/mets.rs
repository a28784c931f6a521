//! `[mets]`: METS nodes at hosts and routers. What it says is read and checked as in a scenario of METS.

use layercast_core::{CellRate, Rate, Span};
use layercast_mets::switch::{Lowering, PortConfig};
use layercast_qos::Merge;
use layercast_wire::Carriage;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::build::Builder;
use super::check::unknown;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::{names, pairs};
use super::schema::{Scenario, best_effort, is_best_effort};
use crate::internet::components::Components;
use crate::internet::discipline::Dscp;
use crate::internet::error::LEAST_MTU;
use crate::internet::medium::classes::can_have;
use crate::internet::network::{Link, MetsNetwork, NodeIndex};
use crate::scenario::admission::{self, Admission, PromiseSpec};
use crate::scenario::form::{self, time_to};
use crate::scenario::shorthand::{WordOrTable, Written, word_or_table, word_or_table_out};
use crate::scenario::units::{Quantity, QueueSize, text, text_opt};
use crate::scenario::{
    self as layered, DiscardSpec, FaultSpec, FilterSpec, FitSpec, FlowEntry, HostChoice,
    LinkRepair, LinkSpec, NodeKind, NodeSpec, RateSpec, ReceiverSpec, RequestSpec, SecuritySpec,
    defaults,
};
use crate::text::{Text, among};

const PLACE: Place = Place::only("mets");
const PEERING: &str = "mets.peering";

/// METS nodes at hosts and routers: layered flows whose datagrams are packets of the network. The keys mean what they mean in
/// a scenario of METS.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetsSpec {
    /// Era of the QoS adapter.
    #[serde(default = "defaults::era", with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = time_to(form::DAY)))]
    pub era: Span,
    /// RES interval of switches and sources.
    #[serde(default = "defaults::res_interval", with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = time_to(form::DAY)))]
    pub res_interval: Span,
    /// Whether every PDU and signal is encoded and decoded at every hop.
    #[serde(default)]
    pub wire_check: bool,
    /// Whether a receiver that joins between two GOP starts gets the running GOP from its start on.
    #[serde(default)]
    pub fast_start: bool,
    /// How joins are tested against the capacity of peerings, processors and hosts.
    #[serde(default)]
    #[schemars(schema_with = "admission::schema")]
    pub admission: Admission,
    /// What peerings promise their base layers with `admission = "measured"`.
    #[serde(default, skip_serializing_if = "PromiseSpec::is_default")]
    pub promise: PromiseSpec,
    /// When a lower level takes effect.
    #[serde(default)]
    #[schemars(schema_with = "form::lowering")]
    pub lowering: Lowering,
    /// Sealed media and tokens; default: media in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SecuritySpec>,
    /// How switches merge the demands of several branches.
    #[serde(default)]
    #[schemars(schema_with = "form::merge")]
    pub merge: Merge,
    /// Costs of cells and packets at METS nodes without their own.
    #[serde(default)]
    pub host: HostChoice,
    /// Time until neighbours detect a change of a node or peering.
    #[serde(default = "defaults::detection", with = "text")]
    #[schemars(with = "Text<Span>")]
    pub detection: Span,
    /// METS switches, by the names of hosts and routers, and METS hosts with costs of their own. Nodes that only peerings name
    /// are METS hosts.
    #[serde(rename = "node", default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeSpec>,
    /// Peerings.
    #[serde(rename = "peering", default)]
    #[schemars(length(min = 1))]
    pub peerings: Vec<PeeringSpec>,
    /// Media flows.
    #[serde(rename = "flow", default)]
    pub flows: Vec<FlowEntry>,
    /// Receivers.
    #[serde(rename = "receiver", default)]
    pub receivers: Vec<ReceiverSpec>,
    /// Filters in switches.
    #[serde(rename = "filter", default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterSpec>,
    /// Faults of METS nodes and peerings; hosts, routers and links continue.
    #[serde(rename = "fault", default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
    /// Requests of applications to the management interface.
    #[serde(rename = "request", default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSpec>,
}

/// Two METS nodes that are neighbours, over a link or across other nodes; with ranges in the ends several. Data go as UDP
/// datagrams; signals arrive after the propagation delay of the path and are not lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeeringSpec {
    /// Two hosts or routers.
    pub ends: [String; 2],
    /// Rate at which both ports send, IP headers included; default: that of the link between the two nodes. With "auto", which
    /// needs `repair`, each port estimates what the path carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<PeeringRate>,
    /// Queue of each port.
    #[serde(default = "defaults::queue", with = "text")]
    #[schemars(with = "Text<QueueSize>", extend("pattern" = form::queue()))]
    pub queue: QueueSize,
    /// Fraction of the queue above which a switch marks congestion. Hosts do not mark.
    #[serde(default = "defaults::efci")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub efci: f64,
    /// What a full queue discards: whole frames of high layers early (`layers`), or by class.
    #[serde(default, skip_serializing_if = "DiscardSpec::is_default")]
    pub discard: DiscardSpec,
    /// Fraction of the rate that base layers may reserve.
    #[serde(default = "defaults::bl_share")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub bl_share: f64,
    /// Capacity that the adapter distributes; default: the rate.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<CellRate>>", extend("pattern" = form::cell_rate()))]
    pub adapt_capacity: Option<CellRate>,
    /// Loss probability of RES and ADAPT, in addition to other loss.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub adapter_loss: f64,
    /// Repair of losses at both ends.
    #[serde(default)]
    #[schemars(schema_with = "form::repair")]
    pub repair: LinkRepair,
    /// Whether packets of other protocols wait in a queue of their own at both ends of the link between the two nodes. They
    /// enter the link when it is free and no METS packet is due: METS has its rate, the others have the rest. The queue has
    /// the bound of the link.
    #[serde(default)]
    pub class_queue: bool,
    /// Class of its datagrams in both directions, for the discipline "priority" of links on its path.
    #[serde(default = "best_effort", skip_serializing_if = "is_best_effort")]
    pub dscp: Text<Dscp>,
}

/// The rate of a peering.
#[derive(Clone, PartialEq, Debug)]
pub enum PeeringRate {
    /// A rate, or what a flow needs.
    Known(RateSpec),
    /// What the path carries.
    Auto,
}

/// The rate for which a peering of unknown rate is checked: queues given as times have a length in cells.
const CHECKED_AT: Rate = Rate::from_bps(100_000_000);

impl WordOrTable for PeeringRate {
    type Table = FitSpec;
    const ACCEPTED: &'static str = "a rate like \"8 Mbit/s\", \"auto\", or a table { fits = \"flow\", level = 1, spare = 0.05 }";

    fn of_word(word: &str) -> Result<PeeringRate, String> {
        if word == "auto" {
            return Ok(PeeringRate::Auto);
        }
        let rate = Rate::parse(word).map(|rate| PeeringRate::Known(RateSpec::Fixed(rate)));
        rate.map_err(|error| among(error, PeeringRate::ACCEPTED))
    }

    fn of_table(table: FitSpec) -> Result<PeeringRate, String> {
        Ok(PeeringRate::Known(RateSpec::Fits(table)))
    }

    fn write(&self) -> Written<impl Serialize> {
        match self {
            PeeringRate::Auto => Written::Word("auto".to_owned()),
            PeeringRate::Known(RateSpec::Fixed(rate)) => Written::Word(rate.write()),
            PeeringRate::Known(RateSpec::Fits(fit)) => Written::Table(fit),
        }
    }
}

impl<'de> Deserialize<'de> for PeeringRate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PeeringRate, D::Error> {
        word_or_table(from)
    }
}

impl Serialize for PeeringRate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        word_or_table_out(self, to)
    }
}

impl JsonSchema for PeeringRate {
    fn schema_name() -> Cow<'static, str> {
        "PeeringRate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let known = generator.subschema_for::<RateSpec>();
        json_schema!({ "description": "Rate of a peering.", "anyOf": [
            { "const": "auto", "description": "what the path carries, as the ports estimate it" },
            known,
        ] })
    }
}

/// The METS nodes of a scenario, if it has any.
pub(super) fn network(
    scenario: &Scenario,
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<Option<MetsNetwork>, ScenarioError> {
    let Some(spec) = &scenario.mets else {
        return Ok(None);
    };
    if spec.peerings.is_empty() {
        let problem = Problem::Missing("METS nodes need [[mets.peering]]".to_owned());
        return Err(ScenarioError::new(PLACE.field("peering"), problem));
    }
    let mut all = All::default();
    for (i, node) in spec.nodes.iter().enumerate() {
        let at = network.node_called(&format!("mets.node[{i}].name"), &node.name)?;
        all.node(at, node.clone());
    }
    for (i, peering) in spec.peerings.iter().enumerate() {
        let place = Place::nth(PEERING, i);
        let [left, right] = [0, 1].map(|end| {
            let field = place.field(format_args!("ends[{end}]"));
            names(&field, &peering.ends[end])
        });
        for ends in pairs(&place.field("ends"), left?, right?)? {
            let link = all.peering(place, network, &ends, sets)?;
            if peering.class_queue && !link.is_some_and(can_have) {
                let accepted = format!(
                    "false, or a link between the two nodes, without RED or a discipline, and with an MTU of {LEAST_MTU} bytes or more"
                );
                let field = place.field("class_queue");
                return Err(ScenarioError::value(field, true, accepted));
            }
            let rates = link.map(|link| link.ways.map(|way| way.rate));
            let default = rates.filter(|[there, back]| there == back);
            let rate = match (&peering.rate, default) {
                (Some(PeeringRate::Known(rate)), _) => rate.clone(),
                (Some(PeeringRate::Auto), _) if peering.repair.0.is_none() => {
                    let problem = Problem::Missing(
                        "rate = \"auto\" needs repair = true: the estimate is of its reports"
                            .to_owned(),
                    );
                    return Err(ScenarioError::new(place.field("repair"), problem));
                }
                (Some(PeeringRate::Auto), _) => RateSpec::Fixed(CHECKED_AT),
                (None, Some([rate, _])) => RateSpec::Fixed(rate),
                (None, None) => {
                    let problem = Problem::Missing(
                        "give the rate at which the ports send, such as rate = \"8 Mbit/s\"; the default is that of the \
                         link between the two nodes, if it has one rate for both directions"
                            .to_owned(),
                    );
                    return Err(ScenarioError::new(place.field("rate"), problem));
                }
            };
            all.links.push(peering.link(&ends, rate));
            all.origins.push(i);
            all.classes.push(peering.class_queue);
            all.dscps.push(peering.dscp.0);
            all.estimated.push(peering.rate == Some(PeeringRate::Auto));
        }
    }
    let machines = spec.machines(scenario, &all);
    let mut machines = machines.validate().map_err(|error| all.explain(error))?;
    for port in machines.nodes.iter_mut().flat_map(|node| &mut node.ports) {
        if all.estimated[port.link] {
            estimate(&mut port.config);
        }
    }
    Ok(Some(MetsNetwork {
        machines: Arc::new(machines),
        nodes: all.places,
        classes: all.classes,
        dscps: all.dscps,
        own_links: false,
    }))
}

/// Lets a port follow what its path carries. The pacer of repair has the queue: what it keeps back needs no mark of congestion,
/// as the port has slowed down already.
fn estimate(port: &mut PortConfig) {
    (port.rate, port.estimated) = (None, true);
    (port.queue.efci_on, port.queue.efci_off) = (port.queue.limit, port.queue.limit);
}

/// What the parts of `[mets]` make together.
#[derive(Default)]
struct All {
    nodes: Vec<NodeSpec>,
    places: Vec<NodeIndex>,
    known: BTreeSet<NodeIndex>,
    links: Vec<LinkSpec>,
    /// For each of them the peering that it is of.
    origins: Vec<usize>,
    classes: Vec<bool>,
    dscps: Vec<Dscp>,
    /// For each of them whether its ports estimate their rate.
    estimated: Vec<bool>,
}

impl All {
    fn node(&mut self, at: NodeIndex, node: NodeSpec) {
        // A name that is there twice is an error of METS.
        self.known.insert(at);
        self.nodes.push(node);
        self.places.push(at);
    }

    /// Adds the two nodes of a peering; gives the link between them.
    fn peering<'n>(
        &mut self,
        place: Place,
        network: &'n Builder<'_>,
        ends: &[String; 2],
        sets: &mut Components,
    ) -> Result<Option<&'n Link>, ScenarioError> {
        let mut nodes = [NodeIndex(0); 2];
        for (end, name) in ends.iter().enumerate() {
            let field = place.field(format_args!("ends[{end}]"));
            nodes[end] = network.node_called(&field, name)?;
            if !self.known.contains(&nodes[end]) {
                let node = NodeSpec {
                    name: name.clone(),
                    kind: NodeKind::Host,
                    host: None,
                };
                self.node(nodes[end], node);
            }
        }
        let [a, b] = nodes;
        if !sets.same(a.0, b.0) {
            let [from, to] = ends.clone();
            let problem = Problem::NoPath { from, to };
            return Err(ScenarioError::new(place.field("ends"), problem));
        }
        let mut links = network.links.iter();
        Ok(links.find(|link| link.ends == [a, b] || link.ends == [b, a]))
    }

    /// The error in terms of the file.
    fn explain(&self, error: layered::ScenarioError) -> ScenarioError {
        let field = self.field(error.field());
        match error {
            layered::ScenarioError::Read { path, error, .. } => {
                ScenarioError::new(field, Problem::Read { path, error })
            }
            layered::ScenarioError::Text { what, .. } => {
                ScenarioError::new(field, Problem::Syntax(what))
            }
            layered::ScenarioError::Value {
                value, accepted, ..
            } => ScenarioError::value(field, value, accepted),
            layered::ScenarioError::Unknown {
                what, name, known, ..
            } => unknown(&field, what, &name, known.iter().map(String::as_str)),
            layered::ScenarioError::Duplicate { what, name, .. } => {
                let problem = format!("{what} {name:?} is there already");
                ScenarioError::new(field, Problem::Config(problem))
            }
            layered::ScenarioError::NoRoute { flow, from, to, .. } => {
                let problem = format!(
                    "no peerings through METS switches lead from {from:?} to {to:?} for flow {flow:?}"
                );
                ScenarioError::new(field, Problem::Config(problem))
            }
            layered::ScenarioError::Clip { error, .. } => {
                ScenarioError::new(field, Problem::Config(error.to_string()))
            }
            layered::ScenarioError::Config { error, .. } => {
                ScenarioError::new(field, Problem::Config(error))
            }
        }
    }

    /// The path of a field of the machines in the file.
    fn field(&self, field: &str) -> String {
        let link = field
            .strip_prefix("link[")
            .and_then(|it| it.split_once(']'));
        let origin = link.and_then(|(number, rest)| {
            let place: usize = number.parse().ok()?;
            Some((self.origins.get(place)?, rest))
        });
        match (origin, field) {
            (Some((origin, rest)), _) => format!("{PEERING}[{origin}]{rest}"),
            (None, "duration") => "run.duration".to_owned(),
            (None, field) => PLACE.field(field),
        }
    }
}

impl PeeringSpec {
    fn link(&self, [a, b]: &[String; 2], rate: RateSpec) -> LinkSpec {
        LinkSpec {
            a: a.clone(),
            b: b.clone(),
            rate,
            schedule: None,
            // That of the path: the network knows it.
            delay: Span::ZERO,
            queue: self.queue,
            efci: self.efci,
            discard: self.discard,
            bl_share: self.bl_share,
            adapt_capacity: self.adapt_capacity,
            adapt: true,
            loss: None,
            jitter: None,
            reorder: false,
            duplicate: 0.0,
            adapter_loss: self.adapter_loss,
            repair: self.repair,
            multicast: None,
        }
    }
}

impl MetsSpec {
    /// The same as a scenario of METS.
    fn machines(&self, scenario: &Scenario, all: &All) -> layered::Scenario {
        layered::Scenario {
            name: "mets".to_owned(),
            seed: scenario.run.seed,
            duration: scenario.run.duration.0,
            carriage: Carriage::Datagrams,
            era: self.era,
            res_interval: self.res_interval,
            wire_check: self.wire_check,
            fast_start: self.fast_start,
            ties: scenario.run.ties,
            aal5_mark: defaults::aal5_mark(),
            admission: self.admission,
            promise: self.promise,
            lowering: self.lowering,
            security: self.security,
            merge: self.merge,
            host: self.host,
            detection: self.detection,
            nodes: all.nodes.clone(),
            links: all.links.clone(),
            flows: self.flows.clone(),
            receivers: self.receivers.clone(),
            filters: self.filters.clone(),
            faults: self.faults.clone(),
            requests: self.requests.clone(),
            base_dir: scenario.base_dir.clone(),
        }
    }
}
