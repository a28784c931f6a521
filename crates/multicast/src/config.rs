use layercast_core::Span;
use layercast_wire::multicast::{Content, MemberId};
use thiserror::Error;

use crate::{Completion, Deadline, Opening, RateControl, Repair, Schedule, Silence, Trigger, Weak};

/// Configuration of a sender: a policy for each step of a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderConfig {
    /// Octets of payload in a data packet.
    pub packet_size: u16,
    /// When the sender polls.
    pub trigger: Trigger,
    /// What receivers report.
    pub content: Content,
    /// When receivers answer.
    pub schedule: Schedule,
    /// How long the sender waits for answers.
    pub deadline: Deadline,
    /// What happens to receivers that do not answer.
    pub silence: Silence,
    /// How losses are repaired.
    pub repair: Repair,
    /// What happens to weak receivers.
    pub weak: Weak,
    /// Which receivers must be complete.
    pub completion: Completion,
    /// How fast data is sent.
    pub rate: RateControl,
    /// How the session is opened.
    pub opening: Opening,
    /// Streams: packets kept until all receivers have them.
    pub window: u32,
    /// Streams: members without a guarantee.
    pub best_effort: Vec<MemberId>,
    /// Streams: whether a buffer is released when it is received, instead of when it is delivered to the user
    /// (specs/fully-reliable-multicast.md 6).
    pub release_on_received: bool,
    /// Objects: largest number of passes; a receiver that lacks something after it has failed.
    pub rounds: u16,
    /// Objects: source packets in a block.
    pub block: u16,
    /// Objects: number of the erasure code (specs/packet-level-fec.md 2.2); 0: none.
    pub scheme: u8,
    /// Objects: whether the end is announced after each pass and answers to it are collected (RMTP REL, RACK).
    pub release_each: bool,
    /// Time without data after which receivers report by themselves; zero: never.
    pub data_wait: Span,
    /// Silence after which receivers leave, at least four times the range of their answers; zero: never.
    pub sender_wait: Span,
    /// Master key of receipts; without one receipts prove nothing.
    pub receipts: Option<[u8; 32]>,
}

/// Reason why a configuration is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConfigError {
    /// A value that must not be 0.
    #[error("{0} must not be 0")]
    Zero(&'static str),
    /// Policies that contradict each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// An invalid contingency factor.
    #[error("the contingency factor k must be more than 1000 thousandths, not {0}")]
    Contingency(u32),
    /// The list of members is empty.
    #[error("the list of members is empty")]
    NoMembers,
    /// A member is listed twice.
    #[error("member {} is listed twice", .0.0)]
    Twice(MemberId),
    /// Too many packets for the numbers of a session.
    #[error("{0} source packets are too many: more octets per packet or per block")]
    TooLarge(u64),
    /// A trigger for streams in a session of an object, or the reverse.
    #[error("the trigger does not match: a stream polls by timer, an object after each pass")]
    Trigger,
}

impl SenderConfig {
    /// Checks that the policies are consistent.
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
