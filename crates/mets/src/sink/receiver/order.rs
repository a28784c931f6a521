use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use layercast_core::{Layer, PerLayer, Serial, Span, Time};

use super::{Receiver, Slot};
use crate::sink::explain::Awaited;
use crate::sink::gaps::Chain;

/// How long a frame behind a gap waits for frames of a fast start: a node repairs each of its packets for 500 ms.
const FAST_HOLD: Span = Span::from_ms(600);
/// How long frames wait for the first repair of the path: two round trips of a continent, and what reports take.
const FIRST: Span = Span::from_ms(250);
/// Later, this many times the longest repair seen: repairs are lost, too, and each round takes as long as the first.
const ROUNDS: u64 = 4;
/// Gaps that are remembered after nothing waited for them any more: a frame of them may still arrive.
const MAX_GIVEN_UP: usize = 16;
/// How far one chain may be ahead of the other: sound that is earlier than its pictures by more is unacceptable to viewers
/// (Recommendation ITU-R BT.1359-1).
const LIP_SYNC: Span = Span::from_ms(90);

/// How long frames wait, beyond their deadline, for one before them that may still be repaired.
///
/// The time is learned. A path without repairs fills no gap: there the time halves with each gap and is soon nothing.
#[derive(Debug)]
pub(super) struct Patience {
    wait: Span,
    given_up: VecDeque<GivenUp>,
    /// The longest repair in the running fast start.
    fast: Span,
}

/// Missing frames that nothing waits for any more, and when the frame behind them had arrived.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    first: Serial,
    last: Serial,
    since: Time,
}

/// What a frame waits for beyond its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    awaited: Awaited,
    until: Time,
    /// Until then it has waited as long as repairs take.
    full: bool,
}

/// A frame that may be handed over next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Its place in the buffer.
    pub at: usize,
    pub until: Time,
    pub hold: Option<Hold>,
}

/// What was handed over of each chain.
#[derive(Default, Debug)]
pub(super) struct Chains([Progress; 2]);

#[derive(Default, Debug)]
pub(super) struct Progress {
    /// The newest frame of the running count that was handed over, or would have been, had it not been late.
    pub last: Option<Serial>,
    /// Frames that are missing since the last one was handed over.
    pub missing: PerLayer<u32>,
    /// What the next frame waits for, now that its deadline is over.
    holding: Option<Awaited>,
    /// When the last wait ended, and what for.
    released: Option<(Time, Awaited)>,
}

impl Index<Chain> for Chains {
    type Output = Progress;
    fn index(&self, chain: Chain) -> &Progress {
        &self.0[chain as usize]
    }
}

impl IndexMut<Chain> for Chains {
    fn index_mut(&mut self, chain: Chain) -> &mut Progress {
        &mut self.0[chain as usize]
    }
}

impl Chains {
    /// Another count of frames begins.
    pub fn reset(&mut self) {
        for progress in &mut self.0 {
            progress.last = None;
        }
    }
}

impl Progress {
    /// Whether a frame behind `seq` was handed over.
    pub fn is_behind(&self, seq: Serial) -> bool {
        self.last.is_some_and(|last| !seq.is_after(last))
    }

    /// How long a frame with this deadline was held for frames before it, and for which.
    pub fn held(&self, deadline: Time) -> Option<(Span, Awaited)> {
        let (at, awaited) = self.released?;
        (deadline < at).then(|| (at.since(deadline), awaited))
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            wait: FIRST,
            given_up: VecDeque::new(),
            fast: Span::ZERO,
        }
    }
}

impl Patience {
    /// A frame that others waited for, or have waited for, arrived `took` after the frame behind it.
    pub fn learn(&mut self, took: Span) {
        let wanted = took.as_ps().saturating_mul(ROUNDS);
        self.wait = self.wait.max(Span::from_ps(wanted));
    }

    /// The longest repair in the fast start that is over.
    pub fn take_fast(&mut self) -> Option<Span> {
        let longest = std::mem::take(&mut self.fast);
        (longest > Span::ZERO).then_some(longest)
    }

    fn give_up(&mut self, hold: &Hold, since: Time, waited: bool) {
        if waited && hold.full {
            self.wait = Span::from_ps(self.wait.as_ps() / 2);
        }
        if self.given_up.len() == MAX_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(GivenUp {
            first: hold.awaited.first,
            last: hold.awaited.last,
            since,
        });
    }

    /// For how long a frame that arrives now was missing, if others have waited for it in vain.
    fn missed(&self, now: Time, seq: Serial) -> Option<Span> {
        let holds = |gap: &&GivenUp| seq.diff(gap.first) >= 0 && gap.last.diff(seq) >= 0;
        let gap = self.given_up.iter().rev().find(holds)?;
        Some(now.since(gap.since))
    }
}

/// What the order of the media decides: which frames wait for which.
///
/// Pictures are one chain and sound is another: no frame waits for a missing one of the other chain. A picture whose deadline
/// has come waits for missing pictures of its own layer and of those below, as it may refer to them, and for no others. A
/// picture of a lower layer that is due ends the wait of those above it. So a missing picture of an enhancement layer delays
/// neither sound nor the base layer, and a missing picture of the base layer is waited for as long as repairs take.
///
/// Where a flow has sound, a chain is ahead of one that waits by [`LIP_SYNC`] at most. Then the wait for a picture of an
/// enhancement layer ends; with the wait for a frame of the base layer the other chain waits, too.
///
/// In a fast start nothing plays to time yet, and each frame waits for all before it.
impl Receiver {
    fn chain(&self, at: usize) -> Chain {
        self.buffer[at].mark.chain()
    }

    /// The next frame to be handed over; while it waits for another, that of the other chain, too.
    pub(super) fn due(&self) -> [Option<Due>; 2] {
        let Some(first) = self.buffer.iter().position(|slot| !slot.handed) else {
            return [None; 2];
        };
        let of = |at: usize| {
            let (hold, deadline) = (self.hold(at), self.buffer[at].deadline);
            let until = hold.map_or(deadline, |hold| hold.until.max(deadline));
            Due { at, until, hold }
        };
        let due = of(first);
        let second = due.hold.and_then(|hold| {
            let mut second = of(self.next_of_other(first)?);
            if second.until >= self.buffer[first].deadline.saturating_add(LIP_SYNC) {
                second.until = second.until.max(due.until);
                second.hold = second.hold.or(Some(hold));
            }
            Some(second)
        });
        [Some(due), second]
    }

    /// The next frame of the other chain than that of the next frame.
    fn next_of_other(&self, first: usize) -> Option<usize> {
        if self.gaps.newest()?.again {
            return None;
        }
        let other = self.chain(first).other();
        let behind = self.buffer.iter().enumerate().skip(first + 1);
        let mut behind = behind.take_while(|(_, slot)| !slot.is_barrier());
        let next = behind.find(|(_, slot)| slot.mark.chain() == other && !slot.handed)?;
        Some(next.0)
    }

    /// What a frame of the buffer waits for.
    fn hold(&self, at: usize) -> Option<Hold> {
        let slot = &self.buffer[at];
        let last = self.gaps.newest()?;
        let is_next = at == 0 && slot.mark.seq.diff(last.seq) <= 1;
        if slot.is_barrier() || is_next {
            return None;
        }
        if last.again {
            let lost = self.gaps.gap_before(slot.mark).lost;
            let awaited = Awaited {
                first: last.seq.plus(1),
                last: Serial(slot.mark.seq.0.wrapping_sub(1)),
                frames: lost,
            };
            return (lost != PerLayer::default()).then(|| Hold {
                awaited,
                until: slot.came.saturating_add(FAST_HOLD),
                full: false,
            });
        }
        let most = self.jitter.longest_wait()?;
        let awaited = self.missing_before(at).1?;
        let lost = awaited.frames;
        let lowest = Layer::ALL.into_iter().find(|&layer| lost[layer] > 0)?;
        // Of alternative layers, each picture refers to others of its own.
        let lowest = match self.chooser {
            Some(_) => Layer::Base,
            None => lowest,
        };
        if slot.mark.layer < lowest {
            return None;
        }
        let patient = slot.came.saturating_add(self.patience.wait.min(most));
        let chain = slot.mark.chain();
        let mut until = patient;
        if lowest > Layer::Base {
            let behind = self.buffer.iter().skip(at + 1);
            let mut below = behind.filter(|slot| {
                !slot.handed && slot.mark.chain() == chain && slot.mark.layer < lowest
            });
            if let Some(due) = below.next().map(|slot| slot.deadline) {
                until = until.min(due);
            }
            if self.has(chain.other()) {
                until = until.min(slot.deadline.saturating_add(LIP_SYNC));
            }
        }
        Some(Hold {
            awaited,
            until,
            full: until == patient,
        })
    }

    /// The deadline of the first frame of a chain from place `at` on.
    pub(super) fn next_in_chain(&self, at: usize, chain: Chain) -> Option<Time> {
        let mut behind = self.buffer.iter().skip(at);
        let next = behind.find(|slot| !slot.handed && slot.mark.chain() == chain)?;
        Some(next.deadline)
    }

    fn has(&self, chain: Chain) -> bool {
        let is_of = |slot: &Slot| slot.mark.chain() == chain;
        self.chains[chain].last.is_some() || self.buffer.iter().any(is_of)
    }

    /// The frames that are missing between the last one of its chain that was handed over and the frame in place `at`: all of
    /// them that are not accounted for, and those that may still arrive.
    fn missing_before(&self, at: usize) -> (PerLayer<u32>, Option<Awaited>) {
        let chain = self.chain(at);
        let (mut gaps, mut missing) = (self.gaps.clone(), PerLayer::default());
        let mut awaited: Option<Awaited> = None;
        for slot in self.buffer.iter().take(at + 1) {
            let last = gaps.last();
            let gap = gaps.advance(slot.mark);
            if self.chains[chain].is_behind(slot.mark.seq) {
                continue;
            }
            let (lost, all) = gap.of(chain);
            add(&mut missing, all);
            if let Some(last) = last.filter(|_| lost != PerLayer::default()) {
                let (first, last) = (last.plus(1), Serial(slot.mark.seq.0.wrapping_sub(1)));
                let awaited = awaited.get_or_insert(Awaited {
                    first,
                    last,
                    frames: PerLayer::default(),
                });
                awaited.last = last;
                add(&mut awaited.frames, lost);
            }
        }
        (missing, awaited)
    }

    /// Until when frames of the other chain that are missing before the first frame of the buffer, which was handed over, may
    /// still be handed over; `None` if there are none.
    pub(super) fn open_until(&self) -> Option<Time> {
        let (front, last) = (self.buffer.front()?, self.gaps.newest()?);
        if front.is_barrier() || last.again || front.mark.seq.diff(last.seq) <= 1 {
            return None;
        }
        let most = self.jitter.longest_wait()?;
        let other = front.mark.chain().other();
        if self.chains[other].is_behind(front.mark.seq) {
            return None;
        }
        let (lost, _) = self.gaps.gap_before(front.mark).of(other);
        let is_over = self.buffer.iter().any(Slot::is_barrier);
        (lost != PerLayer::default() && !is_over)
            .then(|| front.came.saturating_add(self.patience.wait.min(most)))
    }

    /// A frame arrives that is of no use any more: a frame behind it was handed over.
    pub(super) fn note_passed(&mut self, came: Time, seq: Serial) {
        let most = self.jitter.longest_wait();
        let took = self.patience.missed(came, seq);
        if let Some(took) = took.filter(|took| most.is_some_and(|most| *took <= most)) {
            self.patience.learn(took);
        }
    }

    /// A frame takes place `at` of the buffer.
    pub(super) fn note_repair(&mut self, came: Time, at: usize) {
        let Some(behind) = self.buffer.get(at) else {
            return;
        };
        let took = came.since(behind.came);
        if self.gaps.newest().is_some_and(|last| last.again) {
            self.note_fast_repair(came, took);
        } else if self.jitter.longest_wait().is_some() {
            self.patience.learn(took);
        }
    }

    /// A frame of a fast start is complete `took` after the first frame behind it: those that play to time cross the same path.
    pub(super) fn note_fast_repair(&mut self, now: Time, took: Span) {
        self.patience.learn(took);
        self.patience.fast = self.patience.fast.max(took);
        if !self.catches_up {
            self.jitter.on_repair(now, took);
        }
    }

    /// Notes which frames wait beyond their deadlines.
    pub(super) fn note_waits(&mut self, now: Time) {
        for due in self.due().into_iter().flatten() {
            if self.buffer[due.at].deadline <= now {
                let chain = self.chain(due.at);
                self.chains[chain].holding = due.hold.map(|hold| hold.awaited);
            }
        }
    }

    /// The frame in place `at` is handed over, whatever it waited for: what is missing before it in its chain is given up.
    pub(super) fn end_hold(&mut self, now: Time, at: usize) {
        let (hold, (missing, _)) = match self.buffer[at].opens {
            true => (None, <_>::default()),
            false => (self.hold(at), self.missing_before(at)),
        };
        let (chain, came) = (self.chain(at), self.buffer[at].came);
        let progress = &mut self.chains[chain];
        add(&mut progress.missing, missing);
        let waited = progress.holding.take();
        if let Some(awaited) = waited {
            progress.released = Some((now, awaited));
        }
        if let Some(hold) = hold {
            self.patience.give_up(&hold, came, waited.is_some());
        }
    }
}

/// Adds counts of frames.
pub(super) fn add(to: &mut PerLayer<u32>, more: PerLayer<u32>) {
    for layer in Layer::ALL {
        to[layer] = to[layer].saturating_add(more[layer]);
    }
}
