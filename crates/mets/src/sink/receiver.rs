mod order;
mod playout;

use std::collections::VecDeque;

use layercast_core::{
    Cause, FlowId, FlowSpec, Layer, Level, Observer, PerLayer, QosAction, QosEvent, Serial, Span,
    Subject, Time, TraceEvent, aal5_cells,
};
use layercast_protect::MediaError;
use layercast_qos::{
    DeadlineWindow, FlowMonitor, JitterConfig, JitterEvent, JitterFilter, MoveCause, Playout,
    SignedSpan, SourceTime,
};
use layercast_wire::{
    Assembler, Cell, ClockReading, EndToEndMs, Epoch, Flags, FlowInfo, FrameType, METS_HEADER,
    Mark as CellMark, MetsHeader, MetsPacket, Reassembler, ReassemblyError, Waited, WholeFrame,
    packet_of,
};

use super::broken::Broken;
use super::chooser::Chooser;
use super::clock::SourceClock;
use super::delays::{Delays, Lateness, SourceLateness};
use super::explain::Explanations;
use super::gaps::{GapCounter, Mark};
use super::history::History;
use super::opener::Opener;
use super::outages::Outages;
use super::repair::Repair;
use super::starting::{Kept, Starting};
use super::unstarted::Unstarted;
use super::{SinkConfig, SinkEvent, SinkStats};
use crate::measure::Octets;
use crate::{PlayedFrame, measure};
use order::{Chains, Patience};

/// Jump of the sequence numbers that is still the same flow (RFC 3550, A.1).
const MAX_JUMP: i32 = 3_000;
/// How far a frame of the same count may come out of order.
const REORDERED: i32 = 64;
/// Frames in a row behind one that was played, and the time that they take at least: that one was forged or damaged, and the count continues
/// behind it. Frames that a repair brings too late come between those of the moment.
const BEHIND: (u32, Span) = (4, Span::from_ms(500));
/// A flow has at most this multiple of the frames per second that it states, on average.
const FASTER: u64 = 4;
/// A frame is due later than one behind it by this at most: what is due later has a time that was forged or damaged, and would hold up all
/// behind it.
const DUE_APART: Span = Span::from_secs(1);
/// Entries of the playout buffer, dropped frames included.
const MAX_SLOTS: usize = 8_192;
/// Deadlines in a window, and how late a frame may be handed over without missing its own
/// (specs/mets.md 2.4).
const WINDOW: u32 = 24;
const SLACK: Span = Span::from_ms(1);
/// Most octets of a fast start in the playout buffer, where they wait for a repair: what a node keeps of a GOP.
const MAX_FAST_OCTETS: usize = 8 << 20;

/// The data path of a sink: packets to frames, frames to their deadline, in order.
#[derive(Debug)]
pub(super) struct Receiver {
    node: String,
    flow: FlowId,
    /// Of the life of the flow that is joined.
    epoch_of_flow: Epoch,
    pub vci: u16,
    mark: CellMark,
    synchronised: bool,
    reassembler: Reassembler,
    /// Of a flow whose media are sealed.
    pub opener: Option<Opener>,
    /// Of a flow whose base layer has parities.
    repair: Option<Repair>,
    /// Epoch of the packet at hand, and of the newest frame; 0 in the clear.
    epoch: u32,
    newest_epoch: u32,
    /// Level granted when the AAL5 frame in the making began; `None` between frames.
    cell_level: Option<Level>,
    assembler: Assembler,
    gaps: GapCounter,
    /// Of a flow of alternative layers.
    chooser: Option<Chooser>,
    /// When it began.
    came: Time,
    jitter_config: JitterConfig,
    jitter: JitterFilter,
    pub monitor: FlowMonitor,
    deadlines: DeadlineWindow,
    missed_threshold: u32,
    clock: SourceClock,
    delays: Delays,
    lateness: Lateness,
    /// How long the largest frame takes to leave its source.
    spread: Span,
    source_lateness: SourceLateness,
    /// A fast start is under way: the playout point begins with the first frame behind it.
    catches_up: bool,
    /// How long frames wait for others.
    patience: Patience,
    /// How far pictures and sound were handed over.
    chains: Chains,
    pub explanations: Explanations,
    /// In play-out order.
    buffer: VecDeque<Slot>,
    /// Slots of the buffer that open a new count.
    opening: u32,
    history: History,
    /// Counts of frame numbers that ended, also of flows before this one, and whether one began.
    pub counts: u32,
    opened: bool,
    phase: Phase,
    /// Newest frame accepted, and its timestamp.
    newest: Serial,
    newest_us: Serial,
    /// A frame far off: the next one near it opens a new count.
    stray: Option<Serial>,
    /// Since when frames are behind what was played, and how many.
    behind: Option<(Time, u32)>,
    /// While it waits for a GOP start that is whole: those that began to come.
    unstarted: Option<Unstarted>,
    /// Frames behind these.
    starting: Starting,
    /// What the flow becomes from the frame of this number on.
    change: Option<(Serial, FlowSpec)>,
    outages: Outages,
    /// When the last packet of the flow came.
    heard: Option<Time>,
    pub stats: SinkStats,
    pub events: VecDeque<SinkEvent>,
    octets: Octets,
    /// Frames that were lost or late since they were asked for, as a QoS monitor has them.
    errors: u64,
    broken: Broken,
}

/// Where in the flow the receiver is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waiting for a GOP start; frames before it cannot be decoded.
    Starting,
    Running,
    /// The session channel was lost and is back: the next GOP start may open a new count.
    Rejoined,
}

#[derive(Debug)]
struct Slot {
    mark: Mark,
    /// When it was complete.
    came: Time,
    deadline: Time,
    /// `None` if it came late or did not fit: it is there, but not played.
    frame: Option<PlayedFrame>,
    /// Its turn is over. It stays while a frame of the other chain may still arrive before it.
    handed: bool,
    /// Opens a new count of sequence numbers.
    opens: bool,
    /// Follows a loss of the session channel: what is missing before it passed by.
    after_outage: bool,
}

impl Slot {
    /// No frame behind it is handed over before it, and nothing is waited for that is missing before it.
    fn is_barrier(&self) -> bool {
        self.opens || self.after_outage
    }
}

impl Receiver {
    /// For what `own` leaves of the flow.
    pub fn new(now: Time, config: &SinkConfig, flow: &FlowInfo, own: &FlowSpec) -> Receiver {
        let jitter_config = config.playout.for_flow(own, &config.policy);
        let mut monitor = FlowMonitor::new(flow.id, now);
        if !config.synchronised {
            monitor.set_unsynchronised();
        }
        Receiver {
            node: config.node.clone(),
            flow: flow.id,
            epoch_of_flow: flow.epoch,
            vci: 0,
            mark: config.aal5_mark,
            synchronised: config.synchronised,
            reassembler: reassembler(config, flow),
            opener: flow.identity.as_ref().map(|_| Opener::default()),
            repair: flow.parities.map(|most| Repair::new(flow.id, most)),
            epoch: 0,
            newest_epoch: 0,
            cell_level: None,
            assembler: Assembler::new(travelling(flow, flow.spec.max_frame)),
            gaps: GapCounter::new(&flow.spec),
            chooser: Chooser::of(&flow.spec),
            came: now,
            jitter_config,
            jitter: JitterFilter::new(jitter_config),
            monitor,
            deadlines: DeadlineWindow::new(WINDOW),
            missed_threshold: u32::from(config.policy.missed_deadline_threshold),
            clock: SourceClock::new(config.follows_clock),
            delays: Delays::default(),
            lateness: Lateness::default(),
            spread: Span::from_us(flow.spread_us),
            source_lateness: SourceLateness::default(),
            catches_up: false,
            patience: Patience::default(),
            chains: Chains::default(),
            explanations: Explanations::default(),
            buffer: VecDeque::new(),
            opening: 0,
            history: History::default(),
            counts: 0,
            opened: false,
            phase: Phase::Starting,
            newest: Serial(0),
            newest_us: Serial(0),
            stray: None,
            behind: None,
            unstarted: None,
            starting: Starting::default(),
            change: None,
            heard: None,
            outages: Outages::new(&flow.spec),
            stats: SinkStats::default(),
            events: VecDeque::new(),
            octets: Octets::default(),
            errors: 0,
            broken: Broken::new(now),
        }
    }

    /// The source was started again, and `flow` is the new life of it or takes its place: what came of the old one is
    /// still played, and counts continue.
    pub fn begin_life(&mut self, config: &SinkConfig, flow: &FlowInfo, own: &FlowSpec) {
        self.flow = flow.id;
        self.epoch_of_flow = flow.epoch;
        self.spread = Span::from_us(flow.spread_us);
        self.vci = 0;
        self.synchronised = config.synchronised;
        // Perhaps another clock.
        self.clock.forget();
        self.monitor.follow(flow.id);
        if !config.synchronised {
            self.monitor.set_unsynchronised();
        }
        self.reassembler = reassembler(config, flow);
        self.cell_level = None;
        self.opener = flow.identity.as_ref().map(|_| Opener::default());
        (self.epoch, self.newest_epoch) = (0, 0);
        let repaired = self.repair.take().map(|repair| repair.stats());
        self.repair = flow.parities.map(|most| Repair::new(flow.id, most));
        if let (Some(repair), Some(stats)) = (&mut self.repair, repaired) {
            repair.go_on_from(stats);
        }
        self.stats.dropped.evicted += self.assembler.evicted();
        self.assembler = Assembler::new(travelling(flow, flow.spec.max_frame));
        self.gaps.set_spec(&flow.spec);
        self.chooser = Chooser::of(&flow.spec);
        self.outages.set_spec(&flow.spec);
        self.outages.broken();
        self.jitter_config = config.playout.for_flow(own, &config.policy);
        self.missed_threshold = u32::from(config.policy.missed_deadline_threshold);
        self.change = None;
        self.stray = None;
        self.start_anew();
    }

    fn start_anew(&mut self) {
        self.settle();
        self.behind = None;
        self.starting = Starting::default();
        self.broken = Broken::new(self.heard.unwrap_or_default());
        self.phase = Phase::Starting;
    }

    /// Notes that `came` bytes of a GOP start came, while it waits for one that is whole.
    fn note_start<O: Observer>(
        &mut self,
        now: Time,
        header: &MetsHeader,
        layer: Layer,
        level: Level,
        came: usize,
        obs: &mut O,
    ) {
        if self.phase != Phase::Starting {
            return;
        }
        let mark = Mark::of(header, layer, level);
        match &mut self.unstarted {
            Some(unstarted) => unstarted.packet(now, &self.gaps, mark, header.alf_len, came),
            // The beginning of the first one may have passed before the receiver was there.
            None if header.offset == 0 => {
                self.unstarted = Some(Unstarted::new(now, mark, header.alf_len, came));
            }
            None => {}
        }
        // Nothing may ever be played.
        let (flow, news) = (
            self.flow,
            self.unstarted.as_mut().map_or(0, Unstarted::news),
        );
        if news > 0 {
            self.errors += u64::from(news);
            obs.probe(self.subject(), || measure::missing(flow, now, news));
        }
    }

    /// Frames that were lost or late since this was asked last.
    pub fn take_errors<O: Observer>(&mut self, now: Time, obs: &mut O) -> u64 {
        // What is in the buffer is not accounted for yet.
        if self.phase != Phase::Starting && self.buffer.is_empty() {
            let (flow, news) = (self.flow, self.broken.news(now, &self.gaps));
            if news > 0 {
                self.errors += u64::from(news);
                obs.probe(self.subject(), || measure::missing(flow, now, news));
            }
        }
        std::mem::take(&mut self.errors)
    }

    /// Accounts for what is missing of the GOPs that never started: the receiver leaves, or another life begins.
    pub fn settle(&mut self) {
        if let Some(unstarted) = self.unstarted.take() {
            self.stats.cut_starts.add(unstarted.cut());
            self.count(unstarted.missing());
        }
    }

    /// Accounts for what is missing before the first GOP start that is whole.
    fn started<O: Observer>(&mut self, now: Time, mark: Mark, obs: &mut O) {
        if let Some(unstarted) = self.unstarted.take() {
            let gap = unstarted.missing_before(&self.gaps, mark);
            self.stats.cut_starts.add(unstarted.cut_before_newest());
            self.attribute(now, gap, false, unstarted.reported(), obs);
        }
    }

    /// The policy or the bounds of the user changed: the playout follows at the next GOP start.
    pub fn reconfigure(&mut self, config: &SinkConfig, own: &FlowSpec) {
        self.jitter_config = config.playout.for_flow(own, &config.policy);
        self.jitter.reconfigure(self.jitter_config);
        self.missed_threshold = u32::from(config.policy.missed_deadline_threshold);
    }

    /// The source changed the flow: everything follows at frame `from`, or at the next GOP start.
    pub fn renegotiate(&mut self, config: &SinkConfig, own: &FlowSpec, from: Option<Serial>) {
        let from = from.unwrap_or(self.newest.plus(1));
        self.jitter_config = config.playout.for_flow(own, &config.policy);
        self.missed_threshold = u32::from(config.policy.missed_deadline_threshold);
        let sealed = self.opener.is_some();
        self.assembler.allow(match sealed {
            true => Opener::sealed_frame(own.max_frame),
            false => own.max_frame,
        });
        self.change = Some((from, own.clone()));
    }

    /// Follows a change whose first frame this is.
    fn follow_change(&mut self, seq: Serial) {
        if let Some((_, spec)) = self.change.take_if(|(from, _)| !from.is_after(seq)) {
            self.jitter.reconfigure(self.jitter_config);
            self.gaps.set_spec(&spec);
            self.outages.set_spec(&spec);
        }
    }

    /// The session channel is back, perhaps on another path or to a source that started again.
    pub fn on_rejoin(&mut self) {
        if self.phase == Phase::Running {
            self.phase = Phase::Rejoined;
        }
    }

    /// This host did not run the receiver from `since` until `now`.
    pub fn on_stop(&mut self, since: Time, now: Time) {
        self.jitter.on_stop(since, now);
    }

    /// Whether it waits for the first GOP start of a life of the flow.
    pub fn is_starting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// Whether the layers of the flow are alternative.
    pub fn chooses(&self) -> bool {
        self.chooser.is_some()
    }

    /// Whether everything that came was played.
    pub fn is_empty(&self) -> bool {
        self.buffer.iter().all(|slot| slot.handed)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let due = self.due().into_iter().flatten();
        due.map(|due| due.until).min()
    }

    pub fn playout(&self) -> SignedSpan {
        self.jitter.playout()
    }

    /// For how long after the least delay seen a frame may arrive and still be played.
    pub fn spare(&self) -> Option<Span> {
        self.jitter.spare()
    }

    pub fn stats(&self) -> SinkStats {
        let mut stats = self.stats.clone();
        stats.repair = self.repair.as_ref().map(Repair::stats);
        stats.outage_ms = self.outages.total().as_ms();
        stats.end_to_end_ms = self.delays.figures();
        stats.dropped.evicted += self.assembler.evicted();
        stats.dropped.malformed += self.gaps.contradictions();
        if let Some(unstarted) = &self.unstarted {
            stats.cut_starts.add(unstarted.cut_before_newest());
            for (layer, &count) in unstarted.missing().lost.iter() {
                stats.lost[layer] += u64::from(count);
            }
        }
        stats.late_ms = self.lateness.figures();
        stats.source_late_ms = self.source_lateness.ms();
        stats.source_skipped_ms = self.source_lateness.skipped_ms();
        stats.source_clock = self.clock.report().filter(|_| !self.synchronised);
        let playout = self.jitter.spare().unwrap_or_default();
        let expected = self.gaps.expected();
        stats.silence = expected.silence(self.heard, self.outages.watched(), playout);
        stats
    }

    /// A node upstream says what the clock of the source shows. Returns whether that is believed.
    pub fn hear_clock(&mut self, reading: ClockReading) -> bool {
        self.clock.hear(reading)
    }

    /// The end-to-end delays of the last seconds before `now`; `None` without live frames in them.
    pub fn recent_delays(&self, now: Time) -> Option<EndToEndMs> {
        self.delays.recent(now)
    }

    /// A packet had the congestion mark, to which nothing reacts here.
    pub fn note_mark(&mut self) {
        self.stats.marked += 1;
    }

    /// Takes a cell of the flow's circuit; `level` is the level granted now.
    pub fn on_cell<O: Observer>(&mut self, now: Time, cell: &Cell, level: Level, obs: &mut O) {
        if cell.pti.congestion() {
            self.stats.marked += 1;
            self.monitor.on_congestion();
        }
        let begins = self.mark == CellMark::First && cell.pti.auu();
        let level = match self.cell_level {
            Some(began) if !begins => began,
            _ => level,
        };
        self.cell_level = Some(level);
        let Some(result) = self.reassembler.push(cell) else {
            return;
        };
        self.cell_level = None;
        match result.map(packet_of) {
            Ok(Ok(packet)) => self.on_packet(now, packet, level, obs),
            Ok(Err(_)) => self.stats.dropped.malformed += 1,
            Err(ReassemblyError::Crc) => self.stats.dropped.crc += 1,
            Err(ReassemblyError::Orphan) => self.stats.dropped.orphan += 1,
            Err(ReassemblyError::Length | ReassemblyError::TooLong) => {
                self.stats.dropped.length += 1;
            }
        }
    }

    /// When the last packet of the flow came.
    pub fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Takes a METS packet; `level` is the level granted when it began to arrive.
    pub fn on_packet<O: Observer>(
        &mut self,
        now: Time,
        packet: MetsPacket,
        level: Level,
        obs: &mut O,
    ) {
        if packet.header.flow == self.flow {
            self.stats.packets += 1;
            self.heard = Some(now);
            self.outages.packet(now);
        }
        match &mut self.repair {
            None => self.on_media(now, packet, level, true, obs),
            Some(repair) => {
                let header = &packet.header;
                if header.kind == FrameType::PARITY && header.flow == self.flow {
                    repair.on_parity(&packet);
                } else {
                    self.on_media(now, packet, level, true, obs);
                }
                while let Some(recovered) = self.repair.as_mut().and_then(Repair::poll) {
                    self.on_media(now, recovered, level, false, obs);
                }
            }
        }
    }

    /// Takes a packet of a frame, which `came` or was recovered.
    fn on_media<O: Observer>(
        &mut self,
        now: Time,
        mut packet: MetsPacket,
        level: Level,
        came: bool,
        obs: &mut O,
    ) {
        let header = packet.header;
        let Some(layer) = header.kind.layer().filter(|_| header.flow == self.flow) else {
            self.stats.dropped.unknown += 1;
            return;
        };
        if header.flags.life() != self.epoch_of_flow.mark() {
            self.stats.dropped.life += 1;
            return;
        }
        if header.check(packet.payload.len()).is_err() {
            self.stats.dropped.malformed += 1;
            return;
        }
        let travelled = packet.payload.len();
        let repair = self
            .repair
            .as_mut()
            .filter(|_| came && layer == Layer::Base);
        let copy = repair.map(|repair| repair.copy(&packet));
        if let Some(opener) = &mut self.opener {
            // Before anything else believes it.
            match opener.open(layer, &header, std::mem::take(&mut packet.payload)) {
                Ok((media, epoch)) => {
                    packet.payload = media;
                    self.epoch = epoch;
                }
                Err(MediaError::NoKey) => {
                    self.stats.dropped.unkeyed += 1;
                    return;
                }
                Err(MediaError::Forged | MediaError::NotSealed(_)) => {
                    self.stats.dropped.forged += 1;
                    return;
                }
            }
        }
        // ADAPT may be lost, or overtaken by the GOP start that it is about.
        let level = match &mut self.chooser {
            None => header.passing.here().unwrap_or(level),
            Some(chooser) => match chooser.choose(&header, layer, level) {
                Some(level) => level,
                // The link carries it for others.
                None => return,
            },
        };
        if packet.congestion {
            self.stats.marked += 1;
            self.monitor.on_congestion();
        }
        let opens = self.opens(header.seq, header.flags.contains(Flags::GOP_START));
        if !opens && !self.is_near(header.seq, Serial(header.timestamp_us)) {
            self.stats.dropped.stray += 1;
            return;
        }
        // The history is that of the count being played, not of one that was just opened.
        if !opens && self.opening == 0 && self.history.contains(header.seq) {
            self.stats.dropped.duplicate += 1;
            return;
        }
        if opens {
            self.note_start(now, &header, layer, level, travelled, obs);
        }
        let whole = self.assembler.insert(packet, travelled, layer, level);
        if let (Ok(_), Some(copy), Some(repair)) = (&whole, copy, &mut self.repair) {
            repair.keep((header.seq, header.offset), copy);
        }
        match whole {
            Ok(Some(whole)) => self.on_frame(now, whole, obs),
            Ok(None) => self.broken.part(Mark::of(&header, layer, level)),
            Err(Cause::Duplicate) => self.stats.dropped.duplicate += 1,
            Err(Cause::Length) => self.stats.dropped.length += 1,
            Err(_) => self.stats.dropped.malformed += 1,
        }
    }

    /// Whether a frame opens a new count: the first GOP start, or one after a rejoin that does not
    /// continue the old count (the source started again).
    fn opens(&self, seq: Serial, gop_start: bool) -> bool {
        let continues = (-REORDERED..=MAX_JUMP).contains(&seq.diff(self.newest));
        match self.phase {
            Phase::Running => false,
            Phase::Rejoined => gop_start && !continues && self.may_open(seq),
            Phase::Starting => gop_start,
        }
    }

    /// Whether a frame may begin a new count: of sealed media none that may have been there before, since
    /// within an epoch a source only counts upwards.
    fn may_open(&self, seq: Serial) -> bool {
        self.opener.is_none() || seq.is_after(self.newest) || self.epoch > self.newest_epoch
    }

    /// Whether the number belongs to the sequence at hand: near it, and not an old number with a new
    /// timestamp. Two frames near one another that do not belong start a new sequence.
    fn is_near(&mut self, seq: Serial, us: Serial) -> bool {
        let diff = seq.diff(self.newest);
        let earliest = if us.is_after(self.newest_us) {
            -REORDERED
        } else {
            -MAX_JUMP
        };
        let belongs = (earliest..=MAX_JUMP).contains(&diff) && self.is_time_for(diff, us);
        if self.phase == Phase::Starting || belongs {
            self.stray = None;
            return true;
        }
        if !self.may_open(seq) {
            return false;
        }
        let confirmed = self
            .stray
            .is_some_and(|stray| (1..=MAX_JUMP).contains(&seq.diff(stray)));
        self.stray = Some(seq);
        if confirmed {
            self.stray = None;
            self.start_anew();
            self.assembler.clear();
        }
        confirmed
    }

    /// Whether as much time has passed at the source as this many frames take, roughly: a number far ahead without that is forged or damaged.
    fn is_time_for(&self, frames: i32, us: Serial) -> bool {
        let Some(beyond) = frames.checked_sub(REORDERED).filter(|it| *it > 0) else {
            return true;
        };
        let passed = Span::from_us(us.diff(self.newest_us).max(0) as u64);
        let rate = self.jitter_config.frame_rate;
        rate.frames_in(passed) >= beyond as u64 / FASTER
    }

    fn on_frame<O: Observer>(&mut self, now: Time, frame: WholeFrame, obs: &mut O) {
        let seq = frame.header.seq;
        let waits = self.phase == Phase::Starting;
        if waits && !self.opens(seq, frame.gop_start()) {
            self.stats.before_start += 1;
            let (flow, unstarted) = (self.flow, self.unstarted.as_ref());
            if unstarted.is_some_and(Unstarted::is_loss) {
                obs.probe(self.subject(), || measure::alive(flow, now));
            }
            if unstarted.is_some_and(|unstarted| unstarted.precedes(seq)) {
                let epoch = self.epoch;
                self.starting.keep(Kept {
                    came: now,
                    epoch,
                    frame,
                });
            }
            return;
        }
        self.accept(now, now, frame, obs);
        while waits
            && self.phase == Phase::Running
            && let Some(kept) = self.starting.pop_after(seq)
        {
            let took = now.since(kept.came);
            match self.catches_up {
                true => self.note_fast_repair(now, took),
                false => self.patience.learn(took),
            }
            self.stats.before_start -= 1;
            self.epoch = kept.epoch;
            self.accept(now, kept.came, kept.frame, obs);
        }
    }

    /// Takes a frame that was complete at `came` into the playout buffer.
    fn accept<O: Observer>(&mut self, now: Time, came: Time, whole: WholeFrame, obs: &mut O) {
        // It may end waits.
        self.note_waits(now);
        let (header, layer) = (whole.header, whole.layer);
        let opens = self.opens(header.seq, whole.gop_start());
        let after_outage = self.phase == Phase::Rejoined && whole.gop_start();
        let seq = header.seq;
        let at = match opens {
            true => self.buffer.len(),
            false => match self.place(seq) {
                Some(at) => at,
                None => {
                    self.stats.dropped.duplicate += 1;
                    return;
                }
            },
        };
        if opens {
            self.clock.begin_anew();
            self.source_lateness.begin_anew();
            self.jitter = JitterFilter::new(self.jitter_config);
            self.counts = self.counts.wrapping_add(u32::from(self.opened));
            self.opened = true;
        }
        let again = header.passing.is_again();
        if opens {
            self.catches_up = again;
        } else if !again && std::mem::take(&mut self.catches_up) {
            self.jitter.on_spread(self.spread);
            if let Some(longest) = self.patience.take_fast() {
                // What plays to time from here on crosses the same path.
                self.jitter.on_repair(now, longest);
            }
            if !self.synchronised {
                // Delays count from that of the first frame that is not held up.
                self.clock.begin_anew();
            }
        }
        let Some(emission) = self.clock.read(
            came,
            header.timestamp_us,
            whole.gop_start(),
            header.waited.late(),
            self.synchronised,
        ) else {
            self.stats.dropped.malformed += 1;
            return;
        };
        if let Some(by) = self.clock.take_step() {
            self.jitter.on_clock(by);
            self.events.push_back(SinkEvent::Synchronised { by });
            let flow = self.flow;
            obs.on(now, self.subject(), || TraceEvent::Decision {
                flow,
                what: "clock",
                value: by.as_ps() / 1_000_000,
                reason: "the clock of the source is known",
            });
        }
        if opens || after_outage {
            self.phase = Phase::Running;
        }
        let mark = Mark::of(&header, layer, whole.level);
        self.broken.whole(now, mark);
        if opens {
            self.started(now, mark, obs);
        }
        if opens || seq.is_after(self.newest) {
            self.newest = seq;
            self.newest_epoch = self.epoch;
            self.newest_us = Serial(header.timestamp_us);
        }
        // No delay is less than none, whatever the error of the clock.
        let known = self.clock.age(came, header.timestamp_us);
        let known = known.filter(|_| !self.synchronised);
        let delay = known.map_or(emission.age(came), |age| age.max(SignedSpan::ZERO));
        if known.is_some() {
            self.monitor.set_synchronised();
        }
        let bytes = whole.payload.len();
        let cells = aal5_cells(METS_HEADER + bytes);
        match again {
            true => self.monitor.on_repeated(layer, bytes as u32, cells),
            false => self.monitor.on_frame(layer, bytes as u32, cells, delay),
        }
        let flow = self.flow;
        obs.on(now, self.subject(), || TraceEvent::Received {
            flow,
            layer: Some(layer),
            seq: seq.0,
            bytes: bytes as u32,
            delay: delay.clamped(),
        });
        self.octets.add(bytes);
        let octets = self.octets;
        obs.probe(self.subject(), || {
            octets.frame(flow, QosAction::Received, QosEvent::IN, now, bytes)
        });
        if !again {
            let shared = self.synchronised || known.is_some();
            obs.probe(self.subject(), || {
                measure::delayed(flow, now, delay, shared)
            });
        }
        self.follow_change(seq);
        let playout = match again {
            // A decoder needs every frame since the GOP start to decode the first one that is on time, so all are handed
            // over, as fast as they come. They say nothing of the delay of the path.
            true => Playout {
                deadline: now,
                late_by: None,
            },
            false => {
                let emission = self.on_the_timeline(came, &header, emission);
                let queued = header.waited.queued();
                let queued = (queued < Waited::LONGEST_QUEUED).then_some(queued);
                self.jitter.on_source(header.waited.late(), queued);
                self.jitter.on_arrival(came, emission, whole.gop_start())
            }
        };
        self.collect_jitter_events();
        let is_accounted = !opens && self.passed(seq);
        if self.is_left_behind(came, is_accounted && !again) {
            self.start_anew();
            self.assembler.clear();
        }
        let current = !opens && self.opening == 0;
        let passed = is_accounted || current && self.chains[mark.chain()].is_behind(seq);
        match passed {
            true => self.note_passed(came, seq),
            false => self.note_repair(came, at),
        }
        // The playout point may have moved up since the frames behind it arrived.
        let behind = self.next_in_chain(at, mark.chain());
        let deadline = behind.map_or(playout.deadline, |behind| {
            playout.deadline.min(behind.max(now))
        });
        let frame = PlayedFrame {
            seq,
            count: self.counts,
            layer,
            gop_start: whole.gop_start(),
            sound: header.sound.is_sound(),
            missing: PerLayer::default(),
            again,
            damaged: header.flags.contains(Flags::DUMMY),
            payload: whole.payload,
            emitted: emission.plus(SignedSpan::ZERO),
            arrived: came,
            deadline,
            awaited: None,
            delay: delay.clamped(),
            // The delay of a fast start is not that of the path.
            waited: match again {
                true => Waited::default(),
                false => header.waited,
            },
        };
        self.stats.fast_start += u64::from(again);
        if !is_accounted && self.buffer.len() >= MAX_SLOTS {
            self.overflow(layer);
            return;
        }
        if passed || playout.late_by.is_some() {
            let by = playout.late_by.unwrap_or(Span::ZERO);
            self.on_late(now, &frame, by, is_accounted, obs);
        }
        if is_accounted {
            self.history.mark(seq);
            return;
        }
        let slot = Slot {
            mark,
            came,
            deadline,
            frame: (playout.late_by.is_none() && !passed).then_some(frame),
            handed: passed,
            opens,
            after_outage,
        };
        self.opening += u32::from(opens);
        let latest = slot.deadline.saturating_add(DUE_APART);
        for before in self.buffer.iter_mut().take(at) {
            before.deadline = before.deadline.min(latest);
        }
        self.buffer.insert(at, slot);
        self.bound_buffer();
    }

    /// Takes whether a frame that came is behind what was played; whether those that come now are, all of them: only media that are not
    /// sealed can be forged.
    fn is_left_behind(&mut self, came: Time, behind: bool) -> bool {
        if !behind || self.opener.is_some() || self.phase != Phase::Running {
            self.behind = None;
            return false;
        }
        let (since, count) = self.behind.unwrap_or((came, 0));
        self.behind = Some((since, count + 1));
        count + 1 >= BEHIND.0 && came.since(since) >= BEHIND.1
    }

    /// When a frame was emitted on the running timeline of its source, which may begin again with it.
    fn on_the_timeline(
        &mut self,
        came: Time,
        header: &MetsHeader,
        emission: SourceTime,
    ) -> SourceTime {
        let delay = emission.age(came);
        let jump = (self.source_lateness).frame(came, header.seq, header.waited, delay);
        if let Some(jump) = jump {
            self.jitter.on_jump(jump);
            return emission;
        }
        let onto = self
            .source_lateness
            .onto_the_timeline(header.seq, header.waited);
        SourceTime::from_ps(emission.as_ps().saturating_add(onto.as_ps()))
    }

    /// Where in the buffer the frame belongs; `None` if it is there already.
    fn place(&self, seq: Serial) -> Option<usize> {
        let mut at = self.buffer.len();
        while let Some(slot) = at.checked_sub(1).and_then(|before| self.buffer.get(before)) {
            match seq.diff(slot.mark.seq) {
                0 => return None,
                1.. => break,
                _ if slot.opens => break,
                _ => at -= 1,
            }
        }
        Some(at)
    }

    /// Whether a frame after this one was played already.
    fn passed(&self, seq: Serial) -> bool {
        let opened = self.buffer.iter().rev().find(|slot| slot.opens);
        match (opened, self.gaps.last()) {
            (Some(opened), _) => opened.mark.seq.is_after(seq),
            (None, Some(last)) => !seq.is_after(last),
            (None, None) => false,
        }
    }

    fn collect_jitter_events(&mut self) {
        self.monitor.set_playout(self.jitter.playout());
        while let Some(event) = self.jitter.poll_event() {
            self.events.push_back(match event {
                JitterEvent::PlayoutMoved { from, to, cause } => {
                    let at_source = self.source_lateness.explains(to.as_ps() - from.as_ps());
                    let cause = match cause {
                        MoveCause::Late | MoveCause::Estimate => at_source.unwrap_or(cause),
                        cause => cause,
                    };
                    SinkEvent::Playout { from, to, cause }
                }
                JitterEvent::DelayBound { needed } => SinkEvent::DelayBound { needed },
                JitterEvent::GopStartMissing => SinkEvent::GopStartMissing,
            });
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.node,
            machine: "sink",
        }
    }
}

fn reassembler(config: &SinkConfig, flow: &FlowInfo) -> Reassembler {
    match config.repair && flow.identity.is_none() {
        true => Reassembler::repairing(config.aal5_mark),
        // What was repaired would not open.
        false => Reassembler::new(config.aal5_mark),
    }
}

/// Most bytes of a frame of `max_frame` bytes on its way.
fn travelling(flow: &FlowInfo, max_frame: u32) -> u32 {
    match flow.identity {
        Some(_) => Opener::sealed_frame(max_frame),
        None => max_frame,
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
