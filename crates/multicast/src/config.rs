use layercast_core::Span;
use layercast_wire::multicast::{Content, MemberId};
use thiserror::Error;

use crate::{Completion, Deadline, Opening, RateControl, Repair, Schedule, Silence, Trigger, Weak};

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
    /// (specs/fully-reliable-multicast.md 6).
    pub release_on_received: bool,
    /// Objects: passes, after which who lacks something has failed.
    pub rounds: u16,
    /// Objects: source packets of a block.
    pub block: u16,
    /// Objects: number of the erasure code (specs/packet-level-fec.md 2.2); 0: none.
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
