use layercast_core::{FlowId, Observer, Rate, Span, Time};
use layercast_repair::{Beside, Carried, Head, HopClock, MemberId, Needs, PathEstimate, PathSeen};
use layercast_wire::LinkPdu;

use super::{Framed, LinkRepair, LinkRepairStats, RepairRole};

/// The repair at one end of a link over all connections of the link: it begins again with each, and may be off.
#[derive(Debug)]
pub struct RepairEnd<T> {
    name: String,
    rate: Option<Rate>,
    running: Option<Box<LinkRepair<T>>>,
    /// What former connections repaired.
    former: Option<LinkRepairStats>,
}

impl<T: Clone> RepairEnd<T> {
    /// An end of the link called `name` without repair, whose datagrams leave at `rate`.
    pub fn new(name: &str, rate: Option<Rate>) -> RepairEnd<T> {
        RepairEnd {
            name: name.into(),
            rate,
            running: None,
            former: None,
        }
    }

    /// Repairs losses from now on, or does not.
    pub fn begin(&mut self, role: Option<RepairRole<T>>) {
        self.begin_at(role, None);
    }

    /// The same; a path that is measured begins at what it carried before, or else at `guess`.
    pub fn begin_at(&mut self, role: Option<RepairRole<T>>, guess: Option<Rate>) {
        self.former = self.stats();
        let known = self.estimate().and_then(|it| it.rate);
        let known = known.or(self.rate).or(guess);
        let begin = |role| Box::new(LinkRepair::new(&self.name, role, known));
        self.running = role.map(begin);
    }

    /// The repair that runs.
    pub fn running(&mut self) -> Option<&mut LinkRepair<T>> {
        self.running.as_deref_mut()
    }

    /// Whether losses are repaired.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a mark of congestion on a datagram from the link counts: where the neighbour estimates the path, it has slowed
    /// down already.
    pub fn heeds_marks(&self) -> bool {
        self.running.as_ref().is_none_or(|it| !it.is_measured())
    }

    /// Whether this end sends to a group.
    pub fn is_group(&self) -> bool {
        self.running.as_ref().is_some_and(|it| it.is_group())
    }

    /// Takes a PDU that leaves the queue of the port at `at`; gives it back if it leaves without repair.
    pub fn send<O: Observer>(
        &mut self,
        now: Time,
        at: Time,
        pdu: LinkPdu,
        obs: &mut O,
    ) -> Option<LinkPdu> {
        match &mut self.running {
            Some(repair) => repair.send(now, at, pdu, obs),
            None => Some(pdu),
        }
    }

    /// As [`LinkRepair::receive`].
    pub fn receive<O: Observer>(
        &mut self,
        now: Time,
        from: MemberId,
        datagram: (Head, Option<Carried<T>>),
        obs: &mut O,
    ) {
        if let Some(repair) = &mut self.running {
            repair.receive(now, from, datagram, obs);
        }
    }

    /// As [`LinkRepair::poll_received`].
    pub fn poll_received(&mut self) -> Option<T> {
        self.running.as_mut()?.poll_received()
    }

    /// As [`LinkRepair::poll_sent`].
    pub fn poll_sent<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<(Framed, Time)> {
        self.running.as_mut()?.poll_sent(now, obs)
    }

    /// As [`LinkRepair::poll`].
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<(Framed, Time)> {
        self.running.as_mut()?.poll(now, obs)
    }

    /// Runs the timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.on_timeout(now, obs);
        }
    }

    /// When the timers want to run.
    pub fn next_timeout(&self) -> Option<Time> {
        self.running.as_ref()?.next_timeout()
    }

    /// As [`LinkRepair::read_late`].
    pub fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.read_late(now, obs);
        }
    }

    /// As [`LinkRepair::held_up`].
    pub fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.held_up(since, now, obs);
        }
    }

    /// Whether nothing waits for the line, and nothing that was sent may still be repaired.
    pub fn is_idle(&self, now: Time) -> bool {
        self.running.as_ref().is_none_or(|it| it.is_idle(now))
    }

    /// The line has another rate.
    pub fn set_rate<O: Observer>(&mut self, now: Time, rate: Option<Rate>, obs: &mut O) {
        self.rate = rate;
        if let Some(repair) = &mut self.running {
            repair.set_rate(now, rate, obs);
        }
    }

    /// As [`LinkRepair::poll_rate`].
    pub fn poll_rate(&mut self) -> Option<Rate> {
        self.running.as_mut()?.poll_rate()
    }

    /// As [`LinkRepair::estimate`].
    pub fn estimate(&self) -> Option<PathEstimate> {
        self.running.as_ref()?.estimate()
    }

    /// As [`LinkRepair::path_seen`].
    pub fn path_seen(&self) -> Option<PathSeen> {
        self.running.as_ref()?.path_seen()
    }

    /// As [`LinkRepair::set_beside`].
    pub fn set_beside<O: Observer>(&mut self, now: Time, beside: Option<Beside>, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.set_beside(now, beside, obs);
        }
    }

    /// As [`LinkRepair::unwanted`].
    pub fn unwanted<O: Observer>(&mut self, now: Time, flow: FlowId, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.unwanted(now, flow, obs);
        }
    }

    /// As [`LinkRepair::set_needs`].
    pub fn set_needs<O: Observer>(&mut self, now: Time, needs: Needs, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.set_needs(now, needs, obs);
        }
    }

    /// As [`LinkRepair::clock`].
    pub fn clock(&self, now: Time, member: MemberId) -> Option<HopClock> {
        self.running.as_ref()?.clock(now, member)
    }

    /// As [`LinkRepair::budget`].
    pub fn budget(&self) -> Option<Span> {
        self.running.as_ref()?.budget()
    }

    /// As [`LinkRepair::set_budget`].
    pub fn set_budget<O: Observer>(&mut self, now: Time, budget: Option<Span>, obs: &mut O) {
        if let Some(repair) = &mut self.running {
            repair.set_budget(now, budget, obs);
        }
    }

    /// What was repaired, by this connection of the link and former ones; `None` if nothing could be.
    pub fn stats(&self) -> Option<LinkRepairStats> {
        let Some(running) = &self.running else {
            return self.former;
        };
        let mut stats = running.stats();
        if let Some(former) = &self.former {
            stats.add(former);
        }
        Some(stats)
    }
}
