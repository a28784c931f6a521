use layercast_core::{EndToEnd, Span, Time};
use layercast_qos::DelayHistogram;
use layercast_wire::EndToEndMs;

use crate::mets::PlayedFrame;

/// The end-to-end delays of live frames since the start.
#[derive(Clone, Default, Debug)]
pub(super) struct Delays {
    frames: u64,
    /// Picoseconds of each part; centuries of them fit.
    sums: [u128; 4],
    totals: DelayHistogram,
}

impl Delays {
    /// Takes a frame that is handed over at `now` and gives its delay; one that is not live does not count.
    pub fn frame(&mut self, now: Time, frame: &PlayedFrame) -> Option<EndToEnd> {
        if !frame.waited.is_live() {
            return None;
        }
        let delay = frame.end_to_end(now);
        let EndToEnd {
            ingest,
            queue,
            path,
            playout,
        } = delay;
        self.frames += 1;
        for (sum, part) in self.sums.iter_mut().zip([ingest, queue, path, playout]) {
            *sum += u128::from(part.as_ps());
        }
        self.totals.record(delay.total());
        Some(delay)
    }

    /// Their figures; `None` without live frames.
    pub fn figures(&self) -> Option<EndToEndMs> {
        let frames = self.frames.max(1) as f64;
        let [ingest, queue, path, playout] = self.sums.map(|sum| sum as f64 / 1e9 / frames);
        let quantile = |q| self.totals.quantile(q).map_or(0.0, Span::as_ms_f64);
        (self.frames > 0).then(|| EndToEndMs {
            p50: quantile(0.5),
            p99: quantile(0.99),
            mean: ingest + queue + path + playout,
            ingest,
            queue,
            path,
            playout,
        })
    }
}
