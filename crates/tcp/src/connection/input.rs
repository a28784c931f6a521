//! Segments that arrive (RFC 9293 3.10.7, RFC 5961, RFC 7323 5; 4.4BSD-Lite `tcp_input`).

use layercast_core::{Span, Time};
use layercast_wire::{Payload, TcpFlags, TcpSegment};

use super::{Alarm, Connection, Host, State};
use crate::{Ecn, Failure};

/// Challenge acknowledgements of a connection come no faster (RFC 5961 7).
const CHALLENGE_PACE: Span = Span::from_ms(500);
/// Timestamps older than this may have wrapped (RFC 7323 5.5).
const STAMP_LIFE: Span = Span::from_secs(24 * 86_400);
/// A peer that asks for smaller segments than this gets this.
const LEAST_MSS: u16 = 64;
/// Bytes of the timestamps option in every segment.
const STAMPS_LEN: u64 = 12;

/// What happened to a connection; the endpoint takes it after each turn.
#[derive(Clone, Default, Debug)]
pub(crate) struct Outcome {
    /// It is established now.
    pub(crate) connected: bool,
    /// It failed.
    pub(crate) failure: Option<Failure>,
    /// A reset to send.
    pub(crate) reset: Option<Box<TcpSegment>>,
    pub(crate) retransmitted: u32,
    pub(crate) timeouts: u32,
    pub(crate) spurious_timeouts: u32,
    pub(crate) fast_retransmits: u32,
    pub(crate) ecn_reductions: u32,
}

/// The acknowledgement of a segment, in our offsets.
pub(super) struct Ack {
    pub(super) seq: i64,
    pub(super) ack: i64,
    pub(super) window: u64,
    /// No data, no marks.
    pub(super) pure: bool,
}

impl Connection {
    /// Takes a segment addressed to this connection.
    pub(crate) fn on_segment(
        &mut self,
        host: &Host,
        now: Time,
        segment: &mut TcpSegment,
        ecn: Ecn,
    ) {
        if self.marks.in_use {
            self.hear_mark(host, segment, ecn);
        }
        match self.state {
            State::Established if self.is_predicted(segment) => {
                self.on_predicted(host, now, segment);
            }
            State::Closed => {}
            State::SynSent => self.on_syn_sent(host, now, segment),
            _ => self.on_synchronized(host, now, segment),
        }
    }

    /// Whether it is the next segment of one that receives only, or a plain acknowledgement for one that sends
    /// (header prediction, Jacobson 1990): most segments are, and need a few of the steps that all others take.
    fn is_predicted(&self, segment: &TcpSegment) -> bool {
        let plain = segment.flags.0 & !TcpFlags::PSH.0 == TcpFlags::ACK.0;
        if !plain || segment.seq != self.ack() || !self.has_later_stamp(segment) {
            return false;
        }
        let len = segment.payload.len() as u64;
        if len == 0 {
            let acked = segment.ack.diff(self.seq(self.una));
            let is_new = acked > 0 && acked as u64 <= self.max - self.una;
            let is_plain =
                segment.options.sack.is_empty() && self.prr.is_none() && self.trial.is_none();
            return is_new && is_plain && !self.looks_closely();
        }
        let all_is_acked = self.max == self.una && segment.ack == self.seq(self.una);
        let fits = self.rcv_nxt + len <= self.rcv_adv;
        let nothing_waits = self.reassembly.is_empty() && self.fin_at.is_none();
        all_is_acked && fits && nothing_waits && !self.abandoned
    }

    /// Whether the timestamp, where there should be one, is there and not older than the last.
    fn has_later_stamp(&self, segment: &TcpSegment) -> bool {
        let later = |value: u32| value.wrapping_sub(self.ts_recent) as i32 >= 0;
        !self.stamps || segment.options.timestamps.is_some_and(|it| later(it.value))
    }

    fn on_predicted(&mut self, host: &Host, now: Time, segment: &mut TcpSegment) {
        let seq = self.rcv_nxt;
        self.last_heard = now;
        self.remember_stamp(now, seq as i64, segment);
        let ack = self.read_ack(seq as i64, segment, segment.payload.is_empty());
        if ack.pure {
            self.on_new_ack(host, now, ack.ack as u64, segment);
        }
        self.update_window(&ack);
        if !ack.pure {
            self.take_text(host, now, seq, std::mem::take(&mut segment.payload));
        }
    }

    fn on_syn_sent(&mut self, host: &Host, now: Time, segment: &TcpSegment) {
        let acked = segment.flags.has(TcpFlags::ACK);
        let ack = self.ack_offset(segment);
        if acked && !(1..=self.max as i64).contains(&ack) {
            if !segment.flags.has(TcpFlags::RST) {
                self.outcome().reset = Some(Box::new(reset_for(segment)));
            }
            return;
        }
        if segment.flags.has(TcpFlags::RST) {
            if acked {
                self.fail(Failure::Refused);
            }
            return;
        }
        if !segment.flags.has(TcpFlags::SYN) {
            return;
        }
        // Data on a SYN are retransmitted; common stacks do not send them without a cookie (RFC 7413).
        self.learn(host, now, segment);
        self.ack_now = true;
        self.last_heard = now;
        self.timers.rexmt = Alarm::OFF;
        if acked {
            (self.una, self.nxt) = (1, 1);
            self.measure(host, now, 1, segment);
            self.establish();
        } else {
            self.state = State::SynReceived;
            (self.una, self.nxt) = (0, 0);
        }
    }

    /// What the peer's SYN says: its number, window and options.
    pub(super) fn learn(&mut self, host: &Host, now: Time, syn: &TcpSegment) {
        let (config, options) = (&host.config, &syn.options);
        self.irs = syn.seq;
        (self.rcv_nxt, self.rcv_adv) = (1, self.rcv_adv.max(1));
        match options.window_scale.filter(|_| self.scaling) {
            Some(scale) => self.snd_scale = scale.min(14),
            None => (self.scaling, self.rcv_scale) = (false, 0),
        }
        match options.timestamps.filter(|_| self.stamps) {
            Some(stamps) => (self.ts_recent, self.ts_recent_at) = (stamps.value, now),
            None => self.stamps = false,
        }
        self.sack &= options.sack_permitted;
        self.find_losses_by(config.loss_detection);
        self.marks.learn(syn.flags);
        let peer = options.mss.unwrap_or(config.default_mss).max(LEAST_MSS);
        self.mss = u64::from(peer.min(config.mss));
        self.rcv_mss = self.mss.min(536);
        if self.stamps {
            self.mss -= STAMPS_LEN;
        }
        self.congestion.set_mss(self.mss, self.snd_scale);
        if self.rtt.is_backed_off() {
            // RFC 5681 3.1: one segment after a lost SYN.
            self.congestion.set_cwnd(0);
        }
        // The window of a SYN is never scaled.
        self.wnd = u64::from(syn.window);
        self.max_wnd = self.wnd;
    }

    fn establish(&mut self) {
        self.state = if self.fin_queued {
            State::FinWait1
        } else {
            State::Established
        };
        self.timers.life = Alarm::OFF;
        self.outcome().connected = true;
    }

    fn on_synchronized(&mut self, host: &Host, now: Time, segment: &mut TcpSegment) {
        let mut seq = self.rcv_nxt as i64 + i64::from(segment.seq.diff(self.ack()));
        if segment.flags.has(TcpFlags::RST) {
            return self.on_reset(now, seq);
        }
        if segment.flags.has(TcpFlags::SYN) {
            if self.state != State::SynReceived || seq != 0 {
                return self.challenge(now);
            }
            if !segment.flags.has(TcpFlags::ACK) {
                // Our answer was lost.
                self.nxt = 0;
                return;
            }
            // Simultaneous open: the SYN is known, its acknowledgement is not.
            seq = 1;
            segment.payload = Payload::default();
            segment.flags.0 &= !TcpFlags::FIN.0;
        }
        if !self.is_fresh(now, segment) {
            return;
        }
        let mut fin = segment.flags.has(TcpFlags::FIN);
        let pure = segment.payload.is_empty() && !fin;
        if !self.trim(host, now, &mut seq, &mut segment.payload, &mut fin) {
            return;
        }
        self.last_heard = now;
        self.remember_stamp(now, seq, segment);
        if !segment.flags.has(TcpFlags::ACK) {
            return;
        }
        let ack = self.read_ack(seq, segment, pure);
        if self.state == State::SynReceived {
            if !(1..=self.max as i64).contains(&ack.ack) {
                self.outcome().reset = Some(Box::new(reset_for(segment)));
                return;
            }
            self.establish();
            (self.wnd, self.max_wnd) = (ack.window, ack.window.max(self.max_wnd));
        }
        if !self.on_ack(host, now, &ack, segment) || self.state == State::Closed {
            return;
        }
        self.update_window(&ack);
        self.on_text(
            host,
            now,
            seq as u64,
            std::mem::take(&mut segment.payload),
            fin,
        );
    }

    /// Whether the segment is no old duplicate by its timestamp (RFC 7323 5).
    fn is_fresh(&mut self, now: Time, segment: &TcpSegment) -> bool {
        if self.has_later_stamp(segment) {
            return true;
        }
        if segment.options.timestamps.is_none() {
            return false;
        }
        let may_have_wrapped = now.since(self.ts_recent_at) >= STAMP_LIFE;
        if !may_have_wrapped {
            // An acknowledgement that was overtaken needs no answer: both ends would answer each other's without end where
            // acknowledgements are reordered and duplicated (Linux: `tcp_disordered_ack`, `tcp_oow_rate_limited`).
            match segment.seq_len() > 0 {
                true => self.ack_now = true,
                false => self.challenge(now),
            }
        }
        may_have_wrapped
    }

    fn remember_stamp(&mut self, now: Time, seq: i64, segment: &TcpSegment) {
        if let Some(stamps) = segment.options.timestamps.filter(|_| self.stamps) {
            // RFC 7323 4.3: only of a segment that holds the last acknowledgement sent.
            if seq <= self.rcv_acked as i64 {
                (self.ts_recent, self.ts_recent_at) = (stamps.value, now);
            }
        }
    }

    /// Cuts off what is known already and what the window does not hold; `false` if nothing of the
    /// segment counts, not even its acknowledgement.
    fn trim(
        &mut self,
        host: &Host,
        now: Time,
        seq: &mut i64,
        payload: &mut Payload,
        fin: &mut bool,
    ) -> bool {
        let next = self.rcv_nxt as i64;
        let right = self.rcv_adv.max(self.rcv_nxt) as i64;
        let len = payload.len() as i64;
        if *seq < next {
            let known = next - *seq;
            if len + i64::from(*fin) > 0 || known == 1 {
                self.ack_now = true;
                if *seq > 0 && len > 0 {
                    self.note_duplicate(*seq as u64, (*seq + len.min(known)) as u64);
                }
                if *fin && self.state == State::TimeWait {
                    // Our last acknowledgement was lost.
                    self.wait(host, now);
                }
            } else {
                self.challenge(now);
            }
            *fin &= known <= len;
            *payload = payload.slice(known.min(len) as usize..len as usize);
            *seq = next;
        }
        let len = payload.len() as i64;
        if *seq > right {
            self.ack_now = true;
            return false;
        }
        if *seq + len > right {
            // A probe of a closed window has its acknowledgement heard.
            self.ack_now = true;
            *payload = payload.slice(0..(right - *seq) as usize);
            *fin = false;
        }
        true
    }

    fn on_reset(&mut self, now: Time, seq: i64) {
        let right = self.rcv_adv.max(self.rcv_nxt) as i64;
        let next = self.rcv_nxt as i64;
        if seq != next {
            // RFC 5961 3.2: a reset that is only nearly right is asked for again.
            if (next..right).contains(&seq) {
                self.challenge(now);
            }
            return;
        }
        match self.state {
            // RFC 1337: old duplicates must not end the wait.
            State::TimeWait => {}
            State::SynReceived if !self.passive => self.fail(Failure::Refused),
            State::SynReceived => self.end(),
            // Both sides are done but for our FIN.
            State::Closing | State::LastAck if self.una >= self.fin_offset() => self.end(),
            _ => self.fail(Failure::Reset),
        }
    }

    /// Data and FIN, already cut to what is new and fits.
    fn on_text(&mut self, host: &Host, now: Time, seq: u64, payload: Payload, fin: bool) {
        let open = matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        );
        if !open {
            return;
        }
        let end = seq + payload.len() as u64;
        if !payload.is_empty() {
            if self.abandoned {
                let reset = self.bare_reset();
                self.fail(Failure::Unread);
                self.outcome().reset = Some(Box::new(reset));
                return;
            }
            self.take_text(host, now, seq, payload);
        }
        if fin && self.fin_at.is_none() && end >= self.reassembly.end().max(self.rcv.end()) {
            self.fin_at = Some(end);
            self.ack_now = true;
        }
        if self.fin_at == Some(self.rcv_nxt) {
            self.rcv_nxt += 1;
            self.ack_now = true;
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                _ => self.wait(host, now),
            }
        }
    }

    fn take_text(&mut self, host: &Host, now: Time, seq: u64, mut payload: Payload) {
        // Nothing follows FIN, whatever a peer says.
        if let Some(end) = self.fin_at {
            payload = payload.slice(0..end.saturating_sub(seq) as usize);
        }
        self.rcv_mss = self.rcv_mss.max(payload.len() as u64).min(self.mss);
        if seq > self.rcv_nxt {
            let (end, islands) = (seq + payload.len() as u64, self.reassembly.reports());
            if islands.iter().any(|&(from, to)| from <= seq && end <= to) {
                self.note_duplicate(seq, end);
            }
            let budget = 2 * host.config.recv_buffer as usize;
            self.reassembly.insert(seq, &payload, budget);
            self.ack_now = true;
            return;
        }
        self.rcv_nxt += payload.len() as u64;
        self.rcv.push(payload);
        if !self.reassembly.is_empty() {
            // A hole was filled, at least in part (RFC 5681 4.2).
            self.rcv_nxt += self.reassembly.drain_into(&mut self.rcv) as u64;
            self.ack_now = true;
        }
        match &host.fast {
            Some(fast) if self.rcv_nxt - self.rcv_acked < 2 * self.rcv_mss => {
                if self.timers.delack.is_off() {
                    let at = match host.config.quirks.ack_ticks {
                        true => fast.after(now, 1),
                        false => now.saturating_add(fast.span(1)),
                    };
                    self.timers.delack = Alarm::at(at);
                }
            }
            _ => self.ack_now = true,
        }
    }

    /// `from..to` came twice: the next acknowledgement reports it (RFC 2883 4).
    fn note_duplicate(&mut self, from: u64, to: u64) {
        if self.sack {
            self.duplicate = Some((from, to));
        }
    }

    /// TIME-WAIT begins, or begins again.
    pub(super) fn wait(&mut self, host: &Host, now: Time) {
        self.state = State::TimeWait;
        self.timers = super::Timers {
            delack: self.timers.delack,
            life: Alarm::at(now.saturating_add(host.config.time_wait)),
            ..super::Timers::default()
        };
    }

    /// An acknowledgement that asks whether the peer means it, not too often (RFC 5961).
    pub(super) fn challenge(&mut self, now: Time) {
        let last = self.last_challenge;
        if last.is_none_or(|last| now.since(last) >= CHALLENGE_PACE) {
            self.last_challenge = Some(now);
            self.ack_now = true;
        }
    }

    fn read_ack(&self, seq: i64, segment: &TcpSegment, pure: bool) -> Ack {
        Ack {
            seq,
            ack: self.ack_offset(segment),
            window: u64::from(segment.window) << self.snd_scale,
            pure,
        }
    }

    fn ack_offset(&self, segment: &TcpSegment) -> i64 {
        self.una as i64 + i64::from(segment.ack.diff(self.seq(self.una)))
    }
}

/// The reset that answers a segment which belongs to nothing (RFC 9293 3.5.2).
pub(crate) fn reset_for(segment: &TcpSegment) -> TcpSegment {
    let mut reset = TcpSegment {
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        seq: segment.ack,
        ack: layercast_core::Serial(0),
        flags: TcpFlags::RST,
        window: 0,
        urgent: 0,
        options: Default::default(),
        payload: Payload::default(),
    };
    if !segment.flags.has(TcpFlags::ACK) {
        reset.seq = layercast_core::Serial(0);
        reset.ack = segment.seq.plus(segment.seq_len());
        reset.flags |= TcpFlags::ACK;
    }
    reset
}
