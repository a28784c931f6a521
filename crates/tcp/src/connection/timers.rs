//! What happens when nothing happens (4.4BSD-Lite `tcp_timers`).

use layercast_core::Time;

use super::{Alarm, Connection, Host, State};
use crate::Failure;

impl Connection {
    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let timers = &self.timers;
        let sending = timers.rexmt.min(timers.persist);
        let sending = sending.min(timers.rack);
        sending.min(timers.delack).min(timers.life).time()
    }

    /// Runs the timers that are due.
    pub(crate) fn on_timeout(&mut self, host: &Host, now: Time) {
        let due = |timer: &mut Alarm| timer.rings(now);
        if due(&mut self.timers.life) {
            match self.state {
                State::SynReceived if self.passive => self.end(),
                State::SynSent | State::SynReceived => self.fail(Failure::TimedOut),
                _ => self.end(),
            }
        }
        if due(&mut self.timers.delack) {
            self.ack_now = true;
        }
        if due(&mut self.timers.rack) {
            self.on_rack_timer(host, now);
        }
        if due(&mut self.timers.rexmt) {
            self.on_rexmt(host);
        }
        if due(&mut self.timers.persist) {
            let longest = host
                .config
                .persist
                .1
                .times(u64::from(host.config.max_retries));
            if now.since(self.last_heard) > longest {
                self.fail(Failure::TimedOut);
            } else {
                self.force = true;
                self.set_persist(host, now);
            }
        }
    }

    fn on_rexmt(&mut self, host: &Host) {
        self.outcome().timeouts += 1;
        let again = self.rtt.is_backed_off();
        if !self.rtt.back_off(&host.config) {
            if self.state == State::SynReceived && self.passive {
                self.end();
            } else {
                self.fail(Failure::TimedOut);
            }
            return;
        }
        self.timing = None;
        // 4.4BSD-Lite halves the threshold for a lost SYN, too.
        let quirk = host.config.quirks.count_acks;
        // What a recovery did not mend is still outstanding, and can be more than the path holds: half of that would overshoot
        // again, as would half of a window inflated by duplicates.
        let cwnd = match self.recovering && !quirk {
            true => self.congestion.cwnd().min(self.congestion.ssthresh()),
            false => self.congestion.cwnd(),
        };
        let load = (self.wnd.min(cwnd), (self.max - self.una).min(cwnd));
        let trial = self.trial.take().map(|trial| trial.load());
        if trial.is_none() && !again && self.try_timeout(host, load) {
            return;
        }
        // Held for what the timer sends again and again (RFC 5681 3.1).
        let load = trial.or((quirk || !again).then_some(load));
        if self.state.is_synchronized() || quirk {
            self.reduce_for_timeout(load);
        }
        self.repair_from(self.max);
    }

    /// The window falls to a segment; the threshold also, if what was usable and outstanding is given.
    pub(super) fn reduce_for_timeout(&mut self, load: Option<(u64, u64)>) {
        if let Some((window, flight)) = load {
            self.congestion.on_loss(window, flight);
        }
        self.congestion.on_timeout();
        self.marks.on_reduction(self.max);
    }

    /// Whether what was sent before a time-out is sent again.
    pub(super) fn repairs_timeout(&self) -> bool {
        self.timed_out && self.una < self.recover
    }

    /// What was sent below `end` and has not arrived is sent again, from the first unacknowledged byte on.
    pub(super) fn repair_from(&mut self, end: u64) {
        self.nxt = self.una;
        self.dups = 0;
        (self.recovering, self.front, self.prr) = (false, false, None);
        self.recover = end;
        self.timed_out = self.state.is_synchronized();
        self.resent = self.una;
        self.find_reneging();
        self.forget_times();
    }

    /// Arms the window probe, backing off.
    pub(super) fn set_persist(&mut self, host: &Host, now: Time) {
        let (least, most) = host.config.persist;
        let (least, most) = (host.slow.lasting(least), host.slow.lasting(most));
        let ticks = u64::from(self.rtt.probe(&host.config)).clamp(least, most);
        self.timers.persist = Alarm::at(host.slow.after(now, ticks));
    }
}
