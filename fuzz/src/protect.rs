//! Tokens, proofs and grants: anything decodes to a value or an error, and a value reads back.

use layercast_core::{FlowId, NodeId};
use layercast_protect::{Claimant, ExchangeKey, Proof, Signer, Token, open_grant};

/// A token as text, or the octets of a proof.
pub fn token(data: &[u8]) {
    if let Ok(text) = core::str::from_utf8(data)
        && let Ok(token) = text.parse::<Token>()
    {
        assert_eq!(token.to_string(), text);
    }
    if let Ok(proof) = Proof::decode(data) {
        assert_eq!(proof.encode(), data);
        let claimant = Claimant {
            flow_name: "bunny",
            flow: FlowId(7),
            member: "dwp",
            id: NodeId(4),
            now: 1,
        };
        let _ = proof.verify(&Signer::from_seed(&[1; 32]).public(), &claimant);
    }
}

/// A grant of the source with the seed of ones, for the member with the secret of threes.
pub fn grant(data: &[u8]) {
    let source = Signer::from_seed(&[1; 32]).public();
    let ours = ExchangeKey::new([3; 32]);
    if let Ok(key) = open_grant(data, &source, FlowId(7), "dwp", &ours) {
        assert_eq!(data[..4], key.epoch().to_be_bytes());
    }
}
