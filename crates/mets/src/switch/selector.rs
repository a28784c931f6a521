use layercast_core::{DataClass, FlowId, FlowSpec, Layer, Level, LevelSet, Serial, aal5_cells};
use layercast_wire::{
    Cell, Flags, FlowInfo, FrameType, MAX_CELL_PAYLOAD, METS_HEADER, Mark, MetsHeader,
};

use crate::groups::{Groups, Late};
use crate::switch::Lowering;
use layercast_link::Unit;

/// Cells of the longest packet: a frame cannot be longer (specs/mets.md 2.12).
const GUARD: u32 = aal5_cells(MAX_CELL_PAYLOAD + METS_HEADER);

/// A datagram up to this number of frames behind is a late fragment, not the start of another frame: more frames than
/// a flow sends in the 3 s for which a link repairs a lost datagram.
const LATE: i32 = 1_024;

/// Finds frames in the units of a flow without buffering or reassembly (specs/mets.md 2.12).
///
/// One logic for cells and datagrams: only how the start of a packet is found differs.
#[derive(Debug)]
pub(crate) struct Selector {
    flow: FlowId,
    /// Mark of the life of the flow.
    life: u8,
    kinds: [FrameType; 3],
    /// Of a flow of alternative layers.
    groups: Option<Groups>,
    mark: Mark,
    /// The next cell starts a packet. With [`Mark::First`]: no packet was seen yet.
    expecting_first: bool,
    /// Cells the packet may still have.
    left: u32,
    frame: Option<Serial>,
    layer: Layer,
    /// What the packet at hand is to its picture.
    class: DataClass,
    /// The packet at hand is of a frame that goes with every level.
    common: bool,
    /// The packet at hand is a parity.
    parity: bool,
    pub unknown_types: u64,
    pub resyncs: u64,
}

/// What the selector says of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub unit: Unit,
    /// Starts a GOP: masks may change.
    pub gop_start: bool,
    /// Belongs to a frame before the current one.
    pub late: bool,
    /// Of no layer: goes everywhere.
    pub unknown: bool,
    /// Of a parity of the base layer: stands between frames, wherever it comes.
    pub parity: bool,
    /// Of a flow of alternative layers.
    pub choice: Option<Choice>,
}

/// What decides whether a unit of a flow of alternative layers passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// Begins a group of pictures: levels may change.
    pub begins: bool,
    /// Belongs to a group before the newest.
    pub before: bool,
    /// Goes with every level.
    pub common: bool,
    /// The levels that come here, as far as they are known.
    pub offered: LevelSet,
}

/// What one branch lets through; latched for each frame, so no frame is ever cut in half.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gate {
    /// Level in force; `None` until the first GOP starts.
    pub mask: Option<Level>,
    /// Level from the next GOP on.
    pub target: Level,
    /// Of a flow of alternative layers, the levels from the next group on; `target` is the highest.
    pub levels: LevelSet,
    /// Those in force, and those of the group before.
    passing: LevelSet,
    before: LevelSet,
    /// What is in force is what the branch had before, since what it wants did not come.
    held: bool,
    /// The flow is one of alternative layers.
    chooses: bool,
    latched: bool,
}

/// What passes a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stated {
    /// The layers up to a level.
    Level(Level),
    /// These levels, of alternative layers.
    Set(LevelSet),
}

impl Selector {
    pub fn new(info: &FlowInfo) -> Selector {
        Selector {
            flow: info.id,
            life: info.epoch.mark(),
            kinds: kinds(&info.spec),
            groups: groups(&info.spec),
            mark: info.aal5_mark,
            expecting_first: true,
            left: 0,
            frame: None,
            layer: Layer::Base,
            class: DataClass::System,
            common: false,
            parity: false,
            unknown_types: 0,
            resyncs: 0,
        }
    }

    /// The flow was renegotiated: its layers may have other types.
    pub fn set_spec(&mut self, spec: &FlowSpec) {
        self.kinds = kinds(spec);
    }

    /// Forgets the packet it is in: the circuit starts again.
    pub fn restart(&mut self) {
        self.expecting_first = true;
        self.frame = None;
        self.groups = self.groups.map(|_| Groups::default());
    }

    /// Takes the next cell of the circuit; `None` if it belongs to no packet.
    pub fn on_cell(&mut self, cell: &Cell) -> Option<Step> {
        let starts = match self.mark {
            Mark::First => cell.pti.auu(),
            Mark::Last if self.expecting_first => true,
            Mark::Last => {
                let found = self.is_header(cell);
                self.resyncs += u64::from(found);
                found
            }
        };
        if self.mark == Mark::First && !starts && self.expecting_first {
            return None;
        }
        let ends = self.mark == Mark::Last && cell.pti.auu();
        let mut step = if starts {
            let kind = FrameType(u16::from_be_bytes([cell.payload[0], cell.payload[1]]));
            let header = MetsHeader::decode(&cell.payload).ok();
            self.left = header.map_or(GUARD, |header| packet_cells(&header));
            self.start(kind, header.as_ref())
        } else {
            self.inside()
        };
        step.unit.delimiter = ends;
        self.left = self.left.saturating_sub(1);
        self.expecting_first = match self.mark {
            Mark::First => false,
            // Without an end by now, the end was lost.
            Mark::Last => ends || self.left == 0,
        };
        Some(step)
    }

    /// Whether a packet is of this life of the flow.
    pub fn is_alive(&self, header: &MetsHeader) -> bool {
        header.flags.life() == self.life
    }

    /// Takes the next datagram of the flow.
    pub fn on_packet(&mut self, header: &MetsHeader) -> Step {
        self.start(header.kind, Some(header))
    }

    /// Whether a cell that should not be the first of a packet is one all the same: 56 bits of
    /// type, version and flow must agree by chance if it is not.
    fn is_header(&self, cell: &Cell) -> bool {
        let kind = FrameType(u16::from_be_bytes([cell.payload[0], cell.payload[1]]));
        let others = [FrameType::PROBE, FrameType::PARITY, FrameType::COMMON];
        if !self.kinds.contains(&kind) && !others.contains(&kind) {
            return false;
        }
        MetsHeader::decode(&cell.payload).is_ok_and(|header| {
            header.flow == self.flow && self.is_alive(&header) && header.offset < header.alf_len
        })
    }

    fn start(&mut self, kind: FrameType, header: Option<&MetsHeader>) -> Step {
        self.parity = kind == FrameType::PARITY;
        if self.parity {
            return self.of_parity(true);
        }
        let common = kind == FrameType::COMMON && self.groups.is_some();
        let known = self.kinds.iter().position(|&other| other == kind);
        let layer = known.map_or(Layer::Base, |index| Layer::ALL[index]);
        let known = known.is_some() || common;
        let seq = header.map(|header| header.seq);
        let behind = match (self.frame, seq) {
            (Some(current), Some(seq)) => current.diff(seq),
            _ => 0,
        };
        let late = (1..=LATE).contains(&behind);
        let frame_start = !late && (seq.is_none() || seq != self.frame);
        if !late {
            self.frame = seq;
            (self.layer, self.common) = (layer, common);
        }
        self.unknown_types += u64::from(frame_start && !known);
        let gop_start = header.is_some_and(|header| header.flags.contains(Flags::GOP_START));
        let picture = known && !common;
        // Only the first fragment says that a frame is sound: the others are what it is.
        let continues = !late && !frame_start && header.is_some_and(|header| header.offset > 0);
        let class = match picture {
            _ if continues => self.class,
            true => class_of(header, layer, self.groups.is_none()),
            false => DataClass::System,
        };
        if !late {
            self.class = class;
        }
        let choice = self.groups.as_mut().map(|groups| {
            let place = seq.filter(|_| late && picture);
            let place = place.map(|seq| groups.late(layer, gop_start, seq));
            let starts = frame_start && picture && groups.picture(layer, gop_start, seq);
            Choice {
                begins: starts || place == Some(Late::Begins),
                before: place == Some(Late::Before),
                common,
                offered: header.and_then(|it| it.passing.set()).unwrap_or_default(),
            }
        });
        Step {
            unit: Unit {
                layer,
                frame_start,
                packet_start: true,
                delimiter: false,
                class,
                is_key: gop_start,
                frame: seq.map_or(0, |seq| seq.0),
                flow: 0,
            },
            gop_start,
            late,
            unknown: !known,
            parity: false,
            choice,
        }
    }

    /// A unit of a parity goes where the base layer goes; the frame that it interrupts continues behind it.
    fn of_parity(&self, starts: bool) -> Step {
        Step {
            unit: Unit {
                frame_start: starts,
                packet_start: starts,
                ..Unit::MESSAGE
            },
            gop_start: false,
            late: true,
            unknown: false,
            parity: true,
            choice: self.choice(false),
        }
    }

    fn inside(&self) -> Step {
        if self.parity {
            return self.of_parity(false);
        }
        Step {
            unit: Unit {
                layer: self.layer,
                packet_start: false,
                class: self.class,
                frame: self.frame.map_or(0, |seq| seq.0),
                ..Unit::MESSAGE
            },
            gop_start: false,
            late: false,
            unknown: false,
            parity: false,
            choice: self.choice(self.common),
        }
    }

    /// Of a unit that starts no packet, or of a parity.
    fn choice(&self, common: bool) -> Option<Choice> {
        self.groups.map(|_| Choice {
            begins: false,
            before: false,
            common,
            offered: LevelSet::EMPTY,
        })
    }
}

/// What a frame of a layer, with the header of its first fragment, is to the pictures of the flow: no picture refers to sound. Layers
/// that add to each other are those of I, P and B pictures; of alternative ones each has its own key pictures.
pub(super) fn class_of(header: Option<&MetsHeader>, layer: Layer, is_additive: bool) -> DataClass {
    let gop_start = header.is_some_and(|header| header.flags.contains(Flags::GOP_START));
    match (layer, is_additive) {
        _ if header.is_some_and(|header| header.sound.is_sound()) => DataClass::System,
        (Layer::Base, true) => DataClass::Intra,
        (Layer::E1, true) => DataClass::Predicted,
        (Layer::E2, true) => DataClass::Bidirectional,
        (_, false) if gop_start => DataClass::Intra,
        (_, false) => DataClass::Predicted,
    }
}

/// Of a flow of alternative layers.
fn groups(spec: &FlowSpec) -> Option<Groups> {
    (!spec.composition.is_additive()).then(Groups::default)
}

impl Step {
    /// Whether masks change here, at the start of a GOP.
    pub fn begins_gop(&self) -> bool {
        let starts = self.unit.frame_start && self.gop_start && !self.late && !self.unknown;
        match self.choice {
            Some(choice) => choice.begins && !self.late,
            None => starts && self.unit.layer == Layer::Base,
        }
    }

    /// Whether it passes at `level`.
    pub fn is_of(&self, level: Level) -> bool {
        self.unknown
            || match self.choice {
                Some(choice) => choice.common || self.unit.layer.level() == level,
                None => level.includes(self.unit.layer),
            }
    }
}

/// The frame type of each layer.
fn kinds(spec: &FlowSpec) -> [FrameType; 3] {
    Layer::ALL.map(|layer| match spec.layers[layer].kind {
        0 => FrameType::from_layer(layer),
        kind => FrameType(kind),
    })
}

/// How many cells the packet with this header has, as far as it tells.
fn packet_cells(header: &MetsHeader) -> u32 {
    if !header.flags.contains(Flags::LAST) {
        return GUARD;
    }
    let payload = header.alf_len.saturating_sub(header.offset) as usize;
    aal5_cells(METS_HEADER + payload).min(GUARD)
}

impl Gate {
    /// Whether the unit goes to this branch.
    pub fn pass(&mut self, step: &Step, lowering: Lowering) -> bool {
        if let Some(choice) = step.choice {
            return self.pass_alternative(step, choice);
        }
        if step.late {
            return step.unknown || self.includes(step.unit.layer);
        }
        if step.unit.frame_start {
            if step.unit.layer == Layer::Base && step.gop_start && !step.unknown {
                self.mask = Some(self.target);
            } else if lowering == Lowering::NextFrame {
                self.mask = self.mask.map(|mask| mask.min(self.target));
            }
            self.latched = step.unknown || self.includes(step.unit.layer);
        }
        self.latched
    }

    /// The same of alternative layers: levels change where a group begins, so that no picture passes at two levels, or at none.
    fn pass_alternative(&mut self, step: &Step, choice: Choice) -> bool {
        let level = step.unit.layer.level();
        if step.late {
            if choice.begins {
                self.begin_group(choice.offered);
            }
            let passing = match choice.before {
                true => self.before,
                false => self.passing,
            };
            let common = choice.common && self.mask.is_some();
            return step.unknown || common || passing.contains(level);
        }
        if step.unit.frame_start {
            if choice.begins {
                self.begin_group(choice.offered);
            }
            let common = choice.common && self.mask.is_some();
            self.latched = step.unknown || common || !choice.common && self.passing.contains(level);
        }
        self.latched
    }

    fn begin_group(&mut self, offered: LevelSet) {
        let offered = match offered.is_empty() {
            true => LevelSet::ALL,
            false => offered,
        };
        let wanted = match self.levels.is_empty() {
            true => LevelSet::of(Level::BASE),
            false => self.levels,
        };
        (self.before, self.chooses) = (self.passing, true);
        let served = wanted.served(Level::FULL, offered);
        // What is wanted is under way: one group of what the branch had is better than none.
        let kept = self.before.served(Level::FULL, offered);
        self.held = served.is_empty() && !self.held && kept == self.before;
        self.passing = if self.held { kept } else { served };
        self.mask = self.passing.highest().or(self.mask);
    }

    /// Nothing passes before the next GOP starts.
    pub fn close(&mut self) {
        self.mask = None;
        self.passing = LevelSet::EMPTY;
    }

    /// What the branch states on units that pass.
    pub fn stated(&self) -> Option<Stated> {
        match self.chooses {
            false => self.mask.map(Stated::Level),
            true => Some(Stated::Set(self.passing)),
        }
    }

    /// Whether higher ones of alternative layers pass, and the base layer does not.
    pub fn replaces_base(&self) -> bool {
        !self.passing.is_empty() && !self.passing.contains(Level::BASE)
    }

    fn includes(&self, layer: Layer) -> bool {
        self.mask.is_some_and(|mask| mask.includes(layer))
    }
}

#[cfg(test)]
mod tests;
