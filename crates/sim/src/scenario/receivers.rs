//! Receivers: where they are, what they want, and whether they can get its base layer.

use std::collections::BTreeSet;

use layercast_core::{CellRate, Level, Time};
use layercast_mets::SinkConfig;

use super::admission::Admission;
use super::error::ScenarioError;
use super::limits::MOST_MARGIN;
use super::names::check_name;
use super::network::{Flow, Port, Receiver};
use super::resolve::{config_error, flow_named, node_id};
use super::schema::{PlayoutSpec, Scenario};
use super::topology::{Topology, duplicate};
use super::units::Quantity;

impl Scenario {
    pub(super) fn resolve_receivers(
        &self,
        topology: &Topology,
        flows: &[Flow],
        ports: &[Vec<Port>],
    ) -> Result<Vec<Receiver>, ScenarioError> {
        let mut names = BTreeSet::new();
        let receivers = self.receivers.iter().enumerate().map(|(i, entry)| {
            let field = |name: &str| format!("receiver[{i}].{name}");
            let name = entry.name();
            check_name(&field("name"), name)?;
            if !names.insert(name) {
                return Err(duplicate(field("name"), "receiver", name));
            }
            let node = topology.node(&field("node"), &entry.node)?;
            let flow = flow_named(&field("flow"), &entry.flow, flows)?;
            if let Some(leave) = entry.leave
                && leave <= entry.join
            {
                let accepted = "after join";
                return Err(ScenarioError::relation(
                    field("leave"),
                    leave.write(),
                    accepted,
                    [field("join")],
                ));
            }
            check_path(&field("flow"), node, (flow, &flows[flow]), self, ports)?;
            let policy = entry
                .policy
                .clone()
                .unwrap_or_else(|| self.flows[flow].policy.clone());
            config_error(field("policy"), policy.validate())?;
            check_playout(i, &entry.playout)?;
            Ok(Receiver {
                name: name.to_owned(),
                node,
                flow,
                config: SinkConfig {
                    level: entry.level,
                    local_limit: self.receiver_limit(node, &flows[flow]),
                    drain: entry.drain.unwrap_or_else(|| self.profile_of(node).drain()),
                    policy,
                    repair: entry.repair,
                    // The level of a fast start follows the first demand.
                    asks_at_once: self.fast_start,
                    era: self.era,
                    res_interval: self.res_interval,
                    seed: self.seed,
                    probe: entry.probe,
                    playout: entry.playout.into(),
                    aal5_mark: self.aal5_mark,
                    protection: self.sink_protection(&entry.flow, name, entry.token),
                    ..SinkConfig::new(
                        name,
                        node_id(self.nodes.len() + i),
                        &entry.flow,
                        self.carriage,
                    )
                },
                join: Time::ZERO + entry.join,
                leave: entry.leave.map(|leave| Time::ZERO + leave),
            })
        });
        receivers.collect()
    }
}

impl Scenario {
    /// What a host can take of a flow: nine tenths of its processor, and no more than it takes without
    /// loss (specs/mets.md 2.10).
    fn receiver_limit(&self, node: usize, flow: &Flow) -> Option<CellRate> {
        let limits = self.profile_of(node).receiver_limits()?;
        let frames = flow.config.flow.spec.frames_at(Level::FULL);
        let most = limits.cost.most(frames);
        self.admission
            .is_on()
            .then(|| limits.safe.map_or(most, |safe| safe.min(most)))
    }
}

/// Checks that there is a way from the source and that its links can hold the base layer.
fn check_path(
    field: &str,
    receiver: usize,
    (number, flow): (usize, &Flow),
    scenario: &Scenario,
    ports: &[Vec<Port>],
) -> Result<(), ScenarioError> {
    let needed = flow.config.advertised_spec().rate_at(Level::BASE);
    let mut node = receiver;
    while node != flow.node {
        let Some(next) = flow.next_hops[node] else {
            return Err(ScenarioError::NoRoute {
                field: field.to_owned(),
                flow: flow.name.clone(),
                from: scenario.nodes[flow.node].name.clone(),
                to: scenario.nodes[receiver].name.clone(),
            });
        };
        if let Some(port) = ports[next].iter().find(|port| port.neighbour == node) {
            let share =
                u64::from(port.config.line().0) * u64::from(port.config.bl_permille) / 1_000;
            let free = match scenario.admission {
                Admission::Measured => u64::from(port.config.capacity().0),
                _ => share.min(u64::from(port.config.capacity().0)),
            };
            if scenario.admission.is_on() && u64::from(needed.0) > free {
                let (near, far) = (&scenario.nodes[next].name, &scenario.nodes[node].name);
                return Err(ScenarioError::relation(
                    field,
                    format!("{} with a base layer of {needed}", flow.name),
                    format!(
                        "at most the {free} cells/s that base layers may reserve between {near} and {far}: raise the \
                         rate or bl_share of that link"
                    ),
                    [format!("link[{}]", port.link), format!("flow[{number}]")],
                ));
            }
        }
        node = next;
    }
    Ok(())
}

fn check_playout(i: usize, playout: &PlayoutSpec) -> Result<(), ScenarioError> {
    let fields = [
        ("a", playout.a),
        ("beta", playout.beta),
        ("r", playout.r.unwrap_or(1.0)),
    ];
    for (name, value) in fields {
        let most = if name == "r" { MOST_MARGIN } else { 1.0 };
        if !(value > 0.0 && value <= most) {
            let accepted = format!("above 0, at most {most}");
            return Err(ScenarioError::value(
                format!("receiver[{i}].playout.{name}"),
                value,
                accepted,
            ));
        }
    }
    Ok(())
}
