use bytes::Bytes;
use layercast_core::Time;
use layercast_wire::{Downward, Member, Signal, Upward};

use super::upkeep::MAX_UPCALLS;
use super::{Session, Sink};
use crate::{ControlError, SinkEvent};

/// What a sink and the source of its flow tell one another, past the switches between them.
impl Sink {
    /// Sends a message on the control socket: reliably, in order (specs/mets.md 2.2). It waits while there
    /// is no way to the source.
    pub fn send_control(&mut self, now: Time, message: Bytes) -> Result<(), ControlError> {
        if matches!(self.session, Session::Closing { .. } | Session::Closed) {
            return Err(ControlError::NotConnected);
        }
        self.control.send(now, message)?;
        self.flush_control(now);
        Ok(())
    }

    pub(super) fn on_downward(&mut self, now: Time, member: Member, body: Downward) {
        // Members of one multicast link hear what is meant for others.
        if member != self.member() {
            return;
        }
        match body {
            Downward::App(control) => {
                let room = self.events.len() < MAX_UPCALLS;
                let message = self.control.on_control(now, control, room);
                self.events.extend(message.map(SinkEvent::Control));
            }
            Downward::KeyGrant { grant } => self.on_grant(&grant.0),
            Downward::KeyDenied { refusal } => self.on_denied(refusal),
        }
        self.flush_control(now);
    }

    pub(super) fn flush_control(&mut self, now: Time) {
        let Some(flow) = self.flow.as_ref().map(|flow| flow.id) else {
            return;
        };
        if self.session != Session::Joined {
            return;
        }
        while let Some(control) = self.control.poll(now) {
            self.signals.push_back(Signal::ToSource {
                flow,
                member: self.member(),
                body: Upward::App(control),
            });
        }
    }
}
