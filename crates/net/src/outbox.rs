use std::net::{IpAddr, SocketAddr};

/// Largest batch handed to the kernel in one call, in bytes: what fits a 16-bit UDP length.
const MAX_SEND: usize = 65_000;
/// Most datagrams in such a batch (`UDP_MAX_SEGMENTS` of older kernels).
const MAX_SEGMENTS: usize = 64;
/// Most bytes that wait for a kernel that takes no more.
const MAX_WAITING: usize = 8 << 20;

/// Datagrams to one destination on their way to the kernel; neighbours of one size and one
/// congestion mark go in one call.
#[derive(Debug)]
pub struct Outbox {
    to: SocketAddr,
    /// The address of this host that they are sent from, where the socket has several.
    from: Option<IpAddr>,
    bytes: Vec<u8>,
    batches: Vec<Batch>,
    /// Batches, and their bytes, that the kernel has already taken.
    taken: (usize, usize),
}

/// Datagrams of one size, the last one possibly shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub bytes: usize,
    pub segment: usize,
    pub count: usize,
    pub congestion: bool,
}

impl Outbox {
    /// An empty box for datagrams to `to`.
    pub fn new(to: SocketAddr) -> Outbox {
        Outbox {
            to,
            from: None,
            bytes: Vec::new(),
            batches: Vec::new(),
            taken: (0, 0),
        }
    }

    /// Sends from that address of this host from now on. It has an effect on a socket that is bound to all
    /// addresses; with `None` the system chooses one by the route.
    pub fn send_from(&mut self, from: Option<IpAddr>) {
        self.from = from;
    }

    /// Where its datagrams go.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// The address of this host that its datagrams are sent from; `None`: the system chooses.
    pub fn from(&self) -> Option<IpAddr> {
        self.from
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        debug_assert!(self.taken.1 <= self.bytes.len());
        self.bytes.len() - self.taken.1
    }

    /// Sends to another address from now on; `false` if something for the old one still waits.
    pub fn redirect(&mut self, to: SocketAddr) -> bool {
        let free = self.batches.is_empty() || to == self.to;
        if free {
            self.to = to;
        }
        free
    }

    /// Adds the datagram of `len` bytes that `write` appends; `false` if the kernel is congested and the queue
    /// is full.
    pub fn push(&mut self, len: usize, congestion: bool, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.bytes.len() + len > MAX_WAITING {
            return false;
        }
        let open = self.taken.0 < self.batches.len();
        match self.batches.last_mut().filter(|_| open) {
            Some(batch) if batch.takes(len, congestion) => {
                batch.bytes += len;
                batch.count += 1;
            }
            _ => self.batches.push(Batch {
                bytes: len,
                segment: len,
                count: 1,
                congestion,
            }),
        }
        let before = self.bytes.len();
        write(&mut self.bytes);
        debug_assert_eq!(
            self.bytes.len() - before,
            len,
            "the writer appends the length that it announces"
        );
        true
    }

    /// What to hand to the kernel next.
    pub(crate) fn next(&self) -> Option<(Batch, &[u8])> {
        let (index, at) = self.taken;
        let batch = *self.batches.get(index)?;
        Some((batch, self.bytes.get(at..at + batch.bytes)?))
    }

    /// The kernel took what was [next](Self::next).
    pub(crate) fn pop(&mut self) {
        if let Some(batch) = self.batches.get(self.taken.0) {
            self.taken = (self.taken.0 + 1, self.taken.1 + batch.bytes);
        }
        if self.taken.0 >= self.batches.len() {
            self.bytes.clear();
            self.batches.clear();
            self.taken = (0, 0);
        }
    }

    /// The kernel took the first datagram of what was [next](Self::next).
    pub(crate) fn pop_first(&mut self) {
        let Some(batch) = self.batches.get_mut(self.taken.0) else {
            return;
        };
        let len = batch.segment.min(batch.bytes);
        batch.bytes -= len;
        batch.count = batch.count.saturating_sub(1);
        self.taken.1 += len;
        if batch.bytes == 0 {
            self.pop();
        }
    }
}

impl Batch {
    /// Whether a datagram of `len` bytes may go in the same call.
    pub fn takes(&self, len: usize, congestion: bool) -> bool {
        let short_last = self.bytes < self.segment * self.count;
        !short_last
            && self.congestion == congestion
            && len <= self.segment
            && self.count < MAX_SEGMENTS
            && self.bytes + len <= MAX_SEND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(datagrams: &[(usize, bool)]) -> Vec<usize> {
        let mut outbox = Outbox::new("127.0.0.1:9".parse().unwrap());
        for (len, congestion) in datagrams {
            assert!(outbox.push(*len, *congestion, |out| out.resize(out.len() + len, 0)));
        }
        let mut counts = Vec::new();
        while let Some((batch, bytes)) = outbox.next() {
            assert_eq!(batch.bytes, bytes.len());
            counts.push(batch.count);
            outbox.pop();
        }
        assert!(outbox.bytes.is_empty());
        counts
    }

    #[test]
    fn equal_datagrams_and_one_shorter_go_together() {
        assert_eq!(counts(&[(100, false), (100, false), (7, false)]), [3]);
        assert_eq!(counts(&[(100, false), (7, false), (7, false)]), [2, 1]);
        assert_eq!(counts(&[(100, false), (101, false)]), [1, 1]);
        assert_eq!(counts(&[(100, false), (100, true)]), [1, 1]);
        assert_eq!(counts(&[(10, false); 70]), [64, 6]);
        assert_eq!(counts(&[(1_200, false); 60]), [54, 6]);
    }

    #[test]
    fn an_outbox_turns_to_another_address_when_it_is_empty() {
        let (one, other) = (
            "127.0.0.1:9".parse().unwrap(),
            "127.0.0.1:8".parse().unwrap(),
        );
        let mut outbox = Outbox::new(one);
        assert!(outbox.push(1, false, |out| out.push(7)));
        assert!(outbox.redirect(one) && !outbox.redirect(other));
        assert_eq!((outbox.waiting(), outbox.to()), (1, one));
        outbox.pop();
        assert!(outbox.redirect(other));
        assert_eq!((outbox.waiting(), outbox.to()), (0, other));
    }

    #[test]
    fn datagrams_can_be_taken_one_by_one() {
        let mut outbox = Outbox::new("127.0.0.1:9".parse().unwrap());
        for len in [3_usize, 3, 2, 5] {
            let fill = len as u8;
            assert!(outbox.push(len, false, |out| out.resize(out.len() + len, fill)));
        }
        let mut seen = Vec::new();
        while let Some((batch, bytes)) = outbox.next() {
            seen.push(bytes[..batch.segment.min(bytes.len())].to_vec());
            outbox.pop_first();
        }
        assert_eq!(seen, [vec![3; 3], vec![3; 3], vec![2; 2], vec![5; 5]]);
        assert_eq!(outbox.waiting(), 0);
    }

    #[test]
    fn a_kernel_that_takes_nothing_does_not_cost_all_memory() {
        let mut outbox = Outbox::new("127.0.0.1:9".parse().unwrap());
        let push =
            |outbox: &mut Outbox| outbox.push(1_000, false, |out| out.resize(out.len() + 1_000, 0));
        let taken = (0..20_000).filter(|_| push(&mut outbox)).count();
        assert_eq!(taken, MAX_WAITING / 1_000);
    }
}
