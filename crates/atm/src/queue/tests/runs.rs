//! Comparison of a queue of runs with a queue of cells.

use proptest::prelude::*;

use super::*;
use crate::{CellFlags, Class, Departures, Run, RunQueue, Runs};

#[derive(Clone, Debug)]
enum Step {
    /// Cells arrive on a circuit; time since the previous step.
    Put {
        after: u64,
        vc: u16,
        count: u32,
        gap: u64,
        whole: bool,
        low: bool,
    },
    Open {
        after: u64,
        vc: u16,
    },
    Close {
        after: u64,
        vc: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let marks = (any::<bool>(), any::<bool>());
    let put = (0u64..40, 0u16..4, 1u32..12, 0u64..25, marks).prop_map(
        |(after, vc, count, gap, (whole, low))| Step::Put {
            after,
            vc,
            count,
            gap,
            whole,
            low,
        },
    );
    prop_oneof![
        8 => put,
        1 => (0u64..40, 0u16..4).prop_map(|(after, vc)| Step::Open { after, vc }),
        1 => (0u64..40, 1u16..4).prop_map(|(after, vc)| Step::Close { after, vc }),
    ]
}

fn discard() -> impl Strategy<Value = Discard> {
    prop_oneof![
        Just(Discard::None),
        Just(Discard::Ppd),
        (0u32..12).prop_map(|threshold| Discard::Epd { threshold }),
    ]
}

/// A queue of cells with its transmitter.
struct Plain {
    queue: OutputQueue,
    busy_until: Time,
    sent: Vec<(Time, Cell)>,
}

impl Plain {
    fn serve(&mut self, now: Time) {
        while !self.queue.is_empty() && self.busy_until <= now {
            let start = self.busy_until;
            let cell = self.queue.dequeue(start).expect("a cell");
            self.sent.push((start, cell));
            self.busy_until = start + self.queue.config().cell_time;
        }
    }

    fn put(&mut self, now: Time, cell: Cell) -> u32 {
        self.serve(now);
        let dropped = self.queue.enqueue(now, cell).is_err();
        self.busy_until = self.busy_until.max(now);
        self.serve(now);
        u32::from(dropped)
    }
}

/// Departures of a queue of runs.
#[derive(Default)]
struct Sent {
    signals: Vec<Run>,
    others: Runs,
}

impl Departures for Sent {
    fn add(&mut self, run: Run) {
        match run.vc.0 {
            0 => self.signals.push(run),
            _ => self.others.push(run),
        }
    }

    fn put_off(&mut self, after: Time, by: Span) {
        self.others.put_off(after, by);
    }

    fn count_after(&self, vc: Vcid, after: Time) -> u32 {
        match vc.0 {
            0 => self.signals.iter().filter(|run| run.at > after).count() as u32,
            _ => self.others.count_after(vc, after),
        }
    }
}

proptest! {
    #[test]
    fn runs_leave_and_are_dropped_as_their_cells(
        steps in prop::collection::vec(step(), 1..60), discard in discard(),
        per_vc_limit in 1u32..30, port_limit in 1u32..40, low_limit in 1u32..50,
    ) {
        let config = QueueConfig {
            discard,
            per_vc_limit,
            port_limit,
            low_limit,
            cell_time: Span::from_ps(10),
            ..QueueConfig::new(T1)
        };
        let mut plain = Plain {
            queue: queue_with(config),
            busy_until: Time::ZERO,
            sent: Vec::new(),
        };
        let mut runs = RunQueue::new(config).expect("a good configuration");
        for vc in 0..4 {
            let class = if vc == 0 { Class::Signalling } else { Class::BestEffort };
            plain.queue.open(Vcid(vc), class, None);
            runs.open(Vcid(vc), class);
        }
        let mut sent = Sent::default();
        let mut now = Time::ZERO;
        for (step, frame) in steps.into_iter().zip(0..) {
            let (Step::Put { after, vc, .. } | Step::Open { after, vc } | Step::Close { after, vc }) = step;
            now += Span::from_ps(after);
            let vc = Vcid(vc);
            match step {
                Step::Put { count, gap, whole, low, .. } => {
                    let mut run = Run {
                        gap: Span::from_ps(gap),
                        ..Run::frame(FrameId(frame), vc, count, now)
                    };
                    if low {
                        run.flags = run.flags.with(CellFlags::LOW);
                    }
                    if vc.0 == 0 {
                        run.count = 1;
                    } else if !whole && count > 1 {
                        run = run.take(count - 1);
                    }
                    let mut dropped = 0;
                    for cell in run.cells() {
                        let flags = cell.flags;
                        dropped += plain.put(cell.at, Cell { frame: cell.frame, vc, flags });
                    }
                    prop_assert_eq!(runs.put(run, &mut sent), dropped);
                    now = run.last_at();
                }
                Step::Open { .. } | Step::Close { .. } => {
                    plain.serve(now);
                    if let Step::Open { .. } = step {
                        let class = if vc.0 == 0 { Class::Signalling } else { Class::BestEffort };
                        plain.queue.open(vc, class, None);
                        runs.open(vc, class);
                    } else {
                        plain.queue.close(vc);
                        runs.close(vc);
                    }
                }
            }
            plain.serve(now);
            prop_assert_eq!(runs.len(now), plain.queue.len());
            prop_assert_eq!(runs.stats(now), *plain.queue.stats());
        }
        let end = Time::from_ps(1_000_000);
        plain.serve(end);
        let mut sent: Vec<_> = sent.signals.iter().chain(sent.others.iter()).flat_map(|run| run.cells()).collect();
        sent.sort_by_key(|cell| cell.at);
        let cells = plain.sent.iter().map(|(at, cell)| Run::of(*cell, *at));
        let bare = |run: Run| Run { gap: Span::ZERO, ..run };
        prop_assert_eq!(
            sent.into_iter().map(bare).collect::<Vec<_>>(),
            cells.collect::<Vec<_>>()
        );
        prop_assert_eq!(runs.stats(end), *plain.queue.stats());
    }
}
