//! The ports of every node: rates, queues and impairments of its links.

use std::collections::BTreeSet;

use layercast_core::{CELL_PAYLOAD, Rate, Span};
use layercast_link::{Jitter, LinkConfig, Loss, QueueConfig};
use layercast_mets::switch::PortConfig;
use layercast_wire::Carriage;

use super::error::ScenarioError;
use super::limits::{MOST_QUEUED, MOST_SPARE};
use super::network::{Flow, NetLink, Port};
use super::resolve::{config_error, flow_named};
use super::schema::{GilbertSpec, JitterSpec, LinkSpec, LossSpec, NodeKind, RateSpec, Scenario};
use super::topology::Topology;
use super::units::{Quantity, QueueSize};

/// The ports of every node, in the order of their numbers.
pub(super) fn ports(
    scenario: &Scenario,
    topology: &Topology,
    flows: &[Flow],
) -> Result<Vec<Vec<Port>>, ScenarioError> {
    let mut both = Vec::with_capacity(scenario.links.len());
    for (i, link) in scenario.links.iter().enumerate() {
        both.push((
            port_config(scenario, link, i, flows)?,
            link_config(link, i)?,
        ));
    }
    let takers: BTreeSet<&str> = scenario
        .receivers
        .iter()
        .map(|it| it.node.as_str())
        .collect();
    let port = |node: usize, &(neighbour, link): &(usize, usize)| {
        let (config, out) = &both[link];
        // A group has its own name.
        let group = scenario.links[link].multicast.as_ref();
        let group = group.filter(|_| topology.ends[link][0] == node);
        let name = group.unwrap_or(&scenario.nodes[neighbour].name);
        let mut config = PortConfig {
            name: name.clone(),
            ..config.clone()
        };
        if scenario.nodes[node].kind == NodeKind::Host {
            // Congestion is marked by switches. The queue in a sending host holds the bursts of its own
            // shapers, one per tick and flow.
            config.queue.efci_on = config.queue.limit;
            config.queue.efci_off = config.queue.limit;
        }
        if takers.contains(scenario.nodes[neighbour].name.as_str()) {
            config.receiver = scenario.profile_of(neighbour).receiver_limits();
        }
        topology.port(node, neighbour).map(|id| Port {
            id,
            neighbour,
            link,
            config,
            out: *out,
            adapter_loss: scenario.links[link].adapter_loss,
        })
    };
    let nodes = topology.neighbours.iter().enumerate();
    Ok(nodes
        .map(|(node, links)| links.iter().filter_map(|link| port(node, link)).collect())
        .collect())
}

fn port_config(
    scenario: &Scenario,
    link: &LinkSpec,
    i: usize,
    flows: &[Flow],
) -> Result<PortConfig, ScenarioError> {
    let field = |name: &str| format!("link[{i}].{name}");
    let fraction = |name: &str, value: f64| {
        if value > 0.0 && value <= 1.0 {
            return Ok(value);
        }
        Err(ScenarioError::value(
            field(name),
            value,
            "above 0, at most 1",
        ))
    };
    if !(0.0..=1.0).contains(&link.adapter_loss) {
        let accepted = "a probability, 0 to 1";
        return Err(ScenarioError::value(
            field("adapter_loss"),
            link.adapter_loss,
            accepted,
        ));
    }
    if link.repair.0.is_some() && scenario.carriage != Carriage::Datagrams {
        let accepted =
            "false on links of cells: set `carriage = \"datagrams\"`, or leave out `repair`";
        return Err(ScenarioError::value(field("repair"), true, accepted));
    }
    let rate = rate(link, i, flows)?;
    if rate.cells().0 == 0 {
        return Err(ScenarioError::value(
            field("rate"),
            rate.write(),
            "at least 424 bit/s",
        ));
    }
    let cells = match link.queue {
        QueueSize::Cells(cells) => u64::from(cells),
        QueueSize::Bytes(bytes) => bytes / CELL_PAYLOAD as u64,
        QueueSize::Time(span) => {
            let ps = u128::from(rate.cells().0) * u128::from(span.as_ps());
            (ps / u128::from(Span::from_secs(1).as_ps())).min(u128::from(u64::MAX)) as u64
        }
    };
    if !(1..=MOST_QUEUED).contains(&cells) {
        let accepted = queues(link.queue, rate);
        return Err(match link.queue {
            QueueSize::Time(_) => {
                let value = format!("{} at {}", link.queue.write(), rate.write());
                ScenarioError::relation(field("queue"), value, accepted, [field("rate")])
            }
            _ => ScenarioError::value(field("queue"), link.queue.write(), accepted),
        });
    }
    if let Some(capacity) = link.adapt_capacity
        && capacity.0 == 0
    {
        let accepted = "at least 1 cell/s";
        return Err(ScenarioError::value(
            field("adapt_capacity"),
            capacity,
            accepted,
        ));
    }
    let efci_on = (fraction("efci", link.efci)? * cells as f64) as u32;
    let config = PortConfig {
        rate: Some(rate),
        carriage: scenario.carriage,
        queue: QueueConfig {
            efci_on,
            efci_off: efci_on / 2,
            ..QueueConfig::of_limit(cells as u32)
        },
        delay: link.delay,
        discard: link.discard.discard(),
        adapt_capacity: link.adapt_capacity,
        adapts: link.adapt,
        measured: scenario.promise.promise(scenario.admission)?,
        bl_permille: (fraction("bl_share", link.bl_share)? * 1_000.0).round() as u16,
        ..PortConfig::default()
    };
    config_error(format!("link[{i}]"), config.validate())?;
    Ok(config)
}

/// The sizes that the queue of a link of `rate` may have, in the unit of `like`.
fn queues(like: QueueSize, rate: Rate) -> String {
    let cells = format!("1 to {MOST_QUEUED} cells");
    match like {
        QueueSize::Cells(_) => cells,
        QueueSize::Bytes(_) => {
            let least = CELL_PAYLOAD as u64;
            format!("{least} to {} bytes ({cells})", least * MOST_QUEUED)
        }
        QueueSize::Time(_) => {
            let of = |cells: u64| Span::from_secs(cells).as_ps() / u64::from(rate.cells().0.max(1));
            let least = Span::from_us(of(1).div_ceil(Span::from_us(1).as_ps()));
            let most = Span::from_ms(of(MOST_QUEUED) / Span::from_ms(1).as_ps());
            format!("{} to {} ({cells})", least.write(), most.write())
        }
    }
}

fn rate(link: &LinkSpec, i: usize, flows: &[Flow]) -> Result<Rate, ScenarioError> {
    let fit = match &link.rate {
        RateSpec::Fixed(rate) => return Ok(*rate),
        RateSpec::Fits(fit) => fit,
    };
    if !(0.0..=MOST_SPARE).contains(&fit.spare) {
        let accepted = "a fraction from 0, like 0.05 for 5 %";
        return Err(ScenarioError::value(
            format!("link[{i}].rate.spare"),
            fit.spare,
            accepted,
        ));
    }
    let flow = flow_named(&format!("link[{i}].rate.fits"), &fit.fits, flows)?;
    let spec = flows[flow].config.advertised_spec();
    let needed = spec.rate_at(fit.level).rate();
    let bps = needed.as_bps() as f64 * (1.0 + fit.spare);
    Ok(Rate::from_bps(bps.ceil() as u64))
}

impl JitterSpec {
    pub(crate) fn jitter(self) -> Jitter {
        match self {
            JitterSpec::Uniform(max) => Jitter::Uniform { max },
            JitterSpec::Normal(sd) => Jitter::Normal { sd },
        }
    }

    /// The time it says.
    pub(crate) fn span(self) -> Span {
        let (JitterSpec::Uniform(span) | JitterSpec::Normal(span)) = self;
        span
    }
}

impl GilbertSpec {
    pub(crate) fn loss(self) -> Loss {
        Loss::GilbertElliott {
            p_gb: self.p_gb,
            p_bg: self.p_bg,
            loss_good: self.good,
            loss_bad: self.bad,
        }
    }
}

fn link_config(link: &LinkSpec, i: usize) -> Result<LinkConfig, ScenarioError> {
    let config = LinkConfig {
        delay: link.delay,
        jitter: link.jitter.map_or(Jitter::None, JitterSpec::jitter),
        reorder: link.reorder,
        loss: match link.loss {
            None => Loss::None,
            Some(LossSpec::Bernoulli(p)) => Loss::Bernoulli { p },
            Some(LossSpec::Gilbert(spec)) => spec.loss(),
        },
        duplicate: link.duplicate,
    };
    config_error(format!("link[{i}]"), config.validate())?;
    Ok(config)
}

/// The links with their ports.
pub(super) fn links(topology: &Topology, specs: &[LinkSpec]) -> Vec<NetLink> {
    let ends = topology.ends.iter().zip(specs);
    ends.filter_map(|(&[a, b], spec)| {
        Some(NetLink {
            ends: [a, b],
            ports: [topology.port(a, b)?, topology.port(b, a)?],
            repair: spec.repair.0,
            schedule: spec.schedule.clone().unwrap_or_default(),
        })
    })
    .collect()
}

/// The end of a link that opens the session channel, and its peer: the one farther from a source.
pub(super) fn dialler(link: &NetLink, flows: &[Flow], topology: &Topology) -> (usize, usize) {
    let [a, b] = link.ends;
    for flow in flows {
        if flow.next_hops[a] == Some(b) {
            return (a, b);
        }
        if flow.next_hops[b] == Some(a) {
            return (b, a);
        }
    }
    if topology.relays(b) { (a, b) } else { (b, a) }
}
