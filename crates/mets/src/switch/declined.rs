use std::collections::VecDeque;

use layercast_core::{Refusal, Time};
use layercast_wire::Member;

/// Members listed so of a flow; more of them take the places of the first.
const MOST: usize = 256;

/// The members that did not join a flow, since what it offers is not what they want: a user that looks for them finds them.
#[derive(Default, Debug)]
pub(crate) struct Declined(VecDeque<Entry>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Entry {
    pub at: Time,
    pub member: Member,
    /// The parameter, with what is wanted and what is offered.
    pub refusal: Refusal,
}

impl Declined {
    /// A member does not join. What its name said before counts no more: a program that is started again has another number.
    pub fn add(&mut self, at: Time, member: Member, refusal: Refusal) {
        self.remove(&member);
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(Entry {
            at,
            member,
            refusal,
        });
    }

    /// The member joins after all.
    pub fn remove(&mut self, member: &Member) {
        self.0.retain(|it| it.member.name != member.name);
    }

    /// The members, the one that declined first first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{NodeId, Resource};

    use super::*;

    #[test]
    fn the_last_256_are_listed_each_name_once() {
        let member = |n: u32, id| Member {
            name: format!("m{n}"),
            id: NodeId(id),
        };
        let refusal = |needed| Refusal {
            node: "m".into(),
            resource: Resource::WantedDelay,
            needed,
            available: 0,
            measured: None,
        };
        let mut declined = Declined::default();
        (0..300).for_each(|n| declined.add(Time::ZERO, member(n, 1), refusal(1)));
        declined.add(Time::ZERO, member(299, 2), refusal(2));
        declined.remove(&member(100, 7));
        let last = declined.iter().last().map(|it| it.refusal.needed);
        assert_eq!((declined.iter().count(), last), (255, Some(2)));
        assert_eq!(
            declined.iter().next().map(|it| &*it.member.name),
            Some("m44")
        );
    }
}
