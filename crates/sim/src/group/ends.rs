//! The two ends: when machines are asked, woken and listened to.

use layercast_core::{Span, Time};
use layercast_multicast::{ReceiverEvent, SenderEvent, To};

use super::config::FaultKind;
use super::world::{Due, SENDER, Simulation};

/// Packets that wait for the source's processor, after which the sender is not asked for more.
const LEAVING: u32 = 32;
/// A machine without output at its announced time is polled again after this time.
pub(super) const AGAIN: Span = Span::from_us(1);

impl Simulation<'_> {
    /// The sender runs what is due and sends what it may.
    pub(super) fn turn_of_source(&mut self) {
        let now = self.now;
        if self.sender.poll_timeout().is_some_and(|due| due <= now) {
            self.sender.on_timeout(now, &mut self.obs);
        }
        let mut blocked = None;
        loop {
            blocked = blocked.or_else(|| self.blocked());
            if blocked.is_some() {
                break;
            }
            let Some(transmit) = self.sender.poll_transmit(now, &mut self.obs) else {
                break;
            };
            self.counts.sent(&transmit.packet);
            let to_group = !matches!(transmit.to, To::One(_));
            let leaves = match self.source.is_instant() {
                true => now,
                false => self.source.send(now, &transmit.packet, to_group),
            };
            let item = self.item(SENDER, transmit);
            if leaves == now {
                self.send_down(item);
            } else {
                self.leaving += 1;
                self.calendar.add(leaves, Due::Leave { item });
            }
        }
        self.events_of_sender();
        let next = blocked.or_else(|| self.sender.poll_timeout());
        if let Some(next) = next.map(|next| next.max(now + AGAIN))
            && (next < self.wake || self.wake <= now)
        {
            self.wake = next;
            self.calendar.add(next, Due::WakeSource);
        }
    }

    /// Until when nothing more can be sent, if not immediately: the processor has enough, or the first link.
    fn blocked(&self) -> Option<Time> {
        if self.leaving >= LEAVING {
            return Some(self.source.free());
        }
        let (first, _) = self.tree.ports.first()?.children;
        let free = self.links.get(first as usize - 1)?.free_down();
        (free > self.now).then_some(free)
    }

    fn events_of_sender(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            if let SenderEvent::Opened { .. } = event
                && self.application.is_some()
            {
                self.calendar.add(self.now, Due::Submit);
            }
            self.counts.told(self.now, &event);
            if let SenderEvent::Released { upto } = event {
                self.released(upto);
            }
        }
    }

    pub(super) fn wake_member(&mut self, member: u32) {
        let now = self.now;
        let it = &mut self.members[member as usize];
        if it.wake != now {
            return;
        }
        it.wake = Time::MAX;
        let Some(machine) = &mut it.machine else {
            return;
        };
        if machine.poll_timeout().is_some_and(|due| due <= now) {
            machine.on_timeout(now, &mut self.obs);
        }
        self.after(member);
    }

    /// A wake that comes too early costs an event; one for each packet that puts it off would cost more.
    #[inline]
    pub(super) fn set_alarm(&mut self, member: u32) {
        let it = &mut self.members[member as usize];
        let due = it
            .machine
            .as_ref()
            .and_then(|machine| machine.poll_timeout());
        if let Some(due) = due
            && due < it.wake
        {
            it.wake = due.max(self.now + AGAIN);
            self.calendar.add(it.wake, Due::Wake { member });
        }
    }

    pub(super) fn events_of(&mut self, member: u32) {
        let it = &mut self.members[member as usize];
        let mut readable = false;
        while let Some(event) = it.machine.as_mut().and_then(|machine| machine.poll_event()) {
            match event {
                ReceiverEvent::Complete if it.complete.is_none() => {
                    it.complete = Some(self.now);
                    self.counts.complete += 1;
                }
                ReceiverEvent::Readable => readable = true,
                ReceiverEvent::Closed { complete, .. } => {
                    self.counts.closed += 1;
                    self.counts.closed_complete += u32::from(complete);
                }
                _ => {}
            }
        }
        if readable {
            self.serve(member);
        }
    }

    /// The next of the faults, and when the one after it is due.
    pub(super) fn fault(&mut self) {
        let fault = self.group.faults[self.next_fault];
        self.next_fault += 1;
        for member in fault.first..fault.end {
            self.suffer(member, fault.what);
        }
        if let Some(next) = self.group.faults.get(self.next_fault) {
            self.calendar.add(next.at, Due::Fault);
        }
    }

    /// Something happens to a receiver.
    pub(super) fn suffer(&mut self, member: u32, what: FaultKind) {
        let number = member;
        let Some(it) = self.members.get_mut(member as usize) else {
            return;
        };
        match (what, &mut it.machine) {
            (FaultKind::Busy, Some(machine)) => machine.busy(),
            (FaultKind::Ready, Some(machine)) => machine.ready(self.now),
            (FaultKind::Kill, _) => it.kill(true),
            (FaultKind::Restart { resume }, _) => {
                it.kill(resume);
                it.start(number, &self.terms);
                self.name_member(number);
            }
            (FaultKind::Service(service), _) => it.user.service = service,
            (FaultKind::Busy | FaultKind::Ready, None) => {}
        }
        self.after(member);
    }
}
