//! The METS nodes of a network: moves values between their machines in the order of their kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use layercast_core::{Machine, Stream, Time};
use layercast_link::host::Stalls;
use layercast_mets::{FlowLog, Sink, SinkInput, Source};
use layercast_mets::{Part, StationInput};

use super::capture::Capture;
use super::line::Line;
use super::received::StreamOut;
use super::script::{Action, Rank};
use super::state::{NodeState, SinkState, SourceState};
use super::wires::{LinkState, Wire};
use crate::internet::medium::Medium;
use crate::internet::medium::peered::Peered;
use crate::kernel::{Kernel, SourceId};
use crate::scenario::Network;
use crate::ties::{Class, Turns};

/// All of them, and everything else that changes during a run.
pub(crate) struct Stations<'a> {
    pub net: Arc<Network>,
    pub capture: Option<Capture<'a>>,
    pub kernel: Kernel,
    actors: Vec<Actor>,
    pub nodes: Vec<NodeState>,
    /// Two per link: from its first end, from its second end.
    pub wires: Vec<Wire>,
    pub links: Vec<LinkState>,
    pub sources: Vec<SourceState>,
    pub sinks: Vec<SinkState>,
    /// What the scenario wants done, and what follows from faults.
    pub agenda: BTreeMap<(Time, Rank), Action>,
    pub planned: u64,
    pub turns: Turns,
    pub agenda_event: SourceId,
    /// Where links repair losses.
    pub budgets_event: Option<SourceId>,
    pub counts: Counts,
    /// The streams of receivers, in their order, if they are written.
    pub outputs: Vec<StreamOut<'a>>,
}

/// What the run counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub events: u64,
    pub packet_hops: u64,
    pub cell_hops: u64,
    pub wire_errors: u64,
    pub signal_octets: u64,
}

/// The actor of an event source; the numbers are indices.
#[derive(Clone, Copy, Debug)]
enum Actor {
    Agenda,
    Switch(usize),
    Cpu(usize),
    Pacer(usize),
    Source(usize),
    Sink(usize),
    Stall(usize),
    Repair(usize),
    Budgets,
    Data(usize),
    Signals(usize),
}

impl<'a> Stations<'a> {
    /// Those of a network, to which nothing has happened; `lines` carry the data of each direction of each link.
    pub fn new(network: Arc<Network>, lines: Vec<Line>) -> Stations<'a> {
        let net = &*network;
        let turns = Turns::new(net.ties, net.seed);
        let mut kernel = Kernel::new(turns);
        let mut actors = Vec::new();
        let agenda_event = kernel.add(Class::Timer, "agenda");
        actors.push(Actor::Agenda);
        let nodes = (0..net.nodes.len()).map(|node| {
            actors.extend([Actor::Switch(node), Actor::Cpu(node), Actor::Pacer(node)]);
            NodeState::new(&net.nodes[node].name, &mut kernel)
        });
        let nodes = nodes.collect();
        let wires = lines.into_iter().enumerate().map(|(wire, line)| {
            actors.extend([Actor::Data(wire), Actor::Signals(wire)]);
            let made = Wire::new(net, (wire / 2, wire % 2), line, &mut kernel);
            actors.extend(made.repair_event.map(|_| Actor::Repair(wire)));
            made
        });
        let wires = wires.collect();
        let sources = net.flows.iter().enumerate().map(|(number, flow)| {
            actors.push(Actor::Source(number));
            let place = place_in(&net.nodes[flow.node].sources, number);
            SourceState::new(place, &flow.name, &mut kernel)
        });
        let sources = sources.collect();
        let sinks = net.receivers.iter().enumerate().map(|(place, receiver)| {
            actors.extend([Actor::Sink(place), Actor::Stall(place)]);
            let node = &net.nodes[receiver.node];
            let neighbour = node.ports.first().map_or("", |port| &port.config.name);
            let link = format!("{neighbour}-{}", node.name);
            SinkState {
                place: place_in(&node.receivers, place),
                log: FlowLog::new(&receiver.name, &link, Time::ZERO),
                answers: Vec::new(),
                stalls: Stalls::new(
                    node.profile.stall_rate,
                    node.profile.stall_max,
                    Stream::new(net.seed, &format!("{}/stalls", receiver.name)),
                ),
                event: kernel.add(Class::Timer, &format!("sink/{}", receiver.name)),
                stall_event: kernel.add(Class::Timer, &format!("stall/{}", receiver.name)),
            }
        });
        let sinks = sinks.collect();
        let repairs = net.links.iter().any(|link| link.repair.is_some());
        let budgets_event = repairs.then(|| kernel.add(Class::Timer, "budgets"));
        actors.extend(budgets_event.map(|_| Actor::Budgets));
        let down = LinkState {
            up: true,
            channel: false,
        };
        Stations {
            capture: None,
            actors,
            nodes,
            wires,
            links: vec![down; net.links.len()],
            net: network,
            sources,
            sinks,
            agenda: BTreeMap::new(),
            planned: 0,
            turns,
            agenda_event,
            budgets_event,
            kernel,
            counts: Counts::default(),
            outputs: Vec::new(),
        }
    }

    /// When something happens next.
    pub fn next(&mut self) -> Option<Time> {
        self.kernel.next().map(|(at, _)| at)
    }

    /// Lets everything happen that is due by `now`.
    pub fn advance(&mut self, medium: &mut Medium) {
        let now = medium.engine.now;
        while let Some((at, source)) = self.kernel.next()
            && at <= now
        {
            self.counts.events += 1;
            self.act(medium, source);
        }
    }

    /// What was sent on a wire has come to its end.
    pub fn comes(&mut self, medium: &mut Medium, wire: usize, datagram: Peered) {
        let Wire { data, link, .. } = &mut self.wires[wire];
        if !self.links[*link].up {
            return data.falls(medium);
        }
        data.stats.delivered += 1;
        self.arrive(medium, wire, datagram);
    }

    fn act(&mut self, medium: &mut Medium, source: SourceId) {
        let now = medium.engine.now;
        match self.actors[source.0 as usize] {
            Actor::Agenda => self.follow_agenda(medium),
            Actor::Switch(node) => self.run_timer(medium, node, Part::Switch),
            Actor::Source(flow) => {
                let part = Part::Source(self.sources[flow].place);
                self.run_timer(medium, self.net.flows[flow].node, part);
            }
            Actor::Sink(receiver) => {
                let part = Part::Sink(self.sinks[receiver].place);
                self.run_timer(medium, self.net.receivers[receiver].node, part);
            }
            Actor::Cpu(node) => self.run_timer(medium, node, Part::Host),
            Actor::Pacer(node) => self.run_timer(medium, node, Part::Pacer),
            Actor::Stall(place) => self.stall(medium, place),
            Actor::Repair(wire) => self.repair_timers(medium, wire),
            Actor::Budgets => self.share_budgets(medium),
            Actor::Data(wire) => {
                let wire = &mut self.wires[wire];
                wire.data.enter(medium);
                self.kernel
                    .schedule(wire.data_event, wire.data.next_timeout());
            }
            Actor::Signals(wire) => {
                while let Some(signal) = self.wires[wire]
                    .signals
                    .poll_transmit(now, &mut medium.engine.obs)
                {
                    self.arrive_signal(medium, wire, signal);
                }
                let wire = &self.wires[wire];
                self.kernel
                    .schedule(wire.signal_event, wire.signals.next_timeout());
            }
        }
    }

    /// The host of a receiver stalls on its account, and will again.
    fn stall(&mut self, medium: &mut Medium, place: usize) {
        let home = self.net.receivers[place].node;
        let length = self.sinks[place].stalls.length();
        let node = &mut self.nodes[home];
        if let Some(station) = &mut node.station {
            station.stall(medium.engine.now, length);
            let next = station.timeout_of(Part::Host);
            self.kernel.schedule(node.cpu_event, next);
        }
        self.plan_stall(medium, place);
    }

    /// Draws when the host of a receiver stalls next on its account.
    pub fn plan_stall(&mut self, medium: &mut Medium, place: usize) {
        let state = &mut self.sinks[place];
        if let Some(wait) = state.stalls.wait() {
            let at = medium.engine.now.saturating_add(wait);
            self.kernel.schedule(state.stall_event, Some(at));
        }
    }

    /// Starts the machine of a receiver. It opens a session of its own, which shows its host's
    /// neighbour a channel that has just come up, and lets it learn what is on offer.
    pub fn start_sink(&mut self, medium: &mut Medium, place: usize) {
        let net = Arc::clone(&self.net);
        let receiver = &net.receivers[place];
        let home = receiver.node;
        let Some(station) = &mut self.nodes[home].station else {
            return;
        };
        let sink = Sink::new(receiver.config.clone());
        station.set_sink(self.sinks[place].place, Some(sink));
        self.plan_stall(medium, place);
        let link = net.nodes[home].ports[0].link;
        if !self.links[link].channel {
            return self.settle(medium, home);
        }
        self.give_sink(medium, place, SinkInput::LinkUp);
        let ends = &net.links[link];
        let side = usize::from(ends.ends[0] == home);
        let (neighbour, port) = (ends.ends[side], ends.ports[side]);
        self.give(medium, neighbour, StationInput::PortUp { port });
    }

    /// The machine of a flow, while its node runs.
    pub fn source(&self, flow: usize) -> Option<&Source> {
        let station = self.nodes[self.net.flows[flow].node].station.as_ref()?;
        station.sources().get(self.sources[flow].place)
    }

    /// The machine of a receiver, from its join on, while its node runs.
    pub fn sink(&self, receiver: usize) -> Option<&Sink> {
        let station = self.nodes[self.net.receivers[receiver].node]
            .station
            .as_ref()?;
        station.sink(self.sinks[receiver].place)
    }
}

/// The place of `number` among those of its node.
fn place_in(numbers: &[usize], number: usize) -> usize {
    let place = numbers.iter().position(|&other| other == number);
    place.expect("a node lists its flows and receivers")
}
