//! Links that are entered from several others, a batch at a time.
//!
//! A packet that enters a link leaves it after all earlier ones, and at least one delay later. So an arrival
//! need not be processed immediately: once the link has sent its queue, and the first arrival has waited for
//! the delay of the link, all arrivals of that time enter in order. All of them are known by then, as each left
//! a host or another link before.

use layercast_core::{Span, Time};

use super::Medium;
use super::packet::{AHEAD, Packets};
use super::paths::Paths;
use crate::calendar::Waits;
use crate::internet::engine::{Arrival, INBOX, Lines, PacketId};
use crate::internet::network::NodeIndex;

/// Packets that come to a link.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The link.
    pipe: u32,
    /// That of the link, which need not be looked at for most packets then.
    delay: Span,
    /// The arrival times of the packets, in order; the first of them have entered the link.
    line: Vec<(Time, PacketId)>,
    entered: usize,
    /// Some stand further back than they should.
    is_disordered: bool,
    /// When the first of them enter the link.
    due: Time,
}

/// A packet that precedes more than this number of waiting ones is sorted with all others on entry; in tests
/// this happens often.
const NEARLY: usize = if cfg!(test) { 1 } else { 32 };
/// How long one that comes to a busy link waits at most, but for the delay of the link.
const LONGEST: Span = Span::from_ms(100);

/// All links that have one.
#[derive(Debug, Default)]
pub(crate) struct Inboxes {
    all: Vec<Inbox>,
}

impl Inboxes {
    /// Adds one, for a link with such a delay.
    pub fn add(&mut self, pipe: u32, delay: Span) -> u32 {
        self.all.push(Inbox {
            pipe,
            delay,
            line: Vec::new(),
            entered: 0,
            is_disordered: false,
            due: Time::MAX,
        });
        self.all.len() as u32 - 1
    }

    /// Those before some links.
    pub fn of_pipes(&self, is_one: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> {
        let all = self.all.iter().enumerate();
        all.filter(move |(_, inbox)| is_one(inbox.pipe))
            .map(|(n, _)| n as u32)
    }

    /// When the next one comes to an inbox that has just been [emptied](Medium::empty).
    pub fn first(&self, number: u32) -> Option<Time> {
        let next = self.all[number as usize].line.first();
        next.map(|&(at, _)| at)
    }

    /// A packet comes to an inbox then; when that is due, if it was not known. Of equals the one with the least `tie` goes
    /// first.
    #[inline]
    fn push(
        &mut self,
        number: u32,
        coming: (Time, PacketId),
        free: impl Fn(u32) -> Time,
        tie: impl Fn((Time, PacketId)) -> u64,
    ) -> Option<Time> {
        let inbox = &mut self.all[number as usize];
        let at = coming.0;
        inbox.line.push(coming);
        let line = &mut inbox.line[inbox.entered..];
        let mut place = line.len() - 1;
        // Most come in their order, or nearly so.
        let first = place.saturating_sub(NEARLY);
        let is_later = |it: (Time, PacketId)| it.0 > at || it.0 == at && tie(it) > tie(coming);
        while place > first && is_later(line[place - 1]) {
            line.swap(place - 1, place);
            place -= 1;
        }
        inbox.is_disordered |= place > 0 && is_later(line[place - 1]);
        if at.saturating_add(inbox.delay) >= inbox.due {
            return None;
        }
        let due = inbox.due_with(at, free(inbox.pipe));
        (due < inbox.due).then(|| {
            inbox.due = due;
            due
        })
    }

    /// Sorts the packets that wait in an inbox, if they are not sorted.
    fn put_in_order(&mut self, number: u32, tie: impl Fn((Time, PacketId)) -> u64) {
        let inbox = &mut self.all[number as usize];
        if std::mem::take(&mut inbox.is_disordered) {
            inbox.line[inbox.entered..]
                .sort_by(|&a, &b| a.0.cmp(&b.0).then_with(|| tie(a).cmp(&tie(b))));
        }
    }
}

/// The order of simultaneous arrivals at a link is that of individual arrivals.
fn tie(packets: &Packets, paths: &Paths, lines: &Lines, (at, id): (Time, PacketId)) -> u64 {
    let arrival = paths.arrival(id, packets.get(id).step);
    arrival.turn(at, lines)
}

impl Inbox {
    /// When it is due if the first comes then, and the link has sent all it was offered at such an instant.
    fn due_with(&self, first: Time, free: Time) -> Time {
        let enters = first.max(free.min(first.saturating_add(LONGEST)));
        enters.saturating_add(self.delay)
    }
}

impl Medium<'_> {
    /// A packet comes to a link with an inbox, then.
    #[inline(always)]
    pub(crate) fn put(&mut self, inbox: u32, at: Time, packet: PacketId) {
        let lines = &self.engine.arrivals.turns;
        let free = |pipe| self.pipes[pipe as usize].free_from();
        let tie = |it| tie(&self.packets, &self.paths, lines, it);
        if let Some(due) = self.inboxes.push(inbox, (at, packet), free, tie) {
            self.await_inbox(inbox, due);
        }
    }

    fn await_inbox(&mut self, inbox: u32, due: Time) {
        let arrival = Arrival {
            packet: INBOX,
            to: NodeIndex(0),
            by: inbox,
        };
        self.engine.arrivals.add(due, arrival);
    }

    /// An inbox may be due.
    pub(crate) fn open(&mut self, number: u32) {
        let inbox = &mut self.inboxes.all[number as usize];
        // Else an earlier packet came, and it was opened for that.
        if inbox.due != self.engine.now {
            return;
        }
        inbox.due = Time::MAX;
        // At this instant others may come yet.
        self.empty(number, self.engine.now.saturating_sub(Span::from_ps(1)));
        let inbox = &mut self.inboxes.all[number as usize];
        if let Some(&(first, _)) = inbox.line.first() {
            let due = inbox.due_with(first, self.pipes[inbox.pipe as usize].free_from());
            inbox.due = due;
            self.await_inbox(number, due);
        }
    }

    /// Lets enter what came until then.
    pub(crate) fn empty(&mut self, number: u32, until: Time) {
        let lines = &self.engine.arrivals.turns;
        let tie = |it| tie(&self.packets, &self.paths, lines, it);
        self.inboxes.put_in_order(number, tie);
        while let Some((at, packet)) = self.first_of(number, until) {
            self.packet_hops += 1;
            self.follow(at, packet);
        }
        let inbox = &mut self.inboxes.all[number as usize];
        inbox.line.drain(..inbox.entered);
        inbox.entered = 0;
    }

    #[inline]
    fn first_of(&mut self, number: u32, until: Time) -> Option<(Time, PacketId)> {
        let inbox = &mut self.inboxes.all[number as usize];
        let &first = inbox.line.get(inbox.entered)?;
        if let Some(&(_, later)) = inbox.line.get(inbox.entered + AHEAD) {
            self.packets.prepare_body(later);
        }
        let is_due = first.0 <= until;
        inbox.entered += usize::from(is_due);
        is_due.then_some(first)
    }

    /// From now on packets do not wait for each other: those that do come to their nodes, each by itself.
    pub(crate) fn give_up_inboxes(&mut self) {
        self.empty_inboxes();
        for inbox in &mut self.inboxes.all {
            inbox.due = Time::MAX;
            for (at, id) in inbox.line.drain(..) {
                let packet = self.packets.get_mut(id);
                // The node takes it off again.
                packet.ttl += 1;
                let arrival = self.paths.arrival(id, packet.step);
                self.engine.arrivals.add(at, arrival);
            }
        }
    }

    /// Lets everything enter its link that has come until now, so that it is counted.
    pub(crate) fn empty_inboxes(&mut self) {
        for number in 0..self.inboxes.all.len() {
            self.empty(number as u32, self.engine.now);
        }
    }
}
