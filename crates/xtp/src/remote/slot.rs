use std::collections::VecDeque;

use bytes::Bytes;
use layercast_wire::Payload;

use super::Parting;
use crate::context::is_multicast;
use crate::{ContextId, ContextStatus, Endpoint, SendOptions, XtpConfig};

/// Bytes that wait for room in the endpoint, for each context: the credit that its user begins with.
pub const QUEUE: u64 = 256 << 10;
/// What a message costs of that beside its data.
const MESSAGE: u64 = 64;
/// What a context takes beside its data.
const CONTEXT: u64 = 8 << 10;
/// What a receiver of a group takes its transmitter.
const RECEIVER: u64 = 512;
/// Data below this are copied out of the buffer they came in, so that they do not keep it.
const KEPT: usize = 16 << 10;

/// The credit that one message of `data` bytes takes.
pub(super) const fn cost(data: usize) -> u64 {
    data as u64 + MESSAGE
}

/// The most that a context of this configuration can take, without its queue.
pub(super) fn buffers(config: &XtpConfig) -> u64 {
    // Unread, and beyond gaps up to twice the window.
    let data = 3 * u64::from(config.window) + u64::from(config.send_buffer);
    let receivers = match is_multicast(config.service) {
        true => u64::from(config.group.receivers),
        false => 0,
    };
    data + receivers * RECEIVER + CONTEXT
}

/// What a user asked for and waits for what it asked for before.
#[derive(Debug)]
enum Waiting {
    Send(Payload, SendOptions),
    Settle(u64),
    CloseWrite,
    /// Abort of a stream that its user has not ended: sent after all data have left.
    Break,
}

/// The place of a context at a server.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its name there.
    pub(super) name: ContextId,
    /// Its client; `None` if the client is gone.
    pub(super) client: Option<u32>,
    pub(super) status: ContextStatus,
    /// The current status is not yet reported to the user.
    pub(super) news: bool,
    /// Listed for service once there is room for reports to its user.
    pub(super) listed: bool,
    /// The user has said good-bye.
    pub(super) released: bool,
    /// Of the memory of its user.
    pub(super) charge: u64,
    queue: VecDeque<Waiting>,
    queued: u64,
    freed: u64,
    /// The user sends no more.
    ended: bool,
    /// What was sent ended a message.
    whole: bool,
    /// Broken off when this question is answered.
    breaks: Option<u64>,
}

impl Slot {
    pub(super) fn new(name: ContextId, client: u32, charge: u64) -> Slot {
        Slot {
            name,
            client: Some(client),
            status: ContextStatus::default(),
            news: false,
            listed: false,
            released: false,
            charge,
            queue: VecDeque::new(),
            queued: 0,
            freed: 0,
            ended: false,
            whole: true,
            breaks: None,
        }
    }

    /// Whether nothing but time is needed for a proper end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended || self.released
    }

    /// Whether it stands between two messages.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Data for the peer.
    pub(super) fn send(&mut self, data: Bytes, how: SendOptions) -> Result<(), Parting> {
        let cost = cost(data.len());
        if self.queued + self.freed + cost > QUEUE {
            return Err(Parting::Overrun);
        }
        if self.ended {
            return Err(Parting::Nonsense);
        }
        self.queued += cost;
        self.whole = how.end_of_message;
        let data = match data.len() < KEPT {
            true => Bytes::copy_from_slice(&data),
            false => data,
        };
        let waiting = Waiting::Send(Payload::Bytes(data), how);
        self.queue.push_back(waiting);
        Ok(())
    }

    /// A settle request concerns everything before it.
    pub(super) fn settle(&mut self, nth: u64) {
        match self.queue.back_mut() {
            Some(Waiting::Settle(last)) => *last = nth,
            _ => self.queue.push_back(Waiting::Settle(nth)),
        }
    }

    /// The user sends no more.
    pub(super) fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.queue.push_back(Waiting::CloseWrite);
        }
    }

    /// What was accepted goes; then it is broken off.
    pub(super) fn break_off(&mut self) {
        self.ended = true;
        self.queue.push_back(Waiting::Break);
    }

    /// Whether the time has come to break it off.
    pub(super) fn is_to_break(&self) -> bool {
        self.breaks.is_some_and(|nth| self.status.settled >= nth)
    }

    /// Processes pending work as far as there is room; `true` if the events of `machine` must be handled first.
    pub(super) fn pump(&mut self, id: ContextId, machine: &mut Endpoint) -> bool {
        while let Some(waiting) = self.queue.front_mut() {
            match waiting {
                Waiting::Send(data, how) => {
                    let before = data.len();
                    match machine.offer(id, data, how) {
                        Ok(false) => {
                            let taken = before - data.len();
                            self.free(taken as u64);
                            return false;
                        }
                        Ok(true) => {}
                        Err(error) => {
                            self.status.refused = Some(error);
                            self.news = true;
                        }
                    }
                    self.free(cost(before));
                }
                // An answer to a question that was asked before must not be taken for one to this.
                Waiting::Settle(_) | Waiting::Break if machine.has_event() => return true,
                Waiting::Settle(nth) => {
                    self.status.asked = *nth;
                    self.ask(id, machine);
                }
                Waiting::Break => {
                    self.status.asked += 1;
                    self.breaks = Some(self.status.asked);
                    self.ask(id, machine);
                }
                Waiting::CloseWrite => {
                    // One that is over has nothing to close.
                    let _ = machine.close_write(id);
                }
            }
            self.queue.pop_front();
        }
        false
    }

    /// Credit that is worth telling of.
    pub(super) fn take_freed(&mut self) -> Option<u64> {
        let worth = self.freed >= QUEUE / 4;
        worth.then(|| std::mem::take(&mut self.freed))
    }

    fn ask(&mut self, id: ContextId, machine: &mut Endpoint) {
        if machine.tell_settled(id).is_err() {
            self.status.settled = self.status.asked;
        }
    }

    fn free(&mut self, bytes: u64) {
        self.queued -= bytes.min(self.queued);
        self.freed += bytes;
    }
}
