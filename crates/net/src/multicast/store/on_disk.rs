use std::io;
use std::path::Path;

use bytes::Bytes;
use layercast_fec::Scheme;
use layercast_multicast::{Bits, Geometry, Rebuilder, Rebuilt};
use layercast_wire::Payload;
use layercast_wire::multicast::Object;

use crate::multicast::digest::{PIECE, TreeDigest};
use crate::multicast::partial::Partial;

/// Octets of parities that are kept in memory: many blocks wait for a last one at once where much is lost.
const PARITIES: usize = 64 << 20;

/// A partial file, what of it is there, and what was hashed.
#[derive(Debug)]
pub struct OnDisk {
    partial: Partial,
    digest: [u8; 32],
    geometry: Geometry,
    held: Bits,
    tree: TreeDigest,
    /// Packets that each piece of the tree still lacks.
    lacks: Vec<u32>,
    /// Pieces that are there and not hashed yet.
    ready: Vec<usize>,
    parities: Option<Rebuilder>,
    /// Something came since it was saved.
    unsaved: bool,
}

impl OnDisk {
    /// The partial file of an object, and what of it is there already.
    ///
    /// # Errors
    /// It cannot be made or read.
    pub fn open(
        folder: &Path,
        name: &str,
        object: &Object,
        geometry: &Geometry,
    ) -> io::Result<(OnDisk, Bits)> {
        let (partial, held) = Partial::open(folder, name, object, geometry)?;
        let tree = TreeDigest::new(object.size);
        let (lacks, ready) = lacking(&held, &tree, geometry);
        let file = OnDisk {
            partial,
            digest: object.digest,
            geometry: *geometry,
            held: held.clone(),
            tree,
            lacks,
            ready,
            parities: Scheme::from_number(object.scheme).map(|it| Rebuilder::new(it, PARITIES)),
            unsaved: true,
        };
        Ok((file, held))
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
        let mut octets = vec![0; (to - from) as usize];
        self.partial.read(from, &mut octets)?;
        self.tree.put(piece, &octets);
        Ok(true)
    }

    /// Whether the content is what was announced; `None`: not all of it is hashed.
    pub fn is_right(&self) -> Option<bool> {
        Some(self.tree.digest()? == self.digest)
    }

    /// Keeps what is there for another life, if there is something new.
    pub fn save(&mut self) -> io::Result<()> {
        match core::mem::take(&mut self.unsaved) {
            true => self.partial.save(&self.held),
            false => Ok(()),
        }
    }

    /// It is whole: it gets its name.
    pub fn finish(&mut self, path: &Path) -> io::Result<()> {
        self.partial.finish(path)
    }

    /// A packet is there.
    fn came(&mut self, number: u64) {
        if !self.held.set(number) {
            return;
        }
        self.unsaved = true;
        let from = self.geometry.offset(number);
        let to = from + self.geometry.len(number) as u64;
        let (first, last) = (from / PIECE, (to - 1) / PIECE);
        for piece in first..=last {
            let lacks = &mut self.lacks[piece as usize];
            *lacks -= 1;
            if *lacks == 0 {
                self.ready.push(piece as usize);
            }
        }
    }

    /// Keeps a parity while there is room; one that is not kept is asked for again.
    pub fn keep(&mut self, block: u32, index: u32, parity: &Payload) {
        let Some(parities) = &mut self.parities else {
            return;
        };
        if !parities.put(block, index, parity) {
            let (geometry, held) = (self.geometry, &self.held);
            parities.retain(|block| {
                let (first, end) = geometry.range(block);
                held.next_zero(first) < end
            });
            parities.put(block, index, parity);
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
        self.held.clear();
        self.tree = TreeDigest::new(self.geometry.size);
        (self.lacks, self.ready) = lacking(&self.held, &self.tree, &self.geometry);
        if let Some(parities) = &mut self.parities {
            parities.clear();
        }
        self.unsaved = true;
    }
}

/// Packets that each piece lacks, and the pieces that lack none, the first of them last.
fn lacking(held: &Bits, tree: &TreeDigest, geometry: &Geometry) -> (Vec<u32>, Vec<usize>) {
    let lacks: Vec<u32> = (0..tree.len())
        .map(|piece| {
            let (from, to) = packets_in(tree, piece, geometry);
            held.gaps(from, to).map(|(a, b)| (b - a) as u32).sum()
        })
        .collect();
    let whole = (0..lacks.len()).rev().filter(|&piece| lacks[piece] == 0);
    let whole = whole.collect();
    (lacks, whole)
}

/// The packets of which a piece has octets.
fn packets_in(tree: &TreeDigest, piece: usize, geometry: &Geometry) -> (u64, u64) {
    let (from, to) = tree.range(piece);
    let size = u64::from(geometry.packet_size);
    (from / size, to.div_ceil(size))
}
