use layercast_wire::multicast::{Body, MemberId, Open, Packet};

/// The key by which a member proves possession of the object, derived from the sender's master key.
pub fn member_key(master: &[u8; 32], member: MemberId) -> [u8; 32] {
    *blake3::keyed_hash(master, &member.0.to_be_bytes()).as_bytes()
}

/// Proof that a member has the object with this digest in this session; zeros without a key.
pub(crate) fn receipt(
    key: Option<&[u8; 32]>,
    session: u64,
    member: MemberId,
    digest: &[u8; 32],
) -> [u8; 16] {
    let Some(key) = key else {
        return [0; 16];
    };
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&session.to_be_bytes());
    hasher.update(&member.0.to_be_bytes());
    hasher.update(digest);
    let hash = hasher.finalize();
    core::array::from_fn(|at| hash.as_bytes()[at])
}

/// The key by which a sender proves that it announced a session, derived from the master key of its receipts.
pub fn announcement_key(master: &[u8; 32]) -> [u8; 32] {
    *blake3::keyed_hash(master, b"announcement").as_bytes()
}

/// Proof that the holder of the key announces this session.
pub(crate) fn announcement(key: &[u8; 32], session: u64, open: &Open) -> [u8; 16] {
    let mut bytes = Vec::new();
    let body = Body::Open(Box::new(Open {
        proof: None,
        ..open.clone()
    }));
    Packet { session, body }.encode_into(&mut bytes);
    let hash = blake3::keyed_hash(key, &bytes);
    core::array::from_fn(|at| hash.as_bytes()[at])
}

/// Whether an announcement was made with the key; without a key every announcement is accepted.
pub(crate) fn is_believed(key: Option<&[u8; 32]>, session: u64, open: &Open) -> bool {
    key.is_none_or(|key| open.proof == Some(announcement(key, session, open)))
}
