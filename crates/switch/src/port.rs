use std::collections::VecDeque;

use layercast_core::{Cause, CellRate, Layer, PortId, Rate, Span, Time};
use layercast_wire::LinkPdu;

use crate::{PortConfig, PortStats, SwitchTransmit};

/// Units a queue has room for before it grows; it never holds more than its limit.
const RESERVED: usize = 256;
/// Lowest circuit for media; those below are for signalling.
pub(crate) const FIRST_VCI: u16 = 64;

/// What the queue needs to know of a data unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// Layer of its frame; unknown types count as base layer.
    pub layer: Layer,
    /// First unit of a media frame.
    pub frame_start: bool,
    /// First unit of a packet: of an AAL5 frame, or the datagram itself.
    pub packet_start: bool,
    /// Last cell of an AAL5 frame, which delimits it for the receiver.
    pub delimiter: bool,
}

/// How the frame that is passing fares at a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct FrameFate {
    dropping: Option<Cause>,
    /// Part of the packet is in the queue, so its delimiter is still needed.
    packet_open: bool,
}

/// What a port can carry.
pub(crate) trait Carried {
    /// Bytes on the line, headers included.
    fn wire_len(&self) -> usize;
    /// Marks congestion experienced.
    fn mark_congestion(&mut self);
}

impl Carried for LinkPdu {
    fn wire_len(&self) -> usize {
        LinkPdu::wire_len(self)
    }
    fn mark_congestion(&mut self) {
        LinkPdu::mark_congestion(self);
    }
}

/// A unit that leaves a port.
#[derive(Debug)]
pub(crate) struct Departure<P> {
    pub pdu: P,
    /// When its first bit leaves.
    pub start: Time,
    /// How long the line is busy with it.
    pub tx: Span,
}

#[derive(Debug)]
struct Queued<P> {
    pdu: P,
    cells: u32,
    start: Time,
    tx: Span,
}

/// A port: queue, discard policy, line and congestion marking.
///
/// Departures are virtual: as the queue is first in, first out, the time at which a unit leaves is
/// known when it comes in. A driver that polls late gets the right times, and the queue is as long
/// as it would have been.
#[derive(Debug)]
pub(crate) struct Port<P = LinkPdu> {
    pub id: PortId,
    pub config: PortConfig,
    /// Whether its reliable channel stands.
    pub up: bool,
    /// Demands or reservations changed since its capacity was divided.
    pub regrant: bool,
    /// What the last division left over.
    pub residual: CellRate,
    pub stats: PortStats,
    queue: VecDeque<Queued<P>>,
    /// Units at the front whose transmission has begun, not polled yet.
    started: usize,
    waiting: u32,
    /// Cells times picoseconds waited, up to `measured`.
    waited: u128,
    measured: Time,
    busy_until: Time,
    marking: bool,
    next_vci: u16,
}

impl<P: Carried> Port<P> {
    pub fn new(id: PortId, config: PortConfig) -> Port<P> {
        let reserved = RESERVED.min(config.queue.limit as usize);
        Port {
            id,
            config,
            up: false,
            regrant: false,
            residual: CellRate(0),
            stats: PortStats::default(),
            queue: VecDeque::with_capacity(reserved),
            started: 0,
            waiting: 0,
            waited: 0,
            measured: Time::ZERO,
            busy_until: Time::ZERO,
            marking: false,
            next_vci: FIRST_VCI,
        }
    }

    /// A circuit number, each in turn.
    pub fn take_vci(&mut self) -> u16 {
        let vci = self.next_vci;
        self.next_vci = vci.checked_add(1).unwrap_or(FIRST_VCI);
        vci
    }

    /// Cells that wait and have not begun to leave, as of the last call of [`Port::advance`].
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// When everything that is queued now will have left.
    pub fn drained_at(&self) -> Time {
        self.busy_until
    }

    /// Decides whether a data unit of `cells` may enter; a drop is counted here.
    pub fn admit(
        &mut self,
        now: Time,
        cells: u32,
        unit: Unit,
        fate: &mut FrameFate,
    ) -> Result<(), Cause> {
        self.advance(now);
        if unit.frame_start {
            *fate = FrameFate::default();
        }
        if unit.packet_start {
            fate.packet_open = false;
        }
        let room = self.room(cells);
        let verdict = match fate.dropping {
            Some(_) if fate.packet_open && unit.delimiter && room => Ok(()),
            Some(cause) => Err(cause),
            None if unit.frame_start && self.refuses_early(unit.layer) => {
                fate.dropping = Some(Cause::SelectiveDiscard);
                Err(Cause::SelectiveDiscard)
            }
            None if !room => {
                if self.config.discard.partial {
                    fate.dropping = Some(Cause::PartialDiscard);
                }
                Err(Cause::QueueFull)
            }
            None => {
                fate.packet_open = true;
                Ok(())
            }
        };
        if let Err(cause) = verdict {
            self.stats.drop_unit(unit.layer, cause);
        }
        verdict
    }

    /// Whether `cells` more fit.
    pub fn room(&self, cells: u32) -> bool {
        self.waiting.saturating_add(cells) <= self.config.queue.limit
    }

    fn refuses_early(&self, layer: Layer) -> bool {
        let limit = match layer {
            Layer::Base => return false,
            Layer::E1 => self.config.queue.e1_limit,
            Layer::E2 => self.config.queue.e2_limit,
        };
        self.config.discard.selective && self.waiting > limit
    }

    /// Puts a unit into the queue; gives the time its transmission starts if it was empty before.
    pub fn push(&mut self, now: Time, pdu: P, cells: u32) -> Option<Time> {
        let start = self.busy_until.max(now);
        let bytes = pdu.wire_len() as u64;
        let tx = self
            .config
            .rate
            .map_or(Span::ZERO, |rate| rate.time_for(bytes));
        self.busy_until = start.saturating_add(tx);
        self.measure(now);
        self.waiting += cells;
        self.stats.max_queue = self.stats.max_queue.max(self.waiting);
        let was_empty = self.queue.is_empty();
        debug_assert!(
            self.queue.back().is_none_or(|last| last.start <= start),
            "transmissions out of order"
        );
        self.queue.push_back(Queued {
            pdu,
            cells,
            start,
            tx,
        });
        was_empty.then_some(start)
    }

    /// Begins every transmission that is due, marking congestion on the way out.
    pub fn advance(&mut self, now: Time) {
        while let Some(unit) = self.queue.get_mut(self.started)
            && unit.start <= now
        {
            let length = self.waiting;
            if length > self.config.queue.efci_on {
                self.marking = true;
            } else if length < self.config.queue.efci_off || length == unit.cells {
                // With an empty queue behind it, marking ends, however large the unit is.
                self.marking = false;
            }
            if self.marking {
                unit.pdu.mark_congestion();
                self.stats.marked += 1;
            }
            let (at, cells) = (unit.start, unit.cells);
            self.measure(at);
            debug_assert!(cells <= self.waiting, "more cells leave than wait");
            self.waiting -= cells;
            self.started += 1;
        }
        debug_assert!(self.started <= self.queue.len());
        debug_assert!(
            self.started < self.queue.len() || self.waiting == 0,
            "cells wait in an empty queue"
        );
    }

    /// Adds up the waiting until `now`.
    fn measure(&mut self, now: Time) {
        let span = now.since(self.measured).as_ps();
        self.waited += u128::from(self.waiting) * u128::from(span);
        self.measured = self.measured.max(now);
    }

    /// What it counted so far.
    pub fn counted(&self) -> PortStats {
        let waited = self.waited / u128::from(Span::from_us(1).as_ps());
        PortStats {
            waited_us: u64::try_from(waited).unwrap_or(u64::MAX),
            ..self.stats
        }
    }

    /// Changes the rate of the line: the unit in transmission continues as it was, queued units leave at the
    /// new rate.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        self.advance(now);
        self.config.rate = rate;
        let mut waiting = self.queue.iter_mut().skip(self.started).peekable();
        // The first of those that wait starts when the line is free.
        let Some(mut at) = waiting.peek().map(|unit| unit.start) else {
            return;
        };
        for unit in waiting {
            let bytes = unit.pdu.wire_len() as u64;
            unit.start = at;
            unit.tx = rate.map_or(Span::ZERO, |rate| rate.time_for(bytes));
            at = at.saturating_add(unit.tx);
        }
        self.busy_until = at;
    }

    /// The next unit whose transmission has begun.
    pub fn depart(&mut self, now: Time) -> Option<Departure<P>> {
        self.advance(now);
        self.started = self.started.checked_sub(1)?;
        let unit = self.queue.pop_front()?;
        self.stats.units_out += 1;
        self.stats.bytes_out += unit.pdu.wire_len() as u64;
        Some(Departure {
            pdu: unit.pdu,
            start: unit.start,
            tx: unit.tx,
        })
    }

    /// When the transmission of the first unit in the queue starts.
    pub fn head(&self) -> Option<Time> {
        self.queue.front().map(|unit| unit.start)
    }
}

impl Port {
    /// The next unit whose transmission has begun, as the switch hands it out.
    pub fn pop(&mut self, now: Time) -> Option<SwitchTransmit> {
        let Departure { pdu, start, tx } = self.depart(now)?;
        Some(SwitchTransmit::Pdu {
            port: self.id,
            pdu,
            start,
            tx,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Discard, QueueConfig};
    use layercast_core::Rate;
    use layercast_wire::{Cell, Pti};

    const BODY: Unit = Unit {
        layer: Layer::Base,
        frame_start: false,
        packet_start: false,
        delimiter: false,
    };

    fn first(layer: Layer) -> Unit {
        Unit {
            layer,
            frame_start: true,
            packet_start: true,
            delimiter: false,
        }
    }

    fn last(layer: Layer) -> Unit {
        Unit {
            layer,
            delimiter: true,
            ..BODY
        }
    }

    fn cell() -> LinkPdu {
        LinkPdu::Cell(Cell {
            vpi: 0,
            vci: 64,
            pti: Pti::default(),
            clp: false,
            payload: [0; 48],
        })
    }

    /// One cell per microsecond.
    fn port(limit: u32) -> Port {
        let config = PortConfig {
            rate: Some(Rate::from_bps(424_000_000)),
            queue: QueueConfig::of_limit(limit),
            ..PortConfig::default()
        };
        Port::new(PortId(0), config)
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn offer(port: &mut Port, now: Time, unit: Unit, fate: &mut FrameFate) -> Result<(), Cause> {
        port.admit(now, 1, unit, fate)?;
        port.push(now, cell(), 1);
        Ok(())
    }

    #[test]
    fn departures_do_not_depend_on_when_the_driver_looks() {
        let mut port = port(256);
        for _ in 0..3 {
            port.push(us(10), cell(), 1);
        }
        let starts: Vec<Time> = std::iter::from_fn(|| match port.pop(us(99)) {
            Some(SwitchTransmit::Pdu { start, .. }) => Some(start),
            _ => None,
        })
        .collect();
        assert_eq!(starts, [us(10), us(11), us(12)]);
        assert_eq!(port.drained_at(), us(13));
    }

    #[test]
    fn another_rate_holds_for_what_waits() {
        let mut port = port(256);
        for _ in 0..4 {
            port.push(us(10), cell(), 1);
        }
        assert!(port.pop(us(10)).is_some());
        // The second cell is on the line from 11 us, the other two wait.
        port.set_rate(us(11), Some(Rate::from_bps(42_400_000)));
        let starts: Vec<Time> = std::iter::from_fn(|| match port.pop(us(99)) {
            Some(SwitchTransmit::Pdu { start, .. }) => Some(start),
            _ => None,
        })
        .collect();
        assert_eq!(starts, [us(11), us(12), us(22)]);
        assert_eq!(port.drained_at(), us(32));
    }

    #[test]
    fn a_late_driver_does_not_make_the_queue_longer() {
        let mut port = port(4);
        let mut fate = FrameFate::default();
        for _ in 0..4 {
            assert_eq!(offer(&mut port, us(0), BODY, &mut fate), Ok(()));
        }
        // Without a poll, four transmissions have begun at 3 us.
        assert_eq!(offer(&mut port, us(3), BODY, &mut fate), Ok(()));
        assert_eq!(port.waiting(), 1);
        assert!(port.pop(us(3)).is_some());
    }

    #[test]
    fn enhancement_frames_are_refused_whole_before_the_base_layer() {
        let mut port = port(8);
        let mut base = FrameFate::default();
        // One leaves immediately, five wait.
        for _ in 0..6 {
            offer(&mut port, us(0), BODY, &mut base).unwrap();
        }
        let mut e2 = FrameFate::default();
        let refused = Err(Cause::SelectiveDiscard);
        assert_eq!(offer(&mut port, us(0), first(Layer::E2), &mut e2), refused);
        assert_eq!(offer(&mut port, us(0), last(Layer::E2), &mut e2), refused);
        let mut e1 = FrameFate::default();
        assert_eq!(offer(&mut port, us(0), first(Layer::E1), &mut e1), Ok(()));
        assert_eq!(
            offer(&mut port, us(0), first(Layer::Base), &mut base),
            Ok(())
        );
        assert_eq!(offer(&mut port, us(0), first(Layer::E1), &mut e1), refused);
        assert_eq!(offer(&mut port, us(0), BODY, &mut base), Ok(()));
        assert_eq!(
            offer(&mut port, us(0), BODY, &mut base),
            Err(Cause::QueueFull)
        );
        assert_eq!(port.stats.dropped().e2, 2);
        assert_eq!(port.stats.queue_full.base, 1);
    }

    #[test]
    fn after_a_drop_only_the_last_cell_of_the_frame_passes() {
        let mut port = port(2);
        let mut fate = FrameFate::default();
        let base = Layer::Base;
        assert_eq!(offer(&mut port, us(0), first(base), &mut fate), Ok(()));
        assert_eq!(offer(&mut port, us(0), BODY, &mut fate), Ok(()));
        assert_eq!(
            offer(&mut port, us(0), BODY, &mut fate),
            Ok(()),
            "one is leaving"
        );
        assert_eq!(
            offer(&mut port, us(0), BODY, &mut fate),
            Err(Cause::QueueFull)
        );
        assert_eq!(
            offer(&mut port, us(5), BODY, &mut fate),
            Err(Cause::PartialDiscard)
        );
        assert_eq!(offer(&mut port, us(5), last(base), &mut fate), Ok(()));
        assert_eq!(offer(&mut port, us(5), first(base), &mut fate), Ok(()));
    }

    #[test]
    fn a_frame_that_never_got_in_needs_no_last_cell() {
        let mut port = port(1);
        let mut other = FrameFate::default();
        offer(&mut port, us(0), BODY, &mut other).unwrap();
        offer(&mut port, us(0), BODY, &mut other).unwrap();
        let mut fate = FrameFate::default();
        let unit = first(Layer::Base);
        assert_eq!(
            offer(&mut port, us(0), unit, &mut fate),
            Err(Cause::QueueFull)
        );
        let unit = last(Layer::Base);
        assert_eq!(
            offer(&mut port, us(9), unit, &mut fate),
            Err(Cause::PartialDiscard)
        );
    }

    #[test]
    fn without_partial_discard_the_rest_of_the_frame_still_goes() {
        let mut port = port(1);
        port.config.discard = Discard {
            selective: false,
            partial: false,
        };
        let mut fate = FrameFate::default();
        offer(&mut port, us(0), first(Layer::E2), &mut fate).unwrap();
        offer(&mut port, us(0), BODY, &mut fate).unwrap();
        assert_eq!(
            offer(&mut port, us(0), BODY, &mut fate),
            Err(Cause::QueueFull)
        );
        assert_eq!(offer(&mut port, us(2), BODY, &mut fate), Ok(()));
    }

    #[test]
    fn congestion_is_marked_from_the_upper_to_the_lower_threshold() {
        let mut port = port(32);
        for _ in 0..16 {
            port.push(us(0), cell(), 1);
        }
        let marked: Vec<bool> = std::iter::from_fn(|| match port.pop(us(99)) {
            Some(SwitchTransmit::Pdu { pdu, .. }) => Some(pdu.congestion()),
            _ => None,
        })
        .collect();
        // On above 8, off below 4: lengths 16 down to 4 are marked, 3 to 1 are not.
        assert_eq!(marked.iter().filter(|&&m| m).count(), 13);
        assert!(marked[..13].iter().all(|&m| m));
        assert_eq!(port.stats.marked, 13);
    }

    #[test]
    fn marking_ends_with_the_queue_however_large_the_units() {
        // On above 50, off below 25; each unit has 25 cells, so the last is never below.
        let mut port = port(200);
        let mut send = |units: u32, at: u64| -> Vec<bool> {
            for _ in 0..units {
                port.push(us(at), cell(), 25);
            }
            let out = std::iter::from_fn(|| match port.pop(us(at + 99)) {
                Some(SwitchTransmit::Pdu { pdu, .. }) => Some(pdu.congestion()),
                _ => None,
            });
            out.collect()
        };
        assert_eq!(send(5, 0), [true, true, true, true, false]);
        assert_eq!(send(2, 1_000), [false, false]);
    }

    #[test]
    fn the_waiting_of_all_cells_is_added_up() {
        let mut port = port(32);
        for _ in 0..4 {
            port.push(us(10), cell(), 1);
        }
        while port.pop(us(12)).is_some() {}
        // One cell goes each microsecond: by now after 0, 1 and 2 us; the last has waited for 2.
        assert_eq!(port.counted().waited_us, 1 + 2 + 2);
        while port.pop(us(99)).is_some() {}
        assert_eq!(port.counted().waited_us, 1 + 2 + 3);
    }
}
