//! Cells one by one, site after site: a switch with the adapters at its ports.
//!
//! A cell from one switch to another takes at least the delay of the link between them. So the arrivals of that
//! time are already known, and cells are merged and sent in one loop, without an event for each (conservative
//! synchronisation: Chandy and Misra, IEEE Trans. Software Eng. 5(5), 1979). Adapters, which the rest of the
//! world uses, follow the global clock; a site is visited when one of them may get an input, or when it has
//! advanced to the limit of its neighbours' known cells.

use layercast_atm::signal::{ControllerEvent, ControllerInput};
use layercast_atm::{Cell, FrameId, OutputQueue, Vcid};
use layercast_core::{Machine, Off, PortId, Span, Time};

use super::SIGNALLING;
use super::backbone::AtmNode;
use super::change::Change;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::frames::FrameBody;
use super::port::Line;
use super::site_lines::{Lines, just_after};

#[derive(Debug)]
pub(super) struct Sites {
    lines: Lines,
    sites: Vec<Site>,
    /// For each port of an adapter the site it is at.
    homes: Vec<u32>,
    /// What a cell needs at least from a port to any other.
    lead: Span,
    /// After the end of all.
    end: Time,
    /// When each site has to be looked at.
    due: Due,
    /// Before then nothing happens unless an adapter sends something.
    asleep: Option<Time>,
    /// Timers of controllers that were due.
    pub wakes: u64,
}

#[derive(Clone, Debug)]
struct Site {
    /// The switch, and its ports.
    node: u32,
    first: u32,
    after: u32,
    /// The ports of the adapters at it.
    adapters: Vec<u32>,
    /// What a cell needs at least from an adapter to the switch.
    near: Span,
    /// The switches that send to it, and what a cell needs from there.
    neighbours: Vec<(u32, Span)>,
    /// Everything before has happened.
    done: Time,
    /// The next timeout of its controller.
    timer: Time,
}

impl Sites {
    pub fn new(fabric: &Fabric, queues: Vec<OutputQueue>, end: Time) -> Sites {
        let facts = &fabric.ports;
        let is_adapter = |node: u32| fabric.reassemblers[node as usize].is_some();
        let mut number = vec![0; fabric.degrees.len()];
        let mut sites = Vec::new();
        let mut first = 0;
        for (node, &degree) in fabric.degrees.iter().enumerate() {
            let after = first + degree as u32;
            if !is_adapter(node as u32) {
                number[node] = sites.len() as u32;
                sites.push(Site {
                    node: node as u32,
                    first,
                    after,
                    adapters: Vec::new(),
                    near: Span::MAX,
                    neighbours: Vec::new(),
                    done: Time::ZERO,
                    timer: Time::MAX,
                });
            }
            first = after;
        }
        let mut homes = vec![0; facts.len()];
        for (n, port) in facts.iter().enumerate() {
            let to = facts[port.peer as usize].node;
            let home = number[to as usize];
            if is_adapter(port.node) {
                homes[n] = home;
                let site = &mut sites[home as usize];
                site.adapters.push(n as u32);
                site.near = site.near.min(port.lead());
            } else if !is_adapter(to) {
                let from = number[port.node as usize];
                sites[home as usize].neighbours.push((from, port.lead()));
            }
        }
        let lead = facts.iter().map(|port| port.lead()).min();
        let alone = |n: u32| sites[homes[n as usize] as usize].adapters == [n];
        Sites {
            lines: Lines::new(fabric, queues, alone),
            due: Due::new(sites.len()),
            sites,
            homes,
            lead: lead.unwrap_or(Span::ZERO),
            end: just_after(end),
            asleep: Some(Time::MAX),
            wakes: 0,
        }
    }

    /// When something is due.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let at = |due: &Due| due.first().map_or(Time::MAX, |(moment, _)| moment.at);
        let next = at(&self.due).min(at(&self.lines.wires.told));
        (next < Time::MAX).then_some(next)
    }

    pub fn queue(&self, port: u32) -> &OutputQueue {
        self.lines.queue(port)
    }

    /// The queue of the port of an adapter, at a moment when what left it has.
    pub fn settled(&mut self, fabric: &mut Fabric, n: u32) -> &mut OutputQueue {
        self.lines.settled(fabric, n, just_after(fabric.now.at))
    }

    /// A cell comes to the queue of the port of an adapter now.
    pub fn put(&mut self, fabric: &mut Fabric, n: u32, cell: Cell) {
        self.lines.take(fabric, n, fabric.now.at, cell);
        self.has_come(fabric.now.at, n);
    }

    /// A frame comes to the queue of the port of an adapter now, all its cells simultaneously.
    pub fn put_frame(&mut self, fabric: &mut Fabric, n: u32, frame: FrameId, vc: Vcid, count: u32) {
        for index in 0..count {
            let cell = Cell::of(frame, vc, index, count);
            self.lines.take(fabric, n, fabric.now.at, cell);
        }
        self.has_come(fabric.now.at, n);
    }

    /// Something has come to the port of an adapter.
    fn has_come(&mut self, now: Time, n: u32) {
        if self.asleep.take().is_some() {
            for n in 0..self.sites.len() as u32 {
                self.look_by(n, now.saturating_add(self.lead));
            }
        } else {
            let mark = self.lines.next_mark(n);
            self.look_by(self.homes[n as usize], mark.saturating_add(self.lead));
        }
    }

    /// What is due happens.
    pub fn step(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode]) -> Arrival {
        let told = self.lines.wires.told.first();
        match (told, self.due.first()) {
            (_, Some((due, site))) if told.is_none_or(|(moment, _)| due.at <= moment.at) => {
                self.look(fabric, nodes, site as usize, due.at);
                Arrival::Nothing
            }
            (Some((moment, n)), _) => {
                fabric.now = fabric.now.max(moment);
                self.lines.wires.deliver(fabric, n, moment.next())
            }
            (None, _) => Arrival::Nothing,
        }
    }

    /// Everything happens that does until now.
    pub fn finish(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode]) {
        let after = just_after(fabric.now.at);
        self.end = after;
        for n in 0..self.sites.len() {
            self.serve_adapters(fabric, n, after);
        }
        while self.sites.iter().any(|it| it.done < after) {
            self.sweep(fabric, nodes, after);
        }
        fabric.now = Moment::after(fabric.now.at);
        for n in 0..self.homes.len() as u32 {
            if self.lines.wires.ports[n as usize].ends {
                self.lines.wires.deliver(fabric, n, fabric.now);
            }
        }
    }

    /// Delivers to the adapter at the other end of a port the cells that arrive before now.
    pub fn collect(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode], n: u32) {
        let site = self.homes[self.lines.wires.ports[n as usize].peer as usize];
        self.look(fabric, nodes, site as usize, fabric.now.at);
        self.lines.wires.deliver(fabric, n, fabric.now);
    }

    /// Makes a site due by an instant.
    fn look_by(&mut self, site: u32, at: Time) {
        if at < self.due.at(site) {
            self.due.set(site, Some(Moment { at, tie: 0 }));
        }
    }

    /// Lets happen at a site what has happened by now, and what does as long as it is known.
    fn look(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode], n: usize, now: Time) {
        if self.asleep.is_some_and(|until| until <= now) {
            self.asleep = None;
        }
        loop {
            self.advance(fabric, nodes, n, now);
            if self.sites[n].done >= now.min(self.end) {
                break;
            }
            self.sweep(fabric, nodes, now);
        }
        if self.asleep.is_none() {
            self.schedule(n);
        }
    }

    /// Lets all sites catch up by a link or more.
    fn sweep(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode], now: Time) {
        let adapters = self.sites.iter().flat_map(|site| &site.adapters);
        let sent = adapters.map(|&n| self.lines.leaves[n as usize]);
        let first = self.sites.iter().map(|site| self.first(site));
        let first = first.chain(sent).min().unwrap_or(Time::MAX);
        for site in &mut self.sites {
            site.done = site.done.max(first.min(now));
        }
        if first > now {
            // It may be long until then.
            self.asleep = Some(first);
            let moment = (first < Time::MAX).then_some(Moment { at: first, tie: 0 });
            for n in 0..self.sites.len() as u32 {
                self.due.set(n, moment);
            }
            return;
        }
        self.asleep = None;
        for n in 0..self.sites.len() {
            self.advance(fabric, nodes, n, now);
            self.schedule(n);
        }
    }

    /// Advances a site as far as its arrivals are known now.
    fn advance(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode], n: usize, now: Time) {
        let site = &self.sites[n];
        let limit = now.saturating_add(site.near);
        let until = self.known(site).min(limit).min(self.end);
        if until <= site.done {
            return;
        }
        self.serve_adapters(fabric, n, now);
        self.run(fabric, nodes, n, until);
        self.sites[n].done = until;
    }

    /// Sends the cells that leave the adapters of a site before an instant.
    fn serve_adapters(&mut self, fabric: &mut Fabric, n: usize, until: Time) {
        for &port in &self.sites[n].adapters {
            self.lines.serve(fabric, port, until);
        }
    }

    /// The time until which all arrivals from the neighbours of a site are known.
    fn known(&self, site: &Site) -> Time {
        let known = site.neighbours.iter();
        let known = known.map(|&(from, lead)| self.sites[from as usize].done.saturating_add(lead));
        known.min().unwrap_or(Time::MAX)
    }

    /// When something happens next at a switch, as far as it is known.
    fn first(&self, site: &Site) -> Time {
        let ports = site.first as usize..site.after as usize;
        let (heads, leaves) = (
            &self.lines.wires.heads[ports.clone()],
            &self.lines.leaves[ports],
        );
        let mut first = site.timer;
        for (&head, &leaves) in heads.iter().zip(leaves) {
            first = first.min(head).min(leaves);
        }
        first
    }

    /// Schedules the next visit of a site: before an adapter at it can get an input that is not yet on the wire
    /// to it.
    fn schedule(&mut self, n: usize) {
        let site = &self.sites[n];
        let mut switch = self.known(site).min(site.timer);
        let mut adapter = Time::MAX;
        for &at in &self.lines.wires.marks[site.first as usize..site.after as usize] {
            switch = switch.min(at);
        }
        for &n in &site.adapters {
            let back = self.lines.wires.ports[n as usize].peer;
            switch = switch.min(self.lines.next_mark(n));
            adapter = adapter.min(self.lines.next_queued_mark(back));
        }
        let at = switch.saturating_add(self.lead).min(adapter);
        let moment = (at < Time::MAX).then_some(Moment { at, tie: 0 });
        self.due.set(n as u32, moment);
    }

    /// Takes a switch to an instant before which nothing comes to it that is not on its way.
    fn run(&mut self, fabric: &mut Fabric, nodes: &mut [AtmNode], n: usize, until: Time) {
        let Site {
            node, first, after, ..
        } = self.sites[n];
        let node = &mut nodes[node as usize];
        loop {
            let timer = self.sites[n].timer;
            let mut limit = until.min(timer);
            let (mut next, mut by) = (Time::MAX, first);
            let heads = &self.lines.wires.heads[first as usize..after as usize];
            for (&at, port) in heads.iter().zip(first..) {
                if at < next || at == next && self.lines.wires.precedes(fabric, port, by, at) {
                    limit = limit.min(next);
                    (next, by) = (at, port);
                } else {
                    limit = limit.min(at);
                }
            }
            if after - first == 2 {
                // Cells that enter by one leave by the other, and wait for nothing but the controller's cells.
                let other = first + after - 1 - by;
                let marks = &self.lines.wires.marks;
                let told = marks[by as usize].max(limit).min(marks[other as usize]);
                limit = until.min(timer).min(told);
            }
            if timer < until && timer <= next {
                self.wakes += 1;
                node.controller.on_timeout(timer, &mut Off);
                self.settle(fabric, node, n, timer);
                continue;
            }
            if next >= until {
                break;
            }
            // The first in any case, and those that come before any other.
            while let Some(cell) = self.lines.wires.arrive(by) {
                fabric.cell_hops += 1;
                if cell.vc == SIGNALLING {
                    let from = self.lines.wires.ports[by as usize].peer;
                    if let Arrival::Signal(_, cell) = fabric.signal(from, cell.frame) {
                        let port = PortId((by - first) as u16);
                        let input = ControllerInput::Cell { port, cell };
                        node.controller.handle(next, input, &mut Off);
                        self.settle(fabric, node, n, next);
                    }
                    break;
                }
                match fabric.ports[by as usize].line(cell.vc) {
                    Some(line) => self.lines.go_on(fabric, by, next, cell, line, limit),
                    None => {
                        fabric.unknown_vc += 1;
                        fabric.gone(cell.frame, 1);
                    }
                }
                next = self.lines.wires.heads[by as usize];
                if next >= limit {
                    break;
                }
            }
        }
        for port in first..after {
            self.lines.serve(fabric, port, until);
        }
    }

    /// Lets the controller of a switch say what it has to say.
    fn settle(&mut self, fabric: &mut Fabric, node: &mut AtmNode, n: usize, now: Time) {
        let first = node.first_port;
        loop {
            if let Some(event) = node.controller.poll_event() {
                self.change(fabric, first, event, now);
            } else if let Some((port, cell)) = node.controller.poll_transmit(now, &mut Off) {
                let frame = fabric.frames.add(n as u32, FrameBody::Signal(cell), 1);
                let cell = Cell::of(frame, SIGNALLING, 0, 1);
                self.lines
                    .take(fabric, first + u32::from(port.0), now, cell);
            } else {
                break;
            }
        }
        let timer = node.controller.next_timeout();
        self.sites[n].timer = timer.map_or(Time::MAX, |at| at.max(now));
    }

    /// Circuits of a switch come and go.
    fn change(&mut self, fabric: &mut Fabric, first: u32, event: ControllerEvent, now: Time) {
        let Some(change) = Change::of(first, &event) else {
            return;
        };
        let Line { port, vc } = change.to;
        let queue = self.lines.settled(fabric, port, just_after(now));
        match change.opens {
            Some((class, traffic)) => queue.open(vc, class, traffic),
            None => queue.close(vc),
        }
        if let Some((port, vc)) = change.from {
            let line = change.line(port);
            fabric.ports[port as usize].set_line(vc, line);
            if line.is_some_and(|line| self.lines.wires.ports[line.port as usize].ends) {
                self.lines.wires.turn(fabric, port, vc);
            }
        }
    }
}
