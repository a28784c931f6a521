//! Where received files go, packet by packet.

mod folder;
pub mod lists;
mod on_disk;
mod open;
mod place;
mod walk;

use std::io;
use std::path::{Path, PathBuf};

use layercast_fec::Scheme;
use layercast_multicast::{Bits, Geometry, Rebuilt, Store, Verdict};
use layercast_wire::Payload;
use layercast_wire::multicast::manifest::{MAX_MANIFEST, Manifest};
use layercast_wire::multicast::{Object, Reason};

use self::folder::Existing;
pub use self::folder::Folder;
use self::on_disk::OnDisk;
pub use self::place::{Listed, sync};
use self::walk::make_folders;
pub use self::walk::settle_folders;
use super::name::{FileName, shorten};

/// Octets of a name that partial files have of it: with what is put around it, it fits every file system.
const LONGEST: usize = 200;
/// Entries of a manifest whose folders are made at a time.
const FOLDERS: u32 = 256;
/// Files of at least this size are synced to the disk one by one; smaller ones together, with the last of a
/// transfer.
const LARGE: u64 = 8 << 20;

/// A file that is received: packets go to their places in a partial file, which gets its name once its digest is
/// right.
#[derive(Debug)]
pub struct FileStore {
    folder: Folder,
    name: Option<FileName>,
    /// What the manifest says of it, if that is known.
    listed: Option<Listed>,
    file: Option<OnDisk>,
    /// A file of the announced name and size, which is read to see whether it has the announced content.
    existing: Option<Existing>,
    /// Where the whole file is.
    done: Option<PathBuf>,
    /// The object, if it is the manifest of a transfer and its folders are here.
    manifest: Option<Manifest>,
    /// A manifest whose folders are being made, and the entry that is next.
    making: Option<(Manifest, u32)>,
    /// What the system said when something failed.
    error: Option<io::Error>,
}

impl FileStore {
    /// A file goes into `folder`, to where the manifest says if it lists it.
    pub fn new(folder: Folder, listed: Option<Listed>) -> FileStore {
        FileStore {
            folder,
            name: None,
            listed,
            file: None,
            existing: None,
            done: None,
            manifest: None,
            making: None,
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

    /// The system refuses something: the reason for the sender.
    pub fn failed(&mut self, error: io::Error) -> Reason {
        let reason = reason_of(&error);
        self.error.get_or_insert(error);
        reason
    }

    /// Why the receiver left the session, if it was the system.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Looks for a file of the announced name and size, which may have been received in another life: before
    /// [`begin`](Store::begin). It has to be read then by [`read_existing`](Self::read_existing).
    pub fn look_for(&mut self, object: &Object) {
        let name = self.name_of(object);
        self.existing = Existing::open(&self.folder, &name.path, object);
    }

    /// Reads a piece of the existing file; `true`: there is none, or all of it has been read.
    pub fn read_existing(&mut self) -> bool {
        let Some(existing) = &mut self.existing else {
            return true;
        };
        let Some(is_same) = existing.read_one() else {
            return false;
        };
        let existing = self.existing.take();
        match is_same {
            true => self.done = existing.map(Existing::into_path),
            false => self.existing = existing.and_then(Existing::next),
        }
        self.existing.is_none()
    }

    /// Hashes the next piece that is there; `false`: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hash_one(&mut self) -> io::Result<bool> {
        match &mut self.file {
            Some(file) => file.hash_one(),
            None => Ok(false),
        }
    }

    /// Whether the content is what was announced; `None`: not all of it is hashed.
    pub fn is_right(&self) -> Option<bool> {
        self.file.as_ref()?.is_right()
    }

    /// Keeps for another life which packets are there, if there is something new.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&mut self, held: &Bits) -> io::Result<()> {
        match &mut self.file {
            Some(file) if self.done.is_none() => file.save(held),
            _ => Ok(()),
        }
    }

    /// The content is right: a file gets its name; a manifest is read, and its folders are made. The sender must not
    /// be notified of the receipt before. `false`: there is more to do, so that packets do not wait for long.
    ///
    /// # Errors
    /// The file cannot be renamed; what should be a manifest is none, or a folder cannot be made.
    pub fn finish(&mut self) -> io::Result<bool> {
        if self.done.is_some() || self.manifest.is_some() {
            return Ok(true);
        }
        if self.is_manifest() {
            let (manifest, next) = match self.making.take() {
                Some(making) => making,
                None => (self.read_manifest()?, 0),
            };
            let (from, to) = (next, next + FOLDERS);
            make_folders(&self.folder.path, &manifest, from..to)?;
            match (to as usize) < manifest.entries().len() {
                true => self.making = Some((manifest, to)),
                false => self.manifest = Some(manifest),
            }
            return Ok(self.manifest.is_some());
        }
        let (Some(file), Some(name)) = (&mut self.file, &self.name) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let (folder, listed) = (&self.folder, &self.listed);
        let is_last = name.index == name.count;
        let path = file.finish(|file, from| {
            if let Some(listed) = listed {
                place::set_times_and_mode(file, listed.mode, listed.modified)?;
            }
            let is_alone = name.count == 1;
            if is_alone || file.metadata()?.len() >= LARGE {
                file.sync_all()?;
            }
            let (path, at) = place::put(&folder.path, &name.path, from, folder.overwrite)?;
            match is_alone {
                true => rustix::fs::fsync(at)?,
                false if is_last => place::sync(&folder.path)?,
                false => {}
            }
            Ok(path)
        })?;
        self.done = Some(path);
        Ok(true)
    }

    /// Whether the object is the manifest of a transfer.
    pub fn is_manifest(&self) -> bool {
        self.name.as_ref().is_some_and(FileName::is_manifest)
    }

    /// The manifest after [`finish`](Self::finish); given once.
    pub fn take_manifest(&mut self) -> Option<Manifest> {
        self.manifest.take()
    }

    /// Whether there is a manifest that was not taken.
    pub fn holds_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    fn read_manifest(&mut self) -> io::Result<Manifest> {
        let octets = match &mut self.file {
            Some(file) => file.read_all()?,
            None => Vec::new(),
        };
        let none = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        Manifest::decode(&octets).map_err(none)
    }

    /// What the sender calls an object, or the manifest.
    pub fn name_of(&self, object: &Object) -> FileName {
        let mut name = FileName::from_object(&object.name);
        if let Some(listed) = &self.listed {
            name.name = listed.name();
            name.path.clone_from(&listed.path);
        }
        name
    }

    fn open(&mut self, object: &Object, geometry: &Geometry) -> io::Result<Bits> {
        if self.done.is_some() {
            // It was received in another life, and the sender does not know.
            return Ok(Bits::full(geometry.packets()));
        }
        let name = self.name_of(object);
        if name.is_manifest() {
            self.file = Some(OnDisk::in_memory(object, geometry)?);
            return Ok(Bits::new(geometry.packets()));
        }
        let Some(last) = name.path.last() else {
            let what = "this receiver came too late for the list of files, which has its path";
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        };
        // Before anything is transferred or written.
        place::check(&self.folder.path, &name.path)?;
        let mut last = String::from_utf8_lossy(last).into_owned().into_bytes();
        shorten(&mut last, LONGEST);
        let last = String::from_utf8_lossy(&last);
        let (file, held) = OnDisk::open(&self.folder.path, &last, object, geometry)?;
        self.file = Some(file);
        Ok(held)
    }

    /// Checks that an opened file is not larger than the user allows, and that the disk has room for what is missing.
    fn check_room(&self, object: &Object) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_manifest()) else {
            return Ok(());
        };
        let (size, most) = (object.size, self.folder.most);
        if size > most {
            let what =
                format!("it has {size} octets, and this receiver takes at most {most} (--most)");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let missing = missing(size, file.allocated(), self.folder.free());
        missing.map_or(Ok(()), |what| {
            let what = format!("{what} on the disk of {}", self.folder.path.display());
            Err(io::Error::new(io::ErrorKind::StorageFull, what))
        })
    }

    /// Runs `what`, keeps the error and gives the reason for the sender.
    fn tried<T>(&mut self, what: impl FnOnce(&mut Self) -> io::Result<T>) -> Result<T, Reason> {
        what(self).map_err(|error| {
            let reason = reason_of(&error);
            self.error = Some(error);
            reason
        })
    }
}

impl Store for FileStore {
    fn begin(&mut self, object: &Object, geometry: &Geometry) -> Result<Bits, Reason> {
        let name = self.name_of(object);
        let is_manifest = name.is_manifest();
        self.name = Some(name);
        if is_manifest && object.size > MAX_MANIFEST as u64 {
            let what = format!("it has {} octets, and may have {MAX_MANIFEST}", object.size);
            self.error = Some(io::Error::new(io::ErrorKind::InvalidData, what));
            return Err(Reason::Unsupported);
        }
        if let Some(listed) = self.listed.as_ref().filter(|it| it.size != object.size) {
            let what = format!(
                "the sender announces {} octets, and its list of files says {}",
                object.size, listed.size
            );
            self.error = Some(io::Error::new(io::ErrorKind::InvalidData, what));
            return Err(Reason::Unsupported);
        }
        if object.scheme != 0 {
            let scheme = Scheme::from_number(object.scheme).ok_or(Reason::Unsupported)?;
            let n = usize::from(geometry.block);
            scheme.check(n, 0).map_err(|_| Reason::Unsupported)?;
        }
        self.tried(|store| {
            let held = store.open(object, geometry)?;
            store.check_room(object)?;
            Ok(held)
        })
    }

    fn packet(&mut self, _: &Geometry, number: u64, payload: &Payload) -> Result<(), Reason> {
        self.tried(|store| {
            let file = store.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
            file.put(number, payload)
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

    fn whole(&mut self, block: u32) {
        if let Some(file) = &mut self.file {
            file.whole(block);
        }
    }

    fn verify(&mut self) -> Verdict {
        match (&self.done, self.is_right()) {
            (Some(_), _) => Verdict::Same,
            (None, Some(false)) => Verdict::Different,
            // The file is not finished.
            (None, _) => Verdict::Later,
        }
    }

    fn clear(&mut self) {
        if let Some(file) = &mut self.file {
            file.clear();
        }
        self.done = None;
    }
}

/// What a disk with `free` octets lacks for a file of `size` octets of which it has `there`; `None`: nothing.
fn missing(size: u64, there: u64, free: u64) -> Option<String> {
    (size.saturating_sub(there) > free).then(|| match there {
        0 => format!("it has {size} octets, and {free} are free"),
        _ => format!("it has {size} octets, {there} of them are here, and {free} are free"),
    })
}

/// The reason reported to senders for an error of the system.
fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Reason::NoRoom
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Reason::Denied,
        _ => Reason::Storage,
    }
}

#[cfg(test)]
mod tests {
    use layercast_wire::multicast::manifest::Modified;

    use super::*;

    /// Hashes what can be, and looks.
    fn looked_at(store: &mut FileStore) -> Option<bool> {
        while store.hash_one().unwrap() {}
        store.is_right()
    }

    #[test]
    fn a_file_has_the_size_that_the_list_says() {
        let folder = Folder {
            path: std::env::temp_dir(),
            overwrite: false,
            most: u64::MAX,
        };
        let object = Object {
            size: 5,
            block: 100,
            scheme: Scheme::ReedSolomon.number(),
            digest: [7; 32],
            name: "1/1/a".into(),
        };
        let listed = Listed {
            path: vec![(*b"a").into()],
            size: 50,
            mode: 0o644,
            modified: Modified::default(),
        };
        let geometry = Geometry::of(&object, 1_400).unwrap();
        let mut store = FileStore::new(folder, Some(listed));
        assert_eq!(store.begin(&object, &geometry), Err(Reason::Unsupported));
        let why = store.error().unwrap().to_string();
        assert!(why.contains("5 octets") && why.contains("50"), "{why}");
    }

    #[test]
    fn what_is_here_needs_no_room() {
        assert_eq!(missing(1_500_000, 1_359_872, 729_088), None);
        assert_eq!(missing(5, 8, 0), None);
        let lacks = missing(1_500_000, 4_096, 729_088).unwrap();
        assert!(lacks.contains("4096 of them are here"), "{lacks}");
        assert!(missing(u64::MAX, 0, u64::MAX - 1).is_some());

        let path = std::env::temp_dir().join(format!("layercast-here-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let content = vec![7; 300_000];
        std::fs::write(path.join("a"), &content).unwrap();
        let folder = |most| Folder {
            path: path.clone(),
            overwrite: false,
            most,
        };
        let mut object = Object {
            size: content.len() as u64,
            block: 100,
            scheme: Scheme::ReedSolomon.number(),
            digest: *blake3::hash(&content).as_bytes(),
            name: "1/1/a".into(),
        };
        let geometry = Geometry::of(&object, 1_400).unwrap();
        let begins = |object: &Object, most| {
            let mut store = FileStore::new(folder(most), None);
            store.look_for(object);
            while !store.read_existing() {}
            let held = store.begin(object, &geometry).map(|held| held.count());
            (held, store.error().map(io::Error::kind))
        };
        // The file is here, and larger than this receiver takes.
        assert_eq!(begins(&object, 10), (Ok(geometry.packets()), None));
        object.digest[0] ^= 1;
        let refused = (Err(Reason::NoRoom), Some(io::ErrorKind::FileTooLarge));
        assert_eq!(begins(&object, 10), refused);
        assert_eq!(begins(&object, u64::MAX), (Ok(0), None));
        // A part of it takes room already.
        let mut store = FileStore::new(folder(u64::MAX), None);
        store.begin(&object, &geometry).unwrap();
        for number in 0..geometry.packets() - 1 {
            let payload = Payload::Bytes(vec![7; 1_400].into());
            store.packet(&geometry, number, &payload).unwrap();
        }
        store.hash_one().unwrap();
        let there = store.file.as_ref().unwrap().allocated();
        assert!((200_000..600_000).contains(&there), "{there}");
        std::fs::remove_dir_all(&path).unwrap();
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
        let mut store = FileStore::new(folder.clone(), None);
        store.begin(&object, &geometry).unwrap();
        assert_eq!(looked_at(&mut store), Some(false));
        store.clear();
        assert_eq!(looked_at(&mut store), Some(false));
        assert!(!folder.path.exists(), "nothing came");
    }
}
