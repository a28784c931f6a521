//! A link that carries packets of 1 kbit (specs/admission-control.md 2.10).

use std::collections::VecDeque;

use layercast_core::{Rate, Span, Time};

/// Bits of a packet.
pub(super) const PACKET: u64 = 1_000;

/// The queue of a link: first in, first out, without a limit.
#[derive(Debug)]
pub(super) struct Packets {
    link: Rate,
    late: Span,
    /// When the transmissions of the packets in the queue end.
    ends: VecDeque<Time>,
    pub highest: Span,
}

impl Packets {
    pub fn new(link: Rate, late: Span) -> Packets {
        Packets {
            link,
            late,
            ends: VecDeque::new(),
            highest: Span::ZERO,
        }
    }

    /// A packet enters the queue; whether it leaves later than promised.
    pub fn arrive(&mut self, now: Time) -> bool {
        let start = self.ends.back().copied().unwrap_or(now).max(now);
        let end = start.saturating_add(Span::from_secs(1).mul_div(PACKET, self.link.as_bps()));
        self.highest = self.highest.max(start.since(now));
        self.ends.push_back(end);
        end.since(now) > self.late
    }

    /// The end of the next transmission that ended until now.
    pub fn depart(&mut self, now: Time) -> Option<Time> {
        self.ends.front().filter(|end| **end <= now)?;
        self.ends.pop_front()
    }

    /// How long a packet waits that arrives now.
    pub fn delay(&self, now: Time) -> Span {
        self.ends.back().map_or(Span::ZERO, |end| end.since(now))
    }
}
