use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use layercast_core::Span;
use layercast_multicast::ReceiverStats;
use layercast_wire::multicast::Reason;

use crate::multicast::name::FileName;

/// Event of a running receiver.
#[derive(Clone, Debug)]
pub enum ReceiveEvent {
    /// It takes part in a session.
    Joined {
        /// The file.
        name: String,
        /// Its octets.
        size: u64,
        /// How many files its transfer has.
        files: u32,
        /// Packets that were there already, and all.
        held: (u64, u64),
        /// Whose session it is.
        sender: SocketAddr,
    },
    /// Four times a second, of the session that moved last.
    Progress {
        /// The file.
        name: String,
        /// Packets that are there, and all.
        held: (u64, u64),
        /// Octets of a packet.
        packet: u16,
        /// Octets of the whole transfer that are there, and all, if its list of files came.
        whole: Option<(u64, u64)>,
    },
    /// The list of files of a transfer came, or an earlier life of this receiver kept it. It comes once for each transfer.
    Listed {
        /// Files.
        files: u32,
        /// Folders.
        folders: u32,
        /// Octets of all files together.
        octets: u64,
        /// Octets that there is room for.
        room: u64,
        /// Whose transfer it is.
        sender: SocketAddr,
    },
    /// What claims to be a list of files is none, or a folder of it cannot be made.
    BadList {
        /// Whose it is.
        sender: SocketAddr,
        /// What is wrong.
        why: String,
        /// The reason that the sender hears.
        reason: Reason,
        /// The kind of the error, if the system or the content of the list is the cause.
        kind: Option<ErrorKind>,
    },
    /// The sender is gone before the file was whole; what is there is kept.
    Interrupted {
        /// The file.
        name: String,
        /// Why.
        reason: Reason,
    },
    /// A sender announces a session under another key, or without one where there is one, or with one where
    /// there is none; it is ignored, and reported once.
    Disbelieved(SocketAddr),
    /// A file is over.
    Done(Box<ReceivedFile>),
}

/// A file and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ReceivedFile {
    /// The name that was announced, made harmless.
    pub name: FileName,
    /// Its octets.
    pub size: u64,
    /// Its BLAKE3 digest.
    pub digest: [u8; 32],
    /// Where it is, if it is whole and its digest is right.
    pub path: Option<PathBuf>,
    /// Why not.
    pub reason: Option<Reason>,
    /// What the system said, if it was that.
    pub error: Option<String>,
    /// The kind of that error, for a remedy.
    pub error_kind: Option<ErrorKind>,
    /// Packets that were there before.
    pub held_before: u64,
    /// Octets that came since.
    pub moved: u64,
    /// How long it took, from the announcement until it was whole or given up.
    pub took: Span,
    /// What was counted.
    pub stats: ReceiverStats,
}

/// What came of receiving.
#[derive(Clone, Debug)]
pub struct Reception {
    /// The files that are over, each once.
    pub files: Vec<ReceivedFile>,
    /// Why it ended.
    pub ended: Ended,
    /// Announced files that an earlier life of this receiver got, with the size and time that the list of files gives.
    pub before: u32,
    /// Announced files that did not come.
    pub missing: u32,
    /// Whether every list of files could be used: without one folders, permissions and times may be missing.
    pub listed: bool,
}

/// Why receiving ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The last file of each sender is over.
    All,
    /// No sender was heard for long.
    Patience,
    /// It was stopped on request.
    Stopped,
}
