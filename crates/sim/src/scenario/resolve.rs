//! From the scenario as written to the network that runs, with every field checked on the way.

use std::collections::BTreeSet;
use std::sync::Arc;

use layercast_core::{CellRate, FlowId, FlowSpec, Layer, NodeId, Span, Stream, Time};
use layercast_mets::switch::{FilterPlace, SwitchConfig, choose_core};
use layercast_mets::{Shaping, Source, SourceConfig, stagger};
use layercast_wire::FlowInfo;

use super::clips;
use super::error::ScenarioError;
use super::host::HostProfile;
use super::limits::{MOST_HEADROOM, MOST_STALLS};
use super::links;
use super::names::check_name;
use super::network::{Fault, Flow, Network, Node};
use super::schema::{FaultKind, FlowEntry, NodeKind, Scenario, ShapingSpec};
use super::topology::{Topology, duplicate};
use super::units::Quantity;

/// The clock all nodes of a simulation share.
const CLOCK: &str = "simulation";

impl Scenario {
    /// Checks everything, loads the clips and gives the configuration of every machine.
    pub fn validate(&self) -> Result<Network, ScenarioError> {
        check_name("name", &self.name)?;
        let (ms, day) = (Span::from_ms(1), Span::from_secs(86_400));
        for (field, span) in [
            ("duration", self.duration),
            ("era", self.era),
            ("res_interval", self.res_interval),
        ] {
            if span < ms || span > day {
                let accepted = "1ms to 24h";
                return Err(ScenarioError::value(field, span.write(), accepted));
            }
        }
        self.check_host("host", self.host)?;
        for (i, host) in self.nodes.iter().enumerate() {
            self.check_host(&format!("node[{i}].host"), host.host.unwrap_or_default())?;
        }
        let topology = Topology::new(self)?;
        let flows = self.resolve_flows(&topology)?;
        let links = links::links(&topology, &self.links);
        let ports = links::ports(self, &topology, &flows)?;
        let filters = self.resolve_filters(&topology, &flows)?;
        let receivers = self.resolve_receivers(&topology, &flows, &ports)?;
        let mut upstreams = vec![Vec::new(); self.nodes.len()];
        for link in &links {
            let (dials, listens) = links::dialler(link, &flows, &topology);
            upstreams[dials].push(listens);
        }
        let flows_at = places(&flows, self.nodes.len(), |flow| flow.node);
        let receivers_at = places(&receivers, self.nodes.len(), |receiver| receiver.node);
        // What bounds a real node in a hostile world must not bound a large scenario.
        let max_members = members_bound(receivers.len());
        let nodes = self
            .nodes
            .iter()
            .zip(ports)
            .enumerate()
            .map(|(i, (node, ports))| {
                let profile = self.profile_of(i);
                Node {
                    name: node.name.clone(),
                    id: node_id(i),
                    kind: node.kind,
                    profile,
                    switch: topology.relays(i).then(|| SwitchConfig {
                        name: node.name.clone(),
                        id: node_id(i),
                        era: self.era,
                        res_interval: self.res_interval,
                        seed: self.seed,
                        lowering: self.lowering,
                        require_tokens: self.requires_tokens(),
                        merge: self.merge,
                        filters: places_of(&filters, i),
                        admission: self.admission.is_on(),
                        fast_start: self.fast_start,
                        sender: match node.kind {
                            NodeKind::Host => profile.sender_cost(),
                            NodeKind::Switch => None,
                        },
                        cpu_per_cell: (node.kind == NodeKind::Switch
                            && profile.switch_cell > Span::ZERO)
                            .then_some(profile.switch_cell),
                        max_members,
                        ..SwitchConfig::default()
                    }),
                    upstreams: std::mem::take(&mut upstreams[i]),
                    ports,
                    sources: flows_at[i].clone(),
                    receivers: receivers_at[i].clone(),
                }
            });
        Ok(Network {
            name: self.name.clone(),
            seed: self.seed,
            duration: self.duration,
            carriage: self.carriage,
            wire_check: self.wire_check,
            ties: self.ties,
            detection: self.detection,
            nodes: nodes.collect(),
            faults: self.resolve_faults(&topology)?,
            requests: self.resolve_requests(&flows, &receivers)?,
            links,
            flows,
            receivers,
        })
    }

    /// The costs of the node at this place.
    pub(super) fn profile_of(&self, node: usize) -> HostProfile {
        self.nodes[node].host.unwrap_or(self.host).profile()
    }

    fn check_host(&self, field: &str, host: super::HostChoice) -> Result<(), ScenarioError> {
        let rate = host.profile().stall_rate;
        if !(0.0..=MOST_STALLS).contains(&rate) {
            let accepted = "0 to 1000 stalls per second";
            return Err(ScenarioError::value(
                format!("{field}.stall_rate"),
                rate,
                accepted,
            ));
        }
        Ok(())
    }

    fn resolve_flows(&self, topology: &Topology) -> Result<Vec<Flow>, ScenarioError> {
        let mut names = BTreeSet::new();
        let flows = self.flows.iter().enumerate().map(|(i, entry)| {
            let field = |name: &str| format!("flow[{i}].{name}");
            check_name(&field("name"), &entry.name)?;
            if !names.insert(&entry.name) {
                return Err(duplicate(field("name"), "flow", &entry.name));
            }
            if entry.start >= self.duration {
                let accepted = format!("before the end of the run, {}", self.duration.write());
                return Err(ScenarioError::relation(
                    field("start"),
                    entry.start.write(),
                    accepted,
                    ["duration".to_owned()],
                ));
            }
            let stop_at = entry.stop.unwrap_or(self.duration);
            if stop_at <= entry.start {
                let accepted = "after the start of the flow";
                let (stop, start) = (field("stop"), field("start"));
                return Err(ScenarioError::relation(
                    stop,
                    stop_at.write(),
                    accepted,
                    [start],
                ));
            }
            let clip = clips::load(
                self,
                i,
                stop_at.min(self.duration).saturating_sub(entry.start),
            )?;
            let node = topology.node(&field("source"), &entry.source)?;
            let config = self.source_config(i, node, &clip, topology)?;
            config_error(field("policy"), entry.policy.validate())?;
            config_error(format!("flow[{i}]"), Source::new(config.clone()).map(drop))?;
            Ok(Flow {
                name: entry.name.clone(),
                node,
                clip: Arc::new(clip),
                config,
                next_hops: topology.next_hops(node),
            })
        });
        flows.collect()
    }

    fn source_config(
        &self,
        i: usize,
        node: usize,
        clip: &layercast_media::Clip,
        topology: &Topology,
    ) -> Result<SourceConfig, ScenarioError> {
        let entry = &self.flows[i];
        let id = FlowId(i as u32 + 1);
        let mut spec = clip.flow_spec();
        spec.flow_id = id;
        if !(0.0..=MOST_HEADROOM).contains(&entry.headroom) {
            let field = format!("flow[{i}].headroom");
            let accepted = "a fraction of 0 to 10, like 0.25 for 25 %";
            return Err(ScenarioError::value(field, entry.headroom, accepted));
        }
        declare_more(&mut spec, entry.headroom);
        if let Some(bound) = entry.delay_max {
            spec.delay_max_ms = match u32::try_from(bound.as_ms()) {
                Ok(ms) if ms > 0 => ms,
                _ => {
                    let field = format!("flow[{i}].delay_max");
                    return Err(ScenarioError::value(field, bound.write(), "1 ms or more"));
                }
            };
        }
        let mut start = entry.start;
        if entry.random_phase {
            let gop = spec.frame_rate.due(u64::from(spec.gop_n));
            let mut phase = Stream::new(self.seed, &format!("{}/phase", entry.name));
            start += Span::from_ps(phase.below(gop.as_ps()));
        }
        if entry.stagger {
            let same = |other: &&FlowEntry| other.stagger && other.source == entry.source;
            let before = self.flows[..i].iter().filter(same).count() as u32;
            let all = self.flows.iter().filter(same).count() as u32;
            let period = match spec.composition.is_additive() {
                true => spec.frame_rate.due(1),
                // Frames of one time are one picture.
                false => spec.pictures_per_second().due(1),
            };
            start += stagger(before, all, period);
        }
        let flow = FlowInfo {
            spec,
            policy: entry.policy.clone(),
            clock: CLOCK.into(),
            aal5_mark: self.aal5_mark,
            core: self.core_switch(i, node, topology)?,
            ..FlowInfo::new(id, &entry.name, &entry.source)
        };
        let profile = self.profile_of(node);
        let before = self.flows[..i]
            .iter()
            .filter(|other| other.source == entry.source);
        let vci = u16::try_from(before.count())
            .ok()
            .and_then(|n| SourceConfig::FIRST_VCI.checked_add(n))
            .ok_or_else(|| {
                let accepted = "at most 65000 flows from one node";
                ScenarioError::value(format!("flow[{i}].source"), &entry.source, accepted)
            })?;
        Ok(SourceConfig {
            vci,
            shaping: match entry.shaping {
                ShapingSpec::PeakFactor(peak_factor) => Shaping::Rate { peak_factor },
                ShapingSpec::Bucket { b, p } => Shaping::Bucket { b, p },
                ShapingSpec::Serial => Shaping::SERIAL,
                ShapingSpec::Off => Shaping::Off,
            },
            clock_tick: profile.clock_tick,
            clock_phase: match profile.random_clock && profile.clock_tick > Span::ZERO {
                true => {
                    let mut phase = Stream::new(self.seed, &format!("{}/clock", entry.source));
                    Span::from_ps(phase.below(profile.clock_tick.as_ps()))
                }
                false => Span::ZERO,
            },
            era: self.era,
            res_interval: self.res_interval,
            start: Time::ZERO + start,
            local_limit: (self.admission.is_on() && profile.send_cell > Span::ZERO).then(|| {
                // Nine tenths of the processor (specs/mets.md 2.10).
                let cells = Span::from_ms(900).as_ps() / profile.send_cell.as_ps();
                CellRate(u32::try_from(cells).unwrap_or(u32::MAX))
            }),
            cost: profile.sender_cost().filter(|_| self.admission.is_on()),
            seed: self.seed,
            admission: self.admission.is_on(),
            max_members: members_bound(self.receivers.len()),
            protection: self.source_protection(&entry.name),
            parities: entry.protect_base,
            all_layers: self.fast_start,
            ..SourceConfig::new(&entry.source, node_id(node), flow, self.carriage)
        })
    }

    /// The core switch of a flow, given or chosen.
    fn core_switch(
        &self,
        i: usize,
        source: usize,
        topology: &Topology,
    ) -> Result<Option<String>, ScenarioError> {
        let entry = &self.flows[i];
        let field = format!("flow[{i}].core");
        match entry.core.as_deref() {
            None => Ok(None),
            Some("auto") => {
                let known = self.receivers.iter();
                let known = known.filter(|it| it.flow == entry.name && it.join <= entry.start);
                let members = known.map(|it| topology.node(&field, &it.node));
                let members = members.collect::<Result<Vec<_>, _>>()?;
                let nodes = self.nodes.iter();
                let relays: Vec<bool> = nodes.map(|node| node.kind == NodeKind::Switch).collect();
                let core = choose_core(&topology.graph(), &relays, source, &members);
                Ok(core.map(|node| self.nodes[node].name.clone()))
            }
            Some(name) => {
                let node = topology.node(&field, name)?;
                if self.nodes[node].kind != NodeKind::Switch {
                    let accepted = "a node with kind = \"switch\", or \"auto\"";
                    return Err(ScenarioError::value(field, name, accepted));
                }
                Ok(Some(name.to_owned()))
            }
        }
    }

    /// The node of each filter, and where it stands there.
    fn resolve_filters(
        &self,
        topology: &Topology,
        flows: &[Flow],
    ) -> Result<Vec<(usize, FilterPlace)>, ScenarioError> {
        let filters = self.filters.iter().enumerate().map(|(i, filter)| {
            let field = |name: &str| format!("filter[{i}].{name}");
            let node = topology.node(&field("node"), &filter.node)?;
            let flow = &flows[flow_named(&field("flow"), &filter.flow, flows)?];
            if !flow.config.flow.spec.composition.is_additive() {
                let accepted = "a flow with composition = \"additive\": of alternative layers only whole ones are left out";
                return Err(ScenarioError::value(field("flow"), &filter.flow, accepted));
            }
            if !topology.relays(node) {
                let accepted = "a switch, or a host with sources";
                return Err(ScenarioError::value(field("node"), &filter.node, accepted));
            }
            if let Some(to) = &filter.to {
                let neighbour = topology.node(&field("to"), to)?;
                if topology.port(node, neighbour).is_none() {
                    let accepted = format!("a neighbour of {}", filter.node);
                    return Err(ScenarioError::value(field("to"), to, accepted));
                }
            }
            let place = FilterPlace {
                flow: filter.flow.clone(),
                to: filter.to.clone(),
                rule: filter.rule,
            };
            Ok((node, place))
        });
        filters.collect()
    }

    fn resolve_faults(&self, topology: &Topology) -> Result<Vec<Fault>, ScenarioError> {
        let faults = self.faults.iter().enumerate().map(|(i, fault)| {
            let of_node = matches!(
                fault.kind,
                FaultKind::Kill | FaultKind::Stop | FaultKind::Restart
            );
            let target = match (&fault.node, &fault.link) {
                (Some(node), None) if of_node => {
                    topology.node(&format!("fault[{i}].node"), node)?
                }
                (None, Some([a, b])) if !of_node => {
                    let field = format!("fault[{i}].link");
                    let (a, b) = (topology.node(&field, a)?, topology.node(&field, b)?);
                    let link = topology.neighbours[a].iter().find(|(node, _)| *node == b);
                    let accepted = "two nodes that are linked";
                    link.ok_or_else(|| ScenarioError::value(field, "no link", accepted))?
                        .1
                }
                _ => {
                    let accepted = "node = \"..\" with kill, stop and restart, \
                                    link = [\"..\", \"..\"] with link_down and link_up";
                    return Err(ScenarioError::value(
                        format!("fault[{i}]"),
                        fault.kind.word(),
                        accepted,
                    ));
                }
            };
            Ok(Fault {
                at: Time::ZERO + fault.at,
                kind: fault.kind,
                target,
            })
        });
        let mut faults = faults.collect::<Result<Vec<_>, _>>()?;
        faults.sort_by_key(|fault| fault.at);
        Ok(faults)
    }
}

/// The place of the flow called `name`.
pub(super) fn flow_named(field: &str, name: &str, flows: &[Flow]) -> Result<usize, ScenarioError> {
    flows
        .iter()
        .position(|flow| flow.name == name)
        .ok_or_else(|| ScenarioError::Unknown {
            field: field.to_owned(),
            what: "flow",
            name: name.to_owned(),
            known: flows.iter().map(|flow| flow.name.clone()).collect(),
        })
}

pub(super) fn node_id(place: usize) -> NodeId {
    NodeId(place as u32 + 1)
}

/// Per node the places of the items that are there.
fn places<T>(items: &[T], nodes: usize, node: impl Fn(&T) -> usize) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); nodes];
    for (place, item) in items.iter().enumerate() {
        places[node(item)].push(place);
    }
    places
}

/// Most members that a switch or source of a scenario with `receivers` receivers has to remember.
fn members_bound(receivers: usize) -> u32 {
    let most = u32::try_from(receivers).unwrap_or(u32::MAX);
    SwitchConfig::default().max_members.max(most)
}

fn places_of(filters: &[(usize, FilterPlace)], node: usize) -> Vec<FilterPlace> {
    let here = filters.iter().filter(|(other, _)| *other == node);
    here.map(|(_, place)| place.clone()).collect()
}

/// Raises the rates of all layers by a fraction of what they are.
fn declare_more(spec: &mut FlowSpec, headroom: f64) {
    let more = |rate: CellRate| CellRate((f64::from(rate.0) * (1.0 + headroom)).ceil() as u32);
    for layer in Layer::ALL {
        let rate = &mut spec.layers[layer];
        (rate.mean, rate.peak) = (more(rate.mean), more(rate.peak));
    }
    spec.headroom_permille = (headroom * 1e3).round() as u16;
}

pub(super) fn config_error<T, E: ToString>(
    field: impl Into<String>,
    result: Result<T, E>,
) -> Result<T, ScenarioError> {
    result.map_err(|error| ScenarioError::Config {
        field: field.into(),
        error: error.to_string(),
    })
}
