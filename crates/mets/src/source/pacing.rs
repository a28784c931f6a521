use std::collections::VecDeque;

use layercast_core::{
    CellRate, FlowId, FlowSpec, Layer, LayerRate, Level, LevelSet, PerLayer, Span, Time,
};
use layercast_qos::{
    BucketParams, SerialHead, SerialQueue, Shaper, ShaperConfig, ShaperError, queue_bound,
};
use layercast_wire::{ADAPTER_VCI, FlowInfo, LinkPdu};

use super::{Shaping, SourceError};

const SECOND: Span = Span::from_secs(1);
/// The part of the delay bound that the shaper may use up (numerator, denominator); the rest is for the path.
const MOST: (u64, u64) = (3, 4);

/// The frames of a flow that are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// The layers up to a level.
    UpTo(Level),
    /// These of alternative levels.
    Set(LevelSet),
}

impl Sent {
    /// One level alone, of a flow of `spec`.
    fn level(spec: &FlowSpec, level: Level) -> Sent {
        match spec.composition.is_additive() {
            true => Sent::UpTo(level),
            false => Sent::Set(LevelSet::of(level.min(spec.top_level()))),
        }
    }

    /// Whether a frame is sent; `common` ones go with every level.
    pub fn includes(self, layer: Layer, common: bool) -> bool {
        match self {
            Sent::UpTo(level) => level.includes(layer),
            Sent::Set(set) => common || set.contains(layer.level()),
        }
    }

    /// Cells/s of it.
    pub fn mean(self, spec: &FlowSpec) -> CellRate {
        match self {
            Sent::UpTo(level) => spec.rate_at(level),
            Sent::Set(set) => spec.rate_of_set(set),
        }
    }

    /// How many times as much it is as the most that one receiver gets of it.
    pub fn copies(self, spec: &FlowSpec) -> f64 {
        let most = match self {
            Sent::UpTo(_) => return 1.0,
            Sent::Set(set) => set.highest().map_or(CellRate(0), |top| spec.rate_at(top)),
        };
        match most.0 {
            0 => 1.0,
            most => (f64::from(self.mean(spec).0) / f64::from(most)).max(1.0),
        }
    }

    /// The rates of its layers.
    fn layers(self, spec: &FlowSpec) -> impl Iterator<Item = &LayerRate> {
        let all = spec.layers.iter();
        all.filter_map(move |(layer, rate)| self.includes(layer, false).then_some(rate))
    }
}

/// The stage between packetising and the link: a shaper, a queue for the pacer of the host, or nothing.
#[derive(Debug)]
pub(super) struct Pacer {
    flow: FlowId,
    spec: FlowSpec,
    shaping: Shaping,
    shaper: Shaper<LinkPdu>,
    /// With [`Shaping::Serial`] as soon as receivers say what they take in.
    serial: SerialQueue<Paced>,
    receiver_rate: Option<CellRate>,
    direct: VecDeque<LinkPdu>,
    rate: CellRate,
    /// What enhancement layers take, where they are shaped to a rate.
    above_base: Option<CellRate>,
    /// Rate at which what waited when the specification changed leaves.
    waiting_rate: Option<CellRate>,
}

/// A packet for the pacer of the host.
#[derive(Debug)]
struct Paced {
    pdu: LinkPdu,
    /// It goes to receivers, and not only to the switch of the node.
    leaves: bool,
}

impl Pacer {
    pub fn new(
        now: Time,
        spec: &FlowSpec,
        flow: FlowId,
        shaping: Shaping,
        largest: u32,
    ) -> Result<Pacer, SourceError> {
        let mut pacer = Pacer {
            flow,
            spec: spec.clone(),
            shaping,
            shaper: Shaper::new(ShaperConfig::default()),
            serial: SerialQueue::new(flow, 0),
            receiver_rate: None,
            direct: VecDeque::new(),
            rate: CellRate::default(),
            above_base: None,
            waiting_rate: None,
        };
        let params = match shaping {
            Shaping::Off => return Ok(pacer),
            Shaping::Bucket { b, p } => BucketParams::new(b, p)?,
            Shaping::Rate { .. } | Shaping::Serial { .. } => {
                pacer.rate = pacer.rate_at(Level::BASE);
                BucketParams::for_rate(pacer.rate)
            }
        };
        let bound = pacer.bound(largest);
        pacer.serial = SerialQueue::new(flow, bound);
        pacer.shaper.add_flow(now, flow, params, bound);
        Ok(pacer)
    }

    /// In continuous mode, shapes frames so that enhancement layers use this rate.
    pub fn set_above_base(&mut self, rate: Option<CellRate>) {
        self.above_base = rate;
    }

    /// Makes the shaper fit for what is sent next, but not slower than the mean of `sending`.
    pub fn set_sent(&mut self, now: Time, next: Sent, sending: Sent) {
        if matches!(self.shaping, Shaping::Bucket { .. } | Shaping::Off) {
            return;
        }
        if self.is_empty() {
            self.waiting_rate = None;
        }
        let least = self.waiting_rate.unwrap_or_default();
        let rate = self.rate_for(&self.spec, next);
        let rate = rate.max(self.mean(&self.spec, sending));
        let rate = rate.max(least);
        if rate != self.rate {
            self.rate = rate;
            let params = BucketParams::for_rate(rate);
            self.shaper.reconfigure(now, self.flow, params);
        }
    }

    /// Changes the specification of the flow from the next frame on. Queued frames still leave at the rate they
    /// were made for.
    pub fn set_spec(&mut self, now: Time, spec: &FlowSpec, largest: u32) {
        self.spec = spec.clone();
        let bound = self.bound(largest);
        self.shaper.set_bound(now, self.flow, bound);
        self.serial.set_bound(bound);
        self.waiting_rate = (!self.is_empty()).then_some(self.rate);
    }

    /// Longest that `cells` of `spec` take to leave at the rate of the base layer, and a tick.
    pub fn drain(&self, spec: &FlowSpec, cells: u32) -> Span {
        self.drain_at(spec, Level::BASE, cells)
    }

    /// Longest that the largest frame of `spec` takes to leave at the rate of all its layers, and a tick.
    pub fn spread(&self, spec: &FlowSpec) -> Span {
        let largest = spec.layers.iter().map(|(_, rate)| rate.burst).max();
        self.drain_at(spec, spec.top_level(), largest.unwrap_or(0))
    }

    fn drain_at(&self, spec: &FlowSpec, level: Level, cells: u32) -> Span {
        let rate = match self.shaping {
            Shaping::Off => return Span::ZERO,
            Shaping::Bucket { b, p } => CellRate(1_000_u32.saturating_mul(b) / p.max(1)),
            Shaping::Rate { .. } | Shaping::Serial { .. } => {
                self.rate_for(spec, Sent::level(spec, level))
            }
        };
        let tick = Span::from_ms(1);
        SECOND.mul_div(u64::from(cells), u64::from(rate.0.max(1))) + tick
    }

    /// Makes room for a whole frame of `cost` credits, or says why not.
    pub fn make_room(&mut self, layer: Layer, cost: u32) -> Result<(), ShaperError> {
        match self.shaping {
            Shaping::Off => Ok(()),
            _ if self.is_serial() => self.serial.make_room(layer, cost),
            _ => self.shaper.make_room(self.flow, layer, cost),
        }
    }

    /// Takes a PDU of the frame `frame`, which should have left by `deadline`. What only the switch of the node gets does not
    /// `leave`: it takes no time of the pacer of the host.
    pub fn push(
        &mut self,
        now: Time,
        (layer, frame): (Layer, u32),
        (deadline, leaves): (Time, bool),
        pdu: LinkPdu,
    ) -> Result<(), ShaperError> {
        match self.shaping {
            Shaping::Off => {
                self.direct.push_back(pdu);
                Ok(())
            }
            _ if self.is_serial() => {
                let cost = pdu.cells();
                let item = Paced { pdu, leaves };
                self.serial.push(layer, frame, deadline, cost, item);
                Ok(())
            }
            _ => {
                let cost = pdu.cells();
                self.shaper.enqueue(now, self.flow, layer, frame, cost, pdu)
            }
        }
    }

    /// Puts a PDU in front of everything that is shaped.
    pub fn push_first(&mut self, pdu: LinkPdu) {
        self.direct.push_back(pdu);
    }

    pub fn pop(&mut self) -> Option<LinkPdu> {
        // Only one of them ever holds anything older.
        self.direct
            .pop_front()
            .or_else(|| self.shaper.pop().map(|(_, pdu)| pdu))
    }

    /// What the receivers take in, as RES says; `None` falls back on the shaper.
    pub fn set_receiver_rate(&mut self, rate: Option<CellRate>) {
        self.receiver_rate = rate;
    }

    pub fn receiver_rate(&self) -> Option<CellRate> {
        self.receiver_rate
    }

    /// The frame that waits for the pacer of the host: `None` while older packets are in the shaper.
    pub fn head(&self) -> Option<SerialHead> {
        let clear = self.shaper_is_empty() && self.direct.is_empty();
        clear.then(|| self.serial.head()).flatten()
    }

    /// Releases the next packet that waits for the pacer of the host; gives its cost.
    pub fn release(&mut self) -> u32 {
        let Some((cost, Paced { pdu, leaves })) = self.serial.pop() else {
            return 0;
        };
        self.direct.push_back(pdu);
        match leaves {
            true => cost,
            false => 0,
        }
    }

    /// Whether a packet goes to the pacer of the host: the shaper, and what is in it, comes first.
    fn is_serial(&self) -> bool {
        let known = self.receiver_rate.is_some() && self.shaper_is_empty();
        matches!(self.shaping, Shaping::Serial { .. }) && (known || !self.serial.is_empty())
    }

    pub fn on_tick(&mut self, now: Time) {
        self.shaper.on_tick(now);
    }

    pub fn next_tick(&self) -> Option<Time> {
        self.shaper.next_tick()
    }

    /// Whether nothing waits; what was released counts as gone.
    pub fn is_empty(&self) -> bool {
        self.serial.is_empty() && self.shaper_is_empty()
    }

    fn shaper_is_empty(&self) -> bool {
        self.shaper
            .stats(self.flow)
            .is_none_or(|stats| stats.queued == 0)
    }

    /// Discards the queued frames and returns their count.
    pub fn clear(&mut self) -> usize {
        let is_media = |pdu: &LinkPdu| match pdu {
            LinkPdu::Mets(_) => true,
            LinkPdu::Cell(cell) => cell.vci != ADAPTER_VCI,
            LinkPdu::Adapter(_) => false,
        };
        let serial = self.serial.clear().map(|(frame, item)| (frame, item.pdu));
        let waiting = self.shaper.clear(self.flow).chain(serial);
        let mut frames: Vec<u32> = waiting
            .filter_map(|(frame, pdu)| is_media(&pdu).then_some(frame))
            .collect();
        frames.dedup();
        frames.len()
    }

    /// Frames dropped for want of room.
    pub fn dropped(&self) -> PerLayer<u64> {
        let mut dropped = self.serial.dropped();
        if let Some(shaper) = self.shaper.stats(self.flow) {
            dropped += shaper.dropped;
        }
        dropped
    }

    pub fn missed_ticks(&self) -> u64 {
        self.shaper.missed_ticks()
    }

    /// Mean of what is sent.
    fn mean(&self, spec: &FlowSpec, sent: Sent) -> CellRate {
        let whole = sent.mean(spec);
        let shaped = |above| spec.layers.base.mean.saturating_add(above);
        self.above_base
            .map_or(whole, |above| whole.min(shaped(above)))
    }

    /// The rule of [`Shaping::Rate`].
    pub fn rate_at(&self, level: Level) -> CellRate {
        self.rate_for(&self.spec, Sent::level(&self.spec, level))
    }

    fn rate_for(&self, spec: &FlowSpec, sent: Sent) -> CellRate {
        let (Shaping::Rate { peak_factor } | Shaping::Serial { peak_factor }) = self.shaping else {
            return CellRate::default();
        };
        let mean = self.mean(spec, sent).0;
        let (mut peaks, mut largest) = (0u32, 0u32);
        for rate in sent.layers(spec) {
            peaks = peaks.saturating_add(rate.peak.max(rate.mean).0);
            largest = largest.max(rate.burst);
        }
        let paced = (f64::from(mean) * peak_factor)
            .ceil()
            .min(f64::from(u32::MAX)) as u32;
        if largest == 0 {
            return CellRate(paced);
        }
        let fps = spec.frame_rate;
        let in_a_period =
            (u64::from(largest) * u64::from(fps.num)).div_ceil(u64::from(fps.den.max(1)));
        let most = u64::from(peaks).max(in_a_period);
        let rate = CellRate(u64::from(paced).min(most).max(u64::from(mean)) as u32);
        rate.max(in_time(spec, rate))
    }

    /// Credits the queue holds: two GOPs, but at least the `largest` frame.
    fn bound(&self, largest: u32) -> u32 {
        let period = self.spec.frame_rate.due(u64::from(self.spec.gop_n));
        let all = match self.spec.composition.is_additive() {
            true => Sent::UpTo(Level::FULL),
            false => Sent::Set(LevelSet::ALL),
        };
        let mean = all.mean(&self.spec).0;
        // Without rates only the bound in bytes is left.
        let gop = match mean {
            0 => u64::MAX,
            mean => period.mul_div(u64::from(mean), SECOND.as_ps()).as_ps(),
        };
        queue_bound(u32::try_from(gop).unwrap_or(u32::MAX), largest)
    }
}

/// The specification for the pacer of a flow: its delay bound is that of the contract, if that is less. The contract is what
/// receivers are promised of the network, which the pacer is the first part of.
pub(super) fn paced(flow: &FlowInfo) -> FlowSpec {
    let mut spec = flow.spec.clone();
    if let Some(term) = flow.contract.and_then(|it| it.delay) {
        // The cast saturates.
        let promised = ((term.agreed * 1e3) as u32).max(1);
        spec.delay_max_ms = match spec.delay_max_ms {
            0 => promised,
            bound => bound.min(promised),
        };
    }
    spec
}

/// The rate at which the largest frame of the base layer leaves in half the delay bound, if at `rate` it takes
/// most of the bound: a long GOP has a large key frame at a low mean rate.
fn in_time(spec: &FlowSpec, rate: CellRate) -> CellRate {
    let (cells, bound_ms) = (
        u64::from(spec.layers.base.burst),
        u64::from(spec.delay_max_ms),
    );
    // At `rate` it takes cells / rate seconds.
    if cells * 1_000 * MOST.1 <= u64::from(rate.0) * bound_ms * MOST.0 {
        return rate;
    }
    let half = (cells * 2_000).checked_div(bound_ms);
    half.map_or(rate, |half| {
        CellRate(u32::try_from(half + 1).unwrap_or(u32::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::{Contract, LayerRate, Term};

    fn spec(burst: [u32; 3]) -> FlowSpec {
        let layer = |mean, burst| LayerRate {
            mean: CellRate(mean),
            burst,
            ..LayerRate::default()
        };
        FlowSpec {
            layers: PerLayer {
                base: layer(480, burst[0]),
                e1: layer(960, burst[1]),
                e2: layer(1_920, burst[2]),
            },
            ..FlowSpec::default()
        }
    }

    fn pacer(burst: [u32; 3], peak_factor: f64) -> Pacer {
        let shaping = Shaping::Rate { peak_factor };
        Pacer::new(Time::ZERO, &spec(burst), FlowId(1), shaping, 684).unwrap()
    }

    #[test]
    fn the_rate_is_the_peak_factor_times_the_mean() {
        let pacer = pacer([0; 3], 2.4);
        assert_eq!(pacer.rate_at(Level::BASE), CellRate(1_152));
        assert_eq!(pacer.rate_at(Level::FULL), CellRate(8_064));
    }

    #[test]
    fn the_rate_is_capped_by_the_largest_frame_but_never_below_the_mean() {
        assert_eq!(
            pacer([240, 160, 120], 2.4).rate_at(Level::FULL),
            CellRate(5_760)
        );
        assert_eq!(pacer([1, 1, 1], 2.4).rate_at(Level::FULL), CellRate(3_360));
    }

    #[test]
    fn the_largest_frame_leaves_in_half_the_delay_bound_where_it_would_take_most_of_it() {
        let mut spec = spec([240, 0, 0]);
        let mut rate = |delay_max_ms| {
            spec.delay_max_ms = delay_max_ms;
            let shaping = Shaping::Rate { peak_factor: 2.4 };
            let pacer = Pacer::new(Time::ZERO, &spec, FlowId(1), shaping, 240).unwrap();
            (
                pacer.rate_at(Level::BASE).0,
                pacer.drain(&spec, 240).as_ms(),
            )
        };
        // 240 cells at 1,152 cells/s take 208 ms.
        assert_eq!(rate(0).0, 1_152);
        assert_eq!(rate(278).0, 1_152);
        assert_eq!(rate(277), (1_733, 139));
        assert_eq!(rate(100), (4_801, 50));
    }

    #[test]
    fn the_largest_frame_keeps_the_delay_of_the_contract_too() {
        let mut flow = FlowInfo::new(FlowId(1), "talk", "dwp");
        flow.spec = spec([240, 0, 0]);
        let mut drain = |delay_max_ms, promised: Option<f64>| {
            flow.spec.delay_max_ms = delay_max_ms;
            flow.contract = Some(Contract {
                delay: promised.map(Term::agreed),
                ..Contract::default()
            });
            let (spec, shaping) = (paced(&flow), Shaping::Rate { peak_factor: 2.4 });
            let pacer = Pacer::new(Time::ZERO, &spec, FlowId(1), shaping, 240).unwrap();
            pacer.drain(&spec, 240).as_ms()
        };
        assert_eq!(drain(300, None), 209);
        assert_eq!(drain(300, Some(0.28)), 209);
        // More than three quarters of it: half, and a tick.
        assert_eq!(drain(300, Some(0.154)), 77);
        assert_eq!(drain(0, Some(0.154)), 77);
        assert_eq!(drain(100, Some(0.154)), 50);
    }

    #[test]
    fn the_largest_frame_is_spread_over_the_rate_of_all_layers() {
        // 240 cells at 5,760 cells/s, and a tick.
        let paced = pacer([240, 160, 120], 2.4);
        let all = spec([240, 160, 120]);
        assert_eq!(paced.spread(&all).as_us(), 42_666);
        let off = Pacer::new(Time::ZERO, &all, FlowId(1), Shaping::Off, 240).unwrap();
        assert_eq!(off.spread(&all), Span::ZERO);
    }

    #[test]
    fn a_lower_level_never_starves_what_is_still_being_sent() {
        let mut pacer = pacer([0; 3], 2.4);
        pacer.set_sent(Time::ZERO, Sent::UpTo(Level::FULL), Sent::UpTo(Level::FULL));
        assert_eq!(pacer.rate, CellRate(8_064));
        pacer.set_sent(Time::ZERO, Sent::UpTo(Level::BASE), Sent::UpTo(Level::FULL));
        assert_eq!(pacer.rate, CellRate(3_360));
        pacer.set_sent(Time::ZERO, Sent::UpTo(Level::BASE), Sent::UpTo(Level::BASE));
        assert_eq!(pacer.rate, CellRate(1_152));
    }

    #[test]
    fn the_queue_holds_two_gops() {
        assert_eq!(pacer([0; 3], 2.4).bound(684), 3_360);
        let bare =
            Pacer::new(Time::ZERO, &FlowSpec::default(), FlowId(1), Shaping::Off, 1).unwrap();
        assert!(bare.bound(684) > 80_000);
    }
}
