//! Tokens, proofs, grants and sealed media: what they permit, and that they permit no more.

use layercast_core::{FlowId, Layer, Level, NodeId, Resource, Serial};
use layercast_protect::{
    Claimant, Claims, ExchangeKey, GrantError, Grantee, GroupKey, MEDIA_OVERHEAD, MediaCipher,
    MediaError, OctetsError, PROOF_LIFE, PROOF_RENEWAL, PROOF_SKEW, Place, Proof, ProofError,
    Random, Signer, Token, TokenError, grant, open_grant,
};
use proptest::prelude::*;

#[path = "../../../fuzz/src/protect.rs"]
mod checks;

const FLOW: FlowId = FlowId(7);

fn source() -> Signer {
    Signer::from_seed(&[1; 32])
}

fn token(member: Option<&str>) -> Token {
    let claims = Claims {
        flow: "bunny".into(),
        member: member.map(str::to_owned),
        level: Level::E1,
        expires: 1_000,
    };
    Token::issue(&source(), claims, [2; 32])
}

fn claimant(member: &str) -> Claimant<'_> {
    Claimant {
        flow_name: "bunny",
        flow: FLOW,
        member,
        id: NodeId(4),
        now: 999,
    }
}

#[test]
fn a_proof_holds_for_its_flow_member_and_time() {
    let key = source().public();
    let token = token(Some("dwp"));
    let octets = token.prove(FLOW, ("dwp", NodeId(4)), [9; 32], 900).encode();
    let check = |claimant: Claimant<'_>| Proof::check(&octets, &key, &claimant).map(|_| ());
    assert_eq!(check(claimant("dwp")), Ok(()));
    let other_flow = Claimant {
        flow_name: "canyon",
        ..claimant("dwp")
    };
    assert_eq!(check(other_flow), Err(ProofError::Flow));
    let other_id = Claimant {
        flow: FlowId(8),
        ..claimant("dwp")
    };
    assert_eq!(check(other_id), Err(ProofError::Holder));
    assert_eq!(check(claimant("njy")), Err(ProofError::Member));
    let other_number = Claimant {
        id: NodeId(5),
        ..claimant("dwp")
    };
    assert_eq!(check(other_number), Err(ProofError::Holder));
    let late = Claimant {
        now: 1_000,
        ..claimant("dwp")
    };
    assert_eq!(check(late), Err(ProofError::Expired));
    let stranger = Signer::from_seed(&[8; 32]).public();
    let wrong = Proof::check(&octets, &stranger, &claimant("dwp"));
    assert_eq!(wrong.map(|_| ()), Err(ProofError::Source));
    let proof = Proof::check(&octets, &key, &claimant("dwp")).unwrap();
    assert_eq!((proof.claims().level, proof.exchange), (Level::E1, [9; 32]));
}

#[test]
fn a_proof_is_valid_for_a_short_time_around_its_making() {
    let key = source().public();
    let token = token(Some("dwp"));
    let at = |issued: u64, now| {
        let octets = token
            .prove(FLOW, ("dwp", NodeId(4)), [9; 32], issued)
            .encode();
        let claimant = Claimant {
            now,
            ..claimant("dwp")
        };
        Proof::check(&octets, &key, &claimant).map(|_| ())
    };
    // A member whose clock is ahead, and whose first renewal is lost, still has a valid proof.
    const { assert!(PROOF_RENEWAL > 0 && 2 * PROOF_RENEWAL + PROOF_SKEW < PROOF_LIFE) }
    let now = 500;
    for issued in [now - PROOF_LIFE, now, now + PROOF_SKEW] {
        assert_eq!(at(issued, now), Ok(()));
    }
    for issued in [0, now - PROOF_LIFE - 1, now + PROOF_SKEW + 1, u64::MAX] {
        assert_eq!(at(issued, now), Err(ProofError::Stale { issued, now }));
        assert_eq!(
            ProofError::Stale { issued, now }.resource(),
            Resource::StaleProof
        );
    }
}

#[test]
fn a_proof_for_any_member_is_still_for_one() {
    let octets = token(None)
        .prove(FLOW, ("dwp", NodeId(4)), [9; 32], 900)
        .encode();
    let key = source().public();
    assert!(Proof::check(&octets, &key, &claimant("dwp")).is_ok());
    let longer = [&octets[..], &[0]].concat();
    let checked = Proof::check(&longer, &key, &claimant("dwp")).map(|_| ());
    assert_eq!(checked, Err(ProofError::Octets(OctetsError::Length)));
    let stolen = Proof::check(&octets, &key, &claimant("njy"));
    assert_eq!(stolen.map(|_| ()), Err(ProofError::Holder));
}

#[test]
fn a_token_with_the_secret_of_another_is_none() {
    let text = token(None).to_string();
    assert_eq!(text.parse(), Ok(token(None)));
    let cut = &text[..text.len() - 4];
    assert!(matches!(cut.parse::<Token>(), Err(TokenError::Octets(_))));
    let last = text.len() - 8;
    let swapped = format!("{}AAAAAAAA", &text[..last]);
    assert_eq!(swapped.parse::<Token>(), Err(TokenError::Holder));
    assert_eq!("a token!".parse::<Token>(), Err(TokenError::Encoding));
}

#[test]
fn a_grant_opens_for_its_member_only_and_only_up_to_its_level() {
    let (ours, theirs) = (ExchangeKey::new([3; 32]), ExchangeKey::new([4; 32]));
    let exchange = ours.public();
    let grantee = Grantee {
        flow: FLOW,
        member: "dwp",
        exchange: &exchange,
    };
    let key = GroupKey::new(300, &[5; 32]);
    let octets = grant(&source(), &grantee, &key.up_to(Level::E1), [6; 32]).unwrap();
    let public = source().public();
    let opened = open_grant(&octets, &public, FLOW, "dwp", &ours).unwrap();
    assert_eq!(opened, key.up_to(Level::E1));
    let denied = Err(GrantError::Signature);
    assert_eq!(open_grant(&octets, &public, FLOW, "njy", &ours), denied);
    assert_eq!(
        open_grant(&octets, &public, FlowId(8), "dwp", &ours),
        denied
    );
    assert_eq!(open_grant(&octets, &public, FLOW, "dwp", &theirs), denied);
    let stranger = Signer::from_seed(&[8; 32]).public();
    assert_eq!(open_grant(&octets, &stranger, FLOW, "dwp", &ours), denied);

    let (all, some) = (MediaCipher::new(&key), MediaCipher::new(&opened));
    let place = Place {
        flow: FLOW,
        seq: Serial(1),
        offset: 0,
    };
    for layer in Layer::ALL {
        let mut media = b"a picture".to_vec();
        let trailer = all.seal(layer, place, b"header", &mut media).unwrap();
        media.extend_from_slice(&trailer);
        let expected = match layer {
            Layer::E2 => Err(MediaError::NoKey),
            _ => Ok(b"a picture".len()),
        };
        assert_eq!(some.open(layer, place, b"header", &mut media), expected);
    }
}

#[test]
fn a_grant_has_one_to_three_whole_keys() {
    let ours = ExchangeKey::new([3; 32]);
    let opened = |sealed: usize| {
        let octets = vec![7; 4 + 32 + sealed + 64];
        open_grant(&octets, &source().public(), FLOW, "dwp", &ours)
    };
    let length = Err(GrantError::Octets(OctetsError::Length));
    // A tag alone, part of a key, and one key too many.
    for sealed in [0, 15, 16, 47, 49, 80 + 1, 32 * 4 + 16] {
        assert_eq!(opened(sealed), length, "{sealed}");
    }
    for keys in 1..=3 {
        assert_eq!(opened(32 * keys + 16), Err(GrantError::Signature));
    }
}

#[test]
fn names_in_proofs_are_short_and_printable() {
    let named = |member: &str| {
        let proof = token(Some(member)).prove(FLOW, (member, NodeId(4)), [9; 32], 900);
        Proof::decode(&proof.encode()).map(|proof| proof.claims().member.clone())
    };
    let long = "n".repeat(256);
    assert_eq!(named(&long), Ok(Some(long.clone())));
    assert_eq!(named("a\nb"), Err(OctetsError::Range("name")));
    // The longest name proves its member; a longer one is refused.
    let proof = token(None).prove(FLOW, (&long, NodeId(4)), [9; 32], 900);
    assert!(proof.verify(&source().public(), &claimant(&long)).is_ok());
    // The length of the name of the flow, behind version, level, member, expiry and holder.
    let mut octets = proof.encode();
    let at = 3 + 8 + 32;
    assert_eq!(octets[at..at + 2], [0, 5], "bunny");
    octets[at..at + 2].copy_from_slice(&[1, 1]);
    octets.splice(at + 2..at + 7, vec![b'n'; 257]);
    assert_eq!(Proof::decode(&octets), Err(OctetsError::Range("name")));
}

#[test]
fn all_proofs_of_a_token_name_its_holder() {
    let claims = |seed: u8| Token::issue(&source(), token(None).claims().clone(), [seed; 32]);
    let proof = |token: &Token, now| token.prove(FLOW, ("dwp", NodeId(4)), [9; 32], now);
    let (one, other) = (claims(2), claims(3));
    assert_eq!(one.claims(), token(None).claims());
    assert_eq!(
        proof(&one, 1).holder(),
        Signer::from_seed(&[2; 32]).public()
    );
    assert_eq!(proof(&one, 1).holder(), proof(&one, 2).holder());
    assert_ne!(proof(&one, 1).holder(), proof(&other, 1).holder());
}

#[test]
fn a_refused_proof_names_what_is_missing() {
    let stale = ProofError::Stale { issued: 1, now: 2 };
    for (error, resource) in [
        (ProofError::Expired, Resource::TokenExpired),
        (stale, Resource::StaleProof),
        (ProofError::Source, Resource::Token),
        (ProofError::Holder, Resource::Token),
        (ProofError::Octets(OctetsError::Length), Resource::Token),
    ] {
        assert_eq!(error.resource(), resource);
    }
}

#[test]
fn media_name_their_epoch() {
    let key = GroupKey::new(300, &[5; 32]);
    let cipher = MediaCipher::new(&key);
    assert_eq!((key.epoch(), cipher.epoch()), (300, 300));
    let place = Place {
        flow: FLOW,
        seq: Serial(1),
        offset: 0,
    };
    let mut media = b"m".to_vec();
    let trailer = cipher
        .seal(Layer::Base, place, b"header", &mut media)
        .unwrap();
    media.extend_from_slice(&trailer);
    assert_eq!(MediaCipher::epoch_of(&media), Some(44));
    assert_eq!(
        MediaCipher::epoch_of(&media[1..]),
        None,
        "nothing is sealed"
    );
    // Sealed nothing is no media, whatever its tag.
    let mut nothing = Vec::new();
    let trailer = cipher.seal(Layer::Base, place, b"header", &mut nothing);
    let mut sealed = trailer.unwrap().to_vec();
    let opened = cipher.open(Layer::Base, place, b"header", &mut sealed);
    assert_eq!(opened, Err(MediaError::NotSealed(MEDIA_OVERHEAD)));
}

#[test]
fn a_key_that_fixes_every_agreement_is_refused() {
    let grantee = Grantee {
        flow: FLOW,
        member: "dwp",
        exchange: &[0; 32],
    };
    let key = GroupKey::new(1, &[5; 32]);
    let made = grant(&source(), &grantee, &key, [6; 32]);
    assert_eq!(made, Err(GrantError::Sealed));
}

#[test]
fn the_exchange_is_that_of_rfc_7748() {
    // Section 5.2: the first iteration from k = u = 9, the base point.
    let mut nine = [0; 32];
    nine[0] = 9;
    let expected = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079";
    assert_eq!(ExchangeKey::new(nine).public(), hex(expected)[..]);
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let octet = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16);
    digits.map(|pair| octet(pair).unwrap()).collect()
}

#[test]
fn secrets_of_a_seed_repeat_themselves_and_never_one_another() {
    let draw = |seed: u8| {
        let mut random = Random::new(&[seed; 32]);
        [random.draw(), random.draw()]
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1)[0], draw(1)[1]);
    assert_ne!(draw(1)[0], draw(2)[0]);
}

proptest! {
    #[test]
    fn tokens_and_proofs_read_back(
        flow in "\\PC{0,40}", member in prop::option::of("\\PC{1,40}"), level in 0u8..3,
        expires: u64, seed: [u8; 32], exchange: [u8; 32], issued: u64,
    ) {
        let level = Level::new(level).unwrap();
        let claims = Claims { flow, member, level, expires };
        let token = Token::issue(&source(), claims, seed);
        prop_assert_eq!(token.to_string().parse(), Ok(token.clone()));
        let proof = token.prove(FLOW, ("dwp", NodeId(4)), exchange, issued);
        prop_assert_eq!(Proof::decode(&proof.encode()), Ok(proof));
    }

    #[test]
    fn a_changed_proof_or_grant_is_worth_nothing(at: prop::sample::Index, flip in 1u8..=255) {
        let mut octets = token(None).prove(FLOW, ("dwp", NodeId(4)), [9; 32], 900).encode();
        let index = at.index(octets.len());
        octets[index] ^= flip;
        prop_assert!(Proof::check(&octets, &source().public(), &claimant("dwp")).is_err());
        let ours = ExchangeKey::new([3; 32]);
        let exchange = ours.public();
        let grantee = Grantee { flow: FLOW, member: "dwp", exchange: &exchange };
        let mut octets = grant(&source(), &grantee, &GroupKey::new(1, &[5; 32]), [6; 32]).unwrap();
        let index = at.index(octets.len());
        octets[index] ^= flip;
        prop_assert!(open_grant(&octets, &source().public(), FLOW, "dwp", &ours).is_err());
    }

    #[test]
    fn media_open_as_they_were_sealed_and_not_otherwise(
        media in prop::collection::vec(any::<u8>(), 1..200), epoch: u32, seq: u32, offset: u32,
        at: prop::sample::Index, flip in 1u8..=255, change in 0..4,
    ) {
        let cipher = MediaCipher::new(&GroupKey::new(epoch, &[5; 32]));
        let place = Place { flow: FLOW, seq: Serial(seq), offset };
        let mut header = [7; 24];
        let mut sealed = media.clone();
        let trailer = cipher.seal(Layer::E1, place, &header, &mut sealed).unwrap();
        sealed.extend_from_slice(&trailer);
        prop_assert_eq!(sealed.len(), media.len() + MEDIA_OVERHEAD);
        prop_assert_ne!(&sealed[..media.len()], &media[..], "it is not readable");
        let mut good = sealed.clone();
        let len = cipher.open(Layer::E1, place, &header, &mut good).unwrap();
        prop_assert_eq!(&good[..len], &media[..]);
        let (mut layer, mut place) = (Layer::E1, place);
        match change {
            0 => {
                let index = at.index(sealed.len());
                sealed[index] ^= flip;
            }
            1 => header[at.index(24)] ^= flip,
            2 => place.seq = place.seq.plus(1),
            _ => layer = Layer::E2,
        }
        prop_assert!(cipher.open(layer, place, &header, &mut sealed).is_err());
    }

    #[test]
    fn no_octets_do_harm(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        checks::token(&octets);
        checks::grant(&octets);
        let cipher = MediaCipher::new(&GroupKey::new(1, &[5; 32]));
        let place = Place { flow: FLOW, seq: Serial(1), offset: 0 };
        let mut sealed = octets.clone();
        prop_assert!(cipher.open(Layer::Base, place, b"header", &mut sealed).is_err());
    }
}
