//! What a network must be before it is built.

use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{Rate, Span, aal5_cells};
use layercast_wire::{XTP_HEADER, XtpService};
use layercast_xtp::XtpConfig;

use super::atm;
use super::error::{MAX_MTU, NetworkError};
use super::medium::packet::IP_HEADER;
use super::network::{
    Lan, Law, Limit, Link, Network, NodeIndex, Pattern, Plan, Queue, Receiver, Role, SizeLaw,
    Traffic,
};

pub(super) fn check(network: &Network) -> Result<(), NetworkError> {
    let (mut names, mut addresses) = (BTreeMap::new(), BTreeMap::new());
    for node in &network.nodes {
        if names.insert(&node.name, ()).is_some() {
            return Err(NetworkError::Name(node.name.clone()));
        }
        if let Some(first) = addresses.insert(node.address, &node.name) {
            return Err(NetworkError::Address {
                address: node.address,
                first: first.clone(),
                second: node.name.clone(),
            });
        }
    }
    let mut attached = vec![0; network.nodes.len()];
    for (n, link) in network.links.iter().enumerate() {
        let part = format!("link {n}");
        for end in link.ends {
            *place(&mut attached, &part, end)? += 1;
        }
        if link.ends[0] == link.ends[1] {
            return Err(value(&part, "both ends are the same node"));
        }
        medium(&part, link.mtu, link.ways.map(|way| way.rate))?;
        for (way, discipline) in link.ways.iter().zip(&link.disciplines) {
            queue(&part, &way.queue)?;
            if discipline.is_some() && (way.queue.red.is_some() || way.queue.mark.is_some()) {
                return Err(value(
                    &part,
                    "a queue with a discipline has neither RED nor a threshold of marks",
                ));
            }
            if let Err(error) = way.impair.over(link.delay).validate() {
                return Err(value(&part, &format!("{}: {}", error.field, error.problem)));
            }
        }
    }
    for lan in &network.lans {
        let part = format!("LAN {:?}", lan.name);
        let mut seen = BTreeMap::new();
        for &station in &lan.stations {
            *place(&mut attached, &part, station)? += 1;
            if seen.insert(station, ()).is_some() {
                return Err(value(&part, "a station is attached twice"));
            }
        }
        medium(&part, lan.mtu, [lan.rate; 2])?;
    }
    if let Some(backbone) = &network.atm {
        atm::check(network, backbone)?;
        for node in atm::adapted(backbone) {
            attached[node.0 as usize] += 1;
        }
    }
    for (node, &count) in network.nodes.iter().zip(&attached) {
        if matches!(node.role, Role::Host(_)) && count != 1 {
            let host = node.name.clone();
            return Err(NetworkError::Attachment { host, count });
        }
    }
    flows(network)?;
    generators(network)
}

fn flows(network: &Network) -> Result<(), NetworkError> {
    for flow in &network.flows {
        let part = format!("flow {:?}", flow.name);
        for end in [flow.from, flow.to] {
            if network.is_router(known(network, &part, end)?) {
                return Err(value(&part, "goes from host to host, not to a router"));
            }
        }
        if flow.from == flow.to {
            return Err(value(&part, "goes from a host to itself"));
        }
        if let Traffic::Xtp { config, .. } | Traffic::XtpMulticast { config, .. } = &flow.traffic
            && let Err(error) = config.validate()
        {
            return Err(value(&part, &error.problem));
        }
        if let Traffic::XtpMulticast {
            config, receivers, ..
        } = &flow.traffic
        {
            group(network, &part, flow.from, config, receivers)?;
        }
        if let Traffic::Datagrams { gap, size, bursts } = flow.traffic {
            let bursts = bursts.map(|it| [it.on, it.off]);
            let mut times = [gap].into_iter().chain(bursts.into_iter().flatten());
            if times.any(|(Law::Constant(mean) | Law::Exponential(mean))| mean == Span::ZERO) {
                let problem = "the times of datagrams must be more than zero";
                return Err(value(&part, problem));
            }
            if !size.is_possible() {
                let problem = "datagrams have 29 to 65535 bytes with headers, 1 to 1365 cells";
                return Err(value(&part, problem));
            }
        }
    }
    if let Some(population) = &network.workload {
        for &host in &population.hosts {
            if network.is_router(known(network, "workload", host)?) {
                return Err(value(
                    "workload",
                    "applications run on hosts, not on routers",
                ));
            }
        }
        let sites = &population.sites.sites;
        let named = sites
            .iter()
            .flat_map(|site| site.workstations.iter().chain(&site.servers));
        let ranks = population.sites.ranks.iter();
        if named
            .chain(ranks)
            .any(|host| host.0 as usize >= population.hosts.len())
        {
            return Err(value(
                "workload",
                "a site has a host that is not in its list",
            ));
        }
    }
    Ok(())
}

fn generators(network: &Network) -> Result<(), NetworkError> {
    for generator in &network.generators {
        let part = format!("generator {:?}", generator.name);
        let is_host = |end| known(network, &part, end).map(|end| !network.is_router(end));
        match &generator.plan {
            Plan::Listed(list) => {
                if !list.is_sorted_by_key(|it| it.start) {
                    return Err(value(
                        &part,
                        "its transfers are not in the order of their starts",
                    ));
                }
                for it in list {
                    if it.from == it.to || !is_host(it.from)? || !is_host(it.to)? {
                        return Err(value(&part, "a transfer goes from a host to another"));
                    }
                }
            }
            Plan::Drawn(drawn) => {
                let ends = [&drawn.senders, &drawn.receivers];
                for list in ends {
                    let mut seen = BTreeSet::new();
                    for &end in list {
                        if !is_host(end)? || !seen.insert(end) {
                            return Err(value(&part, "its ends are hosts, each of them once"));
                        }
                    }
                }
                let counts = ends.map(Vec::len);
                if drawn.pattern == Pattern::Permutation && counts[0] != counts[1] {
                    return Err(value(
                        &part,
                        "a permutation has as many receivers as senders",
                    ));
                }
                let is_alone = |end| drawn.receivers.iter().all(|to| to == end);
                if counts.contains(&0) || drawn.senders.iter().any(is_alone) {
                    return Err(value(&part, "a sender has no other receiver"));
                }
                if let Some(Law::Constant(mean) | Law::Exponential(mean)) = drawn.gap
                    && mean == Span::ZERO
                {
                    return Err(value(
                        &part,
                        "the time between arrivals must be more than zero",
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A flow to many receivers.
fn group(
    network: &Network,
    part: &str,
    from: NodeIndex,
    config: &XtpConfig,
    receivers: &[Receiver],
) -> Result<(), NetworkError> {
    let mut seen = BTreeSet::from([from]);
    for receiver in receivers {
        if network.is_router(known(network, part, receiver.node)?) {
            return Err(value(part, "goes from host to hosts, not to a router"));
        }
        if !seen.insert(receiver.node) {
            let problem = "its receivers are different hosts, and not the sender";
            return Err(value(part, problem));
        }
    }
    if receivers.is_empty() {
        return Err(value(part, "there is no receiver"));
    }
    let services = [XtpService::MULTICAST, XtpService::RELIABLE_MULTICAST];
    if !services.contains(&config.service) {
        return Err(value(part, "its service must be that of multicast"));
    }
    if network.atm.is_some() {
        return Err(value(part, "there is no multicast with an ATM backbone"));
    }
    match least_mtu(&network.links, &network.lans) {
        Some(mtu) if config.max_data + GROUP_HEADERS > mtu => {
            let problem = "packets to a group are not cut: max_data and headers of 52 bytes must fit the MTU everywhere";
            Err(value(part, problem))
        }
        _ => Ok(()),
    }
}

/// Headers of IP and XTP.
pub(super) const GROUP_HEADERS: u32 = IP_HEADER + XTP_HEADER as u32;

/// The least of the MTUs.
pub(super) fn least_mtu(links: &[Link], lans: &[Lan]) -> Option<u32> {
    let links = links.iter().map(|link| link.mtu);
    links.chain(lans.iter().map(|lan| lan.mtu)).min()
}

impl SizeLaw {
    /// Whether such packets can be.
    pub(super) fn is_possible(self) -> bool {
        let most = MAX_MTU as usize;
        match self {
            SizeLaw::Constant(size) => (29..=MAX_MTU).contains(&size),
            SizeLaw::Exponential(mean) => (29.0..=f64::from(MAX_MTU)).contains(&mean),
            SizeLaw::Cells { mean, most: cells } => {
                (1.0..=f64::from(cells)).contains(&mean) && cells < aal5_cells(most)
            }
        }
    }
}

fn known(network: &Network, part: &str, node: NodeIndex) -> Result<NodeIndex, NetworkError> {
    match (node.0 as usize) < network.nodes.len() {
        true => Ok(node),
        false => Err(no_node(part, node)),
    }
}

fn place<'a>(
    attached: &'a mut [usize],
    part: &str,
    node: NodeIndex,
) -> Result<&'a mut usize, NetworkError> {
    let found = attached.get_mut(node.0 as usize);
    found.ok_or_else(|| no_node(part, node))
}

fn no_node(part: &str, node: NodeIndex) -> NetworkError {
    NetworkError::NoNode {
        part: part.to_owned(),
        index: node.0,
    }
}

fn value(part: &str, problem: &str) -> NetworkError {
    NetworkError::Value {
        part: part.to_owned(),
        problem: problem.to_owned(),
    }
}

fn medium(part: &str, mtu: u32, rates: [Rate; 2]) -> Result<(), NetworkError> {
    NetworkError::check_mtu(part, mtu)?;
    if rates.iter().any(|rate| rate.as_bps() == 0) {
        return Err(value(part, "rate must be more than zero"));
    }
    Ok(())
}

fn queue(part: &str, queue: &Queue) -> Result<(), NetworkError> {
    if matches!(queue.limit, Limit::Bytes(0)) {
        return Err(value(part, "a queue of zero bytes holds nothing"));
    }
    let Some(red) = queue.red else {
        return Ok(());
    };
    let fits = red.min >= 0.0
        && red.min < red.max
        && red.max.is_finite()
        && red.max_p > 0.0
        && red.max_p <= 1.0
        && red.weight > 0.0
        && red.weight <= 1.0;
    match fits {
        true => Ok(()),
        false => Err(value(
            part,
            "RED needs 0 <= min < max, and max_p and weight above 0 and at most 1",
        )),
    }
}
