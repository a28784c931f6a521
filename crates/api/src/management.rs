use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use layercast_core::{GroupInfo, LeaveReason, QosOption, Status};
use layercast_net::{JoinCommand, NodeCommand, get_stats};
use layercast_wire::MemberStats;

use crate::control::ask_for;
use crate::error::{Error, Result};
use crate::group::{OpenGroup, Shared};
use crate::join::{Session, wishes};
use crate::media::MediaHandle;
use crate::upcall::{QosSignal, Upcalls};

/// The management socket: requests to, and upcalls from, the QoS management of this host (specs/mets.md 2.2).
///
/// What a client changes concerns only itself; what a server changes concerns all its members. Clones
/// ask the same management; each upcall comes to one of them.
#[derive(Clone)]
pub struct ManagementSocket {
    inner: Inner,
}

#[derive(Clone)]
enum Inner {
    Sink(Arc<Session>),
    Source(Arc<Shared>),
}

impl ManagementSocket {
    pub(crate) fn of_sink(session: Arc<Session>) -> ManagementSocket {
        let inner = Inner::Sink(session);
        ManagementSocket { inner }
    }

    pub(crate) fn of_source(group: Arc<Shared>) -> ManagementSocket {
        let inner = Inner::Source(group);
        ManagementSocket { inner }
    }

    /// Binds a media socket to this management socket (`registerSoc`): only then the flow is joined,
    /// requests are served and upcalls come. [`join`](crate::join()) does it by itself, unless
    /// [`Join::registered`](crate::Join::registered) says not to.
    ///
    /// # Errors
    /// `EINVAL` for the media socket of another flow, `ECLOSED` after the end.
    pub async fn register(&self, media: &impl AsRef<MediaHandle>) -> Result<()> {
        match &self.inner {
            Inner::Sink(session) if Arc::ptr_eq(session, &media.as_ref().session) => {
                let sent = session.commands.send(JoinCommand::Register).await;
                sent.map_err(|_| Status::Closed.into())
            }
            _ => Err(Error::invalid("media socket", "belongs to another flow")),
        }
    }

    /// As [`register`](ManagementSocket::register), for the source's end: only then frames are taken.
    ///
    /// # Errors
    /// `EINVAL` for another group, `ECLOSED` after the end.
    pub async fn register_group(&self, group: &OpenGroup) -> Result<()> {
        match &self.inner {
            Inner::Source(shared) if Arc::ptr_eq(shared, &group.shared) => {
                let flow = shared.name.clone();
                let sent = shared.commands.send(NodeCommand::Register { flow }).await;
                sent.map_err(|_| Status::Closed.into())
            }
            _ => Err(Error::invalid("media socket", "belongs to another group")),
        }
    }

    /// Asks for a change of quality of service (`changeQoS`); an error is a Nak, after which
    /// everything is as it was.
    ///
    /// # Errors
    /// The status of the Nak; `ECLOSED` if the flow is over.
    pub async fn change_qos(&self, option: QosOption) -> Result<(), Status> {
        let answer = match &self.inner {
            Inner::Sink(session) => {
                let ask = |reply| JoinCommand::Request { option, reply };
                ask_for(&session.commands, ask).await
            }
            Inner::Source(group) => {
                let flow = group.name.clone();
                let ask = |reply| NodeCommand::Request {
                    flow,
                    option,
                    reply,
                };
                ask_for(&group.commands, ask).await
            }
        };
        match answer.unwrap_or(Status::Closed) {
            Status::Ok => Ok(()),
            status => Err(status),
        }
    }

    /// The next upcall (`signalQoS`); `None` once the flow is over and all were taken.
    pub async fn signal(&self) -> Option<QosSignal> {
        self.upcalls().inbox.take().await
    }

    /// The next upcall if there is one, without waiting.
    pub fn try_signal(&self) -> Option<QosSignal> {
        self.upcalls().inbox.try_take()
    }

    /// The upcalls as a stream.
    pub fn signals(&self) -> Signals {
        Signals {
            upcalls: Arc::clone(self.upcalls()),
            next: None,
        }
    }

    /// Periodic signals that were merged because they were not read in time.
    pub fn merged_signals(&self) -> u64 {
        self.upcalls().merged()
    }

    /// What is known of the group (`getGroupInfo`).
    ///
    /// # Errors
    /// `ECLOSED` if the flow is over, or was not heard of yet.
    pub async fn info(&self) -> Result<GroupInfo> {
        let info = match &self.inner {
            Inner::Sink(session) => {
                let ask = |reply| JoinCommand::Info { reply };
                ask_for(&session.commands, ask).await.flatten()
            }
            Inner::Source(group) => group.state().await.map(|state| state.info),
        };
        info.ok_or_else(|| Status::Closed.into())
    }

    /// The receivers of the flow, with their quality (`getGroupStats`). A sink asks the node it is joined to,
    /// which knows the receivers behind it.
    ///
    /// # Errors
    /// `ECLOSED` if the flow is over, `ENET` if the node does not answer.
    pub async fn stats(&self) -> Result<Vec<MemberStats>> {
        match &self.inner {
            Inner::Sink(session) => {
                let flow = self.info().await?.flow;
                Ok(get_stats(session.upstream.clone(), Some(flow)).await?)
            }
            Inner::Source(group) => match group.state().await {
                Some(state) => Ok(state.members),
                None => Err(Status::Closed.into()),
            },
        }
    }

    /// The answer to [`QosEvent::MayRaise`](crate::QosEvent::MayRaise): a higher level is welcome.
    ///
    /// # Errors
    /// `EINVAL` at a source, whose level is what its members ask for; `ECLOSED` after the end.
    pub async fn allow_raise(&self) -> Result<()> {
        match &self.inner {
            Inner::Sink(session) => {
                let sent = session.commands.send(JoinCommand::AllowRaise).await;
                sent.map_err(|_| Status::Closed.into())
            }
            Inner::Source(_) => Err(Error::invalid("role", "a source is asked, it does not ask")),
        }
    }

    /// Wants something else of the network than before, as [`Join::profile`](crate::Join::profile) does at the start; `None`: nothing any
    /// more. The contract in force counts until [`QosEvent::Agreed`](crate::QosEvent::Agreed) tells of another one.
    ///
    /// # Errors
    /// `EADMIT` with what is wanted and what is offered: then everything is as it was; `EINVAL` for a profile that is none, or at a
    /// source.
    pub async fn set_profile(&self, profile: Option<&str>) -> Result<()> {
        let Inner::Sink(session) = &self.inner else {
            return Err(Error::invalid(
                "role",
                "a source offers, it does not answer",
            ));
        };
        let wishes = profile.map(wishes).transpose()?.map(Box::new);
        let ask = |reply| JoinCommand::Wishes { wishes, reply };
        match ask_for(&session.commands, ask)
            .await
            .unwrap_or(Status::Closed)
        {
            Status::Ok => Ok(()),
            status => Err(status.into()),
        }
    }

    /// Leaves the group (`leaveGroup`): the branch is pruned and its reservations are released when
    /// this returns. Frames that are due already can still be taken.
    ///
    /// # Errors
    /// `EINVAL` at a source, which closes its group instead.
    pub async fn leave(&self, reason: LeaveReason) -> Result<()> {
        match &self.inner {
            Inner::Sink(session) => {
                // If it is over, there is nothing to leave.
                let _ = session.commands.send(JoinCommand::Leave { reason }).await;
                session.ended().await;
                Ok(())
            }
            Inner::Source(_) => Err(Error::invalid("role", "a source closes its group")),
        }
    }

    fn upcalls(&self) -> &Arc<Upcalls> {
        match &self.inner {
            Inner::Sink(session) => &session.upcalls,
            Inner::Source(group) => &group.upcalls,
        }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<QosSignal>> + Send>>;

/// The upcalls of a management socket.
pub struct Signals {
    upcalls: Arc<Upcalls>,
    next: Option<Next>,
}

impl Stream for Signals {
    type Item = QosSignal;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<QosSignal>> {
        let this = self.get_mut();
        let upcalls = &this.upcalls;
        let next = this.next.get_or_insert_with(|| {
            let upcalls = Arc::clone(upcalls);
            Box::pin(async move { upcalls.inbox.take().await })
        });
        let polled = next.as_mut().poll(context);
        if polled.is_ready() {
            this.next = None;
        }
        polled
    }
}

impl fmt::Debug for ManagementSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.inner {
            Inner::Sink(_) => "sink",
            Inner::Source(_) => "source",
        };
        f.debug_struct("ManagementSocket")
            .field("role", &role)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}
