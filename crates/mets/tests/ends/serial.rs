//! Frame-serial pacing (specs/mets.md 8): the sources of a host and their pacer.

use crate::common::{frames, ms, source_config};
use layercast_core::{
    CellRate, Composition, FlowId, GroupId, Layer, Level, LevelSet, Machine, NodeId, Off, Serial,
    Span, Time,
};
use layercast_mets::{
    AppFrame, HostPacer, Shaping, Source, SourceConfig, SourceEvent, SourceInput, SourceTransmit,
    feed, stagger,
};
use layercast_wire::{AdapterKind, AdapterMsg, Carriage, LinkPdu, Payload};

struct Host {
    sources: Vec<Source>,
    media: Vec<Box<dyn Iterator<Item = AppFrame>>>,
    pacer: HostPacer,
    now: Time,
    /// When each media packet left, of which flow and frame, and its cells.
    sent: Vec<(Time, FlowId, Serial, u32)>,
    adapts: usize,
    /// The alternative levels that the last of them gives.
    given: LevelSet,
}

impl Host {
    fn new(flows: u32) -> Host {
        let source = |n: u32| {
            let mut config = source_config(Carriage::Datagrams, 1_000);
            (config.flow.id, config.flow.group) = (FlowId(n), GroupId(n));
            config.shaping = Shaping::SERIAL;
            let config = SourceConfig {
                id: NodeId(n),
                ..config
            };
            Source::new(config).unwrap()
        };
        let media = (0..flows).map(|_| Box::new(frames(10)) as _).collect();
        Host::of((1..=flows).map(source).collect(), media)
    }

    fn of(sources: Vec<Source>, media: Vec<Box<dyn Iterator<Item = AppFrame>>>) -> Host {
        Host {
            sources,
            media,
            pacer: HostPacer::new(Span::ZERO),
            now: Time::ZERO,
            sent: Vec::new(),
            adapts: 0,
            given: LevelSet::EMPTY,
        }
    }

    /// RES of every receiver.
    fn res(&mut self, drain: u32) {
        self.res_for(drain, LevelSet::EMPTY);
    }

    /// The same, of alternative layers for these levels.
    fn res_for(&mut self, drain: u32, levels: LevelSet) {
        for source in &mut self.sources {
            let flow = source.flow();
            let res = AdapterMsg {
                kind: AdapterKind::Res,
                group: flow.group,
                flow: flow.id,
                era: Serial(1),
                origin: NodeId(9),
                min: Level::E1,
                max: Level::FULL,
                hops: 0,
                levels,
                rate_min: CellRate(0),
                rate_max: CellRate(0),
                residual: CellRate(0),
                drain: CellRate(drain),
            };
            let input = SourceInput::Pdu(LinkPdu::Adapter(res));
            source.handle(self.now, input, &mut Off);
        }
        self.drain();
    }

    fn run_until(&mut self, end: Time) {
        self.drain();
        loop {
            let sources = self.sources.iter().filter_map(Source::next_timeout);
            let Some(next) = sources.chain(self.pacer.next_timeout()).min() else {
                break;
            };
            if next > end {
                break;
            }
            self.now = next.max(self.now);
            for source in &mut self.sources {
                source.on_timeout(self.now, &mut Off);
            }
            self.drain();
        }
        self.now = end;
    }

    fn drain(&mut self) {
        loop {
            for (source, media) in self.sources.iter_mut().zip(&mut self.media) {
                while let Some(event) = source.poll_event() {
                    if let SourceEvent::NeedFrames(_) = event {
                        feed(source, self.now, media);
                    }
                }
                while let Some(transmit) = source.poll_transmit(self.now, &mut Off) {
                    match transmit {
                        SourceTransmit::Pdu(LinkPdu::Mets(packet)) => {
                            let header = packet.header;
                            let cells = LinkPdu::Mets(packet).cells();
                            self.sent.push((self.now, header.flow, header.seq, cells));
                        }
                        SourceTransmit::Pdu(pdu) => {
                            self.adapts += 1;
                            if let LinkPdu::Adapter(adapt) = pdu {
                                self.given = adapt.levels;
                            }
                        }
                        SourceTransmit::Signal(_) => {}
                    }
                }
            }
            let sources = &mut self.sources;
            if !self
                .pacer
                .run(self.now, &mut Off, |turn| sources.iter_mut().for_each(turn))
            {
                return;
            }
        }
    }

    /// How often the sender changed from one frame to another before it was through with the first.
    fn interruptions(&self) -> usize {
        let mut runs: Vec<_> = self.sent.iter().map(|sent| (sent.1, sent.2)).collect();
        runs.dedup();
        let all = runs.len();
        runs.sort_unstable_by_key(|(flow, seq)| (flow.0, seq.0));
        runs.dedup();
        all - runs.len()
    }
}

#[test]
fn frames_of_all_flows_leave_one_after_the_other_at_the_rate_of_the_receiver() {
    let mut host = Host::new(3);
    host.res(12_000);
    host.run_until(ms(900));
    assert_eq!(host.interruptions(), 0);
    // Frames of three flows are released at the same instants; never more cells than the rate allows.
    for (at, ..) in &host.sent {
        let window = host
            .sent
            .iter()
            .filter(|sent| sent.0 >= *at && sent.0 < *at + Span::from_ms(20));
        let cells: u32 = window.map(|sent| sent.3).sum();
        assert!(cells <= 240 + 12 + 26, "{cells} cells in 20 ms from {at:?}");
    }
    assert_eq!(host.adapts, 3);
    let sent: u64 = host
        .sources
        .iter()
        .map(|source| source.stats().sent.base)
        .sum();
    assert_eq!(sent, 6);
}

#[test]
fn without_a_rate_the_bucket_of_each_flow_mixes_frames_and_a_rate_ends_that() {
    let mut host = Host::new(3);
    host.res(0);
    host.run_until(ms(450));
    assert!(host.interruptions() > 10, "{}", host.interruptions());
    // What is in the buckets leaves first; then frames are whole.
    host.res(12_000);
    host.run_until(ms(700));
    host.sent.clear();
    host.run_until(ms(900));
    assert_eq!(host.interruptions(), 0);
    assert!(host.sent.len() > 20);
    // Three eras without RES: the buckets again, and every frame of a flow still in order.
    host.sent.clear();
    host.run_until(ms(4_900));
    for flow in 1..=3 {
        let order = host
            .sent
            .iter()
            .filter(|sent| sent.1 == FlowId(flow))
            .map(|sent| sent.2.0);
        assert!(order.is_sorted(), "flow {flow}");
    }
}

#[test]
fn a_rate_below_the_mean_does_not_starve_the_flows() {
    let mut host = Host::new(2);
    host.res(1);
    host.run_until(ms(4_000));
    for source in &host.sources {
        let stats = source.stats();
        assert_eq!(stats.dropped.base + stats.dropped.e1 + stats.dropped.e2, 0);
        assert!(stats.sent.base >= 7, "{stats:?}");
    }
}

/// Three renditions of 640, 1,280 and 2,560 cells/s, all of which the switch of the node gets, and frames of them that are
/// larger by a fifth: of each picture three, of which one in twelve is a key frame.
fn renditions() -> Host {
    renditions_where(|_, _| true)
}

/// The same without the pictures of which `has`, given their number and place, says no.
fn renditions_where(has: impl Fn(usize, usize) -> bool) -> Host {
    let mut config = source_config(Carriage::Datagrams, 1_000);
    let spec = &mut config.flow.spec;
    spec.composition = Composition::Alternative;
    for (layer, mean) in [(Layer::Base, 640), (Layer::E1, 1_280), (Layer::E2, 2_560)] {
        spec.layers[layer].mean = CellRate(mean);
    }
    config.shaping = Shaping::SERIAL;
    config.all_layers = true;
    let all = (0..24 * 8 * 3).map(|n: usize| (n / 3, n % 3));
    let frames = all
        .filter(|&(picture, place)| has(picture, place))
        .map(|(picture, place)| {
            let key = picture.is_multiple_of(12);
            let cells = (24 << place) * if key { 5 } else { 1 };
            AppFrame {
                layer: Layer::ALL[place],
                gop_start: key,
                sound: false,
                time: Some(Span::from_secs(1).mul_div(picture as u64, 24)),
                payload: Payload::Zeros(cells as u32 * 48 - 40),
            }
        });
    Host::of(
        vec![Source::new(config).unwrap()],
        vec![Box::new(frames.collect::<Vec<_>>().into_iter())],
    )
}

/// For how long after its time the last packet of each frame of a rendition left, from 1 s on.
fn delays(host: &Host, place: u32) -> Vec<Span> {
    let own = host.sent.iter().filter(|sent| sent.2.0 % 3 == place);
    let due = |seq: Serial| Span::from_secs(1).mul_div(u64::from(seq.0 / 3), 24);
    let delays = own.map(|sent| (due(sent.2), sent.0.since(Time::ZERO + due(sent.2))));
    let delays = delays.filter(|(due, _)| *due >= Span::from_secs(1));
    delays.map(|(_, delay)| delay).collect()
}

#[test]
fn renditions_that_no_receiver_wants_take_no_time_of_the_pacer() {
    let mut host = renditions();
    for second in 1..=8 {
        host.res_for(3_600, LevelSet::of(Level::FULL));
        host.run_until(ms(1_000 * second));
    }
    // Its key frames of 480 cells take 133 ms at 3,600 cells/s.
    let longest = delays(&host, 2).into_iter().max().unwrap();
    assert!(longest < Span::from_ms(180), "{longest:?}");
    // It leaves no faster than its receiver takes it in, and the switch has the others all the same.
    for (at, ..) in &host.sent {
        let window = host
            .sent
            .iter()
            .filter(|sent| sent.2.0 % 3 == 2 && sent.0 >= *at && sent.0 < *at + Span::from_ms(20));
        let cells: u32 = window.map(|sent| sent.3).sum();
        assert!(cells <= 72 + 4 + 26, "{cells} cells in 20 ms from {at:?}");
    }
    for place in 0..2 {
        assert!(delays(&host, place).len() > 24 * 6, "{place}");
    }
}

#[test]
fn receivers_of_a_rendition_that_stops_get_the_next_lower_one_until_it_is_back() {
    // That of E2 is away from 1.5 s to 5 s.
    let mut host = renditions_where(|picture, place| place < 2 || !(36..120).contains(&picture));
    let mut given = Vec::new();
    for second in 1..=8 {
        host.res_for(3_600, LevelSet::of(Level::FULL));
        host.run_until(ms(1_000 * second));
        given.push(host.given.highest());
    }
    let (e1, e2) = (Some(Level::E1), Some(Level::FULL));
    assert_eq!((given[0], given[7]), (e2, e2), "{given:?}");
    assert!(given[2..5].iter().all(|it| *it == e1), "{given:?}");
}

#[test]
fn receivers_of_unlike_renditions_each_get_theirs_at_the_rate_that_they_take_in() {
    let mut host = renditions();
    for second in 1..=8 {
        host.res_for(3_600, LevelSet::ALL);
        host.run_until(ms(1_000 * second));
    }
    for place in 0..3 {
        let longest = delays(&host, place).into_iter().max().unwrap();
        assert!(longest < Span::from_ms(180), "{place}: {longest:?}");
    }
}

#[test]
fn flows_are_staggered_evenly_over_a_period() {
    let period = Span::from_ms(40);
    let starts: Vec<u64> = (0..4).map(|k| stagger(k, 4, period).as_ms()).collect();
    assert_eq!(starts, [0, 10, 20, 30]);
    assert_eq!(stagger(0, 0, period), Span::ZERO);
}
