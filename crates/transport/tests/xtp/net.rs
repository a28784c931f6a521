//! Two hosts, a channel between them, and a log of what was on it.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;

use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Time};
use layercast_transport::xtp::{
    ContextId, Endpoint, SendOptions, XtpConfig, XtpDatagram, XtpEvent, XtpFailure, XtpSocket,
};
use layercast_wire::{Payload, XtpBody, XtpOptions, XtpPacket};

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

/// What becomes of a packet from a host: copies with their delays; none: lost.
pub type Channel = Box<dyn FnMut(usize, XtpDatagram) -> Vec<(Span, XtpDatagram)>>;

pub struct Net {
    pub now: Time,
    pub hosts: [Endpoint; 2],
    pub channel: Channel,
    /// What was sent, as `note` writes it.
    pub log: Vec<String>,
    /// The same as it was.
    pub sent: Vec<(usize, XtpPacket)>,
    /// What the users were told.
    pub events: [Vec<XtpEvent>; 2],
    flying: BTreeMap<(Time, u64), (usize, XtpDatagram)>,
    order: u64,
}

impl Net {
    pub fn new(channel: Channel) -> Net {
        let secret = [7; 32];
        Net {
            now: Time::ZERO,
            hosts: [
                Endpoint::new(64, "a", &secret),
                Endpoint::new(64, "b", &secret),
            ],
            channel,
            log: Vec::new(),
            sent: Vec::new(),
            events: [Vec::new(), Vec::new()],
            flying: BTreeMap::new(),
            order: 0,
        }
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

    /// Sends what can be sent, and takes the events.
    pub fn drain(&mut self) {
        for host in 0..2 {
            while let Some(datagram) = self.hosts[host].poll_transmit(self.now, &mut Off) {
                self.note(host, &datagram.packet);
                self.sent.push((host, datagram.packet.clone()));
                for (delay, datagram) in (self.channel)(host, datagram) {
                    self.order += 1;
                    let at = (self.now + delay, self.order);
                    self.flying.insert(at, (1 - host, datagram));
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
            let (_, (host, datagram)) = self.flying.pop_first().unwrap();
            self.hosts[host].handle(self.now, datagram, &mut Off);
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

    pub fn was_told(&self, host: usize, event: XtpEvent) -> bool {
        self.events[host].contains(&event)
    }

    pub fn failure(&self, host: usize) -> Option<XtpFailure> {
        self.events[host].iter().find_map(|event| match event {
            XtpEvent::Failed(_, why) => Some(*why),
            _ => None,
        })
    }

    fn note(&mut self, host: usize, packet: &XtpPacket) {
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
            self.now.since(Time::ZERO).as_ms_f64(),
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
    }
}
