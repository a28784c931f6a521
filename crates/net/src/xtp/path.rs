use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;
use tokio::net::UnixListener;

/// Connections that wait to be taken.
const BACKLOG: i32 = 64;

/// Why a daemon cannot serve a path.
#[derive(Debug, Error)]
pub enum XtpDaemonError {
    /// Another daemon does.
    #[error("{0}: another daemon serves this path")]
    Taken(PathBuf),
    /// Something is there that is not ours to remove.
    #[error("{0} exists and is no socket")]
    NoSocket(PathBuf),
    /// The system refuses it.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

/// Takes a path: a socket that only this user reaches, and the lock that says that it is served. A socket without that lock was left
/// by a daemon that died, and is replaced.
pub(super) fn claim(path: &Path) -> Result<(UnixListener, File), XtpDaemonError> {
    let system = |error| XtpDaemonError::System(path.to_owned(), error);
    // Where there can be no socket there must be no lock either.
    let address = SockAddr::unix(path).map_err(system)?;
    is_there(path)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    // It stays when the daemon ends: removing it could take it from under another.
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600);
    // Another user may have put a link there, where all may write.
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let lock = options.open(&beside).map_err(system)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(XtpDaemonError::Taken(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(system(error)),
    }
    if is_there(path)? {
        fs::remove_file(path).map_err(system)?;
    }
    let listener = bind(path, &address).map_err(system)?;
    Ok((listener, lock))
}

/// Whether a socket is there; anything else is not ours to remove.
fn is_there(path: &Path) -> Result<bool, XtpDaemonError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(XtpDaemonError::System(path.to_owned(), error)),
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(XtpDaemonError::NoSocket(path.to_owned())),
    }
}

/// No other process reaches it: it is private before it listens.
fn bind(path: &Path, address: &SockAddr) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(address)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(StdListener::from(socket))
}
