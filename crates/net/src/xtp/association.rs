use std::pin::pin;
use std::sync::Arc;

use layercast_wire::{Payload, XtpTrafficSpec};
use layercast_xtp::remote::{Answer, Question};
use layercast_xtp::{
    Chunk, ContextId, ContextStatus, SendOptions, XtpFailure, XtpInfo, XtpRate, XtpSocket,
};
use tokio::sync::Notify;
use tokio::task::coop;

use super::backend::Backend;
use super::call::XtpCallError;
use super::state::{Owner, State};

/// One end of an association of an [`XtpHost`](super::XtpHost).
///
/// Several tasks may use it. Dropped without [`close`](Self::close), it says good-bye behind the back of its user: what
/// was sent still goes, as long as the host lives.
pub struct XtpAssociation {
    owner: Arc<Owner>,
    id: ContextId,
    changed: Arc<Notify>,
}

impl XtpAssociation {
    pub(super) fn new(owner: Arc<Owner>, id: ContextId, changed: Arc<Notify>) -> XtpAssociation {
        XtpAssociation { owner, id, changed }
    }

    /// Waits until the peer has answered.
    ///
    /// # Errors
    /// It broke off before that.
    pub async fn connected(&self) -> Result<(), XtpCallError> {
        self.until(|_, status| (status.connected || status.over == Some(Ok(()))).then_some(Ok(())))
            .await
    }

    /// Sends data; waits until the last of them found room. What is sent close behind something else may leave with what follows, at
    /// the latest when the task waits for something.
    ///
    /// # Errors
    /// The context is closed for writing, or broke off.
    pub async fn send(
        &self,
        data: impl Into<Payload>,
        how: &SendOptions,
    ) -> Result<(), XtpCallError> {
        // A task that never has to wait yields to the task of the socket now and then.
        coop::consume_budget().await;
        let mut rest = data.into();
        // A tag belongs to the first piece.
        let mut how = *how;
        self.until(|state, _| {
            if let Err(error) = state.check() {
                return Some(Err(error));
            }
            let bytes = rest.len() + how.tag.map_or(0, |tag| tag.len());
            match state.backend.offer(self.id, &mut rest, &mut how) {
                Err(error) => Some(Err(error.into())),
                Ok(true) => {
                    state.sent(bytes);
                    Some(Ok(()))
                }
                // Only transmission makes room.
                Ok(false) => {
                    state.move_on();
                    None
                }
            }
        })
        .await
    }

    /// Waits for what the peer sends: up to `max` bytes of one message; `None` after the last.
    ///
    /// # Errors
    /// It broke off, and everything that arrived before was received.
    pub async fn receive(&self, max: usize) -> Result<Option<Chunk>, XtpCallError> {
        self.until(|state, status| {
            let chunk = match state.backend.receive(self.id, max) {
                Err(error) => return Some(Err(error.into())),
                Ok(chunk) => chunk,
            };
            if chunk.is_some() {
                // Room may be worth telling.
                state.move_on_soon();
                return Some(Ok(chunk));
            }
            match status.over {
                Some(Err(why)) => Some(Err(why.into())),
                Some(Ok(())) => Some(Ok(None)),
                None => status.peer_closed.then_some(Ok(None)),
            }
        })
        .await
    }

    /// Waits until everything sent so far has left and the peer has answered: it has it, or, without error control,
    /// has seen what came after it.
    ///
    /// # Errors
    /// It broke off before that.
    pub async fn settled(&self) -> Result<(), XtpCallError> {
        let nth = {
            let mut state = self.owner.lock();
            let nth = state.tell_settled(self.id)?;
            state.move_on();
            nth
        };
        self.until(|_, status| (status.settled >= nth).then_some(Ok(())))
            .await
    }

    /// Waits until the peer's user has taken everything up to a byte, after data that were sent with
    /// [`SendOptions::tell_delivery`].
    ///
    /// # Errors
    /// It broke off before that.
    pub async fn delivered(&self, upto: u64) -> Result<(), XtpCallError> {
        self.until(|_, status| (status.delivered >= upto).then_some(Ok(())))
            .await
    }

    /// Waits until the transmitter of a multicast association has let us in; gives the first byte we get.
    ///
    /// # Errors
    /// It does not let us in, or broke off before that.
    pub async fn joined(&self) -> Result<u64, XtpCallError> {
        self.until(|_, status| status.joined.map(Ok)).await
    }

    /// Waits until this number of receivers of a multicast association is complete or gone; returns the numbers
    /// of complete receivers and of those gone incomplete.
    ///
    /// # Errors
    /// It broke off before that.
    pub async fn parted(&self, receivers: u64) -> Result<(u64, u64), XtpCallError> {
        self.until(|_, status| {
            let (done, lost) = status.receivers;
            (done + lost >= receivers).then_some(Ok((done, lost)))
        })
        .await
    }

    /// Nothing more will be sent; receiving continues.
    ///
    /// # Errors
    /// It is closed already.
    pub fn close_write(&self) -> Result<(), XtpCallError> {
        self.call(|state| state.backend.close_write(self.id))
    }

    /// Offers this number of bytes of buffers to a peer that uses reservation.
    ///
    /// # Errors
    /// It is over.
    pub fn post(&self, bytes: usize) -> Result<(), XtpCallError> {
        self.call(|state| state.backend.post(self.id, bytes))
    }

    /// Other limits for what is sent and what is taken; the peer is asked to agree.
    ///
    /// # Errors
    /// It is over.
    pub fn set_traffic(&self, output: XtpRate, input: XtpRate) -> Result<(), XtpCallError> {
        self.call(|state| state.backend.set_traffic(self.id, output, input))
    }

    /// What the peer said about traffic last.
    pub async fn traffic(&self) -> Option<XtpTrafficSpec> {
        if let Backend::Own(node) = &mut self.owner.lock().backend {
            return node.endpoint().traffic(self.id);
        }
        match self.owner.ask(Question::Traffic(self.id)).await {
            Ok(Some(Answer::Traffic(traffic))) => traffic,
            _ => None,
        }
    }

    /// What is known of it; `None` once it is over and released.
    pub async fn info(&self) -> Option<XtpInfo> {
        if let Backend::Own(node) = &self.owner.lock().backend {
            return node.info(self.id);
        }
        match self.owner.ask(Question::Info(self.id)).await {
            Ok(Some(Answer::Info(info))) => info.map(|it| *it),
            _ => None,
        }
    }

    /// The other end; `None` once it is over and released.
    pub async fn remote(&self) -> Option<XtpSocket> {
        self.info().await.map(|info| info.remote)
    }

    /// Good-bye: what was sent still goes, nothing more is received; waits until the peer has done the same.
    ///
    /// # Errors
    /// It broke off before that.
    pub async fn close(self) -> Result<(), XtpCallError> {
        self.call(|state| {
            state.backend.close_write(self.id)?;
            state.backend.close_read(self.id)
        })?;
        self.until(|_, status| status.over.map(|over| over.map_err(XtpCallError::from)))
            .await
    }

    /// Aborts it and notifies the peer.
    pub fn abort(self) {
        let mut state = self.owner.lock();
        state.backend.abort(self.id);
        state.move_on();
    }

    fn call<E>(&self, call: impl FnOnce(&mut State) -> Result<(), E>) -> Result<(), XtpCallError>
    where
        XtpCallError: From<E>,
    {
        let mut state = self.owner.lock();
        state.check()?;
        call(&mut state)?;
        state.move_on();
        Ok(())
    }

    /// Waits until `look` finds what it looks for; asked again whenever something is new.
    async fn until<T>(
        &self,
        mut look: impl FnMut(&mut State, &ContextStatus) -> Option<Result<T, XtpCallError>>,
    ) -> Result<T, XtpCallError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.owner.lock();
                let status = state.status(self.id);
                if let Some(found) = look(&mut state, &status) {
                    return found;
                }
                state.check()?;
                if let Some(why) = status.unopened {
                    return Err(why.into());
                }
                if let Some(Err(why)) = status.over {
                    return Err(XtpFailure::into(why));
                }
            }
            changed.await;
        }
    }
}

impl Drop for XtpAssociation {
    fn drop(&mut self) {
        let mut state = self.owner.lock();
        state.places.remove(&self.id);
        // After a break, or `abort`, there is no peer to close with.
        state.backend.close(self.id);
        state.move_on();
    }
}
