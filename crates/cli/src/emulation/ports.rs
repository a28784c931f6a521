//! Where packets of real programs come in and go out.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use layercast_net::NetError;
use layercast_sim::internet::scenario::{Attached, Attachment};
use layercast_sim::internet::{Delivery, Network, NodeIndex};
use layercast_wire::{IpBody, Ipv4Packet};
use serde::Serialize;
use tun_rs::SyncDevice;

use super::device::{self, Namespaces, Wanted};
use super::path::Path;
use super::tap::{Ethernet, Frame, HEADER};
use crate::failure::Failure;

/// Packets taken from a device or socket before the others have their turn.
const BURST: usize = 32;

/// All of them.
pub struct Ports {
    ports: Vec<Port>,
    buffer: Vec<u8>,
    frame: Vec<u8>,
    /// What we made for them; after the devices, which hold it in use.
    _namespaces: Namespaces,
}

struct Port {
    counts: PortCounts,
    kind: Kind,
}

enum Kind {
    Device(NodeIndex, SyncDevice, Option<Ethernet>),
    Path(Path),
}

/// Counters of an attachment.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct PortCounts {
    /// Name of the host in the scenario.
    pub node: String,
    /// The attachment, such as `tun lc0 in client`.
    pub what: String,
    /// Packets from programs.
    pub received: u64,
    /// Packets to programs.
    pub sent: u64,
    /// Packets that the system did not take, and packets of programs that exceeded the limit of separate queues.
    pub dropped: u64,
}

impl Ports {
    /// Opens what the attachments name; with `with_namespaces` makes the namespaces, too.
    pub fn open(
        attachments: &[Attachment],
        network: &Network,
        with_namespaces: bool,
    ) -> Result<Ports, Failure> {
        let mut namespaces = Namespaces::default();
        let mut ports = Vec::new();
        for (n, attachment) in attachments.iter().enumerate() {
            let node = &network.nodes[attachment.node.0 as usize];
            let (what, kind) = match &attachment.to {
                Attached::Device {
                    name,
                    namespace,
                    is_tap,
                } => {
                    let wanted = Wanted {
                        name,
                        is_tap: *is_tap,
                        address: node.address,
                        mtu: attachment.mtu,
                    };
                    let (device, place) = match namespace {
                        Some(namespace) if with_namespaces => {
                            let device = namespaces.device(wanted, namespace)?;
                            (device, format!(" in {namespace}"))
                        }
                        _ => (device::attach(wanted)?, String::new()),
                    };
                    let ethernet = is_tap.then(|| Ethernet::new(node.address));
                    let mode = if *is_tap { "tap" } else { "tun" };
                    (
                        format!("{mode} {name}{place}"),
                        Kind::Device(attachment.node, device, ethernet),
                    )
                }
                Attached::Path {
                    listen,
                    to,
                    forward,
                } => {
                    let address = |node: NodeIndex| network.nodes[node.0 as usize].address;
                    let ends = [attachment.node, *to].map(|end| (end, address(end)));
                    let opened = Path::open(n, *listen, *forward, ends);
                    let opened = opened.and_then(|path| Ok((path.listens()?, path)));
                    let (listen, path) = opened.map_err(|error| {
                        Failure::net(NetError::bind(*listen, error)).hint(
                            "the scenario names it: give `listen` of this attachment another port",
                        )
                    })?;
                    (format!("udp {listen} to {forward}"), Kind::Path(path))
                }
            };
            let counts = PortCounts {
                node: node.name.clone(),
                what,
                ..PortCounts::default()
            };
            ports.push(Port { counts, kind });
        }
        Ok(Ports {
            ports,
            buffer: vec![0; HEADER + 65_536],
            frame: Vec::new(),
            _namespaces: namespaces,
        })
    }

    /// What they wait on.
    pub fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().flat_map(|port| {
            let (device, path) = match &port.kind {
                Kind::Device(_, device, _) => (Some(device.as_fd()), None),
                Kind::Path(path) => (None, Some(path)),
            };
            let sockets = path.into_iter().flat_map(Path::sockets);
            device.into_iter().chain(sockets.map(AsFd::as_fd))
        })
    }

    /// Takes what came, and gives it to `inject`.
    pub fn receive(&mut self, inject: &mut impl FnMut(NodeIndex, Bytes)) -> Result<(), Failure> {
        for port in &mut self.ports {
            let Port { counts, kind } = port;
            match kind {
                Kind::Device(node, device, ethernet) => {
                    for _ in 0..BURST {
                        let len = match device.recv(&mut self.buffer) {
                            Ok(len) => len,
                            Err(error) if passes(&error) => break,
                            Err(error) => {
                                return Err(Failure::new(format!("{}: {error}", counts.what)));
                            }
                        };
                        let data = &self.buffer[..len];
                        let packet = match ethernet.as_mut().map(|it| it.receive(data)) {
                            None => data,
                            Some(Frame::Packet) => &data[HEADER..],
                            Some(Frame::Answer(answer)) => {
                                let _ = device.send(&answer);
                                continue;
                            }
                            Some(Frame::Other) => continue,
                        };
                        counts.received += 1;
                        inject(*node, Bytes::copy_from_slice(packet));
                    }
                }
                Kind::Path(path) => {
                    let mut n = 0;
                    while n < path.sockets().count() {
                        for _ in 0..BURST {
                            match path.receive(n, &mut self.buffer) {
                                Ok(Some((node, packet))) => {
                                    counts.received += 1;
                                    inject(node, packet);
                                }
                                Ok(None) => counts.dropped += 1,
                                Err(error) if passes(&error) => break,
                                Err(error) => {
                                    return Err(Failure::new(format!("{}: {error}", counts.what)));
                                }
                            }
                        }
                        n += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives a packet to the programs of its host.
    pub fn send(&mut self, delivery: &Delivery) {
        let packet = &delivery.packet;
        let to_device = self.ports.iter_mut().find_map(|port| match &port.kind {
            Kind::Device(node, device, ethernet) if *node == delivery.node => {
                Some((&mut port.counts, device, ethernet))
            }
            _ => None,
        });
        if let Some((counts, device, ethernet)) = to_device {
            self.frame.clear();
            if let Some(ethernet) = ethernet {
                self.frame.extend_from_slice(&ethernet.header());
            }
            let encoded = packet.encode_into(&mut self.frame).is_ok();
            match encoded && device.send(&self.frame).is_ok() {
                true => counts.sent += 1,
                false => counts.dropped += 1,
            }
            return;
        }
        // Programs with sockets get no ICMP errors of nodes.
        let Some(IpBody::Udp(datagram)) = whole(packet) else {
            return;
        };
        for port in &mut self.ports {
            let Kind::Path(path) = &port.kind else {
                continue;
            };
            match path.send(delivery.node, packet.tos, &datagram) {
                None => continue,
                Some(Ok(_)) => port.counts.sent += 1,
                Some(Err(_)) => port.counts.dropped += 1,
            }
            return;
        }
    }

    /// What each attachment did.
    pub fn counts(&self) -> Vec<PortCounts> {
        self.ports.iter().map(|port| port.counts.clone()).collect()
    }
}

/// What a packet carries, read from its bytes.
fn whole(packet: &Ipv4Packet) -> Option<IpBody> {
    let mut bytes = Vec::new();
    packet.encode_into(&mut bytes).ok()?;
    Some(Ipv4Packet::decode(bytes.into()).ok()?.body)
}

/// Errors that are no reason to stop: no host, no listener, a device is down.
fn passes(error: &io::Error) -> bool {
    use ErrorKind::*;
    matches!(
        error.kind(),
        WouldBlock
            | Interrupted
            | ConnectionRefused
            | HostUnreachable
            | NetworkUnreachable
            | NetworkDown
    )
}
