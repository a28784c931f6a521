use layercast_core::{Cause, CellRate, FlowId, Layer, Level, PerLayer, Span, Time};
use serde::Serialize;

use crate::SignedSpan;

/// What one layer carried in a window.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct LayerMetric {
    /// Frames received whole.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Cells per second.
    pub rate: CellRate,
    /// Frames per second.
    pub frames_per_s: f64,
    /// Frames lost in the network or in reassembly.
    pub lost: u64,
    /// Frames that came after their deadline.
    pub late: u64,
    /// Frames a switch withheld because the layer was not granted.
    pub withheld: u64,
}

/// One-way delay of the frames of a window.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct DelayMetric {
    /// Least.
    pub min: SignedSpan,
    /// Mean.
    pub mean: SignedSpan,
    /// Greatest.
    pub max: SignedSpan,
    /// Standard deviation.
    pub sd: Span,
}

/// The number of frames lost for one cause since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LossCount {
    /// Their layer, if it is known.
    pub layer: Option<Layer>,
    /// Why.
    pub cause: Cause,
    /// How many.
    pub count: u64,
}

/// The periodic `QoSMetric` signal (specs/mets.md 2.7).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QosMetric {
    /// The flow.
    pub flow: FlowId,
    /// End of the window.
    pub at: Time,
    /// Length of the window.
    pub window: Span,
    /// By layer.
    pub layers: PerLayer<LayerMetric>,
    /// Frames received whole, all layers.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Cells per second, all layers.
    pub rate: CellRate,
    /// Frames lost, of known and unknown layer.
    pub lost: u64,
    /// Frames late.
    pub late: u64,
    /// Frames withheld.
    pub withheld: u64,
    /// Deadlines the scheduler missed.
    pub missed: u64,
    /// Delay; `None` if nothing arrived.
    pub delay: Option<DelayMetric>,
    /// Smoothed difference of consecutive delays (RFC 3550, section 6.4.1).
    pub jitter: Span,
    /// Greatest difference between inter-arrival and inter-departure time.
    pub spread: Span,
    /// Playout delay D.
    pub playout: SignedSpan,
    /// Level in force.
    pub level: Level,
    /// Eras with congestion.
    pub congested_eras: u32,
    /// A negative delay was measured: absolute delays mean nothing.
    pub unsynchronised: bool,
}
