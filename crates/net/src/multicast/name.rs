use bytes::Bytes;
use layercast_wire::multicast::MAX_NAME;

/// Octets of a file's name that are kept: with what is put around it, it fits every file system.
const MOST: usize = 200;

/// What the name of an object says: `2/3/film.mkv` is the second of three files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileName {
    /// Which of the files sent one after the other, from 1.
    pub index: u32,
    /// How many they are.
    pub count: u32,
    /// A name without a path, safe to be created in any folder.
    pub name: String,
}

impl FileName {
    /// One of the files that are sent, as the name of its object.
    pub fn to_object(&self) -> Bytes {
        let text = format!("{}/{}/{}", self.index, self.count, self.name);
        let mut end = text.len().min(MAX_NAME);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Bytes::copy_from_slice(&text.as_bytes()[..end])
    }

    /// What a sender, who may be anybody, called an object; without numbers it is one of one.
    pub fn from_object(name: &[u8]) -> FileName {
        let text = String::from_utf8_lossy(name);
        let mut parts = text.splitn(3, '/');
        let numbers = (parts.next(), parts.next(), parts.next());
        if let (Some(index), Some(count), Some(rest)) = numbers
            && let (Ok(index), Ok(count)) = (index.parse(), count.parse())
            && (1..=count).contains(&index)
        {
            return FileName {
                index,
                count,
                name: harmless(rest),
            };
        }
        FileName {
            index: 1,
            count: 1,
            name: harmless(&text),
        }
    }
}

/// A name without folders, control characters or a dot in front, neither empty nor too long.
pub fn harmless(name: &str) -> String {
    let last = name
        .rsplit(['/', '\\'])
        .find(|part| !part.is_empty())
        .unwrap_or("");
    let mut safe: String = last
        .chars()
        .map(|c| match c {
            c if c.is_control() || c == '\u{fffd}' => '_',
            c => c,
        })
        .collect();
    if safe.starts_with('.') || safe.starts_with('-') {
        safe.replace_range(..1, "_");
    }
    let mut end = safe.len().min(MOST);
    while !safe.is_char_boundary(end) {
        end -= 1;
    }
    safe.truncate(end);
    match safe.is_empty() {
        true => "file".into(),
        false => safe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (bad, good) in [
            ("../../etc/passwd", "passwd"),
            ("/etc/shadow", "shadow"),
            ("..", "_."),
            (".", "_"),
            ("", "file"),
            ("///", "file"),
            (".bashrc", "_bashrc"),
            ("-rf", "_rf"),
            ("a\\..\\b", "b"),
            ("a\0b\nc", "a_b_c"),
            ("film.mkv", "film.mkv"),
        ] {
            assert_eq!(harmless(bad), good, "{bad:?}");
        }
        assert_eq!(harmless(&"ä".repeat(500)).len(), MOST);
    }

    #[test]
    fn names_of_objects_say_which_of_how_many() {
        let name = FileName {
            index: 2,
            count: 3,
            name: "a b".into(),
        };
        assert_eq!(name.to_object(), "2/3/a b");
        assert_eq!(FileName::from_object(&name.to_object()), name);
        for (bytes, index, count, name) in [
            (&b"plain"[..], 1, 1, "plain"),
            (b"4/3/../x", 1, 1, "x"),
            (b"0/3/x", 1, 1, "x"),
            (b"1/2/../../x", 1, 2, "x"),
            (b"\xff\xfe", 1, 1, "__"),
        ] {
            let name = FileName {
                index,
                count,
                name: name.into(),
            };
            assert_eq!(FileName::from_object(bytes), name);
        }
        let long = FileName {
            index: 1,
            count: 1,
            name: "ö".repeat(300),
        };
        assert!(long.to_object().len() <= MAX_NAME);
    }
}
