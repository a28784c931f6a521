//! Packets that go out, made when they are asked for.

use bytes::Bytes;
use core::net::{IpAddr, SocketAddrV4};

use layercast_core::{CELL_SIZE, Time, aal5_cells};
use layercast_wire::{
    Payload, XTP_HEADER, XtpAddress, XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpOptions,
    XtpPacket, XtpService, XtpTraffic,
};

use super::{Context, Delivery, Request};
use crate::xtp::outgoing::TAG;
use crate::xtp::{Ask, RateCounts};

/// Bytes of address and traffic in FIRST.
const OPENING: usize = 16 + 24;
/// Bytes of a status that tells two ranges, or the traffic.
const SMALL_STATUS: usize = XTP_HEADER + 24 + 32;
/// Ranges told at most (xtp.md 2.10).
const MAX_SPANS: usize = 64;
/// Requests remembered at most; of more, the oldest are forgotten.
const MAX_REQUESTS: usize = 4_096;
/// Bytes sent for each received, while nobody has proved that he receives them (RFC 9000 8.1).
const AMPLIFICATION: u64 = 3;

impl Context {
    /// The next packet, if any may leave now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<XtpPacket> {
        // What the user has taken may have been the last there was to wait for.
        self.settle(now);
        let packet = self.next_packet(now)?;
        self.counts.sent += 1;
        if let Some((_, sent)) = &mut self.unproven {
            *sent += packet.encoded_len() as u64;
        }
        Some(packet)
    }

    fn next_packet(&mut self, now: Time) -> Option<XtpPacket> {
        if let Some((code, value)) = self.due.diag.take() {
            return Some(self.diag(code, value));
        }
        if self.is_inactive() {
            let due = std::mem::take(&mut self.due.answer);
            return (due && self.may_reach(SMALL_STATUS)).then_some(self.status(now, false));
        }
        if self.due.first {
            return self.open(now);
        }
        if self.due.answer && self.may_reach(SMALL_STATUS) {
            self.due.answer = false;
            let asks = std::mem::take(&mut self.due.traffic_asks);
            return Some(self.status(now, asks));
        }
        if self.due.probe && self.may_reach(SMALL_STATUS) {
            return Some(self.probe_packet(now));
        }
        if self.handshake.is_some() {
            return None;
        }
        if self.due.skip && self.may_reach(XTP_HEADER) {
            self.due.skip = false;
            let (seq, data) = (self.out.una(), Payload::default());
            let asked = self.ask(now);
            return Some(self.packet(asked | XtpOptions::NOERR, seq, XtpBody::Data(data)));
        }
        if let Some(packet) = self.data(now) {
            return Some(packet);
        }
        self.bare(now)
    }

    /// FIRST for the first time, with the data that there are.
    fn open(&mut self, now: Time) -> Option<XtpPacket> {
        let most = self.max_data.saturating_sub(OPENING).max(TAG + 1);
        let index = self
            .out
            .next_unsent()
            .filter(|_| self.alloc > 0 || !self.config.flow_control);
        if let Some(index) = index {
            let room = if self.config.flow_control {
                self.alloc as usize
            } else {
                most
            };
            if self.out.segment(index).payload.len() > most.min(room) {
                self.out.split(index, most.min(room));
            }
            let cost = self.cost(self.out.segment(index).payload.len() + OPENING);
            if let Some(at) = self.credit.wait(now, cost) {
                self.blocked_until = Some(at);
                return None;
            }
            self.credit.take(now, cost);
        }
        self.due.first = false;
        let (options, data) = match index {
            Some(index) => self.load(now, index),
            None => (self.ask_unless_never(now), Payload::default()),
        };
        let packet = self.first(options.without(XtpOptions::NOCHECK), index.map(|_| 0), data);
        if packet.options.has(XtpOptions::END) {
            self.end_of_datagram(now);
        }
        Some(packet)
    }

    /// FIRST once more, with what it had.
    fn reopen(&mut self, now: Time) -> XtpPacket {
        let asked = self.ask(now);
        let (flags, data) = match self.out.first() {
            Some(first) => (first.flags, first.payload.clone()),
            None => (XtpOptions::NONE, Payload::default()),
        };
        let kept = XtpOptions::EOM | XtpOptions::BTAG | XtpOptions::DREQ;
        let flags = XtpOptions(flags.0 & kept.0).when(!data.is_empty());
        let seq = (!data.is_empty()).then_some(0);
        if !data.is_empty() {
            self.out.leave(0, self.sync);
            self.tally.retransmitted += 1;
            self.counts.retransmitted += 1;
            self.counts.bytes_again += data.len() as u64;
        }
        self.first(asked | flags, seq, data)
    }

    fn first(&mut self, options: XtpOptions, seq: Option<u64>, data: Payload) -> XtpPacket {
        let seq = seq.unwrap_or(self.out.una());
        let end = seq + data.len() as u64;
        let last = self.write_closed && end == self.out.end();
        let over = last && self.is_last_of_datagram(end);
        self.due.close &= !last;
        let body = XtpBody::First {
            address: self.address(),
            traffic: XtpTraffic::Spec(self.service, self.out_traffic),
            data,
        };
        let ends = XtpOptions::RCLOSE.when(self.read_closed)
            | XtpOptions::WCLOSE.when(last)
            | XtpOptions::END.when(over);
        self.packet(options | ends, seq, body)
    }

    /// Data that are due again, or for the first time.
    fn data(&mut self, now: Time) -> Option<XtpPacket> {
        let again = self.out.next_resend();
        let index = again.or_else(|| self.sendable())?;
        // The path, or what the peer takes, may have become smaller since the stream was cut.
        let mut most = self.max_data;
        if again.is_none() && self.config.flow_control {
            most = most.min((self.alloc - self.out.segment(index).seq) as usize);
        }
        if self.out.segment(index).payload.len() > most {
            self.out.split(index, most);
        }
        let len = self.out.segment(index).payload.len();
        if !self.may_reach(XTP_HEADER + len) {
            // Only an answer lets more go.
            if self.requests.is_empty() {
                self.start_handshake(now);
                return self.may_reach(SMALL_STATUS).then(|| self.probe_packet(now));
            }
            return None;
        }
        let cost = self.cost(len);
        if let Some(at) = self.credit.wait(now, cost) {
            self.blocked_until = Some(at);
            return None;
        }
        self.credit.take(now, cost);
        if again.is_some() {
            self.tally.retransmitted += 1;
            self.counts.retransmitted += 1;
            self.counts.bytes_again += len as u64;
        }
        let (seq, sort) = (self.out.segment(index).seq, self.out.segment(index).sort);
        let (options, data) = self.load(now, index);
        let end = seq + data.len() as u64;
        let last = self.write_closed && end == self.out.end();
        self.due.close &= !last;
        let over = last && self.is_last_of_datagram(end);
        let ends = XtpOptions::WCLOSE.when(last) | XtpOptions::END.when(over);
        let mut packet = self.packet(options | ends, seq, XtpBody::Data(data));
        packet.sort = sort;
        if over {
            self.end_of_datagram(now);
        }
        Some(packet)
    }

    /// The next segment that was never sent, if the peer lets it go.
    fn sendable(&self) -> Option<usize> {
        let index = self.out.next_unsent()?;
        if !self.config.flow_control {
            return Some(index);
        }
        let segment = self.out.segment(index);
        let room = self.alloc.saturating_sub(segment.seq);
        let least = match segment.flags.has(XtpOptions::BTAG) {
            true => TAG as u64 + 1,
            false => 1,
        };
        // A part goes only if nothing else will open the window.
        let wanted = match self.out.una() == self.out.next() {
            true => least.min(segment.len),
            false => segment.len.min(self.max_data as u64),
        };
        (room >= wanted).then_some(index)
    }

    /// Takes a segment for a packet that leaves now: its options and data.
    fn load(&mut self, now: Time, index: usize) -> (XtpOptions, Payload) {
        let segment = self.out.segment(index);
        let (flags, seq, data) = (segment.flags, segment.seq, segment.payload.clone());
        self.asked_since += 1;
        let enough = match self.config.ask {
            Ask::Every(n) => self.asked_since >= n || self.is_last_for_now(index),
            Ask::Never => false,
        };
        let delivery = flags.has(XtpOptions::DREQ);
        let mut asked = XtpOptions::NONE;
        // A question needs no status besides that of delivery; the answer to the one hides that to the other.
        if delivery {
            self.sync = self.sync.plus(1);
            let (at, sync) = (seq + data.len() as u64, self.sync);
            self.delivery = Some(Delivery {
                at,
                sync,
                blurred: false,
            });
            self.last_sent = now;
            asked = XtpOptions::DREQ;
        } else if enough && !self.is_transaction_question(index) {
            asked = self.ask_with_data(now);
        }
        self.last_sent = now;
        let covered = match delivery || self.asked_since == 0 {
            true => self.sync,
            false => self.sync.plus(1),
        };
        let owed = self.out.una() < seq;
        self.out.leave(index, covered);
        if let Some(request) = self.requests.back_mut().filter(|it| it.sync == self.sync) {
            request.sent = self.out.next();
        }
        let loose = flags.has(XtpOptions::NOERR) && !owed;
        (
            flags.without(XtpOptions::NOERR) | XtpOptions::NOERR.when(loose) | asked,
            data,
        )
    }

    /// Whether nothing can follow this segment at once.
    fn is_last_for_now(&mut self, index: usize) -> bool {
        let again = index < self.out.next_unsent().unwrap_or(usize::MAX);
        let end = self.out.segment(index).end();
        if again {
            // It is the last that is due again, and nothing new may go.
            let more = self.out.due_after(end);
            return !more && self.sendable().is_none();
        }
        let next = self.out.get(index + 1);
        let blocked = |len: u64| self.config.flow_control && self.alloc < end + len;
        next.is_none_or(|next| blocked(next.len.min(self.max_data as u64)))
    }

    /// The first packet of a transaction asks for nothing: its answer is the answer (xtp.md 2.6).
    fn is_transaction_question(&self, index: usize) -> bool {
        let once = self.out.segment(index).sends == 0 && self.initiator && !self.heard;
        self.service == XtpService::TRANSACTION && self.write_closed && once
    }

    /// The end of the stream, or a delivery, in a packet of its own.
    fn bare(&mut self, now: Time) -> Option<XtpPacket> {
        let ends = self.due.close && !self.out.has_unsent();
        if !(ends || self.due.delivery) || !self.may_reach(SMALL_STATUS) {
            return None;
        }
        if ends {
            self.due.close = false;
            return Some(self.status(now, true));
        }
        self.due.delivery = false;
        self.sync = self.sync.plus(1);
        if let Some(delivery) = &mut self.delivery {
            (delivery.sync, delivery.blurred) = (self.sync, false);
        }
        let seq = self.delivery.map_or(self.out.next(), |it| it.at);
        self.last_sent = now;
        let mut packet = self.status(now, false);
        packet.options |= XtpOptions::DREQ;
        // The delivery is meant, not the end of what was sent.
        if !packet.options.has(XtpOptions::WCLOSE) {
            packet.seq = seq;
        }
        Some(packet)
    }

    fn probe_packet(&mut self, now: Time) -> XtpPacket {
        self.due.probe = false;
        let packet = match self.initiator && !self.heard {
            true => self.reopen(now),
            false => self.status(now, true),
        };
        let wait = self.handshake.map_or(0, |it| it.tries);
        let deadline = now.saturating_add(self.wait(wait));
        if let Some(handshake) = &mut self.handshake {
            handshake.tries += 1;
            handshake.deadline = deadline;
        }
        packet
    }

    /// Status, with what is held or proposed.
    fn status(&mut self, now: Time, asks: bool) -> XtpPacket {
        let asked = if asks {
            self.ask(now)
        } else {
            XtpOptions::NONE
        };
        self.due.answer = false;
        let control = XtpControl {
            rseq: self.inc.rseq(),
            alloc: self.inc.tell_alloc(),
            echo: self.echo,
        };
        // Whoever has proved nothing is told little.
        let most = if self.unproven.is_some() {
            2
        } else {
            MAX_SPANS
        };
        let spans = most.min(self.max_data.saturating_sub(24) / 16);
        let traffic =
            std::mem::take(&mut self.due.traffic) || (asks && self.traffic_unsure.is_some());
        let body = if traffic && !self.is_inactive() {
            if asks {
                self.traffic_unsure = Some(self.sync);
            }
            XtpBody::Tcntl {
                control,
                xkey: self.own,
                traffic: XtpTraffic::Spec(self.service, self.out_traffic),
            }
        } else if self.inc.has_gap() && !self.read_closed {
            XtpBody::Ecntl {
                control,
                spans: self.inc.spans(spans),
            }
        } else {
            XtpBody::Cntl(control)
        };
        let next = self.out.next();
        let settled = !self.out.has_unsent();
        // Whoever waits for what is lost for good need not, if nothing else is owed.
        let loose = self.out.una() == next && !self.config.error_control;
        let options = asked | self.closed_bits(settled) | XtpOptions::NOERR.when(loose);
        if settled && self.write_closed {
            self.due.close = false;
        }
        self.packet(options, next, body)
    }

    fn diag(&self, code: XtpDiagCode, value: XtpDiagValue) -> XtpPacket {
        XtpPacket {
            key: self.key,
            options: XtpOptions::NONE,
            sort: 0,
            sync: self.sync,
            seq: self.out.next(),
            body: XtpBody::Diag {
                code,
                value,
                message: Bytes::new(),
            },
        }
    }

    /// A packet with the options that are those of the context.
    fn packet(&self, options: XtpOptions, seq: u64, body: XtpBody) -> XtpPacket {
        let config = &self.config;
        let has_read = self.inc.is_complete() && self.owed_deliveries.is_empty();
        let read = matches!(body, XtpBody::Data(_)) && (has_read || self.is_one_way());
        let modes = XtpOptions::NOFLOW.when(!config.flow_control)
            | XtpOptions::FASTNAK.when(config.fast_nak)
            | XtpOptions::RES.when(config.reservation)
            | XtpOptions::EDGE.when(self.edge)
            | XtpOptions::RCLOSE.when(read);
        XtpPacket {
            key: self.key,
            options: options | modes,
            sort: 0,
            sync: self.sync,
            seq,
            body,
        }
    }

    /// A packet that leaves now asks for the status.
    fn ask(&mut self, now: Time) -> XtpOptions {
        self.sync = self.sync.plus(1);
        self.asked_since = 0;
        self.last_sent = now;
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back(Request {
            sync: self.sync,
            at: now,
            sent: self.out.next(),
        });
        self.unanswered_since.get_or_insert(now);
        if let Some(delivery) = &mut self.delivery {
            delivery.blurred = true;
        }
        XtpOptions::SREQ
    }

    /// The same of data, which may say it by another bit: one that a loss can turn back, so that handshakes
    /// have none of it.
    fn ask_with_data(&mut self, now: Time) -> XtpOptions {
        let asked = self.ask(now);
        if self.config.edge && self.heard {
            self.edge = !self.edge;
            return XtpOptions::NONE;
        }
        asked
    }

    fn ask_unless_never(&mut self, now: Time) -> XtpOptions {
        self.last_sent = now;
        match self.config.ask {
            Ask::Every(_) => self.ask(now),
            Ask::Never => XtpOptions::NONE,
        }
    }

    /// What a packet with so many bytes of data counts against the rate.
    pub(super) fn cost(&self, len: usize) -> u64 {
        let packet = (len + XTP_HEADER) as u64;
        match self.config.rate_counts {
            RateCounts::User => len as u64,
            RateCounts::Xtp => packet,
            RateCounts::Wire(below) => packet + u64::from(below),
            RateCounts::Cells => u64::from(aal5_cells(packet as usize)) * CELL_SIZE as u64,
        }
    }

    /// Whether so many bytes may go to a peer that may not be who it says.
    fn may_reach(&self, bytes: usize) -> bool {
        self.unproven.is_none_or(|(received, sent)| {
            sent + bytes as u64 <= received.saturating_mul(AMPLIFICATION)
        })
    }

    fn address(&self) -> XtpAddress {
        match (self.remote.net.ip(), self.local.net.ip()) {
            (IpAddr::V4(dst), IpAddr::V4(src)) => XtpAddress::Ipv4 {
                dst: SocketAddrV4::new(dst, self.remote.port),
                src: SocketAddrV4::new(src, self.local.port),
            },
            _ => XtpAddress::Ports {
                dst: self.remote.port,
                src: self.local.port,
            },
        }
    }
}
