//! The committed fuzz corpus, replayed on the stable tool chain.
//!
//! Its streams are five test pictures of `ffmpeg -f lavfi -i testsrc=s=32x32:r=25`, encoded as
//! MPEG-1 and MPEG-2 with two B pictures, whole and cut short.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/media.rs"]
mod checks;

type Check = fn(&[u8]);

#[test]
fn every_file_of_the_corpus_is_read_without_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let targets: [(&str, Check); 3] = [
        ("mpeg_es", checks::mpeg_es),
        ("mpeg_ps", checks::mpeg_ps),
        ("trace", checks::trace),
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
