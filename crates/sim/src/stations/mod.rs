//! The METS nodes of a network: moves values between their machines in the order of the kernel.
//!
//! [`Simulation`](crate::Simulation) runs them alone, with links of their own; in an internetwork they are one of the things that
//! nodes hold.

mod exchange;
mod outcome;
mod repair;
mod script;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use layercast_core::{AnyObserver, Machine, Span, Stream, Time};
use layercast_link::Framed;
use layercast_link::host::Stalls;
use layercast_mets::{FlowLog, Sink, SinkInput, Source};
use layercast_mets::{Part, StationInput};

use self::script::Action;
use crate::kernel::{Kernel, SourceId};
use crate::node::{NodeState, SinkState, SourceState};
use crate::received::StreamOut;
use crate::scenario::{Network, Port};
use crate::ties::{Class, Turns};
use crate::wires::{Capture, LinkState, Medium, Wire};

/// All of them, and everything else that changes during a run.
pub(crate) struct Stations<'a> {
    pub net: Arc<Network>,
    pub obs: AnyObserver<'a>,
    pub capture: Option<Capture<'a>>,
    pub now: Time,
    pub kernel: Kernel,
    actors: Vec<Actor>,
    pub nodes: Vec<NodeState>,
    /// Two per link: from its first end, from its second end.
    pub wires: Vec<Wire>,
    pub links: Vec<LinkState>,
    pub sources: Vec<SourceState>,
    pub sinks: Vec<SinkState>,
    /// What the scenario wants done, and what follows from faults.
    pub agenda: BTreeMap<(Time, script::Rank), Action>,
    pub planned: u64,
    turns: Turns,
    pub agenda_event: SourceId,
    /// Where links repair losses.
    pub budgets_event: Option<SourceId>,
    pub counts: Counts,
    /// The streams of receivers, in their order, if they are written.
    pub outputs: Vec<StreamOut<'a>>,
    /// Units that an [internetwork](crate::internet) carries, and whose first bit leaves now, with the place of their wire.
    pub leaving: Vec<(usize, Framed)>,
}

/// What the run counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub events: u64,
    pub packet_hops: u64,
    pub cell_hops: u64,
    pub wire_errors: u64,
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
    /// Those of a network, to which nothing has happened; `medium` says what carries the data of a direction of a link.
    pub fn new(
        network: Arc<Network>,
        obs: AnyObserver<'a>,
        medium: fn(&Network, &Port, &str) -> Medium,
    ) -> Stations<'a> {
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
        let wires = (0..2 * net.links.len()).map(|wire| {
            actors.extend([Actor::Data(wire), Actor::Signals(wire)]);
            let made = Wire::new(net, (wire / 2, wire % 2), medium, &mut kernel);
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
            obs,
            capture: None,
            now: Time::ZERO,
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
            leaving: Vec::new(),
        }
    }

    /// Follows the kernel to `end`, or to the second at which `progress` breaks it off.
    pub fn run(&mut self, end: Time, progress: &mut dyn FnMut(Time) -> ControlFlow<()>) -> Time {
        let mut tick = Time::ZERO;
        while let Some((at, source)) = self.kernel.next()
            && at <= end
        {
            while tick <= at {
                if progress(tick).is_break() {
                    return tick;
                }
                tick = tick.saturating_add(Span::from_secs(1));
            }
            debug_assert!(at >= self.now, "time runs backwards");
            self.now = at;
            self.counts.events += 1;
            self.act(source);
        }
        // The run is over either way.
        let _ = progress(end);
        end
    }

    /// When something happens next.
    pub fn next(&mut self) -> Option<Time> {
        self.kernel.next().map(|(at, _)| at)
    }

    /// Lets everything happen that is due by `now`.
    pub fn advance(&mut self, now: Time) {
        self.now = now;
        while let Some((at, source)) = self.kernel.next()
            && at <= now
        {
            self.counts.events += 1;
            self.act(source);
        }
    }

    /// What was sent on a wire has come over the internetwork.
    pub fn comes(&mut self, now: Time, wire: usize, framed: Framed) {
        self.now = now;
        if let Medium::Network(crossing) = &mut self.wires[wire].data {
            crossing.delivered += 1;
        }
        self.arrive(wire, framed);
    }

    fn act(&mut self, source: SourceId) {
        let now = self.now;
        match self.actors[source.0 as usize] {
            Actor::Agenda => self.follow_agenda(),
            Actor::Switch(node) => self.run_timer(node, Part::Switch),
            Actor::Source(flow) => {
                let part = Part::Source(self.sources[flow].place);
                self.run_timer(self.net.flows[flow].node, part);
            }
            Actor::Sink(receiver) => {
                let part = Part::Sink(self.sinks[receiver].place);
                self.run_timer(self.net.receivers[receiver].node, part);
            }
            Actor::Cpu(node) => self.run_timer(node, Part::Host),
            Actor::Pacer(node) => self.run_timer(node, Part::Pacer),
            Actor::Stall(place) => self.stall(place),
            Actor::Repair(wire) => self.repair_timers(wire),
            Actor::Budgets => self.share_budgets(),
            Actor::Data(wire) => {
                while let Some(framed) = self.wires[wire].data.poll(now, &mut self.obs) {
                    match self.wires[wire].data {
                        Medium::Link(_) => self.arrive(wire, framed),
                        Medium::Network(_) => self.leaving.push((wire, framed)),
                    }
                }
                let wire = &self.wires[wire];
                self.kernel
                    .schedule(wire.data_event, wire.data.next_timeout());
            }
            Actor::Signals(wire) => {
                while let Some(signal) = self.wires[wire].signals.poll_transmit(now, &mut self.obs)
                {
                    self.arrive_signal(wire, signal);
                }
                let wire = &self.wires[wire];
                self.kernel
                    .schedule(wire.signal_event, wire.signals.next_timeout());
            }
        }
    }

    /// The host of a receiver stalls on its account, and will again.
    fn stall(&mut self, place: usize) {
        let home = self.net.receivers[place].node;
        let length = self.sinks[place].stalls.length();
        let node = &mut self.nodes[home];
        if let Some(station) = &mut node.station {
            station.stall(self.now, length);
            let next = station.timeout_of(Part::Host);
            self.kernel.schedule(node.cpu_event, next);
        }
        self.plan_stall(place);
    }

    /// Draws when the host of a receiver stalls next on its account.
    pub fn plan_stall(&mut self, place: usize) {
        let state = &mut self.sinks[place];
        if let Some(wait) = state.stalls.wait() {
            let at = self.now.saturating_add(wait);
            self.kernel.schedule(state.stall_event, Some(at));
        }
    }

    /// Starts the machine of a receiver. It opens a session of its own, which shows its host's
    /// neighbour a channel that has just come up, and lets it learn what is on offer.
    pub fn start_sink(&mut self, place: usize) {
        let net = Arc::clone(&self.net);
        let receiver = &net.receivers[place];
        let home = receiver.node;
        let Some(station) = &mut self.nodes[home].station else {
            return;
        };
        let sink = Sink::new(receiver.config.clone());
        station.set_sink(self.sinks[place].place, Some(sink));
        self.plan_stall(place);
        let link = net.nodes[home].ports[0].link;
        if !self.links[link].channel {
            return self.settle(home);
        }
        self.give_sink(place, SinkInput::LinkUp);
        let ends = &net.links[link];
        let side = usize::from(ends.ends[0] == home);
        let (neighbour, port) = (ends.ends[side], ends.ports[side]);
        self.give(neighbour, StationInput::PortUp { port });
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
