use std::collections::BTreeMap;

/// Octets that may be sent to an address for each octet received from it, as long as the address is not
/// validated (RFC 9000, section 8.1).
pub const AMPLIFICATION_FACTOR: u64 = 3;

/// The octets received from one address and sent to it: the anti-amplification limit of RFC 9000, section 8.1.
///
/// The source address of a datagram can be forged. Until a peer has returned something that only a receiver of
/// our datagrams can know, an address gets at most [`AMPLIFICATION_FACTOR`] times the octets that came from it.
/// Octets are those of UDP payloads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AddressBudget {
    received: u64,
    sent: u64,
    validated: bool,
}

impl AddressBudget {
    /// The budget of an address that is validated by other means: no limit.
    pub const VALIDATED: AddressBudget = AddressBudget {
        received: 0,
        sent: 0,
        validated: true,
    };

    /// Books a datagram of `octets` that came from the address.
    pub fn receive(&mut self, octets: usize) {
        self.received = self.received.saturating_add(octets as u64);
    }

    /// Octets that may be sent now.
    pub fn allowance(&self) -> u64 {
        match self.validated {
            true => u64::MAX,
            false => (self.received.saturating_mul(AMPLIFICATION_FACTOR)).saturating_sub(self.sent),
        }
    }

    /// Books a datagram of `octets` to the address and returns true, or returns false if the limit forbids it.
    #[must_use]
    pub fn send(&mut self, octets: usize) -> bool {
        let octets = octets as u64;
        if octets > self.allowance() {
            return false;
        }
        self.sent = self.sent.saturating_add(octets);
        debug_assert!(
            self.validated || self.sent <= self.received.saturating_mul(AMPLIFICATION_FACTOR)
        );
        true
    }

    /// Lifts the limit: the address has returned something that only a receiver of our datagrams can know.
    pub fn validate(&mut self) {
        self.validated = true;
    }

    /// Whether the limit is lifted.
    pub fn is_validated(&self) -> bool {
        self.validated
    }
}

/// The [`AddressBudget`]s of at most a given number of addresses.
///
/// When a new address finds no place, the address that is longest without traffic is forgotten: of the
/// unvalidated ones as long as these fill at least half of the places, else of the validated ones. So forged
/// addresses do not displace validated peers, and validated peers do not use up all places. An address that was
/// forgotten starts again with nothing received, so forgetting never raises a limit.
#[derive(Clone, Debug)]
pub struct AddressBudgets<A> {
    places: usize,
    entries: BTreeMap<A, Entry>,
    /// Unvalidated and validated addresses by last use.
    by_use: [BTreeMap<u64, A>; 2],
    uses: u64,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    budget: AddressBudget,
    used: u64,
}

impl<A: Copy + Ord> AddressBudgets<A> {
    /// Budgets of at most `places` addresses, at least two.
    pub fn new(places: usize) -> AddressBudgets<A> {
        AddressBudgets {
            places: places.max(2),
            entries: BTreeMap::new(),
            by_use: [BTreeMap::new(), BTreeMap::new()],
            uses: 0,
            refused: 0,
        }
    }

    /// Books a datagram of `octets` that came from `from`.
    pub fn receive(&mut self, from: A, octets: usize) {
        self.touch(from).receive(octets);
    }

    /// Books a datagram of `octets` to `to` and returns true, or counts it as refused and returns false.
    #[must_use]
    pub fn send(&mut self, to: A, octets: usize) -> bool {
        let sent = self
            .entries
            .get_mut(&to)
            .is_some_and(|entry| entry.budget.send(octets));
        self.refused += u64::from(!sent);
        sent
    }

    /// Lifts the limit of `address`, which has returned something that only a receiver of our datagrams can know.
    pub fn validate(&mut self, address: A) {
        if self.is_validated(&address) {
            return;
        }
        self.touch(address);
        if let Some(entry) = self.entries.get_mut(&address) {
            self.by_use[0].remove(&entry.used);
            self.by_use[1].insert(entry.used, address);
            entry.budget.validate();
        }
    }

    /// Whether the limit of `address` is lifted.
    pub fn is_validated(&self, address: &A) -> bool {
        let entry = self.entries.get(address);
        entry.is_some_and(|entry| entry.budget.is_validated())
    }

    /// Octets that may be sent to `address` now.
    pub fn allowance(&self, address: &A) -> u64 {
        let entry = self.entries.get(address);
        entry.map_or(0, |entry| entry.budget.allowance())
    }

    /// Datagrams that the limit held back so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The number of addresses that have a budget.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no address has a budget.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The budget of `address`, most recently used from now on.
    fn touch(&mut self, address: A) -> &mut AddressBudget {
        if !self.entries.contains_key(&address) && self.entries.len() >= self.places {
            self.forget_one();
        }
        debug_assert!(self.entries.len() <= self.places);
        let [unvalidated, validated] = &self.by_use;
        debug_assert_eq!(unvalidated.len() + validated.len(), self.entries.len());
        self.uses += 1;
        let used = self.uses;
        let budget = AddressBudget::default();
        let entry = self
            .entries
            .entry(address)
            .or_insert(Entry { budget, used });
        let by_use = &mut self.by_use[usize::from(entry.budget.is_validated())];
        by_use.remove(&entry.used);
        by_use.insert(used, address);
        entry.used = used;
        &mut entry.budget
    }

    fn forget_one(&mut self) {
        let [unvalidated, validated] = &mut self.by_use;
        let from = match unvalidated.len() * 2 >= self.places || validated.is_empty() {
            true => unvalidated,
            false => validated,
        };
        if let Some((_, address)) = from.pop_first() {
            self.entries.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn an_unvalidated_address_gets_three_times_what_came_from_it() {
        let mut budget = AddressBudget::default();
        assert!(!budget.send(1));
        budget.receive(100);
        assert!(budget.send(299));
        assert!(!budget.send(2));
        assert!(budget.send(1));
        assert_eq!(budget.allowance(), 0);
        budget.receive(1);
        assert_eq!(budget.allowance(), 3);
        budget.validate();
        assert!(budget.send(1 << 20));
        assert!(AddressBudget::VALIDATED.is_validated());
    }

    #[test]
    fn a_flood_of_forged_addresses_does_not_displace_a_validated_one() {
        let mut budgets = AddressBudgets::new(8);
        budgets.receive(0_u32, 10);
        budgets.validate(0);
        for forged in 1..10_000 {
            budgets.receive(forged, 10);
            assert!(budgets.send(forged, 30) && !budgets.send(forged, 1));
        }
        assert_eq!(budgets.len(), 8);
        assert!(budgets.send(0, 1_000));
        assert_eq!(budgets.refused(), 9_999);
        // A forgotten address has no allowance.
        assert_eq!(budgets.allowance(&1), 0);
    }

    #[test]
    fn validated_addresses_leave_half_of_the_places_to_new_ones() {
        let mut budgets = AddressBudgets::new(8);
        for address in 0..100_u32 {
            budgets.receive(address, 1);
            budgets.validate(address);
        }
        for address in 100..104 {
            budgets.receive(address, 1);
        }
        assert!((100..104).all(|address| budgets.allowance(&address) == 3));
        // The validated addresses that were used last are still known.
        assert!((96..100).all(|address| budgets.is_validated(&address)));
        assert!(!budgets.is_validated(&95));
    }

    #[test]
    fn no_order_of_events_exceeds_the_factor() {
        let mut random = Stream::new(1, "amplification");
        let mut budgets = AddressBudgets::new(3);
        let (mut received, mut sent) = ([0_u64; 4], [0_u64; 4]);
        for _ in 0..20_000 {
            let (address, octets) = (random.below(4), random.below(2_000));
            let index = address as usize;
            if random.below(2) == 0 {
                budgets.receive(address, octets as usize);
                received[index] += octets;
            } else if budgets.send(address, octets as usize) {
                sent[index] += octets;
            }
            assert!(budgets.len() <= 3);
            assert!(sent[index] <= AMPLIFICATION_FACTOR * received[index]);
        }
        assert!(sent.iter().all(|&sent| sent > 0));
    }
}
