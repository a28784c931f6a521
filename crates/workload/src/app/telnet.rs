use std::collections::VecDeque;
use std::sync::Arc;

use layercast_core::{Stream, Time};

use super::{AppInput, Application, ConnId, End, HostId, MOMENT, Out, Record};
use crate::dist::Distribution;

const PORT: u16 = 23;
const CONN: ConnId = ConnId(0);

/// Keystrokes that may wait for the server (specs/insane-workloads.md 7).
const BACKLOG: usize = 65_536;

/// What a telnet session draws from (specs/insane-workloads.md 2.2).
#[derive(Clone, Debug)]
pub struct TelnetModel {
    /// Time between keystrokes.
    pub interarrival: Distribution,
    /// Bytes the server answers to a keystroke.
    pub replysize: Distribution,
    /// How long a session lasts.
    pub duration: Distribution,
}

/// A telnet session: an open loop of keystrokes, each answered by the server.
#[derive(Debug)]
pub struct Telnet {
    model: Arc<TelnetModel>,
    stream: Stream,
    client: HostId,
    server: HostId,
    started: Time,
    until: Time,
    next: Option<Time>,
    /// When those keystrokes were made that have not reached the server.
    typed: VecDeque<Time>,
    /// Where the reply to a keystroke ends in the bytes of the server, and when the key was hit.
    replies: VecDeque<(u64, u64, Time)>,
    written: u64,
    read: u64,
    done: bool,
    out: Out,
}

impl Telnet {
    /// A session between two hosts.
    pub fn new(model: Arc<TelnetModel>, stream: Stream, client: HostId, server: HostId) -> Telnet {
        Telnet {
            model,
            stream,
            client,
            server,
            started: Time::ZERO,
            until: Time::ZERO,
            next: None,
            typed: VecDeque::new(),
            replies: VecDeque::new(),
            written: 0,
            read: 0,
            done: false,
            out: Out::default(),
        }
    }

    fn think(&mut self, from: Time) {
        let next = from.saturating_add(self.model.interarrival.span(&mut self.stream).max(MOMENT));
        self.next = Some(next).filter(|&next| next <= self.until);
        if self.next.is_none() {
            self.out.close(CONN, End::Client);
        }
    }

    /// The server answers each of the keystrokes that arrived, all in one write.
    fn answer(&mut self, keys: u64) {
        let mut bytes = 0;
        for _ in 0..keys {
            let Some(typed) = self.typed.pop_front() else {
                break;
            };
            let size = self.model.replysize.whole(&mut self.stream).max(1);
            bytes += size;
            self.replies.push_back((self.written + bytes, size, typed));
        }
        if bytes > 0 {
            self.written += bytes;
            self.out.write(CONN, End::Server, bytes);
        }
    }
}

impl Application for Telnet {
    fn input(&mut self, now: Time, input: AppInput) {
        match input {
            AppInput::Start => {
                self.started = now;
                self.out.connect(CONN, self.client, self.server, PORT);
            }
            AppInput::Established { .. } => {
                let took = now.since(self.started);
                self.out.record(Record::TelnetConnect { took });
                self.until = now.saturating_add(self.model.duration.span(&mut self.stream));
                self.think(now);
            }
            AppInput::Received {
                end: End::Server,
                bytes,
                ..
            } => self.answer(bytes),
            AppInput::Received {
                end: End::Client,
                bytes,
                ..
            } => {
                self.read += bytes;
                while let Some((_, bytes, typed)) =
                    self.replies.pop_front_if(|reply| reply.0 <= self.read)
                {
                    let took = now.since(typed);
                    self.out.record(Record::TelnetRtt { bytes, took });
                }
            }
            AppInput::Ended {
                end: End::Server, ..
            } => self.out.close(CONN, End::Server),
            AppInput::Ended {
                end: End::Client, ..
            } => self.done = true,
            AppInput::Failed { conn } => {
                self.out.record(Record::Failed { conn });
                self.next = None;
                self.done = true;
            }
            AppInput::Datagram { .. } => {}
        }
    }

    fn wake(&mut self, now: Time) {
        while let Some(key) = self.next.filter(|&next| next <= now) {
            if self.typed.len() < BACKLOG {
                self.typed.push_back(key);
                self.out.write(CONN, End::Client, 1);
            } else {
                self.out.record(Record::UserStalled);
            }
            self.think(key);
        }
    }

    fn next(&self) -> Option<Time> {
        self.next
    }

    fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    fn is_done(&self) -> bool {
        self.done
    }
}
