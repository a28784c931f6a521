use std::collections::BTreeMap;
use std::iter;

use layercast_core::{
    AdaptMode, CellRate, FlowId, FlowSpec, Level, LevelSet, Newest, NodeId, PortId, Serial, Time,
};
use layercast_qos::{Grant, LevelPair, Merge};
use layercast_wire::{Carriage, FlowInfo, Member, Opaque, Signal};

use crate::switch::change::Change;
use crate::switch::declined::Declined;
use crate::switch::fast_start::{FastStart, Recent};
use crate::switch::filter::FilterPoint;
use crate::switch::gone::Gone;
use crate::switch::members::{Joined, Members};
use crate::switch::passes::Passes;
use crate::switch::selector::{Gate, Selector};
use crate::switch::ways::Ways;
use layercast_link::ADAPTER_LASTS;
use layercast_link::FrameFate;

/// Most origins whose RES a branch remembers: the members of one multicast link.
pub(crate) const MAX_ORIGINS: usize = 256;

/// A shaped rate may exceed the grant by one part in this number.
const TOLERANCE: u32 = 32;

/// What a branch, or all of them together, ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wish {
    pub pair: LevelPair,
    /// Of a flow of alternative layers, the levels wanted; else none.
    pub levels: LevelSet,
    /// Cells/s above the base layer; of a flow of whole layers, those of `pair.max()`.
    pub rate: CellRate,
}

/// The levels and rates that the last ADAPT of the node upstream grants; rates are above the base layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct UpstreamGrant {
    pub min: Level,
    pub max: Level,
    /// Of a flow of alternative layers, the levels that come here; else none.
    pub levels: LevelSet,
    pub rate_min: CellRate,
    pub rate_max: CellRate,
}

/// What one origin asks for on a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub origin: NodeId,
    /// Era of the origin.
    pub era: Serial,
    pub wish: Wish,
    pub hops: u8,
    pub drain: CellRate,
    pub at: Time,
}

/// Whether a branch may carry data yet (specs/mets.md 2.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// Reserved until upstream answers, at the latest then.
    Tentative { until: Time },
    /// Reserved.
    Committed,
}

/// One flow on one outgoing link.
#[derive(Debug)]
pub(crate) struct Branch {
    pub port: PortId,
    /// Circuit on the link.
    pub vci: u16,
    pub hold: Hold,
    /// What is reserved for the base layer.
    pub base: CellRate,
    /// What is reserved beyond that for a change of the flow.
    pub extra: CellRate,
    pub members: Joined,
    pub passes: Passes,
    pub requests: Vec<Request>,
    /// Share of the link, as of the last division.
    pub grant: Grant,
    pub gate: Gate,
    pub fate: FrameFate,
    /// The same of a parity that passes.
    pub parity_fate: FrameFate,
    /// A filter that its frames go through.
    pub filter: Option<Box<FilterPoint>>,
    /// How far our own ADAPT numbers on it are ahead of those of the source, since it had a filter.
    pub era_shift: u32,
    /// Layers were taken away here: the next unit tells the receivers so (specs/mets.md 2.11).
    pub mark_next: bool,
    /// When the last RES or join came.
    pub heard: Time,
    /// Of a receiver that came between two GOP starts.
    pub fast_start: Option<FastStart>,
}

/// How the flow stands with the node upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Upstream {
    Idle,
    Joining { since: Time },
    Joined,
}

/// The final signals of the source, held back until the data before them has left.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ending {
    pub at: Time,
    /// The `Close`, as it came.
    pub close: Option<Signal>,
    pub withdraw: Option<String>,
    pub announced: bool,
}

/// A flow and its branches at this node.
#[derive(Debug)]
pub(crate) struct Flow {
    pub info: FlowInfo,
    pub upstream: PortId,
    /// The ways over other neighbours.
    pub others: Ways,
    /// Flows that were heard of earlier have lower numbers.
    pub order: u64,
    pub link: Upstream,
    /// Circuit on which it comes in.
    pub vci_in: Option<u16>,
    /// In whose name we joined upstream.
    pub joined_as: Option<Member>,
    /// With which proof.
    pub joined_with: Option<Opaque>,
    /// What it is carried in; a local flow takes that of its first branch.
    pub carriage: Option<Carriage>,
    pub selector: Selector,
    pub branches: Vec<Branch>,
    /// The running GOP.
    pub recent: Recent,
    /// Eras of the ADAPTs, and when the last one came that was believed; older ones are ignored.
    pub adapted: Option<(Newest, Time)>,
    /// Its contents.
    pub upstream_grant: UpstreamGrant,
    /// Era of the last ADAPT that was passed on: what we say ourselves must not be older.
    pub forwarded_era: Serial,
    /// Our own era, as RES tells it upstream.
    pub era: Serial,
    pub res_pending: bool,
    /// The members seen below this node.
    pub members: Members,
    /// Those of them that are gone without a farewell.
    pub gone: Gone,
    /// Those that wanted the flow and what it does not offer.
    pub declined: Declined,
    /// The level that the lines up to a port allow, as it was advertised there; of a flow whose contract is negotiated.
    pub told: BTreeMap<PortId, Level>,
    pub ending: Option<Ending>,
    pub change: Option<Change>,
    /// The core is known to be up the tree, or the flow has none; until then joins wait.
    pub rooted: bool,
    /// Where it was first heard of, and the delay of that way: the way to the source if this node
    /// turns out to be on the way between source and core.
    pub direct: (PortId, u64),
    /// Whether it is.
    pub spine: bool,
    /// Since when the node upstream does not confirm it.
    pub lost: Option<Time>,
    /// The node upstream has advertised it, or acknowledged a join, on the channel that is up now.
    pub confirmed: bool,
}

impl Request {
    /// Whether this is the request of a later era than `other`, which came behind it.
    pub fn is_newer_than(&self, other: &Request) -> bool {
        self.era.is_after(other.era) && other.at.since(self.at) <= ADAPTER_LASTS
    }
}

impl Branch {
    pub fn is_committed(&self) -> bool {
        self.hold == Hold::Committed
    }

    /// What it takes of its link, changes under way included.
    pub fn reserved(&self) -> CellRate {
        self.base.saturating_add(self.extra)
    }

    /// The combined demand of all origins; `None` without one.
    pub fn demand(&self, how: Merge) -> Option<Wish> {
        let wishes = self.requests.iter().map(|request| request.wish);
        wishes.reduce(|a, b| a.merge(b, how))
    }
}

impl Wish {
    fn merge(self, other: Wish, how: Merge) -> Wish {
        Wish {
            pair: self.pair.merge(other.pair, how),
            levels: self.levels.union(other.levels),
            rate: self.rate.max(other.rate),
        }
    }

    /// The remainder of the demand under this grant.
    pub fn reduce_to(self, grant: Grant) -> Wish {
        Wish {
            pair: self.pair.reduce_to(grant.level),
            levels: self.levels.served(grant.level, LevelSet::ALL),
            rate: self.rate.min(grant.rate),
        }
    }
}

impl UpstreamGrant {
    /// The highest level that takes at most `granted` cells/s above the base layer, with the rate it
    /// takes. What the source shapes to a rate may be off by a little.
    pub fn fitting(&self, granted: CellRate) -> (Level, CellRate) {
        let granted = granted.saturating_add(CellRate(granted.0 / TOLERANCE));
        let given = [(self.max, self.rate_max), (self.min, self.rate_min)];
        let fits = given.into_iter().find(|&(_, rate)| rate <= granted);
        fits.unwrap_or_default()
    }
}

impl Flow {
    pub fn branch(&mut self, port: PortId) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.port == port)
    }

    pub fn is_joined(&self) -> bool {
        self.link == Upstream::Joined
    }

    /// Whether the source follows any rate, by shaping, rather than by whole layers.
    pub fn is_continuous(&self) -> bool {
        self.info.policy.adapt == AdaptMode::Continuous && !self.is_alternative()
    }

    /// Whether each level is one layer, which replaces the lower ones.
    pub fn is_alternative(&self) -> bool {
        !self.info.spec.composition.is_additive()
    }

    /// The levels that a branch gets of those that arrive, of a flow of alternative layers: the level that each of its receivers
    /// wants, as far as the link has room, or the next lower one. Until one of them comes, what the link has room for.
    pub fn served_levels(&self, branch: &Branch) -> LevelSet {
        if !self.is_alternative() {
            return LevelSet::EMPTY;
        }
        let base = LevelSet::of(Level::BASE);
        let wishes = branch.requests.iter().map(|request| request.wish.levels);
        let wanted = wishes.reduce(LevelSet::union).unwrap_or(base);
        let most = branch.grant.level.min(self.upstream_grant.max);
        let offered = wanted.served(most, self.upstream_grant.levels);
        match offered.is_empty() {
            true => wanted.served(most, LevelSet::ALL),
            false => offered,
        }
    }

    /// The level a branch gets of what the node upstream gives, and its rate above the base layer.
    pub fn served(&self, branch: &Branch) -> (Level, CellRate) {
        if let Some(point) = &branch.filter {
            let spec = &self.info.spec;
            return point.served(
                &self.upstream_grant,
                branch.grant,
                spec,
                self.is_continuous(),
            );
        }
        if self.is_continuous() {
            return self.upstream_grant.fitting(branch.grant.rate);
        }
        let levels = self.served_levels(branch);
        let level = match levels.highest() {
            Some(highest) => highest,
            None => self.upstream_grant.max.min(branch.grant.level),
        };
        (level, self.info.spec.above_base(level))
    }

    /// Its specification, and that of a change under way.
    pub fn specs(&self) -> impl Iterator<Item = &FlowSpec> {
        let change = self.change.as_ref().map(|change| &change.flow.spec);
        iter::once(&self.info.spec).chain(change)
    }

    /// The demand sent upstream: demands reduced to grants, merged over the branches.
    pub fn merged(&self, how: Merge) -> Option<Wish> {
        let branches = self.branches.iter().filter(|branch| branch.is_committed());
        let base = Wish {
            pair: LevelPair::BASE,
            levels: LevelSet::of(Level::BASE),
            rate: CellRate(0),
        };
        // Where no receiver has said what it wants, the lowest of alternative levels must come all the same.
        let silent = Some(base).filter(|_| self.is_alternative());
        branches
            .filter_map(|branch| {
                let wish = branch.demand(how).or(silent)?;
                Some(match &branch.filter {
                    None => wish.reduce_to(branch.grant),
                    Some(point) => {
                        let spec = &self.info.spec;
                        point.upstream(wish, branch.grant, spec, self.is_continuous())
                    }
                })
            })
            .reduce(|a, b| a.merge(b, how))
    }

    /// What the slowest receiving host below takes in; 0 if none says.
    pub fn drain(&self) -> CellRate {
        let branches = self.branches.iter().filter(|branch| branch.is_committed());
        let known = branches
            .flat_map(|branch| &branch.requests)
            .map(|request| request.drain)
            .filter(|drain| drain.0 > 0);
        known.min().unwrap_or_default()
    }

    /// Whether anything about it may change by time alone.
    pub fn is_busy(&self) -> bool {
        // A member is forgotten with the branch that it was heard on.
        debug_assert!(!self.branches.is_empty() || self.members.len() == 0);
        !self.branches.is_empty()
            || self.change.is_some()
            || self.ending.is_some()
            || !self.confirmed
    }
}

/// A small map from numbers to slots: a sorted array and binary search.
///
/// For the up to some thousand flows of a switch that is ten probes in one or two cache lines,
/// which no hash beats, and it has no bad case that a peer could provoke.
#[derive(Default, Debug)]
struct Index(Vec<(u32, u32)>);

impl Index {
    fn get(&self, key: u32) -> Option<usize> {
        let at = self.0.binary_search_by_key(&key, |entry| entry.0).ok()?;
        Some(self.0[at].1 as usize)
    }

    fn insert(&mut self, key: u32, slot: usize) {
        match self.0.binary_search_by_key(&key, |entry| entry.0) {
            Ok(at) => self.0[at].1 = slot as u32,
            Err(at) => self.0.insert(at, (key, slot as u32)),
        }
    }

    fn remove(&mut self, key: u32) {
        if let Ok(at) = self.0.binary_search_by_key(&key, |entry| entry.0) {
            self.0.remove(at);
        }
    }
}

/// The flows of a switch, found by flow id (datagrams) or by port and circuit (cells).
#[derive(Default, Debug)]
pub(crate) struct FlowTable {
    slots: Vec<Option<Box<Flow>>>,
    by_id: Index,
    by_circuit: Index,
    /// Flows inserted so far.
    inserted: u64,
}

fn circuit(port: PortId, vci: u16) -> u32 {
    u32::from(port.0) << 16 | u32::from(vci)
}

impl FlowTable {
    pub fn len(&self) -> usize {
        self.by_id.0.len()
    }

    pub fn slot_of(&self, id: FlowId) -> Option<usize> {
        self.by_id.get(id.0)
    }

    pub fn slot_of_circuit(&self, port: PortId, vci: u16) -> Option<usize> {
        self.by_circuit.get(circuit(port, vci))
    }

    pub fn get(&self, slot: usize) -> Option<&Flow> {
        self.slots.get(slot)?.as_deref()
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Flow> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    pub fn by_id(&mut self, id: FlowId) -> Option<&mut Flow> {
        let slot = self.slot_of(id)?;
        self.get_mut(slot)
    }

    /// Slots in use, in ascending order of flow id.
    pub fn ids(&self) -> Vec<FlowId> {
        self.by_id.0.iter().map(|entry| FlowId(entry.0)).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        let slots = self.by_id.0.iter();
        slots.filter_map(|entry| self.get(entry.1 as usize))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// The flows, the one that was heard of first first.
    pub fn by_age(&self) -> impl Iterator<Item = &Flow> {
        let mut flows: Vec<&Flow> = self.iter().collect();
        flows.sort_unstable_by_key(|flow| flow.order);
        flows.into_iter()
    }

    /// Adds a flow, as the latest one or with the `order` of the instance that it replaces.
    pub fn insert(&mut self, mut flow: Flow, order: Option<u64>) {
        let id = flow.info.id;
        flow.order = order.unwrap_or(self.inserted);
        self.inserted += 1;
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[slot] = Some(Box::new(flow));
        self.by_id.insert(id.0, slot);
    }

    pub fn remove(&mut self, id: FlowId) -> Option<Box<Flow>> {
        self.unmap(id);
        let slot = self.slot_of(id)?;
        self.by_id.remove(id.0);
        self.slots[slot].take()
    }

    /// Says on which circuit a flow comes in; `false` if another flow has it.
    pub fn map(&mut self, id: FlowId, vci: u16) -> bool {
        let Some(slot) = self.slot_of(id) else {
            return false;
        };
        let Some(upstream) = self.get(slot).map(|flow| flow.upstream) else {
            return false;
        };
        let key = circuit(upstream, vci);
        if self.by_circuit.get(key).is_some_and(|other| other != slot) {
            return false;
        }
        self.unmap(id);
        self.by_circuit.insert(key, slot);
        if let Some(flow) = self.get_mut(slot) {
            flow.vci_in = Some(vci);
        }
        true
    }

    /// Forgets the circuit on which a flow comes in.
    pub fn unmap(&mut self, id: FlowId) {
        let Some(flow) = self.by_id(id) else { return };
        if let Some(vci) = flow.vci_in.take() {
            let key = circuit(flow.upstream, vci);
            self.by_circuit.remove(key);
        }
    }
}
