use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use layercast_core::{Time, earliest};
use layercast_wire::{Control, Member};

use crate::ControlError;
use crate::control::ControlSocket;

/// The control sockets of a source: one for each member that ever used its own.
#[derive(Default, Debug)]
pub(super) struct Controls {
    sockets: BTreeMap<Member, ControlSocket>,
    /// Sockets that may have something to send.
    ready: BTreeSet<Member>,
    /// Not later than the first timeout of any socket.
    wake: Option<Time>,
}

impl Controls {
    pub fn send(&mut self, now: Time, member: &Member, message: Bytes) -> Result<(), ControlError> {
        self.socket(member).send(now, message)
    }

    /// Takes what a member sent; gives a message for the application.
    pub fn on_control(
        &mut self,
        now: Time,
        member: &Member,
        control: Control,
        room: bool,
    ) -> Option<Bytes> {
        self.socket(member).on_control(now, control, room)
    }

    /// The next message to send, with its receiver.
    pub fn poll(&mut self, now: Time) -> Option<(Member, Control)> {
        while let Some(member) = self.ready.first() {
            if let Some(socket) = self.sockets.get_mut(member)
                && let Some(control) = socket.poll(now)
            {
                self.wake = earliest(self.wake, socket.next_timeout());
                return Some((member.clone(), control));
            }
            self.ready.pop_first();
        }
        None
    }

    /// Forgets a member.
    pub fn close(&mut self, member: &Member) {
        self.sockets.remove(member);
        self.ready.remove(member);
    }

    /// Gives whether anything is to be sent again.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        if self.wake.is_none_or(|at| now < at) {
            return false;
        }
        self.wake = None;
        for (member, socket) in &mut self.sockets {
            if socket.on_timeout(now) {
                self.ready.insert(member.clone());
            }
            self.wake = earliest(self.wake, socket.next_timeout());
        }
        !self.ready.is_empty()
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.wake
    }

    fn socket(&mut self, member: &Member) -> &mut ControlSocket {
        self.ready.insert(member.clone());
        self.sockets.entry(member.clone()).or_default()
    }
}
