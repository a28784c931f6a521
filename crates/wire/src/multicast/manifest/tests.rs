use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn entry(parent: Option<u32>, name: &[u8], kind: Kind) -> Entry {
    Entry {
        parent,
        name: name.into(),
        kind,
        mode: 0o644,
        modified: Modified::default(),
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Folder),
        any::<u32>().prop_map(|size| Kind::File { size: size.into() }),
        (any::<u32>(), 0..Withdrawal::ALL.len()).prop_map(|(size, cause)| Kind::Withdrawn {
            size: size.into(),
            cause: Withdrawal::ALL[cause],
        }),
    ]
}

fn modified() -> impl Strategy<Value = Modified> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(seconds, nanoseconds)| Modified {
        seconds,
        nanoseconds,
    })
}

prop_compose! {
    /// Whatever of random entries a manifest takes.
    fn manifest()(
        batch in any::<u64>(),
        entries in vec((any::<Option<u8>>(), vec(any::<u8>(), 0..20), kind(), 0u16..=0o1777, modified()), 0..60),
    ) -> Manifest {
        let mut manifest = ManifestBuilder::new(batch);
        for (parent, name, kind, mode, modified) in entries {
            let parent = parent.map(|it| u32::from(it) % 8);
            let _ = manifest.push(Entry { parent, name: name.into(), kind, mode, modified });
        }
        manifest.build()
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(manifest in manifest()) {
        let octets = manifest.encode();
        prop_assert_eq!(&Manifest::decode(&octets).unwrap(), &manifest);
        for at in 0..octets.len() {
            prop_assert!(Manifest::decode(&octets[..at]).is_err());
        }
        let longer = [&octets[..], &[0]].concat();
        prop_assert_eq!(Manifest::decode(&longer), Err(ManifestError::Length));
    }

    #[test]
    fn any_octets_give_a_manifest_or_an_error(octets in vec(any::<u8>(), 0..300), good in manifest(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let _ = Manifest::decode(&octets);
        let mut bent = good.encode();
        let at = at.index(bent.len());
        bent[at] ^= 1u8 << bit;
        if let Ok(manifest) = Manifest::decode(&bent) {
            prop_assert_eq!(manifest.encode(), bent);
        }
    }
}

#[test]
fn names_that_do_harm_are_refused() {
    for (name, fault) in [
        (&b""[..], NameFault::Empty),
        (b".", NameFault::Dots),
        (b"..", NameFault::Dots),
        (b"a/b", NameFault::Slash),
        (b"a\0b", NameFault::Control('\0')),
        (b"a\x1b[2J", NameFault::Control('\x1b')),
        (b"a\x7f", NameFault::Control('\x7f')),
        ("a\u{85}".as_bytes(), NameFault::Control('\u{85}')),
        ("a\u{2028}".as_bytes(), NameFault::Control('\u{2028}')),
        (
            "cod\u{202e}4pm.exe".as_bytes(),
            NameFault::Direction('\u{202e}'),
        ),
        ("a\u{2066}".as_bytes(), NameFault::Direction('\u{2066}')),
        ("a\u{200f}".as_bytes(), NameFault::Direction('\u{200f}')),
        (&[b'n'; 256], NameFault::Long),
    ] {
        assert_eq!(check_name(name), Err(fault), "{name:?}");
    }
    for good in ["back\\slash", ".x", "..x", "-rf", "größe", "数 据", "a b"] {
        assert_eq!(check_name(good.as_bytes()), Ok(()), "{good}");
    }
    assert_eq!(check_name(b"caf\xe9.txt"), Ok(()));
    assert_eq!(check_name(&[b'n'; 255]), Ok(()));
}

#[test]
fn a_tree_is_valid_as_a_whole() {
    let mut manifest = ManifestBuilder::new(7);
    let top = manifest.push(entry(None, b"top", Kind::Folder)).unwrap();
    let sub = manifest
        .push(entry(Some(top), b"sub", Kind::Folder))
        .unwrap();
    let file = Kind::File { size: 5 };
    let at = manifest.push(entry(Some(sub), b"a", file)).unwrap();
    assert_eq!(manifest.manifest().path(at), [&b"top"[..], b"sub", b"a"]);
    assert_eq!(
        manifest.push(entry(Some(sub), b"a", file)),
        Err(ManifestError::Twice(3))
    );
    assert_eq!(
        manifest.push(entry(Some(at), b"b", file)),
        Err(ManifestError::Parent(3))
    );
    assert_eq!(
        manifest.push(entry(Some(3), b"b", file)),
        Err(ManifestError::Parent(3))
    );
    let most = Kind::File { size: u64::MAX };
    assert_eq!(
        manifest.push(entry(None, b"b", most)),
        Err(ManifestError::Total)
    );
    let setuid = Entry {
        mode: 0o4755,
        ..entry(None, b"b", file)
    };
    assert_eq!(manifest.push(setuid), Err(ManifestError::Field(3)));
    let mut manifest = manifest.build();
    assert_eq!((manifest.octets(), manifest.files().count()), (5, 1));
    manifest.withdraw(at, Withdrawal::Changed);
    manifest.withdraw(top, Withdrawal::Changed);
    let again = Manifest::decode(&manifest.encode()).unwrap();
    assert_eq!(again, manifest);
    assert_eq!(again.entries()[0].kind, Kind::Folder);
}

#[test]
fn folders_in_folders_end_somewhere() {
    let mut manifest = ManifestBuilder::new(0);
    let mut parent = None;
    for _ in 0..MAX_DEPTH {
        parent = Some(manifest.push(entry(parent, b"d", Kind::Folder)).unwrap());
    }
    let deeper = manifest.push(entry(parent, b"d", Kind::Folder));
    assert_eq!(deeper, Err(ManifestError::Depth(u32::from(MAX_DEPTH))));
}
