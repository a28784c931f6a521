use std::sync::Arc;

use layercast_core::{Span, Stream, Time};

use super::{App, Choose, Model, Placement, Process, Role, Workload};
use crate::app::{Audio, Browser, Conversation, Ftp, HostId, Push, Replay, Server, Telnet, Video};

/// The hosts of one site.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// Where users sit.
    pub workstations: Vec<HostId>,
    /// What they use.
    pub servers: Vec<HostId>,
}

/// The hosts that take part in a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Population {
    /// By site.
    pub sites: Vec<Site>,
    /// All servers, the most popular one first.
    pub ranks: Vec<HostId>,
}

/// Why a workload cannot run on a population.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PopulationError {
    /// Conversations go to other sites.
    #[error("a workload needs two sites at least: conversations go from one site to another")]
    Sites,
    /// A site without hosts of a sort.
    #[error("site {site} has no {role} for the application {app:?}")]
    NoHost {
        /// Which, from 0.
        site: usize,
        /// What is missing.
        role: &'static str,
        /// The application.
        app: String,
    },
    /// All servers are on one site: its own users have none to go to.
    #[error("all servers are on site {site}: its users need servers on other sites and find none")]
    OwnServers {
        /// Which, from 0.
        site: usize,
    },
}

impl Population {
    /// `sites` sites of `workstations` workstations and `servers` servers each, numbered site by site,
    /// workstations first. The popular servers are distributed over the sites round-robin (specs/insane-simulator.md
    /// 2.9).
    pub fn uniform(sites: u32, workstations: u32, servers: u32) -> Population {
        let each = workstations + servers;
        let all: Vec<Site> = (0..sites)
            .map(|site| {
                let first = site * each;
                let hosts = |from: u32, n: u32| (from..from + n).map(HostId).collect();
                Site {
                    workstations: hosts(first, workstations),
                    servers: hosts(first + workstations, servers),
                }
            })
            .collect();
        let ranks = (0..servers as usize)
            .flat_map(|n| all.iter().map(move |site| site.servers[n]))
            .collect();
        Population { sites: all, ranks }
    }

    /// The site of a host.
    pub fn site_of(&self, host: HostId) -> Option<usize> {
        let here = |site: &Site| site.workstations.contains(&host) || site.servers.contains(&host);
        self.sites.iter().position(here)
    }

    fn hosts(&self, site: usize, role: Role) -> &[HostId] {
        match role {
            Role::Workstation => &self.sites[site].workstations,
            Role::Server => &self.sites[site].servers,
        }
    }
}

/// A conversation that starts.
#[derive(Debug)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Which application, by its place in the workload.
    pub app: usize,
    /// Site of the user, from 0.
    pub site: usize,
    /// The conversation, which has not started.
    pub conversation: Conversation,
}

/// The conversations of a workload on a population, in the order of their start.
#[derive(Debug)]
pub struct Composite {
    apps: Vec<App>,
    population: Population,
    seed: u64,
    sources: Vec<Source>,
}

/// The starts of one application at one site.
#[derive(Debug)]
struct Source {
    app: usize,
    site: usize,
    times: Stream,
    hosts: Stream,
    next: Option<Time>,
    started: u64,
    /// Hosts that have one which stays, by their place in the site.
    taken: Vec<bool>,
    /// Site the last one went to, if they go round.
    turn: usize,
}

impl Composite {
    /// The run of a workload with this seed.
    pub fn new(
        workload: &Workload,
        population: Population,
        seed: u64,
    ) -> Result<Composite, PopulationError> {
        let sites = population.sites.len();
        if sites < 2 {
            return Err(PopulationError::Sites);
        }
        let mut sources = Vec::new();
        for (index, app) in workload.apps.iter().enumerate() {
            for site in 0..sites {
                for role in [app.from, app.to] {
                    if population.hosts(site, role).is_empty() {
                        let role = match role {
                            Role::Workstation => "workstation",
                            Role::Server => "server",
                        };
                        let app = app.name.clone();
                        return Err(PopulationError::NoHost { site, role, app });
                    }
                }
                let own = &population.sites[site].servers;
                let remote = |host: &HostId| !own.contains(host);
                if app.choose == Choose::Zipf && !population.ranks.iter().any(remote) {
                    return Err(PopulationError::OwnServers { site });
                }
                let name = |what| format!("workload/site{site}/{}/{what}", app.name);
                let hosts = population.hosts(site, app.from).len();
                let mut source = Source {
                    app: index,
                    site,
                    times: Stream::new(seed, &name("arrivals")),
                    hosts: Stream::new(seed, &name("hosts")),
                    next: None,
                    started: 0,
                    taken: vec![false; hosts],
                    turn: site,
                };
                source.next = Some(source.first(app));
                sources.push(source);
            }
        }
        Ok(Composite {
            apps: workload.apps.clone(),
            population,
            seed,
            sources,
        })
    }

    /// The hosts that take part.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// When the next conversation starts, or would if its host had none; `None`: never more.
    pub fn next_at(&self) -> Option<Time> {
        self.sources.iter().filter_map(|source| source.next).min()
    }

    /// The next conversation that starts at `until` or before.
    pub fn next(&mut self, until: Time) -> Option<Arrival> {
        loop {
            let due = |source: &Source| source.next.filter(|&at| at <= until);
            let sources = self.sources.iter_mut().enumerate();
            let waiting = sources.filter_map(|(n, source)| Some((due(source)?, n, source)));
            let (at, _, source) = waiting.min_by_key(|&(at, n, _)| (at, n))?;
            let app = &self.apps[source.app];
            source.next = Some(at.saturating_add(source.gap(app)));
            let from = self.population.hosts(source.site, app.from);
            let Some(index) = source.place(app.placement) else {
                continue;
            };
            let client = from[index];
            let server = source.partner(app, &self.population);
            let (app_index, site) = (source.app, source.site);
            let name = format!("workload/site{site}/{}/{}", app.name, source.started);
            source.started += 1;
            let stream = Stream::new(self.seed, &name);
            let servers = || servers_of(&self.population, site);
            return Some(Arrival {
                at,
                app: app_index,
                site,
                conversation: app.model.start(stream, client, server, servers),
            });
        }
    }
}

/// The servers of other sites, weighted by rank (Zipf).
fn servers_of(population: &Population, site: usize) -> Vec<Server> {
    let own = &population.sites[site].servers;
    let ranked = population.ranks.iter().zip(1u32..);
    let remote = ranked.filter(|(host, _)| !own.contains(host));
    let servers = remote.map(|(&host, rank)| Server {
        host,
        weight: 1.0 / f64::from(rank),
    });
    servers.collect()
}

impl Source {
    fn first(&mut self, app: &App) -> Time {
        let first = match app.process {
            Process::Periodic => scaled(app.mean, self.times.unit()),
            _ => self.gap(app),
        };
        Time::ZERO.saturating_add(first)
    }

    fn gap(&mut self, app: &App) -> Span {
        let gap = match app.process {
            Process::Poisson => scaled(app.mean, self.times.exponential(1.0)),
            Process::Periodic => app.mean,
            Process::UniformIid => scaled(app.mean, 2.0 * self.times.unit()),
        };
        gap.max(Span::from_ps(1))
    }

    /// A host for the next one, by its place in the site; `None` if it has one.
    fn place(&mut self, placement: Placement) -> Option<usize> {
        let free = self.taken.iter().filter(|&&taken| !taken).count();
        let index = match placement {
            Placement::Any => return Some(self.hosts.below(self.taken.len() as u64) as usize),
            _ if free == 0 => {
                self.next = None;
                return None;
            }
            Placement::Coupon => self.hosts.below(self.taken.len() as u64) as usize,
            Placement::Distinct => {
                let nth = self.hosts.below(free as u64) as usize;
                let places = self.taken.iter().enumerate();
                places.filter(|(_, taken)| !**taken).nth(nth)?.0
            }
        };
        (!std::mem::replace(&mut self.taken[index], true)).then_some(index)
    }

    /// The server of the next conversation.
    fn partner(&mut self, app: &App, population: &Population) -> HostId {
        let sites = population.sites.len();
        match app.choose {
            Choose::Zipf => {
                let servers = servers_of(population, self.site);
                Server::choose(&servers, &mut self.hosts).unwrap_or(HostId(0))
            }
            Choose::Uniform => {
                let step = 1 + self.hosts.below(sites as u64 - 1) as usize;
                self.host_of(app, population, (self.site + step) % sites)
            }
            Choose::Rotate => {
                self.turn = (self.turn + 1) % sites;
                if self.turn == self.site {
                    self.turn = (self.turn + 1) % sites;
                }
                self.host_of(app, population, self.turn)
            }
        }
    }

    fn host_of(&mut self, app: &App, population: &Population, site: usize) -> HostId {
        let hosts = population.hosts(site, app.to);
        hosts[self.hosts.below(hosts.len() as u64) as usize]
    }
}

fn scaled(mean: Span, by: f64) -> Span {
    Span::from_secs_f64(mean.as_secs_f64() * by)
}

impl Model {
    fn start(
        &self,
        stream: Stream,
        client: HostId,
        server: HostId,
        servers: impl Fn() -> Vec<Server>,
    ) -> Conversation {
        match self {
            Model::Telnet(model) => {
                Conversation::Telnet(Box::new(Telnet::new(model.clone(), stream, client, server)))
            }
            Model::Ftp(model) => {
                Conversation::Ftp(Box::new(Ftp::new(model.clone(), stream, client, server)))
            }
            Model::Http(model) => Conversation::Browser(Box::new(Browser::new(
                model.clone(),
                stream,
                client,
                servers(),
            ))),
            Model::Push(model) => {
                Conversation::Push(Box::new(Push::new(model.clone(), stream, client, server)))
            }
            Model::Audio(model) => {
                Conversation::Audio(Box::new(Audio::new(model.clone(), stream, client, server)))
            }
            Model::Video(model) => {
                Conversation::Video(Box::new(Video::new(model.clone(), stream, client, server)))
            }
            Model::Trace(trace, bound) => {
                let trace = Arc::clone(trace);
                Conversation::Replay(Box::new(Replay::new(trace, client, server, *bound)))
            }
        }
    }
}
