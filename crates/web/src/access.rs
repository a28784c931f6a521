//! Access control: hosts and origins by name, the token of viewers, tickets.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use layercast::net::random_seed;
use ring::digest::{SHA256, digest};

/// How long a ticket is taken after it was given.
const VALID: Duration = Duration::from_secs(60);
/// Tickets that are kept.
const MOST: usize = 4_096;

/// Access control of viewers.
///
/// The token is in the fragment of the URL, which browsers do not send. The page shows it once, in a header, and gets a ticket for the
/// requests that cannot have headers; a ticket lives for a minute, so that one in a log is of no use.
#[derive(Debug)]
pub struct Access {
    token: String,
    /// Names, with ports where they are not those of the scheme, by which browsers may call this server.
    hosts: Vec<String>,
    tickets: Mutex<HashMap<String, Instant>>,
}

/// 128 random bits in hexadecimal.
pub fn random() -> String {
    let octets = &random_seed().0[..16];
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Compares without telling by its time how much is equal.
fn is_same(a: &str, b: &str) -> bool {
    let digest_of = |text: &str| digest(&SHA256, text.as_bytes());
    digest_of(a).as_ref() == digest_of(b).as_ref()
}

impl Access {
    /// Access by `token` to a server that browsers call by `hosts`.
    pub fn new(token: String, hosts: Vec<String>) -> Access {
        Access {
            token,
            hosts,
            tickets: Mutex::default(),
        }
    }

    /// Whether a request names this server as its host. Another name is that of a page which has its own name lead here (DNS rebinding).
    pub fn is_for_us(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|it| it.to_str().ok());
        host.is_some_and(|host| self.is_host(host))
    }

    /// Whether this server is called so.
    pub fn is_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
    }

    /// Whether a request comes from a page of this server, or from no page.
    pub fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        self.is_origin(headers.get(ORIGIN))
    }

    /// Whether it is a page of this server that asks, or no page.
    pub fn is_origin(&self, origin: Option<&HeaderValue>) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        // A proxy may have added HTTPS.
        let origin = origin.to_str().unwrap_or_default();
        let host = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| self.is_host(host))
    }

    /// A ticket for a request that shows the token.
    pub fn ticket(&self, headers: &HeaderMap, now: Instant) -> Option<String> {
        let shown = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let token = shown.strip_prefix("Bearer ")?;
        if !is_same(token, &self.token) {
            return None;
        }
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, given| now.duration_since(*given) < VALID);
        if tickets.len() >= MOST {
            tickets.clear();
        }
        let ticket = random();
        tickets.insert(ticket.clone(), now);
        Some(ticket)
    }

    /// Whether a ticket is valid. It is used up.
    pub fn takes(&self, ticket: &str, now: Instant) -> bool {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let given = tickets.remove(ticket);
        given.is_some_and(|given| now.duration_since(given) < VALID)
    }

    /// The hosts by which browsers may call.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new("secret-of-viewers".into(), vec!["127.0.0.1:80".into()])
    }

    fn headers(pairs: &[(axum::http::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().expect("a header")))
            .collect()
    }

    #[test]
    fn a_ticket_is_for_those_who_show_the_token_once_and_for_a_minute() {
        let (access, now) = (access(), Instant::now());
        for wrong in [
            "Bearer secret",
            "Bearer",
            "secret-of-viewers",
            "Basic secret-of-viewers",
        ] {
            assert_eq!(
                access.ticket(&headers(&[(AUTHORIZATION, wrong)]), now),
                None
            );
        }
        assert_eq!(access.ticket(&HeaderMap::new(), now), None);
        let right = headers(&[(AUTHORIZATION, "Bearer secret-of-viewers")]);
        let ticket = access.ticket(&right, now).expect("a ticket");
        assert!(!access.takes("", now));
        assert!(access.takes(&ticket, now));
        assert!(!access.takes(&ticket, now));
        let ticket = access.ticket(&right, now).expect("a ticket");
        assert!(!access.takes(&ticket, now + VALID));
    }

    #[test]
    fn other_hosts_and_pages_are_refused() {
        let access = access();
        assert!(access.is_for_us(&headers(&[(HOST, "127.0.0.1:80")])));
        for host in [
            "evil.example:80",
            "127.0.0.1",
            "127.0.0.1:81",
            "127.0.0.1:80.evil.example",
        ] {
            assert!(!access.is_for_us(&headers(&[(HOST, host)])), "{host}");
        }
        assert!(!access.is_for_us(&HeaderMap::new()));
        assert!(access.is_own_origin(&HeaderMap::new()));
        assert!(access.is_own_origin(&headers(&[(ORIGIN, "http://127.0.0.1:80")])));
        for origin in [
            "https://127.0.0.1:81",
            "http://127.0.0.1:80.evil.example",
            "null",
            "http://localhost:80",
        ] {
            assert!(
                !access.is_own_origin(&headers(&[(ORIGIN, origin)])),
                "{origin}"
            );
        }
    }
}
