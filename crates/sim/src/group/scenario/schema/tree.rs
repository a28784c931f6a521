use layercast_core::{Rate, Span};
use layercast_fec::Scheme;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::internet::scenario::{Bytes, TcpSpec, Text, up_to};
use crate::scenario::form;
use crate::scenario::limits::MOST_TITLE;

/// A host: a processor that performs one task at a time, and a socket buffer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupHostSpec {
    /// Time to send a data packet.
    #[schemars(extend("pattern" = up_to(600)))]
    pub send_data: Text<Span>,
    /// Time to send a control packet.
    #[schemars(extend("pattern" = up_to(600)))]
    pub send_control: Text<Span>,
    /// Time to receive a data packet.
    #[schemars(extend("pattern" = up_to(600)))]
    pub take_data: Text<Span>,
    /// Time to receive a control packet.
    #[schemars(extend("pattern" = up_to(600)))]
    pub take_control: Text<Span>,
    /// Time to evaluate the list of receivers before each poll of the group.
    #[schemars(extend("pattern" = up_to(600)))]
    pub evaluate: Text<Span>,
    /// Receivers that share the host.
    #[schemars(range(min = 1))]
    pub receivers: u32,
    /// Socket buffer; default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Least octets of the buffer that a datagram takes.
    pub charge: u64,
}

impl Default for GroupHostSpec {
    fn default() -> GroupHostSpec {
        let none = Text(Span::ZERO);
        GroupHostSpec {
            send_data: none,
            send_control: none,
            take_data: none,
            take_control: none,
            evaluate: none,
            receivers: 1,
            buffer: None,
            charge: 512,
        }
    }
}

/// A row of links. A branch without branches below has a receiver at its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchSpec {
    /// Unique.
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_TITLE, "pattern" = form::TITLE))]
    pub name: String,
    /// The branch above; default: the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Copies under each copy of the parent.
    #[serde(default = "one")]
    pub count: u32,
    /// Links in a row, 0 to 64.
    #[serde(default = "one")]
    #[schemars(range(max = 64))]
    pub hops: u32,
    /// Loss probability of one link downwards, from 0 to below 1.
    #[serde(default)]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub loss: f64,
    /// Packets travel in cells of AAL5: loss is that of a cell, a packet is lost with any of its cells, and rate and
    /// queue count the octets of cells.
    #[serde(default)]
    pub cells: bool,
    /// Mean length of a loss burst in packets; default: independent losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1e6))]
    pub burst: Option<f64>,
    /// Loss probability of one link upwards, from 0 to below 1.
    #[serde(default)]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub back_loss: f64,
    /// Propagation delay of the row.
    #[serde(default = "zero")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub delay: Text<Span>,
    /// The delay of each copy is uniform between `delay` and this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub delay_to: Option<Text<Span>>,
    /// Rate in both directions; default: no transmission time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// Queue of the link in each direction, in octets.
    #[serde(default = "queue")]
    pub queue: Bytes,
    /// Puts a receiver at its end although there are branches below.
    #[serde(default)]
    pub receiver: bool,
    /// Puts an aggregator at its end, for the receivers below.
    #[serde(default)]
    pub aggregator: bool,
    /// The host of its receivers.
    #[serde(default)]
    pub host: GroupHostSpec,
}

/// A code on branches: an encoder at their upper ends, decoders at their lower ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeSpec {
    /// The branches; where one is below another, the code continues through both.
    pub branches: Vec<String>,
    /// The code.
    #[serde(default = "scheme")]
    #[schemars(with = "String")]
    pub scheme: Scheme,
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block.
    pub m: u8,
    /// Time after which a partial block is closed.
    #[serde(default = "flush")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub flush: Text<Span>,
    /// Number of blocks that are filled in turn.
    #[serde(default = "one_octet")]
    pub interleave: u8,
}

/// TCP connections with data without end, from the upper to the lower end of a branch, until the session is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossTrafficSpec {
    /// The branch, of which there is one copy.
    pub branch: String,
    /// Number of connections.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = crate::group::cross::MOST_FLOWS))]
    pub flows: u32,
    /// Delay beside that of the branch, each way.
    #[serde(default = "zero")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub delay: Text<Span>,
    /// Their TCP.
    #[serde(default)]
    pub tcp: TcpSpec,
}

fn one() -> u32 {
    1
}

fn one_octet() -> u8 {
    1
}

fn zero() -> Text<Span> {
    Text(Span::ZERO)
}

fn queue() -> Bytes {
    Bytes(256 << 10)
}

fn flush() -> Text<Span> {
    Text(Span::from_ms(50))
}

fn scheme() -> Scheme {
    Scheme::ReedSolomon
}
