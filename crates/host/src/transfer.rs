//! A bulk transfer over TCP between two hosts on an Ethernet (specs/network-interface-framework.md 5, tables 1 and 2).

use core::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Time};
use layercast_nif::ClientId;
use layercast_nif::cpu::{Cpu, CpuConfig, Level, ThreadId, ThreadSpec};
use layercast_tcp::{ConnId, Endpoint, Profile, TcpConfig};
use layercast_wire::{IpBody, Ipv4Packet, Payload};
use serde::{Deserialize, Serialize};

use crate::events::Events;
use crate::line::{Line, Network};
use crate::nic::Nic;

/// The network code of an operating system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// x-Kernel 3.2 in Choices: a thread takes each packet through the protocols.
    XKernel,
    /// 4.4BSD in Choices: protocols in software interrupts.
    Bsd,
    /// SunOS 4.1.3, as BSD.
    Sunos,
}

/// What a stack costs.
///
/// It is derived from the tables by one rule for all stacks: receiving k KiB costs k times one constant and another one
/// for the message, both from the two rates of receiving; of the former, the copy to the application is what the model of the
/// machine says, and the rest is that of the protocols. A segment that is sent costs what the rates of sending say, with all
/// that belongs to it (specs/network-interface-framework.md 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// The protocols of a segment that is received, an octet of it.
    pub received_octet: Span,
    /// An octet of it that is copied to the application.
    pub copied_octet: Span,
    /// A message that is read.
    pub message: Span,
    /// A segment that is sent.
    pub sent_segment: Span,
}

/// Octets of a full segment.
const MSS: u16 = 1_460;
/// Octets of a frame before the data: Ethernet, IP, TCP.
const HEADERS: usize = 54;
/// A copy of data that is in no cache, an octet of it, on a SPARCstation 2 (`layercast ilp explain copy --machine ss2 --cold`).
const COPY: Span = Span::from_ps(151_250);
const KIB: f64 = 1_024.0;

impl Stack {
    /// What it costs on a SPARCstation 2.
    pub fn costs(self) -> Costs {
        // Octets/s: received by 1 KiB and 4 KiB, sent.
        let (one, four, sent) = match self {
            Stack::XKernel => (950e3, 1_080e3, 920e3),
            Stack::Bsd => (1_030e3, 1_060e3, 980e3),
            Stack::Sunos => (1_080e3, 1_080e3, 1_055e3),
        };
        let kib = (4.0 * KIB / four - KIB / one) / 3.0;
        Costs {
            received_octet: Span::from_secs_f64(kib / KIB) - COPY,
            copied_octet: COPY,
            message: Span::from_secs_f64(KIB / one - kib),
            sent_segment: Span::from_secs_f64(f64::from(MSS) / sent),
        }
    }
}

/// A transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The stack of the sender.
    pub sender: Stack,
    /// The stack of the receiver.
    pub receiver: Stack,
    /// Octets of a socket buffer of the sender, and of the receiver.
    pub socket_buffers: [u32; 2],
    /// Octets that the application reads in one call.
    pub message: usize,
    /// How long it is measured.
    pub duration: Span,
}

/// A transfer that was simulated.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TransferReport {
    /// Octets that the application read in a second, by 1000.
    pub kbytes_per_s: f64,
    /// Share of the time that the processor of the sender was busy.
    pub sender_busy: f64,
    /// That of the receiver.
    pub receiver_busy: f64,
    /// That of the wire.
    pub wire_busy: f64,
    /// Mean octets of a read.
    pub read_octets: f64,
    /// Packets that the interface of the receiver delivered.
    pub delivered: u64,
    /// Of these, packets that its driver copied.
    pub copied: u64,
    /// Packets that it dropped.
    pub dropped: u64,
}

enum Event {
    Arrival(usize, Bytes),
}

enum Job {
    /// The interrupt of a packet.
    Interrupt(Bytes),
    /// The protocols of a packet.
    Receive(ClientId),
    /// The protocols of a packet to be sent.
    Send(Ipv4Packet),
    /// The application reads this many octets.
    Read(usize),
}

struct Node {
    nic: Nic,
    cpu: Cpu<Job>,
    tcp: Endpoint,
    costs: Costs,
    protocols: Level,
    application: ThreadId,
    is_reading: bool,
    busy: Span,
}

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORT: u16 = 5_001;
const WARM_UP: Span = Span::from_secs(2);

impl Node {
    fn new(stack: Stack, name: &str, socket_buffer: u32) -> Node {
        let mut cpu = Cpu::new(CpuConfig {
            is_preemptive: true,
            ..CpuConfig::default()
        });
        let kernel = cpu.add_thread(ThreadSpec {
            priority: 200,
            ..ThreadSpec::default()
        });
        let application = cpu.add_thread(ThreadSpec::default());
        let config = TcpConfig {
            mss: MSS,
            send_buffer: socket_buffer,
            recv_buffer: socket_buffer,
            ..Profile::SunOs413.into()
        };
        Node {
            nic: Nic::ring(kernel),
            cpu,
            tcp: Endpoint::new(config, name, &[7; 32]).expect("the configuration is valid"),
            costs: stack.costs(),
            protocols: match stack {
                Stack::XKernel => Level::Thread(kernel),
                Stack::Bsd | Stack::Sunos => Level::Softirq,
            },
            application,
            is_reading: false,
            busy: Span::ZERO,
        }
    }

    fn push(&mut self, now: Time, level: Level, cost: Span, job: Job) {
        self.busy += cost;
        self.cpu.push(now, level, cost, job);
    }

    /// The next packet that TCP sends: data go through the protocols first; an acknowledgement is a part of what it answers.
    fn send(&mut self, now: Time) -> Option<Ipv4Packet> {
        while self.tcp.poll_event().is_some() {}
        while let Some(packet) = self.tcp.poll_transmit(now, &mut Off) {
            let is_empty = packet.segment.payload.is_empty();
            let packet = Ipv4Packet::new(packet.src, packet.dst, IpBody::Tcp(packet.segment));
            if is_empty {
                return Some(packet);
            }
            self.push(
                now,
                self.protocols,
                self.costs.sent_segment,
                Job::Send(packet),
            );
        }
        None
    }

    fn receive(&mut self, now: Time, client: ClientId) {
        if let Some(packet) = self.nic.take(now, client)
            && let IpBody::Tcp(mut segment) = packet.body
        {
            let ends = (packet.src, packet.dst);
            self.tcp.receive(
                now,
                ends,
                layercast_tcp::Ecn::NotCapable,
                &mut segment,
                &mut Off,
            );
        }
    }
}

impl Transfer {
    /// Simulates it.
    pub fn run(&self) -> TransferReport {
        let [send_buffer, receive_buffer] = self.socket_buffers;
        let nodes = [
            Node::new(self.sender, "sender", send_buffer),
            Node::new(self.receiver, "receiver", receive_buffer),
        ];
        let mut world = World {
            nodes,
            line: Line::new(Network::Ethernet),
            events: Events::new(),
            read: 0,
            reads: 0,
        };
        world.run(self)
    }
}

struct World {
    nodes: [Node; 2],
    line: Line,
    events: Events<Event>,
    read: u64,
    reads: u64,
}

impl World {
    fn run(&mut self, transfer: &Transfer) -> TransferReport {
        let address = |host: usize, port| SocketAddrV4::new(ADDRESSES[host], port);
        let [sender, receiver] = &mut self.nodes;
        receiver.tcp.listen(PORT, 1).expect("the port is free");
        let near = sender
            .tcp
            .connect(Time::ZERO, address(0, 0), address(1, PORT))
            .expect("the host is empty");
        let (start, mut far) = (Time::ZERO + WARM_UP, None);
        let end = start + transfer.duration;
        let mut before = (0, 0);
        let mut now = Time::ZERO;
        while now < end {
            // The sender always has more; what does not fit waits.
            let _ = self.nodes[0].tcp.write(near, &Payload::Zeros(1 << 16));
            far = far.or_else(|| Some(self.nodes[1].tcp.accept(PORT)?.0));
            if let Some(far) = far {
                self.read(now, transfer.message, far);
            }
            for at in 0..2 {
                while let Some(packet) = self.nodes[at].send(now) {
                    self.transmit(now, at, &packet);
                }
            }
            if self.step(now, far) {
                continue;
            }
            let next = self.next().unwrap_or(end).min(end);
            if now < start && next >= start {
                before = (self.read, self.reads);
                self.nodes
                    .iter_mut()
                    .for_each(|node| node.busy = Span::ZERO);
            }
            now = next;
            for node in &mut self.nodes {
                node.tcp.on_timeout(now, &mut Off);
            }
        }
        let seconds = transfer.duration.as_secs_f64();
        let (read, reads) = (self.read - before.0, self.reads - before.1);
        let busy = |at: usize| self.nodes[at].busy.as_secs_f64() / seconds;
        let stats = self.nodes[1].nic.stats();
        TransferReport {
            kbytes_per_s: read as f64 / seconds / 1e3,
            sender_busy: busy(0),
            receiver_busy: busy(1),
            wire_busy: self.line.load(end),
            read_octets: read as f64 / (reads.max(1)) as f64,
            delivered: stats.delivered,
            copied: stats.copied,
            dropped: stats.drops.total(),
        }
    }

    fn next(&self) -> Option<Time> {
        let nodes = self
            .nodes
            .iter()
            .flat_map(|it| [it.cpu.next_timeout(), it.tcp.next_timeout()]);
        nodes.chain([self.events.next()]).flatten().min()
    }

    /// The application reads when there is something, and it does not read already.
    fn read(&mut self, now: Time, message: usize, far: ConnId) {
        let node = &mut self.nodes[1];
        let octets = node
            .tcp
            .available(far)
            .map_or(0, |(octets, _)| octets.min(message));
        if octets > 0 && !node.is_reading {
            node.is_reading = true;
            let cost = node.costs.message + node.costs.copied_octet.times(octets as u64);
            node.push(
                now,
                Level::Thread(node.application),
                cost,
                Job::Read(octets),
            );
        }
    }

    fn transmit(&mut self, now: Time, from: usize, packet: &Ipv4Packet) {
        let to = 1 - from;
        let arrival = self.line.send(now, from, packet.encoded_len());
        let frame = self.nodes[to].nic.encode(packet);
        self.events.add(arrival, Event::Arrival(to, frame));
    }

    /// Does one thing that is due; `false` if nothing is.
    fn step(&mut self, now: Time, far: Option<ConnId>) -> bool {
        if let Some(Event::Arrival(at, packet)) = self.events.pop(now) {
            self.nodes[at].push(now, Level::Irq, Span::ZERO, Job::Interrupt(packet));
            return true;
        }
        for at in 0..2 {
            let node = &mut self.nodes[at];
            let Some((now, job)) = node.cpu.pop_done(now) else {
                continue;
            };
            match job {
                Job::Interrupt(packet) => {
                    // The default client has one thread: the level of the stack is where it works.
                    if let Some((client, _)) = node.nic.arrive(now, 0, &packet) {
                        let data = packet.len().saturating_sub(HEADERS) as u64;
                        let cost = node.costs.received_octet.times(data);
                        node.push(now, node.protocols, cost, Job::Receive(client));
                    }
                }
                Job::Receive(client) => node.receive(now, client),
                Job::Send(packet) => self.transmit(now, at, &packet),
                Job::Read(octets) => {
                    node.is_reading = false;
                    let mut left = octets;
                    while let Some(far) = far
                        && let Ok(Some(data)) = node.tcp.read(far, left)
                        && left > 0
                    {
                        left -= data.len();
                    }
                    self.read += (octets - left) as u64;
                    self.reads += 1;
                }
            }
            return true;
        }
        false
    }
}
