use std::collections::BTreeMap;

use layercast_core::{PortId, Span, Time};
use layercast_wire::{Member, MemberReport};

/// A member of a flow that was heard of below a port: soft state, kept alive by what it sends.
#[derive(Debug)]
pub(crate) struct Heard {
    pub port: PortId,
    pub first: Time,
    pub last: Time,
    pub report: Option<MemberReport>,
}

/// The members of a flow below this node, and the way to each.
#[derive(Default, Debug)]
pub(crate) struct Members(BTreeMap<Member, Heard>);

impl Members {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Member, &Heard)> {
        self.0.iter()
    }

    pub fn get(&self, member: &Member) -> Option<&Heard> {
        self.0.get(member)
    }

    /// Takes note that a member sent something through `port`.
    pub fn hear(&mut self, now: Time, member: &Member, port: PortId) -> &mut Heard {
        let heard = self.0.entry(member.clone()).or_insert(Heard {
            port,
            first: now,
            last: now,
            report: None,
        });
        heard.port = port;
        heard.last = now;
        heard
    }

    pub fn remove(&mut self, member: &Member) {
        self.0.remove(member);
    }

    /// Forgets who was not heard of for longer than `life`, and gives those of them `lost` says are
    /// cut off.
    pub fn expire(
        &mut self,
        now: Time,
        life: Span,
        lost: impl Fn(PortId) -> bool,
        gone: &mut Vec<Member>,
    ) {
        self.0.retain(|member, heard| {
            let stays = now.since(heard.last) <= life;
            if !stays && lost(heard.port) {
                gone.push(member.clone());
            }
            stays
        });
    }

    /// Forgets the members below a port, and names them.
    pub fn take_below(&mut self, port: PortId) -> Vec<Member> {
        let below =
            |(member, heard): (&Member, &Heard)| (heard.port == port).then(|| member.clone());
        let gone: Vec<Member> = self.0.iter().filter_map(below).collect();
        self.0.retain(|_, heard| heard.port != port);
        gone
    }
}
