//! What `send`, `receive` and `emulate-receivers` print with `--json`: one object a line
//! (docs/src/reference/json-send.md and json-receive.md, which are generated from these types).

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};

use serde::Serialize;

/// A line of `layercast send`; `report` names its kind.
#[derive(Debug, Serialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum SendLine<'a> {
    /// An input is sent under another name.
    Renamed {
        /// The input.
        path: String,
        /// The name that receivers get.
        name: &'a str,
    },
    /// An input is not sent.
    Skipped {
        /// The input.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// The only line of `--dry-run`.
    Estimate(Estimate),
    /// A file is being read for its digest.
    Reading {
        /// Name of the file.
        file: &'a str,
        /// Bytes read so far.
        octets: u64,
        /// Bytes of the file.
        of: u64,
    },
    /// The session of a file is open.
    Opened {
        /// Name of the file.
        file: &'a str,
        /// Bytes of the file.
        size: u64,
        /// Receivers of the session.
        receivers: u32,
    },
    /// A file is not sent.
    Withheld(WithheldFile<'a>),
    /// The state of a receiver in the session of a file changed.
    Receiver(FileReceiver<'a>),
    /// The progress of a file, four times a second.
    Progress {
        /// Number of the pass: 0 for the first, then that of the repair.
        pass: u16,
        /// Packets of the pass sent so far.
        packets: u64,
        /// Packets of the pass.
        of: u64,
        /// Bytes of content sent in the session.
        octets: u64,
        /// Bits per second since the last report.
        rate_bps: u64,
        /// Receivers that have the whole file.
        delivered: u32,
        /// Receivers of the session.
        receivers: u32,
    },
    /// A receiver says that it has another key or none. The message is not authenticated.
    OtherKey {
        /// Address of the receiver.
        address: SocketAddr,
    },
    /// A receiver is refused because its name, or a copy of its folder, is in use.
    NameInUse {
        /// Name of the member, if `--members` or `--key-members` lists it.
        name: Option<&'a str>,
        /// Number of the member on the wire, in hexadecimal.
        member: String,
        /// Address of the receiver that keeps the name.
        holder: SocketAddr,
        /// Address of the receiver that is refused.
        refused: SocketAddr,
    },
    /// The last line.
    Summary(SendSummary<'a>),
}

/// What a transfer is expected to take.
#[derive(Debug, Serialize)]
pub struct Estimate {
    /// Files.
    pub files: u32,
    /// Folders.
    pub folders: u32,
    /// Bytes of content.
    pub octets: u64,
    /// Packets that carry the content once.
    pub packets: u64,
    /// Bytes of content in a packet.
    pub packet: u64,
    /// Receivers expected.
    pub receivers: u64,
    /// Share of packets that each receiver loses, as `--expect-loss` says.
    pub loss: f64,
    /// Parities, or packets sent again.
    pub repairs: u64,
    /// Sending rate.
    pub rate_bps: u64,
    /// Time to send all packets at this rate.
    pub seconds: f64,
    /// Longest time that the sender also waits for receivers (`--wait`).
    pub wait_seconds: f64,
    /// Passes over each file.
    pub passes: f64,
    /// Bytes of memory of the sender.
    pub memory_sender: u64,
    /// Bytes of memory of a receiver, at most.
    pub memory_receiver: u64,
}

/// A file that is not sent.
#[derive(Debug, Serialize)]
pub struct WithheldFile<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Bytes of the file when the transfer began.
    pub size: u64,
    /// The reason.
    pub why: &'a str,
}

/// What a receiver has of a file.
#[derive(Debug, Serialize)]
pub struct FileReceiver<'a> {
    /// Name of the receiver (`receive --name`).
    pub name: Option<&'a str>,
    /// Number of the receiver on the wire, in hexadecimal.
    pub member: String,
    /// Address of the receiver, once it has answered.
    pub address: Option<SocketAddr>,
    /// The result.
    pub outcome: Delivery,
    /// Why it failed.
    pub why: Option<&'static str>,
    /// Seconds from the first data packet of the session until the receiver had everything; null before, and where it had the file
    /// already.
    pub seconds: Option<f64>,
    /// Packets or parities that it requested.
    pub repairs: u64,
    /// Packets or parities that it lacked at its last report.
    pub lacks: u64,
    /// Share of packets lost before decoding, in its last report, 0 to 1.
    pub loss: f32,
    /// Last round trip, the back-off of the receiver included.
    pub round_trip_ms: f64,
}

/// The result of a file at a receiver.
#[derive(Debug, Serialize)]
pub enum Delivery {
    /// The session is not over, or was given up.
    #[serde(rename = "pending")]
    Pending,
    /// The receiver has the whole file.
    #[serde(rename = "delivered")]
    Delivered,
    /// The receiver does not get the file.
    #[serde(rename = "failed")]
    Failed,
    /// The receiver did not answer the announcement.
    #[serde(rename = "never answered")]
    NeverAnswered,
}

/// The result of a transfer.
#[derive(Debug, Serialize)]
pub struct SendSummary<'a> {
    /// Files whose session began, in their order.
    pub files: Vec<FileSummary<'a>>,
    /// Files that were to be sent.
    pub of: u32,
    /// Bytes of content of all files.
    pub octets: u64,
    /// Duration of the transfer.
    pub seconds: f64,
    /// The receivers, over all files.
    pub receivers: Vec<ReceiverTotal<'a>>,
    /// Addresses of `--to` that never answered.
    pub unreached: &'a [SocketAddr],
    /// Why nothing reached these addresses, by address.
    pub why_unreached: BTreeMap<SocketAddr, String>,
    /// Files that were not sent.
    pub withheld: Vec<WithheldFile<'a>>,
    /// Why the transfer ended early.
    pub error: Option<String>,
}

/// The session of a file.
#[derive(Debug, Serialize)]
pub struct FileSummary<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Bytes of the file.
    pub size: u64,
    /// BLAKE3 digest of the file, in hexadecimal; null: the content was not announced.
    pub blake3: Option<String>,
    /// Duration from the announcement to the end.
    pub seconds: f64,
    /// Why the session ended without success.
    pub failure: Option<String>,
    /// The receivers of the session.
    pub receivers: Vec<FileReceiver<'a>>,
    /// Addresses of `--to` without a receiver in the session.
    pub unreached: &'a [SocketAddr],
    /// Addresses of receivers with another key or none.
    pub other_key: &'a [SocketAddr],
    /// Addresses of receivers that were refused because their name, or a copy of their folder, is in use.
    pub in_use: &'a [SocketAddr],
    /// Bytes of content sent in all passes.
    pub octets: u64,
    /// Data packets sent, repairs included.
    pub packets: u64,
    /// Parities sent.
    pub parities: u64,
    /// Source packets sent again.
    pub again: u64,
    /// Passes.
    pub passes: u32,
    /// Datagrams given to the system, for all addresses.
    pub datagrams: u64,
    /// Reports of receivers.
    pub reports: u64,
    /// Packets of other sessions.
    pub strangers: u64,
    /// Packets whose authentication failed.
    pub forged: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
}

/// A receiver over all files of a transfer.
#[derive(Debug, Serialize)]
pub struct ReceiverTotal<'a> {
    /// Name of the receiver (`receive --name`).
    pub name: Option<&'a str>,
    /// Number of the receiver on the wire, in hexadecimal.
    pub member: &'a str,
    /// Its name, or its address, or its number.
    pub receiver: &'a str,
    /// Files delivered.
    pub files: u32,
    /// Files not delivered.
    pub missing: u32,
    /// Whether it can use the list of files; without the list it lacks folders, permissions and times.
    pub listed: bool,
    /// Bytes of the files that were transferred, not of those that the receiver had already.
    pub octets: u64,
    /// Sum over these files of the time from the first data packet until the receiver had everything.
    pub seconds: f64,
    /// Bits per second of these files; null if none was transferred.
    pub rate_bps: Option<u64>,
    /// Packets or parities that it requested.
    pub repairs: u64,
    /// Share of the data packets sent to it, repairs and parities included, that did not arrive, 0 to 1; null if none was
    /// sent.
    pub loss: Option<f64>,
    /// Why it lacks a file or the list.
    pub why: Option<&'a str>,
}

/// A line of `layercast receive`; `report` names its kind.
#[derive(Debug, Serialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum ReceiveLine<'a> {
    /// The receiver listens.
    Ready {
        /// Name of the receiver.
        name: &'a str,
        /// Its address.
        address: SocketAddr,
        /// The multicast group of `--group`.
        group: Option<SocketAddrV4>,
    },
    /// The list of files of a transfer arrived, or an earlier call of this receiver kept it.
    Listed {
        /// Files.
        files: u32,
        /// Folders.
        folders: u32,
        /// Bytes of content.
        octets: u64,
        /// Bytes that fit on the disk.
        room: u64,
        /// Address of the sender.
        sender: SocketAddr,
    },
    /// The list of files cannot be used.
    BadList {
        /// Address of the sender.
        sender: SocketAddr,
        /// The reason.
        why: String,
        /// What helps.
        remedy: String,
    },
    /// The receiver takes part in the session of a file.
    Joined {
        /// Name of the file.
        file: &'a str,
        /// Bytes of the file.
        size: u64,
        /// Packets of an earlier start.
        held: u64,
        /// Packets of the file.
        packets: u64,
        /// Address of the sender.
        sender: SocketAddr,
    },
    /// The progress of a file, four times a second.
    Progress {
        /// Name of the file.
        file: &'a str,
        /// Packets received.
        packets: u64,
        /// Packets of the file.
        of: u64,
        /// Bits per second since the last report.
        rate_bps: u64,
        /// Bytes received of the whole transfer; null without a list of files.
        octets: Option<u64>,
        /// Bytes of the whole transfer; null without a list of files.
        of_octets: Option<u64>,
    },
    /// The sender is gone before the file was complete. The packets that arrived are kept.
    Interrupted {
        /// Name of the file.
        file: &'a str,
        /// The reason.
        why: &'static str,
    },
    /// Announcements with another key, or without the key, are ignored. Reported once.
    Disbelieved {
        /// Address of the sender.
        sender: SocketAddr,
    },
    /// The end of a file.
    File(ReceivedFile<'a>),
    /// The last line.
    Summary {
        /// The files, in the order in which they ended.
        files: Vec<ReceivedFile<'a>>,
        /// Files that are complete.
        whole: usize,
        /// Files that failed.
        failed: usize,
        /// Files that were listed and not received.
        missing: u32,
        /// Announced files that an earlier call got and that are here: with the size and time of the list of files.
        before: u32,
        /// Whether every list of files could be used; without one folders, permissions and times may be missing.
        listed: bool,
        /// Bytes of the complete files.
        octets: u64,
        /// Time since the start of the command.
        seconds: f64,
    },
}

/// A file at a receiver.
#[derive(Debug, Serialize)]
pub struct ReceivedFile<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Place of the file in the transfer, from 0.
    pub index: u32,
    /// Files of the transfer.
    pub count: u32,
    /// Bytes of the file.
    pub size: u64,
    /// BLAKE3 digest of the file, in hexadecimal; null: the content was not announced.
    pub blake3: Option<String>,
    /// Path of the complete file.
    pub path: Option<String>,
    /// The result.
    pub outcome: Reception,
    /// Why it failed.
    pub why: Option<&'static str>,
    /// The error of the system, if that is the reason.
    pub error: Option<&'a str>,
    /// Packets of an earlier start.
    pub held_before: u64,
    /// Duration from the announcement to the end.
    pub seconds: f64,
    /// Data packets received.
    pub packets: u64,
    /// Packets received before.
    pub duplicates: u64,
    /// Blocks that parities completed.
    pub rebuilt: u64,
    /// Reports sent.
    pub reports: u64,
    /// Packets of other sessions.
    pub strangers: u64,
    /// Datagrams that do not decode.
    pub malformed: u64,
}

/// The result of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reception {
    /// The file is complete and its digest is right.
    Complete,
    /// The file is not there.
    Failed,
}

/// The line of `layercast emulate-receivers`.
#[derive(Debug, Serialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum EmulatedLine {
    /// The only line, at the end.
    Emulated {
        /// Receivers that took part in a session, over all files.
        joined: u64,
        /// Of these, the receivers that had the whole file at the end.
        complete: u64,
        /// Packets dropped on purpose.
        lost: u64,
        /// Packets sent.
        sent: u64,
        /// Announcements with another key or without it.
        disbelieved: u64,
    },
}
