//! Proportional rate reduction (RFC 6937), as Linux has it: in recovery the window falls with what is delivered, so that the
//! sender neither pauses for half a round trip nor sends a burst.

/// One recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// The window before it.
    prior: u64,
    /// Bytes delivered in it, and bytes sent.
    delivered: u64,
    out: u64,
}

impl Prr {
    pub(super) fn new(prior: u64) -> Prr {
        Prr {
            prior,
            delivered: 0,
            out: 0,
        }
    }

    pub(super) fn sends(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// How many bytes may be sent now, with `pipe` bytes on their way, after an acknowledgement that delivered some. It makes
    /// progress if it acknowledges more in order, and shows no further loss.
    pub(super) fn allows(
        &mut self,
        (delivered, makes_progress): (u64, bool),
        pipe: u64,
        threshold: u64,
        mss: u64,
    ) -> u64 {
        self.delivered += delivered;
        let limit = match threshold.checked_sub(pipe) {
            None => {
                let share = u128::from(threshold) * u128::from(self.delivered);
                // Up to a whole segment, as Linux counts.
                let segments = share.div_ceil(u128::from(self.prior.max(1)) * u128::from(mss));
                let share = u64::try_from(segments)
                    .unwrap_or(u64::MAX)
                    .saturating_mul(mss);
                share.saturating_sub(self.out)
            }
            // Less is on its way than may be: slow start, or what left the network if losses continue (section 3.1).
            Some(room) => {
                let left = self.delivered.saturating_sub(self.out);
                let more = if makes_progress { mss } else { 0 };
                room.min(left.max(delivered) + more)
            }
        };
        match self.out {
            0 => limit.max(mss),
            _ => limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// What is sent at each acknowledgement of a window of 20 segments whose first `lost` are lost, and the pipe behind it; the
    /// threshold is 10. Two segments were sent by limited transmit before recovery began at the third acknowledgement.
    fn recovers(lost: u64) -> Vec<(u64, u64)> {
        // Two have been acknowledged, and for each another one has left.
        let (mut prr, mut in_flight) = (Prr::new(20 * MSS), (20 - lost) * MSS);
        (3..=20 - lost)
            .map(|_| {
                in_flight -= MSS;
                let allowed = prr.allows((MSS, false), in_flight, 10 * MSS, MSS) / MSS;
                prr.sends(allowed * MSS);
                in_flight += allowed * MSS;
                (allowed, in_flight / MSS)
            })
            .collect()
    }

    #[test]
    fn one_segment_leaves_for_two_that_arrive() {
        // RFC 6937, section 4, the first example: R at the third acknowledgement, then one at each second.
        let sent = recovers(1);
        let counts: Vec<_> = sent.iter().map(|it| it.0).collect();
        assert_eq!(counts[..9], [1, 0, 1, 0, 1, 0, 1, 0, 1]);
        // No more than the threshold at its end.
        assert_eq!(sent.last().unwrap().1, 10);
    }

    #[test]
    fn with_heavy_loss_as_much_leaves_as_arrives() {
        // RFC 6937, section 4, the second example: 15 of 20 are lost. The pipe is below the threshold from the start; what left
        // the network is replaced, but no more.
        let sent = recovers(15);
        assert!(sent.iter().all(|it| it.0 == 1), "{sent:?}");
        // With progress it returns to the threshold by slow start.
        let mut prr = Prr::new(20 * MSS);
        assert_eq!(prr.allows((MSS, true), 4 * MSS, 10 * MSS, MSS), 2 * MSS);
        // But not above it.
        assert_eq!(prr.allows((5 * MSS, true), 9 * MSS, 10 * MSS, MSS), MSS);
    }
}
