//! What works, but not as the author of a scenario may think.

use std::fmt;

use layercast_tcp::EcnMode;

use crate::internet::discipline::Discipline;
use crate::internet::network::{AtmEnd, Limit, Network, NodeIndex, Queue, Role};

/// A configuration that works, but not as its author may think.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// Packets of more cells than a circuit may queue never get through whole (specs/insane-simulator.md 7).
    PacketAboveCircuit {
        /// Cells of the largest packet.
        cells: u32,
        /// What a port queues of a circuit, or at all.
        limit: u32,
    },
    /// Segments of a full MSS do not fit into the packets of the host's own link.
    SegmentAboveMtu {
        /// The host.
        host: String,
        /// Its MSS, and 40 bytes of headers.
        packet: u32,
        /// The largest packet of its link.
        mtu: u32,
    },
    /// The average that drops all is above what the queue holds.
    RedAboveQueue {
        /// The link, such as `left->right`.
        link: String,
    },
    /// The threshold of marks is not below what the queue holds.
    MarkAboveQueue {
        /// The link, such as `left->right`.
        link: String,
    },
    /// A queue marks, but no host is ECN-capable.
    MarksNothing {
        /// The link, such as `left->right`.
        link: String,
    },
    /// Packets have a class that no queue on their path looks at.
    ClassUnread {
        /// Whose they are, such as `the flow "call"`.
        of: String,
    },
    /// L4S packets pass no queue for them.
    NoL4sQueue {
        /// Whose they are, such as `the flow "call"`.
        of: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::PacketAboveCircuit { cells, limit } => write!(
                f,
                "a packet of the largest size is {cells} cells, but an ATM port queues {limit}: bursts of \
                 such packets lose cells; raise atm.queue.per_vc_limit and port_limit, or lower atm.mtu"
            ),
            Warning::SegmentAboveMtu { host, packet, mtu } => write!(
                f,
                "full segments of {host} are packets of {packet} bytes, but its link takes {mtu}; lower \
                 the mss of its TCP"
            ),
            Warning::RedAboveQueue { link } => write!(
                f,
                "the queue of {link} is full before red.min: no packet is ever dropped early; lower \
                 red.min or raise queue"
            ),
            Warning::MarkAboveQueue { link } => write!(
                f,
                "the queue of {link} is full before it marks: no packet is ever marked; lower mark or \
                 raise queue"
            ),
            Warning::MarksNothing { link } => write!(
                f,
                "the queue of {link} marks packets of ECN-capable hosts, but no host is one; set ecn of \
                 their TCP, such as variant = \"dctcp\""
            ),
            Warning::ClassUnread { of } => write!(
                f,
                "packets of {of} have a class (dscp), but no link on their path has the discipline that looks at it; give one \
                 discipline = {{ priority = {{}} }}, or leave dscp out"
            ),
            Warning::NoL4sQueue { of } => write!(
                f,
                "the TCP of {of} has ecn = \"l4s\", but no link on its path has the queue for L4S packets; give the slowest \
                 discipline = {{ dualpi2 = {{}} }}, or the TCP ecn = \"dctcp\""
            ),
        }
    }
}

impl Network {
    /// What its author should know before it runs.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(atm) = &self.atm {
            // AAL5: a trailer of 8 bytes, 48 bytes in a cell.
            let cells = (atm.mtu + 8).div_ceil(48);
            let limit = atm.queue.per_vc_limit.min(atm.queue.port_limit);
            if limit < cells {
                warnings.push(Warning::PacketAboveCircuit { cells, limit });
            }
        }
        let links = self.links.iter();
        let on_links = links.flat_map(|link| link.ends.map(|end| (end, link.mtu)));
        let lans = self.lans.iter();
        let on_lans = lans.flat_map(|lan| lan.stations.iter().map(|&end| (end, lan.mtu)));
        let atm = self.atm.iter();
        let on_atm = atm.flat_map(|atm| {
            let ends = atm.links.iter().flat_map(|link| link.ends);
            ends.filter_map(|end| match end {
                AtmEnd::Adapter(node) => Some((node, atm.mtu)),
                AtmEnd::Switch(_) => None,
            })
        });
        // One of many hosts with the same TCP is enough.
        let mut all = on_links.chain(on_lans).chain(on_atm);
        let first = all.find_map(|(end, mtu)| {
            let node = &self.nodes[end.0 as usize];
            let Role::Host(tcp) = &node.role else {
                return None;
            };
            let packet = u32::from(tcp.mss) + 40;
            (packet > mtu).then(|| Warning::SegmentAboveMtu {
                host: node.name.clone(),
                packet,
                mtu,
            })
        });
        warnings.extend(first);
        let name = |node: NodeIndex| &self.nodes[node.0 as usize].name;
        let has_ecn = self
            .nodes
            .iter()
            .any(|node| matches!(&node.role, Role::Host(tcp) if tcp.ecn != EcnMode::Off));
        let segments = self.nodes.iter().filter_map(|node| match &node.role {
            Role::Host(tcp) => Some(u32::from(tcp.mss) + 40),
            Role::Router => None,
        });
        let longest = segments.max().unwrap_or(u32::MAX);
        // One of many links is enough.
        let mut is_told = false;
        for link in &self.links {
            for (way, from, to) in [
                (0, link.ends[0], link.ends[1]),
                (1, link.ends[1], link.ends[0]),
            ] {
                let queue = link.ways[way].queue;
                if let (Some(red), Limit::Packets(packets)) = (queue.red, queue.limit)
                    && red.min >= f64::from(packets)
                {
                    let link = format!("{}->{}", name(from), name(to));
                    warnings.push(Warning::RedAboveQueue { link });
                }
                if is_full_before_it_marks(queue, u64::from(link.mtu.min(longest))) {
                    let link = format!("{}->{}", name(from), name(to));
                    warnings.push(Warning::MarkAboveQueue { link });
                }
                let discipline = link.disciplines[way].as_ref();
                let marks = queue.mark.is_some()
                    || queue.red.is_some_and(|red| red.ecn)
                    || discipline.is_some_and(Discipline::marks);
                if marks && !has_ecn && !is_told {
                    is_told = true;
                    let link = format!("{}->{}", name(from), name(to));
                    warnings.push(Warning::MarksNothing { link });
                }
            }
        }
        warnings.extend(self.unread_class());
        warnings.extend(self.missing_l4s_queue());
        warnings
    }
}

/// Whether packets of this length fill a queue before one of them is marked.
fn is_full_before_it_marks(queue: Queue, packet: u64) -> bool {
    match (queue.mark, queue.limit) {
        (Some(Limit::Packets(mark)), Limit::Packets(most)) => mark >= most,
        (Some(Limit::Bytes(mark)), Limit::Bytes(most)) => mark >= most,
        // Beside those that wait, the packet that arrives and what is left of the one in transmission take room.
        (Some(Limit::Packets(mark)), Limit::Bytes(most)) => {
            (u64::from(mark) + 2).saturating_mul(packet) >= most
        }
        // What is left of the packet in transmission counts for a mark in bytes, too.
        (Some(Limit::Bytes(mark)), Limit::Packets(most)) => {
            mark >= u64::from(most).saturating_mul(packet)
        }
        _ => false,
    }
}
