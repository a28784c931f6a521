use super::*;

impl<S: Source> Sender<S> {
    /// Ends the session once all counted receivers have confirmed, or failed.
    pub(super) fn conclude(&mut self) {
        match self.roster.delivered_to(&self.config.completion) {
            true => self.close(Ok(())),
            false => self.close(Err(Failure::Integrity)),
        }
    }

    /// Ends the session without success and informs all receivers.
    pub(super) fn give_up(&mut self, reason: Reason, failure: Failure) {
        self.out.clear();
        self.polls.clear();
        self.send(To::Group, Body::Abort { reason });
        for record in self.roster.iter_mut() {
            if matches!(
                record.status,
                Status::Joined | Status::Busy | Status::Postponed | Status::Invited
            ) {
                record.status = Status::Failed(reason);
            }
        }
        self.close(Err(failure));
    }

    pub(super) fn close(&mut self, result: Result<(), Failure>) {
        self.phase = Phase::Closed;
        self.round.deadline = Time::MAX;
        self.next_open = Time::MAX;
        self.polls.clear();
        self.events.push_back(SenderEvent::Closed(result));
    }
}
