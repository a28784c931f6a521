mod group_rate;
mod manage;
mod media;
mod session;

use std::cmp::Ordering;
use std::collections::VecDeque;

use layercast_core::{
    AdaptMode, CellRate, FlowSpec, Layer, Level, LevelSet, Machine, Observer, PerLayer, QosPolicy,
    Serial, Span, Subject, Time, TraceEvent, earliest,
};
use layercast_media::{FilterRule, FlowFilter};
use layercast_protect::WallClock;
use layercast_qos::{
    Alarms, FlowMonitor, FlowScheduler, LiveTime, SchedulerConfig, SchedulerEvent,
};
use layercast_wire::{
    AdapterKind, AdapterMsg, Carriage, Cell, Downward, FlowInfo, LinkPdu, MemberStats, Passing,
    Signal,
};

use manage::Renegotiation;

use super::adapter::{Announcement, SourceAdapter, Target};
use super::controls::Controls;
use super::keyring::{Answer, Keyring, OVERHEAD};
use super::members::Members;
use super::pacing::{Pacer, Sent, paced};
use super::packets::{Numbered, Numbering, Packetiser, fits};
use super::parity::Parities;
use super::{
    SourceConfig, SourceError, SourceEvent, SourceInput, SourceStats, SourceTransmit, SubmitError,
};
use crate::AppFrame;
use crate::groups::{Groups, Present};
use crate::measure::Octets;

/// How much longer than its frames last a flow that ended may take to drain its queues.
const GRACE: Span = Span::from_secs(10);
/// How long packets may be on their way if the flow has no delay bound.
const LINGER: Span = Span::from_secs(1);
/// Answers waiting for a driver that does not poll.
const MAX_SIGNALS: usize = 1_024;
/// Events waiting for the user from which on control messages wait at their senders, and periodic
/// signals are merged (specs/mets.md 2.9).
const MAX_EVENTS: usize = 1_024;

/// The sending end of a flow: takes media frames, releases them isochronously, numbers, masks,
/// packetises and shapes them, and keeps the source's end of the QoS adapter and the membership
/// (specs/mets.md 2.4, 2.5, 2.11).
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    info: FlowInfo,
    scheduler: FlowScheduler<AppFrame>,
    numbering: Numbering,
    packetiser: Packetiser,
    pacer: Pacer,
    adapter: SourceAdapter,
    /// What shapes frames to the advertised rate; `None` in discrete mode.
    drs: Option<FlowFilter>,
    /// Of a flow of alternative layers.
    groups: Option<(Groups, Present)>,
    /// Of alternative layers, the levels that have pictures now.
    present: LevelSet,
    /// What the network asked for last.
    demand: Option<AdapterMsg>,
    members: Members,
    controls: Controls,
    keyring: Option<Keyring>,
    parities: Option<Parities>,
    /// How the server itself is looked after; the members have that of `info`.
    policy: QosPolicy,
    monitor: FlowMonitor,
    alarms: Alarms,
    next_signal: Time,
    /// Missed deadlines that the monitor knows of.
    told_missed: u64,
    /// A change on its way through the tree, and how many there were.
    change: Option<Renegotiation>,
    changes: u32,
    /// What was proposed last to a group with one rate for all: what a member refuses is not proposed again.
    proposed: Option<Option<u64>>,
    /// Dropped frames already reported to the user.
    reported_dropped: PerLayer<u64>,
    /// A frame that found the shaper full.
    held: Option<Numbered>,
    phase: Phase,
    /// The host stops: the flow is closed then at the latest.
    close_by: Option<Time>,
    next_era: Time,
    born: Option<Time>,
    /// Frames asked for by `NeedFrames` and not yet submitted.
    asked: bool,
    signals: VecDeque<Signal>,
    events: VecDeque<SourceEvent>,
    stats: SourceStats,
    octets: Octets,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Live,
    /// No more frames; queues empty until then.
    Draining {
        until: Time,
    },
    /// Everything left; packets are still on their way until then.
    Lingering {
        until: Time,
        undelivered: u32,
    },
    Closed,
}

impl Source {
    /// A source that advertises its flow immediately and asks for frames.
    pub fn new(config: SourceConfig) -> Result<Source, SourceError> {
        config.validate()?;
        let mtu = config.mtu_payload as usize;
        let parities = config.parities.map(|parities| {
            let spec = &config.flow.spec;
            let made = Parities::new(parities, config.carriage, mtu, spec);
            made.map_err(SourceError::parities)
        });
        let parities = parities.transpose()?;
        let spec = &config.advertised_spec();
        let (flow, group) = (config.flow.id, config.flow.group);
        let scheduler = SchedulerConfig {
            clock_tick: config.clock_tick,
            clock_phase: config.clock_phase,
            slack: config.clock_tick.max(Span::from_ms(1)),
            missed_threshold: u32::from(config.flow.policy.missed_deadline_threshold),
            ..SchedulerConfig::new(spec.frame_rate, spec.gop_n)
        };
        let mut info = FlowInfo {
            aal5_mark: config.aal5_mark,
            spec: spec.clone(),
            parities: parities.as_ref().map(Parities::advertised),
            ..config.flow.clone()
        };
        let protection = config.protection.as_ref();
        let keyring = protection.map(|protection| Keyring::new(protection, &info));
        if let Some(keyring) = &keyring {
            keyring.sign(&mut info);
        }
        let capacity = scheduler.queue_frames;
        let packetiser = Packetiser {
            flow,
            epoch: config.flow.epoch,
            carriage: config.carriage,
            vci: config.vci,
            mark: config.aal5_mark,
            mtu,
            base_mtu: parities.as_ref().map_or(mtu, Parities::pitch),
            overhead: keyring.as_ref().map_or(0, |_| OVERHEAD),
            alternative: !spec.composition.is_additive(),
            passing: Passing::default(),
        };
        let largest = largest(&packetiser, parities.as_ref(), spec);
        let period = Span::from_ms(u64::from(info.policy.signal_period_ms));
        let policy = info.policy.clone();
        let events = policy.events.iter().copied();
        let mut source = Source {
            scheduler: FlowScheduler::new(scheduler),
            numbering: Numbering::default(),
            packetiser,
            pacer: Pacer::new(config.start, &paced(&info), flow, config.shaping, largest)?,
            adapter: SourceAdapter::new(group, flow, config.id, config.era, config.res_interval),
            drs: drs_of(&info),
            groups: (!spec.composition.is_additive()).then(Default::default),
            present: LevelSet::ALL,
            demand: None,
            members: Members::new(config.max_members, period),
            controls: Controls::default(),
            keyring,
            parities,
            monitor: FlowMonitor::new(flow, config.start),
            alarms: Alarms::new(config.start, events),
            next_signal: config.start.saturating_add(period),
            policy,
            told_missed: 0,
            change: None,
            proposed: None,
            changes: 0,
            reported_dropped: PerLayer::default(),
            held: None,
            phase: Phase::Live,
            close_by: None,
            // Requests made before the start are answered before the first frame.
            next_era: config.start,
            born: None,
            asked: true,
            signals: VecDeque::new(),
            events: VecDeque::new(),
            stats: SourceStats::default(),
            octets: Octets::default(),
            info,
            config,
        };
        source.info.path_delay_us = source.first_delay(&source.info).as_us();
        source.info.spread_us = source.pacer.spread(&paced(&source.info)).as_us();
        let flow = Box::new(source.info.clone());
        source.signals.push_back(Signal::Advertise { flow });
        if source.config.registered {
            source.events.push_back(SourceEvent::NeedFrames(capacity));
        }
        Ok(source)
    }

    /// Queues the next frame of the flow; frames of every layer, in coded order.
    pub fn submit(&mut self, now: Time, frame: AppFrame) -> Result<(), SubmitError> {
        self.submit_with(now, frame, None)
    }

    /// Queues a frame of a live stream, which leaves when it is due on the clock, whatever its media time. It is due at
    /// the start of the flow at the earliest.
    pub fn submit_live(
        &mut self,
        now: Time,
        frame: AppFrame,
        live: LiveTime,
    ) -> Result<(), SubmitError> {
        let due = live.due.max(self.config.start);
        self.submit_with(now, frame, Some(LiveTime { due, ..live }))
    }

    fn submit_with(
        &mut self,
        now: Time,
        frame: AppFrame,
        live: Option<LiveTime>,
    ) -> Result<(), SubmitError> {
        if !self.config.registered {
            return Err(SubmitError::NotRegistered);
        }
        if self.phase != Phase::Live {
            return Err(SubmitError::Closed);
        }
        let max_frame = self.info.spec.max_frame;
        if !fits(&frame.payload, max_frame) {
            self.stats.too_large += 1;
            let bytes = frame.payload.len();
            return Err(SubmitError::TooLarge { bytes, max_frame });
        }
        let now = now.max(self.config.start);
        let queued = match live {
            Some(live) => self.scheduler.submit_live(now, live, frame),
            None => self.scheduler.submit_at(now, frame.time, frame),
        };
        queued.map_err(SubmitError::QueueFull)?;
        self.asked = false;
        self.stats.submitted += 1;
        Ok(())
    }

    /// Frames that [`submit`](Source::submit) takes now.
    pub fn room(&self) -> usize {
        match self.phase {
            Phase::Live if self.config.registered => {
                self.capacity().saturating_sub(self.scheduler.len())
            }
            _ => 0,
        }
    }

    /// There are no more frames: what is queued is sent, then the flow is closed.
    pub fn end(&mut self, now: Time) {
        let queued = self.spec().frame_rate.due(self.scheduler.len() as u64);
        let start = now.max(self.config.start).since(now);
        let grace = start.as_ps().saturating_add(queued.as_ps());
        self.end_within(now, Span::from_ps(grace.saturating_add(GRACE.as_ps())));
    }

    /// There are no more frames: what is queued is sent for `grace` at most, then the flow is
    /// closed and what is left counts as undelivered (`closeGroup`, specs/mets.md 2.2).
    pub fn end_within(&mut self, now: Time, grace: Span) {
        let until = now.saturating_add(grace);
        match &mut self.phase {
            Phase::Live => self.drain_until(now, until),
            Phase::Draining { until: planned } => {
                *planned = until.min(*planned);
                self.drained(now);
            }
            Phase::Lingering { .. } | Phase::Closed => {}
        }
    }

    /// The host stops: what is queued is sent for `drain` at most, and the flow is closed after `within`, also if packets may
    /// still be on their way. A queue may hold two GOPs, and a delay bound be long; a user who ends a program waits for neither.
    pub fn stop(&mut self, now: Time, drain: Span, within: Span) {
        let close_by = now.saturating_add(within);
        self.close_by = Some(close_by);
        if let Phase::Lingering { until, .. } = &mut self.phase {
            *until = close_by.min(*until);
        }
        self.end_within(now, drain);
        self.drained(now);
    }

    /// The members known and their figures, as [`Signal::GetStats`] is answered.
    pub fn member_stats(&self, now: Time) -> Vec<MemberStats> {
        let born = self.born.unwrap_or(now);
        self.members
            .stats(now, self.info.id, &self.config.node, born)
    }

    /// What the wall clock of the host shows from now on: for the expiry of tokens and proofs.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        if let Some(keyring) = &mut self.keyring {
            keyring.set_wall_clock(clock);
        }
    }

    /// What was done so far.
    pub fn stats(&self) -> SourceStats {
        SourceStats {
            level: self.adapter.advertised().level,
            rate: self.rate_of(self.adapter.advertised()),
            dropped: self.dropped(),
            missed_deadlines: self.scheduler.missed_total(),
            missed_ticks: self.pacer.missed_ticks(),
            members: self.members.len() as u64,
            parities: self.parities.as_ref().map(|parities| parities.stats),
            ..self.stats.clone()
        }
    }

    /// Takes what media its input delivers for each second of time, in milliseconds, if that is less than real time, and how many
    /// pictures are damaged in all since packets were lost on the way to it. It is advertised, so that nodes and receivers can say so.
    pub fn set_input(&mut self, media_ms_per_s: Option<u16>, damaged: u64) {
        if (self.info.media_ms_per_s, self.info.input_damaged) == (media_ms_per_s, damaged) {
            return;
        }
        self.advertise_input(|flow| {
            (flow.media_ms_per_s, flow.input_damaged) = (media_ms_per_s, damaged);
        });
    }

    /// Its input cannot be read any more, which is no end of the media: it is advertised before the flow is over.
    pub fn fail_input(&mut self) {
        self.advertise_input(|flow| flow.input_failed = true);
    }

    fn advertise_input(&mut self, set: impl Fn(&mut FlowInfo)) {
        let changed = self.change.as_mut().map(|change| &mut change.flow);
        [Some(&mut self.info), changed]
            .into_iter()
            .flatten()
            .for_each(set);
        if self.phase == Phase::Live {
            let flow = Box::new(self.info.clone());
            self.signals.push_back(Signal::Advertise { flow });
        }
    }

    /// The flow as advertised.
    pub fn flow(&self) -> &FlowInfo {
        &self.info
    }

    /// Two GOPs of frames, as the scheduler has it.
    fn capacity(&self) -> usize {
        2 * usize::from(self.info.spec.gop_n.max(1))
    }

    fn spec(&self) -> &FlowSpec {
        &self.info.spec
    }

    fn dropped(&self) -> PerLayer<u64> {
        let mut dropped = self.pacer.dropped();
        dropped += self.stats.dropped;
        dropped
    }

    /// Cells/s above the base layer that this host can send with the frames of `level`: what its
    /// interface takes, and its processor at its cost per cell and frame.
    fn affordable(&self, level: Level) -> CellRate {
        let spec = self.spec();
        let limit = self.config.local_limit.unwrap_or(CellRate(u32::MAX));
        let cost = self.config.cost;
        let processor = cost.map_or(limit, |cost| cost.most(spec.frames_at(level)));
        limit.min(processor).saturating_sub(spec.layers.base.mean)
    }

    /// What this host gives of what the network asks for.
    fn target(&self, asked: &AdapterMsg) -> Target {
        let spec = self.spec();
        let top = asked.max.min(spec.top_level()).min(self.group_level());
        if let Some(drs) = &self.drs {
            let rate = asked.rate_max.min(spec.above_base(top));
            let rate = rate.min(self.affordable(top));
            let level = drs.level_for(rate).min(top);
            let rate = match level {
                Level::BASE => CellRate(0),
                _ => rate.min(spec.above_base(level)),
            };
            let e1 = Some(drs.e1_part(rate));
            return Target {
                level,
                levels: LevelSet::EMPTY,
                rate,
                e1,
            };
        }
        let levels = |level| match (self.groups.is_some(), asked.levels.is_empty()) {
            (false, _) => LevelSet::EMPTY,
            (true, true) => LevelSet::of(level).served(level, self.present),
            (true, false) => asked.levels.served(level, self.present),
        };
        let above = |level| match self.groups.is_some() {
            false => spec.above_base(level),
            true => spec
                .rate_of_set(levels(level))
                .saturating_sub(spec.layers.base.mean),
        };
        let level = self.most_level(top, above);
        let levels = levels(level);
        let level = match self.groups.is_some() {
            false => level,
            true => levels.highest().unwrap_or(Level::BASE),
        };
        Target {
            level,
            levels,
            rate: spec.above_base(level),
            e1: None,
        }
    }

    /// The level of the frames that go to the switch of the node.
    fn sent_level(&self) -> Level {
        let sending = self.adapter.sending().level;
        match self.sends_all() {
            true => {
                let spec = self.spec();
                sending.max(self.most_level(spec.top_level(), |level| spec.above_base(level)))
            }
            false => sending,
        }
    }

    /// The frames that the switch of the node gets.
    fn sent(&self) -> Sent {
        self.sent_for(self.sent_level(), self.adapter.sending().levels)
    }

    /// Of these, the frames up to `level`, or of alternative layers those of `levels`.
    fn sent_for(&self, level: Level, levels: LevelSet) -> Sent {
        match self.wanted_of(level, levels) {
            Sent::Set(set) if self.sends_all() => Sent::Set(set.union(LevelSet::up_to(level))),
            wanted => wanted,
        }
    }

    /// The frames that receivers get.
    fn wanted(&self) -> Sent {
        let sending = self.adapter.sending();
        self.wanted_of(sending.level, sending.levels)
    }

    fn wanted_of(&self, level: Level, levels: LevelSet) -> Sent {
        if self.groups.is_none() {
            return Sent::UpTo(level);
        }
        Sent::Set(match levels.is_empty() {
            true => LevelSet::of(Level::BASE),
            false => levels,
        })
    }

    /// Whether the switch of the node also gets frames that no receiver asks for.
    fn sends_all(&self) -> bool {
        let whole = self.drs.is_none() && self.keyring.is_none();
        self.config.all_layers && whole && self.config.carriage == Carriage::Datagrams
    }

    /// The highest level up to `top` that this host can send, where a level takes as much `above` the base layer.
    fn most_level(&self, top: Level, above: impl Fn(Level) -> CellRate) -> Level {
        let fits = |&level: &Level| above(level) <= self.affordable(level);
        let level = [top, Level::E1].into_iter().filter(|&level| level <= top);
        let level = level.filter(|&level| level > Level::BASE).find(fits);
        level.unwrap_or(Level::BASE)
    }

    /// Cells/s of a target, base layer included.
    fn rate_of(&self, target: Target) -> CellRate {
        self.spec().layers.base.mean.saturating_add(target.rate)
    }

    fn shape(&mut self, now: Time) {
        let (shaped, sending) = (self.adapter.shaped(now), self.adapter.sending());
        let above = shaped.rate.max(sending.rate);
        self.pacer
            .set_above_base(self.drs.is_some().then_some(above));
        let sent = self.sent_level();
        let level = match sent > sending.level {
            true => shaped.level.max(sent),
            false => shaped.level,
        };
        let (to, from) = (self.sent_for(level, shaped.levels), self.sent());
        self.pacer.set_sent(now, to, from);
    }

    /// Alternative layers have stopped, or come again: receivers of one that has stopped get the next lower one.
    fn revise<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(asked) = self.demand {
            let target = self.target(&asked);
            self.adapter.revise(target);
            self.adapt(now, obs);
        }
    }

    /// Runs the adapter: silence, a change that is due, the shaper after a raise.
    fn adapt<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if self.adapter.fell_silent(now) {
            self.pacer.set_receiver_rate(None);
            self.events.push_back(SourceEvent::AdapterSilent);
        }
        if let Some(announcement) = self.adapter.due(now) {
            let Announcement { message, from } = announcement;
            let (from, to) = (from.level, message.max);
            // On a decrease the shaper goes first, on an increase it follows (specs/mets.md 2.11).
            self.shape(now);
            self.send_adapt(now, message);
            let rate = self.rate_of(self.adapter.advertised());
            if announcement.from != self.adapter.advertised() {
                self.events
                    .push_back(SourceEvent::RateChanged { from, to, rate });
            }
            let flow = self.info.id;
            obs.on(now, self.subject(), || TraceEvent::Decision {
                flow,
                what: "adapt",
                value: i64::from(to.get()),
                reason: match to.cmp(&from) {
                    Ordering::Greater => "raise",
                    Ordering::Equal => "a new receiver",
                    Ordering::Less => "lower",
                },
            });
        }
        self.shape(now);
    }

    /// ADAPT goes through the shaper: it must not overtake frames of the level before.
    fn send_adapt(&mut self, now: Time, message: AdapterMsg) {
        let pdu = match self.config.carriage {
            Carriage::Cells => LinkPdu::Cell(message.to_cell()),
            Carriage::Datagrams => LinkPdu::Adapter(message),
        };
        let frame = (Layer::Base, message.era.0);
        // Before its start there are no frames to overtake, and no ticks either.
        if now < self.config.start && self.pacer.is_empty() {
            self.stats.adapt += 1;
            return self.pacer.push_first(pdu);
        }
        // A full shaper loses it; the refresh repairs that.
        if self.pacer.push(now, frame, (now, true), pdu).is_ok() {
            self.stats.adapt += 1;
        }
    }

    fn on_era<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while self.next_era <= now {
            self.next_era = self.next_era.saturating_add(self.config.era);
        }
        obs.on(now, self.subject(), || TraceEvent::Timer { name: "era" });
        if let Some(refresh) = self.adapter.refresh(now) {
            self.send_adapt(now, refresh.message);
        }
        self.scheduler.on_era(false);
        while let Some(member) = self.members.next_stale(now) {
            if let Some(keyring) = &mut self.keyring {
                keyring.on_gone(&member);
            }
            if let Some(parities) = &mut self.parities {
                parities.forget(member.id);
            }
            self.events.push_back(SourceEvent::MemberStale(member));
        }
        if let Some(keyring) = self.keyring.as_mut() {
            keyring.upkeep(now);
        }
        self.mediate(now);
    }

    fn on_pdu<O: Observer>(&mut self, now: Time, pdu: LinkPdu, obs: &mut O) {
        let message = match &pdu {
            LinkPdu::Adapter(message) => Some(*message),
            LinkPdu::Cell(cell) => res_in(cell),
            LinkPdu::Mets(_) => None,
        };
        let ours = message.filter(|message| {
            message.kind == AdapterKind::Res
                && message.flow == self.info.id
                && message.group == self.info.group
        });
        let Some(message) = ours.filter(|_| self.phase != Phase::Closed) else {
            self.stats.rejected += 1;
            return;
        };
        self.stats.res += 1;
        let target = self.target(&message);
        self.adapter.on_res(now, target);
        self.demand = Some(message);
        self.pacer
            .set_receiver_rate((message.drain.0 > 0).then_some(message.drain));
        self.adapt(now, obs);
    }

    fn collect_events(&mut self) {
        let dropped = self.dropped();
        let told = std::mem::replace(&mut self.reported_dropped, dropped);
        if dropped != told {
            let mut frames = dropped;
            for layer in Layer::ALL {
                frames[layer] -= told[layer];
            }
            self.events.push_back(SourceEvent::Dropped { frames });
        }
        while let Some(event) = self.scheduler.poll_event() {
            self.events.push_back(match event {
                SchedulerEvent::MissedDeadline { missed, window } => SourceEvent::MissedDeadline {
                    missed,
                    window,
                    late: self.members.late(),
                },
                SchedulerEvent::Resync { late } => SourceEvent::Resync { late },
                SchedulerEvent::SendBaseOnly => SourceEvent::SendBaseOnly,
                SchedulerEvent::ResumeRate => SourceEvent::ResumeRate,
            });
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.config.node,
            machine: "source",
        }
    }
}

/// Credits of the largest frame, its parities among them.
fn largest(packetiser: &Packetiser, parities: Option<&Parities>, spec: &FlowSpec) -> u32 {
    let bytes = spec.max_frame as usize;
    let travelling = packetiser.travelling(Layer::Base, bytes);
    let parities = parities.map_or(0, |parities| parities.cost(travelling));
    packetiser.cost(Layer::Base, bytes).saturating_add(parities)
}

/// The shaping of a flow that follows any rate.
fn drs_of(flow: &FlowInfo) -> Option<FlowFilter> {
    (flow.policy.adapt == AdaptMode::Continuous)
        .then(|| FlowFilter::new(FilterRule::Drs, &flow.spec))
}

/// Notes in the first packet of a live frame how long it was queued here.
fn note_queueing(now: Time, pdu: &mut LinkPdu) {
    let LinkPdu::Mets(packet) = pdu else { return };
    let header = &mut packet.header;
    if !header.waited.is_live() {
        return;
    }
    // The time stamp has the low 32 bits of the time.
    let since_due = Serial(now.as_us() as u32).diff(Serial(header.timestamp_us));
    let early_us = header.waited.early_ps() / 1_000_000;
    let queued = i64::from(since_due) + early_us.min(0);
    let queued = Span::from_us(u64::try_from(queued).unwrap_or(0));
    header.waited = header.waited.left_after(queued);
}

/// RES or ADAPT in a cell of its circuit.
fn res_in(cell: &Cell) -> Option<AdapterMsg> {
    (cell.vci == layercast_wire::ADAPTER_VCI)
        .then(|| AdapterMsg::from_cell(cell).ok())
        .flatten()
}

impl Machine for Source {
    type Input = SourceInput;
    type Transmit = SourceTransmit;
    type Event = SourceEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: SourceInput, obs: &mut O) {
        self.born.get_or_insert(now);
        match input {
            SourceInput::Pdu(pdu) => self.on_pdu(now, pdu, obs),
            SourceInput::Signal(signal) => self.on_signal(now, signal),
        }
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.born.get_or_insert(now);
        if self.phase == Phase::Closed {
            return;
        }
        self.resend_controls(now);
        if now >= self.next_era {
            self.on_era(now, obs);
        }
        self.run_change(now);
        self.adapt(now, obs);
        self.release(now, obs);
        self.flush_parities(now);
        self.pacer.on_tick(now);
        if self.held.is_some() {
            // The departed item may have been all that blocked the frame, and no other event would wake this
            // machine.
            self.release(now, obs);
        }
        self.run_signals(now);
        self.collect_events();
        self.drained(now);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<SourceTransmit> {
        if let Some(signal) = self.signals.pop_front() {
            return Some(SourceTransmit::Signal(signal));
        }
        if let Some((member, answer)) = self.keyring.as_mut().and_then(Keyring::poll) {
            let flow = self.info.id;
            let body = match answer {
                Answer::Grant(grant) => Downward::KeyGrant {
                    grant: grant.into(),
                },
                Answer::Denied(resource) => Downward::KeyDenied {
                    refusal: self.refusal(resource, 0, 0),
                },
            };
            return Some(SourceTransmit::Signal(Signal::ToMember {
                flow,
                member,
                body,
            }));
        }
        let mut pdu = self.pacer.pop()?;
        note_queueing(now, &mut pdu);
        self.stats.cells += u64::from(pdu.cells());
        Some(SourceTransmit::Pdu(pdu))
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        let end = match self.phase {
            Phase::Live => None,
            Phase::Draining { until } | Phase::Lingering { until, .. } => Some(until),
            Phase::Closed => return None,
        };
        // A held frame waits for the shaper, not for its deadline.
        let release = match self.held {
            Some(_) => None,
            None => self.scheduler.next_wake(),
        };
        let media = earliest(release, self.pacer.next_tick());
        let parities = self.parities.as_ref().and_then(Parities::next_timeout);
        let media = earliest(media, parities);
        let control = earliest(Some(self.next_era), self.adapter.next_timeout());
        let control = earliest(control, self.controls.next_timeout());
        let signals = earliest(Some(self.next_signal), self.alarms.next_timeout());
        let change = self.change.as_ref().and_then(Renegotiation::next_timeout);
        let manage = earliest(signals, change);
        earliest(earliest(media, control), earliest(manage, end))
    }
}
