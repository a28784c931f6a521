//! The application of a stream: packets at even times at the sender, a process that takes them at each receiver
//! (specs/fully-reliable-multicast.md 3, 4).

use layercast_core::{Span, Time};
use layercast_multicast::SendError;
use layercast_wire::Payload;

use super::config::Content;
use super::world::{Due, Simulation};

/// What makes and counts the packets of a stream.
#[derive(Clone, Debug)]
pub(super) struct Application {
    packets: u64,
    octets: u16,
    interval: Span,
    /// When each packet was made.
    made: Vec<Time>,
    /// Packets that the sender has taken.
    given: u64,
    /// Of each packet: receivers that took it, and the sum of their response times in picoseconds. Those of many
    /// receivers exceed 64 bits.
    taken: Vec<(u32, u128)>,
    longest: Span,
    /// When buffers were released, and how many until then.
    pub released: Vec<(Time, u64)>,
}

/// Response times: from when a packet was made until a process took it.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct StreamCount {
    /// Packets of the stream.
    pub made: u64,
    /// Deliveries, one for each packet and receiver.
    pub delivered: u64,
    /// Mean response time in seconds.
    pub response_s: f64,
    /// Largest response time in seconds.
    pub most_response_s: f64,
    /// Median and 95th percentile of the mean response times of packets, in seconds.
    pub quantiles_s: [f64; 2],
    /// Octets per second released, for each second.
    pub released_bps: Vec<f64>,
}

impl Application {
    pub fn new(content: &Content) -> Option<Application> {
        match *content {
            Content::Object { .. } => None,
            Content::Stream {
                packets,
                octets,
                interval,
                ..
            } => Some(Application {
                packets,
                octets,
                interval,
                made: Vec::new(),
                given: 0,
                taken: Vec::new(),
                longest: Span::ZERO,
                released: Vec::new(),
            }),
        }
    }

    fn took(&mut self, number: u64, now: Time) {
        let at = number as usize;
        let Some(made) = self.made.get(at) else {
            return;
        };
        let response = now.since(*made);
        let (count, sum) = &mut self.taken[at];
        *count += 1;
        *sum += u128::from(response.as_ps());
        self.longest = self.longest.max(response);
    }

    /// What it found.
    pub fn count(&self) -> StreamCount {
        let delivered = self.taken.iter().map(|it| u64::from(it.0)).sum();
        let seconds = |it: &(u32, u128)| it.1 as f64 / 1e12;
        let total: f64 = self.taken.iter().map(seconds).sum();
        let taken = self.taken.iter().filter(|it| it.0 > 0);
        let mut means: Vec<f64> = taken.map(|it| seconds(it) / f64::from(it.0)).collect();
        means.sort_by(f64::total_cmp);
        let quantile = |of: f64| {
            let at = ((means.len() as f64 * of).ceil() as usize).max(1) - 1;
            means.get(at).copied().unwrap_or(0.0)
        };
        StreamCount {
            made: self.made.len() as u64,
            delivered,
            response_s: total / delivered.max(1) as f64,
            most_response_s: self.longest.as_secs_f64(),
            quantiles_s: [quantile(0.5), quantile(0.95)],
            released_bps: self.released_by_second(),
        }
    }

    fn released_by_second(&self) -> Vec<f64> {
        let Some(&start) = self.made.first() else {
            return Vec::new();
        };
        let (mut rates, mut before) = (Vec::new(), 0);
        for &(at, upto) in &self.released {
            let second = (at.since(start).as_us() / 1_000_000) as usize;
            if rates.len() <= second {
                rates.resize(second + 1, 0.0);
            }
            rates[second] += ((upto - before) * u64::from(self.octets)) as f64;
            before = upto;
        }
        rates
    }
}

impl Simulation<'_> {
    /// The application makes its next packet.
    pub(super) fn submit(&mut self) {
        let Some(application) = &mut self.application else {
            return;
        };
        if (application.made.len() as u64) < application.packets {
            application.made.push(self.now);
            application.taken.push((0, 0));
            self.calendar
                .add(self.now + application.interval, Due::Submit);
        }
        self.give_to_sender();
        self.turn_of_source();
    }

    /// What the application has made and the sender has room for.
    pub(super) fn give_to_sender(&mut self) {
        let Some(application) = &mut self.application else {
            return;
        };
        while application.given < application.made.len() as u64 {
            let payload = Payload::Zeros(application.octets.into());
            match self.sender.send_packet(payload) {
                Ok(()) => application.given += 1,
                Err(SendError::WouldBlock) => return,
                Err(_) => break,
            }
        }
        if application.given == application.packets {
            self.sender.end();
        }
    }

    /// Buffers are free.
    pub(super) fn released(&mut self, upto: u64) {
        if let Some(application) = &mut self.application {
            application.released.push((self.now, upto));
        }
        self.give_to_sender();
    }

    /// The process of a receiver begins with a packet, if it has none and there is one.
    pub(super) fn serve(&mut self, member: u32) {
        let it = &mut self.members[member as usize];
        let readable = it.machine.as_ref().is_some_and(|it| it.readable() > 0);
        if readable && !it.user.serves {
            it.user.serves = true;
            let at = self.now + it.user.service;
            self.calendar.add(at, Due::Served { member });
        }
    }

    /// It is done with it.
    pub(super) fn served(&mut self, member: u32) {
        let it = &mut self.members[member as usize];
        it.user.serves = false;
        let taken = it.machine.as_mut().and_then(|machine| machine.take());
        if taken.is_some() {
            let number = it.user.taken;
            it.user.taken += 1;
            if let Some(application) = &mut self.application {
                application.took(number, self.now);
            }
        }
        self.after(member);
        self.serve(member);
    }
}
