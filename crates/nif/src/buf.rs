use std::ops::Range;
use std::sync::PoisonError;

use layercast_core::{Span, Time};
use thiserror::Error;

use crate::Pool;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};

/// Where buffers come from, and what became of them.
///
/// A driver and its clients share one. It bounds the octets of all buffers, and counts those that were dropped
/// instead of returned.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    octets: AtomicU64,
    alive: AtomicU64,
    leaked: AtomicU64,
    /// What a panic dropped; the driver gives it to the client that caused the panic.
    salvaged: Mutex<Vec<Storage>>,
}

/// No buffer could be made, or made contiguous: the octets of the memory are used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{asked} octets asked for, {free} of {limit} free")]
pub struct OutOfMemory {
    /// Octets that were needed.
    pub asked: u64,
    /// Octets that were free.
    pub free: u64,
    /// Octets of the memory.
    pub limit: u64,
}

/// A length that a buffer cannot have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{asked} octets do not fit into a buffer of {max}")]
pub struct TooLong {
    /// Octets that were asked for.
    pub asked: usize,
    /// The longest packet of the buffer.
    pub max: usize,
}

/// A packet buffer. It has one owner at any instant: it can be moved, not copied.
///
/// Dropping it outside of a pool is an error: [`Memory::leaked`] counts it, and in a debug build it panics. Its owner
/// ends it with [`free`](Self::free).
///
/// ```
/// use layercast_nif::Memory;
///
/// let memory = Memory::new(1 << 20);
/// let mut packet = memory.scattered(&[4, 6]).unwrap();
/// packet.copy_in(b"datagram").unwrap();
/// assert_eq!(packet.segments().collect::<Vec<_>>(), [&b"data"[..], b"gram"]);
/// assert_eq!(packet.data(), None);
/// packet.make_contiguous().unwrap();
/// assert_eq!(packet.data(), Some(&b"datagram"[..]));
/// packet.free();
/// assert_eq!((memory.alive(), memory.leaked()), (0, 0));
/// ```
#[derive(Debug)]
#[must_use = "a dropped buffer is lost to its owner"]
pub struct Buf {
    /// None only while it is dropped.
    storage: Option<Storage>,
    memory: Memory,
}

#[derive(Debug)]
struct Storage {
    regions: Vec<Box<[u8]>>,
    max_len: usize,
    /// Where the packet begins; not at 0 only in a buffer of one region of which it is a part.
    start: usize,
    cur_len: usize,
    /// The adapter can reach it.
    is_dma: bool,
    /// When a client received it.
    received: Option<Time>,
    /// How long the client held it.
    held: Option<Span>,
}

impl Memory {
    /// Memory of `limit` octets.
    pub fn new(limit: u64) -> Memory {
        Memory(Arc::new(Shared {
            limit,
            octets: AtomicU64::new(0),
            alive: AtomicU64::new(0),
            leaked: AtomicU64::new(0),
            salvaged: Mutex::new(Vec::new()),
        }))
    }

    /// An empty buffer of one region that the adapter cannot reach.
    pub fn linear(&self, max_len: usize) -> Result<Buf, OutOfMemory> {
        self.scattered(&[max_len])
    }

    /// An empty buffer of one region that the adapter can reach: a driver can put it in its ring.
    pub fn dma(&self, max_len: usize) -> Result<Buf, OutOfMemory> {
        let mut buf = self.linear(max_len)?;
        buf.storage_mut().is_dma = true;
        Ok(buf)
    }

    /// An empty buffer of several regions, for packets that are gathered as they are sent.
    pub fn scattered(&self, lens: &[usize]) -> Result<Buf, OutOfMemory> {
        let max_len = lens
            .iter()
            .fold(0_usize, |sum, len| sum.saturating_add(*len));
        self.take(max_len as u64)?;
        self.0.alive.fetch_add(1, Ordering::Relaxed);
        let region = |len: &usize| vec![0; *len].into_boxed_slice();
        Ok(Buf {
            storage: Some(Storage {
                regions: lens.iter().map(region).collect(),
                max_len,
                start: 0,
                cur_len: 0,
                is_dma: false,
                received: None,
                held: None,
            }),
            memory: self.clone(),
        })
    }

    /// Buffers that exist.
    pub fn alive(&self) -> u64 {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// Octets of the buffers that exist: their true size, not that of the packets in them.
    pub fn octets(&self) -> u64 {
        self.0.octets.load(Ordering::Relaxed)
    }

    /// Buffers that were dropped outside of a pool.
    pub fn leaked(&self) -> u64 {
        self.0.leaked.load(Ordering::Relaxed)
    }

    /// What a panic dropped since the last call.
    pub(crate) fn salvage(&self, into: &mut Pool) {
        let mut salvaged = self.salvaged();
        into.extend(salvaged.drain(..).map(|storage| Buf {
            storage: Some(storage),
            memory: self.clone(),
        }));
    }

    fn salvaged(&self) -> MutexGuard<'_, Vec<Storage>> {
        self.0
            .salvaged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, asked: u64) -> Result<(), OutOfMemory> {
        let limit = self.0.limit;
        let more = |used: u64| used.checked_add(asked).filter(|sum| *sum <= limit);
        let order = Ordering::Relaxed;
        match self.0.octets.fetch_update(order, order, more) {
            Ok(_) => Ok(()),
            Err(used) => Err(OutOfMemory {
                asked,
                free: limit.saturating_sub(used),
                limit,
            }),
        }
    }

    fn give(&self, octets: u64) {
        self.0.octets.fetch_sub(octets, Ordering::Relaxed);
    }
}

impl Buf {
    /// The longest packet that it can hold; it never changes.
    pub fn max_len(&self) -> usize {
        self.storage().max_len
    }

    /// Octets of the packet in it.
    pub fn cur_len(&self) -> usize {
        self.storage().cur_len
    }

    /// Sets the length of the packet.
    pub fn set_len(&mut self, len: usize) -> Result<(), TooLong> {
        let max = self.max_len();
        if len > max {
            return Err(TooLong { asked: len, max });
        }
        let storage = self.storage_mut();
        (storage.start, storage.cur_len) = (0, len);
        Ok(())
    }

    /// Makes a part of the space of its first region the packet.
    pub(crate) fn set_part(&mut self, part: Range<usize>) -> Result<(), TooLong> {
        let max = self.space_mut().len();
        if part.end > max || part.start > part.end {
            let asked = part.end;
            return Err(TooLong { asked, max });
        }
        let storage = self.storage_mut();
        (storage.start, storage.cur_len) = (part.start, part.len());
        Ok(())
    }

    /// Copies as much of the packet as fits to `out`; gives how much.
    pub fn copy_out(&self, out: &mut [u8]) -> usize {
        let mut at = 0;
        for segment in self.segments() {
            let count = segment.len().min(out.len() - at);
            out[at..at + count].copy_from_slice(&segment[..count]);
            at += count;
        }
        at
    }

    /// Makes `data` the packet.
    pub fn copy_in(&mut self, data: &[u8]) -> Result<(), TooLong> {
        self.set_len(data.len())?;
        let mut rest = data;
        for region in &mut self.storage_mut().regions {
            let (now, later) = rest.split_at(region.len().min(rest.len()));
            region[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    /// Makes the packet of `other` the packet, segment by segment.
    pub(crate) fn copy_from(&mut self, other: &Buf) -> Result<(), TooLong> {
        match other.data() {
            Some(data) => self.copy_in(data),
            None => {
                let mut whole = vec![0; other.cur_len()];
                other.copy_out(&mut whole);
                self.copy_in(&whole)
            }
        }
    }

    /// The packet, as the contiguous parts in which it lies.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.cur_len();
        let mut start = self.storage().start;
        self.storage().regions.iter().map_while(move |region| {
            let region = &region[std::mem::take(&mut start)..];
            let count = region.len().min(rest);
            rest -= count;
            (count > 0).then(|| &region[..count])
        })
    }

    /// Whether it is one region.
    pub fn is_contiguous(&self) -> bool {
        self.storage().regions.len() <= 1
    }

    /// The packet, if it is contiguous.
    pub fn data(&self) -> Option<&[u8]> {
        let storage = self.storage();
        match &storage.regions[..] {
            [] => Some(&[]),
            [region] => Some(&region[storage.start..storage.start + storage.cur_len]),
            _ => None,
        }
    }

    /// The packet, if it is contiguous, to be changed.
    pub fn data_mut(&mut self) -> Option<&mut [u8]> {
        let Storage { start, cur_len, .. } = *self.storage();
        self.is_contiguous()
            .then(|| self.space_mut().get_mut(start..start + cur_len))
            .flatten()
    }

    /// The space of its first region, whatever the length of the packet.
    pub(crate) fn space_mut(&mut self) -> &mut [u8] {
        match &mut self.storage_mut().regions[..] {
            [region, ..] => region,
            [] => &mut [],
        }
    }

    /// Makes it one region. It takes other memory; the packet is copied, if there is one. On an error nothing changes.
    pub fn make_contiguous(&mut self) -> Result<(), OutOfMemory> {
        if self.is_contiguous() {
            return Ok(());
        }
        let octets = self.max_len() as u64;
        // Both exist for a moment.
        self.memory.take(octets)?;
        let mut whole = vec![0; self.max_len()].into_boxed_slice();
        self.copy_out(&mut whole);
        self.storage_mut().regions = vec![whole];
        self.memory.give(octets);
        Ok(())
    }

    /// Whether the adapter can reach it.
    pub fn is_dma(&self) -> bool {
        self.storage().is_dma
    }

    /// Ends it.
    pub fn free(mut self) {
        self.end();
    }

    /// Its client is done with the packet: it is empty, and can be given for the next one.
    pub fn empty(&mut self, now: Time) {
        let storage = self.storage_mut();
        (storage.start, storage.cur_len) = (0, 0);
        if let Some(received) = storage.received.take() {
            storage.held = Some(now.since(received));
        }
    }

    /// Notes when a client received it.
    pub(crate) fn note_received(&mut self, now: Time) {
        self.storage_mut().received = Some(now);
    }

    /// How long its client held it, if it received it since the last call.
    pub(crate) fn take_held(&mut self) -> Option<Span> {
        self.storage_mut().held.take()
    }

    fn end(&mut self) {
        if let Some(storage) = self.storage.take() {
            self.memory.give(storage.max_len as u64);
            self.memory.0.alive.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn storage(&self) -> &Storage {
        self.storage
            .as_ref()
            .expect("it is taken only while the buffer is dropped")
    }

    fn storage_mut(&mut self) -> &mut Storage {
        self.storage
            .as_mut()
            .expect("it is taken only while the buffer is dropped")
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // A client panicked: what it held for the moment is neither lost nor its fault twice.
        if std::thread::panicking() {
            if let Some(storage) = self.storage.take() {
                self.memory.salvaged().push(storage);
            }
        } else if self.storage.is_some() {
            self.end();
            self.memory.0.leaked.fetch_add(1, Ordering::Relaxed);
            #[cfg(debug_assertions)]
            panic!("a buffer was dropped outside of a pool");
        }
    }
}
