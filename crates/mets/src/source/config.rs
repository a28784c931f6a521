use layercast_core::{AdaptMode, CellRate, FilterKind, FlowSpec, NodeId, Span, SpecError, Time};
use layercast_fec::ConfigError;
use layercast_protect::{Seed, WallClock};
use layercast_qos::{BucketError, HostCost, PEAK_FACTOR};
use layercast_wire::{Carriage, DATAGRAM_PAYLOAD, FlowInfo, MAX_CELL_PAYLOAD, Mark};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::pacing::{Pacer, paced};
use super::parity::ParityConfig;
use crate::sink::Opener;

/// How fast packets leave the source (specs/mets.md 2.5).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shaping {
    /// A token bucket at a multiple of the mean rate of the layers that are sent.
    ///
    /// R = `peak_factor` times the sum of the means, at most what the largest frame needs to leave within one
    /// frame period (or the sum of the peaks, if that is more), and never below the sum of the means: the peak
    /// of a layer is an average over a GOP, and a shaper held to it would spread an I picture over the whole
    /// GOP.
    Rate {
        /// At least 1.
        peak_factor: f64,
    },
    /// A fixed token bucket: `b` cells each `p` ticks of 1 ms.
    Bucket {
        /// Cells per refresh.
        b: u32,
        /// Ticks between refreshes.
        p: u32,
    },
    /// Frame after frame, by deadline, at the rate at which the receiving host takes in cells: all
    /// flows of the sending host through one [`HostPacer`](super::HostPacer) (specs/mets.md 8). While no
    /// receiver says in RES what it takes in, as [`Rate`](Shaping::Rate).
    Serial {
        /// Of the token bucket until then; at least 1.
        peak_factor: f64,
    },
    /// None: packets leave as frames are released.
    Off,
}

/// What a [`Source`](super::Source) sends and how.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceConfig {
    /// Name of its node.
    pub node: String,
    /// Number of its node, `origin` of its ADAPT messages.
    pub id: NodeId,
    /// The flow it advertises.
    pub flow: FlowInfo,
    /// What it hands to the switch of its node.
    pub carriage: Carriage,
    /// Its circuit towards the switch of its node, if it sends cells: unique among the sources of a
    /// node.
    pub vci: u16,
    /// Most media bytes in a packet.
    pub mtu_payload: u32,
    /// How fast packets leave.
    pub shaping: Shaping,
    /// Granularity of the clock that releases frames; zero is exact.
    pub clock_tick: Span,
    /// When that clock ticks first after time zero, less than a tick.
    pub clock_phase: Span,
    /// Period of ADAPT refreshes; three of them without RES mean that there is no receiver.
    pub era: Span,
    /// Shortest time between two ADAPT.
    pub res_interval: Span,
    /// When the first frame is due, if it was submitted by then.
    pub start: Time,
    /// Most cells per second, base layer included, that this host can send of the flow.
    pub local_limit: Option<CellRate>,
    /// What sending costs this host; `None`: nothing that limits it (specs/mets.md 2.10, 2.11).
    pub cost: Option<HostCost>,
    /// Seed of its random streams.
    pub seed: u64,
    /// Which cell of an AAL5 frame is marked.
    pub aal5_mark: Mark,
    /// Most members it keeps figures of.
    pub max_members: u32,
    /// Whether a join is refused that the source alone would bring late (specs/mets.md 2.10).
    pub admission: bool,
    /// Whether the media socket is registered from the start; if not, frames and requests are
    /// refused until [`Source::register`](super::Source::register).
    pub registered: bool,
    /// Seals its media and hands the key to its members; `None`: media in the clear.
    pub protection: Option<SourceProtection>,
    /// Parities for the base layer, on top of what `flow` needs; `None`: none.
    pub parities: Option<ParityConfig>,
    /// Whether all layers go to the switch of the node, whatever the receivers request: it keeps the whole running GOP for
    /// receivers that join (fast start), and withholds from each branch what is not granted. It has no effect on sealed
    /// media, in continuous mode and in cells, which have no fast start.
    pub all_layers: bool,
}

/// How the media of a source are protected from end to end.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceProtection {
    /// Secret of its Ed25519 identity.
    pub identity: Seed,
    /// Where its keys come from; used for one source once.
    pub random: Seed,
    /// Whether members need a token of the source.
    pub tokens: bool,
    /// For tokens that expire.
    pub clock: WallClock,
    /// When it starts, in seconds since 1970: epochs are counted from here, so that a life of the source
    /// does not repeat the numbers of the one before.
    pub born: u64,
}

/// A source that cannot work as configured.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum SourceError {
    /// The flow specification contradicts itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A token bucket that never sends.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// A field that cannot be meant.
    #[error("source: {field} {problem}")]
    Field {
        /// The offending field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl SourceError {
    /// Parities that do not fit into packets.
    pub(super) fn parities(error: ConfigError) -> SourceError {
        SourceError::Field {
            field: "parities",
            problem: format!("do not fit: {error}"),
        }
    }
}

impl SourceConfig {
    /// Least `mtu_payload` of sealed media.
    pub const LEAST_SEALED: u32 = 64;
    /// The first circuit given to sources.
    pub const FIRST_VCI: u16 = 64;

    /// A source of `flow` on `node` with every other setting at its default.
    pub fn new(node: &str, id: NodeId, flow: FlowInfo, carriage: Carriage) -> SourceConfig {
        SourceConfig {
            node: node.into(),
            id,
            carriage,
            vci: SourceConfig::FIRST_VCI,
            mtu_payload: match carriage {
                Carriage::Cells => MAX_CELL_PAYLOAD as u32,
                Carriage::Datagrams => DATAGRAM_PAYLOAD as u32,
            },
            shaping: Shaping::default(),
            clock_tick: Span::ZERO,
            clock_phase: Span::ZERO,
            era: Span::from_secs(1),
            res_interval: Span::from_ms(250),
            start: Time::ZERO,
            local_limit: None,
            cost: None,
            seed: 0,
            aal5_mark: flow.aal5_mark,
            max_members: 4_096,
            admission: true,
            registered: true,
            protection: None,
            parities: None,
            all_layers: false,
            flow,
        }
    }

    /// The fastest that its token bucket lets cells through, if it has one of its own (specs/mets.md 2.5).
    pub fn bucket_rate(&self) -> Option<CellRate> {
        match self.shaping {
            Shaping::Bucket { b, p } => Some(CellRate(b.saturating_mul(1_000) / p.max(1))),
            Shaping::Rate { .. } => {
                let flow = FlowInfo {
                    spec: self.advertised_spec(),
                    ..self.flow.clone()
                };
                let spec = &paced(&flow);
                let pacer = Pacer::new(self.start, spec, spec.flow_id, self.shaping, 1).ok()?;
                Some(pacer.rate_at(spec.top_level()))
            }
            Shaping::Serial { .. } | Shaping::Off => None,
        }
    }

    /// What the flow needs as it is advertised: with its parities in the base layer.
    pub fn advertised_spec(&self) -> FlowSpec {
        let (spec, payload) = (&self.flow.spec, self.mtu_payload as usize);
        match &self.parities {
            Some(parities) => parities.reserved(spec, self.carriage, payload),
            None => spec.clone(),
        }
    }

    /// Whether parities find room in its packets, and what is left is enough.
    fn validate_parities(&self, config: &ParityConfig) -> Result<(), SourceError> {
        let fail = |problem: String| {
            let field = "parities";
            Err(SourceError::Field { field, problem })
        };
        if self.carriage == Carriage::Cells && self.aal5_mark == Mark::First {
            return fail("need the last cell of a packet marked, not the first".into());
        }
        let least = match self.protection {
            Some(_) => SourceConfig::LEAST_SEALED as usize,
            None => 1,
        };
        let pitch = config.pitch(self.mtu_payload as usize);
        match pitch.map_err(SourceError::parities)? {
            pitch if pitch >= least => Ok(()),
            pitch => fail(format!("leave {pitch} bytes in a packet, below {least}")),
        }
    }

    pub(super) fn validate(&self) -> Result<(), SourceError> {
        self.flow.spec.validate()?;
        let fail = |field, problem: String| Err(SourceError::Field { field, problem });
        if self.mtu_payload == 0 {
            return fail("mtu_payload", "must not be zero".into());
        }
        if self.protection.is_some() {
            if self.mtu_payload < SourceConfig::LEAST_SEALED {
                let (mtu, least) = (self.mtu_payload, SourceConfig::LEAST_SEALED);
                return fail(
                    "mtu_payload",
                    format!("{mtu} is below {least}, with sealed media"),
                );
            }
            let frame = self.flow.spec.max_frame;
            if Opener::sealed_frame(frame) >= 1 << 24 {
                return fail(
                    "max_frame",
                    format!("{frame} is too large for sealed media"),
                );
            }
        }
        if self.carriage == Carriage::Cells {
            if self.mtu_payload as usize > MAX_CELL_PAYLOAD {
                return fail(
                    "mtu_payload",
                    format!("{} is above {MAX_CELL_PAYLOAD}", self.mtu_payload),
                );
            }
            if self.aal5_mark == Mark::First && (self.mtu_payload as usize) < MAX_CELL_PAYLOAD {
                return fail(
                    "mtu_payload",
                    format!("must be {MAX_CELL_PAYLOAD} where the first cell is marked"),
                );
            }
        }
        if let Some(parities) = &self.parities {
            self.validate_parities(parities)?;
        }
        let policy = &self.flow.policy;
        let mut filters = policy.filters.iter();
        let shapes = policy.adapt == AdaptMode::Continuous
            || filters.any(|filter| *filter != FilterKind::Jitter);
        if !self.flow.spec.composition.is_additive() && shapes {
            return fail(
                "policy",
                "has continuous adaptation or filters of the network: of alternative layers only whole ones are left out"
                    .into(),
            );
        }
        if self.era == Span::ZERO || self.res_interval == Span::ZERO {
            return fail("era", "and res_interval must not be zero".into());
        }
        if let Shaping::Rate { peak_factor } | Shaping::Serial { peak_factor } = self.shaping {
            if !peak_factor.is_finite() || peak_factor < 1.0 {
                return fail("shaping", format!("peak_factor {peak_factor} is below 1"));
            }
            if self.flow.spec.layers.base.mean.0 == 0 {
                return fail(
                    "shaping",
                    "by rate needs the mean rates of the layers".into(),
                );
            }
        }
        Ok(())
    }
}

impl Shaping {
    /// Frame-serial pacing, with the default token bucket while the receivers' rate is not known.
    pub const SERIAL: Shaping = Shaping::Serial {
        peak_factor: PEAK_FACTOR,
    };
}

impl Default for Shaping {
    fn default() -> Shaping {
        Shaping::Rate {
            peak_factor: PEAK_FACTOR,
        }
    }
}
