//! Two hosts of TCP, and a log of what was between them.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;

use layercast_core::{Serial, Span, Time};
use layercast_tcp::{ConnId, Endpoint, Failure, Profile, TcpConfig, TcpEvent, TcpPacket, Variant};
use layercast_wire::{Payload, TcpFlags};

use super::pair::{self, Pair, Watch};

pub const PORT: u16 = 80;
pub const VARIANTS: [Variant; 7] = [
    Variant::Tahoe,
    Variant::Reno,
    Variant::NewReno,
    Variant::Sack,
    Variant::Cubic,
    Variant::Linux,
    Variant::Dctcp,
];
/// No connection of a test gets so far: its threshold has not been set.
const UNLIMITED: u64 = 1 << 30;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

pub fn ms(n: u64) -> Span {
    Span::from_ms(n)
}

pub fn address(host: usize, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(ADDRESSES[host], port)
}

pub type Channel = pair::Channel<TcpPacket>;
pub type Net = Pair<Log>;

#[derive(Default)]
pub struct Log {
    /// What was sent, as `note` writes it.
    pub log: Vec<String>,
    /// A connection whose data are read as they come, before anything is sent, and how much it was.
    pub sink: Option<(usize, ConnId)>,
    pub sunk: usize,
    /// The connection of host 0 whose congestion window the log tells.
    watched: Option<ConnId>,
    first: BTreeMap<(usize, u16), Serial>,
}

impl Net {
    pub fn new(configs: [TcpConfig; 2], channel: Channel) -> Net {
        let [a, b] = configs;
        let host = |config, name| Endpoint::new(config, name, &[7; 32]).unwrap();
        Pair::between([host(a, "a"), host(b, "b")], channel, Log::default())
    }

    /// Both hosts alike, a fixed delay each way, nothing lost.
    pub fn plain(profile: Profile, delay: Span) -> Net {
        let config = TcpConfig::from(profile);
        let channel = move |_, packet| vec![(delay, packet)];
        Net::new([config.clone(), config], Box::new(channel))
    }

    /// Host 0 has always more to send for this long.
    pub fn stream(&mut self, near: ConnId, span: Span) {
        let end = self.now + span;
        loop {
            self.hosts[0].write(near, &Payload::Zeros(1 << 20)).unwrap();
            if !self.step(end) {
                break;
            }
        }
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
        read(&mut self.hosts[host], id)
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
}

fn read(host: &mut Endpoint, id: ConnId) -> Vec<u8> {
    let mut out = Vec::new();
    while let Ok(Some(payload)) = host.read(id, usize::MAX) {
        payload.append_to(&mut out);
    }
    out
}

impl Watch for Log {
    type Packet = TcpPacket;
    type Event = TcpEvent;
    type Host = Endpoint;

    fn users(&mut self, hosts: &mut [Endpoint; 2]) {
        if let Some((host, id)) = self.sink {
            self.sunk += read(&mut hosts[host], id).len();
        }
    }

    fn note(&mut self, now: Time, hosts: &[Endpoint; 2], host: usize, packet: &TcpPacket) {
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
            now.since(Time::ZERO).as_ms_f64(),
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
        if let Some(info) = watched.and_then(|id| hosts[0].info(id)) {
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
