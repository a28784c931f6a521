use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use layercast_core::AddressBudgets;
use layercast_multicast::{Delivery, Outcome, To};
use layercast_wire::Payload;
use layercast_wire::multicast::{Body, Data, DataFlags, MemberId, Packet, Symbol};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use super::peers::Peers;
use super::roll::Roll;
use super::send::Destination;
use super::session::MOST_RECEIVERS;
use super::tokens::Tokens;
use crate::error::NetError;
use crate::timer::Timer;
use crate::udp::Udp;

/// The socket of a sender, the same for all its files.
pub struct Link {
    pub udp: Udp,
    pub timer: Timer,
    /// The multicast address, or every address that is to be sent to.
    pub all: Arc<[SocketAddr]>,
    /// The address for data of postponed receivers.
    pub side: Arc<[SocketAddr]>,
    pub multicast: bool,
    /// Octets of content that fit into a packet on all ways there; none: the system does not know.
    pub payload: Option<u16>,
    /// Destinations to which the host has no route, and what the system says.
    pub unroutable: BTreeMap<SocketAddr, String>,
    /// What may be sent to addresses that are not listed, and what proves that they are real.
    pub budgets: AddressBudgets<SocketAddr>,
    pub tokens: Tokens,
    /// The receivers, by their names.
    pub roll: Roll,
    /// Addresses that have used up the time of the others, and in how many sessions.
    pub spent: HashMap<SocketAddr, u32>,
}

/// Addresses that are remembered: twice the receivers of a session.
const MOST_ADDRESSES: usize = 1 << 17;
/// What a parity may have beyond the content of a packet: its length, and an octet that makes it even.
const PARITY: usize = 3;

impl Link {
    /// A socket that can send there. Must be called within a tokio runtime.
    pub fn open(to: &Destination) -> Result<Link, NetError> {
        let (all, multicast): (Arc<[SocketAddr]>, bool) = match to {
            Destination::Group { group, .. } => ([SocketAddr::from(*group)].into(), true),
            Destination::Hosts(hosts) => (hosts.clone().into(), false),
        };
        let side = match to {
            Destination::Group { side, .. } => side.map(|it| [SocketAddr::from(it)].into()),
            Destination::Hosts(_) => None,
        };
        let any = match all.iter().any(SocketAddr::is_ipv6) {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(any, 0);
        let udp = Udp::bind(local).map_err(|source| NetError::bind(local, source))?;
        let mut by = Ipv4Addr::UNSPECIFIED;
        if let Destination::Group {
            group,
            interface,
            hops,
            ..
        } = to
        {
            by = *interface;
            let group = SocketAddr::from(*group);
            udp.send_to_groups(*interface, *hops)
                .map_err(|source| NetError::Group { group, source })?;
        }
        let (mut payload, mut unroutable) = (None, BTreeMap::new());
        for &to in &*all {
            match path_mtu(to, by) {
                Ok(mtu) => {
                    let fits = payload_within(mtu, to);
                    payload = Some(payload.map_or(fits, |least: u16| least.min(fits)));
                }
                Err(error) if is_unroutable(&error) => {
                    unroutable.insert(to, error);
                }
                Err(_) => {}
            }
        }
        if unroutable.len() == all.len()
            && let Some((to, source)) = unroutable.pop_first()
        {
            return Err(NetError::NoRoute { to, source });
        }
        let unroutable = unroutable
            .into_iter()
            .map(|(to, error)| (to, error.to_string()));
        let timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        let roll = Roll::new(hosts(&all, multicast).iter().copied(), MOST_RECEIVERS);
        Ok(Link {
            udp,
            timer,
            side: side.unwrap_or_else(|| Arc::clone(&all)),
            all,
            multicast,
            payload,
            unroutable: unroutable.collect(),
            budgets: AddressBudgets::new(MOST_ADDRESSES),
            tokens: Tokens::new(),
            roll,
            spent: HashMap::new(),
        })
    }

    /// The hosts that the user named; none: a group.
    pub fn hosts(&self) -> &[SocketAddr] {
        hosts(&self.all, self.multicast)
    }
}

fn hosts(all: &[SocketAddr], multicast: bool) -> &[SocketAddr] {
    if multicast { &[] } else { all }
}

/// Octets that a packet of IP may have on the way to an address, as far as the system knows; to a group through the
/// interface `by`. Larger ones are not cut but refused.
fn path_mtu(to: SocketAddr, by: Ipv4Addr) -> io::Result<u32> {
    let probe = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    if to.ip().is_multicast() {
        probe.set_multicast_if_v4(&by)?;
    }
    probe.connect(&to.into())?;
    Ok(match to {
        SocketAddr::V4(_) => sockopt::ip_mtu(&probe)?,
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&probe)?,
    })
}

/// Whether the error says that packets cannot leave this host for the destination.
fn is_unroutable(error: &io::Error) -> bool {
    // AddrNotAvailable: no source address. InvalidInput: a link-local address without its interface.
    use io::ErrorKind::{
        AddrNotAvailable, HostUnreachable, InvalidInput, NetworkDown, NetworkUnreachable,
    };
    matches!(
        error.kind(),
        AddrNotAvailable | HostUnreachable | InvalidInput | NetworkDown | NetworkUnreachable
    )
}

/// Octets of content that a packet may have, so that it and its parities fit.
fn payload_within(mtu: u32, to: SocketAddr) -> u16 {
    let empty = Packet {
        session: 0,
        body: Body::Data(Data {
            round: 0,
            flags: DataFlags::default(),
            symbol: Symbol::Source(0),
            payload: Payload::default(),
        }),
    };
    let ip = if to.is_ipv4() { 20 } else { 40 };
    let headers = ip + 8 + empty.encoded_len() + PARITY;
    let left = (mtu as usize).saturating_sub(headers).max(1);
    u16::try_from(left).unwrap_or(u16::MAX)
}

/// The destination of packets of the machine.
///
/// By multicast all packets for the group are sent there. By unicast data and polls are sent only to receivers
/// that still lack something: complete ones, and those that never answered, cost nothing.
#[derive(Debug)]
pub struct Routes {
    multicast: bool,
    all: Arc<[SocketAddr]>,
    group: Arc<[SocketAddr]>,
    side: Arc<[SocketAddr]>,
    nobody: Arc<[SocketAddr]>,
    postponed: BTreeSet<MemberId>,
    stale: bool,
}

impl Routes {
    pub fn new(link: &Link) -> Routes {
        Routes {
            multicast: link.multicast,
            group: Arc::clone(&link.all),
            side: Arc::clone(&link.side),
            all: Arc::clone(&link.all),
            nobody: Arc::new([]),
            postponed: BTreeSet::new(),
            stale: false,
        }
    }

    /// Somebody is served after the others from now on.
    pub fn postpone(&mut self, member: MemberId) {
        self.postponed.insert(member);
    }

    /// The set of incomplete receivers has changed.
    pub fn change(&mut self) {
        self.stale = !self.multicast;
    }

    /// The addresses of a packet.
    pub fn of<'a>(
        &'a mut self,
        to: To,
        packet: &Packet,
        peers: &'a Peers,
        deliveries: impl Iterator<Item = Delivery>,
    ) -> &'a Arc<[SocketAddr]> {
        if core::mem::take(&mut self.stale) {
            let (side, group): (Vec<Delivery>, Vec<Delivery>) = deliveries
                .filter(|it| it.outcome == Outcome::Pending)
                .partition(|it| self.postponed.contains(&it.member));
            let addresses = |of: Vec<Delivery>| {
                let peers = of.iter().filter_map(|it| peers.address(it.peer?));
                peers.collect()
            };
            (self.side, self.group) = (addresses(side), addresses(group));
        }
        let rounds = matches!(packet.body, Body::Data(_) | Body::Poll(_));
        match to {
            To::Group if rounds => &self.group,
            To::Side if rounds => &self.side,
            To::Group | To::Side => &self.all,
            To::One(peer) => peers.way_to(peer).unwrap_or(&self.nobody),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fit_into_the_mtu() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (four, six) = (address("192.0.2.1:1"), address("[2001:db8::1]:1"));
        // Ethernet has room for what the profile wants, a tunnel of 1400 octets has not.
        assert!(payload_within(1_500, four) >= 1_400);
        assert_eq!(payload_within(1_400, four), 1_400 - 20 - 8 - 27 - 3);
        assert_eq!(payload_within(1_400, six), payload_within(1_400, four) - 20);
        assert_eq!(
            (payload_within(0, four), payload_within(1 << 20, four)),
            (1, u16::MAX)
        );
    }

    #[tokio::test]
    async fn the_system_knows_how_much_fits() {
        for to in ["127.0.0.1:9", "[::1]:9"] {
            let to: SocketAddr = to.parse().unwrap();
            let Ok(mtu) = path_mtu(to, Ipv4Addr::UNSPECIFIED) else {
                println!("skipped: no way to {to}");
                continue;
            };
            let link = Link::open(&Destination::Hosts(vec![to])).unwrap();
            assert_eq!(link.payload, Some(payload_within(mtu, to)));
            assert!(link.payload > Some(1_000));
        }
    }
}
