//! What the studies of a video beside transfers have in common, simulated and on sockets (specs/network-interface-framework.md 3).

use layercast_core::{Span, Stream};

/// How long the protocols take for a packet.
#[derive(Debug)]
pub struct ServiceTimes {
    draws: Stream,
    video: Span,
    transfer: Span,
}

impl ServiceTimes {
    /// With these means.
    pub fn new(draws: Stream, video: Span, transfer: Span) -> ServiceTimes {
        ServiceTimes {
            draws,
            video,
            transfer,
        }
    }

    /// For the next packet: of video uniform within 20 % of the mean, of a transfer exponential.
    pub fn draw(&mut self, is_video: bool) -> Span {
        Span::from_secs_f64(match is_video {
            true => self.video.as_secs_f64() * (0.8 + 0.4 * self.draws.unit()),
            false => self.draws.exponential(self.transfer.as_secs_f64()),
        })
    }
}

/// Mean and variance of values.
pub fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
    (mean, squares / count)
}
