//! Processors of hosts: one job after the other, and a socket buffer in front (specs/fully-reliable-multicast.md 2.10,
//! specs/rmtp-large-scale.md 8.2).

use layercast_core::{Span, Time};
use layercast_wire::multicast::{Body, Packet};
use serde::Serialize;

/// Processor time of what a host does; all zero: it takes no time, and nothing is queued.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Costs {
    /// To send a data packet (FRM: D).
    pub send_data: Span,
    /// To send anything else (FRM: C, and E of receivers).
    pub send_control: Span,
    /// To take a data packet.
    pub take_data: Span,
    /// To take anything else (FRM: E of the sender).
    pub take_control: Span,
    /// To evaluate the list of receivers before each poll of the group (FRM: A).
    pub evaluate: Span,
}

/// A host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// Processor time.
    pub costs: Costs,
    /// Receivers that share it, and its socket buffer (the emulator Mars).
    pub receivers: u32,
    /// Octets of its socket buffer; none: no bound.
    pub buffer: Option<u64>,
    /// Octets that a datagram takes of it at least (specs/rmtp-large-scale.md 6).
    pub charge: u64,
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            costs: Costs::default(),
            receivers: 1,
            buffer: None,
            charge: 512,
        }
    }
}

/// What a host did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct HostCount {
    /// Picoseconds of processor time.
    pub busy_ps: u64,
    /// Datagrams that found the socket buffer full.
    pub dropped: u64,
    /// Most octets in the socket buffer.
    pub most_waiting: u64,
}

/// A host as it runs.
#[derive(Clone, Debug)]
pub(super) struct Host {
    spec: HostSpec,
    free: Time,
    waiting: u64,
    pub count: HostCount,
}

impl Host {
    pub fn new(spec: HostSpec) -> Host {
        Host {
            spec,
            free: Time::ZERO,
            waiting: 0,
            count: HostCount::default(),
        }
    }

    /// Whether nothing takes time there.
    pub fn is_instant(&self) -> bool {
        self.spec.costs == Costs::default() && self.spec.buffer.is_none()
    }

    /// When its processor has done what it has to do.
    pub fn free(&self) -> Time {
        self.free
    }

    /// A datagram came: when it will have been taken, unless there is no room for it.
    pub fn arrive(&mut self, now: Time, packet: &Packet, octets: u32) -> Option<Time> {
        let charge = self.charge(octets);
        let over = |most| self.waiting + charge > most;
        if self.spec.buffer.is_some_and(over) {
            self.count.dropped += 1;
            return None;
        }
        self.waiting += charge;
        self.count.most_waiting = self.count.most_waiting.max(self.waiting);
        let costs = &self.spec.costs;
        let cost = match packet.body {
            Body::Data(_) => costs.take_data,
            _ => costs.take_control,
        };
        Some(self.work(now, cost))
    }

    /// The datagram that came first has been taken.
    pub fn taken(&mut self, octets: u32) {
        self.waiting -= self.charge(octets);
    }

    /// A packet is to be sent: when it leaves.
    pub fn send(&mut self, now: Time, packet: &Packet, to_group: bool) -> Time {
        let costs = &self.spec.costs;
        let cost = match packet.body {
            Body::Data(_) => costs.send_data,
            Body::Poll(_) if to_group => {
                let (one, other) = (costs.send_control.as_ps(), costs.evaluate.as_ps());
                Span::from_ps(one.saturating_add(other))
            }
            _ => costs.send_control,
        };
        self.work(now, cost)
    }

    fn charge(&self, octets: u32) -> u64 {
        u64::from(octets).max(self.spec.charge)
    }

    fn work(&mut self, now: Time, cost: Span) -> Time {
        // Any number of packets may be given to it at one instant.
        self.count.busy_ps = self.count.busy_ps.saturating_add(cost.as_ps());
        self.free = self.free.max(now).saturating_add(cost);
        self.free
    }
}
