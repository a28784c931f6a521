use std::net::SocketAddrV4;

use layercast_core::NodeId;
use layercast_protect::LinkKey;
use layercast_wire::{Carriage, Secret, Signal};

/// Version of the session protocol we speak.
pub const SESSION_VERSION: u16 = 3;

/// What a neighbour says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Its name.
    pub node: String,
    /// Its number.
    pub id: NodeId,
    /// Where it takes datagrams; 0: nowhere, it only asks questions.
    pub udp_port: u16,
    /// What it wants on the link.
    pub carriage: Carriage,
    /// Its clock.
    pub clock: String,
    /// What it seals its datagrams with, on a protected link.
    pub link_key: Option<LinkKey>,
    /// It repairs lost datagrams: the session of the counters of its datagrams.
    pub repair: Option<u16>,
    /// In an answer: the group to which it sends the media of the neighbour that called.
    pub group: Option<SocketAddrV4>,
    /// It reads the headers of a group with repair; in an answer, the datagrams of the link go to one, and this is their next
    /// counter.
    pub group_repair: Option<u32>,
    /// It measures the path to its neighbour by the reports of link repair: they have to be frequent.
    pub prompt: bool,
    /// It reads what the clocks of sources show.
    pub clocks: bool,
    /// It answers [`Signal::Ping`].
    pub pings: bool,
}

impl Hello {
    /// The hello as a signal.
    pub fn signal(&self) -> Signal {
        Signal::Hello {
            node: self.node.clone(),
            id: self.id,
            version: SESSION_VERSION,
            udp_port: self.udp_port,
            carriage: self.carriage,
            clock: self.clock.clone(),
            link_key: self.link_key.as_ref().map(|key| Secret(key.to_text())),
            repair: self.repair,
            group: self.group,
            group_repair: self.group_repair,
            prompt: self.prompt,
            clocks: self.clocks,
            pings: self.pings,
        }
    }

    /// The hello in the first signal of a neighbour, or why it is none.
    pub fn from_signal(signal: Signal) -> Result<Hello, String> {
        match signal {
            Signal::Hello {
                node,
                id,
                version: SESSION_VERSION,
                udp_port,
                carriage,
                clock,
                link_key,
                repair,
                group,
                group_repair,
                prompt,
                clocks,
                pings,
            } if !node.is_empty() => {
                let link_key = link_key.map(|key| key.0.parse()).transpose();
                Ok(Hello {
                    node,
                    id,
                    udp_port,
                    carriage,
                    clock,
                    link_key: link_key.map_err(|error| format!("hello with {error}"))?,
                    repair,
                    group,
                    group_repair,
                    prompt,
                    clocks,
                    pings,
                })
            }
            Signal::Hello { node, .. } if node.is_empty() => Err("hello without a name".into()),
            Signal::Hello { version, .. } => Err(format!(
                "session version {version}, we speak {SESSION_VERSION}"
            )),
            _ => Err("the first message is no hello".into()),
        }
    }
}
