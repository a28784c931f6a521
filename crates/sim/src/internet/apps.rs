//! The applications of a population: their conversations get connections and datagrams.

use layercast_core::{Machine, Time};
use layercast_tcp::ConnId;
use layercast_workload::app::{self, Act, AppInput, Conversation, End, HostId};
use layercast_workload::{Composite, PopulationError};

use super::hosts::User;
use super::network::Population;
use super::packet::{Body, Datagram, NO_STEP, Owner, Packet, TTL};
use super::report::{ApplicationReport, Sample};
use super::source::Source;
use super::world::Internet;
use crate::kernel::SourceId;

/// All conversations there are, and those to come.
#[derive(Debug)]
pub(super) struct Apps {
    composite: Composite,
    /// Place among the hosts of each host of the workload.
    hosts: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    started: u64,
    reports: Vec<ApplicationReport>,
}

/// A place for a conversation, with its timer.
#[derive(Debug)]
struct Slot {
    source: SourceId,
    /// Tells one conversation in this place from the next.
    number: u64,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    conversation: Box<Conversation>,
    application: u32,
    site: u32,
    connections: Vec<Connection>,
}

/// A connection of a conversation and its two sides, the client's first, as far as they are known.
#[derive(Clone, Copy, Debug)]
struct Connection {
    conn: app::ConnId,
    sides: [Option<(u32, ConnId)>; 2],
}

fn side(end: End) -> usize {
    match end {
        End::Client => 0,
        End::Server => 1,
    }
}

impl Apps {
    pub fn new(
        population: &Population,
        hosts: Vec<u32>,
        seed: u64,
    ) -> Result<Apps, PopulationError> {
        let reports = population.workload.apps().map(|name| ApplicationReport {
            name: name.to_owned(),
            started: 0,
            ended: 0,
        });
        Ok(Apps {
            reports: reports.collect(),
            composite: Composite::new(&population.workload, population.sites.clone(), seed)?,
            hosts,
            slots: Vec::new(),
            free: Vec::new(),
            started: 0,
        })
    }

    pub fn next_arrival(&self) -> Option<Time> {
        self.composite.next_at()
    }

    pub fn report(&self) -> Vec<ApplicationReport> {
        self.reports.clone()
    }

    fn running(&mut self, slot: u32, number: u64) -> Option<&mut Running> {
        let slot = &mut self.slots[slot as usize];
        slot.running.as_mut().filter(|_| slot.number == number)
    }

    fn connection(&mut self, slot: u32, number: u64, conn: app::ConnId) -> Option<&mut Connection> {
        let running = self.running(slot, number)?;
        running.connections.iter_mut().find(|it| it.conn == conn)
    }

    fn host(&self, host: HostId) -> u32 {
        self.hosts[host.0 as usize]
    }
}

impl Internet {
    /// Conversations begin whose time has come.
    pub(super) fn begin_conversations(&mut self, source: SourceId) {
        let Some(apps) = &mut self.apps else {
            return;
        };
        let arrival = apps.composite.next(self.now);
        self.kernel.schedule(source, apps.composite.next_at());
        let Some(arrival) = arrival else {
            return;
        };
        apps.started += 1;
        apps.reports[arrival.app].started += 1;
        let (number, running) = (
            apps.started,
            Running {
                conversation: Box::new(arrival.conversation),
                application: arrival.app as u32,
                site: arrival.site as u32,
                connections: Vec::new(),
            },
        );
        let free = apps.free.pop();
        let slot = match free {
            Some(slot) => slot,
            None => {
                let slot = apps.slots.len() as u32;
                let source = self.source(Source::Conversation(slot));
                let empty = Slot {
                    source,
                    number: 0,
                    running: None,
                };
                if let Some(apps) = &mut self.apps {
                    apps.slots.push(empty);
                }
                slot
            }
        };
        if let Some(apps) = &mut self.apps {
            let place = &mut apps.slots[slot as usize];
            (place.number, place.running) = (number, Some(running));
        }
        self.tell(slot, number, AppInput::Start);
    }

    /// A timer of a conversation is due.
    pub(super) fn wake_conversation(&mut self, slot: u32) {
        let Some(apps) = &mut self.apps else {
            return;
        };
        let number = apps.slots[slot as usize].number;
        if let Some(running) = apps.running(slot, number) {
            running.conversation.on_timeout(self.now, &mut self.obs);
            self.drive(slot, number);
        }
    }

    /// Tells a conversation something, if it is still there.
    pub(super) fn tell(&mut self, slot: u32, number: u64, input: AppInput) {
        if let AppInput::Failed { conn } = input
            && !self.drop_connection(slot, number, conn)
        {
            return;
        }
        let Some(running) = self
            .apps
            .as_mut()
            .and_then(|apps| apps.running(slot, number))
        else {
            return;
        };
        running.conversation.handle(self.now, input, &mut self.obs);
        self.drive(slot, number);
    }

    /// Takes a connection that failed from its conversation; whether it still had it: both sides may fail, and
    /// it hears of it once.
    fn drop_connection(&mut self, slot: u32, number: u64, conn: app::ConnId) -> bool {
        let apps = self.apps.as_mut();
        let Some(running) = apps.and_then(|apps| apps.running(slot, number)) else {
            return false;
        };
        let mut connections = running.connections.iter();
        let Some(place) = connections.position(|it| it.conn == conn) else {
            return false;
        };
        let connection = running.connections.swap_remove(place);
        for (host, id) in connection.sides.into_iter().flatten() {
            self.shut(host, id);
        }
        true
    }

    /// Does what a conversation wants done, until it wants nothing more.
    fn drive(&mut self, slot: u32, number: u64) {
        loop {
            let Some(apps) = &mut self.apps else {
                return;
            };
            let Some(running) = apps.running(slot, number) else {
                return;
            };
            let (application, site) = (running.application, running.site);
            while let Some(record) = running.conversation.poll_event() {
                self.samples.push(Sample {
                    at: self.now,
                    application,
                    site,
                    record,
                });
            }
            let act = running.conversation.poll_transmit(self.now, &mut self.obs);
            match act {
                Some(act) => self.perform(slot, number, act),
                None => break,
            }
        }
        self.rest(slot, number);
    }

    /// A conversation that wants nothing now is woken later, or over.
    fn rest(&mut self, slot: u32, number: u64) {
        let Some(apps) = &mut self.apps else {
            return;
        };
        let Some(running) = apps.running(slot, number) else {
            return;
        };
        let (done, next) = (
            running.conversation.is_done(),
            running.conversation.next_timeout(),
        );
        let application = running.application as usize;
        let place = &mut apps.slots[slot as usize];
        let next = next.filter(|_| !done).map(|at| at.max(self.now));
        self.kernel.schedule(place.source, next);
        if !done {
            return;
        }
        let connections = place.running.take().map(|running| running.connections);
        apps.free.push(slot);
        apps.reports[application].ended += 1;
        for connection in connections.unwrap_or_default() {
            for (host, id) in connection.sides.into_iter().flatten() {
                self.shut(host, id);
            }
        }
    }

    fn perform(&mut self, slot: u32, number: u64, act: Act) {
        match act {
            Act::Connect {
                conn,
                opener,
                from,
                from_port,
                to,
                to_port,
            } => {
                let user = |end| User::Conversation {
                    slot,
                    number,
                    conn,
                    end,
                };
                let Some(apps) = &mut self.apps else {
                    return;
                };
                let (from, to) = (apps.host(from), apps.host(to));
                if let Some(running) = apps.running(slot, number) {
                    running.connections.push(Connection {
                        conn,
                        sides: [None; 2],
                    });
                }
                // Where a server connects to a user, the user's program has said to which port (RFC 959 3.2).
                let to_port = if opener == End::Server { 0 } else { to_port };
                let local = (from, from_port.unwrap_or(0));
                let users = (user(opener), user(opener.other()));
                match self.connect(local, (to, to_port), users) {
                    Some(id) => self.joined(slot, number, conn, opener, from, id),
                    None => self.tell(slot, number, AppInput::Failed { conn }),
                }
            }
            Act::Write { conn, end, bytes } => {
                if let Some((host, id)) = self.side(slot, number, conn, end) {
                    self.write(host, id, bytes);
                }
            }
            Act::Close { conn, end } => {
                if let Some((host, id)) = self.side(slot, number, conn, end) {
                    self.shut(host, id);
                }
            }
            Act::Datagram {
                from,
                to,
                bytes,
                media,
            } => {
                let Some(apps) = &self.apps else {
                    return;
                };
                let node = |host: HostId| self.hosts[apps.host(host) as usize].node;
                let (src, dst) = (node(from), node(to));
                let owner = Owner::Conversation(slot, number);
                let sent = self.now;
                self.originate(Packet {
                    src,
                    dst,
                    bytes: bytes + 28,
                    step: NO_STEP,
                    ttl: TTL,
                    body: Body::Udp(Datagram {
                        owner,
                        sent,
                        // A conversation has ports of its own.
                        ports: (10_000 + (slot % 30_000) as u16, 5_004),
                        media: Some(media),
                    }),
                });
            }
        }
    }

    /// One side of a connection of a conversation is there.
    pub(super) fn joined(
        &mut self,
        slot: u32,
        number: u64,
        conn: app::ConnId,
        end: End,
        host: u32,
        id: ConnId,
    ) {
        let connection = self.apps.as_mut();
        let connection = connection.and_then(|apps| apps.connection(slot, number, conn));
        match connection {
            Some(connection) => connection.sides[side(end)] = Some((host, id)),
            None => self.shut(host, id),
        }
    }

    fn side(
        &mut self,
        slot: u32,
        number: u64,
        conn: app::ConnId,
        end: End,
    ) -> Option<(u32, ConnId)> {
        let connection = self.apps.as_mut()?.connection(slot, number, conn)?;
        connection.sides[side(end)]
    }

    /// A side of a connection is gone: its id means nothing any more.
    pub(super) fn parted(&mut self, slot: u32, number: u64, conn: app::ConnId, end: End) {
        let Some(apps) = &mut self.apps else {
            return;
        };
        if let Some(connection) = apps.connection(slot, number, conn) {
            connection.sides[side(end)] = None;
        }
    }

    /// Both sides of a connection closed in good order: nothing more will happen to it.
    pub(super) fn forget_connection(&mut self, slot: u32, number: u64, conn: app::ConnId) {
        let apps = self.apps.as_mut();
        if let Some(running) = apps.and_then(|apps| apps.running(slot, number)) {
            running
                .connections
                .retain(|it| it.conn != conn || it.sides != [None; 2]);
        }
    }
}
