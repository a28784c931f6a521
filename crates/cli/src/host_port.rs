//! Addresses as users write them: `HOST:PORT`.

use std::net::{Ipv6Addr, SocketAddr};

use layercast_protect::is_host;

/// What is wrong with a text that is no `HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incomplete {
    /// The predicate of a sentence about the address: `has no port`.
    pub problem: String,
    /// The host, if there is one; an IPv6 address has its brackets.
    pub host: Option<String>,
    /// The port, if there is one.
    pub port: Option<u16>,
}

impl Incomplete {
    /// The whole address, with `host` or `port` in place of what is missing.
    pub fn whole(&self, host: &str, port: u16) -> String {
        let host = self.host.as_deref().unwrap_or(host);
        format!("{host}:{}", self.port.unwrap_or(port))
    }
}

/// Splits `HOST:PORT`. The host may be a name or an IP address, IPv6 in brackets; it is not looked up.
///
/// # Errors
/// What is missing or wrong.
pub fn split(text: &str) -> Result<(&str, u16), Incomplete> {
    let wrong = |problem: &str, host: Option<&str>, port| {
        Err(Incomplete {
            problem: problem.to_owned(),
            host: host.map(str::to_owned),
            port,
        })
    };
    if text.is_empty() {
        return wrong("has no address and no port", None, None);
    }
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return wrong("has no address", None, Some(port));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        let host = format!("[{text}]");
        let problem = "has no port, or an IPv6 address without brackets";
        return wrong(problem, Some(&host), None);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !text.ends_with(']') => (host, port),
        _ => return wrong("has no port", Some(text), None),
    };
    let host = Some(host).filter(|host| !host.is_empty());
    match (host, port.parse()) {
        (Some(host), Ok(port)) if !is_host(host) => {
            let problem = format!(
                "has the host {host:?}, which is neither a name nor an address (IPv6 in brackets: [2001:db8::1])"
            );
            wrong(&problem, None, Some(port))
        }
        (Some(host), Ok(port)) => Ok((host, port)),
        (host, _) => {
            let problem = format!("has the port {port:?}, which is no number from 0 to 65535");
            wrong(&problem, host, None)
        }
    }
}

/// Why nothing can be sent to an address: the predicate of a sentence about it.
pub fn no_destination(address: SocketAddr) -> Option<&'static str> {
    if address.port() == 0 {
        Some("has the port 0, at which no program receives")
    } else if address.ip().is_unspecified() {
        Some("stands for all addresses of a host: it is one to listen on")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_and_added() {
        assert_eq!(split("a.example:80"), Ok(("a.example", 80)));
        assert_eq!(split("192.0.2.7:0"), Ok(("192.0.2.7", 0)));
        assert_eq!(split("[2001:db8::7]:80"), Ok(("[2001:db8::7]", 80)));
        for (text, problem, whole) in [
            ("", "no address and no port", "host:1"),
            ("80", "no address", "host:80"),
            (":80", "no address", "host:80"),
            ("a.example", "no port", "a.example:1"),
            ("[::1]", "no port", "[::1]:1"),
            ("::1", "without brackets", "[::1]:1"),
            ("[::1:80", "the host \"[::1\"", "host:80"),
            ("a b:80", "neither a name", "host:80"),
            ("a.example:", "port \"\"", "a.example:1"),
            ("a.example:70000", "port \"70000\"", "a.example:1"),
            (":http", "port \"http\"", "host:1"),
        ] {
            let error = split(text).unwrap_err();
            assert!(error.problem.contains(problem), "{text}: {error:?}");
            assert_eq!(error.whole("host", 1), whole, "{text}");
        }
    }
}
