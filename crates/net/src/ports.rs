mod slots;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use layercast_core::{FlowId, Observer, PortId, Rate, Serial, Time, earliest};
use layercast_link::{
    Awaiting, RepairRole, SHARE_BUDGETS, clock_hop, clock_report, compare_paths, octet_codec,
    share_budgets,
};
use layercast_mets::switch::PortConfig;
use layercast_protect::{Fingerprint, LinkKey};
use layercast_repair::{Means, Needs, Trunks};
use layercast_wire::{Carriage, ClockReading, LinkReport, NodeReport, PartReport, Secret, Signal};

use crate::config::{GroupPort, Neighbour};
use crate::connection::{PeerId, PeerSender, Proven};
use crate::egress::Egress;
use crate::hello::Hello;
use crate::sources::Sources;
use slots::MAX_GONE;

/// Links in one message: with the longest name one takes less than 1 KiB of the 64 KiB of a message.
const LINKS_PER_MESSAGE: usize = 32;
/// Parts of a node in a message: each has 2 KB at most, and a name.
const PARTS_PER_MESSAGE: usize = 16;

/// One port of a node.
pub(crate) struct Port {
    pub name: String,
    pub carriage: Carriage,
    pub egress: Egress,
    /// The connections on it: one, or those of the members of a group.
    pub peers: Vec<PeerId>,
    /// Its place in the order in which ports went down.
    down_since: Option<u64>,
    /// Known by configuration: kept forever.
    configured: bool,
    /// Its rate follows from the reports of the neighbour.
    estimated: bool,
    group: bool,
    /// Datagrams from there that were dropped because the neighbour had used up its share of the buffers.
    pub crowded_out: u64,
}

/// One connected neighbour.
pub(crate) struct Peer {
    pub name: String,
    pub port: PortId,
    pub sender: PeerSender,
    /// Where it takes datagrams, if it does.
    addr: Option<SocketAddr>,
    /// The name of its clock, and whether it wants to know what those of sources show.
    clock: (String, bool),
    /// Whose certificate it showed, on a protected link.
    identity: Option<Fingerprint>,
    awaiting: Awaiting,
}

/// A neighbour that got its port.
pub(crate) struct Attached {
    pub port: PortId,
    pub carriage: Carriage,
    /// The group that is its port, which it shares with the other members.
    pub group: Option<SocketAddrV4>,
    /// What datagrams to it are sealed with, and will be soon.
    pub keys: (Option<LinkKey>, Option<LinkKey>),
    /// The configuration of the port, if the switch has to be notified.
    pub added: Option<PortConfig>,
    /// A port that was given up to make room.
    pub removed: Option<PortId>,
}

/// Why a neighbour gets no port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoPort {
    /// Another neighbour has its name.
    NameInUse,
    /// Something else.
    Other(String),
}

/// A neighbour that lost its connection.
pub(crate) struct Detached {
    pub name: String,
    pub port: PortId,
    /// Whether the port has no neighbour left.
    pub down: bool,
    /// Whether the port is no more.
    pub removed: bool,
    /// Whether it took no datagrams.
    pub control_only: bool,
    /// A port that was given up: its neighbour has been gone for longest.
    pub forgotten: Option<PortId>,
}

/// The ports of a node: which neighbour is on which, and whose address is whose.
pub(crate) struct Ports {
    own_name: String,
    seed: u64,
    named: BTreeMap<String, Neighbour>,
    groups: Vec<GroupPort>,
    /// Whose names belong to one identity only.
    identities: BTreeMap<String, Fingerprint>,
    default: PortConfig,
    /// Whether the rates of links without one are estimated if they leave the machine.
    estimate_elsewhere: bool,
    /// Most ports; beyond that, those of neighbours that are gone make room.
    most: usize,
    slots: Vec<Option<Port>>,
    by_name: HashMap<String, PortId>,
    pub sources: Sources,
    peers: HashMap<PeerId, Peer>,
    downs: u64,
    /// When budgets are next passed on.
    budgets_at: Time,
    /// Which ports with a path that is measured share a line.
    trunks: Trunks,
    /// What is done about losses on links to one neighbour.
    means: Means,
}

impl Ports {
    /// Ports of a node with at most `connections` connections, its own calls among them.
    pub fn new(
        own_name: String,
        seed: u64,
        named: BTreeMap<String, Neighbour>,
        groups: Vec<GroupPort>,
        identities: BTreeMap<String, Fingerprint>,
        default: PortConfig,
        connections: usize,
    ) -> Ports {
        let kept = named.len() + groups.len() + MAX_GONE;
        Ports {
            most: connections.saturating_add(kept).min(usize::from(u16::MAX)),
            own_name,
            seed,
            named,
            groups,
            identities,
            default,
            estimate_elsewhere: false,
            slots: Vec::new(),
            by_name: HashMap::new(),
            sources: Sources::default(),
            peers: HashMap::new(),
            downs: 0,
            budgets_at: Time::ZERO,
            trunks: Trunks::default(),
            means: Means::Auto,
        }
    }

    /// The same, with other means of repair on links to one neighbour.
    pub fn repaired_by(self, means: Means) -> Ports {
        Ports { means, ..self }
    }

    /// The same, and links without a rate that leave the machine follow their path if `estimate`.
    pub fn estimating_elsewhere(self, estimate: bool) -> Ports {
        Ports {
            estimate_elsewhere: estimate,
            ..self
        }
    }

    /// Gives a neighbour its port: the one it had, the one it is configured for, or a new one. Datagrams go to its
    /// address, `there`, and come from the address of this host that it calls, or is called from: it knows no other.
    ///
    /// # Errors
    /// Why it gets none, with the sender.
    pub fn attach(
        &mut self,
        peer: PeerId,
        hello: &Hello,
        (here, there): (Option<IpAddr>, IpAddr),
        sender: PeerSender,
        proven: Option<&Proven>,
    ) -> Result<Attached, (PeerSender, NoPort)> {
        let addr = (hello.udp_port != 0).then(|| SocketAddr::new(there, hello.udp_port));
        let identity = proven.map(|proven| proven.identity);
        let (name, group) = self.port_of(&hello.node);
        let place = self
            .check_free(hello, &name, addr, identity)
            .and_then(|()| match self.by_name.get(&name) {
                Some(port) => Ok((*port, None, None)),
                None => {
                    let is_elsewhere =
                        here.is_some_and(|here| here != there) && !there.is_loopback();
                    self.add(hello, &name, group.as_ref(), addr, is_elsewhere)
                        .map_err(NoPort::Other)
                }
            });
        let (port, added, removed) = match place {
            Ok(place) => place,
            Err(why) => return Err((sender, why)),
        };
        let mut carriage = hello.carriage;
        let group = group.map(|group| group.group);
        let mut keys = (proven.map(|proven| proven.key.clone()), None);
        if let Some(slot) = self.slots[usize::from(port.0)].as_mut() {
            match slot.egress.keys() {
                Some((key, next)) if !slot.peers.is_empty() => {
                    keys = (Some(key.clone()), next.cloned());
                }
                _ => slot.egress.protect(keys.0.as_ref()),
            }
            slot.peers.push(peer);
            slot.down_since = None;
            carriage = slot.carriage;
            if !slot.group {
                slot.egress.redirect(addr, here);
                self.sources.remove_port(port);
            }
        }
        if let Some(addr) = addr {
            self.sources.insert(addr, port, hello.link_key.as_ref());
        }
        let newcomer = Peer {
            name: hello.node.clone(),
            port,
            sender,
            addr,
            clock: (hello.clock.clone(), hello.clocks),
            identity,
            awaiting: Awaiting::default(),
        };
        self.peers.insert(peer, newcomer);
        Ok(Attached {
            port,
            carriage,
            group,
            keys,
            added,
            removed,
        })
    }

    /// The name of the port a neighbour belongs on, and the group it is if it is one.
    fn port_of(&self, node: &str) -> (String, Option<GroupPort>) {
        let is_member = |group: &&GroupPort| group.members.iter().any(|member| member == node);
        match self.groups.iter().find(is_member) {
            Some(group) => (group.link.port.name.clone(), Some(group.clone())),
            None => (node.to_owned(), None),
        }
    }

    /// The connection that `node` had until now, if the newcomer of that name proves to be the same
    /// neighbour: it has noticed before us that the old one is dead.
    pub fn replaced_by(&self, node: &str, proven: Option<&Proven>) -> Option<PeerId> {
        let identity = proven?.identity;
        let same = |peer: &Peer| peer.name == node && peer.identity == Some(identity);
        let mut peers = self.peers.iter();
        peers.find_map(|(id, peer)| same(peer).then_some(*id))
    }

    /// Checks that name and address of a newcomer are not somebody else's.
    fn check_free(
        &mut self,
        hello: &Hello,
        name: &str,
        addr: Option<SocketAddr>,
        identity: Option<Fingerprint>,
    ) -> Result<(), NoPort> {
        let other = |why: String| Err(NoPort::Other(why));
        let reserved = self.identities.get(&hello.node);
        if reserved.is_some_and(|reserved| identity != Some(*reserved)) {
            return other(format!(
                "the name {} is reserved for another certificate: use the --identity that it is reserved for, \
                 or another --name",
                hello.node
            ));
        }
        if hello.node == self.own_name {
            return other(format!(
                "this node itself is named {}: use another --name",
                hello.node
            ));
        }
        if self.peers.values().any(|peer| peer.name == hello.node) {
            return Err(NoPort::NameInUse);
        }
        let owner = addr.and_then(|addr| self.sources.owner(addr));
        let Some(owner) = owner.filter(|owner| self.by_name.get(name) != Some(owner)) else {
            return Ok(());
        };
        match self.port(owner) {
            Some(port) if port.down_since.is_none() => {
                other(format!("the address belongs to {}", port.name))
            }
            // The former owner of the address is gone.
            _ => {
                self.sources.remove_port(owner);
                Ok(())
            }
        }
    }

    /// Takes a neighbour off its port; `None` if it never got one.
    pub fn detach<O: Observer>(
        &mut self,
        now: Time,
        peer: PeerId,
        obs: &mut O,
    ) -> Option<Detached> {
        let gone = self.peers.remove(&peer)?;
        let source = gone.addr.and_then(|addr| self.sources.lookup(addr));
        self.downs += 1;
        let downs = self.downs;
        let slot = self.port_mut(gone.port)?;
        slot.peers.retain(|id| *id != peer);
        slot.egress.expire_key();
        if let (Some(source), Some(repair)) = (source, slot.egress.repair.running()) {
            repair.leave(now, source.member(), obs);
        }
        let down = slot.peers.is_empty();
        slot.down_since = down.then_some(downs);
        // A peer that only sent queries does not come back for the data.
        let control_only = gone.addr.is_none();
        let removed = down && control_only && !slot.configured;
        // The data of a single neighbour may continue without its channel; its address stays known.
        let forget = gone.addr.filter(|_| slot.group);
        if let Some(addr) = forget {
            self.sources.remove(addr);
        }
        if removed {
            self.remove(gone.port);
        }
        Some(Detached {
            forgotten: self.forget(),
            name: gone.name,
            port: gone.port,
            down,
            removed,
            control_only,
        })
    }

    /// Gives the neighbours on a port another key where one is due.
    pub fn change_keys(&mut self, now: Time) {
        for index in 0..self.slots.len() {
            let changed = self.slots[index]
                .as_mut()
                .and_then(|port| port.egress.change_key(now));
            if let Some(key) = changed {
                let key = Secret(key.to_text());
                self.signal(PortId(index as u16), &Signal::LinkKey { key });
            }
        }
    }

    /// Repairs losses on the link of a port with these sessions, ours first; or does not.
    /// `prompt`: the neighbour needs frequent reports. Gives whether we do.
    pub fn repair(&mut self, port: PortId, sessions: Option<(u16, u16)>, prompt: bool) -> bool {
        let means = self.means;
        let next = self.trunks.next_part();
        let Some(port) = self.port_mut(port) else {
            return false;
        };
        let measures = port.estimated && sessions.is_some();
        let role = sessions.map(|(ours, theirs)| RepairRole::Two {
            ours,
            theirs,
            means,
            measures,
            prompt,
            codec: octet_codec(),
        });
        port.egress.repair.begin_at(role, next.filter(|_| measures));
        measures
    }

    /// A port whose path carries more or less than before, and its rate.
    pub fn poll_rate(&mut self) -> Option<(PortId, Rate)> {
        let mut slots = self.slots.iter_mut().enumerate();
        slots.find_map(|(index, slot)| {
            let rate = slot.as_mut()?.egress.repair.poll_rate()?;
            Some((PortId(index as u16), rate))
        })
    }

    /// Takes a neighbour into the repair of the group of its port, which begins with the first one, under `session`. Gives
    /// the session of the group and its next counter.
    pub fn repair_group<O: Observer>(
        &mut self,
        now: Time,
        (peer, port): (PeerId, PortId),
        session: u16,
        obs: &mut O,
    ) -> Option<(u16, Serial)> {
        let addr = self.peers.get(&peer)?.addr?;
        let member = self.sources.lookup(addr)?.member();
        let repair = &mut self.port_mut(port)?.egress.repair;
        if !repair.is_group() {
            repair.begin(Some(RepairRole::Group(session)));
        }
        repair.running()?.join(now, member, obs)
    }

    /// Tells each neighbour for how long its datagrams are of use when they arrive late: the longest of the other ports; and each
    /// port whose rate is estimated what its flows need, and which others share its line.
    pub fn share_budgets<O: Observer>(
        &mut self,
        now: Time,
        needs: impl Fn(PortId) -> Needs,
        obs: &mut O,
    ) {
        if now < self.budgets_at {
            return;
        }
        self.budgets_at = now.saturating_add(SHARE_BUDGETS);
        let ends = self.iter_mut().map(|port| &mut port.egress.repair);
        share_budgets(now, ends.collect(), None, obs);
        let slots = self.slots.iter_mut().enumerate();
        let estimated = slots.filter_map(|(index, slot)| {
            let port = slot.as_mut().filter(|port| port.estimated)?;
            let repair = &mut port.egress.repair;
            repair.set_needs(now, needs(PortId(index as u16)), obs);
            Some((index as u32, repair))
        });
        let estimated: Vec<_> = estimated.collect();
        compare_paths(now, &mut self.trunks, estimated.into_iter(), obs);
    }

    /// Sends a neighbour the counters of the node and its parts, of the links with repair, and of those from which datagrams were dropped here.
    pub fn report_links(&self, now: Time, to: PeerId, node: NodeReport, parts: Vec<PartReport>) {
        let reports = self.iter().filter_map(|(_, port)| {
            let repair = &port.egress.repair;
            let clock = repair.clock(now, 0).filter(|_| !port.group);
            let clock = clock.map(|clock| clock_report(now, &clock));
            let stats = repair.stats();
            if stats.is_none() && port.crowded_out == 0 {
                return None;
            }
            Some(LinkReport {
                crowded_out: port.crowded_out,
                ..stats
                    .unwrap_or_default()
                    .report(&port.name, repair.estimate(), clock)
            })
        });
        let reports: Vec<LinkReport> = reports.collect();
        let mut messages = vec![Signal::Links {
            links: Vec::new(),
            node: Some(Box::new(node)),
            parts: Vec::new(),
        }];
        let links = reports.chunks(LINKS_PER_MESSAGE);
        messages.extend(links.map(|links| Signal::Links {
            links: links.to_vec(),
            node: None,
            parts: Vec::new(),
        }));
        let parts = parts.chunks(PARTS_PER_MESSAGE);
        messages.extend(parts.map(|parts| Signal::Links {
            links: Vec::new(),
            node: None,
            parts: parts.to_vec(),
        }));
        for message in messages {
            self.signal_peer(to, message);
        }
    }

    /// The neighbour seals its datagrams with another key from soon on.
    pub fn key_changed(&mut self, peer: PeerId, key: &Secret) {
        let addr = self.peers.get(&peer).and_then(|peer| peer.addr);
        if let (Some(addr), Ok(key)) = (addr, key.0.parse()) {
            self.sources.add_key(addr, &key);
        }
    }

    pub fn port(&self, id: PortId) -> Option<&Port> {
        self.slots.get(usize::from(id.0))?.as_ref()
    }

    /// The neighbour, or the group of neighbours, on a port.
    pub fn name(&self, id: PortId) -> Option<&str> {
        Some(self.port(id)?.name.as_str())
    }

    pub fn port_mut(&mut self, id: PortId) -> Option<&mut Port> {
        self.slots.get_mut(usize::from(id.0))?.as_mut()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.slots.iter_mut().flatten()
    }

    pub fn iter(&self) -> impl Iterator<Item = (PortId, &Port)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((PortId(index as u16), slot.as_ref()?)))
    }

    /// The rate of the line to a known neighbour, for now and for when it comes; and its port, if
    /// it has one yet.
    pub fn set_rate(&mut self, name: &str, rate: Rate) -> Option<PortId> {
        self.named.get_mut(name)?.port.rate = Some(rate);
        self.by_name.get(name).copied()
    }

    /// The rate of the line to a known neighbour.
    pub fn rate_to(&self, name: &str) -> Option<Rate> {
        self.named.get(name)?.port.rate
    }

    /// The port a signal of `peer` comes from, if it has one.
    pub fn heard(&mut self, peer: PeerId, signal: &Signal) -> Option<PortId> {
        let peer = self.peers.get_mut(&peer)?;
        peer.awaiting.heard(signal);
        Some(peer.port)
    }

    /// Sends a signal to the neighbours on a port. On a group every neighbour gets every signal, except answers
    /// to a join, which only go to those that wait for one.
    pub fn signal(&mut self, port: PortId, signal: &Signal) {
        let Some(slot) = self.slots.get(usize::from(port.0)).and_then(Option::as_ref) else {
            return;
        };
        for id in &slot.peers {
            let Some(peer) = self.peers.get_mut(id) else {
                continue;
            };
            if peer.awaiting.takes(signal) || !slot.group {
                peer.sender.send(signal.clone());
            }
        }
    }

    /// Tells the neighbours on a port what the clock of the source of a flow shows, which `reading` says by the clock of this node,
    /// called `own`.
    pub fn tell_clock(
        &mut self,
        now: Time,
        port: PortId,
        (flow, reading): (FlowId, &ClockReading),
        own: &str,
    ) {
        let Some(slot) = self.slots.get(usize::from(port.0)).and_then(Option::as_ref) else {
            return;
        };
        for peer in slot.peers.iter().filter_map(|id| self.peers.get(id)) {
            let (clock, wants) = &peer.clock;
            if !wants {
                continue;
            }
            let hop = match clock == own {
                true => None,
                false => {
                    let source = peer.addr.and_then(|addr| self.sources.lookup(addr));
                    let member = source.map_or(0, |source| source.member());
                    match slot.egress.repair.clock(now, member) {
                        Some(clock) => Some(clock_hop(&clock)),
                        None => continue,
                    }
                }
            };
            let clock = reading.for_neighbour(now.as_us() as u32, hop);
            peer.sender.send(Signal::Clock { flow, clock });
        }
    }

    /// Sends a signal to one neighbour.
    pub fn signal_peer(&self, peer: PeerId, signal: Signal) {
        if let Some(peer) = self.peers.get(&peer) {
            peer.sender.send(signal);
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.iter()
            .map(|(_, port)| port.egress.next_timeout())
            .fold(None, earliest)
    }

    /// Closes all connections in order.
    pub fn hang_up(&mut self) {
        self.peers.clear();
    }
}
