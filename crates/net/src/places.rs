use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use layercast_protect::Fingerprint;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Most places of callers with one certificate. A node has one connection; receivers that share an identity
/// file, and connections that are about to be replaced, need a few more.
pub const MAX_PER_CERTIFICATE: usize = 16;

/// The places for callers of a node: a bounded number, of which no address and no certificate gets all.
///
/// A caller has not proved anything until its hello is read. While places are short, a new caller takes the place of
/// one without a hello: the oldest of the address that holds most of these. A caller with a hello keeps its place.
#[derive(Debug)]
pub struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default, Debug)]
struct Taken {
    all: usize,
    addresses: HashMap<IpAddr, usize>,
    certificates: HashMap<Fingerprint, usize>,
    /// Callers without a hello, by the order of their calls.
    unproven: BTreeMap<u64, Unproven>,
    calls: u64,
}

/// A caller without a hello.
#[derive(Debug)]
struct Unproven {
    address: IpAddr,
    evicted: CancellationToken,
}

/// The place of one caller, for as long as it is held.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: IpAddr,
    certificate: Option<Fingerprint>,
    /// Number of the call; none once its hello is read.
    unproven: Option<u64>,
    evicted: CancellationToken,
}

/// Why there is no place for a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPlace {
    /// All are taken.
    All(usize),
    /// Those for callers from one address are taken.
    Address(usize),
    /// Those for callers with one certificate are taken.
    Certificate,
}

impl Places {
    /// Places for `most` callers.
    pub fn new(most: usize) -> Arc<Places> {
        Arc::new(Places {
            most,
            taken: Mutex::default(),
        })
    }

    /// Most places for callers from one address, three quarters of all: callers from a single address leave
    /// some to others. Callers of this host come from one address, and are not limited.
    fn most_per_address(&self, address: IpAddr) -> usize {
        match address.is_loopback() {
            true => self.most,
            false => self.most - self.most / 4,
        }
    }

    /// A place for a caller from `ip`, if need be that of a caller without a hello.
    ///
    /// # Errors
    /// All places, or those for one address, are those of callers with a hello.
    pub fn take(self: &Arc<Places>, ip: IpAddr) -> Result<Place, NoPlace> {
        let address = network(ip);
        let most = self.most_per_address(address);
        let mut taken = self.lock();
        if taken.addresses.get(&address).is_some_and(|&n| n >= most) && !taken.evict(Some(address))
        {
            return Err(match most == self.most {
                true => NoPlace::All(self.most),
                false => NoPlace::Address(most),
            });
        }
        if taken.all >= self.most && !taken.evict(None) {
            return Err(NoPlace::All(self.most));
        }
        taken.all += 1;
        *taken.addresses.entry(address).or_default() += 1;
        let number = taken.calls;
        taken.calls += 1;
        let evicted = CancellationToken::new();
        let unproven = Unproven {
            address,
            evicted: evicted.clone(),
        };
        taken.unproven.insert(number, unproven);
        debug_assert!(taken.unproven.len() <= taken.all && taken.all <= self.most);
        Ok(Place {
            places: Arc::clone(self),
            address,
            certificate: None,
            unproven: Some(number),
            evicted,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Nothing panics between two changes that belong together.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Frees the place of the oldest caller without a hello, of one `address` or of the address that has most of
    /// them; `false` if there is none.
    fn evict(&mut self, address: Option<IpAddr>) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for caller in self.unproven.values() {
            *counts.entry(caller.address).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        let is_meant = |caller: &Unproven| match address {
            Some(address) => caller.address == address,
            None => counts.get(&caller.address) == Some(&most),
        };
        let oldest = self.unproven.iter().find(|(_, caller)| is_meant(caller));
        let Some((&number, _)) = oldest else {
            return false;
        };
        if let Some(caller) = self.unproven.remove(&number) {
            caller.evicted.cancel();
            self.free(&caller.address);
        }
        true
    }

    fn free(&mut self, address: &IpAddr) {
        debug_assert!(self.all > 0, "a place is released once");
        self.all = self.all.saturating_sub(1);
        release(&mut self.addresses, address);
    }
}

impl Place {
    /// The caller has shown its certificate.
    ///
    /// # Errors
    /// There are enough callers with this one.
    pub fn show(&mut self, certificate: Fingerprint) -> Result<(), NoPlace> {
        let mut taken = self.places.lock();
        let count = taken.certificates.entry(certificate).or_default();
        if *count >= MAX_PER_CERTIFICATE {
            return Err(NoPlace::Certificate);
        }
        *count += 1;
        self.certificate = Some(certificate);
        Ok(())
    }

    /// Waits until another caller has taken the place.
    pub fn evicted(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }

    /// The hello of the caller is read: it keeps the place. `false` if another caller has taken it before.
    pub fn prove(&mut self) -> bool {
        let Some(number) = self.unproven else {
            return true;
        };
        let is_held = self.places.lock().unproven.remove(&number).is_some();
        if is_held {
            self.unproven = None;
        }
        is_held
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        // The place of an evicted caller is free already.
        let is_held = match self.unproven {
            Some(number) => taken.unproven.remove(&number).is_some(),
            None => true,
        };
        if is_held {
            taken.free(&self.address);
        }
        if let Some(certificate) = &self.certificate {
            release(&mut taken.certificates, certificate);
        }
    }
}

fn release<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    debug_assert!(counts.contains_key(key), "a count is released once");
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What is counted as one address: of IPv6 the network of 64 bits, which one host has to itself (RFC 4291, 2.5.1).
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)))
        }
        ip => ip,
    }
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPlace::All(most) => write!(
                f,
                "all {most} places for neighbours are taken: try again later, or raise --max-neighbours there"
            ),
            NoPlace::Address(most) => write!(
                f,
                "all {most} places for neighbours from one address are taken: try again later, \
                 or raise --max-neighbours there"
            ),
            NoPlace::Certificate => write!(
                f,
                "all {MAX_PER_CERTIFICATE} places for neighbours with one certificate are taken: \
                 use an --identity of your own"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A place whose caller has said hello.
    fn proven(places: &Arc<Places>, from: &str) -> Result<Place, NoPlace> {
        let mut place = places.take(ip(from))?;
        assert!(place.prove());
        Ok(place)
    }

    #[test]
    fn no_certificate_and_no_address_gets_all_places() {
        let places = Places::new(256);
        let mut held = Vec::new();
        let refused = loop {
            let mut place = proven(&places, "192.0.2.1").unwrap();
            match place.show(Fingerprint::of(b"one")) {
                Ok(()) => held.push(place),
                Err(why) => break why,
            }
        };
        assert_eq!(
            (held.len(), refused),
            (MAX_PER_CERTIFICATE, NoPlace::Certificate)
        );
        // With another certificate for each: some are left to other addresses.
        for n in 0_u32.. {
            match proven(&places, "192.0.2.1") {
                Ok(mut place) => {
                    place.show(Fingerprint::of(&n.to_be_bytes())).unwrap();
                    held.push(place);
                }
                Err(why) => {
                    assert_eq!(why, NoPlace::Address(192));
                    break;
                }
            }
        }
        assert_eq!(held.len(), 192);
        let mut others: Vec<_> = (0..64)
            .map(|_| proven(&places, "127.0.0.1").unwrap())
            .collect();
        assert_eq!(places.take(ip("192.0.2.2")).unwrap_err(), NoPlace::All(256));
        others.pop();
        assert!(places.take(ip("192.0.2.2")).is_ok());
    }

    #[test]
    fn places_are_free_again_when_their_callers_are_gone() {
        let places = Places::new(1);
        let mut place = proven(&places, "127.0.0.1").unwrap();
        place.show(Fingerprint::of(b"one")).unwrap();
        assert_eq!(places.take(ip("127.0.0.1")).unwrap_err(), NoPlace::All(1));
        drop(place);
        assert!(places.take(ip("127.0.0.1")).is_ok());
        let taken = places.lock();
        assert!(taken.all == 0 && taken.addresses.is_empty() && taken.certificates.is_empty());
    }

    #[test]
    fn the_addresses_of_one_host_count_as_one() {
        let places = Places::new(4);
        let _held: Vec<_> = ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:1"]
            .map(|text| proven(&places, text).unwrap())
            .into();
        assert_eq!(
            places.take(ip("2001:db8::3")).unwrap_err(),
            NoPlace::Address(3)
        );
        assert!(places.take(ip("2001:db8:0:1::3")).is_ok());
    }

    #[test]
    fn callers_without_a_hello_make_room_and_others_do_not() {
        let places = Places::new(8);
        let mut first = places.take(ip("127.0.0.1")).unwrap();
        let silent: Vec<_> = (0..7)
            .map(|_| places.take(ip("127.0.0.2")).unwrap())
            .collect();
        // The address with most silent callers gives up the oldest of them, not an older caller of another.
        let mut new = places.take(ip("192.0.2.1")).unwrap();
        assert!(silent[0].evicted.is_cancelled() && !silent[1].evicted.is_cancelled());
        assert!(first.prove() && new.prove() && !first.evicted.is_cancelled());
        let held: Vec<_> = (0..6)
            .map(|_| proven(&places, "192.0.2.2").unwrap())
            .collect();
        assert!(silent.iter().all(|place| place.evicted.is_cancelled()));
        // All have said hello now.
        assert_eq!(places.take(ip("127.0.0.1")).unwrap_err(), NoPlace::All(8));
        assert_eq!(
            places.take(ip("192.0.2.2")).unwrap_err(),
            NoPlace::Address(6)
        );
        // A caller whose place is gone gets it neither back by its hello nor frees it a second time.
        for mut place in silent {
            assert!(!place.prove());
        }
        assert_eq!(places.lock().all, 8);
        drop((first, new, held));
        let taken = places.lock();
        assert!(taken.all == 0 && taken.addresses.is_empty() && taken.unproven.is_empty());
    }

    #[test]
    fn an_address_beyond_its_share_gives_up_its_own_callers() {
        let places = Places::new(8);
        let other = places.take(ip("192.0.2.1")).unwrap();
        let mut silent: Vec<_> = (0..7)
            .map(|_| places.take(ip("192.0.2.2")).unwrap())
            .collect();
        assert!(silent[0].evicted.is_cancelled() && !other.evicted.is_cancelled());
        assert!(silent[1..].iter_mut().all(Place::prove));
        assert_eq!(
            places.take(ip("192.0.2.2")).unwrap_err(),
            NoPlace::Address(6)
        );
        assert!(!other.evicted.is_cancelled());
    }
}
