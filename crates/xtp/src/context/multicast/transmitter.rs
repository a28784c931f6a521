//! The sender's side: what its receivers say, taken together.

use std::collections::VecDeque;

use layercast_core::{Serial, Span, Time};
use layercast_wire::{XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpOptions, XtpPacket};

use super::members::{Members, Reply, Who};
use crate::context::{Context, News};
use crate::{XtpFailure, XtpRate};

/// The receivers of an association, and what they have in common.
#[derive(Debug)]
pub(in crate::context) struct Group {
    pub(super) members: Members,
    /// As many as were waited for have come.
    pub(super) begun: bool,
    /// Questions asked so far, and the last of them.
    asked: (u64, Serial),
    /// The longest that anybody took to answer a question that others still owe the answer to.
    slowest: Span,
    /// Packets that instructed all receivers to skip lost data.
    pub(super) skips: u64,
    /// When the next invitation is due, and how many there were.
    pub(super) invite_at: Option<Time>,
    pub(super) invites: u32,
    /// Since when there is data to send and no receiver.
    pub(super) stuck_since: Option<Time>,
    /// Final messages to receivers that were removed.
    pub(super) farewells: VecDeque<(Who, XtpDiagCode, XtpDiagValue)>,
    /// Receivers that request admission where no list is kept, with their synchronizing value.
    pub(super) guests: VecDeque<(Who, Serial)>,
    /// Whose packets are not for us any more.
    pub(super) gone: Vec<Who>,
    /// How many got everything, and how many are gone without.
    pub(super) finished: u64,
    pub(super) lost: u64,
}

impl Group {
    pub(in crate::context) fn new(sync: Serial) -> Group {
        Group {
            members: Members::default(),
            begun: false,
            asked: (0, sync),
            slowest: Span::ZERO,
            skips: 0,
            invite_at: None,
            invites: 0,
            stuck_since: None,
            farewells: VecDeque::new(),
            guests: VecDeque::new(),
            gone: Vec::new(),
            finished: 0,
            lost: 0,
        }
    }

    /// How many questions had been asked when `echo` was the last, if `sync` is now.
    pub(super) fn position(&mut self, sync: Serial, echo: Serial) -> u64 {
        self.asked.0 += u64::from(sync.0.wrapping_sub(self.asked.1.0));
        self.asked.1 = sync;
        let since = u64::from(sync.0.wrapping_sub(echo.0));
        self.asked.0.saturating_sub(since)
    }

    /// Whether an individual message is pending for a receiver.
    pub(in crate::context) fn has_replies(&self) -> bool {
        self.members.has_replies() || !self.farewells.is_empty() || !self.guests.is_empty()
    }

    /// All that were let in.
    pub(in crate::context) fn keys(&self) -> impl Iterator<Item = Who> + '_ {
        self.members.keys()
    }

    /// Receivers that count, and bytes of memory.
    pub(in crate::context) fn size(&self) -> (usize, usize) {
        (self.members.active(), self.members.memory())
    }
}

impl Context {
    /// Whether data may leave, as far as it depends on the presence of receivers.
    pub(in crate::context) fn has_audience(&self) -> bool {
        let there = |group: &Group| group.begun && group.members.active() > 0;
        self.is_unacknowledged() || self.group().is_none_or(there)
    }

    /// Notes that a packet leaves that instructs all receivers to skip earlier data.
    pub(in crate::context) fn note_skip(&mut self) {
        if let Some(group) = self.group_mut() {
            group.skips += 1;
        }
    }

    /// Receivers whose packets find this context no longer.
    pub(crate) fn take_gone(&mut self) -> Vec<Who> {
        self.group_mut()
            .map(|group| std::mem::take(&mut group.gone))
            .unwrap_or_default()
    }

    /// A packet of a receiver that was let in.
    pub(in crate::context) fn on_member(&mut self, now: Time, who: Who, packet: &XtpPacket) {
        if self.is_inactive() {
            return;
        }
        let (control, spans): (_, &[_]) = match &packet.body {
            XtpBody::Cntl(control) | XtpBody::Tcntl { control, .. } => (control, &[]),
            XtpBody::Ecntl { control, spans } => (control, spans),
            XtpBody::Jcntl { .. } => {
                if let Err(why) = self.admit(who, packet) {
                    self.lose(now, &who, Some((XtpDiagCode::JOIN_REFUSED, why)));
                }
                return;
            }
            XtpBody::Diag { code, .. } => {
                let ends = [XtpDiagCode::ABANDONED, XtpDiagCode::INVALID_CONTEXT];
                match ends.contains(code) {
                    true => self.lose(now, &who, None),
                    false => self.tally.stray_diags += 1,
                }
                return;
            }
            _ => {
                self.tally.unsupported += 1;
                return;
            }
        };
        if !self.is_possible(control, spans) {
            return self.on_nonsense(now, &who);
        }
        if !self.believe(now, &who, control) {
            return;
        }
        let asked = self.note_answer(now, control.echo);
        self.after_members(now);
        if packet.options.any(XtpOptions::RCLOSE | XtpOptions::END) {
            return self.part(now, &who);
        }
        if let Some(group) = self.group_mut()
            && packet.options.has(XtpOptions::SREQ)
        {
            group.members.update(&who, |it| it.asked = packet.sync);
            group.members.tell(&who, Reply::Status);
        }
        if let XtpBody::Tcntl { traffic, .. } = &packet.body {
            let (rate, burst) = (
                traffic.spec().in_rate.into(),
                traffic.spec().in_burst.into(),
            );
            if let Some(group) = self.group_mut() {
                let limit = XtpRate { rate, burst };
                group.members.update(&who, |it| it.limit = limit);
            }
            self.agree();
        }
        if self
            .handshake
            .is_some_and(|it| it.first.is_after(control.echo))
        {
            return;
        }
        let Some(member) = self.group().and_then(|it| it.members.get(&who)) else {
            return;
        };
        if control.rseq < member.rseq {
            // Older than what is known: it was overtaken.
            return;
        }
        let last = spans.last().map_or(control.rseq, |&(_, right)| right);
        self.miss(control, spans, asked.unwrap_or(last).max(last));
    }

    /// Takes what a receiver says of itself; `false` if it does not count.
    fn believe(&mut self, now: Time, who: &Who, control: &XtpControl) -> bool {
        let (sync, released) = (self.sync, self.out.released());
        let Some(group) = self.group_mut() else {
            return false;
        };
        let echo = group.position(sync, control.echo);
        let Some(&member) = group.members.get(who) else {
            return false;
        };
        if !member.active {
            // Only what was sent to it alone proves that it is there.
            if member.proof == Serial(0) || member.proof.is_after(control.echo) {
                return false;
            }
            let skipped = member.skips != group.skips && released > member.start;
            if skipped || released > control.rseq || control.rseq < member.start {
                let why = (XtpDiagCode::JOIN_REFUSED, XtpDiagValue::JOIN);
                self.lose(now, who, Some(why));
                return false;
            }
        }
        group.members.update(who, |it| {
            it.rseq = it.rseq.max(control.rseq);
            it.alloc = match it.active {
                true => it.alloc.max(control.alloc),
                false => control.alloc,
            };
            if echo > it.echo {
                it.misses = 0;
            }
            it.echo = it.echo.max(echo);
            (it.active, it.violations) = (true, 0);
        });
        if !member.active {
            self.tell(News::ReceiverJoined(who.0));
            self.agree();
        }
        true
    }

    /// A receiver has answered: what had been sent when it was asked, if somebody else still owes an answer.
    fn note_answer(&mut self, now: Time, echo: Serial) -> Option<u64> {
        let answered = self.requests.partition_point(|it| !it.sync.is_after(echo));
        let request = *self.requests.get(answered.checked_sub(1)?)?;
        if let Some(group) = self.group_mut()
            && request.sync == echo
        {
            group.slowest = group.slowest.max(now.since(request.at));
        }
        Some(request.sent)
    }

    /// What a receiver claims cannot be; the third time in a row it is one no longer.
    fn on_nonsense(&mut self, now: Time, who: &Who) {
        self.tally.violations += 1;
        let Some(group) = self.group_mut() else {
            return;
        };
        group.members.update(who, |it| it.violations += 1);
        let times = group.members.get(who).map_or(0, |it| it.violations);
        if times >= 3 {
            let why = (XtpDiagCode::ABANDONED, XtpDiagValue::STATE);
            return self.lose(now, who, Some(why));
        }
        self.farewell(who, XtpDiagCode::PROTOCOL, XtpDiagValue::RETRANSMISSION);
    }

    /// After whatever happened to the list: what counts is what the last of them has (specs/xtp.md 2.13).
    pub(super) fn after_members(&mut self, now: Time) {
        let (sync, before) = (self.sync, (self.out.una(), self.alloc));
        let wanted = self.config.group.wait_for.max(1) as usize;
        let Some(group) = self.group_mut() else {
            return;
        };
        let begins = !group.begun && group.members.active() >= wanted;
        group.begun |= begins;
        let said = [
            group.members.rseq(),
            group.members.alloc(),
            group.members.echo(),
        ];
        let [Some(rseq), Some(alloc), Some(echo)] = said else {
            return self.on_alone(now);
        };
        let open = group.position(sync, sync) - echo;
        let echo = Serial(sync.0.wrapping_sub(open as u32));
        if begins {
            self.heard = true;
            self.tell(News::Connected);
        }
        self.out.release(rseq);
        self.alloc = alloc;
        if self.answered(now, echo).is_some() {
            let slowest = self.group_mut().map(|it| std::mem::take(&mut it.slowest));
            if let Some(slowest) = slowest.filter(|it| *it > Span::ZERO) {
                self.rtt.sample(slowest);
            }
        }
        let moved = (self.out.una(), self.alloc) != before;
        if self.handshake.is_some_and(|it| !it.first.is_after(echo)) {
            self.handshake = None;
            self.due.probe = false;
            self.idle_answers = if moved { 0 } else { self.idle_answers + 1 };
            self.drop_laggards(now);
        } else if moved {
            self.idle_answers = 0;
        }
        self.confirm_delivery(echo);
    }

    /// No receiver counts: no answer is awaited, and others are invited.
    fn on_alone(&mut self, now: Time) {
        self.requests.clear();
        self.unanswered_since = None;
        self.handshake = None;
        self.due.probe = false;
        self.out.forget_resend();
        let Some(group) = self.group_mut() else {
            return;
        };
        if group.begun {
            (group.invite_at, group.invites) = (Some(now), 0);
            self.tell(News::NoReceivers);
        }
    }

    /// What the receivers take at most, all of them.
    pub(in crate::context) fn audience_limit(&self) -> XtpRate {
        let all = self.group().into_iter().flat_map(|it| it.members.iter());
        all.fold(XtpRate::UNLIMITED, |least, (_, it)| {
            least.stricter(it.limit)
        })
    }

    /// Ends the stream once every receiver has everything or is gone.
    pub(in crate::context) fn settle_group(&mut self, now: Time) {
        let done = self.write_closed && !self.out.has_unsent();
        let owes = self.out.end() > self.out.una() || self.write_closed;
        let quiet = self.is_inactive() || self.is_unacknowledged();
        let Some(group) = self.group_mut().filter(|_| !quiet) else {
            return;
        };
        let alone = group.members.active() == 0;
        group.stuck_since = match (alone || !group.begun) && owes {
            true => group.stuck_since.or(Some(now)),
            false => None,
        };
        if done && alone && group.begun {
            match group.finished > 0 || group.lost == 0 {
                true => self.writer_done = true,
                false => self.fail(now, XtpFailure::TimedOut),
            }
        }
    }
}
