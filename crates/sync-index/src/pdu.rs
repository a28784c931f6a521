//! Probes and control messages, and their bytes; numbers are big-endian (specs/available-bandwidth.md 2.2).

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::config::Format;
use crate::outcome::{Estimate, Outcome};

/// Bytes of a compact probe.
pub const COMPACT: usize = 4;
/// Bytes of a full probe.
pub const FULL: usize = 24;
/// Bytes of each control message except [`Control::Report`]: a request is as long as its answer.
pub const CONTROL: usize = 40;
/// Bytes of a [`Control::Report`].
pub const REPORT: usize = 104;
/// Most slots whose omission one full probe states.
pub const MOST_SKIPPED: u32 = 63;

const PROBE_MAGIC: u16 = 0x5342;
const CONTROL_MAGIC: u16 = 0x5343;
const VERSION: u8 = 1;
const LATE: u8 = 1;
const FIN: u8 = 2;
const NONE: u64 = u64::MAX;

/// Why a datagram changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ProbeError {
    /// It has another length than its kind.
    #[error("{0} bytes are no probe and no control message")]
    Short(usize),
    /// It begins with something else.
    #[error("the datagram is no probe")]
    Magic,
    /// Another version of the protocol.
    #[error("version {0} of the probe protocol is unknown, this is version 1")]
    Version(u8),
    /// There is no such kind of control message, or a field of it has an impossible value.
    #[error("the control message of kind {0} is unknown or damaged")]
    Kind(u8),
    /// It belongs to another session, or there is none with its sender.
    #[error("the datagram belongs to another session")]
    Session,
    /// Its sender has not proved its address.
    #[error("the sender has not proved its address")]
    Unproved,
}

/// A packet of a train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Session; the lower half of it in a compact probe.
    pub session: u32,
    /// Number, modulo 2^16 in a compact probe.
    pub seq: u32,
    /// What only a full probe has.
    pub full: Option<FullPart>,
}

/// What a full probe has and a compact one does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullPart {
    /// It left later than a tenth of the period after its slot.
    pub late: bool,
    /// It is the last one.
    pub fin: bool,
    /// Slots before it that the sender left out, because it was itself too late (at most [`MOST_SKIPPED`]).
    pub skipped: u32,
    /// Period in microseconds.
    pub period_us: u32,
    /// Clock of the sender when it left, nanoseconds.
    pub sent_ns: u64,
}

/// Why a train is refused or stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The receiver takes trains of as many senders as it may.
    Busy,
    /// The period is outside of 1 ms to 1 s.
    Period,
    /// The train itself loads the path: probes arrive more slowly than they are sent.
    SelfCongestion,
    /// The receiver ends.
    Ended,
}

/// A control message.
#[derive(Clone, PartialEq, Debug)]
pub enum Control {
    /// The sender asks for permission; with the token of an [`Control::Ok`] it proves its address.
    Hello {
        /// Session.
        session: u32,
        /// Drawn by the sender: answers without it are forged.
        key: u64,
        /// Zero, or that of the answer.
        token: u64,
        /// Period in microseconds.
        period_us: u32,
        /// Format of the probes.
        format: Format,
    },
    /// The answer: the token, and whether the train may start.
    Ok {
        /// Session.
        session: u32,
        /// Of the hello.
        key: u64,
        /// What the next hello must contain.
        token: u64,
        /// Whether the train may start.
        accepted: bool,
    },
    /// The receiver wants no train, or no more of it.
    Stop {
        /// Session.
        session: u32,
        /// Of the hello.
        key: u64,
        /// Why.
        reason: Reason,
    },
    /// The sender ends.
    Fin {
        /// Session.
        session: u32,
        /// Of the hello.
        key: u64,
    },
    /// The last result of the receiver; also a sign of life.
    Report {
        /// Session.
        session: u32,
        /// Of the hello.
        key: u64,
        /// Number of the result; zero as long as there is none.
        number: u32,
        /// Age of the result in milliseconds.
        age_ms: u32,
        /// The result.
        outcome: Option<Outcome>,
    },
}

/// A probe or a control message.
#[derive(Clone, PartialEq, Debug)]
pub enum Pdu {
    /// A packet of a train.
    Probe(Probe),
    /// A control message.
    Control(Control),
}

impl Probe {
    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(FULL);
        match self.full {
            None => {
                out.put_u16(self.session as u16);
                out.put_u16(self.seq as u16);
            }
            Some(full) => {
                out.put_u16(PROBE_MAGIC);
                out.put_u8(VERSION);
                let flags = u8::from(full.late) * LATE + u8::from(full.fin) * FIN;
                out.put_u8(flags | (full.skipped.min(MOST_SKIPPED) as u8) << 2);
                out.put_u32(self.session);
                out.put_u32(self.seq);
                out.put_u32(full.period_us);
                out.put_u64(full.sent_ns);
            }
        }
        out.freeze()
    }
}

impl Control {
    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(REPORT);
        let mut head = |kind: u8, session: u32, key: u64| {
            out.put_u16(CONTROL_MAGIC);
            out.put_u8(VERSION);
            out.put_u8(kind);
            out.put_u32(session);
            out.put_u64(key);
        };
        let mut length = CONTROL;
        match self {
            Control::Hello {
                session,
                key,
                token,
                period_us,
                format,
            } => {
                head(1, *session, *key);
                out.put_u64(*token);
                out.put_u32(*period_us);
                out.put_u8(*format as u8);
            }
            Control::Ok {
                session,
                key,
                token,
                accepted,
            } => {
                head(2, *session, *key);
                out.put_u64(*token);
                out.put_u8(u8::from(*accepted));
            }
            Control::Stop {
                session,
                key,
                reason,
            } => {
                head(3, *session, *key);
                out.put_u8(*reason as u8);
            }
            Control::Fin { session, key } => head(4, *session, *key),
            Control::Report {
                session,
                key,
                number,
                age_ms,
                outcome,
            } => {
                head(5, *session, *key);
                out.put_u32(*number);
                out.put_u32(*age_ms);
                put_outcome(&mut out, outcome.as_ref());
                length = REPORT;
            }
        }
        debug_assert!(out.len() <= length);
        out.resize(length, 0);
        out.freeze()
    }
}

impl Pdu {
    /// What a datagram is.
    ///
    /// # Errors
    /// It is nothing of this protocol.
    pub fn decode(datagram: &[u8]) -> Result<Pdu, ProbeError> {
        let wrong = ProbeError::Short(datagram.len());
        if let [a, b, c, d] = *datagram {
            return Ok(Pdu::Probe(Probe {
                session: u32::from(u16::from_be_bytes([a, b])),
                seq: u32::from(u16::from_be_bytes([c, d])),
                full: None,
            }));
        }
        let mut rest = Reader(datagram);
        let magic = rest.u16().ok_or(wrong)?;
        if magic != PROBE_MAGIC && magic != CONTROL_MAGIC {
            return Err(ProbeError::Magic);
        }
        let (version, kind) = (rest.u8().ok_or(wrong)?, rest.u8().ok_or(wrong)?);
        if version != VERSION {
            return Err(ProbeError::Version(version));
        }
        let length = match (magic, kind) {
            (PROBE_MAGIC, _) => FULL,
            (_, 5) => REPORT,
            (_, 1..=4) => CONTROL,
            _ => return Err(ProbeError::Kind(kind)),
        };
        if datagram.len() != length {
            return Err(wrong);
        }
        match magic {
            PROBE_MAGIC => probe(rest, kind).map(Pdu::Probe).ok_or(wrong),
            _ => control(rest, kind)
                .map(Pdu::Control)
                .ok_or(ProbeError::Kind(kind)),
        }
    }
}

fn probe(mut rest: Reader<'_>, flags: u8) -> Option<Probe> {
    Some(Probe {
        session: rest.u32()?,
        seq: rest.u32()?,
        full: Some(FullPart {
            late: flags & LATE != 0,
            fin: flags & FIN != 0,
            skipped: u32::from(flags >> 2),
            period_us: rest.u32()?,
            sent_ns: rest.u64()?,
        }),
    })
}

fn control(mut rest: Reader<'_>, kind: u8) -> Option<Control> {
    let (session, key) = (rest.u32()?, rest.u64()?);
    Some(match kind {
        1 => Control::Hello {
            session,
            key,
            token: rest.u64()?,
            period_us: rest.u32()?,
            format: match rest.u8()? {
                0 => Format::Full,
                1 => Format::Compact,
                _ => return None,
            },
        },
        2 => Control::Ok {
            session,
            key,
            token: rest.u64()?,
            accepted: rest.flag()?,
        },
        3 => {
            let reasons = [
                Reason::Busy,
                Reason::Period,
                Reason::SelfCongestion,
                Reason::Ended,
            ];
            let reason = *reasons.get(usize::from(rest.u8()?))?;
            Control::Stop {
                session,
                key,
                reason,
            }
        }
        4 => Control::Fin { session, key },
        _ => Control::Report {
            session,
            key,
            number: rest.u32()?,
            age_ms: rest.u32()?,
            outcome: outcome(&mut rest)?,
        },
    })
}

/// A time in milliseconds as nanoseconds.
fn ns(ms: f64) -> u64 {
    (ms * 1e6).round().clamp(0.0, 1e18) as u64
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn put_outcome(out: &mut BytesMut, outcome: Option<&Outcome>) {
    match outcome {
        None => out.put_u8(0),
        Some(Outcome::Insufficient { loss_ppm }) => {
            out.put_u8(1);
            out.put_u32(*loss_ppm);
        }
        Some(Outcome::NoSignal { loss_ppm }) => {
            out.put_u8(2);
            out.put_u32(*loss_ppm);
        }
        Some(Outcome::Estimate(it)) => {
            out.put_u8(3);
            out.put_u32(it.loss_ppm);
            out.put_u8(u8::from(it.sender_unreliable) | u8::from(it.coarse_clock) << 1);
            out.put_u16(it.n);
            out.put_u16(it.m);
            out.put_u32((it.eps * 1e6).round() as u32);
            out.put_u32(it.period_us);
            out.put_u64(ns(it.xi_ms));
            out.put_u64(ns(it.mean_ms));
            out.put_u64(it.queue_ms.map_or(NONE, ns));
            out.put_u64(ns(it.floor_ms));
            out.put_u64(it.reordered);
            out.put_u64(it.lost);
        }
    }
}

fn outcome(rest: &mut Reader<'_>) -> Option<Option<Outcome>> {
    let kind = rest.u8()?;
    if kind == 0 {
        return Some(None);
    }
    let loss_ppm = rest.u32()?.min(1_000_000);
    Some(Some(match kind {
        1 => Outcome::Insufficient { loss_ppm },
        2 => Outcome::NoSignal { loss_ppm },
        3 => {
            let flags = rest.u8()?;
            let (n, m) = (rest.u16()?, rest.u16()?);
            let (eps, period_us) = (f64::from(rest.u32()?) / 1e6, rest.u32()?);
            let (xi_ms, mean_ms) = (ms(rest.u64()?), ms(rest.u64()?));
            let queue = rest.u64()?;
            Outcome::Estimate(Estimate {
                xi_ms,
                xi_over_period: xi_ms * 1e3 / f64::from(period_us.max(1)),
                mean_ms,
                queue_ms: (queue != NONE).then(|| ms(queue)),
                loss_ppm,
                floor_ms: ms(rest.u64()?),
                reordered: rest.u64()?,
                lost: rest.u64()?,
                n,
                m,
                eps,
                period_us,
                coarse_clock: flags & 2 != 0,
                sender_unreliable: flags & 1 != 0,
            })
        }
        _ => return None,
    }))
}

/// Reads numbers from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|it| it[0])
    }

    fn flag(&mut self) -> Option<bool> {
        self.u8().filter(|it| *it < 2).map(|it| it == 1)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}
