//! A link as it runs: its losses, its queues, its counters.

use layercast_core::{CELL_SIZE, Span, Stream, Time, aal5_cells};
use serde::Serialize;

use super::tree::{LinkSpec, Loss};

/// What all copies of a branch do alike, worked out once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    loss: Chances,
    back_loss: f64,
    /// Packets travel in cells of AAL5, and are lost with any of them.
    cells: bool,
    rate: Option<layercast_core::Rate>,
    queue: u64,
    delay: (Span, Span),
}

#[derive(Clone, Copy, Debug)]
enum Chances {
    None,
    /// Over the whole row.
    Once(f64),
    /// From good to bad and back, for each of the row.
    Bursts {
        hops: u32,
        good_to_bad: f64,
        bad_to_good: f64,
    },
}

/// Counters of a branch, all of its copies together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LinkCount {
    /// Packets sent towards receivers.
    pub down: u64,
    /// Of these, parities.
    pub parities: u64,
    /// Octets of these packets.
    pub octets: u64,
    /// Packets lost towards receivers.
    pub lost: u64,
    /// Packets sent towards the source.
    pub up: u64,
    /// Packets lost towards the source.
    pub up_lost: u64,
    /// Packets dropped because the queue was full, in both directions.
    pub dropped: u64,
}

/// One copy.
#[derive(Clone, Debug)]
pub(super) struct Link {
    stream: Stream,
    /// A bit for each of the row that is in its bad state.
    bad: u64,
    delay: Span,
    /// When each direction has sent its queue: down, up.
    free: [Time; 2],
}

impl Law {
    pub fn new(spec: &LinkSpec) -> Law {
        let row = |loss: f64| -libm::expm1(f64::from(spec.hops) * libm::log1p(-loss));
        let loss = match spec.loss {
            _ if spec.hops == 0 => Chances::None,
            Loss::Independent(loss) if loss > 0.0 => Chances::Once(row(loss)),
            Loss::Bursts { loss, mean } if loss > 0.0 => Chances::Bursts {
                hops: spec.hops,
                bad_to_good: 1.0 / mean,
                good_to_bad: loss / (mean * (1.0 - loss)),
            },
            _ => Chances::None,
        };
        Law {
            loss,
            back_loss: row(spec.back_loss),
            cells: spec.cells,
            rate: spec.rate,
            queue: spec.queue,
            delay: spec.delay,
        }
    }

    /// Octets that a packet takes on the link.
    fn octets(&self, octets: u32) -> u64 {
        match self.cells {
            true => u64::from(aal5_cells(octets as usize)) * CELL_SIZE as u64,
            false => octets.into(),
        }
    }

    /// The chance that a packet is lost whose parts are lost with this chance.
    fn whole(&self, part: f64, octets: u32) -> f64 {
        match self.cells {
            true => -libm::expm1(f64::from(aal5_cells(octets as usize)) * libm::log1p(-part)),
            false => part,
        }
    }
}

impl Link {
    /// The link to a node; its losses and its delay are its own.
    pub fn new(law: &Law, seed: u64, node: u32) -> Link {
        let mut stream = Stream::new(seed, &format!("group/link/{node}"));
        let (least, most) = law.delay;
        let more = stream.below(most.as_ps().saturating_sub(least.as_ps()).saturating_add(1));
        let mut bad = 0;
        if let Chances::Bursts {
            hops,
            good_to_bad,
            bad_to_good,
        } = law.loss
        {
            let share = good_to_bad / (good_to_bad + bad_to_good);
            for hop in 0..hops {
                bad |= u64::from(stream.chance(share)) << hop;
            }
        }
        Link {
            stream,
            bad,
            delay: least + Span::from_ps(more),
            free: [Time::ZERO; 2],
        }
    }

    /// When a packet that is sent now gets to the other end; none: no room to wait for the link.
    #[inline]
    pub fn enter(&mut self, law: &Law, now: Time, octets: u32, up: bool) -> Option<Time> {
        let Some(rate) = law.rate else {
            return Some(now.saturating_add(self.delay));
        };
        let free = &mut self.free[usize::from(up)];
        let start = now.max(*free);
        let takes = rate.time_for(law.octets(octets));
        // A long queue of a slow link lasts longer than time is counted.
        let end = start.saturating_add(takes);
        if start > now && end.since(now) > rate.time_for(law.queue) {
            return None;
        }
        *free = end;
        Some(end.saturating_add(self.delay))
    }

    /// Whether a packet on its way down is lost.
    #[inline]
    pub fn loses(&mut self, law: &Law, octets: u32) -> bool {
        match law.loss {
            Chances::None => false,
            Chances::Once(chance) => self.stream.chance(law.whole(chance, octets)),
            Chances::Bursts {
                hops,
                good_to_bad,
                bad_to_good,
            } => (0..hops).any(|hop| self.hop_loses(hop, good_to_bad, bad_to_good)),
        }
    }

    /// Whether one of the row loses a packet; only those that it gets there for make it change its state.
    fn hop_loses(&mut self, hop: u32, good_to_bad: f64, bad_to_good: f64) -> bool {
        let bad = self.bad >> hop & 1 == 1;
        let change = self.stream.chance(match bad {
            true => bad_to_good,
            false => good_to_bad,
        });
        self.bad ^= u64::from(change) << hop;
        bad != change
    }

    /// Whether a packet on its way up is lost.
    pub fn loses_back(&mut self, law: &Law, octets: u32) -> bool {
        law.back_loss > 0.0 && self.stream.chance(law.whole(law.back_loss, octets))
    }

    /// When the way down is free.
    pub fn free_down(&self) -> Time {
        self.free[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(loss: Loss, hops: u32) -> LinkSpec {
        LinkSpec {
            loss,
            back_loss: 0.0,
            cells: false,
            hops,
            delay: (Span::ZERO, Span::ZERO),
            rate: None,
            queue: 0,
        }
    }

    /// Share that is lost, and mean length of what is lost in a row.
    fn measure(loss: Loss, hops: u32) -> (f64, f64) {
        let law = Law::new(&spec(loss, hops));
        let mut link = Link::new(&law, 1, 1);
        let lost: Vec<bool> = (0..1_000_000).map(|_| link.loses(&law, 1_000)).collect();
        let all = lost.iter().filter(|&&lost| lost).count() as f64;
        let runs = lost.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
        (all / lost.len() as f64, all / runs)
    }

    #[test]
    fn links_lose_what_they_are_told_to() {
        let (share, run) = measure(Loss::Independent(0.02), 1);
        assert!((share - 0.02).abs() < 5e-4 && (run - 1.0 / 0.98).abs() < 0.02);
        let (share, _) = measure(Loss::Independent(0.001), 30);
        assert!((share - (1.0 - 0.999_f64.powi(30))).abs() < 5e-4, "{share}");
        let (share, run) = measure(
            Loss::Bursts {
                loss: 0.02,
                mean: 5.0,
            },
            1,
        );
        assert!((share - 0.02).abs() < 1.5e-3, "{share}");
        assert!((run - 5.0).abs() < 0.2, "{run}");
        assert_eq!(measure(Loss::Independent(0.5), 0).0, 0.0);
    }

    #[test]
    fn packets_wait_for_a_link_of_a_rate() {
        let law = Law::new(&LinkSpec {
            delay: (Span::from_ms(5), Span::from_ms(5)),
            rate: Some(layercast_core::Rate::from_bps(8_000_000)),
            queue: 2_000,
            ..spec(Loss::Independent(0.0), 1)
        });
        let mut link = Link::new(&law, 1, 1);
        let at = |ms| Some(Time::ZERO + Span::from_ms(ms));
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, false), at(6));
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, false), at(7));
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, false), None);
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, true), at(6));
    }

    #[test]
    fn packets_in_cells_are_lost_with_any_of_them_and_take_their_octets() {
        let law = Law::new(&LinkSpec {
            cells: true,
            rate: Some(layercast_core::Rate::from_bps(424_000)),
            queue: 10_000,
            ..spec(Loss::Independent(0.001), 1)
        });
        let mut link = Link::new(&law, 1, 1);
        let mut share = |octets| {
            let lost = (0..1_000_000).filter(|_| link.loses(&law, octets)).count();
            lost as f64 / 1e6
        };
        // 43 cells, and one.
        let (data, poll) = (share(2_027), share(30));
        assert!((data - (1.0 - 0.999_f64.powi(43))).abs() < 1e-3, "{data}");
        assert!((poll - 0.001).abs() < 2e-4, "{poll}");
        let arrives = link.enter(&law, Time::ZERO, 30, false);
        assert_eq!(arrives, Some(Time::ZERO + Span::from_ms(1)));
    }
}
