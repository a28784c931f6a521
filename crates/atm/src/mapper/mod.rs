//! The policy engine of an ATM-attached router: which circuit a packet uses, and when circuits are requested, cached
//! and released (specs/insane-simulator.md 2.6, specs/insane-study.md 2.6).
//!
//! ```text
//!  packet, no circuit --> Waiting --Ready--> Bound --idle--> Cached --unused--> released
//!                          |    ^             ^ |  (svc)       |  (svccache)
//!                no answer |    | refused:    | +--> released  |
//!                          v    | best effort +----------------+ the next conversation
//!                       Abandoned                                with the same tag
//! ```

mod api;
mod chain;
#[cfg(test)]
mod tests;

pub use api::{
    DiscardCause, MapperConfig, MapperEvent, MapperInput, MapperOutput, MapperStats, PacketRef,
    VcEvent,
};

use std::collections::{BTreeMap, VecDeque};

use layercast_core::{Machine, Observer, RequestId, Span, Time};
use rustc_hash::FxHashMap;

use self::chain::{Circuit, Circuits, PoolKey, Stage};
use crate::policy::{ConversationType, FlowKey, Service, VcManagement};
use crate::{AtmAddress, RejectCause, Tag, Vcid};

/// The policy engine as a machine; see the module documentation.
///
/// A stage of a circuit ends when it has lasted *longer* than its time: a packet at exactly that time still finds its
/// circuit, whatever the order of packet and timer in the driver.
#[derive(Debug)]
pub struct FlowMapper {
    config: MapperConfig,
    circuits: Circuits,
    /// Waiting and bound circuits by conversation.
    keys: FxHashMap<u128, u32>,
    /// Waiting and abandoned circuits by request.
    requests: FxHashMap<RequestId, u32>,
    /// Bound and cached circuits by number.
    numbers: Vec<Option<u32>>,
    /// Cached circuits, the most recently used last.
    pool: BTreeMap<PoolKey, VecDeque<u32>>,
    next_request: RequestId,
    /// The second of the clock of the last request, and the number of requests in it.
    second: (u64, u64),
    outputs: VecDeque<MapperOutput>,
    events: VecDeque<MapperEvent>,
    stats: MapperStats,
}

impl FlowMapper {
    /// Creates a mapper without circuits.
    pub fn new(config: MapperConfig) -> FlowMapper {
        FlowMapper {
            config,
            circuits: Circuits::new(),
            keys: FxHashMap::default(),
            requests: FxHashMap::default(),
            numbers: Vec::new(),
            pool: BTreeMap::new(),
            next_request: RequestId(0),
            second: (0, 0),
            outputs: VecDeque::new(),
            events: VecDeque::new(),
            stats: MapperStats::default(),
        }
    }

    /// Counters and current state.
    pub fn stats(&self) -> MapperStats {
        MapperStats {
            bound: self.circuits.count(Stage::Bound),
            cached: self.circuits.count(Stage::Cached),
            waiting: self.circuits.count(Stage::Waiting),
            ..self.stats
        }
    }

    fn packet(&mut self, now: Time, key: FlowKey, hop: AtmAddress, packet: PacketRef) {
        self.stats.packets += 1;
        let mux_key = key.packed(self.config.policy.mux(), hop);
        let Some(&slot) = self.keys.get(&mux_key) else {
            return self.open(now, mux_key, key, hop, packet);
        };
        let circuit = self.circuits.get_mut(slot);
        if circuit.stage == Stage::Bound {
            let vc = circuit.vc;
            self.circuits.touch(slot, now);
            self.send(vc, packet);
        } else {
            self.enqueue(slot, key.classify(), packet);
        }
    }

    /// Handles the first packet of a conversation without a circuit.
    fn open(&mut self, now: Time, mux_key: u128, key: FlowKey, hop: AtmAddress, packet: PacketRef) {
        if self.keys.len() >= self.config.conversations {
            self.stats.conversations_full += 1;
            return self.discard(packet, DiscardCause::Conversations);
        }
        self.stats.ambiguous += u64::from(key.is_ambiguous());
        let kind = key.classify();
        let policy = self.config.policy;
        let tag = policy.qos().map_or(Tag::Any, |_| Tag::Type(kind));
        let pool = PoolKey { hop, tag };
        if let Some(slot) = self.take(pool) {
            self.stats.hits += 1;
            self.tell(kind, VcEvent::Hit);
            self.bind(now, slot, mux_key, kind);
            return self.send(self.circuits.get(slot).vc, packet);
        }
        self.stats.misses += 1;
        self.tell(kind, VcEvent::Miss);
        let slot = self.circuits.insert(Circuit::new(now, mux_key, kind, pool));
        self.keys.insert(mux_key, slot);
        self.enqueue(slot, kind, packet);
        self.request(now, slot, policy.service(kind));
    }

    fn request(&mut self, now: Time, slot: u32, service: Service) {
        while self.requests.contains_key(&self.next_request) {
            self.next_request.0 = self.next_request.0.wrapping_add(1);
        }
        let request = self.next_request;
        self.next_request.0 = self.next_request.0.wrapping_add(1);
        self.requests.insert(request, slot);
        self.circuits.enter(slot, Stage::Waiting, now);
        let circuit = self.circuits.get_mut(slot);
        (circuit.request, circuit.asked) = (request, now);
        circuit.elevated = service != Service::BestEffort;
        let (kind, PoolKey { hop, tag }) = (circuit.kind, circuit.pool);
        self.stats.elevated += u64::from(circuit.elevated);
        self.count_request(now);
        self.tell(kind, VcEvent::Requested);
        self.outputs.push_back(MapperOutput::Setup {
            request,
            to: hop,
            service,
            tag,
        });
    }

    fn count_request(&mut self, now: Time) {
        let second = now.as_us() / 1_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        self.stats.requests += 1;
        self.stats.peak_requests = self.stats.peak_requests.max(self.second.1);
    }

    fn ready(&mut self, now: Time, request: RequestId, vc: Vcid) {
        if self.numbered(vc).is_some() {
            self.stats.strays += 1;
            return;
        }
        let Some(slot) = self.requests.remove(&request) else {
            // No packet waits for it any more, but the network holds it for this router.
            self.stats.strays += 1;
            self.outputs.push_back(MapperOutput::Release { vc });
            return;
        };
        let index = usize::from(vc.0);
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, None);
        }
        self.numbers[index] = Some(slot);
        let circuit = self.circuits.get_mut(slot);
        circuit.vc = vc;
        let (kind, key, stage) = (circuit.kind, circuit.key, circuit.stage);
        let took = now.since(circuit.asked);
        self.stats.ready += 1;
        self.tell(kind, VcEvent::Ready { took });
        if stage == Stage::Waiting {
            self.bind(now, slot, key, kind);
            self.flush(slot, slot);
        } else {
            self.idle(slot, now);
        }
        let circuits = self.circuits.count(Stage::Bound) + self.circuits.count(Stage::Cached);
        self.stats.max_circuits = self.stats.max_circuits.max(circuits);
    }

    fn rejected(&mut self, now: Time, request: RequestId, cause: RejectCause) {
        let Some(slot) = self.requests.remove(&request) else {
            self.stats.strays += 1;
            return;
        };
        let circuit = self.circuits.get_mut(slot);
        if circuit.stage == Stage::Abandoned {
            return self.circuits.remove(slot);
        }
        let (kind, key) = (circuit.kind, circuit.key);
        if !circuit.elevated {
            self.stats.failures += 1;
            self.tell(kind, VcEvent::Failed { cause });
            self.keys.remove(&key);
            self.stats.rejected += self.drop_queue(slot, DiscardCause::Rejected(cause));
            return self.circuits.remove(slot);
        }
        circuit.pool.tag = Tag::Fallback;
        let pool = circuit.pool;
        self.stats.fallbacks += 1;
        self.tell(kind, VcEvent::Fallback { cause });
        if let Some(idle) = self.take(pool) {
            self.stats.fallback_hits += 1;
            self.bind(now, idle, key, kind);
            self.flush(slot, idle);
            self.circuits.remove(slot);
        } else {
            self.request(now, slot, Service::BestEffort);
        }
    }

    fn lost(&mut self, vc: Vcid) {
        let Some(slot) = self.numbered(vc) else {
            self.stats.strays += 1;
            return;
        };
        let Circuit {
            stage, key, pool, ..
        } = *self.circuits.get(slot);
        if stage == Stage::Bound {
            self.keys.remove(&key);
        } else if let Some(idle) = self.pool.get_mut(&pool) {
            idle.retain(|&other| other != slot);
        }
        self.stats.lost += 1;
        self.close(slot, VcEvent::Lost);
    }

    /// Ends every stage that has lasted longer than its time.
    fn expire(&mut self, now: Time) {
        for stage in Stage::ALL {
            let Some(time) = self.time(stage) else {
                continue;
            };
            while let Some(slot) = self.circuits.oldest(stage) {
                let end = self.circuits.get(slot).since.saturating_add(time);
                if end >= now {
                    break;
                }
                self.ended(slot, end);
            }
        }
    }

    /// Duration of a stage; `None` if unlimited.
    fn time(&self, stage: Stage) -> Option<Span> {
        match stage {
            Stage::Waiting | Stage::Abandoned => Some(self.config.patience),
            _ if self.config.policy.management() == VcManagement::Pvc => None,
            Stage::Bound => Some(self.config.idle),
            Stage::Cached => Some(self.config.cached),
        }
    }

    /// Handles the end of a stage at `end`, possibly in the past.
    fn ended(&mut self, slot: u32, end: Time) {
        let Circuit {
            stage,
            key,
            kind,
            pool,
            request,
            ..
        } = *self.circuits.get(slot);
        match stage {
            Stage::Waiting => {
                self.keys.remove(&key);
                self.stats.unanswered += 1;
                let cause = RejectCause::Timeout;
                self.tell(kind, VcEvent::Failed { cause });
                self.stats.no_answer += self.drop_queue(slot, DiscardCause::NoAnswer);
                self.circuits.enter(slot, Stage::Abandoned, end);
            }
            Stage::Abandoned => {
                self.requests.remove(&request);
                self.circuits.remove(slot);
            }
            Stage::Bound => {
                self.keys.remove(&key);
                self.idle(slot, end);
            }
            Stage::Cached => {
                // It is the circuit with this tag that has been idle for the longest time.
                self.pool.get_mut(&pool).map(VecDeque::pop_front);
                self.release(slot);
            }
        }
    }

    /// Handles a circuit that is unused since `since`.
    fn idle(&mut self, slot: u32, since: Time) {
        if self.config.policy.management() == VcManagement::Svc {
            return self.release(slot);
        }
        self.circuits.enter(slot, Stage::Cached, since);
        let Circuit { kind, pool, .. } = *self.circuits.get(slot);
        self.pool.entry(pool).or_default().push_back(slot);
        self.tell(kind, VcEvent::Unbound);
    }

    /// Takes the most recently used idle circuit, so that a surplus expires.
    fn take(&mut self, pool: PoolKey) -> Option<u32> {
        self.pool.get_mut(&pool)?.pop_back()
    }

    fn bind(&mut self, now: Time, slot: u32, key: u128, kind: ConversationType) {
        self.circuits.enter(slot, Stage::Bound, now);
        let circuit = self.circuits.get_mut(slot);
        (circuit.key, circuit.kind) = (key, kind);
        self.keys.insert(key, slot);
    }

    fn release(&mut self, slot: u32) {
        let vc = self.circuits.get(slot).vc;
        self.stats.released += 1;
        self.outputs.push_back(MapperOutput::Release { vc });
        self.close(slot, VcEvent::Released);
    }

    /// Removes a circuit that had a number.
    fn close(&mut self, slot: u32, what: VcEvent) {
        let Circuit { vc, kind, .. } = *self.circuits.get(slot);
        self.numbers[usize::from(vc.0)] = None;
        self.tell(kind, what);
        self.circuits.remove(slot);
    }

    fn numbered(&self, vc: Vcid) -> Option<u32> {
        self.numbers.get(usize::from(vc.0)).copied().flatten()
    }

    fn enqueue(&mut self, slot: u32, kind: ConversationType, packet: PacketRef) {
        let queue = &mut self.circuits.get_mut(slot).queue;
        if queue.len() < self.config.pending {
            queue.push_back(packet);
            self.stats.queued += 1;
        } else {
            self.stats.pending_full[kind.index()] += 1;
            self.discard(packet, DiscardCause::PendingFull);
        }
    }

    /// Sends the packets waiting at `from` on the circuit `to`.
    fn flush(&mut self, from: u32, to: u32) {
        let vc = self.circuits.get(to).vc;
        while let Some(packet) = self.circuits.get_mut(from).queue.pop_front() {
            self.stats.queued -= 1;
            self.send(vc, packet);
        }
    }

    fn drop_queue(&mut self, slot: u32, cause: DiscardCause) -> u64 {
        let mut count = 0;
        while let Some(packet) = self.circuits.get_mut(slot).queue.pop_front() {
            count += 1;
            self.discard(packet, cause);
        }
        self.stats.queued -= count;
        count as u64
    }

    fn send(&mut self, vc: Vcid, packet: PacketRef) {
        self.stats.sent += 1;
        self.outputs.push_back(MapperOutput::Send { vc, packet });
    }

    fn discard(&mut self, packet: PacketRef, cause: DiscardCause) {
        self.outputs
            .push_back(MapperOutput::Discard { packet, cause });
    }

    fn tell(&mut self, conversation: ConversationType, what: VcEvent) {
        self.events.push_back(MapperEvent { conversation, what });
    }
}

impl Machine for FlowMapper {
    type Input = MapperInput;
    type Transmit = MapperOutput;
    type Event = MapperEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: MapperInput, _: &mut O) {
        self.expire(now);
        match input {
            MapperInput::Packet {
                key,
                next_hop,
                packet,
            } => self.packet(now, key, next_hop, packet),
            MapperInput::Ready { request, vc } => self.ready(now, request, vc),
            MapperInput::Rejected { request, cause } => self.rejected(now, request, cause),
            MapperInput::Lost { vc } => self.lost(vc),
        }
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        self.expire(now);
    }

    fn poll_transmit<O: Observer>(&mut self, _: Time, _: &mut O) -> Option<MapperOutput> {
        self.outputs.pop_front()
    }

    fn poll_event(&mut self) -> Option<MapperEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        let end = |stage| {
            let since = self.circuits.get(self.circuits.oldest(stage)?).since;
            Some(since.saturating_add(self.time(stage)?))
        };
        let first = Stage::ALL.into_iter().filter_map(end).min()?;
        Some(first.saturating_add(Span::from_ps(1)))
    }
}
