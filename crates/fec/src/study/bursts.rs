use bytes::Bytes;
use layercast_core::{Stream, Time};
use serde::{Deserialize, Serialize};

use super::{StudyError, ends, payloads};
use crate::{Arrival, DecoderEvent, Header, Scheme};

/// A protected stream over a path with bursts of losses (S3): Gilbert's channel, which loses every packet while in
/// its bad state.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// The code.
    pub scheme: Scheme,
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block.
    pub m: u8,
    /// Number of interleaved blocks.
    pub interleave: u8,
    /// Loss rate.
    pub e: f64,
    /// Mean length of a burst in packets, at least 1; `None` for independent losses.
    pub burst: Option<f64>,
    /// Source packets to send.
    pub packets: u32,
    /// Seed of the run.
    pub seed: u64,
}

/// Measured values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BurstsFound {
    /// Share of packets lost on the path.
    pub raw: f64,
    /// Share of source packets lost after decoding.
    pub residual: f64,
    /// Mean number of source packets lost in a row after decoding.
    pub run: f64,
}

impl Bursts {
    /// Sends the stream through encoder, channel and decoder.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if there is nothing to send, or the block or channel is invalid.
    pub fn run(&self) -> Result<BurstsFound, StudyError> {
        let (mut encoder, mut decoder) = ends(self.scheme, self.n, self.m, self.interleave)?;
        let mut channel = Channel::new(self)?;
        let mut content = Stream::new(self.seed, "bursts/content");
        let mut here = vec![false; self.packets as usize];
        let (mut sent, mut arrived) = (0_u64, 0_u64);
        let mut packet = Vec::new();
        let sources = payloads(1, &mut content);
        for number in 0..=self.packets {
            let mut pass = |packet: &[u8]| {
                sent += 1;
                if channel.passes() {
                    arrived += 1;
                    decoder.handle(Time::ZERO, &Bytes::copy_from_slice(packet));
                }
            };
            if number < self.packets {
                let mut payload = number.to_be_bytes().to_vec();
                payload.extend_from_slice(&sources[0]);
                let payload = Bytes::from(payload);
                let header: Header = encoder
                    .push(Time::ZERO, payload.clone())
                    .map_err(|_| StudyError::Block)?;
                pass(&[&header.encode()[..], &payload].concat());
            } else {
                encoder.close();
            }
            while encoder.poll_parity(&mut packet) {
                pass(&packet);
            }
            while let Some(event) = decoder.poll_event() {
                if let DecoderEvent::Source { payload, how, .. } = event {
                    let number = payload
                        .first_chunk()
                        .map_or(0, |it| u32::from_be_bytes(*it));
                    here[number as usize] |= how != Arrival::Late;
                }
            }
        }
        let lost = here.iter().filter(|it| !**it).count();
        let runs = here.chunk_by(|a, b| a == b).filter(|it| !it[0]).count();
        Ok(BurstsFound {
            raw: 1.0 - arrived as f64 / sent as f64,
            residual: lost as f64 / f64::from(self.packets),
            run: lost as f64 / runs.max(1) as f64,
        })
    }
}

/// Gilbert's channel.
struct Channel {
    stream: Stream,
    bad: bool,
    /// The probabilities to enter the bad state and to stay in it.
    to_bad: f64,
    stays_bad: f64,
}

impl Channel {
    fn new(study: &Bursts) -> Result<Channel, StudyError> {
        let e = study.e;
        if study.packets == 0 {
            return Err(StudyError::Nothing);
        }
        // Bursts that short cannot reach the loss rate.
        let burst = study.burst.unwrap_or(1.0 / (1.0 - e));
        let to_bad = e / (burst * (1.0 - e));
        if !(0.0..=0.9).contains(&e) || !(1.0..=1e6).contains(&burst) || to_bad > 1.0 {
            return Err(StudyError::Loss);
        }
        let stream = Stream::new(study.seed, "bursts/loss");
        Ok(Channel {
            stream,
            bad: false,
            to_bad,
            stays_bad: 1.0 - 1.0 / burst,
        })
    }

    fn passes(&mut self) -> bool {
        let chance = if self.bad {
            self.stays_bad
        } else {
            self.to_bad
        };
        self.bad = self.stream.chance(chance);
        !self.bad
    }
}
