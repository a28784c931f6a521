//! The applications of a population: their conversations get connections and datagrams.

use layercast_core::{Machine, Time};
use layercast_tcp::ConnId;
use layercast_workload::app::{self, Act, AppInput, Conversation, End, HostId};
use layercast_workload::{Composite, PopulationError};

use crate::internet::engine::{Engine, Source};
use crate::internet::medium::Medium;
use crate::internet::medium::packet::{Body, Datagram};
use crate::internet::medium::user::{Owner, User};
use crate::internet::network::Population;
use crate::internet::node::tcp::{Side, TcpHosts};
use crate::internet::report::{ApplicationReport, Sample};
use crate::kernel::SourceId;

/// All conversations there are, and those to come.
#[derive(Debug)]
pub(crate) struct Apps {
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

fn place(end: End) -> usize {
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

impl Apps {
    /// Conversations begin whose time has come.
    pub fn begin(&mut self, source: SourceId, tcp: &mut TcpHosts, medium: &mut Medium) {
        let engine = &mut medium.engine;
        let arrival = self.composite.next(engine.now);
        engine.kernel.schedule(source, self.composite.next_at());
        let Some(arrival) = arrival else {
            return;
        };
        self.started += 1;
        self.reports[arrival.app].started += 1;
        let (number, running) = (
            self.started,
            Running {
                conversation: Box::new(arrival.conversation),
                application: arrival.app as u32,
                site: arrival.site as u32,
                connections: Vec::new(),
            },
        );
        // Not the slot, which depends on how many others there are.
        let report = &self.reports[arrival.app];
        let name = format!("{}/{}", report.name, report.started);
        let slot = match self.free.pop() {
            Some(slot) => {
                engine.rename(self.slots[slot as usize].source, &name);
                slot
            }
            None => {
                let slot = self.slots.len() as u32;
                self.slots.push(Slot {
                    source: engine.add(Source::Conversation(slot), &name),
                    number: 0,
                    running: None,
                });
                slot
            }
        };
        let place = &mut self.slots[slot as usize];
        (place.number, place.running) = (number, Some(running));
        self.tell(slot, number, AppInput::Start, tcp, medium);
    }

    /// A timer of a conversation is due.
    pub fn wake(&mut self, slot: u32, tcp: &mut TcpHosts, medium: &mut Medium) {
        let Slot { source, number, .. } = self.slots[slot as usize];
        let Engine {
            now, obs, kernel, ..
        } = &mut medium.engine;
        kernel.schedule(source, None);
        if let Some(running) = self.running(slot, number) {
            running.conversation.on_timeout(*now, obs);
            self.drive(slot, number, tcp, medium);
        }
    }

    /// Tells a conversation something, if it is still there.
    pub fn tell(
        &mut self,
        slot: u32,
        number: u64,
        input: AppInput,
        tcp: &mut TcpHosts,
        medium: &mut Medium,
    ) {
        if let AppInput::Failed { conn } = input
            && !self.drop_connection(slot, number, conn, tcp)
        {
            return;
        }
        let Some(running) = self.running(slot, number) else {
            return;
        };
        let Engine { now, obs, .. } = &mut medium.engine;
        running.conversation.handle(*now, input, obs);
        self.drive(slot, number, tcp, medium);
    }

    /// Takes a connection that failed from its conversation; whether it still had it: both sides may fail, and
    /// it hears of it once.
    fn drop_connection(
        &mut self,
        slot: u32,
        number: u64,
        conn: app::ConnId,
        tcp: &mut TcpHosts,
    ) -> bool {
        let Some(running) = self.running(slot, number) else {
            return false;
        };
        let mut connections = running.connections.iter();
        let Some(place) = connections.position(|it| it.conn == conn) else {
            return false;
        };
        let connection = running.connections.swap_remove(place);
        for (host, id) in connection.sides.into_iter().flatten() {
            tcp.shut(host, id);
        }
        true
    }

    /// Does what a conversation wants done, until it wants nothing more.
    fn drive(&mut self, slot: u32, number: u64, tcp: &mut TcpHosts, medium: &mut Medium) {
        loop {
            let place = &mut self.slots[slot as usize];
            let running = place.running.as_mut();
            let Some(running) = running.filter(|_| place.number == number) else {
                return;
            };
            let Engine {
                now, obs, samples, ..
            } = &mut medium.engine;
            let (application, site) = (running.application, running.site);
            while let Some(record) = running.conversation.poll_event() {
                samples.push(Sample {
                    at: *now,
                    application,
                    site,
                    record,
                });
            }
            match running.conversation.poll_transmit(*now, obs) {
                Some(act) => self.perform(slot, number, act, tcp, medium),
                None => break,
            }
        }
        self.rest(slot, number, tcp, &mut medium.engine);
    }

    /// A conversation that wants nothing now is woken later, or over.
    fn rest(&mut self, slot: u32, number: u64, tcp: &mut TcpHosts, engine: &mut Engine) {
        let Some(running) = self.running(slot, number) else {
            return;
        };
        let (done, next) = (
            running.conversation.is_done(),
            running.conversation.next_timeout(),
        );
        let application = running.application as usize;
        let place = &mut self.slots[slot as usize];
        let next = next.filter(|_| !done).map(|at| at.max(engine.now));
        engine.kernel.schedule(place.source, next);
        if !done {
            return;
        }
        let connections = place.running.take().map(|running| running.connections);
        self.free.push(slot);
        self.reports[application].ended += 1;
        for connection in connections.unwrap_or_default() {
            for (host, id) in connection.sides.into_iter().flatten() {
                tcp.shut(host, id);
            }
        }
    }

    fn perform(
        &mut self,
        slot: u32,
        number: u64,
        act: Act,
        tcp: &mut TcpHosts,
        medium: &mut Medium,
    ) {
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
                let (from, to) = (self.host(from), self.host(to));
                if let Some(running) = self.running(slot, number) {
                    running.connections.push(Connection {
                        conn,
                        sides: [None; 2],
                    });
                }
                // Where a server connects to a user, the user's program has said to which port (RFC 959 3.2).
                let to_port = if opener == End::Server { 0 } else { to_port };
                let local = (from, from_port.unwrap_or(0));
                let users = (user(opener), user(opener.other()));
                match tcp.connect(local, (to, to_port), users, medium) {
                    Some(id) => {
                        let side = Side {
                            slot,
                            number,
                            conn,
                            end: opener,
                        };
                        self.joined(side, (from, id), tcp);
                    }
                    None => self.tell(slot, number, AppInput::Failed { conn }, tcp, medium),
                }
            }
            Act::Write { conn, end, bytes } => {
                if let Some((host, id)) = self.side(slot, number, conn, end) {
                    tcp.write(host, id, bytes);
                }
            }
            Act::Close { conn, end } => {
                if let Some((host, id)) = self.side(slot, number, conn, end) {
                    tcp.shut(host, id);
                }
            }
            Act::Datagram {
                from,
                to,
                bytes,
                media,
            } => {
                let node = |host: HostId| tcp.get(self.host(host)).node;
                let body = Body::Udp(Datagram {
                    owner: Owner::Conversation(slot, number),
                    sent: medium.engine.now,
                    // A conversation has ports of its own.
                    ports: (10_000 + (slot % 30_000) as u16, 5_004),
                    media: Some(media),
                });
                medium.originate((node(from), node(to)), bytes + 28, body);
            }
        }
    }

    /// One side of a connection of a conversation is there.
    pub fn joined(&mut self, side: Side, (host, id): (u32, ConnId), tcp: &mut TcpHosts) {
        match self.connection(side.slot, side.number, side.conn) {
            Some(connection) => connection.sides[place(side.end)] = Some((host, id)),
            None => tcp.shut(host, id),
        }
    }

    fn side(
        &mut self,
        slot: u32,
        number: u64,
        conn: app::ConnId,
        end: End,
    ) -> Option<(u32, ConnId)> {
        self.connection(slot, number, conn)?.sides[place(end)]
    }

    /// A side of a connection is gone: its id means nothing any more.
    fn parted(&mut self, side: Side) {
        if let Some(connection) = self.connection(side.slot, side.number, side.conn) {
            connection.sides[place(side.end)] = None;
        }
    }

    /// A side of a connection closed in good order. When both have, nothing more will happen to it.
    pub fn closed(&mut self, side: Side) {
        self.parted(side);
        if let Some(running) = self.running(side.slot, side.number) {
            running
                .connections
                .retain(|it| it.conn != side.conn || it.sides != [None; 2]);
        }
    }

    /// A side of a connection failed.
    pub fn failed(&mut self, side: Side, tcp: &mut TcpHosts, medium: &mut Medium) {
        self.parted(side);
        let Side {
            slot, number, conn, ..
        } = side;
        self.tell(slot, number, AppInput::Failed { conn }, tcp, medium);
    }
}
