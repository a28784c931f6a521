//! Frame-serial pacing (specs/mets.md 8): the sources of a host and their pacer.

use crate::common::{frames, ms, source_config};
use layercast_core::{
    CellRate, FlowId, GroupId, Level, LevelSet, Machine, NodeId, Off, Serial, Span, Time,
};
use layercast_mets::{
    AppFrame, HostPacer, Shaping, Source, SourceConfig, SourceEvent, SourceInput, SourceTransmit,
    feed, stagger,
};
use layercast_wire::{AdapterKind, AdapterMsg, Carriage, LinkPdu};

struct Host {
    sources: Vec<Source>,
    media: Vec<Box<dyn Iterator<Item = AppFrame>>>,
    pacer: HostPacer,
    now: Time,
    /// When each media packet left, of which flow and frame, and its cells.
    sent: Vec<(Time, FlowId, Serial, u32)>,
    adapts: usize,
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
        Host {
            sources: (1..=flows).map(source).collect(),
            media: (0..flows).map(|_| Box::new(frames(10)) as _).collect(),
            pacer: HostPacer::new(Span::ZERO),
            now: Time::ZERO,
            sent: Vec::new(),
            adapts: 0,
        }
    }

    /// RES of every receiver.
    fn res(&mut self, drain: u32) {
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
                levels: LevelSet::EMPTY,
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
                        SourceTransmit::Pdu(_) => self.adapts += 1,
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

#[test]
fn flows_are_staggered_evenly_over_a_period() {
    let period = Span::from_ms(40);
    let starts: Vec<u64> = (0..4).map(|k| stagger(k, 4, period).as_ms()).collect();
    assert_eq!(starts, [0, 10, 20, 30]);
    assert_eq!(stagger(0, 0, period), Span::ZERO);
}
