use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use layercast_protect::{Fingerprint, Seed};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::remote::{Bearer, Remote};
use crate::secret_file::{create_secret, read_secret};
use crate::tls::provider;

/// A certificate and its private key: the identity of a node on protected links.
///
/// Its neighbours know it by the [`Fingerprint`] of the certificate. With the same identity a node that was
/// restarted is the one it was before.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
    exposed: Option<Exposed>,
}

/// The file of a private key can be read by others than its owner.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the private key in {} can be read by others (mode {mode:04o}): chmod 600 {}",
    path.display(),
    path.display()
)]
pub struct Exposed {
    /// The file.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
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
    #[error(
        "{} holds no {what} in PEM: give the right file, restore it from a copy, or, if it is that of --identity, \
         remove it to get a new identity with another fingerprint",
        path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// A file has no octets: the disk was full when it was written, perhaps.
    #[error(
        "{} is empty: restore it from a copy, or remove it to get a new identity with another fingerprint",
        path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
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

    /// As [`generate`](Identity::generate), for these host names and addresses: programs that check names compare them.
    ///
    /// # Errors
    /// A name cannot be in a certificate; the system has no randomness.
    pub fn generate_for(names: Vec<String>) -> Result<Identity, IdentityError> {
        Ok(Identity::with_pem_for(names, None)?.0)
    }

    /// As [`generate_for`](Identity::generate_for), with a certificate that is valid in this time only: browsers take one by its
    /// fingerprint if it is of 14 days at most (WebTransport, `serverCertificateHashes`).
    ///
    /// # Errors
    /// A name cannot be in a certificate; the system has no randomness.
    pub fn generate_between(
        names: Vec<String>,
        valid: Range<SystemTime>,
    ) -> Result<Identity, IdentityError> {
        Ok(Identity::with_pem_for(names, Some(valid))?.0)
    }

    fn generate_with_pem() -> Result<(Identity, String), IdentityError> {
        Identity::with_pem_for(vec!["layercast".to_owned()], None)
    }

    fn with_pem_for(
        names: Vec<String>,
        valid: Option<Range<SystemTime>>,
    ) -> Result<(Identity, String), IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        if let Some(valid) = valid {
            params.not_before = valid.start.into();
            params.not_after = valid.end.into();
        }
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "layercast");
        let certificate = params.self_signed(&key)?;
        let pem = certificate.pem() + &key.serialize_pem();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let identity = Identity::new(vec![certificate.der().clone()], key.into(), None);
        Ok((identity, pem))
    }

    /// The identity in the PEM file `path`. If there is no such file, a new identity that is written there:
    /// whole or not at all, for the owner of the file only.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds something else.
    pub fn load_or_create(path: &Path) -> Result<Identity, IdentityError> {
        match Identity::from_pem(path, path) {
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            }
            loaded => return loaded,
        }
        let (identity, pem) = Identity::generate_with_pem()?;
        match create_secret(path, pem.as_bytes()) {
            Ok(()) => Ok(identity),
            // Another process that was started at the same time made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Identity::from_pem(path, path)
            }
            Err(source) => Err(failed("write", path, source)),
        }
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
        let secret = read_secret(key).map_err(|source| failed("read", key, source))?;
        let exposed = secret.exposed.map(|mode| Exposed {
            path: key.to_owned(),
            mode,
        });
        let key = PrivateKeyDer::from_pem_slice(&secret.octets)
            .map_err(|_| content(key, "private key"))?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider())
            .map_err(IdentityError::Mismatch)?;
        Ok(Identity::new(chain, key, exposed))
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        exposed: Option<Exposed>,
    ) -> Identity {
        let own = chain.first().map_or(&[][..], |certificate| certificate);
        Identity {
            fingerprint: Fingerprint::of(own),
            chain,
            key,
            exposed,
        }
    }

    /// TLS of a server that anybody may call, such as one of pages.
    ///
    /// # Errors
    /// The key does not belong to the certificate.
    pub fn server_config(&self) -> Result<ServerConfig, IdentityError> {
        ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(IdentityError::Mismatch)?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(IdentityError::Mismatch)
    }

    /// Whether the file of its key can be read by others.
    pub fn exposed(&self) -> Option<&Exposed> {
        self.exposed.as_ref()
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
    let read = read_secret(path).map_err(|source| failed("read", path, source))?;
    match read.octets.is_empty() {
        true => Err(IdentityError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(read.octets),
    }
}

fn failed(verb: &'static str, path: &Path, source: io::Error) -> IdentityError {
    IdentityError::File {
        verb,
        path: path.to_owned(),
        source,
    }
}

pub(crate) fn content(path: &Path, what: &'static str) -> IdentityError {
    IdentityError::Content {
        path: path.to_owned(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_identity_is_kept_in_a_file_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id.pem");
        let made = Identity::load_or_create(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Identity::load_or_create(&path).unwrap();
        assert_eq!(again.fingerprint(), made.fingerprint());
        assert_eq!(
            (
                again.exposed(),
                fs::read_dir(folder.path()).unwrap().count()
            ),
            (None, 1)
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = Identity::load_or_create(&path).unwrap();
        let message = exposed.exposed().unwrap().to_string();
        assert!(
            message.contains("0644") && message.contains("chmod 600"),
            "{message}"
        );
    }

    #[test]
    fn an_empty_or_damaged_identity_is_not_replaced_and_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id.pem");
        fs::write(&path, "").unwrap();
        let error = Identity::load_or_create(&path).unwrap_err();
        assert!(matches!(error, IdentityError::Empty { .. }), "{error:?}");
        let whole = Identity::generate_with_pem().unwrap().1;
        for damaged in [
            &whole[..whole.len() / 4],
            &whole[..whole.len() - 60],
            "no PEM at all",
        ] {
            fs::write(&path, damaged).unwrap();
            let error = Identity::load_or_create(&path).unwrap_err();
            assert!(matches!(error, IdentityError::Content { .. }), "{error:?}");
            assert!(
                error.to_string().contains("restore it from a copy"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
