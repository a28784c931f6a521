use layercast_core::{CellRate, FlowSpec, Level, NodeId, Serial, Span, Stream, Time, earliest};
use layercast_qos::{Advice, DemandProbe, ProbeConfig};
use layercast_wire::{AdapterKind, AdapterMsg, FlowInfo};

use super::SinkConfig;

/// The receiver's end of the QoS adapter: RES each era, levels by ADAPT (mets.md 2.11).
#[derive(Clone, Debug)]
pub(super) struct SinkAdapter {
    origin: NodeId,
    era_length: Span,
    probe: DemandProbe,
    level: Level,
    /// Era of the next RES.
    era: Serial,
    next_era: Time,
    newest_adapt: Option<Serial>,
    /// When silence counts from; `None` once it was reported.
    heard: Option<Time>,
    top: Level,
    drain: CellRate,
}

/// What a sink that can have `top` at most asks for.
fn wishes(config: &SinkConfig, top: Level) -> ProbeConfig {
    let wishes = ProbeConfig::from_policy(&config.policy, config.probe);
    let preferred = config.level.min(wishes.preferred).min(top);
    ProbeConfig {
        preferred,
        min_level: wishes.min_level.min(preferred),
        ..wishes
    }
}

/// What an ADAPT did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Adapted {
    /// Older than one that came before.
    Stale,
    /// Accepted; the level before it.
    From(Level),
}

impl SinkAdapter {
    /// The first era starts at a random phase, so that receivers do not march in step.
    pub fn new(now: Time, config: &SinkConfig, spec: &FlowSpec, phase: &mut Stream) -> SinkAdapter {
        let top = config.affordable(spec).unwrap_or_default();
        let first = Span::from_ps(phase.below(config.era.as_ps()));
        SinkAdapter {
            origin: config.id,
            era_length: config.era,
            probe: DemandProbe::new(wishes(config, top)),
            level: Level::BASE,
            era: Serial(0),
            next_era: now.saturating_add(first),
            newest_adapt: None,
            heard: Some(now),
            top,
            drain: config.drain,
        }
    }

    /// The wishes of the user or the flow itself changed; what was learnt about the path stays.
    pub fn reconfigure(&mut self, config: &SinkConfig, spec: &FlowSpec) {
        self.top = config.affordable(spec).unwrap_or_default();
        self.probe.reconfigure(wishes(config, self.top));
    }

    pub fn level(&self) -> Level {
        self.level
    }

    pub fn allow_raise(&mut self) {
        self.probe.allow_raise();
    }

    /// A new path: ADAPT may start counting anew.
    pub fn on_rejoin(&mut self, now: Time) {
        self.newest_adapt = None;
        self.heard = Some(now);
    }

    /// Whether an era starts at `now`.
    pub fn era_due(&mut self, now: Time) -> bool {
        let due = now >= self.next_era;
        while self.next_era <= now {
            self.next_era = self.next_era.saturating_add(self.era_length);
        }
        due
    }

    /// The RES of the era that starts, given whether the one before saw congestion.
    pub fn res(&mut self, congested: bool, flow: &FlowInfo) -> (AdapterMsg, Option<Advice>) {
        let (pair, advice) = self.probe.on_era(congested, self.level, self.top);
        let era = self.era;
        self.era = era.plus(1);
        let message = AdapterMsg {
            kind: AdapterKind::Res,
            group: flow.group,
            flow: flow.id,
            era,
            origin: self.origin,
            min: pair.min(),
            max: pair.max(),
            hops: 0,
            rate_min: flow.spec.above_base(pair.min()),
            rate_max: flow.spec.above_base(pair.max()),
            residual: Default::default(),
            drain: self.drain,
        };
        (message, advice)
    }

    pub fn on_adapt(&mut self, now: Time, message: &AdapterMsg) -> Adapted {
        if self
            .newest_adapt
            .is_some_and(|newest| newest.is_after(message.era))
        {
            return Adapted::Stale;
        }
        self.newest_adapt = Some(message.era);
        self.heard = Some(now);
        Adapted::From(std::mem::replace(&mut self.level, message.max))
    }

    /// The level before, if three eras passed without ADAPT: base layer from here on.
    pub fn fell_silent(&mut self, now: Time) -> Option<Level> {
        self.silence().filter(|&at| now >= at)?;
        self.heard = None;
        // The source may have started anew, and its count with it.
        self.newest_adapt = None;
        Some(self.drop_level())
    }

    /// Back to the base layer; gives the level before.
    pub fn drop_level(&mut self) -> Level {
        std::mem::take(&mut self.level)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        earliest(Some(self.next_era), self.silence())
    }

    fn silence(&self) -> Option<Time> {
        Some(self.heard?.saturating_add(self.era_length.times(3)))
    }
}
