//! What is under way between machines in virtual time.

use std::collections::BTreeMap;

use layercast_core::{Machine, Off, Time};

/// Packets with the time and the host that they come to.
pub struct Flying<P> {
    all: BTreeMap<(Time, u64), (usize, P)>,
    order: u64,
}

impl<P> Flying<P> {
    pub fn new() -> Flying<P> {
        Flying {
            all: BTreeMap::new(),
            order: 0,
        }
    }

    /// A packet will come to a host; of two at one time the first comes first.
    pub fn add(&mut self, at: Time, to: usize, packet: P) {
        self.order += 1;
        self.all.insert((at, self.order), (to, packet));
    }

    /// Lets the next thing happen, a packet that comes or timers that run out, if it does before `until`; hosts that are
    /// not `alive` hear nothing.
    pub fn step<M: Machine<Input = P>>(
        &mut self,
        now: &mut Time,
        until: Time,
        hosts: &mut [M],
        alive: impl Fn(usize) -> bool,
    ) -> bool {
        let arrival = self.all.first_key_value().map(|((at, _), _)| *at);
        let timers = hosts.iter().filter_map(Machine::next_timeout).min();
        let next = arrival.into_iter().chain(timers).min();
        let Some(next) = next.filter(|&next| next <= until) else {
            *now = until;
            return false;
        };
        *now = (*now).max(next);
        if arrival == Some(next) {
            let (_, (to, packet)) = self.all.pop_first().unwrap();
            if alive(to) {
                hosts[to].handle(*now, packet, &mut Off);
            }
        } else {
            for host in hosts {
                host.on_timeout(*now, &mut Off);
            }
        }
        true
    }
}
