//! What happens from outside: receivers come and go, nodes and links fail and come back.

use std::sync::Arc;

use layercast_core::{RequestId, Span, Time};
use layercast_mets::SinkInput;
use layercast_mets::StationInput;

use super::stations::Stations;
use super::wires::{drain_repair, out_wire_of};
use crate::internet::medium::Medium;
use crate::scenario::{Asked, Fault, FaultKind, Network};

/// Something to be done at a given time; the numbers are places.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A node starts.
    Start(usize),
    /// A receiver comes.
    Join(usize),
    /// A receiver goes.
    Leave(usize),
    /// A node or link fails or comes back.
    Fault(Fault),
    /// The neighbours of a node have heard that it was stopped: it ends, unless it has started again.
    End(usize),
    /// An application asks for something.
    Request(usize),
    /// The ends of a link see that its channel is gone.
    ChannelDown(usize),
    /// The channel of a link stands again, if both ends do.
    ChannelUp(usize),
    /// The lines of a link have another rate.
    Rate(usize),
}

/// The order of actions of one instant: that of their kinds, then of those they happen to, then of planning.
pub(crate) type Rank = (u8, u64, u64);

impl Action {
    /// Nodes run before anybody comes, and channels are seen to break before they stand again.
    fn step(self) -> u8 {
        match self {
            Action::Start(_) => 0,
            Action::ChannelDown(_) => 1,
            Action::ChannelUp(_) => 2,
            Action::Join(_) | Action::Leave(_) => 3,
            Action::Fault(_) | Action::End(_) => 4,
            Action::Request(_) => 5,
            Action::Rate(_) => 6,
        }
    }

    /// What it happens to: its name, and its place among those of its kind.
    fn subject(self, net: &Network) -> (String, usize) {
        let node = |place: usize| (format!("node/{}", net.nodes[place].name), place);
        let link = |place: usize| {
            let [a, b] = net.links[place].ends.map(|end| &net.nodes[end].name);
            (format!("channel/{a}-{b}"), place)
        };
        let receiver = |place: usize| (format!("receiver/{}", net.receivers[place].name), place);
        match self {
            Action::Start(place) | Action::End(place) => node(place),
            Action::ChannelDown(place) | Action::ChannelUp(place) | Action::Rate(place) => {
                link(place)
            }
            Action::Join(place) | Action::Leave(place) => receiver(place),
            Action::Fault(Fault { kind, target, .. }) => match kind {
                FaultKind::Kill | FaultKind::Stop | FaultKind::Restart => node(target),
                FaultKind::LinkDown | FaultKind::LinkUp => link(target),
            },
            Action::Request(place) => match net.requests[place].of {
                Asked::Source(flow) => (format!("flow/{}", net.flows[flow].name), flow),
                Asked::Sink(place) => receiver(place),
            },
        }
    }
}

impl Stations<'_> {
    /// Puts the whole scenario on the agenda.
    pub fn plan_scenario(&mut self) {
        for node in 0..self.nodes.len() {
            self.plan(Time::ZERO, Action::Start(node));
        }
        for link in 0..self.links.len() {
            self.plan(Time::ZERO, Action::ChannelUp(link));
        }
        let net = Arc::clone(&self.net);
        for (place, receiver) in net.receivers.iter().enumerate() {
            self.plan(receiver.join, Action::Join(place));
            if let Some(leave) = receiver.leave {
                self.plan(leave, Action::Leave(place));
            }
        }
        for fault in &net.faults {
            self.plan(fault.at, Action::Fault(*fault));
        }
        for (place, request) in net.requests.iter().enumerate() {
            self.plan(request.at, Action::Request(place));
        }
        for (link, ends) in net.links.iter().enumerate() {
            for step in ends.schedule.steps() {
                self.plan(Time::ZERO + step.after, Action::Rate(link));
            }
        }
    }

    fn plan(&mut self, at: Time, action: Action) {
        let (name, place) = action.subject(&self.net);
        let turn = self.turns.of(&name, place as u32).at(at);
        self.agenda
            .insert((at, (action.step(), turn, self.planned)), action);
        self.planned += 1;
        let next = self.agenda.keys().next().map(|key| key.0);
        self.kernel.schedule(self.agenda_event, next);
    }

    /// Does what is due.
    pub fn follow_agenda(&mut self, medium: &mut Medium) {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= medium.engine.now
        {
            let action = entry.remove();
            self.perform(medium, action);
        }
        let next = self.agenda.keys().next().map(|key| key.0);
        self.kernel.schedule(self.agenda_event, next);
    }

    fn perform(&mut self, medium: &mut Medium, action: Action) {
        match action {
            Action::Start(node) => self.start(medium, node),
            Action::Join(place) => self.start_sink(medium, place),
            Action::Leave(place) => {
                self.give_sink(medium, place, SinkInput::Leave);
                self.kernel.schedule(self.sinks[place].stall_event, None);
            }
            Action::Fault(fault) => self.fault(medium, fault),
            Action::End(node) => {
                if self.nodes[node].stopping == Some(medium.engine.now) {
                    self.kill(medium, node);
                }
            }
            Action::Request(place) => self.request(medium, place),
            Action::Rate(link) => {
                self.follow_schedule(medium, 2 * link);
                self.follow_schedule(medium, 2 * link + 1);
            }
            Action::ChannelDown(link) => self.announce(medium, link, false),
            Action::ChannelUp(link) => {
                let ends = self.net.links[link].ends;
                let stands = ends.iter().all(|&node| self.nodes[node].station.is_some());
                if stands && self.links[link].up && !self.links[link].channel {
                    self.links[link].channel = true;
                    self.renew_repair(medium, link);
                    self.announce(medium, link, true);
                }
            }
        }
    }

    /// The port of a wire sends at the rate that the schedule of its link has now.
    fn follow_schedule(&mut self, medium: &mut Medium, wire: usize) {
        let (now, net) = (medium.engine.now, Arc::clone(&self.net));
        let (from, link) = (self.wires[wire].from, wire / 2);
        let step = |full| net.links[link].schedule.last_step(now, Time::ZERO, full);
        let port = net.nodes[from].port(link);
        let Some((port, rate)) = port.and_then(|it| Some((it.id, it.config.rate.and_then(step)?)))
        else {
            return;
        };
        let repair = &mut self.wires[wire].repair;
        repair.set_rate(now, Some(rate), &mut medium.engine.obs);
        drain_repair((&mut self.wires, wire), &mut self.kernel, medium);
        self.give(medium, from, StationInput::PortRate { port, rate });
    }

    /// Asks a machine for something, if it is there.
    fn request(&mut self, medium: &mut Medium, place: usize) {
        let (now, net) = (medium.engine.now, Arc::clone(&self.net));
        let request = &net.requests[place];
        let (id, option) = (RequestId(place as u32), request.option.clone());
        let node = match request.of {
            Asked::Source(flow) => net.flows[flow].node,
            Asked::Sink(receiver) => net.receivers[receiver].node,
        };
        let Some(station) = &mut self.nodes[node].station else {
            return;
        };
        match request.of {
            Asked::Source(flow) => {
                if let Some(source) = station.source_mut(self.sources[flow].place) {
                    source.request(now, id, option);
                }
            }
            Asked::Sink(receiver) => {
                if let Some(sink) = station.sink_mut(self.sinks[receiver].place) {
                    sink.request(now, id, option);
                }
            }
        }
        self.settle(medium, node);
    }

    /// Tells both ends of a link that its channel stands, or is gone.
    fn announce(&mut self, medium: &mut Medium, link: usize, up: bool) {
        let ends = self.net.links[link].clone();
        for (side, (node, port)) in ends.ends.into_iter().zip(ends.ports).enumerate() {
            // A port with several links is down when all of them are.
            let mut others = self.wires[2 * link + side].fan.iter();
            if !up && others.any(|wire| self.links[self.wires[*wire].link].channel) {
                continue;
            }
            self.give(
                medium,
                node,
                match up {
                    true => StationInput::PortUp { port },
                    false => StationInput::PortDown { port },
                },
            );
        }
    }

    fn fault(&mut self, medium: &mut Medium, fault: Fault) {
        let Fault { kind, target, .. } = fault;
        match kind {
            FaultKind::Kill => self.kill(medium, target),
            FaultKind::Stop => self.stop(medium, target),
            FaultKind::Restart => {
                self.kill(medium, target);
                self.start(medium, target);
                let net = Arc::clone(&self.net);
                for port in &net.nodes[target].ports {
                    self.plan_channel_up(medium, port.link);
                }
            }
            FaultKind::LinkDown => {
                self.links[target].up = false;
                self.break_channel(medium, target);
            }
            FaultKind::LinkUp => {
                self.links[target].up = true;
                self.plan_channel_up(medium, target);
            }
        }
    }

    /// A node starts with empty state; its receivers that should be there come back.
    fn start(&mut self, medium: &mut Medium, place: usize) {
        let (now, net) = (medium.engine.now, Arc::clone(&self.net));
        let node = &net.nodes[place];
        let station = self.nodes[place].start(&net, place);
        for &flow in &node.sources {
            self.sources[flow].start(now, &net.flows[flow], station);
        }
        self.settle(medium, place);
        for port in &node.ports {
            self.follow_schedule(medium, out_wire_of(&net, place, port.link));
        }
        for &receiver in &node.receivers {
            let wanted = &net.receivers[receiver];
            if wanted.join < now && wanted.leave.is_none_or(|leave| leave > now) {
                self.start_sink(medium, receiver);
            }
        }
    }

    /// A node says farewell, and fails when that has arrived.
    fn stop(&mut self, medium: &mut Medium, place: usize) {
        self.give(medium, place, StationInput::Stop);
        let ports = &self.net.nodes[place].ports;
        let longest = ports.iter().map(|port| port.out.delay).max();
        let heard = medium
            .engine
            .now
            .saturating_add(longest.unwrap_or_default());
        let end = heard.saturating_add(Span::from_us(1));
        self.nodes[place].stopping = Some(end);
        self.plan(end, Action::End(place));
    }

    /// A node stops immediately and loses all state.
    fn kill(&mut self, medium: &mut Medium, place: usize) {
        let net = Arc::clone(&self.net);
        let node = &net.nodes[place];
        self.nodes[place].stop(&mut self.kernel);
        for &flow in &node.sources {
            self.kernel.schedule(self.sources[flow].event, None);
        }
        for &receiver in &node.receivers {
            let sink = &self.sinks[receiver];
            self.kernel.schedule(sink.event, None);
            self.kernel.schedule(sink.stall_event, None);
        }
        for port in &node.ports {
            self.break_channel(medium, port.link);
        }
    }

    fn break_channel(&mut self, medium: &mut Medium, link: usize) {
        if std::mem::take(&mut self.links[link].channel) {
            self.leave_group(medium, link);
            let seen = medium.engine.now.saturating_add(self.net.detection);
            self.plan(seen, Action::ChannelDown(link));
        }
    }

    /// A channel comes back only after both ends have seen that it was gone.
    fn plan_channel_up(&mut self, medium: &mut Medium, link: usize) {
        let seen = medium
            .engine
            .now
            .saturating_add(self.net.detection.times(2));
        self.plan(seen, Action::ChannelUp(link));
    }
}
