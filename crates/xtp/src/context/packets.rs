//! What packets are made of: status, questions, the options that are those of the context.

use bytes::Bytes;
use core::net::{IpAddr, SocketAddrV4};

use layercast_core::{CELL_SIZE, Time, aal5_cells};
use layercast_wire::{
    XTP_HEADER, XtpAddress, XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpOptions, XtpPacket,
    XtpTraffic,
};

use super::{Context, Request};
use crate::{Ask, RateCounts, XtpSocket};

/// Reported ranges at most (specs/xtp.md 2.10).
const MAX_SPANS: usize = 64;
/// Requests remembered at most; of more, the oldest are forgotten.
const MAX_REQUESTS: usize = 4_096;

impl Context {
    /// Status, with what is held or proposed.
    pub(super) fn status(&mut self, now: Time, asks: bool) -> XtpPacket {
        let asked = if asks {
            self.ask(now)
        } else {
            XtpOptions::NONE
        };
        (self.due.answer, self.due.nak) = (false, false);
        let control = XtpControl {
            rseq: self.inc.rseq(),
            alloc: self.inc.tell_alloc(),
            echo: self.echo,
        };
        // A peer whose address is not validated gets short packets.
        let most = match self.budget.is_validated() {
            true => MAX_SPANS,
            false => 2,
        };
        let spans = most.min(self.max_data.saturating_sub(24) / 16);
        let traffic =
            std::mem::take(&mut self.due.traffic) || (asks && self.traffic_unsure.is_some());
        let body = if traffic && !self.is_inactive() {
            if asks {
                self.traffic_unsure = Some(self.sync);
            }
            XtpBody::Tcntl {
                control,
                xkey: self.own,
                traffic: XtpTraffic::Spec(self.service, self.out_traffic),
            }
        } else if self.inc.has_gap() && !self.read_closed {
            XtpBody::Ecntl {
                control,
                spans: self.inc.spans(spans),
            }
        } else {
            XtpBody::Cntl(control)
        };
        let next = self.out.next();
        let settled = !self.out.has_unsent();
        // A receiver that waits for data lost for good is released, if nothing else is owed.
        let loose = self.out.una() == next && !self.config.error_control;
        let options = asked | self.closed_bits(settled) | XtpOptions::NOERR.when(loose);
        if settled && self.write_closed {
            self.due.close = false;
        }
        self.packet(options, next, body)
    }

    pub(super) fn diag(&self, code: XtpDiagCode, value: XtpDiagValue) -> XtpPacket {
        XtpPacket {
            key: self.key,
            options: XtpOptions::MULTI.when(self.is_multicast()),
            sort: 0,
            sync: self.sync,
            seq: self.out.next(),
            body: XtpBody::Diag {
                code,
                value,
                message: Bytes::new(),
            },
        }
    }

    /// A packet with the options that are those of the context.
    pub(super) fn packet(&self, options: XtpOptions, seq: u64, body: XtpBody) -> XtpPacket {
        let config = &self.config;
        let has_read = self.inc.is_complete() && self.owed_deliveries.is_empty();
        let read = matches!(body, XtpBody::Data(_)) && (has_read || self.is_one_way());
        let modes = XtpOptions::NOFLOW.when(!config.flow_control)
            | XtpOptions::FASTNAK.when(config.fast_nak)
            | XtpOptions::RES.when(config.reservation)
            | XtpOptions::MULTI.when(self.is_multicast())
            | XtpOptions::EDGE.when(self.edge)
            | XtpOptions::RCLOSE.when(read);
        XtpPacket {
            key: self.key,
            options: options | modes,
            sort: 0,
            sync: self.sync,
            seq,
            body,
        }
    }

    /// A packet that leaves now asks for the status.
    pub(super) fn ask(&mut self, now: Time) -> XtpOptions {
        self.asked_since = 0;
        self.last_sent = now;
        if self.is_unacknowledged() {
            return XtpOptions::NONE;
        }
        self.sync = self.sync.plus(1);
        if !self.has_audience() {
            return XtpOptions::SREQ;
        }
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back(Request {
            sync: self.sync,
            at: now,
            sent: self.out.next(),
        });
        self.unanswered_since.get_or_insert(now);
        if let Some(delivery) = &mut self.delivery {
            delivery.blurred = true;
        }
        XtpOptions::SREQ
    }

    /// The same of data, which may say it by another bit: one that a loss can turn back, so that handshakes
    /// have none of it.
    pub(super) fn ask_with_data(&mut self, now: Time) -> XtpOptions {
        let asked = self.ask(now);
        if self.config.edge && self.heard && asked != XtpOptions::NONE {
            self.edge = !self.edge;
            return XtpOptions::NONE;
        }
        asked
    }

    pub(super) fn ask_unless_never(&mut self, now: Time) -> XtpOptions {
        self.last_sent = now;
        match self.config.ask {
            Ask::Every(_) => self.ask(now),
            Ask::Never => XtpOptions::NONE,
        }
    }

    /// What a packet with `len` bytes of data counts against the rate.
    pub(super) fn cost(&self, len: usize) -> u64 {
        let packet = (len + XTP_HEADER) as u64;
        match self.config.rate_counts {
            RateCounts::User => len as u64,
            RateCounts::Xtp => packet,
            RateCounts::Wire(below) => packet + u64::from(below),
            RateCounts::Cells => u64::from(aal5_cells(packet as usize)) * CELL_SIZE as u64,
        }
    }

    /// Whether `bytes` may go to a peer whose address may be forged (RFC 9000, section 8.1).
    pub(super) fn may_reach(&self, bytes: usize) -> bool {
        self.budget.allowance() >= bytes as u64
    }

    pub(super) fn address(&self) -> XtpAddress {
        addresses(&self.remote, &self.local)
    }
}

/// Destination and source, as FIRST and JCNTL contain them.
pub(crate) fn addresses(to: &XtpSocket, from: &XtpSocket) -> XtpAddress {
    match (to.net.ip(), from.net.ip()) {
        (IpAddr::V4(dst), IpAddr::V4(src)) => XtpAddress::Ipv4 {
            dst: SocketAddrV4::new(dst, to.port),
            src: SocketAddrV4::new(src, from.port),
        },
        _ => XtpAddress::Ports {
            dst: to.port,
            src: from.port,
        },
    }
}
