mod calls;

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use layercast_core::{Machine, Span, Time};
use layercast_wire::Payload;
use serde::{Deserialize, Serialize};

use super::client::{Client, ClientStats};
use super::slot::Slot;
use super::{Frames, MAX_DATA, Parting, Report};
use crate::{ContextId, Endpoint, XtpEvent, XtpStats};

/// Limit of the data waiting for a user to read; above it the server neither processes nor reads further
/// requests of that user.
const WAITING: usize = 256 << 10;

/// Users that may be there beside as many clients as there may be: for those that ask for figures and nothing else.
const ASKING: usize = 16;

/// What users may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// Clients: users that ask for more than figures.
    pub clients: usize,
    /// Contexts of each.
    pub contexts: usize,
    /// Bytes that the contexts of each can take.
    pub memory: u64,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            clients: 64,
            contexts: 1_024,
            memory: 256 << 20,
        }
    }
}

/// What a server counted, and what its endpoint did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerStats {
    /// Address of the socket.
    pub local: SocketAddr,
    /// Connected clients; one that asks for these figures and nothing else is none.
    pub clients: Vec<ClientStats>,
    /// Clients since the start.
    pub served: u64,
    /// Of these, clients expelled because their messages were not valid or exceeded a limit.
    pub expelled: u64,
    /// Contexts whose client ended without closing them.
    pub orphaned: u64,
    /// Contexts of the endpoint, closed ones that still answer included.
    pub contexts: usize,
    /// Counters of the endpoint.
    pub endpoint: XtpStats,
}

/// Serves users in other processes with an [`Endpoint`]: moves octets between their queues and it.
///
/// The driver announces clients that connect and disconnect, passes their frames in and takes the frames for
/// them; all calls that may change the endpoint take it as an argument.
#[derive(Debug)]
pub struct Server {
    local: SocketAddr,
    max_data: u32,
    timer: Span,
    limits: ServerLimits,
    clients: BTreeMap<u32, Client>,
    slots: BTreeMap<ContextId, Slot>,
    /// The client that accepts associations to a port.
    ports: BTreeMap<u16, u32>,
    /// Contexts with something to do.
    ready: VecDeque<ContextId>,
    /// Contexts without a client, and the memory they can take.
    left: (usize, u64),
    /// Users that came, and those of them that are clients.
    entered: u32,
    served: u64,
    expelled: u64,
    orphaned: u64,
    stopping: bool,
}

impl Server {
    /// A server at the socket `local`, over which packets of `max_data` user bytes fit and whose timer keeps `timer`.
    pub fn new(local: SocketAddr, max_data: u32, timer: Span, limits: ServerLimits) -> Server {
        Server {
            local,
            max_data,
            timer,
            limits,
            clients: BTreeMap::new(),
            slots: BTreeMap::new(),
            ports: BTreeMap::new(),
            ready: VecDeque::new(),
            left: (0, 0),
            entered: 0,
            served: 0,
            expelled: 0,
            orphaned: 0,
            stopping: false,
        }
    }

    /// A user comes; gives the number by which it is known.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub fn enter(&mut self, process: Option<u32>) -> Result<u32, Parting> {
        if self.clients.len() >= self.limits.clients + ASKING {
            return Err(self.full());
        }
        self.entered = self.entered.wrapping_add(1);
        let number = self.entered;
        let client = Client {
            process,
            ..Client::default()
        };
        self.clients.insert(number, client);
        Ok(number)
    }

    /// Whether a user is a client: it asked for more than figures.
    pub fn is_client(&self, number: u32) -> bool {
        self.clients.get(&number).is_some_and(|it| it.counts)
    }

    fn full(&self) -> Parting {
        Parting::Full(self.limits.clients as u32)
    }

    /// A user wants to be a client from now on.
    fn admit(&mut self, number: u32) -> Result<(), Parting> {
        if self.is_client(number) {
            return Ok(());
        }
        let clients = self.clients.values().filter(|it| it.counts).count();
        if clients >= self.limits.clients {
            return Err(self.full());
        }
        self.count(number);
        Ok(())
    }

    /// A user is a client from now on.
    fn count(&mut self, number: u32) {
        if let Some(client) = self.clients.get_mut(&number) {
            self.served += u64::from(!std::mem::replace(&mut client.counts, true));
        }
    }

    /// A user is gone: what it has ended still goes to the peers, the rest is broken off.
    pub fn leave(&mut self, now: Time, machine: &mut Endpoint, number: u32) {
        let Some(client) = self.clients.remove(&number) else {
            return;
        };
        for port in client.doors.into_keys() {
            self.ports.remove(&port);
            machine.unlisten(now, port);
        }
        let ids: Vec<ContextId> = self.of(Some(number));
        for id in ids {
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            let (contexts, memory) = self.left;
            let fits =
                contexts < self.limits.contexts && memory + slot.charge <= self.limits.memory;
            if !slot.released {
                self.orphaned += 1;
            }
            if slot.has_ended() && fits {
                slot.client = None;
                slot.released = true;
                self.left = (contexts + 1, memory + slot.charge);
                // What is over has nothing to close.
                let _ = machine.close_read(now, id);
                self.ready.push_back(id);
            } else {
                self.slots.remove(&id);
                let _ = machine.abort(now, id);
            }
        }
        self.work(now, machine);
    }

    /// A user is sent away; what is for it still is the reason.
    pub fn expel(
        &mut self,
        now: Time,
        machine: &mut Endpoint,
        number: u32,
        why: Parting,
    ) -> Frames {
        // One for which there is no room is no client.
        if !matches!(why, Parting::Full(_)) {
            self.expelled += 1;
            self.count(number);
        }
        self.leave(now, machine, number);
        farewell(why)
    }

    /// Shuts down: clients are notified, their input is no longer read, and accepted data is sent to the peers. Streams end there if
    /// they are between two messages; the others are aborted after that, so that no peer takes half a message for a whole one.
    pub fn stop(&mut self, now: Time, machine: &mut Endpoint) {
        self.stopping = true;
        for port in std::mem::take(&mut self.ports).into_keys() {
            machine.unlisten(now, port);
        }
        for client in self.clients.values_mut() {
            client.doors.clear();
            client.names.clear();
            let goodbye = Report::Goodbye(Parting::Stopping);
            client.frames.push(&goodbye, &Payload::default());
        }
        for (&id, slot) in &mut self.slots {
            let ends = slot.has_ended() || slot.is_whole();
            slot.released = true;
            match ends {
                true => {
                    slot.end();
                    let _ = machine.close_read(now, id);
                }
                false => slot.break_off(),
            }
            self.ready.push_back(id);
        }
        self.work(now, machine);
    }

    /// Breaks off whatever is left.
    pub fn abort(&mut self, now: Time, machine: &mut Endpoint) {
        for (id, _) in std::mem::take(&mut self.slots) {
            let _ = machine.abort(now, id);
        }
    }

    /// Whether no context is under way.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Handles an event of the endpoint.
    pub fn on_event(&mut self, now: Time, machine: &mut Endpoint, event: &XtpEvent) {
        self.note(now, machine, event);
        self.work(now, machine);
    }

    /// Whether a user has unread data above the limit: its requests are not processed until it has read them.
    pub fn is_backed_up(&self, number: u32) -> bool {
        let waiting = self.clients.get(&number).map(|it| it.frames.len());
        waiting.is_some_and(|it| it >= WAITING)
    }

    /// What is for a user, as much of it as may wait.
    pub fn frames(&mut self, machine: &mut Endpoint, number: u32) -> Option<&mut Frames> {
        let client = self.clients.get_mut(&number)?;
        while client.frames.len() < WAITING {
            let Some(id) = client.listed.pop_front() else {
                break;
            };
            let Some(slot) = self.slots.get_mut(&id).filter(|it| !it.released) else {
                continue;
            };
            let name = slot.name;
            let mut more = true;
            while more && client.frames.len() < WAITING {
                match machine.lend(id, MAX_DATA) {
                    Ok(Some(chunk)) => {
                        let report = Report::Chunk {
                            id: name,
                            tag: chunk.tag,
                            end_of_message: chunk.end_of_message,
                            gap: chunk.gap,
                        };
                        client.frames.push(&report, &chunk.data);
                    }
                    _ => more = false,
                }
            }
            if more {
                // The status is reported after the data that precede it.
                client.listed.push_back(id);
                break;
            }
            slot.listed = false;
            if std::mem::take(&mut slot.news) {
                let status = Box::new(slot.status.clone());
                let report = Report::Status { id: name, status };
                client.frames.push(&report, &Payload::default());
            }
            if let Some(bytes) = slot.take_freed() {
                let report = Report::Room { id: name, bytes };
                client.frames.push(&report, &Payload::default());
            }
        }
        Some(&mut client.frames)
    }

    /// What was counted so far.
    pub fn stats(&self, machine: &Endpoint) -> ServerStats {
        ServerStats {
            local: self.local,
            clients: self
                .clients
                .values()
                .filter(|it| it.counts)
                .map(Client::stats)
                .collect(),
            served: self.served,
            expelled: self.expelled,
            orphaned: self.orphaned,
            contexts: machine.contexts(),
            endpoint: machine.stats(),
        }
    }

    fn note(&mut self, now: Time, machine: &mut Endpoint, event: &XtpEvent) {
        if let XtpEvent::Incoming(port) = event {
            return self.accept(now, machine, *port);
        }
        let Some(id) = event.context() else {
            return;
        };
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let before = slot.status.clone();
        slot.status.note(event);
        slot.news |= slot.status != before;
        self.list(id);
        self.ready.push_back(id);
    }

    /// Processes pending work until no more can be done.
    fn work(&mut self, now: Time, machine: &mut Endpoint) {
        loop {
            while let Some(event) = machine.poll_event() {
                self.note(now, machine, &event);
            }
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            if slot.pump(id, machine) {
                self.ready.push_back(id);
            }
            if slot.is_to_break() {
                let _ = machine.abort(now, id);
                self.forget(now, machine, id);
            } else if slot.released && slot.status.over.is_some() {
                let _ = machine.close(now, id);
                self.forget(now, machine, id);
            } else {
                self.list(id);
            }
        }
    }

    /// There may be something to tell the user of a context.
    fn list(&mut self, id: ContextId) {
        let Some(slot) = self.slots.get_mut(&id).filter(|it| !it.released) else {
            return;
        };
        let client = slot.client.and_then(|number| self.clients.get_mut(&number));
        if let Some(client) = client.filter(|_| !std::mem::replace(&mut slot.listed, true)) {
            client.listed.push_back(id);
        }
    }

    /// A context is no longer ours to look after.
    fn forget(&mut self, now: Time, machine: &mut Endpoint, id: ContextId) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        let Some(number) = slot.client else {
            let (contexts, memory) = self.left;
            self.left = (contexts - 1, memory - slot.charge);
            return;
        };
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        client.contexts -= 1;
        client.memory -= slot.charge;
        // There may be room for one that waits.
        let ports: Vec<u16> = client.doors.keys().copied().collect();
        for port in ports {
            self.accept(now, machine, port);
        }
    }

    /// Contexts of a user.
    fn of(&self, client: Option<u32>) -> Vec<ContextId> {
        let own = self.slots.iter().filter(|(_, it)| it.client == client);
        own.map(|(&id, _)| id).collect()
    }
}

/// The last frame for a client.
pub fn farewell(why: Parting) -> Frames {
    let mut frames = Frames::default();
    frames.push(&Report::Goodbye(why), &Payload::default());
    frames
}
