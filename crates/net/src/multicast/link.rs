use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use layercast_multicast::{Delivery, Outcome, To};
use layercast_wire::multicast::{Body, MemberId, Packet};

use super::peers::Peers;
use super::send::Destination;
use crate::error::NetError;
use crate::timer::Timer;
use crate::udp::Udp;

/// The socket of a sender, the same for all its files.
pub struct Link {
    pub udp: Udp,
    pub timer: Timer,
    /// The multicast address, or every address that is to be sent to.
    pub all: Arc<[SocketAddr]>,
    pub multicast: bool,
}

impl Link {
    /// A socket that can send there. Must be called within a tokio runtime.
    pub fn open(to: &Destination) -> Result<Link, NetError> {
        let (all, multicast): (Arc<[SocketAddr]>, bool) = match to {
            Destination::Group { group, .. } => ([SocketAddr::from(*group)].into(), true),
            Destination::Hosts(hosts) => (hosts.clone().into(), false),
        };
        let any = match all.iter().any(SocketAddr::is_ipv6) {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(any, 0);
        let udp = Udp::bind(local).map_err(|source| NetError::bind(local, source))?;
        if let Destination::Group {
            group,
            interface,
            hops,
        } = to
        {
            let group = SocketAddr::from(*group);
            udp.send_to_groups(*interface, *hops)
                .map_err(|source| NetError::Group { group, source })?;
        }
        let timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        Ok(Link {
            udp,
            timer,
            all,
            multicast,
        })
    }
}

/// Where packets of the machine go.
///
/// By multicast everything for the group goes there. From host to host data and polls go to those only that still
/// lack something: who has everything, or never answered, costs nothing.
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
            side: Arc::clone(&link.all),
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

    /// Who lacks something has changed.
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
