use layercast_core::{CellRate, FlowId, GroupId, Level, LevelSet, NodeId, Serial, Span, Time};
use layercast_wire::{AdapterKind, AdapterMsg};

/// The source's end of the QoS adapter (specs/mets.md 2.11).
///
/// Three levels: the one the network requests (`wanted`), the one announced to all receivers by ADAPT
/// (`advertised`), and that of the frames being sent (`sending`, which follows the advertised level at GOP
/// starts, as in every switch).
#[derive(Clone, Debug)]
pub(super) struct SourceAdapter {
    group: GroupId,
    flow: FlowId,
    origin: NodeId,
    res_interval: Span,
    /// Three eras.
    patience: Span,
    wanted: Target,
    advertised: Target,
    sending: Target,
    /// ADAPT counter.
    era: Serial,
    last_adapt: Option<Time>,
    last_res: Option<Time>,
    /// When the shaper follows a raise, if no GOP start came before.
    raise_at: Option<Time>,
    /// No receiver has heard what is advertised: the next demand is answered, and has not been, although it is no news.
    unheard: bool,
    owed: bool,
}

/// What the source gives: a level, and what its layers take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Target {
    pub level: Level,
    /// Of a flow of alternative layers, those that are sent; `level` is the highest of them.
    pub levels: LevelSet,
    /// Cells/s above the base layer.
    pub rate: CellRate,
    /// Cells/s of E1 alone, where a switch may have to leave out E2 (continuous mode).
    pub e1: Option<CellRate>,
}

/// An ADAPT to send, and what was given before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Announcement {
    pub message: AdapterMsg,
    pub from: Target,
}

/// A rate that differs by less than one part in this number is not announced.
const NEWS: u32 = 100;

impl Target {
    /// Whether the target must be announced, after `old` was announced.
    fn is_news(self, old: Target) -> bool {
        let off = self.rate.0.abs_diff(old.rate.0);
        (self.level, self.levels) != (old.level, old.levels) || off > old.rate.0 / NEWS
    }
}

impl SourceAdapter {
    pub fn new(
        group: GroupId,
        flow: FlowId,
        origin: NodeId,
        era: Span,
        res_interval: Span,
    ) -> Self {
        SourceAdapter {
            group,
            flow,
            origin,
            res_interval,
            patience: era.times(3),
            wanted: Target::default(),
            advertised: Target::default(),
            sending: Target::default(),
            era: Serial(0),
            last_adapt: None,
            last_res: None,
            raise_at: None,
            unheard: false,
            owed: false,
        }
    }

    pub fn advertised(&self) -> Target {
        self.advertised
    }

    pub fn sending(&self) -> Target {
        self.sending
    }

    /// The network requests this target, and this host can send it.
    pub fn on_res(&mut self, now: Time, wanted: Target) {
        self.last_res = Some(now);
        self.wanted = wanted;
        self.owed |= std::mem::take(&mut self.unheard);
    }

    /// The network gets something else of what it requests, if it does.
    pub fn revise(&mut self, wanted: Target) {
        if self.last_res.is_some() {
            self.wanted = wanted;
        }
    }

    /// The last receiver has left. The next one waits for an answer to its demand, which may be that of the former one.
    pub fn on_empty(&mut self) {
        self.unheard = true;
    }

    /// Whether RES just ran out: three eras without any.
    pub fn fell_silent(&mut self, now: Time) -> bool {
        let silent = self
            .last_res
            .is_some_and(|last| now >= last.saturating_add(self.patience));
        if silent {
            self.last_res = None;
            self.wanted = Target::default();
        }
        silent
    }

    /// The ADAPT that is due at `now`: a new level, at most once per RES interval.
    pub fn due(&mut self, now: Time) -> Option<Announcement> {
        let in_slot = self.next_slot().is_none_or(|slot| now >= slot);
        if !(self.owed || in_slot && self.wanted.is_news(self.advertised)) {
            return None;
        }
        self.owed = false;
        let from = std::mem::replace(&mut self.advertised, self.wanted);
        let raised = self.advertised.level > from.level || self.advertised.rate > from.rate;
        self.raise_at = raised.then(|| now.saturating_add(self.res_interval));
        Some(self.announce(now, from))
    }

    /// The same level once more, for the soft state of the receivers; `None` without demand.
    pub fn refresh(&mut self, now: Time) -> Option<Announcement> {
        let slot = self.next_slot().is_none_or(|slot| now >= slot);
        (self.last_res.is_some() && slot).then(|| self.announce(now, self.advertised))
    }

    /// A GOP starts: frames follow the advertised level from here on.
    pub fn on_gop_start(&mut self) {
        self.sending = self.advertised;
        self.raise_at = None;
    }

    /// What the shaper must be fit for at `now`.
    pub fn shaped(&mut self, now: Time) -> Target {
        if self.raise_at.is_some_and(|at| now >= at) {
            self.raise_at = None;
        }
        if self.raise_at.is_some() {
            self.sending
        } else {
            self.advertised
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let change = self
            .wanted
            .is_news(self.advertised)
            .then(|| self.next_slot().unwrap_or(Time::ZERO));
        let silence = self.last_res.map(|last| last.saturating_add(self.patience));
        change.into_iter().chain(silence).chain(self.raise_at).min()
    }

    fn next_slot(&self) -> Option<Time> {
        Some(self.last_adapt?.saturating_add(self.res_interval))
    }

    fn announce(&mut self, now: Time, from: Target) -> Announcement {
        self.last_adapt = Some(now);
        self.era = self.era.plus(1);
        let Target {
            level,
            levels,
            rate,
            e1,
        } = self.advertised;
        let (min, rate_min) = match e1.filter(|_| level > Level::E1) {
            Some(e1) => (Level::E1, e1),
            None => (level, rate),
        };
        let message = AdapterMsg {
            kind: AdapterKind::Adapt,
            group: self.group,
            flow: self.flow,
            era: self.era,
            origin: self.origin,
            min,
            max: level,
            hops: 0,
            levels,
            rate_min,
            rate_max: rate,
            residual: Default::default(),
            drain: Default::default(),
        };
        Announcement { message, from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn adapter() -> SourceAdapter {
        let (era, res) = (Span::from_secs(1), Span::from_ms(250));
        SourceAdapter::new(GroupId(1), FlowId(1), NodeId(1), era, res)
    }

    fn level(level: Level) -> Target {
        Target {
            level,
            ..Target::default()
        }
    }

    fn due(adapter: &mut SourceAdapter, ms: u64) -> Option<(u8, u8)> {
        let announcement = adapter.due(at(ms))?;
        Some((
            announcement.from.level.get(),
            announcement.message.max.get(),
        ))
    }

    #[test]
    fn at_most_one_adapt_per_res_interval_and_the_last_wish_wins() {
        let mut adapter = adapter();
        adapter.on_res(at(0), level(Level::FULL));
        assert_eq!(due(&mut adapter, 0), Some((0, 2)));
        adapter.on_res(at(10), level(Level::BASE));
        adapter.on_res(at(20), level(Level::E1));
        assert_eq!(due(&mut adapter, 20), None);
        assert_eq!(adapter.next_timeout(), Some(at(250)));
        assert_eq!(due(&mut adapter, 250), Some((2, 1)));
        assert_eq!(due(&mut adapter, 600), None);
    }

    #[test]
    fn the_demand_of_a_new_receiver_is_answered_at_once_though_the_former_one_had_the_same() {
        let mut adapter = adapter();
        adapter.on_res(at(0), level(Level::FULL));
        assert_eq!(due(&mut adapter, 0), Some((0, 2)));
        adapter.on_empty();
        assert_eq!(due(&mut adapter, 100), None);
        adapter.on_res(at(110), level(Level::FULL));
        assert_eq!(due(&mut adapter, 110), Some((2, 2)));
        adapter.on_res(at(120), level(Level::FULL));
        assert_eq!(due(&mut adapter, 400), None);
    }

    #[test]
    fn frames_follow_at_the_gop_start_and_the_shaper_a_res_interval_later_at_most() {
        let mut adapter = adapter();
        adapter.on_res(at(0), level(Level::E1));
        due(&mut adapter, 0);
        assert_eq!(adapter.sending().level, Level::BASE);
        assert_eq!(adapter.shaped(at(249)).level, Level::BASE);
        assert_eq!(adapter.shaped(at(250)).level, Level::E1);
        adapter.on_res(at(300), level(Level::FULL));
        due(&mut adapter, 300);
        adapter.on_gop_start();
        assert_eq!(adapter.sending().level, Level::FULL);
        assert_eq!(adapter.shaped(at(301)).level, Level::FULL);
        adapter.on_res(at(600), level(Level::BASE));
        due(&mut adapter, 600);
        assert_eq!(adapter.shaped(at(600)).level, Level::BASE);
        assert_eq!(adapter.sending().level, Level::FULL);
    }

    #[test]
    fn a_rate_is_told_when_it_changes_by_more_than_one_per_cent() {
        let mut adapter = adapter();
        let mut tell = |ms, rate| {
            let target = Target {
                level: Level::FULL,
                rate: CellRate(rate),
                e1: Some(CellRate(rate / 3)),
                ..Target::default()
            };
            adapter.on_res(at(ms), target);
            let message = adapter.due(at(ms)).map(|it| it.message);
            message.map(|it| (it.min.get(), it.rate_min.0, it.max.get(), it.rate_max.0))
        };
        assert_eq!(tell(0, 3_000), Some((1, 1_000, 2, 3_000)));
        assert_eq!(tell(1_000, 3_030), None);
        assert_eq!(tell(2_000, 2_400), Some((1, 800, 2, 2_400)));
    }

    #[test]
    fn three_eras_without_res_bring_the_base_level_and_silence() {
        let mut adapter = adapter();
        adapter.on_res(at(0), level(Level::FULL));
        due(&mut adapter, 0);
        assert!(adapter.refresh(at(1_000)).is_some());
        assert!(!adapter.fell_silent(at(2_999)));
        assert!(adapter.fell_silent(at(3_000)));
        assert_eq!(due(&mut adapter, 3_000), Some((2, 0)));
        assert!(!adapter.fell_silent(at(9_000)));
        assert_eq!(adapter.refresh(at(9_000)), None);
        assert_eq!(adapter.next_timeout(), None);
    }
}
