use std::collections::{BTreeMap, VecDeque};

use layercast_wire::{Payload, XtpOptions};

use super::Chunk;
use super::config::INITIAL_ALLOC;
use super::outgoing::TAG;
use layercast_bytestream::Chain;
use layercast_bytestream::Reassembly;

/// Something that stands between two bytes of what can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    End,
    Gap,
    Tag,
}

/// What became of data that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Some of them were new.
    New,
    /// All were there.
    Duplicate,
    /// There is no room for them.
    Beyond,
    /// They cannot be.
    Violation,
}

/// Received data: held beyond gaps, or waiting for the user.
#[derive(Debug)]
pub(crate) struct Incoming {
    window: u64,
    hold: bool,
    rseq: u64,
    hseq: u64,
    /// Where the stream ends, once that is known.
    last: Option<u64>,
    held: Reassembly,
    /// Where messages end and tags begin beyond `rseq`.
    marks: BTreeMap<u64, XtpOptions>,
    ready: Chain,
    ready_marks: VecDeque<(u64, Mark)>,
    /// How many bytes were taken out of `ready`.
    taken: u64,
    /// Of these, what the user was given and has not used yet.
    lent: u64,
    /// Bytes for which the user has buffers, if the sender wants them to count.
    pub(crate) posted: u64,
    pub(crate) reserved: bool,
    announced: u64,
}

impl Incoming {
    pub(crate) fn new(window: u32, hold: bool) -> Incoming {
        Incoming {
            window: u64::from(window),
            hold,
            rseq: 0,
            hseq: 0,
            last: None,
            held: Reassembly::default(),
            marks: BTreeMap::new(),
            ready: Chain::new(0),
            ready_marks: VecDeque::new(),
            taken: 0,
            lent: 0,
            posted: 0,
            reserved: false,
            announced: 0,
        }
    }

    /// Everything before it has arrived, or will not.
    pub(crate) fn rseq(&self) -> u64 {
        self.rseq
    }

    pub(crate) fn unread(&self) -> u64 {
        self.ready.len() as u64
    }

    /// Bytes that arrived in order.
    pub(crate) fn received(&self) -> u64 {
        self.ready.end()
    }

    /// The first byte that the user has not taken.
    pub(crate) fn delivered(&self) -> u64 {
        self.rseq - self.unread() - self.lent
    }

    /// One past the last byte that is taken.
    pub(crate) fn alloc(&self) -> u64 {
        let room = match self.reserved {
            true => self.window.min(self.posted),
            false => self.window,
        };
        // It never moves left, whatever was posted or skipped.
        self.announced.max(self.delivered() + room)
    }

    /// The allocation as the peer is announced it.
    pub(crate) fn tell_alloc(&mut self) -> u64 {
        self.announced = self.alloc();
        self.announced
    }

    /// Whether the peer is worth telling that there is room again (specs/xtp.md 2.8).
    pub(crate) fn has_opened(&self, packet: u64) -> bool {
        // A peer that has received no allocation yet assumes this one.
        let granted = match self.reserved {
            true => 0,
            false => self.window.min(u64::from(INITIAL_ALLOC)),
        };
        let announced = self.announced.max(granted);
        let opened = self.alloc().saturating_sub(announced);
        let enough = packet.saturating_mul(2).min(self.window / 2);
        announced < self.rseq + packet && opened >= enough.max(1)
    }

    /// Whether something before what was seen is missing.
    pub(crate) fn has_gap(&self) -> bool {
        self.rseq < self.hseq
    }

    /// The stream is known to reach `seq`.
    pub(crate) fn see(&mut self, seq: u64) {
        let last = self.last.unwrap_or(u64::MAX);
        self.hseq = self.hseq.max(seq.min(last));
    }

    /// The stream ends at `last`; `false` if that cannot be.
    pub(crate) fn end_at(&mut self, last: u64) -> bool {
        match self.last {
            Some(known) => known == last,
            None if last < self.hseq || last < self.rseq => false,
            None => {
                self.last = Some(last);
                true
            }
        }
    }

    /// Whether everything up to the end has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.last == Some(self.rseq)
    }

    /// The ranges held beyond the first gap, at most `most`.
    pub(crate) fn spans(&self, most: usize) -> Vec<(u64, u64)> {
        self.held.islands().iter().take(most).collect()
    }

    /// Takes the data of a packet, as much of them as there is room for.
    pub(crate) fn take(&mut self, seq: u64, data: &Payload, flags: XtpOptions) -> Taken {
        let end = seq + data.len() as u64;
        if self.last.is_some_and(|last| end > last) {
            return Taken::Violation;
        }
        let skips = flags.has(XtpOptions::NOERR) && seq > self.rseq;
        // What a skip leaves out is delivered, so to say.
        let skipped = if skips { seq - self.rseq } else { 0 };
        let room = self.alloc().max(self.delivered() + self.window) + skipped;
        let marked = flags.any(XtpOptions::EOM | XtpOptions::BTAG);
        let crowded = marked && self.marks.len() + self.ready_marks.len() >= self.most_marks();
        let least = seq
            + if flags.has(XtpOptions::BTAG) {
                TAG as u64
            } else {
                1
            };
        if crowded || (end > room && least > room) {
            return Taken::Beyond;
        }
        if skips {
            self.skip_to(seq);
        }
        self.see(end);
        if end > room {
            let part = data.slice(0..(room - seq) as usize);
            self.keep(seq, &part, flags.without(XtpOptions::EOM));
            return Taken::Beyond;
        }
        self.keep(seq, data, flags)
    }

    fn keep(&mut self, seq: u64, data: &Payload, flags: XtpOptions) -> Taken {
        let end = seq + data.len() as u64;
        if data.is_empty() {
            return Taken::New;
        }
        if end <= self.rseq {
            return Taken::Duplicate;
        }
        let is_new = |at: u64| at >= self.rseq && self.held.islands().holding(at).is_none();
        let (tag, eom) = (is_new(seq), is_new(end - 1));
        if seq > self.rseq && !self.hold {
            // A receiver that goes back keeps nothing.
            return Taken::New;
        }
        if tag && flags.has(XtpOptions::BTAG) {
            *self.marks.entry(seq).or_default() |= XtpOptions::BTAG;
        }
        if eom && flags.has(XtpOptions::EOM) {
            *self.marks.entry(end).or_default() |= XtpOptions::EOM;
        }
        if seq > self.rseq {
            let fresh = self.held.islands().gaps(seq, end).next().is_some();
            self.held.insert(seq, data, 2 * self.window as usize);
            return if fresh { Taken::New } else { Taken::Duplicate };
        }
        let known = (self.rseq - seq) as usize;
        self.deliver(data.slice(known..data.len()));
        self.drain();
        Taken::New
    }

    /// Gives up what is missing before `seq`.
    pub(crate) fn skip_to(&mut self, seq: u64) {
        while self.rseq < seq {
            let next = self.held.islands().iter().next().map(|(start, _)| start);
            self.rseq = next.map_or(seq, |start| start.min(seq));
            self.marks = self.marks.split_off(&self.rseq);
            // An end that nothing stands before is none.
            if let Some(mark) = self.marks.get_mut(&self.rseq) {
                *mark = mark.without(XtpOptions::EOM);
            }
            let at = self.ready.end();
            if self.ready_marks.back() != Some(&(at, Mark::Gap)) {
                self.ready_marks.push_back((at, Mark::Gap));
            }
            self.hseq = self.hseq.max(self.rseq);
            self.drain();
        }
    }

    /// Up to `max` bytes of one message, which count as not taken until they are [used](Self::use_lent).
    pub(crate) fn lend(&mut self, max: usize) -> Option<Chunk> {
        let mut chunk = Chunk {
            data: Payload::default(),
            tag: None,
            end_of_message: false,
            gap: false,
        };
        // Gaps and tags stand before data; without these they wait.
        let mut marks = self.ready_marks.iter().copied().peekable();
        let (mut used, mut tagged) = (0, false);
        while let Some((_, mark)) = marks.next_if(|(at, _)| *at == self.taken) {
            used += 1;
            match mark {
                Mark::Gap => chunk.gap = true,
                Mark::Tag => tagged = true,
                Mark::End => {}
            }
        }
        let next = marks.peek().copied();
        let left = next.map_or(u64::MAX, |(at, _)| at) - self.taken;
        if tagged && left >= TAG as u64 {
            if self.ready.len() < TAG {
                return None;
            }
            chunk.tag = Some(self.pop_tag());
        }
        let left = next.map_or(u64::MAX, |(at, _)| at) - self.taken;
        let data = match left {
            0 => None,
            left => self.ready.pop(max.min(left as usize)),
        };
        if data.is_none() && chunk.tag.is_none() {
            return None;
        }
        chunk.data = data.unwrap_or_default();
        self.taken += chunk.data.len() as u64;
        self.lent += chunk.data.len() as u64 + chunk.tag.map_or(0, |_| TAG as u64);
        self.ready_marks.drain(..used);
        if self.ready_marks.front() == Some(&(self.taken, Mark::End)) {
            chunk.end_of_message = true;
            self.ready_marks.pop_front();
        }
        Some(chunk)
    }

    /// Releases `bytes` of the lent data.
    pub(crate) fn use_lent(&mut self, bytes: u64) {
        let used = bytes.min(self.lent);
        self.lent -= used;
        self.posted = self.posted.saturating_sub(used);
    }

    /// Received data are no longer read.
    pub(crate) fn discard(&mut self) {
        self.lent = 0;
        self.taken = self.ready.end();
        self.ready.clear();
        self.ready_marks.clear();
        self.marks.clear();
        self.held = Reassembly::default();
    }

    /// Bytes of memory beside the data.
    pub(crate) fn memory(&self) -> usize {
        self.held.memory()
            + self.ready.memory()
            + self.ready_marks.capacity() * size_of::<(u64, Mark)>()
            + self.marks.len() * 2 * size_of::<(u64, XtpOptions)>()
    }

    /// Ends of messages and tags that are kept: a peer whose messages are short has fewer of them unread.
    fn most_marks(&self) -> usize {
        (self.window / 64).max(64) as usize
    }

    fn pop_tag(&mut self) -> [u8; TAG] {
        let (mut tag, mut have) = ([0; TAG], 0);
        while have < TAG {
            match self.ready.pop(TAG - have) {
                Some(piece) => have += piece.copy_to(&mut tag[have..]),
                None => break,
            }
        }
        self.taken += have as u64;
        tag
    }

    /// Appends what follows `rseq`, with its marks.
    fn deliver(&mut self, data: Payload) {
        let base = self.ready.end();
        let end = self.rseq + data.len() as u64;
        while let Some(entry) = self.marks.first_entry().filter(|entry| *entry.key() <= end) {
            let (seq, mark) = entry.remove_entry();
            let at = base + seq.saturating_sub(self.rseq);
            if mark.has(XtpOptions::EOM) {
                self.ready_marks.push_back((at, Mark::End));
            }
            if mark.has(XtpOptions::BTAG) && seq == end {
                // It belongs to what follows.
                self.marks.insert(seq, XtpOptions::BTAG);
                break;
            }
            if mark.has(XtpOptions::BTAG) {
                self.ready_marks.push_back((at, Mark::Tag));
            }
        }
        self.ready.push(data);
        self.rseq = end;
        self.hseq = self.hseq.max(end);
    }

    fn drain(&mut self) {
        let mut pieces = Vec::new();
        self.held.drain(self.rseq, |piece| pieces.push(piece));
        for piece in pieces {
            self.deliver(piece);
        }
    }
}

#[cfg(test)]
mod tests;
