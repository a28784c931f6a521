//! A link as it runs: its losses, its queues, its counters.

use layercast_core::{CELL_SIZE, Span, Stream, Time, aal5_cells};
use layercast_link as link;
use layercast_wire::UDP_IP_HEADER;
use serde::Serialize;

use super::tree::{LinkSpec, Loss};

/// What all copies of a branch do alike, worked out once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    loss: link::Loss,
    /// How many processes of loss there are: one for each of the row, if losses come in bursts, else one for all.
    hops: u32,
    back_loss: f64,
    /// Packets travel in cells of AAL5, and are lost with any of them.
    cells: bool,
    rate: Option<layercast_core::Rate>,
    queue: u64,
    delay: (Span, Span),
}

/// Counters of a branch, all of its copies together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LinkCount {
    /// Packets sent towards receivers.
    pub down: u64,
    /// Of these, parities.
    pub parities: u64,
    /// Octets of these packets, with their headers of UDP and IP, if they do not travel in cells.
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
    /// The losses on the way down, and on the way up.
    random: [Stream; 2],
    /// A bit for each of the row that is in its bad state.
    bad: u64,
    delay: Span,
    /// When each direction has sent its queue: down, up.
    free: [Time; 2],
}

impl Law {
    pub fn new(spec: &LinkSpec) -> Law {
        let row = |loss: f64| -libm::expm1(f64::from(spec.hops) * libm::log1p(-loss));
        let (loss, hops) = match spec.loss {
            _ if spec.hops == 0 => (link::Loss::None, 0),
            Loss::Independent(loss) => (link::Loss::Bernoulli { p: row(loss) }, 1),
            Loss::Bursts { loss, mean } => {
                let bursts = link::Loss::GilbertElliott {
                    p_gb: loss / (mean * (1.0 - loss)),
                    p_bg: 1.0 / mean,
                    loss_good: 0.0,
                    loss_bad: 1.0,
                };
                (bursts, spec.hops)
            }
        };
        Law {
            loss,
            hops,
            back_loss: row(spec.back_loss),
            cells: spec.cells,
            rate: spec.rate,
            queue: spec.queue,
            delay: spec.delay,
        }
    }

    /// Octets of a packet of the group: a datagram, but in cells it needs no headers of UDP and IP.
    pub fn packet(&self, octets: u32) -> u32 {
        match self.cells {
            true => octets,
            false => octets.saturating_add(UDP_IP_HEADER as u32),
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
    /// The link with this name; its losses and its delay are its own.
    pub fn new(law: &Law, seed: u64, name: &str) -> Link {
        let stream = |what| Stream::new(seed, &format!("link/{name}/{what}"));
        let (least, most) = law.delay;
        let width = most.as_ps().saturating_sub(least.as_ps());
        let more = stream("delay").below(width.saturating_add(1));
        let mut random = [stream("loss"), stream("back-loss")];
        let mut bad = 0;
        for hop in 0..law.hops {
            bad |= u64::from(law.loss.begins_bad(&mut random[0])) << hop;
        }
        Link {
            random,
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
        let octets = law.octets(octets);
        // What is left of the packet being sent counts.
        let left = rate.bytes_in(start.since(now));
        if start > now && left.saturating_add(octets) > law.queue {
            return None;
        }
        // A long queue of a slow link lasts longer than time is counted.
        let end = start.saturating_add(rate.time_for(octets));
        *free = end;
        Some(end.saturating_add(self.delay))
    }

    /// Whether a packet on its way down is lost.
    #[inline]
    pub fn loses(&mut self, law: &Law, octets: u32) -> bool {
        match law.loss {
            link::Loss::Bernoulli { p } => self.random[0].chance(law.whole(p, octets)),
            // Only those of the row that it gets to may change their state.
            loss => (0..law.hops).any(|hop| {
                let mut is_bad = self.bad >> hop & 1 == 1;
                let lost = loss.loses(&mut is_bad, &mut self.random[0]);
                self.bad = self.bad & !(1 << hop) | u64::from(is_bad) << hop;
                lost
            }),
        }
    }

    /// Whether a packet on its way up is lost.
    pub fn loses_back(&mut self, law: &Law, octets: u32) -> bool {
        self.random[1].chance(law.whole(law.back_loss, octets))
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
        let mut link = Link::new(&law, 1, "a.1");
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
        let mut link = Link::new(&law, 1, "a.1");
        let at = |ms| Some(Time::ZERO + Span::from_ms(ms));
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, false), at(6));
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, false), at(7));
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, false), None);
        assert_eq!(link.enter(&law, Time::ZERO, 1_000, true), at(6));
        assert_eq!(law.packet(1_000), 1_028);
    }

    #[test]
    fn packets_in_cells_are_lost_with_any_of_them_and_take_their_octets() {
        let law = Law::new(&LinkSpec {
            cells: true,
            rate: Some(layercast_core::Rate::from_bps(424_000)),
            queue: 10_000,
            ..spec(Loss::Independent(0.001), 1)
        });
        let mut link = Link::new(&law, 1, "a.1");
        let mut share = |octets| {
            let lost = (0..1_000_000).filter(|_| link.loses(&law, octets)).count();
            lost as f64 / 1e6
        };
        // 43 cells, and one: there are no headers of UDP and IP.
        assert_eq!(law.packet(2_027), 2_027);
        let (data, poll) = (share(2_027), share(30));
        assert!((data - (1.0 - 0.999_f64.powi(43))).abs() < 1e-3, "{data}");
        assert!((poll - 0.001).abs() < 2e-4, "{poll}");
        let arrives = link.enter(&law, Time::ZERO, 30, false);
        assert_eq!(arrives, Some(Time::ZERO + Span::from_ms(1)));
    }
}
