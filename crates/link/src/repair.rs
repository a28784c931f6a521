use layercast_core::{Layer, Machine, Observer, PerLayer, Rate, Span, Time, earliest};
use layercast_repair::{
    Head, LayerRepairs, RepairConfig, RepairStats, Repairer, RepairerInput, RequestStats,
    Requester, RequesterInput, Unit,
};
use layercast_wire::{Flags, FrameType, LinkPdu, LinkReport};
use serde::{Deserialize, Serialize};

/// Between two times at which a node passes budgets on.
pub const SHARE_BUDGETS: Span = Span::from_ms(100);

/// The budgets of the links of a node, by place: for how long late datagrams are of use there.
///
/// A datagram that arrives by one link leaves by the others, so each link passes on the longest budget of all others.
#[derive(Clone, Copy, Default, Debug)]
pub struct Budgets {
    longest: Option<Span>,
    /// The first place with the longest one.
    place: usize,
    /// The longest one of all other places.
    second: Option<Span>,
}

impl Budgets {
    /// The longest budget of all places but `place`.
    pub fn of_others(&self, place: usize) -> Option<Span> {
        match place == self.place {
            true => self.second,
            false => self.longest,
        }
    }
}

impl FromIterator<Option<Span>> for Budgets {
    fn from_iter<I: IntoIterator<Item = Option<Span>>>(budgets: I) -> Budgets {
        let mut all = Budgets::default();
        for (place, budget) in budgets.into_iter().enumerate() {
            if budget > all.longest {
                all = Budgets {
                    longest: budget,
                    place,
                    second: all.longest,
                };
            } else {
                all.second = all.second.max(budget);
            }
        }
        all
    }
}

/// For how long RES and ADAPT are of use: three eras pass before a node does without them, and the next one comes in
/// an era at the latest.
pub const ADAPTER_LASTS: Span = Span::from_ms(500);

/// For how long a packet of a fast start is of use after it left: its frame plays when it arrives, and those behind it wait for
/// it.
const FAST_LASTS: Span = Span::from_ms(500);

/// One end of a link with repair: the sending end of one direction, the receiving end of the other.
///
/// `T` is the content of a datagram that arrives, as the driver has it.
#[derive(Debug)]
pub struct LinkRepair<T> {
    repairer: Repairer<LinkPdu>,
    requester: Requester<T>,
}

/// A datagram as it leaves: on a link with repair it has a header, and may have no content.
#[derive(Clone, PartialEq, Debug)]
pub struct Framed {
    /// The header; `None` on a link without repair.
    pub head: Option<Head>,
    /// The content; `None` in markers and feedback.
    pub pdu: Option<LinkPdu>,
}

/// The repair of lost datagrams on one link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LinkRepairStats {
    /// Of the datagrams to the neighbour.
    pub sending: RepairStats,
    /// Of the datagrams from the neighbour.
    pub receiving: RequestStats,
}

impl Framed {
    /// A PDU on a link without repair.
    pub fn bare(pdu: LinkPdu) -> Framed {
        Framed {
            head: None,
            pdu: Some(pdu),
        }
    }

    /// Octets that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        self.head.as_ref().map_or(0, Head::encoded_len)
            + self.pdu.as_ref().map_or(0, LinkPdu::encoded_len)
    }

    /// Appends the datagram to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        if let Some(head) = &self.head {
            head.encode_into(out);
        }
        if let Some(pdu) = &self.pdu {
            pdu.encode_into(out);
        }
    }
}

impl<T> LinkRepair<T> {
    /// A link named `name` whose sessions are `ours` for the datagrams we send, and `theirs` for those that come.
    pub fn new(name: &str, (ours, theirs): (u16, u16), rate: Option<Rate>) -> LinkRepair<T> {
        let config = RepairConfig {
            name: name.into(),
            session: ours,
            rate,
        };
        LinkRepair {
            repairer: Repairer::new(config),
            requester: Requester::new(name, theirs),
        }
    }

    /// Takes a PDU that leaves the queue of the port at `at`.
    pub fn send<O: Observer>(&mut self, now: Time, at: Time, pdu: LinkPdu, obs: &mut O) {
        let octets = u32::try_from(pdu.wire_len()).unwrap_or(u32::MAX);
        let unit = match &pdu {
            LinkPdu::Mets(packet) => {
                let header = &packet.header;
                let auxiliary = [FrameType::PROBE, FrameType::PARITY].contains(&header.kind);
                let again = header.passing.is_again();
                Unit {
                    flow: header.flow,
                    // A packet of no known layer goes to every branch, as the base layer does.
                    layer: header.kind.layer().unwrap_or(Layer::Base),
                    // What a fast start sends is late, and of use all the same.
                    stamp_us: (!auxiliary && !again).then_some(header.timestamp_us),
                    octets,
                    last: header.flags.contains(Flags::LAST),
                    repair: !auxiliary,
                    lasts: again.then_some(FAST_LASTS),
                }
            }
            LinkPdu::Adapter(message) => Unit {
                flow: message.flow,
                layer: Layer::Base,
                stamp_us: None,
                octets,
                last: true,
                repair: true,
                lasts: Some(ADAPTER_LASTS),
            },
            LinkPdu::Cell(_) => {
                debug_assert!(false, "links of cells have no repair");
                return;
            }
        };
        let input = RepairerInput::Send {
            at,
            unit,
            item: pdu,
        };
        self.repairer.handle(now, input, obs);
    }

    /// Takes a datagram with the header `head` and this content; gives the content, unless the header has none or the
    /// content arrived before.
    pub fn receive<O: Observer>(
        &mut self,
        now: Time,
        head: Head,
        content: T,
        obs: &mut O,
    ) -> Option<T> {
        match head {
            Head::Data { .. } | Head::Repair { .. } => {
                let input = RequesterInput::Datagram(head, content);
                self.requester.handle(now, input, obs);
            }
            Head::Marker { .. } => {
                self.requester
                    .handle(now, RequesterInput::Marker(head), obs);
            }
            Head::Feedback(feedback) => {
                self.repairer
                    .handle(now, RepairerInput::Feedback(feedback), obs);
            }
        }
        self.requester.poll_event()
    }

    /// The next datagram to put on the link, feedback excepted, and when its last bit leaves.
    pub fn poll_sent<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<(Framed, Time)> {
        let out = self.repairer.poll_transmit(now, obs)?;
        let framed = Framed {
            head: Some(out.head),
            pdu: out.item,
        };
        Some((framed, out.ready))
    }

    /// The next datagram to put on the link, and when its last bit leaves. Feedback says what had arrived by `now`: the caller
    /// has handed that over.
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<(Framed, Time)> {
        let sent = self.poll_sent(now, obs);
        if sent.is_some() {
            return sent;
        }
        let feedback = self.requester.poll_transmit(now, obs)?;
        let framed = Framed {
            head: Some(Head::Feedback(feedback)),
            pdu: None,
        };
        Some((framed, now))
    }

    /// Runs the timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.repairer.on_timeout(now, obs);
        self.requester.on_timeout(now, obs);
    }

    /// When the timers want to run.
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.repairer.next_timeout(), self.requester.next_timeout())
    }

    /// What was received at `now` may have come later: the host was held up while it read.
    pub fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.requester.handle(now, RequesterInput::ReadLate, obs);
    }

    /// What was sent at `since` or later had left by `now`: the host was held up in between.
    pub fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        self.repairer.handle(now, RepairerInput::HeldUp(since), obs);
    }

    /// Whether nothing waits for the line, and nothing that was sent may still be repaired.
    pub fn is_idle(&self, now: Time) -> bool {
        self.repairer.is_idle(now)
    }

    /// The line has another rate.
    pub fn set_rate<O: Observer>(&mut self, now: Time, rate: Option<Rate>, obs: &mut O) {
        self.repairer.handle(now, RepairerInput::Rate(rate), obs);
    }

    /// For how long after its usual arrival a datagram that leaves here is of use, if the neighbour has said so.
    pub fn budget(&self) -> Option<Span> {
        self.repairer.budget()
    }

    /// For how long after its usual arrival a datagram that comes is of use.
    pub fn set_budget<O: Observer>(&mut self, now: Time, budget: Option<Span>, obs: &mut O) {
        self.requester
            .handle(now, RequesterInput::Budget(budget), obs);
    }

    /// What it counted.
    pub fn stats(&self) -> LinkRepairStats {
        LinkRepairStats {
            sending: self.repairer.stats(),
            receiving: self.requester.stats(),
        }
    }
}

impl LinkRepairStats {
    /// The counters of the link to `neighbour`, as a node tells them to others.
    pub fn report(&self, neighbour: &str) -> LinkReport {
        let sent = |of: fn(&LayerRepairs) -> u64| {
            let layers = &self.sending.layers;
            PerLayer {
                base: of(&layers.base),
                e1: of(&layers.e1),
                e2: of(&layers.e2),
            }
        };
        LinkReport {
            neighbour: neighbour.into(),
            sent: sent(|layer| layer.sent),
            lost: sent(|layer| layer.lost),
            repairs: sent(|layer| layer.repairs),
            too_late: sent(|layer| layer.too_late),
            over_grant: sent(|layer| layer.over_grant),
            repaired: self.receiving.repaired,
            requested: self.receiving.requested,
            spurious: self.receiving.spurious,
            rtt_us: self.sending.rtt_us,
        }
    }

    /// Adds the counters of a former connection of the same link.
    pub fn add(&mut self, former: &LinkRepairStats) {
        self.sending.add(&former.sending);
        self.receiving.add(&former.receiving);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_passes_on_the_longest_budget_of_the_others() {
        let values = [None, Some(Span::from_ms(1)), Some(Span::from_ms(2))];
        for number in 0..81 {
            let budgets: Vec<_> = (0..4)
                .map(|at| values[number / 3_usize.pow(at) % 3])
                .collect();
            let shared: Budgets = budgets.iter().copied().collect();
            for place in 0..4 {
                let others = budgets.iter().enumerate().filter(|(at, _)| *at != place);
                let longest = others.filter_map(|(_, budget)| *budget).max();
                assert_eq!(shared.of_others(place), longest, "{place} of {budgets:?}");
            }
        }
    }
}
