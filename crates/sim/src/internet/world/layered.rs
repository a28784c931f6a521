//! Scenarios of METS: their nodes in a world with nothing else.

use core::net::Ipv4Addr;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use layercast_core::{Observer, Rate, Span, Time};

use super::Internet;
use crate::internet::error::MAX_MTU;
use crate::internet::network::{
    Budget, CpuCost, Impairments, Limit, Link, MetsNetwork, Network, Node, NodeIndex, Queue, Role,
    Way,
};
use crate::internet::node::mets::Outputs;
use crate::internet::report::{Sample, Watch};
use crate::internet::series::{Point, PointSink, Series};
use crate::scenario;
use crate::summary::SimSummary;

/// A network of layered flows that can be run.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use layercast_core::Off;
/// use layercast_sim::{Outputs, Simulation};
/// use layercast_sim::scenario::Scenario;
///
/// // The narrow link fits the base layer and the first enhancement layer.
/// let text = r#"
///     name = "unequal"
///     duration = "12s"
///     node = [
///         { name = "server", kind = "host" }, { name = "switch", kind = "switch" },
///         { name = "wide", kind = "host" }, { name = "narrow", kind = "host" },
///     ]
///     link = [
///         { a = "server", b = "switch", rate = "100 Mbit/s", queue = "500 ms" },
///         { a = "switch", b = "wide", rate = "100 Mbit/s", queue = "500 ms" },
///         { a = "switch", b = "narrow", rate = { fits = "film", level = 1, spare = 0.1 }, queue = "500 ms", efci = 0.5 },
///     ]
///     flow = [{ name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s", delay_max = "500ms" }]
///     receiver = [{ node = "wide", flow = "film" }, { node = "narrow", flow = "film" }]
/// "#;
/// let network = Scenario::from_toml(text, "".as_ref()).unwrap().validate().unwrap();
/// let summary = Simulation::new(network).run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(())).unwrap();
/// let [wide, narrow] = &summary.flows[0].receivers[..] else { panic!() };
/// assert_eq!((wide.lost.base, narrow.lost.base), (0, 0));
/// assert!(wide.frames.base > 0 && narrow.frames.base > 0);
/// assert!(wide.frames.e2 > narrow.frames.e2);
/// ```
pub struct Simulation {
    network: Network,
}

impl Simulation {
    /// A simulation of `net`, with the seed it was resolved with.
    pub fn new(net: scenario::Network) -> Simulation {
        Simulation { network: plan(net) }
    }

    /// Runs to the end, or tells why an output could not be written.
    ///
    /// `obs` sees every machine; `progress` is called once for each second of the run and may break it off: the outputs are
    /// then complete up to that second, and so is the summary, which says so in `sim_seconds`.
    pub fn run<'a>(
        &self,
        obs: &'a mut (dyn Observer + Send),
        outputs: Outputs<'a>,
        mut progress: impl FnMut(Time) -> ControlFlow<()>,
    ) -> io::Result<SimSummary> {
        self.run_watched(obs, outputs, &mut progress)
    }

    fn run_watched<'a>(
        &self,
        obs: &'a mut (dyn Observer + Send),
        mut outputs: Outputs<'a>,
        progress: &mut dyn FnMut(Time) -> ControlFlow<()>,
    ) -> io::Result<SimSummary> {
        let mut world = Internet::new(&self.network).map_err(io::Error::other)?;
        world.observe(obs);
        let (every, sink) = outputs.series.take().unzip();
        let series = Series::new(every.unwrap_or(Span::MAX));
        if let Some(mets) = &mut world.mets {
            mets.write(outputs)?;
        }
        world.run_by_seconds(progress, series, &mut Sink(sink));
        let Some(mets) = world.mets.take() else {
            return Err(io::Error::other("the plan has METS nodes"));
        };
        let summary = mets.summary(&world.medium);
        mets.written().map(|()| summary)
    }
}

/// Gives points to a sink, if there is one.
struct Sink<'a>(Option<&'a mut (dyn PointSink + Send)>);

impl Watch for Sink<'_> {
    fn sample(&mut self, _: &Sample) {}

    fn point(&mut self, point: &Point<'_>) {
        if let Some(sink) = &mut self.0 {
            sink.point(point);
        }
    }
}

impl Internet<'_> {
    /// Runs to the end, or to the second at which `progress` breaks it off.
    fn run_by_seconds(
        &mut self,
        progress: &mut dyn FnMut(Time) -> ControlFlow<()>,
        mut series: Series,
        watch: &mut Sink<'_>,
    ) {
        let mut tick = Time::ZERO;
        // With a point each microsecond, a second of the simulation takes many of the clock.
        let step = Span::from_secs(1).min(series.look_every());
        while let Some(at) = self.next_event() {
            while tick <= at {
                if progress(tick).is_break() {
                    return self.end_at(tick);
                }
                tick = tick.saturating_add(step);
            }
            let until = tick.saturating_sub(Span::from_ps(1));
            self.run_sampled(until.min(self.end), &mut series, watch);
        }
        self.run_sampled(self.end, &mut series, watch);
        // The run is over either way.
        let _ = progress(self.end);
    }
}

/// What the world is to run: a node at each METS node, and a link of its own for each of theirs.
fn plan(net: scenario::Network) -> Network {
    let nodes = (1..).zip(&net.nodes).map(|(number, node)| Node {
        name: node.name.clone(),
        address: Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() | number),
        role: Role::Router,
        cpu: CpuCost::default(),
    });
    let links = net.links.iter().enumerate().map(|(place, link)| {
        let ports = link.ends.map(|end| net.nodes[end].port(place));
        let way = |port: Option<&scenario::Port>| Way {
            rate: port
                .and_then(|it| it.config.rate)
                .unwrap_or(Rate::from_bps(u64::MAX)),
            queue: Queue {
                limit: Limit::Unlimited,
                red: None,
                mark: None,
            },
            impair: port.map_or(Impairments::default(), |it| Impairments::of(it.out)),
        };
        Link {
            ends: link.ends.map(|end| NodeIndex(end as u32)),
            ways: ports.map(way),
            delay: ports[0].map_or(Span::ZERO, |it| it.out.delay),
            mtu: MAX_MTU,
            // Faults of links are those of the stations.
            down: Default::default(),
            disciplines: Default::default(),
        }
    });
    Network {
        nodes: nodes.collect(),
        links: links.collect(),
        lans: Vec::new(),
        atm: None,
        flows: Vec::new(),
        generators: Vec::new(),
        contracts: Vec::new(),
        workload: None,
        duration: net.duration,
        warm_up: Span::ZERO,
        seed: net.seed,
        ties: net.ties,
        // The machines bound what they have in memory, and the duration the events.
        budget: Budget {
            events: u64::MAX,
            packets: u32::MAX,
        },
        mets: Some(MetsNetwork {
            nodes: (0..net.nodes.len() as u32).map(NodeIndex).collect(),
            classes: vec![false; net.links.len()],
            dscps: Vec::new(),
            own_links: true,
            machines: Arc::new(net),
        }),
    }
}
