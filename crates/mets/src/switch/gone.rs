use std::collections::VecDeque;

use layercast_core::{PortId, Span, Time};
use layercast_wire::Member;

use crate::switch::members::Heard;

/// How long a member that fell silent without a farewell is listed.
pub(crate) const LISTED: Span = Span::from_secs(60);
/// Members listed so of a flow; more of them take the places of the first.
const MOST: usize = 256;

/// Whether the source has heard that a member is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    Yes,
    /// Its session is not known to be lost.
    No,
}

/// The members of a flow that fell silent without a farewell in the last minute: a user that looks for them finds them.
#[derive(Default, Debug)]
pub(crate) struct Gone(VecDeque<Entry>);

#[derive(Debug)]
struct Entry {
    since: Time,
    member: Member,
    heard: Heard,
    told: Told,
}

impl Entry {
    fn is_untold_below(&self, port: PortId) -> bool {
        self.heard.port == port && self.told == Told::No
    }
}

impl Gone {
    /// A member is gone since `now`.
    pub fn add(&mut self, now: Time, member: Member, heard: Heard, told: Told) {
        self.remove(&member);
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(Entry {
            since: now,
            member,
            heard,
            told,
        });
    }

    /// Whether the source has not heard that a member below a port is gone.
    pub fn is_untold(&self, member: &Member, port: PortId) -> bool {
        self.0
            .iter()
            .any(|it| it.is_untold_below(port) && it.member == *member)
    }

    /// The members below a port of which the source has not heard that they are gone: it hears of it now.
    pub fn tell_below(&mut self, port: PortId) -> Vec<Member> {
        let untold = self.0.iter_mut().filter(|it| it.is_untold_below(port));
        let tell = |it: &mut Entry| {
            it.told = Told::Yes;
            it.member.clone()
        };
        untold.map(tell).collect()
    }

    /// The member is there again, or has left.
    pub fn remove(&mut self, member: &Member) {
        self.0.retain(|gone| gone.member != *member);
    }

    /// Forgets those of more than a minute ago.
    pub fn expire(&mut self, now: Time) {
        while self.0.front().is_some_and(|it| !is_listed(now, it.since)) {
            self.0.pop_front();
        }
    }

    /// The members at `now`, the one that is gone longest first.
    pub fn iter(&self, now: Time) -> impl Iterator<Item = (&Member, &Heard)> {
        let listed = self.0.iter().filter(move |it| is_listed(now, it.since));
        listed.map(|it| (&it.member, &it.heard))
    }
}

fn is_listed(now: Time, since: Time) -> bool {
    now.since(since) <= LISTED
}

#[cfg(test)]
mod tests {
    use layercast_core::NodeId;

    use super::*;

    #[test]
    fn the_last_256_are_listed_for_a_minute() {
        let member = |id| Member {
            name: "m".into(),
            id: NodeId(id),
        };
        let heard = Heard {
            port: PortId(1),
            first: Time::ZERO,
            last: Time::ZERO,
            report: None,
        };
        let mut gone = Gone::default();
        let at = |s| Time::ZERO + Span::from_secs(s);
        (0..300).for_each(|id| gone.add(at(1), member(id), heard, Told::No));
        gone.add(at(30), member(299), heard, Told::No);
        gone.remove(&member(100));
        let ids = |gone: &Gone, s| {
            let listed = gone.iter(at(s));
            listed.map(|it| it.0.id.0).collect::<Vec<_>>()
        };
        assert_eq!((ids(&gone, 30).len(), ids(&gone, 30)[0]), (255, 44));
        assert_eq!(ids(&gone, 62), [299]);
        gone.expire(at(61));
        assert_eq!(gone.0.len(), 255);
        gone.expire(at(62));
        assert_eq!(gone.0.len(), 1);
        gone.expire(at(91));
        assert!(gone.0.is_empty());
    }
}
