use layercast_core::{Level, Mediation, Time};
use layercast_wire::FlowInfo;

use super::{Phase, Source};
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
        let taken = self.members.limits().min();
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

    /// The highest level that the rate of the group allows.
    pub(super) fn group_level(&self) -> Level {
        match self.info.group_bps {
            Some(most) => negotiation::level_under(&self.info, most as f64),
            None => Level::FULL,
        }
    }
}
