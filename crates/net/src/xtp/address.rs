use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

const DAEMON: &str = "xtp+daemon://";
const RAW: &str = "xtp+ip://";
const UDP: &str = "xtp://";

/// Where an [`XtpHost`](super::XtpHost) has its XTP from: the one argument by which users choose between a library and a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum XtpPlace {
    /// `127.0.0.1:0` or `xtp://127.0.0.1:0`: the library, over a UDP socket of its own.
    Udp(SocketAddr),
    /// `xtp+ip://192.0.2.1`: the library, over IP itself, which takes CAP_NET_RAW.
    Raw(IpAddr),
    /// `xtp+daemon:///run/xtpd`: the daemon that serves this path.
    Daemon(PathBuf),
}

/// A text that is no [`XtpPlace`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0} is no address such as 127.0.0.1:7000, xtp+ip://192.0.2.1 or xtp+daemon:///run/xtpd")]
pub struct XtpPlaceError(String);

impl FromStr for XtpPlace {
    type Err = XtpPlaceError;

    fn from_str(text: &str) -> Result<XtpPlace, XtpPlaceError> {
        let wrong = || XtpPlaceError(text.to_owned());
        if let Some(path) = text.strip_prefix(DAEMON) {
            return match path {
                "" => Err(wrong()),
                path => Ok(XtpPlace::Daemon(path.into())),
            };
        }
        if let Some(host) = text.strip_prefix(RAW) {
            return host.parse().map(XtpPlace::Raw).map_err(|_| wrong());
        }
        let address = text.strip_prefix(UDP).unwrap_or(text);
        address.parse().map(XtpPlace::Udp).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_argument_chooses_the_mode() {
        let place = |text: &str| text.parse::<XtpPlace>();
        let udp = XtpPlace::Udp("127.0.0.1:7000".parse().unwrap());
        assert_eq!(place("127.0.0.1:7000"), Ok(udp.clone()));
        assert_eq!(place("xtp://127.0.0.1:7000"), Ok(udp));
        let raw = XtpPlace::Raw("::1".parse().unwrap());
        assert_eq!(place("xtp+ip://::1"), Ok(raw));
        let daemon = XtpPlace::Daemon("/run/xtpd".into());
        assert_eq!(place("xtp+daemon:///run/xtpd"), Ok(daemon));
        for wrong in [
            "",
            "nowhere",
            "xtp+daemon://",
            "xtp+ip://a",
            "xtp://1.2.3.4",
        ] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
