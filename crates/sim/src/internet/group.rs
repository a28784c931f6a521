//! Flows of XTP to many receivers, and the way of their packets.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use layercast_core::Time;
use layercast_wire::{XtpPacket, XtpService};
use layercast_xtp::{XtpConfig, XtpFailure};

use super::network::{NodeIndex, Receiver, Traffic};
use super::packet::{Arrival, Body, Carrier, IP_HEADER, NO_STEP, Packet, TTL};
use super::pipe::Offered;
use super::report::ReceiverReport;
use super::tree::Tree;
use super::world::Internet;
use super::xtp::{MOST, User, ports};

/// The receivers of a flow, and how its packets come to them.
#[derive(Debug)]
pub(super) struct Group {
    tree: Tree,
    members: Vec<Member>,
    /// The places of hosts among the members.
    places: BTreeMap<u32, usize>,
}

/// A receiver.
#[derive(Debug)]
struct Member {
    receiver: Receiver,
    name: String,
    host: u32,
    /// Its host accepts packets to the group.
    listens: bool,
    joined: Option<Time>,
    first: u64,
    bytes: u64,
    completed: Option<Time>,
    failed: Option<String>,
}

impl Group {
    /// `receivers` with their names and hosts.
    pub fn new(
        sender: NodeIndex,
        receivers: impl Iterator<Item = (Receiver, String, u32)>,
    ) -> Group {
        let members: Vec<Member> = receivers
            .map(|(receiver, name, host)| Member {
                receiver,
                name,
                host,
                listens: false,
                joined: None,
                first: 0,
                bytes: 0,
                completed: None,
                failed: None,
            })
            .collect();
        let places = members.iter().enumerate();
        Group {
            tree: Tree::new(sender),
            places: places.map(|(n, member)| (member.host, n)).collect(),
            members,
        }
    }

    fn at(&mut self, host: u32) -> Option<&mut Member> {
        self.members.get_mut(*self.places.get(&host)?)
    }

    /// The next receivers of the packets: those that are to be members by then and are not.
    fn take_in(&mut self, now: Time) -> Vec<(u32, NodeIndex, bool)> {
        let due = |it: &&mut Member| !it.listens && it.receiver.join.is_none_or(|at| at <= now);
        let new = self.members.iter_mut().filter(due);
        new.map(|member| {
            member.listens = true;
            let late = member.receiver.join.is_some();
            (member.host, member.receiver.node, late)
        })
        .collect()
    }

    /// When the next receiver asks to be let in.
    fn next_join(&self) -> Option<Time> {
        let waiting = self.members.iter().filter(|it| !it.listens);
        waiting.filter_map(|it| it.receiver.join).min()
    }

    /// Forgets what was received until now.
    pub fn restart(&mut self) {
        for member in &mut self.members {
            member.bytes = 0;
        }
    }

    /// What each receiver got since `since`, of a flow that stops then.
    pub fn report(&self, (since, stop): (Time, Time)) -> Vec<ReceiverReport> {
        let members = self.members.iter().map(|member| {
            let from = member.joined.map(|at| at.max(since));
            let to = member.completed.unwrap_or(stop);
            let seconds = from.map_or(0.0, |from| to.since(from).as_secs_f64());
            ReceiverReport {
                name: member.name.clone(),
                joined: member.joined.map(Time::as_secs_f64),
                first_byte: member.joined.map(|_| member.first),
                bytes: member.bytes,
                goodput_bps: match seconds > 0.0 {
                    true => member.bytes as f64 * 8.0 / seconds,
                    false => 0.0,
                },
                completed: member.completed.map(Time::as_secs_f64),
                failed: member.failed.clone(),
            }
        });
        members.collect()
    }
}

impl Internet {
    /// Those that are to be there by now get what is sent to the group of a flow; gives when the next ones do.
    pub(super) fn join_group(&mut self, n: u32) -> Option<Time> {
        let now = self.now;
        let flow = &mut self.flows[n as usize];
        let sender = flow.ends().0;
        let group = flow.group.as_deref_mut()?;
        let new = group.take_in(now);
        for &(_, node, _) in &new {
            if !group.tree.attach(&self.routes, node) {
                self.drops.no_route += 1;
            }
        }
        let next = group.next_join();
        for (host, _, late) in new {
            match late {
                true => self.ask_to_join(n, sender, host),
                false => self.listen_to_group(n, host),
            }
        }
        next
    }

    fn group_config(&self, flow: u32) -> Option<XtpConfig> {
        match self.flows[flow as usize].traffic() {
            Traffic::XtpMulticast { config, .. } => Some((**config).clone()),
            _ => None,
        }
    }

    /// A host waits for the invitation to the group of a flow.
    fn listen_to_group(&mut self, n: u32, host: u32) {
        let config = self.group_config(n);
        if let (Some(config), Some(xtp)) = (config, self.xtp(host)) {
            // Another flow may have the port, too.
            let _ = xtp.endpoint.listen(ports(n).1, MOST, config);
        }
    }

    /// A host asks the sender of a flow to be let into its group.
    fn ask_to_join(&mut self, n: u32, sender: u32, host: u32) {
        let (now, port) = (self.now, ports(n).1);
        let local = self.xtp_socket(host, Carrier::IP, port);
        let remote = self.xtp_socket(sender, Carrier::IP, port);
        let config = self.group_config(n);
        if let (Some(config), Some(xtp)) = (config, self.xtp(host))
            && let Ok(id) = xtp.endpoint.join(now, local, remote, &config)
        {
            xtp.users.insert(id, User::receiver(n));
            self.touch(host);
        }
    }

    /// A host has something for the group of a flow.
    pub(super) fn send_to_group(&mut self, host: u32, flow: u32, packet: XtpPacket) {
        let at = self.hosts[host as usize].node;
        if self
            .flows
            .get(flow as usize)
            .is_none_or(|it| it.ends().0 != host)
        {
            self.drops.no_route += 1;
            return;
        }
        let bytes = IP_HEADER + packet.encoded_len() as u32;
        let id = self.packets.add(Packet {
            src: at,
            dst: at,
            bytes,
            step: NO_STEP,
            ttl: TTL,
            body: Body::Group(Arc::new(packet), flow),
        });
        if !self.charge(at, id) {
            self.process_group(at, id);
        }
    }

    /// A packet of a group came to a node: it is for the host there, continues, or both.
    pub(super) fn spread(&mut self, at: NodeIndex, mut packet: Packet) {
        let Body::Group(content, flow) = &packet.body else {
            return;
        };
        let (content, flow) = (content.clone(), *flow as usize);
        let begins = packet.src == at;
        if !begins && let Some(host) = self.nodes[at.0 as usize].host {
            let group = self.flows[flow].group.as_deref_mut();
            if group
                .and_then(|it| it.at(host))
                .is_some_and(|it| it.listens)
            {
                self.take_xtp(host, (packet.src, at), (*content).clone(), Carrier::IP);
            }
        }
        let group = self.flows[flow].group.as_deref();
        let branches = group.map_or(&[][..], |it| it.tree.branches(at)).to_vec();
        if branches.is_empty() {
            return;
        }
        if !begins {
            packet.ttl -= 1;
        }
        if packet.ttl == 0 {
            self.drops.ttl += 1;
            return;
        }
        for branch in branches {
            let copy = |dst| Packet {
                dst,
                body: Body::Group(content.clone(), flow as u32),
                ..packet
            };
            // One packet on the medium, however many stations take it.
            let offered = self.pipes[branch.pipe as usize].offer(self.now, packet.bytes);
            let mut copies = branch.to.into_iter().map(copy);
            let Some(first) = copies.next() else {
                continue;
            };
            let to = first.dst;
            let id = self.packets.add(first);
            if self.captured.is_some() && offered.is_sent() {
                self.see(branch.pipe, id);
            }
            let Offered::Arrives(when) = offered else {
                self.lost_on(branch.pipe, id, offered);
                continue;
            };
            let by = branch.pipe;
            let arrival = |packet, to| Arrival { packet, to, by };
            self.arrivals.add(when, arrival(id, to));
            for other in copies {
                let to = other.dst;
                let id = self.packets.add(other);
                self.arrivals.add(when, arrival(id, to));
            }
        }
    }

    /// A receiver knows of the flow: where no list of members is kept, it is a member.
    pub(super) fn member_invited(&mut self, flow: u32, host: u32) {
        let config = self.group_config(flow);
        if config.is_some_and(|it| it.service == XtpService::MULTICAST) {
            self.member_joined(flow, host, 0);
        }
    }

    /// A receiver has joined: it gets everything from a byte on.
    pub(super) fn member_joined(&mut self, flow: u32, host: u32, first: u64) {
        let now = self.now;
        if let Some(member) = self.member(flow, host) {
            member.joined.get_or_insert(now);
            member.first = first;
        }
    }

    pub(super) fn member_received(&mut self, flow: u32, host: u32, bytes: u64) {
        if let Some(member) = self.member(flow, host) {
            member.bytes += bytes;
        }
    }

    /// A receiver has everything; of a flow without a group there is one. The flow is complete when all have.
    pub(super) fn receiver_completed(&mut self, flow: u32, host: u32) {
        let now = self.now;
        if let Some(member) = self.member(flow, host) {
            member.completed.get_or_insert(now);
        }
        let group = self.flows[flow as usize].group.as_deref();
        if group.is_none_or(|it| it.members.iter().all(|it| it.completed.is_some())) {
            self.flow_completed(flow);
        }
    }

    pub(super) fn member_failed(&mut self, flow: u32, host: u32, why: XtpFailure) {
        if let Some(member) = self.member(flow, host) {
            member.failed.get_or_insert(why.to_string());
        }
    }

    /// The transmitter continues without a receiver.
    pub(super) fn member_dropped(&mut self, flow: u32, who: SocketAddr) {
        let SocketAddr::V4(who) = who else {
            return;
        };
        let node = self.addresses.find(*who.ip());
        let host = node.and_then(|node| self.nodes[node.0 as usize].host);
        if let Some(member) = host.and_then(|host| self.member(flow, host))
            && member.completed.is_none()
        {
            let why = "the transmitter continues without it";
            member.failed.get_or_insert(why.to_owned());
        }
    }

    fn member(&mut self, flow: u32, host: u32) -> Option<&mut Member> {
        self.flows
            .get_mut(flow as usize)?
            .group
            .as_deref_mut()?
            .at(host)
    }
}
