use std::convert::Infallible;

use layercast_core::{CELL_PAYLOAD, Machine, Observer, Rate, Time, earliest};
use serde::{Deserialize, Serialize};

use crate::{
    Carried, ConfigError, Discard, FrameFate, Link, LinkConfig, LinkInput, LinkStats, Queue,
    QueueConfig, RateSchedule, Unit,
};

/// To the path every datagram is a frame of its own; what is in it is not its business.
const WHOLE: Unit = Unit {
    layer: layercast_core::Layer::Base,
    frame_start: true,
    packet_start: true,
    delimiter: true,
    ..Unit::MESSAGE
};

/// One direction of a path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PathConfig {
    /// Rate of its narrowest line; `None`: datagrams leave immediately.
    pub rate: Option<Rate>,
    /// How that rate changes, counted from the first datagram.
    pub schedule: RateSchedule,
    /// The queue in front of the line; what does not fit is lost.
    pub queue: QueueConfig,
    /// Delay, jitter, loss and duplicates behind the line.
    pub link: LinkConfig,
}

/// A datagram on a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathDatagram<T> {
    /// What it is to the driver.
    pub item: T,
    /// Bytes it takes on the line, headers included.
    pub wire_len: usize,
    /// Its congestion mark.
    pub congestion: bool,
}

impl<T> Carried for PathDatagram<T> {
    fn wire_len(&self) -> usize {
        self.wire_len
    }
    fn mark_congestion(&mut self) {
        self.congestion = true;
    }
}

/// What happened on a path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PathStats {
    /// Datagrams that entered the path.
    pub offered: u64,
    /// Of these, dropped because the queue was full.
    pub queue_full: u64,
    /// Datagrams marked with congestion experienced.
    pub marked: u64,
    /// Largest queue, in units of 48 bytes.
    pub max_queue: u32,
    /// The link behind the queue.
    pub link: LinkStats,
}

/// One direction of an emulated path as a machine: a [`Queue`] with its line, then a
/// [`Link`], for datagrams of any program.
#[derive(Debug)]
pub struct Path<T> {
    queue: Queue<PathDatagram<T>>,
    link: Link<PathDatagram<T>>,
    full: Option<Rate>,
    schedule: RateSchedule,
    next_step: usize,
    /// When the first datagram came.
    start: Option<Time>,
    offered: u64,
}

impl<T: Clone> Path<T> {
    /// A path whose randomness follows from `seed` and its `name`.
    ///
    /// # Errors
    /// A probability that is none, a queue that holds nothing, a rate of zero.
    pub fn new(config: PathConfig, seed: u64, name: &str) -> Result<Path<T>, ConfigError> {
        let discard = Discard {
            selective: false,
            partial: false,
            classes: None,
        };
        config.queue.validate(config.rate)?;
        config.link.validate()?;
        Ok(Path {
            queue: Queue::new(config.queue, discard, config.rate),
            link: Link::new(config.link, seed, name),
            full: config.rate,
            schedule: config.schedule,
            next_step: 0,
            start: None,
            offered: 0,
        })
    }

    /// What happened so far.
    pub fn stats(&self) -> PathStats {
        let queue = self.queue.counted();
        PathStats {
            offered: self.offered,
            queue_full: queue.queue_full.base,
            marked: queue.marked,
            max_queue: queue.max_queue,
            link: self.link.stats(),
        }
    }

    /// The present rate of its line.
    pub fn rate(&self) -> Option<Rate> {
        self.queue.rate()
    }

    fn step(&self) -> Option<(Time, Rate)> {
        self.schedule.step(self.next_step, self.start?, self.full?)
    }

    fn follow_schedule(&mut self, now: Time) {
        while let Some((at, rate)) = self.step().filter(|(at, _)| *at <= now) {
            self.queue.set_rate(at, Some(rate));
            self.next_step += 1;
        }
    }
}

impl<T: Clone> Machine for Path<T> {
    type Input = PathDatagram<T>;
    type Transmit = PathDatagram<T>;
    type Event = Infallible;

    fn handle<O: Observer>(&mut self, now: Time, datagram: PathDatagram<T>, _: &mut O) {
        self.start.get_or_insert(now);
        self.follow_schedule(now);
        self.offered += 1;
        let cells = u32::try_from(datagram.wire_len.div_ceil(CELL_PAYLOAD)).unwrap_or(u32::MAX);
        let mut fate = FrameFate::default();
        if self.queue.admit(now, cells, WHOLE, &mut fate).is_ok() {
            self.queue.push(now, datagram, cells, false);
        }
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        self.follow_schedule(now);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<PathDatagram<T>> {
        self.follow_schedule(now);
        while let Some(unit) = self.queue.depart(now) {
            let ready = unit.start.saturating_add(unit.tx);
            let item = unit.pdu;
            self.link.handle(now, LinkInput { ready, item }, obs);
        }
        self.link.poll_transmit(now, obs)
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        let busy = earliest(self.queue.head(), self.link.next_timeout());
        // A step only matters to queued units.
        match busy {
            Some(_) => earliest(busy, self.step().map(|(at, _)| at)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Jitter, Loss, RateStep};
    use layercast_core::{Off, Span};

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Sends `count` datagrams of 1000 bytes, one each 10 ms (800 kbit/s), and returns the arrivals with their
    /// times.
    fn send(config: PathConfig, count: u64) -> (Vec<(Time, PathDatagram<u64>)>, PathStats) {
        let mut path = Path::new(config, 1, "there").unwrap();
        let mut arrived = Vec::new();
        let mut run = |path: &mut Path<u64>, until: Time| {
            while let Some(at) = path.next_timeout().filter(|&at| at <= until) {
                path.on_timeout(at, &mut Off);
                while let Some(got) = path.poll_transmit(at, &mut Off) {
                    arrived.push((at, got));
                }
            }
        };
        for item in 0..count {
            let now = ms(item * 10);
            run(&mut path, now);
            let datagram = PathDatagram {
                item,
                wire_len: 1_000,
                congestion: false,
            };
            path.handle(now, datagram, &mut Off);
        }
        run(&mut path, Time::MAX);
        (arrived, path.stats())
    }

    fn narrow() -> PathConfig {
        PathConfig {
            rate: Some(Rate::from_bps(1_000_000)),
            schedule: RateSchedule::new(vec![
                RateStep {
                    after: Span::from_secs(2),
                    permille: 1_000,
                },
                RateStep {
                    after: Span::from_secs(1),
                    permille: 500,
                },
            ])
            .unwrap(),
            queue: QueueConfig::of_limit(210),
            link: LinkConfig {
                delay: Span::from_ms(20),
                ..LinkConfig::default()
            },
        }
    }

    #[test]
    fn a_datagram_takes_its_time_on_the_line_and_on_the_way() {
        let (arrived, stats) = send(narrow(), 90);
        let delays = arrived.iter().map(|(at, got)| at.since(ms(got.item * 10)));
        assert!(delays.eq(std::iter::repeat_n(Span::from_ms(28), 90)));
        assert_eq!((stats.offered, stats.queue_full), (90, 0));
    }

    #[test]
    fn a_drop_of_the_rate_fills_the_queue_marks_and_loses_and_ends() {
        let (arrived, stats) = send(narrow(), 400);
        let second = |from: u64| {
            let during =
                |at: &&(Time, _)| at.0 >= ms(from * 1_000) && at.0 < ms(from * 1_000 + 1_000);
            arrived.iter().filter(during).count()
        };
        // 16 ms each at half the rate; before and after that as many as came.
        assert!((61..=64).contains(&second(1)), "{}", second(1));
        assert_eq!(second(3), 100);
        // A hundred come, 62 leave, ten wait.
        assert!((26..=30).contains(&stats.queue_full), "{stats:?}");
        assert!(stats.marked > 40, "{stats:?}");
        assert!((189..=210).contains(&stats.max_queue), "{stats:?}");
        assert_eq!(arrived.len() as u64 + stats.queue_full, 400);
    }

    #[test]
    fn the_same_seed_is_the_same_path() {
        let config = PathConfig {
            link: LinkConfig {
                delay: Span::from_ms(20),
                jitter: Jitter::Uniform {
                    max: Span::from_ms(5),
                },
                loss: Loss::Bernoulli { p: 0.05 },
                ..LinkConfig::default()
            },
            ..narrow()
        };
        let (first, stats) = send(config.clone(), 1_000);
        assert_eq!(send(config, 1_000).0, first);
        assert!((25..80).contains(&stats.link.lost), "{stats:?}");
    }

    #[test]
    fn impossible_paths_are_named() {
        let nothing = RateStep {
            after: Span::from_secs(1),
            permille: 0,
        };
        assert_eq!(
            RateSchedule::new(vec![nothing]).unwrap_err().field,
            "schedule"
        );
        let mut config = narrow();
        config.link.loss = Loss::Bernoulli { p: 2.0 };
        assert_eq!(
            Path::<u64>::new(config, 1, "x").unwrap_err().field,
            "loss.p"
        );
    }
}
