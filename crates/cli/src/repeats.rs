//! Messages that come again and again: a few of a kind in a minute are printed, the rest is counted.

use std::collections::BTreeMap;

use layercast_core::{Span, Time};

use crate::output::count;

/// Messages of a kind that are printed in a window.
const PRINTED: u32 = 5;
/// Length of a window.
const WINDOW: Span = Span::from_secs(60);

/// Limits messages by kind.
#[derive(Default, Debug)]
pub struct Repeats(BTreeMap<&'static str, Kind>);

#[derive(Clone, Copy, Debug)]
struct Kind {
    /// When the window began.
    since: Time,
    printed: u32,
    left_out: u64,
}

impl Repeats {
    /// Whether a message of this kind is printed `now`; if not, it is counted.
    pub fn prints(&mut self, now: Time, kind: &'static str) -> bool {
        let entry = self.0.entry(kind).or_insert(Kind {
            since: now,
            printed: 0,
            left_out: 0,
        });
        if entry.printed < PRINTED {
            entry.printed += 1;
            return true;
        }
        entry.left_out += 1;
        false
    }

    /// What was left out in windows that are over `now`. The kind of a window in which something was left out stays
    /// silent until a window without a message.
    pub fn over(&mut self, now: Time) -> Vec<String> {
        let mut texts = Vec::new();
        self.0.retain(|kind, it| {
            if now.since(it.since) < WINDOW {
                return true;
            }
            if it.left_out == 0 {
                return false;
            }
            texts.push(said(kind, it.left_out, "in the last minute"));
            (it.since, it.left_out) = (now, 0);
            true
        });
        texts
    }

    /// What was left out and is not reported yet.
    pub fn rest(&mut self) -> Vec<String> {
        let kinds = std::mem::take(&mut self.0);
        let left_out = kinds.into_iter().filter(|(_, it)| it.left_out > 0);
        left_out
            .map(|(kind, it)| said(kind, it.left_out, "until the end"))
            .collect()
    }
}

fn said(kind: &str, left_out: u64, when: &str) -> String {
    format!("{kind}: {} more {when}", count(left_out, "message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Span::from_secs(s)
    }

    #[test]
    fn a_few_of_a_kind_are_printed_and_the_rest_is_counted_by_the_minute() {
        let mut repeats = Repeats::default();
        let (mut printed, mut said) = (0, Vec::new());
        // A message a second for two minutes.
        for second in 0..130 {
            printed += u32::from(repeats.prints(at(second), "jumps of the stream"));
            assert_eq!(
                repeats.prints(at(second), "other"),
                second < 5,
                "kinds are apart"
            );
            said.extend(repeats.over(at(second)));
        }
        said.retain(|it| it.starts_with("jumps"));
        assert_eq!(printed, PRINTED);
        assert_eq!(
            said,
            [
                "jumps of the stream: 56 messages more in the last minute",
                "jumps of the stream: 60 messages more in the last minute"
            ]
        );
        assert_eq!(repeats.rest().len(), 2);
        // After a quiet minute it is printed again.
        assert!(repeats.over(at(500)).is_empty());
        assert!(repeats.prints(at(501), "jumps of the stream"));
    }

    #[test]
    fn rare_messages_are_all_printed() {
        let mut repeats = Repeats::default();
        for hour in 0..20 {
            let now = at(hour * 3_600);
            assert!(repeats.over(now).is_empty());
            assert!(repeats.prints(now, "jumps of the stream"));
        }
        assert!(repeats.rest().is_empty());
    }
}
