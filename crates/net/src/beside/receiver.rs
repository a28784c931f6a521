//! The side that receives: one thread, which takes packets from the sockets as an interrupt does, and processes them in an order.

use std::net::UdpSocket;
use std::time::Duration;
use std::{hint, io};

use layercast_core::{Span, Stream, Time};
use layercast_nif::cpu::{Class, Dispatcher, ThreadId, ThreadSpec};
use layercast_nif::study::{ServiceTimes, moments};
use layercast_nif::{
    Action, Buf, Circuits, ClientId, Memory, Policy, Shepherd, Type, Vc, VcDriver,
};

use super::{BULK, Beside, BesideReport, Order, VIDEO, wait};
use crate::clock::Clock;

/// The highest priority among threads, for the video.
const FIRST: u8 = 200;

pub(super) struct Receiver {
    config: Beside,
    sockets: Vec<UdpSocket>,
    driver: VcDriver<Shepherd>,
    clients: Vec<ClientId>,
    threads: Vec<ThreadId>,
    ready: Dispatcher<()>,
    service: ServiceTimes,
    /// When each frame was sent and shown.
    frames: Vec<(Time, Time)>,
    packets: u64,
    /// When the first frame was shown and what was counted then: transfers begin before.
    since: Option<(Time, u64)>,
}

impl Receiver {
    pub fn new(config: &Beside, sockets: Vec<UdpSocket>) -> io::Result<Receiver> {
        let buffers = 2 * config.window.max(8) as usize;
        let memory = Memory::new((BULK * (buffers * sockets.len() + 1)) as u64);
        let full = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let mut receiver = Receiver {
            driver: VcDriver::new(memory.clone(), BULK, Circuits::CONFIG).map_err(full)?,
            config: *config,
            clients: Vec::new(),
            threads: Vec::new(),
            ready: Dispatcher::new(),
            service: ServiceTimes::new(
                Stream::new(config.seed, "beside/service"),
                config.video_service,
                config.service,
            ),
            frames: Vec::with_capacity(config.frames as usize),
            packets: 0,
            since: None,
            sockets,
        };
        for at in 0..receiver.sockets.len() {
            let spec = match (config.order, at) {
                (Order::Priority, VIDEO) => ThreadSpec {
                    priority: FIRST,
                    ..ThreadSpec::default()
                },
                (Order::Deadline, VIDEO) => ThreadSpec {
                    class: Class::Realtime {
                        interval: config.period,
                        workahead: 1,
                        delay: config.period,
                    },
                    ..ThreadSpec::default()
                },
                _ => ThreadSpec::default(),
            };
            let thread = receiver.ready.add_thread(spec);
            let pool = (buffers, BULK);
            let client = Shepherd::new(&memory, Policy::MustReturn, vec![thread], pool);
            let vc = Type::Of(Vc(at as u32));
            let registered = receiver
                .driver
                .register(Time::ZERO, vc, client.map_err(full)?);
            let registered = registered.map_err(|(error, _)| io::Error::other(error))?;
            receiver.clients.push(registered.id);
            receiver.threads.push(thread);
        }
        Ok(receiver)
    }

    /// Until all frames are shown, `most` at most.
    pub fn run(&mut self, most: Duration) -> io::Result<()> {
        let clock = Clock::get();
        let end = clock.now() + Span::from_ns(most.as_nanos() as u64);
        while self.frames.len() < self.config.frames as usize && clock.now() < end {
            self.interrupt(clock.now());
            match self.ready.next(clock.now()) {
                Some((thread, ())) => self.process(clock, thread),
                None => {
                    let left = Duration::from_nanos(end.since(clock.now()).as_ns());
                    wait(&self.sockets, left)?;
                }
            }
        }
        Ok(())
    }

    /// Takes all that the sockets have: each packet goes to the client of its circuit, which wakes its thread.
    fn interrupt(&mut self, now: Time) {
        let mut packet = [0; BULK];
        for (at, socket) in self.sockets.iter().enumerate() {
            while let Ok(len) = socket.recv(&mut packet) {
                let vc = Vc(at as u32);
                self.driver.on_pdu(now, vc, &packet[..len]);
            }
        }
        for action in self.driver.actions() {
            if let Action::Wake(thread) = action {
                self.ready.push(now, thread, ());
            }
        }
    }

    /// A thread takes its next packet through the protocols.
    fn process(&mut self, clock: Clock, thread: ThreadId) {
        let Some(at) = self.threads.iter().position(|it| *it == thread) else {
            return;
        };
        let id = self.clients[at];
        let client = self.driver.client_mut(id);
        let Some(packet) = client.and_then(Shepherd::next_packet) else {
            return;
        };
        let done = clock.now() + self.service.draw(at == VIDEO);
        let mut now = clock.now();
        while now < done {
            hint::spin_loop();
            now = clock.now();
        }
        match at {
            VIDEO => self.show(now, &packet),
            _ => {
                self.packets += 1;
                // An acknowledgement that is lost costs the transfer a packet of its window.
                let _ = self.sockets[at].send(&[0; 8]);
            }
        }
        if let Err(packet) = self.driver.give_rx(now, id, packet) {
            packet.free();
        }
    }

    fn show(&mut self, now: Time, packet: &Buf) {
        let sent = packet.data().and_then(|data| data.first_chunk());
        if let Some(sent) = sent {
            self.since.get_or_insert((now, self.packets));
            let sent = Time::from_ps(u64::from_be_bytes(*sent));
            self.frames.push((sent, now));
        }
    }

    pub fn report(&self) -> BesideReport {
        let periods = |of: fn(&(Time, Time)) -> Time| -> Vec<f64> {
            let times = self.frames.windows(2);
            let times = times.map(|it| of(&it[1]).since(of(&it[0])).as_ms_f64());
            times.collect()
        };
        let (sent, shown) = (periods(|it| it.0), periods(|it| it.1));
        let late = |it: &&(Time, Time)| it.1.since(it.0) > self.config.period;
        let last = self.frames.last().map_or(Time::ZERO, |it| it.1);
        let (since, before) = self.since.unwrap_or((last, self.packets));
        let seconds = last.since(since).as_secs_f64();
        let transfers = self.threads.iter().skip(VIDEO + 1);
        let starved = transfers.map(|it| self.ready.thread_use(*it).starved_for);
        BesideReport {
            frames: self.frames.len() as u32,
            variance_ms2: moments(&shown).1,
            max_period_ms: shown.iter().copied().fold(0.0, f64::max),
            min_period_ms: shown.iter().copied().reduce(f64::min).unwrap_or(0.0),
            sent_variance_ms2: moments(&sent).1,
            missed: self.frames.iter().filter(late).count() as u32,
            transfer_packets_per_s: match seconds > 0.0 {
                true => (self.packets - before) as f64 / seconds,
                false => 0.0,
            },
            transfer_starved_ms: starved.max().unwrap_or(Span::ZERO).as_ms_f64(),
            delivered: self.driver.stats().delivered,
            dropped: self.driver.stats().drops.total(),
        }
    }
}
