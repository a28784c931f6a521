//! Flows.

use std::collections::BTreeMap;

use layercast_core::{Span, Time};
use layercast_wire::XTP_HEADER;

use super::build::Builder;
use super::check::{check_span, check_title};
use super::connection;
use super::contracts::Contracts;
use super::error::{Problem, ScenarioError};
use super::group;
use super::place::Place;
use super::quantity::Bytes;
use super::range::{MOST, names, pairs};
use super::schema::{DatagramSpec, FlowSpec, Scenario, mtu};
use crate::internet::components::Components;
use crate::internet::network::{Bursts, Flow, Law, Traffic, XtpDelivery};
use crate::scenario::units::Quantity;

/// The flows of a scenario.
pub(super) fn flows(
    scenario: &Scenario,
    network: &mut Builder<'_>,
    sets: &mut Components,
    contracts: &mut Contracts,
) -> Result<Vec<Flow>, ScenarioError> {
    let mut flows = Vec::new();
    let mut taken: BTreeMap<String, Place> = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mut given_tcp = connection::Given::new();
    let mut classes = connection::Classes::new();
    let mtu = scenario.atm.as_ref().map_or(mtu(), |atm| atm.mtu);
    for (i, spec) in scenario.flows.iter().enumerate() {
        let place = Place::nth("flow", i);
        let traffic = times_and_traffic(place, spec, scenario.run.duration.0)?;
        connection::check(place, spec, &traffic, scenario.run.duration.0)?;
        if let Some((xtp, of_group)) = spec
            .xtp
            .as_ref()
            .and_then(|xtp| Some((xtp, xtp.group.as_ref()?)))
        {
            let of = ((place, spec), (xtp, of_group));
            let (ends, nodes, traffic) = group::flow(of.0, of.1, scenario, network, sets)?;
            let name = match &spec.name {
                Some(name) => given_names(place, name, 1)?.swap_remove(0),
                None => free_name(&taken, &mut numbers, ends.join("->")),
            };
            take(&mut taken, &name, place)?;
            let class = (place, spec);
            connection::check_class(&mut classes, class, &traffic, nodes[0], nodes[1], network)?;
            flows.push(Flow {
                name,
                from: nodes[0],
                to: nodes[1],
                start: Time::ZERO.saturating_add(spec.start.0),
                start_jitter: spec.start_jitter.0,
                is_established: false,
                stop: spec.stop.map(|stop| Time::ZERO.saturating_add(stop.0)),
                dscp: spec.dscp.0,
                traffic,
            });
            continue;
        }
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
            connection::give_tcp(&mut given_tcp, place, spec, [a, b], network)?;
            connection::check_class(&mut classes, (place, spec), &traffic, a, b, network)?;
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
            take(&mut taken, &name, place)?;
            if let Some(spec) = &spec.contract {
                contracts.add(place, "contract", spec, &name, [a, b])?;
            }
            let later = spec.stagger.0.times(k as u64);
            flows.push(Flow {
                name,
                from: a,
                to: b,
                start: Time::ZERO.saturating_add(spec.start.0 + later),
                start_jitter: spec.start_jitter.0,
                is_established: spec.established,
                stop: spec.stop.map(|stop| Time::ZERO.saturating_add(stop.0)),
                dscp: spec.dscp.0,
                traffic: traffic.clone(),
            });
        }
    }
    Ok(flows)
}

/// Takes a name that no other flow has.
fn take(
    taken: &mut BTreeMap<String, Place>,
    name: &str,
    place: Place,
) -> Result<(), ScenarioError> {
    let Some(first) = taken.insert(name.to_owned(), place) else {
        return Ok(());
    };
    let problem = Problem::Duplicate {
        what: "the flow",
        name: format!("{name:?}"),
        first: first.to_string(),
    };
    Err(ScenarioError::new(place.field("name"), problem))
}

/// Checks that the last of `count` flows begins in time.
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
        check_title(&field, name)?;
    }
    match given.len() == flows {
        true => Ok(given),
        false => {
            let stem = name.split('{').next().unwrap_or_default();
            let accepted = match flows {
                1 => "one name for its one flow, or none".to_owned(),
                _ => {
                    let such = format!("{stem}{{1..{flows}}}");
                    format!("a name for each of its {flows} flows, such as {such:?}, or none")
                }
            };
            Err(ScenarioError::value(field, format!("{name:?}"), accepted))
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
