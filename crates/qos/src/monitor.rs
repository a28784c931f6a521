use layercast_core::{Cause, CellRate, FlowId, Layer, Level, PerLayer, Span, Time};

use crate::{DelayHistogram, DelayMetric, LayerMetric, LossCount, QosMetric, SignedSpan};

/// Watches one received flow (specs/mets.md 2.7).
#[derive(Clone, Debug)]
pub struct FlowMonitor {
    flow: FlowId,
    window_start: Time,
    window: Window,
    totals: PerLayer<LayerCounts>,
    lost_unknown: u64,
    delay_sum_ps: i128,
    losses: Vec<LossCount>,
    delays: DelayHistogram,
    /// Delay of the last frame, and the RFC 3550 jitter, in picoseconds.
    last_delay: Option<i64>,
    jitter: f64,
    unsynchronised: bool,
    congested: bool,
    playout: SignedSpan,
    level: Level,
}

/// What was counted since the start, all layers together.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sums {
    pub frames: u64,
    pub cells: u64,
    pub lost: u64,
    pub late: u64,
    pub delay_ps: i128,
}

#[derive(Clone, Copy, Default, Debug)]
struct LayerCounts {
    frames: u64,
    bytes: u64,
    cells: u64,
    lost: u64,
    late: u64,
    withheld: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Window {
    layers: PerLayer<LayerCounts>,
    lost_unknown: u64,
    missed: u64,
    delay: Welford,
    spread: u64,
    congested_eras: u32,
}

/// Running mean and variance (Welford 1962), in picoseconds.
#[derive(Clone, Copy, Default, Debug)]
struct Welford {
    n: u64,
    mean: f64,
    m2: f64,
    min: i64,
    max: i64,
}

impl FlowMonitor {
    /// A monitor whose first window starts now.
    pub fn new(flow: FlowId, now: Time) -> FlowMonitor {
        FlowMonitor {
            flow,
            window_start: now,
            window: Window::default(),
            totals: PerLayer::default(),
            lost_unknown: 0,
            delay_sum_ps: 0,
            losses: Vec::new(),
            delays: DelayHistogram::default(),
            last_delay: None,
            jitter: 0.0,
            unsynchronised: false,
            congested: false,
            playout: SignedSpan::ZERO,
            level: Level::BASE,
        }
    }

    /// Watches `flow` from now on, which takes the place of the one before: counts continue.
    pub fn follow(&mut self, flow: FlowId) {
        self.flow = flow;
    }

    /// A frame of `bytes` that took `cells` on the wire arrived whole after `delay`.
    pub fn on_frame(&mut self, layer: Layer, bytes: u32, cells: u32, delay: SignedSpan) {
        self.on_repeated(layer, bytes, cells);
        self.window.delay.add(delay.as_ps());
        self.delay_sum_ps += i128::from(delay.as_ps());
        self.delays.record(delay.clamped());
        self.unsynchronised |= delay.is_negative();
        if let Some(last) = self.last_delay.replace(delay.as_ps()) {
            let difference = delay.as_ps().abs_diff(last);
            self.jitter += (difference as f64 - self.jitter) / 16.0;
            self.window.spread = self.window.spread.max(difference);
        }
    }

    /// A frame that is sent again for this receiver: its delay is not that of the path.
    pub fn on_repeated(&mut self, layer: Layer, bytes: u32, cells: u32) {
        self.count(layer, |counts| {
            counts.frames += 1;
            counts.bytes += u64::from(bytes);
            counts.cells += u64::from(cells);
        });
    }

    /// `count` frames were lost; the layer of a gap is often unknown.
    pub fn on_lost(&mut self, layer: Option<Layer>, count: u64, cause: Cause) {
        match layer {
            Some(layer) => self.count(layer, |counts| counts.lost += count),
            None => {
                self.window.lost_unknown += count;
                self.lost_unknown += count;
            }
        }
        let known = |loss: &&mut LossCount| loss.layer == layer && loss.cause == cause;
        match self.losses.iter_mut().find(known) {
            Some(loss) => loss.count += count,
            None => self.losses.push(LossCount {
                layer,
                cause,
                count,
            }),
        }
    }

    /// A frame came after its deadline.
    pub fn on_late(&mut self, layer: Layer) {
        self.count(layer, |counts| counts.late += 1);
    }

    /// `count` frames are missing because their layer was not granted.
    pub fn on_withheld(&mut self, layer: Layer, count: u64) {
        self.count(layer, |counts| counts.withheld += count);
    }

    /// The scheduler missed `count` deadlines.
    pub fn on_missed(&mut self, count: u64) {
        self.window.missed += count;
    }

    /// A cell or packet carried the congestion bit.
    pub fn on_congestion(&mut self) {
        self.congested = true;
    }

    /// Whether the congestion bit was seen since the last call; the adapter asks once per era.
    pub fn take_congestion(&mut self) -> bool {
        let congested = std::mem::take(&mut self.congested);
        self.window.congested_eras += u32::from(congested);
        congested
    }

    /// The playout delay that the jitter filter uses.
    pub fn set_playout(&mut self, playout: SignedSpan) {
        self.playout = playout;
    }

    /// The level in force.
    pub fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// Source and receiver share no clock: absolute delays mean nothing.
    pub fn set_unsynchronised(&mut self) {
        self.unsynchronised = true;
    }

    /// From now on delays are those of a common clock; those before are forgotten.
    pub fn set_synchronised(&mut self) {
        if self.unsynchronised {
            self.unsynchronised = false;
            self.delays = DelayHistogram::default();
            self.last_delay = None;
        }
    }

    /// The metric of the window that ends now, and starts the next.
    pub fn take_metric(&mut self, now: Time) -> QosMetric {
        let window = std::mem::take(&mut self.window);
        let span = now.since(self.window_start);
        self.window_start = now;
        let layers = PerLayer {
            base: window.layers.base.metric(span),
            e1: window.layers.e1.metric(span),
            e2: window.layers.e2.metric(span),
        };
        let sum =
            |field: fn(&LayerMetric) -> u64| layers.iter().map(|(_, m)| field(m)).sum::<u64>();
        let cells = window.layers.iter().map(|(_, counts)| counts.cells).sum();
        QosMetric {
            flow: self.flow,
            at: now,
            window: span,
            frames: sum(|m| m.frames),
            bytes: sum(|m| m.bytes),
            rate: CellRate(per_second(cells, span) as u32),
            lost: sum(|m| m.lost) + window.lost_unknown,
            late: sum(|m| m.late),
            withheld: sum(|m| m.withheld),
            missed: window.missed,
            delay: window.delay.metric(),
            jitter: self.jitter(),
            spread: Span::from_ps(window.spread),
            playout: self.playout,
            level: self.level,
            congested_eras: window.congested_eras,
            unsynchronised: self.unsynchronised,
            layers,
        }
    }

    /// What a layer carried from the start up to now, the window in progress included; rates are
    /// taken over `elapsed`.
    pub fn total(&self, layer: Layer, elapsed: Span) -> LayerMetric {
        self.totals[layer].metric(elapsed)
    }

    /// Frames lost since the start, by layer and cause.
    pub fn losses(&self) -> &[LossCount] {
        &self.losses
    }

    /// The delays of all frames since the start.
    pub fn delays(&self) -> &DelayHistogram {
        &self.delays
    }

    /// Sums from the start up to now.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums {
            lost: self.lost_unknown,
            delay_ps: self.delay_sum_ps,
            ..Sums::default()
        };
        for (_, counts) in self.totals.iter() {
            sums.frames += counts.frames;
            sums.cells += counts.cells;
            sums.lost += counts.lost;
            sums.late += counts.late;
        }
        sums
    }

    /// Smoothed difference of consecutive delays (RFC 3550, section 6.4.1).
    pub fn jitter(&self) -> Span {
        Span::from_ps(self.jitter as u64)
    }

    fn count(&mut self, layer: Layer, change: impl Fn(&mut LayerCounts)) {
        change(&mut self.window.layers[layer]);
        change(&mut self.totals[layer]);
    }
}

impl LayerCounts {
    fn metric(&self, span: Span) -> LayerMetric {
        LayerMetric {
            frames: self.frames,
            bytes: self.bytes,
            rate: CellRate(per_second(self.cells, span) as u32),
            frames_per_s: per_second(self.frames, span),
            lost: self.lost,
            late: self.late,
            withheld: self.withheld,
        }
    }
}

impl Welford {
    fn add(&mut self, ps: i64) {
        let x = ps as f64;
        self.n += 1;
        let off = x - self.mean;
        self.mean += off / self.n as f64;
        self.m2 += off * (x - self.mean);
        let first = self.n == 1;
        self.min = if first { ps } else { self.min.min(ps) };
        self.max = if first { ps } else { self.max.max(ps) };
    }

    fn metric(&self) -> Option<DelayMetric> {
        let sd = if self.n > 1 {
            (self.m2 / (self.n - 1) as f64).sqrt()
        } else {
            0.0
        };
        (self.n > 0).then(|| DelayMetric {
            min: SignedSpan::from_ps(self.min),
            mean: SignedSpan::from_ps(self.mean.round() as i64),
            max: SignedSpan::from_ps(self.max),
            sd: Span::from_ps(sd.round() as u64),
        })
    }
}

fn per_second(count: u64, span: Span) -> f64 {
    if span == Span::ZERO {
        return 0.0;
    }
    count as f64 / span.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> SignedSpan {
        SignedSpan::from_ps(ms * 1_000_000_000)
    }

    fn monitor() -> FlowMonitor {
        FlowMonitor::new(FlowId(7), Time::ZERO)
    }

    #[test]
    fn a_window_reports_rates_and_delays_and_starts_anew() {
        let mut monitor = monitor();
        for (i, delay) in [2, 4, 6, 8].into_iter().enumerate() {
            let layer = if i == 0 { Layer::Base } else { Layer::E2 };
            monitor.on_frame(layer, 1_000, 21, ms(delay));
        }
        monitor.on_missed(2);
        let now = Time::ZERO + Span::from_ms(500);
        let metric = monitor.take_metric(now);
        assert_eq!((metric.frames, metric.bytes, metric.missed), (4, 4_000, 2));
        assert_eq!(metric.rate, CellRate(168));
        assert_eq!(metric.layers.e2.frames_per_s, 6.0);
        let delay = metric.delay.unwrap();
        assert_eq!((delay.min, delay.mean, delay.max), (ms(2), ms(5), ms(8)));
        assert!((delay.sd.as_ms_f64() - (20.0f64 / 3.0).sqrt()).abs() < 1e-6);
        assert_eq!(metric.spread, Span::from_ms(2));
        let empty = monitor.take_metric(now + Span::from_ms(500));
        assert_eq!((empty.frames, empty.delay, empty.missed), (0, None, 0));
        assert_eq!(empty.window, Span::from_ms(500));
        assert_eq!(monitor.total(Layer::E2, Span::from_secs(1)).frames, 3);
    }

    #[test]
    fn jitter_follows_rfc_3550() {
        let mut monitor = monitor();
        for delay in [10, 26, 10] {
            monitor.on_frame(Layer::Base, 1, 1, ms(delay));
        }
        // 16/16 = 1, then 1 + (16 - 1)/16.
        let jitter = monitor.take_metric(Time::ZERO).jitter;
        assert_eq!(jitter, Span::from_us(1_937) + Span::from_ns(500));
    }

    #[test]
    fn losses_are_kept_by_layer_and_cause() {
        let mut monitor = monitor();
        monitor.on_lost(Some(Layer::E1), 2, Cause::Crc);
        monitor.on_lost(Some(Layer::E1), 1, Cause::Crc);
        monitor.on_lost(None, 4, Cause::Gap);
        monitor.on_late(Layer::E2);
        monitor.on_withheld(Layer::E2, 9);
        let metric = monitor.take_metric(Time::ZERO);
        assert_eq!((metric.lost, metric.late, metric.withheld), (7, 1, 9));
        let counts: Vec<_> = monitor
            .losses()
            .iter()
            .map(|l| (l.cause, l.count))
            .collect();
        assert_eq!(counts, [(Cause::Crc, 3), (Cause::Gap, 4)]);
    }

    #[test]
    fn the_congestion_bit_is_read_once() {
        let mut monitor = monitor();
        assert!(!monitor.take_congestion());
        monitor.on_congestion();
        assert!(monitor.take_congestion());
        assert!(!monitor.take_congestion());
        assert_eq!(monitor.take_metric(Time::ZERO).congested_eras, 1);
    }

    #[test]
    fn a_negative_delay_flags_the_report() {
        let mut monitor = monitor();
        monitor.on_frame(Layer::Base, 1, 1, ms(-5));
        let metric = monitor.take_metric(Time::ZERO);
        assert!(metric.unsynchronised);
        assert_eq!(metric.delay.unwrap().min, ms(-5));
        let json = serde_json::to_value(&metric).unwrap();
        assert_eq!(json["delay"]["min"], -5_000_000_000i64);
        assert_eq!(json["layers"]["BL"]["frames"], 1);
    }

    #[test]
    fn quantiles_cover_the_whole_run() {
        let mut monitor = monitor();
        for delay in 1..=100 {
            monitor.on_frame(Layer::Base, 1, 1, ms(delay));
            monitor.take_metric(Time::ZERO);
        }
        let p99 = monitor.delays().quantile(0.99).unwrap().as_ms_f64();
        assert!((p99 - 99.0).abs() < 2.0, "{p99}");
    }
}
