//! Protected links: nothing but what was sealed opens, and a join URL that is read is written the same.

use layercast_protect::{JoinUrl, LinkKey, LinkOpener, LinkSealer, OpenError, ReplayWindow};

/// Datagrams of a link: the first octet chooses what happens to one that was sealed, the rest is noise,
/// and counters for the window.
pub fn link(data: &[u8]) {
    let key = LinkKey::new(3, [7; 32]);
    let mut opener = LinkOpener::new(&key);
    assert!(
        opener.open(&mut data.to_vec()).is_err(),
        "this is not sealed"
    );
    let Some((&choice, noise)) = data.split_first() else {
        return;
    };
    let mut sealer = LinkSealer::new(&key);
    let mut sealed = Vec::new();
    sealer
        .seal(&mut sealed, |out| out.extend_from_slice(noise))
        .expect("a fresh key");
    let mut changed = sealed.clone();
    let at = usize::from(choice) % changed.len();
    changed[at] ^= 1 << (choice % 8);
    assert!(opener.open(&mut changed).is_err());
    let short = sealed.len() - 1 - at;
    assert!(opener.open(&mut sealed[..short].to_vec()).is_err());
    opener.add(&LinkKey::new(choice & 0x0F, [8; 32]));
    match opener.open(&mut sealed.clone()) {
        Ok(plain) => assert_eq!(plain, noise),
        // The new key took its number.
        Err(error) => assert!(choice & 0x0F == 3, "{error}"),
    }
    if choice & 0x0F != 3 {
        let again = opener.open(&mut sealed);
        assert!(matches!(again, Err(OpenError::Replayed { .. })));
    }
    let mut window = ReplayWindow::default();
    for counter in noise.chunks_exact(8) {
        let counter = u64::from_be_bytes(counter.try_into().expect("eight octets"));
        assert_eq!(window.is_fresh(counter), window.accept(counter));
        assert!(!window.accept(counter));
    }
}

/// A join URL.
pub fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(url) = text.parse::<JoinUrl>() {
        assert_eq!(url.to_string().parse(), Ok(url));
    }
}
