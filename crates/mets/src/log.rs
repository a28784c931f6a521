use layercast_core::{
    Answered, CellRate, Contract, Layer, Level, PerLayer, Span, Time, aal5_cells,
};
use layercast_qos::DelayHistogram;
use layercast_wire::{AdapterKind, EndToEndMs, METS_HEADER};
use serde::Serialize;

use super::{LevelReason, PlayedFrame, RepairStats, SinkEvent};

/// What a receiver saw, second by second and in sum: the same from simulator and sockets.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReceiverSummary {
    /// Name of the receiver.
    pub name: String,
    /// Name of its link.
    pub link: String,
    /// Levels granted: the time in seconds, and the level from then on.
    pub levels: Vec<(f64, Level)>,
    /// Highest layer played in a GOP, where it changed: start of the GOP in seconds, and the level.
    pub received: Vec<(f64, Level)>,
    /// Frames played.
    pub frames: PerLayer<u64>,
    /// Frames of granted layers that did not arrive.
    pub lost: PerLayer<u64>,
    /// Frames of layers that were not granted.
    pub withheld: PerLayer<u64>,
    /// Frames of all layers that arrived after their deadline.
    pub late: u64,
    /// Base-layer frames that arrived after their deadline.
    pub late_base: u64,
    /// Frames sent while the session channel was down.
    pub outage: PerLayer<u64>,
    /// One-way delay of frames in milliseconds.
    pub delay_ms: DelayQuantiles,
    /// One sample a second.
    pub series: Vec<Sample>,
    /// RES and ADAPT messages.
    pub adapter: Vec<AdapterEntry>,
    /// What was agreed last, of a receiver with a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreed: Option<AgreedEntry>,
    /// Why the last join was refused.
    pub refused: Option<String>,
    /// Times at which the network released the flow, in seconds, and the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<(f64, String)>,
    /// Mean PSNR in dB, if a program has compared the pictures with the source (`layercast demo`).
    pub psnr_db: Option<f64>,
    /// Layer changes inside a GOP: a layer both played and withheld in one GOP.
    pub off_boundary: u64,
    /// The parities of the base layer, of a flow that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairStats>,
    /// Delay of live frames from their arrival at the source to their hand-over, of a live flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end_ms: Option<EndToEndMs>,
}

/// Quantiles of the one-way delay in milliseconds; zero if nothing arrived.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct DelayQuantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// One second of a receiver.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Sample {
    /// Start of the second, in seconds.
    pub t: f64,
    /// Largest one-way delay in milliseconds; `None` if nothing was played.
    pub delay_ms: Option<f64>,
    /// Largest playout delay in milliseconds; `None` if nothing was played.
    pub playout_ms: Option<f64>,
    /// Media bits played.
    pub rate_bps: u64,
    /// Cells that the frames played would take as AAL5 frames.
    pub cells: PerLayer<u32>,
    /// Level granted at the end of the second.
    pub level: Level,
}

/// An adapter message as the receiver saw it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AdapterEntry {
    /// Time in seconds.
    pub t: f64,
    /// `"RES"` or `"ADAPT"`.
    pub kind: &'static str,
    /// `"up"` for RES, `"down"` for ADAPT.
    pub dir: &'static str,
    /// Level to which the receiver falls back.
    pub min: Level,
    /// Level requested (RES) or granted (ADAPT).
    pub max: Level,
    /// Cells/s above the base layer, requested or granted.
    pub rate: CellRate,
}

/// What a receiver with a profile and its source agreed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AgreedEntry {
    /// Time in seconds.
    pub t: f64,
    /// What the receiver answered to the offer.
    pub answer: Answered,
    /// The highest level that the contract allows.
    pub level: Level,
    /// Whether the source takes part; if not, the receiver goes by its own answer.
    pub committed: bool,
    /// What the receiver's flow is held to.
    pub contract: Contract,
}

/// Entries kept of each list: a day of one RES and one ADAPT per second, and a bound.
const MAX_ENTRIES: usize = 200_000;

/// Turns the events of a [`Sink`](super::Sink) into a [`ReceiverSummary`].
#[derive(Clone, Debug)]
pub struct FlowLog {
    epoch: Time,
    summary: ReceiverSummary,
    delays: DelayHistogram,
    level: Level,
    second: Option<Second>,
    gop: Gop,
}

#[derive(Clone, Copy, Default, Debug)]
struct Second {
    number: u64,
    delay: Option<Span>,
    playout: Option<Span>,
    bits: u64,
    cells: PerLayer<u32>,
}

impl Second {
    fn of(number: u64) -> Second {
        Second {
            number,
            ..Second::default()
        }
    }
}

/// The GOP being played.
#[derive(Clone, Copy, Default, Debug)]
struct Gop {
    start: f64,
    highest: Option<Layer>,
    played: PerLayer<bool>,
    /// Of these, layers with pictures.
    shown: PerLayer<bool>,
    withheld: PerLayer<bool>,
    /// Base layer is missing: where the GOP ended is not known.
    broken: bool,
}

impl FlowLog {
    /// Whether a frame was played.
    pub fn has_played(&self) -> bool {
        self.summary.frames.iter().any(|(_, &count)| count > 0)
    }

    /// A log of the receiver `name` on `link`; times count from `epoch`.
    pub fn new(name: &str, link: &str, epoch: Time) -> FlowLog {
        FlowLog {
            epoch,
            summary: ReceiverSummary {
                name: name.into(),
                link: link.into(),
                levels: Vec::new(),
                received: Vec::new(),
                frames: PerLayer::default(),
                lost: PerLayer::default(),
                withheld: PerLayer::default(),
                late: 0,
                late_base: 0,
                outage: PerLayer::default(),
                delay_ms: DelayQuantiles::default(),
                series: Vec::new(),
                adapter: Vec::new(),
                agreed: None,
                refused: None,
                released: Vec::new(),
                psnr_db: None,
                off_boundary: 0,
                repair: None,
                end_to_end_ms: None,
            },
            delays: DelayHistogram::default(),
            level: Level::BASE,
            second: None,
            gop: Gop::default(),
        }
    }

    /// Takes an event that the sink gave at `now`.
    pub fn on_event(&mut self, now: Time, event: &SinkEvent) {
        self.enter_second(now);
        match event {
            SinkEvent::Joined { .. } if self.summary.levels.is_empty() => {
                let t = self.seconds(now);
                push(&mut self.summary.levels, (t, self.level));
            }
            // The end of the flow is no level: the timeline just stops.
            SinkEvent::Level {
                reason: LevelReason::Closed,
                ..
            } => {}
            SinkEvent::Level { to, .. } => {
                self.level = *to;
                let t = self.seconds(now);
                push(&mut self.summary.levels, (t, *to));
            }
            SinkEvent::Frame(frame) => self.frame(now, frame),
            SinkEvent::Lost { layer, count } => {
                self.summary.lost[*layer] += u64::from(*count);
                self.gop.broken |= *layer == Layer::Base;
            }
            SinkEvent::Withheld { layer, count, .. } => {
                self.summary.withheld[*layer] += u64::from(*count);
                self.gop.withheld[*layer] = true;
            }
            SinkEvent::Late {
                layer, was_lost, ..
            } => {
                let lost = &mut self.summary.lost[*layer];
                *lost = lost.saturating_sub(u64::from(*was_lost));
                self.summary.late += 1;
                self.summary.late_base += u64::from(*layer == Layer::Base);
            }
            SinkEvent::Outage { frames } => {
                for (layer, &count) in frames.iter() {
                    self.summary.outage[layer] += u64::from(count);
                }
                self.gop.broken = true;
            }
            SinkEvent::Released { reason } => {
                let t = self.seconds(now);
                push(&mut self.summary.released, (t, reason.clone()));
            }
            SinkEvent::Agreed {
                answer,
                contract,
                level,
                committed,
            } => {
                self.summary.agreed = Some(AgreedEntry {
                    t: self.seconds(now),
                    answer: *answer,
                    level: *level,
                    committed: *committed,
                    contract: **contract,
                });
            }
            SinkEvent::Refused(refusal) => self.summary.refused = Some(refusal.to_string()),
            SinkEvent::Res(message) | SinkEvent::Adapt(message) => {
                let (kind, dir) = match message.kind {
                    AdapterKind::Res => ("RES", "up"),
                    AdapterKind::Adapt => ("ADAPT", "down"),
                };
                let entry = AdapterEntry {
                    t: self.seconds(now),
                    kind,
                    dir,
                    min: message.min,
                    max: message.max,
                    rate: message.rate_max,
                };
                push(&mut self.summary.adapter, entry);
            }
            _ => {}
        }
    }

    /// The summary so far, the second and GOP in progress included.
    pub fn finish(&self) -> ReceiverSummary {
        let mut last = self.clone();
        last.close_second();
        last.close_gop();
        let quantile = |q| last.delays.quantile(q).map_or(0.0, Span::as_ms_f64);
        last.summary.delay_ms = DelayQuantiles {
            p50: quantile(0.5),
            p99: quantile(0.99),
        };
        last.summary
    }

    fn frame(&mut self, now: Time, frame: &PlayedFrame) {
        if frame.gop_start {
            self.close_gop();
            self.gop = Gop {
                start: self.seconds(now),
                ..Gop::default()
            };
        }
        self.gop.highest = self.gop.highest.max(Some(frame.layer));
        self.gop.played[frame.layer] = true;
        self.gop.shown[frame.layer] |= !frame.sound;
        self.summary.frames[frame.layer] += 1;
        let number = now.since(self.epoch).as_ms() / 1_000;
        let second = self.second.get_or_insert(Second::of(number));
        // The age of what a fast start sends is no delay of the path.
        if !frame.again {
            self.delays.record(frame.delay);
            second.delay = second.delay.max(Some(frame.delay));
            let playout = frame.deadline.since(frame.emitted);
            second.playout = second.playout.max(Some(playout));
        }
        second.bits += 8 * frame.payload.len() as u64;
        second.cells[frame.layer] += aal5_cells(METS_HEADER + frame.payload.len());
    }

    fn close_gop(&mut self) {
        let Some(highest) = self.gop.highest.take() else {
            return;
        };
        let level = highest.level();
        if self
            .summary
            .received
            .last()
            .is_none_or(|last| last.1 != level)
        {
            push(&mut self.summary.received, (self.gop.start, level));
        }
        // The base layer is withheld of alternative layers only. Of them a group has pictures of one layer; key frames of lower
        // layers come before the one that begins the group, and count to the group before.
        if self.gop.withheld.base {
            let shown = self.gop.shown.iter().filter(|(_, shown)| **shown).count();
            self.summary.off_boundary += u64::from(shown > 1);
            return;
        }
        for layer in Layer::ALL {
            let both = self.gop.played[layer] && self.gop.withheld[layer] && !self.gop.broken;
            self.summary.off_boundary += u64::from(both);
        }
    }

    /// Closes every second that is over at `now`.
    fn enter_second(&mut self, now: Time) {
        let number = now.since(self.epoch).as_ms() / 1_000;
        // Seconds in which nothing happened get their sample too, up to the bound of the list.
        let room = MAX_ENTRIES as u64;
        let mut at = match self.second {
            Some(second) => second.number.max(number.saturating_sub(room)),
            None => number,
        };
        while at < number {
            self.close_second();
            at += 1;
            self.second = Some(Second::of(at));
        }
        self.second.get_or_insert(Second::of(number));
    }

    fn close_second(&mut self) {
        let Some(second) = self.second.take() else {
            return;
        };
        let sample = Sample {
            t: second.number as f64,
            delay_ms: second.delay.map(Span::as_ms_f64),
            playout_ms: second.playout.map(Span::as_ms_f64),
            rate_bps: second.bits,
            cells: second.cells,
            level: self.level,
        };
        push(&mut self.summary.series, sample);
    }

    fn seconds(&self, now: Time) -> f64 {
        now.since(self.epoch).as_secs_f64()
    }
}

fn push<T>(list: &mut Vec<T>, entry: T) {
    if list.len() < MAX_ENTRIES {
        list.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::Serial;
    use layercast_wire::{Payload, Waited};

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(1_000 + ms)
    }

    fn log() -> FlowLog {
        FlowLog::new("dwp", "wide", at(0))
    }

    fn frame(ms: u64, layer: Layer) -> PlayedFrame {
        PlayedFrame {
            seq: Serial(0),
            count: 0,
            layer,
            gop_start: layer == Layer::Base,
            sound: false,
            missing: PerLayer::default(),
            again: false,
            awaited: None,
            payload: Payload::Zeros(100),
            damaged: false,
            emitted: at(ms),
            arrived: at(ms + 20),
            deadline: at(ms + 50),
            delay: Span::from_ms(20),
            waited: Waited::default(),
        }
    }

    fn play(log: &mut FlowLog, ms: u64, layer: Layer) {
        log.on_event(at(ms + 50), &SinkEvent::Frame(frame(ms, layer)));
    }

    fn withheld(log: &mut FlowLog, ms: u64, layer: Layer) {
        let withheld = SinkEvent::Withheld {
            layer,
            count: 2,
            by_source: 0,
            by_switch: 2,
        };
        log.on_event(at(ms), &withheld);
    }

    #[test]
    fn two_alternative_layers_in_one_gop_are_off_the_boundary() {
        let begins = |log: &mut FlowLog, ms, layer| {
            let frame = PlayedFrame {
                gop_start: true,
                ..frame(ms, layer)
            };
            log.on_event(at(ms + 50), &SinkEvent::Frame(frame));
        };
        let mut log = log();
        begins(&mut log, 0, Layer::E1);
        // The key frames of lower layers come first.
        withheld(&mut log, 400, Layer::Base);
        withheld(&mut log, 400, Layer::E1);
        begins(&mut log, 500, Layer::E2);
        withheld(&mut log, 600, Layer::Base);
        assert_eq!(log.finish().off_boundary, 0);
        play(&mut log, 700, Layer::E1);
        assert_eq!(log.finish().off_boundary, 1);
        let received = [(0.05, Level::E1), (0.55, Level::FULL)];
        assert_eq!(log.finish().received, received);
    }

    #[test]
    fn a_layer_played_and_withheld_in_one_gop_is_off_the_boundary() {
        let mut log = log();
        play(&mut log, 0, Layer::Base);
        withheld(&mut log, 100, Layer::E1);
        play(&mut log, 500, Layer::Base);
        play(&mut log, 600, Layer::E1);
        assert_eq!(log.finish().off_boundary, 0);
        withheld(&mut log, 700, Layer::E1);
        assert_eq!(log.finish().off_boundary, 1);
        // Where the GOP ended is not known if its successor lost the base layer.
        let (layer, count) = (Layer::Base, 1);
        log.on_event(at(700), &SinkEvent::Lost { layer, count });
        assert_eq!(log.finish().off_boundary, 0);
        let received: Vec<_> = log.finish().received;
        assert_eq!(received, [(0.05, Level::BASE), (0.55, Level::E1)]);
    }

    #[test]
    fn every_second_has_a_sample() {
        let mut log = log();
        play(&mut log, 100, Layer::Base);
        play(&mut log, 200, Layer::E1);
        play(&mut log, 3_100, Layer::Base);
        let summary = log.finish();
        let rates: Vec<_> = summary.series.iter().map(|s| (s.t, s.rate_bps)).collect();
        assert_eq!(rates, [(0.0, 1_600), (1.0, 0), (2.0, 0), (3.0, 800)]);
        assert_eq!(summary.series[0].playout_ms, Some(50.0));
        assert_eq!(summary.series[1].delay_ms, None);
        assert!((summary.delay_ms.p50 - 20.0).abs() < 0.4);
    }
}
