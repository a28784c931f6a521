//! Packets that come in.

use core::net::SocketAddr;

use layercast_core::{Serial, Time};
use layercast_wire::{
    Payload, XtpBody, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions, XtpPacket, XtpTraffic,
};

use super::{Context, News};
use crate::XtpFailure;
use crate::incoming::Taken;
use crate::outgoing::LAST_SEQ;

/// Deliveries that a peer can wait for simultaneously; of more, the last counts.
const MAX_DELIVERIES: usize = 8;

impl Context {
    /// The FIRST that opens this context: what it proposes, then its data. Says what to refuse it with.
    pub(crate) fn on_first(&mut self, now: Time, packet: &XtpPacket) -> Result<(), XtpDiagValue> {
        let XtpBody::First { traffic, .. } = &packet.body else {
            return Ok(());
        };
        if traffic.is_malformed() {
            return Err(XtpDiagValue::TRAFFIC);
        }
        if let XtpTraffic::Other { .. } = traffic {
            return Err(XtpDiagValue::TRAFFIC_FORMAT);
        }
        self.service = traffic.service();
        if !self.on_traffic(traffic) {
            return Err(XtpDiagValue::TRAFFIC_REFUSED);
        }
        self.news.clear();
        if self.config.key_exchange && !matches!(self.service.0, 1..=3) && !self.is_multicast() {
            self.due.answer = true;
            self.due.traffic = true;
            self.due.traffic_asks = true;
        }
        self.on_packet(now, self.remote.net, packet);
        Ok(())
    }

    /// Takes a packet that names this context.
    pub(crate) fn on_packet(&mut self, now: Time, from: SocketAddr, packet: &XtpPacket) {
        self.counts.received += 1;
        self.octets_received += packet.encoded_len() as u64;
        self.last_heard = now;
        self.budget.receive(packet.encoded_len());
        // Our key is not guessable.
        if packet.key.is_return() {
            self.budget.validate();
        }
        let options = packet.options;
        let tells = matches!(packet.body, XtpBody::Diag { .. });
        if options.has(XtpOptions::MULTI) != self.is_multicast() && !tells {
            self.tally.unsupported += 1;
            return;
        }
        if self.group().is_some() {
            self.on_member(now, (from, packet.key), packet);
            return self.settle(now);
        }
        if let XtpBody::Diag { code, value, .. } = packet.body {
            return self.on_diag(now, code, value);
        }
        if self.is_inactive() {
            self.note_sync(packet.sync, options.any(XtpOptions::SREQ));
            // Packets for other receivers are no reason to answer.
            self.due.answer |= !options.has(XtpOptions::END) && !self.is_multicast();
            return;
        }
        let is_first_answer = !std::mem::replace(&mut self.heard, true);
        if is_first_answer && self.initiator {
            self.tell(News::Connected);
        }
        let rseq = self.inc.rseq();
        match &packet.body {
            XtpBody::Data(data) | XtpBody::First { data, .. } => {
                self.on_data(packet, data);
                self.on_rclose(options, None);
            }
            XtpBody::Cntl(control) => {
                self.on_status(now, control, &[]);
                self.on_bare(packet);
                self.on_rclose(options, Some(control.rseq));
            }
            XtpBody::Ecntl { control, spans } => {
                self.on_status(now, control, spans);
                self.on_bare(packet);
                self.on_rclose(options, Some(control.rseq));
            }
            XtpBody::Tcntl {
                control, traffic, ..
            } => {
                self.on_status(now, control, &[]);
                self.on_bare(packet);
                self.on_rclose(options, Some(control.rseq));
                self.on_proposal(traffic, options, is_first_answer);
            }
            XtpBody::Jcntl {
                control, traffic, ..
            } if packet.key.is_return() => {
                self.on_admission(now, packet.seq, control, traffic);
            }
            XtpBody::Join(_) | XtpBody::Jcntl { .. } | XtpBody::Diag { .. } => {
                self.tally.unsupported += 1;
                return;
            }
        }
        if self.is_inactive() {
            return;
        }
        self.on_questions(packet, rseq);
        self.ended = options.has(XtpOptions::END);
        self.settle(now);
        if self.ended {
            // Before both directions were closed.
            self.fail(now, XtpFailure::Abandoned);
        }
    }

    /// The key by which the peer wants to be called.
    pub(crate) fn learn_key(&mut self, key: XtpKey) {
        self.key = key.returned();
        self.theirs = [Some(key)];
    }

    /// Whether the peer's own key is not known yet.
    pub(crate) fn wants_key(&self) -> bool {
        self.initiator && self.theirs == [None] && !self.is_multicast()
    }

    fn on_data(&mut self, packet: &XtpPacket, data: &Payload) {
        let Some(end) = packet
            .seq
            .checked_add(data.len() as u64)
            .filter(|end| *end < LAST_SEQ)
        else {
            self.tally.violations += 1;
            return;
        };
        let options = packet.options;
        self.inc.reserved = options.has(XtpOptions::RES);
        if self.read_closed {
            // The peer does not know yet that the data are no longer read.
            self.due.answer |= !data.is_empty();
            return;
        }
        match self.inc.take(packet.seq, data, options) {
            Taken::New => {}
            Taken::Duplicate => self.tally.duplicates += 1,
            Taken::Beyond => {
                self.tally.beyond += 1;
                self.due.answer |= !options.has(XtpOptions::NOFLOW);
            }
            Taken::Violation => {
                self.tally.violations += 1;
                return;
            }
        }
        if options.has(XtpOptions::WCLOSE) && !self.inc.end_at(end) {
            self.tally.violations += 1;
        }
        let guarded = options.has(XtpOptions::FASTNAK) && !options.has(XtpOptions::NOERR);
        self.due.nak |= guarded && self.inc.has_gap();
    }

    /// What a packet without data says of the stream.
    fn on_bare(&mut self, packet: &XtpPacket) {
        if self.read_closed || packet.seq >= LAST_SEQ {
            return;
        }
        let options = packet.options;
        self.inc.reserved |= options.has(XtpOptions::RES);
        if options.has(XtpOptions::WCLOSE) && !self.inc.end_at(packet.seq) {
            self.tally.violations += 1;
            return;
        }
        if options.has(XtpOptions::NOERR) {
            let free = Payload::default();
            self.inc.take(packet.seq, &free, XtpOptions::NOERR);
        }
        self.inc.see(packet.seq);
    }

    /// The peer reads no more: it has everything, or wants nothing. Only a status says how much it has; with data
    /// it means that nothing is missing.
    fn on_rclose(&mut self, options: XtpOptions, rseq: Option<u64>) {
        if !options.has(XtpOptions::RCLOSE) || self.writer_done || self.is_inactive() {
            return;
        }
        let told = self.write_closed && !self.out.has_unsent() && !self.due.close;
        if rseq.is_none() && told {
            self.out.release(self.out.next());
        }
        let whole = told && self.out.una() == self.out.end();
        self.writer_done = true;
        self.delivery = None;
        if !whole {
            // No reader waits for the end of the stream.
            self.write_closed = true;
            self.due.close = false;
            let lost = self.out.drop_all();
            let is_datagram = matches!(self.service.0, 1 | 2);
            if lost > 0 || !is_datagram {
                self.tell(News::ReaderGone(lost));
            }
        }
    }

    fn on_proposal(&mut self, traffic: &XtpTraffic, options: XtpOptions, known: bool) {
        if !self.on_traffic(traffic) {
            self.due.diag = Some((XtpDiagCode::REQUEST_REFUSED, XtpDiagValue::TRAFFIC_REFUSED));
            return;
        }
        // FIRST has contained it already.
        self.due.traffic |= options.has(XtpOptions::SREQ) && !known;
    }

    /// SREQ, EDGE and DREQ; `rseq` is what was expected before the packet came.
    fn on_questions(&mut self, packet: &XtpPacket, rseq: u64) {
        let options = packet.options;
        let edge = options.has(XtpOptions::EDGE);
        let in_order = packet.body.data().is_some() && packet.seq == rseq;
        let turned = in_order && edge != self.peer_edge;
        if in_order {
            self.peer_edge = edge;
        }
        self.note_sync(packet.sync, options.has(XtpOptions::SREQ) || turned);
        if !options.has(XtpOptions::DREQ) || self.read_closed {
            return;
        }
        let len = packet.body.data().map_or(0, |data| data.len() as u64);
        let at = packet.seq.saturating_add(len);
        if at >= LAST_SEQ {
            return;
        }
        if self.owed_deliveries.len() >= MAX_DELIVERIES {
            self.owed_deliveries.pop_back();
        }
        self.owed_deliveries.push_back((packet.sync, at));
        self.answer_deliveries();
    }

    /// A packet that asks, or does not, carries `sync`.
    fn note_sync(&mut self, sync: Serial, asks: bool) {
        if asks {
            self.due.answer = true;
            if sync.is_after(self.echo) {
                self.echo = sync;
            }
        }
    }

    /// Tells of what the user has taken.
    pub(super) fn answer_deliveries(&mut self) {
        let delivered = self.inc.delivered();
        while let Some(&(sync, _)) = self.owed_deliveries.front().filter(|it| it.1 <= delivered) {
            self.owed_deliveries.pop_front();
            self.note_sync(sync, true);
        }
    }

    fn on_diag(&mut self, now: Time, code: XtpDiagCode, value: XtpDiagValue) {
        if self.is_inactive() {
            self.tally.stray_diags += 1;
            return;
        }
        match code {
            XtpDiagCode::REFUSED if self.initiator && !self.heard => {
                self.fail(now, XtpFailure::Refused(value));
            }
            XtpDiagCode::JOIN_REFUSED if self.is_multicast() => {
                self.fail(now, XtpFailure::Refused(value));
            }
            XtpDiagCode::ABANDONED => self.fail(now, XtpFailure::Abandoned),
            XtpDiagCode::INVALID_CONTEXT => {
                // The peer has forgotten it: no harm if everything was said.
                let said = self.write_closed && self.out.una() == self.out.end();
                self.ended = true;
                self.writer_done |= said;
                self.settle(now);
                self.fail(now, XtpFailure::Diagnosed(code, value));
            }
            XtpDiagCode::PACKET_SIZE => self.fail(now, XtpFailure::Diagnosed(code, value)),
            XtpDiagCode::REQUEST_REFUSED => self.tell(News::TrafficRefused),
            // An attacker that sends invalid packets in the peer's name must not make it abort because of our
            // complaint.
            _ => self.tally.stray_diags += 1,
        }
    }
}
