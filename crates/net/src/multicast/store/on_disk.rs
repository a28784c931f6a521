use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use layercast_fec::Scheme;
use layercast_multicast::{Bits, Geometry, Rebuilder, Rebuilt};
use layercast_wire::Payload;
use layercast_wire::multicast::Object;

use crate::multicast::digest::{PIECE, TreeDigest};
use crate::multicast::partial::Partial;

/// Octets of parities that are kept in memory: many blocks wait for a last one at a time where much is lost.
const PARITIES: usize = 64 << 20;

/// A partial file, what of it is there, and what was hashed.
#[derive(Debug)]
pub struct OnDisk {
    partial: Partial,
    digest: [u8; 32],
    geometry: Geometry,
    tree: TreeDigest,
    /// Packets of each piece of the tree that are there.
    came: Vec<u32>,
    /// Pieces that are there and not hashed yet.
    ready: Vec<u64>,
    parities: Option<Rebuilder>,
    /// Something came since it was saved.
    unsaved: bool,
}

impl OnDisk {
    /// The partial file of an object, and what of it is there already. Creates nothing.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn open(
        folder: &Path,
        name: &str,
        object: &Object,
        geometry: &Geometry,
    ) -> io::Result<(OnDisk, Bits)> {
        let (partial, held) = Partial::open(folder, name, object, geometry)?;
        let mut file = OnDisk::new(partial, object, geometry);
        file.count(&held);
        Ok((file, held))
    }

    /// The same in memory only.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn in_memory(object: &Object, geometry: &Geometry) -> io::Result<OnDisk> {
        let partial = Partial::in_memory(object, geometry)?;
        let mut file = OnDisk::new(partial, object, geometry);
        file.count(&Bits::new(geometry.packets()));
        Ok(file)
    }

    fn new(partial: Partial, object: &Object, geometry: &Geometry) -> OnDisk {
        OnDisk {
            partial,
            digest: object.digest,
            geometry: *geometry,
            came: Vec::new(),
            ready: Vec::new(),
            tree: TreeDigest::new(object.size),
            parities: Scheme::from_number(object.scheme).map(|it| Rebuilder::new(it, PARITIES)),
            unsaved: false,
        }
    }

    /// Octets of the disk that the partial file takes already.
    pub fn allocated(&self) -> u64 {
        self.partial.allocated()
    }

    /// All of it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_all(&mut self) -> io::Result<Vec<u8>> {
        let mut octets = vec![0; usize::try_from(self.geometry.size).unwrap_or(0)];
        self.partial.read(0, &mut octets)?;
        Ok(octets)
    }

    /// A packet came: it goes to its place.
    pub fn put(&mut self, number: u64, payload: &Payload) -> io::Result<()> {
        let at = self.geometry.offset(number);
        payload.append_to(self.partial.room(at, payload.len())?);
        self.came(number);
        Ok(())
    }

    /// Hashes the next piece that is there; `false`: there is none.
    pub fn hash_one(&mut self) -> io::Result<bool> {
        let Some(piece) = self.ready.pop() else {
            return Ok(false);
        };
        let (from, to) = self.tree.range(piece);
        debug_assert!(to - from <= PIECE);
        let mut octets = vec![0; (to - from) as usize];
        self.partial.read(from, &mut octets)?;
        self.tree.put(piece, &octets);
        Ok(true)
    }

    /// Whether the content is what was announced; `None`: not all of it is hashed.
    pub fn is_right(&self) -> Option<bool> {
        Some(self.tree.digest()? == self.digest)
    }

    /// Keeps for another life what is there, if there is something new.
    pub fn save(&mut self, held: &Bits) -> io::Result<()> {
        match core::mem::take(&mut self.unsaved) {
            true => self.partial.save(held),
            false => Ok(()),
        }
    }

    /// It is whole: `put` gives it its name.
    pub fn finish<T>(&mut self, put: impl FnOnce(&File, &Path) -> io::Result<T>) -> io::Result<T> {
        self.partial.finish(put)
    }

    /// A packet is there that was not.
    fn came(&mut self, number: u64) {
        self.unsaved = true;
        let from = self.geometry.offset(number);
        let to = from + self.geometry.len(number) as u64;
        let (first, last) = (from / PIECE, (to - 1) / PIECE);
        for piece in first..=last {
            let all = packets_in(&self.tree, piece, &self.geometry);
            let came = &mut self.came[piece as usize];
            *came += 1;
            debug_assert!(u64::from(*came) <= all.1 - all.0, "each packet comes once");
            if u64::from(*came) == all.1 - all.0 {
                self.ready.push(piece);
            }
        }
    }

    /// Keeps a parity while there is room; one that is not kept is asked for again.
    pub fn keep(&mut self, block: u32, index: u32, parity: &Payload) {
        if let Some(parities) = &mut self.parities {
            parities.put(block, index, parity);
        }
    }

    /// A block is whole: its parities are not needed any more.
    pub fn whole(&mut self, block: u32) {
        if let Some(parities) = &mut self.parities {
            parities.forget(block);
        }
    }

    /// Rebuilds what is missing of a block, if enough came.
    pub fn rebuild(&mut self, geometry: &Geometry, block: u32, held: &Bits) -> io::Result<Rebuilt> {
        let Some(parities) = &mut self.parities else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (first, end) = geometry.range(block);
        let from = geometry.offset(first);
        let octets = geometry.offset(end).min(geometry.size) - from;
        let mut bytes = vec![0; octets as usize];
        self.partial.read(from, &mut bytes)?;
        let bytes = Bytes::from(bytes);
        let partial = &mut self.partial;
        let mut came = Vec::new();
        let rebuilt = parities.rebuild(
            geometry,
            block,
            held,
            |number| {
                let start = (geometry.offset(number) - from) as usize;
                Ok(bytes.slice(start..start + geometry.len(number)))
            },
            |number, payload| {
                came.push(number);
                partial.write(geometry.offset(number), payload)
            },
        )?;
        for number in came {
            self.came(number);
        }
        Ok(rebuilt)
    }

    /// Forgets all that is there.
    pub fn clear(&mut self) {
        self.tree = TreeDigest::new(self.geometry.size);
        self.count(&Bits::new(self.geometry.packets()));
        if let Some(parities) = &mut self.parities {
            parities.clear();
        }
        self.unsaved = true;
    }

    /// Counts the packets that are there, of each piece.
    fn count(&mut self, held: &Bits) {
        // Zeros take no memory until they are written to.
        self.came = vec![0; self.tree.len() as usize];
        self.ready.clear();
        for (from, to) in held.runs(0, held.len()) {
            let first = self.geometry.offset(from) / PIECE;
            let end = self.geometry.offset(to).min(self.geometry.size);
            for piece in first..end.div_ceil(PIECE) {
                let (a, b) = packets_in(&self.tree, piece, &self.geometry);
                let there = b.min(to).saturating_sub(a.max(from));
                let came = &mut self.came[piece as usize];
                *came += there as u32;
                if u64::from(*came) == b - a {
                    self.ready.push(piece);
                }
            }
        }
        if self.geometry.is_empty() {
            self.ready.push(0);
        }
        // The first is hashed first.
        self.ready.reverse();
    }
}

/// The packets of which a piece has octets.
fn packets_in(tree: &TreeDigest, piece: u64, geometry: &Geometry) -> (u64, u64) {
    let (from, to) = tree.range(piece);
    let size = u64::from(geometry.packet_size);
    (from / size, to.div_ceil(size))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use layercast_core::{Off, Time};
    use layercast_multicast::{Peer, Receiver, ReceiverConfig, VirtualStore};
    use layercast_wire::multicast::{Body, Content, MemberId, Open, Packet, Terms};

    use super::*;

    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4_096
    }

    #[test]
    fn a_terabyte_is_answered_at_once_and_takes_little_memory() {
        let object = Object {
            size: 1_000_000_000_000,
            block: 256,
            scheme: Scheme::ReedSolomon.number(),
            digest: [7; 32],
            name: "x".into(),
        };
        let open = Open {
            stamp: 1,
            packet_size: 1_400,
            min_release: 0,
            terms: Terms {
                content: Content::Counts,
                in_order: false,
                unasked: false,
                goodbye: false,
                spread_us: 0,
                data_wait_ms: 0,
                sender_wait_ms: 0,
                counters: 0,
            },
            object: Some(object),
            proof: None,
        };
        let before = resident();
        let began = Instant::now();
        let Some(object) = &open.object else {
            panic!("it has one");
        };
        // The place of the file without its content: there is not room for 1 TB everywhere.
        let geometry = Geometry::of(object, open.packet_size).unwrap();
        let folder = std::env::temp_dir().join("layercast-terabyte");
        let (file, held) = OnDisk::open(&folder, "x", object, &geometry).unwrap();
        assert_eq!(held.count(), 0);
        let mut machine = Receiver::new(ReceiverConfig::new(MemberId(1), 1), VirtualStore);
        let packet = Packet {
            session: 1,
            body: Body::Open(Box::new(open)),
        };
        machine.handle(Time::ZERO, Peer(0), &packet, &mut Off);
        let answer = machine.poll_transmit(Time::ZERO, &mut Off).unwrap();
        assert!(matches!(answer.packet.body, Body::Accept(it) if it.refuses.is_none()));
        // The processor does other things, too.
        assert!(
            began.elapsed() < Duration::from_millis(200),
            "{:?}",
            began.elapsed()
        );
        let took = resident().saturating_sub(before);
        assert!(took < 64 << 20, "{took}");
        drop(file);
    }
}
