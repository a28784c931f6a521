use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use blake3::Hasher;
use bytes::Bytes;
use layercast_fec::Scheme;
use layercast_multicast::{ContentError, Geometry, ParityMaker, Source};
use layercast_wire::Payload;
use layercast_wire::multicast::Object;
use layercast_wire::multicast::manifest::{Modified, Withdrawal};

use super::tree::{modified, open};

/// Packets that are read together where there are no blocks.
const READ_AHEAD: u64 = 128;
/// Octets that are read and hashed together.
const HASHED: usize = 1 << 20;

/// Why a file is not sent: the reason for receivers, and the reason for the sender's user.
#[derive(Debug)]
pub struct Unsendable {
    /// For receivers.
    pub cause: Withdrawal,
    /// For the user.
    pub why: String,
}

impl From<io::Error> for Unsendable {
    fn from(error: io::Error) -> Unsendable {
        let cause = match error.kind() {
            io::ErrorKind::NotFound => Withdrawal::Removed,
            io::ErrorKind::PermissionDenied => Withdrawal::Denied,
            io::ErrorKind::Interrupted => Withdrawal::Stopped,
            _ => Withdrawal::Unreadable,
        };
        let why = match cause {
            Withdrawal::Unreadable => error.to_string(),
            cause => cause.to_string(),
        };
        Unsendable { cause, why }
    }
}

impl Unsendable {
    fn changed() -> Unsendable {
        let cause = Withdrawal::Changed;
        Unsendable {
            cause,
            why: cause.to_string(),
        }
    }
}

/// Where the octets are.
#[derive(Debug)]
enum Octets {
    /// In a file, which has to stay as it was at this time.
    File(File, Modified),
    /// In memory.
    Memory(Bytes),
}

/// A file that is sent, read block by block, never held as a whole; or a content in memory.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    octets: Octets,
    object: Object,
    /// The packets that were read last: the first one's number, and all.
    run: (u64, Vec<Bytes>),
    parities: Option<ParityMaker>,
}

impl FileSource {
    /// Opens a file of this size, modified last at that time, and reads it once for its digest. `name` is its
    /// name for receivers, `scheme` the code of its parities; `read` is called with the number of octets read,
    /// and `false` ends it.
    ///
    /// # Errors
    /// It cannot be read, or is not as announced.
    pub fn open(
        path: &Path,
        (size, at): (u64, Modified),
        name: Bytes,
        scheme: Option<Scheme>,
        mut read: impl FnMut(u64) -> bool,
    ) -> Result<FileSource, Unsendable> {
        let mut file = open(path)?;
        if !is_as_it_was(&file.metadata()?, size, at) {
            return Err(Unsendable::changed());
        }
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; HASHED.min(usize::try_from(size).unwrap_or(HASHED)) + 1];
        let mut octets = 0;
        loop {
            let more = match file.read(&mut buffer) {
                Ok(more) => more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if more == 0 {
                break;
            }
            hasher.update(&buffer[..more]);
            octets += more as u64;
            if octets > size {
                return Err(Unsendable::changed());
            }
            if !read(octets) {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
        }
        if octets != size || !is_as_it_was(&file.metadata()?, size, at) {
            return Err(Unsendable::changed());
        }
        Ok(FileSource {
            path: path.to_owned(),
            object: object(size, *hasher.finalize().as_bytes(), name, scheme),
            octets: Octets::File(file, at),
            run: (0, Vec::new()),
            parities: scheme.map(ParityMaker::new),
        })
    }

    /// A content in memory.
    pub fn memory(octets: Bytes, name: Bytes, scheme: Option<Scheme>) -> FileSource {
        let digest = *blake3::hash(&octets).as_bytes();
        FileSource {
            path: PathBuf::new(),
            object: object(octets.len() as u64, digest, name, scheme),
            octets: Octets::Memory(octets),
            run: (0, Vec::new()),
            parities: scheme.map(ParityMaker::new),
        }
    }

    fn unreadable(&self, why: impl ToString) -> ContentError {
        ContentError(format!("{}: {}", self.path.display(), why.to_string()))
    }

    /// Reads the packets `first..end`, if it was not them that were read last.
    fn read(&mut self, geometry: &Geometry, first: u64, end: u64) -> Result<(), ContentError> {
        if self.run.0 == first && self.run.1.len() as u64 == end - first {
            return Ok(());
        }
        let from = geometry.offset(first);
        let to = geometry.offset(end).min(geometry.size);
        let octets = match &self.octets {
            Octets::Memory(octets) => octets.slice(from as usize..to as usize),
            Octets::File(file, at) => {
                let mut octets = vec![0; (to - from) as usize];
                let about = file.metadata().map_err(|it| self.unreadable(it))?;
                if !is_as_it_was(&about, self.object.size, *at) {
                    return Err(self.unreadable(Withdrawal::Changed));
                }
                let read = file.read_exact_at(&mut octets, from);
                read.map_err(|it| self.unreadable(it))?;
                Bytes::from(octets)
            }
        };
        let packets = (first..end).map(|number| {
            let start = (geometry.offset(number) - from) as usize;
            octets.slice(start..start + geometry.len(number))
        });
        self.run = (first, packets.collect());
        Ok(())
    }
}

fn object(size: u64, digest: [u8; 32], name: Bytes, scheme: Option<Scheme>) -> Object {
    Object {
        size,
        block: 1,
        scheme: scheme.map_or(0, Scheme::number),
        digest,
        name,
    }
}

fn is_as_it_was(about: &Metadata, size: u64, at: Modified) -> bool {
    about.is_file() && about.len() == size && modified(about) == at
}

impl Source for FileSource {
    fn object(&self) -> Object {
        self.object.clone()
    }

    fn packet(&mut self, geometry: &Geometry, number: u64) -> Result<Payload, ContentError> {
        let (first, end) = match geometry.block {
            1 => {
                let first = number / READ_AHEAD * READ_AHEAD;
                (first, (first + READ_AHEAD).min(geometry.packets()))
            }
            _ => geometry.range(geometry.block_of(number)),
        };
        self.read(geometry, first, end)?;
        let packet = self.run.1.get((number - first) as usize);
        let packet = packet.ok_or_else(|| self.unreadable("no such packet"))?;
        Ok(Payload::Bytes(packet.clone()))
    }

    fn parity(
        &mut self,
        geometry: &Geometry,
        block: u32,
        index: u32,
    ) -> Result<Payload, ContentError> {
        let (first, end) = geometry.range(block);
        let Some(mut parities) = self.parities.take() else {
            return Err(self.unreadable("no code"));
        };
        let parity = parities.parity(geometry, block, index, |number| {
            self.read(geometry, first, end)?;
            Ok(self.run.1[(number - first) as usize].clone())
        });
        self.parities = Some(parities);
        parity
    }
}
