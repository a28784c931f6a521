//! The side of one receiver: how it asks to be let in, and how long it waits with bad news.

use layercast_core::{Span, Stream, Time, earliest};
use layercast_wire::{
    XTP_HEADER, XtpAddress, XtpBody, XtpControl, XtpDiagValue, XtpKey, XtpOptions, XtpPacket,
    XtpTraffic,
};

use super::Who;
use crate::XtpFailure;
use crate::context::{Context, News};
use crate::incoming::Incoming;

/// Bytes of a JCNTL with addresses and numbers.
const JCNTL: usize = XTP_HEADER + 32 + 16 + 24;

/// One of many receivers.
#[derive(Debug)]
pub(in crate::context) struct Membership {
    /// The group it asks, and its own address.
    address: XtpAddress,
    /// The transmitter has let it in, or need not.
    joined: bool,
    /// It is to ask now; when it asks next, and how often it has asked.
    asks: bool,
    ask_at: Option<Time>,
    tries: u32,
    /// How long it waits with the news of a gap, so that not all speak simultaneously.
    slots: Stream,
    answer_at: Option<Time>,
    /// It has waited long enough.
    ripe: bool,
}

impl Membership {
    /// A receiver that requests admission, or `joined` by itself where no list is kept.
    pub(in crate::context) fn new(
        now: Time,
        own: XtpKey,
        address: XtpAddress,
        joined: bool,
    ) -> Membership {
        Membership {
            address,
            joined,
            asks: false,
            ask_at: (!joined).then_some(now),
            tries: 0,
            slots: Stream::new(own.0, "slots"),
            answer_at: None,
            ripe: false,
        }
    }

    pub(in crate::context) fn has_joined(&self) -> bool {
        self.joined
    }
}

impl Context {
    /// Whether it is requesting admission, so that the answer may name the transmitter.
    pub(crate) fn wants_admission(&self) -> bool {
        self.membership().is_some_and(|it| !it.joined)
    }

    /// The transmitter that has answered is the one.
    pub(crate) fn learn_transmitter(&mut self, who: Who) {
        self.remote.net = who.0;
        self.theirs = [Some(who.1)];
    }

    /// Somebody else has taken the transmitter's key here: this one cannot be in the same association.
    pub(crate) fn is_here_already(&mut self, now: Time) {
        self.fail(now, XtpFailure::Refused(XtpDiagValue::STATE));
    }

    /// JCNTL of the transmitter: it lets us in, from byte `seq` on.
    pub(in crate::context) fn on_admission(
        &mut self,
        now: Time,
        seq: u64,
        control: &XtpControl,
        traffic: &XtpTraffic,
    ) {
        let Some(membership) = self.membership_mut() else {
            self.tally.unsupported += 1;
            return;
        };
        if std::mem::replace(&mut membership.joined, true) {
            return;
        }
        (membership.asks, membership.ask_at) = (false, None);
        self.service = traffic.service();
        self.on_traffic(traffic);
        self.answered(now, control.echo);
        if seq > self.inc.rseq() {
            if self.inc.received() > 0 {
                // It would have a hole.
                return self.fail(now, XtpFailure::Violated);
            }
            self.inc = Incoming::new(self.config.window, self.config.hold);
            self.inc.skip_to(seq);
        }
        // What came before it was let in counts, too.
        let first = self.inc.rseq() - self.inc.received();
        self.tell(News::Joined(first));
    }

    /// JCNTL that asks to be let in, when it is due.
    pub(in crate::context) fn asking(&mut self, now: Time) -> Option<XtpPacket> {
        // The first time no event announces that it is due.
        self.plan_asking(now);
        let reach = self.may_reach(JCNTL);
        let membership = self.membership_mut()?;
        if !std::mem::take(&mut membership.asks) || !reach {
            return None;
        }
        let address = membership.address.clone();
        self.sync = self.sync.plus(1);
        let control = XtpControl {
            rseq: self.inc.rseq(),
            alloc: self.inc.tell_alloc(),
            echo: self.echo,
        };
        let body = XtpBody::Jcntl {
            control,
            xkey: self.own,
            address,
            traffic: XtpTraffic::Spec(self.service, self.out_traffic),
        };
        Some(self.packet(XtpOptions::SREQ, 0, body))
    }

    /// Requests admission if it is time, and repeats the request later without an answer.
    fn plan_asking(&mut self, now: Time) {
        let first = self.config.first_wait;
        if let Some(membership) = self.membership_mut()
            && membership.ask_at.is_some_and(|at| at <= now)
        {
            let wait = first.times(1 << membership.tries.min(6));
            (membership.asks, membership.tries) = (true, membership.tries + 1);
            membership.ask_at = Some(now.saturating_add(wait));
        }
    }

    /// Whether an answer that is due has to wait, or is none: of one that is not let in, of one whose service has
    /// none, and of one among many that all may have lost the same.
    pub(in crate::context) fn holds_answer(&mut self, now: Time) -> bool {
        let (mute, gap) = (self.is_unacknowledged(), self.inc.has_gap());
        let slot = self.config.group.slot;
        let over = self.is_inactive();
        let Some(membership) = self.membership_mut() else {
            return false;
        };
        if mute || !membership.joined {
            self.due.answer = false;
            self.due.nak = false;
            return true;
        }
        if !gap || slot == Span::ZERO || over || membership.ripe {
            (membership.answer_at, membership.ripe) = (None, false);
            return false;
        }
        let slots = &mut membership.slots;
        let drawn = || now.saturating_add(Span::from_ps(slots.below(slot.as_ps())));
        now < *membership.answer_at.get_or_insert_with(drawn)
    }

    pub(super) fn receiver_timer(&self) -> Option<Time> {
        let membership = self.membership()?;
        let silence = self.last_heard.saturating_add(self.config.give_up);
        let silence = self.is_unacknowledged().then_some(silence);
        let ask = earliest(membership.ask_at, membership.answer_at);
        earliest(ask, silence.filter(|_| membership.joined))
    }

    pub(super) fn on_receiver_timer(&mut self, now: Time) {
        let silent = now.since(self.last_heard) >= self.config.give_up;
        let (mute, retries) = (self.is_unacknowledged(), self.config.retries);
        let Some(membership) = self.membership_mut() else {
            return;
        };
        if membership.answer_at.is_some_and(|at| at <= now) {
            (membership.answer_at, membership.ripe) = (None, true);
        }
        let asks = membership.ask_at.is_some_and(|at| at <= now);
        if (asks && membership.tries > retries) || (mute && membership.joined && silent) {
            return self.fail(now, XtpFailure::TimedOut);
        }
        self.plan_asking(now);
    }
}
