use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Stream, Time};
use layercast_nif::study::moments;
use layercast_wire::Ipv4Packet;

use super::receiver::{Received, Receiver};
use super::source::{Source, VIDEO};
use super::statistics::{JitterReport, periods};
use super::{Jitter, PERIOD};
use crate::events::Events;
use crate::line::Line;

enum Event {
    /// The source sends a frame.
    Frame(u32),
    /// The machine with the files sends a packet on a circuit.
    Leaves(u32, Ipv4Packet),
    /// A packet is at the host, on a circuit.
    AtHost(u32, Bytes),
    /// A packet is at the source.
    AtSource(Ipv4Packet),
    /// The source has time for it.
    Answered(Ipv4Packet),
}

pub(super) struct World {
    config: Jitter,
    source: Source,
    host: Receiver,
    line: Line,
    events: Events<Event>,
    noise: Stream,
    /// Packets of each frame that are missing.
    missing: Vec<u32>,
    shown_ms: Vec<f64>,
    at_adapter_ms: Vec<f64>,
    missed: u32,
    transferred: u64,
}

const SOURCE: usize = 0;
const HOST: usize = 1;
/// The transfers reach their windows before the first frame.
const WARM_UP: Span = Span::from_secs(2);

fn sent_at(frame: u32) -> Time {
    Time::ZERO + WARM_UP + PERIOD.times(frame.into())
}

impl World {
    pub fn new(config: &Jitter) -> World {
        let mut events = Events::new();
        events.add(sent_at(0), Event::Frame(0));
        World {
            config: *config,
            source: Source::new(config),
            host: Receiver::new(config),
            line: Line::new(config.network),
            events,
            noise: Stream::new(config.seed, "host/noise"),
            missing: vec![config.packets_per_frame; config.frames as usize],
            shown_ms: Vec::new(),
            at_adapter_ms: Vec::new(),
            missed: 0,
            transferred: 0,
        }
    }

    pub fn run(mut self) -> JitterReport {
        let (mut now, end) = (Time::ZERO, sent_at(self.config.frames));
        while now < end {
            self.settle(now);
            let timers = [
                self.events.next(),
                self.host.cpu.next_timeout(),
                self.host.tcp.next_timeout(),
            ];
            let next = timers
                .into_iter()
                .chain([self.source.tcp.next_timeout()])
                .flatten()
                .min();
            now = next.unwrap_or(end).max(now);
            self.host.tcp.on_timeout(now, &mut Off);
            self.source.tcp.on_timeout(now, &mut Off);
        }
        self.report(end)
    }

    /// Does all that is due.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some((at, circuit, packet)) = self.source.next_packet(now) {
                self.events.add(at, Event::Leaves(circuit, packet));
            }
            while let Some(packet) = self.host.next_packet(now) {
                let at = self.line.send(now, HOST, packet.encoded_len());
                self.events.add(at, Event::AtSource(packet));
            }
            if let Some(event) = self.events.pop(now) {
                self.happen(now, event);
            } else if let Some((at, job)) = self.host.cpu.pop_done(now) {
                match self.host.done(at, job) {
                    Some(Received::Video(frame)) => self.show(at, frame),
                    Some(Received::Transfer) => self.transferred += u64::from(at >= sent_at(0)),
                    None => {}
                }
            } else {
                return;
            }
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Frame(frame) => {
                for _ in 0..self.config.packets_per_frame {
                    self.send(now, VIDEO, &Source::video(frame));
                }
                if frame + 1 < self.config.frames {
                    self.events.add(sent_at(frame + 1), Event::Frame(frame + 1));
                }
            }
            Event::Leaves(circuit, packet) => self.send(now, circuit, &packet),
            Event::AtHost(circuit, packet) => {
                if circuit == VIDEO {
                    self.at_adapter_ms.push(now.as_secs_f64() * 1e3);
                }
                self.host.arrive(now, circuit, packet);
            }
            Event::AtSource(packet) => {
                let at = self.source.answers_at(now);
                self.events.add(at, Event::Answered(packet));
            }
            Event::Answered(packet) => self.source.receive(now, packet),
        }
    }

    fn send(&mut self, now: Time, circuit: u32, packet: &Ipv4Packet) {
        let at = self.line.send(now, SOURCE, packet.encoded_len());
        self.events
            .add(at, Event::AtHost(circuit, self.host.nic.encode(packet)));
    }

    /// The application has a packet of a frame.
    fn show(&mut self, now: Time, frame: u32) {
        let Some(missing) = self.missing.get_mut(frame as usize) else {
            return;
        };
        *missing = missing.saturating_sub(1);
        if *missing > 0 {
            return;
        }
        let late = Span::from_secs_f64(self.noise.normal().abs() * self.config.noise.as_secs_f64());
        let shown = now + late;
        self.missed += u32::from(shown.since(sent_at(frame)) > PERIOD);
        self.shown_ms.push(shown.as_secs_f64() * 1e3);
    }

    fn report(self, end: Time) -> JitterReport {
        let between = periods(&self.shown_ms);
        let first_packets: Vec<f64> = self
            .at_adapter_ms
            .chunks(self.config.packets_per_frame as usize)
            .map(|it| it[0])
            .collect();
        let seconds = end.since(sent_at(0)).as_secs_f64();
        let (delivery_mean_us, delivery_variance) = moments(&self.host.latencies);
        let program = self.host.of_program();
        let stats = self.host.nic.stats();
        JitterReport {
            frames: self.shown_ms.len() as u32,
            max_period_ms: between.iter().copied().fold(0.0, f64::max),
            min_period_ms: between.iter().copied().fold(f64::INFINITY, f64::min),
            variance_ms2: moments(&between).1,
            network_variance_ms2: moments(&periods(&first_packets)).1,
            missed: self.missed + self.config.frames - self.shown_ms.len() as u32,
            transfer_packets_per_s: self.transferred as f64 / seconds,
            program_share: program.map(|(used, _)| used.as_secs_f64() / end.as_secs_f64()),
            program_starved_ms: program.map(|(_, starved)| starved.as_ms_f64()),
            delivery_mean_us,
            delivery_sd_us: delivery_variance.sqrt(),
            network_load: self.line.load(end),
            delivered: stats.delivered,
            copied: stats.copied,
            dropped: stats.drops.total(),
        }
    }
}
