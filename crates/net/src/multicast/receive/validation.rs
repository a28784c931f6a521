//! Address validation of senders: a sender that announces a session must first return a token.

use std::collections::VecDeque;
use std::net::SocketAddr;

use layercast_core::{AddressBudgets, Span, Stream, Time};
use layercast_wire::multicast::{Body, Open, Packet};

use crate::multicast::tokens::Tokens;
use crate::random::random_number;

/// Addresses whose octets are counted.
const MOST_ADDRESSES: usize = 1 << 10;
/// Announcements that wait for their token at a time.
const MOST_WAITING: usize = 64;
/// How often a token is sent, and after how long again.
const TRIES: u32 = 4;
const AGAIN: Span = Span::from_ms(100);
/// The same if the session is announced again meanwhile: the token, or the answer, was lost.
const SOON: Span = Span::from_ms(20);
/// The longest back-off that an announcement may ask for.
const LONGEST: Span = Span::from_secs(60);

/// Address validation of senders: an address gets only a token until it has returned one.
#[derive(Debug)]
pub struct AddressValidation {
    /// The octets that may be sent to each address.
    pub budgets: AddressBudgets<SocketAddr>,
    tokens: Tokens,
    waiting: VecDeque<Waiting>,
    random: Stream,
}

/// An announcement whose sender has not sent back its token.
#[derive(Debug)]
struct Waiting {
    from: SocketAddr,
    packet: Packet,
    at: Time,
    /// When a token was sent last.
    sent: Time,
    tries: u32,
}

impl AddressValidation {
    /// No sender is known.
    pub fn new() -> AddressValidation {
        AddressValidation {
            budgets: AddressBudgets::new(MOST_ADDRESSES),
            tokens: Tokens::new(),
            waiting: VecDeque::new(),
            random: Stream::new(random_number(), "multicast/validation"),
        }
    }

    /// An announcement waits until its sender has sent back a token; of a newer one of the same session the newer one.
    pub fn wait_for(&mut self, now: Time, from: SocketAddr, packet: &Packet, open: &Open) {
        let same = |it: &&mut Waiting| it.from == from && it.packet.session == packet.session;
        if let Some(waiting) = self.waiting.iter_mut().find(same) {
            waiting.packet = packet.clone();
            if waiting.tries >= TRIES {
                (waiting.tries, waiting.at) = (0, now);
            } else if waiting.tries > 0 {
                waiting.at = waiting.at.min(waiting.sent + SOON);
            }
            return;
        }
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        // Many receivers get it: they do not answer simultaneously.
        let spread = Span::from_us(open.terms.spread_us.into()).min(LONGEST);
        let delay = Span::from_ps(self.random.below(spread.as_ps()));
        self.waiting.push_back(Waiting {
            from,
            packet: packet.clone(),
            at: now + delay,
            sent: Time::ZERO,
            tries: 0,
        });
        debug_assert!(self.waiting.len() <= MOST_WAITING);
    }

    /// The next token that is to be sent: where to, in which session.
    pub fn next(&mut self, now: Time) -> Option<(SocketAddr, u64, u64)> {
        let due = |it: &&mut Waiting| it.at <= now && it.tries < TRIES;
        let waiting = self.waiting.iter_mut().find(due)?;
        waiting.tries += 1;
        (waiting.sent, waiting.at) = (now, now + AGAIN);
        let (from, session) = (waiting.from, waiting.packet.session);
        Some((from, session, self.tokens.of(from, session)))
    }

    /// When the next token is to be sent.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.waiting.iter().filter(|it| it.tries < TRIES);
        due.map(|it| it.at).min()
    }

    /// A token came back: the announcement that waited for it, if it is the right one.
    pub fn came_back(&mut self, from: SocketAddr, session: u64, token: u64) -> Option<Packet> {
        if token != self.tokens.of(from, session) {
            return None;
        }
        self.budgets.validate(from);
        let is_it = |it: &Waiting| it.from == from && it.packet.session == session;
        let at = self.waiting.iter().position(is_it)?;
        let packet = self.waiting.remove(at)?.packet;
        debug_assert!(matches!(packet.body, Body::Open(_)));
        Some(packet)
    }
}
