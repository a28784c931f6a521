//! Neighbours that come, go and speak.

use std::net::SocketAddr;

use layercast_core::{Observer, PortId, Time};
use layercast_mets::StationInput;
use layercast_wire::{Carriage, Secret, Signal};

use super::Machines;
use crate::config::NodeEvent;
use crate::connection::{Newcomer, PeerId};
use crate::hello::Hello;
use crate::ports::NoPort;

impl Machines {
    /// Puts a neighbour that said hello on its port. A caller gets our hello in return, with the carriage of
    /// the link; a neighbour we called has ours, and its own contains the carriage.
    pub fn attach<O: Observer>(
        &mut self,
        now: Time,
        newcomer: Newcomer,
        greeting: &Hello,
        obs: &mut O,
    ) {
        let Newcomer {
            peer,
            addr,
            local,
            hello,
            sender,
            upstream,
            proven,
            session,
        } = newcomer;
        let proven = proven.as_ref();
        let upstream = upstream.is_some();
        if let Some(old) = self.ports.replaced_by(&hello.node, proven) {
            // It may be another program with the same identity: then both would call again without an end.
            let (node, name) = (greeting.node.clone(), hello.node.clone());
            self.ports
                .signal_peer(old, Signal::NameInUse { node, name });
            self.detach(now, old, "it has called again".to_owned(), obs);
        }
        let between = (local, addr.ip());
        let attached = match self.ports.attach(peer, &hello, between, sender, proven) {
            Ok(attached) => attached,
            Err((sender, NoPort::NameInUse)) => {
                let (node, name) = (greeting.node.clone(), hello.node);
                let reason = format!("the name {name} is in use by another neighbour");
                sender.send(Signal::NameInUse { node, name });
                self.tell(NodeEvent::Failed { addr, reason });
                return;
            }
            Err((sender, NoPort::Other(reason))) => {
                let message = format!("{}: {reason}", greeting.node);
                sender.send(Signal::Error { message });
                self.tell(NodeEvent::Failed { addr, reason });
                return;
            }
        };
        if let Some(removed) = attached.removed {
            self.remove_port(removed);
        }
        let port = attached.port;
        if let (Some(config), Some(switch)) = (attached.added, self.station.switch_mut()) {
            switch.add_port(port, config);
        }
        if let Some(group) = hello.group.filter(|_| upstream) {
            let (there, own) = (hello.node, &greeting.node);
            let reason = format!(
                "{there} sends the media of {own} to {group}, and a switch receives from no group: take {own} off the list \
                 of --multicast there"
            );
            self.ports.detach(now, peer, obs);
            self.tell(NodeEvent::Failed { addr, reason });
            return;
        }
        if upstream && attached.carriage != hello.carriage {
            let (there, here) = (hello.carriage, attached.carriage);
            let reason = format!("{} sends {there:?} where we expect {here:?}", hello.node);
            self.ports.detach(now, peer, obs);
            self.tell(NodeEvent::Failed { addr, reason });
            return;
        }
        let repairs = greeting.repair.is_some() && attached.carriage == Carriage::Datagrams;
        let mut repair = hello.repair.filter(|_| repairs).map(|_| session);
        let mut group_repair = None;
        let mut prompt = false;
        if attached.group.is_some() && repairs {
            if upstream || hello.group_repair.is_none() && hello.udp_port != 0 {
                return self.refuse_member(now, (peer, addr), greeting, &hello, obs);
            }
            let joined = (peer, port);
            let joined = self.ports.repair_group(now, joined, session, obs);
            (repair, group_repair) = joined.map(|(session, next)| (session, next.0)).unzip();
        } else if attached.group.is_some() {
            repair = None;
        } else {
            let sessions = repair.zip(hello.repair);
            prompt = self.ports.repair(port, sessions, hello.prompt);
        }
        let (key, next) = attached.keys;
        let told = match upstream {
            true => proven.map(|proven| proven.key.clone()),
            false => {
                let greeting = Hello {
                    carriage: attached.carriage,
                    link_key: key.clone(),
                    repair,
                    group: attached.group,
                    group_repair,
                    prompt,
                    ..greeting.clone()
                };
                self.ports.signal_peer(peer, greeting.signal());
                key.clone()
            }
        };
        // A group has one key for all, and perhaps another one soon.
        for key in [key.filter(|key| Some(key) != told.as_ref()), next] {
            if let Some(key) = key.map(|key| Secret(key.to_text())) {
                self.ports.signal_peer(peer, Signal::LinkKey { key });
            }
        }
        self.input(now, StationInput::PortUp { port }, obs);
        // A caller that takes no datagrams only sends a query.
        if hello.udp_port != 0 {
            self.tell(NodeEvent::PeerUp {
                name: hello.node,
                addr: SocketAddr::new(addr.ip(), hello.udp_port),
                upstream,
            });
        }
    }

    /// Turns away a member of a group with repair that cannot read the datagrams of the group.
    fn refuse_member<O: Observer>(
        &mut self,
        now: Time,
        (peer, addr): (PeerId, SocketAddr),
        greeting: &Hello,
        hello: &Hello,
        obs: &mut O,
    ) {
        let (node, name) = (&greeting.node, &hello.node);
        let reason = format!(
            "{name} is a member of a multicast group with link repair, and its version does not know that: start it with the \
             version of {node}, or {node} with --repair off"
        );
        let message = format!("{node}: {reason}");
        self.ports.signal_peer(peer, Signal::Error { message });
        self.ports.detach(now, peer, obs);
        self.tell(NodeEvent::Failed { addr, reason });
    }

    /// Takes a neighbour whose connection is lost off its port.
    pub fn detach<O: Observer>(&mut self, now: Time, peer: PeerId, reason: String, obs: &mut O) {
        let Some(gone) = self.ports.detach(now, peer, obs) else {
            return;
        };
        let port = gone.port;
        if gone.down {
            self.input(now, StationInput::PortDown { port }, obs);
        }
        if gone.removed {
            self.remove_port(port);
        }
        if let Some(forgotten) = gone.forgotten {
            self.remove_port(forgotten);
        }
        if !gone.control_only {
            let name = gone.name;
            self.tell(NodeEvent::PeerDown { name, reason });
        }
    }

    /// Takes a signal of a neighbour.
    pub fn on_signal<O: Observer>(&mut self, now: Time, peer: PeerId, signal: Signal, obs: &mut O) {
        if let Signal::LinkKey { key } = &signal {
            self.ports.key_changed(peer, key);
        } else if let Some(port) = self.ports.heard(peer, &signal) {
            if let Signal::Clock { flow, clock } = signal {
                let switch = self.station.switch();
                let comes_from = switch.and_then(|switch| switch.upstream(flow));
                if comes_from == Some(port) && self.clocks.hear(now, port, flow, clock) {
                    return;
                }
                // It is counted as one that is not for this node.
            }
            self.input(now, StationInput::Signal { port, signal }, obs);
        }
    }

    /// Tells the neighbours what the clocks of the sources show.
    pub(super) fn tell_clocks(&mut self, now: Time) {
        if !self.clocks.is_due(now) {
            return;
        }
        let Some(switch) = self.station.switch() else {
            return;
        };
        for (flow, from, to) in switch.routes() {
            if let Some(reading) = self.clocks.reading(now, flow, from) {
                let own = self.clocks.own();
                self.ports.tell_clock(now, to, (flow.id, &reading), own);
            }
        }
    }

    fn remove_port(&mut self, port: PortId) {
        if let Some(switch) = self.station.switch_mut() {
            switch.remove_port(port);
        }
    }
}
