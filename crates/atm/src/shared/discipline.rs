use layercast_core::DataClass;

use super::pictures::Pictures;
use super::{SharedBufferConfig, SharedBufferError, SharedPolicy};
use crate::Cell;

/// A unit that arrives: a cell, or a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The circuit or flow. Memory is that of the highest number.
    pub circuit: u32,
    /// What it is to its picture.
    pub class: DataClass,
    /// Its AAL5 frame, or its picture.
    pub frame: u32,
    /// Whether it is the first unit of its frame.
    pub first: bool,
    /// Whether the receiver needs it to find the next frame: the last cell of an AAL5 frame.
    pub last: bool,
    /// Whether a picture begins with it, and what this refers to; `None`: a change of the class shows it.
    pub begins: Option<Begins>,
    /// Cells that it takes.
    pub size: u32,
}

impl Arrival {
    /// A cell.
    pub const fn of_cell(cell: Cell) -> Arrival {
        Arrival {
            circuit: cell.vc.0 as u32,
            class: cell.class(),
            frame: cell.frame.0,
            first: cell.is_first(),
            last: cell.is_last(),
            begins: None,
            size: 1,
        }
    }
}

/// What begins with a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// Nothing.
    Nothing,
    /// A picture that refers to those before it.
    Picture,
    /// A picture that refers to none, and a GOP.
    Gop,
}

/// How much a buffer holds.
pub trait Held {
    /// In cells.
    fn all(&self) -> u32;

    /// In cells, of a class.
    fn of(&self, class: DataClass) -> u32;
}

/// What a circuit is doing.
#[derive(Clone, Debug)]
struct Circuit {
    /// Classes that are refused.
    refused: [bool; 4],
    /// The frame that arrives; the rest of it is discarded, except its last cell.
    frame: u32,
    is_broken: bool,
    /// A unit of the frame that arrives was taken.
    is_partial: bool,
    /// A unit of an I or P picture came since class B was refused.
    group_ended: bool,
    pictures: Pictures,
    /// GOPs that were refused.
    refused_gops: u64,
}

impl Default for Circuit {
    fn default() -> Circuit {
        Circuit {
            refused: [false; 4],
            frame: u32::MAX,
            is_broken: false,
            is_partial: false,
            group_ended: false,
            pictures: Pictures::default(),
            refused_gops: 0,
        }
    }
}

/// Which units a buffer that circuits share discards, apart from how it keeps them: of cells [`SharedBuffer`](super::SharedBuffer),
/// of datagrams the queue of a port.
///
/// For each unit: [`arrive`](ClassDiscipline::arrive); if it is taken and there is no room, units of
/// [`victims`](ClassDiscipline::victims) are removed, each reported to [`pushed_out`](ClassDiscipline::pushed_out); then
/// [`settle`](ClassDiscipline::settle).
#[derive(Debug)]
pub struct ClassDiscipline {
    config: SharedBufferConfig,
    /// Cells from which on each class is refused, and below which it is taken again.
    thresholds: [u32; 4],
    resume: [u32; 4],
    parts: [u32; 4],
    gop_threshold: u32,
    circuits: Vec<Circuit>,
    /// Circuits that have pictures, and GOPs of all that were refused.
    active: u64,
    refused_gops: u64,
    /// Class B is refused, whatever there is.
    refuses_b: bool,
}

impl ClassDiscipline {
    /// A discipline that saw nothing.
    ///
    /// # Errors
    /// The buffer would hold nothing, or a share is above 100 %.
    pub fn new(config: SharedBufferConfig) -> Result<ClassDiscipline, SharedBufferError> {
        config.validate()?;
        Ok(ClassDiscipline::of(config))
    }

    /// A discipline of a buffer of this many cells, at least one, with the other parameters as they are by default.
    pub fn of_size(policy: SharedPolicy, size: u32) -> ClassDiscipline {
        ClassDiscipline::of(SharedBufferConfig {
            size: size.max(1),
            policy,
            ..SharedBufferConfig::default()
        })
    }

    fn of(config: SharedBufferConfig) -> ClassDiscipline {
        let of = |percent: u8| (u64::from(config.size) * u64::from(percent) / 100) as u32;
        ClassDiscipline {
            config,
            thresholds: config.thresholds.map(of),
            resume: config
                .thresholds
                .map(|percent| of(percent.saturating_sub(config.hysteresis))),
            parts: config.parts.map(of),
            gop_threshold: of(config.gop_threshold),
            circuits: Vec::new(),
            active: 0,
            refused_gops: 0,
            refuses_b: false,
        }
    }

    /// Its parameters.
    pub fn config(&self) -> &SharedBufferConfig {
        &self.config
    }

    /// A unit arrives: the number of its picture in its circuit if it is taken as far as there is room; `None` if it is
    /// discarded.
    pub fn arrive(&mut self, arrival: &Arrival, held: &impl Held) -> Option<u32> {
        let number = arrival.circuit as usize;
        if self.circuits.len() <= number {
            self.circuits.resize(number + 1, Circuit::default());
        }
        let circuit = &mut self.circuits[number];
        if arrival.first {
            (circuit.frame, circuit.is_broken, circuit.is_partial) = (arrival.frame, false, false);
        }
        if matches!(arrival.class, DataClass::Intra | DataClass::Predicted) {
            circuit.group_ended = true;
        }
        let is_of_picture = arrival.class != DataClass::System;
        let by_class = || match arrival.class == circuit.pictures.class() {
            true => Begins::Nothing,
            false if arrival.class == DataClass::Intra => Begins::Gop,
            false => Begins::Picture,
        };
        let begins = arrival.begins.unwrap_or_else(by_class);
        if is_of_picture && begins != Begins::Nothing {
            self.active += u64::from(circuit.pictures.newest() == 0);
            circuit.pictures.begin(arrival.class, begins == Begins::Gop);
            if begins == Begins::Gop {
                self.begin_gop(number, held.all());
            }
        }
        let refused = self.refuses(arrival, held);
        let pictures = &self.circuits[number].pictures;
        (!refused).then_some(if is_of_picture { pictures.newest() } else { 0 })
    }

    /// What became of the unit that arrived; `true`: units that wait became [useless](ClassDiscipline::is_useless).
    pub fn settle(&mut self, arrival: &Arrival, is_taken: bool) -> bool {
        let Some(circuit) = self.circuits.get_mut(arrival.circuit as usize) else {
            return false;
        };
        circuit.is_partial |= is_taken;
        let is_lost = !is_taken && arrival.class != DataClass::System;
        let newest = circuit.pictures.newest();
        is_lost && self.config.policy.knows_references() && circuit.pictures.lose(newest)
    }

    /// Whether a unit that waits is of a picture that lost a part, or that refers to such a one. The end of a frame of
    /// several units is needed all the same.
    pub fn is_useless(&self, waiting: &Arrival, picture: u32) -> bool {
        let circuit = self.circuits.get(waiting.circuit as usize);
        let ends_others = waiting.last && !waiting.first;
        !ends_others && circuit.is_some_and(|it| it.pictures.is_useless(picture))
    }

    /// The classes of which the youngest unit makes room for one of this class, the first one first; `None`: nothing does.
    pub fn victims(&self, class: DataClass) -> Option<impl Iterator<Item = DataClass> + use<>> {
        let lowest = match self.config.policy {
            SharedPolicy::Clp if class.clp() => return None,
            SharedPolicy::Clp => DataClass::Predicted.rank(),
            SharedPolicy::Fifo | SharedPolicy::Thresholds | SharedPolicy::Dedicated => return None,
            _ => class.rank() + 1,
        };
        let ranks = (lowest..=DataClass::Bidirectional.rank()).rev();
        Some(ranks.map(DataClass::of_rank))
    }

    /// A unit in the buffer makes room for another one; `picture` is what [`arrive`](ClassDiscipline::arrive) gave for it.
    /// `true`: units that wait became [useless](ClassDiscipline::is_useless).
    pub fn pushed_out(&mut self, removed: &Arrival, picture: u32) -> bool {
        let policy = self.config.policy;
        let Some(circuit) = self.circuits.get_mut(removed.circuit as usize) else {
            return false;
        };
        if policy.is_early() && circuit.frame == removed.frame {
            circuit.is_broken = true;
        }
        policy.knows_references() && circuit.pictures.lose(picture)
    }

    /// Refuses class B of all circuits, or no longer, whatever the buffer holds.
    pub fn force_refusal(&mut self, refused: bool) {
        self.refuses_b = refused;
    }

    /// Forgets a circuit: its number is that of another one from now on.
    pub fn forget(&mut self, circuit: u32) {
        if let Some(circuit) = self.circuits.get_mut(circuit as usize) {
            self.active -= u64::from(circuit.pictures.newest() > 0);
            self.refused_gops -= circuit.refused_gops;
            *circuit = Circuit::default();
        }
    }

    /// A GOP begins. If the buffer is above the threshold, it is refused with its GOP, unless its circuit has already
    /// lost more GOPs than the mean.
    fn begin_gop(&mut self, number: usize, held: u32) {
        if self.config.policy != SharedPolicy::WholeGops {
            return;
        }
        let circuit = &mut self.circuits[number];
        let is_spared = circuit.refused_gops * self.active > self.refused_gops;
        if held >= self.gop_threshold && !is_spared {
            circuit.pictures.lose(circuit.pictures.newest());
            circuit.refused_gops += 1;
            self.refused_gops += 1;
        }
    }

    /// Whether the policy discards a unit before it asks for room.
    fn refuses(&mut self, arrival: &Arrival, held: &impl Held) -> bool {
        let class = arrival.class;
        if self.refuses_b && class == DataClass::Bidirectional {
            return true;
        }
        let all = held.all();
        match self.config.policy {
            SharedPolicy::Fifo | SharedPolicy::Clp | SharedPolicy::ExClp => false,
            SharedPolicy::Thresholds => all >= self.thresholds[class.index()],
            SharedPolicy::Dedicated => held.of(class) >= self.parts[class.index()],
            SharedPolicy::ExClpEpd | SharedPolicy::Dependent | SharedPolicy::WholeGops => {
                self.refuses_early(arrival, all)
            }
        }
    }

    fn refuses_early(&mut self, arrival: &Arrival, held: u32) -> bool {
        let class = arrival.class.index();
        let (threshold, resume) = (self.thresholds[class], self.resume[class]);
        let is_full = held.saturating_add(arrival.size) > self.config.size;
        let circuit = &mut self.circuits[arrival.circuit as usize];
        let is_b = arrival.class == DataClass::Bidirectional;
        // The end of a frame of which a part was sent keeps the next frame whole.
        let ends_partial = arrival.last && circuit.is_partial && !is_full;
        let is_useless = self.config.policy.knows_references()
            && arrival.class != DataClass::System
            && circuit.pictures.is_useless(circuit.pictures.newest());
        if is_useless || circuit.is_broken && circuit.frame == arrival.frame {
            return !ends_partial;
        }
        let refused = &mut circuit.refused[class];
        if *refused {
            let may_resume = !is_b || circuit.group_ended;
            if !(may_resume && arrival.first && held < resume) {
                return !ends_partial;
            }
            *refused = false;
        }
        if threshold < self.config.size && held >= threshold && (arrival.first || is_b) {
            *refused = true;
            circuit.group_ended = false;
            return !ends_partial;
        }
        false
    }
}
