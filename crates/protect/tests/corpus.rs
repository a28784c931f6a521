//! The committed fuzz corpus, replayed on the stable tool chain.

use layercast_core::{FlowId, NodeId};
use layercast_protect::{Claimant, ExchangeKey, JoinUrl, Proof, Signer, Token, open_grant};

#[path = "../../../fuzz/src/link.rs"]
mod checks;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/src/protect.rs"]
mod group_checks;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[
        ("link", checks::link),
        ("url", checks::url),
        ("token", group_checks::token),
        ("grant", group_checks::grant),
    ]);
}

#[test]
fn the_valid_seeds_of_the_corpus_are_valid() {
    // As examples/protect_corpus.rs makes them.
    fn source() -> Signer {
        Signer::from_seed(&[1; 32])
    }
    let token: corpus::Decodes = |data| {
        let claimant = Claimant {
            flow_name: "bunny",
            flow: FlowId(7),
            member: "dwp",
            id: NodeId(4),
            now: 1,
        };
        let text = core::str::from_utf8(data).ok();
        text.is_some_and(|text| text.parse::<Token>().is_ok())
            || Proof::check(data, &source().public(), &claimant).is_ok()
    };
    let grant: corpus::Decodes = |data| {
        let ours = ExchangeKey::new([3; 32]);
        open_grant(data, &source().public(), FlowId(7), "dwp", &ours).is_ok()
    };
    let url: corpus::Decodes = |data| {
        let text = core::str::from_utf8(data).ok();
        text.is_some_and(|text| text.parse::<JoinUrl>().is_ok())
    };
    corpus::valid_seeds_decode(&[
        ("token", &[], token),
        ("grant", &[], grant),
        ("url", &["any", "control", "full", "plain"], url),
    ]);
}
