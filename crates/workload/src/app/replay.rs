use std::sync::Arc;

use layercast_core::{Span, Time, earliest};

use super::tally::Tally;
use super::{AppInput, Application, HostId, Media, Out};

/// Largest payload of a UDP datagram over IPv4 (RFC 768).
pub(crate) const MAX_DATAGRAM: u32 = 65_507;

/// A recorded stream of datagrams: when each was sent, from the first on, and its payload in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    packets: Vec<(Span, u32)>,
}

/// What is wrong with a trace, and in which line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// A line that is not two numbers.
    #[error("line {0}: expected a time in seconds and a payload in bytes, separated by a comma")]
    Syntax(usize),
    /// Time goes back, or is no time.
    #[error("line {0}: times must be finite, not negative, and not go back")]
    Order(usize),
    /// No datagram is so large, or so small.
    #[error("line {0}: a payload has 1 to 65507 bytes")]
    Size(usize),
    /// Nothing there.
    #[error("the trace is empty")]
    Empty,
}

/// Longest trace, in seconds.
const LONGEST: f64 = 1e7;

impl Trace {
    /// Reads `seconds,bytes` lines; `#` starts a comment, a first line of words is a heading.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut packets: Vec<(Span, u32)> = Vec::new();
        let mut zero = None;
        for (index, line) in text.lines().enumerate() {
            let n = index + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (time, size) = line.split_once(',').ok_or(TraceError::Syntax(n))?;
            let number = |field: &str| field.trim().parse::<f64>().is_ok();
            if packets.is_empty() && !number(time) && !number(size) {
                continue;
            }
            let seconds: f64 = time.trim().parse().map_err(|_| TraceError::Syntax(n))?;
            let size: u32 = size.trim().parse().map_err(|_| TraceError::Syntax(n))?;
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(TraceError::Order(n));
            }
            if !(1..=MAX_DATAGRAM).contains(&size) {
                return Err(TraceError::Size(n));
            }
            // Times may be those of a clock: they count from the first.
            let since = seconds - *zero.get_or_insert(seconds);
            if !(0.0..LONGEST).contains(&since) {
                return Err(TraceError::Order(n));
            }
            let at = Span::from_secs_f64(since);
            if packets.last().is_some_and(|last| at < last.0) {
                return Err(TraceError::Order(n));
            }
            packets.push((at, size));
        }
        match packets.is_empty() {
            true => Err(TraceError::Empty),
            false => Ok(Trace { packets }),
        }
    }

    /// When each datagram was sent, from the first on, and its payload in bytes.
    pub fn packets(&self) -> &[(Span, u32)] {
        &self.packets
    }
}

/// A recorded stream, sent again as it was: an open loop.
#[derive(Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    tally: Tally,
    started: Time,
    index: usize,
    next: Option<Time>,
    out: Out,
}

impl Replay {
    /// The trace from one host to another; datagrams under way for longer than `bound` are overdue.
    pub fn new(trace: Arc<Trace>, from: HostId, to: HostId, bound: Span) -> Replay {
        Replay {
            trace,
            tally: Tally::new(Media::Trace, from, to, bound),
            started: Time::ZERO,
            index: 0,
            next: None,
            out: Out::default(),
        }
    }
}

impl Application for Replay {
    fn input(&mut self, now: Time, input: AppInput) {
        if input == AppInput::Start {
            self.started = now;
            self.next = Some(now);
        }
        self.tally.input(now, input);
    }

    fn wake(&mut self, now: Time) {
        self.tally.wake(now, &mut self.out);
        while let Some(due) = self.next.filter(|&next| next <= now) {
            if let Some(&(_, size)) = self.trace.packets.get(self.index) {
                self.tally.send(size, &mut self.out);
            }
            self.index += 1;
            let following = self.trace.packets.get(self.index);
            self.next = following.map(|&(at, _)| self.started.saturating_add(at));
            if self.next.is_none() {
                self.tally.stop(due);
            }
        }
    }

    fn next(&self) -> Option<Time> {
        earliest(self.next, self.tally.next())
    }

    fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    fn is_done(&self) -> bool {
        self.tally.is_done()
    }
}
