use std::collections::BTreeMap;
use std::collections::btree_map::Values;

use layercast_core::{NodeId, PortId, Span, Time};
use layercast_wire::{Member, MemberReport};

/// A member of a flow that was heard of below a port: soft state, kept alive by what it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub port: PortId,
    pub first: Time,
    pub last: Time,
    /// Its last report, and when that came.
    pub report: Option<(Time, MemberReport)>,
}

/// The first member that there can be of a name: members are ordered by name, then by number.
fn first_of(name: &str) -> Member {
    Member {
        name: name.to_owned(),
        id: NodeId(0),
    }
}

/// The members that joined on one branch, in the order in which they did; each operation is O(log n).
#[derive(Clone, Default, Debug)]
pub(crate) struct Joined {
    order: BTreeMap<u64, Member>,
    places: BTreeMap<Member, u64>,
    next: u64,
}

impl Joined {
    /// A branch with one member.
    pub fn of(member: Member) -> Joined {
        let mut joined = Joined::default();
        joined.push(member);
        joined
    }

    pub fn len(&self) -> usize {
        debug_assert_eq!(self.order.len(), self.places.len());
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn contains(&self, member: &Member) -> bool {
        self.places.contains_key(member)
    }

    /// Adds a member behind the others, unless it is there.
    pub fn push(&mut self, member: Member) {
        if !self.contains(&member) {
            self.order.insert(self.next, member.clone());
            self.places.insert(member, self.next);
            self.next += 1;
        }
    }

    pub fn remove(&mut self, member: &Member) {
        if let Some(place) = self.places.remove(member) {
            self.order.remove(&place);
        }
    }

    pub fn clear(&mut self) {
        self.order.clear();
        self.places.clear();
    }

    /// The members, the one that joined first first.
    pub fn iter(&self) -> Values<'_, u64, Member> {
        self.order.values()
    }

    /// The members of a name, whatever their numbers.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Member> {
        let named = self
            .places
            .range(first_of(name)..)
            .map(|(member, _)| member);
        named.take_while(move |member| member.name == name)
    }
}

/// The members of a flow below this node, and the way to each.
#[derive(Default, Debug)]
pub(crate) struct Members(BTreeMap<Member, Heard>);

impl Members {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Member, &Heard)> {
        self.0.iter()
    }

    pub fn get(&self, member: &Member) -> Option<&Heard> {
        self.0.get(member)
    }

    /// The members of a name, whatever their numbers.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Member, &'a Heard)> {
        let named = self.0.range(first_of(name)..);
        named.take_while(move |(member, _)| member.name == name)
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

    /// Forgets members not seen for longer than `life`, and gives them.
    pub fn expire(&mut self, now: Time, life: Span, gone: &mut Vec<(Member, Heard)>) {
        self.0.retain(|member, heard| {
            let stays = now.since(heard.last) <= life;
            if !stays {
                gone.push((member.clone(), *heard));
            }
            stays
        });
    }

    /// Forgets the members below a port, and gives them.
    pub fn take_below(&mut self, port: PortId) -> Vec<(Member, Heard)> {
        let below = |(member, heard): (&Member, &Heard)| {
            (heard.port == port).then(|| (member.clone(), *heard))
        };
        let gone: Vec<_> = self.0.iter().filter_map(below).collect();
        self.0.retain(|_, heard| heard.port != port);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, id: u32) -> Member {
        Member {
            name: name.into(),
            id: NodeId(id),
        }
    }

    #[test]
    fn members_of_a_branch_are_in_the_order_of_their_joins() {
        let mut joined = Joined::of(member("b", 1));
        for it in [
            member("a", 2),
            member("b", 0),
            member("c", 1),
            member("a", 2),
        ] {
            joined.push(it);
        }
        let names = |joined: &Joined| joined.iter().map(|it| it.name.clone()).collect::<String>();
        assert_eq!((names(&joined), joined.len()), ("babc".into(), 4));
        let named: Vec<u32> = joined.named("b").map(|it| it.id.0).collect();
        assert_eq!(named, [0, 1]);
        assert!(joined.contains(&member("b", 1)) && !joined.contains(&member("b", 2)));
        joined.remove(&member("b", 1));
        joined.push(member("b", 1));
        assert_eq!(names(&joined), "abcb");
        joined.clear();
        assert!(joined.is_empty() && joined.iter().next().is_none());
    }

    #[test]
    fn members_that_were_heard_are_found_by_their_name() {
        let mut members = Members::default();
        for (it, port) in [
            (member("a", 9), 1),
            (member("ab", 1), 2),
            (member("a", 3), 2),
        ] {
            members.hear(Time::ZERO, &it, PortId(port));
        }
        let named: Vec<_> = members
            .named("a")
            .map(|(it, heard)| (it.id.0, heard.port.0))
            .collect();
        assert_eq!(named, [(3, 2), (9, 1)]);
        assert_eq!(members.named("").count(), 0);
        assert_eq!(members.take_below(PortId(2)).len(), 2);
        assert_eq!(members.len(), 1);
        let (life, mut gone) = (Span::from_secs(3), Vec::new());
        members.expire(Time::ZERO + life, life, &mut gone);
        assert_eq!((members.len(), gone.len()), (1, 0), "it still has its life");
        members.expire(Time::ZERO + life + Span::from_us(1), life, &mut gone);
        let names: Vec<Member> = gone.into_iter().map(|it| it.0).collect();
        assert_eq!((members.len(), &names[..]), (0, &[member("a", 9)][..]));
    }
}
