//! Aggregators: the machines that speak for the receivers below their nodes.

use layercast_core::Time;
use layercast_multicast::{Aggregator, AggregatorConfig, Outcome, Peer};
use layercast_wire::multicast::MemberId;
use serde::Serialize;

use super::item::Cargo;
use super::report::Outcomes;
use super::tree::{NONE, Nodes};
use super::world::{Due, Simulation};

/// Peers and members from here on are aggregators.
pub(super) const FIRST: u32 = 1 << 31;

/// An aggregator at a node.
#[derive(Debug)]
pub(super) struct Speaker {
    pub machine: Aggregator,
    pub node: u32,
    /// When it is to be woken.
    pub wake: Time,
}

/// What came to aggregators.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct AggregatorCount {
    /// Aggregators.
    pub aggregators: u32,
    /// Packets of receivers that reached an aggregator.
    pub packets: u64,
    /// Reports accepted.
    pub reports: u64,
    /// Reports sent.
    pub sent: u64,
    /// Polls sent.
    pub polls: u64,
}

/// Of each node, the aggregator that the receivers there report to.
pub(super) fn above(tree: &Nodes) -> Vec<u32> {
    let mut above = vec![NONE; tree.nodes.len()];
    for (at, node) in tree.nodes.iter().enumerate() {
        if node.parent != NONE {
            above[at] = above[node.parent as usize];
        }
        if node.aggregator != NONE {
            above[at] = node.aggregator;
        }
    }
    above
}

/// The aggregators, each with as many receivers as it is to speak for.
pub(super) fn speakers(tree: &Nodes, above: &[u32]) -> Vec<Speaker> {
    let mut receivers = vec![0; tree.aggregators.len()];
    for &node in &tree.members {
        if let Some(count) = receivers.get_mut(above[node as usize] as usize) {
            *count += 1;
        }
    }
    let speakers = (FIRST..).zip(tree.aggregators.iter().zip(receivers));
    speakers
        .map(|(number, (&node, receivers))| Speaker {
            machine: Aggregator::new(AggregatorConfig::new(MemberId(number.into()), receivers)),
            node,
            wake: Time::MAX,
        })
        .collect()
}

impl Simulation<'_> {
    /// An aggregator hears a packet.
    pub(super) fn tell_speaker(&mut self, speaker: u32, item: u32) {
        let it = self.items.get(item);
        let Cargo::Plain(packet) = &it.cargo else {
            return;
        };
        let from = it.from;
        if (1..FIRST).contains(&from.0) {
            self.counts.aggregators.packets += 1;
        }
        let machine = &mut self.speakers[speaker as usize].machine;
        machine.handle(self.now, from, packet, &mut self.obs);
        self.after_speaker(speaker);
    }

    pub(super) fn wake_speaker(&mut self, speaker: u32) {
        let it = &mut self.speakers[speaker as usize];
        if it.wake == self.now {
            it.wake = Time::MAX;
            it.machine.on_timeout(self.now, &mut self.obs);
            self.after_speaker(speaker);
        }
    }

    /// What it has to send, and when it is to be woken.
    fn after_speaker(&mut self, speaker: u32) {
        let from = Peer(FIRST + speaker);
        let node = self.speakers[speaker as usize].node;
        while let Some(transmit) = self.speakers[speaker as usize]
            .machine
            .poll_transmit(self.now, &mut self.obs)
        {
            let item = self.item(from, transmit);
            match self.node_of(self.items.get(item).to) {
                Some(0) => self.send_up(node, item),
                _ => {
                    self.pass_along(item, node);
                    self.items.done(item);
                }
            }
        }
        let it = &mut self.speakers[speaker as usize];
        if let Some(due) = it.machine.poll_timeout()
            && due < it.wake
        {
            it.wake = due.max(self.now + super::ends::AGAIN);
            let wake = Due::WakeSpeaker { speaker };
            self.calendar.add(it.wake, wake);
        }
    }

    /// What aggregators counted.
    pub(super) fn aggregator_count(&self) -> AggregatorCount {
        let mut count = self.counts.aggregators;
        count.aggregators = self.speakers.len() as u32;
        for speaker in &self.speakers {
            let stats = speaker.machine.stats();
            count.reports += stats.reports;
            count.sent += stats.sent;
            count.polls += stats.polls;
        }
        count
    }

    /// What became of each receiver, by the sender's word and, where it speaks with aggregators only, by theirs.
    pub(super) fn outcomes(&self) -> (Outcomes, Vec<&'static str>) {
        let mut outcomes = Outcomes {
            complete: self.counts.complete,
            ..Outcomes::default()
        };
        let mut told = vec!["never"; self.members.len()];
        let speakers = self.speakers.iter();
        let below = speakers.flat_map(|speaker| speaker.machine.deliveries());
        let own = self.sender.deliveries();
        for delivery in own.chain(below) {
            let Some(told) = told.get_mut(delivery.member.0 as usize) else {
                continue;
            };
            *told = match delivery.outcome {
                Outcome::Delivered => "delivered",
                Outcome::Failed(_) => "failed",
                Outcome::NeverConnected => "never",
                Outcome::Pending => "pending",
            };
        }
        for name in &told {
            *match *name {
                "delivered" => &mut outcomes.delivered,
                "failed" => &mut outcomes.failed,
                "pending" => &mut outcomes.pending,
                _ => &mut outcomes.never,
            } += 1;
        }
        (outcomes, told)
    }
}
