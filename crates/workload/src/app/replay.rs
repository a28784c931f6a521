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

/// Longest trace: 10^7 s.
const LONGEST: Span = Span::from_secs(10_000_000);
/// Latest time of a trace, in seconds from its zero; 1970 is one.
const LATEST_SECS: f64 = 1e12;

/// A decimal number of seconds in picoseconds, exact for plain decimal numbers.
fn picoseconds(text: &str) -> Option<i128> {
    let seconds: f64 = text
        .parse()
        .ok()
        .filter(|it: &f64| it.abs() < LATEST_SECS)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Some((seconds * 1e12) as i128);
    }
    let fraction = &fraction[..fraction.len().min(12)];
    let below: i128 = format!("{fraction:0<12}").parse().ok()?;
    Some(whole.parse::<i128>().ok()? * 1_000_000_000_000 + below)
}

/// What is wrong with a trace, and in which line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// A line that is not two numbers.
    #[error("line {0}: expected a time in seconds and a payload in bytes, separated by a comma")]
    Syntax(usize),
    /// A time that is not finite, or too far from the first.
    #[error(
        "line {0}: expected a time in seconds, relative or since 1970, at most 115 days after the first"
    )]
    Range(usize),
    /// Time goes back.
    #[error("line {0}: the time is before that of the line above; sort the lines by time")]
    Order(usize),
    /// No datagram is so large, or so small.
    #[error("line {0}: expected a payload of 1 to 65507 bytes")]
    Size(usize),
    /// Nothing there.
    #[error("the trace is empty")]
    Empty,
}

impl Trace {
    /// Reads `seconds,bytes` lines; `#` starts a comment, a first line of words is a heading.
    ///
    /// Times count from the first one, so that both relative times and those since 1970 are read.
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
            let at = picoseconds(time.trim()).ok_or(TraceError::Syntax(n))?;
            let size: u32 = size.trim().parse().map_err(|_| TraceError::Syntax(n))?;
            if !(1..=MAX_DATAGRAM).contains(&size) {
                return Err(TraceError::Size(n));
            }
            // A difference of two finite times fits: both are bounded by `picoseconds`.
            let since = at - *zero.get_or_insert(at);
            if since < 0 {
                return Err(TraceError::Order(n));
            }
            if since > i128::from(LONGEST.as_ps()) {
                return Err(TraceError::Range(n));
            }
            let since = Span::from_ps(since as u64);
            if packets.last().is_some_and(|last| since < last.0) {
                return Err(TraceError::Order(n));
            }
            packets.push((since, size));
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
