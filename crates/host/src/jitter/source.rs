//! The machine that sends: files over TCP, and a video.

use core::net::{Ipv4Addr, SocketAddrV4};

use layercast_core::{Machine, Off, Span, Stream, Time};
use layercast_tcp::{ConnId, Ecn, Endpoint, Profile, TcpConfig};
use layercast_wire::{IpBody, Ipv4Packet, Payload, UdpDatagram};

use super::{Jitter, MSS};

pub(super) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The circuit of the video; those of the transfers follow.
pub(super) const VIDEO: u32 = 0;
pub(super) const FIRST_PORT: u16 = 2_000;
const VIDEO_OCTETS: u32 = 1_024;
const PENDING: u32 = 1 << 16;

/// The TCP of both ends: each packet is acknowledged.
pub(super) fn tcp(name: &str, recv_buffer: u32) -> Endpoint {
    let config = TcpConfig {
        mss: MSS,
        fast_tick: None,
        recv_buffer,
        ..Profile::SunOs413.into()
    };
    Endpoint::new(config, name, &[7; 32]).expect("the configuration is valid")
}

#[derive(Debug)]
pub(super) struct Source {
    pub tcp: Endpoint,
    connections: Vec<ConnId>,
    turn_around: Stream,
    mean: f64,
    /// Acknowledgements are answered in the order in which they came.
    last: Time,
    send: Span,
    /// When it has sent all that TCP gave.
    free_at: Time,
}

impl Source {
    pub fn new(config: &Jitter) -> Source {
        let mut tcp = tcp("source", u32::from(MSS));
        let connections = (0..config.transfers as u16).map(|n| {
            let (local, remote) = (
                SocketAddrV4::new(SOURCE, 0),
                SocketAddrV4::new(HOST, FIRST_PORT + n),
            );
            tcp.connect(Time::ZERO, local, remote)
                .expect("the host is empty")
        });
        let connections = connections.collect();
        Source {
            tcp,
            connections,
            turn_around: Stream::new(config.seed, "source/turn-around"),
            mean: config.turn_around.as_secs_f64(),
            last: Time::ZERO,
            send: config.send,
            free_at: Time::ZERO,
        }
    }

    /// When a packet that arrives now is processed.
    pub fn answers_at(&mut self, now: Time) -> Time {
        let ready = now + Span::from_secs_f64(self.turn_around.exponential(self.mean));
        self.last = self.last.max(ready);
        self.last
    }

    pub fn receive(&mut self, now: Time, packet: Ipv4Packet) {
        if let IpBody::Tcp(mut segment) = packet.body {
            let ends = (packet.src, packet.dst);
            self.tcp
                .receive(now, ends, Ecn::NotCapable, &mut segment, &mut Off);
        }
    }

    /// The next packet of a transfer: when it leaves, its circuit, and it.
    pub fn next_packet(&mut self, now: Time) -> Option<(Time, u32, Ipv4Packet)> {
        for id in &self.connections {
            // The transfers have no end; what does not fit waits.
            let _ = self.tcp.write(*id, &Payload::Zeros(PENDING));
        }
        while self.tcp.poll_event().is_some() {}
        let packet = self.tcp.poll_transmit(now, &mut Off)?;
        let circuit = 1 + u32::from(packet.segment.dst_port - FIRST_PORT);
        let cost = if packet.segment.payload.is_empty() {
            Span::ZERO
        } else {
            self.send
        };
        self.free_at = self.free_at.max(now) + cost;
        let packet = Ipv4Packet::new(packet.src, packet.dst, IpBody::Tcp(packet.segment));
        Some((self.free_at, circuit, packet))
    }

    /// A packet of a frame.
    pub fn video(frame: u32) -> Ipv4Packet {
        let mut payload = vec![0; VIDEO_OCTETS as usize];
        payload[..4].copy_from_slice(&frame.to_be_bytes());
        let datagram = UdpDatagram {
            src_port: 1,
            dst_port: 1,
            checksum: true,
            payload: Payload::Bytes(payload.into()),
        };
        Ipv4Packet::new(SOURCE, HOST, IpBody::Udp(datagram))
    }
}
