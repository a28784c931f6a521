//! Segments that leave (RFC 9293 3.8.6, RFC 5681, RFC 6675; 4.4BSD-Lite `tcp_output`).

use layercast_core::Time;
use layercast_wire::{Payload, SackBlocks, TcpFlags, TcpOptions, TcpSegment, Timestamps};

use super::ack::Recovery;
use super::{Alarm, Connection, Host, State};

/// The largest window a header can tell.
const MAX_WINDOW: u64 = 65_535;

impl Connection {
    /// Makes the next segment that may leave now, in `out`; `false` if there is none.
    #[inline]
    pub(crate) fn poll(&mut self, host: &Host, now: Time, out: &mut TcpSegment) -> bool {
        let sends = match self.state {
            State::Closed => false,
            State::SynSent | State::SynReceived => self.poll_syn(host, now, out),
            _ if self.marks.has_before() => {
                self.ack_before(host, now, out);
                return true;
            }
            _ if self.is_quiet() => false,
            _ if self.owes_an_ack_only(now) => {
                self.notified.read = false;
                self.bare_ack(host, now, out);
                return true;
            }
            _ => self.poll_data(host, now, out),
        };
        self.idle_burst &= sends;
        sends
    }

    /// Whether [`poll`](Self::poll) would give nothing more now; saves asking.
    #[inline]
    pub(crate) fn has_said_all(&mut self) -> bool {
        let quiet = self.is_quiet() || self.is_held_back();
        self.idle_burst &= !quiet;
        quiet
    }

    /// Whether nothing is queued, due or unacknowledged: so it is most times on the side that only receives.
    #[inline]
    fn is_quiet(&self) -> bool {
        !self.is_due() && self.una == self.snd.end()
    }

    /// Whether something other than data may have to leave.
    #[inline]
    fn is_due(&self) -> bool {
        let owes = self.ack_now || self.notified.read || self.force || self.front;
        owes || self.fin_queued || self.owes_probe()
    }

    /// Whether a sender that has lost nothing waits for an acknowledgement, because the windows hold no
    /// further segment that would be sent.
    #[inline]
    fn is_held_back(&self) -> bool {
        let in_flight = self.nxt - self.una;
        let plain = in_flight > 0 && self.nxt == self.max && self.dups == 0 && !self.recovering;
        if !plain
            || self.trial.is_some()
            || !self.scoreboard.is_empty()
            || self.is_due()
            || self.timers.rexmt.is_off()
            || !self.reassembly.is_empty()
        {
            return false;
        }
        let usable = self.wnd.min(self.congestion.cwnd());
        let len = usable.saturating_sub(in_flight);
        // Less than all there is, than a full segment, than half of the largest window.
        let waits = self.una + usable < self.snd.end() && len < self.mss && 2 * len < self.max_wnd;
        usable > 0 && (waits || self.nxt == self.snd.end())
    }

    /// Whether the answer to what has just come is all there is to send.
    #[inline]
    fn owes_an_ack_only(&self, now: Time) -> bool {
        let other = self.force || self.front || self.fin_queued || self.owes_probe();
        self.ack_now && !other && self.una == self.snd.end() && self.last_heard == now
    }

    fn poll_syn(&mut self, host: &Host, now: Time, out: &mut TcpSegment) -> bool {
        if self.nxt == 0 {
            let ack = match self.state {
                State::SynSent => TcpFlags(0),
                _ => TcpFlags::ACK,
            };
            let flags = TcpFlags::SYN | ack | self.marks.on_syn(ack != TcpFlags(0));
            self.build(host, now, 0, Payload::default(), flags, out);
            self.sent(host, now, 0, 1);
            return true;
        }
        let answers = self.ack_now && self.state == State::SynReceived;
        if answers {
            self.bare_ack(host, now, out);
        }
        answers
    }

    fn poll_data(&mut self, host: &Host, now: Time, out: &mut TcpSegment) -> bool {
        if self.max == self.una && !self.idle_burst {
            self.idle_burst = true;
            let silent = host.slow.count(now) - host.slow.count(self.last_heard);
            if silent >= u64::from(self.rtt.rto()) {
                self.congestion.on_idle();
            }
        }
        if std::mem::take(&mut self.front) && self.una < self.max {
            self.resend(host, now, (self.una, self.max), out);
            return true;
        }
        if let Some(trial) = &self.trial {
            let limit = trial.limit(self.mss).unwrap_or(self.nxt);
            return self.poll_new(host, now, limit - self.una, out);
        }
        if self.owes_probe() && self.poll_probe(host, now, out) {
            return true;
        }
        let selective = self.recovering && self.recovery(host) == Recovery::Sack;
        let mut cwnd = self.congestion.cwnd();
        if selective {
            let pipe = self.pipe();
            if cwnd >= pipe + self.mss
                && let Some((from, to)) = self.lost_hole()
            {
                self.resend(host, now, (from, to), out);
                return true;
            }
            // The window counts from una; what is between there and the edge is not all in flight.
            cwnd = (self.nxt - self.una) + cwnd.saturating_sub(pipe);
        } else if self.rack.is_some() || self.repairs_timeout() {
            // What arrived beyond a gap is not on its way.
            self.skip_sacked();
            cwnd += self.scoreboard.covered(self.una, self.nxt);
        } else if self.dups > 0 {
            cwnd += self.limited_transmit(host) * self.mss;
        }
        let spare = selective && self.rack.is_none();
        self.poll_new(host, now, cwnd, out) || (spare && self.poll_spare(host, now, out))
    }

    /// A probe for the loss of the last segments: new data if there are some, else the last segment again (RFC 8985 7.3).
    fn poll_probe(&mut self, host: &Host, now: Time, out: &mut TcpSegment) -> bool {
        let (last, before) = (self.take_probe(), self.max);
        let Some(last) = last.filter(|_| self.una < self.max) else {
            return false;
        };
        let in_flight = self.max - self.una;
        if self.nxt == self.max && self.snd.end() > self.max && in_flight < self.wnd {
            let sends = self.poll_new(host, now, in_flight + self.mss, out);
            if self.max > before {
                self.on_probe(false);
            }
            if sends {
                return true;
            }
        }
        self.resend(host, now, last, out);
        self.on_probe(true);
        true
    }

    /// The ordinary way: what the windows allow from `nxt` on; an acknowledgement, a window update.
    #[inline]
    fn poll_new(&mut self, host: &Host, now: Time, cwnd: u64, out: &mut TcpSegment) -> bool {
        let end = self.snd.end();
        let queued = end.saturating_sub(self.una);
        self.skip_sacked();
        let off = self.nxt - self.una;
        let mut window = self.wnd.min(cwnd);
        let forced = std::mem::take(&mut self.force);
        let probe = forced && window == 0;
        if probe {
            window = 1;
        } else if forced {
            self.timers.persist = Alarm::OFF;
            self.rtt.forgive();
        }
        let mut len = queued.min(window).saturating_sub(off);
        if queued.min(window) < off && window == 0 && queued > 0 {
            // The window was closed over what is in flight: back to its edge, to probe.
            self.timers.rexmt = Alarm::OFF;
            self.nxt = self.una;
            len = 0;
        }
        let full = self.room(host);
        len = len.min(full);
        if self.nxt < self.max {
            if let Some(known) = self.scoreboard.next_above(self.nxt) {
                len = len.min(known - self.nxt);
            }
            // What F-RTO has sent beyond `recover` is on its way; without it new data may fill the last segment.
            if self.repairs_timeout() && (self.nxt..self.max).contains(&self.recover) {
                len = len.min(self.recover - self.nxt);
            }
        }
        let last = self.nxt + len == end;
        let fin = self.fin_queued && last && !probe;
        let due = len > 0
            && (len == full
                || (last && (self.idle_burst || !host.config.nagle || self.fin_queued))
                || forced
                || len >= self.max_wnd.div_ceil(2)
                || self.nxt < self.max);
        if due || fin {
            self.send_new(host, now, (len, fin), probe, out);
            return true;
        }
        // An acknowledgement tells the window, too.
        let has_read = std::mem::take(&mut self.notified.read);
        if self.ack_now || (has_read && self.opens_window(host)) {
            self.bare_ack(host, now, out);
            return true;
        }
        let stuck = self.timers.rexmt.is_off() && self.timers.persist.is_off();
        if queued > 0 && stuck {
            self.rtt.forgive();
            self.set_persist(host, now);
        }
        false
    }

    fn send_new(
        &mut self,
        host: &Host,
        now: Time,
        (len, fin): (u64, bool),
        probe: bool,
        out: &mut TcpSegment,
    ) {
        let (from, to) = (self.nxt, self.nxt + len);
        let mut flags = TcpFlags::ACK;
        if fin {
            flags |= TcpFlags::FIN;
        }
        if len > 0 && to == self.snd.end() {
            flags |= TcpFlags::PSH;
        }
        // New data only: neither what is sent again nor a probe is ECN-capable (RFC 3168 6.1.5, 6.1.6).
        let is_capable = self.marks.in_use && len > 0 && from >= self.max && !probe;
        if is_capable && std::mem::take(&mut self.marks.tells) {
            flags |= TcpFlags::CWR;
            // A time-out sends new data with the last of the old: their echo is that of before, too.
            self.marks.reduced = from;
        }
        let payload = self.snd.slice(from, to);
        self.build(host, now, from, payload, flags, out);
        self.marks.is_capable = is_capable;
        if let Some(prr) = &mut self.prr {
            prr.sends(len);
        }
        if from < self.max {
            self.outcome().retransmitted += 1;
        }
        if probe {
            // A probe beyond the window: its byte is not in flight until it is acknowledged.
            self.max = self.max.max(to);
            self.note_sent(host, now, from, to, false);
        } else {
            self.sent(host, now, from, to + u64::from(fin));
        }
    }

    /// Sends again what starts at `from`, at most to `to`, outside of the window.
    fn resend(&mut self, host: &Host, now: Time, (from, to): (u64, u64), out: &mut TcpSegment) {
        let end = self.snd.end();
        let to = to.min(from + self.room(host)).min(self.max);
        let fin = self.fin_queued && to >= end && self.max > end;
        let to = to.min(end).max(from);
        let payload = self.snd.slice(from, to);
        let mut flags = TcpFlags::ACK;
        if fin {
            flags |= TcpFlags::FIN;
        }
        self.build(host, now, from, payload, flags, out);
        self.resent = self.resent.max(to + u64::from(fin));
        self.note_sent(host, now, from, to + u64::from(fin), false);
        if let Some(prr) = &mut self.prr {
            prr.sends(to - from);
        }
        self.outcome().retransmitted += 1;
        if self.timers.rexmt.is_off() {
            let ticks = u64::from(self.rtt.rto());
            self.timers.rexmt = Alarm::at(host.slow.after(now, ticks));
        }
    }

    /// Rules 3 and 4 of NextSeg: with nothing new to send, holes that may not be lost, and once
    /// the last segment.
    fn poll_spare(&mut self, host: &Host, now: Time, out: &mut TcpSegment) -> bool {
        let pipe = self.scoreboard.pipe(self.una, self.max, self.resent);
        if self.congestion.cwnd() < pipe + self.mss {
            return false;
        }
        if let Some((from, to)) = self.scoreboard.any_hole(self.una.max(self.resent)) {
            self.resend(host, now, (from, to), out);
            return true;
        }
        if self.rescued || self.una >= self.recover {
            return false;
        }
        self.rescued = true;
        // The last segment as it was sent, with FIN if that was on it.
        let top = self.recover.min(self.snd.end());
        let from = self.una.max(top.saturating_sub(self.mss));
        let Some((from, to)) = self.scoreboard_gap(from) else {
            return false;
        };
        let resent = self.resent;
        self.resend(host, now, (from, to), out);
        // The rescue does not count as the highest retransmission.
        self.resent = resent;
        true
    }

    fn scoreboard_gap(&self, from: u64) -> Option<(u64, u64)> {
        match self.scoreboard.holding(from) {
            Some((_, to)) if to >= self.recover => None,
            Some((_, to)) => Some((to, self.recover)),
            None => Some((from, self.recover)),
        }
    }

    /// After a time-out everything is sent again that was sent before it, except ranges that the peer has selectively acknowledged.
    fn skip_sacked(&mut self) {
        if self.nxt < self.max {
            if let Some((_, to)) = self.scoreboard.holding(self.nxt) {
                self.nxt = to;
            }
            if self.repairs_timeout() && self.nxt >= self.recover {
                self.nxt = self.max;
            }
        }
    }

    /// Notes that `from..to` has left.
    fn sent(&mut self, host: &Host, now: Time, from: u64, to: u64) {
        self.nxt = to;
        let is_new = to > self.max;
        if to > self.max {
            self.max = to;
            if self.timing.is_none() {
                self.timing = Some((from, host.slow.count(now)));
            }
        } else if to > from && self.state.is_synchronized() {
            // Karn: what was sent twice cannot be timed.
            self.timing = self.timing.filter(|&(start, _)| start >= to);
        }
        if self.timers.rexmt.is_off() && self.nxt != self.una {
            let ticks = u64::from(self.rtt.rto());
            self.timers.rexmt = Alarm::at(host.slow.after(now, ticks));
            if !std::mem::take(&mut self.timers.persist).is_off() {
                self.rtt.forgive();
            }
        }
        self.note_sent(host, now, from, to, is_new);
    }

    fn bare_ack(&mut self, host: &Host, now: Time, out: &mut TcpSegment) {
        self.build(host, now, self.max, Payload::default(), TcpFlags::ACK, out);
    }

    /// Acknowledges what came before the marks began or ended, and was not acknowledged yet (RFC 8257 3.2).
    #[cold]
    fn ack_before(&mut self, host: &Host, now: Time, out: &mut TcpSegment) {
        let before = self.marks.take_before().unwrap_or(self.rcv_nxt);
        self.bare_ack(host, now, out);
        out.ack = self.irs.plus(before as u32);
        out.flags.0 ^= TcpFlags::ECE.0;
        // The edge of the window is where it was.
        let more = (self.rcv_nxt - before) >> self.rcv_scale;
        out.window = (u64::from(out.window) + more).min(MAX_WINDOW) as u16;
        self.rcv_acked = before;
        self.ack_now = true;
    }

    /// A reset the peer will believe.
    pub(super) fn bare_reset(&self) -> TcpSegment {
        TcpSegment {
            src_port: self.key.local.port(),
            dst_port: self.key.remote.port(),
            seq: self.seq(self.max),
            ack: self.ack(),
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
            urgent: 0,
            options: TcpOptions::default(),
            payload: Payload::default(),
        }
    }

    /// A segment at `offset`; with it every acknowledgement that was due is given.
    fn build(
        &mut self,
        host: &Host,
        now: Time,
        offset: u64,
        payload: Payload,
        flags: TcpFlags,
        out: &mut TcpSegment,
    ) {
        let syn = flags.has(TcpFlags::SYN);
        out.src_port = self.key.local.port();
        out.dst_port = self.key.remote.port();
        out.seq = self.seq(offset);
        out.ack = match flags.has(TcpFlags::ACK) {
            true => self.ack(),
            false => layercast_core::Serial(0),
        };
        out.flags = match self.marks.echoes && !syn {
            true => flags | TcpFlags::ECE,
            false => flags,
        };
        self.marks.is_capable = false;
        out.window = self.offer(host, if syn { 0 } else { self.rcv_scale });
        out.urgent = 0;
        out.options = self.options(host, now, syn);
        self.duplicate = None;
        out.payload = payload;
        self.rcv_acked = self.rcv_nxt;
        self.ack_now = false;
        self.timers.delack = Alarm::OFF;
    }

    /// The window to advertise: never less than before (no shrinking), never a silly small one (RFC 9293,
    /// section 3.8.6.2.2).
    fn offer(&mut self, host: &Host, scale: u8) -> u16 {
        let buffer = u64::from(host.config.recv_buffer);
        let mut space = self.space(host);
        if space < buffer / 4 && space < self.rcv_full(host) {
            space = 0;
        }
        let advertised = self.rcv_adv.saturating_sub(self.rcv_nxt);
        // The advertised window is rounded up, so that its edge stays; new room is rounded down.
        let advertised = (advertised + (1 << scale) - 1) >> scale;
        let window = (space >> scale).max(advertised).min(MAX_WINDOW);
        self.rcv_adv = self.rcv_adv.max(self.rcv_nxt + (window << scale));
        window as u16
    }

    /// Whether the reader has freed enough room for a window update (4.4BSD-Lite).
    fn opens_window(&self, host: &Host) -> bool {
        if self.peer_closed() || self.state == State::TimeWait {
            return false;
        }
        let most = MAX_WINDOW << self.rcv_scale;
        let edge = self.rcv_nxt + self.space(host).min(most);
        let more = edge.saturating_sub(self.rcv_adv);
        more >= 2 * self.rcv_full(host) || 2 * more >= u64::from(host.config.recv_buffer)
    }

    /// A full segment as the peer sends it.
    fn rcv_full(&self, host: &Host) -> u64 {
        u64::from(host.config.mss).min(self.mss)
    }

    /// Bytes that may still arrive.
    fn space(&self, host: &Host) -> u64 {
        u64::from(host.config.recv_buffer).saturating_sub(self.rcv.len() as u64)
    }

    /// Bytes of data a segment has room for beside the SACK blocks it will carry.
    fn room(&self, host: &Host) -> u64 {
        let blocks = self.islands(host).len() as u64 + u64::from(self.duplicate.is_some());
        let sack = if blocks > 0 { 4 + 8 * blocks } else { 0 };
        self.mss.saturating_sub(sack).max(1)
    }

    /// What we have beyond a hole and tell about.
    fn islands(&self, host: &Host) -> &[(u64, u64)] {
        let most = match self.sack {
            true if host.config.timestamps => 3,
            true => 4,
            false => 0,
        };
        let most = most - usize::from(self.duplicate.is_some());
        let reports = self.reassembly.reports();
        &reports[..most.min(reports.len())]
    }

    fn blocks(&self, host: &Host) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if let Some((from, to)) = self.duplicate {
            blocks.push(self.irs.plus(from as u32), self.irs.plus(to as u32));
        }
        for &(from, to) in self.islands(host) {
            // FIN has a place in the sequence, too.
            let to = to + u64::from(self.fin_at == Some(to));
            blocks.push(self.irs.plus(from as u32), self.irs.plus(to as u32));
        }
        blocks
    }

    fn options(&self, host: &Host, now: Time, syn: bool) -> TcpOptions {
        let stamps = || Timestamps {
            value: (host.slow.count(now) as u32).wrapping_add(self.ts_offset),
            echo: self.ts_recent,
        };
        TcpOptions {
            mss: syn.then_some(host.config.mss),
            window_scale: (syn && self.scaling).then_some(self.rcv_scale),
            sack_permitted: syn && self.sack,
            timestamps: self.stamps.then(stamps),
            sack: self.blocks(host),
        }
    }
}
