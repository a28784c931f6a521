use core::hint::select_unpredictable;

use layercast_core::Time;

use crate::ties::Turn;

/// A point in the order of events: of those at one instant, the lower tie goes first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Moment {
    pub at: Time,
    /// 0 before all cells of this instant.
    pub tie: u64,
}

impl Ord for Moment {
    #[inline]
    fn cmp(&self, other: &Moment) -> std::cmp::Ordering {
        self.at.cmp(&other.at).then(self.tie.cmp(&other.tie))
    }
}

impl PartialOrd for Moment {
    #[inline]
    fn partial_cmp(&self, other: &Moment) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Moment) -> bool {
        self.key() < other.key()
    }
}

impl Moment {
    /// Of somebody whose turn this is.
    #[inline]
    pub fn of(turn: Turn, at: Time) -> Moment {
        // Never 0, and not the last.
        let tie = turn.at(at) >> 1 | 1;
        Moment { at, tie }
    }

    /// After all that happens at an instant.
    pub const fn after(at: Time) -> Moment {
        Moment { at, tie: u64::MAX }
    }

    /// In the same order.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.at.as_ps()) << 64 | u128::from(self.tie)
    }

    /// Just after this.
    pub const fn next(self) -> Moment {
        Moment {
            at: self.at,
            tie: self.tie.saturating_add(1),
        }
    }
}

/// When each port is due, and which is first: a tournament.
#[derive(Debug)]
pub(super) struct Due {
    /// The winner at each node of a binary tree; the root is 1, the children of n are 2 n and 2 n + 1, and the
    /// leaves are the ports, padded to a power of two.
    winners: Vec<Winner>,
}

#[derive(Clone, Copy, Debug)]
struct Winner {
    moment: Moment,
    port: u32,
}

const NEVER: Moment = Moment::after(Time::MAX);

impl Due {
    pub fn new(ports: usize) -> Due {
        let nobody = Winner {
            moment: NEVER,
            port: 0,
        };
        Due {
            winners: vec![nobody; 2 * ports.next_power_of_two()],
        }
    }

    /// The first of all, if any is due.
    #[inline]
    pub fn first(&self) -> Option<(Moment, u32)> {
        let Winner { moment, port } = self.winners[1];
        (moment != NEVER).then_some((moment, port))
    }

    fn leaf(&self, port: u32) -> usize {
        self.winners.len() / 2 + port as usize
    }

    /// When a port is due.
    #[inline]
    pub fn at(&self, port: u32) -> Time {
        self.winners[self.leaf(port)].moment.at
    }

    /// Makes a port due, or not.
    #[inline]
    pub fn set(&mut self, port: u32, moment: Option<Moment>) {
        let mut moment = moment.unwrap_or(NEVER);
        let mut node = self.leaf(port);
        if self.winners[node].moment == moment {
            return;
        }
        let mut port = port;
        self.winners[node] = Winner { moment, port };
        // The winner is unpredictable: every round is played, so that the processor need not predict a branch.
        while node > 1 {
            let rival = &self.winners[node ^ 1];
            let wins = rival.moment.key() < moment.key();
            moment = Moment {
                at: select_unpredictable(wins, rival.moment.at, moment.at),
                tie: select_unpredictable(wins, rival.moment.tie, moment.tie),
            };
            port = select_unpredictable(wins, rival.port, port);
            node /= 2;
            self.winners[node] = Winner { moment, port };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_least(
            ports in 1usize..20, steps in prop::collection::vec((0u32..20, prop::option::of((0u64..50, 0u64..9))), 1..200),
        ) {
            let mut due = Due::new(ports);
            let mut model = vec![None; ports];
            for (port, moment) in steps {
                let port = port % ports as u32;
                let moment = moment.map(|(at, tie)| Moment { at: Time::from_ps(at), tie });
                due.set(port, moment);
                model[port as usize] = moment;
                let least = model.iter().flatten().min().copied();
                prop_assert_eq!(due.first().map(|it| it.0), least);
                if let Some((moment, port)) = due.first() {
                    prop_assert_eq!(model[port as usize], Some(moment));
                }
            }
        }
    }
}
