//! Why a receiver stays below the level it asked for.

use layercast_core::{CellRate, FlowSpec, Level, Rate};
use layercast_net::Progress;
use layercast_wire::FlowInfo;

/// Seconds below the requested level before the command prints the reason.
const PATIENCE: u32 = 3;

/// Whether a receiver stays below the level it asked for.
pub struct Below {
    wanted: Level,
    /// What the token of the receiver allows.
    allowed: Level,
    seconds: u32,
    /// The level whose reason was reported.
    reported: Option<Level>,
}

impl Below {
    /// A receiver that wants a level, and whose token allows one.
    pub fn new(wanted: Level, allowed: Level) -> Below {
        Below {
            wanted,
            allowed,
            seconds: 0,
            reported: None,
        }
    }

    /// Takes the figures of a second; returns a message once for each level.
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
        if level >= self.allowed {
            return Some(format!(
                "level {level}: the token of this receiver allows no more (layercast token --level)"
            ));
        }
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
