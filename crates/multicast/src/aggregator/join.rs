use super::*;
use crate::receipt::is_believed;

impl Aggregator {
    pub(super) fn on_open(&mut self, now: Time, from: Peer, id: u64, open: &Open) {
        if !is_believed(self.config.announcement_key.as_ref(), id, open) {
            self.stats.forged += 1;
            return;
        }
        if let Some(session) = self.session.as_mut().filter(|it| it.id == id) {
            if session.sender == from && session.accepted && !self.closed {
                // A repeated announcement: the answer was lost.
                session.stamp = open.stamp;
                self.accept_now();
            }
            return;
        }
        let object = open.object.as_ref();
        let geometry = object.and_then(|it| Geometry::of(it, open.packet_size).ok());
        let digest = object.map_or([0; 32], |it| it.digest);
        if object.is_some() && geometry.is_none() {
            self.stats.forged += 1;
            return;
        }
        let same = self
            .session
            .as_ref()
            .is_some_and(|it| digest != [0; 32] && it.digest == digest);
        if self.session.is_some() && !self.closed && !same {
            self.stats.strangers += 1;
            return;
        }
        // A restarted sender needs the answers of all receivers again.
        self.children.clear();
        self.index.clear();
        self.collecting = None;
        self.polls.clear();
        (self.closed, self.busy) = (false, false);
        let spread = Span::from_us(open.terms.spread_us.into());
        self.session = Some(Session {
            id,
            sender: from,
            terms: open.terms,
            stamp: open.stamp,
            geometry,
            digest,
            accept_at: Some(now + spread + self.config.wait),
            accepted: false,
            complete: false,
        });
    }

    pub(super) fn on_accept(&mut self, now: Time, from: Peer, accept: &Accept) {
        let found = self.index.get(&accept.member).map(|at| *at as usize);
        if accept.refuses.is_some() {
            return;
        }
        if let Some(at) = found {
            let child = &mut self.children[at];
            if child.incarnation == 0 && child.peer == from {
                // It was known only from its reports.
                child.incarnation = accept.incarnation;
            }
            if child.incarnation == accept.incarnation {
                return;
            }
        }
        let (member, life) = (accept.member, accept.incarnation);
        if !self.add(now, member, from, life, accept.buffer, accept.held) {
            return;
        }
        let Some(session) = &mut self.session else {
            return;
        };
        if session.complete {
            // The aggregator had already answered for all; the new receiver makes the session incomplete again.
            session.complete = false;
            self.config.incarnation = self.config.incarnation.wrapping_add(1);
        }
        let all = self.config.expect == Some(self.children.len() as u32);
        if all && !self.session.as_ref().is_some_and(|it| it.accepted) {
            self.accept_now();
        }
    }

    /// Adds a receiver, or a new incarnation of it, if there is room.
    pub(super) fn add(
        &mut self,
        now: Time,
        id: MemberId,
        peer: Peer,
        incarnation: u32,
        buffer: u32,
        held: u64,
    ) -> bool {
        let child = Child {
            id,
            peer,
            incarnation,
            status: Status::Joined,
            answered: 0,
            levels: (0, 0),
            buffer,
            loss: 0,
            held,
            corrupt: false,
            busy: None,
        };
        match self.index.get(&id) {
            Some(&at) => self.children[at as usize] = child,
            None if self.children.len() as u64 >= self.config.most.into() => {
                self.stats.strangers += 1;
                return false;
            }
            None => {
                self.index.insert(id, self.children.len() as u32);
                self.children.push(child);
            }
        }
        if let Some(session) = &mut self.session
            && session.accept_at.is_none()
        {
            // Slightly later, together with other late receivers.
            session.accept_at = Some(now + self.config.wait);
        }
        true
    }

    /// Reports the number of its receivers to the sender.
    pub(super) fn accept_now(&mut self) {
        let weight = self.tally().alive;
        let children = self.children.iter();
        let alive = children.filter(|it| !matches!(it.status, Status::Failed(_)));
        let hold = self.hold();
        let known = self.children.len() as u32;
        let held = alive.clone().map(|it| it.held).min().unwrap_or(0);
        let buffer = alive.map(|it| it.buffer).min().unwrap_or(0);
        let Some(session) = &mut self.session else {
            return;
        };
        session.accept_at = None;
        if weight == 0 {
            return;
        }
        session.accepted = true;
        let accept = Accept {
            member: self.config.member,
            incarnation: self.config.incarnation,
            refuses: None,
            buffer,
            held,
            weight,
            absent: self
                .config
                .expect
                .map_or(0, |expect| expect.saturating_sub(known)),
            hold_us: u32::try_from(hold.as_us()).unwrap_or(u32::MAX),
            stamp: session.stamp,
            identity: None,
            name: None,
        };
        self.upstream(Body::Accept(accept));
    }
}
