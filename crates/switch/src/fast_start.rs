use std::collections::VecDeque;

use layercast_core::{
    CELL_PAYLOAD, CellRate, FlowId, Level, Observer, PortId, Span, Time, TraceEvent, earliest,
};
use layercast_wire::LinkPdu;

use crate::adapter::Adapt;
use crate::forward::Stamp;
use crate::port::FrameFate;
use crate::selector::Step;
use crate::{Switch, subject};

/// Most octets that are kept of the running GOP of one flow, and of all flows together.
pub const MAX_RECENT: (usize, usize) = (8 << 20, 64 << 20);
/// Longest time for which a GOP is kept after its start: longer GOPs have no fast start after that.
const MAX_AGE: Span = Span::from_secs(12);
/// How long a new branch waits for the first demand of its receiver: the level of the fast start follows it.
const AWAIT_DEMAND: Span = Span::from_ms(150);
/// A fast start takes at most this many times the rate of its flow, whatever the link has left: the links behind are
/// not known.
const FASTEST: u32 = 8;
/// Or the rate that sends this many key frames: in the base layer of a long GOP there may be one frame alone.
const FRAMES_PER_SECOND: u32 = 10;
/// It catches up with less than this share of the rate of its flow to spare only slowly: then it sends the base layer.
const SLOW_PERCENT: u64 = 150;
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
    /// Counts GOPs.
    gop: u64,
}

impl Recent {
    /// Takes a datagram of the flow, which `starts` a GOP or not; at most `most` octets are kept.
    pub fn take(&mut self, now: Time, pdu: &LinkPdu, step: Step, starts: bool, most: usize) {
        if starts {
            self.clear();
            self.since = Some(now);
        }
        let Some(since) = self.since else { return };
        // Behind a fast start, blocks of parities have gaps that no parity fills.
        if step.parity {
            return;
        }
        self.octets += pdu.wire_len();
        if self.octets > most || now.since(since) > MAX_AGE {
            return self.clear();
        }
        self.units.push_back((pdu.clone(), step));
    }

    /// Gives up what is kept, until the next GOP starts.
    pub fn clear(&mut self) {
        self.units.clear();
        (self.octets, self.since) = (0, None);
        self.gop = self.gop.wrapping_add(1);
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
    /// For the first demand of the receiver.
    Awaited { until: Time },
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
    pub fn is_running(&self) -> bool {
        matches!(self, FastStart::Running { .. })
    }

    fn at(&self) -> Time {
        match self {
            FastStart::Awaited { until } => *until,
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
        let Some(branch) = flow.branch(port).filter(|branch| branch.filter.is_none()) else {
            return;
        };
        let until = now.saturating_add(AWAIT_DEMAND);
        branch.fast_start = Some(FastStart::Awaited { until });
        self.fast_starts.push((id, port));
        self.fast_wake = earliest(self.fast_wake, Some(until));
    }

    /// The receivers on a branch have said what they want.
    pub(crate) fn demand_came(&mut self, now: Time, id: FlowId, port: PortId) {
        let branch = self.flows.by_id(id).and_then(|flow| flow.branch(port));
        let Some(branch) = branch else { return };
        if let Some(FastStart::Awaited { until }) = &mut branch.fast_start {
            *until = now.min(*until);
            self.fast_wake = earliest(self.fast_wake, Some(now));
        }
    }

    /// Sends what is due of all fast starts.
    pub(crate) fn run_fast_starts<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let mut all = std::mem::take(&mut self.fast_starts);
        self.fast_wake = None;
        all.retain(|&(id, port)| {
            if let Some(FastStart::Awaited { until }) = self.fast_start(id, port)
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
        let granted = flow.adapted.is_some_and(|(_, at)| now.since(at) <= life);
        let Some(branch) = flow.branches.iter().find(|branch| branch.port == port) else {
            return;
        };
        let (level, rate) = flow.served(branch);
        if granted && level > branch.gate.target {
            let hops = 1;
            let adapt = Adapt {
                level,
                rate,
                era,
                origin,
                hops,
            };
            self.announce(now, id, port, adapt, reason, obs);
        }
        let residual = self.ports.get(port).map_or(CellRate(0), |it| it.residual);
        let Some(flow) = self.flows.by_id(id).filter(|it| it.recent.is_running(now)) else {
            return self.end_fast_start(id, port);
        };
        let (gop, key_frame) = (flow.recent.gop, flow.recent.key_frame());
        let spec = flow.info.spec.clone();
        let Some(branch) = flow.branch(port) else {
            return;
        };
        let left = residual
            .saturating_add(branch.base)
            .saturating_add(branch.grant.rate);
        let mut level = branch.gate.target;
        if u64::from(spec.rate_at(level).0) * SLOW_PERCENT > u64::from(left.0) * 100 {
            level = Level::BASE;
        }
        let for_frame = key_frame.saturating_mul(FRAMES_PER_SECOND);
        let for_flow = spec.rate_at(level).0.saturating_mul(FASTEST);
        let fastest = CellRate(for_flow.max(for_frame));
        let rate = left.min(fastest).max(CellRate(1));
        // Enhancement layers that have no time to catch up begin at the next GOP start.
        branch.gate.first = Some(level);
        branch.fast_start = Some(FastStart::Running {
            gop,
            next: 0,
            at: now,
            rate,
        });
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
            port.advance(now);
            if port.waiting() > BACKLOG {
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
                .admit(now, cells, step.unit, &mut FrameFate::default())
                .is_err()
            {
                continue;
            }
            let stamp = Stamp {
                congested: false,
                level: branch.gate.mask,
            };
            let copy = stamp.put_on(again(pdu.clone()));
            self.stats.copies += 1;
            self.stats.fast_start_units += 1;
            self.stats.fast_start_bytes += copy.wire_len() as u64;
            self.ports.push(now, to, copy, cells);
        }
    }

    fn end_fast_start(&mut self, id: FlowId, port: PortId) {
        let branch = self.flows.by_id(id).and_then(|flow| flow.branch(port));
        if let Some(branch) = branch {
            branch.fast_start = None;
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
    use layercast_core::{Layer, Serial};
    use layercast_wire::{Flags, FrameType, MetsHeader, MetsPacket, Passing, Payload, Waited};

    use super::*;
    use crate::port::Unit;

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
                passing: Passing::default(),
            },
            payload: Payload::Zeros(octets),
            congestion: false,
        })
    }

    fn step(gop_start: bool) -> Step {
        Step {
            unit: Unit {
                layer: Layer::Base,
                frame_start: true,
                packet_start: true,
                delimiter: false,
            },
            gop_start,
            late: false,
            unknown: false,
            parity: false,
        }
    }

    #[test]
    fn a_gop_is_kept_within_bounds_of_octets_and_time() {
        let at = |s| Time::ZERO + Span::from_secs(s);
        let mut recent = Recent::default();
        let take = |recent: &mut Recent, s, starts| {
            recent.take(at(s), &packet(0, 1_000), step(starts), starts, 10_000);
            assert!(recent.octets <= 10_000);
        };
        take(&mut recent, 0, false);
        assert!(!recent.is_running(at(0)), "no GOP has started");
        take(&mut recent, 1, true);
        for _ in 0..8 {
            take(&mut recent, 1, false);
        }
        assert_eq!((recent.units.len(), recent.is_running(at(1))), (9, true));
        take(&mut recent, 1, false);
        assert_eq!((recent.units.len(), recent.is_running(at(1))), (0, false));
        take(&mut recent, 1, false);
        assert!(recent.units.is_empty(), "the rest of it is of no use");
        take(&mut recent, 2, true);
        assert!(recent.is_running(at(14)) && !recent.is_running(at(15)));
        take(&mut recent, 15, false);
        assert!(recent.units.is_empty());
    }
}
