//! The reports on a session for the user of a sender.

use super::*;

impl<S: Source> Session<'_, S> {
    pub(super) fn report_progress(&mut self, now: Time, events: &mpsc::Sender<SendEvent>) {
        if self.data_since.is_none() && self.sender.stats().data > 0 {
            self.data_since = Some(now);
        }
        while let Some(event) = self.sender.poll_event() {
            let about = match event {
                SenderEvent::Opened { yes, .. } => {
                    let _ = events.try_send(SendEvent::Opened {
                        name: self.report.name.clone(),
                        size: self.report.size,
                        receivers: yes,
                    });
                    None
                }
                SenderEvent::PassDone { round, .. } => {
                    // What a receiver lacks beyond what was sent since it was asked last, it has not been sent before: a
                    // receiver that resumes is asked before the first packet.
                    let sent = self.sender.stats().data - self.asked;
                    self.asked += sent;
                    for it in self.sender.deliveries() {
                        if it.outcome == Outcome::Pending {
                            let (repairs, last) = self.repairs.entry(it.member).or_default();
                            if last.replace(round) != Some(round) {
                                *repairs += it.at.min(sent);
                            }
                        }
                    }
                    None
                }
                SenderEvent::Postponed(member) => {
                    self.routes.postpone(member);
                    Some(member)
                }
                SenderEvent::Delivered(member) => {
                    if let Some(since) = self.data_since {
                        self.took.entry(member).or_insert(now.since(since));
                    }
                    Some(member)
                }
                SenderEvent::Joined(member)
                | SenderEvent::Busy(member)
                | SenderEvent::Failed { member, .. }
                | SenderEvent::Ejected { member, .. } => Some(member),
                SenderEvent::Closed(Err(failure)) => {
                    self.report.failure.get_or_insert(failure);
                    None
                }
                _ => None,
            };
            self.routes.change();
            let found = about.and_then(|member| self.sender.delivery(member));
            if let Some(delivery) = found {
                let _ = events.try_send(SendEvent::Receiver(self.about(&delivery)));
            }
        }
    }

    fn about(&self, it: &Delivery) -> ReceiverReport {
        ReceiverReport {
            member: it.member,
            name: self.link.roll.name(it.member),
            address: it.peer.and_then(|peer| self.peers.address(peer)),
            outcome: it.outcome,
            took: self.took.get(&it.member).copied(),
            repairs: self.repairs.get(&it.member).map_or(0, |it| it.0),
            lacks: match (it.outcome, &self.feed) {
                (Outcome::Delivered, _) => 0,
                (_, Some(feed)) => feed.packets().saturating_sub(it.at),
                (_, None) => it.at,
            },
            loss: f32::from(it.loss) / f32::from(u16::MAX),
            round_trip: it.round_trip,
        }
    }

    pub(super) fn progress(&mut self) -> SendProgress {
        let (pass, left) = (self.sender.pass(), self.sender.left_of_pass());
        if self.pass.0 != pass || left > self.pass.1 {
            self.pass = (pass, left);
        }
        let there = self.sender.deliveries().map(|it| it.outcome);
        let (mut done, mut all) = (0, 0);
        for outcome in there {
            done += u32::from(outcome == Outcome::Delivered);
            all += u32::from(matches!(outcome, Outcome::Delivered | Outcome::Pending));
        }
        SendProgress {
            pass,
            packets: match &self.feed {
                Some(feed) => (feed.done(&self.sender), feed.packets()),
                None => (self.pass.1 - left, self.pass.1),
            },
            octets: self.sender.stats().octets,
            receivers: (done, all),
        }
    }

    pub(super) fn finish(self) -> SentFile {
        for peer in self.sender.spent() {
            if let Some(address) = self.peers.address(peer)
                && self.link.spent.len() < MOST_RECEIVERS
            {
                let times = self.link.spent.entry(address).or_default();
                *times = times.saturating_add(1);
            }
        }
        let receivers: Vec<ReceiverReport> = self
            .sender
            .deliveries()
            .map(|delivery| self.about(&delivery))
            .collect();
        let unreached = self.link.hosts().iter().copied();
        let unreached = unreached
            .filter(|&host| !self.link.roll.is_at(host))
            .collect();
        let mut stats = *self.sender.stats();
        stats.strangers += self.strangers;
        SentFile {
            receivers,
            unreached,
            stats,
            datagrams: self.link.udp.stats().sent - self.report.datagrams,
            malformed: self.inbox.malformed,
            ..self.report
        }
    }
}
