use layercast_core::{Composition, FlowSpec, Span, Time};

/// A gap between two pictures up to this length is no outage, whatever the GOP.
const SHORT: Span = Span::from_secs(1);

/// Measures the time without a picture: gaps between two pictures that can be decoded (docs/src/reference/statistics.md).
///
/// A picture counts if it is the first of its GOP, or if that was played and no frame of the base layer is missing since.
/// A gap counts, as a whole, if it is longer than [`SHORT`] and than one and a half GOPs: one picture a GOP is all that the
/// base level of some flows has. Each level of alternative layers has all pictures, so that [`SHORT`] alone counts. The first gap begins with the first packet; the playout delay is allowed to it besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outages {
    allowed: Span,
    /// Allowed to the first picture besides.
    start: Span,
    /// The last picture, or the first packet.
    last: Option<Time>,
    is_shown: bool,
    /// Whether the first picture of the running GOP was played, and no base-layer frame is missing since.
    is_whole: bool,
    /// The time up to which the flow was watched.
    watched: Time,
    closed: Span,
}

impl Outages {
    /// None so far, of a flow of this structure.
    pub fn new(spec: &FlowSpec) -> Outages {
        let mut outages = Outages {
            allowed: SHORT,
            start: SHORT,
            last: None,
            is_shown: false,
            is_whole: false,
            watched: Time::ZERO,
            closed: Span::ZERO,
        };
        outages.set_spec(spec);
        outages
    }

    /// The flow has another structure from now on.
    pub fn set_spec(&mut self, spec: &FlowSpec) {
        let gop = spec.gop();
        self.allowed = match spec.composition {
            Composition::Additive => SHORT.max(gop + Span::from_ps(gop.as_ps() / 2)),
            Composition::Alternative => SHORT,
        };
        self.start = gop + Span::from_ms(spec.delay_max_ms.into());
    }

    /// A packet of the flow came.
    pub fn packet(&mut self, now: Time) {
        self.last.get_or_insert(now);
    }

    /// A frame was played; sound is no picture.
    pub fn played(&mut self, now: Time, sound: bool, gop_start: bool) {
        self.is_whole |= gop_start;
        if !self.is_whole || sound {
            return;
        }
        self.watched = self.watched.max(now);
        self.closed += self.open();
        self.last = Some(now);
        self.is_shown = true;
    }

    /// A frame of the base layer is missing: what refers to it cannot be decoded.
    pub fn broken(&mut self) {
        self.is_whole = false;
    }

    /// Time has passed.
    pub fn watch(&mut self, now: Time) {
        self.watched = self.watched.max(now);
    }

    /// The time up to which the flow was watched.
    pub fn watched(&self) -> Time {
        self.watched
    }

    /// The time without a picture so far, the running gap included.
    pub fn total(&self) -> Span {
        self.closed + self.open()
    }

    /// The running gap, if it is an outage.
    fn open(&self) -> Span {
        let allowed = match self.is_shown {
            true => self.allowed,
            false => self.allowed + self.start,
        };
        let gap = self
            .last
            .map_or(Span::ZERO, |last| self.watched.since(last));
        match gap > allowed {
            true => gap,
            false => Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::FrameRate;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// GOPs of 0.48 s, a delay bound of 1 s.
    fn outages() -> Outages {
        let mut outages = Outages::new(&FlowSpec {
            frame_rate: FrameRate { num: 25, den: 1 },
            gop_n: 12,
            delay_max_ms: 1_000,
            ..FlowSpec::default()
        });
        outages.packet(at(0));
        outages
    }

    #[test]
    fn one_picture_a_gop_is_no_outage_and_a_long_gap_is_one_as_a_whole() {
        let mut outages = outages();
        for gop in 1..10 {
            outages.played(at(480 * gop), false, true);
        }
        outages.watch(at(4_320 + 1_000));
        assert_eq!(outages.total(), Span::ZERO);
        outages.watch(at(4_320 + 1_500));
        assert_eq!(outages.total(), Span::from_ms(1_500), "it is running");
        outages.played(at(4_320 + 2_400), false, true);
        outages.watch(at(4_320 + 2_500));
        assert_eq!(outages.total(), Span::from_ms(2_400), "it is over");
    }

    #[test]
    fn pictures_that_refer_to_a_missing_one_do_not_count() {
        let mut outages = outages();
        outages.played(at(500), false, true);
        outages.played(at(540), false, false);
        outages.broken();
        for n in 0..60 {
            outages.played(at(1_000 + 40 * n), false, false);
            outages.played(at(1_000 + 40 * n), true, false);
        }
        assert_eq!(outages.total(), Span::ZERO, "nothing was watched");
        outages.watch(at(3_400));
        assert_eq!(outages.total(), Span::from_ms(2_860));
        outages.played(at(3_500), false, true);
        assert_eq!(outages.total(), Span::from_ms(2_960));
    }

    #[test]
    fn pictures_of_the_base_layer_between_key_frames_count() {
        let mut outages = outages();
        outages.set_spec(&FlowSpec {
            frame_rate: FrameRate { num: 25, den: 1 },
            gop_n: 250,
            ..FlowSpec::default()
        });
        outages.played(at(0), false, true);
        for n in 1..600 {
            outages.played(at(40 * n), false, false);
        }
        outages.watch(at(40 * 600));
        assert_eq!(outages.total(), Span::ZERO);
        // No picture for 16 s, more than one GOP and a half.
        outages.watch(at(40_000));
        assert_eq!(outages.total(), Span::from_ms(40_000 - 599 * 40));
    }

    #[test]
    fn each_rendition_has_all_pictures_however_rare_common_key_frames_are() {
        let mut outages = outages();
        outages.set_spec(&FlowSpec {
            frame_rate: FrameRate { num: 50, den: 1 },
            gop_n: 250,
            composition: Composition::Alternative,
            ..FlowSpec::default()
        });
        outages.played(at(0), false, true);
        outages.watch(at(4_100));
        assert_eq!(outages.total(), Span::from_ms(4_100));
    }

    #[test]
    fn the_start_may_take_a_gop_and_the_playout_delay_longer() {
        let mut outages = outages();
        outages.watch(at(2_480));
        assert_eq!(outages.total(), Span::ZERO);
        outages.watch(at(22_000));
        assert_eq!(outages.total(), Span::from_secs(22));
        let silent = Outages::new(&FlowSpec::default());
        assert_eq!(silent.total(), Span::ZERO, "no packet came yet");
    }
}
