use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{Stream, Time};
use serde::{Deserialize, Serialize};

use super::{StudyError, ends};
use crate::{Decoder, DecoderEvent, Encoder, Scheme};

/// A protected transfer beside an unprotected one, through one queue that drops what it has no room for (S4). Both halve
/// their windows at most once in a round trip when they hear of a loss, and open them by a packet in each other.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Source packets of a block of the protected one.
    pub n: u8,
    /// Parities of a block; 0: it is not protected either.
    pub m: u8,
    /// Parities take their part of the window (specs/packet-level-fec.md 2.7).
    pub window: bool,
    /// What is lost before decoding halves the window (2.7), not what is left after it.
    pub signal: bool,
    /// Packets that find room in the queue.
    pub queue: u32,
    /// Round trip without waiting, in packet times of the line.
    pub round_trip: u32,
    /// Chance of a packet to be lost behind the queue.
    pub e: f64,
    /// Packet times to run.
    pub packets: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// What was counted; of pairs the first is the protected transfer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ShareFound {
    /// Share of the line's time that each had.
    pub load: [f64; 2],
    /// Source packets that arrived or were recovered, over what the line can carry.
    pub goodput: [f64; 2],
    /// Share of the packets of each that the queue dropped.
    pub dropped: [f64; 2],
    /// Packets in the queue, mean over time.
    pub queue: f64,
    /// Share of the protected source packets that decoding left lost.
    pub residual: f64,
}

/// Packets of a window at least.
const LEAST: f64 = 2.0;

/// A packet under way.
#[derive(Clone, Debug)]
struct Packet {
    transfer: usize,
    number: u64,
    /// Whether the window counts it.
    counts: bool,
    /// Its block, and what is sent, of a protected one.
    coded: Option<(u64, Bytes)>,
    arrived: bool,
}

/// A transfer that always has something to send.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    window: f64,
    outstanding: u64,
    next: u64,
    /// Losses of packets before this one have been answered.
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

/// The code of the protected transfer, at both of its ends.
struct Coded {
    encoder: Encoder,
    decoder: Decoder,
    pushed: u64,
    parities: VecDeque<Bytes>,
    /// Of each open block: packets that were heard of, and sources that are there.
    blocks: BTreeMap<u64, (u16, u16)>,
    left: u64,
}

struct Line<'a> {
    study: &'a Share,
    chances: Stream,
    transfers: [Transfer; 2],
    coded: Option<Coded>,
    queue: VecDeque<Packet>,
    /// What senders hear, by the packet time in which they do.
    told: BTreeMap<u64, Vec<Packet>>,
}

impl Share {
    /// Runs both.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if there is nothing to send, or no such block or loss.
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
            told: BTreeMap::new(),
        };
        let mut waiting = 0;
        for now in 0..u64::from(self.packets) {
            for packet in line.told.remove(&now).unwrap_or_default() {
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
            // Parities outside of the window leave at once.
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
            // It is missed when those around it are heard of.
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
        self.told.entry(due).or_default().push(packet);
    }

    /// A sender hears what became of a packet.
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
    /// The next packet to be sent, with its block.
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

    /// What became of a packet of a block: sources that are there now, and whether some of the block never will be.
    fn heard(&mut self, study: &Share, block: u64, octets: &Bytes, arrived: bool) -> (u64, bool) {
        if arrived {
            self.decoder.handle(Time::ZERO, octets);
        }
        let mut here = 0;
        while let Some(event) = self.decoder.poll_event() {
            here += u16::from(matches!(event, DecoderEvent::Source { .. }));
        }
        let (told, there) = self.blocks.entry(block).or_default();
        *told += 1;
        *there += here;
        let missing = u16::from(study.n).saturating_sub(*there);
        if *told < u16::from(study.n) + u16::from(study.m) {
            return (here.into(), false);
        }
        self.blocks.remove(&block);
        self.left += u64::from(missing);
        (here.into(), missing > 0)
    }
}
