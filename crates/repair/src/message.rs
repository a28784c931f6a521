use layercast_core::{Layer, Serial};
use thiserror::Error;

use crate::parts::MAX_PARTS;

/// Most ranges of missing counters in one feedback.
pub const MAX_RANGES: usize = 48;
/// Most arrival times in one feedback.
pub const MAX_ARRIVALS: usize = 16;
/// Octets of the header of a datagram with content.
pub const CONTENT_HEAD: usize = 1 + 2 + 4;
/// Octets of the header of a part of a datagram.
pub const PART_HEAD: usize = 1 + 2 + 2 + 1 + 1;
/// Octets of the header of a datagram with content to a group.
pub const SHARED_HEAD: usize = CONTENT_HEAD + 1;
/// Octets of the longest header of a parity.
pub const PARITY_HEAD: usize = SHARED_HEAD + 2 + 1 + 1 + 1 + SPREAD / 8;
/// Counters over which the contents of a parity are spread at most.
pub const SPREAD: usize = 88;
/// Octets of the longest header, a full feedback.
pub const MAX_HEAD: usize = FEEDBACK_FIXED + MAX_RANGES * RANGE + MAX_ARRIVALS * ARRIVAL;

/// Upper three bits of the first octet of every datagram on a link with repair.
const MARK: u8 = 0xE0;
const PART: u8 = 0;
const DATA: u8 = 1;
const REPAIR: u8 = 2;
const MARKER: u8 = 3;
const FEEDBACK: u8 = 4;
const SHARED: u8 = 5;
const PARITY: u8 = 6;
const BEACON: u8 = 7;

const FEEDBACK_FIXED: usize = 1 + 2 + 4 + 4 + 2 + 4 + 2 + 1 + 1 + 1;
const RANGE: usize = 4;
const ARRIVAL: usize = 5;
/// Most counters of a range of a feedback; the bit above says whether the range is requested.
const MAX_LEN: u16 = 0x7FFF;
const MAX_24: u32 = (1 << 24) - 1;
const NO_BUDGET: u16 = u16::MAX;

/// The header of a datagram on a link with repair.
///
/// The first octet is `111` (3 bits), the kind (3 bits) and the layer (2 bits: 0 BL, 1 E1, 2 E2; where there is no
/// layer 0, or 1 in a marker that asks). The page `docs/src/reference/link-repair.md` has the formats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Head {
    /// A datagram that is sent for the first time follows. Kind 1.
    Data {
        /// Session of the counters.
        session: u16,
        /// Its counter, modulo 2^32.
        counter: Serial,
        /// Its layer.
        layer: Layer,
    },
    /// A datagram that was sent before follows. Kind 2. The header is as long as that of kind 1: a repair fits
    /// wherever the first copy did.
    Repair {
        /// Session of the counters, modulo 2^8.
        session: u8,
        /// Its new counter, modulo 2^24.
        counter: u32,
        /// Its layer.
        layer: Layer,
        /// The new counter minus the first one; 1 to 2^16 - 1.
        back: u16,
    },
    /// All counters up to `hi` have been sent. Kind 3.
    Marker {
        /// Session of the counters.
        session: u16,
        /// The counter of the newest datagram.
        hi: Serial,
        /// The least time between two reports that the way back carries, in milliseconds; 0: nothing is known to limit them.
        every_ms: u8,
        /// Round trip of the link in microseconds as the sender sees it, less than 2^24; 0: unknown.
        rtt_us: u32,
        /// Feedback is overdue: the other end reports.
        asks: bool,
    },
    /// What arrived at the receiving end. Kind 4.
    Feedback(Feedback),
    /// A datagram to a group follows. Kind 5.
    Shared {
        /// Session of the counters.
        session: u16,
        /// Its counter, modulo 2^32.
        counter: Serial,
        /// Its layer.
        layer: Layer,
        /// Parities sent before it, modulo 2^8: a gap of as many counters needs no repair.
        parities: u8,
    },
    /// A parity of contents to a group follows. Kind 6.
    Parity(Parity),
    /// All counters up to `hi` have been sent to a group. Kind 7.
    Beacon(Beacon),
    /// A part of a datagram follows that is too long for the path: its header, or some of its content. Kind 0.
    Part {
        /// Session of the counters.
        session: u16,
        /// The counter of the datagram, modulo 2^16.
        number: u16,
        /// Which part this is, from 0.
        index: u8,
        /// How many there are, 2 to [`MAX_PARTS`].
        count: u8,
    },
}

/// The header of a parity: an octet string that restores any one of several contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parity {
    /// Session of the counters.
    pub session: u16,
    /// Its counter, modulo 2^32.
    pub counter: Serial,
    /// The layer of its contents.
    pub layer: Layer,
    /// Parities sent before it, modulo 2^8.
    pub parities: u8,
    /// Its counter minus that of the first content; at least 1.
    pub back: u16,
    /// Its number among the parities of these contents, from 0.
    pub index: u8,
    /// Parities of these contents that have been sent or are about to be; more than `index`.
    pub until: u8,
    /// The contents: bit `n` is that with the counter of the first plus `n`. Bit 0 is set, and none from [`SPREAD`] on.
    pub contents: u128,
}

/// What the sending end tells the members of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beacon {
    /// Session of the counters.
    pub session: u16,
    /// The counter of the newest datagram.
    pub hi: Serial,
    /// Parities up to and including it, modulo 2^8.
    pub parities: u8,
    /// Members of the group, at least 1.
    pub members: u16,
    /// Datagrams that the member with the most losses lacked in the last rounds; at least 1.
    pub deficit: u8,
    /// The longest round trip to a member in microseconds; 0: unknown.
    pub rtt_us: u32,
}

/// A report of the receiving end of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// Session of the counters, as chosen by the end that receives the feedback.
    pub session: u16,
    /// When it was sent, in microseconds of the clock of the receiving end, modulo 2^32.
    pub tx_us: Serial,
    /// Newest counter that is known to have been sent.
    pub hi: Serial,
    /// Counters up to and including `hi` of which the report knows whether they arrived.
    pub known: u16,
    /// The reorder window in microseconds.
    pub window_us: u32,
    /// For how long after its usual arrival a datagram is of use, in milliseconds; `None`: not known.
    pub budget_ms: Option<u16>,
    /// While datagrams arrive, the next report is due in this time at the latest, in milliseconds.
    pub next_ms: u8,
    /// Counters that did not arrive, oldest first, apart from one another.
    pub missing: Vec<Missing>,
    /// Arrival times of the newest datagrams, newest first.
    pub arrivals: Vec<Arrival>,
}

/// Consecutive counters that did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// `hi` minus the first of them.
    pub back: u16,
    /// How many, 1 to 32,767.
    pub len: u16,
    /// They are overdue by the reorder window: the sender repairs them. If not, they may still arrive.
    pub requested: bool,
}

/// When a datagram arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// `hi` minus its counter.
    pub back: u16,
    /// How long before the feedback, in microseconds, below 2^24.
    pub ago_us: u32,
}

/// Why octets are no header of a link with repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeadError {
    /// The octets end within the header.
    #[error("a header of a link with repair ends after {0} octets")]
    Short(usize),
    /// The first octet is not of a known kind.
    #[error("octet {0:#04x} begins no header of a link with repair")]
    Kind(u8),
    /// A field contradicts the others or exceeds its limit.
    #[error("the {0} of a header of a link with repair is out of range")]
    Field(&'static str),
    /// Octets follow a message that carries nothing.
    #[error("{0} octets after a message of a link with repair")]
    Trailing(usize),
}

/// The counter with the low 32 bits `low` that is nearest to `near`; `None` if it would be negative.
pub fn expand(low: Serial, near: u64) -> Option<u64> {
    let ahead = low.diff(Serial(near as u32));
    near.checked_add_signed(ahead.into())
}

/// The same for the low 24 bits.
pub(crate) fn expand_24(low: u32, near: u64) -> Option<u64> {
    let ahead = Serial(low << 8).diff(Serial((near << 8) as u32)) >> 8;
    near.checked_add_signed(ahead.into())
}

impl Head {
    /// Whether these octets begin with a header: no METS packet, RES or ADAPT does.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|first| first & MARK == MARK)
    }

    /// The session of the counters, and the last 16 bits of the counter; zero where there is none.
    pub fn number(&self) -> (u16, u16) {
        match self {
            Head::Data {
                session, counter, ..
            }
            | Head::Shared {
                session, counter, ..
            } => (*session, counter.0 as u16),
            Head::Repair {
                session, counter, ..
            } => (u16::from(*session), *counter as u16),
            Head::Parity(parity) => (parity.session, parity.counter.0 as u16),
            _ => (0, 0),
        }
    }

    /// Octets of the header.
    pub fn encoded_len(&self) -> usize {
        match self {
            Head::Data { .. } | Head::Repair { .. } => CONTENT_HEAD,
            Head::Part { .. } => PART_HEAD,
            Head::Shared { .. } => SHARED_HEAD,
            Head::Parity(parity) => PARITY_HEAD - SPREAD / 8 + parity.mask_len(),
            Head::Marker { .. } => 11,
            Head::Beacon(_) => 15,
            Head::Feedback(feedback) => {
                FEEDBACK_FIXED + feedback.missing.len() * RANGE + feedback.arrivals.len() * ARRIVAL
            }
        }
    }

    /// Appends the header to `out`. The fields must be in range, as those of the machines are.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let first = |kind: u8, layer: u8| MARK | kind << 2 | layer;
        match self {
            Head::Data {
                session,
                counter,
                layer,
            } => {
                out.push(first(DATA, layer.index() as u8));
                out.extend_from_slice(&session.to_be_bytes());
                out.extend_from_slice(&counter.0.to_be_bytes());
            }
            Head::Repair {
                session,
                counter,
                layer,
                back,
            } => {
                debug_assert!(*counter <= MAX_24 && *back > 0);
                out.push(first(REPAIR, layer.index() as u8));
                out.push(*session);
                out.extend_from_slice(&counter.to_be_bytes()[1..]);
                out.extend_from_slice(&back.to_be_bytes());
            }
            Head::Part {
                session,
                number,
                index,
                count,
            } => {
                out.push(first(PART, 0));
                out.extend_from_slice(&session.to_be_bytes());
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(&[*index, *count]);
            }
            Head::Marker {
                session,
                hi,
                every_ms,
                rtt_us,
                asks,
            } => {
                debug_assert!(*rtt_us <= MAX_24);
                out.push(first(MARKER, u8::from(*asks)));
                out.extend_from_slice(&session.to_be_bytes());
                out.extend_from_slice(&hi.0.to_be_bytes());
                out.push(*every_ms);
                out.extend_from_slice(&rtt_us.to_be_bytes()[1..]);
            }
            Head::Feedback(feedback) => {
                out.push(first(FEEDBACK, 0));
                feedback.encode_into(out);
            }
            Head::Shared {
                session,
                counter,
                layer,
                parities,
            } => {
                out.push(first(SHARED, layer.index() as u8));
                out.extend_from_slice(&session.to_be_bytes());
                out.extend_from_slice(&counter.0.to_be_bytes());
                out.push(*parities);
            }
            Head::Parity(parity) => {
                out.push(first(PARITY, parity.layer.index() as u8));
                parity.encode_into(out);
            }
            Head::Beacon(beacon) => {
                out.push(first(BEACON, 0));
                out.extend_from_slice(&beacon.session.to_be_bytes());
                out.extend_from_slice(&beacon.hi.0.to_be_bytes());
                out.push(beacon.parities);
                out.extend_from_slice(&beacon.members.to_be_bytes());
                out.push(beacon.deficit);
                out.extend_from_slice(&beacon.rtt_us.to_be_bytes());
            }
        }
    }

    /// Reads the header at the front of `bytes`, and gives it with the rest.
    ///
    /// # Errors
    /// The octets are no header, or a message without content is followed by octets.
    pub fn decode(bytes: &[u8]) -> Result<(Head, &[u8]), HeadError> {
        let len = bytes.len();
        let mut input = Input { rest: bytes, len };
        let [first] = input.take()?;
        let (kind, layer) = ((first & !MARK) >> 2, first & 3);
        let carries = matches!(kind, DATA | REPAIR | SHARED | PARITY | PART);
        let has_layer = carries && kind != PART;
        if first & MARK != MARK || (!has_layer && layer > u8::from(kind == MARKER)) {
            return Err(HeadError::Kind(first));
        }
        let layer = *Layer::ALL
            .get(usize::from(layer))
            .ok_or(HeadError::Kind(first))?;
        let head = match kind {
            DATA => Head::Data {
                session: input.u16()?,
                counter: input.serial()?,
                layer,
            },
            REPAIR => Head::Repair {
                session: input.u8()?,
                counter: input.u24()?,
                layer,
                back: match input.u16()? {
                    0 => return Err(HeadError::Field("distance")),
                    back => back,
                },
            },
            MARKER => Head::Marker {
                session: input.u16()?,
                hi: input.serial()?,
                every_ms: input.u8()?,
                rtt_us: input.u24()?,
                asks: layer == Layer::E1,
            },
            SHARED => Head::Shared {
                session: input.u16()?,
                counter: input.serial()?,
                layer,
                parities: input.u8()?,
            },
            PARITY => Head::Parity(Parity::read(&mut input, layer)?),
            BEACON => Head::Beacon(Beacon::read(&mut input)?),
            PART => {
                let (session, number) = (input.u16()?, input.u16()?);
                let (index, count) = (input.u8()?, input.u8()?);
                if !(2..=MAX_PARTS).contains(&count) || index >= count {
                    return Err(HeadError::Field("number of parts"));
                }
                Head::Part {
                    session,
                    number,
                    index,
                    count,
                }
            }
            _ => Head::Feedback(Feedback::read(&mut input)?),
        };
        match input.rest.len() {
            left if left > 0 && !carries => Err(HeadError::Trailing(left)),
            _ => Ok((head, input.rest)),
        }
    }
}

impl Parity {
    /// Octets of the contents on the wire.
    fn mask_len(&self) -> usize {
        (u128::BITS - self.contents.leading_zeros()).div_ceil(8) as usize
    }

    fn encode_into(&self, out: &mut Vec<u8>) {
        debug_assert!(self.contents & 1 == 1 && self.contents >> SPREAD == 0);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&self.counter.0.to_be_bytes());
        out.push(self.parities);
        out.extend_from_slice(&self.back.to_be_bytes());
        out.extend_from_slice(&[self.index, self.until, self.mask_len() as u8]);
        out.extend_from_slice(&self.contents.to_le_bytes()[..self.mask_len()]);
    }

    fn read(input: &mut Input<'_>, layer: Layer) -> Result<Parity, HeadError> {
        let mut parity = Parity {
            session: input.u16()?,
            counter: input.serial()?,
            layer,
            parities: input.u8()?,
            back: input.u16()?,
            index: input.u8()?,
            until: input.u8()?,
            contents: 0,
        };
        let len = usize::from(input.u8()?);
        if len > SPREAD / 8 {
            return Err(HeadError::Field("number of contents"));
        }
        let mut mask = [0; 16];
        for octet in &mut mask[..len] {
            *octet = input.u8()?;
        }
        parity.contents = u128::from_le_bytes(mask);
        // Each parity has one form only.
        if parity.contents & 1 == 0 || parity.mask_len() != len {
            return Err(HeadError::Field("contents"));
        }
        if parity.back == 0 {
            return Err(HeadError::Field("distance"));
        }
        match parity.index < parity.until {
            true => Ok(parity),
            false => Err(HeadError::Field("number")),
        }
    }
}

impl Beacon {
    fn read(input: &mut Input<'_>) -> Result<Beacon, HeadError> {
        let beacon = Beacon {
            session: input.u16()?,
            hi: input.serial()?,
            parities: input.u8()?,
            members: input.u16()?,
            deficit: input.u8()?,
            rtt_us: input.serial()?.0,
        };
        match beacon.members > 0 && beacon.deficit > 0 {
            true => Ok(beacon),
            false => Err(HeadError::Field("number of members")),
        }
    }
}

impl Feedback {
    fn encode_into(&self, out: &mut Vec<u8>) {
        debug_assert!(self.missing.len() <= MAX_RANGES && self.arrivals.len() <= MAX_ARRIVALS);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&self.tx_us.0.to_be_bytes());
        out.extend_from_slice(&self.hi.0.to_be_bytes());
        out.extend_from_slice(&self.known.to_be_bytes());
        out.extend_from_slice(&self.window_us.to_be_bytes());
        let budget = self.budget_ms.map_or(NO_BUDGET, |ms| ms.min(NO_BUDGET - 1));
        out.extend_from_slice(&budget.to_be_bytes());
        out.push(self.next_ms);
        out.push(self.missing.len() as u8);
        out.push(self.arrivals.len() as u8);
        for range in &self.missing {
            debug_assert!((1..=MAX_LEN).contains(&range.len));
            let flag = if range.requested { MAX_LEN + 1 } else { 0 };
            out.extend_from_slice(&range.back.to_be_bytes());
            out.extend_from_slice(&(range.len | flag).to_be_bytes());
        }
        for arrival in &self.arrivals {
            out.extend_from_slice(&arrival.back.to_be_bytes());
            out.extend_from_slice(&arrival.ago_us.min(MAX_24).to_be_bytes()[1..]);
        }
    }

    fn read(input: &mut Input<'_>) -> Result<Feedback, HeadError> {
        let mut feedback = Feedback {
            session: input.u16()?,
            tx_us: input.serial()?,
            hi: input.serial()?,
            known: input.u16()?,
            window_us: input.serial()?.0,
            budget_ms: Some(input.u16()?).filter(|&ms| ms != NO_BUDGET),
            next_ms: input.u8()?,
            missing: Vec::new(),
            arrivals: Vec::new(),
        };
        let [ranges, arrivals] = input.take()?.map(usize::from);
        if ranges > MAX_RANGES {
            return Err(HeadError::Field("number of ranges"));
        }
        if arrivals > MAX_ARRIVALS {
            return Err(HeadError::Field("number of arrival times"));
        }
        // Distance from `hi` that the next range must stay below: ranges ascend and lie within what is known.
        let mut below = u32::from(feedback.known);
        for _ in 0..ranges {
            let (back, len) = (input.u16()?, input.u16()?);
            let range = Missing {
                back,
                len: len & MAX_LEN,
                requested: len > MAX_LEN,
            };
            let within = u32::from(back) < below && u32::from(range.len) <= u32::from(back) + 1;
            if range.len == 0 || !within {
                return Err(HeadError::Field("range"));
            }
            below = (u32::from(back) + 1) - u32::from(range.len);
            feedback.missing.push(range);
        }
        for _ in 0..arrivals {
            let arrival = Arrival {
                back: input.u16()?,
                ago_us: input.u24()?,
            };
            feedback.arrivals.push(arrival);
        }
        Ok(feedback)
    }
}

/// Octets that are read from the front.
struct Input<'a> {
    rest: &'a [u8],
    len: usize,
}

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], HeadError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(HeadError::Short(self.len))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, HeadError> {
        self.take::<1>().map(|[octet]| octet)
    }

    fn u16(&mut self) -> Result<u16, HeadError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u24(&mut self) -> Result<u32, HeadError> {
        let [a, b, c] = self.take()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    fn serial(&mut self) -> Result<Serial, HeadError> {
        self.take().map(|octets| Serial(u32::from_be_bytes(octets)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_24_bits_survive_the_wrap() {
        for near in [
            0_u64,
            5,
            1 << 23,
            (1 << 24) - 1,
            1 << 24,
            (1 << 32) + 7,
            1 << 40,
        ] {
            for ahead in [-(1_i64 << 23) + 1, -70_000, -1, 0, 1, 70_000, (1 << 23) - 1] {
                let counter = near.checked_add_signed(ahead);
                let low = (near as u32).wrapping_add(ahead as u32) & MAX_24;
                assert_eq!(expand_24(low, near), counter, "{near} {ahead}");
            }
        }
    }
}
