//! The forward pass of a call.

use layercast_core::{PortId, RequestId, Time};

use super::{Call, Controller, State};
use crate::signal::{Body, CallId, Connection, ControllerEvent, Message, PortAdmission, Setup};
use crate::{AtmAddress, Class, RejectCause};

impl<A: PortAdmission> Controller<A> {
    /// The host requests a circuit.
    pub(super) fn begin(&mut self, now: Time, request: RequestId, setup: Setup) {
        self.stats.setups += 1;
        let result = match self.config.address {
            Some(origin) if origin != setup.to => {
                let id = self.new_id(origin);
                self.forward(now, PortId::LOCAL, id, request, setup)
            }
            _ => Err(RejectCause::UnknownDestination),
        };
        if let Err(cause) = result {
            self.stats.refused += 1;
            self.events
                .push_back(ControllerEvent::Rejected { request, cause });
        }
    }

    fn new_id(&mut self, origin: AtmAddress) -> CallId {
        loop {
            let number = self.next_number;
            self.next_number = number.wrapping_add(1);
            let id = CallId { origin, number };
            if !self.calls.contains_key(&id) {
                return id;
            }
        }
    }

    /// A neighbour requests a circuit.
    pub(super) fn arrived(&mut self, now: Time, port: PortId, id: CallId, setup: Setup) {
        self.stats.setups += 1;
        let known = self.calls.get(&id).map(|call| call.line.in_port);
        if known.is_some() || self.config.address == Some(id.origin) {
            self.stats.duplicate += 1;
            // The set-up arrived from another link: it ran in a loop, and the requesting side must learn that.
            if known != Some(port) {
                self.stats.refused += 1;
                self.reply(port, id, Body::Reject(RejectCause::UnknownDestination));
            }
            return;
        }
        let valid = 1..=self.config.max_vcs;
        let link = self.ports.get(port);
        if !valid.contains(&setup.vc.0) || link.is_none_or(|link| link.comes_in(setup.vc)) {
            self.stats.bad_vcid += 1;
            self.stats.refused += 1;
            return self.reply(port, id, Body::Reject(RejectCause::NoVcid));
        }
        if self.config.address == Some(setup.to) {
            return self.accept(port, id, setup);
        }
        if let Err(cause) = self.forward(now, port, id, RequestId(0), setup) {
            self.stats.refused += 1;
            self.reply(port, id, Body::Reject(cause));
        }
    }

    /// Accepts a circuit that ends here.
    fn accept(&mut self, port: PortId, id: CallId, setup: Setup) {
        let line = Connection {
            in_port: port,
            in_vc: setup.vc,
            out_port: PortId::LOCAL,
            out_vc: setup.vc,
            class: Class::BestEffort,
            service: setup.service,
        };
        let call = Call {
            line,
            request: RequestId(0),
            state: State::Connected,
        };
        self.remember(id, call);
        self.stats.connects += 1;
        self.events.push_back(ControllerEvent::Incoming {
            port,
            vc: setup.vc,
            from: id.origin,
            tag: setup.tag,
        });
        self.reply(port, id, Body::Connect);
    }

    /// Reserves a number and resources on the next link, and forwards the set-up.
    fn forward(
        &mut self,
        now: Time,
        in_port: PortId,
        id: CallId,
        request: RequestId,
        setup: Setup,
    ) -> Result<(), RejectCause> {
        let route = self.routes.get(&setup.to).copied();
        let out_port = route
            .filter(|&out| out != in_port)
            .ok_or(RejectCause::UnknownDestination)?;
        let port = self.ports.get_mut(out_port);
        let port = port.ok_or(RejectCause::UnknownDestination)?;
        if port.channel.is_full() {
            return Err(RejectCause::Congested);
        }
        let vc = port.vcids.take(now, id).ok_or(RejectCause::NoVcid)?;
        let class = match self.admission.reserve(out_port, id, setup.service) {
            Ok(class) => class,
            Err(cause) => {
                port.vcids.give_back(now, vc, false);
                return Err(cause);
            }
        };
        port.channel.send_always(Message {
            call: id,
            body: Body::Setup(Setup { vc, ..setup }),
        });
        let begins_here = in_port == PortId::LOCAL;
        let line = Connection {
            in_port,
            in_vc: if begins_here { vc } else { setup.vc },
            out_port,
            out_vc: vc,
            class,
            service: setup.service,
        };
        let end = now.saturating_add(self.config.watchdog);
        self.waiting.add(end, id);
        let call = Call {
            line,
            request,
            state: State::Waiting(end),
        };
        self.remember(id, call);
        Ok(())
    }

    fn remember(&mut self, id: CallId, call: Call) {
        if let Some(port) = self.ports.get_mut(call.line.in_port) {
            port.set_incoming(call.line.in_vc, true);
        }
        self.calls.insert(id, call);
        self.stats.max_calls = self.stats.max_calls.max(self.calls.len());
    }
}
