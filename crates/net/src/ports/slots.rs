//! Which port a neighbour gets, and whose port makes room.

use std::net::SocketAddr;

use layercast_core::PortId;
use layercast_link::LinkConfig;
use layercast_mets::switch::PortConfig;
use layercast_wire::Carriage;

use super::{Port, Ports};
use crate::config::{GroupPort, Neighbour};
use crate::egress::Egress;
use crate::hello::Hello;

/// Most ports kept for neighbours that are gone and may come back.
pub(super) const MAX_GONE: usize = 64;

impl Ports {
    /// A new port for a neighbour; the configuration for the switch, and a port that had to go.
    pub(super) fn add(
        &mut self,
        hello: &Hello,
        name: &str,
        group: Option<&GroupPort>,
        addr: Option<SocketAddr>,
        is_elsewhere: bool,
    ) -> Result<(PortId, Option<PortConfig>, Option<PortId>), String> {
        let configured = match group {
            Some(group) => Some(group.link.clone()),
            None => self.named.get(name).cloned(),
        };
        let is_configured = configured.is_some();
        let mut link = configured.unwrap_or_else(|| Neighbour {
            port: PortConfig {
                carriage: hello.carriage,
                ..self.default.clone()
            },
            link: LinkConfig::default(),
        });
        link.port.name = name.to_owned();
        link.port.estimated |= self.estimate_elsewhere
            && is_elsewhere
            && !is_configured
            && link.port.rate.is_none()
            && link.port.carriage == Carriage::Datagrams
            && hello.repair.is_some();
        let (id, removed) = self.free_slot()?;
        let to = group.map_or(addr, |group| Some(SocketAddr::V4(group.group)));
        let link_name = format!("{}-{name}", self.own_name);
        self.slots[usize::from(id.0)] = Some(Port {
            name: name.to_owned(),
            carriage: link.port.carriage,
            egress: Egress::new(to, &link.port, link.link, self.seed, &link_name),
            peers: Vec::new(),
            down_since: None,
            configured: is_configured,
            estimated: link.port.estimated,
            group: group.is_some(),
            crowded_out: 0,
        });
        self.by_name.insert(name.to_owned(), id);
        Ok((id, Some(link.port), removed))
    }

    /// A slot for a new port, if need be that of the neighbour that has been gone longest.
    fn free_slot(&mut self) -> Result<(PortId, Option<PortId>), String> {
        if let Some(free) = self.slots.iter().position(Option::is_none) {
            return Ok((PortId(free as u16), None));
        }
        if self.slots.len() < self.most {
            self.slots.push(None);
            return Ok((PortId((self.slots.len() - 1) as u16), None));
        }
        let oldest = self.gone().min();
        let (_, oldest) = oldest.ok_or_else(|| format!("all {} ports are taken", self.most))?;
        self.remove(oldest);
        Ok((oldest, Some(oldest)))
    }

    /// The ports of neighbours that are gone and may be forgotten, with their place in the order in
    /// which they went.
    fn gone(&self) -> impl Iterator<Item = (u64, PortId)> {
        let gone = |port: &Port| port.down_since.filter(|_| !port.configured);
        self.iter()
            .filter_map(move |(id, port)| Some((gone(port)?, id)))
    }

    /// Gives up the port that has been down for longest, if too many are.
    pub(super) fn forget(&mut self) -> Option<PortId> {
        if self.gone().count() <= MAX_GONE {
            return None;
        }
        let (_, oldest) = self.gone().min()?;
        self.remove(oldest);
        Some(oldest)
    }

    pub(super) fn remove(&mut self, id: PortId) {
        if let Some(port) = self.slots[usize::from(id.0)].take() {
            self.by_name.remove(&port.name);
            self.sources.remove_port(id);
        }
    }
}
