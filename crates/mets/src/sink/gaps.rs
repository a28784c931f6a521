use layercast_core::{FlowSpec, Layer, LayerRate, Level, PerLayer, Serial, Span};
use layercast_wire::{Flags, FlowEnd, MetsHeader, Sound};

use super::silence::Expected;

/// What the header of a frame says about the frames before it (specs/mets.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub seq: Serial,
    pub layer: Layer,
    pub gop_start: bool,
    pub e1_count: u8,
    pub e2_count: u8,
    pub sound: Sound,
    /// Level that passes: stated by the frame, or else given by the last ADAPT that came before it.
    pub level: Level,
    /// Level that the source sends, if the frame states it.
    pub source: Option<Level>,
    /// A fast start sent it.
    pub again: bool,
}

impl Mark {
    /// What `header` says of a frame of `layer`, where `level` passes.
    pub fn of(header: &MetsHeader, layer: Layer, level: Level) -> Mark {
        Mark {
            seq: header.seq,
            layer,
            gop_start: header.flags.contains(Flags::GOP_START),
            e1_count: header.e1_count,
            e2_count: header.e2_count,
            sound: header.sound,
            level,
            source: header.passing.source(),
            again: header.passing.is_again(),
        }
    }

    /// As if the frame before this one were the last that came.
    fn before(self) -> Mark {
        let own = |layer| u8::from(self.layer == layer);
        Mark {
            seq: Serial(self.seq.0.wrapping_sub(1)),
            e1_count: self.e1_count.wrapping_sub(own(Layer::E1)),
            e2_count: self.e2_count.wrapping_sub(own(Layer::E2)),
            sound: Sound::new(
                false,
                self.sound
                    .count()
                    .wrapping_sub(u8::from(self.sound.is_sound())),
            ),
            ..self
        }
    }

    /// Its chain: what refers to it, or is referred to by it, is in the same.
    pub fn chain(self) -> Chain {
        match self.sound.is_sound() {
            true => Chain::Sound,
            false => Chain::Pictures,
        }
    }

    fn end(self) -> FlowEnd {
        FlowEnd {
            seq: self.seq,
            e1_count: self.e1_count,
            e2_count: self.e2_count,
        }
    }
}

/// Frames that are in order among each other: no frame refers to one of another chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chain {
    Pictures,
    /// Sound, and other data beside the pictures.
    Sound,
}

impl Chain {
    pub const ALL: [Chain; 2] = [Chain::Pictures, Chain::Sound];

    pub fn other(self) -> Chain {
        match self {
            Chain::Pictures => Chain::Sound,
            Chain::Sound => Chain::Pictures,
        }
    }
}

/// The frames missing between two frames that are there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gap {
    /// Frames of layers that were granted: lost.
    pub lost: PerLayer<u32>,
    /// Frames of layers above the level in force: kept back on purpose.
    pub withheld: PerLayer<u32>,
    /// Of these, frames of layers that the source did not send, and frames that a switch withheld; of the others this is
    /// not known.
    pub by_source: PerLayer<u32>,
    pub by_switch: PerLayer<u32>,
    /// Frames of sound among those of the base layer.
    pub sound: u32,
    /// Layers are alternative: a picture that is withheld is missing nowhere.
    pub alternative: bool,
}

impl Gap {
    /// Those of one chain that are lost, and all of them.
    pub fn of(&self, chain: Chain) -> (PerLayer<u32>, PerLayer<u32>) {
        let of = |all: PerLayer<u32>| {
            let sound = self.sound.min(all.base);
            match chain {
                Chain::Sound => PerLayer {
                    base: sound,
                    ..PerLayer::default()
                },
                Chain::Pictures => PerLayer {
                    base: all.base - sound,
                    ..all
                },
            }
        };
        let mut all = self.lost;
        for layer in Layer::ALL.into_iter().filter(|_| !self.alternative) {
            all[layer] = all[layer].saturating_add(self.withheld[layer]);
        }
        (of(self.lost), of(all))
    }

    /// Adds the frames of another gap.
    pub fn add(&mut self, more: Gap) {
        for layer in Layer::ALL {
            self.lost[layer] = self.lost[layer].saturating_add(more.lost[layer]);
            self.withheld[layer] = self.withheld[layer].saturating_add(more.withheld[layer]);
            self.by_source[layer] = self.by_source[layer].saturating_add(more.by_source[layer]);
            self.by_switch[layer] = self.by_switch[layer].saturating_add(more.by_switch[layer]);
        }
        self.sound = self.sound.saturating_add(more.sound);
        self.alternative |= more.alternative;
    }
}

/// Pictures of alternative layers that are missing since the last one that came.
#[derive(Clone, Copy, Default, Debug)]
struct Pending {
    since: PerLayer<u32>,
    /// Of these, those that are counted as lost.
    counted: u32,
    /// Of these, those that are not accounted for.
    deferred: PerLayer<u32>,
}

/// The counts of E1 and E2 frames are modulo 256.
const COUNTS: u64 = 256;

/// Tells loss from layers withheld, frame by frame in play-out order.
///
/// The sequence number counts every frame, the header counts E1 and E2 frames besides, so the
/// number of missing frames of each layer is exact up to 255 frames; beyond, the counters are
/// completed by the share the layer has in a GOP. A missing frame is judged by the level in force
/// in its GOP. Where a GOP start is itself missing the boundary is not known: then the lower of
/// the two levels decides, so that what the network withheld is never called lost.
///
/// Of alternative layers, one picture of each time passes. Where the level changes within a gap, the number of lost
/// pictures is exact all the same: as many as there are times between the two frames.
#[derive(Clone, Debug)]
pub(crate) struct GapCounter {
    last: Option<Mark>,
    gop_level: Level,
    /// Layers are alternative.
    alternative: bool,
    pending: Pending,
    /// Level that the source sends in this GOP.
    source: Option<Level>,
    /// Frames of a GOP, and E1, E2 and sound frames among them.
    gop: (u64, u64, u64, u64),
    /// How long a GOP lasts.
    lasts: Span,
    /// Gaps in which the counters contradict the sequence numbers.
    contradictions: u64,
}

impl GapCounter {
    pub fn new(spec: &FlowSpec) -> GapCounter {
        let n = u64::from(spec.gop_n.max(1));
        let anchors = n.div_ceil(u64::from(spec.gop_m.max(1)));
        // The other frames are sound and data, in the base layer.
        let pictures = match &spec.picture_rate {
            Some(rate) => rate.frames_in(spec.gop()).clamp(anchors, n),
            None => n,
        };
        let alternative = !spec.composition.is_additive();
        let PerLayer { base, e1, e2 } = spec.layers;
        let none = LayerRate::default();
        let (e1, e2, sound) = match alternative {
            true => renditions(spec, n),
            // Layers that the flow does not have miss nothing, however long the gap.
            false if base != none && [e1, e2] == [none; 2] => (0, 0, n - pictures),
            false => (anchors - 1, pictures - anchors, n - pictures),
        };
        GapCounter {
            last: None,
            gop_level: Level::BASE,
            alternative,
            pending: Pending::default(),
            source: None,
            gop: (n, e1, e2, sound),
            lasts: spec.gop(),
            contradictions: 0,
        }
    }

    /// The GOPs of the flow have another form from here on.
    pub fn set_spec(&mut self, spec: &FlowSpec) {
        let new = GapCounter::new(spec);
        (self.gop, self.lasts, self.alternative) = (new.gop, new.lasts, new.alternative);
    }

    /// The last frame accounted for.
    pub fn last(&self) -> Option<Serial> {
        self.last.map(|mark| mark.seq)
    }

    /// What is known of the last frame accounted for.
    pub fn newest(&self) -> Option<Mark> {
        self.last
    }

    /// What is missing between the last frame accounted for and `next`, if no other frame arrives.
    pub fn gap_before(&self, next: Mark) -> Gap {
        self.clone().advance(next)
    }

    /// Level in force in the current GOP.
    pub fn gop_level(&self) -> Level {
        self.gop_level
    }

    /// The frames that come as long as the level does not change.
    pub fn expected(&self) -> Expected {
        let (n, e1, e2, sound) = self.gop;
        let pictures = PerLayer {
            base: n.saturating_sub(e1 + e2 + sound),
            e1,
            e2,
        };
        let mut frames = PerLayer::default();
        for layer in Layer::ALL {
            let passes = match self.alternative {
                true => layer.level() == self.gop_level,
                false => self.gop_level.includes(layer),
            };
            frames[layer] = if passes { pictures[layer] } else { 0 };
        }
        frames.base += sound;
        Expected {
            gop: self.lasts,
            frames,
        }
    }

    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// Forgets what came before: the next frame opens a new count.
    pub fn reset(&mut self) {
        self.last = None;
    }

    /// Begins with a frame that did not come whole: it is missing, as those after it.
    fn begin_at(&mut self, first: Mark) {
        (self.gop_level, self.source) = (first.level, first.source);
        self.last = Some(first.before());
    }

    /// Frames from `first` on and before `next`, none of which came whole; nothing is accounted for.
    pub fn missing_before(&self, first: Mark, next: Mark) -> Gap {
        let mut counter = self.clone();
        counter.begin_at(first);
        counter.advance(next)
    }

    /// Accounts for everything between the last frame and this one, which must come after it.
    pub fn advance(&mut self, mark: Mark) -> Gap {
        let Some(last) = self.last.replace(mark) else {
            self.pending = Pending::default();
            (self.gop_level, self.source) = (mark.level, mark.source);
            return Gap::default();
        };
        let missing = self.missing(last, mark.end(), Some(mark.layer));
        let sound = self.sound(last.sound, mark.sound, missing.base);
        let old = (self.gop_level, self.source);
        let new = (mark.level, mark.source);
        // A fast start that ends before it has caught up leaves out what is behind its last frame, up to the next GOP.
        let unsent = last.again && !mark.again && mark.gop_start;
        if self.alternative && !unsent {
            return self.choose(missing, sound, mark);
        }
        if mark.gop_start || missing.base > 0 || self.alternative {
            self.pending = Pending::default();
            (self.gop_level, self.source) = new;
        }
        let gap = match unsent {
            true => Gap {
                withheld: missing,
                by_switch: missing,
                alternative: self.alternative,
                ..Gap::default()
            },
            false => judge(missing, old, new),
        };
        Gap { sound, ..gap }
    }

    /// Frames of sound between two frames, of which `base` frames of the base layer are missing: exact up to seven, and
    /// beyond nearest to the usual share.
    fn sound(&self, last: Sound, next: Sound, base: u32) -> u32 {
        let own = u8::from(next.is_sound());
        let counted = next.count().wrapping_sub(last.count()).wrapping_sub(own) % Sound::MODULUS;
        if base < u32::from(Sound::MODULUS) {
            return u32::from(counted).min(base);
        }
        let (n, e1, e2, sound) = self.gop;
        let in_base = (n - (e1 + e2).min(n)).max(1);
        let estimate = u64::from(base) * sound / in_base;
        complete(counted, Sound::MODULUS.into(), estimate).min(base)
    }

    /// Accounts for everything after the last frame of a flow that ends at `end`, `level` being
    /// the level granted now.
    ///
    /// Where no frame of this count ever came, those of `here`, the frames that the flow was owed
    /// since the receiver came, are missing: all of the flow if it has no more, and then exactly.
    pub fn finish(&mut self, end: FlowEnd, level: Level, here: u64) -> Gap {
        if self.alternative {
            let level = self.last.map_or(level, |_| self.gop_level);
            let (missing, sound) = match self.last.take() {
                Some(last) if end.seq.diff(last.seq) >= 0 => {
                    let missing = self.missing(last, end, None);
                    // No frame behind them tells which of them are sound.
                    let (n, e1, e2, sound) = self.gop;
                    let in_base = n.saturating_sub(e1 + e2).max(1);
                    let sound = u64::from(missing.base) * sound / in_base;
                    (missing, u32::try_from(sound).unwrap_or(u32::MAX))
                }
                _ => (self.unseen(end, here), 0),
            };
            let sound = sound.min(missing.base);
            let mut withheld = missing;
            withheld.base -= sound;
            add(&mut withheld, self.pending.deferred);
            let mut gap = Gap {
                withheld,
                sound,
                alternative: true,
                ..Gap::default()
            };
            if let Some(layer) = layer_of(level) {
                gap.lost[layer] = std::mem::take(&mut gap.withheld[layer]);
            }
            gap.lost.base += sound;
            return gap;
        }
        match self.last.take() {
            Some(last) if end.seq.diff(last.seq) >= 0 => {
                let missing = self.missing(last, end, None);
                judge(missing, (self.gop_level, self.source), (level, None))
            }
            _ => judge(self.unseen(end, here), (level, None), (level, None)),
        }
    }

    /// The last `here` frames of a flow that ends at `end`.
    fn unseen(&mut self, end: FlowEnd, here: u64) -> PerLayer<u32> {
        let all = u64::from(end.seq.0) + 1;
        if all > here {
            let (n, e1_share, e2_share, _) = self.gop;
            // It is served from the first GOP on that starts after it came.
            let here = u32::try_from(here / n * n).unwrap_or(u32::MAX);
            let share = |of: u64| u32::try_from(u64::from(here) * of / n).unwrap_or(u32::MAX);
            return split(here, share(e1_share), share(e2_share));
        }
        let before = Mark {
            seq: Serial(u32::MAX),
            layer: Layer::Base,
            gop_start: false,
            e1_count: 0,
            e2_count: 0,
            sound: Sound::default(),
            level: Level::BASE,
            source: None,
            again: false,
        };
        self.missing(before, end, None)
    }

    /// Tells lost pictures from withheld ones where layers are alternative. Between two pictures as many are lost as there
    /// are times between them, whatever the level was there: of one time, that of the lowest layer comes first.
    fn choose(&mut self, missing: PerLayer<u32>, sound: u32, mark: Mark) -> Gap {
        let (old, new) = (self.gop_level, mark.level);
        let sound = sound.min(missing.base);
        let mut pictures = missing;
        pictures.base -= sound;
        let pending = &mut self.pending;
        add(&mut pending.since, pictures);
        add(&mut pending.deferred, pictures);
        let mut gap = Gap {
            sound,
            alternative: true,
            ..Gap::default()
        };
        gap.lost.base = sound;
        let is_sound = mark.sound.is_sound();
        if is_sound && old != new {
            // The next picture tells where the level changed.
            return gap;
        }
        let (level, aside) = match mark.gop_start && !is_sound {
            true => (old, old < new),
            false => (new, new > old),
        };
        gap.withheld = std::mem::take(&mut pending.deferred);
        if let Some(layer) = layer_of(level) {
            let lost = pending.since[layer].saturating_sub(u32::from(aside));
            let lost = lost
                .saturating_sub(pending.counted)
                .min(gap.withheld[layer]);
            gap.withheld[layer] -= lost;
            gap.lost[layer] += lost;
            pending.counted += lost;
        }
        if !is_sound {
            *pending = Pending::default();
            (self.gop_level, self.source) = (new, mark.source);
        }
        gap
    }

    /// The frames after `last` and up to `end`, without the one of layer `here` that is there.
    fn missing(&mut self, last: Mark, end: FlowEnd, here: Option<Layer>) -> PerLayer<u32> {
        let total = u32::try_from(end.seq.diff(last.seq))
            .unwrap_or(0)
            .saturating_sub(u32::from(here.is_some()));
        let counted = |now: u8, then: u8, own: Layer| {
            now.wrapping_sub(then)
                .wrapping_sub(u8::from(here == Some(own)))
        };
        let (n, e1_share, e2_share, _) = self.gop;
        let e1 = complete(
            counted(end.e1_count, last.e1_count, Layer::E1),
            COUNTS,
            u64::from(total) * e1_share / n,
        );
        let e2 = complete(
            counted(end.e2_count, last.e2_count, Layer::E2),
            COUNTS,
            u64::from(total) * e2_share / n,
        );
        if total <= 255 {
            // Exact, or else the sender miscounts.
            let (e1, e2) = (e1 & 255, e2 & 255);
            if e1 + e2 > total {
                self.contradictions += 1;
            }
            return split(total, e1, e2);
        }
        split(total, e1, e2)
    }
}

/// Tells lost frames from withheld ones by the level of the GOP, `old`, or where a GOP start is
/// among them by the lower of it and the one after. Each comes with the level that the source sends.
fn judge(missing: PerLayer<u32>, old: (Level, Option<Level>), new: (Level, Option<Level>)) -> Gap {
    let (level, source) = match missing.base > 0 && new.0 < old.0 {
        true => new,
        false => old,
    };
    let mut gap = Gap::default();
    for (layer, &count) in missing.iter() {
        if level.includes(layer) {
            gap.lost[layer] = count;
            continue;
        }
        gap.withheld[layer] = count;
        match source {
            Some(source) if source.includes(layer) => gap.by_switch[layer] = count,
            Some(_) => gap.by_source[layer] = count,
            None => {}
        }
    }
    gap
}

/// The layer that is a level of alternative ones.
fn layer_of(level: Level) -> Option<Layer> {
    Layer::ALL.into_iter().find(|layer| layer.level() == level)
}

fn add(to: &mut PerLayer<u32>, more: PerLayer<u32>) {
    for layer in Layer::ALL {
        to[layer] = to[layer].saturating_add(more[layer]);
    }
}

/// Frames of E1, of E2 and of sound among the `n` of a GOP of alternative layers, of which each has all pictures.
fn renditions(spec: &FlowSpec, n: u64) -> (u64, u64, u64) {
    let top = spec.top_level();
    let layers = u64::from(top.get()) + 1;
    let each = match &spec.picture_rate {
        Some(rate) => rate.frames_in(spec.gop()).clamp(1, (n / layers).max(1)),
        None => n / layers,
    };
    let of = |layer| each * u64::from(top.includes(layer));
    (
        of(Layer::E1),
        of(Layer::E2),
        n.saturating_sub(each * layers),
    )
}

/// At most `total` frames, enhancement layers first.
fn split(total: u32, e1: u32, e2: u32) -> PerLayer<u32> {
    let e1 = e1.min(total);
    let e2 = e2.min(total - e1);
    PerLayer {
        base: total - e1 - e2,
        e1,
        e2,
    }
}

/// The number nearest to `estimate` that is `low` modulo `modulus`.
fn complete(low: u8, modulus: u64, estimate: u64) -> u32 {
    let low = u64::from(low);
    let below = estimate / modulus * modulus + low;
    let nearest = [below.saturating_sub(modulus), below, below + modulus]
        .into_iter()
        .filter(|n| n % modulus == low)
        .min_by_key(|n| n.abs_diff(estimate))
        .unwrap_or(below);
    u32::try_from(nearest).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// IBBPBBPBBPBB in coded order.
    const GOP: &[u8; 12] = b"IPBBPBBPBBBB";

    fn marks(gops: usize, levels: &[Level], first: u32) -> Vec<(Mark, bool)> {
        let (mut e1, mut e2) = (first as u8, (first >> 3) as u8);
        let mut out = Vec::new();
        for gop in 0..gops {
            let level = levels[gop % levels.len()];
            for (i, picture) in GOP.iter().enumerate() {
                let layer = match picture {
                    b'I' => Layer::Base,
                    b'P' => Layer::E1,
                    _ => Layer::E2,
                };
                e1 = e1.wrapping_add(u8::from(layer == Layer::E1));
                e2 = e2.wrapping_add(u8::from(layer == Layer::E2));
                let mark = Mark {
                    seq: Serial(first.wrapping_add((gop * 12 + i) as u32)),
                    layer,
                    gop_start: i == 0,
                    e1_count: e1,
                    e2_count: e2,
                    sound: Sound::default(),
                    level,
                    source: Some(Level::E1),
                    again: false,
                };
                out.push((mark, level.includes(layer)));
            }
        }
        out
    }

    #[test]
    fn a_flow_without_enhancement_layers_misses_base_frames_alone_in_gaps_of_any_length() {
        let mut spec = FlowSpec::default();
        spec.layers.base.mean = layercast_core::CellRate(480);
        let mark = |seq| Mark {
            seq: Serial(seq),
            layer: Layer::Base,
            gop_start: seq == 0,
            e1_count: 0,
            e2_count: 0,
            sound: Sound::default(),
            level: Level::FULL,
            source: None,
            again: false,
        };
        for missing in [1, 255, 256, 355, 2_000] {
            let mut counter = GapCounter::new(&spec);
            counter.advance(mark(0));
            let gap = counter.advance(mark(missing + 1));
            assert_eq!(gap.lost.base, missing, "{gap:?}");
            assert_eq!(gap.withheld, PerLayer::default());
        }
    }

    fn sum(into: &mut PerLayer<u32>, of: PerLayer<u32>) {
        for (layer, count) in of.iter() {
            into[layer] += count;
        }
    }

    #[test]
    fn a_gap_of_many_gops_is_completed_by_the_shape_of_the_gop() {
        let all = marks(201, &[Level::FULL], 7);
        let mut counter = GapCounter::new(&FlowSpec::default());
        counter.advance(all[0].0);
        let gap = counter.advance(all[2_400].0);
        let lost = PerLayer {
            base: 199,
            e1: 600,
            e2: 1_600,
        };
        assert_eq!((gap.lost, gap.withheld), (lost, PerLayer::default()));
    }

    #[test]
    fn gops_whose_starts_never_come_whole_are_missing_from_the_first_one_on() {
        let all = marks(4, &[Level::E1], 250);
        let [first, next] = [all[0].0, all[36].0];
        let lost = PerLayer {
            base: 3,
            e1: 9,
            e2: 0,
        };
        let mut counter = GapCounter::new(&FlowSpec::default());
        assert_eq!(counter.missing_before(first, next).lost, lost);
        counter.begin_at(first);
        let gap = counter.advance(next);
        assert_eq!((gap.lost, gap.withheld.e2), (lost, 24));
        assert_eq!((gap.by_source.e2, gap.by_switch.e2), (24, 0));
        assert_eq!(counter.contradictions(), 0);
        assert_eq!(counter.advance(all[37].0), Gap::default());
    }

    #[test]
    fn counters_that_contradict_the_sequence_never_exceed_it() {
        let mut counter = GapCounter::new(&FlowSpec::default());
        let mut mark = marks(1, &[Level::FULL], 0)[0].0;
        counter.advance(mark);
        mark.seq = mark.seq.plus(3);
        mark.e1_count = mark.e1_count.wrapping_add(200);
        let gap = counter.advance(mark);
        assert_eq!(gap.lost.base + gap.lost.e1 + gap.lost.e2, 2);
        assert_eq!(counter.contradictions(), 1);
    }

    #[test]
    fn a_flow_of_which_nothing_came_is_missing_from_its_beginning_or_from_ours() {
        let end = marks(40, &[Level::FULL], 0)[479].0.end();
        // The counters of marks() begin at zero too.
        let all = PerLayer {
            base: 40,
            e1: 120,
            e2: 320,
        };
        for here in [480, 5_000] {
            let gap = GapCounter::new(&FlowSpec::default()).finish(end, Level::FULL, here);
            assert_eq!(gap.lost, all, "{here}");
        }
        let gap = GapCounter::new(&FlowSpec::default()).finish(end, Level::BASE, 48);
        assert_eq!(
            (gap.lost.base, gap.withheld.e1, gap.withheld.e2),
            (4, 12, 32)
        );
        // A source that started again and was never heard again.
        let mut counter = GapCounter::new(&FlowSpec::default());
        counter.advance(marks(1, &[Level::FULL], 5_000)[0].0);
        assert_eq!(counter.finish(end, Level::FULL, 480).lost, all);
    }

    /// Frames of sound and pictures, one mark each; `is_sound` tells which.
    fn with_sound(is_sound: &[bool]) -> Vec<Mark> {
        let mut count = 0_u8;
        let marks = is_sound.iter().enumerate().map(|(n, &is_sound)| {
            count = count.wrapping_add(u8::from(is_sound));
            Mark {
                seq: Serial(n as u32),
                layer: Layer::Base,
                gop_start: n == 0,
                e1_count: 0,
                e2_count: 0,
                sound: Sound::new(is_sound, count),
                level: Level::FULL,
                source: Some(Level::FULL),
                again: false,
            }
        });
        marks.collect()
    }

    #[test]
    fn a_long_gap_has_the_usual_share_of_sound() {
        // As many frames of sound as pictures, all of them in the base layer.
        let spec = FlowSpec {
            frame_rate: layercast_core::FrameRate { num: 50, den: 1 },
            picture_rate: Some(layercast_core::FrameRate { num: 25, den: 1 }),
            gop_n: 20,
            gop_m: 10,
            ..FlowSpec::default()
        };
        let is_sound: Vec<bool> = (0..400).map(|n| n % 2 == 1).collect();
        let all = with_sound(&is_sound);
        let mut counter = GapCounter::new(&spec);
        counter.gop = (20, 0, 0, 10);
        counter.advance(all[0]);
        assert_eq!(counter.advance(all[301]).of(Chain::Sound).0.base, 150);
        assert_eq!(counter.advance(all[322]).of(Chain::Pictures).0.base, 10);
    }

    /// A picture of each of three alternative layers at each time, and sound every second time.
    fn renditions_of(times: usize) -> Vec<Mark> {
        let (mut e1, mut e2, mut sound, mut seq) = (0_u8, 0_u8, 0_u8, 0);
        let mut all = Vec::new();
        for time in 0..times {
            for place in 0..4 {
                let is_sound = place == 3;
                let layer = Layer::ALL[place % 3];
                if is_sound && time % 2 == 1 {
                    continue;
                }
                e1 = e1.wrapping_add(u8::from(layer == Layer::E1));
                e2 = e2.wrapping_add(u8::from(layer == Layer::E2));
                sound = sound.wrapping_add(u8::from(is_sound));
                all.push(Mark {
                    seq: Serial(seq),
                    layer,
                    gop_start: time % 8 == 0 && !is_sound,
                    e1_count: e1,
                    e2_count: e2,
                    sound: Sound::new(is_sound, sound),
                    level: Level::BASE,
                    source: None,
                    again: false,
                });
                seq += 1;
            }
        }
        all
    }

    fn alternative() -> FlowSpec {
        let mut spec = FlowSpec {
            composition: layercast_core::Composition::Alternative,
            frame_rate: layercast_core::FrameRate { num: 70, den: 1 },
            picture_rate: Some(layercast_core::FrameRate { num: 20, den: 1 }),
            gop_n: 28,
            gop_m: 1,
            ..FlowSpec::default()
        };
        for (layer, mean) in [(Layer::Base, 100), (Layer::E1, 300), (Layer::E2, 900)] {
            spec.layers[layer].mean = layercast_core::CellRate(mean);
        }
        spec
    }

    #[test]
    fn a_gop_of_alternative_layers_has_all_pictures_in_each() {
        assert_eq!(GapCounter::new(&alternative()).gop, (28, 8, 8, 4));
    }

    proptest! {
        #[test]
        fn of_alternative_layers_a_picture_of_each_time_passes_or_is_lost(
            levels in prop::collection::vec(0u8..=2, 1..12),
            drops in prop::collection::vec(prop::bool::weighted(0.3), 7 * 4 * 12),
        ) {
            let mut counter = GapCounter::new(&alternative());
            let (mut lost, mut sound) = (0, 0);
            let (mut want_lost, mut want_sound) = (0, 0);
            let (mut pending_lost, mut pending_sound) = (0, 0);
            for (n, mut mark) in renditions_of(8 * levels.len()).into_iter().enumerate() {
                // Eight times and four frames of sound are a group.
                mark.level = Level::new(levels[n / 28]).unwrap();
                let is_sound = mark.sound.is_sound();
                if !is_sound && mark.layer.level() != mark.level {
                    continue;
                }
                // The first one is there, and a gap has no more than seven frames of the base layer.
                if n > 2 && drops[n % drops.len()] && pending_lost + pending_sound < 4 {
                    match is_sound {
                        true => pending_sound += 1,
                        false => pending_lost += 1,
                    }
                    continue;
                }
                let gap = counter.advance(mark);
                let all_lost = |it: PerLayer<u32>| it.base + it.e1 + it.e2;
                lost += all_lost(gap.of(Chain::Pictures).0);
                sound += all_lost(gap.of(Chain::Sound).0);
                // What is withheld is missing nowhere.
                prop_assert_eq!(gap.of(Chain::Pictures).0, gap.of(Chain::Pictures).1);
                want_lost += std::mem::take(&mut pending_lost);
                want_sound += std::mem::take(&mut pending_sound);
                // Where the level changed is known with the next picture.
                prop_assert_eq!(sound, want_sound, "{:?}", mark);
                prop_assert!(is_sound || lost == want_lost, "{:?}", mark);
            }
        }

        #[test]
        fn missing_sound_and_missing_pictures_are_told_apart(
            is_sound in prop::collection::vec(any::<bool>(), 2..80),
            drops in prop::collection::vec(prop::bool::weighted(0.4), 80),
        ) {
            let all = with_sound(&is_sound);
            let mut counter = GapCounter::new(&FlowSpec::default());
            let mut pending = [0, 0];
            for (n, mark) in all.into_iter().enumerate() {
                // Up to seven in a row.
                if n > 0 && drops[n] && pending[0] + pending[1] < 7 {
                    pending[usize::from(mark.sound.is_sound())] += 1;
                    continue;
                }
                let gap = counter.advance(mark);
                let [pictures, sound] = std::mem::take(&mut pending);
                prop_assert_eq!(gap.of(Chain::Pictures).0.base, pictures);
                prop_assert_eq!(gap.of(Chain::Sound).0.base, sound);
            }
        }

        #[test]
        fn withheld_and_lost_are_told_apart_exactly(
            levels in prop::collection::vec((0u8..=2).prop_map(|n| Level::new(n).unwrap()), 1..40),
            first in any::<u32>(),
            drops in prop::collection::vec(prop::bool::weighted(0.2), 12 * 40),
        ) {
            let all = marks(levels.len(), &levels, first);
            let mut counter = GapCounter::new(&FlowSpec::default());
            let (mut lost, mut withheld) = (PerLayer::default(), PerLayer::default());
            let (mut want_lost, mut want_withheld) = (PerLayer::default(), PerLayer::default());
            let (mut pending_lost, mut pending_withheld) = (want_lost, want_withheld);
            for (i, (mark, sent)) in all.iter().enumerate() {
                // A GOP start that is lost where the level changes leaves the boundary unknown.
                if !sent {
                    pending_withheld[mark.layer] += 1;
                } else if drops[i] && !mark.gop_start {
                    pending_lost[mark.layer] += 1;
                } else {
                    let gap = counter.advance(*mark);
                    sum(&mut lost, gap.lost);
                    sum(&mut withheld, gap.withheld);
                    sum(&mut want_lost, std::mem::take(&mut pending_lost));
                    sum(&mut want_withheld, std::mem::take(&mut pending_withheld));
                }
            }
            prop_assert_eq!(lost, want_lost);
            prop_assert_eq!(withheld, want_withheld);
        }

        #[test]
        fn the_tail_of_a_flow_is_counted_exactly(
            level in (0u8..=2).prop_map(|n| Level::new(n).unwrap()),
            first in any::<u32>(),
            last in 0usize..12 * 20,
        ) {
            let all = marks(20, &[level], first);
            let mut counter = GapCounter::new(&FlowSpec::default());
            counter.advance(all[last].0);
            let gap = counter.finish(all[12 * 20 - 1].0.end(), level, 0);
            let (mut lost, mut withheld) = (PerLayer::default(), PerLayer::default());
            for (mark, sent) in &all[last + 1..] {
                let count = if *sent { &mut lost } else { &mut withheld };
                count[mark.layer] += 1;
            }
            prop_assert_eq!((gap.lost, gap.withheld), (lost, withheld));
        }

        #[test]
        fn base_losses_are_exact_at_any_level(
            level in (0u8..=2).prop_map(|n| Level::new(n).unwrap()),
            first in any::<u32>(),
            drops in prop::collection::vec(prop::bool::weighted(0.3), 12 * 20),
        ) {
            let all = marks(20, &[level], first);
            let mut counter = GapCounter::new(&FlowSpec::default());
            let (mut lost, mut expected, mut pending) = (0, 0, 0);
            for (i, (mark, sent)) in all.iter().enumerate() {
                if *sent && (i == 0 || !drops[i]) {
                    lost += counter.advance(*mark).lost.base;
                    expected += std::mem::take(&mut pending);
                } else if *sent && mark.layer == Layer::Base {
                    pending += 1;
                }
            }
            prop_assert_eq!(lost, expected);
        }
    }
}
