use layercast_core::{FlowId, FlowSpec, Layer, Level, Serial, aal5_cells};
use layercast_wire::{Cell, Flags, FrameType, MAX_CELL_PAYLOAD, METS_HEADER, Mark, MetsHeader};

use crate::Lowering;
use crate::port::Unit;

/// Cells of the longest packet: a frame cannot go on for longer (mets.md 2.12).
const GUARD: u32 = aal5_cells(MAX_CELL_PAYLOAD + METS_HEADER);

/// A datagram up to so many frames behind is a late fragment, not the start of another frame.
const LATE: i32 = 16;

/// Finds frames in the units of a flow without buffering or reassembly (mets.md 2.12).
///
/// One logic for cells and datagrams: only how the start of a packet is found differs.
#[derive(Debug)]
pub(crate) struct Selector {
    flow: FlowId,
    kinds: [FrameType; 3],
    mark: Mark,
    /// The next cell starts a packet. With [`Mark::First`]: no packet was seen yet.
    expecting_first: bool,
    /// Cells the packet may still have.
    left: u32,
    frame: Option<Serial>,
    layer: Layer,
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
}

/// What one branch lets through; latched for each frame, so no frame is ever cut in half.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gate {
    /// Level in force; `None` until the first GOP starts.
    pub mask: Option<Level>,
    /// Level from the next GOP on.
    pub target: Level,
    latched: bool,
}

impl Selector {
    pub fn new(flow: FlowId, spec: &FlowSpec, mark: Mark) -> Selector {
        Selector {
            flow,
            kinds: kinds(spec),
            mark,
            expecting_first: true,
            left: 0,
            frame: None,
            layer: Layer::Base,
            parity: false,
            unknown_types: 0,
            resyncs: 0,
        }
    }

    /// The flow was renegotiated: its layers may have other types.
    pub fn set_spec(&mut self, spec: &FlowSpec) {
        self.kinds = kinds(spec);
    }

    /// Forgets the packet it is in: the circuit starts anew.
    pub fn restart(&mut self) {
        self.expecting_first = true;
        self.frame = None;
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

    /// Takes the next datagram of the flow.
    pub fn on_packet(&mut self, header: &MetsHeader) -> Step {
        self.start(header.kind, Some(header))
    }

    /// Whether a cell that should not be the first of a packet is one all the same: 56 bits of
    /// type, version and flow must agree by chance if it is not.
    fn is_header(&self, cell: &Cell) -> bool {
        let kind = FrameType(u16::from_be_bytes([cell.payload[0], cell.payload[1]]));
        let others = [FrameType::PROBE, FrameType::PARITY];
        if !self.kinds.contains(&kind) && !others.contains(&kind) {
            return false;
        }
        MetsHeader::decode(&cell.payload).is_ok_and(|header| {
            header.flow == self.flow && header.flags.0 & 0xf0 == 0 && header.offset < header.alf_len
        })
    }

    fn start(&mut self, kind: FrameType, header: Option<&MetsHeader>) -> Step {
        self.parity = kind == FrameType::PARITY;
        if self.parity {
            return self.of_parity(true);
        }
        let known = self.kinds.iter().position(|&other| other == kind);
        let layer = known.map_or(Layer::Base, |index| Layer::ALL[index]);
        let seq = header.map(|header| header.seq);
        let behind = match (self.frame, seq) {
            (Some(current), Some(seq)) => current.diff(seq),
            _ => 0,
        };
        let late = (1..=LATE).contains(&behind);
        let frame_start = !late && (seq.is_none() || seq != self.frame);
        if !late {
            self.frame = seq;
            self.layer = layer;
        }
        self.unknown_types += u64::from(frame_start && known.is_none());
        Step {
            unit: Unit {
                layer,
                frame_start,
                packet_start: true,
                delimiter: false,
            },
            gop_start: header.is_some_and(|header| header.flags.contains(Flags::GOP_START)),
            late,
            unknown: known.is_none(),
            parity: false,
        }
    }

    /// A unit of a parity goes where the base layer goes; the frame that it comes amidst goes on behind it.
    fn of_parity(&self, starts: bool) -> Step {
        Step {
            unit: Unit {
                layer: Layer::Base,
                frame_start: starts,
                packet_start: starts,
                delimiter: false,
            },
            gop_start: false,
            late: true,
            unknown: false,
            parity: true,
        }
    }

    fn inside(&self) -> Step {
        if self.parity {
            return self.of_parity(false);
        }
        Step {
            unit: Unit {
                layer: self.layer,
                frame_start: false,
                packet_start: false,
                delimiter: false,
            },
            gop_start: false,
            late: false,
            unknown: false,
            parity: false,
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

    fn includes(&self, layer: Layer) -> bool {
        self.mask.is_some_and(|mask| mask.includes(layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_wire::{MetsPacket, Payload, Segmenter};

    const FLOW: FlowId = FlowId(7);

    fn packet(seq: u32, layer: Layer, gop_start: bool, len: u32) -> MetsPacket {
        let mut flags = Flags::FIRST | Flags::LAST;
        if gop_start {
            flags |= Flags::GOP_START;
        }
        MetsPacket {
            header: MetsHeader {
                kind: FrameType::from_layer(layer),
                flags,
                flow: FLOW,
                seq: Serial(seq),
                timestamp_us: 0,
                e1_count: 0,
                e2_count: 0,
                alf_len: len,
                offset: 0,
            },
            payload: Payload::Zeros(len),
            congestion: false,
        }
    }

    /// I B P B I: levels 0, 2, 1, 2, 0.
    fn trace() -> Vec<MetsPacket> {
        [
            Layer::Base,
            Layer::E2,
            Layer::E1,
            Layer::E2,
            Layer::Base,
            Layer::E1,
        ]
        .into_iter()
        .enumerate()
        .map(|(i, layer)| packet(i as u32, layer, layer == Layer::Base, 100 + 90 * i as u32))
        .collect()
    }

    fn cells(packet: &MetsPacket, mark: Mark) -> Vec<Cell> {
        Segmenter::mets(packet, 0, 64, mark).unwrap().collect()
    }

    fn selector(mark: Mark) -> Selector {
        Selector::new(FLOW, &FlowSpec::default(), mark)
    }

    fn gate(level: Level) -> Gate {
        Gate {
            target: level,
            ..Gate::default()
        }
    }

    fn passed(mark: Mark, level: Level) -> Vec<bool> {
        let (mut selector, mut gate) = (selector(mark), gate(level));
        let trace = trace();
        let cells = trace.iter().flat_map(|packet| cells(packet, mark));
        cells
            .map(|cell| gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::GopStart))
            .collect()
    }

    #[test]
    fn both_marks_forward_the_same() {
        for level in [Level::BASE, Level::E1, Level::FULL] {
            assert_eq!(passed(Mark::First, level), passed(Mark::Last, level));
        }
        assert!(passed(Mark::Last, Level::FULL).iter().all(|&pass| pass));
        assert!(passed(Mark::Last, Level::BASE).contains(&false));
    }

    #[test]
    fn cells_and_datagrams_get_the_same_answers() {
        let (mut by_cell, mut by_packet) = (selector(Mark::Last), selector(Mark::Last));
        let (mut a, mut b) = (gate(Level::E1), gate(Level::E1));
        for packet in trace() {
            let whole = b.pass(&by_packet.on_packet(&packet.header), Lowering::GopStart);
            for cell in cells(&packet, Mark::Last) {
                let step = by_cell.on_cell(&cell).unwrap();
                assert_eq!(a.pass(&step, Lowering::GopStart), whole);
            }
        }
    }

    #[test]
    fn a_mask_changed_in_mid_frame_waits_for_the_gop() {
        let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::FULL));
        let mut pass = |gate: &mut Gate, cell: &Cell, how| {
            let step = selector.on_cell(cell).unwrap();
            gate.pass(&step, how)
        };
        for cell in cells(&packet(0, Layer::Base, true, 500), Mark::Last) {
            assert!(pass(&mut gate, &cell, Lowering::GopStart));
        }
        for (i, cell) in cells(&packet(1, Layer::E2, false, 500), Mark::Last)
            .iter()
            .enumerate()
        {
            if i == 3 {
                gate.target = Level::BASE;
            }
            assert!(
                pass(&mut gate, cell, Lowering::GopStart),
                "the frame stays whole"
            );
        }
        let e1 = cells(&packet(2, Layer::E1, false, 10), Mark::Last);
        assert!(
            pass(&mut gate, &e1[0], Lowering::GopStart),
            "the GOP stays whole"
        );
        let e1 = cells(&packet(3, Layer::E1, false, 10), Mark::Last);
        assert!(!pass(&mut gate, &e1[0], Lowering::NextFrame));
        gate.target = Level::FULL;
        let e1 = cells(&packet(4, Layer::E1, false, 10), Mark::Last);
        assert!(
            !pass(&mut gate, &e1[0], Lowering::NextFrame),
            "raising waits for a GOP"
        );
        let base = cells(&packet(5, Layer::Base, true, 10), Mark::Last);
        assert!(pass(&mut gate, &base[0], Lowering::NextFrame));
        let e2 = cells(&packet(6, Layer::E2, false, 10), Mark::Last);
        assert!(pass(&mut gate, &e2[0], Lowering::NextFrame));
    }

    #[test]
    fn after_a_lost_end_the_next_frame_is_found_by_its_header() {
        let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::BASE));
        for cell in cells(&packet(0, Layer::Base, true, 200), Mark::Last) {
            assert!(gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::GopStart));
        }
        let e2 = cells(&packet(1, Layer::E2, false, 400), Mark::Last);
        for cell in &e2[..e2.len() - 1] {
            assert!(!gate.pass(&selector.on_cell(cell).unwrap(), Lowering::GopStart));
        }
        for cell in cells(&packet(2, Layer::Base, true, 200), Mark::Last) {
            assert!(gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::GopStart));
        }
        assert_eq!(selector.resyncs, 1);
    }

    #[test]
    fn a_packet_without_end_is_over_when_its_length_is() {
        let mut selector = selector(Mark::Last);
        let mut endless = cells(&packet(0, Layer::E1, false, 100), Mark::Last)[0];
        endless.payload[2] = 0;
        for i in 0..=GUARD {
            let step = selector.on_cell(&endless_body(&endless, i)).unwrap();
            assert_eq!(step.unit.packet_start, i == 0 || i == GUARD, "cell {i}");
        }
    }

    fn endless_body(first: &Cell, i: u32) -> Cell {
        let mut cell = *first;
        if i > 0 {
            cell.payload = [0xff; 48];
        }
        cell.pti = layercast_wire::Pti::default();
        cell
    }

    #[test]
    fn unknown_types_go_everywhere_and_are_counted() {
        let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::BASE));
        let mut probe = packet(0, Layer::Base, false, 10);
        probe.header.kind = FrameType(0x77);
        assert!(gate.pass(&selector.on_packet(&probe.header), Lowering::GopStart));
        assert_eq!(selector.unknown_types, 1);
        assert_eq!(gate.mask, None, "an unknown type starts no GOP");
    }

    #[test]
    fn with_the_first_cell_marked_cells_before_it_are_orphans() {
        let mut selector = selector(Mark::First);
        let cells = cells(&packet(0, Layer::Base, true, 200), Mark::First);
        assert_eq!(selector.on_cell(&cells[1]), None);
        assert!(selector.on_cell(&cells[0]).is_some());
        assert!(selector.on_cell(&cells[1]).is_some());
    }

    #[test]
    fn a_parity_goes_with_the_base_layer_and_leaves_the_frame_around_it_alone() {
        for (mark, level) in [(Mark::Last, Level::BASE), (Mark::Last, Level::FULL)] {
            let (mut selector, mut gate) = (selector(mark), gate(level));
            let mut parity = packet(0, Layer::Base, false, 300);
            parity.header.kind = FrameType::PARITY;
            let mut early = cells(&parity, mark).into_iter();
            assert!(
                early.all(|it| !gate.pass(&selector.on_cell(&it).unwrap(), Lowering::NextFrame)),
                "nothing before the first GOP"
            );
            for cell in cells(&packet(0, Layer::Base, true, 200), mark) {
                assert!(gate.pass(&selector.on_cell(&cell).unwrap(), Lowering::NextFrame));
            }
            let mut fragment = packet(1, Layer::E2, false, 200);
            fragment.header.alf_len = 400;
            fragment.header.flags = Flags::FIRST;
            let mut passes = |gate: &mut Gate, packet: &MetsPacket, starts: bool| {
                let cells = cells(packet, mark);
                let steps: Vec<Step> = cells
                    .iter()
                    .map(|cell| selector.on_cell(cell).unwrap())
                    .collect();
                assert!(steps.iter().skip(1).all(|it| !it.unit.frame_start));
                assert_eq!(steps[0].unit.frame_start, starts);
                let parity = packet.header.kind == FrameType::PARITY;
                assert!(steps.iter().all(|it| it.parity == parity));
                let passed = steps.iter().filter(|it| gate.pass(it, Lowering::NextFrame));
                passed.count() == steps.len()
            };
            let full = level == Level::FULL;
            assert_eq!(passes(&mut gate, &fragment, true), full);
            // However far behind the parity is.
            parity.header.seq = Serial(u32::MAX - 100);
            gate.target = Level::BASE;
            assert!(passes(&mut gate, &parity, true));
            (fragment.header.offset, fragment.header.flags) = (200, Flags::LAST);
            assert_eq!(
                passes(&mut gate, &fragment, false),
                full,
                "the frame stays whole"
            );
        }
    }

    #[test]
    fn fragments_share_the_fate_of_their_frame() {
        let (mut selector, mut gate) = (selector(Mark::Last), gate(Level::FULL));
        let mut header = packet(0, Layer::Base, true, 3_000).header;
        assert!(gate.pass(&selector.on_packet(&header), Lowering::NextFrame));
        header.kind = FrameType::E2;
        header.seq = Serial(1);
        header.flags = Flags::FIRST;
        assert!(gate.pass(&selector.on_packet(&header), Lowering::NextFrame));
        gate.target = Level::BASE;
        header.flags = Flags::LAST;
        header.offset = 1_176;
        let step = selector.on_packet(&header);
        assert!(!step.unit.frame_start);
        assert!(gate.pass(&step, Lowering::NextFrame));
    }
}
