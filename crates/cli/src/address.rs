//! The address of a node, its authentication, and our identity.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use layercast_net::{
    Authorities, Bearer, Fingerprint, Identity, IdentityError, Remote, Renewal, Renewed, Trust,
    check_name, outward, sink_protection,
};
use layercast_protect::{Control, Expect, JoinUrl};

use crate::args::IdentityArgs;
use crate::failure::Failure;
use crate::scheme;

/// How long `@FILE` waits for a node that has been started: a live server measures its input first.
const URL_WITHIN: Duration = Duration::from_secs(60);
/// How long it waits for the file: a shell makes it when it starts the node.
const FILE_WITHIN: Duration = Duration::from_secs(15);
/// How long it waits before it says so: a node that a shell starts beside it takes less.
const TELL_FIRST: Duration = Duration::from_secs(1);
/// How often it says what it waits for.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A line whose end is missing is taken as a whole when it has not changed for this time: its writer is done.
const SETTLED: Duration = Duration::from_secs(1);
/// The longest URL that is read from a file, in bytes: a token takes some hundreds.
const MAX_URL: usize = 8_192;
/// How far a URL is looked for in a file, in bytes: the messages of a node before it take some hundreds.
const MAX_READ: u64 = 65_536;

/// Reads `layercasts://HOST:PORT[/FLOW][?fp=..]`, `layercast://HOST:PORT[/FLOW]` or `HOST:PORT[/FLOW]`; `@FILE` is the
/// line of that file that holds one, for which it waits up to [`URL_WITHIN`] (it blocks the thread meanwhile).
pub fn parse(text: &str) -> Result<JoinUrl, Failure> {
    let file = text.strip_prefix('@');
    let line = match file {
        Some("") => {
            let failure = Failure::wrong_use("@ names no file");
            return Err(
                failure.hint("write @FILE for the file that the node has printed its URL to")
            );
        }
        Some(file) => wait_for_line(Path::new(file), (FILE_WITHIN, URL_WITHIN))?,
        None => text.to_owned(),
    };
    let failure = match read(&line) {
        Ok(url) => return Ok(url),
        Err(failure) => failure,
    };
    Err(match (file, failure) {
        (Some(file), Failure::WrongUse { what, hint }) => Failure::WrongUse {
            what: format!("{file}: {what}"),
            hint,
        },
        (_, failure) => failure,
    })
}

fn read(line: &str) -> Result<JoinUrl, Failure> {
    scheme::check(line, scheme::Place::Node)?;
    let (host, _) = line.split_once(['/', '?']).unwrap_or((line, ""));
    if host.parse::<Ipv6Addr>().is_ok() {
        let failure = Failure::wrong_use(format!("{line:?} is an IPv6 address without a port"));
        return Err(
            failure.hint("write the address in brackets, with a port: '[2001:db8::1]:7400/FLOW'")
        );
    }
    let url: JoinUrl = line.parse().map_err(|error: layercast_protect::UrlError| {
        let hint = match Path::new(line).is_file() {
            true => format!("{line} is a file: @{line} reads the URL that it holds"),
            false => "give the URL that the node printed, @FILE for a file that holds it, or HOST:PORT/FLOW without \
                      encryption"
                .to_owned(),
        };
        Failure::wrong_use(error).hint(hint)
    })?;
    if let Some(Err(error)) = url.flow.as_deref().map(check_name) {
        let failure = Failure::wrong_use(format!("the name of the flow in the URL: {error}"));
        return Err(failure.hint("`layercast join --list HOST:PORT` shows the flows of a node"));
    }
    Ok(url)
}

/// Where the URL of `text` is read again, if that is `@FILE`: a node that is started again may have another URL. `url`
/// is what the file holds now; `token` is for a URL without one.
pub fn renewal(
    text: &str,
    url: &JoinUrl,
    ca: Option<&Path>,
    token: Option<&str>,
) -> Option<Renewal> {
    let file = PathBuf::from(text.strip_prefix('@')?);
    let (ca, token) = (ca.map(Path::to_owned), token.map(str::to_owned));
    let last = Mutex::new(url.clone());
    Some(Renewal::new(move || {
        let (line, _) = url_line(&file).ok()?;
        let url = read(&line).ok()?;
        if std::mem::replace(
            &mut *last.lock().unwrap_or_else(PoisonError::into_inner),
            url.clone(),
        ) == url
        {
            return None;
        }
        let bearer = Bearer::new(trust(&url, ca.as_deref()).ok()?, url.control);
        let addr = url.host.to_socket_addrs().ok()?.next()?;
        let url = JoinUrl {
            token: url.token.or_else(|| token.clone()),
            ..url
        };
        Some(Renewed {
            addr,
            bearer,
            protection: sink_protection(&url).ok(),
        })
    }))
}

/// The line of a file that holds the URL, and whether its end is there: the first with a scheme, since a node whose messages
/// go to the same file prints some before; or the URL in the first JSON object that has one, of a node with `--json`; or the first line, if it is
/// one word, such as `HOST:PORT/FLOW`. Empty if there is none.
fn url_line(file: &Path) -> io::Result<(String, bool)> {
    let mut octets = Vec::new();
    File::open(file)?.take(MAX_READ).read_to_end(&mut octets)?;
    // The last character may be cut.
    let cut = std::str::from_utf8(&octets)
        .err()
        .filter(|it| it.error_len().is_none());
    octets.truncate(cut.map_or(octets.len(), |it| it.valid_up_to()));
    let text =
        std::str::from_utf8(&octets).map_err(|it| io::Error::new(ErrorKind::InvalidData, it))?;
    let mut lines = text.split_inclusive('\n');
    let is_json = |line: &&str| line.starts_with('{');
    if let Some(url) = lines.clone().filter(is_json).find_map(url_of_json) {
        return Ok((url, true));
    }
    let is_url = |line: &&str| scheme::is_taken(line.trim(), scheme::Place::Node);
    let is_word = |line: &&str| !is_json(line) && !line.trim().contains(char::is_whitespace);
    let line = lines
        .clone()
        .find(is_url)
        .or_else(|| lines.next().filter(is_word));
    let line = line
        .filter(|line| line.len() <= MAX_URL)
        .unwrap_or_default();
    Ok((line.trim().to_owned(), line.ends_with('\n')))
}

/// The URL in a JSON object, such as the one that a node with `--json` prints when it is ready.
fn url_of_json(line: &str) -> Option<String> {
    let object: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(object.get("url")?.as_str()?.to_owned())
}

/// The line of a file that holds the URL, once it is complete; waits for the file for the first of two times, for the line for the
/// second.
fn wait_for_line(file: &Path, within: (Duration, Duration)) -> Result<String, Failure> {
    let begun = Instant::now();
    let mut reported: Option<Instant> = None;
    // The line without an end, and since when it has not changed.
    let mut open: Option<(String, Instant)> = None;
    loop {
        let (what, within) = match url_line(file) {
            Ok((line, true)) => return Ok(line),
            Ok((line, false)) if !line.is_empty() => {
                let same = open.take().filter(|(before, _)| *before == line);
                let since = same.map_or_else(Instant::now, |it| it.1);
                if since.elapsed() >= SETTLED {
                    return Ok(line);
                }
                open = Some((line, since));
                thread::sleep(LOOK_EVERY);
                continue;
            }
            Ok(_) => ("holds no URL yet", within.1),
            Err(error) if error.kind() == ErrorKind::NotFound => ("does not exist", within.0),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let shown = file.display();
                let failure = Failure::wrong_use(format!("{shown} holds no URL, and no text"));
                return Err(failure.hint(
                    "@FILE takes the file that holds the URL which a server or a switch printed",
                ));
            }
            Err(error) => return Err(Failure::file(file, "read", &error)),
        };
        let (waited, shown) = (begun.elapsed(), file.display());
        let remedy = |verb: &str| {
            format!(
                "{verb} the server or the switch whose URL is wanted with its standard output in this file (layercast serve \
                 CLIP > {shown} &, or layercast switch --upstream URL > {shown} &)"
            )
        };
        if waited > within {
            let why = format!("{shown} {what}, after {} s", waited.as_secs());
            return Err(Failure::new(why).hint(remedy("check the name, and start")));
        }
        let is_due = match reported {
            Some(reported) => reported.elapsed() > REPORT_EVERY,
            None => waited > TELL_FIRST,
        };
        if is_due {
            let first = reported.is_none();
            reported = Some(Instant::now());
            let rest = within.saturating_sub(waited).as_secs();
            let how = match first {
                true => format!("; {}", remedy("start")),
                false => String::new(),
            };
            eprintln!("waiting for a URL: {shown} {what}; giving up in {rest} s{how}");
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The node to call: the first address its host has, and the certificate that is expected there.
pub async fn resolve(url: &JoinUrl, ca: Option<&Path>) -> Result<Remote, Failure> {
    let trust = trust(url, ca)?;
    let addr = first_of(&url.host).await;
    let addr = addr.map_err(|why| unresolved(&url.host, &why))?;
    Ok(Remote::new(addr, Bearer::new(trust, url.control)))
}

/// The first address of HOST:PORT; an error says why there is none.
pub async fn first_of(host: &str) -> Result<SocketAddr, String> {
    let found = tokio::net::lookup_host(host).await;
    let mut found = found.map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "it has no address".to_owned())
}

/// HOST:PORT has no address.
pub fn unresolved(host: &str, why: &str) -> Failure {
    Failure::new(format!("cannot resolve {host}: {why}"))
        .hint("check the host name and the name service, or give an IP address")
}

/// How the node at `url` is known to be the right one; `None` in the clear.
pub fn trust(url: &JoinUrl, ca: Option<&Path>) -> Result<Option<Trust>, Failure> {
    let host = url.host.rsplit_once(':').map_or("", |(host, _)| host);
    match (url.protected, url.expect, ca) {
        (false, _, None) => Ok(None),
        (false, _, Some(_)) => Err(Failure::Usage(
            "--ca belongs to layercasts://, a connection in the clear has no certificate"
                .to_owned(),
        )),
        (true, Some(Expect::Node(fingerprint)), _) => Ok(Some(Trust::Node(fingerprint))),
        (true, Some(Expect::Anyone), _) => Ok(Some(Trust::Anyone)),
        (true, None, Some(ca)) => {
            let authorities = Authorities::from_pem(ca, host).map_err(Failure::identity)?;
            Ok(Some(Trust::Authorities(authorities)))
        }
        (true, None, None) => Err(Failure::Usage(format!(
            "{url} does not name the identity of the node: use the whole URL that the node printed (?fp=..), \
             --ca FILE for a certificate of an authority, or ?fp=any to accept any node"
        ))),
    }
}

/// The requested identity of a node; `None` in the clear.
pub fn identity(args: &IdentityArgs) -> Result<Option<Arc<Identity>>, Failure> {
    let identity = match (&args.identity, &args.cert, &args.key) {
        _ if args.insecure => return Ok(None),
        (_, Some(certificate), Some(key)) => Identity::from_pem(certificate, key),
        (Some(file), ..) => Identity::load_or_create(file),
        _ => Identity::generate(),
    };
    own(identity).map(Some)
}

/// What carries the control of a node, as asked for.
pub fn control(args: &IdentityArgs) -> Result<Control, Failure> {
    match args.control {
        Some(_) if !args.insecure => Err(Failure::Usage(
            "--control is for links in the clear, where it needs --insecure; on protected links QUIC carries \
             the control (serve --seal protects the media in the clear, too)"
                .to_owned(),
        )),
        control => Ok(control.unwrap_or_default()),
    }
}

/// An identity to use.
pub fn own(identity: Result<Identity, IdentityError>) -> Result<Arc<Identity>, Failure> {
    let identity = identity.map_err(Failure::identity)?;
    if let Some(exposed) = identity.exposed() {
        eprintln!("warning: {exposed}");
    }
    Ok(Arc::new(identity))
}

/// How to call the node that listens on `listen`, with that certificate or in the clear over `control`.
pub fn url_of(
    listen: SocketAddr,
    own: Option<Fingerprint>,
    control: Control,
    flow: Option<&str>,
) -> JoinUrl {
    JoinUrl {
        protected: own.is_some(),
        control,
        host: SocketAddr::new(outward(listen.ip()), listen.port()).to_string(),
        flow: flow.map(str::to_owned),
        expect: own.map(Expect::Node),
        source: None,
        token: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_wrong_use() {
        for text in ["", "localhost", "localhost:99999", "http://localhost:1"] {
            assert_eq!(parse(text).unwrap_err().code(), 2, "{text:?}");
        }
    }

    #[test]
    fn a_url_is_read_from_a_file_once_its_line_is_complete() {
        let folder = std::env::temp_dir().join(format!("layercast-url-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("server.url");
        let late = file.clone();
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            std::fs::write(&late, "layercast://127.0.0.1:7400/bu").unwrap();
            thread::sleep(Duration::from_millis(100));
            std::fs::write(&late, "layercast://127.0.0.1:7400/bunny\n").unwrap();
        });
        let url = parse(&format!("@{}", file.display())).unwrap();
        assert_eq!(url.to_string(), "layercast://127.0.0.1:7400/bunny");
        writer.join().unwrap();
        // No line feed at the end: as `printf` writes it.
        std::fs::write(&file, "layercast://127.0.0.1:7400/film").unwrap();
        let url = parse(&format!("@{}", file.display())).unwrap();
        assert_eq!(url.to_string(), "layercast://127.0.0.1:7400/film");
        // The messages of the node go to the same file.
        let log = "    0.00 s  waiting for media at 127.0.0.1:5000\n    4.05 s  2 whole GOPs seen \u{b7}\n";
        std::fs::write(&file, log).unwrap();
        let error = wait_for_line(&file, (Duration::ZERO, Duration::ZERO)).unwrap_err();
        assert!(error.to_string().contains("holds no URL"), "{error}");
        let all = format!("{log}layercast://127.0.0.1:7400/live\n  MPEG-TS, 25.00 frames/s\n");
        std::fs::write(&file, all).unwrap();
        let url = parse(&format!("@{}", file.display())).unwrap();
        assert_eq!(url.to_string(), "layercast://127.0.0.1:7400/live");
        // A node with --json prints objects.
        let object = r#"{"report":"ready","node":"s","url":"layercast://127.0.0.1:7400/json"}"#;
        std::fs::write(&file, &object[..40]).unwrap();
        let error = wait_for_line(&file, (Duration::ZERO, Duration::ZERO)).unwrap_err();
        assert!(error.to_string().contains("holds no URL"), "{error}");
        std::fs::write(&file, format!("{object}\n{{\"report\":\"node\"}}\n")).unwrap();
        let url = parse(&format!("@{}", file.display())).unwrap();
        assert_eq!(url.to_string(), "layercast://127.0.0.1:7400/json");
        std::fs::write(&file, "nonsense\n").unwrap();
        let error = parse(&format!("@{}", file.display())).unwrap_err();
        assert!(error.to_string().contains("server.url"), "{error}");
        std::fs::write(&file, "x".repeat(10_000)).unwrap();
        let error = wait_for_line(&file, (Duration::ZERO, Duration::ZERO)).unwrap_err();
        assert!(error.to_string().contains("holds no URL"), "{error}");
        std::fs::write(&file, [0, 0, 1, 0xB3, 0x16]).unwrap();
        let error = parse(&format!("@{}", file.display())).unwrap_err();
        assert!(error.to_string().contains("holds no URL"), "{error}");
        assert_eq!(error.code(), 2);
        std::fs::remove_file(&file).unwrap();
        let error = wait_for_line(&file, (Duration::ZERO, URL_WITHIN)).unwrap_err();
        assert!(error.to_string().contains("does not exist"), "{error}");
        assert!(error.to_string().contains("check the name"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_url_that_changes_in_its_file_is_read_again() {
        let folder = std::env::temp_dir().join(format!("layercast-renew-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("server.url");
        let text = format!("@{}", file.display());
        let own = |byte: u8| Fingerprint::of(&[byte]);
        let line =
            |port: u16, byte: u8| format!("layercasts://127.0.0.1:{port}/bunny?fp={}\n", own(byte));
        std::fs::write(&file, line(7_400, 1)).unwrap();
        let renewal = renewal(&text, &parse(&text).unwrap(), None, None).unwrap();
        assert!(renewal.read().is_none(), "nothing has changed");
        std::fs::write(&file, "").unwrap();
        assert!(renewal.read().is_none(), "the node is not up yet");
        std::fs::write(&file, line(7_500, 2)).unwrap();
        let renewed = renewal.read().expect("another URL");
        assert_eq!(renewed.addr.port(), 7_500);
        assert!(matches!(renewed.bearer, Bearer::Quic(Trust::Node(it)) if it == own(2)));
        assert!(renewal.read().is_none(), "reported once");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_without_its_at_sign_is_named() {
        let file = std::env::temp_dir().join(format!("layercast-at-{}.url", std::process::id()));
        std::fs::write(&file, "layercast://127.0.0.1:7400/bunny\n").unwrap();
        let error = parse(&file.display().to_string()).unwrap_err();
        assert_eq!(error.code(), 2);
        let hint = format!("@{} reads the URL", file.display());
        assert!(error.to_string().contains(&hint), "{error}");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn an_ipv6_address_needs_brackets() {
        let error = parse("::1").unwrap_err().to_string();
        assert!(error.contains("in brackets"), "{error}");
    }

    #[test]
    fn a_protected_address_says_who_has_to_answer() {
        let url = parse("layercasts://localhost:7400/bunny").unwrap();
        let error = trust(&url, None).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("fp=any"), "{error}");
        let url = parse("localhost:7400").unwrap();
        assert!(trust(&url, None).unwrap().is_none());
        assert_eq!(
            trust(&url, Some(Path::new("ca.pem"))).unwrap_err().code(),
            2
        );
    }

    #[test]
    fn a_node_tells_how_to_call_it() {
        let own = Fingerprint::of(b"certificate");
        let listen = "127.0.0.1:7400".parse().unwrap();
        let url = url_of(listen, Some(own), Control::Tcp, Some("bunny")).to_string();
        assert_eq!(url, format!("layercasts://127.0.0.1:7400/bunny?fp={own}"));
        let url = url_of(listen, None, Control::Tcp, None).to_string();
        assert_eq!(url, "layercast://127.0.0.1:7400");
        let url = url_of(listen, None, Control::Xtp, None).to_string();
        assert_eq!(url, "layercast://127.0.0.1:7400?control=xtp");
        let any = url_of("0.0.0.0:7400".parse().unwrap(), None, Control::Tcp, None);
        assert!(!any.host.starts_with("0.0.0.0"), "{any}");
    }
}
