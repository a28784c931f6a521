use layercast_core::quantity::{Least, Quantity, QuantityError, TIME, alternatives, time_or_zero};
use layercast_core::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// From when on a line carries what share of its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RateStep {
    /// The time of the step, counted from the start.
    pub after: Span,
    /// Thousandths of the full rate; more than 1000 is possible.
    pub permille: u32,
}

/// How the rate of a line changes with time: full at first, then as each step says.
///
/// As text `10s:60%,20s:100%`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RateSchedule {
    steps: Vec<RateStep>,
}

impl RateSchedule {
    /// A schedule of these steps, put in order of time.
    ///
    /// # Errors
    /// A step leaves no rate: nothing would ever leave again.
    pub fn new(mut steps: Vec<RateStep>) -> Result<RateSchedule, ConfigError> {
        steps.sort_by_key(|step| step.after);
        match steps.iter().find(|step| step.permille == 0) {
            None => Ok(RateSchedule { steps }),
            Some(step) => Err(ConfigError {
                field: "schedule",
                problem: format!("leaves nothing of the rate after {}", step.after),
            }),
        }
    }

    /// Its steps, in order of time.
    pub fn steps(&self) -> &[RateStep] {
        &self.steps
    }

    /// The step number `index`: when it comes if the schedule began at `start`, and the rate of a
    /// line of `full` from then on.
    pub fn step(&self, index: usize, start: Time, full: Rate) -> Option<(Time, Rate)> {
        let step = self.steps.get(index)?;
        let bps = u128::from(full.as_bps()) * u128::from(step.permille) / 1_000;
        let bps = u64::try_from(bps).unwrap_or(u64::MAX).max(1);
        Some((start.saturating_add(step.after), Rate::from_bps(bps)))
    }

    /// The rate of the last step that has come by `now`; `None` before the first one.
    pub fn last_step(&self, now: Time, start: Time, full: Rate) -> Option<Rate> {
        let come = |step: &RateStep| start.saturating_add(step.after) <= now;
        let last = self.steps.partition_point(come).checked_sub(1)?;
        self.step(last, start, full).map(|(_, rate)| rate)
    }
}

impl RateStep {
    /// Reads `10s:60%`: 60 percent of the rate from 10 s on.
    fn parse(text: &str) -> Result<RateStep, QuantityError> {
        let wrong = |cause: String| QuantityError::new::<RateSchedule>(cause);
        let usage = || wrong(format!("{text:?} is no step"));
        let (after, percent) = text.split_once(':').ok_or_else(usage)?;
        let percent = percent.trim().strip_suffix('%').ok_or_else(usage)?;
        let percent: f64 = percent.trim().parse().map_err(|_| usage())?;
        if !(0.1..=10_000.0).contains(&percent) {
            return Err(wrong(
                "a step leaves between 0.1% and 10000% of the rate".into(),
            ));
        }
        let after = time_or_zero(after.trim()).map_err(|error| wrong(error.cause))?;
        Ok(RateStep {
            after,
            permille: (percent * 10.0).round() as u32,
        })
    }
}

impl Quantity for RateSchedule {
    const ACCEPTED: &'static str = "TIME:PERCENT,.. such as \"10s:60%,20s:100%\"";

    /// Times must ascend: others are a typing error.
    fn parse(text: &str) -> Result<RateSchedule, QuantityError> {
        let texts: Vec<&str> = text.split(',').map(str::trim).collect();
        let steps: Result<Vec<RateStep>, _> = texts.iter().map(|it| RateStep::parse(it)).collect();
        let steps = steps?;
        let wrong = steps.windows(2).position(|it| it[1].after <= it[0].after);
        if let Some(at) = wrong {
            return Err(QuantityError::new::<RateSchedule>(format!(
                "step {} ({}) is not after step {} ({}): give the steps in the order of their times",
                at + 2,
                texts[at + 1],
                at + 1,
                texts[at],
            )));
        }
        let schedule = RateSchedule::new(steps);
        schedule.map_err(|error| QuantityError::new::<RateSchedule>(error.problem))
    }

    fn write(&self) -> String {
        let steps = self.steps.iter().map(|step| {
            let (whole, tenths) = (step.permille / 10, step.permille % 10);
            let after = step.after.write();
            match tenths {
                0 => format!("{after}:{whole}%"),
                _ => format!("{after}:{whole}.{tenths}%"),
            }
        });
        steps.collect::<Vec<_>>().join(",")
    }

    fn pattern() -> String {
        let longest = layercast_core::quantity::LONGEST;
        let time = alternatives(&[(TIME, u128::from(longest.as_ps()))], Least::Zero);
        // 0.1 to 10000.
        let percent = "(?:[1-9][0-9]{0,3}(?:\\.[0-9]+)?|0\\.[1-9][0-9]*|10000)";
        let step = format!("\\s*(?:0|{time})\\s*:\\s*{percent}\\s*%\\s*");
        format!("^{step}(?:,{step})*$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_and_written() {
        let text = "10 s:60%,20 s:100.5%";
        let schedule = RateSchedule::parse(text).unwrap();
        assert_eq!(
            schedule.steps(),
            [(10, 600), (20, 1_005)].map(|(after, permille)| RateStep {
                after: Span::from_secs(after),
                permille,
            })
        );
        assert_eq!(RateSchedule::parse(&schedule.write()).unwrap(), schedule);
        assert_eq!(
            schedule.step(0, Time::ZERO, Rate::from_bps(1_000)),
            Some((Time::ZERO + Span::from_secs(10), Rate::from_bps(600)))
        );
        let at = |s| {
            schedule.last_step(
                Time::ZERO + Span::from_secs(s),
                Time::ZERO,
                Rate::from_bps(1_000),
            )
        };
        assert_eq!(
            [9, 10, 19, 20].map(at),
            [None, Some(600), Some(600), Some(1_005)].map(|it| it.map(Rate::from_bps))
        );
    }

    #[test]
    fn wrong_schedules_are_named() {
        for (text, cause) in [
            ("10s", "no step"),
            ("10s:60", "no step"),
            ("10s:0%", "between 0.1% and 10000%"),
            ("ten:60%", "ten"),
            (
                "10s:60%,5s:10%",
                "step 2 (5s:10%) is not after step 1 (10s:60%)",
            ),
            ("", "no step"),
        ] {
            let error = RateSchedule::parse(text).unwrap_err().to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}
