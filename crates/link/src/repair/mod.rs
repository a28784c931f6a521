mod budgets;
mod end;
mod together;

use bytes::Bytes;
use layercast_core::{
    FlowId, Layer, Machine, Observer, PerLayer, Rate, Serial, Span, Time, earliest,
};
use layercast_repair::{
    Beside, Carried, Codec, GroupConfig, GroupInput, GroupRepairer, GroupRequester, Head, HopClock,
    LayerRepairs, Means, MemberConfig, MemberId, Needs, PathEstimate, PathSeen, RepairConfig,
    RepairStats, Repairer, RepairerInput, RequestStats, Requester, RequesterInput, Unit,
};
use layercast_wire::{
    Carriage, ClockReport, Flags, FrameType, LinkPdu, LinkReport, PathReport, decode_datagram,
};
use serde::{Deserialize, Serialize};

pub use budgets::{SHARE_BUDGETS, share_budgets};
pub use end::RepairEnd;
pub use together::compare_paths;

/// For how long RES and ADAPT are of use: three eras pass before a node does without them, and the next one comes in
/// an era at the latest.
pub const ADAPTER_LASTS: Span = Span::from_ms(500);

/// For how long a packet of a fast start is of use after it left: its frame plays when it arrives, and those behind it wait for
/// it.
const FAST_LASTS: Span = Span::from_ms(500);

/// One end of a link with repair.
///
/// `T` is the content of a datagram that arrives, as the driver has it.
#[derive(Debug)]
pub struct LinkRepair<T> {
    ends: Ends<T>,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each link")]
enum Ends<T> {
    /// The sending end of one direction, the receiving end of the other.
    Two(Repairer<LinkPdu>, Requester<T>),
    /// The sending end of a link to a group. What its members send is not repaired.
    Group(GroupRepairer<LinkPdu>),
    /// A member of a group.
    Member(GroupRequester<T>),
}

/// What repairs a link.
#[derive(Clone, Copy, Debug)]
pub enum RepairRole<T> {
    /// Both ends repair.
    Two {
        /// The session of the datagrams that we send.
        ours: u16,
        /// Of those that we receive.
        theirs: u16,
        /// What is done about losses of those that we send.
        means: Means,
        /// What the path to the neighbour carries is not known: the rate of the port follows from its reports.
        measures: bool,
        /// The neighbour measures the path to us: it needs frequent reports.
        prompt: bool,
        /// How contents are made of parities.
        codec: Codec<T>,
    },
    /// We send to a group, with this session.
    Group(u16),
    /// We are a member of a group.
    Member {
        /// Its session.
        session: u16,
        /// The next counter when we came.
        first: Serial,
        /// We report what we lack; if not, we use the repairs that others ask for.
        asks: bool,
        /// Seed of the times at which we report.
        seed: u64,
        /// How contents are made of parities.
        codec: Codec<T>,
    },
}

/// A datagram as it leaves: on a link with repair it has a header, and may have no content.
#[derive(Clone, PartialEq, Debug)]
pub struct Framed {
    /// The header; `None` on a link without repair.
    pub head: Option<Head>,
    /// The content; `None` in markers and feedback.
    pub content: Option<Carried<LinkPdu>>,
    /// In how many parts it leaves, since the path carries no longer ones.
    pub parts: u8,
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
            content: Some(Carried::Item(pdu)),
            parts: 1,
        }
    }

    /// The PDU in it, if there is one.
    pub fn pdu(&self) -> Option<&LinkPdu> {
        match &self.content {
            Some(Carried::Item(pdu)) => Some(pdu),
            _ => None,
        }
    }

    /// Octets that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        let content = match &self.content {
            Some(Carried::Item(pdu)) => pdu.encoded_len(),
            Some(Carried::Parity(octets)) => octets.len(),
            None => 0,
        };
        self.head.as_ref().map_or(0, Head::encoded_len) + content
    }

    /// Appends the datagram to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        if let Some(head) = &self.head {
            head.encode_into(out);
        }
        match &self.content {
            Some(Carried::Item(pdu)) => pdu.encode_into(out),
            Some(Carried::Parity(octets)) => out.extend_from_slice(octets),
            None => {}
        }
    }
}

/// The content of a datagram with this header: a parity, or something else.
pub fn carried(head: &Head, item: Bytes) -> Option<Carried<Bytes>> {
    match head {
        Head::Parity(_) => Some(Carried::Parity(item)),
        Head::Data { .. } | Head::Repair { .. } | Head::Shared { .. } => Some(Carried::Item(item)),
        Head::Marker { .. } | Head::Beacon(_) | Head::Feedback(_) | Head::Part { .. } => None,
    }
}

/// How PDUs become octets and octets PDUs.
pub fn pdu_codec() -> Codec<LinkPdu> {
    Codec {
        encode: |pdu| {
            let mut octets = Vec::with_capacity(pdu.encoded_len());
            pdu.encode_into(&mut octets);
            octets.into()
        },
        len: LinkPdu::encoded_len,
        decode: |octets| {
            let mut pdu = None;
            decode_datagram(Carriage::Datagrams, octets, false, &mut |it| pdu = Some(it)).ok()?;
            pdu
        },
    }
}

/// The same where datagrams stay octets.
pub fn octet_codec() -> Codec<Bytes> {
    Codec {
        encode: Bytes::clone,
        len: Bytes::len,
        decode: Some,
    }
}

impl<T: Clone> LinkRepair<T> {
    /// An end of the link called `name`, whose datagrams leave at `rate`.
    pub fn new(name: &str, role: RepairRole<T>, rate: Option<Rate>) -> LinkRepair<T> {
        let name = name.to_owned();
        let ends = match role {
            RepairRole::Two {
                ours,
                theirs,
                means,
                measures,
                prompt,
                codec,
            } => {
                let mut requester = Requester::new(&name, theirs, codec);
                if prompt {
                    requester = requester.prompt();
                }
                let config = RepairConfig {
                    name,
                    session: ours,
                    rate,
                    measures,
                    means,
                    codec: pdu_codec(),
                };
                Ends::Two(Repairer::new(config), requester)
            }
            RepairRole::Group(session) => Ends::Group(GroupRepairer::new(GroupConfig {
                name,
                session,
                rate,
                codec: pdu_codec(),
            })),
            RepairRole::Member {
                session,
                first,
                asks,
                seed,
                codec,
            } => Ends::Member(GroupRequester::new(MemberConfig {
                name,
                session,
                first,
                asks,
                seed,
                codec,
            })),
        };
        LinkRepair { ends }
    }

    /// Takes a PDU that leaves the queue of the port at `at`; gives it back if what this end sends is not repaired.
    pub fn send<O: Observer>(
        &mut self,
        now: Time,
        at: Time,
        pdu: LinkPdu,
        obs: &mut O,
    ) -> Option<LinkPdu> {
        let Some(unit) = unit(&pdu) else {
            debug_assert!(false, "links of cells have no repair");
            return None;
        };
        let item = pdu;
        match &mut self.ends {
            Ends::Two(repairer, _) => {
                repairer.handle(now, RepairerInput::Send { at, unit, item }, obs);
            }
            Ends::Group(group) => group.handle(now, GroupInput::Send { at, unit, item }, obs),
            Ends::Member(_) => return Some(item),
        }
        None
    }

    /// Takes a datagram with the header `head` and this content, of the member `from` where this end sends to a group.
    pub fn receive<O: Observer>(
        &mut self,
        now: Time,
        from: MemberId,
        (head, content): (Head, Option<Carried<T>>),
        obs: &mut O,
    ) {
        match (&mut self.ends, head, content) {
            (Ends::Two(repairer, _), Head::Feedback(feedback), _) => {
                repairer.handle(now, RepairerInput::Feedback(feedback), obs);
            }
            (Ends::Two(_, requester), head, Some(carried)) => {
                requester.handle(now, RequesterInput::Datagram(head, carried), obs);
            }
            (Ends::Two(_, requester), head, None) => {
                requester.handle(now, RequesterInput::Marker(head), obs);
            }
            (Ends::Group(group), Head::Feedback(feedback), _) => {
                group.handle(now, GroupInput::Feedback(from, feedback), obs);
            }
            // Members send nothing else with a header.
            (Ends::Group(_), ..) => {}
            (Ends::Member(member), head, Some(content)) => {
                member.handle(now, RequesterInput::Datagram(head, content), obs);
            }
            (Ends::Member(member), head, None) => {
                member.handle(now, RequesterInput::Marker(head), obs);
            }
        }
    }

    /// The next content that arrived, each once.
    pub fn poll_received(&mut self) -> Option<T> {
        match &mut self.ends {
            Ends::Two(_, requester) => requester.poll_event(),
            Ends::Member(member) => member.poll_event(),
            Ends::Group(_) => None,
        }
    }

    /// The next datagram to put on the link, feedback excepted, and when its last bit leaves.
    pub fn poll_sent<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<(Framed, Time)> {
        let (head, content, parts, ready) = match &mut self.ends {
            Ends::Two(repairer, _) => {
                let out = repairer.poll_transmit(now, obs)?;
                (out.head, out.item, out.parts, out.ready)
            }
            Ends::Group(group) => {
                let out = group.poll_transmit(now, obs)?;
                (out.head, out.item, out.parts, out.ready)
            }
            Ends::Member(_) => return None,
        };
        let framed = Framed {
            head: Some(head),
            content,
            parts,
        };
        Some((framed, ready))
    }

    /// The next datagram to put on the link, and when its last bit leaves. Feedback says what had arrived by `now`: the caller
    /// has handed that over.
    pub fn poll<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<(Framed, Time)> {
        let sent = self.poll_sent(now, obs);
        if sent.is_some() {
            return sent;
        }
        let feedback = match &mut self.ends {
            Ends::Two(_, requester) => requester.poll_transmit(now, obs)?,
            Ends::Member(member) => member.poll_transmit(now, obs)?,
            Ends::Group(_) => return None,
        };
        let framed = Framed {
            head: Some(Head::Feedback(feedback)),
            content: None,
            parts: 1,
        };
        Some((framed, now))
    }

    /// Runs the timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        match &mut self.ends {
            Ends::Two(repairer, requester) => {
                repairer.on_timeout(now, obs);
                requester.on_timeout(now, obs);
            }
            Ends::Group(group) => group.on_timeout(now, obs),
            Ends::Member(member) => member.on_timeout(now, obs),
        }
    }

    /// When the timers want to run.
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.ends {
            Ends::Two(repairer, requester) => {
                earliest(repairer.next_timeout(), requester.next_timeout())
            }
            Ends::Group(group) => group.next_timeout(),
            Ends::Member(member) => member.next_timeout(),
        }
    }

    /// What was received at `now` may have come later: the host was held up while it read.
    pub fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        match &mut self.ends {
            Ends::Two(_, requester) => requester.handle(now, RequesterInput::ReadLate, obs),
            Ends::Member(member) => member.handle(now, RequesterInput::ReadLate, obs),
            Ends::Group(_) => {}
        }
    }

    /// What was sent at `since` or later had left by `now`: the host was held up in between.
    pub fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        match &mut self.ends {
            Ends::Two(repairer, _) => repairer.handle(now, RepairerInput::HeldUp(since), obs),
            Ends::Group(group) => group.handle(now, GroupInput::HeldUp(since), obs),
            Ends::Member(_) => {}
        }
    }

    /// Whether nothing waits for the line, and nothing that was sent may still be repaired.
    pub fn is_idle(&self, now: Time) -> bool {
        match &self.ends {
            Ends::Two(repairer, _) => repairer.is_idle(now),
            Ends::Group(group) => group.is_idle(now),
            Ends::Member(_) => true,
        }
    }

    /// The line has another rate.
    pub fn set_rate<O: Observer>(&mut self, now: Time, rate: Option<Rate>, obs: &mut O) {
        match &mut self.ends {
            Ends::Two(repairer, _) => repairer.handle(now, RepairerInput::Rate(rate), obs),
            Ends::Group(group) => group.handle(now, GroupInput::Rate(rate), obs),
            Ends::Member(_) => {}
        }
    }

    /// For how long after its usual arrival a datagram that leaves here is of use, if the neighbour, or a member, has said so.
    pub fn budget(&self) -> Option<Span> {
        match &self.ends {
            Ends::Two(repairer, _) => repairer.budget(),
            Ends::Group(group) => group.budget(),
            Ends::Member(_) => None,
        }
    }

    /// For how long after its usual arrival a datagram that comes is of use.
    pub fn set_budget<O: Observer>(&mut self, now: Time, budget: Option<Span>, obs: &mut O) {
        match &mut self.ends {
            Ends::Two(_, requester) => {
                requester.handle(now, RequesterInput::Budget(budget), obs);
            }
            Ends::Member(member) => member.handle(now, RequesterInput::Budget(budget), obs),
            Ends::Group(_) => {}
        }
    }

    /// A member of the group comes, or comes again; gives the session of the group and its next counter. `None` if this end
    /// sends to no group.
    pub fn join<O: Observer>(
        &mut self,
        now: Time,
        member: MemberId,
        obs: &mut O,
    ) -> Option<(u16, Serial)> {
        let Ends::Group(group) = &mut self.ends else {
            return None;
        };
        group.handle(now, GroupInput::Join(member), obs);
        Some((group.session(), group.next_counter()))
    }

    /// A member of the group goes.
    pub fn leave<O: Observer>(&mut self, now: Time, member: MemberId, obs: &mut O) {
        if let Ends::Group(group) = &mut self.ends {
            group.handle(now, GroupInput::Leave(member), obs);
        }
    }

    /// Whether the neighbour estimates the path to here.
    pub fn is_measured(&self) -> bool {
        matches!(&self.ends, Ends::Two(_, requester) if requester.is_prompt())
    }

    /// Whether this end sends to a group: what its members send has no header, except feedback.
    pub fn is_group(&self) -> bool {
        matches!(self.ends, Ends::Group(_))
    }

    /// Another rate of the port, since its path carries more or less.
    pub fn poll_rate(&mut self) -> Option<Rate> {
        match &mut self.ends {
            Ends::Two(repairer, _) => repairer.poll_event(),
            Ends::Group(_) | Ends::Member(_) => None,
        }
    }

    /// What is known of the path, where the rate of the port follows from it.
    pub fn estimate(&self) -> Option<PathEstimate> {
        match &self.ends {
            Ends::Two(repairer, _) => repairer.estimate(),
            Ends::Group(_) | Ends::Member(_) => None,
        }
    }

    /// What is compared with other links of the node, where the rate of the port follows from the path.
    pub fn path_seen(&self) -> Option<PathSeen> {
        match &self.ends {
            Ends::Two(repairer, _) => repairer.path_seen(),
            Ends::Group(_) | Ends::Member(_) => None,
        }
    }

    /// What was found of other links of the node that share a line with this one.
    pub fn set_beside<O: Observer>(&mut self, now: Time, beside: Option<Beside>, obs: &mut O) {
        if let Ends::Two(repairer, _) = &mut self.ends {
            repairer.handle(now, RepairerInput::Beside(beside), obs);
        }
    }

    /// What the flows on the link need.
    pub fn set_needs<O: Observer>(&mut self, now: Time, needs: Needs, obs: &mut O) {
        if let Ends::Two(repairer, _) = &mut self.ends {
            repairer.handle(now, RepairerInput::Needs(needs), obs);
        }
    }

    /// The neighbour takes a flow no more: no loss of it is repaired. In a group other members may still take it.
    pub fn unwanted<O: Observer>(&mut self, now: Time, flow: FlowId, obs: &mut O) {
        if let Ends::Two(repairer, _) = &mut self.ends {
            repairer.handle(now, RepairerInput::Unwanted(flow), obs);
        }
    }

    /// What is known of the clock of the neighbour, or of a member of the group; `None` before anything is, and at the end that
    /// only receives.
    pub fn clock(&self, now: Time, member: MemberId) -> Option<HopClock> {
        match &self.ends {
            Ends::Two(repairer, _) => repairer.clock(now),
            Ends::Group(group) => group.clock(now, member),
            Ends::Member(_) => None,
        }
    }

    /// What it counted.
    pub fn stats(&self) -> LinkRepairStats {
        let mut stats = LinkRepairStats::default();
        match &self.ends {
            Ends::Two(repairer, requester) => {
                (stats.sending, stats.receiving) = (repairer.stats(), requester.stats());
            }
            Ends::Group(group) => stats.sending = group.stats(),
            Ends::Member(member) => stats.receiving = member.stats(),
        }
        stats
    }
}

/// What repair needs to know of a PDU; `None` of a cell.
fn unit(pdu: &LinkPdu) -> Option<Unit> {
    let octets = u32::try_from(pdu.wire_len()).unwrap_or(u32::MAX);
    Some(match pdu {
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
        LinkPdu::Cell(_) => return None,
    })
}

impl LinkRepairStats {
    /// The counters of the link to `neighbour`, as a node tells them to others.
    pub fn report(
        &self,
        neighbour: &str,
        path: Option<PathEstimate>,
        clock: Option<ClockReport>,
    ) -> LinkReport {
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
            crowded_out: 0,
            path: path.map(|path| PathReport {
                rate_bps: path.rate.map(Rate::as_bps),
                competes: path.competes,
                queue_us: path.queue.as_us(),
                cuts: path.cuts,
            }),
            clock,
        }
    }

    /// Adds the counters of a former connection of the same link.
    pub fn add(&mut self, former: &LinkRepairStats) {
        self.sending.add(&former.sending);
        self.receiving.add(&former.receiving);
    }
}
