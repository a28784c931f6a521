//! What a flow says about its connection: the TCP of its ends, whether it exists at the beginning, and when it starts.

use std::collections::BTreeMap;

use layercast_core::Span;

use super::build::Builder;
use super::error::{Problem, ScenarioError};
use super::place::Place;
use super::schema::FlowSpec;
use crate::internet::discipline::Dscp;
use crate::internet::network::{NodeIndex, Role, Traffic};
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
    let is_xtp = matches!(traffic, Traffic::Xtp { .. } | Traffic::XtpMulticast { .. });
    if spec.dscp.0 != Dscp::default() && is_xtp {
        let problem = "XTP flows of two hosts are one to routers; TCP and datagrams have classes";
        let problem = Problem::Needless(problem.to_owned());
        return Err(ScenarioError::new(place.field("dscp"), problem));
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
