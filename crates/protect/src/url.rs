use core::net::Ipv6Addr;
use std::fmt::{self, Write};
use std::num::NonZeroU16;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::identity::{Fingerprint, FingerprintError, no_key};

/// Where a flow is and what it takes to get it:
/// `layercasts://HOST:PORT/FLOW?fp=FINGERPRINT&src=KEY&token=TOKEN`.
///
/// Everything behind the port may be missing. `layercast://HOST:PORT/FLOW`, or just `HOST:PORT/FLOW`, is a
/// node that speaks in the clear, over TCP or, with `?control=xtp`, over XTP. In a flow's name, octets other than letters, digits and `-._~` are
/// written `%XX`.
///
/// ```
/// use layercast_protect::{Expect, JoinUrl};
///
/// let url: JoinUrl = "layercasts://192.0.2.1:7400/my%20film?fp=any".parse()?;
/// assert_eq!(url.host, "192.0.2.1:7400");
/// assert_eq!(url.flow.as_deref(), Some("my film"));
/// assert_eq!(url.expect, Some(Expect::Anyone));
/// assert_eq!(url.to_string().parse(), Ok(url));
/// # Ok::<(), layercast_protect::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinUrl {
    /// Whether the link to the node is protected (`layercasts`).
    pub protected: bool,
    /// What carries the session channel if the link is not protected (`control`).
    pub control: Control,
    /// `HOST:PORT` of the node.
    pub host: String,
    /// Name of the flow.
    pub flow: Option<String>,
    /// The identity that must answer there (`fp`); missing: one that a certification authority vouches for.
    pub expect: Option<Expect>,
    /// Public Ed25519 key of the source, whose flow it has to be (`src`).
    pub source: Option<[u8; 32]>,
    /// What the source gave the receiver to show (`token`).
    pub token: Option<String>,
}

/// What carries the session channel of a link in the clear. On protected links it is QUIC.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// TCP (`control=tcp`, or nothing).
    #[default]
    Tcp,
    /// XTP over UDP (`control=xtp`).
    Xtp,
}

/// The identity that must answer at a protected node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// The node with this certificate.
    Node(Fingerprint),
    /// Any identity (`fp=any`): encrypted, but not authenticated.
    Anyone,
}

/// Why a text is no [`JoinUrl`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UrlError {
    /// Another scheme.
    #[error("{0}:// is neither layercasts:// (protected) nor layercast:// (in the clear)")]
    Scheme(String),
    /// No host, or no port.
    #[error("{0:?} is no HOST:PORT[/FLOW], e.g. 127.0.0.1:7400/bunny")]
    Address(String),
    /// A host that can be none.
    #[error("the host {0:?} is neither a name nor an address (IPv6 in brackets: [2001:db8::1])")]
    Host(String),
    /// Nothing where the name of a flow is expected.
    #[error("there is no name of a flow behind the slash: write HOST:PORT/FLOW, or HOST:PORT")]
    NoFlow,
    /// A `%` without two hexadecimal digits, or octets that are no text.
    #[error("{0:?} is not percent-encoded UTF-8")]
    Encoding(String),
    /// An unknown parameter, or one given twice.
    #[error("{0:?} is not one of fp=, src=, token=, control=, each at most once")]
    Parameter(String),
    /// `fp` is neither a fingerprint nor `any`.
    #[error("fp= is wrong: {0}; fp=any accepts any node")]
    Fingerprint(#[from] FingerprintError),
    /// `src` is no public key.
    #[error("src= is wrong: {}", no_key("Ed25519 public key", *length))]
    Source {
        /// Characters of the value.
        length: usize,
    },
    /// `control` is neither `tcp` nor `xtp`.
    #[error("control={0:?} is neither tcp nor xtp")]
    Control(String),
    /// `control` where QUIC carries it.
    #[error("control= belongs to layercast://: on protected links QUIC carries the control")]
    Protected,
    /// `fp` where no certificate is presented.
    #[error("fp= belongs to layercasts://, a connection in the clear has no certificate")]
    Clear,
}

impl FromStr for JoinUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<JoinUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("layercast", text));
        let protected = match scheme {
            "layercasts" => true,
            "layercast" => false,
            other => return Err(UrlError::Scheme(other.to_owned())),
        };
        let (address, query) = match rest.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (rest, None),
        };
        let (host, flow) = match address.split_once('/') {
            Some((host, flow)) => (host, Some(flow)),
            None => (address, None),
        };
        let wrong = || UrlError::Address(text.to_owned());
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let is_port = port.parse::<NonZeroU16>().is_ok();
        if name.is_empty() || !is_port {
            return Err(wrong());
        }
        if !is_host(name) {
            // Not what may be a password.
            let (_, host) = name.rsplit_once('@').unwrap_or(("", name));
            return Err(UrlError::Host(match host.len() == name.len() {
                true => host.to_owned(),
                false => format!("..@{host}"),
            }));
        }
        if flow.is_some_and(str::is_empty) {
            return Err(UrlError::NoFlow);
        }
        let mut url = JoinUrl {
            protected,
            control: Control::Tcp,
            host: host.to_owned(),
            flow: flow.map(decode).transpose()?,
            expect: None,
            source: None,
            token: None,
        };
        let mut control = None;
        for parameter in query.into_iter().flat_map(|query| query.split('&')) {
            match parameter.strip_prefix("control=") {
                Some(value) if control.is_none() => control = Some(value.parse()?),
                _ => url.set(parameter)?,
            }
        }
        url.control = control.unwrap_or_default();
        match (protected, url.expect, control) {
            (false, Some(_), _) => Err(UrlError::Clear),
            (true, _, Some(_)) => Err(UrlError::Protected),
            _ => Ok(url),
        }
    }
}

/// Whether a text may be a host: a name, an IPv4 address, or an IPv6 address in brackets. It is not looked up.
pub fn is_host(text: &str) -> bool {
    if let Some(address) = text.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        let (address, zone) = address.split_once('%').unwrap_or((address, "none"));
        return address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty();
    }
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '-' | '.' | '_');
    !text.is_empty() && text.chars().all(is_part)
}

impl JoinUrl {
    fn set(&mut self, parameter: &str) -> Result<(), UrlError> {
        let unknown = || UrlError::Parameter(parameter.chars().take(40).collect());
        let (key, value) = parameter.split_once('=').ok_or_else(unknown)?;
        match key {
            "fp" if self.expect.is_none() => {
                self.expect = Some(match value {
                    "any" => Expect::Anyone,
                    fingerprint => Expect::Node(fingerprint.parse()?),
                });
            }
            "src" if self.source.is_none() => {
                let bytes = URL_SAFE_NO_PAD.decode(value).ok();
                let key = bytes.and_then(|bytes| bytes.try_into().ok());
                self.source = Some(key.ok_or_else(|| UrlError::Source {
                    length: value.chars().count(),
                })?);
            }
            "token" if self.token.is_none() => self.token = Some(value.to_owned()),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

impl FromStr for Control {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Control, UrlError> {
        match text {
            "tcp" => Ok(Control::Tcp),
            "xtp" => Ok(Control::Xtp),
            other => Err(UrlError::Control(other.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for JoinUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.protected {
            "layercasts"
        } else {
            "layercast"
        };
        write!(f, "{scheme}://{}", self.host)?;
        if let Some(flow) = &self.flow {
            write!(f, "/{}", encode(flow))?;
        }
        let expect = self.expect.map(|expect| match expect {
            Expect::Node(fingerprint) => fingerprint.to_string(),
            Expect::Anyone => "any".to_owned(),
        });
        let control = (self.control == Control::Xtp).then(|| "xtp".to_owned());
        let parameters = [
            ("control", control),
            ("fp", expect),
            ("src", self.source.map(|key| URL_SAFE_NO_PAD.encode(key))),
            ("token", self.token.clone()),
        ];
        let mut before = '?';
        for (key, value) in parameters {
            if let Some(value) = value {
                write!(f, "{before}{key}={value}")?;
                before = '&';
            }
        }
        Ok(())
    }
}

fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn decode(text: &str) -> Result<String, UrlError> {
    let wrong = || UrlError::Encoding(text.to_owned());
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>().ok_or_else(wrong)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
        out.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
        rest = after;
    }
    String::from_utf8(out).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<JoinUrl, UrlError> {
        text.parse()
    }

    #[test]
    fn an_address_alone_is_in_the_clear() {
        let url = parse("[::1]:7400/bunny").unwrap();
        assert_eq!((url.protected, url.host.as_str()), (false, "[::1]:7400"));
        assert_eq!(url.flow.as_deref(), Some("bunny"));
        assert_eq!(parse("layercast://[::1]:7400/bunny"), Ok(url));
        assert_eq!(parse("localhost:1").unwrap().flow, None);
    }

    #[test]
    fn a_url_carries_who_is_expected() {
        let fingerprint = Fingerprint::of(b"certificate");
        let url = parse(&format!(
            "layercasts://host:7400/a%2Fb%20c?fp={fingerprint}"
        ))
        .unwrap();
        assert_eq!(url.expect, Some(Expect::Node(fingerprint)));
        assert_eq!(url.flow.as_deref(), Some("a/b c"));
        let any = parse("layercasts://host:7400?fp=any").unwrap();
        assert_eq!((any.flow, any.expect), (None, Some(Expect::Anyone)));
    }

    #[test]
    fn a_url_says_what_carries_the_control_in_the_clear() {
        let url = parse("layercast://host:7400/bunny?control=xtp").unwrap();
        assert_eq!(url.control, Control::Xtp);
        assert_eq!(url.to_string(), "layercast://host:7400/bunny?control=xtp");
        let usual = parse("host:7400?control=tcp").unwrap();
        assert_eq!(usual, parse("host:7400").unwrap());
        let error = parse("layercasts://host:7400?fp=any&control=xtp").unwrap_err();
        assert!(error.to_string().contains("QUIC"), "{error}");
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for host in [
            "a",
            "a.example",
            "böhm_1-2",
            "192.0.2.1",
            "[::1]",
            "[fe80::1%eth0]",
        ] {
            assert!(is_host(host), "{host}");
            assert!(parse(&format!("layercast://{host}:1/f")).is_ok(), "{host}");
        }
        for host in [
            "",
            "[::1",
            "::1]",
            "::1",
            "[]",
            "[a]",
            "[fe80::1%]",
            "a b",
            "ann:pw@a",
            "a@b",
            "a,b",
            "a\\b",
        ] {
            assert!(!is_host(host), "{host}");
            let error = parse(&format!("layercast://{host}:1/f")).unwrap_err();
            assert!(!error.to_string().contains("pw"), "{error}");
        }
        let error = parse("[::1:7400/f").unwrap_err();
        assert!(error.to_string().contains("IPv6 in brackets"), "{error}");
        assert_eq!(parse("h:1/"), Err(UrlError::NoFlow));
    }

    #[test]
    fn a_value_of_another_length_is_counted() {
        for (text, says) in [
            ("?fp=abc", "fp= is wrong: 3 characters are no fingerprint"),
            ("?src=abcd", "src= is wrong: 4 characters are no Ed25519"),
            // The last character of 32 octets has two bits that are zero.
            (
                "?fp=BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
                "fp= is wrong: these 43 characters are no fingerprint: one of them",
            ),
        ] {
            let error = parse(&format!("layercasts://h:1{text}")).unwrap_err();
            assert!(error.to_string().starts_with(says), "{error}");
            assert!(error.to_string().contains("43"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "",
            "localhost",
            "localhost:",
            "localhost:99999",
            "localhost:0",
            "waiting for media at 127.0.0.1:5000",
            "localhost:1/",
            ":1",
            "http://localhost:1/",
            "localhost:1/a%2",
            "localhost:1/%FF",
            "localhost:1/a?fp=any",
            "localhost:1/a?control=udp",
            "localhost:1/a?control=xtp&control=xtp",
            "layercasts://localhost:1/a?fp=any&control=xtp",
            "layercasts://localhost:1/a?fp=AAAA",
            "layercasts://localhost:1/a?fp=any&fp=any",
            "layercasts://localhost:1/a?pf=any",
            "layercasts://localhost:1/a?",
            "layercasts://localhost:1/a?src=AAAA",
            "layercasts://localhost:1/a?token=a&token=a",
            "layercasts://localhost:1/a?src=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
             &src=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_url_reads_back(
            protected: bool,
            port in 1..=u16::MAX,
            flow in prop::option::of(".{1,20}"),
            expect in prop::option::of(prop::option::of(any::<[u8; 4]>())),
            source: Option<[u8; 32]>,
            token in prop::option::of("[A-Za-z0-9_.-]{0,80}"),
            xtp: bool,
        ) {
            let control = if xtp && !protected { Control::Xtp } else { Control::Tcp };
            let expect = expect.filter(|_| protected).map(|bytes| match bytes {
                Some(bytes) => Expect::Node(Fingerprint::of(&bytes)),
                None => Expect::Anyone,
            });
            let host = format!("media.example.net:{port}");
            let url = JoinUrl { protected, control, host, flow, expect, source, token };
            prop_assert_eq!(parse(&url.to_string()), Ok(url));
        }

        #[test]
        fn no_text_does_harm(text in ".{0,80}") {
            if let Ok(url) = parse(&text) {
                prop_assert_eq!(parse(&url.to_string()), Ok(url));
            }
        }
    }
}
