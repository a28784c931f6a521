use layercast_core::{Level, Mediation, Time};
use layercast_wire::FlowInfo;

use super::{Phase, Source};
use crate::SourceEvent;
use crate::negotiation;

/// The mediator of a group with one rate for all: the least of what its members take (specs/user-to-user-qos.md 2.4).
impl Source {
    /// Proposes another rate to the group if a member takes less than the one in force, or all take more.
    pub(super) fn mediate(&mut self, now: Time) {
        let ready = self.phase == Phase::Live && self.config.registered && self.change.is_none();
        if self.info.mediation != Some(Mediation::SingleRate) || !ready {
            return;
        }
        let term = self.info.contract.and_then(|it| it.throughput);
        // A member that takes less than is promised, or than the base layer, does not join.
        let base = negotiation::rate_of(self.spec(), Level::BASE);
        let least = term.map_or(0.0, |it| it.agreed).max(base).ceil();
        let taken = self.members.slowest().map(|(_, most)| most);
        // The cast saturates.
        let taken = taken.map(|bps| bps.max(least as u64));
        let most = taken.filter(|&bps| (bps as f64) < negotiation::whole(&self.info));
        if most == self.info.group_bps {
            self.proposed = None;
            return;
        }
        if self.proposed.replace(most) == Some(most) {
            return;
        }
        let flow = FlowInfo {
            group_bps: most,
            ..self.info.clone()
        };
        self.propose(now, None, flow);
    }

    /// Tells the user of another rate of the group, and whose it is.
    pub(super) fn tell_group_rate(&mut self, before: Option<u64>) {
        let most_bps = self.info.group_bps;
        if most_bps != before {
            let slowest = self.members.slowest().filter(|_| most_bps.is_some());
            let member = slowest.map(|(member, _)| member.clone());
            self.events
                .push_back(SourceEvent::GroupRate { most_bps, member });
        }
    }

    /// The highest level that the rate of the group allows.
    pub(super) fn group_level(&self) -> Level {
        negotiation::group_level(&self.info).unwrap_or(Level::FULL)
    }
}
