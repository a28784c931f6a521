//! Closing in all forms, and breaking off (specs/xtp.md 2.6).

use layercast_core::Time;
use layercast_wire::{XtpDiagCode, XtpDiagValue, XtpOptions, XtpService};

use super::{Context, Due, News};
use crate::XtpFailure;

impl Context {
    /// Nothing more will be sent.
    pub(crate) fn close_write(&mut self) {
        if !self.write_closed && !self.is_inactive() {
            self.write_closed = true;
            self.due.close = true;
        }
    }

    /// Nothing more will be read.
    pub(crate) fn close_read(&mut self, now: Time) {
        if self.read_closed || self.is_inactive() {
            self.inc.discard();
            return;
        }
        self.read_closed = true;
        self.told_end = true;
        // One that is not opened yet says so in FIRST.
        self.due.answer |= !self.due.first;
        self.inc.discard();
        self.owed_deliveries.clear();
        self.settle(now);
    }

    /// Aborts the association and notifies the peer, as far as possible.
    pub(crate) fn abort(&mut self, now: Time) {
        if self.is_inactive() {
            return;
        }
        let known = !self.initiator || !self.due.first || self.heard;
        self.leave(now);
        self.failed = true;
        if known {
            self.due.diag = Some((XtpDiagCode::ABANDONED, XtpDiagValue::UNSPECIFIED));
        }
    }

    /// Fails, and tells the user.
    pub(super) fn fail(&mut self, now: Time, why: XtpFailure) {
        if self.is_inactive() {
            return;
        }
        self.leave(now);
        self.failed = true;
        self.tell(News::Failed(why));
        let value = match why {
            XtpFailure::TimedOut => XtpDiagValue::UNSPECIFIED,
            XtpFailure::Violated => XtpDiagValue::STATE,
            _ => return,
        };
        self.due.diag = Some((XtpDiagCode::ABANDONED, value));
    }

    /// Whether the peer has nothing more for us.
    pub(super) fn reader_done(&self) -> bool {
        self.read_closed || (self.inc.is_complete() && self.owed_deliveries.is_empty())
    }

    /// Called after every change: reports the end of the peer's stream, and ends an association whose
    /// directions are both closed.
    pub(super) fn settle(&mut self, now: Time) {
        self.settle_group(now);
        if self.inc.is_complete() && !self.told_end {
            self.told_end = true;
            self.tell(News::PeerClosed);
            // Of a question the answer tells.
            let speaks = [XtpService::DATAGRAM, XtpService::TRANSACTION];
            let waits = !self.owed_deliveries.is_empty();
            self.due.answer |= !waits && !speaks.contains(&self.service);
        }
        if self.is_inactive() || !self.reader_done() || !self.writer_done {
            return;
        }
        let quiet = self.ended;
        self.leave(now);
        self.tell(News::Closed);
        self.due.answer = !quiet;
    }

    /// A datagram without acknowledgement is complete once it has left.
    pub(super) fn end_of_datagram(&mut self, now: Time) {
        self.leave(now);
        self.tell(News::Closed);
    }

    /// Whether the next transmission is the last of a datagram without acknowledgement.
    pub(super) fn is_last_of_datagram(&self, end: u64) -> bool {
        self.initiator
            && matches!(self.service, XtpService::DATAGRAM | XtpService::MULTICAST)
            && self.write_closed
            && self.read_closed
            && end == self.out.end()
    }

    /// The bits that say what is closed.
    pub(super) fn closed_bits(&self, whole: bool) -> XtpOptions {
        // Of one that broke off, only that it did: the streams have not come to their ends.
        let ends = !self.failed;
        // A transmitter to many reads nothing, its receivers write nothing: that need not be said.
        let reads = self.group().is_none();
        let writes = !reads || !self.is_multicast();
        XtpOptions::RCLOSE.when(ends && reads && self.reader_done())
            | XtpOptions::WCLOSE.when(ends && writes && self.write_closed && whole)
            | XtpOptions::END.when(self.is_inactive())
    }

    /// Becomes inactive.
    fn leave(&mut self, now: Time) {
        self.inactive = Some(now.saturating_add(self.config.inactive));
        self.handshake = None;
        self.requests.clear();
        self.unanswered_since = None;
        self.blocked_until = None;
        self.due = Due::default();
        self.write_closed |= self.writer_done;
        if !self.writer_done {
            self.out.drop_all();
        }
    }
}
