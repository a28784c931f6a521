//! Secrets that a user gives in a file or in the environment rather than as an argument, which every user of the
//! host sees in the list of processes.

use std::borrow::Cow;
use std::env;
use std::path::Path;

use layercast_net::{SecretFile, read_secret};

use crate::failure::Failure;

/// The octets of a file with a secret; warns if others than its owner can read it.
///
/// # Errors
/// It cannot be read, or is empty.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let SecretFile { octets, exposed } =
        read_secret(path).map_err(|error| Failure::file(path, "read", &error))?;
    if octets.is_empty() {
        let failure = Failure::of(path, "the file is empty");
        return Err(failure.hint("write the secret into it, for its owner only (chmod 600)"));
    }
    if let Some(mode) = exposed {
        let path = path.display();
        eprintln!(
            "warning: the secret in {path} can be read by others (mode {mode:04o}): chmod 600 {path}"
        );
    }
    Ok(octets)
}

/// A secret text: of `file` if there is one, else of the environment variable `variable`, if that is set and not
/// empty. Space around it does not count.
///
/// # Errors
/// The file cannot be read, or what there is is no text.
pub fn text(file: Option<&Path>, variable: &str) -> Result<Option<String>, Failure> {
    let text = match (file, env::var_os(variable)) {
        (Some(path), _) => String::from_utf8(read(path)?)
            .map_err(|_| Failure::of(path, "the secret is not text (UTF-8)"))?,
        (None, Some(value)) => value
            .into_string()
            .map_err(|_| Failure::new(format!("{variable} is not text (UTF-8)")))?,
        (None, None) => return Ok(None),
    };
    let text = text.trim();
    match (text.is_empty(), file) {
        (false, _) => Ok(Some(text.to_owned())),
        (true, Some(path)) => Err(Failure::of(path, "there is nothing but space in the file")),
        (true, None) => Ok(None),
    }
}

/// The text that replaces a secret.
const HIDDEN: &str = "***";
/// Options in URLs whose values are secrets, in lower case.
const SECRETS: [&str; 16] = [
    "passphrase",
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "token",
    "access_token",
    "auth",
    "key",
    "apikey",
    "api_key",
    "sig",
    "signature",
    "stream_key",
    "streamkey",
];

/// A text whose URLs show no password: neither `USER:PASSWORD@` nor the values of options such as `passphrase=` and `token=`, nor
/// the stream key of RTMP, which is what follows the application in the path.
pub fn hidden(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        safe += before;
        let ends = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>');
        let (url, after) = after.split_at(after.find(ends).unwrap_or(after.len()));
        // One that is an option of another, such as a proxy.
        let (url, inner) = url.split_at(url.find("://").unwrap_or(url.len()));
        let (place, query) = url.split_at(url.find('?').unwrap_or(url.len()));
        let place = without_password(place);
        match is_rtmp(before) {
            true => safe += &without_key(&place),
            false => safe += &place,
        }
        for (at, option) in query.split_inclusive(['?', '&', '#', ';']).enumerate() {
            let is_secret = |name: &str| SECRETS.contains(&&*name.to_ascii_lowercase());
            match option
                .split_once('=')
                .filter(|(name, _)| at > 0 && is_secret(name))
            {
                Some((name, value)) => {
                    let end = value.find(['&', '#', ';']).unwrap_or(value.len());
                    safe += &format!("{name}={HIDDEN}{}", &value[end..]);
                }
                None => safe += option,
            }
        }
        rest = &text[text.len() - after.len() - inner.len()..];
    }
    safe += rest;
    Cow::Owned(safe)
}

/// Whether a text ends with the scheme of RTMP or one of its variants, such as `rtmps://`.
fn is_rtmp(text: &str) -> bool {
    let text = text.strip_suffix("://").unwrap_or(text);
    let scheme = text.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    scheme.is_some_and(|it| {
        it.get(..4)
            .is_some_and(|it| it.eq_ignore_ascii_case("rtmp"))
    })
}

/// `HOST/APPLICATION/KEY` without the key.
fn without_key(place: &str) -> Cow<'_, str> {
    let mut parts = place.match_indices('/').map(|(at, _)| at);
    match parts.nth(1).filter(|at| at + 1 < place.len()) {
        Some(at) => Cow::Owned(format!("{}{HIDDEN}", &place[..=at])),
        None => Cow::Borrowed(place),
    }
}

/// What follows the scheme of a URL, without the password before the host.
fn without_password(place: &str) -> String {
    let authority = place.find('/').unwrap_or(place.len());
    let at = match place[..authority].rfind('@') {
        Some(at) => Some(at),
        // A password with a slash; not a port and a path with an @.
        None => {
            let port = place[..authority].rsplit_once(':').map(|(_, port)| port);
            let is_password = port.is_some_and(|it| it.contains(|c: char| !c.is_ascii_digit()));
            place.rfind('@').filter(|_| is_password)
        }
    };
    match at.and_then(|at| Some((place[..at].split_once(':')?.0, &place[at..]))) {
        Some((user, host)) => format!("{user}:{HIDDEN}{host}"),
        None => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn urls_show_no_password() {
        for (text, safe) in [
            ("no URL with a: b@c", "no URL with a: b@c"),
            ("rtsp://camera:554/a@b", "rtsp://camera:554/a@b"),
            (
                "srt://[::1]:9000?mode=caller",
                "srt://[::1]:9000?mode=caller",
            ),
            ("rtsp://ann:pw@camera/1", "rtsp://ann:***@camera/1"),
            (
                "rtsp://ann:p@w:x@camera:554/1",
                "rtsp://ann:***@camera:554/1",
            ),
            ("rtsp://ann:p/w@camera/1", "rtsp://ann:***@camera/1"),
            ("rtsp://ann@camera/1", "rtsp://ann@camera/1"),
            (
                "cannot read 'srt://h:9?mode=caller&passphrase=longenough&latency=1': srt://h:9?PassPhrase=x failed",
                "cannot read 'srt://h:9?mode=caller&passphrase=***&latency=1': srt://h:9?PassPhrase=*** failed",
            ),
            (
                "layercasts://h:1/f?fp=ab&token=cd, no answer",
                "layercasts://h:1/f?fp=ab&token=*** no answer",
            ),
            (
                "http://a:b@proxy?url=http://c:d@h/x?key=1 http://e:f@g",
                "http://a:***@proxy?url=http://c:***@h/x?key=*** http://e:***@g",
            ),
            ("://", "://"),
            ("rtmp://host/live", "rtmp://host/live"),
            ("rtmp://:1935/live/ serve", "rtmp://:1935/live/ serve"),
            (
                "cannot write rtmps://live.example:443/app/ab-12_c?s_bl=1&token=x: refused",
                "cannot write rtmps://live.example:443/app/***?s_bl=1&token=*** refused",
            ),
            (
                "(RTMP://ann:pw@a.b/live2/x/y z)",
                "(RTMP://ann:***@a.b/live2/*** z)",
            ),
            ("rtsp://camera/live/1", "rtsp://camera/live/1"),
            ("é://ü:ß@ö?token=", "é://ü:***@ö?token=***"),
        ] {
            assert_eq!(hidden(text), safe);
        }
    }

    const UNSET: &str = "LAYERCAST_TEST_THAT_IS_NEVER_SET";

    #[test]
    fn a_secret_in_a_file_is_trimmed_and_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert_eq!(text(None, UNSET).unwrap(), None);
        assert!(text(Some(&path), UNSET).is_err());
        fs::write(&path, "  abc\n").unwrap();
        assert_eq!(text(Some(&path), UNSET).unwrap().as_deref(), Some("abc"));
        for (bad, why) in [("", "is empty"), (" \n", "nothing but space")] {
            fs::write(&path, bad).unwrap();
            let error = text(Some(&path), UNSET).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        fs::write(&path, [0xFF, 0xFE]).unwrap();
        assert!(text(Some(&path), UNSET).is_err());
    }
}
