use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use layercast_multicast::{Bits, Geometry};
use layercast_wire::multicast::Object;
use rustix::fs::{MemfdFlags, OFlags, memfd_create};

const MAGIC: &[u8; 8] = b"LCPART01";
/// Magic, size, octets of a packet, packets of a block, scheme, digest.
const HEAD: usize = 8 + 8 + 2 + 2 + 1 + 32;
/// Octets that are written together.
const TOGETHER: usize = 256 << 10;

/// Octets of a state that are read at most: a gap for every second packet of the largest object takes more, and is
/// received again.
const MOST_STATE: u64 = 64 << 20;

/// How a file in the folder of received files is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To be read; it must be there.
    Read,
    /// To be read and written; it must be there.
    Update,
    /// To be read and written; it must not be there.
    Create,
}

/// Opens a plain file in the folder of received files. Every file of a receiver is opened by this function: a symbolic
/// link in its place is an error, so that other users of the folder cannot lead the receiver out of it.
///
/// # Errors
/// The system refuses, it is a symbolic link, or no plain file.
pub fn open_in_folder(path: &Path, access: Access) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(access != Access::Read)
        .create_new(access == Access::Create)
        // A FIFO without a writer must not block the receiver.
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a plain file",
        )),
    }
}

/// A file that is not whole yet, `.NAME-DIGEST.part`, and beside it what of it is there, `.NAME-DIGEST.state`.
///
/// Neither exists before the first packet is written.
#[derive(Debug)]
pub struct Partial {
    file: Option<File>,
    size: u64,
    path: PathBuf,
    state: PathBuf,
    head: [u8; HEAD],
    /// Octets that follow each other, to be written at `at`.
    waiting: Vec<u8>,
    at: u64,
    /// A thread brings the file to the disk.
    syncing: Arc<AtomicBool>,
}

impl Partial {
    /// The partial file of an object in a folder, and what of it is there already: nothing if there is none, or
    /// one that was cut in another way. Creates nothing.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn open(
        folder: &Path,
        name: &str,
        object: &Object,
        geometry: &Geometry,
    ) -> io::Result<(Partial, Bits)> {
        let short: String = object.digest[..6]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let path = folder.join(format!(".{name}-{short}.part"));
        let state = path.with_extension("state");
        let file = match open_in_folder(&path, Access::Update) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if file.is_none() {
            // A state without its file says nothing.
            remove_state(&state);
        }
        let head = head(object, geometry);
        let mut held = None;
        if let Some(file) = &file {
            if file.metadata()?.len() == object.size {
                held = read_state(&state).and_then(|it| parse(&it, &head, geometry.packets()));
            }
            file.set_len(object.size)?;
        }
        let partial = Partial {
            file,
            size: object.size,
            path,
            state,
            head,
            waiting: Vec::new(),
            at: 0,
            syncing: Arc::default(),
        };
        Ok((
            partial,
            held.unwrap_or_else(|| Bits::new(geometry.packets())),
        ))
    }

    /// Octets of the disk that it takes.
    pub fn allocated(&self) -> u64 {
        let file = self.file.as_ref().and_then(|file| file.metadata().ok());
        // The unit of `st_blocks` (stat(2)).
        file.map_or(0, |it| it.blocks().saturating_mul(512))
    }

    /// A partial file that is in memory only.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn in_memory(object: &Object, geometry: &Geometry) -> io::Result<Partial> {
        let file = memfd_create("layercast-manifest", MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.set_len(object.size)?;
        Ok(Partial {
            file: Some(file),
            size: object.size,
            path: PathBuf::new(),
            state: PathBuf::new(),
            head: head(object, geometry),
            waiting: Vec::new(),
            at: 0,
            syncing: Arc::default(),
        })
    }

    fn is_in_memory(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Has what was written brought to the disk, beside the caller, so that little is left to be done at the end.
    fn sync_soon(&self) {
        let Some(Ok(file)) = self.file.as_ref().map(File::try_clone) else {
            return;
        };
        if self.syncing.swap(true, Ordering::AcqRel) {
            return;
        }
        let syncing = Arc::clone(&self.syncing);
        std::thread::spawn(move || {
            // An error is reported when the file gets its name.
            let _ = file.sync_data();
            syncing.store(false, Ordering::Release);
        });
    }

    /// The file, made if it is not there.
    fn file(&mut self) -> io::Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                if let Some(folder) = self.path.parent() {
                    fs::create_dir_all(folder)?;
                }
                let file = open_in_folder(&self.path, Access::Create)?;
                file.set_len(self.size)?;
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// Writes, some time: at the latest when something is read.
    pub fn write(&mut self, at: u64, octets: &[u8]) -> io::Result<()> {
        self.room(at, octets.len())?.extend_from_slice(octets);
        Ok(())
    }

    /// Where `len` octets are to be appended that are written at `at`, some time.
    pub fn room(&mut self, at: u64, len: usize) -> io::Result<&mut Vec<u8>> {
        let follows = self.at + self.waiting.len() as u64 == at;
        if !follows || self.waiting.len() + len > TOGETHER {
            self.flush()?;
            self.at = at;
        }
        if self.waiting.capacity() == 0 {
            self.waiting.reserve(TOGETHER);
        }
        Ok(&mut self.waiting)
    }

    /// Writes the buffered data to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            self.file()?;
            if let Some(file) = &self.file {
                file.write_all_at(&self.waiting, self.at)?;
            }
            self.waiting.clear();
        }
        Ok(())
    }

    /// Reads what was written.
    pub fn read(&mut self, at: u64, octets: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        match octets.is_empty() {
            true => Ok(()),
            false => self.file()?.read_exact_at(octets, at),
        }
    }

    /// Keeps for another life what is there; a crash of the system may falsify it, which the digest finds out.
    pub fn save(&mut self, held: &Bits) -> io::Result<()> {
        self.flush()?;
        if self.file.is_none() || self.is_in_memory() {
            return Ok(());
        }
        if let Err(error) = fs::symlink_metadata(&self.path)
            && error.kind() == io::ErrorKind::NotFound
        {
            // Somebody has deleted the file: a state of it would stay forever.
            remove_state(&self.state);
            return Ok(());
        }
        self.sync_soon();
        let mut bytes = self.head.to_vec();
        for (from, to) in held.gaps(0, held.len()) {
            bytes.extend_from_slice(&(from as u32).to_le_bytes());
            bytes.extend_from_slice(&(to as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
        let new = self.state.with_extension("state-new");
        let opened = match open_in_folder(&new, Access::Create) {
            // What a receiver left that was killed while it wrote, or a link: the name is removed, not its target.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&new)?;
                open_in_folder(&new, Access::Create)
            }
            opened => opened,
        };
        let written = opened?
            .write_all_at(&bytes, 0)
            .and_then(|()| fs::rename(&new, &self.state));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// It is whole: `put` gives it, which is open and at this path, its name.
    pub fn finish<T>(&mut self, put: impl FnOnce(&File, &Path) -> io::Result<T>) -> io::Result<T> {
        self.flush()?;
        let path = self.path.clone();
        let put = put(self.file()?, &path);
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        if put.as_ref().err().is_none_or(is_gone) {
            remove_state(&self.state);
        }
        put
    }
}

/// Removes a state whose file has its name, or was deleted.
fn remove_state(state: &Path) {
    for path in [state, &state.with_extension("state-new")] {
        // Most often there is none.
        let _ = fs::remove_file(path);
    }
}

/// The octets of a state, if there is one that can be.
fn read_state(path: &Path) -> Option<Vec<u8>> {
    let file = open_in_folder(path, Access::Read).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST_STATE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn head(object: &Object, geometry: &Geometry) -> [u8; HEAD] {
    let mut head = Vec::with_capacity(HEAD);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&object.size.to_le_bytes());
    head.extend_from_slice(&geometry.packet_size.to_le_bytes());
    head.extend_from_slice(&geometry.block.to_le_bytes());
    head.push(object.scheme);
    head.extend_from_slice(&object.digest);
    core::array::from_fn(|at| head[at])
}

/// What is there, from a state that begins with `head`.
fn parse(bytes: &[u8], head: &[u8; HEAD], packets: u64) -> Option<Bits> {
    let (content, sum) = bytes.split_last_chunk::<16>()?;
    if blake3::hash(content).as_bytes()[..16] != *sum {
        return None;
    }
    let (gaps, []) = content.strip_prefix(head)?.as_chunks::<8>() else {
        return None;
    };
    let mut held = Bits::new(packets);
    let mut at = 0;
    for gap in gaps {
        let [a, b, c, d, e, f, g, h] = *gap;
        let from = u64::from(u32::from_le_bytes([a, b, c, d]));
        let to = u64::from(u32::from_le_bytes([e, f, g, h]));
        if from < at || to <= from || to > packets {
            return None;
        }
        held.set_range(at, from);
        at = to;
    }
    held.set_range(at, packets);
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(1_000, 10, 4).unwrap()
    }

    fn object() -> Object {
        Object {
            size: 1_000,
            block: 4,
            scheme: 3,
            digest: [7; 32],
            name: "x".into(),
        }
    }

    fn folder(name: &str) -> PathBuf {
        let own = format!("layercast-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_was_saved_is_there_in_another_life() {
        let folder = folder("partial");
        let (mut partial, mut held) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        assert_eq!(held.count(), 0);
        for number in [0, 1, 2, 50, 99] {
            partial.write(number * 10, &[number as u8; 10]).unwrap();
            held.set(number);
        }
        partial.save(&held).unwrap();
        let (mut again, there) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        assert_eq!(there, held);
        let mut octets = [0; 10];
        again.read(500, &mut octets).unwrap();
        assert_eq!(octets, [50; 10]);
        // Cut in another way it is worth nothing.
        let other = Geometry::new(1_000, 20, 4).unwrap();
        let (_, there) = Partial::open(&folder, "x", &object(), &other).unwrap();
        assert_eq!(there.count(), 0);
    }

    #[test]
    fn a_state_does_not_outlive_its_file() {
        let folder = folder("partial-deleted");
        let names = || -> Vec<String> {
            let all = fs::read_dir(&folder).unwrap();
            all.map(|it| it.unwrap().file_name().into_string().unwrap())
                .collect()
        };
        let (mut partial, mut held) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        let mut receive = |partial: &mut Partial, number: u64| {
            partial.write(number * 10, &[0; 10]).unwrap();
            held.set(number);
            partial.save(&held).unwrap();
        };
        receive(&mut partial, 0);
        assert_eq!(names().len(), 2);
        // The user deletes it while it is received, and the next time between two sessions.
        fs::remove_file(&partial.path).unwrap();
        receive(&mut partial, 1);
        assert_eq!(names(), [""; 0]);
        let (mut partial, _) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        receive(&mut partial, 2);
        fs::remove_file(&partial.path).unwrap();
        Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        assert_eq!(names(), [""; 0]);
        let _ = fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_state_that_is_damaged_is_worth_nothing() {
        let folder = folder("partial-damaged");
        let (mut partial, mut held) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        partial.write(50, &[5; 10]).unwrap();
        held.set(5);
        partial.save(&held).unwrap();
        let state = partial.state.clone();
        let good = fs::read(&state).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(parse(&bad, &partial.head, 100).is_none());
            assert!(parse(&good[..at], &partial.head, 100).is_none());
        }
        assert_eq!(parse(&good, &partial.head, 100).unwrap(), held);
    }

    /// Links in the place of each file of a receiver, to a file that is not its own.
    #[test]
    fn a_link_in_the_folder_leads_nowhere() {
        let folder = folder("partial-link");
        let target = folder.join("target");
        fs::write(&target, "mine").unwrap();
        let link = |end: &str| {
            let link = folder.join(format!(".x-070707070707.{end}"));
            std::os::unix::fs::symlink(&target, &link).unwrap();
            link
        };
        let part = link("part");
        assert!(Partial::open(&folder, "x", &object(), &geometry()).is_err());
        fs::remove_file(part).unwrap();
        let (mut partial, mut held) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        // It comes when the receiver does not look.
        let part = link("part");
        partial.write(10, &[1; 10]).unwrap();
        assert!(partial.flush().is_err());
        fs::remove_file(part).unwrap();
        link("state");
        link("state-new");
        held.set(1);
        partial.save(&held).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"mine");
        let (_, there) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
        assert_eq!(there, held);
    }

    #[test]
    fn nothing_is_created_before_the_first_packet() {
        let folder = folder("partial-late");
        let inner = folder.join("inner");
        let (mut partial, held) = Partial::open(&inner, "x", &object(), &geometry()).unwrap();
        partial.save(&held).unwrap();
        assert!(!inner.exists());
        partial.write(0, &[1; 10]).unwrap();
        partial.flush().unwrap();
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
    }
}
