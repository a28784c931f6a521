use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::CallId;
use crate::Vcid;

/// The circuit numbers of one direction of a link, from 1 up.
///
/// A released number is not reused for a while: cells of the old circuit may still be in transit and would be taken
/// for cells of the new one. Low numbers are used first, so that tables stay short.
#[derive(Debug)]
pub(super) struct Vcids {
    limit: u16,
    rest: Span,
    /// The call of each number; `[0]` is that of number 1.
    calls: Vec<Option<CallId>>,
    /// Released numbers, with the time from which they may be reused.
    resting: VecDeque<(Time, Vcid)>,
    used: usize,
}

impl Vcids {
    pub(super) fn new(limit: u16, rest: Span) -> Vcids {
        Vcids {
            limit,
            rest,
            calls: Vec::new(),
            resting: VecDeque::new(),
            used: 0,
        }
    }

    /// Allocates a free number.
    pub(super) fn take(&mut self, now: Time, call: CallId) -> Option<Vcid> {
        let vc = match self.resting.front() {
            Some(&(end, vc)) if end <= now => {
                self.resting.pop_front();
                vc
            }
            _ if self.calls.len() < usize::from(self.limit) => {
                self.calls.push(None);
                Vcid(self.calls.len() as u16)
            }
            _ => return None,
        };
        self.calls[usize::from(vc.0) - 1] = Some(call);
        self.used += 1;
        Some(vc)
    }

    /// Releases a number; `tired` if cells may have used it.
    pub(super) fn give_back(&mut self, now: Time, vc: Vcid, tired: bool) {
        if self.calls[usize::from(vc.0) - 1].take().is_some() {
            self.used -= 1;
            if tired {
                self.resting.push_back((now.saturating_add(self.rest), vc));
            } else {
                self.resting.push_front((now, vc));
            }
        }
    }

    /// The call with this number.
    pub(super) fn call(&self, vc: Vcid) -> Option<CallId> {
        let index = usize::from(vc.0).checked_sub(1)?;
        self.calls.get(index).copied().flatten()
    }

    /// Numbers in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AtmAddress;

    #[test]
    fn numbers_rest_before_they_are_used_again() {
        let mut vcids = Vcids::new(3, Span::from_secs(5));
        let call = CallId {
            origin: AtmAddress(1),
            number: 0,
        };
        let take = |vcids: &mut Vcids, s| {
            vcids
                .take(Time::ZERO + Span::from_secs(s), call)
                .map(|vc| vc.0)
        };
        assert_eq!(take(&mut vcids, 0), Some(1));
        assert_eq!(take(&mut vcids, 0), Some(2));
        vcids.give_back(Time::ZERO, Vcid(1), true);
        vcids.give_back(Time::ZERO, Vcid(1), true);
        assert_eq!((vcids.used(), vcids.call(Vcid(1))), (1, None));
        assert_eq!(take(&mut vcids, 4), Some(3), "1 is still resting");
        assert_eq!(take(&mut vcids, 4), None);
        assert_eq!(take(&mut vcids, 5), Some(1));
        // A number that no cell has used can be reused immediately.
        vcids.give_back(Time::ZERO, Vcid(2), false);
        assert_eq!(take(&mut vcids, 6), Some(2));
        assert_eq!((vcids.call(Vcid(0)), vcids.call(Vcid(9))), (None, None));
    }
}
