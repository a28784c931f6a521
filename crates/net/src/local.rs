use std::task::{Context, Poll};

use layercast_core::{FlowId, Span, Time, earliest};
use layercast_mets::{Source, SubmitError};
use tokio::sync::oneshot;

use crate::command::Pending;
use crate::config::LocalSource;
use crate::error::NetError;
use crate::frames::{Frames, LiveFrame, Next};
use crate::machines::Target;

/// How long the first frame waits for the demands of the members it waited for: an era, in which each sends RES,
/// and half of one for switches on the way to merge them.
const HOLD: Span = Span::from_ms(1_500);
/// How long neighbours get to read the end of a flow after everything has been sent: a program may exit when it is over.
pub(crate) const FAREWELL: Span = Span::from_ms(300);

/// How long queued frames may still leave when the node is stopped, and when the flow is closed at the latest: before the node
/// is gone, so that receivers read it.
const DRAIN: Span = Span::from_ms(500);
const CLOSE_WITHIN: Span = Span::from_ms(1_500);

/// What feeds a source of the station, and what its user waits for.
pub(crate) struct Running {
    pub flow: FlowId,
    pub name: String,
    frames: Frames,
    /// A frame that arrived while it was not polled.
    next: Option<LiveFrame>,
    /// Members that still have to join before the first frame.
    waits_for: u32,
    /// Until when the first frame is held for members that have joined, but have not said at which level.
    held_until: Option<Time>,
    closing: Option<Closing>,
    /// Whether the source was notified that there are no more frames.
    ended: bool,
    pub finished: bool,
    /// The rate that its encoder may send.
    pub target: Target,
    /// Requests of the user that the source has not answered yet.
    pub requests: Pending,
}

/// A flow that its user closes. Dropping it answers.
struct Closing {
    /// When what is queued need not be sent any more; once the source is done, when members have read that.
    until: Time,
    /// Frames that did not leave.
    left: u32,
    reply: Option<oneshot::Sender<u32>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(self.left);
        }
    }
}

impl Running {
    /// The source as configured, not fed yet, and what feeds it.
    pub fn new(now: Time, local: LocalSource) -> Result<(Running, Source), NetError> {
        NetError::check_name("the flow", &local.config.flow.name)?;
        if let Some(core) = &local.config.flow.core {
            NetError::check_name("the core switch", core)?;
        }
        let spec = local.config.flow.spec.clone();
        let (flow, name) = (local.config.flow.id, local.config.flow.name.clone());
        let source = Source::new(local.config)?;
        let running = Running {
            flow,
            name,
            frames: local.frames,
            next: None,
            waits_for: local.start_when_joined,
            held_until: None,
            closing: None,
            ended: false,
            finished: false,
            requests: Pending::default(),
            target: Target::new(now, &spec, &source.flow().spec),
        };
        Ok((running, source))
    }

    /// Fills the queue of the source, unless it waits for members; ends the flow with its frames.
    ///
    /// A frame that the source refuses as too large is left out and counted in its statistics.
    pub fn feed(&mut self, source: &mut Source, now: Time) {
        if self.waits() {
            return;
        }
        while source.room() > 0 {
            let next = self.next.take().map(Next::Frame);
            match next.unwrap_or_else(|| self.frames.next()) {
                Next::Frame(frame) => match submit(source, now, frame) {
                    Ok(()) | Err(SubmitError::TooLarge { .. }) => {}
                    // Neither can happen while there is room; stop rather than lose frames.
                    Err(
                        SubmitError::QueueFull(_)
                        | SubmitError::Closed
                        | SubmitError::NotRegistered,
                    ) => return,
                },
                Next::NotYet => return,
                Next::End => return self.end(source, now),
            }
        }
    }

    /// Whether the first frame still has to wait.
    fn waits(&self) -> bool {
        self.waits_for > 0 || self.held_until.is_some()
    }

    /// A member has joined. The last one that is waited for has a moment to say at which level it wants the flow:
    /// the first GOP goes out at the level that is granted then.
    pub fn joined(&mut self, now: Time) {
        if self.waits_for > 0 {
            self.waits_for -= 1;
            self.held_until = (self.waits_for == 0).then(|| now.saturating_add(HOLD));
        }
    }

    /// Whether the first frame only waits for members to say at which level they want the flow.
    pub fn is_held(&self) -> bool {
        self.held_until.is_some()
    }

    /// The members have said what they want, or have had their time.
    pub fn release(&mut self, source: &mut Source, now: Time) {
        if self.held_until.take().is_some() {
            self.feed(source, now);
        }
    }

    /// There are no more frames; those that are queued are sent.
    pub fn end(&mut self, source: &mut Source, now: Time) {
        self.ended = true;
        match &self.closing {
            Some(closing) => source.end_within(now, closing.until.since(now)),
            None => source.end(now),
        }
    }

    /// The node stops: the frames that are due soon leave, and the flow is closed before the node is gone.
    pub fn stop(&mut self, source: &mut Source, now: Time) {
        self.ended = true;
        let closing = self.closing.as_ref();
        let drain = closing.map_or(DRAIN, |closing| closing.until.since(now).min(DRAIN));
        source.stop(now, drain, CLOSE_WITHIN);
    }

    /// Waits for a frame there is room for; it is kept for the next iteration.
    pub fn poll_frame(&mut self, source: &Source, context: &mut Context<'_>) -> Poll<()> {
        if self.ended || self.waits() || source.room() == 0 || self.next.is_some() {
            return Poll::Pending;
        }
        self.frames
            .poll_next(context)
            .map(|frame| self.next = frame)
    }

    /// Takes no more frames, and gives those there are `grace` to leave.
    pub fn close(
        &mut self,
        source: &mut Source,
        now: Time,
        grace: Span,
        reply: oneshot::Sender<u32>,
    ) {
        self.frames.close();
        self.closing = Some(Closing {
            until: now.saturating_add(grace),
            left: 0,
            reply: Some(reply),
        });
        // No further member is expected.
        (self.waits_for, self.held_until) = (0, None);
        self.feed(source, now);
    }

    /// Takes what a live producer has sent, and gives up on a closed flow whose time has run out.
    pub fn on_timeout(&mut self, source: &mut Source, now: Time) {
        if self.held_until.is_some_and(|until| until <= now) {
            self.release(source, now);
        }
        if self.frames.live() && !self.ended {
            self.feed(source, now);
        }
        let Some(closing) = &mut self.closing else {
            return;
        };
        if closing.until <= now && self.finished {
            self.closing = None;
        } else if closing.until <= now && !self.ended {
            let left = self.frames.waiting() + usize::from(self.next.take().is_some());
            closing.left = u32::try_from(left).unwrap_or(u32::MAX);
            self.end(source, now);
        }
    }

    /// When the next of its timers is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let waits = self.finished || !self.ended;
        let closing = self.closing.as_ref().filter(|_| waits);
        earliest(closing.map(|closing| closing.until), self.held_until)
    }

    /// The source is done, and `undelivered` frames have not left.
    pub fn finish(&mut self, now: Time, undelivered: u32) {
        self.finished = true;
        if let Some(closing) = &mut self.closing {
            closing.left = closing.left.saturating_add(undelivered);
            closing.until = now.saturating_add(FAREWELL);
        }
    }
}

fn submit(
    source: &mut Source,
    now: Time,
    LiveFrame { frame, live }: LiveFrame,
) -> Result<(), SubmitError> {
    match live {
        Some(live) => source.submit_live(now, frame, live),
        None => source.submit(now, frame),
    }
}
