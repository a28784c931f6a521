use std::collections::VecDeque;

use layercast_core::{Span, Time};
use thiserror::Error;

use super::{Message, SignalCell};

/// Configuration of a channel between neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoBackNConfig {
    /// Largest number of unacknowledged messages (8; at least 1, at most 127).
    pub window: u8,
    /// Initial retransmission time-out (250 ms).
    pub timeout: Span,
    /// Longest time-out; each expiry doubles it (2 s).
    pub max_timeout: Span,
    /// Largest number of queued messages, including unacknowledged ones (1,024).
    pub queue: usize,
}

impl Default for GoBackNConfig {
    fn default() -> GoBackNConfig {
        GoBackNConfig {
            window: 8,
            timeout: Span::from_ms(250),
            max_timeout: Span::from_secs(2),
            queue: 1_024,
        }
    }
}

/// The queue of a channel is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the signalling channel has {0} messages waiting")]
pub struct ChannelFull(pub usize);

/// Counters of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GoBackNStats {
    /// Messages sent, without retransmissions.
    pub sent: u64,
    /// Retransmissions.
    pub repeated: u64,
    /// Messages received in order.
    pub received: u64,
    /// Duplicates, and messages out of order.
    pub out_of_order: u64,
    /// Acknowledgements of messages that were not sent.
    pub bad_acks: u64,
}

impl GoBackNStats {
    /// Adds the counters of another channel.
    pub(super) fn add(&mut self, other: GoBackNStats) {
        self.sent += other.sent;
        self.repeated += other.repeated;
        self.received += other.received;
        self.out_of_order += other.out_of_order;
        self.bad_acks += other.bad_acks;
    }
}

/// A reliable channel to the neighbour: one message per cell, in order, retransmitted until it is acknowledged
/// (specs/insane-simulator.md 2.5).
#[derive(Debug)]
pub struct GoBackN {
    config: GoBackNConfig,
    /// Unacknowledged messages: `sent` in transit, then those that wait.
    queue: VecDeque<Message>,
    sent: usize,
    /// Index of the next message to send; less than `sent` after a time-out.
    next: usize,
    /// Sequence number of the first message in the queue.
    base: u8,
    timeout: Span,
    timer: Option<Time>,
    /// Sequence number of the next message to receive.
    expected: u8,
    ack_due: bool,
    stats: GoBackNStats,
}

impl GoBackN {
    /// Creates a channel; both ends start at sequence number zero.
    pub fn new(mut config: GoBackNConfig) -> GoBackN {
        config.window = config.window.clamp(1, 127);
        // A time-out of zero would expire without end at one time.
        config.timeout = config.timeout.max(Span::from_us(1));
        config.max_timeout = config.max_timeout.max(config.timeout);
        GoBackN {
            config,
            queue: VecDeque::new(),
            sent: 0,
            next: 0,
            base: 0,
            timeout: config.timeout,
            timer: None,
            expected: 0,
            ack_due: false,
            stats: GoBackNStats::default(),
        }
    }

    /// Counters since the start.
    pub fn stats(&self) -> GoBackNStats {
        self.stats
    }

    /// Number of waiting and unacknowledged messages.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether all messages are acknowledged.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the queue is full.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= self.config.queue
    }

    /// Queues a message, unless the queue is full.
    pub fn send(&mut self, message: Message) -> Result<(), ChannelFull> {
        if self.is_full() {
            return Err(ChannelFull(self.queue.len()));
        }
        self.send_always(message);
        Ok(())
    }

    /// Queues a message in any case, for messages whose number is bounded otherwise.
    pub(super) fn send_always(&mut self, message: Message) {
        self.queue.push_back(message);
    }

    /// Processes a cell from the neighbour; returns its message if it is the next one.
    pub fn receive(&mut self, now: Time, cell: SignalCell) -> Option<Message> {
        match cell {
            SignalCell::Data { seq, message } => {
                self.ack_due = true;
                if seq != self.expected {
                    self.stats.out_of_order += 1;
                    return None;
                }
                self.expected = self.expected.wrapping_add(1);
                self.stats.received += 1;
                Some(message)
            }
            SignalCell::Ack { seq } => {
                self.acknowledged(now, usize::from(seq.wrapping_sub(self.base)));
                None
            }
        }
    }

    fn acknowledged(&mut self, now: Time, count: usize) {
        if count > self.sent {
            self.stats.bad_acks += 1;
        } else if count > 0 {
            self.queue.drain(..count);
            self.sent -= count;
            self.next = self.next.saturating_sub(count);
            self.base = self.base.wrapping_add(count as u8);
            self.timeout = self.config.timeout;
            self.timer = (self.sent > 0).then(|| now.saturating_add(self.timeout));
        }
    }

    /// Goes back to the first unacknowledged message if the time-out has expired.
    pub fn on_timeout(&mut self, now: Time) {
        if self.timer.is_some_and(|due| due <= now) {
            self.next = 0;
            self.timeout = self.timeout.times(2).min(self.config.max_timeout);
            self.timer = Some(now.saturating_add(self.timeout));
        }
    }

    /// Returns the next cell to send.
    pub fn poll(&mut self, now: Time) -> Option<SignalCell> {
        if self.ack_due {
            self.ack_due = false;
            return Some(SignalCell::Ack { seq: self.expected });
        }
        if self.next >= usize::from(self.config.window) {
            return None;
        }
        let message = *self.queue.get(self.next)?;
        let seq = self.base.wrapping_add(self.next as u8);
        self.next += 1;
        if self.next > self.sent {
            self.sent = self.next;
            self.stats.sent += 1;
        } else {
            self.stats.repeated += 1;
        }
        if self.timer.is_none() {
            self.timer = Some(now.saturating_add(self.timeout));
        }
        Some(SignalCell::Data { seq, message })
    }

    /// When [`GoBackN::on_timeout`] must be called.
    pub fn next_timeout(&self) -> Option<Time> {
        self.timer
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Stream;
    use proptest::prelude::*;

    use super::*;
    use crate::AtmAddress;
    use crate::signal::{Body, CallId};

    fn message(number: u32) -> Message {
        Message {
            call: CallId {
                origin: AtmAddress(1),
                number,
            },
            body: Body::Connect,
        }
    }

    #[test]
    fn the_window_is_eight_and_the_wait_doubles_to_two_seconds() {
        let mut channel = GoBackN::new(GoBackNConfig::default());
        let mut now = Time::ZERO;
        for number in 0..20 {
            channel.send(message(number)).unwrap();
        }
        let mut waits = Vec::new();
        for _ in 0..6 {
            let seqs: Vec<SignalCell> = std::iter::from_fn(|| channel.poll(now)).collect();
            let data = |n: u8| SignalCell::Data {
                seq: n,
                message: message(n.into()),
            };
            assert_eq!(seqs, (0..8).map(data).collect::<Vec<_>>());
            let due = channel.next_timeout().unwrap();
            waits.push(due.since(now).as_ms());
            now = due;
            channel.on_timeout(now);
        }
        assert_eq!(waits, [250, 500, 1_000, 2_000, 2_000, 2_000]);
        // Progress resets the time-out and opens the window.
        assert_eq!(channel.receive(now, SignalCell::Ack { seq: 3 }), None);
        assert_eq!(channel.next_timeout(), Some(now + Span::from_ms(250)));
        assert_eq!(std::iter::from_fn(|| channel.poll(now)).count(), 8);
        assert_eq!(channel.stats().sent, 11);
    }

    #[test]
    fn a_full_queue_says_so_and_bad_acks_are_counted() {
        let mut channel = GoBackN::new(GoBackNConfig {
            queue: 2,
            ..GoBackNConfig::default()
        });
        channel.send(message(0)).unwrap();
        channel.send(message(1)).unwrap();
        assert_eq!(channel.send(message(2)), Err(ChannelFull(2)));
        // Nothing was sent yet: there is nothing to acknowledge.
        channel.receive(Time::ZERO, SignalCell::Ack { seq: 1 });
        assert_eq!((channel.len(), channel.stats().bad_acks), (2, 1));
    }

    proptest! {
        #[test]
        fn every_message_arrives_once_and_in_order(
            seed: u64,
            loss in 0.0..0.6f64,
            count in 1..400u32,
        ) {
            let mut stream = Stream::new(seed, "loss");
            let mut ends = [(); 2].map(|()| GoBackN::new(GoBackNConfig::default()));
            let mut now = Time::ZERO;
            let mut received = [Vec::new(), Vec::new()];
            for number in 0..count {
                ends[0].send(message(number)).unwrap();
                ends[1].send(message(number + 1_000)).unwrap();
            }
            while ends.iter().any(|end| !end.is_empty()) {
                let mut quiet = true;
                for from in 0..2 {
                    while let Some(cell) = ends[from].poll(now) {
                        quiet = false;
                        if !stream.chance(loss) {
                            received[1 - from].extend(ends[1 - from].receive(now, cell));
                        }
                    }
                }
                if quiet {
                    now = ends.iter().filter_map(GoBackN::next_timeout).min().unwrap();
                    ends.iter_mut().for_each(|end| end.on_timeout(now));
                }
            }
            prop_assert_eq!(&received[1], &(0..count).map(message).collect::<Vec<_>>());
            prop_assert_eq!(&received[0], &(0..count).map(|n| message(n + 1_000)).collect::<Vec<_>>());
        }

        #[test]
        fn any_cells_in_any_order_are_survived(cells in prop::collection::vec(any::<(bool, u8)>(), 0..300)) {
            let mut channel = GoBackN::new(GoBackNConfig { queue: 10, ..GoBackNConfig::default() });
            for (data, seq) in cells {
                let cell = if data {
                    SignalCell::Data { seq, message: message(0) }
                } else {
                    SignalCell::Ack { seq }
                };
                channel.receive(Time::ZERO, cell);
                let _ = channel.send(message(1));
                while channel.poll(Time::ZERO).is_some() {}
                prop_assert!(channel.len() <= 10 && channel.sent <= 8);
            }
        }
    }
}
