use std::collections::VecDeque;

use crate::Buf;

/// Buffers in the order in which they came. Dropping it ends them.
#[derive(Debug, Default)]
pub struct Pool(VecDeque<Buf>);

impl Pool {
    /// An empty pool.
    pub fn new() -> Pool {
        Pool::default()
    }

    /// Buffers in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a buffer; it is the last to be given.
    pub fn put(&mut self, buf: Buf) {
        self.0.push_back(buf);
    }

    /// Takes a buffer; it is the next to be given.
    pub fn put_first(&mut self, buf: Buf) {
        self.0.push_front(buf);
    }

    /// Gives the one that came first.
    pub fn take(&mut self) -> Option<Buf> {
        self.0.pop_front()
    }

    /// The buffer at a place, counted from the next one.
    pub fn get(&self, at: usize) -> Option<&Buf> {
        self.0.get(at)
    }

    /// The buffer at a place, to be filled or exchanged.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Buf> {
        self.0.get_mut(at)
    }

    /// All of them, to be filled or exchanged.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Buf> {
        self.0.iter_mut()
    }

    /// Takes all out.
    pub fn drain(&mut self) -> impl Iterator<Item = Buf> + '_ {
        self.0.drain(..)
    }
}

impl Extend<Buf> for Pool {
    fn extend<I: IntoIterator<Item = Buf>>(&mut self, bufs: I) {
        self.0.extend(bufs);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.drain().for_each(Buf::free);
    }
}
