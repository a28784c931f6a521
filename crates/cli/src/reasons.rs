//! Why a receiver gets less than it wants, from its figures of each second.

use layercast_core::{CellRate, FlowSpec, Level, PerLayer, Rate};
use layercast_net::Progress;
use layercast_wire::FlowInfo;

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
/// Lost frames of a window, per mille and at least, that are worth a word.
const WORTH: (u64, u64) = (50, 10);

/// What helps against losses, by whether frames of the base layer are among them: switches whose queues fill discard
/// enhancement frames first, other paths make no difference.
pub fn against_loss(base: u64) -> &'static str {
    match base {
        0 => {
            "none of the base layer, as where the queue of a link fills in busy GOPs: raise the rate of the link, or \
             encode with -maxrate and -bufsize"
        }
        _ => "serve --protect-base 6+2 lets receivers repair losses of the base layer",
    }
}

/// Whether frames come, and how many are lost.
#[derive(Default)]
pub struct Arrivals {
    /// The figures of the last look, when the running window began, and when a frame was played last.
    last: Seen,
    window: Seen,
    played: Seen,
    /// Seconds of the window, and without a frame.
    seconds: u32,
    silent: u32,
    reported: bool,
}

/// Frames since the start.
#[derive(Clone, Copy, Default)]
struct Seen {
    played: u64,
    lost: u64,
    lost_base: u64,
}

impl Seen {
    fn since(self, before: Seen) -> Seen {
        Seen {
            played: self.played.saturating_sub(before.played),
            lost: self.lost.saturating_sub(before.lost),
            lost_base: self.lost_base.saturating_sub(before.lost_base),
        }
    }
}

impl Arrivals {
    /// Takes the figures of a second; gives what to tell.
    pub fn look(&mut self, progress: &Progress) -> Option<String> {
        let sum = |count: &PerLayer<u64>| count.iter().map(|(_, &n)| n).sum::<u64>();
        let now = Seen {
            played: sum(&progress.frames),
            lost: sum(&progress.lost),
            lost_base: progress.lost.base,
        };
        self.seconds += 1;
        self.silent += 1;
        if now.since(self.last).played > 0 {
            (self.silent, self.played) = (0, now);
        }
        self.last = now;
        if self.silent == SILENCE {
            let Seen {
                lost, lost_base, ..
            } = now.since(self.played);
            return Some(match lost {
                0 => format!(
                    "nothing came for {SILENCE} s: the source pauses, its GOPs are longer, or the path is cut"
                ),
                _ => format!(
                    "nothing was played for {SILENCE} s: {lost} frames were lost on the path, and with each start of a \
                     GOP all that follows it; {}",
                    against_loss(lost_base)
                ),
            });
        }
        if self.seconds < LOSS_WINDOW {
            return None;
        }
        self.seconds = 0;
        let Seen {
            played,
            lost,
            lost_base,
        } = now.since(self.window);
        self.window = now;
        let heavy = lost >= WORTH.1 && lost * 1_000 >= (played + lost) * WORTH.0;
        let news = heavy && !self.reported;
        self.reported = heavy;
        news.then(|| {
            let all = played + lost;
            let helps = against_loss(lost_base);
            format!("{lost} of {all} frames were lost on the path in {LOSS_WINDOW} s; {helps}")
        })
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;

    use super::*;

    fn second(frames: u64, lost: u64) -> Progress {
        Progress {
            t: 0.0,
            level: Level::FULL,
            asked: Level::FULL,
            left: CellRate(0),
            rate: Rate::from_bps(0),
            delay: Span::ZERO,
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
            output_dropped: 0,
            output_broken: false,
        }
    }

    fn reported(seconds: impl IntoIterator<Item = (u64, u64)>) -> Vec<String> {
        let mut arrivals = Arrivals::default();
        let seconds = seconds.into_iter();
        seconds
            .filter_map(|(frames, lost)| arrivals.look(&second(frames, lost)))
            .collect()
    }

    #[test]
    fn silence_and_losses_are_told_once_with_their_cause() {
        assert_eq!(
            reported((1..20).map(|n| (25 * n, n / 4))),
            Vec::<String>::new()
        );
        let silent = reported((1..20).map(|n| (25 * n.min(4), 0)));
        assert_eq!(silent.len(), 1);
        assert!(silent[0].contains("the source pauses"), "{silent:?}");
        let lost = reported((1..20_u64).map(|n| (25 * n.min(4), 25 * n.saturating_sub(4))));
        assert!(
            lost[0].contains("25 of 125 frames were lost")
                && lost[1].contains("nothing was played for 3 s: 75 frames"),
            "{lost:?}"
        );
        assert!(
            lost.iter().all(|it| it.contains("--protect-base")),
            "{lost:?}"
        );
        let lossy = reported((1..20).map(|n| (18 * n, 7 * n)));
        assert_eq!(lossy.len(), 1);
        assert!(
            lossy[0]
                .starts_with("35 of 125 frames were lost on the path in 5 s; serve --protect-base")
        );
        assert!(against_loss(0).contains("-maxrate"));
    }
}
