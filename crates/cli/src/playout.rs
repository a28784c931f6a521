//! What a receiver says about its playout delay.

use layercast_qos::{MoveCause, SignedSpan};

/// What raises the playout delay; of causes that raised it as much the first one is reported.
const CAUSES: [MoveCause; 6] = [
    MoveCause::Source,
    MoveCause::Queue,
    MoveCause::Stopped,
    MoveCause::Late,
    MoveCause::Loss,
    MoveCause::Estimate,
];

/// A change of the playout delay that a viewer notices, in milliseconds.
const WORTH_MS: f64 = 100.0;
/// Seconds until a message about the path: until then it may turn out that the source is late.
const KNOWN: u32 = 2;
/// Delays between hosts without a common clock are not shown: they hold the difference of the clocks.
const SHOWN_MS: std::ops::Range<f64> = 0.0..60_000.0;

/// Reports that the playout delay has risen, and that it is back.
#[derive(Default)]
pub struct PlayoutMoves {
    /// The delay before it rose: the smallest since the last fall that was reported.
    before: Option<f64>,
    /// After the last move.
    last: Option<f64>,
    /// The highest one that was reported.
    reported: f64,
    /// Seconds since a rise that seems to be of the path, and is not reported yet.
    waiting: Option<u32>,
    /// By how much each of [`CAUSES`] has raised the delay since the last report.
    raised: [f64; CAUSES.len()],
}

impl PlayoutMoves {
    /// Takes a change of the playout delay; returns a message if it is worth one.
    pub fn look(&mut self, from: SignedSpan, to: SignedSpan, cause: MoveCause) -> Option<String> {
        let (from, to) = (from.as_ms_f64(), to.as_ms_f64());
        if self.last.replace(to).is_some_and(|last| last != from) {
            // The time line of the source began again: the delay counts from elsewhere.
            *self = PlayoutMoves {
                last: Some(to),
                ..PlayoutMoves::default()
            };
        }
        let before = *self.before.get_or_insert(from);
        let rise = to - before;
        for (known, raised) in CAUSES.into_iter().zip(&mut self.raised) {
            *raised += if known == cause {
                (to - from).max(0.0)
            } else {
                0.0
            };
        }
        if rise < WORTH_MS / 2.0 {
            self.waiting = None;
            let was_high = std::mem::take(&mut self.reported);
            if was_high > 0.0 || rise < 0.0 {
                (self.before, self.raised) = (Some(to), Default::default());
            }
            return (was_high > 0.0).then(|| {
                format!(
                    "the playout delay falls by {}: frames come in time again",
                    moved(before + was_high, to)
                )
            });
        }
        match self.cause() {
            MoveCause::Late if self.is_worth(MoveCause::Late) => {
                self.waiting.get_or_insert(0);
                None
            }
            cause => self.tell(cause),
        }
    }

    /// A second has passed, in which media came `source_late_ms` late to the source; returns what is known by now of a rise
    /// that seemed to be of the path.
    pub fn second(&mut self, source_late_ms: Option<f64>) -> Option<String> {
        let seconds = self.waiting? + 1;
        self.waiting = Some(seconds);
        if seconds < KNOWN {
            return None;
        }
        self.waiting = None;
        let rise = self.last? - self.before?;
        let is_late = source_late_ms.is_some_and(|late| late >= (rise - self.reported) / 2.0);
        self.tell(match self.cause() {
            MoveCause::Late if is_late => MoveCause::Source,
            cause => cause,
        })
    }

    /// What raised the delay most since the last report.
    fn cause(&self) -> MoveCause {
        let most = self.raised.into_iter().fold(0.0, f64::max);
        let mut known = CAUSES.into_iter().zip(self.raised);
        known
            .find(|it| it.1 == most)
            .map_or(MoveCause::Estimate, |it| it.0)
    }

    /// Whether the delay has risen enough for a report.
    fn is_worth(&self, cause: MoveCause) -> bool {
        let (Some(before), Some(last)) = (self.before, self.last) else {
            return false;
        };
        // A source that stays too slow raises the delay without end.
        let next = match cause {
            MoveCause::Source => 2.0 * self.reported,
            _ => self.reported + WORTH_MS,
        };
        last - before >= next.max(WORTH_MS)
    }

    fn tell(&mut self, cause: MoveCause) -> Option<String> {
        if !self.is_worth(cause) {
            return None;
        }
        let (before, to) = (self.before?, self.last?);
        let from = before + self.reported;
        (self.reported, self.raised, self.waiting) = (to - before, Default::default(), None);
        let why = match cause {
            MoveCause::Late => {
                "a frame came later than the others, because the path paused or a queue on it filled; the delay falls again after 5 s without a \
                 late frame, unless pauses recur"
            }
            MoveCause::Source => {
                "frames come to the source after their time: the encoder or its sender is slower than real time, or paused"
            }
            MoveCause::Queue => {
                "a frame left the source late: the encoder or its sender pauses or sends in bursts, or the frame waited there for the rate of the flow"
            }
            MoveCause::Stopped => {
                "this host did not run the receiver when a frame arrived: its process or the host was stopped or suspended, or the processor is \
                 overloaded; the delay falls again after 5 s without a late frame, unless that recurs"
            }
            MoveCause::Loss => "the path loses frames, and a repair takes a round trip",
            MoveCause::Estimate => "the delays of the last frames call for it",
        };
        Some(format!(
            "the playout delay rises by {}: {why}",
            moved(from, to)
        ))
    }
}

/// A move in words.
fn moved(from: f64, to: f64) -> String {
    let by = (to - from).abs();
    match SHOWN_MS.contains(&from) && SHOWN_MS.contains(&to) {
        true => format!("{by:.0} ms (from {from:.0} ms to {to:.0} ms)"),
        false => format!("{by:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(moves: &[(i64, MoveCause)]) -> Vec<String> {
        let mut playout = PlayoutMoves::default();
        let mut before = SignedSpan::from_ps(20_000_000_000);
        let mut said = Vec::new();
        for &(ms, cause) in moves {
            let to = SignedSpan::from_ps(ms * 1_000_000_000);
            said.extend(playout.look(before, to, cause));
            said.extend((0..KNOWN).filter_map(|_| playout.second(None)));
            before = to;
        }
        said
    }

    #[test]
    fn a_rise_and_the_fall_back_are_reported_once() {
        use MoveCause::{Estimate, Late};
        let all = said(&[
            (40, Late),
            (430, Late),
            (470, Late),
            (30, Estimate),
            (28, Estimate),
        ]);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(
            all[0].contains("rises by 410 ms (from 20 ms to 430 ms): a frame came later"),
            "{all:?}"
        );
        assert!(
            all[1].contains("falls by 400 ms (from 430 ms to 30 ms): frames come in time"),
            "{all:?}"
        );
    }

    #[test]
    fn a_rise_that_follows_a_slow_source_is_not_blamed_on_the_path() {
        let all = said(&[(430, MoveCause::Source)]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(
            all[0].contains("come to the source after their time"),
            "{all:?}"
        );
        assert!(!all[0].contains("path"), "{all:?}");
    }

    #[test]
    fn a_message_about_the_path_waits_until_it_is_known_who_is_late() {
        use MoveCause::{Estimate, Late, Queue, Source, Stopped};
        let ms = |ms: i64| SignedSpan::from_ps(ms * 1_000_000_000);
        let rise =
            |playout: &mut PlayoutMoves, from, to, cause| playout.look(ms(from), ms(to), cause);
        // The second rise has the cause.
        let mut playout = PlayoutMoves::default();
        assert_eq!(rise(&mut playout, 20, 130, Late), None);
        assert_eq!(playout.second(Some(0.0)), None);
        let said = rise(&mut playout, 130, 300, Source).expect("a rise");
        assert!(
            said.contains("from 20 ms to 300 ms): frames come to the source"),
            "{said}"
        );
        assert_eq!(playout.second(None), None);
        assert_eq!(playout.second(None), None);
        // Or what the media of the next seconds show.
        for (late, part) in [
            (Some(80.0), "come to the source"),
            (Some(10.0), "the path paused"),
            (None, "the path paused"),
        ] {
            let mut playout = PlayoutMoves::default();
            assert_eq!(rise(&mut playout, 20, 150, Late), None);
            assert_eq!(playout.second(late), None);
            let said = playout.second(late).expect("a rise");
            assert!(said.contains(part), "{late:?}: {said}");
        }
        // One that is over before is no news.
        let mut playout = PlayoutMoves::default();
        assert_eq!(rise(&mut playout, 20, 130, Late), None);
        assert_eq!(rise(&mut playout, 130, 30, Estimate), None);
        assert_eq!(playout.second(None).or(playout.second(None)), None);
        let said = rise(&mut PlayoutMoves::default(), 20, 280, Queue).expect("a rise");
        assert!(
            said.contains("left the source late") && !said.contains("path"),
            "{said}"
        );
        let said = rise(&mut PlayoutMoves::default(), 20, 280, Stopped).expect("a rise");
        assert!(
            said.contains("this host did not run the receiver") && !said.contains("path"),
            "{said}"
        );
    }

    #[test]
    fn many_small_rises_are_told_as_one_with_what_raised_the_delay_most() {
        use MoveCause::{Late, Source};
        // 15 ms each; every third is taken for one of the path.
        let cause = |n: i64| if n % 3 == 2 { Late } else { Source };
        let moves: Vec<_> = (1..=60).map(|n| (20 + 15 * n, cause(n))).collect();
        let all = said(&moves);
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all[0].contains("from 20 ms to 125 ms"), "{all:?}");
        for text in &all {
            assert!(
                text.contains("come to the source after their time"),
                "{all:?}"
            );
        }
        let moves: Vec<_> = (1..=20)
            .map(|n| (20 + 15 * n, if n % 3 == 2 { Source } else { Late }))
            .collect();
        assert!(said(&moves).iter().all(|it| it.contains("the path paused")));
    }

    #[test]
    fn a_delay_that_counts_from_elsewhere_is_no_fall() {
        let ms = |ms: i64| SignedSpan::from_ps(ms * 1_000_000_000);
        let mut playout = PlayoutMoves::default();
        assert!(playout.look(ms(20), ms(1_000), MoveCause::Source).is_some());
        assert_eq!(playout.look(ms(30), ms(45), MoveCause::Source), None);
        let said = playout
            .look(ms(45), ms(140), MoveCause::Source)
            .expect("a rise");
        assert!(said.contains("from 30 ms to 140 ms"), "{said}");
    }

    #[test]
    fn a_second_rise_starts_at_the_first() {
        use MoveCause::Late;
        let all = said(&[(190, Late), (460, Late), (560, Late)]);
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(
            all[1].contains("rises by 270 ms (from 190 ms to 460 ms)"),
            "{all:?}"
        );
        assert!(
            all[2].contains("rises by 100 ms (from 460 ms to 560 ms)"),
            "{all:?}"
        );
    }

    #[test]
    fn small_moves_are_no_news_and_clocks_that_differ_are_not_shown() {
        use MoveCause::{Estimate, Late, Loss};
        assert!(said(&[(60, Late), (25, Estimate), (110, Late), (40, Estimate)]).is_empty());
        let lossy = said(&[(140, Loss)]);
        assert!(lossy[0].contains("the path loses frames"), "{lossy:?}");
        let mut playout = PlayoutMoves::default();
        let at = |s: i64, ms: i64| SignedSpan::from_ps((s * 1_000 + ms) * 1_000_000_000);
        let said = playout
            .look(at(-3_600, 0), at(-3_600, 400), Loss)
            .expect("a rise");
        assert!(said.contains("rises by 400 ms:"), "{said}");
    }
}
