use layercast_core::{Span, Time};

use super::{Act, AppInput, HostId, Media, Out, Record};

/// How long after its last packet a stream waits for stragglers.
const GRACE: Span = Span::from_secs(2);

/// A stream of datagrams, counted at both ends.
#[derive(Debug)]
pub(crate) struct Tally {
    media: Media,
    from: HostId,
    to: HostId,
    /// A datagram under way for longer is overdue.
    bound: Span,
    sent: u64,
    received: u64,
    overdue: u64,
    /// When the counting ends.
    end: Option<Time>,
    done: bool,
}

impl Tally {
    pub fn new(media: Media, from: HostId, to: HostId, bound: Span) -> Tally {
        Tally {
            media,
            from,
            to,
            bound,
            sent: 0,
            received: 0,
            overdue: 0,
            end: None,
            done: false,
        }
    }

    pub fn send(&mut self, bytes: u32, out: &mut Out) {
        self.sent += 1;
        out.act(Act::Datagram {
            from: self.from,
            to: self.to,
            bytes,
            media: self.media,
        });
    }

    pub fn input(&mut self, now: Time, input: AppInput) {
        if let AppInput::Datagram { sent } = input {
            self.received += 1;
            self.overdue += u64::from(now.since(sent) > self.bound);
        }
    }

    /// Nothing more is sent from `now` on.
    pub fn stop(&mut self, now: Time) {
        self.end = Some(now.saturating_add(GRACE));
    }

    pub fn wake(&mut self, now: Time, out: &mut Out) {
        if self.end.is_some_and(|end| end <= now) {
            self.end = None;
            self.done = true;
            out.record(Record::Stream {
                media: self.media,
                sent: self.sent,
                received: self.received,
                overdue: self.overdue,
            });
        }
    }

    pub fn next(&self) -> Option<Time> {
        self.end
    }

    pub fn is_done(&self) -> bool {
        self.done
    }
}
