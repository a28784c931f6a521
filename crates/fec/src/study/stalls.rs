use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::Time;
use serde::{Deserialize, Serialize};

use super::{Losses, StudyError, ends};
use crate::{Arrival, Decoder, DecoderEvent, Encoder, Scheme};

/// A transport with a constant window above a code, which stalls for a window whenever it waits for its timer
/// (specs/packet-level-fec.md 2.6): at every loss that remains after decoding, or only if the repair is lost as well.
///
/// Blocks are really encoded and decoded; repairs pass the code like all packets.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// The code.
    pub scheme: Scheme,
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block.
    pub m: u8,
    /// Loss rate.
    pub e: f64,
    /// Packet times until a loss is noticed, and duration of a stall.
    pub window: u32,
    /// Selective acknowledgements: the first repair needs no timer.
    pub sack: bool,
    /// Packets to send.
    pub packets: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// Measured values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StallsFound {
    /// Packets per packet time.
    pub efficiency: f64,
    /// Stalls per packet.
    pub stalls: f64,
}

/// The path with the code, and the receiver at its end.
struct Path {
    encoder: Encoder,
    decoder: Decoder,
    losses: Losses,
    /// Packets that arrived or were recovered.
    here: Vec<bool>,
    /// Elapsed packet times.
    slot: u64,
}

impl Path {
    fn send(&mut self, number: u32) -> Result<(), StudyError> {
        let payload = Bytes::copy_from_slice(&number.to_be_bytes());
        let header = self
            .encoder
            .push(Time::ZERO, payload.clone())
            .map_err(|_| StudyError::Block)?;
        self.pass([&header.encode()[..], &payload].concat().into());
        self.parities();
        Ok(())
    }

    /// Closes the open blocks: no packet follows for a while.
    fn flush(&mut self) {
        self.encoder.close();
        self.parities();
    }

    fn parities(&mut self) {
        let mut packet = Vec::new();
        while self.encoder.poll_parity(&mut packet) {
            self.pass(Bytes::copy_from_slice(&packet));
        }
        while let Some(event) = self.decoder.poll_event() {
            if let DecoderEvent::Source { payload, how, .. } = event
                && let Some(number) = payload.first_chunk()
            {
                self.here[u32::from_be_bytes(*number) as usize] |= how != Arrival::Late;
            }
        }
    }

    fn pass(&mut self, packet: Bytes) {
        self.slot += 1;
        if self.losses.count(1) == 0 {
            self.decoder.handle(Time::ZERO, &packet);
        }
    }
}

impl Stalls {
    /// Sends all packets.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if there is nothing to send, or the block or loss is invalid.
    pub fn run(&self) -> Result<StallsFound, StudyError> {
        if !(0.0..=0.9).contains(&self.e) {
            return Err(StudyError::Loss);
        }
        if self.packets == 0 || self.window == 0 {
            return Err(StudyError::Nothing);
        }
        let (encoder, decoder) = ends(self.scheme, self.n, self.m, 1)?;
        let mut path = Path {
            encoder,
            decoder,
            losses: Losses::new(self.seed, "stalls/loss", self.e),
            here: vec![false; self.packets as usize],
            slot: 0,
        };
        let window = u64::from(self.window);
        let free = 1 + u32::from(self.sack);
        let (mut new, mut stalls) = (0..self.packets, 0_u64);
        // When the fate of a packet is known, and how often it was sent.
        let mut flying: VecDeque<(u64, u32, u32)> = VecDeque::new();
        let mut again: VecDeque<(u32, u32)> = VecDeque::new();
        loop {
            if noticed(&mut flying, &mut again, &path, free) {
                path.flush();
                path.slot += window;
                stalls += 1;
                // All losses noticed during the stall are repaired with it.
                noticed(&mut flying, &mut again, &path, u32::MAX);
            }
            let next = again
                .pop_front()
                .or_else(|| new.next().map(|number| (number, 1)));
            match (next, flying.front()) {
                (Some((number, times)), _) => {
                    path.send(number)?;
                    flying.push_back((path.slot + window, number, times));
                }
                (None, Some(&(at, ..))) => {
                    path.flush();
                    path.slot = path.slot.max(at);
                }
                (None, None) => break,
            }
        }
        let packets = f64::from(self.packets);
        Ok(StallsFound {
            efficiency: packets / path.slot as f64,
            stalls: stalls as f64 / packets,
        })
    }
}

/// Sends overdue packets again; returns whether one of them was already sent `free` times.
fn noticed(
    flying: &mut VecDeque<(u64, u32, u32)>,
    again: &mut VecDeque<(u32, u32)>,
    path: &Path,
    free: u32,
) -> bool {
    let mut stall = false;
    while let Some(&(at, number, times)) = flying.front()
        && at <= path.slot
    {
        flying.pop_front();
        if !path.here[number as usize] {
            stall |= times >= free;
            again.push_back((number, times + 1));
        }
    }
    stall
}
