use layercast_core::{
    Alarm, AlarmOp, CellRate, Contract, FilterKind, FlowSpec, Level, MaintMode, Metric, NodeId,
    QosPolicy, Refusal, Resource, Span,
};
use layercast_protect::{Seed, SourceKey, Token, WallClock};
use layercast_qos::{JitterConfig, Margin, ProbeMode};
use layercast_wire::{Carriage, FlowInfo, Mark};
use serde::{Deserialize, Serialize};

use crate::identity::source_of;

/// How far behind the source a [`Sink`](super::Sink) plays (specs/mets.md 2.8).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlayoutConfig {
    /// Fixed playout delay; overrides the `delay_max` of the flow.
    pub delay: Option<Span>,
    /// Most that an estimated playout delay may be.
    pub longest: Option<Span>,
    /// Gain of the mean delay.
    pub a: f64,
    /// Gain of the mean deviation.
    pub beta: f64,
    /// Fixed margin in mean deviations; the paper's is 2. Without it the margin follows
    /// `target_late_permille`.
    pub r: Option<f64>,
    /// Share of frames that may come late.
    pub target_late_permille: u16,
    /// Clean GOPs after which the playout point is pulled in (K).
    pub hold_gops: u32,
    /// Whether the share of late frames is aimed at by the delays of the last frames themselves, and not by
    /// their mean and deviation; not with `r`.
    pub quantile: bool,
    /// Whether frames held up by a stall of the path leave the playout delay alone.
    pub spares_stalls: bool,
    /// Whether the playout delay is the smallest that frames keep to but for `target_late_permille` of them
    /// ([`Margin::Smallest`]); the `delay_max` of the flow is then the most it may be.
    #[serde(skip)]
    pub smallest: bool,
}

/// What a [`Sink`](super::Sink) wants and how it plays.
#[derive(Clone, PartialEq, Debug)]
pub struct SinkConfig {
    /// Its name: node, and member of the flow.
    pub node: String,
    /// Its number, `origin` of its RES messages.
    pub id: NodeId,
    /// Name of the flow it wants.
    pub flow: String,
    /// Highest level it wants.
    pub level: Level,
    /// What to do when the level cannot be had.
    pub policy: QosPolicy,
    /// Most cells per second, base layer included, that this host can take of the flow.
    pub local_limit: Option<CellRate>,
    /// What this host takes in without loss, all its flows together, as RES advertises it for
    /// [`Shaping::Serial`](crate::Shaping::Serial); 0 is not known (specs/mets.md 8).
    pub drain: CellRate,
    /// Cycle of RES.
    pub era: Span,
    /// RES interval of the switches; bounds how soon an answer can be there.
    pub res_interval: Span,
    /// Seed of its random streams.
    pub seed: u64,
    /// Whether the first RES follows the answer to the join immediately, so that the first GOP comes at the level that
    /// there is room for; otherwise it comes at a random phase of the era.
    pub asks_at_once: bool,
    /// How it asks again after congestion.
    pub probe: ProbeMode,
    /// How far behind the source it plays.
    pub playout: PlayoutConfig,
    /// What its link carries.
    pub carriage: Carriage,
    /// Which cell of an AAL5 frame is marked.
    pub aal5_mark: Mark,
    /// What it wants of the flow, if not all that is offered: layers without a rate are not wanted,
    /// the bounds of delay, jitter and loss are its own (`joinGroup`, specs/mets.md 2.2).
    pub spec: Option<FlowSpec>,
    /// What its user wants of the network, as a profile says it: the answer to what the flow offers (specs/user-to-user-qos.md 2.4).
    pub wishes: Option<Contract>,
    /// Whether the media socket is registered from the start; if not, requests are refused and
    /// upcalls held back until [`Sink::register`](super::Sink::register).
    pub registered: bool,
    /// Whether frames that lost cells in their middle are filled with zeros and played, marked as
    /// damaged, rather than lost (specs/mets.md 2.6).
    pub repair: bool,
    /// Whether source and sink share a clock. If not, delays are relative to the first frame's.
    pub synchronised: bool,
    /// Whether frames are played by the clock of the source as soon as it is known: at the same time at all receivers with the same
    /// playout delay, which has to be a fixed one.
    pub follows_clock: bool,
    /// For flows whose media are sealed; without it, none of them can be played.
    pub protection: Option<SinkProtection>,
}

/// What a [`Sink`](super::Sink) needs for flows whose media are sealed.
#[derive(Clone, PartialEq, Debug)]
pub struct SinkProtection {
    /// The required source; `None`: the first one that signs the flow.
    pub source: Option<SourceKey>,
    /// The token it was given.
    pub token: Option<Token>,
    /// Secret of its key exchange; used for one sink once.
    pub random: Seed,
    /// For the date of its proofs.
    pub clock: WallClock,
}

impl Default for PlayoutConfig {
    fn default() -> PlayoutConfig {
        PlayoutConfig {
            delay: None,
            longest: None,
            a: 1.0 / 8.0,
            beta: 1.0 / 16.0,
            r: None,
            target_late_permille: 10,
            hold_gops: 8,
            quantile: false,
            spares_stalls: false,
            smallest: false,
        }
    }
}

impl PlayoutConfig {
    /// The paper's filter: r = 2.
    pub fn paper() -> PlayoutConfig {
        PlayoutConfig {
            r: Some(2.0),
            ..PlayoutConfig::default()
        }
    }

    /// For live media: the smallest delay that loses less than one frame in a thousand.
    pub fn live() -> PlayoutConfig {
        PlayoutConfig {
            target_late_permille: 1,
            smallest: true,
            ..PlayoutConfig::default()
        }
    }

    pub(super) fn for_flow(&self, spec: &FlowSpec, policy: &QosPolicy) -> JitterConfig {
        let flow = JitterConfig::for_flow(spec);
        let permille = self.target_late_permille;
        JitterConfig {
            a: self.a,
            beta: self.beta,
            margin: match self.r {
                Some(r) => Margin::Fixed(r),
                None if self.smallest => Margin::Smallest { permille },
                None if self.quantile => Margin::Quantile { permille },
                None => Margin::TargetLate { permille },
            },
            spares_stalls: self.spares_stalls,
            late_threshold: u32::from(policy.late_threshold),
            hold_gops: self.hold_gops,
            moves: policy.mode != MaintMode::Signal,
            holds: policy.filters.contains(&FilterKind::Jitter),
            bound: self.delay.or(flow.bound.filter(|_| !self.smallest)),
            longest: self.longest.or(flow.bound.filter(|_| self.smallest)),
            ..flow
        }
    }
}

impl SinkConfig {
    /// A sink of the flow named `flow` with every other setting at its default.
    pub fn new(node: &str, id: NodeId, flow: &str, carriage: Carriage) -> SinkConfig {
        SinkConfig {
            node: node.into(),
            id,
            flow: flow.into(),
            level: Level::FULL,
            policy: QosPolicy::default(),
            local_limit: None,
            drain: CellRate(0),
            era: Span::from_secs(1),
            res_interval: Span::from_ms(250),
            seed: 0,
            asks_at_once: false,
            probe: ProbeMode::default(),
            playout: PlayoutConfig::default(),
            carriage,
            aal5_mark: Mark::default(),
            spec: None,
            wishes: None,
            registered: true,
            repair: false,
            synchronised: true,
            follows_clock: false,
            protection: None,
        }
    }

    /// The highest level that this host can take of a flow; `None` if not even its base layer.
    pub(super) fn affordable(&self, spec: &FlowSpec) -> Option<Level> {
        let fits = |level: &Level| {
            self.local_limit
                .is_none_or(|most| spec.rate_at(*level) <= most)
        };
        let levels = [Level::FULL, Level::E1, Level::BASE].into_iter();
        levels.filter(|&level| level <= spec.top_level()).find(fits)
    }

    /// Whether a flow is the one that was asked for, by its name and its source, and does not lie about where it is from.
    pub fn is_asked_for(&self, flow: &FlowInfo) -> bool {
        let protection = self.protection.as_ref();
        let expected = protection.and_then(|protection| protection.source);
        let is_from_source = match (source_of(flow), expected) {
            (Some(source), Some(expected)) => source == expected,
            (None, Some(_)) => false,
            (source, None) => source.is_some() || flow.identity.is_none(),
        };
        flow.name == self.flow && is_from_source
    }

    /// Whether this host can take the base layer of a flow.
    pub(super) fn takes(&self, spec: &FlowSpec) -> Result<(), Refusal> {
        match self.affordable(spec) {
            Some(_) => Ok(()),
            None => Err(Refusal {
                node: self.node.clone(),
                resource: Resource::ReceiverRate,
                needed: spec.rate_at(Level::BASE).0.into(),
                available: self.local_limit.unwrap_or_default().0.into(),
                measured: None,
            }),
        }
    }

    /// The alarms of the user, and those that the bounds of the flow specification set.
    pub(super) fn alarms(&self, spec: &FlowSpec) -> impl Iterator<Item = Alarm> {
        let bound = |metric, threshold: f64| Alarm {
            metric,
            op: AlarmOp::Above,
            threshold,
            window_ms: self.policy.signal_period_ms,
            hysteresis: threshold / 10.0,
            oneshot: false,
        };
        let jitter = f64::from(spec.jitter_max_ms) * 1_000.0;
        let loss = f64::from(spec.loss_max_permille);
        let users = self.policy.events.clone().into_iter();
        users
            .chain((jitter > 0.0).then(|| bound(Metric::Jitter, jitter)))
            .chain([bound(Metric::Loss, loss)])
    }
}
