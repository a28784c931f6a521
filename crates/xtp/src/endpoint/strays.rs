//! Packets that name no context: those that open one or ask to be let in, and those that are answered by DIAG.

use core::hash::Hasher;

use bytes::Bytes;
use layercast_core::{Observer, Serial, Span, Time};
use layercast_wire::{
    XtpAddress, XtpBody, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions, XtpPacket, XtpService,
};
use siphasher::sip::SipHasher24;

use super::{Endpoint, SOURCES, is_host};
use crate::context::{Arrival, Context, Ends, Part, addresses, is_multicast};
use crate::{XtpDatagram, XtpEvent, XtpSocket};

/// DIAG waiting to be sent; a driver that drains the endpoint stays far below.
const MAX_DIAGS: usize = 64;
/// DIAG for strangers, for each source and second (specs/xtp.md 7).
const DIAGS_PER_SECOND: u32 = 10;

impl Endpoint {
    /// A packet that names no context.
    pub(super) fn on_stray<O: Observer>(&mut self, now: Time, datagram: &XtpDatagram, obs: &mut O) {
        let packet = &datagram.packet;
        match &packet.body {
            XtpBody::Diag { .. } => self.stats.stray_diags += 1,
            XtpBody::Join(_) => self.stats.unsupported += 1,
            _ if packet.key.is_return() => {
                self.stats.stray += 1;
                let code = XtpDiagCode::INVALID_CONTEXT;
                self.queue_diag(now, datagram, packet.key.own(), code, XtpDiagValue(0));
            }
            XtpBody::Jcntl { address, .. } => self.on_join(now, datagram, address),
            XtpBody::First { address, .. } => {
                if let Err(why) = self.open(now, datagram, address, obs) {
                    self.stats.refused += 1;
                    if packet.options.has(XtpOptions::MULTI) {
                        // Many may have got it, and all of them would complain.
                        return;
                    }
                    let code = XtpDiagCode::REFUSED;
                    self.queue_diag(now, datagram, packet.key.returned(), code, why);
                }
            }
            // It may be late, or early: FIRST may still come.
            _ => self.stats.stray += 1,
        }
    }

    /// A FIRST for a new context.
    fn open<O: Observer>(
        &mut self,
        now: Time,
        datagram: &XtpDatagram,
        address: &XtpAddress,
        obs: &mut O,
    ) -> Result<(), XtpDiagValue> {
        let (dst, src) = match address {
            XtpAddress::Ipv4 { dst, src } => (dst.port(), src.port()),
            XtpAddress::Ipv6 { dst, src } => (dst.1, src.1),
            XtpAddress::Ports { dst, src } => (*dst, *src),
            other if other.is_malformed() => return Err(XtpDiagValue::ADDRESS),
            _ => return Err(XtpDiagValue::ADDRESS_FORMAT),
        };
        self.forget_unvalidated(dst, true);
        let full = self.table.len() >= self.max_contexts;
        let Some(listener) = self.listeners.get(&dst) else {
            return Err(XtpDiagValue::NO_LISTENER);
        };
        let XtpBody::First { traffic, .. } = &datagram.packet.body else {
            return Err(XtpDiagValue::UNSPECIFIED);
        };
        let multicast = is_multicast(listener.config.service);
        let wanted = is_multicast(traffic.service()) == multicast
            && datagram.packet.options.has(XtpOptions::MULTI) == multicast;
        if traffic.service().0 > 6 || !wanted {
            return Err(XtpDiagValue::NO_PROVIDER);
        }
        if full || listener.waiting.len() >= listener.backlog {
            return Err(XtpDiagValue::NO_RESOURCE);
        }
        let config = listener.config.clone();
        let socket = |net, port| XtpSocket { net, port };
        let local = socket(datagram.dst, dst);
        let part = match multicast {
            true => Part::Receiver {
                address: invited(address, &local),
                joined: traffic.service() == XtpService::MULTICAST,
            },
            false => Part::Pair,
        };
        let ends = Ends {
            part,
            local,
            remote: socket(datagram.src, src),
            own: self.new_key(),
            theirs: Some(datagram.packet.key),
            sync: Serial((self.hash(&[1]) >> 34) as u32),
        };
        let mut context = Context::new(now, ends, &config);
        context.on_first(now, &datagram.packet)?;
        let id = self.table.insert(context);
        self.stats.passive_opens += 1;
        if let Some(listener) = self.listeners.get_mut(&dst) {
            listener.waiting.push_back(id);
        }
        self.report(now, id, ("listening", "active"), obs);
        if obs.measures()
            && let Some(context) = self.table.get(id)
        {
            self.probe_arrival(now, (context, Arrival::FIRST), &datagram.packet, obs);
        }
        if self.table.get(id).is_some_and(Context::is_acceptable) {
            self.events.push_back(XtpEvent::Incoming(dst));
        }
        self.touch(id);
        Ok(())
    }

    /// Reports an error to an unknown sender, unless its limit is used up.
    fn queue_diag(
        &mut self,
        now: Time,
        about: &XtpDatagram,
        key: XtpKey,
        code: XtpDiagCode,
        value: XtpDiagValue,
    ) {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write(about.src.ip().to_string().as_bytes());
        let source = &mut self.sources[hasher.finish() as usize % SOURCES];
        if now.since(source.0) >= Span::from_secs(1) {
            *source = (now, 0);
        }
        if !is_host(&about.src) || source.1 >= DIAGS_PER_SECOND || self.diags.len() >= MAX_DIAGS {
            self.stats.muted_diags += 1;
            return;
        }
        source.1 += 1;
        let packet = XtpPacket {
            key,
            options: XtpOptions::NONE,
            sort: 0,
            sync: Serial(0),
            seq: 0,
            body: XtpBody::Diag {
                code,
                value,
                message: Bytes::new(),
            },
        };
        let (src, dst) = (about.dst, about.src);
        self.diags.push_back(XtpDatagram { src, dst, packet });
    }

    /// JCNTL of somebody who is not known: it is for the transmitter of that group, if that is here.
    fn on_join(&mut self, now: Time, datagram: &XtpDatagram, address: &XtpAddress) {
        let packet = &datagram.packet;
        let port = match address {
            XtpAddress::Ipv4 { dst, .. } => dst.port(),
            XtpAddress::Ipv6 { dst, .. } => dst.1,
            XtpAddress::Ports { dst, .. } => *dst,
            _ => 0,
        };
        let here = self.transmitters.get(&port).into_iter().flatten().copied();
        let called = |id: &_| self.table.get(*id).is_some_and(|it| it.is_called(address));
        let id = here.into_iter().find(called);
        let multicast = packet.options.has(XtpOptions::MULTI) && is_host(&datagram.src);
        let Some(id) = id.filter(|_| multicast) else {
            // Others in the group have got it, too.
            self.stats.stray += 1;
            return;
        };
        let who = (datagram.src, packet.key);
        let Some(context) = self.table.get_mut(id) else {
            return;
        };
        match context.admit(who, packet) {
            Ok(()) => {
                if !context.is_unacknowledged() {
                    self.table.learn_key(id, who.0, who.1);
                }
                self.stats.admitted += 1;
                self.tell(id);
                self.touch(id);
            }
            Err(why) => {
                self.stats.refused += 1;
                let code = XtpDiagCode::JOIN_REFUSED;
                self.queue_diag(now, datagram, who.1.returned(), code, why);
            }
        }
    }
}

/// The address that an invited receiver asks: the group that FIRST names.
fn invited(address: &XtpAddress, local: &XtpSocket) -> XtpAddress {
    match address {
        XtpAddress::Ipv4 { dst, .. } => {
            let group = XtpSocket {
                net: (*dst.ip(), 0).into(),
                port: dst.port(),
            };
            addresses(&group, local)
        }
        _ => XtpAddress::Ports {
            dst: local.port,
            src: local.port,
        },
    }
}
