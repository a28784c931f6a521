use std::collections::VecDeque;

use layercast_core::{Cause, Layer, Level, Observer, PerLayer, Serial, Span, Time, TraceEvent};
use layercast_wire::FlowEnd;

use super::order::add;
use super::{MAX_FAST_OCTETS, Phase, REORDERED, Receiver, SLACK, Slot};
use crate::sink::explain::{Explanation, Fate};
use crate::sink::gaps::{Chain, Gap};
use crate::sink::history::History;
use crate::{PlayedFrame, SinkEvent, measure};

/// The far end of the data path: frames leave the playout buffer, and what is missing or late is
/// accounted for.
impl Receiver {
    pub(super) fn on_late<O: Observer>(
        &mut self,
        now: Time,
        frame: &PlayedFrame,
        by: Span,
        passed: bool,
        obs: &mut O,
    ) {
        let (seq, layer, flow) = (frame.seq, frame.layer, self.flow);
        let missing = self.explanations.of(seq).map(|it| it.fate);
        self.explanations.add(Explanation {
            first: seq,
            last: seq,
            fate: Fate::Late {
                layer,
                arrived: frame.arrived,
                by,
            },
        });
        let was_withheld = match missing {
            Some(Fate::Missing { lost, withheld }) => lost[layer] == 0 && withheld[layer] > 0,
            _ => false,
        };
        let is_granted = match self.chooser {
            None => self.gaps.gop_level().includes(layer),
            Some(_) => frame.sound || self.gaps.gop_level() == layer.level(),
        };
        let was_lost = passed && !was_withheld && is_granted;
        if passed && was_withheld {
            // A packet of the end of a fast start that was overtaken.
            for counts in [&mut self.stats.withheld, &mut self.stats.withheld_by_switch] {
                counts[layer] = counts[layer].saturating_sub(1);
            }
        }
        if was_lost {
            let lost = &mut self.stats.lost[layer];
            *lost = lost.saturating_sub(1);
        }
        self.stats.late[layer] += 1;
        self.stats.late_stopped += u64::from(!frame.again && self.jitter.was_stopped());
        self.lateness.frame(by);
        self.monitor.on_late(layer);
        obs.on(now, self.subject(), || TraceEvent::Late {
            flow,
            layer,
            seq: seq.0,
            by,
        });
        let bytes = frame.payload.len();
        self.errors += 1;
        obs.probe(self.subject(), || measure::late(flow, now, bytes, was_lost));
        self.events.push_back(SinkEvent::Late {
            seq,
            layer,
            by,
            was_lost,
        });
    }

    /// Keeps the playout buffer within D times the frame rate and a GOP; the newest enhancement
    /// frame goes first (specs/mets.md 2.8).
    pub(super) fn bound_buffer(&mut self) {
        // Twice: frames of a catch-up burst come ahead of time.
        let most = 2 * self.jitter.buffer_frames();
        if self.buffer.len() <= most {
            return;
        }
        let waiting = self.buffer.iter().filter(|slot| !slot.handed);
        let again = waiting.clone().filter(|slot| slot.mark.again);
        let octets = |slot: &Slot| slot.frame.as_ref().map_or(0, |frame| frame.payload.len());
        let (count, octets) = again.fold((0, 0), |(n, sum), slot| (n + 1, sum + octets(slot)));
        if waiting.count() - count <= most && octets <= MAX_FAST_OCTETS {
            return;
        }
        let held = |slot: &&mut Slot| slot.frame.is_some();
        let newest = |wanted: fn(Layer) -> bool, buffer: &mut VecDeque<Slot>| {
            let slot = buffer
                .iter_mut()
                .rev()
                .filter(held)
                .find(|slot| wanted(slot.mark.layer))?;
            slot.frame = None;
            Some(slot.mark.layer)
        };
        let dropped = newest(|layer| layer != Layer::Base, &mut self.buffer)
            .or_else(|| newest(|_| true, &mut self.buffer));
        if let Some(layer) = dropped {
            self.overflow(layer);
        }
    }

    pub(super) fn overflow(&mut self, layer: Layer) {
        self.stats.overflow[layer] += 1;
        self.events.push_back(SinkEvent::BufferOverflow { layer });
    }

    /// Plays everything that is due.
    pub fn play<O: Observer>(&mut self, now: Time, obs: &mut O) {
        loop {
            self.settle_order(now, obs);
            let next = self.due().into_iter().flatten();
            let Some(next) = next.into_iter().find(|next| next.until <= now) else {
                break;
            };
            self.hand_over(now, next.at, obs);
        }
        self.note_waits(now);
        self.outages.watch(now);
    }

    /// Accounts for the frames that were handed over, up to the first one before which another may still be.
    fn settle_order<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while self.buffer.front().is_some_and(|slot| slot.handed)
            && self.open_until().is_none_or(|until| until <= now)
            && let Some(slot) = self.buffer.pop_front()
        {
            self.account(now, &slot, obs);
        }
    }

    fn hand_over<O: Observer>(&mut self, now: Time, at: usize, obs: &mut O) {
        self.end_hold(now, at);
        let slot = &mut self.buffer[at];
        slot.handed = true;
        let (mark, deadline, frame) = (slot.mark, slot.deadline, slot.frame.take());
        if slot.opens {
            self.chains.reset();
        }
        let chain = mark.chain();
        self.chains[chain].last = Some(mark.seq);
        self.settle_order(now, obs);
        let progress = &mut self.chains[chain];
        let Some(mut frame) = frame else {
            progress.missing[mark.layer] += 1;
            let is_referred_to = mark.layer == Layer::Base || self.chooser.is_some();
            if is_referred_to && chain == Chain::Pictures {
                self.outages.broken();
            }
            return;
        };
        frame.missing = std::mem::take(&mut progress.missing);
        frame.awaited = progress.held(deadline);
        self.explain(&frame);
        self.outages.played(now, frame.sound, frame.gop_start);
        self.stats.played[frame.layer] += 1;
        self.stats.damaged += u64::from(frame.damaged);
        self.stats.bytes += frame.payload.len() as u64;
        let end_to_end = self.delays.frame(now, &frame);
        let flow = self.flow;
        obs.on(now, self.subject(), || TraceEvent::Played {
            flow,
            layer: frame.layer,
            seq: frame.seq.0,
            delay: frame.delay,
            end_to_end,
        });
        let held = frame.awaited.map_or(Span::ZERO, |(order, _)| order);
        let missed = now.since(frame.deadline.saturating_add(held)) > SLACK;
        self.events.push_back(SinkEvent::Frame(frame));
        self.monitor.on_missed(u64::from(missed));
        let missed = self.deadlines.record(missed);
        if let Some(missed) = missed.filter(|&missed| missed >= self.missed_threshold) {
            let window = self.deadlines.length();
            self.events
                .push_back(SinkEvent::MissedDeadline { missed, window });
        }
    }

    /// Notes what held a frame that is handed over.
    fn explain(&mut self, frame: &PlayedFrame) {
        let (order, awaited) = frame.awaited.unzip();
        self.explanations.add(Explanation {
            first: frame.seq,
            last: frame.seq,
            fate: Fate::Played {
                layer: frame.layer,
                sound: frame.sound,
                arrived: frame.arrived,
                playout: frame.deadline.since(frame.arrived),
                order: order.unwrap_or(Span::ZERO),
                awaited,
                again: frame.again,
            },
        });
    }

    /// Accounts for the frames between the last one and this one.
    fn account<O: Observer>(&mut self, now: Time, slot: &Slot, obs: &mut O) {
        let seq = slot.mark.seq;
        if slot.opens {
            self.opening -= 1;
            self.gaps.reset();
            self.history = History::default();
        }
        let last = self.gaps.last();
        let gap = self.gaps.advance(slot.mark);
        if let Some(last) = last {
            self.explanations.missing(last, seq, &gap);
        }
        for chain in Chain::ALL {
            let progress = &mut self.chains[chain];
            if !progress.is_behind(seq) {
                add(&mut progress.missing, gap.of(chain).1);
            }
        }
        let reported = self.broken.take_reported();
        self.attribute(now, gap, slot.after_outage, reported, obs);
        self.history.mark(seq);
        // A frame that is still coming in may yet turn out to be late rather than lost.
        let stale = Serial(seq.0.wrapping_sub(REORDERED as u32));
        self.assembler.forget_through(stale);
    }

    /// The flow ended with frame `end` and everything that came was played: what is missing at its
    /// tail is accounted for. `level` is the level granted now, `connected` tells whether the
    /// session channel was up to the end.
    pub fn finish<O: Observer>(
        &mut self,
        now: Time,
        end: FlowEnd,
        level: Level,
        connected: bool,
        obs: &mut O,
    ) {
        for slot in std::mem::take(&mut self.buffer) {
            self.account(now, &slot, obs);
        }
        let after_outage = !connected || self.phase == Phase::Rejoined;
        let rate = self.jitter_config.frame_rate;
        let here = rate.frames_in(now.since(self.came));
        let here = here.saturating_sub(self.stats.before_start);
        let gap = self.gaps.finish(end, level, here);
        // Those of them that began to come are among these.
        let unstarted = self.unstarted.take();
        if let Some(unstarted) = &unstarted {
            self.stats.cut_starts.add(unstarted.cut());
        }
        let reported = match unstarted {
            Some(unstarted) => unstarted.reported(),
            None => self.broken.take_reported(),
        };
        self.attribute(now, gap, after_outage, reported, obs);
    }

    /// Counts and tells what is missing; a monitor knows of those that were `reported`.
    pub(super) fn attribute<O: Observer>(
        &mut self,
        now: Time,
        gap: Gap,
        after_outage: bool,
        reported: PerLayer<u32>,
        obs: &mut O,
    ) {
        let lost = gap.of(Chain::Pictures).0;
        if lost.base > 0 || gap.alternative && lost != PerLayer::default() {
            self.outages.broken();
        }
        if after_outage && gap.lost.base > 0 {
            let mut frames = gap.lost;
            for layer in Layer::ALL {
                frames[layer] += gap.withheld[layer];
                self.stats.outage[layer] += u64::from(frames[layer]);
            }
            self.events.push_back(SinkEvent::Outage { frames });
            return;
        }
        self.count(gap);
        if gap.lost != PerLayer::default() {
            self.jitter.on_loss(now);
        }
        for (layer, &count) in gap.lost.iter().filter(|(_, count)| **count > 0) {
            let flow = self.flow;
            obs.on(now, self.subject(), || TraceEvent::Lost {
                flow,
                layer: Some(layer),
                count,
                cause: Cause::Gap,
            });
            let news = count.saturating_sub(reported[layer]);
            if news > 0 {
                self.errors += u64::from(news);
                obs.probe(self.subject(), || measure::missing(flow, now, news));
            }
        }
    }

    /// Counts what is missing, as lost or withheld.
    pub(super) fn count(&mut self, gap: Gap) {
        for (layer, &count) in gap.lost.iter().filter(|(_, count)| **count > 0) {
            self.stats.lost[layer] += u64::from(count);
            self.monitor
                .on_lost(Some(layer), u64::from(count), Cause::Gap);
            self.events.push_back(SinkEvent::Lost { layer, count });
        }
        for (layer, &count) in gap.withheld.iter().filter(|(_, count)| **count > 0) {
            self.stats.withheld[layer] += u64::from(count);
            let (by_source, by_switch) = (gap.by_source[layer], gap.by_switch[layer]);
            self.stats.withheld_by_source[layer] += u64::from(by_source);
            self.stats.withheld_by_switch[layer] += u64::from(by_switch);
            self.monitor.on_withheld(layer, u64::from(count));
            self.events.push_back(SinkEvent::Withheld {
                layer,
                count,
                by_source,
                by_switch,
            });
        }
    }
}
