use std::net::{IpAddr, SocketAddr};

use bytes::{Buf, Bytes};
use layercast_core::{CELL_SIZE, Machine, Observer, Rate, Span, Time, earliest};
use layercast_link::{Framed, Link, LinkConfig, LinkInput, LinkStats, RepairEnd, carried};
use layercast_mets::switch::PortConfig;
use layercast_protect::{LINK_OVERHEAD, LinkKey, LinkSealer};
use layercast_repair::{
    CONTENT_HEAD, Head, HeadError, MemberId, PARITY_HEAD, PART_HEAD, Parts, split,
};
use layercast_wire::{DATAGRAM_CELLS, DATAGRAM_PAYLOAD, LinkPdu, METS_HEADER};

use crate::outbox::Outbox;
use crate::random::link_key;
use crate::udp::Udp;

/// The least MTU of IPv6 (RFC 8200, section 5), and the headers of IPv6 and UDP.
const LEAST_MTU: usize = 1_280;
const IPV6_UDP_HEADERS: usize = 40 + 8;
const _: () = assert!(
    METS_HEADER + DATAGRAM_PAYLOAD + CONTENT_HEAD + LINK_OVERHEAD + IPV6_UDP_HEADERS <= LEAST_MTU,
    "a sealed packet of the default size and its header do not fit the least MTU"
);
/// Groups have addresses of IPv4. A parity is as long as the longest of its contents and a length, evenly.
const IPV4_UDP_HEADERS: usize = 20 + 8;
const _: () = assert!(
    METS_HEADER + DATAGRAM_PAYLOAD + 2 + PARITY_HEAD + LINK_OVERHEAD + IPV4_UDP_HEADERS
        <= LEAST_MTU,
    "a sealed parity of packets of the default size does not fit where they do"
);

/// The way out of a node to one address: impairments, datagrams of cells, protection, batches.
pub(crate) struct Egress {
    link: Option<Link<Framed>>,
    /// Repairs losses, if it is on.
    pub repair: RepairEnd<Bytes>,
    cells: Vec<u8>,
    /// A datagram that leaves in parts, and those that come so.
    whole: Vec<u8>,
    parts: Parts,
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
        port: &PortConfig,
        link: LinkConfig,
        seed: u64,
        name: &str,
    ) -> Egress {
        let rate = port.rate;
        // Without rate and impairments nothing is ever under way.
        let wanted = rate.is_some() || port.estimated || link != LinkConfig::default();
        Egress {
            link: wanted.then(|| Link::new(link, seed, name)),
            repair: RepairEnd::new(name, rate),
            cells: Vec::new(),
            whole: Vec::new(),
            parts: Parts::default(),
            sealer: None,
            stale_key: false,
            outbox: to.map(Outbox::new),
            refused: 0,
        }
    }

    /// Puts a PDU on the link whose first bit leaves at `start` and the last one `tx` later.
    pub fn send<O: Observer>(
        &mut self,
        now: Time,
        (start, tx): (Time, Span),
        pdu: LinkPdu,
        obs: &mut O,
    ) {
        match self.repair.send(now, start, pdu, obs) {
            Some(pdu) => self.put(now, start.saturating_add(tx), Framed::bare(pdu), obs),
            None => self.drain_sent(now, obs),
        }
    }

    /// Puts a datagram on the link whose last bit leaves at `ready`.
    fn put<O: Observer>(&mut self, now: Time, ready: Time, item: Framed, obs: &mut O) {
        match &mut self.link {
            Some(link) => {
                link.handle(now, LinkInput { ready, item }, obs);
                self.poll_link(now, obs);
            }
            None => self.encode(&item),
        }
    }

    /// Takes a datagram of the neighbour, or of the member `from` of a group; gives its content, unless it has none or the content
    /// arrived before. It may complete more contents, which [`poll_received`](RepairEnd::poll_received) of `repair` gives. Feedback
    /// leaves at the next [poll](Self::poll) alone, when all datagrams that wait in the socket have been read: feedback in the
    /// midst of them would report those behind it as overdue after a stall of this host.
    ///
    /// # Errors
    /// The datagram does not begin with the header of a link with repair.
    pub fn receive<O: Observer>(
        &mut self,
        now: Time,
        from: MemberId,
        mut datagram: Bytes,
        obs: &mut O,
    ) -> Result<Option<Bytes>, HeadError> {
        let bare = self.repair.is_group() && !Head::begins(&datagram);
        if bare || !self.repair.is_on() {
            return Ok(Some(datagram));
        }
        let (mut head, mut content) = Head::decode(&datagram)?;
        if let Head::Part { .. } = head {
            let part = datagram.slice_ref(content);
            let Some(whole) = self.parts.take(&head, part) else {
                return Ok(None);
            };
            datagram = whole;
            (head, content) = Head::decode(&datagram)?;
        }
        let len = datagram.len() - content.len();
        datagram.advance(len);
        let content = carried(&head, datagram);
        self.repair.receive(now, from, (head, content), obs);
        Ok(self.repair.poll_received())
    }

    fn drain_sent<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some((item, ready)) = self.repair.poll_sent(now, obs) {
            self.put(now, ready, item, obs);
        }
    }

    fn drain_repair<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some((item, ready)) = self.repair.poll(now, obs) {
            self.put(now, ready, item, obs);
        }
    }

    /// The line has another rate.
    pub fn set_rate<O: Observer>(&mut self, now: Time, rate: Option<Rate>, obs: &mut O) {
        self.repair.set_rate(now, rate, obs);
        self.drain_sent(now, obs);
    }

    /// Whether everything that was to be sent has left, and no loss of it can still be repaired.
    pub fn is_idle(&self, now: Time) -> bool {
        let link = self.link.as_ref().and_then(Link::next_timeout);
        link.is_none() && self.repair.is_idle(now)
    }

    /// Takes what has arrived at the far end of the link by `now`.
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(sealer) = &mut self.sealer {
            sealer.on_timeout(now);
        }
        self.repair.on_timeout(now, obs);
        self.drain_repair(now, obs);
        self.poll_link(now, obs);
    }

    fn poll_link<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(item) = self
            .link
            .as_mut()
            .and_then(|link| link.poll_transmit(now, obs))
        {
            self.encode(&item);
        }
    }

    fn encode(&mut self, item: &Framed) {
        if let Some(pdu @ LinkPdu::Cell(_)) = item.pdu() {
            pdu.encode_into(&mut self.cells);
            if self.cells.len() >= DATAGRAM_CELLS * CELL_SIZE {
                self.end_cells();
            }
        } else {
            let congestion = item.pdu().is_some_and(LinkPdu::congestion);
            match &item.head {
                Some(head) if item.parts > 1 => self.push_parts(head.number(), congestion, item),
                _ => self.push(item.encoded_len(), congestion, |out| item.encode_into(out)),
            }
        }
    }

    /// Puts a datagram into the box whose path carries its parts only.
    fn push_parts(&mut self, number: (u16, u16), congestion: bool, item: &Framed) {
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        item.encode_into(&mut whole);
        for (head, part) in split(&whole, number, item.parts) {
            self.push(PART_HEAD + part.len(), congestion, |out| {
                head.encode_into(out);
                out.extend_from_slice(part);
            });
        }
        self.whole = whole;
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
        let repair = self.repair.next_timeout();
        let link = self.link.as_ref().and_then(Link::next_timeout);
        earliest(earliest(link, repair), key)
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
