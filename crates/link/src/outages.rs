use layercast_core::quantity::{
    LONGEST, Least, Quantity, QuantityError, TIME, alternatives, time_or_zero,
};
use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

/// When a direction of a link is down: packets that arrive at its end meanwhile are lost.
///
/// The sender does not know: its packets take their time of the line, and arrive if the link is up again by then. As text
/// `10s..12s,20s..20.5s`, or `never`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outages {
    /// From when until before when, counted from the start; in order of time, apart from each other.
    intervals: Vec<[Span; 2]>,
}

const NEVER: &str = "never";

impl Outages {
    /// Whether it is never down.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether it is down at a time.
    pub fn cover(&self, at: Time) -> bool {
        let since = at.since(Time::ZERO);
        let next = self.intervals.partition_point(|[from, _]| *from <= since);
        let last = next.checked_sub(1).map(|last| self.intervals[last]);
        last.is_some_and(|[_, until]| since < until)
    }

    /// Reads `10s..12s`.
    fn interval(text: &str) -> Result<[Span; 2], QuantityError> {
        let wrong = |cause: String| QuantityError::new::<Outages>(cause);
        let time = |text: &str| time_or_zero(text.trim()).map_err(|error| wrong(error.cause));
        let ends = text.split_once("..");
        let (from, until) = ends.ok_or_else(|| wrong(format!("{text:?} is no interval")))?;
        let (from, until) = (time(from)?, time(until)?);
        match from < until {
            true => Ok([from, until]),
            false => Err(wrong(format!("{text} ends before it begins"))),
        }
    }
}

impl Quantity for Outages {
    const ACCEPTED: &'static str = "FROM..UNTIL,.. such as \"10s..12s,20s..20.5s\", or \"never\"";

    /// Times must ascend: others are a typing error.
    fn parse(text: &str) -> Result<Outages, QuantityError> {
        if text.trim() == NEVER {
            return Ok(Outages::default());
        }
        let texts: Vec<&str> = text.split(',').map(str::trim).collect();
        let intervals: Result<Vec<_>, _> = texts.iter().map(|it| Outages::interval(it)).collect();
        let intervals = intervals?;
        match intervals.windows(2).position(|it| it[1][0] <= it[0][1]) {
            None => Ok(Outages { intervals }),
            Some(at) => Err(QuantityError::new::<Outages>(format!(
                "{} does not begin after the end of {}: give the intervals in the order of their times",
                texts[at + 1],
                texts[at],
            ))),
        }
    }

    fn write(&self) -> String {
        let intervals = self.intervals.iter();
        let texts = intervals.map(|[from, until]| format!("{}..{}", from.write(), until.write()));
        match self.is_empty() {
            true => NEVER.to_owned(),
            false => texts.collect::<Vec<_>>().join(","),
        }
    }

    fn pattern() -> String {
        let time = alternatives(&[(TIME, u128::from(LONGEST.as_ps()))], Least::Zero);
        let interval = format!("\\s*(?:0|{time})\\s*\\.\\.\\s*{time}\\s*");
        format!("^\\s*{NEVER}\\s*$|^{interval}(?:,{interval})*$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_read_and_written() {
        let outages = Outages::parse("0..1 s, 10 s..12s,12.5s..1 min").unwrap();
        assert_eq!(Outages::parse(&outages.write()).unwrap(), outages);
        let down = |ms| outages.cover(Time::ZERO + Span::from_ms(ms));
        let times = [0, 999, 1_000, 9_999, 10_000, 12_000, 12_500, 60_000];
        let expected = [true, true, false, false, true, false, true, false];
        assert_eq!(times.map(down), expected);
        assert_eq!(Outages::parse("never").unwrap(), Outages::default());
        assert_eq!(Outages::default().write(), "never");
    }

    #[test]
    fn wrong_outages_are_named() {
        for (text, cause) in [
            ("10s", "no interval"),
            ("10s..10s", "10s..10s ends before it begins"),
            ("ten..11s", "ten"),
            (
                "10s..12s,12s..13s",
                "12s..13s does not begin after the end of 10s..12s",
            ),
            ("", "no interval"),
        ] {
            let error = Outages::parse(text).unwrap_err().to_string();
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}
