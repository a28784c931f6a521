use layercast_core::{CellRate, FlowId, FlowSpec, Level, LevelSet, PortId};

use crate::switch::Switch;
use crate::switch::flow::Branch;
use crate::switch::port::Port;

/// What the links to the receivers of a flow carry of it.
impl Switch {
    /// The share of a flow, declared as `nominal` has it, that its source may send; 1 at most.
    ///
    /// Every branch carries the base layer at that share: it is promised to all. The widest branch carries all layers at it:
    /// no receiver could use more, and the others leave layers out. Of alternative layers it carries the highest one, and those
    /// that other receivers on it want besides. `room` is the part of a link that repairs leave to the media. `None`: no branch
    /// is committed.
    pub fn carried_share(
        &self,
        id: FlowId,
        nominal: &FlowSpec,
        room: impl Fn(PortId) -> f64,
    ) -> Option<f64> {
        let flow = self.flows.get(self.flows.slot_of(id)?)?;
        // A filter makes the stream smaller, by rules of its own.
        let branches = flow.branches.iter();
        let plain = branches.filter(|branch| branch.is_committed() && branch.filter.is_none());
        let base = nominal.layers.base.mean;
        let mut narrowest: f64 = 1.0;
        let mut widest: Option<f64> = None;
        for branch in plain {
            let Some(port) = self.ports.get(branch.port) else {
                continue;
            };
            let above = match nominal.composition.is_additive() {
                true => nominal.measured_above_base(Level::FULL),
                false => nominal.measured_set_above_base(all_on(branch, nominal), Level::FULL),
            };
            let all = base.saturating_add(above);
            let (reservable, usable) = self.left_for(id, port);
            let share = |left: CellRate, of: CellRate| match port.config.capacity().0 {
                u32::MAX => 1.0,
                _ => f64::from(left.0) * room(port.id) / f64::from(of.0.max(1)),
            };
            narrowest = narrowest.min(share(reservable, base));
            widest = Some(widest.unwrap_or(0.0).max(share(usable, all)));
        }
        widest.map(|widest| narrowest.min(widest))
    }

    /// What other flows leave of a port for the base layer of a flow, and for all of it: what they do not use, and an equal
    /// part of the link at least.
    fn left_for(&self, id: FlowId, port: &Port) -> (CellRate, CellRate) {
        let (mut reserved, mut used, mut flows) = (CellRate(0), CellRate(0), 1);
        for flow in self.flows.iter().filter(|flow| flow.info.id != id) {
            let is_here = |branch: &&Branch| branch.port == port.id && branch.is_committed();
            if let Some(branch) = flow.branches.iter().find(is_here) {
                flows += 1;
                reserved = reserved.saturating_add(branch.reserved());
                used = used.saturating_add(branch.reserved().saturating_add(branch.grant.rate));
            }
        }
        let line = u64::from(port.config.line().0) * u64::from(port.config.bl_permille) / 1_000;
        let line = CellRate(u32::try_from(line).unwrap_or(u32::MAX));
        let capacity = port.config.capacity();
        let left = |of: CellRate, taken| CellRate(of.0 / flows).max(of.saturating_sub(taken));
        (left(line.min(capacity), reserved), left(capacity, used))
    }
}

/// The levels of alternative layers that a branch carries if it has room for all: those that its receivers want, and for the one that
/// wants most the highest.
fn all_on(branch: &Branch, spec: &FlowSpec) -> LevelSet {
    let wishes = branch.requests.iter().map(|request| request.wish.levels);
    let wanted = wishes.reduce(LevelSet::union).unwrap_or_default();
    let lower = wanted.iter().rev().skip(1).map(LevelSet::of);
    lower.fold(LevelSet::of(spec.top_level()), LevelSet::union)
}
