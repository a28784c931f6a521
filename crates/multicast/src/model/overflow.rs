use serde::{Deserialize, Serialize};

/// Buffer of a server that processes responses one by one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Buffer {
    /// Capacity in packets, including the one in service; at least 1.
    pub packets: u32,
    /// Packets served per second.
    pub service: f64,
}

/// V(x): the mean number of responses that overflow the buffer when `x` arrive, with exponential gaps and exponential
/// service (specs/rmtp-large-scale.md 2.8). The printed closed form is illegible; this is the exact recursion.
#[derive(Clone, Debug)]
pub struct Overflow {
    /// `lost[x]` is V(x).
    lost: Vec<f64>,
}

impl Overflow {
    /// Computes V up to `most` responses for a buffer of `packets`; `load` is the mean number of arrivals in a mean
    /// service time (rho = 1 / (delta mu)), infinite for simultaneous arrivals.
    ///
    /// Takes time proportional to `most` times `packets`.
    pub fn new(most: u32, packets: u32, load: f64) -> Overflow {
        // Share of services among services and arrivals, whichever comes next.
        let service = 1.0 / (1.0 + load);
        let room = packets.min(most) as usize;
        // Distribution of the number in the system just before an arrival.
        let mut before = vec![0.0; room + 1];
        before[0] = 1.0;
        let mut lost = vec![0.0];
        let mut sum = 0.0;
        for _ in 0..most {
            sum += if packets > room as u32 {
                0.0
            } else {
                before[room]
            };
            lost.push(sum);
            let mut leaving = 0.0;
            let full = before[room];
            for n in (1..=room).rev() {
                let here = before[n - 1] + if n == room { full } else { 0.0 };
                let left = here + leaving;
                before[n] = left * (1.0 - service);
                leaving = left * service;
            }
            before[0] = leaving;
        }
        Overflow { lost }
    }

    /// V of `x` responses, interpolated linearly; beyond the computed range the last value.
    pub fn of(&self, x: f64) -> f64 {
        let last = self.lost.len() - 1;
        let x = x.clamp(0.0, last as f64);
        let (below, part) = (x as usize, x.fract());
        let above = (below + 1).min(last);
        self.lost[below] + part * (self.lost[above] - self.lost[below])
    }
}
