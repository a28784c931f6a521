use layercast_core::Span;
use layercast_wire::multicast::MemberId;

use crate::receipt::{announcement_key, member_key};

/// Configuration of an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregatorConfig {
    /// Its own member id, towards the sender.
    pub member: MemberId,
    /// Incarnation number: another one after each restart.
    pub incarnation: u32,
    /// Number of receivers after which it stops waiting for more; `None`: it waits for `wait`.
    pub expect: Option<u32>,
    /// Largest number of receivers.
    pub most: u32,
    /// Time to wait for answers beyond their back-off; multiplied by the number of polls so far.
    pub wait: Span,
    /// Interval between polls to single receivers.
    pub delta: Span,
    /// How often a silent receiver is polled; the n-th time by n polls.
    pub tries: u32,
    /// Key of its receipts; receipts of its receivers end here.
    pub receipt_key: Option<[u8; 32]>,
    /// Key of announcements ([`announcement_key`](crate::announcement_key)); others are rejected.
    pub announcement_key: Option<[u8; 32]>,
}

impl AggregatorConfig {
    /// An aggregator for `expect` receivers that waits 100 ms and polls six times, 200 µs apart.
    pub fn new(member: MemberId, expect: u32) -> AggregatorConfig {
        AggregatorConfig {
            member,
            incarnation: 1,
            expect: Some(expect),
            most: expect.saturating_mul(2),
            wait: Span::from_ms(100),
            delta: Span::from_us(200),
            tries: 6,
            receipt_key: None,
            announcement_key: None,
        }
    }

    /// Sets the keys of receipts and announcements from the master key shared with senders, if there is one.
    pub fn with_key(self, master: Option<&[u8; 32]>) -> AggregatorConfig {
        AggregatorConfig {
            receipt_key: master.map(|key| member_key(key, self.member)),
            announcement_key: master.map(announcement_key),
            ..self
        }
    }
}
