use std::fmt;
use std::str::FromStr;

use layercast_core::{CellRate, FlowSpec, LayerRate, Level, Span};
use layercast_fec::{ConfigError, EncoderConfig, Scheme, Steering};
use layercast_wire::{Carriage, METS_HEADER, ParityTable, Run};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Runs that every parity has room for; a block of more frames ends early.
pub(super) const RUNS: usize = 8;
/// How long a block waits for more packets at most, and without a delay bound: the round trip of the
/// specification is not known to a source of a group.
const FLUSH: Span = Span::from_ms(100);
const FLUSH_UNBOUNDED: Span = Span::from_ms(50);

/// How the base layer of a flow is protected against loss (specs/packet-level-fec.md 2.2): `6+2`, `auto`, or
/// with another code than XOR and shift `reed-solomon:20+4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ParityConfig {
    /// The code.
    pub scheme: Scheme,
    /// How much.
    pub redundancy: Redundancy,
}

/// How many parities there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// To every `n` packets `m` parities.
    Fixed {
        /// Source packets of a block.
        n: u8,
        /// Parities of a block.
        m: u8,
    },
    /// As few as leave one base-layer frame in a thousand lost, by what the receivers report
    /// (specs/packet-level-fec.md 2.7); one parity for each block at least, for without any no loss is seen.
    Auto,
}

/// Text that names no protection.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{0:?} is not auto or N+M, such as 6+2 or reed-solomon:20+4, of at least one parity and at most 255 packets"
)]
pub struct ParityConfigError(String);

impl ParityConfig {
    /// Most source packets and parities of a block.
    pub(super) fn most(&self) -> (u8, u8) {
        match self.redundancy {
            Redundancy::Fixed { n, m } => (n, m),
            Redundancy::Auto => (Steering::BLOCK - 1, Steering::PARITIES),
        }
    }

    /// What blocks are like before anything is known of receivers: nothing takes more later.
    pub(super) fn first(&self) -> (u8, u8) {
        match self.redundancy {
            Redundancy::Fixed { n, m } => (n, m),
            Redundancy::Auto => Steering::FIRST,
        }
    }

    /// The encoder of blocks of `n` and `m` packets whose parities fit into `payload` bytes.
    pub(super) fn encoder(&self, (n, m): (u8, u8), payload: usize, flush: Span) -> EncoderConfig {
        let table = ParityTable::PREFIX + Run::SIZE * RUNS.min(usize::from(n));
        EncoderConfig {
            scheme: self.scheme,
            n,
            m,
            mtu: payload.saturating_sub(table),
            flush,
            interleave: 1,
            keep: 0,
        }
    }

    /// Most bytes of a source packet after its header, where parities may have `payload`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if parities have no room.
    pub(in crate::source) fn pitch(&self, payload: usize) -> Result<usize, ConfigError> {
        let code = self.scheme.code();
        let room = |shape| {
            let config = self.encoder(shape, payload, Span::ZERO);
            let most = config.most_payload(&*code)?;
            let none = ConfigError::Mtu {
                mtu: payload,
                needed: payload - most + METS_HEADER + 1,
            };
            most.checked_sub(METS_HEADER)
                .filter(|it| *it > 0)
                .ok_or(none)
        };
        match self.redundancy {
            Redundancy::Fixed { n, m } => room((n, m)),
            Redundancy::Auto => {
                let shapes = (1..=Steering::PARITIES).map(|m| (Steering::BLOCK - m, m));
                let rooms = shapes.map(room).collect::<Result<Vec<_>, _>>()?;
                Ok(rooms.into_iter().min().unwrap_or_default())
            }
        }
    }

    /// The flow with its parities counted into the base layer, so that every node reserves them.
    ///
    /// `payload` is the most that a packet holds, as in [`pitch`](ParityConfig::pitch).
    pub(in crate::source) fn reserved(
        &self,
        spec: &FlowSpec,
        carriage: Carriage,
        payload: usize,
    ) -> FlowSpec {
        let mut spec = spec.clone();
        let base = spec.layers.base;
        let Some(pitch) = self.pitch(payload).ok().filter(|_| base.mean.0 > 0) else {
            return spec;
        };
        let (n, m) = self.first();
        let (n, m) = (f64::from(n), f64::from(m));
        let frames = base_frames(&spec);
        // Blocks that end with their frame, and those that wait for others.
        let ends = match ends_blocks(&spec) {
            true => 1.0,
            false => 1.0 / frames_together(&spec),
        };
        let more = payload as f64 / pitch as f64;
        let with_parities = |cells: f64| {
            let packets = (cells * 48.0 / pitch as f64).ceil();
            // Of n packets that blocks could hold, n - 1 may be wanting in the last of them.
            let blocks = packets / n + ends * (n - 1.0) / n;
            let parity = parity_len(payload, pitch, (cells * 48.0) as usize);
            cells * more + m * blocks * f64::from(carriage.cost(parity))
        };
        let up = |cells: f64| cells.ceil().min(f64::from(u32::MAX)) as u32;
        let mean = with_parities(f64::from(base.mean.0) / frames) * frames;
        let factor = mean / f64::from(base.mean.0);
        spec.layers.base = LayerRate {
            mean: CellRate(up(mean)),
            peak: CellRate(up(f64::from(base.peak.0) * factor)),
            burst: match base.burst {
                0 => 0,
                burst => up(with_parities(f64::from(burst))),
            },
            ..base
        };
        spec
    }
}

/// Longest payload of a parity of packets of at most `pitch` bytes after their header, from frames of `frame` bytes, where
/// parities may have `payload`.
pub(super) fn parity_len(payload: usize, pitch: usize, frame: usize) -> usize {
    payload - pitch.saturating_sub(frame.max(1))
}

/// How long a block waits for more packets: no parity may come too late to be of use.
pub(super) fn flush(spec: &FlowSpec) -> Span {
    match spec.delay_max_ms {
        0 => FLUSH_UNBOUNDED,
        bound => Span::from_us(u64::from(bound) * 500).min(FLUSH),
    }
}

/// From one base-layer frame to the next.
fn period(spec: &FlowSpec) -> Span {
    match spec.top_level() {
        Level::BASE => spec.frame_rate.due(1),
        _ => spec.frame_rate.due(u64::from(spec.gop_n)),
    }
}

/// Base-layer frames per second.
pub(super) fn base_frames(spec: &FlowSpec) -> f64 {
    1.0 / period(spec).as_secs_f64()
}

/// Base-layer frames that come while a block may wait, at least one.
pub(super) fn frames_together(spec: &FlowSpec) -> f64 {
    (base_frames(spec) * flush(spec).as_secs_f64()).max(1.0)
}

/// Whether a block ends with its frame, as no other comes while it may wait.
pub(super) fn ends_blocks(spec: &FlowSpec) -> bool {
    period(spec) > flush(spec)
}

impl FromStr for ParityConfig {
    type Err = ParityConfigError;

    fn from_str(text: &str) -> Result<ParityConfig, ParityConfigError> {
        let wrong = || ParityConfigError(text.into());
        let (scheme, rest) = match text.split_once(':') {
            None => (Scheme::XorShift, text),
            Some((name, rest)) => {
                let named = |it: &Scheme| it.name() == name;
                let scheme = Scheme::ALL.into_iter().find(named);
                (scheme.ok_or_else(wrong)?, rest)
            }
        };
        let redundancy = match rest.split_once('+') {
            None if rest == "auto" => Redundancy::Auto,
            None => return Err(wrong()),
            Some((n, m)) => {
                let (n, m): (u8, u8) = n.parse().ok().zip(m.parse().ok()).ok_or_else(wrong)?;
                if n == 0 || m == 0 || n.checked_add(m).is_none() {
                    return Err(wrong());
                }
                Redundancy::Fixed { n, m }
            }
        };
        Ok(ParityConfig { scheme, redundancy })
    }
}

impl fmt::Display for ParityConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme != Scheme::XorShift {
            write!(f, "{}:", self.scheme.name())?;
        }
        match self.redundancy {
            Redundancy::Fixed { n, m } => write!(f, "{n}+{m}"),
            Redundancy::Auto => f.write_str("auto"),
        }
    }
}

impl TryFrom<String> for ParityConfig {
    type Error = ParityConfigError;
    fn try_from(text: String) -> Result<ParityConfig, ParityConfigError> {
        text.parse()
    }
}

impl From<ParityConfig> for String {
    fn from(config: ParityConfig) -> String {
        config.to_string()
    }
}
