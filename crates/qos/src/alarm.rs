use layercast_core::{Alarm, AlarmOp, Metric, Span, Time};

use crate::FlowMonitor;
use crate::monitor::Sums;

/// An alarm that fired, and the figure that made it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Raised {
    /// The alarm.
    pub alarm: Alarm,
    /// What its metric was over the window that ended, in the unit of the metric.
    pub value: f64,
}

/// The alarms set on a flow (specs/mets.md 2.9): each is looked at when its window ends, fires once per
/// crossing of its threshold, and is armed again when the metric has come back by its hysteresis.
///
/// A window in which nothing arrived says nothing about loss, delay and jitter, and is passed over.
#[derive(Clone, Debug)]
pub struct Alarms {
    watches: Vec<Watch>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    alarm: Alarm,
    armed: bool,
    /// Start of the window, and the sums then.
    start: Time,
    before: Sums,
}

impl Alarms {
    /// Watches `alarms` from now on, on a monitor that starts now.
    pub fn new(now: Time, alarms: impl IntoIterator<Item = Alarm>) -> Alarms {
        let watch = |alarm| Watch {
            alarm,
            armed: true,
            start: now,
            before: Sums::default(),
        };
        Alarms {
            watches: alarms.into_iter().map(watch).collect(),
        }
    }

    /// Watches `alarms` from here on: those watched already continue in their window, others start
    /// one now.
    pub fn replace(
        &mut self,
        now: Time,
        alarms: impl IntoIterator<Item = Alarm>,
        monitor: &FlowMonitor,
    ) {
        let old = std::mem::take(&mut self.watches);
        let watch = |alarm| {
            let known = old.iter().find(|watch| watch.alarm == alarm);
            known.copied().unwrap_or(Watch {
                alarm,
                armed: true,
                start: now,
                before: monitor.sums(),
            })
        };
        self.watches = alarms.into_iter().map(watch).collect();
    }

    /// When the next window ends; `None` without alarms.
    pub fn next_timeout(&self) -> Option<Time> {
        self.watches.iter().map(Watch::end).min()
    }

    /// The next alarm that fires at `now`; call it until there is none.
    pub fn poll(&mut self, now: Time, monitor: &FlowMonitor) -> Option<Raised> {
        while let Some(at) = self.watches.iter().position(|watch| watch.end() <= now) {
            let watch = &mut self.watches[at];
            let alarm = watch.alarm;
            let Some(value) = watch.end_window(now, monitor) else {
                continue;
            };
            if watch.fires(value) {
                if alarm.oneshot {
                    self.watches.remove(at);
                }
                return Some(Raised { alarm, value });
            }
        }
        None
    }
}

impl Watch {
    fn end(&self) -> Time {
        // At least a millisecond, so that time continues.
        let window = Span::from_ms(u64::from(self.alarm.window_ms.max(1)));
        self.start.saturating_add(window)
    }

    /// The metric over the window that ends now; starts the next window.
    fn end_window(&mut self, now: Time, monitor: &FlowMonitor) -> Option<f64> {
        let sums = monitor.sums();
        let before = std::mem::replace(&mut self.before, sums);
        let length = now.since(std::mem::replace(&mut self.start, now));
        let frames = (sums.frames - before.frames) as f64;
        let lost = (sums.lost - before.lost) as f64;
        match self.alarm.metric {
            Metric::Loss => (frames + lost > 0.0).then(|| 1_000.0 * lost / (frames + lost)),
            Metric::Late => Some((sums.late - before.late) as f64),
            Metric::Delay => {
                let sum = (sums.delay_ps - before.delay_ps) as f64;
                (frames > 0.0).then(|| sum / frames / 1e6)
            }
            Metric::Jitter => (frames > 0.0).then(|| monitor.jitter().as_ps() as f64 / 1e6),
            Metric::Rate => Some((sums.cells - before.cells) as f64 / length.as_secs_f64()),
        }
    }

    /// Whether the alarm fires; arms it again if the metric has come back.
    fn fires(&mut self, value: f64) -> bool {
        let Alarm {
            op,
            threshold,
            hysteresis,
            ..
        } = self.alarm;
        let (crossed, back) = match op {
            AlarmOp::Above => (value > threshold, value <= threshold - hysteresis),
            AlarmOp::Below => (value < threshold, value >= threshold + hysteresis),
        };
        let fires = crossed && self.armed;
        self.armed = !crossed && (self.armed || back);
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::{Cause, FlowId, Layer};

    use crate::SignedSpan;

    const LATE: Alarm = Alarm {
        metric: Metric::Late,
        op: AlarmOp::Above,
        threshold: 3.0,
        window_ms: 100,
        hysteresis: 2.0,
        oneshot: false,
    };

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// The values at which `alarm` fires, given the number of late frames in each window.
    fn fired(alarm: Alarm, late: &[u64]) -> Vec<f64> {
        let mut alarms = Alarms::new(at(0), [alarm]);
        let mut monitor = FlowMonitor::new(FlowId(1), at(0));
        let mut fired = Vec::new();
        for (window, &late) in late.iter().enumerate() {
            (0..late).for_each(|_| monitor.on_late(Layer::E2));
            let end = at(100 * (window as u64 + 1));
            fired.extend(alarms.poll(end, &monitor).map(|raised| raised.value));
            assert_eq!(alarms.poll(end, &monitor), None);
        }
        fired
    }

    #[test]
    fn an_alarm_fires_once_per_crossing_and_not_within_its_hysteresis() {
        // 3 does not exceed 3; 2 and 3 are within the hysteresis, 1 is not.
        let late = [3, 4, 9, 2, 5, 3, 1, 3, 6, 7];
        assert_eq!(fired(LATE, &late), [4.0, 6.0]);
        let eager = Alarm {
            hysteresis: 0.0,
            ..LATE
        };
        assert_eq!(fired(eager, &late), [4.0, 5.0, 6.0]);
    }

    #[test]
    fn an_alarm_below_fires_on_the_way_down() {
        let below = Alarm {
            op: AlarmOp::Below,
            ..LATE
        };
        assert_eq!(fired(below, &[4, 2, 1, 4, 2, 5, 0]), [2.0, 0.0]);
    }

    #[test]
    fn a_oneshot_alarm_is_gone_after_it_fired() {
        let once = Alarm {
            oneshot: true,
            ..LATE
        };
        assert_eq!(fired(once, &[4, 0, 4, 0, 9]), [4.0]);
        let mut alarms = Alarms::new(at(0), [once]);
        let mut monitor = FlowMonitor::new(FlowId(1), at(0));
        (0..9).for_each(|_| monitor.on_late(Layer::Base));
        assert_eq!(alarms.next_timeout(), Some(at(100)));
        assert!(alarms.poll(at(99), &monitor).is_none());
        assert!(alarms.poll(at(100), &monitor).is_some());
        assert_eq!(alarms.next_timeout(), None);
    }

    #[test]
    fn every_metric_is_taken_over_the_window_in_its_unit() {
        let any = |metric| Alarm {
            metric,
            threshold: -1e9,
            hysteresis: 0.0,
            ..LATE
        };
        let metrics = [
            Metric::Loss,
            Metric::Late,
            Metric::Delay,
            Metric::Jitter,
            Metric::Rate,
        ];
        // Each fires in its first window with something to say.
        let first = |monitor: &FlowMonitor| {
            let mut alarms = Alarms::new(at(0), metrics.map(any));
            let values = std::iter::from_fn(|| alarms.poll(at(100), monitor));
            values
                .map(|raised| (raised.alarm.metric, raised.value))
                .collect::<Vec<_>>()
        };
        let mut monitor = FlowMonitor::new(FlowId(1), at(0));
        let silent = [(Metric::Late, 0.0), (Metric::Rate, 0.0)];
        assert_eq!(first(&monitor), silent);
        for ms in [4, 20, 12] {
            let delay = SignedSpan::from_ps(ms * 1_000_000_000);
            monitor.on_frame(Layer::Base, 100, 7, delay);
        }
        monitor.on_lost(Some(Layer::E1), 1, Cause::Gap);
        let values = first(&monitor);
        assert_eq!(values[0], (Metric::Loss, 250.0));
        assert_eq!(values[2], (Metric::Delay, 12_000.0));
        // 16/16 = 1 ms, then 1 + (8 - 1)/16.
        assert_eq!(values[3], (Metric::Jitter, 1_437.5));
        assert_eq!(values[4], (Metric::Rate, 210.0));
    }

    #[test]
    fn an_alarm_set_at_run_time_counts_from_then_and_spares_the_others() {
        let mut alarms = Alarms::new(at(0), [LATE]);
        let mut monitor = FlowMonitor::new(FlowId(1), at(0));
        (0..9).for_each(|_| monitor.on_late(Layer::E2));
        let other = Alarm {
            threshold: 5.0,
            ..LATE
        };
        alarms.replace(at(50), [LATE, other], &monitor);
        assert_eq!(alarms.poll(at(100), &monitor).unwrap().alarm, LATE);
        assert_eq!(alarms.poll(at(150), &monitor), None, "9 came before it");
        (0..6).for_each(|_| monitor.on_late(Layer::E2));
        assert_eq!(alarms.poll(at(200), &monitor), None, "not armed again");
        assert_eq!(alarms.poll(at(250), &monitor).unwrap().value, 6.0);
        alarms.replace(at(250), [], &monitor);
        assert_eq!(alarms.next_timeout(), None);
    }

    #[test]
    fn a_window_counts_only_what_fell_into_it() {
        let mut alarms = Alarms::new(at(0), [LATE]);
        let mut monitor = FlowMonitor::new(FlowId(1), at(0));
        for window in 1..=5 {
            (0..2).for_each(|_| monitor.on_late(Layer::E2));
            assert_eq!(alarms.poll(at(100 * window), &monitor), None, "{window}");
        }
    }
}
