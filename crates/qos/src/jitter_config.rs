use layercast_core::{FlowSpec, FrameRate, Span};

use crate::recent::RecentDelays;

/// How far the playout point lies above the mean delay, in mean deviations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Margin {
    /// `D = d + r * s`; the paper's r is 2, which loses 3 to 9 %, not 1 % (specs/mets.md 2.8).
    Fixed(f64),
    /// r follows the share of frames that really come late, so that in the long run it is this many
    /// permille whatever the shape of the delays.
    TargetLate {
        /// Late frames per thousand.
        permille: u16,
    },
    /// Not mean and deviation: the delay that all but this many permille of the last frames kept to (of
    /// the last 400 for 10 permille). For delays that are not spread around a mean, as behind a line that
    /// a large picture fills (Moon, Kurose, Towsley 1998).
    Quantile {
        /// Late frames per thousand.
        permille: u16,
    },
    /// The smallest delay that all but this many permille of the last frames kept to, and [`GUARD`] more; before
    /// there are enough of them to tell, the largest one. For live media: a frame that comes late moves the
    /// playout point and is played, and the playout point moves back at any frame, not only at GOP starts.
    Smallest {
        /// Frames per thousand that may move the playout point.
        permille: u16,
    },
}

/// What [`Margin::Smallest`] adds to the delay that frames keep to: the granularity of timers and of processes that
/// share a processor.
pub const GUARD: Span = Span::from_ms(10);
/// Least playout delay above the least delay seen under [`Margin::Smallest`], while the path loses frames: one repair
/// needs a round trip.
pub const LOSSY_LEAST: Span = Span::from_ms(120);

/// How a [`JitterFilter`](crate::JitterFilter) estimates and when it moves the playout point (specs/mets.md 2.8).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JitterConfig {
    /// Gain of the mean delay.
    pub a: f64,
    /// Gain of the mean deviation.
    pub beta: f64,
    /// Distance of the playout point from the mean.
    pub margin: Margin,
    /// Late frames in a GOP that move the playout point.
    pub late_threshold: u32,
    /// Clean GOPs after which the playout point is pulled in (K); 1 is no hold rule.
    pub hold_gops: u32,
    /// Whether the playout point may move at all once the first frame has set it.
    pub moves: bool,
    /// Whether frames are held back at all; if not, they are played as they come.
    pub holds: bool,
    /// Whether frames that a stall of the path held up count as late but move neither estimate nor margin: a
    /// stall says nothing of the jitter before and after it.
    pub spares_stalls: bool,
    /// Hard delay bound: if set it is the playout delay.
    pub bound: Option<Span>,
    /// Most that an estimated playout delay may be.
    pub longest: Option<Span>,
    /// Frames per second.
    pub frame_rate: FrameRate,
    /// Frames in a GOP.
    pub gop_n: u8,
}

impl JitterConfig {
    /// Today's defaults: the paper's gains, but one per cent of late frames.
    pub fn new(frame_rate: FrameRate, gop_n: u8) -> JitterConfig {
        JitterConfig {
            a: 1.0 / 8.0,
            beta: 1.0 / 16.0,
            margin: Margin::TargetLate { permille: 10 },
            late_threshold: 1,
            hold_gops: 8,
            moves: true,
            holds: true,
            spares_stalls: false,
            bound: None,
            longest: None,
            frame_rate,
            gop_n,
        }
    }

    /// The paper's filter: r = 2.
    pub fn paper(frame_rate: FrameRate, gop_n: u8) -> JitterConfig {
        JitterConfig {
            margin: Margin::Fixed(2.0),
            ..JitterConfig::new(frame_rate, gop_n)
        }
    }

    /// What the margin has to know of the last frames.
    pub(crate) fn recent(&self) -> Option<RecentDelays> {
        match self.margin {
            Margin::Quantile { permille } | Margin::Smallest { permille } => {
                Some(RecentDelays::new(permille))
            }
            Margin::Fixed(_) | Margin::TargetLate { .. } => None,
        }
    }

    /// Today's defaults for a flow: its delay bound, if set, is the playout delay.
    pub fn for_flow(spec: &FlowSpec) -> JitterConfig {
        let bound = Span::from_ms(u64::from(spec.delay_max_ms));
        JitterConfig {
            bound: (bound > Span::ZERO).then_some(bound),
            ..JitterConfig::new(spec.frame_rate, spec.gop_n)
        }
    }
}
