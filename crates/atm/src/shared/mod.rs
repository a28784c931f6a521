//! A buffer that circuits share, and that discards cells by what they are to a picture (specs/mpeg-picture-quality.md 2.5).

mod lists;
#[cfg(test)]
mod tests;

use layercast_core::DataClass;
use serde::Serialize;
use thiserror::Error;

use crate::{Cell, FrameId};
use lists::Lists;

/// Which cells a full buffer discards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SharedPolicy {
    /// The one that arrives.
    Fifo,
    /// The youngest with CLP = 1, if the one that arrives has CLP = 0.
    Clp,
    /// The youngest of the lowest class below that of the one that arrives.
    ExClp,
    /// The same; and above the threshold of its class a frame is refused at its first cell, of class B also in its middle. A
    /// frame of class B that loses a cell takes all of class B with it up to the next I or P picture of its circuit.
    ExClpEpd,
    /// The one that arrives, if the buffer is above the threshold of its class (partial buffer sharing).
    Thresholds,
    /// The one that arrives, if the part of the buffer that its class has for itself is full.
    Dedicated,
}

/// Parameters of a [`SharedBuffer`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharedBufferConfig {
    /// Cells that it holds.
    pub size: u32,
    /// Which cells it discards.
    pub policy: SharedPolicy,
    /// Cells in the buffer from which on a class is refused, in percent of the size: S, I, P, B. 100: never.
    pub thresholds: [u8; 4],
    /// How far below its threshold a class is taken again, in percent of the size.
    pub hysteresis: u8,
    /// Parts of the buffer of [`SharedPolicy::Dedicated`], in percent: S, I, P, B.
    pub parts: [u8; 4],
}

impl Default for SharedBufferConfig {
    fn default() -> SharedBufferConfig {
        SharedBufferConfig {
            size: 1_000,
            policy: SharedPolicy::ExClpEpd,
            thresholds: [100, 95, 85, 70],
            hysteresis: 10,
            // The shares of the paper.
            parts: [5, 53, 29, 13],
        }
    }
}

/// Reason why a buffer cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SharedBufferError {
    /// It holds nothing.
    #[error("a shared buffer of 0 cells: it holds one at least")]
    Size,
    /// A share is more than everything.
    #[error("{what} of {percent} % of the buffer: at most 100 %")]
    Percent {
        /// Which.
        what: &'static str,
        /// Its value.
        percent: u16,
    },
}

/// What happened to a cell that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is in the buffer.
    Queued,
    /// It is in the buffer in the place of this one.
    PushedOut(Cell),
    /// It is discarded.
    Discarded,
}

/// Counters of one class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct SharedClassStats {
    /// Cells that arrived.
    pub received: u64,
    /// Cells that left.
    pub sent: u64,
    /// Cells that were discarded at their arrival.
    pub discarded: u64,
    /// Cells that were discarded for one of a higher class.
    pub pushed_out: u64,
}

/// What a circuit is doing.
#[derive(Clone, Copy, Debug)]
struct Circuit {
    /// The next cell begins a frame.
    first: bool,
    /// Classes that are refused.
    refused: [bool; 4],
    /// The frame that arrives; the rest of it is discarded, except its last cell.
    frame: FrameId,
    is_broken: bool,
    /// A cell of the frame that arrives was taken.
    is_partial: bool,
    /// A cell of an I or P picture came since class B was refused.
    group_ended: bool,
}

impl Default for Circuit {
    fn default() -> Circuit {
        Circuit {
            first: true,
            refused: [false; 4],
            frame: FrameId(u32::MAX),
            is_broken: false,
            is_partial: false,
            group_ended: false,
        }
    }
}

/// The buffer of an output port. Cells leave in the order in which they came, whatever their class.
///
/// Memory is that of its cells, and of the highest number of a circuit; nothing is allocated for a cell.
#[derive(Debug)]
pub struct SharedBuffer {
    config: SharedBufferConfig,
    /// Cells from which on each class is refused, and below which it is taken again.
    thresholds: [u32; 4],
    resume: [u32; 4],
    parts: [u32; 4],
    lists: Lists,
    circuits: Vec<Circuit>,
    stats: [SharedClassStats; 4],
}

impl SharedBuffer {
    /// An empty buffer.
    ///
    /// # Errors
    /// It would hold nothing, or a share is above 100 %.
    pub fn new(config: SharedBufferConfig) -> Result<SharedBuffer, SharedBufferError> {
        if config.size == 0 {
            return Err(SharedBufferError::Size);
        }
        let above = |what, values: &[u8]| {
            let found = values.iter().find(|&&percent| percent > 100);
            found.map(|&percent| SharedBufferError::Percent {
                what,
                percent: percent.into(),
            })
        };
        let sum: u16 = config.parts.iter().map(|&part| u16::from(part)).sum();
        let parts = (sum > 100).then_some(SharedBufferError::Percent {
            what: "parts",
            percent: sum,
        });
        let wrong = above("a threshold", &config.thresholds)
            .or(above("a hysteresis", &[config.hysteresis]))
            .or(parts);
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let of = |percent: u8| (u64::from(config.size) * u64::from(percent) / 100) as u32;
        Ok(SharedBuffer {
            config,
            thresholds: config.thresholds.map(of),
            resume: config
                .thresholds
                .map(|percent| of(percent.saturating_sub(config.hysteresis))),
            parts: config.parts.map(of),
            lists: Lists::new(config.size),
            circuits: Vec::new(),
            stats: [SharedClassStats::default(); 4],
        })
    }

    /// Takes a cell that arrives.
    pub fn enqueue(&mut self, cell: Cell) -> Taken {
        let vc = usize::from(cell.vc.0);
        if self.circuits.len() <= vc {
            self.circuits.resize(vc + 1, Circuit::default());
        }
        let class = cell.class();
        self.stats[class.index()].received += 1;
        let circuit = &mut self.circuits[vc];
        if circuit.first {
            (circuit.frame, circuit.is_broken, circuit.is_partial) = (cell.frame, false, false);
        }
        if matches!(class, DataClass::Intra | DataClass::Predicted) {
            circuit.group_ended = true;
        }
        let taken = match self.refuses(cell, class) {
            true => Taken::Discarded,
            false => self.put(cell, class),
        };
        let circuit = &mut self.circuits[vc];
        circuit.first = cell.is_last();
        match taken {
            Taken::Discarded => self.stats[class.index()].discarded += 1,
            _ => circuit.is_partial = true,
        }
        taken
    }

    /// The next cell to send.
    pub fn dequeue(&mut self) -> Option<Cell> {
        let cell = self.lists.pop_first()?;
        self.stats[cell.class().index()].sent += 1;
        Some(cell)
    }

    /// Cells that it holds.
    pub fn len(&self) -> u32 {
        self.lists.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters by class: S, I, P, B.
    pub fn stats(&self) -> &[SharedClassStats; 4] {
        &self.stats
    }

    /// Cells of class S that were discarded: if this is not 0, headers alone are more than the link carries, or a circuit
    /// marks too much as headers.
    pub fn critical_losses(&self) -> u64 {
        let system = &self.stats[DataClass::System.index()];
        system.discarded + system.pushed_out
    }

    /// Refuses class B of all circuits, or takes it again, whatever the buffer holds: for studies of what that saves.
    pub fn force_refusal(&mut self, refused: bool) {
        for circuit in &mut self.circuits {
            circuit.refused[DataClass::Bidirectional.index()] = refused;
            circuit.group_ended = false;
        }
    }

    /// Whether the policy discards a cell before it asks for room.
    fn refuses(&mut self, cell: Cell, class: DataClass) -> bool {
        let held = self.lists.len();
        let threshold = self.thresholds[class.index()];
        match self.config.policy {
            SharedPolicy::Fifo | SharedPolicy::Clp | SharedPolicy::ExClp => false,
            SharedPolicy::Thresholds => held >= threshold,
            SharedPolicy::Dedicated => self.lists.count(class) >= self.parts[class.index()],
            SharedPolicy::ExClpEpd => self.refuses_early(cell, class, held),
        }
    }

    fn refuses_early(&mut self, cell: Cell, class: DataClass, held: u32) -> bool {
        let (threshold, resume) = (self.thresholds[class.index()], self.resume[class.index()]);
        let is_full = held == self.config.size;
        let circuit = &mut self.circuits[usize::from(cell.vc.0)];
        let is_b = class == DataClass::Bidirectional;
        // The end of a frame of which a part was sent keeps the next frame whole.
        let ends_partial = cell.is_last() && circuit.is_partial && !is_full;
        if circuit.is_broken && circuit.frame == cell.frame {
            return !ends_partial;
        }
        let refused = &mut circuit.refused[class.index()];
        if *refused {
            let may_resume = !is_b || circuit.group_ended;
            if !(may_resume && circuit.first && held < resume) {
                return !ends_partial;
            }
            *refused = false;
        }
        if threshold < self.config.size && held >= threshold && (circuit.first || is_b) {
            *refused = true;
            circuit.group_ended = false;
            return !ends_partial;
        }
        false
    }

    /// Puts a cell into the buffer, in the place of another one if it is full.
    fn put(&mut self, cell: Cell, class: DataClass) -> Taken {
        if self.lists.len() < self.config.size {
            self.lists.push_last(cell, class);
            return Taken::Queued;
        }
        let lowest = match self.config.policy {
            SharedPolicy::ExClp | SharedPolicy::ExClpEpd => class.rank() + 1,
            SharedPolicy::Clp if !class.clp() => DataClass::Predicted.rank(),
            _ => return Taken::Discarded,
        };
        let classes = (lowest..=DataClass::Bidirectional.rank()).rev();
        let victim = match self.config.policy {
            SharedPolicy::Clp => self.lists.youngest_of(classes.map(DataClass::of_rank)),
            _ => { classes }.find_map(|rank| self.lists.youngest(DataClass::of_rank(rank))),
        };
        let Some(victim) = victim else {
            return Taken::Discarded;
        };
        let removed = self.lists.remove(victim);
        self.lists.push_last(cell, class);
        self.stats[removed.class().index()].pushed_out += 1;
        if self.config.policy == SharedPolicy::ExClpEpd {
            let circuit = &mut self.circuits[usize::from(removed.vc.0)];
            if circuit.frame == removed.frame && !circuit.first {
                circuit.is_broken = true;
            }
        }
        Taken::PushedOut(removed)
    }
}
