use layercast_core::{Rate, Span};
use layercast_wire::multicast::MemberId;

use crate::Peer;

/// When the sender polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Whenever a timer expires, while data flows (FRM): for streams.
    Timer {
        /// Whether the list is evaluated as soon as all have answered, instead of only when the timer expires
        /// (specs/fully-reliable-multicast.md 8).
        on_complete: bool,
        /// Longest interval between polls while nothing is outstanding; the interval doubles up to this.
        idle: Span,
    },
    /// After each pass over the data to send (RMTP): for objects.
    Pass,
}

/// How answers are spread in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Not at all: every receiver answers a poll immediately (FRM).
    AtOnce,
    /// Uniform back-off over `delta` for each receiver (specs/rmtp-large-scale.md 2.3).
    BackOff {
        /// Mean interval between answers.
        delta: Span,
        /// Whether receivers detect the end of a pass themselves, without a poll (RMTP drafts: RBOT in CONN).
        unasked: bool,
    },
    /// Only receivers that lack something unknown to the sender answer, after a truncated exponential back-off
    /// (Nonnenmacher and Biersack 1999, RFC 5401); at the end each receiver answers once, with back-off.
    Suppress {
        /// Mean interval between answers when all are polled.
        delta: Span,
        /// Number of receivers up to which all are polled.
        above: u32,
        /// Range of the back-off.
        spread: Span,
    },
}

impl Schedule {
    /// Mean interval between answers; zero: immediately.
    pub fn delta(&self) -> Span {
        match *self {
            Schedule::AtOnce => Span::ZERO,
            Schedule::BackOff { delta, .. } | Schedule::Suppress { delta, .. } => delta,
        }
    }
}

/// How long answers are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// k times the smoothed largest round trip (specs/fully-reliable-multicast.md 2.4), plus the range of the
    /// back-off.
    Rtt {
        /// The contingency factor in thousandths, above 1000.
        k_permille: u32,
    },
    /// TAT + delta N + alpha (specs/rmtp-large-scale.md 2.3).
    Linear {
        /// Turn-around time.
        tat: Span,
        /// Surplus.
        alpha: Span,
    },
    /// The range of the back-off, plus the recent 99th percentile of the delay beyond it (specs/rmtp-large-scale.md
    /// 7).
    Adaptive {
        /// The delay assumed at first.
        initial: Span,
    },
}

/// What happens to receivers that did not answer in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The whole group is polled again, with a doubled wait each time (FRM's synchronising handshake).
    AskGroup {
        /// Number of attempts.
        tries: u32,
    },
    /// Each of them is polled (RMTP POLL).
    AskEach {
        /// Number of attempts.
        tries: u32,
    },
}

impl Silence {
    /// Number of further attempts.
    pub fn tries(&self) -> u32 {
        match *self {
            Silence::AskGroup { tries } | Silence::AskEach { tries } => tries,
        }
    }
}

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Everything from the first missing packet on is sent again (FRM's first version).
    GoBackN,
    /// The union of the missing packets is multicast; few receivers get theirs by unicast.
    Selective {
        /// Share of the receivers, in thousandths, below which repairs are sent by unicast.
        unicast_below_permille: u32,
    },
    /// Fresh parities are sent, for each block as many as the worst receiver lacks (integrated FEC, Nonnenmacher,
    /// Biersack, Towsley 1997).
    Parity {
        /// Parities that follow each block in the first pass.
        proactive: u16,
        /// Largest number of parities of a block in this code.
        most: u32,
    },
}

/// What happens to receivers that hold up the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weak {
    /// Nothing.
    Keep,
    /// They are expelled if they keep the release of buffers too slow (specs/fully-reliable-multicast.md 2.7).
    Eject {
        /// Least release rate of buffers, octets per second.
        min_release: u64,
        /// Interval of the evaluation.
        interval: Span,
        /// Number of successive rounds in which a receiver must be the slowest before it is expelled.
        slow_rounds: u32,
        /// Whether mandatory receivers are expelled as well, which ends the session.
        mandatory: bool,
    },
    /// They are served after the others (RMTP separate retransmission).
    Postpone {
        /// Largest number of unanswered polls.
        polls: u32,
        /// Largest share of the object missing after a pass, in thousandths.
        missing_permille: u32,
        /// Whether they are served together by a second multicast address, instead of one by one.
        side: bool,
    },
}

/// Which receivers must remain and must be complete for a session to succeed (specs/fully-reliable-multicast.md 2.6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completion {
    /// All that took part.
    All,
    /// At least this number.
    AtLeast(u32),
    /// At least this share of those that took part, in thousandths.
    Quorum(u32),
    /// The listed members.
    Key(Vec<MemberId>),
    /// Both conditions.
    Both(Box<(Completion, Completion)>),
    /// Either condition.
    Either(Box<(Completion, Completion)>),
}

impl Completion {
    /// Whether the condition names this member.
    pub(crate) fn names(&self, id: MemberId) -> bool {
        match self {
            Completion::All => true,
            Completion::Key(members) => members.contains(&id),
            Completion::Both(both) => both.0.names(id) || both.1.names(id),
            Completion::AtLeast(_) | Completion::Quorum(_) | Completion::Either(_) => false,
        }
    }
}

/// How fast data is sent. Rates count octets of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateControl {
    /// As fast as the driver sends, or the window allows.
    Free,
    /// At a fixed rate.
    Fixed(Rate),
    /// By the number of packets that arrive between two monitor bits (specs/rmtp-large-scale.md 2.5).
    Monitor(Monitor),
    /// By loss and round trip of the worst receiver, as TCP would (RFC 4654).
    Friendly(Monitor),
}

impl RateControl {
    /// The parameters of its measurements, if there are any.
    pub fn monitor(&self) -> Option<Monitor> {
        match *self {
            RateControl::Monitor(it) | RateControl::Friendly(it) => Some(it),
            RateControl::Free | RateControl::Fixed(_) => None,
        }
    }
}

/// Parameters of the rate control by monitor bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Monitor {
    /// Initial rate.
    pub start: Rate,
    /// Least rate.
    pub least: Rate,
    /// Largest rate.
    pub most: Rate,
    /// Packets of one measurement.
    pub packets: u32,
    /// How long reports are collected.
    pub wait: Span,
    /// Loss above which a receiver counts as bad, in thousandths.
    pub loss_permille: u32,
    /// Share of bad reporters, in thousandths, above which the rate is halved.
    pub down_permille: u32,
    /// Share of bad reporters, in thousandths, up to which the rate is raised by a tenth of the initial one.
    pub up_permille: u32,
    /// Number of reporters per 65535 receivers.
    pub counters: u16,
}

/// Which receivers may take part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Members {
    /// Listed members, with their addresses if known (RMTP).
    Listed(Vec<(MemberId, Option<Peer>)>),
    /// Any receiver that answers (FRM).
    Anyone {
        /// Number of answers after which the sender stops waiting for more.
        expect: Option<u32>,
        /// Largest number of receivers.
        most: u32,
        /// Whether receivers may join the running session, including restarted ones.
        late: bool,
    },
}

/// How the session is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Number of announcements, including the first.
    pub tries: u32,
    /// How long answers are collected each time, beyond their back-off.
    pub wait: Span,
    /// Copies of the first announcement (RMTP drafts: 2).
    pub copies: u32,
}
