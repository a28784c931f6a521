//! From the scenario as written to the network that runs, with every field checked on the way.

use core::net::Ipv4Addr;

use layercast_core::Span;

use super::attach::{self, Attachment};
use super::build::Builder;
use super::check::{check_span, check_title};
use super::contracts::Contracts;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::{names, pairs};
use super::schema::{LanSpec, LinkSpec, Scenario};
use super::{generate, mets, population, traffic};
use crate::internet::components::Components;
use crate::internet::network::{AtmBackbone, AtmEnd, Budget, Network, NodeIndex};
use crate::scenario::units::Quantity;

const DAY: u64 = 86_400;

impl Scenario {
    /// Checks everything and gives the network that it describes.
    pub fn resolve(&self) -> Result<Network, ScenarioError> {
        self.resolve_attached().map(|(network, _)| network)
    }

    /// Checks everything and gives the network that it describes, and where real programs are attached to it.
    pub fn resolve_attached(&self) -> Result<(Network, Vec<Attachment>), ScenarioError> {
        self.check_run()?;
        let mut network = Builder::new(self)?;
        if let Some(topology) = &self.topology {
            topology.build(&mut network)?;
        }
        self.add_nodes(&mut network)?;
        for (i, lan) in self.lans.iter().enumerate() {
            add_lan(&mut network, Place::nth("lan", i), lan)?;
        }
        if let Some(atm) = &self.atm {
            atm.build(&mut network)?;
        }
        for (i, link) in self.links.iter().enumerate() {
            add_links(&mut network, Place::nth("link", i), link)?;
        }
        if network.nodes.is_empty() {
            let problem = Problem::Missing("a network needs hosts, or a [topology]".to_owned());
            return Err(ScenarioError::new("host", problem));
        }
        network.check_attachments()?;
        network.assign_addresses();
        let atm = match (&self.atm, network.switches.is_empty()) {
            (Some(atm), _) => Some(atm.finish(&mut network)?),
            (None, false) => Some(super::AtmSpec::default().finish(&mut network)?),
            (None, true) => None,
        };
        let mut sets = parts(&network, atm.as_ref());
        let mut contracts = Contracts::new(self, &network);
        let flows = traffic::flows(self, &mut network, &mut sets, &mut contracts)?;
        let generators = generate::generators(self, &network, &mut sets)?;
        let contracts = contracts.finish(self, &network, &mut sets)?;
        let mets = mets::network(self, &network, &mut sets)?;
        let attachments = attach::attachments(self, &network, &mut sets)?;
        let workload = match &self.workload {
            Some(spec) => Some(population::population(self, spec, &mut network, &mut sets)?),
            None => None,
        };
        attach::check_apart(
            self,
            &attachments,
            (&flows, &generators),
            (mets.as_ref(), workload.as_ref()),
        )?;
        let network = Network {
            nodes: network.nodes,
            links: network.links,
            lans: network.lans,
            atm,
            flows,
            generators,
            contracts,
            mets,
            workload,
            duration: self.run.duration.0,
            warm_up: self.run.warm_up.0,
            seed: self.run.seed,
            ties: self.run.ties,
            budget: Budget {
                events: self.run.budget.events,
                packets: self.run.budget.packets,
            },
        };
        Ok((network, attachments))
    }

    fn check_run(&self) -> Result<(), ScenarioError> {
        check_title("name", &self.name)?;
        let run = &self.run;
        // 213 days are all that 64 bits of picoseconds hold.
        let (least, most) = (Span::from_us(1), Span::from_secs(100 * DAY));
        check_span("run.duration", run.duration.0, least, most)?;
        if run.warm_up.0 >= run.duration.0 {
            let accepted = format!("less than the duration, {}", run.duration.0.write());
            let value = run.warm_up.0.write();
            return Err(ScenarioError::value("run.warm_up", value, accepted));
        }
        for (name, value) in [
            ("events", run.budget.events),
            ("packets", u64::from(run.budget.packets)),
        ] {
            if value == 0 {
                let field = format!("run.budget.{name}");
                return Err(ScenarioError::value(field, value, "1 or more"));
            }
        }
        Ok(())
    }

    fn add_nodes(&self, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
        for (i, host) in self.hosts.iter().enumerate() {
            let place = Place::nth("host", i);
            for (k, name) in names(&place.field("name"), &host.name)?
                .into_iter()
                .enumerate()
            {
                let address = nth_address(place, host.address, k)?;
                to.host(place, name, address, host.tcp.as_deref(), host.cpu)?;
            }
        }
        for (i, router) in self.routers.iter().enumerate() {
            let place = Place::nth("router", i);
            for (k, name) in names(&place.field("name"), &router.name)?
                .into_iter()
                .enumerate()
            {
                let address = nth_address(place, router.address, k)?;
                to.router(place, name, address, router.cpu)?;
            }
        }
        Ok(())
    }
}

/// The k-th address from the first on.
fn nth_address(
    place: Place,
    first: Option<Ipv4Addr>,
    k: usize,
) -> Result<Option<Ipv4Addr>, ScenarioError> {
    let Some(first) = first else {
        return Ok(None);
    };
    let next = u32::try_from(k)
        .ok()
        .and_then(|k| u32::from(first).checked_add(k));
    match next {
        Some(next) => Ok(Some(next.into())),
        None => {
            let accepted = "a first address with enough after it";
            Err(ScenarioError::value(
                place.field("address"),
                first,
                accepted,
            ))
        }
    }
}

fn add_links(to: &mut Builder<'_>, place: Place, spec: &LinkSpec) -> Result<(), ScenarioError> {
    let line = spec.line();
    let left = names(&place.field("ends[0]"), &spec.ends[0])?;
    let right = names(&place.field("ends[1]"), &spec.ends[1])?;
    for [a, b] in pairs(&place.field("ends"), left, right)? {
        to.link(place, "", [&a, &b], &line)?;
    }
    Ok(())
}

fn add_lan(to: &mut Builder<'_>, place: Place, spec: &LanSpec) -> Result<(), ScenarioError> {
    let mut stations: Vec<NodeIndex> = Vec::new();
    let mut taken = std::collections::BTreeSet::new();
    for (k, pattern) in spec.stations.iter().enumerate() {
        let field = place.field(format_args!("stations[{k}]"));
        for name in names(&field, pattern)? {
            let node = to.node_called(&field, &name)?;
            if !taken.insert(node) {
                let problem = Problem::Duplicate {
                    what: "the station",
                    name: format!("{name:?}"),
                    first: place.to_string(),
                };
                return Err(ScenarioError::new(field, problem));
            }
            stations.push(node);
        }
    }
    if stations.len() < 2 {
        let accepted = "two stations at least";
        let value = stations.len();
        return Err(ScenarioError::value(
            place.field("stations"),
            value,
            accepted,
        ));
    }
    to.lan(
        place,
        spec.name.clone(),
        spec.rate.0,
        spec.latency.0,
        spec.mtu,
        stations,
    )
}

/// Which nodes reach each other. As hosts have one attachment, none of them is on a way.
fn parts(network: &Builder<'_>, atm: Option<&AtmBackbone>) -> Components {
    let mut sets = Components::new(network.nodes.len());
    for link in &network.links {
        sets.join(link.ends[0].0, link.ends[1].0);
    }
    for lan in &network.lans {
        for station in &lan.stations {
            sets.join(lan.stations[0].0, station.0);
        }
    }
    // All switches of the backbone reach each other: that was checked.
    let ends = atm
        .into_iter()
        .flat_map(|atm| atm.links.iter().flat_map(|link| link.ends));
    let mut first = None;
    for end in ends {
        if let AtmEnd::Adapter(node) = end {
            sets.join(*first.get_or_insert(node.0), node.0);
        }
    }
    sets
}
