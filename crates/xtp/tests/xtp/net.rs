//! Two hosts of XTP, and a log of what was between them.

use core::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use layercast_core::{Span, Stream, Time};
use layercast_wire::{Payload, XtpBody, XtpOptions, XtpPacket};
use layercast_xtp::{
    Ask, ContextId, Endpoint, Retransmission, SendOptions, XtpConfig, XtpDatagram, XtpEvent,
    XtpFailure, XtpSocket,
};

use super::pair::{self, Pair, Watch};

pub const PORT: u16 = 7_000;

pub fn ms(n: u64) -> Span {
    Span::from_ms(n)
}

pub fn socket(host: usize) -> XtpSocket {
    let ip = Ipv4Addr::new(10, 0, 0, 1 + host as u8);
    XtpSocket {
        net: SocketAddr::new(ip.into(), 0),
        port: if host == 0 { 6_000 } else { PORT },
    }
}

pub fn text(bytes: &'static [u8]) -> Payload {
    Payload::Bytes(Bytes::from_static(bytes))
}

pub type Channel = pair::Channel<XtpDatagram>;
pub type Net = Pair<Log>;

#[derive(Default)]
pub struct Log {
    /// What was sent, as `note` writes it.
    pub log: Vec<String>,
    /// The same as it was.
    pub sent: Vec<(usize, XtpPacket)>,
}

impl Net {
    pub fn new(channel: Channel) -> Net {
        let host = |name| Endpoint::new(64, name, &[7; 32]);
        Pair::between([host("a"), host("b")], channel, Log::default())
    }

    /// A fixed delay each way; of all packets, those counted in `lost` are.
    pub fn losing(delay: Span, lost: &'static [usize]) -> Net {
        let mut count = 0;
        Net::new(Box::new(move |_, packet| {
            count += 1;
            match lost.contains(&count) {
                true => Vec::new(),
                false => vec![(delay, packet)],
            }
        }))
    }

    /// An association from host 0 to a listener of host 1; nothing has left.
    pub fn connect(&mut self, config: &XtpConfig, far: &XtpConfig) -> ContextId {
        self.hosts[1].listen(PORT, 8, far.clone()).unwrap();
        let (local, remote) = (socket(0), socket(1));
        self.hosts[0]
            .connect(self.now, local, remote, config)
            .unwrap()
    }

    pub fn accept(&mut self) -> ContextId {
        self.hosts[1].accept(PORT).expect("an association").0
    }

    /// Sends all of a message, which must fit.
    pub fn send(&mut self, host: usize, id: ContextId, data: &Payload) {
        self.send_as(host, id, data, &SendOptions::MESSAGE);
    }

    pub fn send_as(&mut self, host: usize, id: ContextId, data: &Payload, how: &SendOptions) {
        assert_eq!(self.hosts[host].send(id, data, how), Ok(data.len()));
    }

    /// Takes everything there is, message after message.
    pub fn read(&mut self, host: usize, id: ContextId) -> Vec<u8> {
        let mut out = Vec::new();
        while let Ok(Some(chunk)) = self.hosts[host].receive(id, usize::MAX) {
            chunk.data.append_to(&mut out);
        }
        out
    }

    pub fn has_reported(&self, host: usize, event: XtpEvent) -> bool {
        self.events[host].contains(&event)
    }

    pub fn failure(&self, host: usize) -> Option<XtpFailure> {
        self.events[host].iter().find_map(|event| match event {
            XtpEvent::Failed(_, why) => Some(*why),
            _ => None,
        })
    }
}

impl Watch for Log {
    type Packet = XtpDatagram;
    type Event = XtpEvent;
    type Host = Endpoint;

    fn note(&mut self, now: Time, _: &[Endpoint; 2], host: usize, datagram: &XtpDatagram) {
        let packet = &datagram.packet;
        let kind = match &packet.body {
            XtpBody::Data(_) => "DATA",
            XtpBody::Cntl(_) => "CNTL",
            XtpBody::First { .. } => "FIRST",
            XtpBody::Ecntl { .. } => "ECNTL",
            XtpBody::Tcntl { .. } => "TCNTL",
            XtpBody::Join(_) => "JOIN",
            XtpBody::Jcntl { .. } => "JCNTL",
            XtpBody::Diag { .. } => "DIAG",
        };
        let mut line = format!(
            "{:8.1} {} {kind}[{:?}] {}",
            now.since(Time::ZERO).as_ms_f64(),
            if host == 0 { '>' } else { '<' },
            packet.options,
            packet.seq,
        );
        if let Some(data) = packet.body.data().filter(|data| !data.is_empty()) {
            line += &format!("+{}", data.len());
        }
        if host == 0 && packet.options.any(XtpOptions::SREQ | XtpOptions::DREQ) {
            line += &format!(" sync {}", packet.sync.0);
        }
        if let Some(control) = packet.body.control() {
            line += &format!(" rseq {} alloc {}", control.rseq, control.alloc);
            // The values of a responder are random.
            if host == 1 {
                line += &format!(" echo {}", control.echo.0);
            }
        }
        if let XtpBody::Ecntl { spans, .. } = &packet.body {
            for (left, right) in spans {
                line += &format!(" {left}-{right}");
            }
        }
        if let XtpBody::Diag { code, value, .. } = packet.body {
            line += &format!(" {code}: {value}");
        }
        self.log.push(line);
        self.sent.push((host, packet.clone()));
    }
}

/// Any number, often a usual one or one at the end.
pub fn number(random: &mut Stream) -> u64 {
    match random.below(5) {
        0 => random.below(u64::MAX),
        1 => u64::MAX - random.below(3),
        _ => random.below(70_000),
    }
}

/// Either way to repair.
pub fn retransmission(random: &mut Stream) -> Retransmission {
    match random.below(2) {
        0 => Retransmission::GoBackN,
        _ => Retransmission::Selective,
    }
}

/// How often receivers are asked.
pub fn ask(random: &mut Stream) -> Ask {
    match random.below(4) {
        0 => Ask::Never,
        n => Ask::Every(1 << (2 * n - 2)),
    }
}
