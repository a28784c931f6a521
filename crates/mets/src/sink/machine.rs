mod end_to_end;
mod keys;
mod manage;
mod negotiating;
mod upkeep;

use std::collections::VecDeque;

use layercast_core::{
    Contract, FlowId, FlowSpec, LeaveReason, Level, Machine, Observer, QosPolicy, Quality, Serial,
    Span, Status, Stream, Subject, Time, TraceEvent, earliest,
};
use layercast_protect::WallClock;
use layercast_qos::{Alarms, Cause};
use layercast_wire::{
    ADAPTER_VCI, AdapterMsg, FlowEnd, FlowInfo, LinkPdu, Member, Refusal, Resource, Signal,
};

use super::adapter::SinkAdapter;
use super::early::Early;
use super::explain::Explanation;
use super::receiver::Receiver;
use crate::control::ControlSocket;
use keys::SinkKeys;
use manage::own_spec;
use negotiating::Negotiated;
use upkeep::push_level;

use super::{
    LevelReason, SinkConfig, SinkEvent, SinkInput, SinkProtection, SinkStats, SinkTransmit,
};

/// How long a join may go unanswered before it is sent again.
const JOIN_RETRY: Span = Span::from_secs(5);

/// The receiving end of a flow: joins it, puts frames together, plays them at their deadline, and
/// keeps the receiver's end of the QoS adapter (specs/mets.md 2.7, 2.8, 2.11).
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    phases: Stream,
    /// The highest level that the user wants, whatever was agreed.
    user_level: Level,
    session: Session,
    flow: Option<FlowInfo>,
    /// What this member gets of it: all, or what its own specification leaves.
    own: Option<FlowSpec>,
    /// Why it left, if it did.
    left: Option<LeaveReason>,
    active: Option<Active>,
    /// What came before the answer to the join.
    early: Early,
    /// Another flow of that name, advertised while this one was joined.
    other: Option<FlowInfo>,
    congested: bool,
    /// What it answered to the offered contract, and what was agreed.
    negotiated: Option<Negotiated>,
    /// What was reported to a QoS monitor, and what the monitor says.
    watched: Option<(FlowId, Contract)>,
    quality: Option<Quality>,
    next_report: Option<Time>,
    control: ControlSocket,
    /// Of a flow whose media are sealed.
    keys: Option<SinkKeys>,
    signals: VecDeque<Signal>,
    pdus: VecDeque<LinkPdu>,
    events: VecDeque<SinkEvent>,
    stats: SinkStats,
}

/// What exists from the first JoinAck on.
#[derive(Debug)]
struct Active {
    receiver: Receiver,
    adapter: SinkAdapter,
    alarms: Alarms,
}

impl Active {
    /// The level that is granted; of alternative layers, a link that others listen to may carry a higher one than is wanted.
    fn granted(&self) -> Level {
        let (granted, wanted) = (self.adapter.level(), self.adapter.want());
        match self.receiver.chooses() {
            true => granted.min(wanted),
            false => granted,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    /// For an advertisement of the flow.
    Waiting,
    /// For an answer; asked again then.
    Joining {
        retry: Time,
    },
    Joined,
    /// For an advertisement or the user to try again.
    Refused,
    /// The source ended the flow; what came is played.
    Closing {
        undelivered: u32,
        last: Option<FlowEnd>,
        /// Whether the channel was up to the end.
        connected: bool,
    },
    Closed,
}

impl Sink {
    /// A sink that waits for the advertisement of its flow.
    pub fn new(config: SinkConfig) -> Sink {
        Sink {
            phases: Stream::new(config.seed, &format!("{}/{}/era", config.node, config.flow)),
            user_level: config.level,
            config,
            session: Session::Waiting,
            flow: None,
            own: None,
            left: None,
            active: None,
            early: Early::default(),
            other: None,
            congested: false,
            negotiated: None,
            watched: None,
            quality: None,
            next_report: None,
            control: ControlSocket::default(),
            keys: None,
            signals: VecDeque::new(),
            pdus: VecDeque::new(),
            events: VecDeque::new(),
            stats: SinkStats::default(),
        }
    }

    /// The level granted.
    pub fn level(&self) -> Level {
        self.active
            .as_ref()
            .map_or(Level::BASE, |active| active.adapter.level())
    }

    /// The level asked for: less than the user wants after congestion.
    pub fn level_asked(&self) -> Level {
        self.active
            .as_ref()
            .map_or(self.level_wanted(), |active| active.adapter.want())
    }

    /// Why that is less than the user wants, by the last decision that lowered it.
    pub fn asks_less_because(&self) -> Option<Cause> {
        self.active.as_ref()?.adapter.cause()
    }

    /// For how long after the least delay seen a frame may arrive and still be played; `None` before the first one.
    pub fn spare(&self) -> Option<Span> {
        self.active.as_ref()?.receiver.spare()
    }

    /// What became of frame `seq` of the running count, and what held it and for how long; `None` if it is not one of the last
    /// frames.
    pub fn explain(&self, seq: Serial) -> Option<Explanation> {
        self.active.as_ref()?.receiver.explanations.of(seq)
    }

    /// The explanations from number `from` on, oldest first, and the number of the next one. The last thousand are kept.
    pub fn explanations(&self, from: u64) -> (impl Iterator<Item = &Explanation>, u64) {
        let active = self.active.as_ref();
        let (new, next) = active
            .map(|it| it.receiver.explanations.since(from))
            .unzip();
        (new.into_iter().flatten(), next.unwrap_or(from))
    }

    /// Whether the base layer is reserved and the session channel up.
    pub fn joined(&self) -> bool {
        self.session == Session::Joined
    }

    /// Whether it waits for the flow: that is not joined, and neither over nor left.
    pub fn awaits_flow(&self) -> bool {
        matches!(
            self.session,
            Session::Waiting | Session::Joining { .. } | Session::Refused
        )
    }

    /// Whether the sink joins a flow that is asked for when it is advertised, rather than keep the one of that name that it has.
    pub fn takes(&self, flow: &FlowInfo) -> bool {
        let has = match self.session {
            Session::Joining { .. } | Session::Joined => self.flow.as_ref(),
            _ => None,
        };
        has.is_none_or(|has| has.id == flow.id)
    }

    /// The flow that it joins when this one is withdrawn.
    pub fn next_after(&self, flow: FlowId) -> Option<&FlowInfo> {
        let ours = self.flow.as_ref().is_some_and(|ours| ours.id == flow);
        self.other.as_ref().filter(|_| ours)
    }

    /// When the last packet of the flow came.
    pub fn heard(&self) -> Option<Time> {
        self.active.as_ref()?.receiver.heard()
    }

    /// What was received so far.
    pub fn stats(&self) -> SinkStats {
        let control = &self.stats;
        let mut stats = match &self.active {
            Some(active) => active.receiver.stats(),
            None => SinkStats::default(),
        };
        (stats.res, stats.adapt) = (control.res, control.adapt);
        (stats.adapt_stale, stats.joins) = (control.adapt_stale, control.joins);
        stats.merged_signals = control.merged_signals;
        stats.dropped.unknown += control.dropped.unknown;
        stats.dropped.malformed += control.dropped.malformed;
        stats.dropped.forged += control.dropped.forged;
        if matches!(self.session, Session::Closing { .. } | Session::Closed) {
            // Nothing more is expected.
            stats.silence = None;
        }
        stats
    }

    /// A packet had the congestion mark, to which this end does not react: the sending end has seen the queue itself.
    pub fn note_mark(&mut self) {
        if let Some(active) = &mut self.active {
            active.receiver.note_mark();
        }
    }

    /// What the wall clock of the host shows from now on: for the dates of proofs.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        if let Some(protection) = &mut self.config.protection {
            protection.clock = clock;
        }
    }

    /// What it shows and expects from the next join on.
    pub fn set_protection(&mut self, protection: SinkProtection) {
        self.config.protection = Some(protection);
    }

    /// The user's answer to [`SinkEvent::MayRaise`]: the next clean era may ask for one level more.
    pub fn allow_raise(&mut self) {
        if let Some(active) = &mut self.active {
            active.adapter.allow_raise();
        }
    }

    /// What counts for the next life of the flow: whether its source shares the clock of this host, and the
    /// policy that goes with it, if that is not the user's own.
    pub fn prepare_life(&mut self, synchronised: bool, policy: Option<QosPolicy>) {
        self.config.synchronised = synchronised;
        if let Some(policy) = policy {
            self.config.policy = policy;
        }
    }

    /// This host did not run the sink from `since` until `now`: what arrived in between is handed to it from now on.
    pub fn stopped(&mut self, since: Time, now: Time) {
        if let Some(active) = &mut self.active {
            active.receiver.on_stop(since, now);
        }
    }

    fn member(&self) -> Member {
        Member {
            name: self.config.node.clone(),
            id: self.config.id,
        }
    }

    fn join(&mut self, now: Time) {
        if self.flow.is_none() {
            return;
        }
        self.stats.joins += 1;
        self.session = Session::Joining {
            retry: now.saturating_add(JOIN_RETRY),
        };
        self.ask_to_join(now, self.active.is_some());
    }

    /// Asks for the flow; `again` if it is joined: with a new proof, or another answer to the offered contract.
    fn ask_to_join(&mut self, now: Time, again: bool) {
        let Some((flow, epoch)) = self.flow.as_ref().map(|flow| (flow.id, flow.epoch)) else {
            return;
        };
        let proof = self.proof_to_join(now);
        self.signals.push_back(Signal::Join {
            flow,
            epoch,
            member: self.member(),
            level: self.level_wanted(),
            proof,
            again,
            answer: self.answer(),
        });
    }

    fn on_signal<O: Observer>(&mut self, now: Time, signal: Signal, obs: &mut O) {
        self.take_signal(now, signal, obs);
        self.tell_monitor(now, obs);
    }

    fn take_signal<O: Observer>(&mut self, now: Time, signal: Signal, obs: &mut O) {
        let ours = |id| self.flow.as_ref().is_some_and(|flow| flow.id == id);
        match signal {
            // A flow of another source has the same name: it counts as little as one of another name.
            Signal::Advertise { flow } if self.config.is_asked_for(&flow) => {
                let changed = self.active.is_some()
                    && self.flow.as_ref().is_some_and(|known| flow.succeeds(known));
                if changed {
                    self.renegotiated(now, (*flow).clone(), None);
                }
                self.on_advertise(now, *flow, obs);
            }
            Signal::Advertise { .. } => {}
            Signal::JoinAck {
                flow, vci, agreed, ..
            } if ours(flow) => {
                self.on_agreed(now, agreed);
                self.on_join_ack(now, vci, obs);
            }
            Signal::Filtered { flow, filter, .. } if ours(flow) => self.on_filtered(filter),
            Signal::JoinNak { flow, refusal } if ours(flow) => {
                if matches!(self.session, Session::Joining { .. }) {
                    self.session = Session::Refused;
                    self.drop_early();
                    self.events.push_back(SinkEvent::Refused(refusal));
                }
            }
            Signal::Close {
                flow,
                undelivered,
                last,
            } if ours(flow) => match self.session {
                Session::Closing { .. } | Session::Closed => {}
                _ => {
                    self.session = Session::Closing {
                        undelivered,
                        last,
                        connected: self.session == Session::Joined,
                    };
                    self.finish_if_played(now, obs);
                }
            },
            Signal::Withdraw { flow, reason } if ours(flow) => {
                if matches!(self.session, Session::Joining { .. } | Session::Joined) {
                    self.events.push_back(SinkEvent::Released { reason });
                }
                self.on_disconnect();
                if let Some(other) = self.other.take() {
                    self.on_advertise(now, other, obs);
                }
            }
            Signal::Withdraw { flow, .. }
                if self.other.as_ref().is_some_and(|it| it.id == flow) =>
            {
                self.other = None;
            }
            Signal::ToMember { flow, member, body } if ours(flow) => {
                self.on_downward(now, member, body);
            }
            Signal::Clock { flow, clock } if ours(flow) => {
                if let Some(active) = &mut self.active
                    && !active.receiver.hear_clock(clock)
                {
                    self.stats.dropped.unknown += 1;
                }
            }
            Signal::Change { flow, change } if ours(flow.id) => self.on_change(&flow, change),
            Signal::ChangeEnd { flow, from, .. } if ours(flow.id) => {
                self.renegotiated(now, *flow, from);
            }
            _ => self.stats.dropped.unknown += 1,
        }
    }

    fn on_advertise<O: Observer>(&mut self, now: Time, flow: FlowInfo, obs: &mut O) {
        let known = self.flow.as_ref();
        match self.session {
            Session::Waiting | Session::Refused => {}
            // The source was restarted, and no node below noticed its absence.
            Session::Joining { .. } | Session::Joined
                if known.is_some_and(|known| flow.is_other_life(known)) =>
            {
                self.on_disconnect();
            }
            Session::Joining { .. } | Session::Joined => {
                let is_joined = self.session == Session::Joined;
                match known {
                    Some(known) if known.id != flow.id => self.other = Some(flow),
                    Some(known) if is_joined && known.path_bps != flow.path_bps => {
                        self.follow_line(now, flow.path_bps);
                    }
                    _ => {}
                }
                return;
            }
            Session::Closing { .. } | Session::Closed => return,
        }
        if !self.config.registered {
            self.flow = Some(flow);
            return;
        }
        let known = self.flow.as_ref();
        let replaced = known.is_some_and(|known| !known.is_same(&flow));
        if replaced {
            // A source that was started again has keys of its own.
            self.keys = None;
        }
        let checked = self.check_offer(&flow).and_then(|own| {
            let negotiated = self.negotiate(&flow, &own)?;
            Ok((own, negotiated))
        });
        let (own, negotiated) = match checked {
            Ok(checked) => checked,
            Err(refusal) => {
                self.decline(now, &flow, &refusal);
                self.session = Session::Refused;
                self.events.push_back(SinkEvent::Refused(refusal));
                return;
            }
        };
        if replaced {
            self.begin_life(now, &flow, &own, obs);
        }
        self.negotiated = negotiated;
        self.own = Some(own);
        self.flow = Some(flow);
        self.join(now);
    }

    /// Makes ready for another life of the flow, or another flow of that name, as of a source without a lasting identity
    /// that was started again: what came of the one before is still played, and counts continue.
    fn begin_life<O: Observer>(&mut self, now: Time, flow: &FlowInfo, own: &FlowSpec, obs: &mut O) {
        let Some(active) = &mut self.active else {
            return;
        };
        active.receiver.begin_life(&self.config, flow, own);
        let from = active.adapter.begin_life(now, &self.config, flow, own);
        let alarms = self.config.alarms(own);
        active.alarms.replace(now, alarms, &active.receiver.monitor);
        self.set_level(now, from, LevelReason::Restarted, obs);
    }

    /// What this member would get of a flow, or why it cannot have it.
    fn check_offer(&self, flow: &FlowInfo) -> Result<FlowSpec, Refusal> {
        let refusal = |resource, needed, available| Refusal {
            node: self.config.node.clone(),
            resource,
            needed,
            available,
            measured: None,
        };
        self.config.takes(&flow.spec)?;
        let wish = self.config.spec.as_ref();
        own_spec(&self.config.node, flow, wish).map_err(|status| match status {
            Status::Admit(refusal) => refusal,
            _ => refusal(Resource::Policy, 0, 0),
        })
    }

    fn on_join_ack<O: Observer>(&mut self, now: Time, vci: u16, obs: &mut O) {
        let (Session::Joining { .. }, Some(flow), Some(own)) =
            (self.session, &self.flow, &self.own)
        else {
            return;
        };
        self.session = Session::Joined;
        let id = flow.id;
        match &mut self.active {
            Some(active) => {
                active.adapter.on_rejoin(now);
                active.adapter.ask_at_once(now, &self.config);
                active.receiver.on_rejoin();
                active.receiver.vci = vci;
            }
            None => {
                let mut receiver = Receiver::new(now, &self.config, flow, own);
                receiver.vci = vci;
                let adapter = SinkAdapter::new(now, &self.config, flow, own, &mut self.phases);
                self.active = Some(Active {
                    receiver,
                    adapter,
                    alarms: Alarms::new(now, self.config.alarms(own)),
                });
                self.next_report = Some(now.saturating_add(self.report_period()));
            }
        }
        self.events.push_back(SinkEvent::Joined {
            flow: Box::new(flow.clone()),
        });
        obs.on(now, self.subject(), || TraceEvent::State {
            flow: id,
            what: "session",
            from: "joining",
            to: "joined",
        });
        self.tell_monitor(now, obs);
        self.tell_agreed(now);
        self.control.reopen();
        self.flush_control(now);
        self.ask_for_key(now, true);
        self.take_early(obs);
    }

    fn on_disconnect(&mut self) {
        match self.session {
            Session::Closing { .. } | Session::Closed | Session::Waiting => {}
            _ => {
                self.session = Session::Waiting;
                self.drop_early();
                self.events.push_back(SinkEvent::Disconnected);
            }
        }
    }

    fn depart(&mut self) {
        if let (Some(flow), Session::Joining { .. } | Session::Joined) = (&self.flow, self.session)
        {
            let leave = Signal::Leave {
                flow: flow.id,
                member: self.member(),
            };
            self.signals.push_back(leave);
        }
        self.close(0);
    }

    /// Closes the flow once everything that came was played.
    fn finish_if_played<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let Session::Closing {
            undelivered,
            last,
            connected,
        } = self.session
        else {
            return;
        };
        if let Some(active) = &mut self.active {
            if !active.receiver.is_empty() {
                return;
            }
            if let Some(end) = last {
                let level = active.adapter.level();
                active.receiver.finish(now, end, level, connected, obs);
                self.events.append(&mut active.receiver.events);
                self.events.push_back(SinkEvent::End { last: end.seq });
            }
        }
        self.close(undelivered);
        self.tell_monitor(now, obs);
    }

    fn close(&mut self, undelivered: u32) {
        if self.session == Session::Closed {
            return;
        }
        self.session = Session::Closed;
        if let Some(active) = &mut self.active {
            let from = active.adapter.drop_level();
            push_level(&mut self.events, from, Level::BASE, LevelReason::Closed);
        }
        self.pdus.clear();
        self.drop_early();
        self.events.push_back(SinkEvent::Closed { undelivered });
    }

    fn on_pdu<O: Observer>(&mut self, now: Time, pdu: LinkPdu, obs: &mut O) {
        if let Some(flow) = self.flow.as_ref().filter(|_| self.awaits_answer()) {
            let kept = self.early.keep(now, flow, pdu);
            self.stats.dropped.unknown += u64::from(!kept);
            return;
        }
        if self.take_pdu(now, pdu, obs) {
            self.ask_for_key(now, false);
            self.after_media(now, obs);
        }
    }

    /// Whether media can be taken only once the join is answered: there is nothing to put them in, or that is
    /// still of another life of the flow.
    fn awaits_answer(&self) -> bool {
        let active = self.active.as_ref();
        matches!(self.session, Session::Joining { .. })
            && active.is_none_or(|active| active.receiver.is_starting())
    }

    /// Takes what came before the answer, as of when it came: its delay is that of the way.
    fn take_early<O: Observer>(&mut self, obs: &mut O) {
        while let Some((at, pdu)) = self.early.pop() {
            self.take_pdu(at, pdu, obs);
        }
    }

    fn drop_early(&mut self) {
        self.stats.dropped.unknown += self.early.clear();
    }

    /// `false` if nothing is joined that could take it.
    fn take_pdu<O: Observer>(&mut self, now: Time, pdu: LinkPdu, obs: &mut O) -> bool {
        let Some(active) = self
            .active
            .as_mut()
            .filter(|_| self.session != Session::Closed)
        else {
            self.stats.dropped.unknown += 1;
            return false;
        };
        let level = active.granted();
        match pdu {
            LinkPdu::Mets(packet) => active.receiver.on_packet(now, packet, level, obs),
            LinkPdu::Adapter(message) => self.on_adapter(now, message, obs),
            LinkPdu::Cell(cell) if cell.vci == ADAPTER_VCI => match AdapterMsg::from_cell(&cell) {
                Ok(message) => self.on_adapter(now, message, obs),
                Err(_) => self.stats.dropped.malformed += 1,
            },
            LinkPdu::Cell(cell) if cell.vci == active.receiver.vci => {
                active.receiver.on_cell(now, &cell, level, obs);
            }
            LinkPdu::Cell(_) => self.stats.dropped.unknown += 1,
        }
        true
    }

    /// Plays what is due and moves its events to the queue of the sink.
    fn after_media<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(active) = &mut self.active {
            active.receiver.play(now, obs);
            self.events.append(&mut active.receiver.events);
        }
        self.finish_if_played(now, obs);
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.config.node,
            machine: "sink",
        }
    }
}

impl Machine for Sink {
    type Input = SinkInput;
    type Transmit = SinkTransmit;
    type Event = SinkEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: SinkInput, obs: &mut O) {
        match input {
            SinkInput::Pdu(pdu) => self.on_pdu(now, pdu, obs),
            _ if self.session == Session::Closed => {}
            SinkInput::Signal(signal) => self.on_signal(now, signal, obs),
            // The neighbour advertises its flows by itself.
            SinkInput::LinkUp => {}
            SinkInput::LinkDown => self.on_disconnect(),
            SinkInput::Rejoin if self.session == Session::Refused => {
                if let Some(flow) = self.flow.clone() {
                    self.on_advertise(now, flow, obs);
                }
            }
            SinkInput::Rejoin => {}
            SinkInput::Leave => {
                if let Some(active) = &mut self.active {
                    active.receiver.settle();
                    self.events.append(&mut active.receiver.events);
                }
                self.leave(LeaveReason::User);
            }
        }
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if self.session == Session::Closed {
            return;
        }
        if let Session::Joining { retry } = self.session
            && now >= retry
        {
            self.join(now);
        }
        self.after_media(now, obs);
        if self.session == Session::Closed {
            return;
        }
        if self.control.on_timeout(now) {
            self.flush_control(now);
        }
        self.ask_for_key(now, false);
        self.renew_proof(now);
        if let Some(active) = &mut self.active {
            let era = active.adapter.era_due(now);
            if let Some(from) = active.adapter.fell_silent(now) {
                self.events.push_back(SinkEvent::AdapterSilent);
                self.set_level(now, from, LevelReason::Silent, obs);
            }
            if era {
                self.on_era(now, obs);
            }
        }
        if self.session == Session::Closed {
            return;
        }
        self.on_alarms(now, obs);
        if self.next_report.is_some_and(|next| now >= next) {
            self.next_report = Some(now.saturating_add(self.report_period()));
            self.on_report(now);
        }
    }

    fn poll_transmit<O: Observer>(&mut self, _: Time, _: &mut O) -> Option<SinkTransmit> {
        if let Some(signal) = self.signals.pop_front() {
            return Some(SinkTransmit::Signal(signal));
        }
        self.pdus.pop_front().map(SinkTransmit::Pdu)
    }

    fn poll_event(&mut self) -> Option<SinkEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        if self.session == Session::Closed {
            return None;
        }
        let retry = match self.session {
            Session::Joining { retry } => Some(retry),
            _ => None,
        };
        let retry = earliest(retry, self.control.next_timeout());
        let retry = earliest(retry, self.next_request());
        let retry = earliest(retry, self.next_renewal());
        let media = self.active.as_ref().and_then(|active| {
            let control = earliest(active.adapter.next_timeout(), active.alarms.next_timeout());
            earliest(active.receiver.next_timeout(), control)
        });
        earliest(earliest(retry, self.next_report), media)
    }
}
