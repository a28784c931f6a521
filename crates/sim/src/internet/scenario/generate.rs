//! Generators of transfers.

use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{Span, Time};
use layercast_workload::dist::{Dimension, Distribution};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::Builder;
use super::check::{check_span, check_title};
use super::error::{Problem, ScenarioError};
use super::listed;
use super::place::Place;
use super::quantity::Bytes;
use super::range::{MOST, names};
use super::schema::{Scenario, best_effort, is_best_effort, is_false, is_zero, zero};
use crate::file;
use crate::internet::components::Components;
use crate::internet::discipline::Dscp;
use crate::internet::network::{Drawn, Generator, Law, NodeIndex, Pattern, Plan};
use crate::scenario::form;
use crate::scenario::units::Quantity;
use crate::text::Text;

/// Makes many TCP transfers, which have no names: lengths from a distribution, arrivals of a load, and a pattern of pairs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GenerateSpec {
    /// Unique; default: `generate1`, `generate2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "pattern" = form::TITLE))]
    pub name: Option<String>,
    /// Lengths: "web-search", "data-mining", "facebook-hadoop", a file such as "mine.dist", or a formula such as "exp(30000) B".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<String>,
    /// Hosts that send, also `"host{1..128}"`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Hosts that receive; default: those that send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Which sender goes to which receiver.
    pub pattern: PatternName,
    /// Of an incast: senders of each arrival; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub fan_in: Option<u32>,
    /// Poisson arrivals whose user bytes are this share of the capacity of the hosts, or of the link `of`. Above 0, at most 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10), extend("exclusiveMinimum" = 0))]
    pub load: Option<f64>,
    /// The link that `load` is a share of, from its first end to its second; default: the links of the hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<[String; 2]>,
    /// Time between arrivals, in the place of `load`: "1ms" or "exp(1ms)".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Text<Law>>,
    /// A file of transfers instead, with lines such as `0.0015,host1,host2,30000`: start in seconds, hosts, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Most transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub flows: Option<u64>,
    /// Start.
    #[serde(skip_serializing_if = "is_zero")]
    pub start: Text<Span>,
    /// No transfer begins from then on; default: the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Text<Span>>,
    /// Connections exist when their transfers begin: no handshake.
    #[serde(skip_serializing_if = "is_false")]
    pub established: bool,
    /// Class of their packets in both directions, for the discipline "priority".
    #[serde(skip_serializing_if = "is_best_effort")]
    pub dscp: Text<Dscp>,
    /// Greatest lengths of the bins of the report, rising; default: 10 kB, 100 kB, 1 MB, 10 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bins: Option<Vec<Bytes>>,
}

impl Default for Text<Dscp> {
    fn default() -> Text<Dscp> {
        best_effort()
    }
}

impl Default for Text<Span> {
    fn default() -> Text<Span> {
        zero()
    }
}

/// Which sender goes to which receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PatternName {
    /// Any to any other.
    #[default]
    Random,
    /// Each to one of its own, drawn once.
    Permutation,
    /// Several at the same time to one.
    Incast,
    /// Each to each other, in turn.
    AllToAll,
}

/// Greatest lengths of the bins.
const BINS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// The generators of a scenario.
pub(super) fn generators(
    scenario: &Scenario,
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<Vec<Generator>, ScenarioError> {
    let mut taken = BTreeMap::new();
    let mut all = Vec::new();
    for (i, spec) in scenario.generators.iter().enumerate() {
        let place = Place::nth("generate", i);
        let name = spec.name.clone();
        let name = name.unwrap_or_else(|| format!("generate{}", i + 1));
        check_title(&place.field("name"), &name)?;
        if let Some(first) = taken.insert(name.clone(), place) {
            let problem = Problem::Duplicate {
                what: "the generator",
                name: format!("{name:?}"),
                first: first.to_string(),
            };
            return Err(ScenarioError::new(place.field("name"), problem));
        }
        if scenario.atm.is_some() || !network.switches.is_empty() {
            let problem = "generators are not for networks with an ATM backbone; use [[flow]]";
            return Err(ScenarioError::new(place, Problem::Config(problem.into())));
        }
        let plan = match &spec.trace {
            Some(path) => Plan::Listed(listed::read(scenario, (place, spec), path, network, sets)?),
            None => Plan::Drawn(drawn(scenario, (place, spec), network, sets)?),
        };
        all.push(Generator {
            name,
            is_established: spec.established,
            dscp: spec.dscp.0,
            bins: bins(place, spec)?,
            plan,
        });
    }
    Ok(all)
}

fn bins(place: Place, spec: &GenerateSpec) -> Result<Vec<u64>, ScenarioError> {
    let Some(bins) = &spec.bins else {
        return Ok(BINS.to_vec());
    };
    match bins.is_sorted_by(|a, b| a < b) && bins.len() <= 100 {
        true => Ok(bins.iter().map(|&Bytes(bytes)| bytes).collect()),
        false => {
            let accepted = "at most 100 lengths, each greater than the one before";
            let value = format!("{:?}", bins.iter().map(|it| it.0).collect::<Vec<_>>());
            Err(ScenarioError::value(place.field("bins"), value, accepted))
        }
    }
}

fn drawn(
    scenario: &Scenario,
    (place, spec): (Place, &GenerateSpec),
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<Drawn, ScenarioError> {
    let duration = scenario.run.duration.0;
    let sizes = sizes(scenario, place, spec)?;
    let senders = hosts(place, "from", &spec.from, network, sets)?;
    let receivers = match spec.to.is_empty() {
        true => senders.clone(),
        false => hosts(place, "to", &spec.to, network, sets)?,
    };
    if !sets.same(senders[0].0, receivers[0].0) {
        let name = |node: NodeIndex| network.nodes[node.0 as usize].name.clone();
        let (from, to) = (name(senders[0]), name(receivers[0]));
        return Err(ScenarioError::new(
            place.field("to"),
            Problem::NoPath { from, to },
        ));
    }
    if senders
        .iter()
        .any(|from| receivers.iter().all(|to| to == from))
    {
        let problem = Problem::Config("a sender has no other host to send to".to_owned());
        let field = if spec.to.is_empty() { "from" } else { "to" };
        return Err(ScenarioError::new(place.field(field), problem));
    }
    let pattern = match (spec.pattern, spec.fan_in) {
        (PatternName::Incast, Some(0)) => {
            return Err(ScenarioError::value(place.field("fan_in"), 0, "1 or more"));
        }
        (PatternName::Incast, fan_in) => Pattern::Incast(fan_in.unwrap_or(u32::MAX)),
        (_, Some(_)) => {
            let problem = Problem::Needless("it is for pattern = \"incast\"".to_owned());
            return Err(ScenarioError::new(place.field("fan_in"), problem));
        }
        (PatternName::Random, None) => Pattern::Random,
        (PatternName::Permutation, None) => Pattern::Permutation,
        (PatternName::AllToAll, None) => Pattern::AllToAll,
    };
    if pattern == Pattern::Permutation && senders.len() != receivers.len() {
        let (left, right) = (senders.len(), receivers.len());
        return Err(ScenarioError::new(
            place.field("to"),
            Problem::Lengths { left, right },
        ));
    }
    if spec.flows == Some(0) {
        return Err(ScenarioError::value(place.field("flows"), 0, "1 or more"));
    }
    let start = spec.start.0;
    if start >= duration {
        let accepted = format!("before the end of the run, {}", duration.write());
        let field = place.field("start");
        return Err(ScenarioError::value(field, start.write(), accepted));
    }
    let stop = spec.stop.map_or(duration, |stop| stop.0.min(duration));
    if stop <= start {
        let accepted = format!("after the start, {}", start.write());
        let field = place.field("stop");
        return Err(ScenarioError::value(field, stop.write(), accepted));
    }
    let mut plan = Drawn {
        gap: None,
        start: Time::ZERO.saturating_add(start),
        stop: Some(Time::ZERO.saturating_add(stop)),
        most: spec.flows,
        sizes,
        senders,
        receivers,
        pattern,
    };
    plan.gap = gap(place, spec, &plan, network)?;
    check_count(place, spec, &plan, stop.saturating_sub(start))?;
    Ok(plan)
}

/// From one arrival to the next.
fn gap(
    place: Place,
    spec: &GenerateSpec,
    plan: &Drawn,
    network: &Builder<'_>,
) -> Result<Option<Law>, ScenarioError> {
    if spec.load.is_none() && spec.of.is_some() {
        let problem = Problem::Missing("of is the link that it is a share of".to_owned());
        return Err(ScenarioError::new(place.field("load"), problem));
    }
    match (spec.load, spec.gap) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            let problem = Problem::Needless("load has the time between arrivals".to_owned());
            Err(ScenarioError::new(place.field("gap"), problem))
        }
        (None, Some(Text(gap))) => {
            let (Law::Constant(time) | Law::Exponential(time)) = gap;
            let field = place.field("gap");
            check_span(&field, time, Span::from_ps(1_000), Span::from_secs(86_400))?;
            Ok(Some(gap))
        }
        (Some(load), None) => {
            if !(load > 0.0 && load <= 10.0) {
                let field = place.field("load");
                return Err(ScenarioError::value(
                    field,
                    load,
                    "a share above 0, at most 10",
                ));
            }
            let capacity = capacity(place, spec, plan, network)?;
            let seconds = plan.sizes.mean() * 8.0 * per_arrival(plan) / (load * capacity);
            let mean = Span::from_secs_f64(seconds);
            match mean > Span::ZERO {
                true => Ok(Some(Law::Exponential(mean))),
                false => {
                    let accepted = "less: arrivals would be closer than a picosecond";
                    Err(ScenarioError::value(place.field("load"), load, accepted))
                }
            }
        }
    }
}

/// Transfers of each arrival.
fn per_arrival(plan: &Drawn) -> f64 {
    match plan.pattern {
        Pattern::Incast(fan_in) => {
            let senders = plan.senders.len() as f64;
            // Where receivers send, too, one of them does not for itself.
            let own = plan.receivers.iter().filter(|to| plan.senders.contains(to));
            let others = senders - own.count() as f64 / plan.receivers.len() as f64;
            others.min(f64::from(fan_in))
        }
        _ => 1.0,
    }
}

/// What a load is a share of, in bit/s: a link; or the links of the hosts, of those that send or of those that receive,
/// whichever is less.
fn capacity(
    place: Place,
    spec: &GenerateSpec,
    plan: &Drawn,
    network: &Builder<'_>,
) -> Result<f64, ScenarioError> {
    if let Some([from, to]) = &spec.of {
        let index = |name: &str| {
            let mut nodes = network.nodes.iter();
            nodes
                .position(|node| node.name == name)
                .map(|n| NodeIndex(n as u32))
        };
        let ends = [index(from), index(to)];
        let found = network.links.iter().find_map(|link| {
            let link_ends = link.ends.map(Some);
            if link_ends == ends {
                return Some(link.ways[0].rate);
            }
            (link_ends == [ends[1], ends[0]]).then_some(link.ways[1].rate)
        });
        let rate = found.ok_or_else(|| {
            let accepted = "the two ends of a link";
            ScenarioError::value(place.field("of"), format!("[{from:?}, {to:?}]"), accepted)
        })?;
        return Ok(rate.as_bps() as f64);
    }
    let mut rates = BTreeMap::new();
    for link in &network.links {
        let [there, back] = link.ways.map(|way| way.rate.as_bps() as f64);
        rates.insert(link.ends[0], [there, back]);
        rates.insert(link.ends[1], [back, there]);
    }
    let sum = |hosts: &[NodeIndex], way: usize| {
        let mut sum = 0.0;
        for host in hosts {
            let Some(rates) = rates.get(host) else {
                let name = &network.nodes[host.0 as usize].name;
                let problem = Problem::Config(format!(
                    "the host {name:?} has no link whose rate is known; name one with of, or give gap"
                ));
                return Err(ScenarioError::new(place.field("load"), problem));
            };
            sum += rates[way];
        }
        Ok(sum)
    };
    Ok(sum(&plan.senders, 0)?.min(sum(&plan.receivers, 1)?))
}

/// Checks that no more transfers are to be expected than a run may have.
fn check_count(
    place: Place,
    spec: &GenerateSpec,
    plan: &Drawn,
    time: Span,
) -> Result<(), ScenarioError> {
    let expected = match plan.gap {
        Some(Law::Constant(gap) | Law::Exponential(gap)) => {
            time.as_secs_f64() / gap.as_secs_f64() * per_arrival(plan)
        }
        None if plan.pattern == Pattern::AllToAll => plan.pairs() as f64,
        None => plan.senders.len() as f64,
    };
    let most = plan.most.map_or(f64::INFINITY, |most| most as f64);
    let count = expected.min(most);
    match count <= MOST as f64 {
        true => Ok(()),
        false => {
            let (what, count) = ("transfers", count as u64);
            let field = if spec.flows.is_some() {
                place.field("flows")
            } else {
                place.to_string()
            };
            Err(ScenarioError::new(
                field,
                Problem::TooMany {
                    what,
                    count,
                    most: MOST,
                },
            ))
        }
    }
}

fn sizes(
    scenario: &Scenario,
    place: Place,
    spec: &GenerateSpec,
) -> Result<Distribution, ScenarioError> {
    let field = place.field("sizes");
    let Some(text) = &spec.sizes else {
        let such = "such as sizes = \"web-search\", or a trace".to_owned();
        return Err(ScenarioError::new(field, Problem::Missing(such)));
    };
    let load = |path: &str| {
        let path = scenario.base_dir.join(path);
        file::read_text(&path, file::MAX_DATA_FILE).map_err(|error| error.to_string())
    };
    let found = Distribution::find(text, &load).and_then(|it| it.of(Dimension::Size));
    let sizes =
        found.map_err(|error| ScenarioError::new(&field, Problem::Config(error.to_string())))?;
    match sizes.mean() >= 1.0 {
        true => Ok(sizes),
        false => Err(ScenarioError::value(
            field,
            text,
            "lengths whose mean is a byte or more",
        )),
    }
}

/// The hosts of a list of names: there are some, all different, with a way from the first to each.
fn hosts(
    place: Place,
    key: &str,
    list: &[String],
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<Vec<NodeIndex>, ScenarioError> {
    if list.is_empty() {
        let such = format!("such as {key} = [\"host{{1..8}}\"]");
        return Err(ScenarioError::new(place.field(key), Problem::Missing(such)));
    }
    let mut hosts: Vec<NodeIndex> = Vec::new();
    let mut seen = BTreeSet::new();
    for (k, pattern) in list.iter().enumerate() {
        let field = place.field(format_args!("{key}[{k}]"));
        for name in names(&field, pattern)? {
            let host = network.host_called(&field, &name)?;
            if !seen.insert(host) {
                let accepted = "each host once";
                return Err(ScenarioError::value(field, name, accepted));
            }
            if let Some(&first) = hosts.first()
                && !sets.same(first.0, host.0)
            {
                let from = network.nodes[first.0 as usize].name.clone();
                let problem = Problem::NoPath { from, to: name };
                return Err(ScenarioError::new(field, problem));
            }
            hosts.push(host);
        }
    }
    Ok(hosts)
}
