use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use layercast_multicast::{Bits, Geometry};
use layercast_wire::multicast::Object;
use rustix::fs::OFlags;

const MAGIC: &[u8; 8] = b"LCPART01";
/// Magic, size, octets of a packet, packets of a block, scheme, digest.
const HEAD: usize = 8 + 8 + 2 + 2 + 1 + 32;
/// Octets that are written together.
const TOGETHER: usize = 256 << 10;

/// A file that is not whole yet, `.NAME-DIGEST.part`, and beside it what of it is there, `.NAME-DIGEST.state`.
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    state: PathBuf,
    head: [u8; HEAD],
    /// Octets that follow each other, to be written at `at`.
    waiting: Vec<u8>,
    at: u64,
}

impl Partial {
    /// The partial file of an object in a folder, and what of it is there already: nothing if there is none, or
    /// one that was cut in another way.
    ///
    /// # Errors
    /// It cannot be made or read.
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
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Whoever may write to the folder must not lead us out of it.
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path)?;
        let head = head(object, geometry);
        let there = file.metadata()?.len() == object.size;
        let held = match fs::read(&state) {
            Ok(bytes) if there => parse(&bytes, &head, geometry.packets()),
            _ => None,
        };
        let held = held.unwrap_or_else(|| Bits::new(geometry.packets()));
        file.set_len(object.size)?;
        let partial = Partial {
            file,
            path,
            state,
            head,
            waiting: Vec::with_capacity(TOGETHER),
            at: 0,
        };
        Ok((partial, held))
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
        Ok(&mut self.waiting)
    }

    /// Hands to the system what waits to be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            self.file.write_all_at(&self.waiting, self.at)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Reads what was written.
    pub fn read(&mut self, at: u64, octets: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        self.file.read_exact_at(octets, at)
    }

    /// Keeps for another life what is there; a crash of the system may falsify it, which the digest finds out.
    pub fn save(&mut self, held: &Bits) -> io::Result<()> {
        self.flush()?;
        let mut bytes = self.head.to_vec();
        for (from, to) in held.gaps(0, held.len()) {
            bytes.extend_from_slice(&(from as u32).to_le_bytes());
            bytes.extend_from_slice(&(to as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
        let new = self.state.with_extension("state-new");
        fs::write(&new, bytes)?;
        fs::rename(&new, &self.state)
    }

    /// It is whole: it gets its name.
    pub fn finish(&mut self, name: &Path) -> io::Result<()> {
        self.flush()?;
        fs::rename(&self.path, name)?;
        // A state without a file would do no harm.
        let _ = fs::remove_file(&self.state);
        Ok(())
    }
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
        (at..from).for_each(|number| {
            held.set(number);
        });
        at = to;
    }
    (at..packets).for_each(|number| {
        held.set(number);
    });
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
    fn a_state_that_is_damaged_is_worth_nothing() {
        let folder = folder("partial-damaged");
        let (mut partial, mut held) = Partial::open(&folder, "x", &object(), &geometry()).unwrap();
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

    #[test]
    fn a_link_in_the_folder_leads_nowhere() {
        let folder = folder("partial-link");
        let target = folder.join("target");
        fs::write(&target, "mine").unwrap();
        let link = folder.join(".x-070707070707.part");
        std::os::unix::fs::symlink(&target, link).unwrap();
        assert!(Partial::open(&folder, "x", &object(), &geometry()).is_err());
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }
}
