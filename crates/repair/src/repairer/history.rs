use std::collections::VecDeque;

use layercast_core::{FlowId, Layer, Span, Time};

use super::Unit;
use crate::message::PART_HEAD;
use crate::path::Left;

/// Most counters that are remembered.
pub const MAX_HISTORY: usize = 16_384;
/// Most octets of content that are kept.
pub const MAX_HISTORY_OCTETS: u64 = 8 << 20;

/// What was sent: counters, the newest last, and the content of those that may be repaired.
#[derive(Debug)]
pub(crate) struct History<T> {
    sent: VecDeque<Sent<T>>,
    /// Counter of the first of `sent`.
    base: u64,
    /// The fate of all counters below is known, or forgotten.
    unhandled: u64,
    /// Of the contents that are kept.
    octets: u64,
    /// Of all that was sent.
    total: u64,
    /// Contents that were forgotten before their fate was known.
    pub unresolved: u64,
}

#[derive(Debug)]
struct Sent<T> {
    /// When it was handed to the line, and when its last bit left.
    begun: Time,
    at: Time,
    /// Octets of its longest part.
    part: u32,
    /// Its octets, and those of all counters up to and including it.
    octets: u32,
    total: u64,
    /// It left at some time before `at`.
    is_vague: bool,
    what: What<T>,
    handled: bool,
}

/// When a datagram leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    /// When it is handed to the line.
    pub begun: Time,
    /// When its last bit leaves at the rate of the port.
    pub at: Time,
    /// It may pass the narrowest line as if it had left up to this later.
    pub held: Span,
    /// In how many parts it leaves.
    pub parts: u8,
}

#[derive(Debug)]
pub(crate) enum What<T> {
    /// A datagram that may be repaired.
    Original(Content<T>),
    /// A repair of the content with this first counter.
    Copy(u64, Layer),
    /// A parity of the block with this number.
    Parity(u64, Layer),
    /// A datagram that is not repaired.
    Once(Layer),
}

#[derive(Debug)]
pub(crate) struct Content<T> {
    pub unit: Unit,
    /// `None` once it is known to have arrived.
    pub item: Option<T>,
    /// When it would have left if nothing had delayed it; the budget counts from there.
    pub nominal: Time,
    /// Copies whose fate is not known, the original among them.
    pub in_flight: u16,
    pub delivered: bool,
    /// The block whose parities repair it.
    pub block: Option<u64>,
}

impl<T> What<T> {
    /// It is content that may still be on its way, or be repaired by a block.
    fn is_open(&self) -> bool {
        let What::Original(content) = self else {
            return false;
        };
        !content.delivered && (content.in_flight > 0 || content.block.is_some())
    }
}

impl<T> Content<T> {
    /// A content of which no datagram is under way.
    pub fn new(unit: Unit, item: T, nominal: Time) -> Content<T> {
        Content {
            unit,
            item: Some(item),
            nominal,
            in_flight: 0,
            delivered: false,
            block: None,
        }
    }

    /// It did not arrive, and no copy of it is on the way.
    pub fn is_missing(&self) -> bool {
        !self.delivered && self.in_flight == 0
    }

    /// Octets that it keeps in memory.
    fn octets(&self) -> u64 {
        match self.item {
            Some(_) => self.unit.octets.into(),
            None => 0,
        }
    }
}

/// The octets of the longest of `parts` parts of a datagram of `octets` octets.
pub(crate) fn part_of(octets: u32, parts: u8) -> u32 {
    match parts {
        0 | 1 => octets,
        _ => octets.div_ceil(parts.into()) + PART_HEAD as u32,
    }
}

/// A counter whose fate became known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub of: Of,
    pub layer: Layer,
    /// It was a copy or a parity.
    pub is_repair: bool,
    /// When it was sent, and the octets of its longest part.
    pub sent: Time,
    pub part: u32,
}

/// What a counter was of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// The content with this first counter.
    Content(u64),
    /// The block with this number.
    Block(u64),
    /// Something that is not repaired.
    Nothing,
}

impl<T> History<T> {
    pub fn new() -> History<T> {
        History {
            sent: VecDeque::new(),
            base: 0,
            unhandled: 0,
            octets: 0,
            total: 0,
            unresolved: 0,
        }
    }

    /// The counter of the next datagram.
    pub fn next(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// The first counter that is remembered.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The first counter whose fate is not known.
    pub fn unhandled(&self) -> u64 {
        self.unhandled
    }

    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Contents whose fate is not known.
    pub fn open(&self) -> usize {
        self.sent.iter().filter(|sent| sent.what.is_open()).count()
    }

    /// Notes a datagram of `octets` octets.
    pub fn push(&mut self, departure: Departure, octets: u32, what: What<T>) {
        let Departure {
            begun,
            at,
            held,
            parts,
        } = departure;
        if let What::Original(content) = &what {
            self.octets += content.octets();
        }
        self.total += u64::from(octets);
        self.sent.push_back(Sent {
            begun,
            at: at.saturating_add(held),
            part: part_of(octets, parts),
            octets,
            total: self.total,
            is_vague: held > Span::ZERO,
            what,
            handled: false,
        });
        while self.sent.len() > MAX_HISTORY || self.octets > MAX_HISTORY_OCTETS {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(sent) = self.sent.pop_front() {
            self.unresolved += u64::from(sent.what.is_open());
            if let What::Original(content) = &sent.what {
                self.octets -= content.octets();
            }
            self.base += 1;
            self.unhandled = self.unhandled.max(self.base);
        }
    }

    /// Forgets what was sent longer ago than `keep`.
    pub fn forget(&mut self, now: Time, keep: Span) {
        while self
            .sent
            .front()
            .is_some_and(|sent| now.since(sent.at) > keep)
        {
            self.pop();
        }
    }

    fn get(&self, counter: u64) -> Option<&Sent<T>> {
        self.sent
            .get(usize::try_from(counter.checked_sub(self.base)?).ok()?)
    }

    fn get_mut(&mut self, counter: u64) -> Option<&mut Sent<T>> {
        let place = usize::try_from(counter.checked_sub(self.base)?).ok()?;
        self.sent.get_mut(place)
    }

    /// When a counter was sent at the latest, if that is remembered.
    pub fn sent_at(&self, counter: u64) -> Option<Time> {
        self.get(counter).map(|sent| sent.at)
    }

    /// What the path of a counter is judged by, if that is remembered.
    pub fn left(&self, counter: u64) -> Option<Left> {
        let sent = self.get(counter)?;
        Some(Left {
            at: (!sent.is_vague).then_some(sent.at),
            octets: sent.octets,
            total: sent.total,
            part: sent.part,
        })
    }

    /// The same, if the time is exact.
    pub fn sent_exactly_at(&self, counter: u64) -> Option<Time> {
        let sent = self.get(counter)?;
        (!sent.is_vague).then_some(sent.at)
    }

    /// When a counter was handed to the line, if that is remembered and exact.
    pub fn begun_at(&self, counter: u64) -> Option<Time> {
        let sent = self.get(counter)?;
        (!sent.is_vague).then_some(sent.begun)
    }

    /// What was sent at `since` or later has left by `until`.
    pub fn left_by(&mut self, since: Time, until: Time) {
        for sent in self.sent.iter_mut().rev() {
            if sent.at < since {
                break;
            }
            if sent.at < until {
                (sent.at, sent.is_vague) = (until, true);
            }
        }
    }

    /// Content by its first counter.
    pub fn content(&mut self, of: u64) -> Option<&mut Content<T>> {
        match &mut self.get_mut(of)?.what {
            What::Original(content) => Some(content),
            What::Copy(..) | What::Parity(..) | What::Once(_) => None,
        }
    }

    /// The same, to look at.
    pub fn content_ref(&self, of: u64) -> Option<&Content<T>> {
        match &self.get(of)?.what {
            What::Original(content) => Some(content),
            What::Copy(..) | What::Parity(..) | What::Once(_) => None,
        }
    }

    /// When content would have left if nothing had delayed it, and for how long it is of use if it says so.
    pub fn nominal(&self, of: u64) -> Option<(Time, Option<Span>)> {
        match &self.get(of)?.what {
            What::Original(content) => Some((content.nominal, content.unit.lasts)),
            What::Copy(..) | What::Parity(..) | What::Once(_) => None,
        }
    }

    /// Whether a counter is that of a repair.
    pub fn is_repair(&self, counter: u64) -> bool {
        let sent = self.get(counter);
        sent.is_some_and(|sent| matches!(sent.what, What::Copy(..) | What::Parity(..)))
    }

    /// The layer of a counter.
    pub fn layer(&self, counter: u64) -> Option<Layer> {
        Some(match &self.get(counter)?.what {
            What::Original(content) => content.unit.layer,
            What::Copy(_, layer) | What::Parity(_, layer) | What::Once(layer) => *layer,
        })
    }

    /// Drops content that arrived: it is not sent again.
    pub fn release(&mut self, of: u64) {
        if let Some(content) = self.content(of) {
            let octets = content.octets();
            content.item = None;
            self.octets -= octets;
        }
    }

    /// Drops all contents of a flow: they are not sent again, whether they arrived or not.
    pub fn release_flow(&mut self, flow: FlowId) {
        for sent in &mut self.sent {
            if let What::Original(content) = &mut sent.what
                && content.unit.flow == flow
            {
                self.octets -= content.octets();
                content.item = None;
                content.delivered = true;
            }
        }
    }

    /// Marks a counter as handled; `None` if it was, or is not remembered.
    pub fn handle(&mut self, counter: u64) -> Option<Fate> {
        let sent = self.get_mut(counter)?;
        if std::mem::replace(&mut sent.handled, true) {
            return None;
        }
        let (of, layer, is_repair) = match &sent.what {
            What::Original(content) => (Of::Content(counter), content.unit.layer, false),
            What::Copy(of, layer) => (Of::Content(*of), *layer, true),
            What::Parity(block, layer) => (Of::Block(*block), *layer, true),
            What::Once(layer) => (Of::Nothing, *layer, false),
        };
        Some(Fate {
            of,
            layer,
            is_repair,
            sent: sent.at,
            part: sent.part,
        })
    }

    /// Moves on to the first counter whose fate is not known.
    pub fn skip_handled(&mut self) {
        while self.get(self.unhandled).is_some_and(|sent| sent.handled) {
            self.unhandled += 1;
        }
    }

    /// The first content from counter `from` on that no receiver is known to have, and its nominal departure.
    pub fn unresolved_from(&self, from: u64) -> Option<(u64, Time)> {
        let mut counter = from.max(self.unhandled);
        // Asked for each datagram, and the first one nearly always is it.
        while let Some(sent) = self.get(counter) {
            if let (What::Original(content), false) = (&sent.what, sent.handled) {
                return Some((counter, content.nominal));
            }
            counter += 1;
        }
        None
    }

    /// The latest nominal departure of content that may still be repaired: whether it arrived is not known.
    pub fn latest_unresolved(&self) -> Option<Time> {
        let open =
            usize::try_from(self.next().saturating_sub(self.unhandled)).unwrap_or(usize::MAX);
        let sent = self.sent.iter().rev().take(open);
        let content = sent.filter_map(|sent| match &sent.what {
            What::Original(content) => Some(content),
            What::Copy(of, _) => match &self.get(*of)?.what {
                What::Original(content) => Some(content),
                What::Copy(..) | What::Parity(..) | What::Once(_) => None,
            },
            What::Parity(..) | What::Once(_) => None,
        });
        let unresolved = content.filter(|it| it.in_flight > 0 && !it.delivered);
        unresolved.map(|content| content.nominal).max()
    }
}
