//! What the peer says of what it has (specs/xtp.md 2.10), and of traffic (2.12).

use layercast_core::{Serial, Time};
use layercast_wire::{XtpControl, XtpTraffic, XtpTrafficSpec};

use super::{Context, News};
use crate::config::LEAST_DATA;
use crate::{Retransmission, XtpRate};

impl Context {
    /// Takes a status and the ranges held; whether it can be is decided first.
    pub(super) fn on_status(&mut self, now: Time, control: &XtpControl, spans: &[(u64, u64)]) {
        if !self.is_possible(control, spans) {
            self.violated(now);
            return;
        }
        self.violations = 0;
        let before = (self.out.una(), self.alloc);
        self.out.release(control.rseq);
        // The first word of the peer counts in place of what was taken for granted.
        self.alloc = match std::mem::replace(&mut self.alloc_known, true) {
            true => self.alloc.max(control.alloc),
            false => control.alloc,
        };
        let asked = self.answered(now, control.echo);
        if let Some(handshake) = &self.handshake {
            if handshake.first.is_after(control.echo) {
                return;
            }
            self.handshake = None;
            self.due.probe = false;
            let moved = (self.out.una(), self.alloc) != before;
            self.idle_answers = if moved { 0 } else { self.idle_answers + 1 };
        } else if (self.out.una(), self.alloc) != before {
            self.idle_answers = 0;
        }
        let last = spans.last().map_or(control.rseq, |&(_, right)| right);
        self.miss(control, spans, asked.unwrap_or(last).max(last));
        self.confirm_delivery(control.echo);
    }

    /// Whether a receiver can say so.
    pub(super) fn is_possible(&self, control: &XtpControl, spans: &[(u64, u64)]) -> bool {
        let sent = self.out.next();
        let mut at = control.rseq;
        let ordered = spans.iter().all(|&(left, right)| {
            let fits = left > at && right > left && right <= sent;
            at = right;
            fits
        });
        // An echo of what was never asked: as bad as bytes that were never sent.
        control.rseq <= sent && ordered && !control.echo.is_after(self.sync)
    }

    /// Sends again what is missing up to `upto`.
    pub(super) fn miss(&mut self, control: &XtpControl, spans: &[(u64, u64)], upto: u64) {
        let beyond = spans.last().map_or(0, |&(_, right)| right);
        let go_back = self.config.retransmission == Retransmission::GoBackN;
        let mut at = control.rseq;
        for &(left, right) in spans.iter().chain(&[(upto, upto)]) {
            let gap = (at, left);
            at = right;
            if gap.0 >= gap.1 {
                continue;
            }
            let bytes = self.out.miss(gap, control.echo, beyond, go_back);
            if go_back && bytes > 0 {
                break;
            }
        }
        // The peer waits for data that are lost for good: announce it.
        let lost = control.rseq < self.out.kept() && upto > control.rseq;
        self.due.skip |= lost;
    }

    /// Forgets the requests that `echo` answers; gives what had been sent at the last of them.
    pub(super) fn answered(&mut self, now: Time, echo: Serial) -> Option<u64> {
        let mut sent = None;
        while let Some(request) = self.requests.front() {
            if request.sync.is_after(echo) {
                break;
            }
            // In a group, the slowest answer counts.
            if request.sync == echo && self.group().is_none() {
                self.rtt.sample(now.since(request.at));
            }
            sent = Some(request.sent);
            self.requests.pop_front();
        }
        if sent.is_some() {
            self.unanswered_since = self.requests.front().map(|it| it.at);
        }
        if self.traffic_unsure.is_some_and(|sync| !sync.is_after(echo)) {
            self.traffic_unsure = None;
        }
        if sent.is_some() {
            self.budget.validate();
        }
        sent
    }

    /// An echo tells of a delivery if nothing else was asked since.
    pub(super) fn confirm_delivery(&mut self, echo: Serial) {
        let Some(delivery) = self.delivery else {
            return;
        };
        if delivery.sync.is_after(echo) {
            return;
        }
        if !delivery.blurred {
            self.delivery = None;
            self.tell(News::Delivered(delivery.at));
        } else if self.requests.is_empty() {
            self.due.delivery = true;
        }
    }

    /// What we propose (specs/xtp.md 2.12).
    pub(super) fn propose(&mut self) {
        let short = |n: u64| n.min(u64::from(u32::MAX)) as u32;
        let (input, output) = (self.config.in_limit, self.config.out_limit);
        self.out_traffic = XtpTrafficSpec {
            max_data: self.config.max_data,
            in_rate: short(input.rate),
            in_burst: short(input.burst),
            out_rate: short(output.rate),
            out_burst: short(output.burst),
        };
        self.agree();
    }

    /// Takes what the peer proposes; `false` if we cannot live with it.
    pub(super) fn on_traffic(&mut self, traffic: &XtpTraffic) -> bool {
        let XtpTraffic::Spec(_, spec) = traffic else {
            return matches!(traffic, XtpTraffic::Unspecified(_));
        };
        if (1..LEAST_DATA).contains(&spec.max_data) {
            return false;
        }
        if self.peer_traffic != *spec {
            self.peer_traffic = *spec;
            self.tell(News::Traffic);
        }
        self.agree();
        true
    }

    /// What both sides, or all of them, can live with.
    pub(super) fn agree(&mut self) {
        let theirs = match self.peer_traffic.max_data {
            0 => self.config.max_data,
            theirs => theirs,
        };
        self.max_data = theirs.min(self.config.max_data) as usize;
        let take = XtpRate {
            rate: u64::from(self.peer_traffic.in_rate),
            burst: u64::from(self.peer_traffic.in_burst),
        };
        let all = self.audience_limit();
        let limit = self.config.out_limit.stricter(take).stricter(all);
        let packet = self.cost(self.max_data);
        self.credit.set(limit, packet, self.config.timer);
    }

    /// Proposes other limits; the peer answers.
    pub(crate) fn set_traffic(&mut self, output: XtpRate, input: XtpRate) {
        self.config.out_limit = output;
        self.config.in_limit = input;
        self.propose();
        if !self.due.first {
            self.due.traffic = true;
            self.due.traffic_asks = true;
            self.due.answer = true;
        }
    }
}
