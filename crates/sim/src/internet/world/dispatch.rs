//! Events, and the way of their results to the parts that need them.

use layercast_core::Time;
use layercast_workload::app::AppInput;

use super::{Event, Internet};
use crate::internet::engine::{PacketId, Source};
use crate::internet::medium::Delivery;
use crate::internet::medium::packet::{Body, Carrier};
use crate::internet::medium::user::Owner;
use crate::internet::network::NodeIndex;
use crate::internet::node::tcp::Upcall;
use crate::kernel::SourceId;

impl Internet<'_> {
    /// One event.
    #[inline(always)]
    pub(in crate::internet) fn happens(&mut self, at: Time, event: Event) {
        self.medium.engine.now = at;
        self.steps += 1;
        match event {
            Event::Arrival => self.next_arrives(),
            Event::Other(source) => {
                self.others += 1;
                self.look_at_timers();
                self.event(source);
            }
            Event::Cells => {
                let delivery = self.medium.cells_move();
                self.deliver(delivery);
            }
        }
        if self.tcp.is_touched() || self.xtp.is_touched() || !self.medium.local.is_empty() {
            self.settle();
        }
    }

    fn event(&mut self, source: SourceId) {
        let medium = &mut self.medium;
        match medium.engine.source(source) {
            Source::Cpu(n) => {
                let delivery = medium.processed(NodeIndex(n));
                self.deliver(delivery);
            }
            Source::Tcp(n) => self.tcp.wake(n, &mut medium.engine),
            Source::Xtp(n) => self.xtp.wake(n, &mut medium.engine),
            Source::Flow(n) => self.flows.wake(n, &mut self.tcp, &mut self.xtp, medium),
            Source::Atm(n) => {
                medium.engine.kernel.schedule(source, None);
                medium.wake_atm(n);
            }
            Source::Contract(n) => {
                medium.engine.kernel.schedule(source, None);
                medium.wake_contract(n);
            }
            Source::Arrivals => {
                if let Some(apps) = &mut self.apps {
                    apps.begin(source, &mut self.tcp, medium);
                }
            }
            Source::Conversation(n) => {
                if let Some(apps) = &mut self.apps {
                    apps.wake(n, &mut self.tcp, medium);
                }
            }
            Source::Generator(n) => {
                if let Some(transfers) = &mut self.transfers {
                    transfers.wake(n, &mut self.tcp, medium);
                }
            }
            Source::Mets => self.wake_mets(),
            Source::Class(n) => {
                // What is due at the METS port enters first.
                self.wake_mets();
                self.medium.wake_class(n);
            }
            Source::Port(n) => medium.serve_port(n),
            Source::Warm => {
                medium.engine.kernel.schedule(source, None);
                // All threads see it, and it is one event.
                let outbox = medium.outbox.as_ref();
                self.others -= u64::from(outbox.is_some_and(|it| !it.is_first()));
                medium.empty_inboxes();
                self.restart_counts();
                self.go_straight_until(self.end);
            }
        }
    }

    fn wake_mets(&mut self) {
        if let Some(mets) = &mut self.mets {
            mets.wake(&mut self.medium);
        }
    }

    /// Gives a packet to those it is for.
    #[inline(always)]
    pub(in crate::internet) fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::None => {}
            Delivery::Local(at, id) => {
                if !self.takes_segment(at, id) {
                    self.receive(at, id);
                }
            }
            Delivery::Failed(at, id, cause) => {
                if let Some(external) = &mut self.external {
                    external.fails(at, id, cause, &mut self.medium);
                }
            }
        }
    }

    /// Gives the packets that nodes sent to themselves, and news of those that could not leave, to those they are for.
    #[cold]
    pub(super) fn deliver_local(&mut self) {
        while let Some(delivery) = self.medium.local.pop_front() {
            self.deliver(delivery);
        }
    }

    /// Most packets are segments for a simulated host: whether this is one, which its TCP then has.
    #[inline(always)]
    fn takes_segment(&mut self, at: NodeIndex, id: PacketId) -> bool {
        let host = self.medium.nodes[at.0 as usize].host;
        match host.filter(|_| self.external.is_none()) {
            Some(host) => self.tcp.receive(host, id, &mut self.medium),
            None => false,
        }
    }

    /// A packet for the node itself.
    fn receive(&mut self, at: NodeIndex, id: PacketId) {
        let medium = &mut self.medium;
        if let Some(external) = &mut self.external
            && external.hand_out(at, id, medium)
        {
            return;
        }
        let host = medium.nodes[at.0 as usize].host;
        if let Some(host) = host
            && self.tcp.receive(host, id, medium)
        {
            return;
        }
        let packet = medium.packets.get(id);
        let (src, bytes) = (packet.src, packet.bytes);
        if let Body::Group(content, flow) = &packet.body {
            if let Some(host) = host
                && self.flows.listens(*flow, host)
            {
                let (content, carrier) = ((**content).clone(), Carrier::IP);
                self.xtp.take(host, (src, at), content, carrier, medium);
            }
            return medium.spread(at, id);
        }
        match (medium.packets.take(id), host) {
            (Body::Udp(datagram), Some(_)) => match datagram.owner {
                Owner::Flow(n) => {
                    let arrival = (datagram.sent, bytes);
                    self.flows.datagram(n, arrival, &self.tcp, medium);
                }
                Owner::Conversation(slot, number) => {
                    let sent = datagram.sent;
                    self.tell(slot, number, AppInput::Datagram { sent });
                }
            },
            (Body::Xtp(packet, carrier), Some(host)) => {
                self.xtp.take(host, (src, at), *packet, carrier, medium);
            }
            (Body::Mets(datagram, wire), _) => {
                if let Some(mets) = &mut self.mets {
                    mets.arrived(wire, datagram, medium);
                }
            }
            (Body::Real(packet), _) => {
                if let Some(external) = &mut self.external {
                    external.answer(at, src, *packet, &mut self.tcp, medium);
                }
            }
            _ => medium.drops.not_mine += 1,
        }
    }

    fn tell(&mut self, slot: u32, number: u64, input: AppInput) {
        if let Some(apps) = &mut self.apps {
            apps.tell(slot, number, input, &mut self.tcp, &mut self.medium);
        }
    }

    /// Lets all hosts that something came to say what they have to say, and their users hear of it.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        loop {
            if !self.medium.local.is_empty() {
                self.deliver_local();
            }
            if let Some(host) = self.tcp.next_touched() {
                while self.tcp.settle(host, &mut self.medium) {
                    self.call_users();
                }
            } else if self.xtp.is_touched() {
                self.settle_xtp();
            } else {
                break;
            }
        }
    }

    #[inline(never)]
    fn settle_xtp(&mut self) {
        if let Some(host) = self.xtp.next_touched() {
            while self.xtp.settle(host, &mut self.medium) {
                self.call_flows(host);
            }
        }
    }

    /// Gives what TCP has for users to them.
    #[inline(never)]
    fn call_users(&mut self) {
        let mut next = 0;
        while let Some(&upcall) = self.tcp.upcalls.get(next) {
            self.call_user(upcall);
            next += 1;
        }
        self.tcp.upcalls.clear();
    }

    #[inline(always)]
    fn call_user(&mut self, upcall: Upcall) {
        let now = self.medium.engine.now;
        match upcall {
            Upcall::Completed(n) => return self.flows.completed(n, now),
            Upcall::Closes(n, counts, how) => return self.flows.closes(n, counts, how, now),
            Upcall::Arrived(n) => {
                if let Some(transfers) = &mut self.transfers {
                    transfers.arrived(n, &self.tcp, &self.medium);
                }
                return;
            }
            Upcall::GaveUp(n) => {
                if let Some(transfers) = &mut self.transfers {
                    transfers.failed(n, &self.tcp, &self.medium);
                }
                return;
            }
            _ => {}
        }
        let Some(apps) = &mut self.apps else {
            return;
        };
        let (tcp, medium) = (&mut self.tcp, &mut self.medium);
        match upcall {
            Upcall::Tells {
                slot,
                number,
                input,
            } => apps.tell(slot, number, input, tcp, medium),
            Upcall::Joined(side, host, id) => apps.joined(side, (host, id), tcp),
            Upcall::Closed(side) => apps.closed(side),
            Upcall::Failed(side) => apps.failed(side, tcp, medium),
            Upcall::Completed(_) | Upcall::Closes(..) | Upcall::Arrived(_) | Upcall::GaveUp(_) => {}
        }
    }

    /// Gives what the XTP of a host has for flows to them.
    fn call_flows(&mut self, host: u32) {
        let now = self.medium.engine.now;
        for upcall in self.xtp.upcalls.drain(..) {
            self.flows.hears(upcall, host, now, &self.medium);
        }
    }
}
