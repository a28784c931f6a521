use layercast_core::{CellRate, FrameRate, Refusal, Resource, Span};
use serde::{Deserialize, Serialize};

/// How much of a resource base layers may take (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionLimits {
    /// Share of a link in permille (`u_BL`).
    pub link_permille: u16,
    /// Share of a processor in permille.
    pub cpu_permille: u16,
}

/// Processor time that a host spends on traffic (specs/mets.md 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostCost {
    /// Per cell sent or received.
    pub per_cell: Span,
    /// Per frame sent or received.
    pub per_frame: Span,
}

/// What the delay of a flow is made of (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DelayBudget {
    /// Fixed delay of the path.
    pub path: Span,
    /// Time the largest frame takes through the shaper.
    pub drain: Span,
    /// One tick of the shaper.
    pub tick: Span,
}

impl Default for AdmissionLimits {
    fn default() -> AdmissionLimits {
        AdmissionLimits {
            link_permille: 900,
            cpu_permille: 900,
        }
    }
}

impl HostCost {
    /// Processor time per second for one flow.
    pub fn load(&self, rate: CellRate, frames: FrameRate) -> Span {
        let cells = self.per_cell.times(u64::from(rate.0));
        let den = u64::from(frames.den.max(1));
        let frames = self.per_frame.mul_div(u64::from(frames.num), den);
        Span::from_ps(cells.as_ps().saturating_add(frames.as_ps()))
    }
}

impl HostCost {
    /// The cells/s that nine tenths of a processor can forward at this frame rate (specs/mets.md 2.10).
    pub fn most(&self, frames: FrameRate) -> CellRate {
        let share = Span::from_ms(900).saturating_sub(self.load(CellRate(0), frames));
        match self.per_cell.as_ps() {
            0 if share == Span::ZERO => CellRate(0),
            0 => CellRate(u32::MAX),
            cell => CellRate(u32::try_from(share.as_ps() / cell).unwrap_or(u32::MAX)),
        }
    }
}

impl AdmissionLimits {
    /// Whether a link of `capacity` that has `reserved` for base layers takes `new` more.
    pub fn link(
        &self,
        node: &str,
        capacity: CellRate,
        reserved: CellRate,
        new: CellRate,
    ) -> Result<(), Refusal> {
        let limit = u64::from(capacity.0) * u64::from(self.link_permille.min(1_000)) / 1_000;
        // A share of a u32 is a u32.
        let available = CellRate(limit as u32).saturating_sub(reserved);
        check(
            node,
            Resource::Link,
            new <= available,
            new.0.into(),
            available.0.into(),
        )
    }

    /// Whether a switch that spends `per_copy` on each cell copied, and copies `reserved` for base
    /// layers, takes `new` more copies per second.
    pub fn switch_cpu(
        &self,
        node: &str,
        per_copy: Span,
        reserved: CellRate,
        new: CellRate,
    ) -> Result<(), Refusal> {
        let busy = |rate: CellRate| per_copy.times(u64::from(rate.0));
        self.cpu(node, Resource::SwitchCpu, busy(reserved), busy(new))
    }

    /// Whether a host that spends `used` of each second takes `new` more, see [`HostCost::load`].
    pub fn host_cpu(&self, node: &str, used: Span, new: Span) -> Result<(), Refusal> {
        self.cpu(node, Resource::HostCpu, used, new)
    }

    /// Whether a receiver that loses nothing up to `safe` and takes `used` takes `new` more.
    pub fn receiver(
        &self,
        node: &str,
        safe: CellRate,
        used: CellRate,
        new: CellRate,
    ) -> Result<(), Refusal> {
        let available = safe.saturating_sub(used);
        check(
            node,
            Resource::ReceiverRate,
            new <= available,
            new.0.into(),
            available.0.into(),
        )
    }

    /// Whether the delay of the path stays within `bound`; a bound of zero is none.
    pub fn delay(&self, node: &str, budget: DelayBudget, bound: Span) -> Result<(), Refusal> {
        let DelayBudget { path, drain, tick } = budget;
        let sum = path.as_ps().saturating_add(drain.as_ps());
        let needed = Span::from_ps(sum.saturating_add(tick.as_ps()));
        check(
            node,
            Resource::Delay,
            bound == Span::ZERO || needed <= bound,
            needed.as_us(),
            bound.as_us(),
        )
    }

    fn cpu(&self, node: &str, resource: Resource, used: Span, new: Span) -> Result<(), Refusal> {
        let limit = Span::from_secs(1).mul_div(u64::from(self.cpu_permille.min(1_000)), 1_000);
        let available = limit.saturating_sub(used);
        check(
            node,
            resource,
            new <= available,
            // Of a second: a millisecond is a permille.
            new.as_ms(),
            available.as_ms(),
        )
    }
}

fn check(
    node: &str,
    resource: Resource,
    fits: bool,
    needed: u64,
    available: u64,
) -> Result<(), Refusal> {
    if fits {
        return Ok(());
    }
    Err(Refusal {
        node: node.into(),
        resource,
        needed,
        available,
        measured: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AdmissionLimits = AdmissionLimits {
        link_permille: 900,
        cpu_permille: 900,
    };

    #[test]
    fn a_link_reserves_nine_tenths_and_names_the_shortfall() {
        let link =
            |reserved, new| LIMITS.link("rook", CellRate(1_000), CellRate(reserved), CellRate(new));
        assert_eq!(link(420, 480), Ok(()));
        let refusal = link(421, 480).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "rook: not enough bandwidth for the base layer: needs 203.5 kbit/s (480 cells/s), \
             has 203.1 kbit/s (479 cells/s), 424 bit/s short"
        );
    }

    #[test]
    fn an_overbooked_link_has_nothing_left() {
        let refusal = LIMITS
            .link("rook", CellRate(100), CellRate(200), CellRate(1))
            .unwrap_err();
        assert_eq!(refusal.available, 0);
    }

    #[test]
    fn a_switch_at_5_us_per_cell_copies_180_000() {
        let c_sw = Span::from_us(5);
        let copies =
            |reserved, new| LIMITS.switch_cpu("chuff", c_sw, CellRate(reserved), CellRate(new));
        assert_eq!(copies(170_000, 10_000), Ok(()));
        assert_eq!(
            copies(170_000, 10_001).unwrap_err().resource,
            Resource::SwitchCpu
        );
    }

    #[test]
    fn a_host_adds_cells_and_frames() {
        let cost = HostCost {
            per_cell: Span::from_us(50),
            per_frame: Span::from_us(500),
        };
        let load = cost.load(CellRate(8_000), FrameRate { num: 24, den: 1 });
        assert_eq!(load, Span::from_ms(412));
        assert_eq!(LIMITS.host_cpu("dwp", load, load), Ok(()));
        let refusal = LIMITS.host_cpu("dwp", load + load, load).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "dwp: not enough host CPU: needs 412 permille, has 76, 336 short"
        );
    }

    #[test]
    fn a_receiver_is_kept_below_its_safe_rate() {
        let receiver =
            |used, new| LIMITS.receiver("dwp", CellRate(8_000), CellRate(used), CellRate(new));
        assert_eq!(receiver(7_000, 1_000), Ok(()));
        assert!(receiver(7_000, 1_001).is_err());
    }

    #[test]
    fn the_delay_bound_counts_path_drain_and_tick() {
        let budget = DelayBudget {
            path: Span::from_ms(5),
            drain: Span::from_ms(34),
            tick: Span::from_ms(1),
        };
        assert_eq!(LIMITS.delay("atc", budget, Span::from_ms(40)), Ok(()));
        assert_eq!(LIMITS.delay("atc", budget, Span::ZERO), Ok(()));
        assert!(LIMITS.delay("atc", budget, Span::from_ms(39)).is_err());
        let endless = DelayBudget {
            drain: Span::MAX,
            ..budget
        };
        assert!(LIMITS.delay("atc", endless, Span::from_secs(1)).is_err());
    }
}
