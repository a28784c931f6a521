use layercast_atm::{Arrival, Begins, ClassDiscipline, Held, SharedPolicy};
use layercast_core::{Cause, DataClass, Layer};

use crate::Unit;

/// What a discipline knows of a unit that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    arrival: Arrival,
    picture: u32,
    pub flow: u32,
    pub layer: Layer,
}

impl About {
    pub fn class(&self) -> DataClass {
        self.arrival.class
    }
}

/// Cells that wait, by class.
#[derive(Clone, Copy, Default, Debug)]
struct Waiting([u32; 4]);

impl Held for Waiting {
    fn all(&self) -> u32 {
        self.0.iter().sum()
    }

    fn of(&self, class: DataClass) -> u32 {
        self.0[class.index()]
    }
}

/// The discipline of the shared buffer at a queue of datagrams or cells: what it knows beside the queue.
#[derive(Debug)]
pub(crate) struct ByClass {
    discipline: ClassDiscipline,
    waiting: Waiting,
    /// The unit that was admitted, until it enters.
    admitted: Option<About>,
}

impl ByClass {
    /// With the thresholds of the paper; a queue of no cells has been refused.
    pub fn new(policy: SharedPolicy, limit: u32) -> ByClass {
        ByClass {
            discipline: ClassDiscipline::of_size(policy, limit),
            waiting: Waiting::default(),
            admitted: None,
        }
    }

    /// Whether a unit may enter, if needed in the place of others; `is_open`: a part of its packet did.
    pub fn admit(
        &mut self,
        cells: u32,
        unit: Unit,
        is_open: bool,
        free: u32,
    ) -> Result<About, Cause> {
        let begins = match (unit.frame_start, unit.is_key) {
            (true, true) => Begins::Gop,
            (true, false) => Begins::Picture,
            (false, _) => Begins::Nothing,
        };
        let arrival = Arrival {
            circuit: circuit(unit),
            class: unit.class,
            frame: unit.frame,
            first: unit.frame_start,
            last: unit.delimiter && is_open,
            begins: Some(begins),
            size: cells,
        };
        let picture = self.discipline.arrive(&arrival, &self.waiting);
        let picture = picture.ok_or(match unit.frame_start {
            true => Cause::SelectiveDiscard,
            false => Cause::PartialDiscard,
        })?;
        let classes = self.discipline.victims(unit.class).into_iter().flatten();
        let below: u32 = classes.map(|class| self.waiting.of(class)).sum();
        match free.saturating_add(below) >= cells {
            true => Ok(About {
                arrival,
                picture,
                flow: unit.flow,
                layer: unit.layer,
            }),
            false => Err(Cause::QueueFull),
        }
    }

    /// What [`admit`](ByClass::admit) and the removals for it came to; whether units that wait became useless.
    pub fn settle(&mut self, unit: Unit, verdict: Result<About, Cause>) -> bool {
        self.admitted = verdict.ok();
        let arrival = Arrival {
            circuit: circuit(unit),
            class: unit.class,
            frame: unit.frame,
            first: unit.frame_start,
            last: false,
            begins: None,
            size: 0,
        };
        self.discipline.settle(&arrival, verdict.is_ok())
    }

    /// The unit that was admitted enters the queue; a message, if none was.
    pub fn enter(&mut self, cells: u32) -> About {
        let message = || About {
            arrival: Arrival {
                circuit: circuit(Unit::MESSAGE),
                class: DataClass::System,
                frame: 0,
                first: true,
                last: false,
                begins: Some(Begins::Nothing),
                size: cells,
            },
            picture: 0,
            flow: u32::MAX,
            layer: Layer::Base,
        };
        let about = self.admitted.take().unwrap_or_else(message);
        self.waiting.0[about.class().index()] += cells;
        about
    }

    /// A unit no longer waits.
    pub fn left(&mut self, about: &About) {
        self.waiting.0[about.class().index()] -= about.arrival.size;
    }

    /// A unit was removed, and as the first of its picture, if `is_cause`; whether others became useless.
    pub fn removed(&mut self, about: &About, is_cause: bool) -> bool {
        self.left(about);
        is_cause && self.discipline.pushed_out(&about.arrival, about.picture)
    }

    /// Whether a unit that waits cannot be used.
    pub fn is_useless(&self, about: &About) -> bool {
        self.discipline.is_useless(&about.arrival, about.picture)
    }

    /// The classes that make room for one, the first one first.
    pub fn victims(&self, class: DataClass) -> Option<impl Iterator<Item = DataClass> + use<>> {
        self.discipline.victims(class)
    }

    /// Whether age decides among these classes, not their order.
    pub fn is_by_age(&self) -> bool {
        self.discipline.config().policy == SharedPolicy::Clp
    }

    /// Whether units of a class wait.
    pub fn holds(&self, class: DataClass) -> bool {
        self.waiting.of(class) > 0
    }

    pub fn forget(&mut self, flow: u32) {
        self.discipline.forget(flow.saturating_add(1));
    }
}

/// Messages and parities have a circuit of their own: they come in the middle of frames.
fn circuit(unit: Unit) -> u32 {
    match unit.class {
        DataClass::System => 0,
        _ => unit.flow.saturating_add(1),
    }
}
