use std::net::{IpAddr, SocketAddr};

use layercast_core::{CELL_SIZE, Machine, Observer, Rate, Time, earliest};
use layercast_protect::{LINK_OVERHEAD, LinkKey, LinkSealer};
use layercast_switch::{Link, LinkConfig, LinkInput, LinkStats};
use layercast_wire::{DATAGRAM_CELLS, LinkPdu};

use crate::outbox::Outbox;
use crate::random::link_key;
use crate::udp::Udp;

/// The way out of a node to one address: impairments, datagrams of cells, protection, batches.
pub(crate) struct Egress {
    link: Option<Link<LinkPdu>>,
    cells: Vec<u8>,
    /// `None`: in the clear.
    sealer: Option<LinkSealer>,
    /// Whether a former neighbour knows the key.
    stale_key: bool,
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
            sealer: None,
            stale_key: false,
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
        if let Some(sealer) = &mut self.sealer {
            sealer.on_timeout(now);
        }
        while let Some(pdu) = self
            .link
            .as_mut()
            .and_then(|link| link.poll_transmit(now, obs))
        {
            self.encode(&pdu);
        }
    }

    fn encode(&mut self, pdu: &LinkPdu) {
        if let LinkPdu::Cell(_) = pdu {
            pdu.encode_into(&mut self.cells);
            if self.cells.len() >= DATAGRAM_CELLS * CELL_SIZE {
                self.end_cells();
            }
        } else {
            let write = |out: &mut Vec<u8>| pdu.encode_into(out);
            self.push(pdu.encoded_len(), pdu.congestion(), write);
        }
    }

    /// Puts a datagram of `len` bytes that `write` appends into the box, sealed if need be.
    fn push(&mut self, len: usize, congestion: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let taken = match (&mut self.outbox, &mut self.sealer) {
            (None, _) => false,
            (Some(outbox), None) => outbox.push(len, congestion, write),
            (Some(_), Some(sealer)) if sealer.is_exhausted() => false,
            (Some(outbox), Some(sealer)) => outbox.push(len + LINK_OVERHEAD, congestion, |out| {
                let sealed = sealer.seal(out, write);
                debug_assert_eq!(sealed, Ok(()));
            }),
        };
        self.refused += u64::from(!taken);
    }

    /// Closes the datagram of cells that is being filled. Cells carry their congestion bits
    /// themselves.
    fn end_cells(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        self.push(cells.len(), false, |out| out.extend_from_slice(&cells));
        cells.clear();
        self.cells = cells;
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
        let key = self.sealer.as_ref().and_then(LinkSealer::next_timeout);
        earliest(self.link.as_ref().and_then(Link::next_timeout), key)
    }

    /// Seals datagrams with `key` from now on, or sends them in the clear.
    pub fn protect(&mut self, key: Option<&LinkKey>) {
        self.sealer = key.map(LinkSealer::new);
        self.stale_key = false;
    }

    /// The key in use, and the one that comes into use next; `None` in the clear.
    pub fn keys(&self) -> Option<(&LinkKey, Option<&LinkKey>)> {
        let sealer = self.sealer.as_ref()?;
        Some((sealer.key(), sealer.next_key()))
    }

    /// Marks the key as known to a former neighbour.
    pub fn expire_key(&mut self) {
        self.stale_key = self.sealer.is_some();
    }

    /// Another key to hand to the neighbours, if one is due: it comes into use after a grace time.
    pub fn change_key(&mut self, now: Time) -> Option<&LinkKey> {
        let sealer = self.sealer.as_mut()?;
        let due = self.stale_key || sealer.wants_key();
        if !due || sealer.next_key().is_some() {
            return None;
        }
        self.stale_key = false;
        sealer.stage(now, link_key(sealer.key().id() + 1));
        sealer.next_key()
    }

    /// What the link did, if it is one with rate or impairments.
    pub fn link_stats(&self) -> Option<LinkStats> {
        self.link.as_ref().map(Link::stats)
    }

    /// Sends to another address from now on, and from that address of this host, if it is known.
    pub fn redirect(&mut self, to: Option<SocketAddr>, from: Option<IpAddr>) {
        let now = self.outbox.as_ref().map(|it| (it.to(), it.from()));
        if now != to.map(|to| (to, from)) {
            self.outbox = to.map(|to| {
                let mut outbox = Outbox::new(to);
                outbox.send_from(from);
                outbox
            });
        }
    }
}
