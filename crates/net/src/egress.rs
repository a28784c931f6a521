use std::net::{IpAddr, SocketAddr};

use bytes::{Buf, Bytes};
use layercast_core::{CELL_SIZE, Machine, Observer, Rate, Span, Time, earliest};
use layercast_link::{Framed, Link, LinkConfig, LinkInput, LinkRepair, LinkRepairStats, LinkStats};
use layercast_protect::{LINK_OVERHEAD, LinkKey, LinkSealer};
use layercast_repair::{CONTENT_HEAD, Head, HeadError};
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

/// The way out of a node to one address: impairments, datagrams of cells, protection, batches.
pub(crate) struct Egress {
    name: String,
    rate: Option<Rate>,
    link: Option<Link<Framed>>,
    /// On a link whose losses are repaired.
    repair: Option<Box<LinkRepair<Bytes>>>,
    /// What former connections repaired.
    repaired: Option<LinkRepairStats>,
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
            name: name.into(),
            rate,
            link: wanted.then(|| Link::new(link, seed, name)),
            repair: None,
            repaired: None,
            cells: Vec::new(),
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
        match &mut self.repair {
            Some(repair) => {
                repair.send(now, start, pdu, obs);
                self.drain_sent(now, obs);
            }
            None => self.put(now, start.saturating_add(tx), Framed::bare(pdu), obs),
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

    /// Takes a datagram of the neighbour; gives its content, unless it has none or the content arrived before. Feedback
    /// leaves at the next [poll](Self::poll) alone, when all datagrams that wait in the socket have been read: feedback in the
    /// midst of them would report those behind it as overdue after a stall of this host.
    ///
    /// # Errors
    /// The datagram does not begin with the header of a link with repair.
    pub fn receive<O: Observer>(
        &mut self,
        now: Time,
        mut datagram: Bytes,
        obs: &mut O,
    ) -> Result<Option<Bytes>, HeadError> {
        let Some(repair) = &mut self.repair else {
            return Ok(Some(datagram));
        };
        let (head, content) = Head::decode(&datagram)?;
        let len = datagram.len() - content.len();
        datagram.advance(len);
        Ok(repair.receive(now, head, datagram, obs))
    }

    fn drain_sent<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some((item, ready)) = self
            .repair
            .as_mut()
            .and_then(|repair| repair.poll_sent(now, obs))
        {
            self.put(now, ready, item, obs);
        }
    }

    fn drain_repair<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some((item, ready)) = self
            .repair
            .as_mut()
            .and_then(|repair| repair.poll(now, obs))
        {
            self.put(now, ready, item, obs);
        }
    }

    /// What was received at `now` may have come later: the host was held up while it read.
    pub fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(repair) = &mut self.repair {
            repair.read_late(now, obs);
        }
    }

    /// What was sent at `since` or later was handed to the kernel by `now`: the host was held up in between.
    pub fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        if let Some(repair) = &mut self.repair {
            repair.held_up(since, now, obs);
        }
    }

    /// Repairs losses from now on, with the sessions of our datagrams and of theirs; or does not.
    pub fn repair(&mut self, sessions: Option<(u16, u16)>) {
        self.repaired = self.repair_stats();
        let repair = |sessions| Box::new(LinkRepair::new(&self.name, sessions, self.rate));
        self.repair = sessions.map(repair);
    }

    /// What was repaired, if anything could be.
    pub fn repair_stats(&self) -> Option<LinkRepairStats> {
        let mut stats = match &self.repair {
            Some(repair) => repair.stats(),
            None => return self.repaired,
        };
        if let Some(former) = &self.repaired {
            stats.add(former);
        }
        Some(stats)
    }

    /// For how long a datagram that leaves late is of use at the neighbour, if it has said so.
    pub fn budget(&self) -> Option<Span> {
        self.repair.as_ref()?.budget()
    }

    /// For how long after its usual arrival a datagram of the neighbour is of use.
    pub fn set_budget<O: Observer>(&mut self, now: Time, budget: Option<Span>, obs: &mut O) {
        if let Some(repair) = &mut self.repair {
            repair.set_budget(now, budget, obs);
        }
    }

    /// The line has another rate.
    pub fn set_rate<O: Observer>(&mut self, now: Time, rate: Option<Rate>, obs: &mut O) {
        self.rate = rate;
        if let Some(repair) = &mut self.repair {
            repair.set_rate(now, rate, obs);
            self.drain_sent(now, obs);
        }
    }

    /// Whether everything that was to be sent has left, and no loss of it can still be repaired.
    pub fn is_idle(&self, now: Time) -> bool {
        let link = self.link.as_ref().and_then(Link::next_timeout);
        let repair = self.repair.as_ref();
        link.is_none() && repair.is_none_or(|repair| repair.is_idle(now))
    }

    /// Takes what has arrived at the far end of the link by `now`.
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(sealer) = &mut self.sealer {
            sealer.on_timeout(now);
        }
        if let Some(repair) = &mut self.repair {
            repair.on_timeout(now, obs);
            self.drain_repair(now, obs);
        }
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
        if let Some(pdu @ LinkPdu::Cell(_)) = &item.pdu {
            pdu.encode_into(&mut self.cells);
            if self.cells.len() >= DATAGRAM_CELLS * CELL_SIZE {
                self.end_cells();
            }
        } else {
            let congestion = item.pdu.as_ref().is_some_and(LinkPdu::congestion);
            let write = |out: &mut Vec<u8>| item.encode_into(out);
            self.push(item.encoded_len(), congestion, write);
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
        let repair = self
            .repair
            .as_ref()
            .and_then(|repair| repair.next_timeout());
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
