use std::net::SocketAddr;
use std::time::Duration;

use layercast_core::{FlowId, NodeId};
use layercast_wire::{Carriage, FlowInfo, MemberStats, Signal};
use tokio::time::timeout;

use crate::channel::{SignalChannel, SignalReceiver, SignalSender, TcpChannel};
use crate::clock::clock_name;
use crate::error::NetError;
use crate::hello::Hello;

/// How long a node gets to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Asks the node at `addr` which flows it knows.
///
/// # Errors
/// It cannot be reached, or does not answer.
pub async fn list_flows(addr: SocketAddr) -> Result<Vec<FlowInfo>, NetError> {
    let mut all = Vec::new();
    let flow = None;
    ask(
        addr,
        [Signal::ListFlows, Signal::GetStats { flow }],
        |signal| {
            match signal {
                Signal::Flows { flows } => all.extend(flows),
                Signal::Stats { .. } => return true,
                _ => {}
            }
            false
        },
    )
    .await?;
    Ok(all)
}

/// Asks the node at `addr` for the members of `flow`, or of all flows, and their figures.
///
/// # Errors
/// It cannot be reached, or does not answer.
pub async fn get_stats(
    addr: SocketAddr,
    flow: Option<FlowId>,
) -> Result<Vec<MemberStats>, NetError> {
    let mut all = Vec::new();
    ask(
        addr,
        [Signal::GetStats { flow }, Signal::ListFlows],
        |signal| {
            match signal {
                Signal::Stats { members } => all.extend(members),
                Signal::Flows { .. } => return true,
                _ => {}
            }
            false
        },
    )
    .await?;
    Ok(all)
}

/// Asks two questions and hands what comes to `heard`, until that says it was all.
///
/// An answer may take several messages, but answers come in the order of the questions: the first
/// message of the second answer ends the first one.
async fn ask(
    addr: SocketAddr,
    questions: [Signal; 2],
    mut heard: impl FnMut(Signal) -> bool,
) -> Result<(), NetError> {
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
            .send(&[vec![hello.signal()], questions.to_vec()].concat())
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        loop {
            let signal = receiver.recv().await;
            match signal.map_err(|error| unreachable(error.to_string()))? {
                Some(Signal::Error { message }) => return Err(NetError::Answer { addr, message }),
                // Its hello and its advertisements come first.
                Some(signal) => {
                    if heard(signal) {
                        return Ok(());
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
