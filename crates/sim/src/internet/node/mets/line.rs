//! What carries the data of one direction of a peering.

use std::collections::VecDeque;

use layercast_core::{Cause, Rate, Span, Time};
use layercast_link::LinkStats;
use layercast_wire::{LinkPdu, UDP_IP_HEADER};

use crate::internet::medium::Medium;
use crate::internet::medium::packet::Body;
use crate::internet::medium::peered::Peered;
use crate::internet::medium::pipe::Offered;
use crate::internet::network::NodeIndex;

/// Most datagrams on a link of its own at one time; further ones are dropped and counted.
const MAX_IN_FLIGHT: u64 = 1 << 16;

/// What carries the data of one direction of a peering.
#[derive(Debug)]
pub struct Line {
    /// The place of its wire.
    wire: u32,
    /// Where it begins and ends.
    ends: (NodeIndex, NodeIndex),
    way: Way,
    /// What happened so far. What became of packets among others is known to the network.
    pub stats: LinkStats,
    /// Of those lost, the ones that came to the end of a link that was down.
    pub down: u64,
}

/// How datagrams come to the neighbour.
#[derive(Debug)]
pub enum Way {
    /// By this link, which carries nothing else: the port of the node is the line.
    Own(u32),
    /// As packets among others of the network.
    Among {
        /// The rate at which the port sends.
        rate: Option<Rate>,
        /// Those that have not left the port, with the time at which the first bit does.
        leaving: VecDeque<(Time, Peered)>,
    },
}

impl Line {
    /// The direction of a peering whose wire has this place.
    pub fn new(wire: usize, ends: (NodeIndex, NodeIndex), way: Way) -> Line {
        Line {
            wire: wire as u32,
            ends,
            way,
            stats: LinkStats::default(),
            down: 0,
        }
    }

    /// Whether it is a link that carries nothing else.
    pub fn is_own(&self) -> bool {
        matches!(self.way, Way::Own(_))
    }

    /// Puts a datagram on it, whose last bit leaves the port at `ready`.
    pub fn put(&mut self, ready: Time, item: Peered, medium: &mut Medium) {
        match &mut self.way {
            Way::Own(pipe) => {
                let pipe = *pipe;
                self.pass(pipe, ready, item, medium);
            }
            Way::Among { rate, leaving } => {
                let octets = (item.encoded_len() + UDP_IP_HEADER) as u64;
                let tx = rate.map_or(Span::ZERO, |it| it.time_for(octets));
                // Feedback takes no time of the line.
                let start = ready.saturating_sub(tx).max(medium.engine.now);
                let last = leaving.back().map_or(start, |(at, _)| *at);
                leaving.push_back((start.max(last), item));
            }
        }
    }

    /// A datagram passes the link.
    fn pass(&mut self, pipe: u32, ready: Time, item: Peered, medium: &mut Medium) {
        self.stats.sent += 1;
        let header = match item.pdu() {
            Some(LinkPdu::Cell(_)) => 0,
            _ => UDP_IP_HEADER,
        };
        let bytes = (item.encoded_len() + header) as u32;
        match medium.pipes[pipe as usize].pass(ready, bytes) {
            Offered::Arrives(at) => self.fly(pipe, (at, bytes), item, medium),
            Offered::Twice([first, at]) => {
                self.stats.duplicated += 1;
                medium.pipes[pipe as usize].copied();
                self.fly(pipe, (first, bytes), item.clone(), medium);
                self.fly(pipe, (at, bytes), item, medium);
            }
            lost => {
                self.stats.lost += 1;
                self.down += u64::from(lost == Offered::Down);
                medium.lost_before(pipe, lost.cause());
            }
        }
    }

    /// A datagram comes to the other end then.
    fn fly(&mut self, pipe: u32, (at, bytes): (Time, u32), item: Peered, medium: &mut Medium) {
        let LinkStats {
            sent,
            duplicated,
            lost,
            overflow,
            delivered,
        } = self.stats;
        // Itself among them.
        if sent + duplicated - lost - overflow - delivered > MAX_IN_FLIGHT {
            self.stats.overflow += 1;
            return medium.lost_before(pipe, Cause::BufferOverflow);
        }
        let body = Body::Mets(item, self.wire);
        medium.lands(pipe, self.ends, (at, bytes), body);
    }

    /// A datagram comes to the end of it while the peering is down.
    #[cold]
    pub fn falls(&mut self, medium: &mut Medium) {
        self.stats.lost += 1;
        self.down += 1;
        if let Way::Own(pipe) = self.way {
            medium.pipes[pipe as usize].fell();
            medium.lost_before(pipe, Cause::LinkDown);
        }
    }

    /// Datagrams whose first bit leaves the port by now enter the network.
    pub fn enter(&mut self, medium: &mut Medium) {
        let Way::Among { leaving, .. } = &mut self.way else {
            return;
        };
        while let Some((_, item)) = leaving.pop_front_if(|(at, _)| *at <= medium.engine.now) {
            self.stats.sent += 1;
            let bytes = (item.encoded_len() + UDP_IP_HEADER) as u32;
            let body = Body::Mets(item, self.wire);
            medium.originate(self.ends, bytes, body);
        }
    }

    /// When the next one leaves the port.
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.way {
            Way::Own(_) => None,
            Way::Among { leaving, .. } => leaving.front().map(|(at, _)| *at),
        }
    }
}
