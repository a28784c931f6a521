use layercast_core::PortId;

use crate::Vcid;
use crate::signal::vcids::Vcids;
use crate::signal::{ControllerConfig, GoBackN};

/// A link to a neighbour.
#[derive(Debug)]
pub(super) struct Port {
    pub id: PortId,
    pub channel: GoBackN,
    /// Numbers of outgoing circuits.
    pub vcids: Vcids,
    /// Whether an incoming circuit has this number.
    incoming: Vec<bool>,
}

impl Port {
    /// Whether an incoming circuit has this number.
    pub fn comes_in(&self, vc: Vcid) -> bool {
        let used = self.incoming.get(usize::from(vc.0));
        used.copied().unwrap_or(false)
    }

    /// Marks a number of incoming circuits as used or unused.
    pub fn set_incoming(&mut self, vc: Vcid, used: bool) {
        let place = usize::from(vc.0);
        if self.incoming.len() <= place {
            self.incoming.resize(place + 1, false);
        }
        self.incoming[place] = used;
    }
}

/// All links, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Ports(Vec<Port>);

impl Ports {
    /// Adds a link; an existing id is unchanged.
    pub fn add(&mut self, id: PortId, config: &ControllerConfig) {
        if let Err(place) = self.place(id) {
            let port = Port {
                id,
                channel: GoBackN::new(config.channel),
                vcids: Vcids::new(config.max_vcs, config.vcid_rest),
                incoming: Vec::new(),
            };
            self.0.insert(place, port);
        }
    }

    /// Most links have ids from 0 up and are found at that index.
    #[inline]
    fn place(&self, id: PortId) -> Result<usize, usize> {
        let place = usize::from(id.0);
        match self.0.get(place) {
            Some(port) if port.id == id => Ok(place),
            _ => self.0.binary_search_by_key(&id, |port| port.id),
        }
    }

    #[inline]
    pub fn get(&self, id: PortId) -> Option<&Port> {
        self.place(id).ok().map(|place| &self.0[place])
    }

    #[inline]
    pub fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        self.place(id).ok().map(|place| &mut self.0[place])
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.0.iter()
    }

    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.0.iter_mut()
    }
}
