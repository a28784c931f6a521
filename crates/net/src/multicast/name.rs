use std::borrow::Borrow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::Bytes;
use layercast_wire::multicast::MAX_NAME;
use layercast_wire::multicast::manifest::{MAX_DEPTH, MAX_FILE_NAME, NameFault, check_name};

/// What the name of an object says.
///
/// `2/3/@0123456789abcdef/films/film.mkv` is the second of three files of the transfer with that number;
/// `0/3/@0123456789abcdef/` is the manifest of that transfer. A name without a number belongs to no transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileName {
    /// Which of the files, from 1; 0: their manifest.
    pub index: u32,
    /// How many files the transfer has.
    pub count: u32,
    /// The number of the transfer; 0: the sender does not say.
    pub batch: u64,
    /// The names that lead to the file from the folder of received files, each of them safe; empty: the path does not
    /// fit into the name of an object, and is in the manifest only.
    pub path: Vec<Box<[u8]>>,
    /// The path, to be printed.
    pub name: String,
}

impl FileName {
    /// A file of a transfer.
    pub fn new<'a>(
        (index, count, batch): (u32, u32, u64),
        path: impl IntoIterator<Item = &'a [u8]>,
    ) -> FileName {
        let path: Vec<Box<[u8]>> = path.into_iter().map(Into::into).collect();
        FileName {
            name: printable_names(&path),
            index,
            count,
            batch,
            path,
        }
    }

    /// Whether it is the manifest of a transfer.
    pub fn is_manifest(&self) -> bool {
        self.index == 0
    }

    /// As the name of an object; a path that does not fit is left out.
    pub fn to_object(&self) -> Bytes {
        let mut octets = format!("{}/{}/", self.index, self.count).into_bytes();
        if self.batch != 0 {
            octets.extend_from_slice(format!("@{:016x}/", self.batch).as_bytes());
        }
        let path = self.path.join(&b'/');
        if octets.len() + path.len() <= MAX_NAME {
            octets.extend_from_slice(&path);
        }
        octets.into()
    }

    /// Reads what a sender called an object; any octets give a name that is safe. Without numbers it is one of one.
    pub fn from_object(name: &[u8]) -> FileName {
        let mut parts = name.splitn(3, |&it| it == b'/');
        let numbers = (number(parts.next()), number(parts.next()), parts.next());
        let (Some(index), Some(count), Some(rest)) = numbers else {
            return FileName::new((1, 1, 0), safe_path(name).iter().map(|it| &**it));
        };
        let (batch, rest) = batch(rest);
        let in_range = match index {
            0 => batch != 0,
            index => index <= count,
        };
        if !in_range {
            return FileName::new((1, 1, 0), safe_path(name).iter().map(|it| &**it));
        }
        let path = match (index, batch, rest) {
            (0, ..) => Vec::new(),
            (_, 1.., b"") => Vec::new(),
            _ => safe_path(rest),
        };
        FileName::new((index, count, batch), path.iter().map(|it| &**it))
    }
}

fn number(octets: Option<&[u8]>) -> Option<u32> {
    let digits = octets.filter(|it| it.iter().all(u8::is_ascii_digit))?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// The number of the transfer in front of a path, and the path.
fn batch(rest: &[u8]) -> (u64, &[u8]) {
    let found = || {
        let (digits, path) = rest.strip_prefix(b"@")?.split_first_chunk::<16>()?;
        let path = path.strip_prefix(b"/")?;
        let number = u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        Some((number, path))
    };
    found().unwrap_or((0, rest))
}

/// The names of a path without those that lead nowhere or outside; at least one.
fn safe_path(path: &[u8]) -> Vec<Box<[u8]>> {
    let names = path.split(|&it| it == b'/');
    let names = names.filter(|it| !matches!(*it, b"" | b"." | b".."));
    let mut safe: Vec<Box<[u8]>> = names.map(|it| harmless(it).into()).collect();
    // A path deeper than a manifest allows violates the protocol.
    safe.drain(..safe.len().saturating_sub(MAX_DEPTH.into()));
    match safe.first_mut() {
        Some(first) => *first = harmless_at_top(first).into(),
        None => safe.push((*b"file").into()),
    }
    safe
}

/// A name without slashes, control characters and characters that change the direction of writing, neither empty nor
/// too long.
pub fn harmless(name: &[u8]) -> Vec<u8> {
    let mut safe = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut octets = [0; 4];
            let one = c.encode_utf8(&mut octets).as_bytes();
            match check_name(one) {
                Ok(()) | Err(NameFault::Dots) => safe.extend_from_slice(one),
                Err(_) => safe.push(b'_'),
            }
        }
        safe.extend_from_slice(chunk.invalid());
    }
    if matches!(&safe[..], b"." | b"..") {
        safe[0] = b'_';
    }
    shorten(&mut safe, MAX_FILE_NAME);
    match safe.is_empty() {
        true => b"file".to_vec(),
        false => safe,
    }
}

/// The same for a name at the top of the folder of received files, where a leading dot would make a file that
/// programs read by themselves, such as `.bashrc` or a receiver's own `.layercast-*`, and a leading dash an option of
/// programs.
pub fn harmless_at_top(name: &[u8]) -> Vec<u8> {
    let mut safe = harmless(name);
    if matches!(safe[0], b'.' | b'-') {
        safe[0] = b'_';
    }
    safe
}

/// Cuts a name to `most` octets, between characters if it is UTF-8.
pub fn shorten(name: &mut Vec<u8>, most: usize) {
    if name.len() <= most {
        return;
    }
    let mut end = most;
    while end > 0 && most - end < 4 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    name.truncate(end);
}

/// A path to be printed: control characters and characters that change the direction of writing are escaped.
pub fn printable(path: &Path) -> String {
    printable_octets(path.as_os_str().as_bytes())
}

/// The same for names that lead to a file.
pub fn printable_names(path: &[impl Borrow<[u8]>]) -> String {
    printable_octets(&path.join(&b'/'))
}

fn printable_octets(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut octets = [0; 4];
    let harmful = |c: char, octets: &mut [u8; 4]| {
        let fault = check_name(c.encode_utf8(octets).as_bytes());
        !matches!(fault, Ok(()) | Err(NameFault::Dots | NameFault::Slash))
    };
    text.chars()
        .flat_map(|c| match harmful(c, &mut octets) {
            true => c.escape_unicode().collect::<Vec<char>>(),
            false => vec![c],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &FileName) -> Vec<&[u8]> {
        name.path.iter().map(|it| &**it).collect()
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (bad, good) in [
            ("../../etc/passwd", &["etc", "passwd"][..]),
            ("/etc/shadow", &["etc", "shadow"]),
            ("..", &["file"]),
            (".", &["file"]),
            ("", &["file"]),
            ("///", &["file"]),
            (".bashrc", &["_bashrc"]),
            (".ssh/authorized_keys", &["_ssh", "authorized_keys"]),
            (".layercast-identity", &["_layercast-identity"]),
            ("-rf", &["_rf"]),
            ("a/.git/-x", &["a", ".git", "-x"]),
            ("a\\..\\b", &["a\\..\\b"]),
            ("a\0b\nc", &["a_b_c"]),
            ("cod\u{202e}4pm.exe", &["cod_4pm.exe"]),
            ("film.mkv", &["film.mkv"]),
        ] {
            let safe = safe_path(bad.as_bytes());
            let good: Vec<Box<[u8]>> = good.iter().map(|it| it.as_bytes().into()).collect();
            assert_eq!(safe, good, "{bad:?}");
            assert!(safe.iter().all(|it| check_name(it).is_ok()));
        }
        assert_eq!(harmless("\u{e4}".repeat(500).as_bytes()).len(), 254);
        assert_eq!(harmless(b"caf\xe9"), b"caf\xe9");
        assert_eq!(
            safe_path("d/".repeat(1_000).as_bytes()).len(),
            usize::from(MAX_DEPTH)
        );
    }

    #[test]
    fn names_of_objects_say_which_of_how_many() {
        let parts = [&b"a b"[..], b".x"];
        let name = FileName::new((2, 3, 0x1f), parts);
        assert_eq!(name.to_object(), "2/3/@000000000000001f/a b/.x");
        assert_eq!(FileName::from_object(&name.to_object()), name);
        let manifest = FileName::new((0, 3, 0x1f), []);
        assert_eq!(FileName::from_object(&manifest.to_object()), manifest);
        for (bytes, numbers, name) in [
            (&b"plain"[..], (1, 1, 0), &b"plain"[..]),
            (b"2/3/plain", (2, 3, 0), b"plain"),
            (b"0/3/x", (1, 1, 0), b"x"),
            (b"1/2/../../x", (1, 2, 0), b"x"),
            (b"1/1/\xff\xfe", (1, 1, 0), b"\xff\xfe"),
        ] {
            let found = FileName::from_object(bytes);
            assert_eq!((found.index, found.count, found.batch), numbers);
            assert_eq!(path(&found).last(), Some(&name), "{bytes:?}");
        }
        let deep = FileName::new((1, 1, 9), std::iter::repeat_n(&[b'x'; 200][..], 9));
        let decoded = FileName::from_object(&deep.to_object());
        assert!(decoded.path.is_empty() && decoded.batch == 9);
    }

    #[test]
    fn what_is_printed_does_nothing_to_a_terminal() {
        let path = [b"a\x1b[2J".as_slice(), "b\u{202e}".as_bytes()];
        assert_eq!(printable_names(&path), "a\\u{1b}[2J/b\\u{202e}");
    }
}
