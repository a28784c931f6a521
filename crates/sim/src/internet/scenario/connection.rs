//! What a flow says about its connection: the TCP of its ends, whether it exists at the beginning, and when it starts.

use std::collections::BTreeMap;

use layercast_core::Span;

use super::build::Builder;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::schema::FlowSpec;
use crate::internet::discipline::Dscp;
use crate::internet::network::{NodeIndex, Role, Traffic, XtpDelivery};
use crate::scenario::units::Quantity;

/// The TCP that flows give to hosts, by host, with the first flow that does.
pub(super) type Given = BTreeMap<NodeIndex, (String, Place)>;

/// Checks that what is said makes sense for this traffic.
pub(super) fn check(
    place: Place,
    spec: &FlowSpec,
    traffic: &Traffic,
    duration: Span,
) -> Result<(), ScenarioError> {
    let is_tcp = matches!(traffic, Traffic::Bulk(_));
    for (name, is_given) in [
        ("tcp", spec.tcp.is_some()),
        ("established", spec.established),
    ] {
        if is_given && !is_tcp {
            let problem = Problem::Needless("the flow is no TCP connection".to_owned());
            return Err(ScenarioError::new(place.field(name), problem));
        }
    }
    let (start, jitter) = (spec.start.0, spec.start_jitter.0);
    let end = spec.stop.map_or(duration, |stop| stop.0);
    if jitter > Span::ZERO && jitter >= end.saturating_sub(start) {
        let accepted = format!(
            "less than the time from the start to the end of the flow, {}",
            end.saturating_sub(start).write()
        );
        let field = place.field("start_jitter");
        return Err(ScenarioError::value(field, jitter.write(), accepted));
    }
    Ok(())
}

/// The classes of XTP packets between two hosts, with the first flow that has it.
pub(super) type Classes = BTreeMap<[NodeIndex; 2], (Dscp, Place)>;

/// Routers see the XTP packets of two hosts as one flow, which has one class.
pub(super) fn check_class(
    classes: &mut Classes,
    (place, spec): (Place, &FlowSpec),
    traffic: &Traffic,
    from: NodeIndex,
    to: NodeIndex,
    network: &Builder<'_>,
) -> Result<(), ScenarioError> {
    let receivers = match traffic {
        Traffic::Xtp {
            delivery: XtpDelivery::Ip,
            ..
        } => vec![to],
        Traffic::XtpMulticast { receivers, .. } => receivers.iter().map(|it| it.node).collect(),
        _ => return Ok(()),
    };
    for to in receivers {
        let ends = [from.min(to), from.max(to)];
        let (dscp, first) = *classes.entry(ends).or_insert((spec.dscp.0, place));
        if dscp != spec.dscp.0 {
            let [a, b] = ends.map(|end| &network.nodes[end.0 as usize].name);
            let problem = format!(
                "XTP packets between {a} and {b} are one flow to routers, which {first} gives the class {:?}: give both flows the same dscp",
                dscp.write()
            );
            let field = place.field("dscp");
            return Err(ScenarioError::new(field, Problem::Config(problem)));
        }
    }
    Ok(())
}

/// The ends of a flow have the TCP that it names.
pub(super) fn give_tcp(
    given: &mut Given,
    place: Place,
    spec: &FlowSpec,
    ends: [NodeIndex; 2],
    network: &mut Builder<'_>,
) -> Result<(), ScenarioError> {
    let Some(name) = spec.tcp.as_deref() else {
        return Ok(());
    };
    let field = place.field("tcp");
    let config = network.tcp_called(&field, Some(name))?;
    for host in ends {
        match given.get(&host) {
            Some((other, _)) if other == name => continue,
            Some((other, first)) => {
                let host = &network.nodes[host.0 as usize].name;
                let problem = Problem::Config(format!(
                    "{host} has the TCP {other:?} of {first}; a host has one TCP: give the flows hosts of their own"
                ));
                return Err(ScenarioError::new(field, problem));
            }
            None => {}
        }
        given.insert(host, (name.to_owned(), place));
        if let Role::Host(tcp) = &mut network.nodes[host.0 as usize].role {
            **tcp = config.clone();
        }
    }
    Ok(())
}
