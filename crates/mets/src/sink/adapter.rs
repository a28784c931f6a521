use layercast_core::{
    AdaptMode, CellRate, Contract, FlowSpec, Level, LevelSet, Newest, NodeId, Numbered, OnPlenty,
    OnScarce, Quality, Serial, Span, Stream, Time, earliest,
};
use layercast_qos::{
    Advice, Cause, DemandProbe, LevelPair, Load, ProbeConfig, RateProbe, Seen, Verdict, ZoneRule,
};
use layercast_wire::{AdapterKind, AdapterMsg, FlowInfo};

use super::SinkConfig;
use crate::ERAS_AHEAD;

/// The receiver's end of the QoS adapter: RES each era, levels by ADAPT (specs/mets.md 2.11).
#[derive(Clone, Debug)]
pub(super) struct SinkAdapter {
    origin: NodeId,
    era_length: Span,
    probe: DemandProbe,
    /// The wishes behind `probe`.
    wishes: ProbeConfig,
    /// In continuous mode, what to ask for.
    rates: Option<RateProbe>,
    /// What follows from zones.
    zones: ZoneRule,
    /// Why less is asked for than is wished, by the last decision that lowered it.
    cause: Option<Cause>,
    level: Level,
    /// When it was granted.
    level_since: Time,
    /// Cells/s above the base layer that go with the level.
    rate: CellRate,
    /// Era of the next RES.
    era: Serial,
    next_era: Time,
    /// How long after a first RES that was sent immediately the next era begins.
    phase: Option<Span>,
    eras: Newest,
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

/// What is promised to a sink that gets `own` of a flow. The throughput is that of all layers: a sink that does not get all
/// of them, or chose fewer, is not held to it.
pub(super) fn promised(
    config: &SinkConfig,
    flow: &FlowInfo,
    own: &FlowSpec,
    gets_all: bool,
) -> Contract {
    let (mut contract, top) = (flow.contract_of(own), flow.spec.top_level());
    if !gets_all || wishes(config, top).preferred < top {
        contract.throughput = None;
    }
    contract
}

/// What a sink of a flow whose source follows any rate asks for.
fn rates(config: &SinkConfig, flow: &FlowInfo, spec: &FlowSpec) -> Option<RateProbe> {
    let wishes = wishes(config, Level::FULL);
    let limit = config.local_limit.unwrap_or(CellRate(u32::MAX));
    let limit = limit.saturating_sub(spec.layers.base.mean);
    let above = |level: Level| spec.above_base(level.min(spec.top_level()));
    let most = above(wishes.preferred).min(limit);
    (flow.policy.adapt == AdaptMode::Continuous)
        .then(|| RateProbe::new(above(wishes.min_level), most))
}

/// What an ADAPT did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Adapted {
    /// Older than one that came before.
    Stale,
    /// Accepted; the level before it, and the rate above the base layer.
    From(Level, CellRate),
}

impl SinkAdapter {
    /// The first era starts at a random phase, so that receivers do not march in step.
    ///
    /// `flow` is what the source adapts by, `spec` what this member gets of it.
    pub fn new(
        now: Time,
        config: &SinkConfig,
        flow: &FlowInfo,
        spec: &FlowSpec,
        phase: &mut Stream,
    ) -> SinkAdapter {
        let top = config.affordable(spec).unwrap_or_default();
        let wishes = wishes(config, top);
        let rates = rates(config, flow, spec);
        let first = Span::from_ps(phase.below(config.era.as_ps()));
        SinkAdapter {
            origin: config.id,
            era_length: config.era,
            probe: DemandProbe::new(wishes),
            wishes,
            rates,
            zones: ZoneRule::default(),
            cause: None,
            level: Level::BASE,
            level_since: now,
            rate: CellRate(0),
            era: Serial(0),
            next_era: match config.asks_at_once {
                true => now,
                false => now.saturating_add(first),
            },
            phase: config.asks_at_once.then_some(first),
            eras: Newest::default(),
            heard: Some(now),
            top,
            drain: config.drain,
        }
    }

    /// The wishes of the user or the flow itself changed; what was learnt about the path stays.
    pub fn reconfigure(&mut self, config: &SinkConfig, flow: &FlowInfo, spec: &FlowSpec) {
        self.top = config.affordable(spec).unwrap_or_default();
        self.wishes = wishes(config, self.top);
        self.rates = rates(config, flow, spec);
        self.probe.reconfigure(self.wishes);
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Whether the layers of a level are granted, and come: a raise begins with the next GOP.
    pub fn gets(&self, now: Time, spec: &FlowSpec, level: Level) -> bool {
        let begun = spec.frame_rate.due(2 * u64::from(spec.gop_n));
        self.level >= level.min(spec.top_level()) && now.since(self.level_since) >= begun
    }

    /// The level asked for.
    pub fn want(&self) -> Level {
        self.probe.want()
    }

    /// Why that is less than is wished; `None`: it is not, or nothing was lowered yet.
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Cells/s above the base layer that go with the level.
    pub fn rate(&self) -> CellRate {
        self.rate
    }

    pub fn set_filtered(&mut self, filtered: bool) {
        self.probe.set_filtered(filtered);
    }

    pub fn allow_raise(&mut self) {
        self.probe.allow_raise();
    }

    /// A new path: ADAPT may start counting again.
    pub fn on_rejoin(&mut self, now: Time) {
        self.eras = Newest::default();
        self.heard = Some(now);
    }

    /// The source was started again: nothing is granted yet, and nothing is known of the way. Gives the level
    /// before.
    pub fn begin_life(
        &mut self,
        now: Time,
        config: &SinkConfig,
        flow: &FlowInfo,
        spec: &FlowSpec,
    ) -> Level {
        self.top = config.affordable(spec).unwrap_or_default();
        self.wishes = wishes(config, self.top);
        self.rates = rates(config, flow, spec);
        self.probe = DemandProbe::new(self.wishes);
        self.zones.reset();
        self.cause = None;
        self.on_rejoin(now);
        self.drop_level()
    }

    /// The join is answered: demands are sent immediately, if the configuration says so, and later in the same
    /// phase as before.
    pub fn ask_at_once(&mut self, now: Time, config: &SinkConfig) {
        if config.asks_at_once {
            self.phase = Some(self.next_era.since(now));
            self.next_era = now;
        }
    }

    /// Whether an era starts at `now`.
    pub fn era_due(&mut self, now: Time) -> bool {
        let due = now >= self.next_era;
        if let Some(phase) = self.phase.take_if(|_| due) {
            self.next_era = now.saturating_add(phase);
        }
        while self.next_era <= now {
            self.next_era = self.next_era.saturating_add(self.era_length);
        }
        due
    }

    /// What the era that is over says of the load, given whether it saw marks of congestion, and whether data were lost or late.
    pub fn judge(
        &mut self,
        now: Time,
        marked: bool,
        quality: Option<&Quality>,
        losing: bool,
    ) -> Verdict {
        let wishes = &self.wishes;
        let can_lower = wishes.maintains && self.level.min(self.want()) > wishes.min_level;
        let verdict = self.zones.on_era(
            now,
            Seen {
                marked,
                quality,
                losing,
                level: self.level,
                can_lower,
            },
        );
        let verdict = match verdict.load {
            // A receiver that leaves when bandwidth is scarce leaves on marks alone: a red zone may have other reasons.
            Load::Congested if !marked && wishes.on_scarce == OnScarce::Disconnect => Verdict {
                load: Load::Unclear,
                cause: None,
                ..verdict
            },
            _ => verdict,
        };
        self.cause = verdict.cause.or(self.cause);
        verdict
    }

    /// The RES of the era that starts, given the load of the one before.
    pub fn res(&mut self, load: Load, flow: &FlowInfo) -> (AdapterMsg, Option<Advice>) {
        let (pair, rates, advice) = self.demand(load, &flow.spec);
        let asks_less = match &self.rates {
            Some(rates) => rates.is_reduced(),
            None => self.want() < self.wishes.preferred,
        };
        self.cause = self.cause.filter(|_| asks_less);
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
            levels: match flow.spec.composition.is_additive() {
                true => LevelSet::EMPTY,
                false => LevelSet::of(pair.max()),
            },
            rate_min: rates[0],
            rate_max: rates[1],
            residual: Default::default(),
            drain: self.drain,
        };
        (message, advice)
    }

    /// Levels and rates to ask for, and what the policy wants besides.
    fn demand(
        &mut self,
        load: Load,
        spec: &FlowSpec,
    ) -> (LevelPair, [CellRate; 2], Option<Advice>) {
        let congested = load == Load::Congested;
        let Some(rates) = &mut self.rates else {
            let (pair, advice) = match load {
                Load::Unclear => (self.probe.keep(self.level, self.top), None),
                _ => self.probe.on_era(congested, self.level, self.top),
            };
            let rates = [pair.min(), pair.max()].map(|level| spec.above_base(level));
            return (pair, rates, advice);
        };
        let maintains = self.wishes.maintains;
        let lowers = maintains && self.wishes.on_scarce == OnScarce::DropLayer;
        let raises =
            maintains && rates.is_reduced() && load == Load::Clean && self.probe.may_raise();
        let rate = rates.on_era(congested, self.rate, lowers, raises);
        let advice = match self.wishes.on_scarce {
            _ if congested => self.probe.on_era(true, self.level, self.top).1,
            _ if rates.is_reduced() && self.wishes.on_plenty == OnPlenty::Inform => {
                Some(Advice::MayRaise(self.wishes.preferred))
            }
            _ => None,
        };
        // Whatever is granted, the source says which layers it has room for.
        let top = if rate.0 > 0 {
            spec.top_level()
        } else {
            Level::BASE
        };
        let pair = LevelPair::new(Level::BASE, top).unwrap_or(LevelPair::BASE);
        (pair, [CellRate(0), rate], advice)
    }

    pub fn on_adapt(&mut self, now: Time, message: &AdapterMsg) -> Adapted {
        if let Numbered::Behind | Numbered::Stray = self.eras.judge(message.era, ERAS_AHEAD) {
            return Adapted::Stale;
        }
        self.heard = Some(now);
        if message.max != self.level {
            self.level_since = now;
        }
        Adapted::From(
            std::mem::replace(&mut self.level, message.max),
            std::mem::replace(&mut self.rate, message.rate_max),
        )
    }

    /// The level before, if three eras passed without ADAPT: base layer from here on.
    pub fn fell_silent(&mut self, now: Time) -> Option<Level> {
        self.silence().filter(|&at| now >= at)?;
        self.heard = None;
        // The source may have started again, and its count with it.
        self.eras = Newest::default();
        Some(self.drop_level())
    }

    /// Back to the base layer; gives the level before.
    pub fn drop_level(&mut self) -> Level {
        self.rate = CellRate(0);
        std::mem::take(&mut self.level)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        earliest(Some(self.next_era), self.silence())
    }

    fn silence(&self) -> Option<Time> {
        Some(self.heard?.saturating_add(self.era_length.times(3)))
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{FlowId, Term};
    use layercast_wire::Carriage;

    use super::*;

    #[test]
    fn a_sink_that_has_fewer_layers_is_not_held_to_the_rate_of_all() {
        let contract = Contract {
            throughput: Some(Term::agreed(850e3)),
            delay: Some(Term::agreed(0.3)),
            ..Contract::default()
        };
        let mut flow = FlowInfo {
            contract: Some(contract),
            ..FlowInfo::new(FlowId(1), "bunny", "atc")
        };
        flow.spec.layers.e1.mean = CellRate(960);
        flow.spec.layers.e2.mean = CellRate(1_920);
        let of = |flow: &FlowInfo, level, gets_all| {
            let config = SinkConfig {
                level,
                ..SinkConfig::new("dwp", NodeId(1), "bunny", Carriage::Datagrams)
            };
            promised(&config, flow, &flow.spec, gets_all)
        };
        assert_eq!(of(&flow, Level::FULL, true), contract);
        let fewer = Contract {
            throughput: None,
            ..contract
        };
        assert_eq!(
            [Level::BASE, Level::E1].map(|it| of(&flow, it, true)),
            [fewer; 2]
        );
        assert_eq!(of(&flow, Level::FULL, false), fewer, "layers are withheld");
        // Of a flow without enhancements the base layer is all.
        (flow.spec.layers.e1.mean, flow.spec.layers.e2.mean) = (CellRate(0), CellRate(0));
        assert_eq!(of(&flow, Level::BASE, true), contract);
    }
}
