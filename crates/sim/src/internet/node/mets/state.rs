//! A node: its station, and what is around it.

use layercast_core::{RequestId, Span, Status, Time};
use layercast_link::host::Stalls;
use layercast_mets::switch::Switch;
use layercast_mets::{AppFrame, FlowLog, Source, feed};
use layercast_mets::{HostConfig, Station, StationConfig};
use layercast_protect::Seed;

use crate::kernel::{Kernel, SourceId};
use crate::scenario::{Flow, Network, NodeKind};
use crate::ties::Class;

/// A host or switch while it runs.
#[derive(Debug)]
pub struct NodeState {
    /// Its machines; `None` while it is down.
    pub station: Option<Station>,
    /// When it ends, if it was stopped.
    pub stopping: Option<Time>,
    /// Event source of the pacer.
    pub pacer_event: SourceId,
    /// Event source of the switch.
    pub switch_event: SourceId,
    /// Event source of the host's processor.
    pub cpu_event: SourceId,
}

/// A flow at its source while it runs.
pub struct SourceState {
    /// What is still to be sent.
    pub frames: Box<dyn Iterator<Item = AppFrame> + Send>,
    /// How its requests ended.
    pub answers: Vec<(Time, RequestId, Status)>,
    /// Its place in the station of its node.
    pub place: usize,
    /// Its event source.
    pub event: SourceId,
}

/// A receiver.
pub struct SinkState {
    /// What it saw.
    pub log: FlowLog,
    /// How its requests ended.
    pub answers: Vec<(Time, RequestId, Status)>,
    /// When its host stalls next on its account.
    pub stalls: Stalls,
    /// Its place in the station of its node.
    pub place: usize,
    /// Event source of the machine.
    pub event: SourceId,
    /// Event source of the stalls.
    pub stall_event: SourceId,
}

impl NodeState {
    /// A node that is not running yet.
    pub fn new(name: &str, kernel: &mut Kernel) -> NodeState {
        let mut add = |what| kernel.add(Class::Timer, &format!("{what}/{name}"));
        NodeState {
            station: None,
            stopping: None,
            switch_event: add("switch"),
            cpu_event: add("cpu"),
            pacer_event: add("pacer"),
        }
    }

    /// Starts with empty state, without sources and sinks.
    pub fn start(&mut self, net: &Network, place: usize) -> &mut Station {
        let node = &net.nodes[place];
        self.stopping = None;
        let profile = node.profile;
        let mut host = HostConfig::default();
        match node.kind {
            NodeKind::Switch => host.forward = profile.switch_cell,
            // To the source of a flow receiving costs nothing.
            NodeKind::Host if node.switch.is_some() => host.send = profile.sending(),
            NodeKind::Host if node.receivers.is_empty() => {}
            NodeKind::Host => host.receive = profile.receiving(),
        }
        let switch = node.switch.clone().map(|config| {
            let mut switch = Switch::new(config);
            for (_, port) in node.own_ports() {
                switch.add_port(port.id, port.config.clone());
            }
            switch
        });
        self.station.insert(Station::new(StationConfig {
            switch,
            host,
            pacer_grain: Span::ZERO,
            rate: node.ports.first().and_then(|port| port.config.rate),
        }))
    }

    /// Its switch, while it runs.
    pub fn switch(&self) -> Option<&Switch> {
        self.station.as_ref()?.switch()
    }

    /// Stops and forgets everything.
    pub fn stop(&mut self, kernel: &mut Kernel) {
        self.station = None;
        kernel.schedule(self.switch_event, None);
        kernel.schedule(self.cpu_event, None);
        kernel.schedule(self.pacer_event, None);
    }
}

impl SourceState {
    /// A source at `place` of its node that is not running yet.
    pub fn new(place: usize, name: &str, kernel: &mut Kernel) -> SourceState {
        SourceState {
            frames: Box::new(std::iter::empty()),
            answers: Vec::new(),
            place,
            event: kernel.add(Class::Timer, &format!("source/{name}")),
        }
    }

    /// Starts the flow from its first frame, in the station of its node.
    pub fn start(&mut self, now: Time, flow: &Flow, station: &mut Station) {
        let mut config = flow.config.clone();
        config.start = config.start.max(now);
        if let Some(protection) = &mut config.protection {
            // A life of its own has keys and epochs of its own.
            let life = format!("{}", now.as_ps());
            protection.random = Seed::derived(&protection.random.0, &life);
            protection.born += protection.clock.at(now);
        }
        self.frames = Box::new(flow.frames());
        let mut source = Source::new(config).expect("resolving built one of this configuration");
        feed(&mut source, now, &mut self.frames);
        let place = station.add_source(source);
        debug_assert_eq!(
            place, self.place,
            "sources start in the order of the scenario"
        );
    }
}
