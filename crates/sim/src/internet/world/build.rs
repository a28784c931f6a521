//! The machines of a network, before the first event.

use layercast_core::Time;
use layercast_tcp::Endpoint;

use super::Internet;
use super::ahead::Ahead;
use super::topology;
use crate::internet::atm;
use crate::internet::engine::{Engine, Source};
use crate::internet::error::NetworkError;
use crate::internet::medium::classes::Classes;
use crate::internet::medium::packet::{Carrier, METS};
use crate::internet::medium::ports::Ports;
use crate::internet::medium::processor::NodeCpu;
use crate::internet::medium::{Medium, NodeState};
use crate::internet::network::{CpuCost, Network, NodeIndex, Traffic};
use crate::internet::node::mets::Mets;
use crate::internet::node::tcp::TcpHosts;
use crate::internet::node::xtp::XtpHosts;
use crate::internet::users::apps::Apps;
use crate::internet::users::flows::{FlowState, Flows};
use crate::internet::users::group::Group;
use crate::internet::users::transfers::Transfers;
use crate::ties::Turns;

impl<'a> Internet<'a> {
    /// Builds the machines of a network; nothing has happened yet.
    pub fn new(network: &Network) -> Result<Internet<'a>, NetworkError> {
        let turns = Turns::new(network.ties, network.seed);
        let built = topology::build(network, turns)?;
        let engine = Engine::new(turns, built.lines);
        let mut medium = Medium::new(engine, built.pipes, built.routes, built.addresses);
        medium.node_addresses = network.nodes.iter().map(|node| node.address).collect();
        let mut world = Internet {
            medium,
            tcp: TcpHosts::new(network.flows.len()),
            xtp: XtpHosts::default(),
            mets: None,
            external: None,
            flows: Flows::new(network.flows.len()),
            apps: None,
            transfers: None,
            ahead: Ahead::new(network.nodes.len()),
            end: Time::ZERO.saturating_add(network.duration),
            warm: Time::ZERO.saturating_add(network.warm_up),
            budget: network.budget,
            steps: 0,
            others: 0,
        };
        world.add_ports(network, &built.names);
        world.add_nodes(network, built.endpoints);
        world.add_flows(network);
        world.add_backbone(network)?;
        if !network.generators.is_empty() {
            let transfers = Transfers::new(network, &mut world.medium);
            world.transfers = Some(Box::new(transfers));
        }
        if let Some(population) = &network.workload {
            let source = world.medium.engine.add(Source::Arrivals, "");
            let hosts = population.hosts.iter().map(|&node| world.host(node));
            let apps = Apps::new(population, hosts.collect(), network.seed)?;
            let next = apps.next_arrival();
            world.medium.engine.kernel.schedule(source, next);
            world.apps = Some(apps);
        }
        if world.warm > Time::ZERO {
            let engine = &mut world.medium.engine;
            let source = engine.add(Source::Warm, "");
            engine.kernel.schedule(source, Some(world.warm));
        }
        world.add_mets(network)?;
        let conversations = (0..).zip(&world.flows.all);
        let conversations = conversations.map(|(n, flow)| flow.conversation(n));
        let is_large = world.ahead.is_some();
        world.medium.lay_paths(network, conversations, is_large);
        Ok(world)
    }

    /// Builds the queues with a discipline.
    fn add_ports(&mut self, network: &Network, names: &[String]) {
        let medium = &mut self.medium;
        let source = |n, name: &str| medium.engine.add(Source::Port(n), name);
        let ports = Ports::new(network, names, source);
        for pipe in ports.iter().flat_map(Ports::pipes) {
            // What it takes is sent immediately.
            medium.pipes[pipe as usize].take_all();
        }
        medium.has_queues = ports.is_some();
        medium.ports = ports.map(Box::new);
    }

    fn add_nodes(&mut self, network: &Network, endpoints: Vec<(Endpoint, NodeIndex)>) {
        let medium = &mut self.medium;
        let mut endpoints = endpoints.into_iter().peekable();
        for (n, node) in network.nodes.iter().enumerate() {
            let host = endpoints.next_if(|(_, node)| node.0 as usize == n);
            let host = host.map(|(endpoint, at)| self.tcp.add(endpoint, at, &node.name, medium));
            let cpu = (node.cpu != CpuCost::default()).then(|| {
                let source = medium.engine.add(Source::Cpu(n as u32), &node.name);
                Box::new(NodeCpu::new(&node.name, node.cpu, source, network.seed))
            });
            medium.has_processors |= cpu.is_some();
            medium.nodes.push(NodeState { host, cpu });
        }
    }

    /// The number of a host.
    fn host(&self, node: NodeIndex) -> u32 {
        let host = self.medium.nodes[node.0 as usize].host;
        host.expect("the check of a network refuses routers where there must be hosts")
    }

    fn add_flows(&mut self, network: &Network) {
        let name = |node: NodeIndex| network.nodes[node.0 as usize].name.as_str();
        for (n, flow) in network.flows.iter().enumerate() {
            let n = n as u32;
            let engine = &mut self.medium.engine;
            let source = engine.add(Source::Flow(n), &flow.name);
            let ends = (self.host(flow.from), self.host(flow.to));
            let names = [flow.from, flow.to].map(name);
            let mut state = FlowState::new(flow, source, ends, names, network.seed);
            let start = Some(state.start());
            self.medium.engine.kernel.schedule(source, start);
            if matches!(flow.traffic, Traffic::Bulk(_)) {
                state.port = self.tcp.reserve_port(ends.0);
            }
            // Before the first of its packets.
            if let Some(conversation) = state.conversation(n) {
                let ends = (flow.from, flow.to);
                self.medium.classify(conversation, ends, flow.dscp);
            }
            if flow.is_established {
                state.establish(n, &mut self.tcp, &mut self.medium);
            }
            let mut of_xtp = Vec::new();
            match &flow.traffic {
                Traffic::Xtp { .. } => of_xtp.extend([flow.from, flow.to]),
                Traffic::XtpMulticast { receivers, .. } => {
                    let members = receivers
                        .iter()
                        .map(|it| (*it, name(it.node).to_owned(), self.host(it.node)));
                    state.group = Some(Box::new(Group::new(members)));
                    self.medium.add_group(n, flow.from, flow.dscp);
                    for receiver in receivers {
                        let ends = (flow.from, receiver.node);
                        let back = Carrier::IP.conversation();
                        self.medium.classify(back, ends, flow.dscp);
                    }
                    of_xtp.push(flow.from);
                    of_xtp.extend(receivers.iter().map(|it| it.node));
                }
                Traffic::Bulk(_) | Traffic::Datagrams { .. } => {}
            }
            self.flows.all.push(state);
            for node in of_xtp {
                let host = (self.host(node), node);
                let engine = &mut self.medium.engine;
                self.xtp.give(host, name(node), network.seed, engine);
            }
        }
    }

    fn add_backbone(&mut self, network: &Network) -> Result<(), NetworkError> {
        let medium = &mut self.medium;
        if let Some(backbone) = &network.atm {
            let timer = |n, name: &str| medium.engine.add(Source::Atm(n), name);
            let built = atm::build(network, backbone, timer)?;
            medium.backbone = Some(Box::new(built));
            medium.atm_mtu = backbone.mtu;
        }
        match (&mut medium.backbone, network.contracts.first()) {
            (Some(backbone), _) => {
                let timer = |n, name: &str| medium.engine.add(Source::Contract(n), name);
                backbone.add_contracts(network, timer)
            }
            (None, None) => Ok(()),
            (None, Some(contract)) => Err(NetworkError::Value {
                part: format!("contract {:?}", contract.name),
                problem: "there is no ATM backbone".to_owned(),
            }),
        }
    }

    /// Builds the METS nodes and the class queues of their links.
    fn add_mets(&mut self, network: &Network) -> Result<(), NetworkError> {
        let Some(nodes) = &network.mets else {
            return Ok(());
        };
        let medium = &mut self.medium;
        for (link, &dscp) in nodes.machines.links.iter().zip(&nodes.dscps) {
            let [a, b] = link.ends.map(|end| nodes.nodes[end]);
            medium.classify(METS, (a, b), dscp);
        }
        let mets = Mets::new(network, nodes, medium)?;
        self.mets = Some(Box::new(mets));
        let classes = Classes::new(network, |n, name| medium.engine.add(Source::Class(n), name))?;
        medium.has_queues |= classes.is_some();
        medium.classes = classes.map(Box::new);
        for pipe in medium.classes.iter().flat_map(|classes| classes.pipes()) {
            medium.pipes[pipe as usize].take_all();
        }
        Ok(())
    }
}
