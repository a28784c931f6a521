use std::collections::VecDeque;

use layercast_core::{CELL_SIZE, Cause, DataClass, Layer, Rate, Span, Time};
use layercast_wire::LinkPdu;

use crate::by_class::{About, ByClass};
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
    /// What it is to its picture.
    pub class: DataClass,
    /// Its picture refers to no other; a GOP begins.
    pub is_key: bool,
    /// A number that its frame has and those around it do not.
    pub frame: u32,
    /// The flow, as a small number: memory of a queue that discards by class is that of the highest.
    pub flow: u32,
}

impl Unit {
    /// A message as a whole: no part of a frame.
    pub const MESSAGE: Unit = Unit {
        layer: Layer::Base,
        frame_start: false,
        packet_start: true,
        delimiter: false,
        class: DataClass::System,
        is_key: false,
        frame: 0,
        flow: 0,
    };
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
    /// What a discipline by classes knows of it.
    about: Option<About>,
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
    by_class: Option<Box<ByClass>>,
    /// Flows and layers of units that waited, and that the last arrival took the place of.
    removed: Vec<(u32, Layer)>,
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
            by_class: discard
                .classes
                .map(|policy| Box::new(ByClass::new(policy, config.limit))),
            removed: Vec::new(),
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
        if self.by_class.is_some() {
            return self.admit_by_class(now, cells, unit, fate);
        }
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

    /// Decides by class; units that wait may leave for this one.
    fn admit_by_class(
        &mut self,
        now: Time,
        cells: u32,
        unit: Unit,
        fate: &mut FrameFate,
    ) -> Result<(), Cause> {
        self.removed.clear();
        if unit.packet_start {
            fate.packet_open = false;
        }
        let free = self.config.limit.saturating_sub(self.waiting);
        let Some(by_class) = &mut self.by_class else {
            return Ok(());
        };
        let verdict = by_class.admit(cells, unit, fate.packet_open, free);
        let mut is_purge = false;
        while verdict.is_ok()
            && !self.room(cells)
            && let Some(place) = self.victim(unit.class)
        {
            is_purge |= self.remove(now, place, Cause::SelectiveDiscard);
        }
        if let Some(by_class) = &mut self.by_class {
            is_purge |= by_class.settle(unit, verdict);
        }
        if is_purge {
            self.purge(now);
        }
        match verdict {
            Ok(_) => fate.packet_open = true,
            Err(cause) => self.stats.drop_unit(unit.layer, cause),
        }
        verdict.map(|_| ())
    }

    /// The waiting unit that makes room for one of a class.
    fn victim(&self, class: DataClass) -> Option<usize> {
        let by_class = self.by_class.as_deref()?;
        let waits = |place: &usize, wanted: DataClass| {
            let about = self.queue[*place].about;
            about.is_some_and(|it| it.class() == wanted)
        };
        let youngest = |wanted: DataClass| {
            let any = by_class.holds(wanted);
            let mut places = (self.started..self.queue.len()).rev();
            any.then(|| places.find(|place| waits(place, wanted)))?
        };
        let mut found = by_class.victims(class)?.filter_map(youngest);
        match by_class.is_by_age() {
            true => found.max(),
            false => found.next(),
        }
    }

    /// Removes a waiting unit: those behind it leave earlier. Whether others became useless.
    fn remove(&mut self, now: Time, place: usize, cause: Cause) -> bool {
        let Some(unit) = self.queue.remove(place) else {
            return false;
        };
        self.measure(now);
        self.waiting -= unit.cells;
        // It waits, so the line is busy until it would start, and those behind it follow without a pause.
        for later in self.queue.iter_mut().skip(place) {
            later.start = Time::from_ps(later.start.as_ps() - unit.tx.as_ps());
        }
        self.busy_until = Time::from_ps(self.busy_until.as_ps() - unit.tx.as_ps());
        let (Some(about), Some(by_class)) = (unit.about, &mut self.by_class) else {
            return false;
        };
        self.stats.drop_unit(about.layer, cause);
        self.removed.push((about.flow, about.layer));
        by_class.removed(&about, cause == Cause::SelectiveDiscard)
    }

    /// Removes the units that wait for nothing.
    fn purge(&mut self, now: Time) {
        let mut place = self.started;
        while let Some(unit) = self.queue.get(place) {
            let by_class = self.by_class.as_deref();
            let about = unit.about.as_ref();
            if about
                .zip(by_class)
                .is_some_and(|(it, by)| by.is_useless(it))
            {
                self.remove(now, place, Cause::PartialDiscard);
            } else {
                place += 1;
            }
        }
    }

    /// Decides whether a message that is no media may enter.
    pub fn admit_message(&mut self, now: Time, cells: u32) -> bool {
        self.advance(now);
        if self.by_class.is_none() || self.room(cells) {
            return self.room(cells);
        }
        let mut fate = FrameFate::default();
        self.admit_by_class(now, cells, Unit::MESSAGE, &mut fate)
            .is_ok()
    }

    /// The flows and layers of the units that waited until the last one that was admitted or refused took their place, or made
    /// them useless.
    pub fn removed(&self) -> &[(u32, Layer)] {
        &self.removed
    }

    /// Forgets a flow: its number is that of another one from now on.
    pub fn forget(&mut self, flow: u32) {
        if let Some(by_class) = &mut self.by_class {
            by_class.forget(flow);
        }
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
        let about = self.by_class.as_deref_mut().map(|it| it.enter(cells));
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
            about,
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
            if let (Some(about), Some(by_class)) = (&unit.about, &mut self.by_class) {
                by_class.left(about);
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
    use layercast_atm::SharedPolicy;
    use layercast_wire::{Cell, Pti};

    const BODY: Unit = Unit {
        layer: Layer::Base,
        frame_start: false,
        packet_start: false,
        delimiter: false,
        class: DataClass::Intra,
        ..Unit::MESSAGE
    };

    fn first(layer: Layer) -> Unit {
        Unit {
            layer,
            frame_start: true,
            packet_start: true,
            ..BODY
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
            classes: None,
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

    /// A queue of 100 cells that discards by class, in front of a line that sends nothing for the time of the test.
    fn by_class(policy: SharedPolicy) -> Queue {
        let discard = Discard {
            classes: Some(policy),
            ..Discard::default()
        };
        Queue::new(
            QueueConfig::of_limit(100),
            discard,
            Some(Rate::from_bps(1_000)),
        )
    }

    /// Offers a frame of datagrams of ten cells; how many of them enter.
    fn frame(queue: &mut Queue, flow: u32, frame: u32, kind: char, datagrams: u32) -> u32 {
        let (layer, class) = match kind {
            'I' => (Layer::Base, DataClass::Intra),
            'P' => (Layer::E1, DataClass::Predicted),
            _ => (Layer::E2, DataClass::Bidirectional),
        };
        let mut fate = FrameFate::default();
        let mut offer = |number| {
            let unit = Unit {
                layer,
                frame_start: number == 0,
                packet_start: true,
                delimiter: false,
                class,
                is_key: kind == 'I',
                frame,
                flow,
            };
            queue.admit(us(0), 10, unit, &mut fate).is_ok().then(|| {
                queue.push(us(0), cell(), 10, layer == Layer::Base);
            })
        };
        (0..datagrams).filter_map(&mut offer).count() as u32
    }

    #[test]
    fn units_of_low_classes_make_room_and_those_behind_leave_earlier() {
        let mut queue = by_class(SharedPolicy::ExClp);
        // The first datagram leaves immediately, ten wait.
        assert_eq!(frame(&mut queue, 0, 1, 'I', 2), 2);
        assert_eq!(frame(&mut queue, 0, 2, 'B', 4), 4);
        assert_eq!(frame(&mut queue, 0, 3, 'P', 5), 5);
        assert_eq!((queue.waiting(), queue.removed().len()), (100, 0));
        let drained = queue.drained_at();
        assert_eq!(frame(&mut queue, 1, 1, 'P', 2), 2);
        assert_eq!(queue.removed(), [(0, Layer::E2)]);
        assert_eq!((queue.waiting(), queue.drained_at()), (100, drained));
        assert_eq!(queue.stats.selective_discard.e2, 2);
        // B and P are left: an I picture takes the places of both, and of nothing of its own class.
        assert_eq!(frame(&mut queue, 1, 2, 'I', 12), 9);
        assert_eq!(queue.stats.queue_full.base, 3);
        assert_eq!(queue.stats.selective_discard.e1, 7);
        let starts = std::iter::from_fn(|| queue.depart(Time::MAX).map(|unit| unit.start));
        let starts: Vec<Time> = starts.collect();
        let step = Rate::from_bps(1_000).time_for(53);
        let even = (0..11).map(|number| us(0) + step.times(number));
        assert_eq!(starts, even.collect::<Vec<_>>());
    }

    #[test]
    fn what_refers_to_a_lost_picture_leaves_the_queue() {
        let mut queue = by_class(SharedPolicy::Dependent);
        assert_eq!(frame(&mut queue, 0, 1, 'I', 1), 1);
        assert_eq!(frame(&mut queue, 0, 2, 'P', 3), 3);
        assert_eq!(frame(&mut queue, 0, 3, 'B', 2), 2);
        assert_eq!(frame(&mut queue, 1, 1, 'I', 4), 4);
        // A datagram of B goes for the second one, and with it its picture; then one of P, and its picture.
        assert_eq!(frame(&mut queue, 2, 1, 'I', 2), 2);
        assert_eq!(queue.removed(), [(0, Layer::E2), (0, Layer::E2)]);
        assert_eq!(queue.waiting(), 90);
        assert_eq!(frame(&mut queue, 2, 2, 'I', 2), 2);
        assert_eq!(queue.removed(), [(0, Layer::E1); 3]);
        assert_eq!(queue.waiting(), 80);
        let stats = queue.stats;
        assert_eq!(
            (stats.selective_discard.e1, stats.partial_discard.e1),
            (1, 2)
        );
        // What refers to the lost pictures does not enter, up to the next key picture.
        assert_eq!(frame(&mut queue, 0, 4, 'P', 1), 0);
        assert_eq!(frame(&mut queue, 0, 5, 'I', 1), 1);
        assert_eq!(frame(&mut queue, 0, 6, 'P', 1), 0, "90 of 100 cells");
    }

    #[test]
    fn messages_take_the_place_of_media() {
        let mut queue = by_class(SharedPolicy::ExClpEpd);
        assert_eq!(frame(&mut queue, 0, 1, 'I', 12), 11, "one leaves, ten wait");
        assert!(queue.admit_message(us(0), 10));
        queue.push(us(0), cell(), 10, false);
        assert_eq!(queue.stats.selective_discard.base, 1);
        let mut plain = self::queue(10);
        for _ in 0..11 {
            plain.push(us(0), cell(), 1, true);
        }
        assert!(!plain.admit_message(us(0), 1));
    }
}
