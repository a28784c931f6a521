//! Simulations of real blocks with losses, to compare with the models: cost of multicast to a star, bursts,
//! resequencing, stalls of a transport above a code, reaction of the controller, and a protected transfer that shares
//! a link. Seeded: a study gives the same numbers on every machine.

mod bursts;
mod order;
mod share;
mod stalls;
mod star;
mod steps;

pub use bursts::{Bursts, BurstsFound};
pub use order::{Order, OrderFound};
pub use share::{Share, ShareFound};
pub use stalls::{Stalls, StallsFound};
pub use star::{Repair, Star, StarFound};
pub use steps::{Phase, Step, Steps};

use bytes::Bytes;
use layercast_core::{Span, Stream};
use thiserror::Error;

use crate::{Decoder, DecoderConfig, Encoder, EncoderConfig, Scheme};

/// Reason why a study cannot run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum StudyError {
    /// The loss rate is out of range.
    #[error("a loss rate in [0, 0.9] is needed")]
    Loss,
    /// The block is invalid.
    #[error("blocks have at least one source packet and at most 255 packets")]
    Block,
    /// No packet or no receiver.
    #[error("at least one packet and one receiver are needed")]
    Nothing,
}

/// Octets of the payloads, which are compared after decoding.
const PAYLOAD: usize = 8;

fn payloads(n: usize, stream: &mut Stream) -> Vec<Bytes> {
    let mut payload = || (0..PAYLOAD).map(|_| stream.below(256) as u8).collect();
    (0..n).map(|_| payload()).collect()
}

/// An encoder and a decoder for a path that only loses packets.
fn ends(scheme: Scheme, n: u8, m: u8, interleave: u8) -> Result<(Encoder, Decoder), StudyError> {
    let encoder = Encoder::new(EncoderConfig {
        scheme,
        n,
        m,
        mtu: 1_500,
        flush: Span::MAX,
        interleave,
        keep: 0,
    });
    let decoder = Decoder::new(DecoderConfig {
        blocks: 600,
        ..DecoderConfig::default()
    });
    Ok((encoder.map_err(|_| StudyError::Block)?, decoder))
}

/// Independent losses, drawn as the distance to the next loss.
struct Losses {
    stream: Stream,
    /// 1 / ln of the probability to arrive; `None` without loss.
    scale: Option<f64>,
}

impl Losses {
    fn new(seed: u64, name: &str, e: f64) -> Losses {
        Losses {
            stream: Stream::new(seed, name),
            scale: (e > 0.0).then(|| 1.0 / libm::log1p(-e)),
        }
    }

    /// Calls `lost` for each lost packet of `count`, in ascending order.
    fn each(&mut self, count: u64, mut lost: impl FnMut(u64)) {
        let Some(scale) = self.scale else {
            return;
        };
        let mut at = 0_u64;
        loop {
            let skipped = libm::log(1.0 - self.stream.unit()) * scale;
            at = at.saturating_add(skipped as u64);
            if at >= count {
                return;
            }
            lost(at);
            at += 1;
        }
    }

    /// The number of lost packets among `of`.
    fn count(&mut self, of: u64) -> u64 {
        let mut lost = 0;
        self.each(of, |_| lost += 1);
        lost
    }
}
