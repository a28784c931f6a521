use layercast_core::{Rate, Span};
use layercast_fec::Scheme;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::internet::scenario::{Bytes, TcpSpec, Text, up_to};

/// A host: a processor that does one thing after the other, and a socket buffer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupHostSpec {
    /// To send a data packet.
    pub send_data: Text<Span>,
    /// To send anything else.
    pub send_control: Text<Span>,
    /// To take a data packet.
    pub take_data: Text<Span>,
    /// To take anything else.
    pub take_control: Text<Span>,
    /// To evaluate the list of receivers, before each poll of the group.
    pub evaluate: Text<Span>,
    /// Receivers that share the host.
    #[schemars(range(min = 1))]
    pub receivers: u32,
    /// Socket buffer; missing: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Octets of it that a datagram takes at least.
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

/// Links with what is at their end. A branch without others below it has a receiver at its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchSpec {
    /// Unique.
    pub name: String,
    /// The branch that it hangs on; missing: the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How many of it hang on each copy of that.
    #[serde(default = "one")]
    pub count: u32,
    /// Links in a row, 0 to 64.
    #[serde(default = "one")]
    #[schemars(range(max = 64))]
    pub hops: u32,
    /// The chance that one link loses a packet on its way down: from 0, below 1.
    #[serde(default)]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub loss: f64,
    /// Packets travel in cells of AAL5: loss is that of a cell, a packet is lost with any of its cells, and rate and
    /// queue count the octets of cells.
    #[serde(default)]
    pub cells: bool,
    /// Mean packets of a burst of losses; missing: each is lost on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1e6))]
    pub burst: Option<f64>,
    /// The chance that one link loses a packet on its way up: from 0, below 1.
    #[serde(default)]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub back_loss: f64,
    /// Propagation delay of the whole row.
    #[serde(default = "zero")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub delay: Text<Span>,
    /// The delay of each copy is uniform between `delay` and this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub delay_to: Option<Text<Span>>,
    /// Rate both ways; missing: packets take no time to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// Octets that wait for the link at most, each way.
    #[serde(default = "queue")]
    pub queue: Bytes,
    /// There is a receiver at its end although others are below.
    #[serde(default)]
    pub receiver: bool,
    /// There is an aggregator at its end, for all receivers below that have no other below it.
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
    /// The branches; where one follows the other the code continues through both.
    pub branches: Vec<String>,
    /// The code.
    #[serde(default = "scheme")]
    #[schemars(with = "String")]
    pub scheme: Scheme,
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block.
    pub m: u8,
    /// An incomplete block is closed after this time.
    #[serde(default = "flush")]
    pub flush: Text<Span>,
    /// Blocks that are filled in turn.
    #[serde(default = "one_octet")]
    pub interleave: u8,
}

/// TCP connections with data without end, from the upper to the lower end of a branch, until the session is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossTrafficSpec {
    /// The branch, of which there is one copy.
    pub branch: String,
    /// How many connections.
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
