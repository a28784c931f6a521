//! The host that is studied.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Stream, Time};
use layercast_nif::ClientId;
use layercast_nif::cpu::{Class, Cpu, CpuConfig, Level, ThreadId, ThreadSpec};
use layercast_nif::study::ServiceTimes;
use layercast_tcp::{ConnId, Ecn, Endpoint};
use layercast_wire::{IpBody, Ipv4Packet, Payload};

use super::source::{FIRST_PORT, VIDEO, tcp};
use super::{Jitter, MSS, PERIOD, Path, Scheduling};
use crate::line::Network;
use crate::nic::Nic;

pub(super) enum Job {
    /// The interrupt of a packet on a circuit, and when it came.
    Interrupt(u32, Bytes, Time),
    /// The protocols of a packet of a client.
    Protocols(ClientId),
    Program,
}

/// What the application gets.
pub(super) enum Received {
    /// A packet of a frame.
    Video(u32),
    /// A packet of a transfer.
    Transfer,
}

const VIDEO_PRIORITY: u8 = 200;
const PRIORITY: u8 = 100;
/// What a program computes before another one of its priority has its turn.
const TURN: Span = Span::from_ms(4);

pub(super) struct Receiver {
    config: Jitter,
    pub nic: Nic,
    pub cpu: Cpu<Job>,
    pub tcp: Endpoint,
    connections: Vec<ConnId>,
    service: ServiceTimes,
    program: Option<ThreadId>,
    /// Packets of video and others that the handler has not begun: what each costs, and when it came.
    pending: [VecDeque<(ClientId, Span, Time)>; 2],
    is_handling: bool,
    /// From the adapter to the code of the client, us.
    pub latencies: Vec<f64>,
}

impl Receiver {
    pub fn new(config: &Jitter) -> Receiver {
        let is_preemptive = matches!(
            config.scheduling,
            Scheduling::Preemptive | Scheduling::Deadline
        );
        let mut cpu = Cpu::new(CpuConfig {
            is_preemptive,
            quantum: None,
            inherits: true,
        });
        let video = match config.scheduling {
            Scheduling::Priority | Scheduling::Preemptive => ThreadSpec {
                priority: VIDEO_PRIORITY,
                ..ThreadSpec::default()
            },
            Scheduling::Deadline => ThreadSpec {
                class: Class::Realtime {
                    interval: PERIOD.mul_div(1, config.packets_per_frame.into()),
                    workahead: 1,
                    delay: PERIOD,
                },
                ..ThreadSpec::default()
            },
            _ => ThreadSpec {
                priority: PRIORITY,
                ..ThreadSpec::default()
            },
        };
        let other = ThreadSpec {
            priority: PRIORITY,
            ..ThreadSpec::default()
        };
        let mut threads = vec![cpu.add_thread(video)];
        threads.extend((0..config.transfers).map(|_| cpu.add_thread(other)));
        let nic = match config.network {
            Network::Ethernet => Nic::ring(threads[0]),
            Network::Atm => Nic::circuits(&threads),
        };
        let program = config.has_program.then(|| {
            cpu.add_thread(ThreadSpec {
                is_user: true,
                ..other
            })
        });
        if let Some(program) = program {
            cpu.push(Time::ZERO, Level::Thread(program), TURN, Job::Program);
        }
        let mut tcp = tcp("host", config.window * u32::from(MSS));
        for n in 0..config.transfers as u16 {
            tcp.listen(FIRST_PORT + n, 1).expect("the port is free");
        }
        Receiver {
            config: *config,
            nic,
            cpu,
            tcp,
            connections: Vec::new(),
            service: ServiceTimes::new(
                Stream::new(config.seed, "host/service"),
                config.video_service,
                config.service,
            ),
            program,
            pending: [VecDeque::new(), VecDeque::new()],
            is_handling: false,
            latencies: Vec::new(),
        }
    }

    /// What a number of steps takes.
    fn steps(&self, count: impl FnOnce(Path) -> u64) -> Span {
        self.config.step.times(count(self.config.scheduling.path()))
    }

    /// A packet is in the adapter.
    pub fn arrive(&mut self, now: Time, circuit: u32, packet: Bytes) {
        let cost = self.steps(|path| path.in_interrupt);
        self.cpu
            .push(now, Level::Irq, cost, Job::Interrupt(circuit, packet, now));
    }

    /// What is done at `now`; the application may get something.
    pub fn done(&mut self, now: Time, job: Job) -> Option<Received> {
        match job {
            Job::Program => {
                if let Some(program) = self.program {
                    self.cpu
                        .push(now, Level::Thread(program), TURN, Job::Program);
                }
                None
            }
            Job::Interrupt(circuit, packet, came) => {
                self.interrupt(now, circuit, &packet, came);
                None
            }
            Job::Protocols(client) => {
                self.is_handling = false;
                let received = self.protocols(now, client);
                self.handle_next(now);
                received
            }
        }
    }

    fn interrupt(&mut self, now: Time, circuit: u32, packet: &[u8], came: Time) {
        let Some((client, thread)) = self.nic.arrive(now, circuit, packet) else {
            return;
        };
        let is_video = circuit == VIDEO;
        let demand = self.service.draw(is_video);
        match self.config.scheduling {
            Scheduling::Softirq | Scheduling::SoftirqPriority => {
                let demand = demand + self.steps(|path| path.in_softirq);
                let line = usize::from(self.config.scheduling == Scheduling::Softirq || !is_video);
                self.pending[line].push_back((client, demand, came));
                self.handle_next(now);
            }
            _ => {
                self.latencies.push(now.since(came).as_secs_f64() * 1e6);
                self.cpu
                    .push(now, Level::Thread(thread), demand, Job::Protocols(client));
            }
        }
    }

    /// The handler of software interrupts begins its next packet.
    fn handle_next(&mut self, now: Time) {
        if self.is_handling {
            return;
        }
        let next = self.pending.iter_mut().find_map(VecDeque::pop_front);
        let Some((client, demand, came)) = next else {
            return;
        };
        let entry = self.steps(|path| path.in_softirq);
        self.latencies
            .push((now + entry).since(came).as_secs_f64() * 1e6);
        self.is_handling = true;
        self.cpu
            .push(now, Level::Softirq, demand, Job::Protocols(client));
    }

    fn protocols(&mut self, now: Time, client: ClientId) -> Option<Received> {
        let packet = self.nic.take(now, client)?;
        match packet.body {
            IpBody::Tcp(mut segment) => {
                let (ends, has_data) = ((packet.src, packet.dst), !segment.payload.is_empty());
                self.tcp
                    .receive(now, ends, Ecn::NotCapable, &mut segment, &mut Off);
                self.read();
                has_data.then_some(Received::Transfer)
            }
            IpBody::Udp(datagram) => match datagram.payload {
                Payload::Bytes(bytes) => {
                    Some(Received::Video(u32::from_be_bytes(*bytes.first_chunk()?)))
                }
                Payload::Zeros(_) => None,
            },
            IpBody::Other { .. } => None,
        }
    }

    /// The applications of the transfers read all there is.
    fn read(&mut self) {
        for n in 0..self.config.transfers as u16 {
            if let Some((id, _)) = self.tcp.accept(FIRST_PORT + n) {
                self.connections.push(id);
            }
        }
        for id in &self.connections {
            let _ = self.tcp.discard(*id);
        }
        while self.tcp.poll_event().is_some() {}
    }

    /// The next packet that TCP sends.
    pub fn next_packet(&mut self, now: Time) -> Option<Ipv4Packet> {
        let packet = self.tcp.poll_transmit(now, &mut Off)?;
        Some(Ipv4Packet::new(
            packet.src,
            packet.dst,
            IpBody::Tcp(packet.segment),
        ))
    }

    /// Time that the program had, and its longest wait.
    pub fn of_program(&self) -> Option<(Span, Span)> {
        let taken = self.cpu.thread_use(self.program?);
        Some((taken.used, taken.starved_for))
    }
}
