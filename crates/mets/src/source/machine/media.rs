use layercast_core::{
    Cause, CellRate, Layer, Observer, QosAction, QosEvent, Span, Time, TraceEvent,
};
use layercast_media::{FlowFilter, Frame};
use layercast_qos::{ShaperError, SignedSpan};
use layercast_wire::{Carriage, Passing, Payload, Signal};

use super::{LINGER, Phase, Source};
use crate::source::host::PacerState;
use crate::source::pacing::Sent;
use crate::source::packets::Numbered;
use crate::{AppFrame, Shaping, SourceEvent, measure};

/// The way of a frame from the scheduler to the shaper, and the end of that way.
impl Source {
    /// Releases frames that are due into the shaper.
    pub(super) fn release<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let present = self.present;
        loop {
            let numbered = match self.held.take() {
                Some(held) => held,
                None => {
                    let Some(released) = self.scheduler.pop_due(now) else {
                        break;
                    };
                    if self.begins_gop(&released.frame) {
                        if self.change_is_due() {
                            self.enforce(now);
                        }
                        self.adapter.on_gop_start();
                        self.shape(now);
                        if let Some(drs) = &mut self.drs {
                            let sending = self.adapter.sending();
                            drs.set_rate(sending.rate, sending.level);
                        }
                        self.begin_epoch(now);
                    }
                    let mut numbered = self.numbering.number(released);
                    let layer = numbered.frame.layer;
                    let sent = self.sent();
                    let common = numbered.sound.is_sound();
                    let sends = sent.includes(layer, common);
                    if let Some(drs) = &mut self.drs {
                        reshape(drs, &mut numbered.frame, sends);
                    }
                    if self.config.carriage == Carriage::Datagrams {
                        self.packetiser.passing = match sent {
                            Sent::UpTo(level) => Passing::of(level),
                            Sent::Set(set) => Passing::carrying(set),
                        };
                    }
                    if !sends {
                        self.stats.masked[layer] += 1;
                        self.monitor.on_withheld(layer, 1);
                        continue;
                    }
                    numbered
                }
            };
            let layer = numbered.frame.layer;
            let cost = self.cost(layer, numbered.frame.payload.len());
            match self.pacer.make_room(layer, cost) {
                Ok(()) => self.send(now, &numbered, obs),
                Err(ShaperError::PushBack(_)) => {
                    self.held = Some(numbered);
                    break;
                }
                Err(ShaperError::Dropped(_) | ShaperError::UnknownFlow(_)) => {
                    self.report_drop(now, &numbered, obs);
                }
            }
        }
        self.ask();
        if self.present != present {
            self.revise(now, obs);
        }
    }

    /// Whether levels may change at a frame. The key frames of alternative layers follow each other.
    fn begins_gop(&mut self, frame: &AppFrame) -> bool {
        match &mut self.groups {
            None => frame.gop_start,
            Some(_) if frame.sound && !frame.gop_start => false,
            Some((groups, present)) => {
                let begins = groups.picture(frame.layer, frame.gop_start, None);
                if let Some(levels) = present.picture(frame.layer, frame.gop_start, begins) {
                    self.present = levels;
                }
                begins
            }
        }
    }

    /// Credits that a frame takes in the shaper, with the parities that are made along with it.
    fn cost(&self, layer: Layer, bytes: usize) -> u32 {
        let cost = self.packetiser.cost(layer, bytes);
        match self.parities.as_ref().filter(|_| layer == Layer::Base) {
            None => cost,
            Some(parities) => {
                let travelling = self.packetiser.travelling(layer, bytes);
                cost.saturating_add(parities.cost(travelling))
            }
        }
    }

    /// Sends the parities of a block that waited long enough for more packets.
    pub(super) fn flush_parities(&mut self, now: Time) {
        let Some(parities) = &mut self.parities else {
            return;
        };
        parities.on_timeout(now);
        self.send_parities(now);
    }

    /// Sends the parities that are made, each if there is room for it.
    pub(super) fn send_parities(&mut self, now: Time) {
        let period = self.info.spec.frame_rate.due(1);
        let deadline = now.saturating_add(period);
        let leaves = self.wanted().includes(Layer::Base, false);
        let Some(parities) = &mut self.parities else {
            return;
        };
        while let Some(parity) = parities.poll() {
            let frame = (Layer::Base, parity.header.seq.0);
            let cost = self.config.carriage.cost(parity.payload.len());
            let room = self.pacer.make_room(Layer::Base, cost).is_ok();
            let pacer = &mut self.pacer;
            let mut push = |pdu| pacer.push(now, frame, (deadline, leaves), pdu).is_ok();
            if !room || self.packetiser.emit(parity, &mut push).is_none() {
                parities.stats.dropped += 1;
            }
        }
    }

    fn send<O: Observer>(&mut self, now: Time, numbered: &Numbered, obs: &mut O) {
        let layer = numbered.frame.layer;
        // Gone before the next frame comes.
        let period = self.info.spec.frame_rate.due(1);
        let deadline = numbered.emission.saturating_add(period);
        let frame = (layer, numbered.seq.0);
        let leaves = self.wanted().includes(layer, numbered.sound.is_sound());
        let pacer = &mut self.pacer;
        let keyring = self.keyring.as_mut();
        let parities = self.parities.as_mut().filter(|_| layer == Layer::Base);
        let cut = self
            .packetiser
            .cut(now, numbered, keyring, parities, |pdu| {
                pacer.push(now, frame, (deadline, leaves), pdu).is_ok()
            });
        match cut {
            Some(packets) => {
                let bytes = numbered.frame.payload.len();
                self.stats.sent[layer] += 1;
                self.stats.bytes += bytes as u64;
                self.stats.packets += packets;
                let cells = self.packetiser.cost(layer, bytes);
                let late = SignedSpan::from_ps(
                    i64::try_from(now.since(numbered.emission).as_ps()).unwrap_or(i64::MAX),
                );
                self.monitor.on_frame(layer, bytes as u32, cells, late);
                let (flow, seq) = (self.info.id, numbered.seq.0);
                obs.on(now, self.subject(), || TraceEvent::Sent {
                    flow,
                    layer: Some(layer),
                    seq,
                    bytes: bytes as u32,
                });
                if self.octets.add(bytes) {
                    obs.probe(self.subject(), || measure::opened(flow, QosEvent::OUT, now));
                }
                let octets = self.octets;
                obs.probe(self.subject(), || {
                    octets.frame(flow, QosAction::Sent, QosEvent::OUT, now, bytes)
                });
            }
            // Room was made and lengths were checked, so this does not happen; count it if it does.
            None => {
                self.stats.dropped[layer] += 1;
                self.report_drop(now, numbered, obs);
            }
        }
    }

    /// What the pacer of the host has to know; `None` if this source does without.
    pub(in crate::source) fn pacer_state(&self) -> Option<PacerState> {
        if !matches!(self.config.shaping, Shaping::Serial { .. }) {
            return None;
        }
        let (wanted, spec) = (self.wanted(), self.spec());
        // Each receiver gets one of alternative levels: it takes in its part of all that leaves.
        let all = |drain: CellRate| {
            let all = f64::from(drain.0) * wanted.copies(spec);
            CellRate(all.min(f64::from(u32::MAX)) as u32)
        };
        Some(PacerState {
            drain: self.pacer.receiver_rate().map(all),
            mean: wanted.mean(spec),
            head: self.pacer.head(),
        })
    }

    /// Hands the next packet on, for the pacer of the host says so; gives its cost.
    pub(in crate::source) fn release_head<O: Observer>(&mut self, now: Time, obs: &mut O) -> u32 {
        let cost = self.pacer.release();
        if self.held.is_some() {
            self.release(now, obs);
        }
        self.collect_events();
        self.drained(now);
        cost
    }

    fn report_drop<O: Observer>(&mut self, now: Time, numbered: &Numbered, obs: &mut O) {
        let (flow, layer) = (self.info.id, numbered.frame.layer);
        self.monitor.on_lost(Some(layer), 1, Cause::ShaperFull);
        obs.on(now, self.subject(), || TraceEvent::Lost {
            flow,
            layer: Some(layer),
            count: 1,
            cause: Cause::ShaperFull,
        });
    }

    /// Asks for frames when half the queue is free, and says so once.
    fn ask(&mut self) {
        let room = self.room();
        if !self.asked && room >= self.capacity().div_ceil(2) {
            self.asked = true;
            self.events.push_back(SourceEvent::NeedFrames(room));
        }
    }

    /// Moves a flow that ended one phase on, when its time has come.
    pub(super) fn drained(&mut self, now: Time) {
        if let Phase::Draining { until } = self.phase {
            let waiting = self.scheduler.len() + usize::from(self.held.is_some());
            if waiting == 0 && self.pacer.is_empty() || now >= until {
                // What is sent from here on would come too late.
                let held = usize::from(self.held.take().is_some());
                let undelivered = self.scheduler.clear() + held + self.pacer.clear();
                let bound = Span::from_ms(u64::from(self.spec().delay_max_ms));
                let linger = if bound == Span::ZERO { LINGER } else { bound };
                let until = now.saturating_add(linger);
                self.phase = Phase::Lingering {
                    until: self.close_by.map_or(until, |close_by| close_by.min(until)),
                    undelivered: u32::try_from(undelivered).unwrap_or(u32::MAX),
                };
            }
        }
        if let Phase::Lingering { until, undelivered } = self.phase
            && now >= until
        {
            let flow = self.info.id;
            self.phase = Phase::Closed;
            let last = self.numbering.end();
            self.signals.push_back(Signal::Close {
                flow,
                undelivered,
                last,
            });
            let reason = String::from("the flow ended");
            self.signals.push_back(Signal::Withdraw { flow, reason });
            self.events.push_back(SourceEvent::Finished { undelivered });
        }
    }
}

/// Shapes a frame that is sent to the rate in force; of one that is not, its size is learnt.
fn reshape(drs: &mut FlowFilter, frame: &mut AppFrame, sends: bool) {
    let whole = media_frame(frame);
    if !sends {
        return drs.look(&whole);
    }
    let shaped = drs.apply(whole);
    frame.payload = match shaped.data {
        Some(data) => Payload::Bytes(data),
        None => Payload::Zeros(shaped.size),
    };
}

/// The frame as the filters take it.
fn media_frame(frame: &AppFrame) -> Frame {
    Frame {
        time: frame.time,
        data: match &frame.payload {
            Payload::Bytes(bytes) => Some(bytes.clone()),
            Payload::Zeros(_) => None,
        },
        ..Frame::of_layer(frame.layer, frame.gop_start, frame.payload.len() as u32)
    }
}
