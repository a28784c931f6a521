//! The golden corpus: a fixed set of runs and what they give.
//!
//! Each line of `tests/golden/*.txt` is a run: its name, the number of events, a few figures of the report, the digest
//! of the whole report (without the events and the real time), and digests of a capture or trace where there is one.
//! Code that moves leaves these files as they are. A change that is meant to move results writes them again with
//! `LAYERCAST_WRITE_GOLDEN=1 cargo test -p layercast-sim --test all golden`, and `CHANGELOG.md` says which results
//! moved, and why.

pub mod group;
pub mod internet;
pub mod mets;
#[allow(clippy::duplicate_mod, reason = "the unit tests have it, too")]
#[path = "../../../src/internet/random.rs"]
pub mod random;

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

/// Hexadecimal digits of a digest.
const DIGITS: usize = 24;

/// The runs of one kind.
pub struct Corpus {
    name: &'static str,
    lines: String,
}

impl Corpus {
    fn new(name: &'static str) -> Corpus {
        let lines = String::new();
        Corpus { name, lines }
    }

    /// Adds a run. `report` has neither events nor real time; `others` are its capture and its trace.
    fn add(
        &mut self,
        run: &str,
        events: u64,
        figures: &str,
        report: &impl Serialize,
        others: &[(&str, &[u8])],
    ) {
        let report = serde_json::to_vec(report).expect("a report is JSON");
        let digest = digest(&report);
        write!(
            self.lines,
            "{run} events={events} {figures} report={digest}"
        )
        .unwrap();
        for (name, bytes) in others {
            write!(self.lines, " {name}={}", self::digest(bytes)).unwrap();
        }
        self.lines.push('\n');
    }

    /// Compares the runs with the file, or writes it.
    pub fn check(self) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let path = folder.join(format!("{}.txt", self.name));
        if std::env::var_os("LAYERCAST_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &self.lines).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        let (mut old, mut new) = (golden.lines(), self.lines.lines());
        let mut moved = String::new();
        loop {
            match (old.next(), new.next()) {
                (None, None) => break,
                (old, new) if old == new => {}
                (old, new) => {
                    let (old, new) = (old.unwrap_or("nothing"), new.unwrap_or("nothing"));
                    write!(moved, "\n- {old}\n+ {new}").unwrap();
                }
            }
        }
        assert!(
            moved.is_empty(),
            "results moved; if that is meant, write {} again with LAYERCAST_WRITE_GOLDEN=1, and say in CHANGELOG.md which \
             results moved, and why:{moved}",
            path.display()
        );
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex = blake3::hash(bytes).to_hex();
    hex[..DIGITS].to_owned()
}
