use core::net::SocketAddr;

use bytes::{Buf, Bytes};
use layercast_wire::XtpTrafficSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ServerStats;
use crate::{
    ContextId, ContextStatus, SendOptions, XtpConfig, XtpError, XtpInfo, XtpRate, XtpSocket,
};

/// Of the messages below; both sides must have the same.
pub const VERSION: u32 = 1;

/// What a user says. Contexts have the names that the user gave them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The first of all.
    Hello {
        /// Of the messages.
        version: u32,
    },
    /// As [`Endpoint::connect`](crate::Endpoint::connect).
    Connect {
        /// Its name from now on.
        id: ContextId,
        /// Port of XTP by which the peer knows us.
        from: u16,
        /// The peer.
        remote: XtpSocket,
        /// How.
        config: Box<XtpConfig>,
    },
    /// As [`Endpoint::join`](crate::Endpoint::join).
    Join {
        /// Its name from now on.
        id: ContextId,
        /// The group or its transmitter.
        remote: XtpSocket,
        /// How.
        config: Box<XtpConfig>,
    },
    /// As [`Endpoint::listen`](crate::Endpoint::listen); answered by [`Report::Listening`].
    Listen {
        /// Port of XTP.
        port: u16,
        /// Associations that are not accepted yet.
        backlog: u32,
        /// How.
        config: Box<XtpConfig>,
    },
    /// As [`Endpoint::unlisten`](crate::Endpoint::unlisten).
    Unlisten {
        /// Port of XTP.
        port: u16,
    },
    /// The next association to a port is to have this name; answered by [`Report::Accepted`] when there is one.
    Accept {
        /// Port of XTP.
        port: u16,
        /// Its name from now on.
        id: ContextId,
    },
    /// The data that follow are to be sent.
    Send {
        /// By which context.
        id: ContextId,
        /// How.
        how: SendOptions,
    },
    /// The user has taken this number of bytes.
    Taken {
        /// Of which context.
        id: ContextId,
        /// Data and tags.
        bytes: u64,
    },
    /// Tell when everything before is settled: [`ContextStatus::settled`].
    Settle {
        /// Of which context.
        id: ContextId,
        /// How often it was asked.
        nth: u64,
    },
    /// As [`Endpoint::post`](crate::Endpoint::post).
    Post {
        /// Of which context.
        id: ContextId,
        /// Of buffers.
        bytes: u64,
    },
    /// As [`Endpoint::set_traffic`](crate::Endpoint::set_traffic).
    SetTraffic {
        /// Of which context.
        id: ContextId,
        /// What we send.
        output: XtpRate,
        /// What we take.
        input: XtpRate,
    },
    /// Nothing more will be sent, after what was.
    CloseWrite {
        /// By which context.
        id: ContextId,
    },
    /// Nothing more will be received.
    CloseRead {
        /// By which context.
        id: ContextId,
    },
    /// Good-bye, after what was sent; the name is free again.
    Close {
        /// Which context.
        id: ContextId,
    },
    /// Breaks it off; the name is free again.
    Abort {
        /// Which context.
        id: ContextId,
    },
    /// A question; answered by [`Report::Answer`].
    Ask {
        /// Of the question.
        number: u32,
        /// What.
        about: Question,
    },
}

/// What a user may ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Question {
    /// What is known of a context.
    Info(ContextId),
    /// What the peer of a context said about traffic last.
    Traffic(ContextId),
    /// What the server and its endpoint counted.
    Stats,
}

/// What a server says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The answer to [`Request::Hello`].
    Welcome {
        /// The address of the socket.
        local: SocketAddr,
        /// User bytes of a packet that fits what carries it.
        max_data: u32,
    },
    /// Whether there are associations to a port now.
    Listening {
        /// Port of XTP.
        port: u16,
        /// Why not.
        refused: Option<XtpError>,
    },
    /// An association to a port.
    Accepted {
        /// Port of XTP.
        port: u16,
        /// The name that the user wanted for it.
        id: ContextId,
        /// The peer.
        remote: XtpSocket,
    },
    /// How things stand with a context; everything that was received before has been reported.
    Status {
        /// Which context.
        id: ContextId,
        /// How.
        status: Box<ContextStatus>,
    },
    /// The data that follow arrived.
    Chunk {
        /// By which context.
        id: ContextId,
        /// The tag before them.
        tag: Option<[u8; 8]>,
        /// Whether the last byte ends a message.
        end_of_message: bool,
        /// Whether something before them was lost for good.
        gap: bool,
    },
    /// This number of bytes has left the queue of a context.
    Room {
        /// Which context.
        id: ContextId,
        /// As credit counts them.
        bytes: u64,
    },
    /// The answer to a question.
    Answer {
        /// Of the question.
        number: u32,
        /// What.
        answer: Answer,
    },
    /// The last of all.
    Goodbye(Parting),
}

/// What a user is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// What is known of a context, if there is one.
    Info(Option<Box<XtpInfo>>),
    /// What its peer said about traffic last.
    Traffic(Option<XtpTrafficSpec>),
    /// What the server and its endpoint counted.
    Stats(Box<ServerStats>),
}

/// Why a server has nothing more to do with a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error, Serialize, Deserialize)]
pub enum Parting {
    /// It ends.
    #[error("the daemon ends")]
    Stopping,
    /// There are as many users as there may be.
    #[error("the daemon has its {0} clients")]
    Full(u32),
    /// Messages of another version.
    #[error("the daemon speaks version {0} of its protocol, and this program another")]
    Version(u32),
    /// Bytes that are no message, or none that is in place.
    #[error("what the client said makes no sense to the daemon")]
    Nonsense,
    /// More data than there was credit for.
    #[error("the client sent more than it had credit for")]
    Overrun,
}

/// Bytes that are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// Longer than any message.
    #[error("a message of {0} bytes")]
    TooLong(usize),
    /// Not what we say.
    #[error("not a message")]
    Malformed,
}

impl Request {
    /// The message in a frame, with the data behind it.
    pub fn decode(frame: Bytes) -> Result<(Request, Bytes), FrameError> {
        let (request, data) = decode(frame)?;
        match request {
            Request::Send { .. } => Ok((request, data)),
            _ if data.is_empty() => Ok((request, data)),
            _ => Err(FrameError::Malformed),
        }
    }
}

impl Report {
    /// The message in a frame, with the data behind it.
    pub fn decode(frame: Bytes) -> Result<(Report, Bytes), FrameError> {
        let (report, data) = decode(frame)?;
        match report {
            Report::Chunk { .. } => Ok((report, data)),
            _ if data.is_empty() => Ok((report, data)),
            _ => Err(FrameError::Malformed),
        }
    }
}

fn decode<T: DeserializeOwned>(mut frame: Bytes) -> Result<(T, Bytes), FrameError> {
    let (message, rest) = postcard::take_from_bytes(&frame).map_err(|_| FrameError::Malformed)?;
    let head = frame.len() - rest.len();
    frame.advance(head);
    Ok((message, frame))
}
