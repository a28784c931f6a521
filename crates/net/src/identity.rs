use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use layercast_protect::{Fingerprint, Seed};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::remote::{Bearer, Remote};
use crate::tls::provider;

/// A certificate and its private key: who a node is on protected links.
///
/// Its neighbours know it by the [`Fingerprint`] of the certificate. With the same identity a node that was
/// restarted is the one it was before.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// Read or write.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} holds no {what} in PEM", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// The key does not belong to the certificate, or is of a kind we do not know.
    #[error("certificate and key do not go together: {0}")]
    Mismatch(rustls::Error),
    /// A certificate cannot be for such a host.
    #[error("{0:?} is no host name or address")]
    Host(String),
    /// No key could be made.
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

impl Identity {
    /// A new identity: a self-signed certificate that never expires, and an ECDSA P-256 key.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Identity, IdentityError> {
        Ok(Identity::generate_with_pem()?.0)
    }

    fn generate_with_pem() -> Result<(Identity, String), IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["layercast".to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "layercast");
        let certificate = params.self_signed(&key)?;
        let pem = certificate.pem() + &key.serialize_pem();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let identity = Identity::new(vec![certificate.der().clone()], key.into());
        Ok((identity, pem))
    }

    /// The identity in the PEM file `path`; a new one that is written there, for nobody else to read, if
    /// there is no such file.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds something else.
    pub fn load_or_create(path: &Path) -> Result<Identity, IdentityError> {
        match fs::exists(path) {
            Ok(false) => {}
            _ => return Identity::from_pem(path, path),
        }
        let (identity, pem) = Identity::generate_with_pem()?;
        let failed = |source| IdentityError::File {
            verb: "write",
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        file.write_all(pem.as_bytes()).map_err(failed)?;
        Ok(identity)
    }

    /// The identity of a certificate (with those of its issuers behind it) and its key, in PEM files.
    ///
    /// # Errors
    /// A file cannot be read, holds something else, or the key belongs to another certificate.
    pub fn from_pem(certificate: &Path, key: &Path) -> Result<Identity, IdentityError> {
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| content(certificate, "certificate"))?;
        let key =
            PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| content(key, "private key"))?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider())
            .map_err(IdentityError::Mismatch)?;
        Ok(Identity::new(chain, key))
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Identity {
        let own = chain.first().map_or(&[][..], |certificate| certificate);
        Identity {
            fingerprint: Fingerprint::of(own),
            chain,
            key,
        }
    }

    /// Secret of the Ed25519 identity under which this node signs its flows: it follows from the private
    /// key, so that one file is enough.
    pub fn source_seed(&self) -> Seed {
        Seed::derived(self.key.secret_der(), "layercast source identity 1")
    }

    /// What neighbours know it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// The identity with which to call `remotes`: `own`, or a new one if a protected one is among them.
pub(crate) fn own_or_new<'a>(
    own: Option<&Arc<Identity>>,
    remotes: impl IntoIterator<Item = &'a Remote>,
) -> Result<Option<Arc<Identity>>, IdentityError> {
    let needed = remotes
        .into_iter()
        .any(|remote| matches!(remote.bearer, Bearer::Quic(_)));
    match own {
        Some(own) => Ok(Some(Arc::clone(own))),
        None if needed => Ok(Some(Arc::new(Identity::generate()?))),
        None => Ok(None),
    }
}

/// Without the key: it does not belong into logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint)
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|source| IdentityError::File {
        verb: "read",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn content(path: &Path, what: &'static str) -> IdentityError {
    IdentityError::Content {
        path: path.to_owned(),
        what,
    }
}
