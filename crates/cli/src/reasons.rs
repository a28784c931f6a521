//! Why a receiver gets less than it wants, from its figures of each second.

use std::fmt;

use layercast_core::{CellRate, FlowSpec, Level, PerLayer, Rate};
use layercast_net::Progress;
use layercast_wire::FlowInfo;

use crate::output::count;

/// Seconds below the requested level before the command prints the reason.
const PATIENCE: u32 = 3;

/// Whether a receiver stays below the level it asked for.
pub struct Below {
    wanted: Level,
    seconds: u32,
    /// The level whose reason was reported.
    reported: Option<Level>,
}

impl Below {
    /// A receiver that wants this level.
    pub fn new(wanted: Level) -> Below {
        Below {
            wanted,
            seconds: 0,
            reported: None,
        }
    }

    /// Takes the figures of a second; gives what to tell, once for each level.
    pub fn look(&mut self, progress: &Progress, flow: &FlowInfo) -> Option<String> {
        let (spec, level) = (&flow.spec, progress.level);
        if level >= self.wanted.min(spec.top_level()) {
            (self.seconds, self.reported) = (0, None);
            return None;
        }
        self.seconds += 1;
        if self.seconds < PATIENCE || self.reported == Some(level) {
            return None;
        }
        self.reported = Some(level);
        let next = level.up();
        let (has, needs) = (
            spec.measured_above_base(level)
                .saturating_add(progress.left),
            spec.measured_above_base(next),
        );
        let base = spec.layers.base.mean.rate();
        let busiest = peak(spec, next);
        Some(if has < needs {
            format!(
                "level {level}: besides base layers ({base} for this flow) the last link has {} for it, level {next} needs {}",
                has.rate(),
                needs.rate()
            )
        } else if progress.asked <= level {
            format!(
                "level {level}: this receiver asks for no more, since a queue on the path filled up (congestion marks); \
                 the last link carries the mean rate of level {next}, but its busiest GOPs take up to {busiest}. It asks \
                 again after a quiet time; encode with -maxrate and -bufsize, or raise the rate of the link"
            )
        } else {
            format!(
                "level {level}, although this receiver asks for level {} and the last link has room for level {next}: a \
                 node further up gives no more (layercast stats at each node up to the server tells which)",
                progress.asked
            )
        })
    }
}

/// What a flow takes up to `level` while every layer has its busiest GOP.
fn peak(spec: &FlowSpec, level: Level) -> Rate {
    let layers = spec
        .layers
        .iter()
        .filter(|(layer, _)| level.includes(*layer));
    let sum = layers.fold(CellRate(0), |sum, (_, layer)| {
        sum.saturating_add(layer.peak)
    });
    sum.rate()
}

/// Seconds without a picture before the command says so.
const SILENCE: u32 = 3;
/// Seconds over which losses are looked at.
const LOSS_WINDOW: u32 = 5;
/// Lost frames of a window, per mille and at least, that are worth a word; at the base level a few frames are all there are.
const WORTH: (u64, u64) = (50, 3);

/// Losses, and what tells their cause.
///
/// A switch marks packets while its queue is half full, so a queue that overflows has marked before. It drops enhancement
/// frames first. Losses without marks are those of the path: of a radio link, a policer, an overloaded host, or a router
/// that does not mark.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Lost frames of the base layer, after repair.
    pub base: u64,
    /// Packets with the congestion mark.
    pub marked: u64,
    /// Packets of the base layer that parities repaired or could repair; `None` without parities.
    pub repaired: Option<u64>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_path = self.marked == 0 || self.repaired.is_some_and(|repaired| repaired > 0);
        match (is_path, self.repaired, self.base) {
            (false, ..) => f.write_str(
                "a queue on the path was full (congestion marks): raise the rate of that link, or limit the rate of the \
                 encoder (-maxrate and -bufsize: layercast probe suggests values)",
            ),
            (true, None, _) => f.write_str(
                "no queue was full (no congestion marks), so the path itself loses packets: serve --protect-base auto \
                 lets receivers repair the base layer; enhancement layers are not repaired",
            ),
            (true, Some(repaired), 0) => write!(
                f,
                "the path itself loses packets: the parities repaired all of the base layer ({}); enhancement layers \
                 are not repaired",
                count(repaired, "packet")
            ),
            (true, Some(_), _) => f.write_str(
                "the path itself loses more packets than the parities repair: a stronger code helps (serve \
                 --protect-base 8+4, or auto)",
            ),
        }
    }
}

/// Whether packets come, whether frames are played, and how many are lost.
#[derive(Default)]
pub struct Arrivals {
    /// The figures of the last look, when the running window began, and when a frame was played last.
    last: Seen,
    window: Seen,
    played: Seen,
    /// Seconds of the window, without a packet, and without a frame played.
    seconds: u32,
    silent: u32,
    unplayed: u32,
    reported: bool,
}

/// Counts since the start.
#[derive(Clone, Copy, Default)]
struct Seen {
    packets: u64,
    played: u64,
    late: u64,
    lost: u64,
    lost_base: u64,
    marked: u64,
    repaired: Option<u64>,
}

impl Seen {
    fn of(progress: &Progress) -> Seen {
        let sum = |count: &PerLayer<u64>| count.iter().map(|(_, &n)| n).sum::<u64>();
        Seen {
            packets: progress.packets,
            played: sum(&progress.frames),
            late: sum(&progress.late),
            lost: sum(&progress.lost),
            lost_base: progress.lost.base,
            marked: progress.marked,
            repaired: progress.repaired,
        }
    }

    fn since(self, before: Seen) -> Seen {
        let repaired = self.repaired;
        Seen {
            packets: self.packets.saturating_sub(before.packets),
            played: self.played.saturating_sub(before.played),
            late: self.late.saturating_sub(before.late),
            lost: self.lost.saturating_sub(before.lost),
            lost_base: self.lost_base.saturating_sub(before.lost_base),
            marked: self.marked.saturating_sub(before.marked),
            repaired: repaired.map(|now| now.saturating_sub(before.repaired.unwrap_or(0))),
        }
    }

    fn loss(self) -> Loss {
        Loss {
            base: self.lost_base,
            marked: self.marked,
            repaired: self.repaired,
        }
    }
}

impl Arrivals {
    /// Takes the figures of a second; gives what to tell.
    pub fn look(&mut self, progress: &Progress) -> Option<String> {
        let now = Seen::of(progress);
        let new = now.since(self.last);
        self.last = now;
        self.seconds += 1;
        self.silent = if new.packets > 0 { 0 } else { self.silent + 1 };
        self.unplayed += 1;
        if new.played > 0 {
            (self.unplayed, self.played) = (0, now);
        }
        if self.silent == SILENCE {
            return Some(format!(
                "no packet came for {SILENCE} s: the source pauses, its GOPs are longer, or the path is cut"
            ));
        }
        // Packets come. After a join their playout takes a GOP and the playout delay: only losses are a reason.
        let missed = now.since(self.played);
        if self.unplayed >= SILENCE && self.silent == 0 && missed.lost + missed.late > 0 {
            let is_news =
                self.unplayed == SILENCE || missed.lost + missed.late == new.lost + new.late;
            if is_news {
                return Some(missed.unplayed(self.unplayed));
            }
        }
        if self.seconds < LOSS_WINDOW {
            return None;
        }
        self.seconds = 0;
        let seen = now.since(self.window);
        self.window = now;
        let all = seen.played + seen.lost;
        let heavy = seen.lost >= WORTH.1 && seen.lost * 1_000 >= all * WORTH.0;
        let news = heavy && !self.reported;
        self.reported = heavy;
        news.then(|| {
            format!(
                "{} of {} lost on the path in {LOSS_WINDOW} s; {}",
                seen.lost,
                count(all, "frame"),
                seen.loss()
            )
        })
    }
}

impl Seen {
    /// Why nothing was played for some seconds although packets came.
    fn unplayed(self, seconds: u32) -> String {
        match (self.lost, self.late) {
            (lost, late) if lost >= late => format!(
                "nothing was played for {seconds} s although packets come: {} lost on the path, and with each start of \
                 a GOP all that follows it; {}",
                count(lost, "frame"),
                self.loss()
            ),
            (_, late) => format!(
                "nothing was played for {seconds} s although packets come: {} too late; a longer playout delay helps \
                 (join --playout, serve --delay-max)",
                count(late, "frame")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;

    use super::*;

    /// Figures after `frames` frames played in the base layer, `lost` lost, and packets.
    fn second(frames: u64, lost: u64, packets: u64) -> Progress {
        Progress {
            t: 0.0,
            level: Level::FULL,
            asked: Level::FULL,
            left: CellRate(0),
            rate: Rate::from_bps(0),
            delay: Span::ZERO,
            end_to_end: None,
            highest: None,
            frames: PerLayer {
                base: frames,
                ..PerLayer::default()
            },
            lost: PerLayer {
                base: lost,
                ..PerLayer::default()
            },
            late: PerLayer::default(),
            packets,
            marked: 0,
            repaired: None,
            outage_ms: 0,
            output_dropped: 0,
            output_broken: false,
        }
    }

    fn reported(seconds: impl IntoIterator<Item = Progress>) -> Vec<String> {
        let mut arrivals = Arrivals::default();
        let seconds = seconds.into_iter();
        seconds.filter_map(|it| arrivals.look(&it)).collect()
    }

    #[test]
    fn silence_is_that_of_packets() {
        let flows = |n: u64| second(25 * n, n / 4, 100 * n);
        assert_eq!(reported((1..20).map(flows)), Vec::<String>::new());
        // After a join packets come for seconds before the first frame is played.
        let starts = |n: u64| second(25 * n.saturating_sub(5), 0, 100 * n);
        assert_eq!(reported((1..20).map(starts)), Vec::<String>::new());
        let stops = |n: u64| second(25 * n.min(4), 0, 100 * n.min(4));
        let silent = reported((1..20).map(stops));
        assert_eq!(silent.len(), 1, "{silent:?}");
        assert!(silent[0].contains("no packet came for 3 s"), "{silent:?}");
    }

    #[test]
    fn losses_are_told_once_with_their_cause() {
        let blocked = |n: u64| second(25 * n.min(4), 25 * n.saturating_sub(4), 100 * n);
        let lost = reported((1..20).map(blocked));
        assert!(lost[0].starts_with("25 of 125 frames lost"), "{lost:?}");
        assert!(
            lost[1].starts_with("nothing was played for 3 s although packets come: 75 frames lost"),
            "{lost:?}"
        );
        assert!(
            lost.iter().all(|it| it.contains("--protect-base")),
            "{lost:?}"
        );
        let lossy = reported((1..20).map(|n| second(18 * n, 7 * n, 90 * n)));
        assert_eq!(lossy.len(), 1, "{lossy:?}");
        assert!(
            lossy[0].starts_with("35 of 125 frames lost on the path in 5 s; no queue was full")
        );
        // At the base level of two frames a second.
        let few = reported((1..20).map(|n| second(n + n / 3, n - n / 3, 20 * n)));
        assert_eq!(few.len(), 1, "{few:?}");
        let late = |n: u64| Progress {
            late: PerLayer {
                base: 2 * n,
                ..PerLayer::default()
            },
            ..second(0, 0, 100 * n)
        };
        let late = reported((1..10).map(late));
        assert_eq!(late.len(), 1, "{late:?}");
        assert!(
            late[0].contains("6 frames too late") && late[0].contains("--playout"),
            "{late:?}"
        );
    }

    #[test]
    fn the_cause_of_losses_follows_the_evidence() {
        let loss = |base, marked, repaired| {
            Loss {
                base,
                marked,
                repaired,
            }
            .to_string()
        };
        assert!(loss(0, 9, None).contains("a queue on the path was full"));
        assert!(loss(0, 0, None).contains("serve --protect-base"));
        assert!(loss(5, 0, None).contains("serve --protect-base"));
        assert!(loss(0, 0, Some(40)).contains("repaired all of the base layer (40 packets)"));
        assert!(loss(3, 0, Some(40)).contains("a stronger code"));
        // Enhancement frames dropped by a queue: nothing was to be repaired.
        assert!(loss(0, 9, Some(0)).contains("a queue on the path was full"));
        // A key frame that fills a queue on a path that also loses packets.
        assert!(loss(0, 2, Some(40)).contains("the path itself loses packets"));
    }
}
