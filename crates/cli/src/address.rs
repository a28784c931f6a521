//! Where a node is, how to know that it is the right one, and who we are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use layercast_net::{Authorities, Bearer, Fingerprint, Identity, IdentityError, Remote, Trust};
use layercast_protect::{Control, Expect, JoinUrl};

use crate::args::IdentityArgs;
use crate::failure::Failure;

/// Reads `layercasts://HOST:PORT[/FLOW][?fp=..]`, `layercast://HOST:PORT[/FLOW]` or `HOST:PORT[/FLOW]`.
pub fn parse(text: &str) -> Result<JoinUrl, Failure> {
    text.parse()
        .map_err(|error: layercast_protect::UrlError| Failure::Usage(error.to_string()))
}

/// The node to call: the first address its host has, and the certificate that is expected there.
pub async fn resolve(url: &JoinUrl, ca: Option<&Path>) -> Result<Remote, Failure> {
    let trust = trust(url, ca)?;
    let host = &url.host;
    let fail = |why: String| {
        Failure::new(format!("cannot find {host}: {why}")).hint("check the name of the host")
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
            "--ca belongs to layercasts://, nobody shows a certificate in the clear".to_owned(),
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
