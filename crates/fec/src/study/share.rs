use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{Stream, Time};
use serde::{Deserialize, Serialize};

use super::{StudyError, ends};
use crate::{Decoder, DecoderEvent, Encoder, Scheme};

/// A protected transfer beside an unprotected one through a drop-tail queue (S4). Both halve their windows at most
/// once in a round trip on a loss, and increase them by one packet in each other round trip.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Source packets of a block of the protected transfer.
    pub n: u8,
    /// Parities of a block; 0 means unprotected as well.
    pub m: u8,
    /// Whether parities count in the window (specs/packet-level-fec.md 2.7).
    pub window: bool,
    /// Whether losses before decoding halve the window (2.7), instead of those that remain after it.
    pub signal: bool,
    /// Capacity of the queue in packets.
    pub queue: u32,
    /// Round trip without queueing, in packet times of the link.
    pub round_trip: u32,
    /// Probability that a packet is lost after the queue.
    pub e: f64,
    /// Duration in packet times.
    pub packets: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// Measured values; the first of a pair is the protected transfer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ShareFound {
    /// Share of the link's time used by each.
    pub load: [f64; 2],
    /// Source packets that arrived or were recovered, relative to the capacity of the link.
    pub goodput: [f64; 2],
    /// Share of each transfer's packets that the queue dropped.
    pub dropped: [f64; 2],
    /// Mean queue length in packets.
    pub queue: f64,
    /// Share of the protected source packets lost after decoding.
    pub residual: f64,
}

/// Least window in packets.
const LEAST: f64 = 2.0;

/// A packet in transit.
#[derive(Clone, Debug)]
struct Packet {
    transfer: usize,
    number: u64,
    /// Whether it counts in the window.
    counts: bool,
    /// Block and octets of a protected packet.
    coded: Option<(u64, Bytes)>,
    arrived: bool,
}

/// A transfer that always has data to send.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    window: f64,
    outstanding: u64,
    next: u64,
    /// Losses of packets before this one have been reacted to.
    answered: u64,
    served: u64,
    dropped: u64,
    goodput: u64,
}

impl Transfer {
    const START: Transfer = Transfer {
        window: LEAST,
        outstanding: 0,
        next: 0,
        answered: 0,
        served: 0,
        dropped: 0,
        goodput: 0,
    };

    fn lost(&mut self, number: u64) {
        if number >= self.answered {
            self.window = (self.window / 2.0).max(LEAST);
            self.answered = self.next;
        }
    }
}

/// Both ends of the code of the protected transfer.
struct Coded {
    encoder: Encoder,
    decoder: Decoder,
    pushed: u64,
    parities: VecDeque<Bytes>,
    /// For each open block: packets acknowledged or lost, and sources present.
    blocks: BTreeMap<u64, (u16, u16)>,
    left: u64,
}

struct Line<'a> {
    study: &'a Share,
    chances: Stream,
    transfers: [Transfer; 2],
    coded: Option<Coded>,
    queue: VecDeque<Packet>,
    /// Feedback to the senders, by the packet time of its arrival.
    feedback: BTreeMap<u64, Vec<Packet>>,
}

impl Share {
    /// Runs both transfers.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if there is nothing to send, or the block or loss is invalid.
    pub fn run(&self) -> Result<ShareFound, StudyError> {
        if !(0.0..=0.9).contains(&self.e) {
            return Err(StudyError::Loss);
        }
        if self.packets == 0 || self.queue == 0 || self.round_trip == 0 {
            return Err(StudyError::Nothing);
        }
        let mut line = Line {
            study: self,
            chances: Stream::new(self.seed, "share"),
            transfers: [Transfer::START; 2],
            coded: (self.m > 0).then(|| self.code()).transpose()?,
            queue: VecDeque::new(),
            feedback: BTreeMap::new(),
        };
        let mut waiting = 0;
        for now in 0..u64::from(self.packets) {
            for packet in line.feedback.remove(&now).unwrap_or_default() {
                line.hear(packet);
            }
            let first = usize::from(line.chances.chance(0.5));
            line.send(now, first)?;
            line.send(now, 1 - first)?;
            waiting += line.queue.len() as u64;
            line.serve(now);
        }
        Ok(line.found(waiting))
    }

    fn code(&self) -> Result<Coded, StudyError> {
        let (encoder, decoder) = ends(Scheme::XorShift, self.n, self.m, 1)?;
        Ok(Coded {
            encoder,
            decoder,
            pushed: 0,
            parities: VecDeque::new(),
            blocks: BTreeMap::new(),
            left: 0,
        })
    }
}

impl Line<'_> {
    /// Sends what the window of a transfer allows.
    fn send(&mut self, now: u64, transfer: usize) -> Result<(), StudyError> {
        loop {
            let it = self.transfers[transfer];
            let room = (it.outstanding as f64) < it.window.floor();
            let coded = self.coded.as_mut().filter(|_| transfer == 0);
            let extra = coded.as_ref().is_some_and(|it| !it.parities.is_empty());
            // Parities outside the window leave immediately.
            let counts = !extra || self.study.window;
            if counts && !room {
                return Ok(());
            }
            let coded = coded.map(|it| it.next(self.study.n)).transpose()?;
            let packet = Packet {
                transfer,
                number: it.next,
                counts,
                coded,
                arrived: true,
            };
            self.transfers[transfer].next += 1;
            self.transfers[transfer].outstanding += u64::from(counts);
            if self.queue.len() < self.study.queue as usize {
                self.queue.push_back(packet);
                continue;
            }
            self.transfers[transfer].dropped += 1;
            // Its loss is noticed when the feedback of its neighbours arrives.
            let due = now + u64::from(self.study.queue) + u64::from(self.study.round_trip);
            self.tell(due, packet, false);
        }
    }

    fn serve(&mut self, now: u64) {
        if let Some(packet) = self.queue.pop_front() {
            self.transfers[packet.transfer].served += 1;
            let arrived = !self.chances.chance(self.study.e);
            self.tell(now + u64::from(self.study.round_trip), packet, arrived);
        }
    }

    fn tell(&mut self, due: u64, mut packet: Packet, arrived: bool) {
        packet.arrived = arrived;
        self.feedback.entry(due).or_default().push(packet);
    }

    /// Processes the feedback on a packet at its sender.
    fn hear(&mut self, packet: Packet) {
        let raw = self.study.signal || packet.coded.is_none();
        let transfer = &mut self.transfers[packet.transfer];
        if packet.counts {
            transfer.outstanding -= 1;
            if packet.arrived {
                transfer.window += 1.0 / transfer.window;
            }
        }
        if !packet.arrived && raw {
            transfer.lost(packet.number);
        }
        match (packet.coded, &mut self.coded) {
            (Some((block, octets)), Some(coded)) => {
                let (here, missing) = coded.heard(self.study, block, &octets, packet.arrived);
                transfer.goodput += here;
                if missing && !raw {
                    transfer.lost(packet.number);
                }
            }
            _ => transfer.goodput += u64::from(packet.arrived),
        }
    }

    fn found(&self, waiting: u64) -> ShareFound {
        let times = f64::from(self.study.packets);
        let each = |of: fn(&Transfer) -> f64| self.transfers.each_ref().map(of);
        let left = self.coded.as_ref().map_or(0, |it| it.left) as f64;
        ShareFound {
            load: each(|it| it.served as f64).map(|it| it / times),
            goodput: each(|it| it.goodput as f64).map(|it| it / times),
            dropped: each(|it| it.dropped as f64 / it.next.max(1) as f64),
            queue: waiting as f64 / times,
            residual: left / (left + self.transfers[0].goodput as f64).max(1.0),
        }
    }
}

impl Coded {
    /// Returns the next packet to send, with its block.
    fn next(&mut self, n: u8) -> Result<(u64, Bytes), StudyError> {
        if let Some(parity) = self.parities.pop_front() {
            return Ok(((self.pushed - 1) / u64::from(n), parity));
        }
        let payload = Bytes::copy_from_slice(&self.pushed.to_be_bytes());
        let header = self.encoder.push(Time::ZERO, payload.clone());
        let header = header.map_err(|_| StudyError::Block)?;
        let block = self.pushed / u64::from(n);
        self.pushed += 1;
        let mut parity = Vec::new();
        while self.encoder.poll_parity(&mut parity) {
            self.parities.push_back(Bytes::copy_from_slice(&parity));
        }
        Ok((block, [&header.encode()[..], &payload].concat().into()))
    }

    /// Processes the fate of a packet of a block; returns the sources now present, and whether the block has
    /// unrecoverable losses.
    fn heard(&mut self, study: &Share, block: u64, octets: &Bytes, arrived: bool) -> (u64, bool) {
        if arrived {
            self.decoder.handle(Time::ZERO, octets);
        }
        let mut here = 0;
        while let Some(event) = self.decoder.poll_event() {
            here += u16::from(matches!(event, DecoderEvent::Source { .. }));
        }
        let (seen, there) = self.blocks.entry(block).or_default();
        *seen += 1;
        *there += here;
        let missing = u16::from(study.n).saturating_sub(*there);
        if *seen < u16::from(study.n) + u16::from(study.m) {
            return (here.into(), false);
        }
        self.blocks.remove(&block);
        self.left += u64::from(missing);
        (here.into(), missing > 0)
    }
}
