use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Span, Time, earliest};

use super::order::{Order, Placed};
use super::peer::{Admission, Peer};
use super::stats::EdgeReceived;
use super::wire::{self, Carried, Session};
use crate::{Arrival, Decoder, DecoderConfig, DecoderEvent, Header, LossCount};

/// Arrivals that are remembered to compute the delay of recovered packets.
const ARRIVALS: usize = 1_024;
/// Blocks after the last undecoded one in which recovered packets may be duplicates.
const FAR: i32 = 1_024;

/// The receiving side of a tunnel.
#[derive(Debug)]
pub(super) struct Receiving {
    config: DecoderConfig,
    decoder: Decoder,
    peer: Peer,
    /// A session of the peer has begun.
    started: bool,
    bypass: bool,
    /// The newest block from which a packet was delivered without decoding: packets recovered from it may be
    /// duplicates.
    bypassed: Option<Serial>,
    arrivals: VecDeque<(Serial, u8, Time)>,
    order: Order,
    added: Span,
    /// Counters of former decoders and of packets without a decoder.
    past: EdgeReceived,
    /// When the next report is sent.
    report_at: Option<Time>,
    /// Whether packets arrived since the last report.
    heard: bool,
    /// Counts of former decoders of the session, and the last reported counts.
    session_past: LossCount,
    reported: LossCount,
}

impl Receiving {
    /// Interval of the reports to the peer.
    pub const PERIOD: Span = Span::from_secs(1);

    /// `wait`: longest time that a packet waits for one before it.
    pub fn new(config: DecoderConfig, wait: Span) -> Receiving {
        Receiving {
            config,
            decoder: Decoder::new(config),
            peer: Peer::default(),
            started: false,
            bypass: false,
            bypassed: None,
            arrivals: VecDeque::with_capacity(ARRIVALS),
            order: Order::new(wait),
            added: Span::ZERO,
            past: EdgeReceived::default(),
            report_at: None,
            heard: false,
            session_past: LossCount::default(),
            reported: LossCount::default(),
        }
    }

    /// Processes a packet of the session `session` of the peer.
    pub fn take(&mut self, now: Time, session: Session, carried: Carried) {
        match self.peer.admit(now, session, &carried) {
            Admission::Heard => {}
            Admission::Begins(first) => {
                self.begin();
                // It was counted when it came.
                if let Some(first) = first {
                    self.past.malformed -= 1;
                    self.process(now, &first);
                }
            }
            Admission::Dropped => return self.malformed(),
        }
        self.process(now, &carried);
    }

    fn process(&mut self, now: Time, carried: &Carried) {
        match carried {
            Carried::Coded(packet) => self.coded(now, packet),
            Carried::Plain(packet) => self.hand_over(now, packet),
        }
    }

    /// Processes a packet of the code.
    fn coded(&mut self, now: Time, packet: &Bytes) {
        let Ok(header) = Header::decode(packet) else {
            self.malformed();
            return;
        };
        self.heard = true;
        self.report_at.get_or_insert(now + Receiving::PERIOD);
        if self.passes_by(&header) {
            self.past.bypassed += 1;
            if header.parity().is_none() {
                self.hand_over(now, &packet.slice(Header::SIZE..));
                // Nothing before it is recovered.
                self.order.flush();
            }
            return;
        }
        if self.arrivals.len() == ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back((header.block, header.index, now));
        self.decoder.handle(now, packet);
        self.take_events(now);
    }

    /// Counts a datagram from the peer.
    pub fn heard(&mut self) {
        self.past.datagrams += 1;
    }

    pub fn malformed(&mut self) {
        self.past.malformed += 1;
    }

    pub fn poll_packet(&mut self) -> Option<Bytes> {
        let packet = self.order.poll()?;
        self.past.packets += 1;
        self.past.octets += packet.len() as u64;
        Some(packet)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let blocks = earliest(self.decoder.next_timeout(), self.report_at);
        earliest(blocks, self.order.next_timeout())
    }

    /// Abandons expired blocks and gaps; returns the report to send, if one is due.
    pub fn on_timeout(&mut self, now: Time) -> Option<(Session, LossCount)> {
        self.decoder.on_timeout(now);
        self.take_events(now);
        self.order.on_timeout(now);
        if self.report_at.is_none_or(|at| at > now) {
            return None;
        }
        // One more report follows the last packet, once its block is closed.
        let heard = std::mem::take(&mut self.heard);
        self.report_at = heard.then_some(now + Receiving::PERIOD);
        let total = self.session_past.plus(self.decoder.loss());
        let reported = std::mem::replace(&mut self.reported, total);
        let session = self.peer.session();
        session.zip((reported != total).then_some(total))
    }

    /// Switches decoding off or on.
    pub fn set_bypass(&mut self, bypass: bool) {
        if self.bypass && !bypass {
            // Packets delivered without decoding were not lost; a new decoder does not count them so.
            self.renew();
        }
        self.bypass = bypass;
    }

    pub fn stats(&self) -> EdgeReceived {
        let mut stats = self
            .past
            .with(self.decoder.stats(), self.decoder.loss())
            .rated();
        stats.added_ms = self.added.as_ms_f64() / stats.recovered.max(1) as f64;
        stats
    }

    /// Another session of the peer is heard from now on, or the first one.
    fn begin(&mut self) {
        if self.started {
            self.past.restarts += 1;
            self.renew();
            self.order.restart();
        }
        self.started = true;
        (self.session_past, self.reported) = (LossCount::default(), LossCount::default());
        self.bypassed = None;
    }

    /// Whether a packet is delivered without decoding.
    fn passes_by(&mut self, header: &Header) -> bool {
        let ahead = self.bypassed.map(|it| header.block.diff(it));
        if self.bypass {
            if ahead.is_none_or(|ahead| ahead > 0) {
                self.bypassed = Some(header.block);
            }
            return true;
        }
        if ahead.is_some_and(|ahead| ahead > FAR) {
            self.bypassed = None;
        }
        ahead.is_some_and(|ahead| ahead <= 0)
    }

    /// Replaces the decoder by a new one.
    fn renew(&mut self) {
        self.decoder.on_timeout(Time::MAX);
        while self.decoder.poll_event().is_some() {}
        let loss = self.decoder.loss();
        self.past = self.past.with(self.decoder.stats(), loss);
        self.session_past = self.session_past.plus(loss);
        self.decoder = Decoder::new(self.config);
        self.arrivals.clear();
    }

    fn take_events(&mut self, now: Time) {
        while let Some(event) = self.decoder.poll_event() {
            let DecoderEvent::Source {
                block,
                index,
                payload,
                how,
            } = event
            else {
                continue;
            };
            match how {
                // It may be a duplicate: the user must receive it only once.
                Arrival::Late => continue,
                Arrival::Recovered => self.note_delay(now, block, index),
                Arrival::Plain => {}
            }
            self.hand_over(now, &payload);
        }
    }

    fn note_delay(&mut self, now: Time, block: Serial, index: u8) {
        let of_block = self.arrivals.iter().filter(|it| it.0 == block);
        let before = of_block.clone().filter(|it| it.1 < index);
        let before = before.max_by_key(|it| it.1).or(of_block.clone().next());
        let added = before.map_or(Span::ZERO, |it| now.since(it.2));
        self.added += added;
        self.past.most_added_ms = self.past.most_added_ms.max(added.as_ms_f64());
    }

    /// Puts a packet behind its number into its order.
    fn hand_over(&mut self, now: Time, numbered: &Bytes) {
        let Some((number, packet)) = wire::numbered(numbered) else {
            self.past.malformed += 1;
            return;
        };
        match self.order.put(now, number, packet) {
            Placed::Kept => {}
            Placed::After => self.past.out_of_order += 1,
            Placed::Duplicate => self.past.duplicate += 1,
            Placed::Strange => self.past.malformed += 1,
        }
    }
}
