use layercast_core::{
    CellRate, FlowId, FlowSpec, Layer, Level, OnPlenty, OnScarce, PerLayer, Serial, Span, Time,
};
use layercast_media::{FilterRule, FlowFilter, Frame};
use layercast_qos::{
    BucketParams, Demand, DemandProbe, Grant, LevelPair, PEAK_FACTOR, ProbeConfig, ProbeMode,
    Shaper, ShaperConfig, ShaperError, Want, queue_bound,
};
use layercast_wire::{
    AdapterMsg, Assembler, Carriage, DATAGRAM_PAYLOAD, Flags, FlowInfo, LinkPdu, MAX_CELL_PAYLOAD,
    Mark, MetsHeader, MetsPacket, Passing, Payload, Reassembler, Segmenter, packet_of,
};

use crate::switch::FilterStats;
use crate::switch::flow::{UpstreamGrant, Wish};
use crate::switch::selector::{Step, class_of};
use layercast_link::Unit;

/// A filter on one branch of a flow: takes its frames apart from the stream, filters them and sends
/// them on. Towards the receivers it is the source of the flow, towards the source a receiver
/// (virtual source and sink, specs/mets.md 2.11).
#[derive(Debug)]
pub(crate) struct FilterPoint {
    filter: FlowFilter,
    /// Asked for by a receiver, rather than configured here or chosen by the server.
    pub on_demand: bool,
    /// From the next GOP on there is no filter any more.
    pub ending: bool,
    /// A GOP has started since it is there: frames before that pass it by.
    started: bool,
    carriage: Carriage,
    mark: Mark,
    mtu: usize,
    reassembler: Reassembler,
    assembler: Assembler,
    /// A frame is coming in.
    open: bool,
    shaper: Shaper<Out>,
    params: BucketParams,
    /// ADAPT that waits for the frame that is coming in.
    held: Option<AdapterMsg>,
    /// The last message sent downstream.
    said: Option<Said>,
    /// Counts our ADAPT messages.
    era: Serial,
    /// Congestion on the way from the source.
    congested: bool,
    probe: DemandProbe,
    next_era: Time,
    dropped: PerLayer<u64>,
    broken: u64,
}

/// An output: media, or an ADAPT in its place among them.
#[derive(Debug)]
pub(crate) enum Out {
    Unit(LinkPdu, Unit),
    Adapt(AdapterMsg),
}

#[derive(Clone, Copy, Debug)]
struct Said {
    level: Level,
    rate: CellRate,
    at: Time,
}

impl FilterPoint {
    /// `line` is what the link of the branch carries.
    pub fn new(
        now: Time,
        rule: FilterRule,
        flow: &FlowInfo,
        carriage: Carriage,
        line: CellRate,
    ) -> FilterPoint {
        let spec = &flow.spec;
        let rate = (f64::from(spec.rate_at(Level::FULL).0) * PEAK_FACTOR) as u32;
        let params = BucketParams::for_rate(CellRate(rate.max(1)).min(line));
        let gop = spec.frame_rate.due(u64::from(spec.gop_n));
        let mean = u64::from(spec.rate_at(Level::FULL).0);
        let in_gop = gop.mul_div(mean, Span::from_secs(1).as_ps()).as_ps();
        let largest = layercast_core::aal5_cells(spec.max_frame as usize * 2);
        let bound = queue_bound(u32::try_from(in_gop).unwrap_or(u32::MAX), largest);
        let mut shaper = Shaper::new(ShaperConfig::default());
        shaper.add_flow(now, flow.id, params, bound);
        FilterPoint {
            filter: FlowFilter::new(rule, spec),
            on_demand: false,
            ending: false,
            started: false,
            carriage,
            mark: flow.aal5_mark,
            mtu: match carriage {
                Carriage::Cells => MAX_CELL_PAYLOAD,
                Carriage::Datagrams => DATAGRAM_PAYLOAD,
            },
            reassembler: Reassembler::new(flow.aal5_mark),
            assembler: Assembler::new(spec.max_frame),
            open: false,
            shaper,
            params,
            held: None,
            said: None,
            era: Serial(0),
            congested: false,
            probe: DemandProbe::new(ProbeConfig {
                mode: ProbeMode::Backoff,
                maintains: true,
                min_level: Level::BASE,
                preferred: Level::FULL,
                on_scarce: OnScarce::DropLayer,
                on_plenty: OnPlenty::AddLayer,
            }),
            next_era: now,
            dropped: PerLayer::default(),
            broken: 0,
        }
    }

    pub fn rule(&self) -> FilterRule {
        self.filter.rule()
    }

    pub fn stats(&self) -> FilterStats {
        FilterStats {
            rule: self.filter.rule(),
            filter: self.filter.stats(),
            dropped: self.dropped,
            broken: self.broken,
        }
    }

    /// Whether a unit goes through the filter: from the first start of a GOP on.
    pub fn takes(&mut self, step: &Step) -> bool {
        self.started |= step.gop_start && step.unit.frame_start && !step.late;
        self.started && !self.picks_layers()
    }

    /// Whether it only picks layers: the media selector does that unit by unit, without taking frames
    /// apart (specs/mets.md 2.13).
    pub fn picks_layers(&self) -> bool {
        matches!(self.rule(), FilterRule::Keep(_))
    }

    /// Takes a unit of a frame that the branch gets, which may have `rate` above its base layer.
    pub fn take(&mut self, now: Time, pdu: &LinkPdu, step: &Step, flow: FlowId, rate: CellRate) {
        self.congested |= pdu.congestion();
        let level = Level::FULL;
        self.open = true;
        let packet = match pdu {
            LinkPdu::Mets(packet) => packet.clone(),
            LinkPdu::Cell(cell) => match self.reassembler.push(cell).map(|it| it.map(packet_of)) {
                None => return,
                Some(Ok(Ok(packet))) => packet,
                Some(_) => {
                    self.broken += 1;
                    return self.closed(now, flow);
                }
            },
            LinkPdu::Adapter(_) => return,
        };
        if packet.header.check(packet.payload.len()).is_err() {
            self.broken += 1;
            return self.closed(now, flow);
        }
        if self.carriage == Carriage::Datagrams {
            self.mtu = self.mtu.max(packet.payload.len());
        }
        let travelled = packet.payload.len();
        match self
            .assembler
            .insert(packet, travelled, step.unit.layer, level)
        {
            Ok(Some(whole)) => {
                self.assembler.forget_through(whole.header.seq);
                self.send(now, flow, whole.header, whole.layer, whole.payload, rate);
                self.closed(now, flow);
            }
            Ok(None) => {}
            Err(_) => self.broken += 1,
        }
    }

    /// No frame is coming in any more: an ADAPT that waited may go.
    fn closed(&mut self, now: Time, flow: FlowId) {
        self.open = false;
        if let Some(message) = self.held.take() {
            self.queue_adapt(now, flow, message);
        }
    }

    fn send(
        &mut self,
        now: Time,
        flow: FlowId,
        header: MetsHeader,
        layer: Layer,
        payload: Payload,
        rate: CellRate,
    ) {
        let gop_start = header.flags.contains(layercast_wire::Flags::GOP_START);
        if gop_start {
            self.filter.set_rate(rate, self.filter.level_for(rate));
        }
        let filtered = self.filter.apply(frame_of(layer, gop_start, payload));
        let payload = match filtered.data {
            Some(data) => Payload::Bytes(data),
            None => Payload::Zeros(filtered.size),
        };
        // What passes is not what the source stated: ADAPT says it.
        let header = MetsHeader {
            passing: Passing::default(),
            ..header
        };
        let packets: Vec<MetsPacket> = MetsPacket::fragments(header, &payload, self.mtu).collect();
        let cost = packets
            .iter()
            .map(|packet| self.carriage.cost(packet.payload.len()));
        match self.shaper.make_room(flow, layer, cost.sum()) {
            Ok(()) => {}
            Err(ShaperError::Dropped(_)) => return,
            Err(_) => {
                self.dropped[layer] += 1;
                return;
            }
        }
        let class = class_of(Some(&header), layer, true);
        let mut first = true;
        for packet in packets {
            let key = packet.header.seq.0;
            let is_key = packet.header.flags.contains(Flags::GOP_START);
            let mut units = Units {
                unit: Unit {
                    layer,
                    class,
                    is_key,
                    frame: key,
                    ..Unit::MESSAGE
                },
                first: &mut first,
            };
            match self.carriage {
                Carriage::Datagrams => {
                    let unit = units.next(true, false);
                    self.push(now, flow, key, LinkPdu::Mets(packet), unit);
                }
                Carriage::Cells => {
                    let Ok(cells) = Segmenter::mets(&packet, 0, 0, self.mark) else {
                        self.broken += 1;
                        return;
                    };
                    let mut starts = true;
                    for cell in cells {
                        let ends = self.mark == Mark::Last && cell.pti.auu();
                        let unit = units.next(starts, ends);
                        starts = false;
                        self.push(now, flow, key, LinkPdu::Cell(cell), unit);
                    }
                }
            }
        }
    }

    fn push(&mut self, now: Time, flow: FlowId, key: u32, pdu: LinkPdu, unit: Unit) {
        let (cells, layer) = (pdu.cells(), unit.layer);
        // Room was made for all of the frame.
        let _ = self
            .shaper
            .enqueue(now, flow, layer, key, cells, Out::Unit(pdu, unit));
    }

    /// Records a message that was sent.
    pub fn say(&mut self, now: Time, message: &AdapterMsg) {
        self.said = Some(Said {
            level: message.max,
            rate: message.rate_max,
            at: now,
        });
    }

    /// Sends ADAPT behind all frames that began to come in before.
    pub fn announce(&mut self, now: Time, flow: FlowId, message: AdapterMsg) {
        self.say(now, &message);
        match self.open {
            true => self.held = Some(message),
            false => self.queue_adapt(now, flow, message),
        }
    }

    fn queue_adapt(&mut self, now: Time, flow: FlowId, message: AdapterMsg) {
        // Counted like a frame of its own: no media frame has this number for long.
        let key = message.era.0 ^ u32::MAX;
        let out = Out::Adapt(message);
        // A full queue loses it; the next one repairs that.
        let _ = self.shaper.enqueue(now, flow, Layer::Base, key, 1, out);
    }

    /// Number of the next ADAPT, above those the source sent here so far.
    pub fn next_number(&mut self, of_source: Serial) -> Serial {
        if of_source.is_after(self.era) {
            self.era = of_source;
        }
        self.era = self.era.plus(1);
        self.era
    }

    /// Number of our last ADAPT.
    pub fn number(&self) -> Serial {
        self.era
    }

    /// Whether the receivers must be notified: the value changed, or no message was sent for an era.
    pub fn must_say(&self, now: Time, level: Level, rate: CellRate, era: Span) -> bool {
        self.said.is_none_or(|said| {
            let off = said.rate.0.abs_diff(rate.0);
            said.level != level || off > said.rate.0 / 100 || now.since(said.at) >= era
        })
    }

    /// The next that leaves by `now`.
    pub fn run(&mut self, now: Time) -> Option<Out> {
        self.shaper.on_tick(now);
        self.shaper.pop().map(|(_, out)| out)
    }

    /// When [`run`](FilterPoint::run) has something to do.
    pub fn next(&self) -> Option<Time> {
        self.shaper.next_tick()
    }

    /// Everything that waits, immediately: the filter is taken away.
    pub fn flush(&mut self, flow: FlowId) -> Vec<Out> {
        let released = std::iter::from_fn(|| self.shaper.pop().map(|(_, out)| out));
        let mut all: Vec<Out> = released.collect();
        all.extend(self.shaper.clear(flow).map(|(_, out)| out));
        all.extend(self.held.take().map(Out::Adapt));
        all
    }

    /// How long the queued units of `flow` take to leave.
    pub fn drain(&self, flow: FlowId) -> Span {
        let queued = self.shaper.stats(flow).map_or(0, |stats| stats.queued);
        match queued {
            0 => Span::ZERO,
            queued => self.params.drain(u32::try_from(queued).unwrap_or(u32::MAX)),
        }
    }

    /// What the link downstream is asked for, to be divided fairly.
    pub fn demand(&self, flow: &FlowInfo, continuous: bool, wish: Option<Wish>) -> Demand {
        let id = flow.id;
        let Some(wish) = wish else {
            return Demand::levels(id, LevelPair::BASE, &flow.spec);
        };
        let want = match self.rule() {
            FilterRule::Drs => Want::Rate(wish.rate),
            _ if continuous => Want::Rate(self.behind(wish.rate, &flow.spec)),
            rule => {
                let pair = wish.pair.reduce_to(rule.top());
                Want::Levels {
                    min: pair.min(),
                    max: pair.max(),
                    l1: self.filter.above_base(&flow.spec, Level::E1),
                    l2: self.filter.above_base(&flow.spec, Level::FULL),
                }
            }
        };
        Demand { flow: id, want }
    }

    /// The level downstream and its rate above the base layer, of what the source gives.
    pub fn served(
        &self,
        upstream_grant: &UpstreamGrant,
        grant: Grant,
        spec: &FlowSpec,
        continuous: bool,
    ) -> (Level, CellRate) {
        let top = self.rule().top();
        if self.rule() == FilterRule::Drs {
            let rate = grant.rate.min(upstream_grant.rate_max);
            return match self.filter.level_for(rate).min(upstream_grant.max) {
                Level::BASE => (Level::BASE, CellRate(0)),
                level => (level, rate),
            };
        }
        if continuous {
            let behind = UpstreamGrant {
                rate_min: self.behind(upstream_grant.rate_min, spec),
                rate_max: self.behind(upstream_grant.rate_max, spec),
                ..*upstream_grant
            };
            let (level, rate) = behind.fitting(grant.rate);
            return (level.min(top), rate);
        }
        let level = upstream_grant.max.min(grant.level).min(top);
        (level, self.filter.above_base(spec, level))
    }

    /// What the source is asked for: the demand downstream, converted by the ratio of the filter and
    /// lowered where the way from the source is congested.
    pub fn upstream(&self, wish: Wish, grant: Grant, spec: &FlowSpec, continuous: bool) -> Wish {
        let most = self.probe.want();
        let pair = match self.rule() {
            FilterRule::Drs if grant.rate.0 > 0 => wish.pair,
            rule => wish.pair.reduce_to(grant.level).reduce_to(rule.top()),
        };
        let pair = pair.reduce_to(most);
        let top = spec.above_base(pair.max());
        let rate = match self.rule() {
            FilterRule::Drs => wish.rate,
            // Behind the filter less is left: before it there may be as much more.
            _ if continuous && grant.rate >= self.behind(wish.rate, spec) => wish.rate,
            _ if continuous => self.before(grant.rate, spec),
            _ => top,
        };
        let rate = rate.min(top);
        let levels = wish.levels;
        Wish { pair, levels, rate }
    }

    /// A new era of the virtual sink starts: whether it is time for its RES.
    pub fn era_due(&mut self, now: Time, era: Span, given: Level) -> bool {
        if now < self.next_era {
            return false;
        }
        while self.next_era <= now {
            self.next_era = self.next_era.saturating_add(era);
        }
        let congested = std::mem::take(&mut self.congested);
        self.probe.on_era(congested, given, Level::FULL);
        true
    }

    /// Cells/s that `rate` above the base layer becomes.
    fn behind(&self, rate: CellRate, spec: &FlowSpec) -> CellRate {
        let (whole, left) = self.ratio(spec);
        CellRate((u64::from(rate.0) * left / whole).min(u64::from(u32::MAX)) as u32)
    }

    /// Cells/s above the base layer that become `rate`.
    fn before(&self, rate: CellRate, spec: &FlowSpec) -> CellRate {
        let (whole, left) = self.ratio(spec);
        CellRate((u64::from(rate.0) * whole / left).min(u64::from(u32::MAX)) as u32)
    }

    fn ratio(&self, spec: &FlowSpec) -> (u64, u64) {
        let whole = u64::from(spec.above_base(Level::FULL).0);
        let left = u64::from(self.filter.above_base(spec, Level::FULL).0);
        (whole.max(1), left.max(1))
    }

    /// What of `rate` goes to the lower part of `level` where a switch further down cannot take all.
    pub fn lower_part(&self, level: Level, rate: CellRate) -> (Level, CellRate) {
        match level {
            Level::FULL if self.rule() == FilterRule::Drs => (Level::E1, self.filter.e1_part(rate)),
            _ => (level, rate),
        }
    }
}

/// Tells the units of one frame apart.
struct Units<'a> {
    unit: Unit,
    first: &'a mut bool,
}

impl Units<'_> {
    fn next(&mut self, packet_start: bool, delimiter: bool) -> Unit {
        Unit {
            frame_start: std::mem::replace(self.first, false),
            packet_start,
            delimiter,
            ..self.unit
        }
    }
}

/// A frame as the filters take it.
fn frame_of(layer: Layer, gop_start: bool, payload: Payload) -> Frame {
    let size = payload.len() as u32;
    Frame {
        data: match payload {
            // Cells carry synthetic media as the zeros that they stand for.
            Payload::Bytes(bytes) if bytes.iter().any(|&byte| byte != 0) => Some(bytes),
            _ => None,
        },
        ..Frame::of_layer(layer, gop_start, size)
    }
}

/// Where a filter stands: on the branches of a flow towards one neighbour, or all.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterPlace {
    /// Name of the flow.
    pub flow: String,
    /// Name of the neighbour, as its port is called; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What it does.
    pub rule: FilterRule,
}

impl FilterPlace {
    /// Whether it stands on the branch of `flow` towards `neighbour`.
    pub(crate) fn is_on(&self, flow: &FlowInfo, neighbour: &str) -> bool {
        self.flow == flow.name && self.to.as_ref().is_none_or(|to| to == neighbour)
    }
}
