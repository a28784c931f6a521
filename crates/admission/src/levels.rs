//! Both levels of control (specs/admission-control.md 2.7, 2.8).

use layercast_core::{Rate, Span};

use crate::config::Levels;
use crate::event::Why;

/// Window and trigger.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    config: Levels,
    /// The link that the configuration is for, and how many bit/s the trigger moves up and down on the present one.
    link: Rate,
    raise: Rate,
    lower: Rate,
    pub window: Span,
    pub trigger: Rate,
}

impl Control {
    pub fn new(config: Levels, link: Rate) -> Control {
        Control {
            link,
            raise: config.raise,
            lower: config.lower,
            window: config.first,
            trigger: config.trigger,
            config,
        }
    }

    pub fn config(&self) -> &Levels {
        &self.config
    }

    /// Level 1: the window grows once the rate reached the trigger, and shrinks otherwise.
    pub fn set_window(&mut self, max: Rate) {
        let factor = match max >= self.trigger {
            true => self.config.grow,
            false => self.config.shrink,
        };
        let window = self.window.mul_div(factor.into(), 1_000);
        self.window = window.clamp(self.config.min, self.config.max);
    }

    /// Level 2: the trigger sinks if too much is late now, and rises if less than the target is late in the long
    /// run. Returns where it was, and why it moved.
    pub fn set_trigger(
        &mut self,
        capacity: Rate,
        max: Rate,
        too_late: bool,
        below: bool,
    ) -> Option<(Rate, Why)> {
        let (from, trigger) = (self.trigger, self.trigger.as_bps());
        // An idle link says nothing about the trigger: raised to the capacity, it would let too many in later.
        let idle = self.config.anti_windup && max.as_bps() < trigger / 2;
        let (to, why) = if too_late {
            (trigger.saturating_sub(self.lower.as_bps()), Why::TooLate)
        } else if below && !idle {
            let raised = trigger.saturating_add(self.raise.as_bps());
            (raised.min(capacity.as_bps()), Why::BelowTarget)
        } else {
            return None;
        };
        self.trigger = Rate::from_bps(to);
        (self.trigger != from).then_some((from, why))
    }

    /// Follows the link to another rate: trigger and steps keep their share of it. Returns the trigger before.
    pub fn rescale(&mut self, from: Rate, to: Rate) -> Rate {
        let before = self.trigger;
        let scale = |rate: Rate, from: Rate| {
            let bps = u128::from(rate.as_bps()) * u128::from(to.as_bps());
            let bps = bps / u128::from(from.as_bps().max(1));
            Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
        };
        self.trigger = scale(self.trigger, from).min(to);
        // From the configuration: rounded down with each change of the link, they would end at 0.
        self.raise = scale(self.config.raise, self.link);
        self.lower = scale(self.config.lower, self.link);
        before
    }
}
