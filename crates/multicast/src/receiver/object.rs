use core::ops::Range;

use super::answer::Asked;
use super::pass::Pass;
use super::*;
use crate::{Bits, Rebuilt, Verdict};
use layercast_wire::multicast::{DataFlags, Object, Symbol};
use std::collections::BTreeSet;

/// Time to wait for reordered packets after the last of a pass (specs/rmtp-large-scale.md 2.3).
const REORDERED: Span = Span::from_ms(10);
/// Parities kept beyond the missing packets of a block: some codes need a few more.
const SPARE: usize = 16;

/// State of an object.
#[derive(Clone, Default, Debug)]
pub(super) struct ObjectState {
    geometry: Option<Geometry>,
    pub digest: [u8; 32],
    pub held: Bits,
    /// Symbols present of each block; empty without a code. Zero pages take no memory until they are written.
    there: Box<[u16]>,
    /// Numbers of the parities present, of incomplete blocks, sorted.
    parities: Vec<(u32, u32)>,
    pub pass: Pass,
    /// The last pass that was reported.
    pub answered: Option<u16>,
    /// Whether the pending answer is caused by a lack of data.
    pub waited: bool,
    /// Whether the digest is being verified, or will be.
    pub verifying: bool,
    pub verified: bool,
    /// Whether it reported that nothing is missing while the digest was being verified: it does not poll again
    /// before the end of the round.
    pub told: bool,
    /// Whether the sender knows that everything is present, and whether that was reported without a poll.
    pub reported: bool,
    pub volunteered: bool,
    /// How often the digest was wrong, and whether the sender must be informed.
    wrong: u32,
    pub tell_corrupt: bool,
    /// Blocks whose packets contradicted the parities once, and whether they did again with other parities.
    doubtful: BTreeSet<u32>,
    is_wrong: bool,
}

impl ObjectState {
    pub fn geometry(&self) -> Geometry {
        self.geometry.unwrap_or(Geometry {
            size: 0,
            packet_size: 1,
            block: 1,
        })
    }

    /// Symbols that the blocks lack.
    pub fn lacking(&self) -> impl Iterator<Item = (u32, u16)> + '_ {
        let blocks = 0..self.there.len() as u32;
        let lacking = blocks.map(|block| (block, self.lacks_of(block)));
        lacking.filter(|&(_, count)| count > 0)
    }

    /// Symbols that a block lacks.
    pub fn lacks_of(&self, block: u32) -> u16 {
        let there = self.there.get(block as usize);
        there.map_or(0, |there| {
            self.geometry().packets_of(block).saturating_sub(*there)
        })
    }

    /// The range of a block's parities.
    fn parities_of(&self, block: u32) -> Range<usize> {
        let first = self.parities.partition_point(|&(at, _)| at < block);
        let end = first + self.parities[first..].partition_point(|&(at, _)| at == block);
        first..end
    }

    /// Forgets the numbers of a block's parities, so that they are accepted again.
    fn forget_parities(&mut self, block: u32) {
        let those = self.parities_of(block);
        self.parities.drain(those);
    }

    /// Resets what the sender of a former session knew.
    pub fn new_session(&mut self) {
        (self.pass, self.answered) = (Pass::default(), None);
        (self.told, self.reported, self.volunteered) = (false, false, false);
    }

    fn begin(&mut self, geometry: Geometry, held: Bits, coded: bool) {
        self.geometry = Some(geometry);
        let blocks = if coded { geometry.blocks() } else { 0 };
        self.there = vec![0; blocks as usize].into();
        if coded {
            for (from, to) in held.runs(0, held.len()) {
                for block in geometry.block_of(from)..=geometry.block_of(to - 1) {
                    let (first, end) = geometry.range(block);
                    self.there[block as usize] += (end.min(to) - first.max(from)) as u16;
                }
            }
        }
        debug_assert!(
            !coded || self.there.iter().map(|it| u64::from(*it)).sum::<u64>() == held.count(),
            "each packet that is present is a symbol of its block"
        );
        self.held = held;
        self.parities.clear();
        self.doubtful.clear();
        self.is_wrong = false;
    }
}

impl<T: Store> Receiver<T> {
    pub(super) fn begin_object(&mut self, open: &Open, object: &Object) -> Result<(), Reason> {
        let geometry = Geometry::of(object, open.packet_size).map_err(|_| Reason::Unsupported)?;
        if !self.config.limits.allow(&geometry, object.scheme != 0) {
            return Err(Reason::Unsupported);
        }
        let held = self.store.begin(object, &geometry)?;
        if held.len() != geometry.packets() {
            return Err(Reason::NoRoom);
        }
        self.object.digest = object.digest;
        self.object.begin(geometry, held, object.scheme != 0);
        Ok(())
    }

    pub(super) fn rearm(&mut self, now: Time) {
        let Some(session) = &self.session else {
            return;
        };
        let wait = Span::from_ms(session.terms.data_wait_ms.into());
        let on = wait > Span::ZERO && self.phase == Phase::Joined && !self.busy;
        self.data_wait = on.then(|| now + wait);
    }

    /// The pass continues: cancels the report of its end.
    fn data_came(&mut self, now: Time) {
        self.rearm(now);
        if core::mem::take(&mut self.object.waited) && self.answer.take().is_some() {
            self.object.answered = None;
        }
    }

    pub(super) fn on_data(&mut self, now: Time, data: &Data) {
        self.stats.data += 1;
        if let Some(session) = &mut self.session {
            session.came = session.came.wrapping_add(1);
        }
        self.count(data);
        if self.busy || self.phase != Phase::Joined {
            self.stats.duplicates += 1;
            return;
        }
        if self.stream.is_some() {
            return self.keep_of_stream(data);
        }
        let separate = data.flags.has(DataFlags::SEPARATE);
        if separate {
            self.was_busy = false;
        }
        // The content is of use in any pass.
        self.follow(data.round);
        self.data_came(now);
        let kept = match data.symbol {
            Symbol::Source(number) => self.keep_source(number, data),
            Symbol::Parity { block, index } => self.keep_parity(block, index, data),
        };
        if let Err(reason) = kept {
            self.leave(reason);
            return;
        }
        if self.object.is_wrong {
            return self.wrong(now);
        }
        self.all_there(now);
        let current = data.round == self.object.pass.number();
        if data.flags.has(DataFlags::LAST) && current && separate == self.postponed {
            self.pass_over(now, REORDERED);
        }
    }

    /// Notes the pass of a packet; `false` if it is not followed.
    pub(super) fn follow(&mut self, pass: u16) -> bool {
        let follows = self.object.pass.follow(pass);
        self.stats.doubted += u64::from(!follows);
        follows
    }

    fn keep_source(&mut self, number: u64, data: &Data) -> Result<(), Reason> {
        let geometry = self.object.geometry();
        if number >= geometry.packets() || data.payload.len() != geometry.len(number) {
            self.stats.malformed += 1;
            return Ok(());
        }
        if self.object.held.get(number) {
            self.stats.duplicates += 1;
            return Ok(());
        }
        let block = geometry.block_of(number);
        let whole = !self.object.there.is_empty() && self.object.lacks_of(block) == 0;
        if whole {
            // The code says that the block can be rebuilt, but it was not yet.
            self.stats.duplicates += 1;
        }
        self.store.packet(&geometry, number, &data.payload)?;
        self.object.held.set(number);
        self.symbol_came(block)
    }

    fn keep_parity(&mut self, block: u32, index: u32, data: &Data) -> Result<(), Reason> {
        let geometry = self.object.geometry();
        if block as usize >= self.object.there.len() {
            self.stats.malformed += 1;
            return Ok(());
        }
        let lacks = self.object.lacks_of(block);
        let place = self.object.parities.binary_search(&(block, index));
        let (Err(place), true) = (place, lacks > 0) else {
            self.stats.duplicates += 1;
            return Ok(());
        };
        let there = self.object.parities_of(block).len();
        if there >= usize::from(geometry.packets_of(block)) + SPARE {
            self.stats.overflow += 1;
            return Ok(());
        }
        self.store.parity(&geometry, block, index, &data.payload)?;
        self.object.parities.insert(place, (block, index));
        self.symbol_came(block)
    }

    /// A block has one more symbol; it is rebuilt if it has enough.
    fn symbol_came(&mut self, block: u32) -> Result<(), Reason> {
        let geometry = self.object.geometry();
        let all = geometry.packets_of(block);
        let Some(there) = self.object.there.get_mut(block as usize) else {
            return Ok(());
        };
        *there = there.saturating_add(1).min(all);
        if *there < all {
            return Ok(());
        }
        let (first, end) = geometry.range(block);
        if self.object.held.next_zero(first) < end {
            match self.store.rebuild(&geometry, block, &self.object.held)? {
                Rebuilt::Whole => {
                    self.object.held.set_range(first, end);
                    self.stats.rebuilt += 1;
                }
                Rebuilt::Lacks(more) => {
                    // The numbers of invalid parities are accepted again.
                    let gaps = self.object.held.gaps(first, end);
                    let missing: u64 = gaps.map(|(from, to)| to - from).sum();
                    if u64::from(more) >= missing {
                        self.object.forget_parities(block);
                    }
                    self.object.there[block as usize] = all.saturating_sub(more.max(1));
                    return Ok(());
                }
                Rebuilt::Wrong => {
                    // A parity was wrong, or a packet that is kept: then no further parity helps.
                    self.object.is_wrong = !self.object.doubtful.insert(block);
                    self.object.forget_parities(block);
                    let gaps = self.object.held.gaps(first, end);
                    let missing: u64 = gaps.map(|(from, to)| to - from).sum();
                    self.object.there[block as usize] = all.saturating_sub(missing as u16);
                    return Ok(());
                }
            }
        }
        debug_assert!(
            self.object.held.next_zero(first) >= end,
            "a complete block has all packets"
        );
        self.object.forget_parities(block);
        self.store.whole(block);
        Ok(())
    }

    /// Verifies the digest if all packets are present.
    pub(super) fn all_there(&mut self, now: Time) {
        if self.phase != Phase::Joined
            || self.stream.is_some()
            || !self.object.held.is_full()
            || self.object.verifying
        {
            return;
        }
        self.object.verifying = true;
        match self.store.verify() {
            Verdict::Same => self.verified(now, true),
            Verdict::Different => self.verified(now, false),
            Verdict::Later => self.events.push_back(ReceiverEvent::Verify),
        }
    }

    /// The driver reports the result of the verification after [`Verify`](ReceiverEvent::Verify).
    pub fn verified(&mut self, now: Time, same: bool) {
        if !self.object.verifying || self.phase != Phase::Joined {
            return;
        }
        self.object.verifying = false;
        if same {
            self.object.verified = true;
            self.phase = Phase::Complete;
            self.data_wait = None;
            self.events.push_back(ReceiverEvent::Complete);
            self.pass_over(now, Span::ZERO);
            self.volunteer(now);
            return;
        }
        self.wrong(now);
    }

    /// The content is not what was announced: everything is needed again, once.
    fn wrong(&mut self, now: Time) {
        self.object.wrong += 1;
        self.events.push_back(ReceiverEvent::Corrupt);
        // No further packet can repair an empty object.
        if self.object.wrong > 1 || self.object.held.is_empty() {
            self.leave(Reason::Corrupt);
            return;
        }
        self.store.clear();
        self.object.tell_corrupt = true;
        let geometry = self.object.geometry();
        let coded = !self.object.there.is_empty();
        self.object
            .begin(geometry, Bits::new(geometry.packets()), coded);
        self.pass_over(now, Span::ZERO);
    }

    /// Reports that it cannot take data at present (RMTP BUSY).
    pub fn busy(&mut self) {
        if self.phase == Phase::Joined && !self.busy && self.stream.is_none() {
            self.busy = true;
            self.was_busy = true;
            self.answer = None;
            self.data_wait = None;
            self.report(Asked::default(), State::Busy, false);
        }
    }

    /// Reports that it can take data again (RMTP RRDY).
    pub fn ready(&mut self, now: Time) {
        if self.busy {
            self.busy = false;
            self.postponed = true;
            self.rearm(now);
            let missing = self.missing_at_once();
            self.report(Asked::default(), State::Ready(missing), false);
        }
    }
}
