use std::collections::VecDeque;
use std::convert::Infallible;

use layercast_core::{Cause, FlowId, Machine, Observer, Subject, Time, TraceEvent};
use serde::{Deserialize, Serialize};

use crate::impair::{Fate, Impair, LinkConfig};

/// Most items in transit simultaneously; further items are dropped and counted.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// What is put on a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkInput<T> {
    /// When its last bit leaves the sender.
    pub ready: Time,
    /// What it is.
    pub item: T,
}

/// What a link did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LinkStats {
    /// Items sent.
    pub sent: u64,
    /// Items that arrived, duplicates included.
    pub delivered: u64,
    /// Items lost at random, or because the link was down.
    pub lost: u64,
    /// Items that arrived twice.
    pub duplicated: u64,
    /// Items lost because too many were in flight.
    pub overflow: u64,
}

/// One direction of a link as a machine: what is in flight on it, with its [impairments](Impair).
#[derive(Debug)]
pub struct Link<T> {
    name: String,
    impair: Impair,
    flying: VecDeque<(Time, T)>,
    stats: LinkStats,
}

impl<T: Clone> Link<T> {
    /// A link whose randomness follows from `seed` and its `name`, such as `"chuff->rook"`.
    pub fn new(config: LinkConfig, seed: u64, name: &str) -> Link<T> {
        Link {
            name: name.into(),
            impair: Impair::new(config, seed, name),
            flying: VecDeque::new(),
            stats: LinkStats::default(),
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    fn fly<O: Observer>(&mut self, now: Time, at: Time, item: T, obs: &mut O) {
        if self.flying.len() >= MAX_IN_FLIGHT {
            self.stats.overflow += 1;
            self.report(now, Cause::BufferOverflow, obs);
            return;
        }
        if self.flying.back().is_none_or(|(last, _)| *last <= at) {
            self.flying.push_back((at, item));
        } else {
            let place = self.flying.partition_point(|(other, _)| *other <= at);
            self.flying.insert(place, (at, item));
        }
        debug_assert!(self.flying.len() <= MAX_IN_FLIGHT);
    }

    /// Each item, copies included, was lost or dropped, is in flight, or has arrived.
    fn check_conservation(&self) {
        let LinkStats {
            sent,
            lost,
            duplicated,
            overflow,
            delivered,
        } = self.stats;
        debug_assert_eq!(
            sent + duplicated,
            lost + overflow + delivered + self.flying.len() as u64
        );
    }

    fn report<O: Observer>(&self, now: Time, cause: Cause, obs: &mut O) {
        let subject = Subject {
            node: &self.name,
            machine: "link",
        };
        // A link does not look inside what it carries.
        obs.on(now, subject, || TraceEvent::Lost {
            flow: FlowId(0),
            layer: None,
            count: 1,
            cause,
        });
    }
}

impl<T: Clone> Machine for Link<T> {
    type Input = LinkInput<T>;
    type Transmit = T;
    type Event = Infallible;

    fn handle<O: Observer>(&mut self, now: Time, input: LinkInput<T>, obs: &mut O) {
        self.stats.sent += 1;
        match self.impair.fate(input.ready) {
            Fate::Lost => {
                self.stats.lost += 1;
                return self.report(now, Cause::LinkLoss, obs);
            }
            Fate::Arrives(at) => self.fly(now, at, input.item, obs),
            Fate::Twice([first, second]) => {
                self.stats.duplicated += 1;
                self.fly(now, first, input.item.clone(), obs);
                self.fly(now, second, input.item, obs);
            }
        }
        self.check_conservation();
    }

    fn on_timeout<O: Observer>(&mut self, _: Time, _: &mut O) {}

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<T> {
        self.flying
            .pop_front_if(|(at, _)| *at <= now)
            .map(|(_, item)| {
                self.stats.delivered += 1;
                item
            })
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        self.flying.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Off, Span};

    use super::*;
    use crate::{Jitter, Loss};

    /// Sends `count` items a millisecond apart and returns the arrivals with their times.
    fn send(config: LinkConfig, count: u64) -> (Vec<(Time, u64)>, LinkStats) {
        let mut link = Link::new(config, 1, "a-b");
        let mut arrived = Vec::new();
        let mut take = |link: &mut Link<u64>, until: Time| {
            while let Some(at) = link.next_timeout().filter(|&at| at <= until) {
                arrived.extend(link.poll_transmit(at, &mut Off).map(|item| (at, item)));
            }
        };
        for item in 0..count {
            let ready = Time::ZERO + Span::from_ms(item);
            take(&mut link, ready);
            link.handle(ready, LinkInput { ready, item }, &mut Off);
        }
        take(&mut link, Time::MAX);
        (arrived, link.stats())
    }

    #[test]
    fn a_perfect_link_only_delays() {
        let config = LinkConfig {
            delay: Span::from_ms(7),
            ..LinkConfig::default()
        };
        let (arrived, _) = send(config, 100);
        let expected = (0..100).map(|item| (Time::ZERO + Span::from_ms(item + 7), item));
        assert_eq!(arrived, expected.collect::<Vec<_>>());
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let config = LinkConfig {
            loss: Loss::Bernoulli { p: 0.1 },
            ..LinkConfig::default()
        };
        let (arrived, stats) = send(config, 20_000);
        assert!((1_850..2_150).contains(&stats.lost), "{}", stats.lost);
        assert_eq!(arrived.len() as u64 + stats.lost, 20_000);
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        let config = LinkConfig {
            loss: Loss::GilbertElliott {
                p_gb: 0.01,
                p_bg: 0.1,
                loss_good: 0.0,
                loss_bad: 1.0,
            },
            ..LinkConfig::default()
        };
        let (arrived, stats) = send(config, 50_000);
        // A share of 1/11, in bursts of ten.
        assert!((3_600..5_500).contains(&stats.lost), "{}", stats.lost);
        let gaps = arrived
            .windows(2)
            .filter(|pair| pair[1].1 > pair[0].1 + 1)
            .count() as u64;
        let burst = stats.lost / gaps;
        assert!((8..13).contains(&burst), "{burst}");
    }

    #[test]
    fn jitter_keeps_the_order_unless_told_otherwise() {
        let jitter = Jitter::Uniform {
            max: Span::from_ms(10),
        };
        let ordered = LinkConfig {
            jitter,
            ..LinkConfig::default()
        };
        let reordered = LinkConfig {
            reorder: true,
            ..ordered
        };
        let sorted = |(arrived, _): (Vec<(Time, u64)>, LinkStats)| {
            assert!(arrived.is_sorted_by_key(|&(at, _)| at));
            assert_eq!(arrived.len(), 1_000);
            arrived.is_sorted_by_key(|&(_, item)| item)
        };
        assert!(sorted(send(ordered, 1_000)));
        assert!(!sorted(send(reordered, 1_000)));
    }

    #[test]
    fn one_impairment_does_not_move_another() {
        let lossy = LinkConfig {
            loss: Loss::Bernoulli { p: 0.1 },
            ..LinkConfig::default()
        };
        let both = LinkConfig {
            jitter: Jitter::Normal {
                sd: Span::from_us(10),
            },
            duplicate: 0.5,
            ..lossy
        };
        let items = |config| {
            let (arrived, _) = send(config, 1_000);
            let mut items: Vec<u64> = arrived.into_iter().map(|(_, item)| item).collect();
            items.dedup();
            items
        };
        assert_eq!(items(lossy), items(both));
    }

    #[test]
    fn a_probability_above_one_is_named() {
        let config = LinkConfig {
            loss: Loss::Bernoulli { p: 1.5 },
            ..LinkConfig::default()
        };
        assert_eq!(config.validate().unwrap_err().field, "loss.p");
        assert_eq!(LinkConfig::default().validate(), Ok(()));
    }
}
