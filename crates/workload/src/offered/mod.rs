//! What a workload offers to a network that is infinitely fast (specs/insane-workloads.md 5.3).

mod open;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use layercast_core::{Machine, Off, Span, Time, earliest};
use serde::Serialize;

use crate::app::{Act, AppInput, ConnId, Conversation, End, HostId, Media};
use crate::circuits::{CircuitTotals, Circuits, Sharing};
use crate::composite::{Composite, Workload};

pub use open::Closed;
use open::Open;

/// How a workload is run without a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OfferedConfig {
    /// How long.
    pub duration: Span,
    /// How long a file of the Web or of FTP takes; everything else takes no time.
    pub file_time: Span,
    /// A circuit unused for this long is torn down.
    pub idle: Span,
    /// A run with more events stops, and says so.
    pub max_events: u64,
}

/// What was offered.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Offered {
    /// Simulated time.
    pub seconds: f64,
    /// Totals of each application.
    pub apps: BTreeMap<String, AppTotals>,
    /// Virtual circuits with one pair for each connection.
    pub per_connection: CircuitTotals,
    /// Virtual circuits with one pair for all connections of an application between two hosts.
    pub per_application: CircuitTotals,
    /// Whether the budget of events ended the run.
    pub cut_short: bool,
}

/// What one application offered.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct AppTotals {
    /// Conversations started.
    pub conversations: u64,
    /// Connections opened.
    pub connections: u64,
    /// Writes of the clients: keystrokes, commands, requests, messages.
    pub requests: u64,
    /// Files, pages, replies and others, by the name of the record.
    pub records: BTreeMap<&'static str, u64>,
    /// Payload in bytes.
    pub bytes: u64,
    /// Payload by site, `[from][to]`, in bytes.
    pub matrix: Vec<Vec<u64>>,
}

impl Default for OfferedConfig {
    fn default() -> OfferedConfig {
        OfferedConfig {
            duration: Span::from_secs(4000),
            file_time: Span::from_ms(300),
            idle: Span::from_secs(10),
            max_events: 1_000_000_000,
        }
    }
}

/// A running conversation.
#[derive(Debug)]
struct Running {
    app: usize,
    number: u64,
    conversation: Conversation,
    /// The wake-up that is in the queue.
    wake: Option<Time>,
    conns: Vec<Open>,
}

/// An event delivered to the observer of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Seen {
    /// How far the run is; now and then.
    Reached(Time),
    /// A TCP connection is over. Connections still open at the end of the run are not reported.
    Connection(Closed),
    /// A datagram was sent.
    Datagram {
        /// By which conversation.
        conversation: u64,
        /// What it is.
        media: Media,
        /// When.
        at: Time,
        /// Its payload.
        bytes: u32,
    },
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Deliver(usize, u64, ConnId, u64),
    End(usize, u64, ConnId),
}

struct Run<W> {
    /// The onlooker.
    watch: W,
    config: OfferedConfig,
    names: Vec<String>,
    totals: Vec<AppTotals>,
    sites: Vec<usize>,
    running: Vec<Option<Running>>,
    free: Vec<usize>,
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    pushed: u64,
    circuits: [Circuits; 2],
}

/// Runs a workload without a network; calls `watch` for each event.
pub fn offered(
    workload: &Workload,
    mut composite: Composite,
    config: OfferedConfig,
    watch: impl FnMut(Seen),
) -> Offered {
    let population = composite.population();
    let sites = population.sites.len();
    let hosts = population.sites.iter().enumerate().flat_map(|(n, site)| {
        let hosts = site.workstations.iter().chain(&site.servers);
        hosts.map(move |host| (host.0 as usize, n))
    });
    let mut site_of = Vec::new();
    for (host, site) in hosts {
        if site_of.len() <= host {
            site_of.resize(host + 1, 0);
        }
        site_of[host] = site;
    }
    let names: Vec<String> = workload.apps().map(str::to_owned).collect();
    let matrix = vec![vec![0; sites]; sites];
    let empty = AppTotals {
        matrix,
        ..AppTotals::default()
    };
    let mut run = Run {
        watch,
        config,
        totals: vec![empty; names.len()],
        names,
        sites: site_of.clone(),
        running: Vec::new(),
        free: Vec::new(),
        heap: BinaryHeap::new(),
        pushed: 0,
        circuits: [Sharing::Connection, Sharing::Application]
            .map(|how| Circuits::new(how, config.idle, sites, site_of.clone())),
    };
    let end = Time::ZERO.saturating_add(config.duration);
    let mut events = 0;
    let mut cut_short = false;
    loop {
        let pending = run.heap.peek().map(|Reverse((at, ..))| *at);
        let Some(now) = earliest(composite.next_at(), pending).filter(|&now| now <= end) else {
            break;
        };
        events += 1;
        if events % 65_536 == 0 {
            (run.watch)(Seen::Reached(now));
        }
        if events > config.max_events {
            cut_short = true;
            break;
        }
        if composite
            .next_at()
            .is_some_and(|at| pending.is_none_or(|it| at <= it))
        {
            // One source may have no host left; then there is nothing to start.
            if let Some(arrival) = composite.next(now) {
                run.start(arrival.at, arrival.app, arrival.conversation);
            }
        } else if let Some(Reverse((at, _, event))) = run.heap.pop() {
            run.event(at, event);
        }
    }
    let [per_connection, per_application] = run.circuits.map(|circuits| circuits.totals(end));
    Offered {
        seconds: config.duration.as_secs_f64(),
        apps: run.names.into_iter().zip(run.totals).collect(),
        per_connection,
        per_application,
        cut_short,
    }
}

impl<W: FnMut(Seen)> Run<W> {
    fn push(&mut self, at: Time, event: Event) {
        // What would happen after the end is not kept.
        if at.since(Time::ZERO) <= self.config.duration {
            self.pushed += 1;
            self.heap.push(Reverse((at, self.pushed, event)));
        }
    }

    fn start(&mut self, now: Time, app: usize, conversation: Conversation) {
        self.totals[app].conversations += 1;
        self.pushed += 1;
        let running = Running {
            app,
            number: self.pushed,
            conversation,
            wake: None,
            conns: Vec::new(),
        };
        let slot = self.free.pop().unwrap_or(self.running.len());
        match self.running.get_mut(slot) {
            Some(place) => *place = Some(running),
            None => self.running.push(Some(running)),
        }
        self.input(now, slot, AppInput::Start);
    }

    fn event(&mut self, now: Time, event: Event) {
        let (slot, number, input) = match event {
            Event::Wake(slot) => {
                if let Some(running) = self.running[slot]
                    .as_mut()
                    .filter(|it| it.wake == Some(now))
                {
                    running.wake = None;
                    running.conversation.on_timeout(now, &mut Off);
                    self.settle(now, slot);
                }
                return;
            }
            Event::Deliver(slot, number, conn, bytes) => {
                let end = End::Client;
                (slot, number, AppInput::Received { conn, end, bytes })
            }
            Event::End(slot, number, conn) => {
                let end = End::Client;
                (slot, number, AppInput::Ended { conn, end })
            }
        };
        if self.running[slot]
            .as_ref()
            .is_some_and(|it| it.number == number)
        {
            self.input(now, slot, input);
        }
    }

    fn input(&mut self, now: Time, slot: usize, input: AppInput) {
        if let Some(running) = &mut self.running[slot] {
            running.conversation.handle(now, input, &mut Off);
        }
        self.settle(now, slot);
    }

    /// Does what the conversation wants, until it wants nothing more.
    fn settle(&mut self, now: Time, slot: usize) {
        while let Some(running) = &mut self.running[slot] {
            if let Some(act) = running.conversation.poll_transmit(now, &mut Off) {
                if let Some(input) = self.act(now, slot, act)
                    && let Some(running) = &mut self.running[slot]
                {
                    running.conversation.handle(now, input, &mut Off);
                }
                continue;
            }
            let app = running.app;
            while let Some(record) = running.conversation.poll_event() {
                *self.totals[app].records.entry(record.name()).or_default() += 1;
            }
            if running.conversation.is_done() {
                self.running[slot] = None;
                self.free.push(slot);
                return;
            }
            let next = running.conversation.next_timeout();
            if next != running.wake {
                running.wake = next;
                if let Some(at) = next {
                    self.push(at, Event::Wake(slot));
                }
            }
            return;
        }
    }

    /// Performs one action; returns its immediate result for the conversation.
    fn act(&mut self, now: Time, slot: usize, act: Act) -> Option<AppInput> {
        let running = self.running[slot].as_mut()?;
        let (app, number) = (running.app, running.number);
        // All connections of a conversation but its first, which browsers leave out, fetch a file each;
        // without time of their own the files would come in one instant.
        let timed = |conn: ConnId, end: End| conn.0 > 0 && end == End::Server;
        let totals = &mut self.totals[app];
        match act {
            Act::Connect {
                conn,
                opener,
                from,
                to,
                to_port,
                ..
            } => {
                totals.connections += 1;
                let open = Open::new(now, conn, opener, from, to, to_port);
                running.conns.push(open);
                self.used(now, app, (number, conn), from, to);
                Some(AppInput::Established { conn })
            }
            Act::Write { conn, end, bytes } => {
                totals.requests += u64::from(end == End::Client);
                let open = running.conns.iter_mut().find(|it| it.conn == conn)?;
                open.carry(end, bytes);
                let (from, to) = open.way(end);
                self.carried(app, from, to, bytes);
                self.used(now, app, (number, conn), from, to);
                if timed(conn, end) {
                    let at = now.saturating_add(self.config.file_time);
                    self.push(at, Event::Deliver(slot, number, conn, bytes));
                    return None;
                }
                let end = end.other();
                Some(AppInput::Received { conn, end, bytes })
            }
            Act::Close { conn, end } => {
                let index = running.conns.iter().position(|it| it.conn == conn)?;
                let (from, to) = running.conns[index].way(end);
                if let Some(closed) = running.conns[index].close(now, end) {
                    running.conns.swap_remove(index);
                    (self.watch)(Seen::Connection(closed));
                }
                if timed(conn, end) {
                    let at = now.saturating_add(self.config.file_time);
                    self.push(at, Event::End(slot, number, conn));
                    return None;
                }
                self.used(now, app, (number, conn), from, to);
                let end = end.other();
                Some(AppInput::Ended { conn, end })
            }
            Act::Datagram {
                from,
                to,
                bytes,
                media,
            } => {
                (self.watch)(Seen::Datagram {
                    conversation: number,
                    media,
                    at: now,
                    bytes,
                });
                self.carried(app, from, to, u64::from(bytes));
                for circuits in &mut self.circuits {
                    circuits.use_one(now, (number, ConnId(0)), (app, from, to));
                }
                Some(AppInput::Datagram { sent: now })
            }
        }
    }

    fn carried(&mut self, app: usize, from: HostId, to: HostId, bytes: u64) {
        let totals = &mut self.totals[app];
        totals.bytes += bytes;
        let (from, to) = (self.sites[from.0 as usize], self.sites[to.0 as usize]);
        totals.matrix[from][to] += bytes;
    }

    /// A segment and its acknowledgement: both directions of a connection are in use.
    fn used(&mut self, now: Time, app: usize, conn: (u64, ConnId), a: HostId, b: HostId) {
        for circuits in &mut self.circuits {
            circuits.use_one(now, conn, (app, a, b));
            circuits.use_one(now, conn, (app, b, a));
        }
    }
}
