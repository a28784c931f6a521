use std::collections::{BTreeMap, BTreeSet, VecDeque};

use layercast_atm::mapper::{FlowMapper, MapperConfig};
use layercast_atm::policy::Policy;
use layercast_atm::signal::{Controller, ControllerConfig, Gates};
use layercast_atm::{
    Class, Discard as FrameDiscard, Discipline, OutputQueue, QueueConfig, QueueConfigError,
    Reassembler, RunQueue,
};
use layercast_core::{PortId, Rate, Span, Time};

use super::SIGNALLING;
use super::backbone::{Adapter, AtmNode, Backbone, Mover};
use super::cells::Cells;
use super::due::Moment;
use super::fabric::Fabric;
use super::frames::Frames;
use super::port::Port;
use super::sites::Sites;
use super::trains::Trains;
use crate::internet::error::NetworkError;
use crate::internet::network::{AtmBackbone, AtmEnd, AtmLink, Discard, Network, NodeIndex};
use crate::kernel::SourceId;
use crate::ties::Turns;

/// The nodes with an adapter, in the order of the links: the n-th has the n-th address.
pub(in crate::internet) fn adapted(atm: &AtmBackbone) -> Vec<NodeIndex> {
    let ends = atm.links.iter().flat_map(|link| link.ends);
    let nodes = ends.filter_map(|end| match end {
        AtmEnd::Adapter(node) => Some(node),
        AtmEnd::Switch(_) => None,
    });
    nodes.collect()
}

/// The number of an adapter among the nodes of the backbone.
pub(in crate::internet) fn adapter(atm: &AtmBackbone, n: usize) -> u32 {
    (atm.switches.len() + n) as u32
}

pub(in crate::internet) fn check(network: &Network, atm: &AtmBackbone) -> Result<(), NetworkError> {
    let fail = |part: String, problem: String| Err(NetworkError::Value { part, problem });
    for (n, link) in atm.links.iter().enumerate() {
        let part = format!("ATM link {n}");
        for end in link.ends {
            match end {
                AtmEnd::Switch(index) if index as usize >= atm.switches.len() => {
                    return Err(NetworkError::NoNode { part, index });
                }
                AtmEnd::Adapter(NodeIndex(index)) if index as usize >= network.nodes.len() => {
                    return Err(NetworkError::NoNode { part, index });
                }
                AtmEnd::Adapter(_) | AtmEnd::Switch(_) => {}
            }
        }
        if link.ends[0] == link.ends[1] {
            return fail(part, "both ends are the same node".into());
        }
        if matches!(link.ends, [AtmEnd::Adapter(_), AtmEnd::Adapter(_)]) {
            return fail(
                part,
                "joins two adapters: there must be a switch between them".into(),
            );
        }
    }
    let mut nodes = adapted(atm);
    let count = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    if nodes.len() < count {
        return fail(
            "ATM".into(),
            "a node has two adapters: it may have one".into(),
        );
    }
    if atm.slots
        && let Some((first, n)) = other_rate(atm)
    {
        let rate = atm.links[n].rate;
        let problem = format!("has {rate} beside {first}: slots need one rate of all links");
        return fail(format!("ATM link {n}"), problem);
    }
    NetworkError::check_mtu("ATM", atm.mtu)?;
    if count > usize::from(u16::MAX) - 1 {
        return fail(
            "ATM".into(),
            "there are more adapters than ATM addresses".into(),
        );
    }
    if let Err(error) = atm.policy.parse::<Policy>() {
        return fail("ATM policy".into(), error.to_string());
    }
    Ok(())
}

/// The rate of the first link, and the first link that has another.
pub(in crate::internet) fn other_rate(atm: &AtmBackbone) -> Option<(Rate, usize)> {
    let first = atm.links.first()?.rate;
    let other = atm.links.iter().position(|link| link.rate != first);
    other.map(|n| (first, n))
}

pub(in crate::internet) fn build(
    network: &Network,
    atm: &AtmBackbone,
    mut timer: impl FnMut(u32, &str) -> SourceId,
) -> Result<Backbone, NetworkError> {
    let value = |part: &str, problem: String| NetworkError::Value {
        part: part.to_owned(),
        problem,
    };
    let policy: Policy = atm
        .policy
        .parse()
        .map_err(|error| value("ATM policy", format!("{error}")))?;
    let adapted = adapted(atm);
    let count = atm.switches.len() + adapted.len();
    // The links of each node, each with the end that is there.
    let mut at: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
    let place = |end: AtmEnd| match end {
        AtmEnd::Switch(n) => n as usize,
        AtmEnd::Adapter(node) => {
            let n = adapted.iter().position(|&it| it == node);
            atm.switches.len() + n.unwrap_or_default()
        }
    };
    for (n, link) in atm.links.iter().enumerate() {
        for end in 0..2 {
            at[place(link.ends[end])].push((n, end));
        }
    }
    // Ports stand node by node; the port of an end of a link.
    let first: Vec<u32> = at
        .iter()
        .scan(0, |sum, links| {
            let first = *sum;
            *sum += links.len() as u32;
            Some(first)
        })
        .collect();
    let port_of = |link: usize, end: usize| {
        let node = place(atm.links[link].ends[end]);
        let id = at[node].iter().position(|&it| it == (link, end));
        (first[node] + id.unwrap_or_default() as u32, node)
    };
    let name_of = |node: usize| match node.checked_sub(atm.switches.len()) {
        Some(n) => network.nodes[adapted[n].0 as usize].name.as_str(),
        None => atm.switches[node].as_str(),
    };
    let turns = Turns::new(network.ties, network.seed);
    let mut taken = BTreeSet::new();
    let mut ports = Vec::new();
    let mut configs = Vec::new();
    let mut nodes = Vec::new();
    for (node, links) in at.iter().enumerate() {
        let mut times = Vec::new();
        for (id, &(link, end)) in links.iter().enumerate() {
            let AtmLink { rate, .. } = atm.links[link];
            let is_adapter = node >= atm.switches.len();
            let config = queue_config(atm, policy, rate, is_adapter);
            times.push(config.cell_time);
            configs.push((link, config));
            let peer = port_of(link, 1 - end);
            let (place, mut line) = (ports.len() as u32, name_of(node).to_owned());
            line = format!("atm-link/{line}->{}", name_of(peer.1));
            while !taken.insert(line.clone()) {
                line.push('+');
            }
            ports.push(Port {
                node: node as u32,
                id: id as u16,
                peer: peer.0,
                cell_time: config.cell_time,
                delay: atm.delay_of(&atm.links[link]),
                turn: turns.of(&line, place),
                table: Vec::new(),
            });
        }
        let adapter = node.checked_sub(atm.switches.len());
        let config = ControllerConfig {
            address: adapter.map(super::address),
            max_vcs: atm.queue.max_vcs,
            processing: atm.signalling_delay,
            ..ControllerConfig::default()
        };
        let mut controller = Controller::new(config, Gates::new(times));
        for id in 0..links.len() {
            controller.add_port(PortId(id as u16));
        }
        let name = name_of(node).to_owned();
        nodes.push(AtmNode {
            timer: timer(node as u32, &name),
            name,
            first_port: first[node],
            controller,
            adapter: adapter.map(|n| Adapter {
                owner: adapted[n],
                mapper: FlowMapper::new(MapperConfig {
                    idle: atm.idle,
                    ..MapperConfig::new(policy)
                }),
            }),
            told: false,
            patience: None,
        });
    }
    // Where circuits to each adapter leave each node: the shortest way, by number of links.
    for (n, _) in adapted.iter().enumerate() {
        let to = atm.switches.len() + n;
        let mut seen = vec![false; count];
        seen[to] = true;
        let mut line = VecDeque::from([to]);
        while let Some(node) = line.pop_front() {
            for &(link, end) in &at[node] {
                let (port, next) = port_of(link, 1 - end);
                if !std::mem::replace(&mut seen[next], true) {
                    let id = PortId((port - first[next]) as u16);
                    nodes[next].controller.add_route(super::address(n), id);
                    // Adapters are ends, not ways.
                    if next < atm.switches.len() {
                        line.push_back(next);
                    }
                }
            }
        }
        if let Some(far) = (atm.switches.len()..count).find(|&node| !seen[node]) {
            let name = |node: usize| &nodes[node].name;
            let problem = format!("there is no way from {:?} to {:?}", name(far), name(to));
            return Err(value("ATM", problem));
        }
    }
    let mut addresses = vec![None; network.nodes.len()];
    for (n, node) in adapted.iter().enumerate() {
        addresses[node.0 as usize] = Some(super::address(n));
    }
    let adapters = nodes.iter().map(|node| node.adapter.is_some());
    let fabric = Fabric {
        ports,
        degrees: at.iter().map(Vec::len).collect(),
        reassemblers: adapters
            .map(|it| it.then(|| Reassembler::new(atm.reassembly_timer)))
            .collect(),
        frames: Frames::new(count),
        now: Moment::default(),
        lost: Vec::new(),
        cell_hops: 0,
        unknown_vc: 0,
        #[cfg(test)]
        departures: Vec::new(),
    };
    let mover =
        mover(&fabric, &configs, atm.per_cell, network.duration).map_err(|(link, error)| {
            let part = format!("ATM link {link}");
            value(&part, error.to_string())
        })?;
    Ok(Backbone {
        nodes,
        addresses,
        fabric,
        mover,
        discarded: 0,
        contracts: Vec::new(),
        contracted: BTreeMap::new(),
    })
}

/// Most ports of a node for trains and sites: they look at all of them.
const MOST_PORTS: usize = 128;

/// What moves the cells: as trains if nothing but signalling goes before others, else site after site.
fn mover(
    fabric: &Fabric,
    configs: &[(usize, QueueConfig)],
    per_cell: bool,
    duration: Span,
) -> Result<Mover, (usize, QueueConfigError)> {
    let fcfs = |(_, config): &(usize, QueueConfig)| config.discipline == Discipline::Fcfs;
    let large = fabric.degrees.iter().any(|&ports| ports > MOST_PORTS);
    // Sites send a cell as soon as the link is free, and know of no slots.
    let slots = configs.iter().any(|(_, config)| config.slots);
    let alone = per_cell || large || slots && !configs.iter().all(fcfs);
    if alone || !configs.iter().all(fcfs) {
        let queues = configs.iter().map(|&(link, config)| {
            let queue = output_queue(config);
            queue.map_err(|error| (link, error))
        });
        let queues = queues.collect::<Result<_, _>>()?;
        let end = Time::ZERO.saturating_add(duration);
        return Ok(match alone {
            true => Mover::Cells(Cells::new(queues)),
            false => Mover::Sites(Sites::new(fabric, queues, end)),
        });
    }
    let queues = configs.iter().map(|&(link, config)| {
        let mut queue = RunQueue::new(config).map_err(|error| (link, error))?;
        queue.open(SIGNALLING, Class::Signalling);
        Ok(queue)
    });
    let queues = queues.collect::<Result<_, _>>()?;
    Ok(Mover::Trains(Trains::new(fabric, queues)))
}

/// The queue of a port, with the circuit of the controllers.
pub(super) fn output_queue(config: QueueConfig) -> Result<OutputQueue, QueueConfigError> {
    let mut queue = OutputQueue::new(config)?;
    queue.open(SIGNALLING, Class::Signalling, None);
    Ok(queue)
}

fn queue_config(atm: &AtmBackbone, policy: Policy, rate: Rate, is_adapter: bool) -> QueueConfig {
    let own = atm.queue.adapter_limit.filter(|_| is_adapter);
    QueueConfig {
        discipline: policy.discipline(),
        discard: match atm.queue.discard {
            Discard::None => FrameDiscard::None,
            Discard::Partial => FrameDiscard::Ppd,
            Discard::Early(threshold) => FrameDiscard::Epd { threshold },
        },
        per_vc_limit: own.unwrap_or(atm.queue.per_vc_limit),
        port_limit: own.unwrap_or(atm.queue.port_limit),
        low_limit: atm.queue.low_limit,
        max_vcs: atm.queue.max_vcs,
        drr_weight: atm.queue.drr_weight,
        slots: atm.slots,
        ..QueueConfig::new(rate)
    }
}

/// The propagation delay between two adapters, over the fewest links.
pub(in crate::internet) fn delay(
    atm: &AtmBackbone,
    from: NodeIndex,
    to: NodeIndex,
) -> Option<Span> {
    let (from, to) = (AtmEnd::Adapter(from), AtmEnd::Adapter(to));
    let mut known = vec![(from, Span::ZERO)];
    let mut looked_at = 0;
    while let Some(&(at, delay)) = known.get(looked_at) {
        if at == to {
            return Some(delay);
        }
        looked_at += 1;
        for link in &atm.links {
            let next = match link.ends {
                [a, b] if a == at => b,
                [a, b] if b == at => a,
                _ => continue,
            };
            if known.iter().all(|(other, _)| *other != next) {
                known.push((next, delay + atm.delay_of(link)));
            }
        }
    }
    None
}
