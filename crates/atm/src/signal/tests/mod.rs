//! Controllers in a line or a tree, with links that delay and lose cells.

mod calls;
mod hostile;
mod lossy;

use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{Machine, Off, PortId, RequestId, Span, Stream, Time};

use super::*;
use crate::policy::Service;
use crate::{AtmAddress, Class, RejectCause, Tag, Vcid};

/// Admits a number of calls with a contract at each port, and checks the order of operations.
#[derive(Debug)]
struct Limit {
    guaranteed: usize,
    held: BTreeMap<(PortId, CallId), Service>,
}

impl PortAdmission for Limit {
    fn reserve(
        &mut self,
        port: PortId,
        call: CallId,
        service: Service,
    ) -> Result<Class, RejectCause> {
        let contracts = |(at, service): (&(PortId, CallId), &Service)| {
            at.0 == port && matches!(service, Service::Guaranteed(_))
        };
        let class = match service {
            Service::BestEffort => Class::BestEffort,
            Service::Priority(level) => Class::Level(level),
            Service::Guaranteed(_) => {
                if self.held.iter().filter(|&held| contracts(held)).count() >= self.guaranteed {
                    return Err(RejectCause::Capacity(3));
                }
                Class::Level(3)
            }
        };
        assert_eq!(
            self.held.insert((port, call), service),
            None,
            "reserved twice"
        );
        Ok(class)
    }

    fn release(&mut self, port: PortId, call: CallId) {
        assert!(self.held.remove(&(port, call)).is_some(), "not reserved");
    }
}

/// A network of controllers: nodes with an address are hosts.
struct Net {
    nodes: Vec<Controller<Limit>>,
    /// The other end of a link.
    peers: BTreeMap<(usize, PortId), (usize, PortId)>,
    delay: Span,
    loss: f64,
    stream: Stream,
    now: Time,
    flying: BTreeMap<(Time, u64), (usize, PortId, SignalCell)>,
    cells: u64,
    /// The switching table of each node, and the circuits that end there.
    tables: Vec<BTreeMap<(PortId, Vcid), Connection>>,
    ends: Vec<BTreeMap<(PortId, Vcid), AtmAddress>>,
    /// Answers by node and request.
    answers: BTreeMap<(usize, RequestId), Answer>,
    /// Failed circuits of hosts.
    lost: Vec<(usize, PortId, Vcid)>,
    requests: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answer {
    at: Time,
    what: Result<(PortId, Vcid), RejectCause>,
}

impl Net {
    /// A tree with these edges; nodes with one link are hosts, whose number is their address. Every node has a route
    /// to every host.
    fn tree(edges: &[(usize, usize)], delay: Span, config: ControllerConfig) -> Net {
        let count = edges.len() + 1;
        let degree = |node| {
            edges
                .iter()
                .filter(|&&(a, b)| a == node || b == node)
                .count()
        };
        let mut net = Net {
            nodes: Vec::new(),
            peers: BTreeMap::new(),
            delay,
            loss: 0.0,
            stream: Stream::new(1, "loss"),
            now: Time::ZERO,
            flying: BTreeMap::new(),
            cells: 0,
            tables: vec![BTreeMap::new(); count],
            ends: vec![BTreeMap::new(); count],
            answers: BTreeMap::new(),
            lost: Vec::new(),
            requests: 0,
        };
        for node in 0..count {
            let address = (degree(node) == 1).then_some(AtmAddress(node as u16));
            let admission = Limit {
                guaranteed: 3,
                held: BTreeMap::new(),
            };
            net.nodes.push(Controller::new(
                ControllerConfig { address, ..config },
                admission,
            ));
        }
        // The port to a neighbour has the neighbour's number.
        for &(a, b) in edges {
            for (from, to) in [(a, b), (b, a)] {
                net.nodes[from].add_port(PortId(to as u16));
                let peer = (to, PortId(from as u16));
                net.peers.insert((from, PortId(to as u16)), peer);
            }
        }
        for host in (0..count).filter(|&node| degree(node) == 1) {
            let mut reached = vec![host];
            let mut seen = BTreeSet::from([host]);
            while let Some(node) = reached.pop() {
                for &(a, b) in edges {
                    for (near, far) in [(a, b), (b, a)] {
                        if near == node && seen.insert(far) {
                            net.nodes[far].add_route(AtmAddress(host as u16), PortId(near as u16));
                            reached.push(far);
                        }
                    }
                }
            }
        }
        net
    }

    /// Host 0, then switches, then a host.
    fn line(count: usize, delay: Span, config: ControllerConfig) -> Net {
        let edges: Vec<(usize, usize)> = (1..count).map(|node| (node - 1, node)).collect();
        Net::tree(&edges, delay, config)
    }

    fn handle(&mut self, node: usize, input: ControllerInput) {
        self.nodes[node].handle(self.now, input, &mut Off);
        self.drain(node);
    }

    fn setup(&mut self, from: usize, to: usize, service: Service) -> RequestId {
        let request = RequestId(self.requests);
        self.requests += 1;
        let to = AtmAddress(to as u16);
        let tag = Tag::Any;
        self.handle(
            from,
            ControllerInput::Setup {
                request,
                to,
                service,
                tag,
            },
        );
        request
    }

    fn release(&mut self, node: usize, (port, vc): (PortId, Vcid)) {
        self.handle(node, ControllerInput::Release { port, vc });
    }

    fn answer(&self, node: usize, request: RequestId) -> Option<Answer> {
        self.answers.get(&(node, request)).copied()
    }

    fn drain(&mut self, node: usize) {
        while let Some((port, cell)) = self.nodes[node].poll_transmit(self.now, &mut Off) {
            let (peer, peer_port) = self.peers[&(node, port)];
            self.cells += 1;
            if !self.stream.chance(self.loss) {
                let at = (self.now + self.delay, self.cells);
                self.flying.insert(at, (peer, peer_port, cell));
            }
        }
        while let Some(event) = self.nodes[node].poll_event() {
            self.event(node, event);
        }
    }

    fn event(&mut self, node: usize, event: ControllerEvent) {
        let at = self.now;
        match event {
            ControllerEvent::Install(line) => {
                let old = self.tables[node].insert((line.in_port, line.in_vc), line);
                assert_eq!(old, None, "the circuit is in use");
            }
            ControllerEvent::Remove(line) => {
                let old = self.tables[node].remove(&(line.in_port, line.in_vc));
                assert_eq!(old, Some(line));
            }
            ControllerEvent::Ready { request, port, vc } => {
                let what = Ok((port, vc));
                let old = self.answers.insert((node, request), Answer { at, what });
                assert_eq!(old, None, "answered twice");
            }
            ControllerEvent::Rejected { request, cause } => {
                let what = Err(cause);
                let old = self.answers.insert((node, request), Answer { at, what });
                assert_eq!(old, None, "answered twice");
            }
            ControllerEvent::Lost { port, vc } => self.lost.push((node, port, vc)),
            ControllerEvent::Incoming { port, vc, from, .. } => {
                let old = self.ends[node].insert((port, vc), from);
                assert_eq!(old, None, "the circuit is in use");
            }
            ControllerEvent::Released { port, vc } => {
                assert!(self.ends[node].remove(&(port, vc)).is_some());
            }
        }
    }

    /// Runs until `until`, or until no event is left.
    fn run(&mut self, until: Time) {
        loop {
            let flying = self.flying.first_key_value().map(|(&(at, _), _)| at);
            let timers = self.nodes.iter().filter_map(Controller::next_timeout);
            let Some(next) = timers.chain(flying).min().filter(|&next| next <= until) else {
                break;
            };
            self.now = next;
            for node in 0..self.nodes.len() {
                if self.nodes[node]
                    .next_timeout()
                    .is_some_and(|due| due <= next)
                {
                    self.nodes[node].on_timeout(next, &mut Off);
                    self.drain(node);
                }
            }
            while let Some(entry) = self
                .flying
                .first_entry()
                .filter(|entry| entry.key().0 <= next)
            {
                let (node, port, cell) = entry.remove();
                self.handle(node, ControllerInput::Cell { port, cell });
            }
        }
        if until != Time::MAX {
            self.now = until;
        }
    }

    /// Runs until no event is left.
    fn settle(&mut self) {
        self.run(Time::MAX);
    }

    /// Follows a circuit of a host through the tables; returns the node where it ends.
    fn follow(&self, host: usize, circuit: (PortId, Vcid)) -> Option<usize> {
        let (mut node, mut at) = (host, (PortId::LOCAL, circuit.1));
        for _ in 0..=self.nodes.len() {
            let line = self.tables[node].get(&at)?;
            let (next, port) = self.peers[&(node, line.out_port)];
            (node, at) = (next, (port, line.out_vc));
            if let Some(from) = self.ends[node].get(&at) {
                return (usize::from(from.0) == host).then_some(node);
            }
        }
        None
    }

    /// Asserts that no resources are held anywhere.
    fn assert_empty(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let stats = node.stats();
            assert_eq!((stats.calls, stats.vcids), (0, 0), "node {index}");
            assert!(node.admission().held.is_empty(), "node {index}");
            assert!(self.tables[index].is_empty(), "node {index}");
            assert!(self.ends[index].is_empty(), "node {index}");
            assert_eq!(node.next_timeout(), None, "node {index}");
        }
    }
}
