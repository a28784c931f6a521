use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};

use super::stats::EdgeSent;
use super::wire::{self, ENVELOPE, Session};
use crate::{ConfigError, Encoder, EncoderConfig, Header, LossCount, Steering};

/// Target loss after decoding in adaptive mode.
const LOSS: f64 = 1e-3;

/// Output waiting to be sent.
#[derive(Debug)]
enum Outgoing {
    Source(Header, Bytes),
    Plain(Bytes),
    Parity(Vec<u8>),
    Report(Session, LossCount),
}

/// The sending side of a tunnel.
#[derive(Debug)]
pub(super) struct Sending {
    encoder: Encoder,
    session: Session,
    /// Number of the next packet.
    next: Serial,
    steering: Option<Steering>,
    /// Longest datagram.
    mtu: usize,
    queue: VecDeque<Outgoing>,
    /// Spare buffers for parities.
    spare: Vec<Vec<u8>>,
    stats: EdgeSent,
    /// Time and packet count of the last report.
    before: (Time, u64),
}

impl Sending {
    /// `auto`: the code adapts to the peer's reports.
    pub fn new(
        config: EncoderConfig,
        auto: bool,
        session: Session,
    ) -> Result<Sending, ConfigError> {
        let mtu = config.mtu;
        let config = EncoderConfig {
            mtu: mtu.saturating_sub(ENVELOPE),
            ..config
        };
        let encoder = Encoder::new(config).map_err(|error| match error {
            ConfigError::Mtu { needed, .. } => {
                let needed = needed + ENVELOPE;
                ConfigError::Mtu { mtu, needed }
            }
            other => other,
        })?;
        Ok(Sending {
            encoder,
            session,
            next: Serial(0),
            steering: auto.then(|| Steering::new(LOSS, u32::from(Steering::BLOCK))),
            mtu,
            queue: VecDeque::new(),
            spare: Vec::new(),
            stats: EdgeSent::default(),
            before: (Time::ZERO, 0),
        })
    }

    /// Sends a packet of the user.
    pub fn push(&mut self, now: Time, packet: &[u8]) {
        if packet.len() > super::longest_packet(self.mtu) {
            self.stats.refused += 1;
            let len = packet.len() as u64;
            self.stats.longest_refused = self.stats.longest_refused.max(len);
            return;
        }
        self.stats.octets += packet.len() as u64;
        let packet = wire::with_number(self.next, packet);
        self.next = self.next.plus(1);
        let Ok(header) = self.encoder.push(now, packet.clone()) else {
            self.stats.unprotected += 1;
            self.queue.push_back(Outgoing::Plain(packet));
            return;
        };
        self.stats.packets += 1;
        self.queue.push_back(Outgoing::Source(header, packet));
        self.take_parities();
    }

    /// Queues a report to the peer about its session.
    pub fn report(&mut self, session: Session, total: LossCount) {
        self.queue.push_back(Outgoing::Report(session, total));
    }

    /// Processes a report from the peer; `false` if it is about another session.
    pub fn on_report(
        &mut self,
        now: Time,
        session: Session,
        total: LossCount,
        period: Span,
    ) -> bool {
        if session != self.session || total.received > total.expected {
            return false;
        }
        self.stats.peer_loss = Some(total.rate());
        self.stats.reports += 1;
        let (then, packets) = std::mem::replace(&mut self.before, (now, self.stats.packets));
        let Some(steering) = &mut self.steering else {
            return true;
        };
        // A batch is the number of packets within the time that a block may stay open. Forged reports may arrive at
        // the same instant; the time is at least a millisecond.
        let time = now.since(then).as_secs_f64().max(1e-3);
        let rate = (self.stats.packets - packets) as f64 / time;
        let batch = rate * self.encoder.config().flush.as_secs_f64();
        steering.set(LOSS, batch.clamp(1.0, 1e6) as u32);
        if let Some((n, m)) = steering.on_report(now, 0, total, period) {
            // A code whose parities do not fit the packets is refused.
            let _ = self.encoder.set_redundancy(n, m);
            self.take_parities();
        }
        true
    }

    /// Replaces the content of `out` by the next datagram; `false` if there is none.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(next) = self.queue.pop_front() else {
            return false;
        };
        out.clear();
        match next {
            Outgoing::Source(header, packet) => {
                out.extend_from_slice(&self.session.coded());
                out.extend_from_slice(&header.encode());
                out.extend_from_slice(&packet);
            }
            Outgoing::Plain(packet) => {
                out.extend_from_slice(&self.session.plain());
                out.extend_from_slice(&packet);
            }
            Outgoing::Parity(parity) => {
                out.extend_from_slice(&self.session.coded());
                out.extend_from_slice(&parity);
                // Bounded by the largest number of parities at one time.
                self.spare.push(parity);
            }
            Outgoing::Report(session, total) => out.extend_from_slice(&session.report(total)),
        }
        self.stats.tunnel_octets += out.len() as u64;
        true
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.encoder.next_timeout()
    }

    pub fn on_timeout(&mut self, now: Time) {
        self.encoder.on_timeout(now);
        self.take_parities();
    }

    pub fn stats(&self) -> EdgeSent {
        let config = self.encoder.config();
        EdgeSent {
            code: (config.n, config.m),
            ..self.stats
        }
    }

    /// Parities are sent after the packets of their block, before those of the next.
    fn take_parities(&mut self) {
        loop {
            let mut parity = self.spare.pop().unwrap_or_default();
            if !self.encoder.poll_parity(&mut parity) {
                self.spare.push(parity);
                return;
            }
            self.stats.parities += 1;
            self.queue.push_back(Outgoing::Parity(parity));
        }
    }
}
