use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use layercast_fec::Scheme;
use layercast_multicast::{Bits, Geometry, Rebuilder, Rebuilt, Store, Verdict};
use layercast_wire::Payload;
use layercast_wire::multicast::{Object, Reason};

use super::digest::{PIECE, TreeDigest, digest_of};
use super::name::FileName;
use super::partial::Partial;

/// Octets of parities that are kept in memory: many blocks wait for a last one at once where much is lost.
const PARITIES: usize = 64 << 20;

/// Where received files go.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// A file of the same name and other content is replaced; if not, the new one gets a number.
    pub overwrite: bool,
    /// Larger files are refused, octets.
    pub most: u64,
}

/// A file that is received: packets go to their places in a partial file, which gets its name once its digest is
/// right.
#[derive(Debug)]
pub struct FileStore {
    folder: Folder,
    name: Option<FileName>,
    file: Option<OnDisk>,
    /// Where the whole file is.
    done: Option<PathBuf>,
    /// What the system said when something failed.
    error: Option<io::Error>,
}

/// The file and what of it is there.
#[derive(Debug)]
struct OnDisk {
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

impl FileStore {
    /// A file goes into `folder`.
    pub fn new(folder: Folder) -> FileStore {
        FileStore {
            folder,
            name: None,
            file: None,
            done: None,
            error: None,
        }
    }

    /// The name that was announced, made harmless.
    pub fn name(&self) -> Option<&FileName> {
        self.name.as_ref()
    }

    /// Where the whole file is.
    pub fn done(&self) -> Option<&Path> {
        self.done.as_deref()
    }

    /// Why the receiver left the session, if it was the system.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Hashes the next piece that is there; `false`: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hash_one(&mut self) -> io::Result<bool> {
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        let Some(piece) = file.ready.pop() else {
            return Ok(false);
        };
        let (from, to) = file.tree.range(piece);
        let mut octets = vec![0; (to - from) as usize];
        file.partial.read(from, &mut octets)?;
        file.tree.put(piece, &octets);
        Ok(true)
    }

    /// Whether the content is what was announced; `None`: not all of it is hashed.
    pub fn is_right(&self) -> Option<bool> {
        let file = self.file.as_ref()?;
        Some(file.tree.digest()? == file.digest)
    }

    /// Keeps what is there for another life, if there is something new.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(file) if file.unsaved && self.done.is_none() => {
                file.unsaved = false;
                file.partial.save(&file.held)
            }
            _ => Ok(()),
        }
    }

    /// The content is right: the file gets its name, which is given back.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn finish(&mut self) -> io::Result<PathBuf> {
        if let Some(done) = &self.done {
            return Ok(done.clone());
        }
        let (Some(file), Some(name)) = (&mut self.file, &self.name) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let path = free_name(&self.folder, &name.name)?;
        file.partial.finish(&path)?;
        self.done = Some(path.clone());
        Ok(path)
    }

    fn open(&mut self, object: &Object, geometry: &Geometry) -> io::Result<Bits> {
        let name = FileName::from_object(&object.name);
        fs::create_dir_all(&self.folder.path)?;
        let there = self.folder.path.join(&name.name);
        if is_it(&there, object) {
            // It was received in another life, and the sender does not know.
            self.done = Some(there);
            return Ok(full(geometry.packets()));
        }
        let (partial, held) = Partial::open(&self.folder.path, &name.name, object, geometry)?;
        let tree = TreeDigest::new(object.size);
        let lacks: Vec<u32> = (0..tree.len())
            .map(|piece| {
                let (from, to) = packets_in(&tree, piece, geometry);
                held.gaps(from, to).map(|(a, b)| (b - a) as u32).sum()
            })
            .collect();
        let ready = (0..lacks.len()).rev().filter(|&piece| lacks[piece] == 0);
        let ready = ready.collect();
        self.file = Some(OnDisk {
            partial,
            digest: object.digest,
            geometry: *geometry,
            held: held.clone(),
            tree,
            lacks,
            ready,
            parities: Scheme::from_number(object.scheme).map(|it| Rebuilder::new(it, PARITIES)),
            unsaved: true,
        });
        Ok(held)
    }

    /// Runs `what`, keeps the error and gives the reason for the sender.
    fn tried<T>(&mut self, what: impl FnOnce(&mut Self) -> io::Result<T>) -> Result<T, Reason> {
        what(self).map_err(|error| {
            self.error = Some(error);
            Reason::NoRoom
        })
    }
}

impl Store for FileStore {
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        self.name = Some(FileName::from_object(&object.name));
        if object.scheme != 0 {
            let scheme = Scheme::from_number(object.scheme).ok_or(Reason::Unsupported)?;
            let n = usize::from(geometry.block);
            scheme.check(n, 0).map_err(|_| Reason::Unsupported)?;
        }
        self.tried(|store| {
            let free = rustix::fs::statvfs(&store.folder.path)
                .map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
            if object.size > store.folder.most.min(free) {
                let what = format!("{} octets are too many for {free} free", object.size);
                return Err(io::Error::new(io::ErrorKind::StorageFull, what));
            }
            store.open(object, geometry)
        })
    }

    fn packet(
        &mut self,
        geometry: &Geometry,
        number: u64,
        payload: &Payload,
    ) -> Result<(), Reason> {
        let zeros;
        let octets = match payload {
            Payload::Bytes(bytes) => &bytes[..],
            Payload::Zeros(len) => {
                zeros = vec![0; *len as usize];
                &zeros
            }
        };
        self.tried(|store| {
            let file = store.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
            file.partial.write(geometry.offset(number), octets)?;
            file.came(number);
            Ok(())
        })
    }

    fn parity(
        &mut self,
        _: &Geometry,
        block: u32,
        index: u32,
        payload: &Payload,
    ) -> Result<(), Reason> {
        if let Some(file) = &mut self.file {
            file.keep(block, index, payload);
        }
        Ok(())
    }

    fn rebuild(&mut self, geometry: &Geometry, block: u32, held: &Bits) -> Result<Rebuilt, Reason> {
        self.tried(|store| {
            let file = store.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
            file.rebuild(geometry, block, held)
        })
    }

    fn verify(&mut self) -> Verdict {
        match (&self.done, self.is_right()) {
            (Some(_), _) | (None, Some(true)) => Verdict::Same,
            (None, Some(false)) => Verdict::Different,
            (None, None) => Verdict::Later,
        }
    }

    fn clear(&mut self) {
        if let Some(file) = &mut self.file {
            file.clear();
        }
        self.done = None;
    }
}

impl OnDisk {
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
    fn keep(&mut self, block: u32, index: u32, parity: &Payload) {
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

    fn rebuild(&mut self, geometry: &Geometry, block: u32, held: &Bits) -> io::Result<Rebuilt> {
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

    fn clear(&mut self) {
        self.held = Bits::new(self.geometry.packets());
        self.tree = TreeDigest::new(self.geometry.size);
        self.lacks = (0..self.tree.len())
            .map(|piece| {
                let (from, to) = packets_in(&self.tree, piece, &self.geometry);
                (to - from) as u32
            })
            .collect();
        // Of an empty file the only piece is there.
        self.ready = (0..self.lacks.len())
            .filter(|&piece| self.lacks[piece] == 0)
            .collect();
        if let Some(parities) = &mut self.parities {
            parities.clear();
        }
        self.unsaved = true;
    }
}

/// The packets of which a piece has octets.
fn packets_in(tree: &TreeDigest, piece: usize, geometry: &Geometry) -> (u64, u64) {
    let (from, to) = tree.range(piece);
    let size = u64::from(geometry.packet_size);
    (from / size, to.div_ceil(size))
}

fn full(packets: u64) -> Bits {
    let mut bits = Bits::new(packets);
    (0..packets).for_each(|number| {
        bits.set(number);
    });
    bits
}

/// Whether a file has the content of an object.
fn is_it(path: &Path, object: &Object) -> bool {
    let same = || -> io::Result<bool> {
        let about = fs::symlink_metadata(path)?;
        Ok(about.is_file()
            && about.len() == object.size
            && digest_of(File::open(path)?)? == object.digest)
    };
    same().unwrap_or(false)
}

/// The name itself if it is free or may be replaced, or one with a number.
fn free_name(folder: &Folder, name: &str) -> io::Result<PathBuf> {
    let path = folder.path.join(name);
    if folder.overwrite || fs::symlink_metadata(&path).is_err() {
        return Ok(path);
    }
    let (stem, end) = match name.rsplit_once('.') {
        Some((stem, end)) => (stem, format!(".{end}")),
        None => (name, String::new()),
    };
    (1..1_000)
        .map(|number| folder.path.join(format!("{stem}~{number}{end}")))
        .find(|path| fs::symlink_metadata(path).is_err())
        .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes what can be, and looks.
    fn looked_at(store: &mut FileStore) -> Option<bool> {
        while store.hash_one().unwrap() {}
        store.is_right()
    }

    #[test]
    fn an_empty_file_with_a_wrong_digest_is_wrong_however_often_it_is_looked_at() {
        let folder = Folder {
            path: std::env::temp_dir().join(format!("layercast-empty-{}", std::process::id())),
            overwrite: false,
            most: u64::MAX,
        };
        let object = Object {
            size: 0,
            block: 100,
            scheme: Scheme::ReedSolomon.number(),
            digest: [7; 32],
            name: "nothing".into(),
        };
        let geometry = Geometry::of(&object, 1_400).unwrap();
        let mut store = FileStore::new(folder.clone());
        store.begin(&object, &geometry).unwrap();
        assert_eq!(looked_at(&mut store), Some(false));
        store.clear();
        assert_eq!(looked_at(&mut store), Some(false));
        fs::remove_dir_all(folder.path).unwrap();
    }
}
