//! WTIMER, CTIMER, CTIMEOUT, RTIMER and the time of inactivity (specs/xtp.md 2.11).

use layercast_core::{Span, Time, earliest};
use layercast_wire::{XtpDiagCode, XtpDiagValue};

use super::{Context, Handshake};
use crate::XtpFailure;

impl Context {
    /// When [`on_timeout`](Self::on_timeout) is to be called.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if let Some(until) = self.inactive {
            return self.released.then_some(until);
        }
        if let Some(handshake) = &self.handshake {
            // One that may not leave is waited for no longer than one that is not answered.
            let since = self.unanswered_since.unwrap_or(handshake.deadline);
            let last = since.saturating_add(self.config.give_up);
            let asked = match self.due.probe {
                // Of many, those that are silent are dropped one by one.
                true => self.group().is_none().then_some(last),
                false => Some(handshake.deadline),
            };
            return earliest(asked, self.group_timer());
        }
        let asked = earliest(self.wtimer(), self.idle_timer());
        let silent = earliest(self.keep_alive(), self.group_timer());
        earliest(earliest(asked, silent), self.blocked_until)
    }

    /// Runs what is due.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.is_inactive() {
            return;
        }
        if self.blocked_until.is_some_and(|at| at <= now) {
            self.blocked_until = None;
        }
        self.on_group_timer(now);
        match self.handshake {
            Some(_) if self.group().is_some() => {
                let deadline = self.handshake.map_or(now, |it| it.deadline);
                if !self.due.probe && deadline <= now {
                    self.count_silent(now);
                    self.due.probe = self.handshake.is_some();
                }
            }
            Some(handshake) => {
                let since = self.unanswered_since.unwrap_or(handshake.deadline);
                let late = now.since(since) >= self.config.give_up;
                let unanswered = !self.due.probe && handshake.deadline <= now;
                if late || (unanswered && handshake.tries > self.config.retries) {
                    self.fail(now, XtpFailure::TimedOut);
                    return;
                }
                self.due.probe |= unanswered;
            }
            None => {
                let timers = [self.wtimer(), self.idle_timer(), self.keep_alive()];
                if timers.into_iter().flatten().any(|at| at <= now) {
                    self.start_handshake(now);
                }
            }
        }
    }

    /// The handshake is due; no data leave until it is answered.
    pub(super) fn start_handshake(&mut self, now: Time) {
        if !self.has_audience() || self.is_unacknowledged() {
            return;
        }
        self.handshake = Some(Handshake {
            first: self.sync.plus(1),
            tries: 0,
            deadline: now,
        });
        self.due.probe = true;
        self.credit.hold();
        self.out.forget_resend();
        let asked = self.requests.front().map_or(now, |it| it.at);
        self.unanswered_since.get_or_insert(asked);
        self.tally.handshakes += 1;
        self.counts.handshakes += 1;
    }

    /// Breaks off because of what the peer claims, the third time in a row.
    pub(super) fn violated(&mut self, now: Time) {
        self.tally.violations += 1;
        self.violations += 1;
        match self.violations {
            3.. => self.fail(now, XtpFailure::Violated),
            _ => {
                let why = (XtpDiagCode::PROTOCOL, XtpDiagValue::RETRANSMISSION);
                self.due.diag = Some(why);
            }
        }
    }

    /// When an answer that was asked for is overdue.
    fn wtimer(&self) -> Option<Time> {
        let request = match self.config.single_timer {
            true => self.requests.back(),
            false => self.requests.front(),
        };
        request.map(|it| it.at.saturating_add(self.rtt.wait()))
    }

    /// When to send a request because the peer will not send unsolicited, and something is owed: data, room for
    /// them, the end of the stream.
    fn idle_timer(&self) -> Option<Time> {
        let opened = !self.due.first && self.has_audience() && !self.is_unacknowledged();
        let in_flight = self.out.una() < self.out.next();
        let blocked = self.out.has_unsent() && self.blocked_until.is_none();
        let closing = self.write_closed && !self.writer_done && !self.due.close;
        let owes = in_flight || blocked || closing || self.delivery.is_some();
        let waits = opened && self.requests.is_empty() && owes;
        waits.then(|| self.last_sent.saturating_add(self.wait(self.idle_answers)))
    }

    /// When a silent peer is probed.
    fn keep_alive(&self) -> Option<Time> {
        let answers = self.has_audience() && !self.is_unacknowledged();
        let wanted = self.config.keep_alive > Span::ZERO && !self.due.first && answers;
        let quiet = self.last_heard.max(self.last_sent);
        wanted.then(|| quiet.saturating_add(self.config.keep_alive))
    }
}
