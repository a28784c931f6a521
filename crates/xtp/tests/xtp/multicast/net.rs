//! A group of hosts in virtual time: a packet to the group reaches all others, each over a path of its own.

use core::net::{Ipv4Addr, SocketAddr};

use layercast_core::{Machine, Off, Span, Time};
use layercast_wire::{Payload, XtpPacket, XtpService};
use layercast_xtp::{
    ContextId, Endpoint, SendOptions, XtpConfig, XtpDatagram, XtpEvent, XtpFailure, XtpSocket,
};

use crate::flying::Flying;

pub const PORT: u16 = 7_000;
/// What happens in a run, at most: far more than anything here needs.
const MOST_STEPS: u64 = 2_000_000;

/// Where a host is, by its number.
pub fn host(n: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from_bits(0x0a00_0001 + n as u32).into(), 0)
}

pub fn group() -> XtpSocket {
    XtpSocket {
        net: SocketAddr::new(Ipv4Addr::new(239, 1, 2, 3).into(), 0),
        port: PORT,
    }
}

pub fn at(n: usize, port: u16) -> XtpSocket {
    XtpSocket { net: host(n), port }
}

pub fn reliable() -> XtpConfig {
    XtpConfig::new(XtpService::RELIABLE_MULTICAST)
}

/// What becomes of a packet from one host to another: copies with their delays.
pub type Way = Box<dyn FnMut(usize, usize, XtpDatagram) -> Vec<(Span, XtpDatagram)>>;

pub struct Group {
    pub now: Time,
    pub hosts: Vec<Endpoint>,
    pub events: Vec<Vec<XtpEvent>>,
    /// Whose power is off.
    pub dead: Vec<bool>,
    pub way: Way,
    /// What left, and from where.
    pub sent: Vec<(Time, usize, SocketAddr, XtpPacket)>,
    flying: Flying<XtpDatagram>,
    steps: u64,
}

impl Group {
    /// `hosts` hosts, with the same delay everywhere.
    pub fn new(hosts: usize, delay: Span) -> Group {
        Group::over(hosts, Box::new(move |_, _, it| vec![(delay, it)]))
    }

    pub fn over(hosts: usize, way: Way) -> Group {
        let endpoint = |n: usize| Endpoint::new(64, &format!("host-{n}"), &[7; 32]);
        Group {
            now: Time::ZERO,
            hosts: (0..hosts).map(endpoint).collect(),
            events: vec![Vec::new(); hosts],
            dead: vec![false; hosts],
            way,
            sent: Vec::new(),
            flying: Flying::new(),
            steps: 0,
        }
    }

    /// Host 0 sends to the group, all others listen.
    pub fn open(&mut self, config: &XtpConfig, far: &XtpConfig) -> ContextId {
        for n in 1..self.hosts.len() {
            self.hosts[n].listen(PORT, 4, far.clone()).unwrap();
        }
        let (local, now) = (at(0, 6_000), self.now);
        self.hosts[0].connect(now, local, group(), config).unwrap()
    }

    pub fn join(&mut self, n: usize, config: &XtpConfig) -> ContextId {
        let (local, now) = (at(n, 6_000), self.now);
        self.hosts[n].join(now, local, group(), config).unwrap()
    }

    pub fn accept(&mut self, n: usize) -> ContextId {
        self.hosts[n].accept(PORT).expect("an association").0
    }

    pub fn send(&mut self, id: ContextId, data: &[u8]) {
        let data = Payload::Bytes(bytes::Bytes::copy_from_slice(data));
        let taken = self.hosts[0].send(id, &data, &SendOptions::MESSAGE);
        assert_eq!(taken, Ok(data.len()));
    }

    pub fn read(&mut self, n: usize, id: ContextId) -> Vec<u8> {
        let mut out = Vec::new();
        while let Ok(Some(chunk)) = self.hosts[n].receive(id, usize::MAX) {
            chunk.data.append_to(&mut out);
        }
        out
    }

    pub fn reported(&self, n: usize, event: XtpEvent) -> bool {
        self.events[n].contains(&event)
    }

    pub fn failure(&self, n: usize) -> Option<XtpFailure> {
        self.events[n].iter().find_map(|event| match event {
            XtpEvent::Failed(_, why) => Some(*why),
            _ => None,
        })
    }

    pub fn drain(&mut self) {
        for n in 0..self.hosts.len() {
            while let Some(datagram) = self.hosts[n].poll_transmit(self.now, &mut Off) {
                if self.dead[n] {
                    continue;
                }
                let packet = datagram.packet.clone();
                self.sent.push((self.now, n, datagram.dst, packet));
                self.carry(n, datagram);
            }
            while let Some(event) = self.hosts[n].poll_event() {
                self.events[n].push(event);
            }
        }
    }

    fn carry(&mut self, from: usize, datagram: XtpDatagram) {
        let all = datagram.dst.ip().is_multicast();
        for to in 0..self.hosts.len() {
            if to == from || !(all || host(to) == datagram.dst) {
                continue;
            }
            // A host answers by its own address.
            let mut copy = datagram.clone();
            copy.dst = host(to);
            for (delay, copy) in (self.way)(from, to, copy) {
                self.flying.add(self.now + delay, to, copy);
            }
        }
    }

    /// The next thing that happens, if it does before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        self.drain();
        self.steps += 1;
        assert!(
            self.steps < MOST_STEPS,
            "it does not get on at {:?}",
            self.now
        );
        let (now, hosts, dead) = (&mut self.now, &mut self.hosts, &self.dead);
        if !self.flying.step(now, until, hosts, |n| !dead[n]) {
            return false;
        }
        self.drain();
        true
    }

    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
    }
}
