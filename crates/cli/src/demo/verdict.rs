//! The promise of a demo, and whether it was kept.

use serde::Serialize;
use serde_json::Value;

/// The promise of a demo, and the result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Promise {
    /// Base-layer frames lost by all receivers together, those sent while the session channel was down included; 0
    /// is promised.
    pub base_lost: u64,
    /// Those among them that were sent while the session channel was down: a receiver does not count them as lost.
    pub base_outage: u64,
    /// Base-layer frames that arrived after their deadline; 0 is promised.
    pub base_late: u64,
    /// Layer changes inside a GOP; 0 is promised.
    pub off_boundary: u64,
    /// Whether each receiver had the sequence of levels that the simulator computed.
    pub levels_match: bool,
    /// Whether the whole promise was kept.
    pub kept: bool,
}

/// Judges what receivers measured (`receivers`) against the promise and against `simulated`;
/// `expected` names every receiver that has to have reported, `end` is when the scenario ends.
pub fn judge(receivers: &[Value], simulated: &[Value], expected: &[String], end: f64) -> Promise {
    let total = |pointer: &str| -> u64 {
        let figures = receivers
            .iter()
            .filter_map(|r| r.pointer(pointer)?.as_u64());
        figures.sum()
    };
    let find = |list: &[Value], name: &String| -> Option<Vec<u64>> {
        let found = list.iter().find(|r| r["name"] == name.as_str())?;
        Some(level_sequence(found, end))
    };
    let levels_match = expected.iter().all(|name| {
        // A receiver that got nothing has no levels either: that must not pass for equal.
        let measured = find(receivers, name).filter(|levels| !levels.is_empty());
        measured.is_some() && measured == find(simulated, name)
    });
    let [lost, outage, base_late, off_boundary] =
        ["/lost/BL", "/outage/BL", "/late_base", "/off_boundary"].map(total);
    // Without a frame there is nothing to count losses from: all that was due is lost. Of renditions frames of one layer
    // come.
    let is_none = |r: &&Value| {
        ["BL", "E1", "E2"]
            .iter()
            .all(|it| r["frames"][it].as_u64().unwrap_or(0) == 0)
    };
    let nothing_came = receivers
        .iter()
        .filter(|r| !r["frames"].is_null() && is_none(r));
    let missed = nothing_came.filter_map(|r| {
        let due = simulated.iter().find(|other| other["name"] == r["name"])?;
        let frames = |layer: &str| due["frames"][layer].as_u64().unwrap_or(0);
        match frames("BL") {
            0 => Some(frames("E1") + frames("E2")),
            base => Some(base),
        }
    });
    let base_lost = lost + outage + missed.sum::<u64>();
    Promise {
        base_lost,
        base_outage: outage,
        base_late,
        off_boundary,
        levels_match,
        kept: levels_match && base_lost + base_late + off_boundary == 0,
    }
}

/// The levels a receiver went through from its first picture until `end`, each once until the next.
///
/// Before the first picture the demand of several receivers meets at the source in an order that depends on
/// microseconds, and the result is not visible. On sockets flows close after the end of a scenario; in the
/// simulator there is nothing after it.
pub fn level_sequence(receiver: &Value, end: f64) -> Vec<u64> {
    let steps = receiver["levels"].as_array().map_or(&[][..], Vec::as_slice);
    let time = |step: &Value| step[0].as_f64().unwrap_or(f64::INFINITY);
    let first_picture = receiver.pointer("/received/0/0").and_then(Value::as_f64);
    let begin = first_picture.unwrap_or(0.0);
    let in_force = steps.iter().rposition(|step| time(step) <= begin);
    let steps = steps[in_force.unwrap_or(0)..].iter();
    let steps = steps.filter(|step| time(step) < end);
    let mut levels: Vec<u64> = steps.filter_map(|step| step[1].as_u64()).collect();
    levels.dedup();
    levels
}

impl Promise {
    /// What is printed at the end.
    pub fn render(&self) -> String {
        let mark = |good: bool| if good { "ok  " } else { "FAIL" };
        let count = |n: u64, what: &str| format!("  {} {n} {what}\n", mark(n == 0));
        let match_text = if self.levels_match { "equal" } else { "differ" };
        let mut text = format!("promise {}\n", if self.kept { "KEPT" } else { "BROKEN" });
        let of_outage = match self.base_outage {
            0 => String::new(),
            n => format!(", {n} of them while the session channel was down"),
        };
        text += &count(
            self.base_lost,
            &format!("base-layer frames lost{of_outage}"),
        );
        text += &count(self.base_late, "base-layer frames late");
        text += &count(self.off_boundary, "layer changes off a GOP boundary");
        text += &format!(
            "  {} level sequences on sockets and in the simulator {match_text}\n",
            mark(self.levels_match)
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const END: f64 = 40.0;

    fn receiver(levels: Value, lost: u64) -> Value {
        json!({"name": "wide", "levels": levels, "lost": {"BL": lost, "E1": 9, "E2": 9},
            "late": 5, "late_base": 0, "off_boundary": 0})
    }

    fn wide() -> Vec<String> {
        vec!["wide".to_owned()]
    }

    #[test]
    fn times_may_differ_but_not_the_sequence() {
        let measured = [receiver(
            json!([[0.1, 2], [10.0, 0], [10.5, 0], [25.0, 2]]),
            0,
        )];
        let same = [receiver(
            json!([[0.0, 2], [11.0, 0], [26.0, 2], [41.0, 0]]),
            0,
        )];
        let other = [receiver(json!([[0.0, 2], [11.0, 1], [26.0, 2]]), 0)];
        assert!(judge(&measured, &same, &wide(), END).kept);
        assert!(!judge(&measured, &other, &wide(), END).kept);
    }

    #[test]
    fn what_was_granted_before_the_first_picture_does_not_count() {
        let seen = |levels, first: f64| {
            let mut receiver = receiver(levels, 0);
            receiver["received"] = json!([[first, 2]]);
            level_sequence(&receiver, END)
        };
        let steps = json!([[0.0, 0], [1.0, 1], [1.2, 2], [10.0, 0]]);
        assert_eq!(seen(steps.clone(), 3.0), [2, 0]);
        assert_eq!(seen(steps.clone(), 1.1), [1, 2, 0]);
        assert_eq!(seen(steps, 50.0), [0]);
    }

    #[test]
    fn a_receiver_that_got_no_frame_at_all_lost_every_one() {
        let with_frames = |n: u64| {
            let mut receiver = receiver(json!([[0, 0]]), 0);
            receiver["frames"] = json!({"BL": n, "E1": 0, "E2": 0});
            [receiver]
        };
        let promise = judge(&with_frames(0), &with_frames(84), &wide(), END);
        assert_eq!((promise.base_lost, promise.kept), (84, false));
    }

    #[test]
    fn a_receiver_of_a_higher_rendition_needs_no_frame_of_the_lowest() {
        let with_frames = |e2: u64| {
            let mut receiver = receiver(json!([[0, 2]]), 0);
            receiver["frames"] = json!({"BL": 0, "E1": 0, "E2": e2});
            [receiver]
        };
        let promise = judge(&with_frames(1_000), &with_frames(1_000), &wide(), END);
        assert_eq!((promise.base_lost, promise.kept), (0, true));
        let promise = judge(&with_frames(0), &with_frames(1_000), &wide(), END);
        assert_eq!((promise.base_lost, promise.kept), (1_000, false));
    }

    #[test]
    fn a_lost_base_frame_breaks_the_promise() {
        let measured = [receiver(json!([[0, 2]]), 1)];
        let promise = judge(&measured, &measured, &wide(), END);
        assert_eq!(
            (promise.base_lost, promise.levels_match, promise.kept),
            (1, true, false)
        );
        assert!(promise.render().starts_with("promise BROKEN"));
    }

    #[test]
    fn a_base_frame_that_passed_by_in_an_outage_breaks_the_promise() {
        let mut measured = [receiver(json!([[0, 2]]), 0)];
        measured[0]["outage"] = json!({"BL": 2, "E1": 6, "E2": 16});
        let promise = judge(&measured, &measured, &wide(), END);
        assert_eq!((promise.base_lost, promise.kept), (2, false));
        let text =
            "  FAIL 2 base-layer frames lost, 2 of them while the session channel was down\n";
        assert!(promise.render().contains(text), "{}", promise.render());
    }

    #[test]
    fn a_silent_receiver_breaks_the_promise() {
        assert!(!judge(&[], &[], &wide(), END).kept);
    }
}
