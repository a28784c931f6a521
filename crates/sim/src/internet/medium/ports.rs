//! Links with a queue discipline: a packet's departure is decided when the link is free.
//!
//! It costs a timer for each packet that is sent. Links without one have all in their [pipe](super::pipe). A packet that
//! leaves the discipline enters the pipe of its link, which is free then.

use layercast_core::{Rate, Span, Stream, Time};
use layercast_qos::DelayHistogram;
use rand_core::RngCore;

use super::Medium;
use super::pipe::Offered;
use crate::internet::discipline::{
    Discipline, DropCause, Inside, Item, Port, QueueDiscipline, Setup,
};
use crate::internet::engine::PacketId;
use crate::internet::network::{Limit, Link, Network, NodeIndex};
use crate::internet::report::{BandReport, DisciplineReport, MeanSpan, QueueReport, SojournReport};
use crate::internet::series::QueueState;
use crate::kernel::SourceId;

/// The queues with a discipline.
#[derive(Debug)]
pub(crate) struct Ports {
    /// For each pipe its queue, or `NONE`.
    of_pipes: Vec<u32>,
    queues: Vec<PortQueue>,
    /// What a discipline just dropped.
    dropped: Vec<(Item, DropCause)>,
}

const NONE: u32 = u32::MAX;

/// The queue of a direction of a link.
#[derive(Debug)]
struct PortQueue {
    name: String,
    pipe: u32,
    /// The node at the end of the link.
    to: NodeIndex,
    source: SourceId,
    rate: Rate,
    limit: Limit,
    discipline: Box<dyn QueueDiscipline>,
    random: Stream,
    /// The discipline had nothing to send when the link became free.
    is_idle: bool,
    inside: Inside,
    counts: Counts,
    /// What was counted before the warm-up was over.
    before: Counts,
    /// How many packets those that came found.
    seen: u64,
    max_waiting: u32,
    waited: MeanSpan,
    sojourn: Sojourn,
    /// Each of its bands, if it has several.
    bands: Vec<Band>,
}

/// Times in a queue of the packets sent.
#[derive(Default, Debug)]
struct Sojourn {
    histogram: DelayHistogram,
    longest: Span,
}

impl Sojourn {
    fn record(&mut self, waited: Span) {
        self.histogram.record(waited);
        self.longest = self.longest.max(waited);
    }

    fn report(&self) -> SojournReport {
        let quantile = |q: f64| {
            let found = self.histogram.quantile(q);
            found.map(|span| span.min(self.longest).as_secs_f64())
        };
        SojournReport {
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: (self.histogram.count() > 0).then(|| self.longest.as_secs_f64()),
        }
    }
}

/// What a band of a discipline did.
#[derive(Default, Debug)]
struct Band {
    name: String,
    sent: u64,
    bytes: u64,
    dropped: u64,
    marked: u64,
    sojourn: Sojourn,
}

impl Band {
    fn called(name: String) -> Band {
        Band {
            name,
            ..Band::default()
        }
    }

    fn report(&self) -> BandReport {
        BandReport {
            name: self.name.clone(),
            sent: self.sent,
            bytes: self.bytes,
            dropped: self.dropped,
            marked: self.marked,
            sojourn: self.sojourn.report(),
        }
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    offered: u64,
    full: u64,
    early: u64,
    marked: u64,
}

impl PortQueue {
    /// What the discipline sees now.
    fn port<'a>(
        &'a mut self,
        (now, sending): (Time, Option<u64>),
        dropped: &'a mut Vec<(Item, DropCause)>,
    ) -> (&'a mut dyn QueueDiscipline, Port<'a>) {
        let what = (now, self.rate, self.limit, sending);
        let port = Port::new(what, &mut self.inside, &mut self.random, dropped);
        (&mut *self.discipline, port)
    }
}

impl Ports {
    /// Those of a network, if it has any; `source` gives an event source for the queue of this number and name.
    pub fn new(
        network: &Network,
        names: &[String],
        mut source: impl FnMut(u32, &str) -> SourceId,
    ) -> Option<Ports> {
        let has = |link: &Link| link.disciplines.iter().any(Option::is_some);
        if !network.links.iter().any(has) {
            return None;
        }
        let pipes = 2 * network.links.len() + network.lans.len();
        let mut ports = Ports {
            of_pipes: vec![NONE; pipes],
            queues: Vec::new(),
            dropped: Vec::new(),
        };
        for (n, link) in network.links.iter().enumerate() {
            for (way, discipline) in link.disciplines.iter().enumerate() {
                if let Some(discipline) = discipline {
                    let pipe = 2 * n + way;
                    let number = ports.queues.len() as u32;
                    ports.of_pipes[pipe] = number;
                    let what = (link, way, discipline);
                    let line = (network.seed, names[pipe].as_str());
                    let source = source(number, &names[pipe]);
                    ports
                        .queues
                        .push(PortQueue::new(what, line, pipe as u32, source));
                }
            }
        }
        Some(ports)
    }

    /// The links that have one, as pipes.
    pub fn pipes(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().map(|queue| queue.pipe)
    }

    /// Whether a link has one.
    pub fn has(&self, pipe: u32) -> bool {
        self.of_pipe(pipe).is_some()
    }

    fn of_pipe(&self, pipe: u32) -> Option<&PortQueue> {
        let place = self.of_pipes.get(pipe as usize)?;
        self.queues.get(*place as usize)
    }

    /// Forgets what was counted until now.
    pub fn restart(&mut self) {
        for queue in &mut self.queues {
            let counts = std::mem::take(&mut queue.counts);
            queue.before.full += counts.full;
            queue.before.early += counts.early;
            queue.before.marked += counts.marked;
            (queue.seen, queue.max_waiting) = (0, 0);
            queue.waited = MeanSpan::default();
            queue.sojourn = Sojourn::default();
            for band in &mut queue.bands {
                *band = Band::called(std::mem::take(&mut band.name));
            }
        }
    }

    /// What it did is added to what its pipe reports.
    pub fn complete(&self, pipe: u32, report: &mut QueueReport) {
        let Some(queue) = self.of_pipe(pipe) else {
            return;
        };
        let Counts {
            offered,
            full,
            early,
            marked,
        } = queue.counts;
        report.offered = offered;
        report.dropped_full = full;
        report.dropped_red = early;
        report.marked = marked;
        report.mean_waiting = match offered {
            0 => 0.0,
            offered => queue.seen as f64 / offered as f64,
        };
        report.mean_wait = queue.waited.seconds();
        report.max_waiting = queue.max_waiting;
        report.discipline = Some(DisciplineReport {
            name: queue.name.clone(),
            waiting: queue.inside.packets,
            sojourn: queue.sojourn.report(),
            bands: queue.bands.iter().map(Band::report).collect(),
        });
    }

    /// The packets in the queue are added to the state of its pipe, for a series.
    pub fn add_state(&self, pipe: u32, state: &mut QueueState) {
        if let Some(queue) = self.of_pipe(pipe) {
            let (now, before) = (&queue.counts, &queue.before);
            state.waiting = queue.inside.packets.into();
            state.bytes = state.bytes.map(|bytes| bytes + queue.inside.bytes);
            state.dropped = now.full + now.early + before.full + before.early;
            state.marked = now.marked + before.marked;
        }
    }
}

impl PortQueue {
    fn new(
        (link, way, discipline): (&Link, usize, &Discipline),
        (seed, line): (u64, &str),
        pipe: u32,
        source: SourceId,
    ) -> PortQueue {
        let (rate, limit) = (link.ways[way].rate, link.ways[way].queue.limit);
        let mut random = Stream::new(seed, &format!("link/{line}/discipline"));
        let setup = Setup {
            rate,
            mtu: link.mtu,
            limit,
            salt: random.next_u64(),
        };
        let name = discipline.name().to_owned();
        let discipline = discipline.make(&setup);
        PortQueue {
            name,
            pipe,
            to: link.ends[1 - way],
            source,
            rate,
            limit,
            bands: discipline.bands().into_iter().map(Band::called).collect(),
            discipline,
            random,
            is_idle: true,
            inside: Inside::default(),
            counts: Counts::default(),
            before: Counts::default(),
            seen: 0,
            max_waiting: 0,
            waited: MeanSpan::default(),
            sojourn: Sojourn::default(),
        }
    }
}

impl Medium<'_> {
    /// What the queues of all links and LANs did.
    pub(crate) fn queue_reports(&self, since: Time) -> impl Iterator<Item = QueueReport> {
        (0..).zip(&self.pipes).map(move |(n, pipe)| {
            let mut report = pipe.report(self.engine.now, since);
            if let Some(ports) = &self.ports {
                ports.complete(n, &mut report);
            }
            report
        })
    }

    /// A packet comes to a link, which may have a queue in front of its pipe: whether that has taken the packet.
    #[cold]
    pub(crate) fn takes_packet(&mut self, pipe: u32, id: PacketId, bytes: u32) -> bool {
        if self.classes.is_some() && self.takes_class(pipe, id, bytes) {
            return true;
        }
        let place = self
            .ports
            .as_ref()
            .map(|ports| ports.of_pipes[pipe as usize]);
        match place.filter(|&place| place != NONE) {
            Some(place) => {
                self.comes_to_port(place, id, bytes);
                true
            }
            None => false,
        }
    }

    fn comes_to_port(&mut self, place: u32, id: PacketId, bytes: u32) {
        // At one instant, departures from the queue precede arrivals.
        self.serve_port(place);
        let now = self.engine.now;
        let packet = self.packets.get(id);
        let Some(ports) = &mut self.ports else {
            return;
        };
        let queue = &mut ports.queues[place as usize];
        let pipe = &self.pipes[queue.pipe as usize];
        let sending = (pipe.free_from() > now).then(|| pipe.bytes_left(now));
        queue.counts.offered += 1;
        queue.seen += u64::from(queue.inside.packets);
        queue.inside.add(bytes);
        let item = Item::new(id, packet, bytes, now);
        let (discipline, mut port) = queue.port((now, sending), &mut ports.dropped);
        discipline.enqueue(item, &mut port);
        self.drop_from_port(place);
        self.serve_port(place);
        if let Some(ports) = &mut self.ports {
            let queue = &mut ports.queues[place as usize];
            queue.max_waiting = queue.max_waiting.max(queue.inside.packets);
        }
    }

    /// Packets leave the queue of this number while the link is free; then it is known when to look again.
    pub(crate) fn serve_port(&mut self, place: u32) {
        let now = self.engine.now;
        let next = loop {
            let Some(ports) = &mut self.ports else {
                return;
            };
            let queue = &mut ports.queues[place as usize];
            let free = self.pipes[queue.pipe as usize].free_from();
            if free > now {
                break Some(free);
            }
            if queue.is_idle && queue.inside.packets == 0 {
                break None;
            }
            let (discipline, mut port) = queue.port((now, None), &mut ports.dropped);
            let item = discipline.dequeue(&mut port);
            let Some(item) = item else {
                queue.is_idle = true;
                let ready = queue.discipline.ready_at();
                self.drop_from_port(place);
                // What is ready now was to be returned.
                break ready.filter(|&at| at > now);
            };
            queue.is_idle = false;
            queue.inside.remove(item.bytes());
            let waited = now.since(item.since());
            queue.waited.add(waited);
            queue.sojourn.record(waited);
            let is_marked = item.ecn() != item.ecn_before();
            queue.counts.marked += u64::from(is_marked);
            if let Some(band) = queue.bands.get_mut(queue.discipline.band(&item)) {
                band.sent += 1;
                band.bytes += u64::from(item.bytes());
                band.marked += u64::from(is_marked);
                band.sojourn.record(waited);
            }
            let (pipe, to) = (queue.pipe, queue.to);
            let id = PacketId(item.packet());
            self.packets.get_mut(id).ecn = item.ecn();
            self.drop_from_port(place);
            self.enter(pipe, id, item.bytes(), to);
        };
        if let Some(ports) = &self.ports {
            let source = ports.queues[place as usize].source;
            self.engine.kernel.schedule(source, next);
        }
    }

    /// Packets that a discipline dropped are lost.
    fn drop_from_port(&mut self, place: u32) {
        let Some(ports) = &mut self.ports else {
            return;
        };
        if ports.dropped.is_empty() {
            return;
        }
        let queue = &mut ports.queues[place as usize];
        let pipe = queue.pipe;
        let mut dropped = std::mem::take(&mut ports.dropped);
        for (item, cause) in &dropped {
            match cause {
                DropCause::Full => queue.counts.full += 1,
                DropCause::Early => queue.counts.early += 1,
            }
            if let Some(band) = queue.bands.get_mut(queue.discipline.band(item)) {
                band.dropped += 1;
            }
        }
        for (item, cause) in dropped.drain(..) {
            let offered = match cause {
                DropCause::Full => Offered::Full,
                DropCause::Early => Offered::Early,
            };
            self.lost_on(pipe, PacketId(item.packet()), offered);
        }
        if let Some(ports) = &mut self.ports {
            ports.dropped = dropped;
        }
    }
}
