//! The committed fuzz corpus, replayed on the stable tool chain.
//!
//! Its streams are five test pictures of `ffmpeg -f lavfi -i testsrc=s=32x32:r=25`, encoded as
//! MPEG-1 and MPEG-2 with two B pictures, whole and cut short; those of the filter are 96x64, with
//! every option that changes the syntax of macroblocks, and noise for the escapes.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const FILTER_FILES: [&str; 6] = [
    "mpeg1",
    "mpeg1-noise",
    "mpeg2",
    "mpeg2-interlaced",
    "mpeg2-noise",
    "mpeg2-quantiser",
];

const LIVE_FILES: [(&str, &str); 31] = [
    ("h264", "b"),
    ("h264", "interlaced"),
    ("h264", "slices"),
    ("ts", "h264"),
    ("ts", "h265-open"),
    ("ts", "h265-temporal"),
    ("ts", "mpeg2"),
    ("ts", "sound"),
    ("ts", "sections"),
    ("ts", "shared-pes"),
    ("ts", "coded-204"),
    ("ts", "programs"),
    ("rtp", "h264"),
    ("rtp", "h265"),
    ("h265", "open"),
    ("h265", "temporal"),
    ("ivf", "av1"),
    ("ivf", "av1-annex-b"),
    ("ivf", "av1-obu"),
    ("ivf", "av1-temporal"),
    ("ivf", "vp8"),
    ("ivf", "vp9"),
    ("rtp", "mpeg1"),
    ("rtp", "mp2t"),
    ("rtp", "vp8"),
    ("rtp", "vp9"),
    ("rtp", "av1-temporal"),
    ("rtp", "described-av1"),
    ("ivf", "again"),
    ("splice", "programs"),
    ("splice", "inputs-2"),
];

#[path = "../../../../fuzz/src/media.rs"]
mod checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_read_without_harm() {
    corpus::replay(&[
        ("mpeg_es", checks::mpeg_es),
        ("mpeg_ps", checks::mpeg_ps),
        ("splice", checks::splice),
        ("trace", checks::trace),
        ("filter", checks::filter),
        ("h264", checks::h264),
        ("h265", checks::h265),
        ("ivf", checks::ivf),
        ("ts", checks::ts),
        ("classes", checks::classes),
        ("rtp", checks::rtp),
    ]);
}

proptest! {
    #[test]
    fn whatever_a_damaged_stream_holds_the_filters_give_legal_frames_or_errors(
        file in 0..FILTER_FILES.len(),
        damage in vec((any::<Index>(), any::<u8>()), 1..12),
        cut in any::<Option<Index>>(),
    ) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/filter");
        let mut data = fs::read(corpus.join(FILTER_FILES[file])).expect("readable");
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] ^= byte;
        }
        if let Some(cut) = cut {
            data.truncate(cut.index(data.len()) + 1);
        }
        checks::filter(&data);
    }

    #[test]
    fn whatever_a_damaged_live_stream_holds_it_becomes_frames_or_is_dropped(
        file in 0..LIVE_FILES.len(),
        damage in vec((any::<Index>(), any::<u8>()), 1..12),
        cut in any::<Option<(Index, Index)>>(),
    ) {
        let (target, name) = LIVE_FILES[file];
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let mut data = fs::read(corpus.join(target).join(name)).expect("readable");
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] ^= byte;
        }
        if let Some((from, to)) = cut {
            let (from, to) = (from.index(data.len()), to.index(data.len()));
            data.drain(from.min(to)..from.max(to));
        }
        match target {
            "h264" => checks::h264(&data),
            "h265" => checks::h265(&data),
            "ivf" => checks::ivf(&data),
            "ts" => checks::ts(&data),
            "splice" => checks::splice(&data),
            _ => checks::rtp(&data),
        }
    }
}
