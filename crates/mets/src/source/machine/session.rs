use bytes::Bytes;
use layercast_core::{FlowId, Level, Span, Time};
use layercast_wire::{
    Agreed, Bounds, Downward, Member, MemberReport, Opaque, Refusal, Resource, Signal, Upward,
};

use super::{MAX_EVENTS, MAX_SIGNALS, Phase, Source};
use crate::negotiation;
use crate::{ControlError, SourceEvent};

impl Source {
    /// Answers joins and questions, keeps the membership.
    pub(super) fn on_signal(&mut self, now: Time, signal: Signal) {
        let ours = |flow: FlowId| flow == self.info.id;
        let answer = match signal {
            Signal::Join {
                flow,
                epoch,
                member,
                level,
                proof,
                answer,
                ..
            } if ours(flow) && epoch == self.info.epoch => {
                self.join(now, member, level, proof, answer)
            }
            // Addressed to an earlier life of the source: the current one is advertised to the sender.
            Signal::Join { flow, .. } if ours(flow) => {
                self.stats.rejected += 1;
                None
            }
            Signal::Join { flow, .. } => Some(self.nak(flow, Resource::UnknownFlow, 1, 0)),
            Signal::Decline {
                flow,
                member,
                refusal,
                ..
            } if ours(flow) => {
                self.stats.declined += 1;
                if self.events.len() < MAX_EVENTS {
                    let event = SourceEvent::MemberDeclined {
                        member,
                        refusal: *refusal,
                    };
                    self.events.push_back(event);
                }
                None
            }
            Signal::Leave { flow, member } if ours(flow) => {
                self.on_left(now, member);
                None
            }
            Signal::Left { flow, member } if ours(flow) => {
                self.on_left(now, member);
                None
            }
            Signal::ToSource { flow, member, body } if ours(flow) => {
                self.on_upward(now, member, body);
                None
            }
            Signal::Report {
                flow,
                member,
                report,
            } if ours(flow) => {
                self.on_report(now, member, *report);
                None
            }
            Signal::ChangeAck { flow, change, .. } if ours(flow) => {
                self.on_change_ack(now, change);
                None
            }
            Signal::ChangeNak {
                flow,
                change,
                refusal,
                ..
            } if ours(flow) => {
                self.on_change_nak(change, refusal);
                None
            }
            Signal::GetStats { flow } => {
                let members = match flow.is_none_or(ours) {
                    true => self.member_stats(now),
                    false => Vec::new(),
                };
                Some(Signal::Stats { members })
            }
            Signal::ListFlows => Some(Signal::Flows {
                flows: vec![self.info.clone()],
            }),
            _ => {
                self.stats.rejected += 1;
                None
            }
        };
        self.signals.extend(answer);
        self.bound_signals();
    }

    fn on_report(&mut self, now: Time, member: Member, report: MemberReport) {
        let Ok(new) = self.members.report(now, &member, report) else {
            self.stats.rejected += 1;
            return;
        };
        self.mediate(now);
        if let (Some(parities), Some(packets)) = (&mut self.parities, report.packets) {
            let period = Span::from_ms(u64::from(self.info.policy.signal_period_ms));
            parities.on_report(now, member.id, packets, period);
            self.send_parities(now);
        }
        if new {
            self.events.push_back(SourceEvent::MemberJoined(member));
        }
    }

    fn bound_signals(&mut self) {
        while self.signals.len() > MAX_SIGNALS {
            self.signals.pop_front();
            self.stats.rejected += 1;
        }
    }

    fn on_left(&mut self, now: Time, member: Member) {
        self.controls.close(&member);
        if let Some(keyring) = &mut self.keyring {
            keyring.on_gone(&member);
            keyring.upkeep(now);
        }
        if let Some(parities) = &mut self.parities {
            parities.forget(member.id);
        }
        if self.members.leave(&member) {
            self.events.push_back(SourceEvent::MemberLeft(member));
            self.mediate(now);
        }
        if self.members.len() == 0 {
            self.adapter.on_empty();
        }
    }

    /// Sends a message on the control socket of a member: reliably, in order (specs/mets.md 2.2).
    pub fn send_control(
        &mut self,
        now: Time,
        member: &Member,
        message: Bytes,
    ) -> Result<(), ControlError> {
        if self.phase == Phase::Closed || !self.members.contains(member) {
            return Err(ControlError::NotConnected);
        }
        self.controls.send(now, member, message)?;
        self.flush_controls(now);
        Ok(())
    }

    fn on_upward(&mut self, now: Time, member: Member, body: Upward) {
        if self.phase == Phase::Closed {
            return;
        }
        match self.members.hear(now, &member) {
            Ok(true) => self
                .events
                .push_back(SourceEvent::MemberJoined(member.clone())),
            Ok(false) => {}
            Err(_) => {
                self.stats.rejected += 1;
                return;
            }
        }
        match body {
            Upward::App(control) => {
                let room = self.events.len() < MAX_EVENTS;
                if let Some(message) = self.controls.on_control(now, &member, control, room) {
                    self.events
                        .push_back(SourceEvent::Control { member, message });
                }
            }
            Upward::KeyRequest { request } => {
                let keyring = self.keyring.as_mut();
                let granted = keyring.map(|keyring| keyring.on_request(now, &member, &request.0));
                self.stats.denied += u64::from(granted != Some(true));
            }
        }
        self.flush_controls(now);
    }

    /// Sends again what was not answered in time.
    pub(super) fn resend_controls(&mut self, now: Time) {
        if self.controls.on_timeout(now) {
            self.flush_controls(now);
        }
    }

    fn flush_controls(&mut self, now: Time) {
        let flow = self.info.id;
        while let Some((member, control)) = self.controls.poll(now) {
            let body = Downward::App(control);
            self.signals
                .push_back(Signal::ToMember { flow, member, body });
        }
        self.bound_signals();
    }

    /// Begins the next epoch of the group key, if it is time.
    pub(super) fn begin_epoch(&mut self, now: Time) {
        let Some(keyring) = &mut self.keyring else {
            return;
        };
        if keyring.on_gop_start(now) {
            self.stats.rekeys += 1;
            let epoch = keyring.epoch();
            self.events.push_back(SourceEvent::Rekeyed { epoch });
            // Somebody may have left meanwhile.
            keyring.upkeep(now);
        }
    }

    fn join(
        &mut self,
        now: Time,
        member: Member,
        level: Level,
        proof: Option<Opaque>,
        answer: Option<Box<Bounds>>,
    ) -> Option<Signal> {
        let flow = self.info.id;
        if self.phase == Phase::Closed {
            return Some(self.nak(flow, Resource::UnknownFlow, 1, 0));
        }
        let proof = proof.as_ref().map(|proof| &proof.0[..]);
        let keyring = self.keyring.as_ref();
        if let Some(Err(resource)) = keyring.map(|keyring| keyring.admits(now, &member, proof)) {
            return Some(self.nak(flow, resource, 0, 0));
        }
        let base = self.spec().rate_at(Level::BASE);
        if let Some(limit) = self.config.local_limit.filter(|&limit| base > limit) {
            return Some(self.nak(flow, Resource::Link, base.0.into(), limit.0.into()));
        }
        let bound = u64::from(self.spec().delay_max_ms) * 1_000;
        let needed = self.info.path_delay_us;
        if bound > 0 && needed > bound && self.config.admission {
            return Some(self.nak(flow, Resource::Delay, needed, bound));
        }
        match self.members.join(now, &member, level) {
            Ok(new) => {
                // A member that is attached to no switch.
                let agreed = answer
                    .filter(|_| self.info.mediation.is_some())
                    .map(|answer| {
                        let (terms, clipped) = negotiation::agree(&self.info, &answer);
                        self.stats.rejected += u64::from(clipped);
                        Box::new(Agreed {
                            member: member.id,
                            bounds: terms.bounds,
                        })
                    });
                if new {
                    self.events.push_back(SourceEvent::MemberJoined(member));
                }
                Some(Signal::JoinAck {
                    flow,
                    vci: self.config.vci,
                    level: self.adapter.advertised().level,
                    agreed,
                })
            }
            Err(_) => {
                let max = u64::from(self.config.max_members);
                Some(self.nak(flow, Resource::TooManyMembers, max + 1, max))
            }
        }
    }

    fn nak(&self, flow: FlowId, resource: Resource, needed: u64, available: u64) -> Signal {
        let refusal = self.refusal(resource, needed, available);
        Signal::JoinNak { flow, refusal }
    }

    pub(super) fn refusal(&self, resource: Resource, needed: u64, available: u64) -> Refusal {
        Refusal {
            node: self.config.node.clone(),
            resource,
            needed,
            available,
            measured: None,
        }
    }
}
