//! Admission of receivers, and messages from the transmitter to a single receiver.

use core::net::SocketAddr;

use layercast_core::{Serial, Span, Time, earliest};
use layercast_wire::{
    Payload, XtpAddress, XtpBody, XtpControl, XtpDiagValue, XtpKey, XtpOptions, XtpPacket,
    XtpTraffic,
};

use super::members::{Member, Reply, Who};
use crate::context::Context;
use crate::{XtpFailure, XtpRate};

/// Guests of an unacknowledged stream that wait for an answer simultaneously.
const MAX_GUESTS: usize = 64;

impl Context {
    /// Whether JCNTL that names this address asks to be let in here.
    pub(crate) fn is_called(&self, address: &XtpAddress) -> bool {
        let ours = [self.remote.net.ip(), self.local.net.ip()];
        let (ip, port) = match address {
            XtpAddress::Ipv4 { dst, .. } => (Some((*dst.ip()).into()), dst.port()),
            XtpAddress::Ipv6 { dst, .. } => (Some(dst.0.into()), dst.1),
            XtpAddress::Ports { dst, .. } => (None, *dst),
            _ => return false,
        };
        let open = self.group().is_some() && !self.is_inactive() && !self.due.first;
        open && port == self.remote.port && ip.is_none_or(|ip| ours.contains(&ip))
    }

    /// JCNTL asks to be let in. Says why not.
    pub(crate) fn admit(&mut self, who: Who, packet: &XtpPacket) -> Result<(), XtpDiagValue> {
        let XtpBody::Jcntl {
            control, traffic, ..
        } = &packet.body
        else {
            return Ok(());
        };
        let limit = self.takes(traffic)?;
        if self.is_unacknowledged() {
            let Some(group) = self.group_mut() else {
                return Ok(());
            };
            let known = group.guests.iter().any(|(guest, _)| *guest == who);
            if !known && group.guests.len() < MAX_GUESTS {
                group.guests.push_back((who, packet.sync));
            }
            return Ok(());
        }
        let start = self.start_for(control.rseq)?;
        let most = self.config.group.receivers as usize;
        let Some(group) = self.group_mut() else {
            return Ok(());
        };
        if group.members.get(&who).is_none() {
            // A receiver that has proved nothing makes room.
            let full = group.members.len() >= most;
            if full && let Some(other) = group.members.unproved() {
                group.members.remove(&other);
                group.gone.push(other);
            }
            if group.members.len() >= most {
                return Err(XtpDiagValue::NO_RESOURCE);
            }
            let mut member = Member::new(start, control.alloc, limit, packet.sync);
            member.skips = group.skips;
            group.members.insert(who, member);
        }
        group.members.update(&who, |it| it.asked = packet.sync);
        group.members.tell(&who, Reply::Admission);
        Ok(())
    }

    /// The first byte for a receiver that has everything before `rseq`.
    fn start_for(&self, rseq: u64) -> Result<u64, XtpDiagValue> {
        let (next, released) = (self.out.next(), self.out.released());
        // Then what is not protected may have made it skip what is.
        let skipped = released > 0 && self.group().is_some_and(|it| it.skips > 0);
        let start = match rseq {
            _ if rseq > next => return Err(XtpDiagValue::JOIN),
            // The missing data may still be buffered; otherwise it starts with the next data.
            0 if released > 0 => next,
            _ if released <= rseq && !skipped => rseq,
            _ => return Err(XtpDiagValue::JOIN),
        };
        match self.write_closed && start == self.out.end() && start > 0 {
            true => Err(XtpDiagValue::JOIN),
            false => Ok(start),
        }
    }

    /// The rate that a joining receiver accepts, if that is sufficient.
    fn takes(&self, traffic: &XtpTraffic) -> Result<XtpRate, XtpDiagValue> {
        if traffic.is_malformed() {
            return Err(XtpDiagValue::TRAFFIC);
        }
        if let XtpTraffic::Other { .. } = traffic {
            return Err(XtpDiagValue::TRAFFIC_FORMAT);
        }
        let spec = traffic.spec();
        let short = (1..self.max_data).contains(&(spec.max_data as usize));
        let slow = (1..self.config.group.least_rate).contains(&u64::from(spec.in_rate));
        match short || slow {
            true => Err(XtpDiagValue::TRAFFIC_REFUSED),
            false => Ok(XtpRate {
                rate: spec.in_rate.into(),
                burst: spec.in_burst.into(),
            }),
        }
    }

    /// The next message for a single receiver, with its address.
    pub(in crate::context) fn reply(&mut self, now: Time) -> Option<(SocketAddr, XtpPacket)> {
        let sync = self.sync;
        let group = self.group_mut()?;
        if let Some((who, code, value)) = group.farewells.pop_front() {
            let mut packet = self.diag(code, value);
            packet.key = who.1.returned();
            return Some((who.0, packet));
        }
        if let Some((who, asked)) = group.guests.pop_front() {
            let start = self.out.next();
            return Some((who.0, self.admission(who.1, asked, start, XtpOptions::NONE)));
        }
        let (who, reply) = group.members.next_reply()?;
        let member = *group.members.get(&who)?;
        match reply {
            Reply::Admission => {
                let echo = group.position(sync, sync) + 1;
                group.members.update(&who, |it| {
                    it.proof = sync.plus(1);
                    it.echo = if it.active { it.echo } else { echo };
                });
                self.sync = sync.plus(1);
                self.last_sent = now;
                if let Some(delivery) = &mut self.delivery {
                    delivery.blurred = true;
                }
                let packet = self.admission(who.1, member.asked, member.start, XtpOptions::SREQ);
                Some((who.0, packet))
            }
            Reply::Status => {
                let control = XtpControl {
                    rseq: 0,
                    alloc: 0,
                    echo: member.asked,
                };
                let ends = self.closed_bits(!self.out.has_unsent());
                let mut packet = self.packet(ends, self.out.next(), XtpBody::Cntl(control));
                packet.key = who.1.returned();
                Some((who.0, packet))
            }
        }
    }

    /// The JCNTL that admits the receiver with this key.
    fn admission(&self, key: XtpKey, echo: Serial, start: u64, asks: XtpOptions) -> XtpPacket {
        let body = XtpBody::Jcntl {
            control: XtpControl {
                rseq: 0,
                alloc: 0,
                echo,
            },
            xkey: self.own,
            address: self.address(),
            traffic: XtpTraffic::Spec(self.service, self.out_traffic),
        };
        let mut packet = self.packet(asks, start, body);
        packet.key = key.returned();
        packet
    }

    /// Invites to the group, once more.
    pub(in crate::context) fn invitation(&mut self, now: Time) -> XtpPacket {
        self.due.invite = false;
        self.sync = self.sync.plus(1);
        self.last_sent = now;
        let next = self.out.next();
        self.first(XtpOptions::SREQ, Some(next), Payload::default())
    }

    /// Schedules the next invitation, sent if no receiver answers this one.
    pub(in crate::context) fn plan_invitation(&mut self, now: Time) {
        let first = self.config.first_wait;
        if let Some(group) = self.group_mut() {
            let wait = first.times(1 << group.invites.min(6));
            group.invites += 1;
            group.invite_at = Some(now.saturating_add(wait));
        }
    }

    pub(super) fn transmitter_timer(&self) -> Option<Time> {
        let group = self.group()?;
        if self.due.first {
            return None;
        }
        if self.is_unacknowledged() {
            let wanted = self.config.keep_alive > Span::ZERO && !self.due.answer;
            return wanted.then(|| self.last_sent.saturating_add(self.config.keep_alive));
        }
        let give_up = self.config.give_up;
        let last = group.stuck_since.map(|since| since.saturating_add(give_up));
        let invites = !group.begun || group.members.active() == 0;
        earliest(group.invite_at.filter(|_| invites), last)
    }

    pub(super) fn on_transmitter_timer(&mut self, now: Time) {
        if self.is_unacknowledged() {
            // A sign of life.
            (self.due.answer, self.last_sent) = (true, now);
            return;
        }
        let give_up = self.config.give_up;
        let Some(group) = self.group_mut() else {
            return;
        };
        if group
            .stuck_since
            .is_some_and(|since| now.since(since) >= give_up)
        {
            return self.fail(now, XtpFailure::TimedOut);
        }
        self.plan_invitation(now);
        self.due.invite = true;
    }
}
