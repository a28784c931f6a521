//! The committed fuzz corpus, replayed on the stable tool chain.

use crate::wire_checks as checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
use crate::internet_checks as internet;
use crate::multicast_checks as multicast;
use crate::xtp_checks as xtp;

#[test]
fn every_file_of_the_corpus_is_decoded_without_harm() {
    corpus::replay(&[
        ("mets", checks::mets),
        ("adapter", checks::adapter),
        ("cell", checks::cell),
        ("aal5", checks::aal5),
        ("datagram", checks::datagram),
        ("signal", checks::signal),
        ("parity", checks::parity),
        ("policer", checks::policer),
        ("ip", internet::ip),
        ("segment", internet::segment),
        ("xtp", xtp::xtp),
        ("rmtp", multicast::rmtp),
        ("frm", multicast::frm),
        ("group", multicast::group),
        ("manifest", multicast::manifest),
    ]);
}
