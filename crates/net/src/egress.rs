use std::net::SocketAddr;

use layercast_core::{CELL_SIZE, Machine, Observer, Rate, Time};
use layercast_switch::{Link, LinkConfig, LinkInput, LinkStats};
use layercast_wire::{DATAGRAM_CELLS, LinkPdu};

use crate::outbox::Outbox;
use crate::udp::Udp;

/// The way out of a node to one address: impairments, datagrams of cells, batches.
pub(crate) struct Egress {
    link: Option<Link<LinkPdu>>,
    cells: Vec<u8>,
    outbox: Option<Outbox>,
    refused: u64,
}

impl Egress {
    /// The way to `to`, or to nowhere for a neighbour that takes no datagrams.
    pub fn new(
        to: Option<SocketAddr>,
        rate: Option<Rate>,
        link: LinkConfig,
        seed: u64,
        name: &str,
    ) -> Egress {
        // Without rate and impairments nothing is ever under way.
        let wanted = rate.is_some() || link != LinkConfig::default();
        Egress {
            link: wanted.then(|| Link::new(link, seed, name)),
            cells: Vec::new(),
            outbox: to.map(Outbox::new),
            refused: 0,
        }
    }

    /// Puts a PDU on the link whose last bit leaves at `ready`.
    pub fn send<O: Observer>(&mut self, now: Time, ready: Time, pdu: LinkPdu, obs: &mut O) {
        match &mut self.link {
            Some(link) => {
                link.handle(now, LinkInput { ready, item: pdu }, obs);
                self.poll(now, obs);
            }
            None => self.encode(&pdu),
        }
    }

    /// Takes what has arrived at the far end of the link by `now`.
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(pdu) = self
            .link
            .as_mut()
            .and_then(|link| link.poll_transmit(now, obs))
        {
            self.encode(&pdu);
        }
    }

    fn encode(&mut self, pdu: &LinkPdu) {
        let Some(outbox) = &mut self.outbox else {
            self.refused += 1;
            return;
        };
        if let LinkPdu::Cell(_) = pdu {
            pdu.encode_into(&mut self.cells);
            if self.cells.len() >= DATAGRAM_CELLS * CELL_SIZE {
                self.end_cells();
            }
        } else {
            let write = |out: &mut Vec<u8>| pdu.encode_into(out);
            let taken = outbox.push(pdu.encoded_len(), pdu.congestion(), write);
            self.refused += u64::from(!taken);
        }
    }

    /// Closes the datagram of cells that is being filled. Cells carry their congestion bits
    /// themselves.
    fn end_cells(&mut self) {
        if let Some(outbox) = &mut self.outbox {
            let cells = &self.cells;
            let taken = outbox.push(cells.len(), false, |out| out.extend_from_slice(cells));
            self.refused += u64::from(!taken);
        }
        self.cells.clear();
    }

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        if !self.cells.is_empty() {
            self.end_cells();
        }
        udp.count_send_failed(std::mem::take(&mut self.refused));
        match &mut self.outbox {
            Some(outbox) => udp.flush(outbox),
            None => true,
        }
    }

    /// When something arrives at the far end of the link next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.link.as_ref().and_then(Link::next_timeout)
    }

    /// What the link did, if it is one with rate or impairments.
    pub fn link_stats(&self) -> Option<LinkStats> {
        self.link.as_ref().map(Link::stats)
    }

    /// Sends to another address from now on.
    pub fn redirect(&mut self, to: Option<SocketAddr>) {
        if self.outbox.as_ref().map(Outbox::to) != to {
            self.outbox = to.map(Outbox::new);
        }
    }
}
