//! Two hosts in virtual time and a channel between them.

use std::ops::{Deref, DerefMut};

use layercast_core::{Machine, Off, Span, Time};

use crate::flying::Flying;

/// Observes two hosts of a protocol.
pub trait Watch {
    type Packet;
    type Event;
    type Host: Machine<Input = Self::Packet, Transmit = Self::Packet, Event = Self::Event>;

    /// A packet leaves a host.
    fn note(&mut self, now: Time, hosts: &[Self::Host; 2], host: usize, packet: &Self::Packet);

    /// What users do before anything is sent.
    fn users(&mut self, _hosts: &mut [Self::Host; 2]) {}
}

/// What becomes of a packet from a host: copies with their delays; none: lost.
pub type Channel<P> = Box<dyn FnMut(usize, P) -> Vec<(Span, P)>>;

pub struct Pair<W: Watch> {
    pub now: Time,
    pub hosts: [W::Host; 2],
    pub channel: Channel<W::Packet>,
    /// The events of the users.
    pub events: [Vec<W::Event>; 2],
    watch: W,
    flying: Flying<W::Packet>,
}

impl<W: Watch> Pair<W> {
    pub fn between(hosts: [W::Host; 2], channel: Channel<W::Packet>, watch: W) -> Pair<W> {
        Pair {
            now: Time::ZERO,
            hosts,
            channel,
            events: [Vec::new(), Vec::new()],
            watch,
            flying: Flying::new(),
        }
    }

    /// Sends what can be sent, and takes the events.
    pub fn drain(&mut self) {
        self.watch.users(&mut self.hosts);
        for host in 0..2 {
            while let Some(packet) = self.hosts[host].poll_transmit(self.now, &mut Off) {
                self.watch.note(self.now, &self.hosts, host, &packet);
                for (delay, packet) in (self.channel)(host, packet) {
                    self.flying.add(self.now + delay, 1 - host, packet);
                }
            }
            while let Some(event) = self.hosts[host].poll_event() {
                self.events[host].push(event);
            }
        }
    }

    /// The next thing that happens, if it does before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        self.drain();
        let (now, hosts) = (&mut self.now, &mut self.hosts);
        if !self.flying.step(now, until, hosts, |_| true) {
            return false;
        }
        self.drain();
        true
    }

    /// Lets `span` pass.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
    }
}

impl<W: Watch> Deref for Pair<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.watch
    }
}

impl<W: Watch> DerefMut for Pair<W> {
    fn deref_mut(&mut self) -> &mut W {
        &mut self.watch
    }
}
