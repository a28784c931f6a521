//! What uses the hosts: flows, the transfers of generators, and the conversations of applications.

pub(super) mod apps;
mod draw;
pub(super) mod flows;
pub(super) mod group;
pub(super) mod transfers;

use layercast_core::{Span, Stream};

use super::network::Law;

/// The port of receivers.
const PORT: u16 = 5_001;

impl Law {
    /// The next time.
    fn draw(self, stream: &mut Stream) -> Span {
        match self {
            Law::Constant(gap) => gap,
            Law::Exponential(mean) => Span::from_secs_f64(stream.exponential(mean.as_secs_f64())),
        }
    }
}
