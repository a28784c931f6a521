//! Where a node is, how to know that it is the right one, and who we are.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use layercast_net::{Authorities, Bearer, Fingerprint, Identity, IdentityError, Remote, Trust};
use layercast_protect::{Control, Expect, JoinUrl};

use crate::args::IdentityArgs;
use crate::failure::Failure;
use crate::scheme;

/// How long `@FILE` waits for a node that has just been started: a live server measures its input first.
const URL_WITHIN: Duration = Duration::from_secs(60);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest URL that is read from a file, in bytes: a token takes some hundreds.
const MAX_URL: u64 = 8_192;

/// Reads `layercasts://HOST:PORT[/FLOW][?fp=..]`, `layercast://HOST:PORT[/FLOW]` or `HOST:PORT[/FLOW]`; `@FILE` is the first
/// line of that file, for which it waits up to [`URL_WITHIN`] (it blocks the thread meanwhile).
pub fn parse(text: &str) -> Result<JoinUrl, Failure> {
    let line = match text.strip_prefix('@') {
        Some(file) => first_line(Path::new(file), URL_WITHIN)?,
        None => text.to_owned(),
    };
    scheme::check(&line, scheme::Place::Node)?;
    let (host, _) = line.split_once(['/', '?']).unwrap_or((&line, ""));
    if host.parse::<Ipv6Addr>().is_ok() {
        let failure = Failure::wrong_use(format!("{line:?} is an IPv6 address without a port"));
        return Err(
            failure.hint("write the address in brackets, with a port: '[2001:db8::1]:7400/FLOW'")
        );
    }
    line.parse().map_err(|error: layercast_protect::UrlError| {
        let failure = Failure::wrong_use(match text.strip_prefix('@') {
            Some(file) => format!("{file}: {error}"),
            None => error.to_string(),
        });
        failure.hint("give the URL that the node printed, or HOST:PORT/FLOW without encryption")
    })
}

/// The first line of a file, once it is complete.
fn first_line(file: &Path, within: Duration) -> Result<String, Failure> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        let read = File::open(file).and_then(|file| {
            let mut text = String::new();
            file.take(MAX_URL).read_to_string(&mut text).map(|_| text)
        });
        match read {
            Ok(text) => {
                if let Some((line, _)) = text.split_once('\n') {
                    return Ok(line.trim().to_owned());
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::file(file, "read", &error)),
        }
        if begun.elapsed() > within {
            let why = format!(
                "{} holds no URL after {} s",
                file.display(),
                within.as_secs()
            );
            return Err(Failure::new(why).hint(
                "start the node first, with its standard output in this file: layercast serve CLIP > FILE &",
            ));
        }
        if !told {
            eprintln!("waiting for a URL in {}", file.display());
            told = true;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The node to call: the first address its host has, and the certificate that is expected there.
pub async fn resolve(url: &JoinUrl, ca: Option<&Path>) -> Result<Remote, Failure> {
    let trust = trust(url, ca)?;
    let host = &url.host;
    let fail = |why: String| {
        let failure = Failure::new(format!("cannot resolve {host}: {why}"));
        failure.hint("check the host name and the name service, or give an IP address")
    };
    let mut found = tokio::net::lookup_host(host)
        .await
        .map_err(|error| fail(error.to_string()))?;
    let addr = found
        .next()
        .ok_or_else(|| fail("it has no address".to_owned()))?;
    let bearer = Bearer::new(trust, url.control);
    Ok(Remote { addr, bearer })
}

fn trust(url: &JoinUrl, ca: Option<&Path>) -> Result<Option<Trust>, Failure> {
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
            let authorities = Authorities::from_pem(ca, host).map_err(Failure::new)?;
            Ok(Some(Trust::Authorities(authorities)))
        }
        (true, None, None) => Err(Failure::Usage(format!(
            "{url} does not say who has to answer: use the whole URL that the node printed (?fp=..), \
             --ca FILE for a certificate of an authority, or ?fp=any to talk to anybody"
        ))),
    }
}

/// Who a node is, as asked for; `None` in the clear.
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
    let identity = identity.map_err(Failure::new)?;
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

/// An address under which others reach who listens on `ip`: if that is any, the one that leads to the rest of
/// the world, if there is one. Nothing is sent to find out.
fn outward(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    let somewhere = SocketAddr::from(([192, 0, 2, 1], 9));
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| {
            socket.connect(somewhere)?;
            socket.local_addr()
        })
        .map_or(Ipv4Addr::LOCALHOST.into(), |addr| addr.ip())
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
        std::fs::write(&file, "nonsense\n").unwrap();
        let error = parse(&format!("@{}", file.display())).unwrap_err();
        assert!(error.to_string().contains("server.url"), "{error}");
        std::fs::write(&file, "x".repeat(10_000)).unwrap();
        let error = first_line(&file, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("holds no URL"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
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
