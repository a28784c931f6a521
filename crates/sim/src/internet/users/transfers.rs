//! Transfers that generators make: many connections without a name.

use layercast_core::Time;
use layercast_tcp::ConnId;

use super::PORT;
use super::draw::Drawing;
use crate::internet::discipline::Dscp;
use crate::internet::engine::Source;
use crate::internet::generated::{GeneratorReport, Transfer};
use crate::internet::medium::Medium;
use crate::internet::medium::ecmp::Conversation;
use crate::internet::medium::ideal::Segments;
use crate::internet::medium::user::User;
use crate::internet::network::{Network, NodeIndex, Plan, Planned, Role};
use crate::internet::node::tcp::TcpHosts;
use crate::internet::series::TcpState;
use crate::kernel::SourceId;

/// All generators, and the transfers that they have begun.
#[derive(Debug)]
pub(crate) struct Transfers {
    generators: Vec<Generator>,
    /// In the order of their starts.
    begun: Vec<Begun>,
    /// Of each node the largest segment of its TCP, and whether it offers timestamps.
    segments: Vec<(u16, bool)>,
    /// What begins now.
    due: Vec<Planned>,
}

#[derive(Debug)]
struct Generator {
    name: String,
    is_established: bool,
    dscp: Dscp,
    bins: Vec<u64>,
    source: SourceId,
    ahead: Ahead,
    /// Transfers whose host had no free port, after the warm-up.
    refused: u64,
    /// Transfers whose connection failed, after the warm-up.
    failed: u64,
}

/// What is to begin yet.
#[derive(Debug)]
enum Ahead {
    Listed(std::vec::IntoIter<Planned>),
    Drawn(Box<Drawing>),
}

/// A transfer that has begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    transfer: Transfer,
    generator: u32,
    /// Of the sender, until the end.
    connection: Option<ConnId>,
}

impl Transfers {
    /// The generators of a network; nothing has begun.
    pub fn new(network: &Network, medium: &mut Medium) -> Transfers {
        let segments = network.nodes.iter().map(|node| match &node.role {
            Role::Host(tcp) => (tcp.mss, tcp.timestamps),
            Role::Router => (0, false),
        });
        let engine = &mut medium.engine;
        let generators = network.generators.iter().zip(0..).map(|(it, n)| {
            let source = engine.add(Source::Generator(n), &it.name);
            let (ahead, first) = match &it.plan {
                Plan::Listed(list) => {
                    let first = list.first().map(|it| it.start);
                    (Ahead::Listed(list.clone().into_iter()), first)
                }
                Plan::Drawn(drawn) => {
                    let mut drawing = Drawing::new(drawn, &it.name, network.seed);
                    let first = drawing.first();
                    (Ahead::Drawn(Box::new(drawing)), first)
                }
            };
            engine.kernel.schedule(source, first);
            Generator {
                name: it.name.clone(),
                is_established: it.is_established,
                dscp: it.dscp,
                bins: it.bins.clone(),
                source,
                ahead,
                refused: 0,
                failed: 0,
            }
        });
        Transfers {
            generators: generators.collect(),
            begun: Vec::new(),
            segments: segments.collect(),
            due: Vec::new(),
        }
    }

    /// Transfers of a generator begin.
    pub fn wake(&mut self, n: u32, tcp: &mut TcpHosts, medium: &mut Medium) {
        let now = medium.engine.now;
        let generator = &mut self.generators[n as usize];
        let mut due = std::mem::take(&mut self.due);
        let next = match &mut generator.ahead {
            Ahead::Drawn(drawing) => drawing.due(now, &mut due),
            Ahead::Listed(rest) => {
                let now_due = rest.as_slice().iter().take_while(|it| it.start <= now);
                let count = now_due.count();
                due.extend(rest.take(count));
                rest.as_slice().first().map(|it| it.start)
            }
        };
        medium.engine.kernel.schedule(generator.source, next);
        for planned in due.drain(..) {
            self.begin(n, planned, tcp, medium);
        }
        self.due = due;
    }

    fn begin(&mut self, n: u32, planned: Planned, tcp: &mut TcpHosts, medium: &mut Medium) {
        let Planned {
            from, to, bytes, ..
        } = planned;
        let host = |node: NodeIndex| medium.nodes[node.0 as usize].host;
        let (Some(sender), Some(receiver)) = (host(from), host(to)) else {
            return;
        };
        let generator = &mut self.generators[n as usize];
        let transfer = self.begun.len() as u32;
        let users = (User::Source(transfer), User::Sink(transfer));
        let (local, remote) = ((sender, 0), (receiver, PORT));
        let id = match generator.is_established {
            true => tcp.establish(local, remote, users, medium),
            false => tcp.connect(local, remote, users, medium),
        };
        let Some(id) = id else {
            generator.refused += 1;
            return;
        };
        let [a, b] = [from, to].map(|node| self.segments[node.0 as usize]);
        let info = tcp.get(sender).endpoint.info(id);
        let port = info.map_or(0, |info| info.local.port());
        let conversation = Conversation::tcp((port, PORT));
        // Before the first of its packets: those of a connection leave when its host is settled.
        medium.classify(conversation, (from, to), generator.dscp);
        let ideal = medium.ideal((from, to), conversation, bytes, Segments::between(a, b));
        self.begun.push(Begun {
            transfer: Transfer {
                from,
                to,
                bytes,
                start: medium.engine.now,
                end: None,
                ideal,
                retransmitted: 0,
                timeouts: 0,
            },
            generator: n,
            connection: Some(id),
        });
        tcp.write(sender, id, bytes);
        tcp.shut(sender, id);
    }

    /// The receiver of a transfer has all.
    pub fn arrived(&mut self, n: u32, tcp: &TcpHosts, medium: &Medium) {
        let Some(begun) = self.begun.get_mut(n as usize) else {
            return;
        };
        begun.transfer.end.get_or_insert(medium.engine.now);
        begun.is_over(tcp, medium);
    }

    /// The connection of a transfer failed.
    pub fn failed(&mut self, n: u32, tcp: &TcpHosts, medium: &Medium) {
        if let Some(begun) = self.begun.get_mut(n as usize)
            && begun.is_over(tcp, medium)
        {
            self.generators[begun.generator as usize].failed += 1;
        }
    }

    /// Forgets what was counted until now. Of transfers those count that begin later.
    pub fn restart(&mut self) {
        for generator in &mut self.generators {
            (generator.refused, generator.failed) = (0, 0);
        }
    }

    /// Of each transfer whose connection is there: its number among all, its generator, and what the connection is now.
    pub fn states<'s>(
        &'s self,
        tcp: &'s TcpHosts,
        medium: &'s Medium,
    ) -> impl Iterator<Item = (usize, &'s str, TcpState)> + 's {
        self.begun.iter().enumerate().filter_map(|(n, begun)| {
            let host = medium.nodes[begun.transfer.from.0 as usize].host?;
            let state = tcp.state(host, begun.connection?)?;
            let name = &*self.generators[begun.generator as usize].name;
            Some((n, name, state))
        })
    }

    /// What became of the transfers that began at or after an instant.
    pub fn report(&mut self, since: Time, tcp: &TcpHosts, medium: &Medium) -> Vec<GeneratorReport> {
        let mut lists: Vec<Vec<Transfer>> = vec![Vec::new(); self.generators.len()];
        for begun in &mut self.begun {
            let host = medium.nodes[begun.transfer.from.0 as usize].host;
            if let (Some(id), Some(host)) = (begun.connection, host) {
                begun.count(host, id, tcp);
            }
            if begun.transfer.start >= since {
                lists[begun.generator as usize].push(begun.transfer);
            }
        }
        let all = self.generators.iter().zip(lists);
        let reports = all.map(|(it, transfers)| {
            let counts = (it.refused, it.failed);
            GeneratorReport::new(&it.name, &it.bins, counts, transfers)
        });
        reports.collect()
    }
}

impl Begun {
    /// It counts no more; `false` if it did not before.
    fn is_over(&mut self, tcp: &TcpHosts, medium: &Medium) -> bool {
        let host = medium.nodes[self.transfer.from.0 as usize].host;
        let (Some(id), Some(host)) = (self.connection.take(), host) else {
            return false;
        };
        self.count(host, id, tcp);
        true
    }

    /// Takes what its sender counted.
    fn count(&mut self, host: u32, id: ConnId, tcp: &TcpHosts) {
        if let Some(counts) = tcp.counts(host, id) {
            let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
            self.transfer.retransmitted = number(counts.retransmitted);
            self.transfer.timeouts = number(counts.timeouts);
        }
    }
}
