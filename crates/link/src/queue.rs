use std::collections::VecDeque;

use layercast_core::{CELL_SIZE, Cause, Layer, Rate, Span, Time};
use layercast_wire::LinkPdu;

use crate::{Discard, Measured, PortStats, QueueConfig};

/// Units a queue has room for before it grows; it never holds more than its limit.
const RESERVED: usize = 256;

/// What the queue needs to know of a data unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Layer of its frame; unknown types count as base layer.
    pub layer: Layer,
    /// First unit of a media frame.
    pub frame_start: bool,
    /// First unit of a packet: of an AAL5 frame, or the datagram itself.
    pub packet_start: bool,
    /// Last cell of an AAL5 frame, which delimits it for the receiver.
    pub delimiter: bool,
}

/// How the frame that is passing fares at a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FrameFate {
    dropping: Option<Cause>,
    /// Part of the packet is in the queue, so its delimiter is still needed.
    packet_open: bool,
}

/// What a line can carry.
pub trait Carried {
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

/// A unit that leaves a queue.
#[derive(Debug)]
pub struct Departure<P> {
    /// What.
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
    /// Whether it is of a base layer.
    base: bool,
    start: Time,
    tx: Span,
}

/// A queue with its line: discard policy, rate and congestion marking.
///
/// Departures are virtual: as the queue is first in, first out, the time at which a unit leaves is
/// known when it comes in. A driver that polls late gets the right times, and the queue is as long
/// as it would have been.
#[derive(Debug)]
pub struct Queue<P = LinkPdu> {
    config: QueueConfig,
    discard: Discard,
    rate: Option<Rate>,
    /// What it counted; a driver adds what it does beside the queue. [`Queue::counted`] is complete.
    pub stats: PortStats,
    /// Admits base layers by their measured rate, once one has been asked for.
    pub admission: Option<Box<Measured>>,
    queue: VecDeque<Queued<P>>,
    /// Units at the front whose transmission has begun, not polled yet.
    started: usize,
    waiting: u32,
    /// Cells times picoseconds waited, up to `measured`.
    waited: u128,
    measured: Time,
    busy_until: Time,
    marking: bool,
}

impl<P: Carried> Queue<P> {
    /// An empty queue in front of a line; without a rate units leave immediately.
    pub fn new(config: QueueConfig, discard: Discard, rate: Option<Rate>) -> Queue<P> {
        let reserved = RESERVED.min(config.limit as usize);
        Queue {
            config,
            discard,
            rate,
            stats: PortStats::default(),
            admission: None,
            queue: VecDeque::with_capacity(reserved),
            started: 0,
            waiting: 0,
            waited: 0,
            measured: Time::ZERO,
            busy_until: Time::ZERO,
            marking: false,
        }
    }

    /// The present rate of the line.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Cells that wait and have not begun to leave, as of the last call of [`Queue::advance`].
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
                if self.discard.partial {
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
        if unit.layer == Layer::Base
            && let Some(measured) = &mut self.admission
        {
            match (verdict, self.rate) {
                (Ok(()), Some(rate)) => {
                    let tx = rate.time_for(u64::from(cells) * CELL_SIZE as u64);
                    let sent = self.busy_until.max(now).saturating_add(tx);
                    measured.arrive(now, cells, sent.since(now));
                }
                (Ok(()), None) => measured.arrive(now, cells, Span::ZERO),
                (Err(_), _) => measured.lose(now, cells),
            }
        }
        verdict
    }

    /// Whether `cells` more fit.
    pub fn room(&self, cells: u32) -> bool {
        self.waiting.saturating_add(cells) <= self.config.limit
    }

    fn refuses_early(&self, layer: Layer) -> bool {
        let limit = match layer {
            Layer::Base => return false,
            Layer::E1 => self.config.e1_limit,
            Layer::E2 => self.config.e2_limit,
        };
        self.discard.selective && self.waiting > limit
    }

    /// Puts a unit, of a base layer or not, into the queue; gives the time its transmission starts if it was empty
    /// before.
    pub fn push(&mut self, now: Time, pdu: P, cells: u32, base: bool) -> Option<Time> {
        let start = self.busy_until.max(now);
        let bytes = pdu.wire_len() as u64;
        let tx = self.rate.map_or(Span::ZERO, |rate| rate.time_for(bytes));
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
            base,
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
            if length > self.config.efci_on {
                self.marking = true;
            } else if length < self.config.efci_off || length == unit.cells {
                // With an empty queue behind it, marking ends, however large the unit is.
                self.marking = false;
            }
            if self.marking {
                unit.pdu.mark_congestion();
                self.stats.marked += 1;
            }
            let (at, cells, base) = (unit.start, unit.cells, unit.base);
            if base && let Some(measured) = &mut self.admission {
                measured.leave(at, cells);
            }
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
        self.rate = rate;
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

#[cfg(test)]
mod tests {
    use super::*;
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
    fn queue(limit: u32) -> Queue {
        let rate = Rate::from_bps(424_000_000);
        Queue::new(QueueConfig::of_limit(limit), Discard::default(), Some(rate))
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn offer(queue: &mut Queue, now: Time, unit: Unit, fate: &mut FrameFate) -> Result<(), Cause> {
        queue.admit(now, 1, unit, fate)?;
        queue.push(now, cell(), 1, false);
        Ok(())
    }

    #[test]
    fn departures_do_not_depend_on_when_the_driver_looks() {
        let mut queue = queue(256);
        for _ in 0..3 {
            queue.push(us(10), cell(), 1, false);
        }
        let starts: Vec<Time> = std::iter::from_fn(|| match queue.depart(us(99)) {
            Some(unit) => Some(unit.start),
            None => None,
        })
        .collect();
        assert_eq!(starts, [us(10), us(11), us(12)]);
        assert_eq!(queue.drained_at(), us(13));
    }

    #[test]
    fn another_rate_holds_for_what_waits() {
        let mut queue = queue(256);
        for _ in 0..4 {
            queue.push(us(10), cell(), 1, false);
        }
        assert!(queue.depart(us(10)).is_some());
        // The second cell is on the line from 11 us, the other two wait.
        queue.set_rate(us(11), Some(Rate::from_bps(42_400_000)));
        let starts: Vec<Time> = std::iter::from_fn(|| match queue.depart(us(99)) {
            Some(unit) => Some(unit.start),
            None => None,
        })
        .collect();
        assert_eq!(starts, [us(11), us(12), us(22)]);
        assert_eq!(queue.drained_at(), us(32));
    }

    #[test]
    fn a_late_driver_does_not_make_the_queue_longer() {
        let mut queue = queue(4);
        let mut fate = FrameFate::default();
        for _ in 0..4 {
            assert_eq!(offer(&mut queue, us(0), BODY, &mut fate), Ok(()));
        }
        // Without a poll, four transmissions have begun at 3 us.
        assert_eq!(offer(&mut queue, us(3), BODY, &mut fate), Ok(()));
        assert_eq!(queue.waiting(), 1);
        assert!(queue.depart(us(3)).is_some());
    }

    #[test]
    fn enhancement_frames_are_refused_whole_before_the_base_layer() {
        let mut queue = queue(8);
        let mut base = FrameFate::default();
        // One leaves immediately, five wait.
        for _ in 0..6 {
            offer(&mut queue, us(0), BODY, &mut base).unwrap();
        }
        let mut e2 = FrameFate::default();
        let refused = Err(Cause::SelectiveDiscard);
        assert_eq!(offer(&mut queue, us(0), first(Layer::E2), &mut e2), refused);
        assert_eq!(offer(&mut queue, us(0), last(Layer::E2), &mut e2), refused);
        let mut e1 = FrameFate::default();
        assert_eq!(offer(&mut queue, us(0), first(Layer::E1), &mut e1), Ok(()));
        assert_eq!(
            offer(&mut queue, us(0), first(Layer::Base), &mut base),
            Ok(())
        );
        assert_eq!(offer(&mut queue, us(0), first(Layer::E1), &mut e1), refused);
        assert_eq!(offer(&mut queue, us(0), BODY, &mut base), Ok(()));
        assert_eq!(
            offer(&mut queue, us(0), BODY, &mut base),
            Err(Cause::QueueFull)
        );
        assert_eq!(queue.stats.dropped().e2, 2);
        assert_eq!(queue.stats.queue_full.base, 1);
    }

    #[test]
    fn after_a_drop_only_the_last_cell_of_the_frame_passes() {
        let mut queue = queue(2);
        let mut fate = FrameFate::default();
        let base = Layer::Base;
        assert_eq!(offer(&mut queue, us(0), first(base), &mut fate), Ok(()));
        assert_eq!(offer(&mut queue, us(0), BODY, &mut fate), Ok(()));
        assert_eq!(
            offer(&mut queue, us(0), BODY, &mut fate),
            Ok(()),
            "one is leaving"
        );
        assert_eq!(
            offer(&mut queue, us(0), BODY, &mut fate),
            Err(Cause::QueueFull)
        );
        assert_eq!(
            offer(&mut queue, us(5), BODY, &mut fate),
            Err(Cause::PartialDiscard)
        );
        assert_eq!(offer(&mut queue, us(5), last(base), &mut fate), Ok(()));
        assert_eq!(offer(&mut queue, us(5), first(base), &mut fate), Ok(()));
    }

    #[test]
    fn a_frame_that_never_got_in_needs_no_last_cell() {
        let mut queue = queue(1);
        let mut other = FrameFate::default();
        offer(&mut queue, us(0), BODY, &mut other).unwrap();
        offer(&mut queue, us(0), BODY, &mut other).unwrap();
        let mut fate = FrameFate::default();
        let unit = first(Layer::Base);
        assert_eq!(
            offer(&mut queue, us(0), unit, &mut fate),
            Err(Cause::QueueFull)
        );
        let unit = last(Layer::Base);
        assert_eq!(
            offer(&mut queue, us(9), unit, &mut fate),
            Err(Cause::PartialDiscard)
        );
    }

    #[test]
    fn without_partial_discard_the_rest_of_the_frame_still_goes() {
        let mut queue = queue(1);
        queue.discard = Discard {
            selective: false,
            partial: false,
        };
        let mut fate = FrameFate::default();
        offer(&mut queue, us(0), first(Layer::E2), &mut fate).unwrap();
        offer(&mut queue, us(0), BODY, &mut fate).unwrap();
        assert_eq!(
            offer(&mut queue, us(0), BODY, &mut fate),
            Err(Cause::QueueFull)
        );
        assert_eq!(offer(&mut queue, us(2), BODY, &mut fate), Ok(()));
    }

    #[test]
    fn congestion_is_marked_from_the_upper_to_the_lower_threshold() {
        let mut queue = queue(32);
        for _ in 0..16 {
            queue.push(us(0), cell(), 1, false);
        }
        let marked: Vec<bool> = std::iter::from_fn(|| match queue.depart(us(99)) {
            Some(unit) => Some(unit.pdu.congestion()),
            None => None,
        })
        .collect();
        // On above 8, off below 4: lengths 16 down to 4 are marked, 3 to 1 are not.
        assert_eq!(marked.iter().filter(|&&m| m).count(), 13);
        assert!(marked[..13].iter().all(|&m| m));
        assert_eq!(queue.stats.marked, 13);
    }

    #[test]
    fn marking_ends_with_the_queue_however_large_the_units() {
        // On above 50, off below 25; each unit has 25 cells, so the last is never below.
        let mut queue = queue(200);
        let mut send = |units: u32, at: u64| -> Vec<bool> {
            for _ in 0..units {
                queue.push(us(at), cell(), 25, false);
            }
            let out = std::iter::from_fn(|| match queue.depart(us(at + 99)) {
                Some(unit) => Some(unit.pdu.congestion()),
                None => None,
            });
            out.collect()
        };
        assert_eq!(send(5, 0), [true, true, true, true, false]);
        assert_eq!(send(2, 1_000), [false, false]);
    }

    #[test]
    fn base_layer_cells_that_wait_too_long_or_are_dropped_are_late() {
        use crate::{LatePromise, Measured};

        // 10 ms for each cell: within 16 ms is the first one.
        let line = Rate::from_bps(42_400);
        let mut queue: Queue = Queue::new(QueueConfig::of_limit(3), Discard::default(), Some(line));
        queue.admission = Measured::new(LatePromise::default(), line, us(0)).map(Box::new);
        let mut fate = FrameFate::default();
        // Layers that are no base layer are not measured.
        let unit = first(Layer::E2);
        queue
            .admit(us(0), 1, unit, &mut FrameFate::default())
            .unwrap();
        for _ in 0..5 {
            if queue.admit(us(0), 1, BODY, &mut fate).is_ok() {
                queue.push(us(0), cell(), 1, true);
            }
        }
        let stats = |queue: &Queue| queue.admission.as_ref().unwrap().stats();
        // On the line after 10, 20, 30 and 40 ms, and one that found no room.
        assert_eq!(stats(&queue).late_ppm, 800_000);
        while queue.depart(us(490_000)).is_some() {}
        queue.admission.as_mut().unwrap().advance(us(500_000));
        assert_eq!(stats(&queue).measured, Rate::from_bps(4 * 2 * 424));
    }

    #[test]
    fn the_waiting_of_all_cells_is_added_up() {
        let mut queue = queue(32);
        for _ in 0..4 {
            queue.push(us(10), cell(), 1, false);
        }
        while queue.depart(us(12)).is_some() {}
        // One cell goes each microsecond: by now after 0, 1 and 2 us; the last has waited for 2.
        assert_eq!(queue.counted().waited_us, 1 + 2 + 2);
        while queue.depart(us(99)).is_some() {}
        assert_eq!(queue.counted().waited_us, 1 + 2 + 3);
    }
}
