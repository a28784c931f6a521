use std::collections::VecDeque;
use std::ops::Range;

use layercast_atm::FrameId;
use layercast_core::{Span, Time};

use super::due::Moment;
use super::fabric::Fabric;

/// What a port has if cells move as trains, but for its queue.
#[derive(Debug)]
pub(super) struct TrainPort {
    /// The port at the other end, among all.
    pub peer: u32,
    pub lead: Span,
    /// From when a cell begins to leave to its earliest arrival at an adapter; a little less on the way, so
    /// that the next node is notified before.
    pub beyond: Span,
    /// Whether an adapter is at the other end.
    pub ends: bool,
    /// Which of all inputs are its own: the ports that send to its node, but for that at its other end, as
    /// nothing goes back.
    pub inputs: Range<usize>,
    /// Its first lane: one for each port of its node by which cells come in.
    pub first_lane: usize,
    /// What came before it was taken.
    pub taken: Moment,
    /// What begins to leave before it is settled: nothing comes any more that puts it off.
    pub begun: Time,
    /// Cells of signalling on their way, and when the first of them arrives, if there is one.
    pub signals: VecDeque<(Time, FrameId)>,
    pub signal: Time,
    /// When it is due for what is on its way to it.
    pub awaits: Time,
    /// It is catching up.
    pub busy: bool,
}

/// A port whose cells another one sends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub from: u32,
    /// Of that port.
    pub lead: Span,
    /// By which port its cells come in.
    pub by: u32,
    pub lane: usize,
}

impl TrainPort {
    /// All ports, their inputs, and how many lanes there are: one from each port to the adapter at its other
    /// end, or to nowhere; then those of the ports.
    pub fn all(fabric: &Fabric) -> (Vec<TrainPort>, Vec<Input>, usize) {
        let facts = &fabric.ports;
        let beyond = beyond(fabric);
        let mut inputs = Vec::new();
        let mut lanes = facts.len();
        let ports = facts.iter().zip(0..).map(|(port, n)| {
            let ends = fabric.ends(n);
            let (first_lane, degree) = (lanes, fabric.degree(port.node));
            lanes += degree;
            let first_input = inputs.len();
            // An adapter sends only what is its own.
            if fabric.reassemblers[port.node as usize].is_none() {
                let all = (0..degree).map(|id| (id, n - u32::from(port.id) + id as u32));
                inputs.extend(all.filter(|(_, by)| *by != n).map(|(id, by)| {
                    let from = facts[by as usize].peer;
                    Input {
                        from,
                        lead: facts[from as usize].lead(),
                        by,
                        lane: first_lane + id,
                    }
                }));
            }
            let next = facts[port.peer as usize].node as usize;
            TrainPort {
                peer: port.peer,
                lead: port.lead(),
                beyond: match ends {
                    true => port.lead(),
                    false => through(port.lead(), beyond[next]).saturating_sub(Span::from_ps(1)),
                },
                ends,
                // Arrivals at an adapter happen now.
                begun: match inputs.len() == first_input {
                    true => Time::MAX,
                    false => Time::ZERO,
                },
                inputs: first_input..inputs.len(),
                first_lane,
                taken: Moment::default(),
                signals: VecDeque::new(),
                signal: Time::MAX,
                awaits: Time::MAX,
                busy: false,
            }
        });
        (ports.collect(), inputs, lanes)
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

fn through(lead: Span, beyond: Span) -> Span {
    Span::from_ps(lead.as_ps().saturating_add(beyond.as_ps()))
}
