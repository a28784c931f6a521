use serde::{Deserialize, Serialize};

use crate::{Observer, Time};

/// Index of a port of a node; a host has one port per link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortId(pub u16);

impl PortId {
    /// The inner side of a node: the sources and sinks that live on it.
    pub const LOCAL: PortId = PortId(u16::MAX);
}

/// A protocol as a state machine that never touches a socket, a clock, a thread or global
/// randomness.
///
/// The driver (`sim` or `net`) keeps one rule: after every [`handle`](Machine::handle) and
/// [`on_timeout`](Machine::on_timeout), drain [`poll_transmit`](Machine::poll_transmit) and
/// [`poll_event`](Machine::poll_event) until both give `None`, then ask
/// [`next_timeout`](Machine::next_timeout). `now` never goes backwards.
///
/// ```
/// use std::convert::Infallible;
///
/// use layercast_core::{Machine, Observer, Off, Span, Time};
///
/// /// Delays each number by 10 ms.
/// #[derive(Default)]
/// struct Delay(Option<(Time, u32)>);
///
/// impl Machine for Delay {
///     type Input = u32;
///     type Transmit = u32;
///     type Event = Infallible;
///
///     fn handle<O: Observer>(&mut self, now: Time, input: u32, _: &mut O) {
///         self.0 = Some((now + Span::from_ms(10), input));
///     }
///     fn on_timeout<O: Observer>(&mut self, _: Time, _: &mut O) {}
///     fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<u32> {
///         self.0.take_if(|(at, _)| *at <= now).map(|(_, number)| number)
///     }
///     fn poll_event(&mut self) -> Option<Infallible> {
///         None
///     }
///     fn next_timeout(&self) -> Option<Time> {
///         self.0.map(|(at, _)| at)
///     }
/// }
///
/// let mut machine = Delay::default();
/// machine.handle(Time::ZERO, 7, &mut Off);
/// assert_eq!(machine.poll_transmit(Time::ZERO, &mut Off), None);
/// let at = machine.next_timeout().unwrap();
/// assert_eq!(machine.poll_transmit(at, &mut Off), Some(7));
/// ```
pub trait Machine {
    /// An input, with its origin (port or application).
    type Input;
    /// An output, with its destination.
    type Transmit;
    /// A notification to the user of the machine.
    type Event;

    /// Takes one input.
    fn handle<O: Observer>(&mut self, now: Time, input: Self::Input, obs: &mut O);

    /// Runs every timer that is due at `now`; calling it early or late does no harm.
    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O);

    /// The next thing to send, if any may leave at `now`.
    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Self::Transmit>;

    /// The next thing to tell the user, if any.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// When [`on_timeout`](Machine::on_timeout) wants to be called next; `None`: not before the
    /// next input.
    fn next_timeout(&self) -> Option<Time>;
}

/// The earlier of two optional instants.
#[inline]
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, None) => a,
        (None, b) => b,
    }
}
