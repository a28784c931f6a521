use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use layercast_fec::Scheme;
use layercast_multicast::{ContentError, Geometry, ParityMaker, Source};
use layercast_wire::Payload;
use layercast_wire::multicast::Object;

use super::digest::digest_of;

/// Packets that are read together where there are no blocks.
const READ_AHEAD: u64 = 128;

/// A file that is sent: read block by block, never held as a whole.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    file: File,
    object: Object,
    modified: Option<SystemTime>,
    /// The packets that were read last: the first one's number, and all.
    run: (u64, Vec<Bytes>),
    parities: Option<ParityMaker>,
}

impl FileSource {
    /// Opens a file and reads it once, for its digest; `name` is what receivers are told, `scheme` the code of
    /// its parities.
    ///
    /// # Errors
    /// It cannot be read, or is not a plain file.
    pub fn open(path: &Path, name: Bytes, scheme: Option<Scheme>) -> io::Result<FileSource> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            let what = "not a plain file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let digest = digest_of(&file)?;
        Ok(FileSource {
            path: path.to_owned(),
            object: Object {
                size: about.len(),
                block: 1,
                scheme: scheme.map_or(0, Scheme::number),
                digest,
                name,
            },
            modified: modified(&about),
            file,
            run: (0, Vec::new()),
            parities: scheme.map(ParityMaker::new),
        })
    }

    fn unreadable(&self, why: impl ToString) -> ContentError {
        ContentError(format!("{}: {}", self.path.display(), why.to_string()))
    }

    /// Reads the packets `first..end`, if it was not them that were read last.
    fn read(&mut self, geometry: &Geometry, first: u64, end: u64) -> Result<(), ContentError> {
        if self.run.0 == first && self.run.1.len() as u64 == end - first {
            return Ok(());
        }
        let about = self
            .file
            .metadata()
            .map_err(|error| self.unreadable(error))?;
        if about.len() != self.object.size || modified(&about) != self.modified {
            return Err(self.unreadable("it was changed while it was sent"));
        }
        let from = geometry.offset(first);
        let to = geometry.offset(end).min(geometry.size);
        let mut octets = vec![0; (to - from) as usize];
        self.file
            .read_exact_at(&mut octets, from)
            .map_err(|error| self.unreadable(error))?;
        let octets = Bytes::from(octets);
        let packets = (first..end).map(|number| {
            let start = (geometry.offset(number) - from) as usize;
            octets.slice(start..start + geometry.len(number))
        });
        self.run = (first, packets.collect());
        Ok(())
    }
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

fn modified(about: &Metadata) -> Option<SystemTime> {
    about.modified().ok()
}
