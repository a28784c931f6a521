//! The least of a source and of a receiver.

use super::join_ack;
use layercast_core::{
    CellRate, FlowId, FlowSpec, Layer, LayerRate, Level, LevelSet, NodeId, PerLayer, PortId,
    Serial, Span, Time,
};
use layercast_wire::{
    AdapterKind, AdapterMsg, Carriage, Downward, Flags, FlowInfo, FrameType, LinkPdu, Mark, Member,
    MetsHeader, MetsPacket, Passing, Payload, Reassembler, Refusal, Segmenter, Signal, Sound,
    Upward, Waited, packet_of,
};

const GOP: [Layer; 12] = {
    use Layer::{Base as I, E1 as P, E2 as B};
    [I, B, B, P, B, B, P, B, B, P, B, B]
};

/// Sends a GOP `IBBPBBPBBPBB` at 24 frames a second, all layers, whatever it is asked.
pub struct Source {
    pub info: FlowInfo,
    pub carriage: Carriage,
    /// Cells of an I, P and B picture.
    pub sizes: PerLayer<u32>,
    pub start: Time,
    pub frame: u32,
    pub closed: bool,
    /// What it grants at most.
    pub limit: Level,
    pub refuse: bool,
    pub joins: u32,
    pub leaves: u32,
    pub reports: u32,
    /// Members that left, as the tree reports them.
    pub left: Vec<String>,
    /// End-to-end messages of members, with their senders.
    pub heard: Vec<(String, Upward)>,
    pub asked: Vec<(Time, Level)>,
    era: Serial,
}

impl Source {
    /// A flow with these mean cells/s by layer and frames of a size that fits.
    pub fn new(id: u32, carriage: Carriage, rates: [u32; 3]) -> Source {
        let rate = |mean, frames: u32| LayerRate {
            mean: CellRate(mean),
            burst: mean / frames,
            ..LayerRate::default()
        };
        // Of 24 frames a second two are I, six are P, sixteen are B.
        let layers = PerLayer {
            base: rate(rates[0], 2),
            e1: rate(rates[1], 6),
            e2: rate(rates[2], 16),
        };
        let spec = FlowSpec {
            flow_id: FlowId(id),
            layers,
            ..FlowSpec::default()
        };
        Source {
            info: FlowInfo {
                spec,
                clock: "one".into(),
                ..FlowInfo::new(FlowId(id), &format!("flow-{id}"), "atc")
            },
            carriage,
            sizes: PerLayer {
                base: rates[0] / 2,
                e1: rates[1] / 6,
                e2: rates[2] / 16,
            },
            start: Time::ZERO,
            frame: 0,
            closed: false,
            limit: Level::FULL,
            refuse: false,
            joins: 0,
            leaves: 0,
            reports: 0,
            left: Vec::new(),
            heard: Vec::new(),
            asked: Vec::new(),
            era: Serial(u32::MAX - 3),
        }
    }

    /// Canyon of specs/mets.md 3.2: 480, 960, 1920 cells/s.
    pub fn canyon(id: u32, carriage: Carriage) -> Source {
        Source::new(id, carriage, [480, 960, 1_920])
    }

    pub fn next_frame(&self) -> Option<Time> {
        let due = self.info.spec.frame_rate.due(self.frame.into());
        (!self.closed).then(|| self.start + due)
    }

    pub fn kind_of(&self, frame: u32) -> Layer {
        GOP[frame as usize % 12]
    }

    /// The packets of the next frame and when they are sent: spread over a third of its time.
    pub fn emit(&mut self, now: Time) -> Vec<(Time, LinkPdu)> {
        if self.closed || self.next_frame() != Some(now) {
            return Vec::new();
        }
        let layer = GOP[self.frame as usize % 12];
        let cells = self.sizes[layer];
        let seq = self.frame;
        self.frame += 1;
        if cells == 0 {
            return Vec::new();
        }
        let len = cells * 48 - 32;
        let pdus = self.packets(seq, layer, len);
        let gap = Span::from_ms(14).mul_div(1, pdus.len() as u64);
        let at = |i: usize| now + gap.times(i as u64);
        pdus.into_iter()
            .enumerate()
            .map(|(i, pdu)| (at(i), pdu))
            .collect()
    }

    fn packets(&self, seq: u32, layer: Layer, len: u32) -> Vec<LinkPdu> {
        let mtu = match self.carriage {
            Carriage::Cells => 32_768,
            Carriage::Datagrams => 1_176,
        };
        let mut pdus = Vec::new();
        for offset in (0..len).step_by(mtu as usize) {
            let packet = packet(&self.info, seq, layer, len, offset, mtu);
            match self.carriage {
                Carriage::Cells => {
                    let vci = self.vci();
                    let cells = Segmenter::mets(&packet, 0, vci, self.info.aal5_mark).unwrap();
                    pdus.extend(cells.map(LinkPdu::Cell));
                }
                Carriage::Datagrams => pdus.push(LinkPdu::Mets(packet)),
            }
        }
        pdus
    }

    fn vci(&self) -> u16 {
        100 + self.info.id.0 as u16
    }

    /// Answers what a member sends end to end with a message of the same number.
    pub fn on_signal(&mut self, signal: &Signal) -> Option<Signal> {
        let ours = self.info.id;
        match *signal {
            Signal::Left { flow, ref member } if flow == ours => {
                self.left.push(member.name.clone());
                None
            }
            Signal::ToSource {
                flow,
                ref member,
                ref body,
            } if flow == ours => {
                self.heard.push((member.name.clone(), body.clone()));
                let Upward::App(control) = body.clone() else {
                    return None;
                };
                Some(Signal::ToMember {
                    flow,
                    member: member.clone(),
                    body: Downward::App(control),
                })
            }
            Signal::Join { flow, .. } if flow == ours && self.refuse => {
                let refusal = Refusal {
                    node: "atc".into(),
                    resource: layercast_wire::Resource::HostCpu,
                    needed: 500,
                    available: 100,
                    measured: None,
                };
                Some(Signal::JoinNak { flow, refusal })
            }
            Signal::Join { flow, .. } if flow == ours => {
                self.joins += 1;
                let (vci, level) = (self.vci(), Level::BASE);
                Some(join_ack(flow, vci, level))
            }
            Signal::Leave { flow, .. } if flow == ours => {
                self.leaves += 1;
                None
            }
            Signal::Report { flow, .. } if flow == ours => {
                self.reports += 1;
                None
            }
            _ => None,
        }
    }

    /// Answers RES with ADAPT.
    pub fn on_pdu(&mut self, now: Time, pdu: &LinkPdu) -> Option<LinkPdu> {
        let res = adapter(pdu).filter(|res| res.flow == self.info.id)?;
        self.asked.push((now, res.max));
        self.era = self.era.plus(1);
        let level = res.max.min(self.limit);
        let adapt = message(&self.info, AdapterKind::Adapt, self.era, NodeId(1), level);
        Some(on_link(self.carriage, adapt))
    }
}

pub fn packet(
    info: &FlowInfo,
    seq: u32,
    layer: Layer,
    len: u32,
    offset: u32,
    mtu: u32,
) -> MetsPacket {
    let part = mtu.min(len - offset);
    let mut flags = Flags::default();
    for (flag, set) in [
        (Flags::GOP_START, layer == Layer::Base),
        (Flags::FIRST, offset == 0),
        (Flags::LAST, offset + part == len),
    ] {
        if set {
            flags |= flag;
        }
    }
    MetsPacket {
        header: MetsHeader {
            kind: FrameType::from_layer(layer),
            flags: info.epoch.stamp(flags),
            flow: info.id,
            seq: Serial(seq),
            timestamp_us: 0,
            e1_count: 0,
            e2_count: 0,
            alf_len: len,
            offset,
            waited: Waited::default(),
            sound: Sound::default(),
            passing: Passing::default(),
        },
        payload: Payload::Zeros(part),
        congestion: false,
    }
}

fn on_link(carriage: Carriage, message: AdapterMsg) -> LinkPdu {
    match carriage {
        Carriage::Cells => LinkPdu::Cell(message.to_cell()),
        Carriage::Datagrams => LinkPdu::Adapter(message),
    }
}

fn adapter(pdu: &LinkPdu) -> Option<AdapterMsg> {
    match pdu {
        LinkPdu::Adapter(message) => Some(*message),
        LinkPdu::Cell(cell) if cell.vci == layercast_wire::ADAPTER_VCI => {
            AdapterMsg::from_cell(cell).ok()
        }
        _ => None,
    }
}

pub fn message(
    info: &FlowInfo,
    kind: AdapterKind,
    era: Serial,
    origin: NodeId,
    level: Level,
) -> AdapterMsg {
    AdapterMsg {
        kind,
        group: info.group,
        flow: info.id,
        era,
        origin,
        min: level.down(),
        max: level,
        hops: 0,
        levels: LevelSet::EMPTY,
        rate_min: info.spec.above_base(level.down()),
        rate_max: info.spec.above_base(level),
        residual: CellRate(0),
        drain: CellRate(0),
    }
}

/// A frame that arrived whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Got {
    pub at: Time,
    pub seq: u32,
    pub layer: Layer,
    /// Level of the last ADAPT before its first unit.
    pub told: Level,
}

/// Joins one flow, requests one level every era, and records what it receives.
pub struct Receiver {
    pub node: usize,
    pub port: PortId,
    pub flow: u32,
    pub member: Member,
    pub want: Level,
    pub carriage: Carriage,
    pub silent: bool,
    pub joined: bool,
    pub info: Option<FlowInfo>,
    pub refusals: Vec<Refusal>,
    /// End-to-end messages of the source, with their receivers.
    pub heard: Vec<(String, Downward)>,
    pub closed_at: Option<Time>,
    /// The `Close` that came.
    pub close: Option<Signal>,
    pub adapts: Vec<(Time, Level)>,
    pub frames: Vec<Got>,
    pub marked: u64,
    era: Serial,
    cells: Reassembler,
    /// Frame of datagrams being put together, and how many bytes of it are here.
    open: Option<(u32, u32)>,
    /// Level reported before the packet that is being received.
    latched: Level,
    in_packet: bool,
    frame_told: Level,
}

impl Receiver {
    pub fn new(name: &str, flow: u32, want: Level, carriage: Carriage) -> Receiver {
        let id = name
            .bytes()
            .fold(0, |sum: u32, byte| sum.wrapping_mul(31) ^ u32::from(byte));
        Receiver {
            node: 0,
            port: PortId(0),
            flow,
            member: Member {
                name: name.into(),
                id: NodeId(id),
            },
            want,
            carriage,
            silent: false,
            joined: false,
            info: None,
            refusals: Vec::new(),
            heard: Vec::new(),
            closed_at: None,
            close: None,
            adapts: Vec::new(),
            frames: Vec::new(),
            marked: 0,
            era: Serial(0),
            cells: Reassembler::new(Mark::Last),
            open: None,
            latched: Level::BASE,
            in_packet: false,
            frame_told: Level::BASE,
        }
    }

    pub fn leave(&self) -> Signal {
        Signal::Leave {
            flow: FlowId(self.flow),
            member: self.member.clone(),
        }
    }

    pub fn on_signal(&mut self, now: Time, signal: Signal) -> Option<Signal> {
        if self.silent {
            return None;
        }
        match signal {
            Signal::Advertise { flow } if flow.id.0 == self.flow => {
                let (id, epoch) = (flow.id, flow.epoch);
                self.info = Some(*flow);
                Some(Signal::Join {
                    flow: id,
                    epoch,
                    member: self.member.clone(),
                    level: self.want,
                    proof: None,
                    again: false,
                    answer: None,
                })
            }
            Signal::JoinAck { flow, .. } if flow.0 == self.flow => {
                self.joined = true;
                None
            }
            Signal::JoinNak { refusal, .. } => {
                self.refusals.push(refusal);
                self.joined = false;
                None
            }
            Signal::ToMember { member, body, .. } => {
                self.heard.push((member.name, body));
                None
            }
            Signal::Close { .. } => {
                self.closed_at = Some(now);
                self.close = Some(signal);
                None
            }
            _ => None,
        }
    }

    pub fn era(&mut self) -> Option<LinkPdu> {
        let info = self.info.as_ref().filter(|_| self.joined && !self.silent)?;
        self.era = self.era.plus(1);
        let res = message(info, AdapterKind::Res, self.era, self.member.id, self.want);
        Some(on_link(self.carriage, res))
    }

    pub fn told(&self) -> Level {
        self.adapts.last().map_or(Level::BASE, |&(_, level)| level)
    }

    pub fn on_pdu(&mut self, now: Time, pdu: LinkPdu) {
        if self.silent {
            return;
        }
        self.marked += u64::from(pdu.congestion());
        if let Some(adapt) = adapter(&pdu) {
            self.adapts.push((now, adapt.max));
            return;
        }
        match pdu {
            LinkPdu::Cell(cell) => {
                if !self.in_packet {
                    self.latched = self.told();
                }
                self.in_packet = !cell.pti.auu();
                if let Some(Ok(frame)) = self.cells.push(&cell) {
                    self.on_packet(now, &packet_of(frame).unwrap());
                }
            }
            LinkPdu::Mets(packet) => {
                self.latched = self.told();
                self.on_packet(now, &packet);
            }
            LinkPdu::Adapter(_) => {}
        }
    }

    fn on_packet(&mut self, now: Time, packet: &MetsPacket) {
        let seq = packet.header.seq.0;
        let before = match self.open {
            Some((open, bytes)) if open == seq => bytes,
            _ => {
                self.frame_told = self.latched;
                0
            }
        };
        let bytes = before + packet.payload.len() as u32;
        self.open = Some((seq, bytes));
        if bytes == packet.header.alf_len {
            self.got(now, &packet.header);
        }
    }

    fn got(&mut self, at: Time, header: &MetsHeader) {
        self.frames.push(Got {
            at,
            seq: header.seq.0,
            layer: header.kind.layer().unwrap(),
            told: self.frame_told,
        });
    }

    /// How many frames of each layer came since `from`.
    pub fn count(&self, from: Time) -> PerLayer<u32> {
        let mut count = PerLayer::default();
        for frame in self.frames.iter().filter(|frame| frame.at >= from) {
            count[frame.layer] += 1;
        }
        count
    }

    /// Checks every GOP from the first I picture on: complete at one level, no base layer missing, and no level
    /// but the one reported before it. The last GOP may be cut short.
    pub fn check(&self) {
        let Some(first) = self.frames.first() else {
            return;
        };
        assert_eq!(first.layer, Layer::Base, "starts with an I picture");
        assert_eq!(first.seq % 12, 0);
        let last = self.frames.last().unwrap().seq / 12;
        for gop in first.seq / 12..last {
            let in_gop = self.frames.iter().filter(|frame| frame.seq / 12 == gop);
            let frames: Vec<Got> = in_gop.copied().collect();
            let told = frames.first().expect("no GOP is missing").told;
            let offered = GOP.iter().filter(|&&layer| told.includes(layer)).count();
            assert_eq!(frames[0].layer, Layer::Base, "GOP {gop}");
            assert_eq!(frames.len(), offered, "GOP {gop} at level {told}");
        }
    }
}
