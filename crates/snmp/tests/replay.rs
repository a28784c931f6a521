//! The committed fuzz corpus, replayed on the stable tool chain.

#[path = "../../../fuzz/src/snmp.rs"]
mod checks;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_is_taken_without_harm() {
    corpus::replay(&[("snmp", checks::snmp)]);
    let decodes: corpus::Decodes = |data| layercast_snmp::Message::decode(data).is_ok();
    corpus::valid_seeds_decode(&[("snmp", &[], decodes)]);
}
