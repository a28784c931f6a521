use serde::{Deserialize, Serialize};

use super::{Buffer, ModelError, Overflow, Round, any, check_group, round, within};

/// A pass counts only if at least half a packet is to be sent, on average.
const LEAST_PACKETS: f64 = 0.5;
/// Largest buffer and group for which overflow is computed.
const MOST_OVERFLOW: u64 = 1_000_000;

/// A session of RMTP in the paper's model (specs/rmtp-large-scale.md 2.8).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmtpModel {
    /// Receivers (N).
    pub receivers: u64,
    /// Receivers among them that lose packets, 100 in the paper's tests; `None`: all.
    #[serde(default)]
    pub lossy: Option<u64>,
    /// Packets of the object (M).
    pub packets: u64,
    /// Probability that a packet to a lossy receiver is lost (e).
    pub loss: f64,
    /// Packets per second (v).
    pub rate: f64,
    /// Turn-around time, seconds (TAT).
    pub tat: f64,
    /// Mean time between responses, seconds (delta).
    pub delta: f64,
    /// Surplus of the response timer, seconds (alpha).
    #[serde(default)]
    pub alpha: f64,
    /// Buffer of the server; `None`: nothing overflows.
    #[serde(default)]
    pub buffer: Option<Buffer>,
}

/// A pass, or the connection phase.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pass {
    /// Packets sent to all.
    pub packets: f64,
    /// Receivers that respond.
    pub receivers: f64,
    /// Polls of both attempts.
    pub polls: f64,
    /// Duration, seconds.
    pub seconds: f64,
    /// Packets that the server sends.
    pub sent: f64,
    /// Packets that the server receives.
    pub received: f64,
}

/// A complete session.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Session {
    /// The connection phase.
    pub connection: Pass,
    /// The passes, including the first.
    pub passes: Vec<Pass>,
    /// Time until all have everything, seconds, without the last release (T).
    pub seconds: f64,
    /// Packets that the server sends, including releases (PS).
    pub sent: f64,
    /// Packets that the server receives (PR).
    pub received: f64,
}

/// Cost of packets for the server's processor.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CpuCost {
    /// Time to send a packet, seconds.
    pub send: f64,
    /// Time to receive a packet, seconds.
    pub receive: f64,
    /// Fixed cost, seconds.
    pub once: f64,
}

impl CpuCost {
    /// System time of the paper's Sun workstation: receiving costs 3.3 times as much as sending.
    pub const SUN_1996: CpuCost = CpuCost {
        send: 7.0e-5,
        receive: 2.3e-4,
        once: 0.1,
    };

    /// Processor time of `session`, seconds (8).
    pub fn of(&self, session: &Session) -> f64 {
        self.send * session.sent + self.receive * session.received + self.once
    }
}

impl RmtpModel {
    /// The paper's object and network: 2000 packets of 1024 octets at 0.8 Mbit/s, TAT 100 ms, delta 3 ms from 1000
    /// receivers on, no surplus, no overflow.
    pub fn paper(receivers: u64, lossy: Option<u64>, loss: f64) -> RmtpModel {
        RmtpModel {
            receivers,
            lossy,
            packets: 2_000,
            loss,
            rate: 800_000.0 / 8.0 / 1_024.0,
            tat: 0.1,
            delta: if receivers < 1_000 { 0.0 } else { 0.003 },
            alpha: 0.0,
            buffer: None,
        }
    }

    /// Computes the session.
    ///
    /// Errors: a number out of range.
    pub fn session(&self) -> Result<Session, ModelError> {
        self.check()?;
        let overflow = self.overflow();
        let (lossy, all) = (self.lossy() as f64, self.receivers as f64);
        let connection = self.pass(1.0, all, lossy, &overflow);
        let mut passes = vec![self.pass(self.packets as f64, all, lossy, &overflow)];
        for k in 1.. {
            let left = self.round(k);
            if left.packets < LEAST_PACKETS {
                break;
            }
            passes.push(self.pass(left.packets, left.receivers, left.receivers, &overflow));
        }
        let sum = |of: fn(&Pass) -> f64| passes.iter().map(of).sum::<f64>();
        Ok(Session {
            seconds: connection.seconds + sum(|it| it.seconds),
            // There is a release after each pass, and every receiver answers one.
            sent: connection.sent + sum(|it| it.sent) + passes.len() as f64,
            received: connection.received + sum(|it| it.received) + all,
            connection,
            passes,
        })
    }

    /// What the lossy receivers lack before pass `k`.
    pub fn round(&self, k: u32) -> Round {
        round(self.packets as f64, self.lossy() as f64, self.loss, k)
    }

    /// The probability that at least one of `responses` overflows or is lost: Pol (1).
    fn any_missing(&self, responses: f64, lossy: f64, overflow: &Overflow) -> f64 {
        let lost = any(self.loss, lossy);
        let overflows = match responses > 0.0 {
            true => overflow.of(responses) / responses,
            false => 0.0,
        };
        lost + (1.0 - lost) * overflows
    }

    /// Sends `packets` to all, with a response of each of `receivers`, of which `lossy` lose packets: (2), (3), (5)
    /// and (6).
    fn pass(&self, packets: f64, receivers: f64, lossy: f64, overflow: &Overflow) -> Pass {
        let (e, v) = (self.loss, |x: f64| overflow.of(x));
        // One in e of the polls is lost with its answer: all polled receivers lose packets, or their answer
        // overflowed.
        let first = e * lossy + (1.0 - e) * v(receivers);
        let again = e * lossy + v(receivers) + v(first);
        let responses = receivers + v(receivers) + v(first);
        let waits = 1.0
            + self.any_missing(receivers, lossy, overflow)
            + self.any_missing(first, first, overflow);
        Pass {
            packets,
            receivers,
            polls: again,
            seconds: (packets + again) / self.rate
                + responses * self.delta
                + waits * (self.tat + self.alpha),
            sent: packets + again,
            received: receivers + (1.0 - e) * (v(receivers) + v(first)),
        }
    }

    fn lossy(&self) -> u64 {
        self.lossy
            .map_or(self.receivers, |it| it.min(self.receivers))
    }

    fn overflow(&self) -> Overflow {
        match self.buffer {
            Some(buffer) => {
                let load = 1.0 / (self.delta * buffer.service);
                Overflow::new(self.receivers as u32, buffer.packets, load)
            }
            None => Overflow::new(0, 1, 0.0),
        }
    }

    fn check(&self) -> Result<(), ModelError> {
        check_group(self.packets, self.receivers, self.loss)?;
        within("rate", self.rate, "more than 0", self.rate > 0.0)?;
        for (name, value) in [
            ("tat", self.tat),
            ("delta", self.delta),
            ("alpha", self.alpha),
        ] {
            within(name, value, "0 or more", value >= 0.0)?;
        }
        match self.buffer {
            Some(buffer) => {
                let states = u64::from(buffer.packets).saturating_mul(self.receivers);
                within(
                    "service",
                    buffer.service,
                    "more than 0",
                    buffer.service > 0.0,
                )?;
                within(
                    "buffer times receivers",
                    states as f64,
                    "1 to 1e9, with at most a million receivers",
                    (1..=super::MOST).contains(&states) && self.receivers <= MOST_OVERFLOW,
                )
            }
            None => Ok(()),
        }
    }
}
