//! A buffer that circuits share, and that discards cells by what they are to a picture (specs/mpeg-picture-quality.md 2.5).

mod discipline;
mod lists;
mod pictures;
#[cfg(test)]
mod tests;

use layercast_core::DataClass;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Cell;
pub use discipline::{Arrival, Begins, ClassDiscipline, Held};
use lists::Lists;

/// Which cells a full buffer discards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedPolicy {
    /// The one that arrives.
    Fifo,
    /// The youngest with CLP = 1, if the one that arrives has CLP = 0.
    Clp,
    /// The youngest of the lowest class below that of the one that arrives.
    #[serde(rename = "exclp")]
    ExClp,
    /// The same; and above the threshold of its class a frame is refused at its first cell, of class B also in its middle. A
    /// frame of class B that loses a cell takes all of class B with it up to the next I or P picture of its circuit.
    #[serde(rename = "exclp_epd")]
    ExClpEpd,
    /// The one that arrives, if the buffer is above the threshold of its class (partial buffer sharing).
    Thresholds,
    /// The one that arrives, if the part of the buffer that its class has for itself is full.
    Dedicated,
    /// As `ExClpEpd`; and of a picture that lost a part, the rest goes, with all that refers to it
    /// (specs/mpeg-picture-quality.md 2.5).
    Dependent,
    /// As `Dependent`; and before B pictures are refused, an I picture is, with all that refers to it: the videos of the buffer
    /// in turn lose a whole GOP instead of all of them some pictures.
    WholeGops,
}

impl SharedPolicy {
    /// All policies, from the one that knows least to the one that knows most, and two others.
    pub const ALL: [SharedPolicy; 8] = [
        SharedPolicy::Fifo,
        SharedPolicy::Clp,
        SharedPolicy::ExClp,
        SharedPolicy::ExClpEpd,
        SharedPolicy::Dependent,
        SharedPolicy::WholeGops,
        SharedPolicy::Thresholds,
        SharedPolicy::Dedicated,
    ];

    /// Its name in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            SharedPolicy::Fifo => "fifo",
            SharedPolicy::Clp => "clp",
            SharedPolicy::ExClp => "exclp",
            SharedPolicy::ExClpEpd => "exclp_epd",
            SharedPolicy::Dependent => "dependent",
            SharedPolicy::WholeGops => "whole_gops",
            SharedPolicy::Thresholds => "thresholds",
            SharedPolicy::Dedicated => "dedicated",
        }
    }

    /// Whether frames are refused from the threshold of their class on.
    const fn is_early(self) -> bool {
        matches!(
            self,
            SharedPolicy::ExClpEpd | SharedPolicy::Dependent | SharedPolicy::WholeGops
        )
    }

    /// Whether what refers to a lost picture is discarded.
    const fn knows_references(self) -> bool {
        matches!(self, SharedPolicy::Dependent | SharedPolicy::WholeGops)
    }
}

/// Parameters of a [`SharedBuffer`] or a [`ClassDiscipline`].
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
    /// Cells in the buffer from which on [`SharedPolicy::WholeGops`] refuses a GOP, in percent of the size.
    pub gop_threshold: u8,
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
            // Below that at which B pictures are taken again, so that whole GOPs go before parts of all.
            gop_threshold: 50,
        }
    }
}

impl SharedBufferConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// The buffer would hold nothing, or a share is above 100 %.
    pub fn validate(&self) -> Result<(), SharedBufferError> {
        if self.size == 0 {
            return Err(SharedBufferError::Size);
        }
        let above = |what, values: &[u8]| {
            let found = values.iter().find(|&&percent| percent > 100);
            found.map(|&percent| SharedBufferError::Percent {
                what,
                percent: percent.into(),
            })
        };
        let sum: u16 = self.parts.iter().map(|&part| u16::from(part)).sum();
        let parts = (sum > 100).then_some(SharedBufferError::Percent {
            what: "parts",
            percent: sum,
        });
        let wrong = above("a threshold", &self.thresholds)
            .or(above("a threshold of GOPs", &[self.gop_threshold]))
            .or(above("a hysteresis", &[self.hysteresis]))
            .or(parts);
        wrong.map_or(Ok(()), Err)
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

/// The buffer of an output port. Cells leave in the order in which they came, whatever their class.
///
/// Memory is that of its cells, and of the highest number of a circuit; nothing is allocated for a cell.
#[derive(Debug)]
pub struct SharedBuffer {
    discipline: ClassDiscipline,
    lists: Lists,
    stats: [SharedClassStats; 4],
    /// Cells that the last arrival made useless.
    purged: Vec<Cell>,
}

impl SharedBuffer {
    /// An empty buffer.
    ///
    /// # Errors
    /// It would hold nothing, or a share is above 100 %.
    pub fn new(config: SharedBufferConfig) -> Result<SharedBuffer, SharedBufferError> {
        Ok(SharedBuffer {
            discipline: ClassDiscipline::new(config)?,
            lists: Lists::new(config.size),
            stats: [SharedClassStats::default(); 4],
            purged: Vec::new(),
        })
    }

    /// Takes a cell that arrives.
    pub fn enqueue(&mut self, cell: Cell) -> Taken {
        self.purged.clear();
        let class = cell.class();
        self.stats[class.index()].received += 1;
        let arrival = Arrival::of_cell(cell);
        let taken = match self.discipline.arrive(&arrival, &self.lists) {
            Some(picture) => self.put(cell, class, picture),
            None => Taken::Discarded,
        };
        let is_taken = taken != Taken::Discarded;
        if self.discipline.settle(&arrival, is_taken) {
            self.purge();
        }
        if !is_taken {
            self.stats[class.index()].discarded += 1;
        }
        taken
    }

    /// Cells that waited and that the last [`enqueue`](SharedBuffer::enqueue) discarded besides, since what they refer to is
    /// lost. They count as pushed out.
    pub fn purged(&self) -> &[Cell] {
        &self.purged
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

    /// Refuses class B of all circuits, or no longer, whatever the buffer holds: for studies of what that saves.
    pub fn force_refusal(&mut self, refused: bool) {
        self.discipline.force_refusal(refused);
    }

    /// Puts a cell into the buffer, in the place of another one if it is full.
    fn put(&mut self, cell: Cell, class: DataClass, picture: u32) -> Taken {
        if self.lists.len() < self.discipline.config().size {
            self.lists.push_last(cell, class, picture);
            return Taken::Queued;
        }
        let Some(victims) = self.discipline.victims(class) else {
            return Taken::Discarded;
        };
        let victim = match self.discipline.config().policy {
            SharedPolicy::Clp => self.lists.youngest_of(victims),
            _ => { victims }.find_map(|class| self.lists.youngest(class)),
        };
        let Some(victim) = victim else {
            return Taken::Discarded;
        };
        let (removed, of_picture) = self.lists.remove(victim);
        self.lists.push_last(cell, class, picture);
        self.stats[removed.class().index()].pushed_out += 1;
        if (self.discipline).pushed_out(&Arrival::of_cell(removed), of_picture) {
            self.purge();
        }
        Taken::PushedOut(removed)
    }

    /// Discards the cells that wait for nothing.
    fn purge(&mut self) {
        let mut next = self.lists.oldest();
        while let Some(place) = next {
            next = self.lists.younger(place);
            let (cell, picture) = self.lists.at(place);
            if self.discipline.is_useless(&Arrival::of_cell(cell), picture) {
                self.lists.remove(place);
                self.stats[cell.class().index()].pushed_out += 1;
                self.purged.push(cell);
            }
        }
    }
}

impl Held for Lists {
    fn all(&self) -> u32 {
        self.len()
    }

    fn of(&self, class: DataClass) -> u32 {
        self.count(class)
    }
}
