use std::collections::VecDeque;

use layercast_atm::{FrameId, RunQueue};
use layercast_core::{Span, Time};

use super::due::Moment;
use super::fabric::Fabric;
use super::lane::Lane;

/// What a port has if cells move as trains.
#[derive(Debug)]
pub(super) struct TrainPort {
    pub queue: RunQueue,
    pub id: usize,
    /// The port at the other end, among all.
    pub peer: u32,
    pub lead: Span,
    /// From when a cell begins to leave to when it can be at an adapter at the earliest; on the way there a
    /// little less, so that who is next has heard of it before.
    pub beyond: Span,
    /// Whether an adapter is at the other end.
    pub ends: bool,
    /// The ports that send to this one's node, but for that at its other end: nothing goes back.
    pub inputs: Vec<u32>,
    /// What came before it was taken.
    pub taken: Moment,
    /// What begins to leave before it is on the wire.
    pub begun: Time,
    /// What is on its way, in the order of arrival: to each port of the node at the other end, and at last to
    /// none; all in the first to an adapter.
    pub lanes: Vec<Lane>,
    pub signals: VecDeque<(Time, FrameId)>,
    /// When it is due for what is on its way to it.
    pub awaits: Time,
    /// It is catching up.
    pub busy: bool,
}

impl TrainPort {
    /// All ports, with their queues.
    pub fn all(fabric: &Fabric, queues: Vec<RunQueue>) -> Vec<TrainPort> {
        let facts = &fabric.ports;
        let beyond = beyond(fabric);
        let ports = queues.into_iter().zip(facts).zip(0..);
        let ports = ports.map(|((queue, port), n)| {
            let peer = &facts[port.peer as usize];
            let ends = fabric.ends(n);
            let lanes = match ends {
                true => 1,
                false => fabric.degree(peer.node) + 1,
            };
            // An adapter sends only what is its own.
            let switch = fabric.reassemblers[port.node as usize].is_none();
            let first = n - u32::from(port.id);
            let all = first..first + fabric.degree(port.node) as u32;
            let inputs = all.filter(|&it| switch && it != n);
            TrainPort {
                queue,
                id: usize::from(port.id),
                peer: port.peer,
                lead: port.lead(),
                beyond: match ends {
                    true => port.lead(),
                    false => through(port.lead(), beyond[peer.node as usize])
                        .saturating_sub(Span::from_ps(1)),
                },
                ends,
                inputs: inputs.map(|it| facts[it as usize].peer).collect(),
                taken: Moment::default(),
                begun: Time::ZERO,
                lanes: (0..lanes).map(|_| Lane::default()).collect(),
                signals: VecDeque::new(),
                awaits: Time::MAX,
                busy: false,
            }
        });
        ports.collect()
    }
}

/// How long a cell that comes to a node needs at least to an adapter.
fn beyond(fabric: &Fabric) -> Vec<Span> {
    let ends = fabric.reassemblers.iter().map(Option::is_some);
    let mut beyond: Vec<_> = ends
        .map(|ends| if ends { Span::ZERO } else { Span::MAX })
        .collect();
    // Bellman and Ford.
    loop {
        let mut changed = false;
        for port in &fabric.ports {
            let peer = fabric.ports[port.peer as usize].node as usize;
            let through = through(port.lead(), beyond[peer]);
            let best = &mut beyond[port.node as usize];
            changed |= through < *best;
            *best = through.min(*best);
        }
        if !changed {
            return beyond;
        }
    }
}

pub(super) fn through(lead: Span, beyond: Span) -> Span {
    Span::from_ps(lead.as_ps().saturating_add(beyond.as_ps()))
}
