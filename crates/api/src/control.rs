use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use layercast_net::{ControlError, JoinCommand, NodeCommand};
use layercast_wire::Member;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::group::Shared;
use crate::inbox::Inbox;
use crate::join::Session;

/// The control socket of a sink: messages of the application to the source and back, reliable and in
/// order, such as play, pause, seek (specs/mets.md 2.2).
///
/// A message is at most 16 KiB. Clones talk over the same socket; each message comes to one of them.
#[derive(Clone)]
pub struct ControlSocket {
    pub(crate) session: Arc<Session>,
}

/// The control sockets of all members of a group, as its source has them.
#[derive(Clone)]
pub struct GroupControl {
    pub(crate) group: Arc<Shared>,
}

impl ControlSocket {
    /// Sends a message to the source.
    ///
    /// # Errors
    /// `EINVAL` if it is too long, `EBUSY` if too many wait for the source, `ECLOSED` after the end.
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<()> {
        let message = message.into();
        let ask = |reply| JoinCommand::Control { message, reply };
        done(ask_for(&self.session.commands, ask).await)
    }

    /// The next message of the source; `None` once the flow is over.
    pub async fn recv(&self) -> Option<Bytes> {
        self.session.control.take().await
    }
}

impl GroupControl {
    /// Sends a message to a member.
    ///
    /// # Errors
    /// `EINVAL` if it is too long, `EBUSY` if too many wait for the member, `ECLOSED` if it is none.
    pub async fn send(&self, member: &Member, message: impl Into<Bytes>) -> Result<()> {
        let (flow, member) = (self.group.name.clone(), member.clone());
        let message = message.into();
        let ask = |reply| NodeCommand::Control {
            flow,
            member,
            message,
            reply,
        };
        done(ask_for(&self.group.commands, ask).await)
    }

    /// The next message of any member; `None` once the group is closed.
    pub async fn recv(&self) -> Option<(Member, Bytes)> {
        self.group.control.take().await
    }
}

/// Asks what runs the machines; `None` if it does not run any more, or has no such flow.
pub(crate) async fn ask_for<C, T>(
    commands: &mpsc::Sender<C>,
    question: impl FnOnce(oneshot::Sender<T>) -> C,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    commands.send(question(reply)).await.ok()?;
    answer.await.ok()
}

fn done(answer: Option<Result<(), ControlError>>) -> Result<()> {
    use layercast_core::Status;
    match answer {
        Some(Ok(())) => Ok(()),
        Some(Err(error @ ControlError::TooLong(_))) => {
            Err(Error::invalid("message", error.to_string()))
        }
        Some(Err(ControlError::Full)) => Err(Status::Busy.into()),
        Some(Err(ControlError::NotConnected)) | None => Err(Status::Closed.into()),
    }
}

impl fmt::Debug for ControlSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlSocket").finish_non_exhaustive()
    }
}

impl fmt::Debug for GroupControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupControl")
            .field("group", &self.group.name)
            .finish_non_exhaustive()
    }
}

/// Messages of the other end that the application has not taken yet; the machines bound what is on its
/// way, this bounds what arrived.
const MAX_MESSAGES: usize = 1_024;

/// Keeps a message for the application, unless it never looks.
pub(crate) fn keep<T>(inbox: &Inbox<T>, message: T) {
    inbox.put(|waiting| {
        if waiting.len() < MAX_MESSAGES {
            waiting.push_back(message);
        }
    });
}
