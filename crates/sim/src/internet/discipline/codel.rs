//! Controlled delay (RFC 8289).

use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::{DropCause, Item, Port, QueueDiscipline, Setup};

/// What CoDel aims at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDelConfig {
    /// A queue that stays longer than this is a standing one.
    pub target: Span,
    /// For how long it stays above before the first drop: about the longest round trip.
    pub interval: Span,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CoDelConfig {
    /// Those of RFC 8289 4.2 and 4.3.
    fn default() -> CoDelConfig {
        CoDelConfig {
            target: Span::from_ms(5),
            interval: Span::from_ms(100),
            ecn: false,
        }
    }
}

/// A FIFO queue with CoDel.
#[derive(Debug)]
pub struct CoDel {
    queue: VecDeque<Item>,
    /// Bytes in it.
    bytes: u64,
    state: State,
}

/// The control law of one queue.
#[derive(Debug)]
pub(super) struct State {
    config: CoDelConfig,
    /// A queue of one packet is none to complain of.
    max_packet: u64,
    /// When the delay will have been above the target for an interval.
    first_above: Option<Time>,
    is_dropping: bool,
    drop_next: Time,
    /// Drops since it began to drop.
    count: u32,
    last_count: u32,
}

/// A queue that CoDel takes packets from.
pub(super) trait Backlog {
    /// The packet that waits longest, and how many bytes then remain.
    fn next(&mut self) -> Option<(Item, u64)>;
}

impl State {
    pub fn new(config: CoDelConfig, mtu: u32) -> State {
        State {
            config,
            max_packet: mtu.into(),
            first_above: None,
            is_dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// RFC 8289 5.5, and its use of marks as in Linux: one that marks sends the packet.
    pub fn dequeue(&mut self, queue: &mut impl Backlog, port: &mut Port<'_>) -> Option<Item> {
        let now = port.now();
        let (mut item, mut may_drop) = self.next(queue, now);
        if self.is_dropping {
            self.is_dropping = may_drop;
            while self.is_dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                let drop_next = self.control_law(self.drop_next);
                match self.signal(item, port) {
                    Some(marked) => {
                        self.drop_next = drop_next;
                        return Some(marked);
                    }
                    None => (item, may_drop) = self.next(queue, now),
                }
                match may_drop {
                    true => self.drop_next = drop_next,
                    false => self.is_dropping = false,
                }
            }
        } else if may_drop {
            match self.signal(item, port) {
                Some(marked) => item = Some(marked),
                None => (item, _) = self.next(queue, now),
            }
            self.is_dropping = true;
            // It stopped a short time ago: it continues about where it was.
            let recent = now
                < self
                    .drop_next
                    .saturating_add(self.config.interval.times(16));
            let delta = self.count.saturating_sub(self.last_count);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = self.control_law(now);
        }
        item
    }

    /// Marks a packet and returns it, or drops it.
    fn signal(&self, item: Option<Item>, port: &mut Port<'_>) -> Option<Item> {
        let mut item = item?;
        if self.config.ecn && item.mark() {
            return Some(item);
        }
        port.drop(item, DropCause::Early);
        None
    }

    /// The next packet, and whether it may be dropped (RFC 8289 5.6).
    fn next(&mut self, queue: &mut impl Backlog, now: Time) -> (Option<Item>, bool) {
        let Some((item, left)) = queue.next() else {
            self.first_above = None;
            return (None, false);
        };
        let may_drop = if now.since(item.since()) < self.config.target || left <= self.max_packet {
            self.first_above = None;
            false
        } else {
            let interval = self.config.interval;
            let since = self
                .first_above
                .get_or_insert_with(|| now.saturating_add(interval));
            now >= *since
        };
        (Some(item), may_drop)
    }

    /// The next drop is the sooner, the more there were (RFC 8289 3.3).
    fn control_law(&self, at: Time) -> Time {
        let interval = self.config.interval.as_ps() as f64;
        let gap = interval / libm::sqrt(f64::from(self.count.max(1)));
        at.saturating_add(Span::from_ps(gap as u64))
    }
}

impl CoDel {
    /// For a link.
    pub fn new(config: CoDelConfig, setup: &Setup) -> CoDel {
        CoDel {
            queue: VecDeque::new(),
            bytes: 0,
            state: State::new(config, setup.mtu),
        }
    }
}

/// A FIFO queue and its bytes.
struct Fifo<'a>(&'a mut VecDeque<Item>, &'a mut u64);

impl Backlog for Fifo<'_> {
    fn next(&mut self) -> Option<(Item, u64)> {
        let item = self.0.pop_front()?;
        *self.1 -= u64::from(item.bytes());
        Some((item, *self.1))
    }
}

impl QueueDiscipline for CoDel {
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>) {
        if port.is_over_limit() {
            return port.drop(item, DropCause::Full);
        }
        self.bytes += u64::from(item.bytes());
        self.queue.push_back(item);
    }

    fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item> {
        let mut queue = Fifo(&mut self.queue, &mut self.bytes);
        self.state.dequeue(&mut queue, port)
    }
}
