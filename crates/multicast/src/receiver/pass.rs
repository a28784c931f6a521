//! Which pass a receiver is in: without a key anybody can send a packet with any number.

/// The current pass of a receiver.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pass {
    number: u16,
    /// The pass of the last packet, if that was not followed.
    doubted: Option<u16>,
}

impl Pass {
    pub fn number(&self) -> u16 {
        self.number
    }

    /// A packet of this pass came; `false` if it is not followed. The next pass is followed immediately. Any other one, also
    /// an earlier one, is followed if two successive packets have it: a receiver may miss passes, and a forged packet
    /// must neither keep it out of all passes up to the forged one nor deafen it to the polls before that.
    pub fn follow(&mut self, number: u16) -> bool {
        let is_confirmed = self.doubted.take() == Some(number);
        if is_confirmed || number.checked_sub(self.number).is_some_and(|it| it <= 1) {
            self.number = number;
            return true;
        }
        self.doubted = Some(number);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(numbers: &[u16]) -> Vec<u16> {
        let mut pass = Pass::default();
        let after = |&number: &u16| {
            pass.follow(number);
            pass.number()
        };
        numbers.iter().map(after).collect()
    }

    #[test]
    fn one_packet_moves_a_receiver_one_pass_at_most_and_two_move_it_back() {
        assert_eq!(passes(&[0, 1, u16::MAX, 1, 2]), [0, 1, 1, 1, 2]);
        // A receiver that missed passes.
        assert_eq!(passes(&[0, 7, 7, 8]), [0, 0, 7, 8]);
        // Reordered packets of the pass before.
        assert_eq!(passes(&[1, 0, 1, 0, 1]), [1, 1, 1, 1, 1]);
        // A forged next pass, and two forged packets of the last one.
        assert_eq!(passes(&[0, 1, 0, 0]), [0, 1, 1, 0]);
        let max = u16::MAX;
        assert_eq!(passes(&[max, max, 3, 3, max]), [0, max, max, 3, 3]);
    }
}
