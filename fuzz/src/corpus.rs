//! Replays the committed corpus; the tests of several crates include this file by its path.

use std::fs;
use std::path::Path;

/// What a fuzz target does with its input.
type Check = fn(&[u8]);

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
