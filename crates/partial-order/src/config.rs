//! What both ends of a connection know, and its form in OPEN (specs/partial-order-transport.md 2.7).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use layercast_core::{Serial, Span};
use serde::{Deserialize, Serialize};

use crate::order::{Kind, Order, OrderError, Sdu};
use crate::pdu::{DATA_HEADER, OPEN_HEADER};
use crate::tolerance::Tolerance;

/// Largest PDU by default, bytes: fits an IPv6 path of the least MTU.
pub const MAX_PDU: usize = 1_232;
/// Largest SDU by default, bytes: leaves room for the numbers of 47 flows.
pub const MAX_SDU: u16 = 1_024;
/// Most unacknowledged SDUs of a flow.
pub const MAX_WINDOW: u16 = 4_096;
/// Most unacknowledged SDUs of a flow by default.
pub const DEFAULT_WINDOW: u16 = 256;
/// The shortest and the longest round trip that are believed.
pub const RTT_BOUNDS: (Span, Span) = (Span::from_ms(1), Span::from_secs(10));

/// Whose missing SDUs an early SDU may declare lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Those of its own flow; it waits for the other flows.
    MediaPerMedia,
    /// Those of all flows, each within its own tolerance.
    PerGroup,
}

/// One flow of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowConfig {
    /// Time between two SDUs; sizes the window.
    pub period: Span,
    /// Tolerated loss.
    pub tolerance: Tolerance,
    /// Largest SDU, bytes.
    pub max_sdu: u16,
    /// Most unacknowledged SDUs.
    pub max_window: u16,
    /// How long an SDU waits for missing predecessors before it may declare them lost; 0 is the paper's rule.
    /// An SDU that was reordered by less than this is not lost.
    pub grace: Span,
    /// Play-out delay: predecessors are declared lost only when waiting would miss it (counted from the submission,
    /// with the shortest transit time seen). Replaces `grace`.
    pub playout: Option<Span>,
    /// First number on the wire.
    pub initial: Serial,
}

impl FlowConfig {
    /// A flow with an SDU each `period`.
    pub fn new(period: Span, tolerance: Tolerance) -> FlowConfig {
        FlowConfig {
            period,
            tolerance,
            max_sdu: MAX_SDU,
            max_window: DEFAULT_WINDOW,
            grace: Span::ZERO,
            playout: None,
            initial: Serial(0),
        }
    }
}

/// A connection: flows, their order, and the policy between them.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Number of the connection; the driver draws it at random.
    pub connection: u32,
    /// The flows, by index.
    pub flows: Vec<FlowConfig>,
    /// The order of their SDUs.
    pub order: Order,
    /// The policy.
    pub policy: Policy,
    /// Whether only the four PDUs of the paper are sent, without stamps and without a handshake.
    pub strict_paper: bool,
    /// Request the missing SDUs of a flow, though it tolerates their loss, while its SDUs wait for another flow.
    pub opportunistic: bool,
    /// DATA carries the next number of each flow, so that an arrival in one flow proves what was sent in the others, and
    /// the receiver requests it.
    pub infer: bool,
}

/// Why a connection cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The order is for another number of flows.
    #[error("the order is of {order} flows, the connection has {flows}")]
    Flows {
        /// Flows of the order.
        order: usize,
        /// Flows of the connection.
        flows: usize,
    },
    /// A flow with a value out of its bounds.
    #[error("flow {flow}: {problem}")]
    Flow {
        /// The flow.
        flow: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// OPEN does not fit a PDU.
    #[error(
        "the order needs an OPEN of {bytes} bytes, and a PDU has at most {most}; use fewer edges, or blocks instead of \
         a finite order"
    )]
    TooLarge {
        /// Bytes of the OPEN.
        bytes: usize,
        /// Bytes that a PDU carries.
        most: usize,
    },
    /// The order is none.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The bytes are no OPEN.
    #[error("the OPEN cannot be read")]
    Malformed,
}

impl Config {
    /// A connection with the paper's rules and a handshake.
    pub fn new(connection: u32, flows: Vec<FlowConfig>, order: Order, policy: Policy) -> Config {
        Config {
            connection,
            flows,
            order,
            policy,
            strict_paper: false,
            opportunistic: false,
            infer: false,
        }
    }

    /// Checks it against the largest PDU that the path carries, bytes.
    pub fn check(&self, max_pdu: usize) -> Result<(), ConfigError> {
        if self.order.flows() != self.flows.len() {
            return Err(ConfigError::Flows {
                order: self.order.flows(),
                flows: self.flows.len(),
            });
        }
        for (flow, it) in self.flows.iter().enumerate() {
            let problem = if it.period == Span::ZERO {
                "the period is 0"
            } else if !it.tolerance.is_valid() {
                "the tolerance exceeds 100 % or its window is not 1 to 65535"
            } else if it.max_window == 0 || it.max_window > MAX_WINDOW {
                "the window is not 1 to 4096"
            } else if usize::from(it.max_sdu) + self.data_header() > max_pdu {
                "the largest SDU does not fit a PDU"
            } else {
                continue;
            };
            return Err(ConfigError::Flow { flow, problem });
        }
        let bytes = OPEN_HEADER + self.to_bytes().len();
        if bytes > max_pdu && !self.strict_paper {
            return Err(ConfigError::TooLarge {
                bytes,
                most: max_pdu,
            });
        }
        Ok(())
    }

    /// Bytes of a DATA PDU before its payload.
    pub fn data_header(&self) -> usize {
        DATA_HEADER
            + if self.infer {
                1 + 4 * self.flows.len()
            } else {
                0
            }
    }

    /// The body of OPEN.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        let flags = u8::from(self.policy == Policy::PerGroup)
            | u8::from(self.opportunistic) << 1
            | u8::from(self.infer) << 2;
        out.put_u8(flags);
        out.put_u8(self.flows.len() as u8);
        for flow in &self.flows {
            out.put_u64(flow.period.as_ps());
            let (kind, first, second) = match flow.tolerance {
                Tolerance::Full => (0, 0, 0),
                Tolerance::None => (1, 0, 0),
                Tolerance::Consecutive(most) => (2, most, 0),
                Tolerance::Rate { ppm, window } => (3, ppm, window),
                Tolerance::Cumulative { ppm } => (4, ppm, 0),
            };
            out.put_u8(kind);
            out.put_u32(first);
            out.put_u32(second);
            out.put_u16(flow.max_sdu);
            out.put_u16(flow.max_window);
            out.put_u8(u8::from(flow.playout.is_some()));
            out.put_u64(flow.playout.unwrap_or(flow.grace).as_ps());
            out.put_u32(flow.initial.0);
        }
        match &self.order.kind {
            Kind::Free => out.put_u8(0),
            Kind::Blocks { counts, parallel } => {
                out.put_u8(1);
                for (&count, &parallel) in counts.iter().zip(parallel) {
                    out.put_u16(count as u16);
                    out.put_u8(u8::from(parallel));
                }
            }
            Kind::Finite(finite) => {
                out.put_u8(2);
                finite.counts.iter().for_each(|&it| out.put_u16(it as u16));
                out.put_u32(finite.edges.len() as u32);
                for &(from, to) in &finite.edges {
                    out.put_u16(from);
                    out.put_u16(to);
                }
            }
        }
        out.freeze()
    }

    /// Reads the body of OPEN; total over all bytes.
    pub fn from_bytes(connection: u32, bytes: Bytes) -> Result<Config, ConfigError> {
        read(connection, bytes).map_err(|_| ConfigError::Malformed)?
    }
}

fn read(
    connection: u32,
    mut bytes: Bytes,
) -> Result<Result<Config, ConfigError>, bytes::TryGetError> {
    let flags = bytes.try_get_u8()?;
    let count = usize::from(bytes.try_get_u8()?);
    let mut flows = Vec::with_capacity(count.min(crate::order::MAX_FLOWS));
    for _ in 0..count {
        let period = Span::from_ps(bytes.try_get_u64()?);
        let kind = bytes.try_get_u8()?;
        let (first, second) = (bytes.try_get_u32()?, bytes.try_get_u32()?);
        let tolerance = match kind {
            0 => Tolerance::Full,
            1 => Tolerance::None,
            2 => Tolerance::Consecutive(first),
            3 => Tolerance::Rate {
                ppm: first,
                window: second,
            },
            4 => Tolerance::Cumulative { ppm: first },
            _ => return Ok(Err(ConfigError::Malformed)),
        };
        let (max_sdu, max_window) = (bytes.try_get_u16()?, bytes.try_get_u16()?);
        let has_playout = bytes.try_get_u8()? == 1;
        let hold = Span::from_ps(bytes.try_get_u64()?);
        flows.push(FlowConfig {
            period,
            tolerance,
            max_sdu,
            max_window,
            grace: if has_playout { Span::ZERO } else { hold },
            playout: has_playout.then_some(hold),
            initial: Serial(bytes.try_get_u32()?),
        });
    }
    let order = match bytes.try_get_u8()? {
        0 => Order::none(count),
        1 => {
            let (mut counts, mut parallel) = (Vec::new(), Vec::new());
            for _ in 0..count {
                counts.push(u32::from(bytes.try_get_u16()?));
                parallel.push(bytes.try_get_u8()? == 1);
            }
            Order::blocks_with(&counts, &parallel)
        }
        2 => {
            let mut counts = Vec::new();
            for _ in 0..count {
                counts.push(u32::from(bytes.try_get_u16()?));
            }
            let edges = bytes.try_get_u32()? as usize;
            if bytes.len() != edges.saturating_mul(4) {
                return Ok(Err(ConfigError::Malformed));
            }
            let total: usize = counts.iter().map(|&it| it as usize).sum();
            let sdu = |node: u16| {
                let mut number = usize::from(node);
                let flow = counts.iter().position(|&it| {
                    let here = number < it as usize;
                    number -= if here { 0 } else { it as usize };
                    here
                })?;
                Some(Sdu {
                    flow,
                    number: number as u64,
                })
            };
            if total > crate::order::MAX_NODES {
                return Ok(Err(OrderError::Nodes(total).into()));
            }
            let mut pairs = Vec::with_capacity(edges);
            while bytes.has_remaining() {
                match (sdu(bytes.get_u16()), sdu(bytes.get_u16())) {
                    (Some(from), Some(to)) => pairs.push((from, to)),
                    _ => return Ok(Err(ConfigError::Malformed)),
                }
            }
            Order::dag(&counts, &pairs)
        }
        _ => return Ok(Err(ConfigError::Malformed)),
    };
    let order = match order {
        Ok(order) => order,
        Err(error) => return Ok(Err(error.into())),
    };
    if bytes.has_remaining() || flags > 7 {
        return Ok(Err(ConfigError::Malformed));
    }
    let policy = if flags & 1 == 1 {
        Policy::PerGroup
    } else {
        Policy::MediaPerMedia
    };
    let mut config = Config::new(connection, flows, order, policy);
    config.opportunistic = flags & 2 != 0;
    config.infer = flags & 4 != 0;
    Ok(Ok(config))
}
