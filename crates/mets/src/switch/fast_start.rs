use std::collections::VecDeque;

use layercast_core::{
    CELL_PAYLOAD, CellRate, FlowId, Layer, Level, LevelSet, Observer, PortId, Span, Time,
    TraceEvent, earliest,
};
use layercast_wire::LinkPdu;

use crate::switch::adapter::Adapt;
use crate::switch::flow::{Branch, Flow, UpstreamGrant};
use crate::switch::forward::Stamp;
use crate::switch::selector::Step;
use crate::switch::{Switch, subject};
use layercast_link::FrameFate;

/// Most octets that are kept of the running GOP of one flow, and of all flows together.
pub const MAX_RECENT: (usize, usize) = (8 << 20, 64 << 20);
/// Longest time for which a GOP is kept after its start. Of longer GOPs there is no fast start after that, and one that is under
/// way ends: its receiver begins with the next key frame.
const MAX_AGE: Span = Span::from_secs(12);
/// How long a new branch waits for the first demand of its receiver, and for the answer to it: the level of the fast start
/// follows them.
const AWAIT_LEVEL: Span = Span::from_ms(400);
/// Time by which a fast start has to catch up before the next key frame is expected. With less it is not worth its rate.
const GAIN: Span = Span::from_ms(250);
/// A fast start takes at most this many times the rate of its flow, whatever the link has left: the links behind are
/// not known.
const FASTEST: u32 = 8;
/// Or the rate that sends this many key frames: in the base layer of a long GOP there may be one frame alone.
const FRAMES_PER_SECOND: u32 = 10;
/// When the queue of the port is longer than this many cells, the fast start waits.
const BACKLOG: u32 = 64;
const RETRY: Span = Span::from_ms(2);
/// How far a late driver may catch up with the schedule of a fast start.
const BURST: Span = Span::from_ms(5);

/// The datagrams of the running GOP of a flow.
#[derive(Default, Debug)]
pub(crate) struct Recent {
    units: VecDeque<(LinkPdu, Step)>,
    octets: usize,
    /// When the GOP started; `None`: none has started, or it is not kept.
    since: Option<Time>,
    /// From one GOP start to the next, as of the last two.
    length: Option<Span>,
    /// When the last GOP started, kept or not.
    started: Option<Time>,
    /// Counts GOPs.
    gop: u64,
}

impl Recent {
    /// Takes a datagram of the flow, which `starts` a GOP or not; at most `most` octets are kept. Gives whether the GOP is
    /// kept: a longer one is given up as a whole.
    pub fn take(
        &mut self,
        now: Time,
        pdu: &LinkPdu,
        step: Step,
        starts: bool,
        most: usize,
    ) -> bool {
        if starts {
            self.length = self.started.map(|started| now.since(started));
            self.clear();
            (self.since, self.started) = (Some(now), Some(now));
        }
        let Some(since) = self.since else {
            return false;
        };
        // Behind a fast start, blocks of parities have gaps that no parity fills.
        if step.parity {
            return true;
        }
        self.octets += pdu.wire_len();
        if self.octets > most || now.since(since) > MAX_AGE {
            self.clear();
            return false;
        }
        self.units.push_back((pdu.clone(), step));
        true
    }

    /// Gives up what is kept, until the next GOP starts.
    pub fn clear(&mut self) {
        self.units.clear();
        (self.octets, self.since) = (0, None);
        self.gop = self.gop.wrapping_add(1);
    }

    /// The media before this are of no flow that continues.
    pub fn restart(&mut self) {
        self.clear();
        (self.length, self.started) = (None, None);
    }

    /// Whether the frames of `level` are kept.
    fn holds(&self, level: Level) -> bool {
        match self.units.front() {
            Some((LinkPdu::Mets(packet), step)) => {
                let passing = packet.header.passing;
                match step.choice {
                    Some(_) => passing.set().is_none_or(|set| set.contains(level)),
                    None => passing.here().is_none_or(|here| here >= level),
                }
            }
            _ => true,
        }
    }

    /// Cells of the datagrams that pass at `level`.
    fn cells(&self, level: Level) -> u64 {
        let units = self.units.iter().filter(|(_, step)| step.is_of(level));
        units.map(|(pdu, _)| u64::from(pdu.cells())).sum()
    }

    /// Why a branch that gets `level`, which takes `flow` cells/s, cannot catch up with `rate` cells/s before the next GOP
    /// starts; `expected` is the length of a GOP as long as none was measured.
    fn refusal(
        &self,
        now: Time,
        level: Level,
        (flow, rate): (CellRate, CellRate),
        expected: Span,
        most: usize,
    ) -> Option<&'static str> {
        let Some(since) = self.since else {
            return Some("the running GOP is too long to keep");
        };
        if !self.holds(level) {
            return Some("the running GOP is not kept with all layers that the receiver gets");
        }
        let spare = rate.saturating_sub(flow);
        if spare.0 == 0 {
            return Some("the link has no more rate than the flow takes");
        }
        let second = Span::from_secs(1);
        let catches_up = second.mul_div(self.cells(level), spare.0.into());
        let until = now.saturating_add(catches_up);
        let age = until.since(since);
        let octets = self.octets as u64;
        let more = octets.saturating_mul(catches_up.as_us()) / now.since(since).as_us().max(1);
        if age > MAX_AGE || octets.saturating_add(more) > most as u64 {
            return Some("the running GOP is too long to keep");
        }
        let length = self.length.unwrap_or(expected);
        let with_gain = until.saturating_add(GAIN).since(since);
        (with_gain > length).then_some("the next key frame comes as soon")
    }

    /// Cells of the first frame of the GOP, as datagrams count.
    fn key_frame(&self) -> u32 {
        match self.units.front() {
            Some((LinkPdu::Mets(packet), _)) => packet.header.alf_len / CELL_PAYLOAD as u32,
            _ => 0,
        }
    }

    /// Whether there is a running GOP at `now`.
    fn is_running(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now.since(since) <= MAX_AGE)
    }
}

/// A fast start on a branch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FastStart {
    /// For the first demand of the receiver. `anew`: a GOP has started since; the branch gets its start when the demand is known, as
    /// layers do not change before the next one.
    Awaited { until: Time, anew: bool },
    /// The datagrams of the GOP `gop` before `next` were sent; the next one leaves at `at`, at this rate. New datagrams
    /// of the flow wait for their turn among those that are kept.
    Running {
        gop: u64,
        next: usize,
        at: Time,
        rate: CellRate,
    },
}

impl FastStart {
    /// Whether the branch gets new datagrams of its flow by the fast start alone.
    pub fn holds(&self) -> bool {
        match self {
            FastStart::Awaited { anew, .. } => *anew,
            FastStart::Running { .. } => true,
        }
    }

    fn at(&self) -> Time {
        match self {
            FastStart::Awaited { until, .. } => *until,
            FastStart::Running { at, .. } => *at,
        }
    }
}

/// The fast start of a receiver that joins between two GOP starts: it gets the running GOP from its start on, at the rate
/// that its link has left.
impl Switch {
    /// Most octets that are kept of one flow.
    pub(crate) fn recent_limit(&self) -> usize {
        (MAX_RECENT.1 / self.flows.len().max(1)).min(MAX_RECENT.0)
    }

    /// A branch was committed: a fast start follows if a GOP is running.
    pub(crate) fn await_fast_start(&mut self, now: Time, id: FlowId, port: PortId) {
        if !self.config.fast_start || port == PortId::LOCAL {
            return;
        }
        let Some(flow) = self.flows.by_id(id).filter(|it| it.recent.is_running(now)) else {
            return;
        };
        // In a flow of base layer frames alone, no receiver asks for layers, and no node grants any.
        let until = match flow.info.spec.top_level() {
            Level::BASE => now,
            _ => now.saturating_add(AWAIT_LEVEL),
        };
        let Some(branch) = flow.branch(port).filter(|branch| branch.filter.is_none()) else {
            return;
        };
        branch.fast_start = Some(FastStart::Awaited { until, anew: false });
        self.fast_starts.push((id, port));
        self.fast_wake = earliest(self.fast_wake, Some(until));
    }

    /// The receivers on a branch have said what they want. Where the node upstream has granted layers lately, the fast start
    /// begins; else the grant that answers the demand is awaited.
    pub(crate) fn demand_came(&mut self, now: Time, id: FlowId, port: PortId) {
        let life = self.config.era.times(3);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        if flow.is_granted(now, life) {
            self.hasten_fast_start(now, id, port);
        }
    }

    /// The node upstream grants layers of a flow.
    pub(crate) fn grant_came(&mut self, now: Time, id: FlowId) {
        for at in 0..self.fast_starts.len() {
            let (flow, port) = self.fast_starts[at];
            let branch = self.flows.by_id(flow).and_then(|flow| flow.branch(port));
            if flow == id && branch.is_some_and(|it| !it.requests.is_empty()) {
                self.hasten_fast_start(now, id, port);
            }
        }
    }

    fn hasten_fast_start(&mut self, now: Time, id: FlowId, port: PortId) {
        let branch = self.flows.by_id(id).and_then(|flow| flow.branch(port));
        let Some(branch) = branch else { return };
        if let Some(FastStart::Awaited { until, .. }) = &mut branch.fast_start {
            *until = now.min(*until);
            self.fast_wake = earliest(self.fast_wake, Some(now));
        }
    }

    /// Sends what is due of all fast starts.
    pub(crate) fn run_fast_starts<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let mut all = std::mem::take(&mut self.fast_starts);
        self.fast_wake = None;
        all.retain(|&(id, port)| {
            if let Some(FastStart::Awaited { until, .. }) = self.fast_start(id, port)
                && until <= now
            {
                self.begin_fast_start(now, id, port, obs);
            }
            self.send_recent(now, id, port);
            let left = self.fast_start(id, port);
            self.fast_wake = earliest(self.fast_wake, left.map(|it| it.at()));
            left.is_some()
        });
        debug_assert!(self.fast_starts.is_empty(), "none begins while they run");
        self.fast_starts = all;
    }

    fn fast_start(&mut self, id: FlowId, port: PortId) -> Option<FastStart> {
        self.flows.by_id(id)?.branch(port)?.fast_start
    }

    fn begin_fast_start<O: Observer>(&mut self, now: Time, id: FlowId, port: PortId, obs: &mut O) {
        let reason = "fast start";
        self.regrant(now, port, reason, obs);
        let life = self.config.era.times(3);
        let origin = self.config.id;
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let era = flow.forwarded_era;
        // What the node upstream has granted lately is on its way to other branches.
        let granted = flow.is_granted(now, life);
        let Some(branch) = flow.branches.iter().find(|branch| branch.port == port) else {
            return;
        };
        let asks = !branch.requests.is_empty();
        // Without a fast start, it would have got the start of this GOP with the layers that are known now.
        let is_anew = matches!(
            branch.fast_start,
            Some(FastStart::Awaited { anew: true, .. })
        );
        let (level, rate) = flow.served(branch);
        if granted && level > branch.gate.target {
            let hops = 1;
            let adapt = Adapt {
                level,
                levels: flow.served_levels(branch),
                rate,
                era,
                origin,
                hops,
            };
            self.announce(now, id, port, adapt, reason, obs);
        }
        let residual = self.ports.get(port).map_or(CellRate(0), |it| it.residual);
        let most = self.recent_limit();
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let (gop, key_frame) = (flow.recent.gop, flow.recent.key_frame());
        let spec = flow.info.spec.clone();
        let Some(branch) = flow.branch(port) else {
            return;
        };
        let left = residual
            .saturating_add(branch.base)
            .saturating_add(branch.grant.rate);
        let level = branch.gate.target;
        let of_flow = spec.rate_at(level);
        let for_frame = key_frame.saturating_mul(FRAMES_PER_SECOND);
        let fastest = CellRate(of_flow.0.saturating_mul(FASTEST).max(for_frame));
        let rate = left.min(fastest).max(CellRate(1));
        let is_known = granted && asks || is_anew || spec.top_level() == Level::BASE;
        let refusal = match is_known {
            true => flow
                .recent
                .refusal(now, level, (of_flow, rate), spec.gop(), most),
            false => Some("which layers the receiver gets is not known"),
        };
        if let Some(reason) = refusal {
            self.end_fast_start(id, port);
            self.stats.fast_starts_skipped += 1;
            obs.on(now, subject(&self.config), || TraceEvent::Decision {
                flow: id,
                what: "no fast start",
                value: 0,
                reason,
            });
            return;
        }
        if let Some(branch) = flow.branch(port) {
            branch.fast_start = Some(FastStart::Running {
                gop,
                next: 0,
                at: now,
                rate,
            });
        }
        self.stats.fast_starts += 1;
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow: id,
            what: "fast start",
            value: rate.0.into(),
            reason: "a receiver came between two GOP starts",
        });
    }

    /// Sends what is due of the running GOP on a branch.
    fn send_recent(&mut self, now: Time, id: FlowId, to: PortId) {
        let lowering = self.config.lowering;
        loop {
            let Some(flow) = self.flows.by_id(id) else {
                return;
            };
            let Some(place) = flow.branches.iter().position(|branch| branch.port == to) else {
                return;
            };
            let branch = &mut flow.branches[place];
            let Some(FastStart::Running {
                gop,
                next,
                at,
                rate,
            }) = &mut branch.fast_start
            else {
                return;
            };
            if *at > now {
                return;
            }
            let unit = flow
                .recent
                .units
                .get(*next)
                .filter(|_| *gop == flow.recent.gop);
            let Some((pdu, step)) = unit else {
                // It has caught up, or the GOP is over.
                branch.fast_start = None;
                return;
            };
            let Some(port) = self.ports.get_mut(to) else {
                return;
            };
            port.queue.advance(now);
            if port.queue.waiting() > BACKLOG {
                *at = now.saturating_add(RETRY);
                return;
            }
            *next += 1;
            if !branch.gate.pass(step, lowering) {
                continue;
            }
            let cells = pdu.cells();
            let tx = Span::from_secs(1).mul_div(cells.into(), rate.0.max(1).into());
            *at = (*at).max(now.saturating_sub(BURST)).saturating_add(tx);
            if port
                .queue
                .admit(now, cells, step.unit, &mut FrameFate::default())
                .is_err()
            {
                continue;
            }
            let stamp = Stamp {
                congested: false,
                passes: branch.gate.stated(),
            };
            let copy = stamp.put_on(again(pdu.clone()));
            self.stats.copies += 1;
            self.stats.fast_start_units += 1;
            self.stats.fast_start_bytes += copy.wire_len() as u64;
            let base = step.unit.layer == Layer::Base;
            self.ports.push(now, to, copy, cells, base);
        }
    }

    fn end_fast_start(&mut self, id: FlowId, port: PortId) {
        let branch = self.flows.by_id(id).and_then(|flow| flow.branch(port));
        if let Some(branch) = branch {
            branch.fast_start = None;
        }
    }
}

impl Flow {
    /// Whether the node upstream has granted layers in the last `life`.
    fn is_granted(&self, now: Time, life: Span) -> bool {
        self.adapted.is_some_and(|(_, at)| now.since(at) <= life)
    }

    /// Ends the fast starts of a GOP that is over, or is not kept any more: these receivers begin with the next one. `pdu` is
    /// the datagram that `begins` a GOP, or is not kept.
    pub(crate) fn watch_fast_starts(&mut self, pdu: &LinkPdu, begins: bool, is_kept: bool) {
        if begins {
            for branch in &mut self.branches {
                branch.fast_start = match branch.fast_start {
                    Some(FastStart::Awaited { until, .. }) => Some(FastStart::Awaited {
                        until,
                        anew: is_kept,
                    }),
                    _ => None,
                };
            }
            self.believe(pdu);
        } else if !is_kept {
            let holds = |branch: &&mut Branch| branch.fast_start.is_some_and(|it| it.holds());
            for branch in self.branches.iter_mut().filter(holds) {
                branch.fast_start = None;
                // The frames that are missing make the rest of the GOP useless.
                branch.gate.close();
            }
        }
    }

    /// The GOP start of a fast start upstream states which layers pass. The message that grants them may have been lost, or
    /// overtaken, and what follows the base layer alone would freeze until the next GOP.
    fn believe(&mut self, pdu: &LinkPdu) {
        let LinkPdu::Mets(packet) = pdu else { return };
        let passing = packet.header.passing;
        let Some(here) = passing.here().filter(|_| passing.is_again()) else {
            return;
        };
        if self.is_continuous() || self.is_alternative() || here <= self.upstream_grant.max {
            return;
        }
        let spec = &self.info.spec;
        self.upstream_grant = UpstreamGrant {
            min: here.down(),
            max: here,
            levels: LevelSet::EMPTY,
            rate_min: spec.above_base(here.down()),
            rate_max: spec.above_base(here),
        };
        for branch in self.branches.iter_mut().filter(|it| it.filter.is_none()) {
            branch.gate.target = branch.gate.target.max(here.min(branch.grant.level));
        }
    }
}

fn again(mut pdu: LinkPdu) -> LinkPdu {
    if let LinkPdu::Mets(packet) = &mut pdu {
        packet.header.passing = packet.header.passing.again();
    }
    pdu
}

#[cfg(test)]
mod tests {
    use layercast_core::Serial;
    use layercast_wire::{
        Flags, FrameType, MetsHeader, MetsPacket, Passing, Payload, Sound, Waited,
    };

    use super::*;
    use layercast_link::Unit;

    fn packet(seq: u32, octets: u32) -> LinkPdu {
        LinkPdu::Mets(MetsPacket {
            header: MetsHeader {
                kind: FrameType::BL,
                flags: Flags::FIRST | Flags::LAST,
                flow: FlowId(1),
                seq: Serial(seq),
                timestamp_us: 0,
                e1_count: 0,
                e2_count: 0,
                alf_len: octets,
                offset: 0,
                waited: Waited::default(),
                sound: Sound::default(),
                passing: Passing::default(),
            },
            payload: Payload::Zeros(octets),
            congestion: false,
        })
    }

    fn step(gop_start: bool) -> Step {
        Step {
            unit: Unit {
                frame_start: true,
                ..Unit::MESSAGE
            },
            gop_start,
            late: false,
            unknown: false,
            parity: false,
            choice: None,
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn a_gop_is_kept_within_bounds_of_octets_and_time() {
        let mut recent = Recent::default();
        let take = |recent: &mut Recent, s: u64, starts| {
            let kept = recent.take(
                at(1_000 * s),
                &packet(0, 1_000),
                step(starts),
                starts,
                10_000,
            );
            assert!(recent.octets <= 10_000);
            (kept, recent.units.len())
        };
        assert_eq!(
            take(&mut recent, 0, false),
            (false, 0),
            "no GOP has started"
        );
        assert_eq!(take(&mut recent, 1, true), (true, 1));
        for n in 2..10 {
            assert_eq!(take(&mut recent, 1, false), (true, n));
        }
        assert_eq!(take(&mut recent, 1, false), (false, 0), "10,000 octets");
        let rest = take(&mut recent, 1, false);
        assert_eq!(rest, (false, 0), "the rest of it is of no use");
        assert_eq!(take(&mut recent, 2, true), (true, 1));
        assert!(recent.is_running(at(14_000)) && !recent.is_running(at(15_000)));
        assert_eq!(take(&mut recent, 15, false), (false, 0));
    }

    #[test]
    fn a_running_gop_is_sent_only_if_the_receiver_catches_up_before_the_next_one() {
        const MOST: usize = 1 << 20;
        let rate = CellRate;
        let mut recent = Recent::default();
        let refusal = |recent: &Recent, ms, rates: (u32, u32)| {
            let rates = (rate(rates.0), rate(rates.1));
            recent.refusal(at(ms), Level::BASE, rates, Span::from_secs(2), MOST)
        };
        assert!(refusal(&recent, 0, (100, 1_000)).is_some());
        // 25 datagrams of 21 cells a second.
        for n in 0..=75 {
            let starts = n % 50 == 0;
            recent.take(at(40 * n), &packet(0, 900), step(starts), starts, MOST);
        }
        assert_eq!(recent.length, Some(Span::from_secs(2)));
        let cells = recent.cells(Level::BASE);
        assert!((500..600).contains(&cells), "{cells}");
        // One second after the start of the GOP, it takes 0.08, 0.53, 1.1 s and never.
        assert_eq!(refusal(&recent, 3_000, (500, 8_000)), None);
        assert_eq!(refusal(&recent, 3_000, (500, 1_500)), None);
        for rate in [1_000, 500, 100] {
            assert!(refusal(&recent, 3_000, (500, rate)).is_some(), "{rate}");
        }
        // Shortly before the next one there is nothing to gain.
        assert!(refusal(&recent, 3_800, (500, 8_000)).is_some());
        // It would outgrow what is kept.
        let few = recent.octets + 100;
        let rates = (rate(500), rate(1_500));
        let long = Span::from_secs(20);
        recent.length = Some(long);
        let refusal = |most| recent.refusal(at(3_000), Level::BASE, rates, long, most);
        assert_eq!((refusal(MOST), refusal(few).is_some()), (None, true));
    }

    #[test]
    fn a_gop_without_layers_that_the_receiver_gets_is_not_sent() {
        let mut recent = Recent::default();
        let mut start = packet(0, 900);
        if let LinkPdu::Mets(packet) = &mut start {
            packet.header.passing = Passing::of(Level::FULL).limited_to(Level::BASE);
        }
        recent.take(at(0), &start, step(true), true, 1 << 20);
        let rates = (CellRate(500), CellRate(8_000));
        let long = Span::from_secs(2);
        let refusal = |level| recent.refusal(at(100), level, rates, long, 1 << 20);
        assert_eq!(refusal(Level::BASE), None);
        assert!(refusal(Level::E1).is_some() && refusal(Level::FULL).is_some());
    }
}
