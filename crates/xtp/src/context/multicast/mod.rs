//! Associations with many receivers (specs/xtp.md 2.13): the part that their transmitter and their receivers do not
//! share with an association of two.

mod admission;
mod leaving;
mod members;
mod receiver;
mod transmitter;

use core::net::SocketAddr;

use layercast_core::Time;
use layercast_wire::{XtpAddress, XtpService};

pub(crate) use members::Who;
pub(super) use receiver::Membership;
pub(super) use transmitter::Group;

use super::Context;

/// What a context is to its association.
#[derive(Debug)]
pub(super) enum Role {
    /// One of two.
    Pair,
    /// The one that sends to many.
    Transmitter(Box<Group>),
    /// One of many.
    Receiver(Box<Membership>),
}

/// How a context comes to be.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// One of two.
    Pair,
    /// Sends to the group that is its remote end.
    Transmitter,
    /// One of many that receive.
    Receiver {
        /// The group it asks for admission, and its own address.
        address: XtpAddress,
        /// It need not ask.
        joined: bool,
    },
}

/// Whether a service has many receivers.
pub(crate) fn is_multicast(service: XtpService) -> bool {
    matches!(
        service,
        XtpService::MULTICAST | XtpService::RELIABLE_MULTICAST
    )
}

impl Context {
    pub(super) fn group(&self) -> Option<&Group> {
        match &self.role {
            Role::Transmitter(group) => Some(group),
            _ => None,
        }
    }

    fn group_mut(&mut self) -> Option<&mut Group> {
        match &mut self.role {
            Role::Transmitter(group) => Some(group),
            _ => None,
        }
    }

    fn membership(&self) -> Option<&Membership> {
        match &self.role {
            Role::Receiver(membership) => Some(membership),
            _ => None,
        }
    }

    fn membership_mut(&mut self) -> Option<&mut Membership> {
        match &mut self.role {
            Role::Receiver(membership) => Some(membership),
            _ => None,
        }
    }

    /// Whether it has, or is one of, many receivers.
    pub(crate) fn is_multicast(&self) -> bool {
        !matches!(self.role, Role::Pair)
    }

    /// Whether the stream has no acknowledgements.
    pub(crate) fn is_unacknowledged(&self) -> bool {
        self.is_multicast() && self.service == XtpService::MULTICAST
    }

    /// Whether packets from there may be for it.
    pub(crate) fn takes_from(&self, from: SocketAddr) -> bool {
        // The address that answers a request to a group is not known in advance.
        let asks = self.membership().is_some_and(|it| !it.has_joined());
        self.remote.net == from || (asks && self.remote.net.ip().is_multicast())
    }

    /// When the next of the timers that only multicast has is due.
    pub(super) fn group_timer(&self) -> Option<Time> {
        match &self.role {
            Role::Pair => None,
            Role::Transmitter(_) => self.transmitter_timer(),
            Role::Receiver(_) => self.receiver_timer(),
        }
    }

    /// Runs what is due of them.
    pub(super) fn on_group_timer(&mut self, now: Time) {
        if self.group_timer().is_none_or(|at| at > now) {
            return;
        }
        match self.role {
            Role::Pair => {}
            Role::Transmitter(_) => self.on_transmitter_timer(now),
            Role::Receiver(_) => self.on_receiver_timer(now),
        }
    }
}
