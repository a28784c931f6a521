//! Sealing and opening of the datagrams of a link: what is whole opens once, and nothing else opens.

use layercast_core::{Level, Time};
use layercast_protect::{
    Claims, ExchangeKey, GRACE, GroupKey, LINK_OVERHEAD, LinkKey, LinkKeyError, LinkOpener,
    LinkSealer, MediaCipher, OpenError, Random, ReplayWindow, Seed, Signer, Token,
};
use proptest::prelude::*;

fn key(id: u8, fill: u8) -> LinkKey {
    LinkKey::new(id, [fill; 32])
}

fn seal(sealer: &mut LinkSealer, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sealer
        .seal(&mut out, |out| out.extend_from_slice(plain))
        .unwrap();
    out
}

fn open(opener: &mut LinkOpener, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut sealed = sealed.to_vec();
    opener.open(&mut sealed).map(|plain| plain.to_vec())
}

#[test]
fn a_sealed_datagram_stands_behind_what_was_there_and_opens_in_place() {
    let mut sealer = LinkSealer::new(&key(3, 7));
    let mut out = b"before".to_vec();
    let write = |out: &mut Vec<u8>| out.extend_from_slice(b"media");
    sealer.seal(&mut out, write).unwrap();
    assert_eq!(out.len(), 6 + 5 + LINK_OVERHEAD);
    assert_eq!(&out[..6], b"before");
    assert_eq!(out[6], 0xD3);
    assert!(!out.windows(5).any(|part| part == b"media"));
    let mut opener = LinkOpener::new(&key(3, 7));
    assert_eq!(opener.open(&mut out[6..]).unwrap(), b"media");
}

#[test]
fn a_replay_is_told_from_a_forgery() {
    let mut sealer = LinkSealer::new(&key(0, 1));
    let mut opener = LinkOpener::new(&key(0, 1));
    let first = seal(&mut sealer, b"first");
    let second = seal(&mut sealer, b"second");
    assert_eq!(open(&mut opener, &second).unwrap(), b"second");
    assert_eq!(open(&mut opener, &first).unwrap(), b"first");
    let replayed = Err(OpenError::Replayed { counter: 0 });
    assert_eq!(open(&mut opener, &first), replayed);
    let mut wrong = seal(&mut sealer, b"third");
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(open(&mut opener, &wrong), Err(OpenError::Forged));
}

#[test]
fn a_forgery_does_not_move_the_window() {
    let mut sealer = LinkSealer::new(&key(0, 1));
    let mut opener = LinkOpener::new(&key(0, 1));
    let honest = seal(&mut sealer, b"honest");
    let mut forged = honest.clone();
    forged[1..9].copy_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(open(&mut opener, &forged), Err(OpenError::Forged));
    assert_eq!(open(&mut opener, &honest).unwrap(), b"honest");
}

#[test]
fn the_header_is_authenticated() {
    let sealed = seal(&mut LinkSealer::new(&key(0, 1)), b"media");
    let mut opener = LinkOpener::new(&key(0, 1));
    // The same secret under another number is another key: a datagram cannot be relabelled.
    opener.add(&key(1, 1));
    let mut relabelled = sealed.clone();
    relabelled[0] = 0xD1;
    assert_eq!(open(&mut opener, &relabelled), Err(OpenError::Forged));
    // Another mark is another protocol, and a tag that is cut off leaves nothing to open.
    let len = sealed.len();
    relabelled[0] = 0x40;
    let not_sealed = |len| Err(OpenError::NotSealed { len });
    assert_eq!(open(&mut opener, &relabelled), not_sealed(len));
    let short = LINK_OVERHEAD - 1;
    assert_eq!(open(&mut opener, &sealed[..short]), not_sealed(short));
    assert!(open(&mut opener, &sealed).is_ok());
}

#[test]
fn a_key_is_changed_without_losing_what_is_under_way() {
    let (now, old, new) = (Time::ZERO, key(15, 1), key(16, 2));
    let mut sealer = LinkSealer::new(&old);
    let mut opener = LinkOpener::new(&old);
    assert_eq!((old.id(), new.id()), (15, 0));
    let under_way = seal(&mut sealer, b"old");
    sealer.stage(now, new.clone());
    opener.add(&new);
    assert_eq!(sealer.next_key().unwrap().id(), 0, "numbers wrap");
    sealer.on_timeout(now);
    let before = seal(&mut sealer, b"still old");
    assert_eq!(sealer.next_timeout(), Some(now + GRACE));
    sealer.on_timeout(now + GRACE);
    assert_eq!(sealer.next_timeout(), None);
    let after = seal(&mut sealer, b"new");
    assert_eq!((before[0], after[0]), (0xDF, 0xD0));
    for (sealed, plain) in [
        (after, &b"new"[..]),
        (before, b"still old"),
        (under_way.clone(), b"old"),
    ] {
        assert_eq!(open(&mut opener, &sealed).unwrap(), plain);
    }
    opener.add(&key(1, 3));
    let gone = Err(OpenError::UnknownKey { id: 15 });
    assert_eq!(open(&mut opener, &under_way), gone);
}

#[test]
fn datagrams_may_overtake_each_other_within_the_window() {
    let mut sealer = LinkSealer::new(&key(0, 1));
    let mut opener = LinkOpener::new(&key(0, 1));
    let sealed: Vec<_> = (0..=ReplayWindow::SIZE)
        .map(|_| seal(&mut sealer, b"x"))
        .collect();
    for datagram in sealed.iter().rev() {
        assert_eq!(open(&mut opener, datagram).unwrap(), b"x");
    }
    const { assert!(ReplayWindow::SIZE >= 1_024) };
}

#[test]
fn keys_are_handed_over_as_text_and_do_not_show_in_logs() {
    let key = key(9, 0xAB);
    assert_eq!(key.to_text().parse(), Ok(key.clone()));
    assert_eq!(format!("{key:?}"), "LinkKey(9, ..)");
    let id_16 = format!("EA{}", &key.to_text()[2..]);
    for text in ["", "AAAA", &"A".repeat(43), &id_16] {
        assert_eq!(text.parse::<LinkKey>(), Err(LinkKeyError), "{text}");
    }
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let key = GroupKey::new(300, &[5; 32]);
    let source = Signer::from_seed(&[1; 32]);
    let source_key = source.public();
    for (shown, expected) in [
        (
            format!("{key:?}"),
            "GroupKey(epoch 300, 3 layers)".to_owned(),
        ),
        (
            format!("{:?}", MediaCipher::new(&key)),
            "MediaCipher(epoch 300)".to_owned(),
        ),
        (
            format!("{:?}", ExchangeKey::new([3; 32])),
            "ExchangeKey(..)".to_owned(),
        ),
        (format!("{source:?}"), format!("Signer({source_key})")),
        (
            format!("{source_key:?}"),
            format!("SourceKey({source_key})"),
        ),
        (
            format!("{:?}", Random::new(&[1; 32])),
            "Random(0 drawn)".to_owned(),
        ),
        (format!("{:?}", Seed([1; 32])), "Seed(..)".to_owned()),
    ] {
        assert_eq!(shown, expected);
    }
    let claims = Claims {
        flow: "bunny".into(),
        member: None,
        level: Level::FULL,
        expires: 1,
    };
    let token = Token::issue(&source, claims, [2; 32]);
    let (shown, text) = (format!("{token:?}"), token.to_string());
    assert!(shown.contains("bunny"), "{shown}");
    assert!(!shown.contains(&text[text.len() - 20..]), "{shown}");
}

proptest! {
    #[test]
    fn whatever_is_sealed_opens_once(
        secret: [u8; 32],
        plains in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1_500), 1..20),
    ) {
        let key = LinkKey::new(1, secret);
        let (mut sealer, mut opener) = (LinkSealer::new(&key), LinkOpener::new(&key));
        for plain in plains {
            let sealed = seal(&mut sealer, &plain);
            prop_assert_eq!(sealed.len(), plain.len() + LINK_OVERHEAD);
            prop_assert_eq!(open(&mut opener, &sealed), Ok(plain));
            let again = open(&mut opener, &sealed);
            let replayed = matches!(again, Err(OpenError::Replayed { .. }));
            prop_assert!(replayed);
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_and_nothing_opens(
        plain in prop::collection::vec(any::<u8>(), 0..200),
        at: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let mut sealed = seal(&mut LinkSealer::new(&key(2, 5)), &plain);
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        let opened = open(&mut LinkOpener::new(&key(2, 5)), &sealed);
        prop_assert!(opened.is_err());
    }

    #[test]
    fn noise_does_not_open(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut opener = LinkOpener::new(&key(0, 1));
        prop_assert!(open(&mut opener, &noise).is_err());
        let mut marked = noise;
        if let Some(first) = marked.first_mut() {
            *first = 0xD0;
        }
        prop_assert!(open(&mut opener, &marked).is_err());
    }
}
