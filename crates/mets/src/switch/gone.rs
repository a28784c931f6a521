use std::collections::VecDeque;

use layercast_core::{Span, Time};
use layercast_wire::Member;

use crate::switch::members::Heard;

/// How long a member whose session ended without a farewell is listed.
pub(crate) const LISTED: Span = Span::from_secs(60);
/// Members listed so of a flow; more of them take the places of the first.
const MOST: usize = 256;

/// The members of a flow whose sessions ended without a farewell in the last minute: a user that looks for them finds them.
#[derive(Default, Debug)]
pub(crate) struct Gone(VecDeque<(Time, Member, Heard)>);

impl Gone {
    /// A member is gone since `now`.
    pub fn add(&mut self, now: Time, member: Member, heard: Heard) {
        self.remove(&member);
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, member, heard));
    }

    /// The member is there again, or has left.
    pub fn remove(&mut self, member: &Member) {
        self.0.retain(|(_, gone, _)| gone != member);
    }

    /// Forgets those of more than a minute ago.
    pub fn expire(&mut self, now: Time) {
        while self.0.front().is_some_and(|it| !is_listed(now, it.0)) {
            self.0.pop_front();
        }
    }

    /// The members at `now`, the one that is gone longest first.
    pub fn iter(&self, now: Time) -> impl Iterator<Item = (&Member, &Heard)> {
        let listed = self.0.iter().filter(move |it| is_listed(now, it.0));
        listed.map(|(_, member, heard)| (member, heard))
    }
}

fn is_listed(now: Time, since: Time) -> bool {
    now.since(since) <= LISTED
}

#[cfg(test)]
mod tests {
    use layercast_core::{NodeId, PortId};

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
        (0..300).for_each(|id| gone.add(at(1), member(id), heard));
        gone.add(at(30), member(299), heard);
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
