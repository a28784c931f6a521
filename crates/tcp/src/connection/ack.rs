//! Acknowledgements: loss recovery of each variant, round trips, the window, the end.

use layercast_core::{Serial, Time};
use layercast_wire::{TcpFlags, TcpSegment};

use super::input::Ack;
use super::prr::Prr;
use super::{Alarm, Connection, Host, State};
use crate::control::Acked;
use crate::{Echo, Variant};

/// Segments beyond the window that duplicates may send (RFC 3042, 2).
const LIMITED_TRANSMIT: u64 = 2;

/// How a connection recovers from loss: several variants do so alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recovery {
    Tahoe,
    Reno,
    NewReno,
    Sack,
}

impl Connection {
    /// Takes the acknowledgement of a segment; `false` if the rest of it does not count either.
    pub(super) fn on_ack(
        &mut self,
        host: &Host,
        now: Time,
        ack: &Ack,
        segment: &TcpSegment,
    ) -> bool {
        if ack.ack > self.max as i64 || ack.ack < self.una as i64 - self.max_wnd.max(65_535) as i64
        {
            // RFC 5961 5.2.
            self.challenge(now);
            return false;
        }
        let before = match host.config.variant {
            Variant::Linux => self.delivered(),
            _ => 0,
        };
        let lost_before = self.losses();
        let came_twice = self.reports_duplicate(ack, segment);
        let news = self.take_blocks(now, segment, came_twice);
        if news {
            self.scoreboard.find_losses(host.config.dup_acks, self.mss);
        }
        let una = self.una;
        if self.marks.in_use && ack.ack == self.una as i64 {
            self.hear_echo(self.una, segment);
        }
        let mut is_duplicate = false;
        match u64::try_from(ack.ack) {
            Ok(at) if at > self.una => self.on_new_ack(host, now, at, segment),
            Ok(at) if at == self.una && self.is_duplicate(ack, news) => self.on_duplicate(host),
            // Of what came twice: it shows no gap.
            Ok(at) if at == self.una => {
                is_duplicate = ack.pure && (came_twice || segment.options.sack.is_empty());
                if host.config.quirks.count_acks {
                    self.dups = 0;
                }
            }
            _ if host.config.quirks.count_acks => self.dups = 0,
            _ => {}
        }
        if self.rack.is_some() {
            self.detect(host, now, is_duplicate);
        }
        if self.trial.is_some() {
            let is_duplicate = ack.pure && ack.window == self.wnd;
            self.judge_timeout(self.una > una, news, is_duplicate);
        }
        if self.prr.is_some() {
            let delivered = self.delivered().saturating_sub(before);
            let makes_progress = self.una > una && self.losses() <= lost_before;
            self.reduce(delivered, makes_progress);
        }
        true
    }

    /// What the peer acknowledged selectively holds beyond a time-out (RFC 6675 5.1 with erratum 1610; Linux), so that it is not
    /// sent again, unless the peer has forgotten it (RFC 2018 8): it would otherwise have acknowledged what continues at `una`.
    pub(super) fn find_reneging(&mut self) -> bool {
        let reneges = self.scoreboard.holding(self.una).is_some();
        if reneges {
            self.scoreboard.clear();
            if let Some(rack) = &mut self.rack {
                rack.on_reneging();
            }
        }
        reneges
    }

    /// Bytes that have arrived, as far as is known.
    fn delivered(&self) -> u64 {
        self.una + self.scoreboard.held()
    }

    /// Sets the window in a recovery that reduces it step by step.
    fn reduce(&mut self, delivered: u64, makes_progress: bool) {
        let (pipe, threshold) = (self.pipe(), self.congestion.ssthresh());
        let Some(prr) = self.prr.as_mut().filter(|_| delivered > 0) else {
            return;
        };
        let more = prr.allows((delivered, makes_progress), pipe, threshold, self.mss);
        self.congestion.set_cwnd(pipe + more);
    }

    /// RFC 5681 2: nothing new, something outstanding, no data, no window update; with SACK, news.
    fn is_duplicate(&self, ack: &Ack, news: bool) -> bool {
        let silent = ack.pure && ack.window == self.wnd;
        let waiting = self.max > self.una && !self.timers.rexmt.is_off();
        waiting && if self.sack { news } else { silent }
    }

    /// A block in our offsets.
    fn block(&self, (from, to): (Serial, Serial)) -> (i64, i64) {
        let offset = |at: Serial| self.una as i64 + i64::from(at.diff(self.seq(self.una)));
        (offset(from), offset(to))
    }

    /// Whether the first block is of what came twice (RFC 2883 5): it is acknowledged, or part of the second.
    fn reports_duplicate(&mut self, ack: &Ack, segment: &TcpSegment) -> bool {
        let blocks = segment.options.sack.as_slice();
        let Some(&first) = blocks.first().filter(|_| self.sack) else {
            return false;
        };
        let (from, to) = self.block(first);
        let within = |&second: &(Serial, Serial)| {
            let (start, end) = self.block(second);
            start <= from && to <= end
        };
        let came_twice = from < to && (to <= ack.ack || blocks.get(1).is_some_and(within));
        if came_twice {
            self.on_report_of_duplicate();
        }
        came_twice
    }

    /// Takes the SACK blocks (RFC 2018), except the first if it is of a duplicate; `true` if they contained anything new.
    fn take_blocks(&mut self, now: Time, segment: &TcpSegment, came_twice: bool) -> bool {
        let mut news = false;
        if self.sack && self.state.is_synchronized() {
            let blocks = segment.options.sack.as_slice();
            for &block in &blocks[usize::from(came_twice)..] {
                let (from, to) = self.block(block);
                // What is acknowledged, and lies, are left alone.
                if from >= self.una as i64 && from < to && to <= self.max as i64 {
                    let is_new = self.scoreboard.insert(from as u64, to as u64);
                    if is_new {
                        self.on_sacked(now, (from as u64, to as u64));
                    }
                    news |= is_new;
                }
            }
        }
        news
    }

    /// What an acknowledgement says of marks, which is true if they grow no window: the first of them in a window reduces it
    /// (RFC 3168 6.1.2). While a time-out is repaired, they say nothing: the window has been reduced for what was sent before,
    /// and the receiver repeats its echo until CWR comes with new data.
    #[cold]
    fn hear_echo(&mut self, at: u64, segment: &TcpSegment) -> bool {
        let is_marked = segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::SYN);
        self.congestion.on_echo(&Echo {
            bytes: at - self.una,
            is_marked,
            acked: at,
            sent: self.nxt.max(at),
        });
        // As long as CWR waits for new data, the echo is still the one that the window was reduced for; that of a segment with CWR
        // that a time-out sends again, too, until the time-out turns out to be spurious.
        let is_news = at > self.marks.reduced && !self.marks.tells && self.trial.is_none();
        if is_marked && !self.recovering && is_news {
            let cwnd = self.congestion.cwnd();
            let (usable, flight) = (self.wnd.min(cwnd), (self.max - self.una).min(cwnd));
            self.congestion.on_mark(usable, flight);
            self.marks.on_reduction(self.max);
            self.outcome().ecn_reductions += 1;
        }
        is_marked && self.una >= self.recover
    }

    /// How this connection recovers from loss.
    pub(super) fn recovery(&self, host: &Host) -> Recovery {
        match host.config.variant {
            Variant::Tahoe => Recovery::Tahoe,
            Variant::Reno => Recovery::Reno,
            Variant::NewReno => Recovery::NewReno,
            Variant::Sack | Variant::Cubic | Variant::Linux | Variant::Dctcp => match self.sack {
                true => Recovery::Sack,
                false => Recovery::NewReno,
            },
        }
    }

    fn on_duplicate(&mut self, host: &Host) {
        self.dups += 1;
        let threshold = host.config.dup_acks;
        let recovery = self.recovery(host);
        if self.rack.is_some() {
            // Times tell what is lost.
            return;
        }
        if self.recovering || (recovery == Recovery::Reno && self.dups > threshold) {
            if recovery != Recovery::Sack {
                // Each duplicate is a segment that left the network.
                let inflated = self.congestion.cwnd() + self.mss;
                self.congestion.set_cwnd(inflated);
            }
            return;
        }
        let lost = self.dups == threshold
            || (recovery == Recovery::Sack && self.scoreboard.lost_hole(self.una).is_some());
        // 4.4BSD-Lite knew no better.
        let knows = recovery != Recovery::Reno || !host.config.quirks.count_acks;
        if lost && self.trial.is_none() && !(knows && self.is_guarded(recovery)) {
            self.recover_fast(host, recovery);
        }
    }

    /// Whether duplicates may be those of what was sent again, and so show no loss (RFC 6582 3.2: until more than
    /// `recover` is acknowledged; RFC 6675 5.1: until all of it is).
    fn is_guarded(&self, recovery: Recovery) -> bool {
        match recovery {
            Recovery::Tahoe | Recovery::Reno | Recovery::NewReno => self.una <= self.recover,
            Recovery::Sack => self.una < self.recover,
        }
    }

    /// Segments beyond the window for duplicates (RFC 3042): only before a recovery begins, and not while a time-out is
    /// repaired, when duplicates can be of what had arrived before it.
    pub(super) fn limited_transmit(&self, host: &Host) -> u64 {
        let repairs = self.timed_out && self.is_guarded(self.recovery(host));
        let before = self.dups < host.config.dup_acks && !self.recovering;
        match host.config.limited_transmit && before && !repairs {
            true => u64::from(self.dups).min(LIMITED_TRANSMIT),
            false => 0,
        }
    }

    /// Fast retransmit.
    pub(super) fn recover_fast(&mut self, host: &Host, recovery: Recovery) {
        // What limited transmit sent beyond the window does not count (RFC 5681 3.2, step 2).
        let flight = (self.max - self.una).min(self.congestion.cwnd());
        let window = self.wnd.min(self.congestion.cwnd());
        // Marks of the same window have reduced it already (RFC 3168 6.1.2).
        if self.una >= self.marks.reduced {
            self.congestion.on_loss(window, flight);
        }
        self.marks.on_reduction(self.max);
        self.outcome().fast_retransmits += 1;
        self.timing = None;
        self.timed_out = false;
        let rexmt = std::mem::take(&mut self.timers.rexmt);
        self.front = true;
        let threshold = self.congestion.ssthresh();
        let inflated = threshold + u64::from(self.dups) * self.mss;
        match recovery {
            Recovery::Tahoe => {
                self.front = false;
                self.nxt = self.una;
                self.congestion.set_cwnd(0);
                self.recover = self.max;
            }
            Recovery::Reno => self.congestion.set_cwnd(inflated),
            Recovery::NewReno => {
                self.congestion.set_cwnd(inflated);
                (self.recover, self.recovering) = (self.max, true);
                self.partial = false;
            }
            Recovery::Sack => {
                if host.config.variant == Variant::Linux {
                    self.prr = Some(Prr::new(self.congestion.cwnd()));
                }
                self.congestion.set_cwnd(threshold);
                (self.recover, self.recovering) = (self.max, true);
                // What the recovery before sent again beyond its end may still be on its way.
                self.front = self.resent <= self.una;
                if let Some(rack) = &self.rack {
                    self.front = Connection::is_front_lost(rack, self.una);
                }
                if !self.front {
                    // Nothing may leave: without the timer a retransmission that was lost would be the end.
                    self.timers.rexmt = rexmt;
                }
                (self.resent, self.rescued) = (self.resent.max(self.una), false);
            }
        }
    }

    pub(super) fn on_new_ack(&mut self, host: &Host, now: Time, at: u64, segment: &TcpSegment) {
        let config = &host.config;
        let (bytes, flight) = (at - self.una, self.max - self.una);
        if self.rack.is_some() {
            self.on_acked_by_time(host, now, at, segment);
        }
        let first = self.una == 0;
        let mut grows = !self.recovering && self.trial.is_none();
        if self.marks.in_use && !first {
            grows &= !self.hear_echo(at, segment);
        }
        let mut restarts = true;
        match self.recovery(host) {
            Recovery::Reno => {
                let inflated = self.dups > config.dup_acks
                    || (!config.quirks.lite_deflation && self.dups == config.dup_acks);
                if inflated {
                    let threshold = self.congestion.ssthresh();
                    let cwnd = self.congestion.cwnd().min(threshold);
                    self.congestion.set_cwnd(cwnd);
                    grows = config.quirks.count_acks;
                }
            }
            Recovery::NewReno if self.recovering => restarts = self.on_recovery_ack(at, bytes),
            Recovery::Sack if self.recovering && at >= self.recover => {
                self.recovering = false;
                self.on_recovered();
                if self.prr.take().is_some() {
                    self.congestion.set_cwnd(self.congestion.ssthresh());
                }
            }
            _ => {}
        }
        self.dups = 0;
        let sample = self.measure(host, now, at, segment);
        if at == self.max {
            self.timers.rexmt = Alarm::OFF;
        } else if self.timers.persist.is_off() && (restarts || self.timers.rexmt.is_off()) {
            let ticks = u64::from(self.rtt.rto());
            self.timers.rexmt = Alarm::at(host.slow.after(now, ticks));
        }
        // The SYN is no data, but 4.4BSD-Lite counts it for the passive opener.
        let counts = bytes > u64::from(first) || (first && config.quirks.passive_open_counts);
        if grows && counts {
            let srtt = host.slow.span(u64::from(self.rtt.srtt_eighths()));
            self.congestion.on_ack(Acked {
                now,
                bytes,
                flight,
                srtt: srtt.mul_div(1, 8),
                rtt: sample.map(|ticks| host.slow.span(ticks)),
            });
        }
        self.snd.drop_to(at);
        debug_assert!(self.una < at && at <= self.max);
        let repaired = self.repairs_timeout() && at >= self.recover;
        self.una = at;
        self.nxt = self.nxt.max(at);
        if repaired {
            self.on_recovered();
        }
        debug_assert!(
            self.nxt <= self.max,
            "SND.NXT is at most one past all that was sent"
        );
        self.scoreboard.remove_below(at);
        if self.timed_out && self.find_reneging() {
            self.nxt = at;
        }
        if self.rack.is_some() {
            self.plan_probe(host, now);
        }
        if self.fin_queued && at > self.fin_offset() {
            self.on_fin_acked(host, now);
        }
    }

    /// NewReno: a full acknowledgement ends recovery, a partial one shows the next hole (RFC 6582
    /// 3.2). Gives whether the retransmission timer starts again: only for the first partial one.
    fn on_recovery_ack(&mut self, at: u64, bytes: u64) -> bool {
        if at >= self.recover {
            self.recovering = false;
            let rest = (self.max - at).max(self.mss) + self.mss;
            let cwnd = self.congestion.ssthresh().min(rest);
            self.congestion.set_cwnd(cwnd);
            return true;
        }
        self.front = true;
        let mut cwnd = self.congestion.cwnd().saturating_sub(bytes);
        if bytes >= self.mss {
            cwnd += self.mss;
        }
        self.congestion.set_cwnd(cwnd);
        !std::mem::replace(&mut self.partial, true)
    }

    /// Takes a round-trip sample, if this acknowledgement gives one (Karn; RFC 7323 4), and returns its ticks.
    pub(super) fn measure(
        &mut self,
        host: &Host,
        now: Time,
        at: u64,
        segment: &TcpSegment,
    ) -> Option<u64> {
        let mut sample = None;
        let echo = segment.options.timestamps.filter(|_| self.stamps);
        if let Some(stamps) = echo {
            let passed = (host.slow.count(now) as u32)
                .wrapping_add(self.ts_offset)
                .wrapping_sub(stamps.echo);
            sample = (passed < 1 << 24).then_some(u64::from(passed));
        } else if let Some((_, left)) = self.timing.filter(|&(start, _)| at > start) {
            sample = Some(host.slow.count(now) - left);
        }
        if let Some(ticks) = sample {
            self.rtt.sample(&host.config, ticks + 1);
        }
        if self.timing.is_some_and(|(start, _)| at > start) {
            self.timing = None;
        }
        sample
    }

    /// Takes the window, unless the segment is older than the last one that updated it (RFC 9293, section
    /// 3.10.7.4).
    pub(super) fn update_window(&mut self, ack: &Ack) {
        let (seq, at) = (ack.seq as u64, ack.ack.max(0) as u64);
        let later = self.wl.1 < at || (self.wl.1 == at && ack.window > self.wnd);
        if at == self.una && (self.wl.0 < seq || (self.wl.0 == seq && later)) {
            self.wnd = ack.window;
            self.max_wnd = self.max_wnd.max(self.wnd);
            self.wl = (seq, at);
        }
    }

    fn on_fin_acked(&mut self, host: &Host, now: Time) {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.abandoned {
                    self.timers.life = Alarm::at(now.saturating_add(host.config.fin_wait_2));
                }
            }
            State::Closing => self.wait(host, now),
            State::LastAck => self.end(),
            _ => {}
        }
    }
}
