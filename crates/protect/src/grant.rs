use std::fmt;

use layercast_core::FlowId;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use thiserror::Error;
use x25519_dalek::{PublicKey, StaticSecret};

use crate::group::GroupKey;
use crate::octets::{OctetsError, Reader, put_name};
use crate::source::{Signer, SourceKey};

const GRANT: &str = "layercast grant 1";
/// Most keys in a grant: one for each layer.
const MAX_KEYS: usize = 3;
const TAG: usize = 16;

/// The secret half of an X25519 key pair (RFC 7748) that a member makes for one session.
///
/// *ring* has X25519 too, but only for keys that it draws itself; here secrets come from the caller.
pub struct ExchangeKey(StaticSecret);

/// The recipient of a grant, and the request it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grantee<'a> {
    /// The flow.
    pub flow: FlowId,
    /// Name of the member.
    pub member: &'a str,
    /// Its X25519 key.
    pub exchange: &'a [u8; 32],
}

/// Why a grant gives no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum GrantError {
    /// No grant at all.
    #[error("grant: {0}")]
    Octets(#[from] OctetsError),
    /// The source did not sign it for this member and key.
    #[error("the grant is not from the source of the flow, or not for us")]
    Signature,
    /// It does not open.
    #[error("the grant is not sealed for our key")]
    Sealed,
}

impl ExchangeKey {
    /// The key with this secret, which must be random.
    pub fn new(secret: [u8; 32]) -> ExchangeKey {
        ExchangeKey(StaticSecret::from(secret))
    }

    /// Its public half.
    pub fn public(&self) -> [u8; 32] {
        PublicKey::from(&self.0).to_bytes()
    }
}

impl fmt::Debug for ExchangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExchangeKey(..)")
    }
}

/// Seals a group key for one member and signs it; `secret` must be random and used once.
///
/// A grant is `[epoch, 4 octets][X25519 key of the source][sealed keys][signature]`: the keys under
/// AES-256-GCM with the key HKDF-SHA256 makes of the X25519 agreement, which is used once.
pub fn grant(
    source: &Signer,
    grantee: &Grantee<'_>,
    key: &GroupKey,
    secret: [u8; 32],
) -> Result<Vec<u8>, GrantError> {
    let ours = ExchangeKey::new(secret);
    let cipher = cipher(&ours, grantee.exchange, grantee, &ours.public())?;
    let mut sealed: Vec<u8> = key.keys().concat();
    let aad = Aad::from(key.epoch().to_be_bytes());
    cipher
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            aad,
            &mut sealed,
        )
        .map_err(|_| GrantError::Sealed)?;
    let mut out = Vec::new();
    out.extend_from_slice(&key.epoch().to_be_bytes());
    out.extend_from_slice(&ours.public());
    out.extend_from_slice(&sealed);
    let signature = source.sign(GRANT, &signed(grantee, &out));
    out.extend_from_slice(&signature);
    Ok(out)
}

/// Opens a grant of the source `source` with our secret `ours` and returns the group key.
pub fn open_grant(
    octets: &[u8],
    source: &SourceKey,
    flow: FlowId,
    member: &str,
    ours: &ExchangeKey,
) -> Result<GroupKey, GrantError> {
    let exchange = ours.public();
    let grantee = Grantee {
        flow,
        member,
        exchange: &exchange,
    };
    let (said, signature) = octets.split_last_chunk::<64>().ok_or(OctetsError::Length)?;
    let mut reader = Reader(said);
    let epoch = reader.u32()?;
    let theirs: [u8; 32] = reader.array()?;
    let mut sealed = reader.0.to_vec();
    let keys = sealed.len().saturating_sub(TAG) / 32;
    if !(1..=MAX_KEYS).contains(&keys) || sealed.len() != 32 * keys + TAG {
        return Err(OctetsError::Length.into());
    }
    if !source.verifies(GRANT, &signed(&grantee, said), signature) {
        return Err(GrantError::Signature);
    }
    let cipher = cipher(ours, &theirs, &grantee, &theirs)?;
    let aad = Aad::from(epoch.to_be_bytes());
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let opened = cipher.open_in_place(nonce, aad, &mut sealed);
    let opened = opened.map_err(|_| GrantError::Sealed)?;
    let (keys, _) = opened.as_chunks::<32>();
    Ok(GroupKey::of_keys(epoch, keys.to_vec()))
}

/// The key that both sides of an agreement have.
fn cipher(
    ours: &ExchangeKey,
    theirs: &[u8; 32],
    grantee: &Grantee<'_>,
    source_half: &[u8; 32],
) -> Result<LessSafeKey, GrantError> {
    let shared = ours.0.diffie_hellman(&PublicKey::from(*theirs));
    // A key that makes every agreement the same is not believed (RFC 7748, 6.1).
    if !shared.was_contributory() {
        return Err(GrantError::Sealed);
    }
    let mut context = Vec::new();
    context.extend_from_slice(&grantee.flow.0.to_be_bytes());
    context.extend_from_slice(grantee.exchange);
    context.extend_from_slice(source_half);
    let salt = Salt::new(HKDF_SHA256, GRANT.as_bytes());
    let info = [&context[..]];
    let okm = salt.extract(shared.as_bytes());
    let okm = okm.expand(&info, &AES_256_GCM);
    let key = okm.map(UnboundKey::from).map_err(|_| GrantError::Sealed)?;
    Ok(LessSafeKey::new(key))
}

fn signed(grantee: &Grantee<'_>, said: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&grantee.flow.0.to_be_bytes());
    put_name(&mut out, grantee.member);
    out.extend_from_slice(grantee.exchange);
    out.extend_from_slice(said);
    out
}
