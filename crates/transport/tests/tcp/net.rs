//! Two hosts, a channel between them, and a log of what was on it.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;

use layercast_core::{Machine, Off, Serial, Span, Time};
use layercast_transport::tcp::{
    ConnId, Endpoint, Failure, Profile, TcpConfig, TcpEvent, TcpPacket,
};
use layercast_wire::{Payload, TcpFlags};

pub const PORT: u16 = 80;
/// No connection of a test gets so far: its threshold has not been set.
const UNLIMITED: u64 = 1 << 30;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

pub fn ms(n: u64) -> Span {
    Span::from_ms(n)
}

pub fn address(host: usize, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(ADDRESSES[host], port)
}

/// What becomes of a packet from a host: copies with their delays; none: lost.
pub type Channel = Box<dyn FnMut(usize, TcpPacket) -> Vec<(Span, TcpPacket)>>;

pub struct Net {
    pub now: Time,
    pub hosts: [Endpoint; 2],
    pub channel: Channel,
    /// What was sent, as `log` writes it.
    pub log: Vec<String>,
    /// What the users were told.
    pub events: [Vec<TcpEvent>; 2],
    /// A connection whose data are read as they come, before anything is sent, and how much it was.
    pub sink: Option<(usize, ConnId)>,
    pub sunk: usize,
    /// The connection of host 0 whose congestion window the log tells.
    watched: Option<ConnId>,
    flying: BTreeMap<(Time, u64), (usize, TcpPacket)>,
    order: u64,
    first: BTreeMap<(usize, u16), Serial>,
}

impl Net {
    pub fn new(configs: [TcpConfig; 2], channel: Channel) -> Net {
        let [a, b] = configs;
        let secret = [7; 32];
        Net {
            now: Time::ZERO,
            hosts: [
                Endpoint::new(a, "a", &secret).unwrap(),
                Endpoint::new(b, "b", &secret).unwrap(),
            ],
            channel,
            log: Vec::new(),
            events: [Vec::new(), Vec::new()],
            sink: None,
            sunk: 0,
            watched: None,
            flying: BTreeMap::new(),
            order: 0,
            first: BTreeMap::new(),
        }
    }

    /// Both hosts alike, a fixed delay each way, nothing lost.
    pub fn plain(profile: Profile, delay: Span) -> Net {
        let config = TcpConfig::from(profile);
        let channel = move |_, packet| vec![(delay, packet)];
        Net::new([config.clone(), config], Box::new(channel))
    }

    /// Sends what can be sent, and takes the events.
    pub fn drain(&mut self) {
        if let Some((host, id)) = self.sink {
            self.sunk += self.read(host, id).len();
        }
        for host in 0..2 {
            while let Some(packet) = self.hosts[host].poll_transmit(self.now, &mut Off) {
                self.note(host, &packet);
                for (delay, packet) in (self.channel)(host, packet) {
                    self.order += 1;
                    let at = (self.now + delay, self.order);
                    self.flying.insert(at, (1 - host, packet));
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
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let timers = self.hosts.iter().filter_map(Endpoint::next_timeout).min();
        let next = arrival.into_iter().chain(timers).min();
        let Some(next) = next.filter(|&next| next <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let (_, (host, packet)) = self.flying.pop_first().unwrap();
            self.hosts[host].handle(self.now, packet, &mut Off);
        } else {
            for host in &mut self.hosts {
                host.on_timeout(self.now, &mut Off);
            }
        }
        self.drain();
        true
    }

    /// Lets `span` pass.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
    }

    /// A connection from host 0 to a listener of host 1, established and accepted.
    pub fn open(&mut self) -> (ConnId, ConnId) {
        self.hosts[1].listen(PORT, 8).unwrap();
        let near = self.connect();
        self.run(Span::from_secs(2));
        let (far, _) = self.hosts[1].accept(PORT).expect("established");
        (near, far)
    }

    pub fn connect(&mut self) -> ConnId {
        let (local, remote) = (address(0, 0), address(1, PORT));
        let id = self.hosts[0].connect(self.now, local, remote).unwrap();
        self.watched = Some(id);
        id
    }

    /// Reads everything there is.
    pub fn read(&mut self, host: usize, id: ConnId) -> Vec<u8> {
        let mut out = Vec::new();
        while let Ok(Some(payload)) = self.hosts[host].read(id, usize::MAX) {
            payload.append_to(&mut out);
        }
        out
    }

    /// Writes all of `data`, which must fit.
    pub fn write(&mut self, host: usize, id: ConnId, data: Payload) {
        assert_eq!(self.hosts[host].write(id, &data), Ok(data.len()));
    }

    pub fn failure(&self, host: usize) -> Option<Failure> {
        self.events[host].iter().find_map(|event| match event {
            TcpEvent::Failed(_, failure) => Some(*failure),
            _ => None,
        })
    }

    pub fn was_told(&self, host: usize, event: TcpEvent) -> bool {
        self.events[host].contains(&event)
    }

    fn note(&mut self, host: usize, packet: &TcpPacket) {
        let segment = &packet.segment;
        let (us, them) = ((host, segment.src_port), (1 - host, segment.dst_port));
        if segment.flags.has(TcpFlags::SYN) {
            self.first.insert(us, segment.seq);
        }
        let from = |place: (usize, u16), at: Serial| {
            at.0.wrapping_sub(self.first.get(&place).map_or(0, |first| first.0))
        };
        let seq = from(us, segment.seq);
        let mut line = format!(
            "{:8.1} {} {:?} {seq}",
            self.now.since(Time::ZERO).as_ms_f64(),
            if host == 0 { '>' } else { '<' },
            segment.flags,
        );
        if !segment.payload.is_empty() {
            line += &format!("+{}", segment.payload.len());
        }
        if segment.flags.has(TcpFlags::ACK) {
            line += &format!(" ack {}", from(them, segment.ack));
        }
        for (a, b) in segment.options.sack.as_slice() {
            line += &format!(" sack {}-{}", from(them, *a), from(them, *b));
        }
        let watched = self.watched.filter(|_| host == 0);
        if let Some(info) = watched.and_then(|id| self.hosts[0].info(id)) {
            let threshold = match info.ssthresh {
                UNLIMITED.. => "-".to_owned(),
                threshold => threshold.to_string(),
            };
            let rto = info.rto.as_ms_f64();
            line = format!(
                "{line:<34} cwnd {} ssthresh {threshold} rto {rto}",
                info.cwnd
            );
        }
        self.log.push(line);
    }
}
