use layercast_core::{FlowId, FlowSpec, GroupId, Level, NodeId, Serial, Span, Time};
use layercast_wire::{AdapterKind, AdapterMsg};

/// The source's end of the QoS adapter (mets.md 2.11).
///
/// Three levels: what the network asks for (`wanted`), what was told to everybody (`advertised`,
/// by ADAPT), and what frames are sent (`sending`, which follows the advertised level at GOP
/// starts, as every switch does).
#[derive(Clone, Debug)]
pub(super) struct SourceAdapter {
    group: GroupId,
    flow: FlowId,
    origin: NodeId,
    res_interval: Span,
    /// Three eras.
    patience: Span,
    wanted: Level,
    advertised: Level,
    sending: Level,
    /// ADAPT counter.
    era: Serial,
    last_adapt: Option<Time>,
    last_res: Option<Time>,
    /// When the shaper follows a raise, if no GOP start came before.
    raise_at: Option<Time>,
}

/// An ADAPT to send, and the level before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Announcement {
    pub message: AdapterMsg,
    pub from: Level,
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
            wanted: Level::BASE,
            advertised: Level::BASE,
            sending: Level::BASE,
            era: Serial(0),
            last_adapt: None,
            last_res: None,
            raise_at: None,
        }
    }

    pub fn advertised(&self) -> Level {
        self.advertised
    }

    pub fn sending(&self) -> Level {
        self.sending
    }

    /// The network asks for `max`; this host can afford `afford`.
    pub fn on_res(&mut self, now: Time, max: Level, afford: Level) {
        self.last_res = Some(now);
        self.wanted = max.min(afford);
    }

    /// Whether RES just ran out: three eras without any.
    pub fn fell_silent(&mut self, now: Time) -> bool {
        let silent = self
            .last_res
            .is_some_and(|last| now >= last.saturating_add(self.patience));
        if silent {
            self.last_res = None;
            self.wanted = Level::BASE;
        }
        silent
    }

    /// The ADAPT that is due at `now`: a new level, at most once per RES interval.
    pub fn due(&mut self, now: Time, spec: &FlowSpec) -> Option<Announcement> {
        if self.wanted == self.advertised || self.next_slot().is_some_and(|slot| now < slot) {
            return None;
        }
        let from = std::mem::replace(&mut self.advertised, self.wanted);
        self.raise_at = (self.advertised > from).then(|| now.saturating_add(self.res_interval));
        Some(self.announce(now, from, spec))
    }

    /// The same level once more, for the soft state of the receivers; nothing if nobody asks.
    pub fn refresh(&mut self, now: Time, spec: &FlowSpec) -> Option<Announcement> {
        let slot = self.next_slot().is_none_or(|slot| now >= slot);
        (self.last_res.is_some() && slot).then(|| self.announce(now, self.advertised, spec))
    }

    /// A GOP starts: frames follow the advertised level from here on.
    pub fn on_gop_start(&mut self) {
        self.sending = self.advertised;
        self.raise_at = None;
    }

    /// The level the shaper must be fit for at `now`.
    pub fn shaped_level(&mut self, now: Time) -> Level {
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
        let change =
            (self.wanted != self.advertised).then(|| self.next_slot().unwrap_or(Time::ZERO));
        let silence = self.last_res.map(|last| last.saturating_add(self.patience));
        change.into_iter().chain(silence).chain(self.raise_at).min()
    }

    fn next_slot(&self) -> Option<Time> {
        Some(self.last_adapt?.saturating_add(self.res_interval))
    }

    fn announce(&mut self, now: Time, from: Level, spec: &FlowSpec) -> Announcement {
        self.last_adapt = Some(now);
        self.era = self.era.plus(1);
        let rate = spec.above_base(self.advertised);
        let message = AdapterMsg {
            kind: AdapterKind::Adapt,
            group: self.group,
            flow: self.flow,
            era: self.era,
            origin: self.origin,
            min: self.advertised,
            max: self.advertised,
            hops: 0,
            rate_min: rate,
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

    fn due(adapter: &mut SourceAdapter, ms: u64) -> Option<(u8, u8)> {
        let announcement = adapter.due(at(ms), &FlowSpec::default())?;
        Some((announcement.from.get(), announcement.message.max.get()))
    }

    #[test]
    fn at_most_one_adapt_per_res_interval_and_the_last_wish_wins() {
        let mut adapter = adapter();
        adapter.on_res(at(0), Level::FULL, Level::FULL);
        assert_eq!(due(&mut adapter, 0), Some((0, 2)));
        adapter.on_res(at(10), Level::BASE, Level::FULL);
        adapter.on_res(at(20), Level::FULL, Level::E1);
        assert_eq!(due(&mut adapter, 20), None);
        assert_eq!(adapter.next_timeout(), Some(at(250)));
        assert_eq!(due(&mut adapter, 250), Some((2, 1)));
        assert_eq!(due(&mut adapter, 600), None);
    }

    #[test]
    fn frames_follow_at_the_gop_start_and_the_shaper_a_res_interval_later_at_most() {
        let mut adapter = adapter();
        adapter.on_res(at(0), Level::E1, Level::FULL);
        due(&mut adapter, 0);
        assert_eq!(adapter.sending(), Level::BASE);
        assert_eq!(adapter.shaped_level(at(249)), Level::BASE);
        assert_eq!(adapter.shaped_level(at(250)), Level::E1);
        adapter.on_res(at(300), Level::FULL, Level::FULL);
        due(&mut adapter, 300);
        adapter.on_gop_start();
        assert_eq!(adapter.sending(), Level::FULL);
        assert_eq!(adapter.shaped_level(at(301)), Level::FULL);
        adapter.on_res(at(600), Level::BASE, Level::FULL);
        due(&mut adapter, 600);
        assert_eq!(adapter.shaped_level(at(600)), Level::BASE);
        assert_eq!(adapter.sending(), Level::FULL);
    }

    #[test]
    fn three_eras_without_res_bring_the_base_level_and_silence() {
        let mut adapter = adapter();
        adapter.on_res(at(0), Level::FULL, Level::FULL);
        due(&mut adapter, 0);
        assert!(adapter.refresh(at(1_000), &FlowSpec::default()).is_some());
        assert!(!adapter.fell_silent(at(2_999)));
        assert!(adapter.fell_silent(at(3_000)));
        assert_eq!(due(&mut adapter, 3_000), Some((2, 0)));
        assert!(!adapter.fell_silent(at(9_000)));
        assert_eq!(adapter.refresh(at(9_000), &FlowSpec::default()), None);
        assert_eq!(adapter.next_timeout(), None);
    }
}
