//! Replays the committed corpus; the tests of several crates include this file by its path.

use std::fs;
use std::path::Path;

/// What a fuzz target does with its input.
type Check = fn(&[u8]);

/// Whether octets decode to a value.
#[allow(
    dead_code,
    reason = "not every crate that includes this file has decoders to check"
)]
pub type Decodes = fn(&[u8]) -> bool;

/// Asserts that the seeds of each target that are meant to be valid decode: a change of a format without new seeds would
/// leave a corpus of nothing but errors. Valid seeds are those that also exist in a damaged form (`NAME-short`), and those
/// whose names are given.
#[allow(
    dead_code,
    reason = "not every crate that includes this file has decoders to check"
)]
pub fn valid_seeds_decode(targets: &[(&str, &[&str], Decodes)]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, names, decodes) in targets {
        let folder = corpus.join(target);
        let mut seeds: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        for entry in fs::read_dir(&folder).expect("a corpus folder") {
            let name = entry.expect("a file").file_name();
            let name = name.into_string().expect("a name in UTF-8");
            seeds.extend(name.strip_suffix("-short").map(str::to_owned));
        }
        assert!(
            seeds.len() >= 2,
            "{target} has only {} valid seeds",
            seeds.len()
        );
        for seed in seeds {
            let data = fs::read(folder.join(&seed)).expect("readable");
            assert!(decodes(&data), "{target}/{seed} does not decode");
        }
    }
}

/// Gives every file of each target's corpus to its check, and names it for when the check panics.
pub fn replay(targets: &[(&str, Check)]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, check) in targets {
        let mut files = 0;
        for entry in fs::read_dir(corpus.join(target)).expect("a corpus folder") {
            let path = entry.expect("a file").path();
            println!("{}", path.display());
            check(&fs::read(&path).expect("readable"));
            files += 1;
        }
        assert!(files >= 4, "{target} has only {files} files");
    }
}
