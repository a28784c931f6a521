use layercast_core::{Rate, Span};
use layercast_wire::multicast::MemberId;

use crate::Peer;

/// When the sender asks for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Each time a timer runs out, while data flow (FRM): for streams.
    Timer {
        /// The list is evaluated as soon as all have answered, not only when the timer runs out
        /// (specs/fully-reliable-multicast.md 8).
        on_complete: bool,
        /// Longest time between polls when nothing is outstanding; it doubles up to here.
        idle: Span,
    },
    /// After each pass over what is to be sent (RMTP): for objects.
    Pass,
}

/// How receivers are kept from answering all at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Not at all: everybody answers a poll at once (FRM).
    AtOnce,
    /// Uniformly over `delta` for each receiver (specs/rmtp-large-scale.md 2.3).
    BackOff {
        /// Mean time between answers.
        delta: Span,
        /// Receivers see for themselves that a pass ends, and no poll is sent (RMTP drafts: RBOT in CONN).
        unasked: bool,
    },
    /// Only who lacks something that the sender does not know of yet, after a truncated exponential back-off
    /// (Nonnenmacher and Biersack 1999, RFC 5401); at the end everybody once, with back-off.
    Suppress {
        /// Mean time between answers where everybody is asked.
        delta: Span,
        /// Up to so many receivers everybody is asked anyway.
        above: u32,
        /// Range of the back-off.
        spread: Span,
    },
}

impl Schedule {
    /// Mean time between answers; zero: at once.
    pub fn delta(&self) -> Span {
        match *self {
            Schedule::AtOnce => Span::ZERO,
            Schedule::BackOff { delta, .. } | Schedule::Suppress { delta, .. } => delta,
        }
    }
}

/// Until when answers are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// k times the smoothed largest round trip (FRM 2.4), plus the range of the back-off.
    Rtt {
        /// The contingency factor, in thousandths: more than 1000.
        k_permille: u32,
    },
    /// TAT + delta N + alpha (RMTP 2.3).
    Linear {
        /// Turn-around time.
        tat: Span,
        /// Surplus.
        alpha: Span,
    },
    /// The range of the back-off, and what 99 of 100 answers took beyond it lately (specs/rmtp-large-scale.md 7).
    Adaptive {
        /// What they are assumed to take at first.
        initial: Span,
    },
}

/// What becomes of those who did not answer in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The whole group is asked again, each time waiting twice as long (FRM's synchronising handshake).
    AskGroup {
        /// How often.
        tries: u32,
    },
    /// Each is asked (RMTP POLL).
    AskEach {
        /// How often.
        tries: u32,
    },
}

impl Silence {
    /// How often it is asked again.
    pub fn tries(&self) -> u32 {
        match *self {
            Silence::AskGroup { tries } | Silence::AskEach { tries } => tries,
        }
    }
}

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Everything from the first missing packet on (FRM's first version).
    GoBackN,
    /// What anybody misses, by multicast; to those who miss something alone if they are few.
    Selective {
        /// In thousandths of the receivers: fewer than so many get theirs by unicast.
        unicast_below_permille: u32,
    },
    /// Fresh parities, as many for each block as the worst receiver lacks (integrated FEC, Nonnenmacher, Biersack,
    /// Towsley 1997).
    Parity {
        /// Parities that follow each block in the first pass.
        proactive: u16,
        /// Parities that the code has for a block.
        most: u32,
    },
}

/// What becomes of receivers that hold the others back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weak {
    /// Nothing.
    Keep,
    /// They are expelled if buffers are released too slowly because of them (FRM 2.7).
    Eject {
        /// Octets per second at which buffers must be released.
        min_release: u64,
        /// Over how long.
        interval: Span,
        /// In how many rounds in a row a receiver was the slowest before it is named.
        slow_rounds: u32,
        /// Whether a mandatory receiver is expelled too, which ends the session.
        mandatory: bool,
    },
    /// They are served after the others (RMTP separate retransmission).
    Postpone {
        /// Polls that a receiver may leave unanswered in all.
        polls: u32,
        /// In thousandths of the object: more than so much missing after a pass is too much.
        missing_permille: u32,
        /// All of them together by a second multicast address, not one after the other.
        side: bool,
    },
}

/// Which receivers must be there for the session to go on, and to be a success (FRM 2.6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completion {
    /// Every one that took part.
    All,
    /// At least so many.
    AtLeast(u32),
    /// At least this share of those that took part, in thousandths.
    Quorum(u32),
    /// These.
    Key(Vec<MemberId>),
    /// Both conditions.
    Both(Box<(Completion, Completion)>),
    /// Either condition.
    Either(Box<(Completion, Completion)>),
}

impl Completion {
    /// Whether it needs this member.
    pub(crate) fn names(&self, id: MemberId) -> bool {
        match self {
            Completion::All => true,
            Completion::Key(members) => members.contains(&id),
            Completion::Both(both) => both.0.names(id) || both.1.names(id),
            Completion::AtLeast(_) | Completion::Quorum(_) | Completion::Either(_) => false,
        }
    }
}

/// How fast data are sent. Rates count octets of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateControl {
    /// As fast as the driver takes them, or the window allows.
    Free,
    /// At this rate.
    Fixed(Rate),
    /// By how many packets arrive between two monitor bits (RMTP 2.5).
    Monitor(Monitor),
    /// By loss and round trip of the worst receiver, as TCP would (RFC 4654).
    Friendly(Monitor),
}

impl RateControl {
    /// The numbers of its measurements, if it makes any.
    pub fn monitor(&self) -> Option<Monitor> {
        match *self {
            RateControl::Monitor(it) | RateControl::Friendly(it) => Some(it),
            RateControl::Free | RateControl::Fixed(_) => None,
        }
    }
}

/// Numbers of the rate control by monitor bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Monitor {
    /// At the start.
    pub start: Rate,
    /// At least.
    pub least: Rate,
    /// At most.
    pub most: Rate,
    /// Packets of one measurement.
    pub packets: u32,
    /// How long reports are waited for.
    pub wait: Span,
    /// In thousandths of what was sent: more loss is bad.
    pub loss_permille: u32,
    /// In thousandths of those who report: more bad ones, and the rate is halved.
    pub down_permille: u32,
    /// In thousandths of those who report: no more bad ones, and the rate is raised by a tenth of the first.
    pub up_permille: u32,
    /// Of 65535 receivers, how many report.
    pub counters: u16,
}

/// Who may take part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Members {
    /// These, known beforehand, with their addresses if these are known too (RMTP).
    Listed(Vec<(MemberId, Option<Peer>)>),
    /// Whoever answers (FRM).
    Anyone {
        /// When so many have answered, no more are waited for.
        expect: Option<u32>,
        /// At most so many.
        most: u32,
        /// Also while the session runs: later ones, and those that start anew.
        late: bool,
    },
}

/// How the session is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// How often it is announced, the first time included.
    pub tries: u32,
    /// How long answers are waited for each time, beside their back-off.
    pub wait: Span,
    /// Copies of the first announcement (RMTP drafts: 2).
    pub copies: u32,
}
