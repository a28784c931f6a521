//! Queues of flows or hosts.

const NONE: u32 = u32::MAX;

/// Queues that are made when the first packet of their key comes.
#[derive(Debug)]
pub(super) struct Keyed<T> {
    /// For each key the queue that has it, once there was one.
    of_keys: Vec<u32>,
    /// In the order in which they were made.
    pub all: Vec<T>,
}

impl<T> Keyed<T> {
    /// None yet.
    pub fn new() -> Keyed<T> {
        Keyed {
            of_keys: Vec::new(),
            all: Vec::new(),
        }
    }

    /// The place of the queue of a key, which `make` makes if it is the first time.
    pub fn place(&mut self, key: usize, make: impl FnOnce() -> T) -> u32 {
        if self.of_keys.len() <= key {
            self.of_keys.resize(key + 1, NONE);
        }
        let place = &mut self.of_keys[key];
        if *place == NONE {
            *place = self.all.len() as u32;
            self.all.push(make());
        }
        *place
    }

    /// The queue at a place.
    pub fn at(&mut self, place: u32) -> &mut T {
        &mut self.all[place as usize]
    }
}
