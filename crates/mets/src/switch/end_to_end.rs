use layercast_core::{FlowId, PortId, Time};
use layercast_wire::{Downward, Member, Signal, Upward};

use crate::switch::Switch;
use crate::switch::gone::Told;
use crate::switch::members::Heard;

/// What a member and the source of its flow tell one another: passed on unread, on the way that the
/// member was heard from.
impl Switch {
    /// Records a message that a member sent through `from`; `None`, and counted, if the member cannot be there
    /// or there is no room for it.
    ///
    /// A member is bound to the port where it was first seen until it leaves or its branch is removed: no other
    /// port can attract its messages or speak in its name.
    pub(crate) fn hear(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: &Member,
    ) -> Option<&mut Heard> {
        let kept: usize = self.flows.iter().map(|flow| flow.members.len()).sum();
        let has_room = kept < self.config.max_members as usize;
        let ports = &self.ports;
        let joined = self.flows.by_id(id).filter(|flow| {
            let mut branches = flow.branches.iter();
            branches.any(|branch| branch.port == from && branch.is_committed())
        });
        let Some(flow) = joined else {
            self.stats.rejected_signals.unknown += 1;
            return None;
        };
        let free = match flow.members.get(member) {
            Some(heard) => heard.port == from || !ports.is_up(heard.port),
            None => has_room,
        };
        if !free {
            self.stats.rejected_signals.member += 1;
            return None;
        }
        flow.gone.remove(member);
        flow.declined.remove(member);
        Some(flow.members.hear(now, member, from))
    }

    pub(crate) fn on_to_source(
        &mut self,
        now: Time,
        from: PortId,
        flow: FlowId,
        member: Member,
        body: Upward,
    ) {
        if self.hear(now, from, flow, &member).is_some() {
            self.tell_source(flow, |flow| Signal::ToSource { flow, member, body });
        }
    }

    pub(crate) fn on_to_member(
        &mut self,
        from: PortId,
        id: FlowId,
        member: Member,
        body: Downward,
    ) {
        let known = self.flows.by_id(id).filter(|flow| flow.upstream == from);
        let port = known.and_then(|flow| {
            let port = flow.members.get(&member)?.port;
            flow.branch(port).map(|_| port)
        });
        match port {
            Some(port) => {
                let flow = id;
                self.signal(port, Signal::ToMember { flow, member, body });
            }
            None => self.stats.rejected_signals.member += 1,
        }
    }

    /// A member below `from` has left; others there may have stayed. One that never said anything
    /// is believed to be there, one that is known elsewhere is not.
    pub(crate) fn on_left(&mut self, from: PortId, id: FlowId, member: &Member) {
        let below = self.flows.by_id(id).is_some_and(|flow| {
            let heard = flow.members.get(member).map_or(from, |heard| heard.port);
            heard == from
                && flow
                    .branch(from)
                    .is_some_and(|branch| branch.is_committed())
        });
        match below {
            true => self.member_left(id, member),
            false => self.stats.rejected_signals.member += 1,
        }
    }

    /// Forgets a member and tells the source.
    pub(crate) fn member_left(&mut self, id: FlowId, member: &Member) {
        if let Some(flow) = self.flows.by_id(id) {
            flow.members.remove(member);
            flow.gone.remove(member);
        }
        let member = member.clone();
        self.tell_source(id, |flow| Signal::Left { flow, member });
    }

    /// Forgets every member below a port and notifies the source.
    pub(crate) fn all_left(&mut self, id: FlowId, port: PortId) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        for (member, _) in flow.members.take_below(port) {
            self.tell_source(id, |flow| Signal::Left { flow, member });
        }
    }

    /// The same for members that have not left by themselves: they are listed for a while.
    pub(crate) fn all_lost(&mut self, now: Time, id: FlowId, port: PortId) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let silent = flow.gone.tell_below(port);
        for (member, heard) in flow.members.take_below(port) {
            self.member_lost(now, id, member, heard);
        }
        for member in silent {
            self.tell_source(id, |flow| Signal::Left { flow, member });
        }
    }

    /// A member is gone without a farewell: it is listed for a while, and the source hears of it.
    pub(crate) fn member_lost(&mut self, now: Time, id: FlowId, member: Member, heard: Heard) {
        if let Some(flow) = self.flows.by_id(id) {
            flow.gone.add(now, member.clone(), heard, Told::Yes);
        }
        self.tell_source(id, |flow| Signal::Left { flow, member });
    }

    /// Sends something up the tree of a flow, if we are part of it.
    pub(crate) fn tell_source(&mut self, id: FlowId, signal: impl FnOnce(FlowId) -> Signal) {
        let upstream = self.flows.by_id(id).filter(|flow| flow.is_joined());
        if let Some(upstream) = upstream.map(|flow| flow.upstream) {
            self.signal(upstream, signal(id));
        }
    }
}
