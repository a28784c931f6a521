use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::Layer;
use layercast_fec::{BlockDecoder, Code, Scheme};

use super::{Codec, contents};
use crate::message::Parity;
use crate::seen::{SPAN, Seen};

/// Most blocks of which parities are kept.
pub const MAX_OPEN: usize = 64;
/// Most contents that are kept to restore others, and their octets.
pub const MAX_KEPT: usize = 2_048;
/// See [`MAX_KEPT`].
pub const MAX_KEPT_OCTETS: usize = 4 << 20;

/// Restores contents from parities and other contents: the newest contents, and the parities that have not sufficed.
#[derive(Debug)]
pub(crate) struct Restore<T> {
    codec: Codec<T>,
    kept: BTreeMap<u64, T>,
    kept_octets: usize,
    open: VecDeque<Open>,
    code: Box<dyn Code>,
}

/// A block of which parities are kept.
#[derive(Debug)]
struct Open {
    first: u64,
    mask: u128,
    layer: Layer,
    parities: Vec<(usize, Bytes)>,
}

/// What came of a parity, or of a content of blocks of which parities are kept.
#[derive(Debug)]
pub(crate) struct Restored<T> {
    /// Contents with their counters and layer.
    pub contents: Vec<(u64, Layer, T)>,
    /// Parities in vain.
    pub surplus: Vec<Layer>,
    /// A block is complete.
    pub complete: bool,
    /// Nothing was missing of the block of the parity.
    pub needless: bool,
}

impl<T> Default for Restored<T> {
    fn default() -> Restored<T> {
        Restored {
            contents: Vec::new(),
            surplus: Vec::new(),
            complete: false,
            needless: false,
        }
    }
}

impl<T: Clone> Restore<T> {
    pub fn new(codec: Codec<T>) -> Restore<T> {
        Restore {
            codec,
            kept: BTreeMap::new(),
            kept_octets: 0,
            open: VecDeque::new(),
            code: Scheme::ReedSolomon.code(),
        }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.open.is_empty()
    }

    /// Contents that are kept, and blocks of which parities are kept.
    pub fn held(&self) -> (usize, usize) {
        (self.kept.len(), self.open.len())
    }

    /// Parities that are kept.
    pub fn parities(&self) -> usize {
        self.open.iter().map(|open| open.parities.len()).sum()
    }

    /// Keeps a content to restore others.
    pub fn keep(&mut self, counter: u64, item: T) {
        self.kept_octets += (self.codec.len)(&item);
        if let Some(old) = self.kept.insert(counter, item) {
            self.kept_octets -= (self.codec.len)(&old);
        }
        while self.kept.len() > MAX_KEPT || self.kept_octets > MAX_KEPT_OCTETS {
            let Some((_, old)) = self.kept.pop_first() else {
                break;
            };
            self.kept_octets -= (self.codec.len)(&old);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.kept_octets = 0;
        self.open.clear();
    }

    /// Forgets the parities that are of no use any more where `next` is the next counter; gives their layers.
    pub fn forget(&mut self, next: u64) -> Vec<Layer> {
        let oldest = next.saturating_sub(SPAN / 2);
        let mut over = Vec::new();
        self.open.retain(|open| {
            let stays = open.first >= oldest;
            if !stays {
                over.extend(open.parities.iter().map(|_| open.layer));
            }
            stays
        });
        over
    }

    /// Takes a parity with this counter; `None` if it is none of the contents before it.
    pub fn take(
        &mut self,
        counter: u64,
        parity: &Parity,
        octets: Bytes,
        delivered: &Seen,
    ) -> Option<Restored<T>> {
        let first = counter.checked_sub(parity.back.into())?;
        let mask = parity.contents;
        // Contents that are no longer remembered cannot be distinguished from those that were delivered.
        let known = contents(first, mask).all(|of| delivered.holds(of) && of < counter);
        if !known || contents(first, mask).all(|of| delivered.get(of)) {
            return Some(Restored {
                surplus: vec![parity.layer],
                needless: true,
                ..Restored::default()
            });
        }
        let mut restored = Restored::default();
        let is_it = |open: &Open| open.first == first && open.mask == mask;
        let at = match self.open.iter().position(is_it) {
            Some(at) => at,
            None => {
                if self.open.len() >= MAX_OPEN
                    && let Some(old) = self.open.pop_front()
                {
                    let unused = std::iter::repeat_n(old.layer, old.parities.len());
                    restored.surplus.extend(unused);
                }
                self.open.push_back(Open {
                    first,
                    mask,
                    layer: parity.layer,
                    parities: Vec::new(),
                });
                self.open.len() - 1
            }
        };
        let index = usize::from(parity.index);
        let held = &mut self.open[at].parities;
        if held.iter().all(|(other, _)| *other != index) {
            held.push((index, octets));
        }
        self.restore(at, delivered, &mut restored);
        Some(restored)
    }

    /// The content `of` has arrived: tries the blocks that contain it.
    pub fn with(&mut self, of: u64, delivered: &Seen) -> Restored<T> {
        let mut restored = Restored::default();
        let mut at = 0;
        while let Some(open) = self.open.get(at) {
            let within = of.checked_sub(open.first).filter(|bit| *bit < 128);
            let concerned = within.is_some_and(|bit| open.mask >> bit & 1 == 1);
            if !(concerned && self.restore(at, delivered, &mut restored)) {
                at += 1;
            }
        }
        restored
    }

    /// Restores what is missing of a block if there are enough parities, and forgets the block then.
    fn restore(&mut self, at: usize, delivered: &Seen, restored: &mut Restored<T>) -> bool {
        let open = &self.open[at];
        let counters: Vec<u64> = contents(open.first, open.mask).collect();
        let missing = counters.iter().filter(|of| !delivered.get(**of)).count();
        if open.parities.len() < missing {
            return false;
        }
        let Some(open) = self.open.remove(at) else {
            return false;
        };
        restored.complete = true;
        let unused = open.parities.len() - missing;
        let unused = std::iter::repeat_n(open.layer, unused);
        restored.surplus.extend(unused);
        if missing == 0 {
            return true;
        }
        let mut block = BlockDecoder::new(counters.len());
        for (index, of) in counters.iter().enumerate() {
            if let Some(item) = self.kept.get(of) {
                block.put_source(index, (self.codec.encode)(item));
            }
        }
        for (index, octets) in open.parities {
            block.put_parity(&*self.code, index, octets);
        }
        // It fails if a content is no longer kept, or a parity is forged.
        let Ok(decoded) = block.decode(&mut *self.code) else {
            return true;
        };
        for index in decoded.recovered {
            let octets = block.payload(index).cloned();
            let item = octets.and_then(|octets| (self.codec.decode)(octets));
            if let (Some(item), Some(&of)) = (item, counters.get(index))
                && !delivered.get(of)
            {
                restored.contents.push((of, open.layer, item));
            }
        }
        true
    }
}
