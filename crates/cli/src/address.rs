//! `HOST:PORT[/FLOW]`, and questions to the node there.

use std::net::SocketAddr;

use crate::failure::Failure;

/// A node, and perhaps a flow at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// `HOST:PORT`.
    pub host: String,
    /// The flow, if one is named.
    pub flow: Option<String>,
}

impl Target {
    /// Reads `HOST:PORT[/FLOW]`.
    pub fn parse(text: &str) -> Result<Target, Failure> {
        let (host, flow) = match text.split_once('/') {
            Some((host, flow)) => (host, Some(flow.to_owned())),
            None => (text, None),
        };
        let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        match (port, flow.as_deref()) {
            (Some(Ok(_)), None) => {}
            (Some(Ok(_)), Some(name)) if !name.is_empty() => {}
            _ => {
                let usage = format!("{text:?} is no HOST:PORT[/FLOW], e.g. 127.0.0.1:7400/bunny");
                return Err(Failure::Usage(usage));
            }
        }
        let host = host.to_owned();
        Ok(Target { host, flow })
    }

    /// The address to call; the first of those that the name has.
    pub async fn resolve(&self) -> Result<SocketAddr, Failure> {
        let host = &self.host;
        let fail = |why: String| {
            Failure::new(format!("cannot find {host}: {why}")).hint("check the name of the host")
        };
        let mut found = tokio::net::lookup_host(host)
            .await
            .map_err(|error| fail(error.to_string()))?;
        found
            .next()
            .ok_or_else(|| fail("it has no address".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_may_be_named() {
        let target = Target::parse("[::1]:7400/bunny").unwrap();
        assert_eq!(
            (target.host.as_str(), target.flow.as_deref()),
            ("[::1]:7400", Some("bunny"))
        );
        assert_eq!(Target::parse("localhost:1").unwrap().flow, None);
    }

    #[test]
    fn what_is_no_address_is_wrong_use() {
        for text in [
            "",
            "localhost",
            "localhost:",
            "localhost:99999",
            "localhost:1/",
            ":x",
        ] {
            let error = Target::parse(text).unwrap_err();
            assert_eq!(error.code(), 2, "{text:?}");
        }
    }
}
