use layercast_core::{Rate, Span};
use layercast_wire::multicast::{Content, MemberId};
use thiserror::Error;

use crate::Peer;

/// When the sender asks for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Each time a timer runs out, while data flow (FRM): for streams.
    Timer {
        /// The list is evaluated as soon as all have answered, not only when the timer runs out
        /// (fully-reliable-multicast.md 8).
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
    /// Uniformly over `delta` for each receiver (rmtp-large-scale.md 2.3).
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
    /// The range of the back-off, and what 99 of 100 answers took beyond it lately (rmtp-large-scale.md 7).
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

/// What a sender does: a policy for each step of its round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderConfig {
    /// Octets of payload of a data packet.
    pub packet_size: u16,
    /// When it asks.
    pub trigger: Trigger,
    /// What receivers tell.
    pub content: Content,
    /// When they answer.
    pub schedule: Schedule,
    /// Until when it waits.
    pub deadline: Deadline,
    /// What if somebody does not answer.
    pub silence: Silence,
    /// How it repairs.
    pub repair: Repair,
    /// What becomes of weak receivers.
    pub weak: Weak,
    /// Who must be there.
    pub completion: Completion,
    /// How fast it sends.
    pub rate: RateControl,
    /// How it begins.
    pub opening: Opening,
    /// Streams: packets that are kept until everybody has them.
    pub window: u32,
    /// Streams: members that are not waited for.
    pub best_effort: Vec<MemberId>,
    /// Streams: a buffer is released once it is received, not only when it is delivered to the user
    /// (fully-reliable-multicast.md 6).
    pub release_on_received: bool,
    /// Objects: passes, after which who lacks something has failed.
    pub rounds: u16,
    /// Objects: source packets of a block.
    pub block: u16,
    /// Objects: number of the erasure code (packet-level-fec.md 2.2); 0: none.
    pub scheme: u8,
    /// Objects: receivers are told of the end after each pass, and their answers waited for (RMTP REL, RACK).
    pub release_each: bool,
    /// Receivers report unasked when they heard no data for so long; zero: never.
    pub data_wait: Span,
    /// Receivers give up after so much silence, or four times the range of their answers if that is longer; zero: never.
    pub sender_wait: Span,
    /// Master key of receipts; without one they prove nothing.
    pub receipts: Option<[u8; 32]>,
}

/// Why a configuration cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// A number that must not be 0.
    #[error("{0} must not be 0")]
    Zero(&'static str),
    /// Policies that do not go together.
    #[error("{0}")]
    Conflict(&'static str),
    /// The contingency factor.
    #[error("the contingency factor k must be more than 1000 thousandths, not {0}")]
    Contingency(u32),
    /// Nobody to send to.
    #[error("the list of members is empty")]
    NoMembers,
    /// Somebody is on the list twice.
    #[error("member {} is listed twice", .0.0)]
    Twice(MemberId),
    /// Too large for the packet numbers of the session.
    #[error("{0} source packets are too many: more octets per packet or per block")]
    TooLarge(u64),
    /// A stream where an object is configured, or the other way.
    #[error("a stream asks by timer, an object after each pass")]
    Trigger,
}

impl SenderConfig {
    /// Whether the policies go together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let numbers = [
            (u32::from(self.packet_size), "packet_size"),
            (self.window, "window"),
            (u32::from(self.rounds), "rounds"),
            (u32::from(self.block), "block"),
            (self.opening.tries, "opening.tries"),
        ];
        if let Some(&(_, name)) = numbers.iter().find(|(value, _)| *value == 0) {
            return Err(ConfigError::Zero(name));
        }
        let stream = matches!(self.trigger, Trigger::Timer { .. });
        let conflict = match (self.content, self.repair) {
            (Content::Levels, _) if !stream => Some("objects are not reported by levels"),
            (content, _) if stream && content != Content::Levels => {
                Some("streams are reported by levels")
            }
            (_, Repair::Parity { .. }) if stream => Some("parities repair objects only"),
            (Content::Counts, Repair::Parity { most, .. }) if self.scheme == 0 || most == 0 => {
                Some("parities need a code")
            }
            (Content::Counts, Repair::GoBackN | Repair::Selective { .. }) => {
                Some("counts do not say what is missing: repair by parities")
            }
            (Content::Ranges, Repair::Parity { .. }) => Some("parities are sent by counts"),
            _ => None,
        };
        if let Some(conflict) = conflict {
            return Err(ConfigError::Conflict(conflict));
        }
        match self.schedule {
            Schedule::Suppress { .. } if self.content != Content::Counts => Err(
                ConfigError::Conflict("answers are suppressed only where counts are reported"),
            ),
            Schedule::BackOff { unasked: true, .. } if stream => Err(ConfigError::Conflict(
                "receivers of a stream are always asked",
            )),
            _ => match self.deadline {
                Deadline::Rtt { k_permille } if k_permille <= 1_000 => {
                    Err(ConfigError::Contingency(k_permille))
                }
                _ => self.validate_rate(),
            },
        }
    }

    fn validate_rate(&self) -> Result<(), ConfigError> {
        match self.rate {
            RateControl::Fixed(rate) if rate.as_bps() == 0 => Err(ConfigError::Zero("rate")),
            RateControl::Monitor(it) | RateControl::Friendly(it)
                if it.least.as_bps() == 0 || it.least > it.start || it.start > it.most =>
            {
                Err(ConfigError::Conflict(
                    "rates of the monitor: 0 < least <= start <= most",
                ))
            }
            RateControl::Monitor(it) | RateControl::Friendly(it) if it.packets < 2 => Err(
                ConfigError::Conflict("a measurement takes at least two packets"),
            ),
            _ => Ok(()),
        }
    }
}
