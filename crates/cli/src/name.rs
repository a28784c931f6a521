//! Names of nodes that are given none: nodes on one host, and neighbours of one node, need different ones.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use layercast_net::{Identity, random_seed};

use crate::args::IdentityArgs;

/// The name of a node of some `kind`: that and six hexadecimal digits. They are those of its identity if that is kept
/// in a file, so that the node has the same name after a restart, else they are random.
pub fn unique(kind: &str, kept: Option<&Identity>) -> String {
    match kept {
        Some(identity) => with(kind, identity.fingerprint().to_string().as_bytes()),
        None => with(kind, &random_seed().0),
    }
}

/// The name of a server. The identity of a flow in the clear is made of it, so it has to be the same after a restart
/// also without an identity in a file: then it is made of the host and the address to `listen` on.
pub fn of_server(own: &IdentityArgs, identity: Option<&Identity>, listen: SocketAddr) -> String {
    let kept = identity.filter(|_| own.is_kept());
    if kept.is_some() || listen.port() == 0 {
        return unique("server", kept);
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    with("server", format!("{} {listen}", host.trim()).as_bytes())
}

fn with(kind: &str, octets: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    octets.hash(&mut hasher);
    format!("{kind}-{:06x}", hasher.finish() & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_between_nodes_and_not_between_runs_of_one() {
        assert_ne!(unique("receiver", None), unique("receiver", None));
        let [a, b] = [(); 2].map(|()| Identity::generate().unwrap());
        assert_eq!(unique("switch", Some(&a)), unique("switch", Some(&a)));
        assert_ne!(unique("switch", Some(&a)), unique("switch", Some(&b)));
        let clear = IdentityArgs::default();
        let [one, two] = [7_400, 7_500].map(|port| SocketAddr::from(([0, 0, 0, 0], port)));
        assert_eq!(of_server(&clear, None, one), of_server(&clear, None, one));
        assert_ne!(of_server(&clear, None, one), of_server(&clear, None, two));
    }
}
