use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{RangeSet, Serial};
use layercast_wire::{Payload, XtpOptions};

use super::SendOptions;

/// Bytes of a tag.
pub(crate) const TAG: usize = 8;
/// Sequence numbers end here (specs/xtp.md 7).
pub(crate) const LAST_SEQ: u64 = 1 << 63;

/// A piece of the stream that goes into a packet of its own.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) seq: u64,
    pub(crate) len: u64,
    /// The data, with the tag before them; freed once no receiver can request them again.
    pub(crate) payload: Payload,
    /// EOM, BTAG, DREQ, SORT; NOCHECK, NOERR as the user wants them.
    pub(crate) flags: XtpOptions,
    pub(crate) sort: u16,
    pub(crate) sends: u32,
    /// An echo of this value means that the last transmission was received, or is lost.
    pub(crate) sync: Serial,
}

impl Segment {
    pub(crate) fn end(&self) -> u64 {
        self.seq + self.len
    }

    pub(crate) fn is_unprotected(&self) -> bool {
        self.flags.has(XtpOptions::NOERR)
    }
}

/// What the user sends: what is owed, then what was not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    segments: VecDeque<Segment>,
    /// How many of them were sent at least once.
    sent: usize,
    /// Everything before it is acknowledged or given up.
    una: u64,
    end: u64,
    resend: RangeSet,
    /// No data before it can be retransmitted, except unprotected ones.
    released: u64,
}

impl Outgoing {
    /// First byte that is owed, or the next to be sent.
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// After the last protected byte that is kept no more.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// First byte that is kept: everything before it was had by all that counted, or is lost for good.
    pub(crate) fn kept(&self) -> u64 {
        self.segments
            .front()
            .map_or(self.una, |it| it.seq.min(self.una))
    }

    /// Next byte to be sent.
    pub(crate) fn next(&self) -> u64 {
        self.segments.get(self.sent).map_or(self.end, |it| it.seq)
    }

    /// After the last byte of the user.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that are held.
    pub(crate) fn held(&self) -> u64 {
        self.end - self.una
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.segments.len()
    }

    pub(crate) fn segment(&self, index: usize) -> &Segment {
        &self.segments[index]
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Segment> {
        self.segments.get(index)
    }

    /// The first segment, if it begins the stream.
    pub(crate) fn first(&self) -> Option<&Segment> {
        self.segments.front().filter(|it| it.seq == 0)
    }

    /// Appends data and what belongs to them, in pieces of `max` bytes.
    pub(crate) fn push(
        &mut self,
        data: &Payload,
        how: &SendOptions,
        flags: XtpOptions,
        max: usize,
    ) {
        let body = match how.tag {
            None => data.clone(),
            Some(tag) => {
                let mut bytes = tag.to_vec();
                data.append_to(&mut bytes);
                Payload::Bytes(Bytes::from(bytes))
            }
        };
        // Bytes of no message join what has not left yet.
        let joins = |last: &Segment| last.flags == flags && last.sort == how.priority.unwrap_or(0);
        if how.tag.is_none()
            && self.has_unsent()
            && let Some(last) = self.segments.back_mut().filter(|last| joins(last))
            && last.payload.len() + body.len() <= max
        {
            last.payload = joined(&last.payload, &body);
            last.len += body.len() as u64;
            last.flags |= XtpOptions::EOM.when(how.end_of_message);
            last.flags |= XtpOptions::DREQ.when(how.tell_delivery);
            self.end += body.len() as u64;
            return;
        }
        let mut at = 0;
        while at < body.len() {
            let piece = body.slice(at..at + max);
            let (first, last) = (at == 0, at + piece.len() == body.len());
            at += piece.len();
            self.segments.push_back(Segment {
                seq: self.end,
                len: piece.len() as u64,
                flags: flags
                    | XtpOptions::BTAG.when(first && how.tag.is_some())
                    | XtpOptions::EOM.when(last && how.end_of_message)
                    | XtpOptions::DREQ.when(last && how.tell_delivery),
                sort: how.priority.unwrap_or(0),
                sends: 0,
                sync: Serial(0),
                payload: piece,
            });
            self.end = self.segments.back().map_or(self.end, Segment::end);
        }
    }

    /// The first segment that is to be sent again.
    pub(crate) fn next_resend(&mut self) -> Option<usize> {
        loop {
            let (from, _) = self.resend.iter().next()?;
            let index = self.segments.partition_point(|it| it.end() <= from);
            match self.segments.get(index) {
                Some(it) if index < self.sent && !it.is_unprotected() => return Some(index),
                Some(it) => self.resend.remove_below(it.end()),
                None => self.resend.clear(),
            }
        }
    }

    /// The first segment that was never sent.
    pub(crate) fn next_unsent(&self) -> Option<usize> {
        self.has_unsent().then_some(self.sent)
    }

    /// Cuts a segment so that `at` bytes are left of it.
    pub(crate) fn split(&mut self, index: usize, at: usize) {
        let whole = &mut self.segments[index];
        debug_assert!(
            0 < at && (at as u64) < whole.len,
            "both parts of a segment have data"
        );
        let later = XtpOptions::EOM | XtpOptions::DREQ;
        let rest = Segment {
            seq: whole.seq + at as u64,
            len: whole.len - at as u64,
            payload: whole.payload.slice(at..whole.payload.len()),
            flags: whole.flags.without(XtpOptions::BTAG),
            ..*whole
        };
        whole.payload = whole.payload.slice(0..at);
        whole.len = at as u64;
        whole.flags = whole.flags.without(later);
        self.segments.insert(index + 1, rest);
        if index < self.sent {
            self.sent += 1;
        }
    }

    /// A segment leaves; `covered` is the synchronizing value whose echo will tell of it.
    pub(crate) fn leave(&mut self, index: usize, covered: Serial) {
        debug_assert!(index <= self.sent, "segments leave in order the first time");
        let segment = &mut self.segments[index];
        segment.sends += 1;
        segment.sync = covered;
        if segment.is_unprotected() {
            segment.payload = Payload::default();
        }
        let end = segment.end();
        match index < self.sent {
            true => self.resend.remove_below(end),
            false => self.sent = index + 1,
        }
        self.release(self.una);
    }

    /// The peer has everything before `rseq`; gives whether that is news.
    pub(crate) fn release(&mut self, rseq: u64) -> bool {
        let before = self.una;
        self.una = self.una.max(rseq);
        while let Some(front) = self.segments.front().filter(|_| self.sent > 0) {
            let done = front.end() <= self.una || (front.is_unprotected() && front.seq <= self.una);
            if !done {
                break;
            }
            self.una = self.una.max(front.end());
            if !front.is_unprotected() {
                self.released = front.end();
            }
            self.segments.pop_front();
            self.sent -= 1;
        }
        self.resend.remove_below(self.una);
        debug_assert!(self.sent <= self.segments.len());
        debug_assert!(
            self.una <= self.end,
            "the peer cannot have more than the user sent"
        );
        self.una > before
    }

    /// The peer reports `from..to` missing after it had seen `echo`, and has data after `beyond`: data that it
    /// should have by then are queued for retransmission. Returns the number of bytes.
    pub(crate) fn miss(
        &mut self,
        (from, to): (u64, u64),
        echo: Serial,
        beyond: u64,
        go_back: bool,
    ) -> u64 {
        let first = self.segments.partition_point(|it| it.end() <= from);
        let mut bytes = 0;
        for segment in self.segments.range(first..self.sent.max(first)) {
            if segment.seq >= to {
                break;
            }
            // Packets leave in order once: what came after this one tells that it was lost.
            let overtaken = segment.sends == 1 && segment.end() <= beyond;
            if segment.is_unprotected() || (segment.sync.is_after(echo) && !overtaken) {
                continue;
            }
            let end = match go_back {
                true => self.segments[self.sent - 1].end(),
                false => segment.end(),
            };
            self.resend.insert(segment.seq, end);
            bytes += end - segment.seq;
            if go_back {
                break;
            }
        }
        bytes
    }

    pub(crate) fn forget_resend(&mut self) {
        self.resend.clear();
    }

    /// Whether something after `seq` is to be sent again.
    pub(crate) fn due_after(&self, seq: u64) -> bool {
        self.resend
            .iter()
            .next_back()
            .is_some_and(|(_, end)| end > seq)
    }

    /// Drops everything that is owed or not sent; the stream ends with what was sent. Gives how many bytes the
    /// peer has not acknowledged.
    pub(crate) fn drop_all(&mut self) -> u64 {
        let lost = self.end - self.una;
        self.end = self.next();
        self.segments.clear();
        self.sent = 0;
        self.una = self.end;
        self.resend.clear();
        lost
    }

    /// Bytes of memory beside the data.
    pub(crate) fn memory(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>() + self.resend.memory()
    }
}

fn joined(a: &Payload, b: &Payload) -> Payload {
    match (a, b) {
        (Payload::Zeros(a), Payload::Zeros(b)) => Payload::Zeros(a + b),
        (a, b) => {
            let mut bytes = Vec::with_capacity(a.len() + b.len());
            a.append_to(&mut bytes);
            b.append_to(&mut bytes);
            Payload::Bytes(bytes.into())
        }
    }
}
