use std::collections::BTreeMap;

use bytes::Bytes;
use layercast_core::{Contract, GroupInfo, LeaveReason, QosOption, RequestId, Span, Status};
use layercast_mets::{ControlError, SinkStats, SourceStats};
use layercast_wire::{FlowInfo, Member, MemberStats};
use tokio::sync::oneshot;

use crate::config::LocalSource;
use crate::error::NetError;

/// What the user of a running node asks of it.
///
/// An answer whose asker is gone is dropped; a node that ends drops the askers it did not answer.
pub enum NodeCommand {
    /// Starts another flow here: it is advertised immediately.
    Open {
        /// The flow.
        source: Box<LocalSource>,
        /// The flow as advertised, or why it cannot start.
        reply: oneshot::Sender<Result<FlowInfo, NetError>>,
    },
    /// Ends a flow: what was handed over until now is still sent, for `grace` at most.
    Close {
        /// Its name.
        flow: String,
        /// How long the queues may take to drain.
        grace: Span,
        /// Frames that could not be sent in time; no answer if there is no such flow.
        reply: oneshot::Sender<u32>,
    },
    /// Binds the media socket of a flow to its management (`registerSoc`).
    Register {
        /// Its name.
        flow: String,
    },
    /// Asks for a change of a flow, which concerns all its members (`changeQoS`).
    Request {
        /// Its name.
        flow: String,
        /// What to change.
        option: QosOption,
        /// The Ack or Nak; no answer if there is no such flow.
        reply: oneshot::Sender<Status>,
    },
    /// The input of a flow became slower than real time, keeps it again, or has another pace; or pictures of it are damaged.
    Input {
        /// Its name.
        flow: String,
        /// Media time for each second of time in milliseconds; `None` for real time.
        media_ms_per_s: Option<u16>,
        /// Pictures that are damaged in all, since packets were lost on the way here.
        damaged: u64,
    },
    /// The input of a flow cannot be read any more: it ends, and that is not the end of its media.
    InputFailed {
        /// Its name.
        flow: String,
        /// Answered once the failure is advertised.
        done: oneshot::Sender<()>,
    },
    /// Sends a message on the control socket of a member.
    Control {
        /// Name of the flow.
        flow: String,
        /// The receiving member.
        member: Member,
        /// The message.
        message: Bytes,
        /// Whether it was taken; no answer if there is no such flow.
        reply: oneshot::Sender<Result<(), ControlError>>,
    },
    /// Asks for a flow and its members (`getGroupInfo`, `getGroupStats`).
    Info {
        /// Its name.
        flow: String,
        /// The answer; none if there is no such flow.
        reply: oneshot::Sender<FlowState>,
    },
}

/// A flow that starts here, and its receivers.
#[derive(Clone, Debug)]
pub struct FlowState {
    /// The group.
    pub info: GroupInfo,
    /// What its source did.
    pub stats: SourceStats,
    /// Its members.
    pub members: Vec<MemberStats>,
}

/// What the user of a receiving host asks of it.
pub enum JoinCommand {
    /// Binds the media socket to its management, and joins (`registerSoc`).
    Register,
    /// Asks for a change that concerns this member only (`changeQoS`).
    Request {
        /// What to change.
        option: QosOption,
        /// The Ack or Nak.
        reply: oneshot::Sender<Status>,
    },
    /// Wants something else of the network than before: the contract in force counts until another one is agreed.
    Wishes {
        /// What a profile wants; `None`: nothing any more.
        wishes: Option<Box<Contract>>,
        /// The Ack, or what the flow does not offer: then nothing changes.
        reply: oneshot::Sender<Status>,
    },
    /// Allows the next clean era to ask for one level more, after a `MayRaise` upcall.
    AllowRaise,
    /// Sends a message to the source on the control socket.
    Control {
        /// The message.
        message: Bytes,
        /// Whether it was taken.
        reply: oneshot::Sender<Result<(), ControlError>>,
    },
    /// Asks for the group (`getGroupInfo`).
    Info {
        /// The answer: nothing before the flow was heard of.
        reply: oneshot::Sender<Option<GroupInfo>>,
    },
    /// Asks what was received so far.
    Stats {
        /// The answer.
        reply: oneshot::Sender<SinkStats>,
    },
    /// Leaves (`leaveGroup`); the run ends.
    Leave {
        /// Why.
        reason: LeaveReason,
    },
}

/// Requests whose answers are still to come, by the number the machine knows them under.
#[derive(Default)]
pub(crate) struct Pending {
    last: u32,
    waiting: BTreeMap<RequestId, oneshot::Sender<Status>>,
}

impl Pending {
    /// A number for a request that is answered on `reply`.
    pub fn ask(&mut self, reply: oneshot::Sender<Status>) -> RequestId {
        self.last = self.last.wrapping_add(1);
        let id = RequestId(self.last);
        self.waiting.insert(id, reply);
        id
    }

    /// The machine has answered.
    pub fn answer(&mut self, id: RequestId, status: Status) {
        if let Some(reply) = self.waiting.remove(&id) {
            // The requesting task may be gone.
            let _ = reply.send(status);
        }
    }
}
