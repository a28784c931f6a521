//! The committed fuzz corpus, replayed on the stable tool chain.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/wire.rs"]
mod checks;

type Check = fn(&[u8]);

#[test]
fn every_file_of_the_corpus_is_decoded_without_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let targets: [(&str, Check); 6] = [
        ("mets", checks::mets),
        ("adapter", checks::adapter),
        ("cell", checks::cell),
        ("aal5", checks::aal5),
        ("datagram", checks::datagram),
        ("signal", checks::signal),
    ];
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
