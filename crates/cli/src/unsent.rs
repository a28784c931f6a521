//! Frames that a source sends late, or not at all, and whether its machine is the cause.

use std::collections::BTreeMap;

use layercast_core::{PerLayer, Span, Time};
use layercast_mets::SourceEvent;
use layercast_net::NodeEvent;

use crate::output::count;

/// Frames are late, or are dropped, for some time after the machine did not run the command.
const FOLLOWS: Span = Span::from_secs(5);
/// A time that is worth a message of its own.
const WORTH: Span = Span::from_ms(500);
/// What helps.
const HELPS: &str = "fewer programs beside it, a higher priority (nice), or a faster machine help";

/// When this machine did not run the command.
pub struct NotRun {
    what: &'static str,
    last: Option<(Time, Span)>,
}

impl NotRun {
    /// Of a command that is called `what`.
    pub fn of(what: &'static str) -> NotRun {
        NotRun { what, last: None }
    }

    /// Takes an event; gives a message if it says that the machine did not run the command for a long time.
    pub fn note(&mut self, now: Time, event: &NodeEvent) -> Option<String> {
        let NodeEvent::NotRun { time } = event else {
            return None;
        };
        self.last = Some((now, *time));
        let text = || format!("{}: {HELPS}", self.in_words(*time));
        (*time >= WORTH).then(text)
    }

    /// Why frames are dropped or late now, if the machine is the cause.
    pub fn cause(&self, now: Time) -> Option<String> {
        let (at, time) = self.last?;
        (now.since(at) < FOLLOWS).then(|| self.in_words(time))
    }

    /// The same behind an event that says that frames are late; nothing behind another one.
    pub fn makes_late(&self, now: Time, event: &NodeEvent) -> String {
        let is_late = matches!(
            event,
            NodeEvent::Source {
                event: SourceEvent::MissedDeadline { .. },
                ..
            }
        );
        let cause = self.cause(now).filter(|_| is_late);
        cause.map_or_else(String::new, |cause| format!("; {cause}: {HELPS}"))
    }

    fn in_words(&self, time: Span) -> String {
        let seconds = time.as_ms_f64() / 1e3;
        format!("this machine did not run {} for {seconds:.1} s", self.what)
    }
}

/// Frames of flows that the pacing of the source dropped since the last report.
#[derive(Default)]
pub struct Unsent(BTreeMap<String, PerLayer<u64>>);

impl Unsent {
    /// Takes an event.
    pub fn push(&mut self, event: &NodeEvent) {
        let NodeEvent::Source {
            flow,
            event: SourceEvent::Dropped { frames },
        } = event
        else {
            return;
        };
        *self.0.entry(flow.clone()).or_default() += *frames;
    }

    /// What to report of them; `cause` if it is the machine.
    pub fn take(&mut self, cause: Option<String>) -> Vec<String> {
        let flows = std::mem::take(&mut self.0).into_iter();
        let why = cause.map_or_else(
            || {
                "the busiest GOPs of the clip take longer to leave than --pacing lets them wait; let the encoder limit its \
                 rate (-maxrate and -bufsize: layercast probe suggests values), or use serve --pacing off where the links \
                 carry the peaks"
                    .to_owned()
            },
            |cause| format!("{cause}: {HELPS}"),
        );
        let text = |(flow, frames): (String, PerLayer<u64>)| {
            format!(
                "{flow}: {} dropped before they were sent ({} BL, {} E1, {} E2): {why}",
                count(frames.total(), "frame"),
                frames.base,
                frames.e1,
                frames.e2
            )
        };
        flows.map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Layer;

    use super::*;

    fn dropped(layer: Layer) -> NodeEvent {
        let mut frames = PerLayer::default();
        frames[layer] = 1;
        NodeEvent::Source {
            flow: "film".into(),
            event: SourceEvent::Dropped { frames },
        }
    }

    #[test]
    fn frames_that_the_pacing_drops_are_told_in_one_message() {
        let mut unsent = Unsent::default();
        for layer in [Layer::E1, Layer::E2, Layer::E2] {
            unsent.push(&dropped(layer));
        }
        let told = unsent.take(None);
        assert_eq!(told.len(), 1);
        let begins = "film: 3 frames dropped before they were sent (0 BL, 1 E1, 2 E2)";
        assert!(told[0].starts_with(begins), "{told:?}");
        assert!(told[0].contains("let the encoder limit"), "{told:?}");
        assert!(unsent.take(None).is_empty());
    }

    #[test]
    fn a_machine_that_does_not_run_the_command_is_named_and_not_the_encoder() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut not_run = NotRun::of("serve");
        let stall = |ms| NodeEvent::NotRun {
            time: Span::from_ms(ms),
        };
        let late = NodeEvent::Source {
            flow: "film".into(),
            event: SourceEvent::MissedDeadline {
                missed: 9,
                window: 24,
                late: 2,
            },
        };
        assert_eq!(not_run.makes_late(at(9_000), &late), "");
        let text = not_run.note(at(10_000), &stall(1_900)).expect("worth it");
        let says = "this machine did not run serve for 1.9 s";
        assert!(text.starts_with(says), "{text}");
        let mut unsent = Unsent::default();
        unsent.push(&dropped(Layer::E2));
        let told = unsent.take(not_run.cause(at(11_000)));
        assert!(told[0].contains(says) && !told[0].contains("encoder"));
        assert!(not_run.makes_late(at(11_000), &late).contains(says));
        assert_eq!(not_run.makes_late(at(11_000), &dropped(Layer::E2)), "");
        assert_eq!(not_run.cause(at(15_000)), None);
        // Many short stalls are a cause, and no message of their own.
        assert_eq!(not_run.note(at(20_000), &stall(300)), None);
        assert!(not_run.cause(at(21_000)).is_some());
    }
}
