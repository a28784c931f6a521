//! POC_R: what a receiver knows of one flow.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{Serial, Span, Time};

use crate::config::FlowConfig;
use crate::event::ReceiverStats;
use crate::explain::Held;
use crate::tolerance::Account;

/// Settled numbers whose outcome is remembered, to tell late SDUs from duplicates.
const PAST: usize = 256;

/// State of an SDU at the receiver (specs/partial-order-transport.md 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing is known of it.
    Unknown,
    /// Sent and not arrived, undecided, since this time.
    Missing(Time),
    /// Arrived, waits.
    Buffered,
    Delivered,
    Lost,
}

impl State {
    pub(super) fn is_settled(self) -> bool {
        matches!(self, State::Delivered | State::Lost)
    }

    pub(super) fn is_absent(self) -> bool {
        matches!(self, State::Unknown | State::Missing(_))
    }
}

/// An SDU that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) payload: Bytes,
    /// Whether the number has no SDU.
    pub(super) skip: bool,
    pub(super) arrived: Time,
    /// Until when it waits for missing predecessors.
    pub(super) patience: Time,
    pub(super) held: Vec<Held>,
}

#[derive(Debug)]
pub(super) struct FlowReceiver {
    pub(super) initial: Serial,
    pub(super) max_sdu: usize,
    pub(super) hold: Span,
    pub(super) playout: Option<Span>,
    /// All numbers below are settled.
    pub(super) base: u64,
    states: VecDeque<State>,
    /// Outcomes of the last numbers below `base`, the newest last; true is lost.
    past: VecDeque<bool>,
    /// Adjacent losses that end at `base`.
    run: u64,
    /// Numbers below were sent: one more than the paper's `last_received`.
    pub(super) seen: u64,
    /// Numbers from here on are never sent.
    pub(super) end: Option<u64>,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    pub(super) account: Account,
    pub(super) got_data: bool,
    pub(super) stats: ReceiverStats,
}

impl FlowReceiver {
    pub(super) fn new(config: &FlowConfig) -> FlowReceiver {
        FlowReceiver {
            initial: config.initial,
            max_sdu: usize::from(config.max_sdu),
            hold: config.playout.unwrap_or(config.grace),
            playout: config.playout,
            base: 0,
            states: VecDeque::new(),
            past: VecDeque::new(),
            run: 0,
            seen: 0,
            end: None,
            waiting: BTreeMap::new(),
            account: Account::new(config.tolerance),
            got_data: false,
            stats: ReceiverStats::default(),
        }
    }

    #[inline]
    pub(super) fn state(&self, number: u64) -> State {
        match number.checked_sub(self.base) {
            None if self.was_lost(number) => State::Lost,
            None => State::Delivered,
            Some(at) => self
                .states
                .get(at as usize)
                .copied()
                .unwrap_or(State::Unknown),
        }
    }

    /// Whether a number below the base was lost; numbers too long ago count as delivered.
    fn was_lost(&self, number: u64) -> bool {
        let back = (self.base - number) as usize;
        self.past
            .len()
            .checked_sub(back)
            .is_some_and(|at| self.past[at])
    }

    /// Settled, or never sent.
    #[inline]
    pub(super) fn is_done(&self, number: u64) -> bool {
        self.end.is_some_and(|end| number >= end) || self.state(number).is_settled()
    }

    pub(super) fn set(&mut self, number: u64, state: State) {
        let Some(at) = number.checked_sub(self.base) else {
            return;
        };
        let at = at as usize;
        if at >= self.states.len() {
            self.states.resize(at + 1, State::Unknown);
        }
        self.states[at] = state;
        while let Some(first) = self.states.front().filter(|it| it.is_settled()) {
            let lost = *first == State::Lost;
            self.run = if lost { self.run + 1 } else { 0 };
            if self.past.len() == PAST {
                self.past.pop_front();
            }
            self.past.push_back(lost);
            self.states.pop_front();
            self.base += 1;
        }
    }

    /// Numbers below `upto` were sent.
    pub(super) fn notice(&mut self, upto: u64, now: Time) {
        for number in self.seen.max(self.base)..upto {
            if self.state(number) == State::Unknown {
                self.set(number, State::Missing(now));
            }
        }
        self.seen = self.seen.max(upto);
    }

    /// Appends all undecided numbers below `seen`.
    pub(super) fn missing(&self, upto: u64, list: &mut Vec<u64>) {
        let upto = upto.min(self.seen).min(self.end.unwrap_or(u64::MAX));
        list.extend((self.base..upto).filter(|&number| self.state(number).is_absent()));
    }

    /// Whether the flow tolerates the loss of these numbers, in ascending order, too.
    pub(super) fn accepts(&self, lost: &[u64]) -> bool {
        self.account
            .permits(lost.len() as u64, || self.longest_run(lost))
    }

    fn longest_run(&self, lost: &[u64]) -> u64 {
        let (Some(_), Some(&last)) = (lost.first(), lost.last()) else {
            return 0;
        };
        let (mut run, mut longest, mut among) = (self.run, 0, false);
        let mut next = lost.iter().peekable();
        let mut number = self.base;
        loop {
            let new = next.next_if(|&&it| it == number).is_some();
            if new || self.state(number) == State::Lost {
                run += 1;
                among |= new;
                if among {
                    longest = longest.max(run);
                }
            } else {
                (run, among) = (0, false);
                if number > last {
                    return longest;
                }
            }
            number += 1;
        }
    }

    /// How many SDUs the states span; bounds the memory.
    pub(super) fn span(&self, number: u64) -> u64 {
        number.saturating_sub(self.base)
    }
}
