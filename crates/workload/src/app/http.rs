use std::sync::Arc;

use layercast_core::{Stream, Time};

use super::{AppInput, Application, ConnId, End, HostId, MOMENT, Out, Record};
use crate::dist::Distribution;

const PORT: u16 = 80;

/// Sizes of a request and of its reply.
#[derive(Clone, Debug)]
pub struct Messages {
    /// Bytes of the request.
    pub request: Distribution,
    /// Bytes of the reply.
    pub reply: Distribution,
}

/// What a browser draws from (specs/insane-workloads.md 2.4).
#[derive(Clone, Debug)]
pub struct HttpModel {
    /// The first file of a page.
    pub first: Messages,
    /// The other files of a page.
    pub others: Messages,
    /// Files of a page.
    pub files_per_page: Distribution,
    /// Time between two pages.
    pub think: Distribution,
    /// Pages in a row from one server.
    pub consecutive_pages: Distribution,
    /// Concurrent connections, at least one.
    pub parallel: u32,
}

impl HttpModel {
    fn messages(&self, first: bool) -> &Messages {
        match first {
            true => &self.first,
            false => &self.others,
        }
    }
}

/// A server a browser may choose, and how often it does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Server {
    /// Which.
    pub host: HostId,
    /// Weight; a probability is its share in the sum of all.
    pub weight: f64,
}

impl Server {
    /// One of them, by weight; `None` if there is none.
    pub fn choose(servers: &[Server], stream: &mut Stream) -> Option<HostId> {
        let total: f64 = servers.iter().map(|server| server.weight).sum();
        let mut left = stream.unit() * total;
        let found = servers.iter().find(|server| {
            left -= server.weight;
            left < 0.0
        });
        found.or(servers.last()).map(|server| server.host)
    }
}

/// A browser: pages from servers it chooses, one connection for each file, forever.
#[derive(Debug)]
pub struct Browser {
    model: Arc<HttpModel>,
    stream: Stream,
    client: HostId,
    servers: Vec<Server>,
    server: HostId,
    /// Pages left on this server.
    pages: u64,
    /// Files of the page not yet asked for, asked for, fetched.
    left: u64,
    open: Vec<Item>,
    files: u32,
    bytes: u64,
    first: bool,
    started: Time,
    next: Option<Time>,
    conn: ConnId,
    out: Out,
}

/// A file under way.
#[derive(Debug)]
struct Item {
    conn: ConnId,
    first: bool,
    started: Time,
    /// Bytes of the request the server has not got.
    request: u64,
    arrived: u64,
}

impl Browser {
    /// A browser on `client`; without servers it never does anything.
    pub fn new(
        model: Arc<HttpModel>,
        stream: Stream,
        client: HostId,
        servers: Vec<Server>,
    ) -> Browser {
        Browser {
            model,
            stream,
            client,
            servers,
            server: client,
            pages: 0,
            left: 0,
            open: Vec::new(),
            files: 0,
            bytes: 0,
            first: true,
            started: Time::ZERO,
            next: None,
            conn: ConnId(0),
            out: Out::default(),
        }
    }

    fn next_page(&mut self, now: Time) {
        if self.pages == 0 {
            let Some(server) = Server::choose(&self.servers, &mut self.stream) else {
                return;
            };
            self.server = server;
            self.pages = self.model.consecutive_pages.whole(&mut self.stream);
        }
        self.pages -= 1;
        self.left = self.model.files_per_page.whole(&mut self.stream);
        (self.files, self.bytes) = (0, 0);
        (self.first, self.started) = (true, now);
        self.fetch(now);
    }

    /// Opens as many connections as there may be; ends the page if there is nothing more to fetch.
    fn fetch(&mut self, now: Time) {
        while self.left > 0 && self.open.len() < self.model.parallel.max(1) as usize {
            self.left -= 1;
            self.conn = ConnId(self.conn.0.wrapping_add(1));
            self.open.push(Item {
                conn: self.conn,
                first: std::mem::take(&mut self.first),
                started: now,
                request: 0,
                arrived: 0,
            });
            self.out.connect(self.conn, self.client, self.server, PORT);
        }
        if self.open.is_empty() {
            if self.files > 0 {
                let (files, bytes) = (self.files, self.bytes);
                let took = now.since(self.started);
                self.out.record(Record::HttpPage { files, bytes, took });
            }
            self.next =
                Some(now.saturating_add(self.model.think.span(&mut self.stream).max(MOMENT)));
        }
    }

    fn on_item(&mut self, now: Time, index: usize, input: AppInput) {
        let item = &self.open[index];
        let (conn, first) = (item.conn, item.first);
        match input {
            AppInput::Established { .. } => {
                let model = self.model.clone();
                let bytes = model.messages(first).request.whole(&mut self.stream);
                self.out.write(conn, End::Client, bytes);
                self.open[index].request = bytes.max(1);
            }
            AppInput::Received {
                end: End::Server,
                bytes,
                ..
            } => {
                let item = &mut self.open[index];
                let waiting = item.request > 0;
                item.request = item.request.saturating_sub(bytes);
                if waiting && item.request == 0 {
                    let model = self.model.clone();
                    let bytes = model.messages(first).reply.whole(&mut self.stream);
                    self.out.write(conn, End::Server, bytes);
                    self.out.close(conn, End::Server);
                }
            }
            AppInput::Received { bytes, .. } => self.open[index].arrived += bytes,
            AppInput::Ended {
                end: End::Client, ..
            } => {
                let item = self.open.swap_remove(index);
                let (bytes, took) = (item.arrived, now.since(item.started));
                self.out.record(Record::HttpItem { bytes, took });
                self.out.close(conn, End::Client);
                self.files += 1;
                self.bytes += bytes;
                self.fetch(now);
            }
            AppInput::Failed { .. } => {
                // A page that cannot be had is given up: the next one comes after the usual pause.
                self.out.record(Record::Failed { conn });
                self.open.swap_remove(index);
                self.left = 0;
                self.fetch(now);
            }
            AppInput::Start | AppInput::Ended { .. } | AppInput::Datagram { .. } => {}
        }
    }
}

impl Application for Browser {
    fn input(&mut self, now: Time, input: AppInput) {
        let about = match input {
            AppInput::Start => return self.next_page(now),
            AppInput::Established { conn }
            | AppInput::Received { conn, .. }
            | AppInput::Ended { conn, .. }
            | AppInput::Failed { conn } => conn,
            AppInput::Datagram { .. } => return,
        };
        // What is still said of connections that are over is of no interest.
        if let Some(index) = self.open.iter().position(|item| item.conn == about) {
            self.on_item(now, index, input);
        }
    }

    fn wake(&mut self, now: Time) {
        if self.next.is_some_and(|next| next <= now) {
            self.next = None;
            self.next_page(now);
        }
    }

    fn next(&self) -> Option<Time> {
        self.next
    }

    fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    fn is_done(&self) -> bool {
        self.servers.is_empty()
    }
}
