//! The user's calls and events.

use layercast_core::{Serial, Time};
use layercast_wire::{Payload, XtpOptions, XtpTrafficSpec};

use super::multicast::Group;
use super::parts::{News, Request};
use super::{Context, STATUS, UNSORTED};
use crate::outgoing::{LAST_SEQ, TAG};
use crate::{Chunk, SendOptions, XtpCounts, XtpError, XtpInfo};

impl Context {
    /// Queues as much of `data` as there is room for; gives how much.
    pub(crate) fn send(&mut self, data: &Payload, how: &SendOptions) -> Result<usize, XtpError> {
        if self.write_closed || self.writer_done || self.is_inactive() {
            return Err(XtpError::Shut);
        }
        if data.is_empty() && how.tag.is_none() {
            return Err(XtpError::Empty);
        }
        let tag = how.tag.map_or(0, |_| TAG);
        let room = self.room();
        // A tag that no byte can follow is of no use.
        if room <= tag {
            self.wants_room = true;
            return Ok(0);
        }
        let taken = data.len().min(room - tag);
        if self.out.end() + (tag + taken) as u64 >= LAST_SEQ {
            return Err(XtpError::Exhausted);
        }
        let whole = taken == data.len();
        self.wants_room = !whole;
        // What does not fit ends nothing yet.
        let how = SendOptions {
            end_of_message: how.end_of_message && whole,
            tell_delivery: how.tell_delivery && whole,
            ..*how
        };
        let loose = how.no_error_control || !self.config.error_control;
        let open = how.no_checksum || !self.config.checksum;
        let flags = XtpOptions::NOERR.when(loose)
            | XtpOptions::NOCHECK.when(open)
            | XtpOptions::SORT.when(how.priority.is_some());
        self.out
            .push(&data.slice(0..taken), &how, flags, self.max_data);
        Ok(taken)
    }

    /// Bytes that find room now, those of a tag among them.
    pub(crate) fn room(&self) -> usize {
        u64::from(self.config.send_buffer).saturating_sub(self.out.held()) as usize
    }

    /// Up to `max` bytes of one message that arrived; they take up the window until they are used.
    pub(crate) fn lend(&mut self, max: usize) -> Option<Chunk> {
        let chunk = self.inc.lend(max);
        if chunk.is_none() || self.inc.unread() == 0 {
            self.told_readable = false;
        }
        chunk
    }

    /// The user has taken `bytes` of the lent data, tags included.
    pub(crate) fn use_lent(&mut self, bytes: u64) {
        self.inc.use_lent(bytes);
        self.answer_deliveries();
        if self.inc.has_opened(self.max_data as u64) && !self.read_closed {
            self.due.answer = true;
        }
    }

    /// Offers buffers to a sender that uses reservation.
    pub(crate) fn post(&mut self, bytes: usize) {
        self.inc.posted = self.inc.posted.saturating_add(bytes as u64);
        if self.inc.reserved {
            self.due.answer = true;
        }
    }

    /// Starts the handshake, whose answer tells how things are.
    pub(crate) fn probe(&mut self, now: Time) {
        if !self.is_inactive() && self.handshake.is_none() {
            self.start_handshake(now);
        }
    }

    /// What can be received now, and whether the end of the stream follows it.
    pub(crate) fn available(&self) -> (usize, bool) {
        (self.inc.unread() as usize, self.inc.is_complete())
    }

    /// Queues an event for the user; one that is already queued is not repeated.
    pub(super) fn tell(&mut self, news: News) {
        if !self.news.contains(&news) {
            self.news.push_back(news);
        }
    }

    pub(crate) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Whether data came that the user has not heard of.
    pub(crate) fn is_newly_readable(&mut self) -> bool {
        let readable = self.inc.unread() > 0 && !self.read_closed;
        readable && !std::mem::replace(&mut self.told_readable, true)
    }

    /// Whether the user waits for room, and there is enough to wake him.
    pub(crate) fn is_newly_writable(&mut self) -> bool {
        let buffer = u64::from(self.config.send_buffer);
        let enough = match u64::from(self.config.wake_room) {
            0 => buffer.div_ceil(3),
            room => room.min(buffer),
        };
        let tell = self.wants_room
            && buffer.saturating_sub(self.out.held()) >= enough
            && !self.writer_done
            && !self.is_inactive();
        self.wants_room &= !tell;
        tell
    }

    /// Whether the user waits for the answer to everything, and it is there.
    pub(crate) fn is_newly_settled(&mut self) -> bool {
        let sent = !self.due.first && self.out.una() == self.out.end();
        let tell = self.wants_settled && sent && self.requests.is_empty() && !self.due.probe;
        self.wants_settled &= !tell;
        tell
    }

    /// How urgent is what it would send next: less comes first.
    pub(crate) fn urgency(&self) -> u32 {
        let due = &self.due;
        let says = due.answer || due.nak || due.probe || due.first || due.diag.is_some();
        if says || self.group().is_some_and(Group::has_replies) {
            return STATUS;
        }
        let next = self.out.next_unsent().map(|index| self.out.segment(index));
        match next.filter(|it| it.flags.has(XtpOptions::SORT)) {
            Some(it) => u32::from(it.sort),
            None => UNSORTED,
        }
    }

    pub(crate) fn traffic(&self) -> XtpTrafficSpec {
        self.peer_traffic
    }

    /// A snapshot for the curious.
    pub(crate) fn info(&self) -> XtpInfo {
        let counts = XtpCounts {
            bytes_sent: self.out.next(),
            bytes_acked: self.out.una(),
            bytes_received: self.inc.received(),
            ..self.counts
        };
        let (receivers, group) = self.group().map_or((0, 0), Group::size);
        XtpInfo {
            inactive: self.is_inactive(),
            local: self.local,
            remote: self.remote,
            counts,
            unsent: self.out.end() - self.out.next(),
            flight: self.out.next() - self.out.una(),
            unread: self.inc.unread(),
            alloc: self.alloc,
            srtt: self.rtt.smoothed(),
            wait: self.rtt.wait(),
            max_data: self.max_data as u32,
            limit: self.credit.agreed(),
            peer_traffic: self.peer_traffic,
            receivers,
            memory: group
                + size_of::<Context>()
                + self.out.memory()
                + self.inc.memory()
                + self.requests.capacity() * size_of::<Request>()
                + self.owed_deliveries.capacity() * size_of::<(Serial, u64)>(),
        }
    }
}
