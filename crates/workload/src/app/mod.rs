//! Applications as machines: what they connect, write, read and close, and when.
//!
//! A conversation plays both of its ends, because what a server answers and when is part of the model;
//! the driver carries its connections and datagrams over a network, simulated or not. The models are
//! closed loops: they act on what arrived, not on a list of times.

mod audio;
mod ftp;
mod http;
mod push;
mod replay;
mod tally;
mod telnet;
mod video;

use std::collections::VecDeque;

use layercast_core::{Machine, Observer, Span, Time};
use serde::{Deserialize, Serialize};

pub use audio::{Audio, AudioModel};
pub use ftp::{Ftp, FtpModel};
pub use http::{Browser, HttpModel, Messages, Server};
pub use push::{Push, PushModel};
pub(crate) use replay::MAX_DATAGRAM;
pub use replay::{Replay, Trace, TraceError};
pub use telnet::{Telnet, TelnetModel};
pub use video::{Video, VideoModel};

/// Index of a host in the population of a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub u32);

/// A connection of a conversation, numbered by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct ConnId(pub u32);

/// One side of a conversation: the user's program, or its server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The user's.
    Client,
    /// The other.
    Server,
}

impl End {
    /// The other one.
    pub fn other(self) -> End {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }
}

/// The kind of a stream of datagrams, as its application header tells (specs/insane-simulator.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// Packet voice.
    Audio,
    /// Packet video.
    Video,
    /// Replayed from a trace.
    Trace,
}

/// An event delivered to a conversation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AppInput {
    /// Begin.
    Start,
    /// A connection stands, for the end that opened it.
    Established {
        /// Which.
        conn: ConnId,
    },
    /// The next bytes of a connection arrived at an end.
    Received {
        /// Which.
        conn: ConnId,
        /// Where.
        end: End,
        /// How many.
        bytes: u64,
    },
    /// An end read to the end of what the other one wrote.
    Ended {
        /// Which.
        conn: ConnId,
        /// The side that read.
        end: End,
    },
    /// A connection failed, or could not be opened.
    Failed {
        /// Which.
        conn: ConnId,
    },
    /// A datagram arrived at the server's end.
    Datagram {
        /// When it had been sent.
        sent: Time,
    },
}

/// What a conversation wants done.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum Act {
    /// Open a TCP connection.
    Connect {
        /// How it is called from now on.
        conn: ConnId,
        /// The side that opens it.
        opener: End,
        /// Host of the opener.
        from: HostId,
        /// Port of the opener, if it is a well-known one.
        from_port: Option<u16>,
        /// The other host.
        to: HostId,
        /// Its port.
        to_port: u16,
    },
    /// Write bytes to a connection.
    Write {
        /// Which.
        conn: ConnId,
        /// The side that writes.
        end: End,
        /// How many, at least one.
        bytes: u64,
    },
    /// Nothing more will be written.
    Close {
        /// Which.
        conn: ConnId,
        /// The side.
        end: End,
    },
    /// Send a UDP datagram from the client's host to the server's.
    Datagram {
        /// From.
        from: HostId,
        /// To.
        to: HostId,
        /// Payload.
        bytes: u32,
        /// What it is.
        media: Media,
    },
}

/// A measurement (specs/insane-simulator.md 2.11).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// A telnet connection was set up.
    TelnetConnect {
        /// From the call to the connection.
        took: Span,
    },
    /// All of a reply to a keystroke arrived.
    TelnetRtt {
        /// Size of the reply.
        bytes: u64,
        /// From the keystroke to the last byte.
        took: Span,
    },
    /// A file was fetched.
    FtpFile {
        /// Its size.
        bytes: u64,
        /// From the command to the end of the data connection.
        took: Span,
    },
    /// A session ended.
    FtpSession {
        /// Files fetched.
        files: u32,
        /// Bytes of all of them.
        bytes: u64,
        /// From the first connect to the close.
        took: Span,
    },
    /// A file of a page was fetched.
    HttpItem {
        /// Its size.
        bytes: u64,
        /// From the connect to the last byte.
        took: Span,
    },
    /// A page was fetched.
    HttpPage {
        /// Files of it.
        files: u32,
        /// Bytes of all of them.
        bytes: u64,
        /// From the first connect to the last byte of the last file.
        took: Span,
    },
    /// Mail or news was handed over.
    Pushed {
        /// How much.
        bytes: u64,
        /// From the connect to the end.
        took: Span,
    },
    /// A stream of datagrams ended.
    Stream {
        /// Of what.
        media: Media,
        /// Packets sent.
        sent: u64,
        /// Packets that arrived.
        received: u64,
        /// Those of them that were under way for longer than the bound of the model.
        overdue: u64,
    },
    /// A connection failed; the application continued with its next action.
    Failed {
        /// Which.
        conn: ConnId,
    },
    /// The server did not take keystrokes as fast as the user typed: one was not sent.
    UserStalled,
    /// The model said that nothing be written; one byte was.
    ZeroLength,
}

impl Record {
    /// What was measured, such as `ftp.file` (specs/insane-simulator.md 2.11).
    pub fn name(&self) -> &'static str {
        match self {
            Record::TelnetConnect { .. } => "telnet.connect",
            Record::TelnetRtt { .. } => "telnet.rtt",
            Record::FtpFile { .. } => "ftp.file",
            Record::FtpSession { .. } => "ftp.session",
            Record::HttpItem { .. } => "http.item",
            Record::HttpPage { .. } => "http.page",
            Record::Pushed { .. } => "pushed",
            Record::Stream { .. } => "stream",
            Record::Failed { .. } => "failed",
            Record::UserStalled => "user_stalled",
            Record::ZeroLength => "zero_len",
        }
    }

    /// How long it took, if it is a time.
    pub fn took(&self) -> Option<Span> {
        match *self {
            Record::TelnetConnect { took }
            | Record::TelnetRtt { took, .. }
            | Record::FtpFile { took, .. }
            | Record::FtpSession { took, .. }
            | Record::HttpItem { took, .. }
            | Record::HttpPage { took, .. }
            | Record::Pushed { took, .. } => Some(took),
            Record::Stream { .. }
            | Record::Failed { .. }
            | Record::UserStalled
            | Record::ZeroLength => None,
        }
    }

    /// How many bytes it was about, if it is known.
    pub fn bytes(&self) -> Option<u64> {
        match *self {
            Record::TelnetRtt { bytes, .. }
            | Record::FtpFile { bytes, .. }
            | Record::FtpSession { bytes, .. }
            | Record::HttpItem { bytes, .. }
            | Record::HttpPage { bytes, .. }
            | Record::Pushed { bytes, .. } => Some(bytes),
            Record::TelnetConnect { .. }
            | Record::Stream { .. }
            | Record::Failed { .. }
            | Record::UserStalled
            | Record::ZeroLength => None,
        }
    }
}

/// The shortest pause of a user: without one a model could act forever in one instant.
const MOMENT: Span = Span::from_us(1);

/// The output of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Out {
    acts: VecDeque<Act>,
    records: VecDeque<Record>,
}

impl Out {
    fn act(&mut self, act: Act) {
        self.acts.push_back(act);
    }

    /// Opens a connection from the user's host.
    fn connect(&mut self, conn: ConnId, from: HostId, to: HostId, to_port: u16) {
        self.act(Act::Connect {
            conn,
            opener: End::Client,
            from,
            from_port: None,
            to,
            to_port,
        });
    }

    fn record(&mut self, record: Record) {
        self.records.push_back(record);
    }

    /// Writes `bytes`, or one byte where the model says none: with nothing to read the dialogue would stop
    /// (specs/insane-workloads.md 2.4).
    fn write(&mut self, conn: ConnId, end: End, bytes: u64) {
        if bytes == 0 {
            self.record(Record::ZeroLength);
        }
        let bytes = bytes.max(1);
        self.act(Act::Write { conn, end, bytes });
    }

    fn close(&mut self, conn: ConnId, end: End) {
        self.act(Act::Close { conn, end });
    }
}

/// What all applications have in common.
pub(crate) trait Application {
    fn input(&mut self, now: Time, input: AppInput);
    fn wake(&mut self, now: Time);
    fn next(&self) -> Option<Time>;
    fn out(&mut self) -> &mut Out;
    /// Nothing more will happen.
    fn is_done(&self) -> bool;
}

macro_rules! conversations {
    ($($name:ident),* $(,)?) => {
        /// A running application with the one it talks to.
        #[derive(Debug)]
        pub enum Conversation {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name(Box<$name>)),*
        }

        impl Conversation {
            fn app(&mut self) -> &mut dyn Application {
                match self {
                    $(Conversation::$name(app) => app.as_mut()),*
                }
            }

            fn app_ref(&self) -> &dyn Application {
                match self {
                    $(Conversation::$name(app) => app.as_ref()),*
                }
            }
        }
    };
}

conversations!(Telnet, Ftp, Browser, Push, Audio, Video, Replay);

impl Conversation {
    /// Whether it is over: nothing more will happen, it can be forgotten.
    pub fn is_done(&self) -> bool {
        self.app_ref().is_done()
    }
}

impl Machine for Conversation {
    type Input = AppInput;
    type Transmit = Act;
    type Event = Record;

    fn handle<O: Observer>(&mut self, now: Time, input: AppInput, _: &mut O) {
        self.app().input(now, input);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        self.app().wake(now);
    }

    fn poll_transmit<O: Observer>(&mut self, _: Time, _: &mut O) -> Option<Act> {
        self.app().out().acts.pop_front()
    }

    fn poll_event(&mut self) -> Option<Record> {
        self.app().out().records.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.app_ref().next()
    }
}

#[cfg(test)]
mod tests;
