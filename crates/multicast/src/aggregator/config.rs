use layercast_core::Span;
use layercast_wire::multicast::MemberId;

use crate::receipt::{announcement_key, member_key};

/// What an aggregator is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregatorConfig {
    /// Its own name, towards the sender.
    pub member: MemberId,
    /// Distinguishes its lives.
    pub incarnation: u32,
    /// When so many receivers take part, no more are waited for; none: as long as `wait`.
    pub expect: Option<u32>,
    /// At most so many receivers.
    pub most: u32,
    /// How long it waits for answers, beside their back-off; n times as long when it has asked n times.
    pub wait: Span,
    /// Polls to single receivers are so far apart.
    pub delta: Span,
    /// How often a silent receiver is asked: the nth time by n polls.
    pub tries: u32,
    /// Key of its receipts: those of its receivers end here.
    pub receipt_key: Option<[u8; 32]>,
    /// Key of announcements ([`announcement_key`](crate::announcement_key)): others are not believed.
    pub announcement_key: Option<[u8; 32]>,
}

impl AggregatorConfig {
    /// An aggregator of this name for so many receivers: waits 100 ms, asks six times, 200 µs apart.
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

    /// With the master key that it shares with senders, if it does: of its receipts, and of the announcements that it
    /// believes.
    pub fn with_key(self, master: Option<&[u8; 32]>) -> AggregatorConfig {
        AggregatorConfig {
            receipt_key: master.map(|key| member_key(key, self.member)),
            announcement_key: master.map(announcement_key),
            ..self
        }
    }
}
