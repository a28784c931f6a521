use std::net::SocketAddr;
use std::time::Duration;

use layercast_core::{FlowId, NodeId};
use layercast_wire::{Carriage, FlowInfo, MemberStats, Signal};
use tokio::time::timeout;

use crate::channel::{SignalChannel, SignalReceiver, SignalSender, TcpChannel};
use crate::clock::clock_name;
use crate::error::NetError;
use crate::peer::Hello;

/// How long a node gets to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Asks the node at `addr` which flows it knows.
///
/// # Errors
/// It cannot be reached, or answers something else.
pub async fn list_flows(addr: SocketAddr) -> Result<Vec<FlowInfo>, NetError> {
    ask(addr, Signal::ListFlows, |signal| match signal {
        Signal::Flows { flows } => Some(flows),
        _ => None,
    })
    .await
}

/// Asks the node at `addr` for the members of `flow`, or of all flows, and their figures.
///
/// # Errors
/// It cannot be reached, or answers something else.
pub async fn get_stats(
    addr: SocketAddr,
    flow: Option<FlowId>,
) -> Result<Vec<MemberStats>, NetError> {
    ask(addr, Signal::GetStats { flow }, |signal| match signal {
        Signal::Stats { members } => Some(members),
        _ => None,
    })
    .await
}

async fn ask<T>(
    addr: SocketAddr,
    question: Signal,
    answer: impl Fn(Signal) -> Option<T>,
) -> Result<T, NetError> {
    let conversation = async {
        let unreachable = |reason: String| NetError::Unreachable { addr, reason };
        let channel = TcpChannel::connect(addr, None)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        let (mut receiver, mut sender) = channel.split();
        let hello = Hello {
            // Distinct, so that two questions at a time do not replace each other.
            node: format!("query-{}-{}", std::process::id(), crate::monotonic_ns()),
            id: NodeId(0),
            udp_port: 0,
            carriage: Carriage::default(),
            clock: clock_name(),
        };
        sender
            .send(&[hello.signal(), question])
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        loop {
            let signal = receiver.recv().await;
            match signal.map_err(|error| unreachable(error.to_string()))? {
                Some(Signal::Error { message }) => return Err(NetError::Answer { addr, message }),
                Some(signal) => {
                    // Its hello and its advertisements come first.
                    if let Some(answer) = answer(signal) {
                        return Ok(answer);
                    }
                }
                None => return Err(unreachable("it closed the connection".into())),
            }
        }
    };
    timeout(ANSWER_WITHIN, conversation)
        .await
        .unwrap_or_else(|_| {
            let message = "no answer within 5 s".into();
            Err(NetError::Answer { addr, message })
        })
}
