use layercast_core::Serial;

const SPAN: u32 = 4_096;

/// Which of the last 4096 frames were dealt with: tells a duplicate from a frame that comes late.
#[derive(Clone, Debug)]
pub(crate) struct History {
    bits: [u64; (SPAN / 64) as usize],
    newest: Option<Serial>,
}

impl Default for History {
    fn default() -> History {
        History {
            bits: [0; (SPAN / 64) as usize],
            newest: None,
        }
    }
}

impl History {
    /// Notes that the frame was dealt with.
    pub fn mark(&mut self, seq: Serial) {
        let ahead = self.newest.map_or(1, |newest| seq.diff(newest));
        if ahead > 0 {
            for n in 0..(ahead as u32).min(SPAN) {
                self.set(Serial(seq.0.wrapping_sub(n)), false);
            }
            self.newest = Some(seq);
        }
        if self.reaches(seq) {
            self.set(seq, true);
        }
    }

    /// Whether the frame was dealt with; frames too old to tell were.
    pub fn contains(&self, seq: Serial) -> bool {
        let Some(newest) = self.newest else {
            return false;
        };
        if seq.is_after(newest) {
            return false;
        }
        let (word, bit) = place(seq);
        !self.reaches(seq) || self.bits[word] & bit != 0
    }

    fn reaches(&self, seq: Serial) -> bool {
        self.newest
            .is_some_and(|newest| newest.0.wrapping_sub(seq.0) < SPAN)
    }

    fn set(&mut self, seq: Serial, value: bool) {
        let (word, bit) = place(seq);
        if value {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
    }
}

fn place(seq: Serial) -> (usize, u64) {
    let at = seq.0 % SPAN;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn recent_frames_are_remembered_and_no_others(
            start in any::<u32>(), steps in prop::collection::vec(-50i32..60, 1..400),
        ) {
            let mut history = History::default();
            let mut seen = BTreeSet::new();
            let (mut at, mut newest) = (5_000i64, 5_000i64);
            history.mark(Serial(start.wrapping_add(5_000)));
            seen.insert(at);
            for step in steps {
                at += i64::from(step);
                newest = newest.max(at);
                if newest - at >= 4_096 { continue; }
                let seq = Serial(start.wrapping_add(at as u32));
                prop_assert_eq!(history.contains(seq), seen.contains(&at));
                history.mark(seq);
                seen.insert(at);
            }
        }
    }
}
