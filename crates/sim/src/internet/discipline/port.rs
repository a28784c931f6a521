//! What a discipline sees of its link.

use layercast_core::{Rate, Stream, Time};

use super::Item;
use crate::internet::limit::Limit;

/// Why a discipline drops a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropCause {
    /// There is no room.
    Full,
    /// There is room, and the drop is a signal of congestion.
    Early,
}

/// The link in front of which packets wait, at one instant.
#[derive(Debug)]
pub struct Port<'a> {
    now: Time,
    rate: Rate,
    limit: Limit,
    /// Bytes of the packet being sent that are left, if one is.
    sending: Option<u64>,
    /// Packets and bytes that wait.
    inside: &'a mut Inside,
    random: &'a mut Stream,
    dropped: &'a mut Vec<(Item, DropCause)>,
}

/// The packets in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::internet) struct Inside {
    pub packets: u32,
    pub bytes: u64,
}

impl Inside {
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    pub fn remove(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }
}

impl<'a> Port<'a> {
    /// Of a link with `sending` bytes left of the packet being sent, if one is.
    pub(in crate::internet) fn new(
        (now, rate, limit, sending): (Time, Rate, Limit, Option<u64>),
        inside: &'a mut Inside,
        random: &'a mut Stream,
        dropped: &'a mut Vec<(Item, DropCause)>,
    ) -> Port<'a> {
        Port {
            now,
            rate,
            limit,
            sending,
            inside,
            random,
            dropped,
        }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The rate of the link.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Whether the link is sending a packet.
    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Packets that wait, with the one that comes, without the one being sent.
    pub fn waiting(&self) -> u32 {
        self.inside.packets
    }

    /// Bytes of the packets that wait.
    pub fn bytes(&self) -> u64 {
        self.inside.bytes
    }

    /// Whether more waits than the `queue` of the link allows. A link that sends nothing takes a packet of any size; what is
    /// empty is never full.
    pub fn is_over_limit(&self) -> bool {
        match self.limit {
            _ if self.inside.packets == 0 => false,
            Limit::Unlimited => false,
            Limit::Packets(most) => self.inside.packets > most,
            Limit::Bytes(most) => {
                let is_alone = self.sending.is_none() && self.inside.packets <= 1;
                !is_alone && self.sending.unwrap_or(0) + self.inside.bytes > most
            }
        }
    }

    /// A random number from 0 to below 1, of a stream of this link alone.
    pub fn random(&mut self) -> f64 {
        self.random.unit()
    }

    /// Drops a packet that waits or comes.
    pub fn drop(&mut self, item: Item, cause: DropCause) {
        self.inside.remove(item.bytes());
        self.dropped.push((item, cause));
    }
}
