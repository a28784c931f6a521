use std::collections::BTreeMap;

use layercast_core::{Span, Time};
use serde::Serialize;

use crate::app::{ConnId, HostId};

/// Which packets share a virtual circuit (specs/insane-simulator.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// Those of one connection.
    Connection,
    /// Those of one application between two hosts.
    Application,
}

/// Circuits that would be set up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CircuitTotals {
    /// Circuits set up.
    pub setups: u64,
    /// Largest number of concurrent circuits that start at one site.
    pub max_open: u64,
    /// Largest number of set-ups by one site in one second.
    pub peak_per_second: u64,
}

/// Counts virtual circuits: one way, torn down when idle.
#[derive(Debug)]
pub(crate) struct Circuits {
    sharing: Sharing,
    idle: Span,
    /// When each was set up and last used.
    open: BTreeMap<Key, (Time, Time)>,
    /// By site: set up, torn down.
    lives: Vec<Vec<(Time, Time)>>,
    /// When circuits that went idle were last cleared out.
    swept: Time,
    /// The site of each host.
    site_of: Vec<usize>,
}

type Key = (u64, u32, HostId, HostId);

impl Circuits {
    pub fn new(sharing: Sharing, idle: Span, sites: usize, site_of: Vec<usize>) -> Circuits {
        Circuits {
            sharing,
            idle,
            open: BTreeMap::new(),
            lives: vec![Vec::new(); sites],
            swept: Time::ZERO,
            site_of,
        }
    }

    /// A packet goes from one host to another.
    pub fn use_one(
        &mut self,
        now: Time,
        (conversation, conn): (u64, ConnId),
        (app, from, to): (usize, HostId, HostId),
    ) {
        let key = match self.sharing {
            Sharing::Connection => (conversation, conn.0, from, to),
            // The control connection of FTP, its first, is an application of its own.
            Sharing::Application => (app as u64, u32::from(conn.0 > 0), from, to),
        };
        if let Some(life) = self.open.get_mut(&key) {
            if now.since(life.1) < self.idle {
                life.1 = now;
                return;
            }
            let (up, used) = *life;
            *life = (now, now);
            self.lives[self.site_of[from.0 as usize]].push((up, used.saturating_add(self.idle)));
        } else {
            self.open.insert(key, (now, now));
        }
        if now.since(self.swept) >= self.idle {
            self.swept = now;
            self.sweep(|used, idle| now.since(used) >= idle);
        }
    }

    fn sweep(&mut self, gone: impl Fn(Time, Span) -> bool) {
        let (idle, lives, site_of) = (self.idle, &mut self.lives, &self.site_of);
        self.open.retain(|key, &mut (up, used)| {
            let over = gone(used, idle);
            if over {
                lives[site_of[key.2.0 as usize]].push((up, used.saturating_add(idle)));
            }
            !over
        });
    }

    pub fn totals(mut self, end: Time) -> CircuitTotals {
        self.sweep(|_, _| true);
        let mut totals = CircuitTotals {
            setups: 0,
            max_open: 0,
            peak_per_second: 0,
        };
        for lives in &self.lives {
            totals.setups += lives.len() as u64;
            let mut seconds: BTreeMap<u64, u64> = BTreeMap::new();
            let mut steps: Vec<(Time, i64)> = Vec::with_capacity(2 * lives.len());
            for &(up, down) in lives {
                *seconds.entry(up.as_us() / 1_000_000).or_default() += 1;
                steps.push((up, 1));
                steps.push((down.min(end), -1));
            }
            steps.sort_unstable();
            let mut open = 0i64;
            for (_, step) in steps {
                open += step;
                totals.max_open = totals.max_open.max(open.max(0) as u64);
            }
            let peak = seconds.values().copied().max().unwrap_or(0);
            totals.peak_per_second = totals.peak_per_second.max(peak);
        }
        totals
    }
}
