use super::*;
use layercast_wire::multicast::Reason;

fn abort(session: u64) -> Packet {
    let reason = Reason::User;
    Packet {
        session,
        body: Body::Abort { reason },
    }
}

fn from() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

fn take(inbox: &mut Inbox, bytes: &[u8]) -> Option<Datagram> {
    let mut bytes = bytes.to_vec();
    let content = inbox
        .open(from(), &mut bytes)
        .ok()
        .map(Bytes::copy_from_slice);
    inbox.deliver(from(), content?, false);
    inbox.came.pop().map(|it| it.2)
}

fn announced(keys: &mut Keys) -> Vec<u8> {
    let mut out = Vec::new();
    // Any content: the header says that it announces.
    keys.put_sealed(7, true, &mut out, |out| abort(7).encode_into(out));
    out
}

/// Control of both directions is authenticated: what has no key, another one, or comes again is not heard.
#[test]
fn nothing_is_heard_that_was_not_sealed_with_the_key() {
    let mut sender = Keys::sender(Some(&[1; 32]), 7);
    let mut receiver = Inbox::with(Keys::receiver(Some(&[1; 32]), MemberId(3)));
    let mut stranger = Inbox::with(Keys::receiver(Some(&[2; 32]), MemberId(3)));
    let open = announced(&mut sender);
    assert_eq!(take(&mut receiver, &open), Some(Datagram::Packet(abort(7))));
    assert_eq!(take(&mut receiver, &open), None, "a repetition");
    assert_eq!(take(&mut stranger, &open), None);
    assert_eq!(stranger.others, [(from(), 7)]);
    assert!(receiver.others.is_empty());
    let mut sealed = Vec::new();
    sender.put(&abort(7), &mut sealed);
    assert_eq!(sealed.len(), sender.len_of(&abort(7)));
    let mut clear = Vec::new();
    abort(7).encode_into(&mut clear);
    assert_eq!(take(&mut receiver, &clear), None, "in the clear");
    assert_eq!(
        take(&mut receiver, &sealed),
        Some(Datagram::Packet(abort(7)))
    );
    assert_eq!(take(&mut Inbox::default(), &sealed), None, "without a key");
    // And back.
    let mut back = Vec::new();
    receiver.keys.put(&abort(7), &mut back);
    let mut sender = Inbox::with(sender);
    assert_eq!(take(&mut sender, &back), Some(Datagram::Packet(abort(7))));
    assert_eq!(take(&mut sender, &back), None, "a repetition");
    assert_eq!(take(&mut sender, &sealed), None, "its own");
}

#[test]
fn a_packet_of_a_session_without_keys_does_not_leave_in_the_clear() {
    let mut receiver = Keys::receiver(Some(&[1; 32]), MemberId(3));
    let mut out = Vec::new();
    receiver.put(&abort(7), &mut out);
    assert!(out.is_empty());
}

#[test]
fn replayed_announcements_of_many_sessions_do_not_fill_the_memory() {
    let mut receiver = Inbox::with(Keys::receiver(Some(&[1; 32]), MemberId(3)));
    for session in 0..100 {
        let mut sender = Keys::sender(Some(&[1; 32]), session);
        let mut out = Vec::new();
        sender.put_sealed(session, true, &mut out, |out| {
            abort(session).encode_into(out)
        });
        assert!(take(&mut receiver, &out).is_some());
    }
    let Keys::Receiver(keys) = &receiver.keys else {
        panic!("a receiver");
    };
    assert_eq!(keys.sessions.len(), MOST_SESSIONS);
}
