//! Packets in, packets out, time, and what users are reported.

use layercast_core::{FlowId, Machine, Observer, QosAction, QosEvent, Time, TraceEvent};
use layercast_wire::XtpBody;

use super::Endpoint;
use crate::context::{Context, News};
use crate::{ContextId, XtpDatagram, XtpEvent};

impl Endpoint {
    /// Reports the state of a context to its user; nothing about contexts that are not yet accepted.
    pub(super) fn tell(&mut self, id: ContextId) {
        let Some(context) = self.table.get_mut(id) else {
            return;
        };
        let tally = std::mem::take(&mut context.tally);
        self.stats.retransmitted += tally.retransmitted;
        self.stats.handshakes += tally.handshakes;
        self.stats.beyond += tally.beyond;
        self.stats.duplicates += tally.duplicates;
        self.stats.violations += tally.violations;
        self.stats.unsupported += tally.unsupported;
        self.stats.stray_diags += tally.stray_diags;
        self.stats.lost_receivers += tally.lost_receivers;
        let gone = context.take_gone();
        for who in gone {
            self.table.forget_key(id, &who);
        }
        let Some(context) = self.table.get_mut(id).filter(|it| !it.passive) else {
            return;
        };
        let (reported, events) = (!context.released, &mut self.events);
        let mut tell = |event| {
            if reported {
                events.push_back(event);
            }
        };
        if context.is_newly_readable() {
            tell(XtpEvent::Readable(id));
        }
        if context.is_newly_writable() {
            tell(XtpEvent::Writable(id));
        }
        if context.is_newly_settled() {
            tell(XtpEvent::Settled(id));
        }
        while let Some(news) = context.poll_news() {
            tell(match news {
                News::Connected => XtpEvent::Connected(id),
                News::Delivered(at) => XtpEvent::Delivered(id, at),
                News::PeerClosed => XtpEvent::PeerClosed(id),
                News::ReaderGone(bytes) => XtpEvent::ReaderGone(id, bytes),
                News::Traffic => XtpEvent::Traffic(id),
                News::TrafficRefused => XtpEvent::TrafficRefused(id),
                News::Closed => XtpEvent::Closed(id),
                News::Failed(why) => XtpEvent::Failed(id, why),
                News::Joined(from) => XtpEvent::Joined(id, from),
                News::ReceiverJoined(who) => XtpEvent::ReceiverJoined(id, who),
                News::ReceiverDone(who) => XtpEvent::ReceiverDone(id, who),
                News::ReceiverLost(who, at) => XtpEvent::ReceiverLost(id, who, at),
                News::NoReceivers => XtpEvent::NoReceivers(id),
            });
        }
    }

    /// Removes a context that is no longer needed.
    pub(super) fn clean(&mut self, now: Time, id: ContextId) {
        let Some(context) = self.table.get(id).filter(|it| it.is_over(now)) else {
            return;
        };
        let port = context.remote().port;
        self.table.remove(id);
        if let Some(all) = self.transmitters.get_mut(&port) {
            all.retain(|it| *it != id);
            if all.is_empty() {
                self.transmitters.remove(&port);
            }
        }
    }

    /// After a packet or a timer: tells what became of a context that was active, or was not.
    fn settle<O: Observer>(&mut self, now: Time, id: ContextId, was_active: bool, obs: &mut O) {
        self.touch(id);
        self.tell(id);
        let Some(context) = self.table.get(id) else {
            return;
        };
        if was_active && context.is_inactive() {
            self.report(now, id, ("active", "inactive"), obs);
        }
        self.clean(now, id);
    }

    pub(super) fn report<O: Observer>(
        &self,
        now: Time,
        id: ContextId,
        (from, to): (&'static str, &'static str),
        obs: &mut O,
    ) {
        let Some(context) = self.table.get(id) else {
            return;
        };
        let subject = self.subject();
        // A context has no flow number of its own: both its ports name it.
        let (local, remote) = (context.local().port, context.remote().port);
        let flow = FlowId(u32::from(local) << 16 | u32::from(remote));
        obs.on(now, subject, || TraceEvent::State {
            flow,
            what: "context",
            from,
            to,
        });
    }
}

impl Machine for Endpoint {
    type Input = XtpDatagram;
    type Transmit = XtpDatagram;
    type Event = XtpEvent;

    fn handle<O: Observer>(&mut self, now: Time, datagram: XtpDatagram, obs: &mut O) {
        self.stats.received += 1;
        let (from, packet) = (datagram.src, &datagram.packet);
        let Some(id) = self.table.find(from, packet.key) else {
            return self.on_stray(now, &datagram, obs);
        };
        if let XtpBody::Jcntl { xkey, .. } = packet.body
            && packet.key.is_return()
            && self.table.get(id).is_some_and(Context::wants_admission)
        {
            let here = !xkey.is_return() && self.table.take_key(id, from, xkey);
            if let Some(context) = self.table.get_mut(id) {
                match here {
                    true => context.learn_transmitter((from, xkey)),
                    false => context.is_here_already(now),
                }
            }
        }
        if let XtpBody::Tcntl { xkey, .. } = packet.body
            && !xkey.is_return()
            && self.table.get(id).is_some_and(Context::wants_key)
            && self.table.learn_key(id, from, xkey)
            && let Some(context) = self.table.get_mut(id)
        {
            context.learn_key(xkey);
        }
        let Some(context) = self.table.get_mut(id) else {
            return;
        };
        let was_active = !context.is_inactive();
        let was_acceptable = context.is_acceptable();
        let before = obs.measures().then(|| context.arrival(packet));
        context.on_packet(now, from, packet);
        if context.passive && context.is_acceptable() && !was_acceptable {
            let port = context.local().port;
            self.events.push_back(XtpEvent::Incoming(port));
        }
        if let Some(before) = before
            && let Some(context) = self.table.get(id)
        {
            self.probe_arrival(now, (context, before), packet, obs);
        }
        self.settle(now, id, was_active, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(id) = self.table.due(now) {
            let Some(context) = self.table.get_mut(id) else {
                continue;
            };
            if context.next_timeout().is_some_and(|at| at <= now) {
                let was_active = !context.is_inactive();
                context.on_timeout(now);
                self.settle(now, id, was_active, obs);
            } else {
                self.table.arm(id);
            }
        }
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<XtpDatagram> {
        while let Some(key) = self.table.take_gone() {
            obs.probe(self.subject(), || {
                QosEvent::new(key.0, QosAction::Close, 0, now)
            });
        }
        if let Some(diag) = self.diags.pop_front() {
            self.stats.sent += 1;
            return Some(diag);
        }
        while let Some(id) = self.table.pop_ready() {
            let Some(context) = self.table.get_mut(id) else {
                continue;
            };
            let was_active = !context.is_inactive();
            let src = context.local().net;
            let before = obs.measures().then(|| context.departure());
            let packet = context.poll(now);
            match packet {
                Some((dst, packet)) => {
                    self.stats.sent += 1;
                    if let Some(before) = before
                        && let Some(context) = self.table.get(id)
                    {
                        self.probe_departure(now, (context, before), &packet, obs);
                    }
                    self.settle(now, id, was_active, obs);
                    return Some(XtpDatagram { src, dst, packet });
                }
                None => {
                    self.table.arm(id);
                    self.tell(id);
                    self.clean(now, id);
                }
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<XtpEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.table.next_deadline()
    }
}
