//! Which numbers of a session arrived, as far back as a reordered packet may be.

/// Slots that are remembered.
pub(crate) const MEMORY: u64 = 1_024;

/// A set of the last [`MEMORY`] slots below the highest one.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    bits: [u64; MEMORY as usize / 64],
    highest: u64,
}

impl Seen {
    /// Only slot `first` arrived.
    pub(crate) fn new(first: u64) -> Seen {
        let mut seen = Seen {
            bits: [0; MEMORY as usize / 64],
            highest: first,
        };
        seen.set(first);
        seen
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Slot `to` is the highest one.
    pub(crate) fn advance(&mut self, to: u64) {
        if to - self.highest >= MEMORY {
            self.bits = [0; MEMORY as usize / 64];
        } else {
            for slot in self.highest + 1..to {
                let (word, bit) = place(slot);
                self.bits[word] &= !bit;
            }
        }
        self.highest = to;
        self.set(to);
    }

    /// Marks a slot that is not far below the highest one; false if it was marked.
    pub(crate) fn set(&mut self, slot: u64) -> bool {
        let (word, bit) = place(slot);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }
}

fn place(slot: u64) -> (usize, u64) {
    ((slot % MEMORY) as usize / 64, 1 << (slot % 64))
}
