//! What long-running commands print with `--json`: one object a line (docs/src/reference/json.md).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use layercast_core::{EndToEnd, PerLayer, Quality, Span};
use layercast_link::PathStats;
use layercast_net::{FecTunnelStats, LinkRepairStats};
use layercast_wire::{Silence, SourceClockReport};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::emulation::EmulationStatus;
use crate::path::IndexStatus;

/// One line; `report` names its kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Line {
    /// The command has started.
    Ready {
        /// Name of the node.
        node: String,
        /// Address on which it listens; null if it does not listen.
        address: Option<SocketAddr>,
        /// URL with which receivers join it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// A message.
    Event {
        /// Seconds since the start.
        t_s: f64,
        /// The message.
        text: String,
    },
    /// A receiver, once a second.
    Receiver(Box<ReceiverStatus>),
    /// A server or switch, once a second.
    Node(NodeStatus),
    /// What the encoder of a live flow may send, as far as the links to the receivers carry it (`serve`): at the start, and when it
    /// changes by more than 5 %, once a second at most.
    Target(EncoderTarget),
    /// An emulated path, once a second.
    Path(PathStatus),
    /// An emulated internetwork, once a second.
    Emulation(EmulationStatus),
    /// One end of a FEC tunnel, once a second.
    Edge(Box<EdgeStatus>),
    /// A result of a measured path.
    Index(Box<IndexStatus>),
    /// The last line, with all counters. A command that fails at its start prints none.
    Summary(Value),
}

/// What happened on an emulated path so far.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// Seconds since the start.
    pub t_s: f64,
    /// From the clients.
    pub there: PathStats,
    /// To the clients.
    pub back: PathStats,
}

/// What an end of a tunnel of parities did so far.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct EdgeStatus {
    /// Seconds since the start.
    pub t_s: f64,
    /// What it did.
    #[serde(flatten)]
    pub stats: FecTunnelStats,
}

/// A receiver, once a second.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ReceiverStatus {
    /// Seconds since the start.
    pub t_s: f64,
    /// Whether the receiver is a member of the flow.
    pub joined: bool,
    /// The level granted.
    pub level: u8,
    /// Bits per second of media played in the last second.
    pub rate_bps: u64,
    /// Largest delay from emission to arrival in the last second, in milliseconds.
    pub delay_ms: Option<f64>,
    /// Mean delay of the live frames of the last second, from their arrival at the source to their hand-over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end_ms: Option<EndToEndParts>,
    /// Frames played since the start.
    pub frames: PerLayer<u64>,
    /// Frames of granted layers lost since the start.
    pub lost: PerLayer<u64>,
    /// Frames sent while the session channel was down, since the start, which `lost` does not count; known once a frame behind them came.
    #[serde(default)]
    pub outage: PerLayer<u64>,
    /// Frames dropped since the start because they arrived after their deadline.
    pub late: u64,
    /// The repair of lost packets on the link since the start, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_repair: Option<LinkRepairStats>,
    /// Time without a picture that can be decoded, since the start, in milliseconds.
    #[serde(default)]
    pub outage_ms: u64,
    /// That no packet of the flow comes, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    /// What is known of the clock of the source, if it is another one; then `delay_ms` and `path` are true one-way delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_clock: Option<SourceClockReport>,
    /// What the monitor of the receiver says of what was agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

/// Mean delay of live frames in milliseconds, and its parts.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EndToEndParts {
    /// From the arrival of the last byte at the source to the hand-over: the sum of the parts below.
    pub mean: f64,
    /// Until the frame was complete and due at the source.
    pub ingest: f64,
    /// In the scheduler and the shaper of the source, until the first packet left.
    pub queue: f64,
    /// From the source to the arrival of the last packet.
    pub path: f64,
    /// From the arrival to the hand-over.
    pub playout: f64,
}

impl From<EndToEnd> for EndToEndParts {
    fn from(delay: EndToEnd) -> EndToEndParts {
        let [ingest, queue, path, playout] =
            [delay.ingest, delay.queue, delay.path, delay.playout].map(Span::as_ms_f64);
        EndToEndParts {
            mean: ingest + queue + path + playout,
            ingest,
            queue,
            path,
            playout,
        }
    }
}

/// What the encoder of a live flow may send.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EncoderTarget {
    /// Seconds since the start.
    pub t_s: f64,
    /// Name of the flow.
    pub flow: String,
    /// The rate for all its media together, without headers, repairs and parities, in bit/s.
    pub target_bps: u64,
}

/// A server or switch, once a second.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Seconds since the start.
    pub t_s: f64,
    /// Neighbours with a session channel.
    pub neighbours: u32,
    /// Branches to which media are sent.
    pub branches: u32,
    /// Rates of the links whose rate is `auto`, by neighbour, in bit/s: what an encoder may send there. Links whose path has not
    /// been full are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths_bps: BTreeMap<String, u64>,
    /// The live input, of `serve` with one.
    // JSON: IngestStats
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What the parities of its RTP did, once they brought a packet back or could not.
    // JSON: SmpteReceiverStats
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parities: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_their_kind_and_read_back() {
        let line = Line::Receiver(Box::new(ReceiverStatus {
            level: 2,
            ..ReceiverStatus::default()
        }));
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.starts_with(r#"{"report":"receiver","#), "{text}");
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
