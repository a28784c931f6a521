//! What RACK-TLP (RFC 8985) has a connection do.

use layercast_core::{Span, Time};
use layercast_wire::TcpSegment;

use super::ack::Recovery;
use super::rack::{Due, Probed, Rack};
use super::{Alarm, Connection, Host};
use crate::LossDetection;

impl Connection {
    /// With a peer that acknowledges selectively: whether losses are found by times.
    pub(super) fn find_losses_by(&mut self, by: LossDetection) {
        let by_time = self.sack && by == LossDetection::Rack;
        self.rack = by_time.then(Box::default);
    }

    fn srtt(&self, host: &Host) -> Span {
        let ticks = u64::from(self.rtt.srtt_eighths());
        host.slow.span(1).mul_div(ticks, 8)
    }

    /// Whether an acknowledgement was caused by what had left before an instant, as far as its timestamp tells.
    fn is_of_before(&self, host: &Host, segment: &TcpSegment, at: Time) -> bool {
        let echo = segment.options.timestamps.filter(|_| self.stamps);
        echo.is_some_and(|stamps| {
            let echo = stamps.echo.wrapping_sub(self.ts_offset);
            let left = host.slow.count(at) as u32;
            (echo.wrapping_sub(left) as i32) < 0
        })
    }

    /// Bytes on their way, as far as is known in a recovery by selective acknowledgements.
    pub(super) fn pipe(&self) -> u64 {
        match &self.rack {
            Some(rack) => rack.pipe(),
            None => self.scoreboard.pipe(self.una, self.max, self.resent),
        }
    }

    /// The first hole that counts as lost and was not sent again.
    pub(super) fn lost_hole(&self) -> Option<(u64, u64)> {
        match &self.rack {
            Some(rack) => rack.lost(),
            None => self.scoreboard.lost_hole(self.una.max(self.resent)),
        }
    }

    /// Grows with each further loss that is found.
    pub(super) fn losses(&self) -> u64 {
        match &self.rack {
            Some(rack) => rack.found(),
            None => self.scoreboard.lost_below(),
        }
    }

    /// A block was acknowledged selectively for the first time.
    pub(super) fn on_sacked(&mut self, now: Time, block: (u64, u64)) {
        if let Some(rack) = &mut self.rack {
            rack.sacked(now, block);
        }
    }

    /// The peer reports that something came twice.
    pub(super) fn on_report_of_duplicate(&mut self) {
        // The first segment of a time-out that was spurious shows no reordering.
        let is_of_timeout = self.trial.is_some() || self.repairs_timeout();
        if let Some(rack) = &mut self.rack {
            rack.came_twice(self.una, self.max, is_of_timeout);
        }
    }

    /// A recovery ends.
    pub(super) fn on_recovered(&mut self) {
        if let Some(rack) = &mut self.rack {
            rack.recovered();
        }
    }

    /// Everything up to `at` is acknowledged, more than was before.
    pub(super) fn on_acked_by_time(
        &mut self,
        host: &Host,
        now: Time,
        at: u64,
        segment: &TcpSegment,
    ) {
        if let Some(mut rack) = self.rack.take() {
            rack.acked(now, at, |sent| self.is_of_before(host, segment, sent));
            if rack.process_ack(at, false) == Probed::Mended && !self.recovering {
                self.on_mended();
            }
            self.rack = Some(rack);
        }
    }

    /// A probe has mended a loss: the window falls as in a recovery (section 7.4.2).
    fn on_mended(&mut self) {
        if self.una >= self.marks.reduced {
            let flight = (self.max - self.una).min(self.congestion.cwnd());
            let window = self.wnd.min(self.congestion.cwnd());
            self.congestion.on_loss(window, flight);
            self.congestion.set_cwnd(self.congestion.ssthresh());
        }
        self.marks.on_reduction(self.max);
    }

    /// An acknowledgement came that may show losses.
    pub(super) fn detect(&mut self, host: &Host, now: Time, is_duplicate: bool) {
        let (srtt, recovering, una) = (self.srtt(host), self.recovering, self.una);
        let Some(rack) = &mut self.rack else {
            return;
        };
        rack.process_ack(una, is_duplicate);
        let next = rack.find_losses(now, recovering, host.config.dup_acks, srtt);
        let is_lost = rack.lost().is_some();
        rack.waits_for(next.map(|_| Due::Losses));
        self.timers.rack = next.map_or(Alarm::OFF, Alarm::at);
        // What a time-out has sent again is no new loss (RFC 6675 5.1).
        if is_lost && !recovering && self.trial.is_none() && una >= self.recover {
            self.recover_fast(host, Recovery::Sack);
        }
        self.plan_probe(host, now);
    }

    /// Plans a probe for the loss of the last segments, or none (section 7.2).
    pub(super) fn plan_probe(&mut self, host: &Host, now: Time) {
        let (srtt, rto) = (self.srtt(host), self.timers.rexmt.time());
        let recovering = self.recovering || self.trial.is_some() || self.una < self.recover;
        let Some(rack) = &mut self.rack else {
            return;
        };
        if rack.due() == Some(Due::Losses) {
            return;
        }
        let at = rack.plan(now, srtt, (recovering, &self.scoreboard), rto);
        rack.waits_for(at.map(|_| Due::Probe));
        self.timers.rack = at.map_or(Alarm::OFF, Alarm::at);
    }

    /// The timer of RACK-TLP rings.
    pub(super) fn on_rack_timer(&mut self, host: &Host, now: Time) {
        match self.rack.as_mut().and_then(|rack| rack.rings()) {
            Some(Due::Losses) => self.detect(host, now, false),
            Some(Due::Probe) => {
                if let Some(rack) = &mut self.rack {
                    rack.probes = true;
                }
                let ticks = u64::from(self.rtt.rto());
                self.timers.rexmt = Alarm::at(host.slow.after(now, ticks));
            }
            None => {}
        }
    }

    /// Whether a probe is to leave now.
    #[inline]
    pub(super) fn owes_probe(&self) -> bool {
        self.rack.as_ref().is_some_and(|rack| rack.probes)
    }

    /// Takes the order to send a probe; gives the last segment, which it may send again.
    pub(super) fn take_probe(&mut self) -> Option<(u64, u64)> {
        let rack = self.rack.as_mut()?;
        let owes = std::mem::take(&mut rack.probes);
        rack.last().filter(|_| owes)
    }

    /// A probe has left.
    pub(super) fn on_probe(&mut self, again: bool) {
        let max = self.max;
        if let Some(rack) = &mut self.rack {
            rack.probed(max, again);
        }
    }

    /// `from..to` has left.
    pub(super) fn note_sent(&mut self, host: &Host, now: Time, from: u64, to: u64, is_new: bool) {
        if let Some(rack) = &mut self.rack
            && from > 0
        {
            rack.sends(now, from, to);
            if is_new {
                self.plan_probe(host, now);
            }
        }
    }

    /// No probe leaves until an acknowledgement comes.
    pub(super) fn stop_probes(&mut self) {
        if let Some(rack) = &mut self.rack {
            rack.waits_for(None);
            rack.probes = false;
        }
        self.timers.rack = Alarm::OFF;
    }

    /// After a time-out.
    pub(super) fn forget_times(&mut self) {
        if let Some(rack) = &mut self.rack {
            rack.on_timeout();
        }
        self.timers.rack = Alarm::OFF;
    }

    /// Bytes of memory of what is known of times.
    pub(super) fn memory_of_times(&self) -> usize {
        self.rack.as_ref().map_or(0, |rack| rack.memory())
    }

    /// Whether a plain acknowledgement may tell of losses.
    pub(super) fn looks_closely(&self) -> bool {
        self.rack.as_ref().is_some_and(|rack| rack.is_alert())
    }

    /// Whether the first unacknowledged segment is lost.
    pub(super) fn is_front_lost(rack: &Rack, una: u64) -> bool {
        rack.lost().is_some_and(|(from, _)| from == una)
    }
}
