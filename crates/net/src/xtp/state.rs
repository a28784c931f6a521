//! What the tasks of a host share.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use layercast_xtp::remote::{Answer, Changed, Question};
use layercast_xtp::{ContextId, ContextStatus, XtpError, XtpEvent};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::backend::Backend;
use super::call::XtpCallError;
use super::coalescer::Coalescer;
use super::node::XtpNode;

/// Events of other tasks before those of this one.
const EVENTS: usize = 64;

/// One association, as its user and the task of the socket see it.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) status: ContextStatus,
    /// Something about it is new.
    pub(super) changed: Arc<Notify>,
}

/// Everything that the tasks of a host share.
pub(super) struct State {
    pub(super) backend: Backend,
    pub(super) places: HashMap<ContextId, Place>,
    pub(super) arrivals: HashMap<u16, Arc<Notify>>,
    coalescer: Coalescer,
    answered: Arc<Notify>,
    broken: Option<XtpCallError>,
    driver: Option<Waker>,
    /// No user is left, and some data have not left.
    unused: bool,
}

/// What users hold; with the last of them the task of the socket ends.
pub(super) struct Owner {
    state: Arc<Mutex<State>>,
    driver: AbortHandle,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.lock();
        // What was accepted for a daemon still goes to it.
        state.unused = !state.backend.flush();
        if state.unused {
            state.wake();
        } else {
            self.driver.abort();
        }
    }
}

impl Owner {
    /// Starts the task of the socket. Must be called within a tokio runtime.
    pub(super) fn new(backend: Backend) -> Owner {
        let state = Arc::new(Mutex::new(State {
            backend,
            places: HashMap::new(),
            arrivals: HashMap::new(),
            coalescer: Coalescer::default(),
            answered: Arc::new(Notify::new()),
            broken: None,
            driver: None,
            unused: false,
        }));
        let shared = state.clone();
        let driver = tokio::spawn(poll_fn(move |context| drive(&shared, context))).abort_handle();
        Owner { state, driver }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic with the lock held happened between two calls of the machine.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a daemon; `None` where there is none.
    pub(super) async fn ask(&self, about: Question) -> Result<Option<Answer>, XtpCallError> {
        let (number, answered) = {
            let mut state = self.lock();
            state.check()?;
            let Backend::Far(far) = &mut state.backend else {
                return Ok(None);
            };
            let number = far.link.ask(about);
            state.move_on();
            (number, state.answered.clone())
        };
        let _asked = Asked {
            owner: self,
            number,
        };
        loop {
            let mut answered = pin!(answered.notified());
            answered.as_mut().enable();
            {
                let mut state = self.lock();
                if let Backend::Far(far) = &mut state.backend
                    && let Some(answer) = far.link.answer(number)
                {
                    return Ok(Some(answer));
                }
                state.check()?;
            }
            answered.await;
        }
    }
}

/// A question to a daemon, for as long as somebody waits for the answer.
struct Asked<'a> {
    owner: &'a Owner,
    number: u32,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Backend::Far(far) = &mut self.owner.lock().backend {
            far.link.drop_question(self.number);
        }
    }
}

impl State {
    pub(super) fn check(&self) -> Result<(), XtpCallError> {
        match &self.broken {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// The socket, if it is here.
    pub(super) fn node(&mut self) -> io::Result<&mut XtpNode> {
        match &mut self.backend {
            Backend::Own(node) => Ok(node),
            Backend::Far(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the groups of a daemon are its own business: layercast xtpd --group",
            )),
        }
    }

    /// After a call of a user: what it has to send leaves.
    pub(super) fn move_on(&mut self) {
        self.coalescer.flush();
        if self.backend.hurry() {
            self.wake();
        }
    }

    /// After a call that sent `bytes` bytes: they leave now, or with those that follow.
    pub(super) fn sent(&mut self, bytes: usize) {
        let leaves = match &self.backend {
            Backend::Own(node) => self.coalescer.flushes(node.now(), bytes),
            // It has a queue of its own.
            Backend::Far(_) => true,
        };
        match leaves {
            true => self.move_on(),
            false => self.wake(),
        }
    }

    /// After a call whose result may be reported together with pending output.
    pub(super) fn move_on_soon(&mut self) {
        if !self.coalescer.holds() {
            self.move_on();
        }
    }

    /// The task of the socket is to look after it.
    pub(super) fn wake(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    pub(super) fn enter(&mut self, id: ContextId) -> Arc<Notify> {
        self.places.entry(id).or_default().changed.clone()
    }

    /// Notes an event of the endpoint here, and wakes the waiting tasks.
    fn dispatch(&mut self, event: &XtpEvent) {
        if let XtpEvent::Incoming(port) = event {
            return self.ring(*port);
        }
        let place = event.context().and_then(|id| self.places.get_mut(&id));
        if let Some(Place { status, changed }) = place {
            status.note(event);
            changed.notify_waiters();
        }
    }

    /// Wakes the tasks concerned by a report of the daemon.
    fn wake_for(&mut self, changed: Changed) {
        match changed {
            Changed::Context(id) => {
                if let Some(place) = self.places.get(&id) {
                    place.changed.notify_waiters();
                }
            }
            Changed::Port(port) => self.ring(port),
            Changed::Answer(_) => self.answered.notify_waiters(),
            Changed::Nothing | Changed::Welcome | Changed::Parted(_) => {}
        }
    }

    fn ring(&self, port: u16) {
        if let Some(arrived) = self.arrivals.get(&port) {
            arrived.notify_one();
        }
    }

    /// The connection has failed: all waiting tasks are notified.
    fn fail(&mut self, why: XtpCallError) {
        self.broken = Some(why);
        for place in self.places.values() {
            place.changed.notify_waiters();
        }
        for arrived in self.arrivals.values() {
            arrived.notify_one();
        }
        self.answered.notify_waiters();
    }

    /// The status of an association, as reported so far.
    pub(super) fn status(&self, id: ContextId) -> ContextStatus {
        match &self.backend {
            Backend::Own(_) => self
                .places
                .get(&id)
                .map_or_else(ContextStatus::default, |it| it.status.clone()),
            Backend::Far(far) => far.link.status(id),
        }
    }

    /// Asks when everything sent so far is settled; gives what [`ContextStatus::settled`] is then.
    pub(super) fn tell_settled(&mut self, id: ContextId) -> Result<u64, XtpError> {
        // An answer to a question that was asked before must not be taken for one to this.
        while let Some(event) = self.backend.poll_event() {
            self.dispatch(&event);
        }
        match &mut self.backend {
            Backend::Far(far) => far.link.tell_settled(id),
            Backend::Own(node) => {
                node.endpoint().tell_settled(id)?;
                let place = self.places.get_mut(&id).ok_or(XtpError::Unknown)?;
                place.status.asked += 1;
                Ok(place.status.asked)
            }
        }
    }

    /// Stores the next event of the endpoint.
    fn poll_one(&mut self, context: &mut Context<'_>) -> Poll<Result<(), XtpCallError>> {
        match &mut self.backend {
            Backend::Own(node) => {
                let event = ready!(node.poll_event(context))?;
                self.dispatch(&event);
            }
            Backend::Far(far) => {
                let changed = ready!(far.poll_changed(context))?;
                self.wake_for(changed);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The task of the socket: until the last user is gone, or the socket breaks.
fn drive(shared: &Mutex<State>, context: &mut Context<'_>) -> Poll<()> {
    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
    state.coalescer.turn();
    for _ in 0..EVENTS {
        match state.poll_one(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                state.fail(error);
                return Poll::Ready(());
            }
            Poll::Pending if state.unused && state.backend.flush() => return Poll::Ready(()),
            Poll::Pending => {
                state.driver = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}
