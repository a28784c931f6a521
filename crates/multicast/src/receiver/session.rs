use super::*;
use layercast_wire::multicast::Content;

impl<T: Store> Receiver<T> {
    pub(super) fn on_open(&mut self, now: Time, from: Peer, id: u64, open: &Open) {
        if !self.config.believes(id, open) {
            self.stats.strangers += 1;
            return;
        }
        let known = self.session.as_ref().filter(|session| session.id == id);
        let resumed = match (&known, self.phase) {
            (Some(session), Phase::Joined | Phase::Complete) => {
                if session.sender == from {
                    // A repeated announcement: the answer was lost. A waiting report is not replaced by it.
                    if self.answer.is_none() {
                        self.accept(now, open, None);
                    }
                } else {
                    self.stats.strangers += 1;
                }
                return;
            }
            (None, Phase::Idle) => false,
            // The sender restarted with the same object.
            (None, Phase::Joined | Phase::Complete) => {
                let same = open.object.as_ref().is_some_and(|object| {
                    object.digest == self.object.digest
                        && object.size == self.object.geometry().size
                });
                if !same {
                    self.stats.strangers += 1;
                    return;
                }
                true
            }
            _ => return,
        };
        self.session = Some(Session {
            id,
            sender: from,
            terms: open.terms,
            heard: now,
            came: 0,
            at_poll: None,
            loss: 0,
            missing: 0,
        });
        let refused = match &open.object {
            _ if resumed => None,
            Some(object) if open.terms.content != Content::Levels => {
                self.begin_object(open, object).err()
            }
            _ => {
                self.stream = Some(Box::default());
                None
            }
        };
        self.packet_size = open.packet_size;
        self.answer = None;
        self.counting = None;
        (self.postponed, self.was_busy) = (false, self.busy);
        self.object.new_session();
        self.accept(now, open, refused);
        match refused {
            Some(reason) => {
                self.phase = Phase::Closed;
                self.events.push_back(ReceiverEvent::Refused(reason));
            }
            None => {
                if self.phase == Phase::Idle {
                    self.phase = Phase::Joined;
                    self.events.push_back(ReceiverEvent::Joined);
                }
                // The wait for data begins with the first data packet: until then other receivers may still be
                // joining.
                self.data_wait = None;
                self.all_there(now);
                if self.phase == Phase::Complete {
                    self.pass_over(now, Span::ZERO);
                }
            }
        }
    }

    /// Answers the announcement after its back-off.
    pub(super) fn accept(&mut self, now: Time, open: &Open, refuses: Option<Reason>) {
        let accept = Body::Accept(Accept {
            incarnation: self.config.incarnation,
            refuses,
            buffer: self.config.buffer,
            held: self.object.held.count(),
            stamp: open.stamp,
            identity: self.config.identity,
            ..Accept::alone(self.config.member)
        });
        let delay = self.uniform(open.terms.spread_us);
        if delay == Span::ZERO || refuses.is_some() {
            self.send(accept);
        } else {
            self.answer = Some(Answer::accept(now + delay, accept));
        }
    }

    pub(super) fn on_release(&mut self, now: Time) {
        if let Some(stream) = &self.stream {
            // The sender closes when all counted receivers have everything.
            let whole = stream.is_whole();
            return self.closed(if whole { Reason::Normal } else { Reason::Late });
        }
        if self.phase != Phase::Complete || !self.object.reported {
            return;
        }
        let Some(terms) = self.session.as_ref().map(|session| session.terms) else {
            return;
        };
        if !terms.goodbye {
            self.closed(Reason::Normal);
        } else if self.goodbye.is_none() {
            let delay = self.uniform(terms.spread_us);
            self.goodbye = Some(now + delay);
        }
    }

    pub(super) fn say_goodbye(&mut self) {
        self.goodbye = None;
        let member = self.config.member;
        self.send(Body::Released { member });
        self.closed(Reason::Normal);
    }
}
