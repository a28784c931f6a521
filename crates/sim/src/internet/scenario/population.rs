//! The workload of many hosts.

use std::collections::BTreeSet;
use std::path::Path;

use layercast_workload::app::HostId;
use layercast_workload::{Composite, Site, Workload};

use super::build::Builder;
use super::check::unknown;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::range::names;
use super::schema::{Scenario, WorkloadSpec};
use crate::file;
use crate::internet::components::Components;
use crate::internet::network::{NodeIndex, Population};

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
        file::read_text(path, file::MAX_DATA_FILE).map_err(|error| {
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
