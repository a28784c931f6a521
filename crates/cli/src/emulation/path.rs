//! Datagrams of programs that cross the network between two hosts: in at a socket, out at another.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use layercast_net::ClassedUdp;
use layercast_sim::internet::NodeIndex;
use layercast_wire::{IpBody, Ipv4Packet, Payload, UdpDatagram};

/// Programs that a path keeps apart.
const CLIENTS: u16 = 256;
/// Ports of the first path; each has as many as clients.
const FIRST_PORT: u16 = 10_000;

/// A path.
#[derive(Debug)]
pub struct Path {
    /// The hosts at its ends, and their addresses.
    ends: [(NodeIndex, Ipv4Addr); 2],
    listen: ClassedUdp,
    forward: SocketAddr,
    first_port: u16,
    clients: Vec<Client>,
    known: BTreeMap<SocketAddr, u16>,
    next_id: u16,
}

/// A program that sends to the path, and the socket that the other side takes for it.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    socket: ClassedUdp,
}

impl Path {
    /// Opens the `n`-th path of a network.
    pub fn open(
        n: usize,
        listen: SocketAddr,
        forward: SocketAddr,
        ends: [(NodeIndex, Ipv4Addr); 2],
    ) -> io::Result<Path> {
        Ok(Path {
            ends,
            listen: ClassedUdp::bind(listen)?,
            forward,
            first_port: FIRST_PORT + n as u16 * CLIENTS,
            clients: Vec::new(),
            known: BTreeMap::new(),
            next_id: 0,
        })
    }

    /// Where programs send.
    pub fn listens(&self) -> io::Result<SocketAddr> {
        self.listen.local_addr()
    }

    /// Its sockets: that of the programs, then one for each of them.
    pub fn sockets(&self) -> impl Iterator<Item = &ClassedUdp> {
        let clients = self.clients.iter().map(|client| &client.socket);
        std::iter::once(&self.listen).chain(clients)
    }

    /// Takes a datagram from its `n`-th socket; gives it as a packet of a host.
    ///
    /// None if there are too many programs already, or it is larger than an IP packet.
    pub fn receive(
        &mut self,
        n: usize,
        buffer: &mut [u8],
    ) -> io::Result<Option<(NodeIndex, Bytes)>> {
        let (len, tos, client) = match n.checked_sub(1) {
            None => {
                let (len, from, tos) = self.listen.receive(buffer)?;
                (len, tos, self.client(from)?)
            }
            Some(client) => match self.clients.get_mut(client) {
                Some(it) => {
                    let (len, _, tos) = it.socket.receive(buffer)?;
                    (len, tos, Some(client as u16))
                }
                None => return Err(ErrorKind::WouldBlock.into()),
            },
        };
        let Some(client) = client else {
            return Ok(None);
        };
        let (from, to) = match n {
            0 => (0, 1),
            _ => (1, 0),
        };
        let ports = [self.first_port + client, self.forward.port()];
        let datagram = UdpDatagram {
            src_port: ports[from],
            dst_port: ports[to],
            checksum: true,
            payload: Payload::Bytes(Bytes::copy_from_slice(&buffer[..len])),
        };
        self.next_id = self.next_id.wrapping_add(1);
        let packet = Ipv4Packet {
            tos,
            id: self.next_id,
            dont_fragment: false,
            ..Ipv4Packet::new(self.ends[from].1, self.ends[to].1, IpBody::Udp(datagram))
        };
        let mut bytes = Vec::with_capacity(packet.encoded_len());
        let encoded = packet.encode_into(&mut bytes).is_ok();
        Ok(encoded.then(|| (self.ends[from].0, bytes.into())))
    }

    /// The number of a program; none if there are too many.
    fn client(&mut self, address: SocketAddr) -> io::Result<Option<u16>> {
        if let Some(&known) = self.known.get(&address) {
            return Ok(Some(known));
        }
        let number = self.clients.len() as u16;
        if number == CLIENTS {
            return Ok(None);
        }
        let any = match self.forward {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = ClassedUdp::bind((any, 0).into())?;
        socket.connect(self.forward)?;
        self.clients.push(Client { address, socket });
        self.known.insert(address, number);
        Ok(Some(number))
    }

    /// Sends what came to a host on to the program there, with this octet of DSCP and ECN, if it is of this path.
    pub fn send(
        &self,
        at: NodeIndex,
        tos: u8,
        datagram: &UdpDatagram,
    ) -> Option<io::Result<usize>> {
        let Payload::Bytes(data) = &datagram.payload else {
            return None;
        };
        let client = |port: u16| {
            self.clients
                .get(usize::from(port.checked_sub(self.first_port)?))
        };
        if at == self.ends[1].0 && datagram.dst_port == self.forward.port() {
            return Some(client(datagram.src_port)?.socket.send(None, tos, data));
        }
        if at == self.ends[0].0 && datagram.src_port == self.forward.port() {
            let client = client(datagram.dst_port)?;
            return Some(self.listen.send(Some(client.address), tos, data));
        }
        None
    }
}
