use std::net::SocketAddr;
use std::time::Duration;

use layercast_core::{FlowId, NodeId};
use layercast_wire::{Carriage, FlowInfo, LinkReport, MemberStats, NodeReport, PartReport, Signal};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::channel::{ChannelError, SignalChannel, SignalReceiver, SignalSender};
use crate::clock::clock_name;
use crate::connection::LINGER;
use crate::error::{CallError, NetError};
use crate::hello::Hello;
use crate::identity::Identity;
use crate::quic::QuicChannel;
use crate::remote::{Bearer, Remote};
use crate::tcp::TcpChannel;
use crate::xtp::XtpChannel;

/// How long a node gets to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pause before a node that does not answer, or has no flows, is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// Asks the node `remote` which flows it knows.
///
/// # Errors
/// It cannot be reached, or does not answer.
pub async fn list_flows(remote: impl Into<Remote>) -> Result<Vec<FlowInfo>, NetError> {
    let mut all = Vec::new();
    let flow = None;
    ask(
        &remote.into(),
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

/// As [`list_flows`], asked again while the node cannot be reached or has no flows, until `within` is over; `tell`
/// hears of each try in vain why.
///
/// # Errors
/// It cannot be reached in this time, or answers with an error.
pub async fn await_flows(
    remote: impl Into<Remote>,
    within: Duration,
    mut tell: impl FnMut(&str),
) -> Result<Vec<FlowInfo>, NetError> {
    let remote = remote.into();
    let until = Instant::now() + within;
    let mut last = None;
    loop {
        // The time of one answer is over at the latest with that of all.
        let asked = timeout_at(until, list_flows(remote.clone())).await;
        let found = asked.unwrap_or_else(|_| {
            last.take().unwrap_or_else(|| {
                let within = format!("{:.1} s", within.as_secs_f64());
                Err(NetError::call(remote.addr, remote.no_answer(&within)))
            })
        });
        let over = Instant::now() >= until;
        match found {
            Ok(flows) if !flows.is_empty() || over => return Ok(flows),
            Ok(none) => {
                tell("it has no flows yet");
                last = Some(Ok(none));
            }
            Err(NetError::Unreachable {
                addr,
                reason,
                may_pass: true,
            }) if !over => {
                tell(&reason);
                last = Some(Err(NetError::call(addr, CallError::NoAnswer(reason))));
            }
            Err(error) => return Err(error),
        }
        sleep_until(until.min(Instant::now() + ASK_AGAIN)).await;
    }
}

/// Asks the node `remote` for the members of `flow`, or of all flows, and their figures.
///
/// # Errors
/// It cannot be reached, or does not answer.
pub async fn get_stats(
    remote: impl Into<Remote>,
    flow: Option<FlowId>,
) -> Result<Vec<MemberStats>, NetError> {
    Ok(get_node_stats(remote, flow).await?.members)
}

/// What a node says of itself.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NodeStats {
    /// The members of its flows.
    pub members: Vec<MemberStats>,
    /// Its links with repair, and those of which it dropped datagrams.
    pub links: Vec<LinkReport>,
    /// What it counted; `None`: it is of an older version, which does not say.
    pub node: Option<NodeReport>,
    /// What it counted of its ports, sources and other parts.
    pub parts: Vec<PartReport>,
}

/// Asks the node `remote` for the members of `flow`, or of all flows, for its links with repair, and for what it counted itself.
///
/// # Errors
/// It cannot be reached, or does not answer.
pub async fn get_node_stats(
    remote: impl Into<Remote>,
    flow: Option<FlowId>,
) -> Result<NodeStats, NetError> {
    let mut said = NodeStats::default();
    ask(
        &remote.into(),
        [Signal::GetStats { flow }, Signal::ListFlows],
        |signal| {
            match signal {
                Signal::Stats { members } => said.members.extend(members),
                Signal::Links { links, node, parts } => {
                    said.links.extend(links);
                    said.node = said.node.or(node.map(|node| *node));
                    said.parts.extend(parts);
                }
                Signal::Flows { .. } => return true,
                _ => {}
            }
            false
        },
    )
    .await?;
    Ok(said)
}

/// Sends two queries and passes the messages received to `heard`, until it returns that they are complete.
///
/// An answer may take several messages, but answers come in the order of the questions: the first message of
/// the second answer ends the first one.
async fn ask(
    remote: &Remote,
    questions: [Signal; 2],
    heard: impl FnMut(Signal) -> bool,
) -> Result<(), NetError> {
    let addr = remote.addr;
    let conversation = async {
        match &remote.bearer {
            Bearer::Tcp => {
                let channel = TcpChannel::connect(addr, None).await;
                let channel = channel.map_err(|error| no_answer(addr, &error))?;
                converse(addr, channel, questions, heard).await
            }
            Bearer::Xtp => {
                let channel = XtpChannel::connect(addr, None).await;
                let channel = channel.map_err(|error| NetError::call(addr, error))?;
                converse(addr, channel, questions, heard).await
            }
            Bearer::Quic(trust) => {
                let identity = Identity::generate()?;
                let channel = QuicChannel::connect(addr, None, &identity, trust).await;
                let channel = channel.map_err(|error| NetError::call(addr, error))?;
                converse(addr, channel, questions, heard).await
            }
        }
    };
    timeout(ANSWER_WITHIN, conversation)
        .await
        .unwrap_or_else(|_| Err(NetError::call(addr, remote.no_answer("5 s"))))
}

async fn converse<C: SignalChannel>(
    addr: SocketAddr,
    channel: C,
    questions: [Signal; 2],
    mut heard: impl FnMut(Signal) -> bool,
) -> Result<(), NetError> {
    let (mut receiver, mut sender) = channel.split();
    let hello = Hello {
        // Distinct, so that two questions at a time do not replace each other.
        node: format!("query-{}-{}", std::process::id(), crate::monotonic_ns()),
        id: NodeId(0),
        udp_port: 0,
        carriage: Carriage::default(),
        clock: clock_name(),
        link_key: None,
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    };
    sender
        .send(&[vec![hello.signal()], questions.to_vec()].concat())
        .await
        .map_err(|error| no_answer(addr, &error))?;
    let mut greeted = false;
    let answered = loop {
        let signal = receiver.recv().await;
        let signal = signal.map_err(|error| match error {
            ChannelError::Io(_) => no_answer(addr, &error),
            _ => foreign(addr, &error),
        })?;
        match signal {
            Some(Signal::Error { message }) if !greeted => {
                break Err(NetError::TurnedAway { addr, message });
            }
            Some(Signal::Error { message }) => break Err(NetError::Answer { addr, message }),
            // Its hello and its advertisements come first.
            Some(signal) => {
                greeted = true;
                if heard(signal) {
                    break Ok(());
                }
            }
            None if receiver.malformed() > 0 => {
                return Err(foreign(addr, &"it speaks another protocol"));
            }
            None => return Err(no_answer(addr, &"it closed the connection")),
        }
    };
    // The node frees the place of this caller now, and not when it finds the connection dead.
    let _ = timeout(LINGER, sender.close()).await;
    answered
}

fn no_answer(addr: SocketAddr, reason: &dyn ToString) -> NetError {
    NetError::call(addr, CallError::NoAnswer(reason.to_string()))
}

/// Another program answers.
fn foreign(addr: SocketAddr, reason: &dyn ToString) -> NetError {
    NetError::call(addr, CallError::Unreachable(reason.to_string()))
}
