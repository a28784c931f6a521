use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Connection, Line, Summary, Tail};

/// What the tail of replies begins with: 1 KB.
const TAIL_FROM: f64 = 1024.0;

/// Which connections of a trace to look at, and what makes a page of them.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpOptions {
    /// Connections of one client belong to one page if the next starts at most this many seconds after the end
    /// of those before; one that overlaps always does.
    pub threshold: f64,
    /// Port of the servers.
    pub port: u16,
    /// Hosts to leave out, such as a server whose pages load themselves again every five minutes.
    pub without: Vec<String>,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            threshold: 1.0,
            port: 80,
            without: Vec::new(),
        }
    }
}

/// The model that a trace of the Web has: the six quantities of table A-2 of the thesis.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Http {
    /// Connections of the trace.
    pub connections: Selected,
    /// Longest pause between connections of a page, in seconds.
    pub threshold: f64,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Clients.
    pub clients: usize,
    /// Servers.
    pub servers: usize,
    /// Pages.
    pub pages: usize,
    /// Pages with files of more than one server.
    pub mixed_pages: usize,
    /// The quantities of the model, by name; those without samples are left out (thesis, table A-4 and following).
    pub quantities: BTreeMap<&'static str, Summary>,
    /// The tail of replies above 1 KB (thesis, table A-6).
    pub reply_tail: Option<Tail>,
    /// Servers by falling popularity (thesis, table A-11).
    pub popularity: Vec<Popularity>,
    /// Regression of the logarithm of visits on the logarithm of the rank.
    pub zipf: Option<Line>,
    /// The samples behind the quantities.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// Connections of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Selected {
    /// Connections in the trace.
    pub read: usize,
    /// Connections to other ports.
    pub other_port: usize,
    /// Connections of hosts that were left out.
    pub left_out: usize,
    /// Connections analysed.
    pub kept: usize,
    /// Of these, connections without a byte from the server.
    pub without_reply: usize,
}

/// How popular a server is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Popularity {
    /// Name of the server.
    pub server: String,
    /// Visits: pages whose client visited another server before, or none.
    pub visits: usize,
    /// Pages of all visits.
    pub pages: usize,
}

/// All that was found of one quantity, sorted.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// As in `http.reply`, the distribution of the model.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// One for each connection, page, pause or visit.
    pub values: Vec<f64>,
}

/// A page: connections of one client that follow one another closely.
struct Page<'a> {
    server: &'a str,
    start: f64,
    end: f64,
    files: u32,
    mixed: bool,
}

/// What a trace says of the model; quantities are empty where it says nothing.
pub fn http(trace: &[Connection], options: &HttpOptions) -> Http {
    let mut selected = Selected {
        read: trace.len(),
        ..Selected::default()
    };
    let left_out = |host: &str| options.without.iter().any(|it| it == host);
    let mut clients: BTreeMap<&str, Vec<&Connection>> = BTreeMap::new();
    for connection in trace {
        if connection.port != options.port {
            selected.other_port += 1;
        } else if left_out(connection.client) || left_out(connection.server) {
            selected.left_out += 1;
        } else {
            selected.kept += 1;
            selected.without_reply += usize::from(connection.received == 0);
            clients
                .entry(connection.client)
                .or_default()
                .push(connection);
        }
    }
    let kept = || clients.values().flatten();
    let start = kept().map(|it| it.start).fold(f64::INFINITY, f64::min);
    let end = kept().map(|it| it.end).fold(0.0, f64::max);
    let servers: BTreeSet<&str> = kept().map(|it| it.server).collect();
    let request: Vec<f64> = kept().map(|it| it.sent as f64).collect();
    let reply: Vec<f64> = kept().map(|it| it.received as f64).collect();

    let (mut files, mut think, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let mut popularity: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut number, mut mixed_pages) = (0, 0);
    let client_count = clients.len();
    for mut connections in clients.into_values() {
        let pages = pages(&mut connections, options.threshold);
        number += pages.len();
        mixed_pages += pages.iter().filter(|page| page.mixed).count();
        files.extend(pages.iter().map(|page| f64::from(page.files)));
        think.extend(pages.windows(2).map(|two| two[1].start - two[0].end));
        for visit in pages.chunk_by(|a, b| a.server == b.server) {
            runs.push(visit.len() as f64);
            let (visits, pages) = popularity.entry(visit[0].server).or_default();
            *visits += 1;
            *pages += visit.len();
        }
    }
    let mut samples: Vec<Sample> = [
        ("http.request", "B", request),
        ("http.reply", "B", reply),
        ("http.files_per_page", "files", files),
        ("http.think", "s", think),
        ("http.consecutive_pages", "pages", runs),
    ]
    .map(|(name, unit, values)| Sample { name, unit, values })
    .into();
    let mut quantities = BTreeMap::new();
    for sample in &mut samples {
        if let Some(summary) = Summary::of(&mut sample.values) {
            quantities.insert(sample.name, summary);
        }
    }
    let popularity = ranked(popularity);
    Http {
        connections: selected,
        threshold: options.threshold,
        seconds: (end - start).max(0.0),
        clients: client_count,
        servers: servers.len(),
        pages: number,
        mixed_pages,
        quantities,
        reply_tail: Tail::of(&samples[1].values, TAIL_FROM),
        zipf: zipf(&popularity),
        popularity,
        samples,
    }
}

/// The pages of one client; sorts its connections.
fn pages<'a>(connections: &mut [&Connection<'a>], threshold: f64) -> Vec<Page<'a>> {
    connections.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end)));
    let mut pages: Vec<Page> = Vec::new();
    for it in connections {
        match pages.last_mut() {
            Some(page) if it.start - page.end <= threshold => {
                page.end = page.end.max(it.end);
                page.files += 1;
                page.mixed |= page.server != it.server;
            }
            _ => pages.push(Page {
                server: it.server,
                start: it.start,
                end: it.end,
                files: 1,
                mixed: false,
            }),
        }
    }
    pages
}

fn ranked(found: BTreeMap<&str, (usize, usize)>) -> Vec<Popularity> {
    let all = found.into_iter().map(|(server, (visits, pages))| {
        let server = server.to_owned();
        Popularity {
            server,
            visits,
            pages,
        }
    });
    let mut all: Vec<Popularity> = all.collect();
    all.sort_by(|a, b| b.visits.cmp(&a.visits).then(a.server.cmp(&b.server)));
    all
}

fn zipf(popularity: &[Popularity]) -> Option<Line> {
    let points = popularity.iter().enumerate().map(|(index, it)| {
        let rank = libm::log10((index + 1) as f64);
        (rank, libm::log10(it.visits as f64))
    });
    Line::through(&points.collect::<Vec<_>>())
}
