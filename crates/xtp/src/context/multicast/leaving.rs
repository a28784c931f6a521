//! How receivers go: because they have everything, want no more, are silent, or hold all others up.

use layercast_core::Time;
use layercast_wire::{XtpDiagCode, XtpDiagValue};

use super::members::{Member, Who};
use crate::XtpFailure;
use crate::context::{Context, News};

/// Final packets waiting to be sent; a driver that drains the endpoint stays far below.
const MAX_FAREWELLS: usize = 64;

impl Context {
    /// Drops receivers that have blocked the others for the configured number of handshakes (specs/xtp.md 7).
    pub(super) fn drop_laggards(&mut self, now: Time) {
        let config = &self.config.group;
        let stuck =
            self.out.has_unsent() && self.config.flow_control && self.alloc <= self.out.next();
        if !config.drop_laggards || self.idle_answers < config.misses || !stuck {
            return;
        }
        let alloc = self.alloc;
        for who in self.members_that(|it| it.alloc == alloc) {
            let why = (XtpDiagCode::ABANDONED, XtpDiagValue::NO_RESOURCE);
            self.lose(now, &who, Some(why));
        }
    }

    /// A handshake was not answered in time: those that are silent too often are dropped.
    pub(in crate::context) fn count_silent(&mut self, now: Time) {
        let (sync, most) = (self.sync, self.config.group.misses);
        let first = self.handshake.map(|it| it.first);
        let Some((group, first)) = self.group_mut().zip(first) else {
            return;
        };
        let first = group.position(sync, first);
        for who in self.members_that(|it| it.echo < first) {
            let Some(group) = self.group_mut() else {
                return;
            };
            group.members.update(&who, |it| it.misses += 1);
            if group.members.get(&who).is_some_and(|it| it.misses >= most) {
                let why = (XtpDiagCode::ABANDONED, XtpDiagValue::UNSPECIFIED);
                self.lose(now, &who, Some(why));
            }
        }
    }

    /// The active receivers of which something is so.
    fn members_that(&self, so: impl Fn(&Member) -> bool) -> Vec<Who> {
        let all = self.group().into_iter().flat_map(|it| it.members.iter());
        all.filter(|(_, it)| so(it)).map(|(who, _)| *who).collect()
    }

    /// A receiver goes, of its own will: it has everything, or wants no more.
    pub(super) fn part(&mut self, now: Time, who: &Who) {
        let end = self.write_closed && !self.out.has_unsent() && !self.due.close;
        let end = end.then_some(self.out.end());
        let Some(member) = self.strike_off(who).filter(|it| it.active) else {
            return;
        };
        let whole = end == Some(member.rseq);
        if let Some(group) = self.group_mut() {
            group.finished += u64::from(whole);
        }
        self.tell(match whole {
            true => News::ReceiverDone(who.0),
            false => News::ReceiverLost(who.0, member.rseq),
        });
        self.after_members(now);
    }

    /// Removes a receiver; it is notified of the reason, if it can receive it.
    pub(super) fn lose(&mut self, now: Time, who: &Who, why: Option<(XtpDiagCode, XtpDiagValue)>) {
        let Some(member) = self.strike_off(who) else {
            return;
        };
        if let Some((code, value)) = why {
            self.farewell(who, code, value);
        }
        if !member.active {
            return;
        }
        if let Some(group) = self.group_mut() {
            group.lost += 1;
        }
        self.tally.lost_receivers += 1;
        self.tell(News::ReceiverLost(who.0, member.rseq));
        match self.config.group.strict {
            true => self.fail(now, XtpFailure::TimedOut),
            false => self.after_members(now),
        }
    }

    fn strike_off(&mut self, who: &Who) -> Option<Member> {
        let group = self.group_mut()?;
        let member = group.members.remove(who)?;
        group.gone.push(*who);
        self.agree();
        Some(member)
    }

    pub(super) fn farewell(&mut self, who: &Who, code: XtpDiagCode, value: XtpDiagValue) {
        if let Some(group) = self.group_mut()
            && group.farewells.len() < MAX_FAREWELLS
        {
            group.farewells.push_back((*who, code, value));
        }
    }
}
