//! An active queue management in one file: BLUE (Feng et al. 2002) beside a FIFO queue and CoDel.
//!
//! `cargo run --manifest-path examples/aqm/Cargo.toml`. docs/src/how-to/own-aqm.md goes through it.

use std::collections::VecDeque;
use std::path::Path;

use layercast_sim::internet::discipline::{
    CoDelConfig, Discipline, DisciplineFactory, DropCause, Item, Port, QueueDiscipline, Span, Time,
};
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, QueueReport};

/// Drops packets as they come with a probability that grows while the queue overflows and shrinks while the link is idle.
#[derive(Debug)]
struct Blue {
    queue: VecDeque<Item>,
    probability: f64,
    changed: Time,
}

impl Blue {
    /// From one change to the next.
    const FREEZE: Span = Span::from_ms(100);
    const UP: f64 = 0.01;
    const DOWN: f64 = 0.001;
    /// A queue with more packets than this is about to overflow.
    const MANY: u32 = 50;

    fn change(&mut self, by: f64, now: Time) {
        if now.since(self.changed) >= Self::FREEZE {
            self.probability = (self.probability + by).clamp(0.0, 1.0);
            self.changed = now;
        }
    }
}

impl QueueDiscipline for Blue {
    fn enqueue(&mut self, mut item: Item, port: &mut Port<'_>) {
        if port.waiting() > Self::MANY {
            self.change(Self::UP, port.now());
        }
        if port.is_over_limit() {
            return port.drop(item, DropCause::Full);
        }
        if port.random() < self.probability && !item.mark() {
            return port.drop(item, DropCause::Early);
        }
        self.queue.push_back(item);
    }

    fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item> {
        if self.queue.is_empty() {
            self.change(-Self::DOWN, port.now());
        }
        self.queue.pop_front()
    }
}

const SCENARIO: &str = r#"
schema = "internet/1"
name = "twenty downloads"
run = { duration = "60s", warm_up = "10s" }
[topology]
kind = "dumbbell"
pairs = 20
trunk = { rate = "20 Mbit/s", delay = "20ms", queue = "200 packets" }
access = { rate = "1 Gbit/s", delay = "1ms" }
[[flow]]
from = "left{1..20}"
to = "right{1..20}"
start_jitter = "1s"
"#;

/// What the queue of the trunk does with this discipline.
fn trunk(discipline: Option<Discipline>) -> QueueReport {
    let scenario = Scenario::from_toml(SCENARIO, Path::new("")).expect("it is a scenario");
    let mut network = scenario.resolve().expect("it is a network");
    // The trunk is the first link; its first direction goes from left to right.
    network.links[0].disciplines[0] = discipline;
    let report = Internet::new(&network).expect("it can run").run(&mut ());
    report.queues.into_iter().next().expect("there is a trunk")
}

/// The disciplines and what came of them.
pub fn compare() -> Vec<(&'static str, QueueReport)> {
    let blue = DisciplineFactory::new("blue", |_| Blue {
        queue: VecDeque::new(),
        probability: 0.0,
        changed: Time::ZERO,
    });
    vec![
        ("FIFO", trunk(None)),
        (
            "CoDel",
            trunk(Some(Discipline::CoDel(CoDelConfig::default()))),
        ),
        ("BLUE", trunk(Some(Discipline::Own(blue)))),
    ]
}

/// Prints them.
pub fn show(found: &[(&str, QueueReport)]) {
    for (name, queue) in found {
        println!(
            "{name:6} utilisation {:.3}, mean wait {:5.1} ms, {} dropped early, {} for want of room",
            queue.utilisation,
            queue.mean_wait * 1e3,
            queue.dropped_red,
            queue.dropped_full,
        );
    }
}

#[allow(dead_code, reason = "a test calls the rest")]
fn main() {
    show(&compare());
}
