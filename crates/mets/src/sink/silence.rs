use layercast_core::{Layer, PerLayer, Span, Time};
use layercast_wire::Silence;

/// A flow is not silent before this.
const SHORT: Span = Span::from_secs(1);

/// The frames of a flow that a receiver is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// How long a GOP lasts.
    pub gop: Span,
    /// Frames of each layer in it.
    pub frames: PerLayer<u64>,
}

impl Expected {
    /// The silence at `now` of a flow of which the last packet came at `heard`, if it is one: it is longer than [`SHORT`], and than one and
    /// a half times the usual distance of two frames. A frame is overdue when its playout time has passed, which is `playout` after its
    /// arrival.
    ///
    /// What is missing is an estimate: no packet says which frames were sent.
    pub fn silence(&self, heard: Option<Time>, now: Time, playout: Span) -> Option<Silence> {
        let silent = now.since(heard?);
        let distance = Span::from_ps(self.gop.as_ps() / self.frames.total().max(1));
        if silent <= SHORT.max(distance + Span::from_ps(distance.as_ps() / 2)) {
            return None;
        }
        let due = silent - silent.min(playout);
        let mut overdue = PerLayer::default();
        for layer in Layer::ALL {
            let frames = u128::from(due.as_ps()) * u128::from(self.frames[layer])
                / u128::from(self.gop.as_ps().max(1));
            overdue[layer] = u64::try_from(frames).unwrap_or(u64::MAX);
        }
        Some(Silence {
            ms: silent.as_ms(),
            overdue,
        })
    }
}
