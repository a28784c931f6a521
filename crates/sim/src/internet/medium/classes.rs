//! Links with a class queue: packets of other protocols wait beside the port of a METS node.
//!
//! The METS port sends at its own rate, and what it sends enters the link first. A packet of another protocol enters it only
//! when the link is free and no METS packet is due, so a METS packet waits for one other packet at most.

use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::Medium;
use super::packet::Body;
use super::pipe::Offered;
use crate::internet::engine::PacketId;
use crate::internet::error::{LEAST_MTU, NetworkError};
use crate::internet::network::{Limit, Link, Network, NodeIndex};
use crate::internet::report::{ClassReport, MeanSpan};
use crate::kernel::SourceId;

/// The class queues of a network.
#[derive(Debug)]
pub(crate) struct Classes {
    /// For each pipe its queue, or `NONE`.
    of_pipes: Vec<u32>,
    queues: Vec<ClassQueue>,
}

const NONE: u32 = u32::MAX;

/// The queue of a link for all but the packets of its METS port.
#[derive(Debug)]
struct ClassQueue {
    name: String,
    pipe: u32,
    /// The node at the end of the link.
    to: NodeIndex,
    /// The direction of the peering that has the link.
    wire: u32,
    limit: Limit,
    /// With the times at which they came.
    waiting: VecDeque<(Time, PacketId)>,
    bytes: u64,
    source: SourceId,
    offered: u64,
    dropped: u64,
    max_waiting: u32,
    waited: MeanSpan,
}

impl Classes {
    /// The class queues of a network, if it has any.
    pub fn new(
        network: &Network,
        mut source: impl FnMut(u32, &str) -> SourceId,
    ) -> Result<Option<Classes>, NetworkError> {
        let Some(mets) = &network.mets else {
            return Ok(None);
        };
        let pipes = 2 * network.links.len() + network.lans.len();
        let mut classes = Classes {
            of_pipes: vec![NONE; pipes],
            queues: Vec::new(),
        };
        let name = |node: NodeIndex| network.nodes[node.0 as usize].name.as_str();
        let with = mets.classes.iter().enumerate().filter(|(_, has)| **has);
        for (peering, _) in with {
            let [a, b] = mets.machines.links[peering].ends.map(|end| mets.nodes[end]);
            let joins = |ends: [NodeIndex; 2]| ends == [a, b] || ends == [b, a];
            let link = network.links.iter().position(|link| joins(link.ends));
            let Some(link) = link.filter(|&link| can_have(&network.links[link])) else {
                return Err(NetworkError::NoClass {
                    from: name(a).to_owned(),
                    to: name(b).to_owned(),
                });
            };
            let it = &network.links[link];
            for way in 0..2 {
                let side = usize::from(it.ends[way] != a);
                let pipe = 2 * link + way;
                let number = classes.queues.len() as u32;
                classes.of_pipes[pipe] = number;
                let name = format!("{}->{}", name(it.ends[way]), name(it.ends[1 - way]));
                classes.queues.push(ClassQueue {
                    source: source(number, &name),
                    name,
                    pipe: pipe as u32,
                    to: it.ends[1 - way],
                    wire: (2 * peering + side) as u32,
                    limit: it.ways[way].queue.limit,
                    waiting: VecDeque::new(),
                    bytes: 0,
                    offered: 0,
                    dropped: 0,
                    max_waiting: 0,
                    waited: MeanSpan::default(),
                });
            }
        }
        Ok((!classes.queues.is_empty()).then_some(classes))
    }

    /// The links that have one, as pipes.
    pub fn pipes(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().map(|queue| queue.pipe)
    }

    /// Whether a link has one.
    pub fn has(&self, pipe: u32) -> bool {
        self.of_pipes
            .get(pipe as usize)
            .is_some_and(|it| *it != NONE)
    }

    /// Forgets what was counted until now.
    pub fn restart(&mut self) {
        for queue in &mut self.queues {
            (queue.offered, queue.dropped, queue.max_waiting) = (0, 0, 0);
            queue.waited = MeanSpan::default();
        }
    }

    /// What they did.
    pub fn report(&self) -> impl Iterator<Item = ClassReport> {
        self.queues.iter().map(|queue| ClassReport {
            name: queue.name.clone(),
            offered: queue.offered,
            dropped_full: queue.dropped,
            mean_wait: queue.waited.seconds(),
            max_waiting: queue.max_waiting,
            waiting: queue.waiting.len() as u32,
        })
    }
}

/// Whether a link can have a class queue.
pub(crate) fn can_have(link: &Link) -> bool {
    let has_discipline = link.disciplines.iter().any(Option::is_some);
    let has_red = link.ways.iter().any(|way| way.queue.red.is_some());
    link.mtu >= LEAST_MTU && !has_red && !has_discipline
}

impl ClassQueue {
    /// Whether there is no room for a packet of this size, where this is left of what the link is sending.
    fn is_full(&self, bytes: u64, left: u64) -> bool {
        match self.limit {
            Limit::Unlimited => false,
            Limit::Packets(most) => self.waiting.len() as u64 >= u64::from(most),
            Limit::Bytes(most) => left + self.bytes + bytes > most,
        }
    }
}

impl Medium<'_> {
    /// A packet comes to a link, which may have a class queue: whether that has taken the packet.
    pub(super) fn takes_class(&mut self, pipe: u32, id: PacketId, bytes: u32) -> bool {
        let wire = match self.packets.get(id).body {
            Body::Mets(_, wire) => Some(wire),
            _ => None,
        };
        let free = self.pipes[pipe as usize].free_from();
        let Some(classes) = &mut self.classes else {
            return false;
        };
        let place = classes.of_pipes[pipe as usize];
        let Some(queue) = classes.queues.get_mut(place as usize) else {
            return false;
        };
        if wire == Some(queue.wire) {
            return false;
        }
        queue.offered += 1;
        if queue.waiting.is_empty() && free <= self.engine.now {
            queue.waited.add(Span::ZERO);
            return false;
        }
        let left = self.pipes[pipe as usize].bytes_left(self.engine.now);
        if queue.is_full(bytes.into(), left) {
            queue.dropped += 1;
            self.lost_on(pipe, id, Offered::Full);
            return true;
        }
        queue.bytes += u64::from(bytes);
        queue.waiting.push_back((self.engine.now, id));
        queue.max_waiting = queue.max_waiting.max(queue.waiting.len() as u32);
        self.engine
            .kernel
            .schedule(queue.source, Some(free.max(self.engine.now)));
        true
    }

    /// A link with a class queue may be free. What is due at the METS port has entered.
    pub(crate) fn wake_class(&mut self, number: u32) {
        let Some(classes) = &mut self.classes else {
            return;
        };
        let queue = &mut classes.queues[number as usize];
        let free = self.pipes[queue.pipe as usize].free_from();
        if free > self.engine.now {
            return self.engine.kernel.schedule(queue.source, Some(free));
        }
        self.engine.kernel.schedule(queue.source, None);
        let Some((since, id)) = queue.waiting.pop_front() else {
            return;
        };
        let bytes = self.packets.get(id).bytes;
        queue.bytes -= u64::from(bytes);
        queue.waited.add(self.engine.now.since(since));
        let (pipe, to, source) = (queue.pipe, queue.to, queue.source);
        let more = !queue.waiting.is_empty();
        self.enter(pipe, id, bytes, to);
        let free = self.pipes[pipe as usize].free_from();
        let next = more.then_some(free.max(self.engine.now));
        self.engine.kernel.schedule(source, next);
    }
}
