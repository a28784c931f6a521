use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use layercast_core::{FlowId, Level, NodeId, Resource};
use thiserror::Error;

use crate::octets::{OctetsError, Reader, put_name};
use crate::source::{Signer, SourceKey};

const VERSION: u8 = 1;
const CAPABILITY: &str = "layercast capability 1";
const PROOF: &str = "layercast proof 2";

/// Seconds for which a proof may be used after it was made. Members renew theirs every
/// [`PROOF_RENEWAL`] seconds.
pub const PROOF_LIFE: u64 = 120;
/// Seconds by which the clock of a member may be ahead of that of the node that verifies its proof.
pub const PROOF_SKEW: u64 = 30;
/// Seconds after which a member that has joined shows a new proof.
pub const PROOF_RENEWAL: u64 = PROOF_LIFE / 4;

/// What a token allows: its holder may receive a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims {
    /// Name of the flow.
    pub flow: String,
    /// Under which name; `None`: under any.
    pub member: Option<String>,
    /// Highest level.
    pub level: Level,
    /// Until then, in seconds since 1970 (UTC).
    pub expires: u64,
}

/// [`Claims`] that a source signed for the holder of a key: of no use to anybody else.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Capability {
    claims: Claims,
    holder: SourceKey,
    signature: [u8; 64],
}

/// A capability with the secret of its holder: it permits a receiver to join a flow.
///
/// Possession of the text is permission to use it; others are shown a [`Proof`] instead.
///
/// ```
/// use layercast_core::{FlowId, Level, NodeId};
/// use layercast_protect::{Claimant, Claims, ProofError, Signer, Token};
///
/// let source = Signer::from_seed(&[1; 32]);
/// let claims = Claims { flow: "film".into(), member: None, level: Level::BASE, expires: 2_000 };
/// let token = Token::issue(&source, claims, [2; 32]);
/// assert_eq!(token.to_string().parse(), Ok(token.clone()));
///
/// let (flow, id) = (FlowId(7), NodeId(3));
/// let proof = token.prove(flow, ("dwp", id), [3; 32], 1_000);
/// let claimant = Claimant { flow_name: "film", flow, member: "dwp", id, now: 1_001 };
/// assert_eq!(proof.verify(&source.public(), &claimant), Ok(token.claims()));
/// // The proof is of no use to another member.
/// let other = Claimant { member: "rook", ..claimant };
/// assert_eq!(proof.verify(&source.public(), &other), Err(ProofError::Holder));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    capability: Capability,
    seed: [u8; 32],
}

/// A text that is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TokenError {
    /// Not base64.
    #[error("token is not base64url")]
    Encoding,
    /// Cut, or made by a later version.
    #[error("token: {0}")]
    Octets(#[from] OctetsError),
    /// The secret is not that of the holder.
    #[error("token: its secret does not belong to its holder")]
    Holder,
}

/// What a member shows to join: that it holds a token, now, for this flow, name and number, and for a key that
/// only it can use.
///
/// A copy is of little use: it is valid for [`PROOF_LIFE`] seconds, only for the same name and number, which
/// nodes do not give to another neighbour while the member is there, and the keys of the flow are sealed for
/// the member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    capability: Capability,
    /// X25519 key for whose owner the group key may be sealed.
    pub exchange: [u8; 32],
    /// When it was made, in seconds since 1970.
    pub issued: u64,
    signature: [u8; 64],
}

/// The member that presents a proof, and the flow it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claimant<'a> {
    /// Name of the flow.
    pub flow_name: &'a str,
    /// The flow.
    pub flow: FlowId,
    /// Name of the member.
    pub member: &'a str,
    /// Number of the member.
    pub id: NodeId,
    /// Now, in seconds since 1970.
    pub now: u64,
}

/// Why a proof proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ProofError {
    /// No proof at all.
    #[error("proof: {0}")]
    Octets(#[from] OctetsError),
    /// The source did not sign it.
    #[error("the token is not from the source of the flow")]
    Source,
    /// The holder did not sign it, or for another flow or member.
    #[error("the proof is not made by the holder of the token for this flow and member")]
    Holder,
    /// Of a token for another flow.
    #[error("the token is for another flow")]
    Flow,
    /// Of a token for another member.
    #[error("the token is for another member")]
    Member,
    /// Of a token that is not valid any more.
    #[error("the token has expired")]
    Expired,
    /// Made too long ago, or in the future: a copy, or the clocks differ.
    #[error(
        "the proof was made at {issued} s since 1970 and is checked at {now}: it is valid for {PROOF_LIFE} s; \
         if it is not a copy, set the clocks"
    )]
    Stale {
        /// When it was made, in seconds since 1970.
        issued: u64,
        /// When it was checked.
        now: u64,
    },
}

impl ProofError {
    /// The resource that the holder of such a proof lacks.
    pub fn resource(self) -> Resource {
        match self {
            ProofError::Expired => Resource::TokenExpired,
            ProofError::Stale { .. } => Resource::StaleProof,
            _ => Resource::Token,
        }
    }
}

impl Claims {
    fn put(&self, holder: &SourceKey, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, self.level.get(), u8::from(self.member.is_some())]);
        out.extend_from_slice(&self.expires.to_be_bytes());
        out.extend_from_slice(&holder.0);
        put_name(out, &self.flow);
        put_name(out, self.member.as_deref().unwrap_or_default());
    }
}

impl Capability {
    fn put(&self, out: &mut Vec<u8>) {
        self.claims.put(&self.holder, out);
        out.extend_from_slice(&self.signature);
    }

    fn read(from: &mut Reader<'_>) -> Result<Capability, OctetsError> {
        let version = from.u8()?;
        if version != VERSION {
            return Err(OctetsError::Version(version));
        }
        let level = Level::new(from.u8()?).ok_or(OctetsError::Range("level"))?;
        let bound = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(OctetsError::Range("member")),
        };
        let expires = from.u64()?;
        let holder = SourceKey(from.array()?);
        let flow = from.name()?.to_owned();
        let member = from.name()?;
        if !bound && !member.is_empty() {
            return Err(OctetsError::Range("member"));
        }
        Ok(Capability {
            claims: Claims {
                flow,
                member: bound.then(|| member.to_owned()),
                level,
                expires,
            },
            holder,
            signature: from.array()?,
        })
    }

    fn signed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.claims.put(&self.holder, &mut out);
        out
    }
}

impl Token {
    /// A token for `claims` from the source; `seed`, which must be random, is the secret of its holder.
    pub fn issue(source: &Signer, claims: Claims, seed: [u8; 32]) -> Token {
        let holder = Signer::from_seed(&seed).public();
        let mut signed = Vec::new();
        claims.put(&holder, &mut signed);
        Token {
            capability: Capability {
                claims,
                holder,
                signature: source.sign(CAPABILITY, &signed),
            },
            seed,
        }
    }

    /// What it allows, if the source it is used with signed it.
    pub fn claims(&self) -> &Claims {
        &self.capability.claims
    }

    /// Shows that the member with this name and number holds the token, at `now` seconds since 1970, and wants
    /// the key of the flow sealed for the X25519 key `exchange`.
    pub fn prove(
        &self,
        flow: FlowId,
        member: (&str, NodeId),
        exchange: [u8; 32],
        now: u64,
    ) -> Proof {
        let mut proof = Proof {
            capability: self.capability.clone(),
            exchange,
            issued: now,
            signature: [0; 64],
        };
        let signed = proof.signed(flow, member);
        proof.signature = Signer::from_seed(&self.seed).sign(PROOF, &signed);
        proof
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.capability.put(&mut out);
        out.extend_from_slice(&self.seed);
        f.write_str(&URL_SAFE_NO_PAD.encode(out))
    }
}

/// Without the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?}, ..)", self.capability.claims)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        let octets = URL_SAFE_NO_PAD.decode(text);
        let octets = octets.map_err(|_| TokenError::Encoding)?;
        let mut reader = Reader(&octets);
        let capability = Capability::read(&mut reader)?;
        let seed = reader.array()?;
        reader.end()?;
        match Signer::from_seed(&seed).public() == capability.holder {
            true => Ok(Token { capability, seed }),
            false => Err(TokenError::Holder),
        }
    }
}

impl Proof {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.capability.put(&mut out);
        out.extend_from_slice(&self.exchange);
        out.extend_from_slice(&self.issued.to_be_bytes());
        out.extend_from_slice(&self.signature);
        out
    }

    /// The proof in `octets`; it is not verified yet.
    pub fn decode(octets: &[u8]) -> Result<Proof, OctetsError> {
        let mut reader = Reader(octets);
        let proof = Proof {
            capability: Capability::read(&mut reader)?,
            exchange: reader.array()?,
            issued: reader.u64()?,
            signature: reader.array()?,
        };
        reader.end().map(|()| proof)
    }

    /// Checks the proof for `claimant` and returns what it permits, given the key of the flow's source. It
    /// needs no third party.
    pub fn verify(
        &self,
        source: &SourceKey,
        claimant: &Claimant<'_>,
    ) -> Result<&Claims, ProofError> {
        let claims = &self.capability.claims;
        if claims.flow != claimant.flow_name {
            return Err(ProofError::Flow);
        }
        if claims
            .member
            .as_deref()
            .is_some_and(|member| member != claimant.member)
        {
            return Err(ProofError::Member);
        }
        if claims.expires <= claimant.now {
            return Err(ProofError::Expired);
        }
        let (issued, now) = (self.issued, claimant.now);
        if issued > now.saturating_add(PROOF_SKEW) || now > issued.saturating_add(PROOF_LIFE) {
            return Err(ProofError::Stale { issued, now });
        }
        let Capability {
            holder, signature, ..
        } = &self.capability;
        if !source.verifies(CAPABILITY, &self.capability.signed(), signature) {
            return Err(ProofError::Source);
        }
        let signed = self.signed(claimant.flow, (claimant.member, claimant.id));
        match holder.verifies(PROOF, &signed, &self.signature) {
            true => Ok(claims),
            false => Err(ProofError::Holder),
        }
    }

    /// Decodes and verifies.
    pub fn check(
        octets: &[u8],
        source: &SourceKey,
        claimant: &Claimant<'_>,
    ) -> Result<Proof, ProofError> {
        let proof = Proof::decode(octets)?;
        proof.verify(source, claimant)?;
        Ok(proof)
    }

    /// What the token behind it allows; to be believed once the proof is verified.
    pub fn claims(&self) -> &Claims {
        &self.capability.claims
    }

    /// The key of the holder of the token: the same for all proofs made with it.
    pub fn holder(&self) -> SourceKey {
        self.capability.holder
    }

    fn signed(&self, flow: FlowId, (member, id): (&str, NodeId)) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&flow.0.to_be_bytes());
        put_name(&mut out, member);
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&self.exchange);
        out.extend_from_slice(&self.issued.to_be_bytes());
        out.extend_from_slice(&self.capability.signature);
        out
    }
}
