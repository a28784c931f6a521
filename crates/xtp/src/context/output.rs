//! Packets produced on demand: FIRST, data, handshakes, the end.

use core::net::SocketAddr;

use layercast_core::Time;
use layercast_wire::{Payload, XTP_HEADER, XtpBody, XtpOptions, XtpPacket, XtpService, XtpTraffic};

use super::{Context, Delivery};
use crate::Ask;
use crate::outgoing::TAG;

/// Bytes of address and traffic in FIRST.
const OPENING: usize = 16 + 24;
/// Bytes of a status that tells two ranges, or the traffic.
const SMALL_STATUS: usize = XTP_HEADER + 24 + 32;
/// Bytes of a DIAG without a message.
const DIAG: usize = XTP_HEADER + 8;

impl Context {
    /// The next packet, if any may leave now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(SocketAddr, XtpPacket)> {
        // What the user has taken may have been the last there was to wait for.
        self.settle(now);
        let (to, packet) = match self.reply(now) {
            Some(alone) => alone,
            None => {
                let packet = self.next_packet(now)?;
                (self.remote.net, packet)
            }
        };
        self.counts.sent += 1;
        if packet.options.has(XtpOptions::NOERR) {
            self.note_skip();
        }
        let octets = packet.encoded_len();
        self.octets_sent += octets as u64;
        let within = self.budget.send(octets);
        debug_assert!(
            within,
            "each answer is held against the budget before it is made"
        );
        Some((to, packet))
    }

    fn next_packet(&mut self, now: Time) -> Option<XtpPacket> {
        // A context that only listens sends nothing except its request to do so.
        let mute = self.is_unacknowledged() && self.group().is_none();
        let may = !mute && self.may_reach(DIAG);
        if let Some((code, value)) = self.due.diag.take().filter(|_| may) {
            return Some(self.diag(code, value));
        }
        let held = (self.due.answer || self.due.nak) && self.holds_answer(now);
        if self.is_inactive() {
            let due = std::mem::take(&mut self.due.answer);
            return (due && self.may_reach(SMALL_STATUS)).then_some(self.status(now, false));
        }
        if self.due.first {
            return self.open(now);
        }
        if self.due.invite {
            return Some(self.invitation(now));
        }
        if let Some(packet) = self.asking(now) {
            return Some(packet);
        }
        // Another receiver has reported it meanwhile.
        self.due.nak &= self.inc.has_gap();
        let answer = (self.due.answer || self.due.nak) && !held;
        if answer && self.may_reach(SMALL_STATUS) {
            (self.due.answer, self.due.nak) = (false, false);
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
            let (seq, data) = (self.out.kept(), Payload::default());
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
        // An invitation comes before what only the invited can get.
        let index = self
            .out
            .next_unsent()
            .filter(|_| (self.alloc > 0 || !self.config.flow_control) && self.has_audience());
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
        self.plan_invitation(now);
        let (options, data) = match index {
            Some(index) => self.load(now, index),
            None if !self.has_audience() => return Some(self.invitation(now)),
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

    pub(super) fn first(
        &mut self,
        options: XtpOptions,
        seq: Option<u64>,
        data: Payload,
    ) -> XtpPacket {
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
            // Only an answer allows further transmission.
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

    /// The next segment that was never sent, if the peer allows it.
    fn sendable(&self) -> Option<usize> {
        let index = self.out.next_unsent().filter(|_| self.has_audience())?;
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

    /// Whether nothing can follow this segment immediately.
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

    /// The first packet of a transaction asks for nothing: its answer is the answer (specs/xtp.md 2.6).
    fn is_transaction_question(&self, index: usize) -> bool {
        let once = self.out.segment(index).sends == 0 && self.initiator && !self.heard;
        self.service == XtpService::TRANSACTION && self.write_closed && once
    }

    /// The end of the stream, or a delivery, in a packet of its own.
    fn bare(&mut self, now: Time) -> Option<XtpPacket> {
        let ends = self.due.close && !self.out.has_unsent();
        let may = self.has_audience() && self.may_reach(SMALL_STATUS);
        if !(ends || self.due.delivery) || !may {
            return None;
        }
        if ends {
            self.due.close = false;
            let packet = self.status(now, !self.is_unacknowledged());
            if self.is_last_of_datagram(self.out.end()) {
                self.end_of_datagram(now);
            }
            return Some(packet);
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
}
