//! Flows and the workload of many hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use layercast_core::{Span, Time};
use layercast_wire::XTP_HEADER;
use layercast_workload::app::HostId;
use layercast_workload::{Composite, Site, Workload};

use super::build::Builder;
use super::check::{check_span, unknown};
use super::components::Components;
use super::contracts::Contracts;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::quantity::Bytes;
use super::range::{MOST, names, pairs};
use super::schema::{DatagramSpec, FlowSpec, Scenario, WorkloadSpec, mtu};
use crate::internet::network::{Bursts, Flow, Law, NodeIndex, Population, Traffic, XtpDelivery};
use crate::scenario::units::Quantity;

/// The flows of a scenario.
pub(super) fn flows(
    scenario: &Scenario,
    network: &Builder<'_>,
    sets: &mut Components,
    contracts: &mut Contracts,
) -> Result<Vec<Flow>, ScenarioError> {
    let mut flows = Vec::new();
    let mut taken: BTreeMap<String, Place> = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mtu = scenario.atm.as_ref().map_or(mtu(), |atm| atm.mtu);
    for (i, spec) in scenario.flows.iter().enumerate() {
        let place = Place::nth("flow", i);
        let traffic = times_and_traffic(place, spec, scenario.run.duration.0)?;
        if let Traffic::Xtp {
            config, delivery, ..
        } = &traffic
            && *delivery != XtpDelivery::Ip
            && config.max_data + XTP_HEADER as u32 > mtu
        {
            let accepted = format!(
                "at most atm.mtu - {XTP_HEADER}, {}",
                mtu - XTP_HEADER as u32
            );
            let field = place.field("xtp.max_data");
            return Err(ScenarioError::value(field, config.max_data, accepted));
        }
        let from = names(&place.field("from"), &spec.from)?;
        let to = names(&place.field("to"), &spec.to)?;
        let ends = pairs(&place.field("from"), from, to)?;
        let count = (flows.len() + ends.len()) as u64;
        if count > MOST {
            let (what, most) = ("flows", MOST);
            return Err(ScenarioError::new(
                place,
                Problem::TooMany { what, count, most },
            ));
        }
        check_stagger(place, spec, ends.len(), scenario.run.duration.0)?;
        let given = match &spec.name {
            Some(name) => Some(given_names(place, name, ends.len())?),
            None => None,
        };
        for (k, [from, to]) in ends.iter().enumerate() {
            let [a, b] = network.two_hosts(place, &ends[k], sets)?;
            if let Traffic::Xtp { delivery, .. } = traffic
                && delivery != XtpDelivery::Ip
                && let Some(&host) = [a, b].iter().find(|it| !network.adapters.contains_key(it))
            {
                let name = &network.nodes[host.0 as usize].name;
                let problem = Problem::Config(format!(
                    "{name} has no ATM link; give it one, or let the flow go over IP"
                ));
                return Err(ScenarioError::new(place.field("xtp.delivery"), problem));
            }
            let name = match &given {
                Some(given) => given[k].clone(),
                None => free_name(&taken, &mut numbers, format!("{from}->{to}")),
            };
            if let Some(first) = taken.insert(name.clone(), place) {
                let problem = Problem::Duplicate {
                    what: "the flow",
                    name: format!("{name:?}"),
                    first: first.to_string(),
                };
                return Err(ScenarioError::new(place.field("name"), problem));
            }
            if let Some(spec) = &spec.contract {
                contracts.add(place, "contract", spec, &name, [a, b])?;
            }
            let later = spec.stagger.0.times(k as u64);
            flows.push(Flow {
                name,
                from: a,
                to: b,
                start: Time::ZERO.saturating_add(spec.start.0 + later),
                stop: spec.stop.map(|stop| Time::ZERO.saturating_add(stop.0)),
                traffic: traffic.clone(),
            });
        }
    }
    Ok(flows)
}

/// Checks that the last of so many flows begins in time.
fn check_stagger(
    place: Place,
    spec: &FlowSpec,
    flows: usize,
    duration: Span,
) -> Result<(), ScenarioError> {
    let end = spec.stop.map_or(duration, |stop| stop.0.min(duration));
    let field = place.field("stagger");
    let left = end.saturating_sub(spec.start.0).as_ps() / flows.max(1) as u64;
    check_span(&field, spec.stagger.0, Span::ZERO, Span::from_ps(left))
}

fn given_names(place: Place, name: &str, flows: usize) -> Result<Vec<String>, ScenarioError> {
    let field = place.field("name");
    let given = names(&field, name)?;
    for name in &given {
        if name.is_empty() || name.len() > 140 || name.chars().any(char::is_control) {
            let accepted = "1 to 140 bytes of text";
            return Err(ScenarioError::value(field, format!("{name:?}"), accepted));
        }
    }
    match given.len() == flows {
        true => Ok(given),
        false => {
            let (left, right) = (given.len(), flows);
            Err(ScenarioError::new(field, Problem::Lengths { left, right }))
        }
    }
}

/// The name, with a number if it is taken; the last ones given are in `numbers`.
fn free_name(
    taken: &BTreeMap<String, Place>,
    numbers: &mut BTreeMap<String, u32>,
    name: String,
) -> String {
    let mut free = name.clone();
    while taken.contains_key(&free) {
        let number = numbers.entry(name.clone()).or_insert(1);
        *number += 1;
        free = format!("{name}#{number}");
    }
    free
}

fn times_and_traffic(
    place: Place,
    spec: &FlowSpec,
    duration: Span,
) -> Result<Traffic, ScenarioError> {
    let start = spec.start.0;
    if start >= duration {
        let accepted = format!("before the end of the run, {}", duration.write());
        return Err(ScenarioError::value(
            place.field("start"),
            start.write(),
            accepted,
        ));
    }
    if let Some(stop) = spec.stop
        && stop.0 <= start
    {
        let accepted = format!("after the start, {}", start.write());
        return Err(ScenarioError::value(
            place.field("stop"),
            stop.0.write(),
            accepted,
        ));
    }
    if let Some(xtp) = &spec.xtp
        && spec.datagrams.is_none()
        && spec.bytes != Some(Bytes(0))
    {
        return Ok(Traffic::Xtp {
            bytes: spec.bytes.map(|Bytes(bytes)| bytes),
            config: Box::new(xtp.config(place)?),
            delivery: xtp.delivery(),
        });
    }
    match (spec.bytes, spec.datagrams) {
        (Some(_), Some(_)) => {
            let problem = Problem::Needless("a flow has bytes (of TCP) or datagrams".to_owned());
            Err(ScenarioError::new(place.field("bytes"), problem))
        }
        (None, Some(_)) if spec.xtp.is_some() => {
            let problem = Problem::Needless("a flow is of XTP or of datagrams".to_owned());
            Err(ScenarioError::new(place.field("xtp"), problem))
        }
        (Some(Bytes(0)), None) => {
            let accepted = "1 or more; leave it out for a flow without end";
            Err(ScenarioError::value(place.field("bytes"), 0, accepted))
        }
        (bytes, None) => Ok(Traffic::Bulk(bytes.map(|Bytes(bytes)| bytes))),
        (None, Some(datagrams)) => datagram(place, datagrams),
    }
}

fn datagram(place: Place, spec: DatagramSpec) -> Result<Traffic, ScenarioError> {
    let (gap, size) = (spec.gap.0, spec.size.0);
    let (Law::Constant(time) | Law::Exponential(time)) = gap;
    let field = place.field("datagrams.gap");
    check_span(&field, time, Span::from_ps(1_000), Span::from_secs(86_400))?;
    if !size.is_possible() {
        let field = place.field("datagrams.size");
        let accepted = "29 B to 65535 B, or 1 to 1365 cells";
        return Err(ScenarioError::value(field, size.write(), accepted));
    }
    let bursts = match (spec.on, spec.off) {
        (None, None) => None,
        (Some(on), Some(off)) => {
            let (on, off) = (on.0, off.0);
            for (name, law) in [("on", on), ("off", off)] {
                let (Law::Constant(time) | Law::Exponential(time)) = law;
                let field = place.field(format_args!("datagrams.{name}"));
                check_span(&field, time, Span::from_ps(1_000), Span::from_secs(86_400))?;
            }
            Some(Bursts { on, off })
        }
        (on, _) => {
            let (there, missing) = match on {
                Some(_) => ("on", "off"),
                None => ("off", "on"),
            };
            let such = format!("{there} needs it, such as {missing} = \"50ms\"");
            let field = place.field(format_args!("datagrams.{missing}"));
            return Err(ScenarioError::new(field, Problem::Missing(such)));
        }
    };
    Ok(Traffic::Datagrams { gap, size, bursts })
}

/// The workload of a scenario and its hosts.
pub(super) fn population(
    scenario: &Scenario,
    spec: &WorkloadSpec,
    network: &mut Builder<'_>,
    sets: &mut Components,
) -> Result<Population, ScenarioError> {
    let workload = workload(&spec.source, &scenario.base_dir)?;
    let sites = sites(spec, network)?;
    let mut hosts: Vec<NodeIndex> = Vec::new();
    let mut numbered = |nodes: &[NodeIndex]| {
        let first = hosts.len() as u32;
        hosts.extend(nodes);
        (first..hosts.len() as u32).map(HostId).collect()
    };
    let site = |[users, servers]: &[Vec<NodeIndex>; 2]| Site {
        workstations: numbered(users),
        servers: numbered(servers),
    };
    let sites: Vec<Site> = sites.iter().map(site).collect();
    let most = sites.iter().map(|site| site.servers.len()).max();
    let ranks = (0..most.unwrap_or(0))
        .flat_map(|rank| sites.iter().filter_map(move |site| site.servers.get(rank)))
        .copied();
    let ranks = ranks.collect();
    let population = layercast_workload::Population { sites, ranks };
    Composite::new(&workload, population.clone(), scenario.run.seed).map_err(|error| {
        let problem = Problem::Config(error.to_string());
        ScenarioError::new("workload.site", problem)
    })?;
    if let Some(&apart) = hosts.iter().find(|host| !sets.same(hosts[0].0, host.0)) {
        let name = |node: NodeIndex| network.nodes[node.0 as usize].name.clone();
        let (from, to) = (name(hosts[0]), name(apart));
        let problem = Problem::NoPath { from, to };
        return Err(ScenarioError::new("workload.site", problem));
    }
    Ok(Population {
        workload,
        hosts,
        sites: population,
    })
}

const BUILT_IN: &str = "mah96";

fn workload(source: &str, base_dir: &Path) -> Result<Workload, ScenarioError> {
    let field = "workload.use";
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| {
            let path = path.to_owned();
            ScenarioError::new(field, Problem::Read { path, error })
        })
    };
    let text = match source {
        BUILT_IN => Workload::MAH96.to_owned(),
        file if file.ends_with(".toml") => read(&base_dir.join(file))?,
        other => {
            return Err(unknown(
                field,
                "workload (or *.toml)",
                other,
                [BUILT_IN].into_iter(),
            ));
        }
    };
    let load = |path: &str| read(&base_dir.join(path)).map_err(|error| error.problem.to_string());
    Workload::parse(&text, &load).map_err(|error| {
        let problem = Problem::Config(error.to_string());
        ScenarioError::new(field, problem)
    })
}

/// Workstations and servers of each site.
fn sites(
    spec: &WorkloadSpec,
    network: &mut Builder<'_>,
) -> Result<Vec<[Vec<NodeIndex>; 2]>, ScenarioError> {
    let mut taken = BTreeSet::new();
    let mut sites = std::mem::take(&mut network.sites);
    taken.extend(sites.iter().flatten().flatten().copied());
    for (i, site) in spec.sites.iter().enumerate() {
        let place = Place::nth("workload.site", i);
        let mut listed = |name: &str, list: &[String]| {
            let mut nodes = Vec::new();
            for (k, pattern) in list.iter().enumerate() {
                let field = place.field(format_args!("{name}[{k}]"));
                for name in names(&field, pattern)? {
                    let node = network.host_called(&field, &name)?;
                    if !taken.insert(node) {
                        let accepted = "a host that has no other place in a site";
                        return Err(ScenarioError::value(field, name, accepted));
                    }
                    nodes.push(node);
                }
            }
            Ok(nodes)
        };
        let users = listed("workstations", &site.workstations)?;
        let servers = listed("servers", &site.servers)?;
        sites.push([users, servers]);
    }
    Ok(sites)
}
