//! The receivers of flows of XTP to many.

use std::collections::BTreeMap;

use layercast_core::Time;
use layercast_xtp::XtpConfig;

use crate::internet::medium::Medium;
use crate::internet::network::{NodeIndex, Receiver};
use crate::internet::node::xtp::XtpHosts;
use crate::internet::report::ReceiverReport;

/// The receivers of a flow.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Member>,
    /// The places of hosts among the members.
    places: BTreeMap<u32, usize>,
}

/// A receiver.
#[derive(Debug)]
pub(crate) struct Member {
    receiver: Receiver,
    name: String,
    host: u32,
    /// Its host accepts packets to the group.
    pub listens: bool,
    pub joined: Option<Time>,
    /// The first byte it gets.
    pub first: u64,
    pub bytes: u64,
    pub completed: Option<Time>,
    /// Why it does not get everything.
    pub failed: Option<String>,
}

impl Group {
    /// `receivers` with their names and hosts.
    pub fn new(receivers: impl Iterator<Item = (Receiver, String, u32)>) -> Group {
        let members: Vec<Member> = receivers
            .map(|(receiver, name, host)| Member {
                receiver,
                name,
                host,
                listens: false,
                joined: None,
                first: 0,
                bytes: 0,
                completed: None,
                failed: None,
            })
            .collect();
        let places = members.iter().enumerate();
        Group {
            places: places.map(|(n, member)| (member.host, n)).collect(),
            members,
        }
    }

    /// The receiver on a host.
    pub fn at(&mut self, host: u32) -> Option<&mut Member> {
        self.members.get_mut(*self.places.get(&host)?)
    }

    /// The next receivers of the packets: those that are to be members by then and are not.
    fn take_in(&mut self, now: Time) -> Vec<(u32, NodeIndex, bool)> {
        let due = |it: &&mut Member| !it.listens && it.receiver.join.is_none_or(|at| at <= now);
        let new = self.members.iter_mut().filter(due);
        new.map(|member| {
            member.listens = true;
            let late = member.receiver.join.is_some();
            (member.host, member.receiver.node, late)
        })
        .collect()
    }

    /// When the next receiver asks to be let in.
    fn next_join(&self) -> Option<Time> {
        let waiting = self.members.iter().filter(|it| !it.listens);
        waiting.filter_map(|it| it.receiver.join).min()
    }

    /// Those that are to be there by now get what is sent to the group of flow `n`; gives when the next ones do.
    pub fn let_in(
        &mut self,
        n: u32,
        sender: u32,
        config: &XtpConfig,
        xtp: &mut XtpHosts,
        medium: &mut Medium,
    ) -> Option<Time> {
        let new = self.take_in(medium.engine.now);
        for &(_, node, _) in &new {
            if !medium.attach_to_group(n, node) {
                medium.drops.no_route += 1;
            }
        }
        let next = self.next_join();
        for (host, _, late) in new {
            match late {
                true => xtp.join(n, (sender, host), config, medium),
                false => xtp.listen(n, host, config),
            }
        }
        next
    }

    /// Whether all have everything.
    pub fn is_complete(&self) -> bool {
        self.members.iter().all(|it| it.completed.is_some())
    }

    /// Forgets what was received until now.
    pub fn restart(&mut self) {
        for member in &mut self.members {
            member.bytes = 0;
        }
    }

    /// What each receiver got between two instants.
    pub fn report(&self, (since, until): (Time, Time)) -> Vec<ReceiverReport> {
        let members = self.members.iter().map(|member| {
            let from = member.joined.map(|at| at.max(since));
            let to = member.completed.unwrap_or(until);
            let seconds = from.map_or(0.0, |from| to.since(from).as_secs_f64());
            ReceiverReport {
                name: member.name.clone(),
                joined: member.joined.map(Time::as_secs_f64),
                first_byte: member.joined.map(|_| member.first),
                bytes: member.bytes,
                goodput_bps: match seconds > 0.0 {
                    true => member.bytes as f64 * 8.0 / seconds,
                    false => 0.0,
                },
                completed: member.completed.map(Time::as_secs_f64),
                failed: member.failed.clone(),
            }
        });
        members.collect()
    }
}
