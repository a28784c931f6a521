//! Contracts of hosts: how cells enter the network, and what does not.
//!
//! Between the adaptation layer and the queue of the adapter, cell by cell: first the adapter spaces the cells, then
//! the network judges each as it enters (specs/vbr-atm-lan.md 2.2, 2.7). All other flows go the short way.

use std::collections::VecDeque;

use layercast_atm::{Cell, CellFlags, FrameId, Upc, Vcid, Verdict};
use layercast_core::{Time, aal5_cells};

use super::Edge;
use super::backbone::Backbone;
use super::frames::FrameBody;
use super::spacing::{Pace, Spacing};
use crate::internet::engine::PacketId;
use crate::internet::error::NetworkError;
use crate::internet::network::{ContractTerms, Network};

use crate::internet::report::{ContractReport, MeanSpan};
use crate::kernel::SourceId;

/// A contract.
#[derive(Debug)]
pub(super) struct Contracted {
    name: String,
    spacing: Spacing,
    upc: Option<Upc>,
    limit: u32,
    waiting: VecDeque<Waiting>,
    sending: Option<Sending>,
    timer: SourceId,
    wait: MeanSpan,
    dropped: u64,
    max_waiting: u32,
}

#[derive(Debug)]
struct Waiting {
    node: u32,
    vc: Vcid,
    packet: PacketId,
    cells: u32,
    since: Time,
}

/// The packet whose cells are going.
#[derive(Debug)]
struct Sending {
    port: u32,
    vc: Vcid,
    frame: FrameId,
    index: u32,
    count: u32,
    /// When the next cell goes, and how the others follow.
    pace: Pace,
}

impl Contracted {
    fn new(name: &str, terms: &ContractTerms, timer: SourceId) -> Result<Contracted, NetworkError> {
        let fail = |problem: String| NetworkError::Value {
            part: format!("contract {name:?}"),
            problem,
        };
        terms
            .contract
            .validate()
            .map_err(|error| fail(error.to_string()))?;
        let spacing = Spacing::new(terms).map_err(|error| fail(error.to_string()))?;
        let upc = match terms.police {
            true => Some(
                Upc::with_policing(&terms.contract, terms.frames)
                    .map_err(|error| fail(error.to_string()))?,
            ),
            false => None,
        };
        Ok(Contracted {
            name: name.to_owned(),
            spacing,
            upc,
            limit: terms.queue,
            waiting: VecDeque::new(),
            sending: None,
            timer,
            wait: MeanSpan::default(),
            dropped: 0,
            max_waiting: 0,
        })
    }

    fn report(&self) -> ContractReport {
        ContractReport {
            flow: self.name.clone(),
            upc: self.upc.as_ref().map(|upc| *upc.stats()),
            dropped_full: self.dropped,
            mean_wait: self.wait.seconds(),
            max_waiting: self.max_waiting,
        }
    }
}

impl Backbone {
    /// What became of the cells of contracts.
    pub(super) fn contract_reports(&self) -> Vec<ContractReport> {
        self.contracts.iter().map(Contracted::report).collect()
    }

    /// Sends what is due of a contract; gives when more is.
    fn shape(&mut self, n: u32) -> Option<Time> {
        let now = self.fabric.now.at;
        loop {
            let contract = &mut self.contracts[n as usize];
            let sending = match &mut contract.sending {
                Some(sending) => sending,
                None => {
                    let next = contract.waiting.pop_front()?;
                    let port = self.nodes[next.node as usize].first_port;
                    let cell_time = self.fabric.ports[port as usize].cell_time;
                    let body = FrameBody::Packet(next.packet);
                    let count = next.cells;
                    let pace = contract.spacing.begin(now, next.since, count, cell_time);
                    contract.wait.add(pace.at.since(next.since));
                    let frame = self.fabric.frames.add(next.node, body, count);
                    contract.sending.insert(Sending {
                        port,
                        vc: next.vc,
                        frame,
                        index: 0,
                        count,
                        pace,
                    })
                }
            };
            if sending.pace.at > now {
                return Some(sending.pace.at);
            }
            let &mut Sending {
                port,
                vc,
                frame,
                index,
                count,
                pace,
            } = sending;
            sending.index += 1;
            let is_over = sending.index == count;
            let mut cell = Cell::of(frame, vc, index, count);
            if pace.low && !is_over {
                cell.flags = cell.flags.with(CellFlags::LOW);
            }
            let verdict = match &mut contract.upc {
                Some(upc) => upc.police(now, &mut cell),
                None => Verdict::Pass,
            };
            if is_over {
                contract.sending = None;
            } else {
                let at = contract.spacing.after(now, pace.even);
                if let Some(sending) = &mut contract.sending {
                    sending.pace.at = at;
                }
            }
            match verdict {
                Verdict::Discard(_) => self.fabric.gone(frame, 1),
                Verdict::Pass | Verdict::Tagged | Verdict::Demoted => {
                    self.put_cell(port, cell, index)
                }
            }
        }
    }
}

impl Backbone {
    /// Makes the contracts.
    pub fn add_contracts(
        &mut self,
        network: &Network,
        mut timer: impl FnMut(u32, &str) -> SourceId,
    ) -> Result<(), NetworkError> {
        for it in &network.contracts {
            let n = self.contracts.len() as u32;
            self.contracts
                .push(Contracted::new(&it.name, &it.terms, timer(n, &it.name))?);
            if self.contracted.insert((it.from, it.to), n).is_some() {
                return Err(NetworkError::Value {
                    part: format!("contract {:?}", it.name),
                    problem: "there is another between these hosts".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Keeps a packet for a circuit if there is a contract for it.
    pub(super) fn hold(
        &mut self,
        node: u32,
        vc: Vcid,
        packet: PacketId,
        edge: &mut Edge<'_>,
    ) -> bool {
        if self.contracted.is_empty() {
            return false;
        }
        let it = edge.packets.get(packet);
        let Some(&n) = self.contracted.get(&(it.src, it.dst)) else {
            return false;
        };
        let cells = aal5_cells(it.bytes as usize);
        let contract = &mut self.contracts[n as usize];
        if contract.waiting.len() >= contract.limit as usize {
            contract.dropped += 1;
            edge.packets.lose(packet);
            return true;
        }
        contract.waiting.push_back(Waiting {
            node,
            vc,
            packet,
            cells,
            since: edge.now,
        });
        contract.max_waiting = contract.max_waiting.max(contract.waiting.len() as u32);
        if contract.sending.is_none() {
            self.wake_contract(n, edge);
        }
        true
    }

    /// Cells of a contract may be due.
    pub fn wake_contract(&mut self, n: u32, edge: &mut Edge<'_>) {
        self.fabric.reach(edge.now);
        let next = self.shape(n);
        let timer = self.contracts[n as usize].timer;
        edge.kernel.schedule(timer, next);
        self.lose_packets(edge);
    }
}
