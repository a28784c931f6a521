//! F-RTO (RFC 5682 3.1): whether a time-out was spurious, found by what the next acknowledgements cover.

use super::ack::Recovery;
use super::{Connection, Host};

/// Segments of new data that show whether acknowledgements of old data still come (RFC 5682 3.1, step 2b).
const NEW_SEGMENTS: u64 = 2;

/// A time-out that may be spurious: the first segment was sent again, and nothing else has changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// End of all that had been sent when the timer expired: "RecoveryPoint".
    end: u64,
    /// What was usable and what was outstanding then.
    load: (u64, u64),
    /// New data leave, or have left: the next acknowledgement decides (step 3).
    decides: bool,
}

impl Trial {
    /// The end of what may leave now, if something may: the new data of step 2b.
    pub(super) fn limit(&self, mss: u64) -> Option<u64> {
        self.decides.then_some(self.end + NEW_SEGMENTS * mss)
    }

    /// What was usable, and what was outstanding.
    pub(super) fn load(&self) -> (u64, u64) {
        self.load
    }
}

impl Connection {
    /// The timer expired: sends the first segment again, and waits with everything else, if acknowledgements can show that the time-out
    /// is spurious. Unlike RFC 5682 also in fast recovery, whose retransmissions may wait in a queue that has grown: what step
    /// 3b acknowledges left before the timer expired in this case, too.
    pub(super) fn try_timeout(&mut self, host: &Host, load: (u64, u64)) -> bool {
        let knows = host.config.frto && self.recovery(host) == Recovery::Sack;
        let tries = knows && self.state.is_synchronized() && self.has_new();
        if tries {
            self.trial = Some(Box::new(Trial {
                end: self.max,
                load,
                decides: false,
            }));
            self.front = true;
            self.stop_probes();
        }
        tries
    }

    /// Steps 2 and 3: an acknowledgement came. `advances`: more than before is acknowledged; `news`: a block covers what none
    /// did before; `is_duplicate`: it has neither data nor a new window.
    #[cold]
    pub(super) fn judge_timeout(&mut self, advances: bool, news: bool, is_duplicate: bool) {
        let has_new = self.has_new() && self.max - self.una + self.mss <= self.wnd;
        let Some(trial) = self.trial.as_deref_mut() else {
            return;
        };
        let end = trial.end;
        if !trial.decides {
            if !advances {
                return;
            }
            if self.una < end && has_new {
                trial.decides = true;
            } else {
                // Step 2a, or no new data that could tell.
                self.repair_timeout(2);
            }
        } else if self.una > end || self.scoreboard.top() > end {
            self.repair_timeout(3);
        } else if advances || news {
            // Step 3b: what left before the timer expired still arrives.
            self.trial = None;
            self.outcome().spurious_timeouts += 1;
        } else if is_duplicate {
            self.repair_timeout(3);
        }
    }

    /// Whether there is a full segment of data that were not sent before, which step 2b needs.
    fn has_new(&self) -> bool {
        self.nxt == self.max && self.max + self.mss <= self.snd.end()
    }

    /// What was outstanding is lost: ends the trial as a time-out, with this many segments in the window after the
    /// acknowledgements that have come.
    fn repair_timeout(&mut self, segments: u64) {
        let Some(trial) = self.trial.take() else {
            return;
        };
        self.reduce_for_timeout(Some(trial.load));
        self.congestion.set_cwnd(segments * self.mss);
        self.repair_from(trial.end);
    }
}
