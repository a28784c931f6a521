//! A UDP socket whose datagrams have their DSCP and ECN field.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};

/// A UDP socket that never waits, and hands out and takes the octet of DSCP and ECN of each datagram (RFC 2474, RFC 3168).
#[derive(Debug)]
pub struct ClassedUdp {
    socket: UdpSocket,
    control: Vec<u8>,
}

impl ClassedUdp {
    /// Binds to an address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bind(local: SocketAddr) -> io::Result<ClassedUdp> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        // Where the system hands out no octet, datagrams are best effort and not ECN-capable.
        let _ = setsockopt(&socket, sockopt::IpRecvTos, &true);
        if local.is_ipv6() {
            let _ = setsockopt(&socket, sockopt::Ipv6RecvTClass, &true);
        }
        Ok(ClassedUdp {
            socket,
            control: nix::cmsg_space!(u8, i32),
        })
    }

    /// Takes datagrams from this address alone, and sends to it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(to)
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next datagram: its length, its sender and its octet of DSCP and ECN.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) without one, and those of the system.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, u8)> {
        let mut parts = [IoSliceMut::new(buffer)];
        let (fd, control) = (self.socket.as_raw_fd(), Some(&mut self.control[..]));
        let message = recvmsg::<SockaddrStorage>(fd, &mut parts, control, MsgFlags::MSG_DONTWAIT)?;
        let octet = message.cmsgs()?.find_map(|it| match it {
            ControlMessageOwned::Ipv4Tos(octet) => Some(octet),
            ControlMessageOwned::Ipv6TClass(octet) => u8::try_from(octet).ok(),
            _ => None,
        });
        let from = message.address.as_ref().and_then(address);
        let from = from.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok((message.bytes, from, octet.unwrap_or_default()))
    }

    /// Sends a datagram with this octet of DSCP and ECN, to the address it is connected to if there is no other.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send(&self, to: Option<SocketAddr>, octet: u8, data: &[u8]) -> io::Result<usize> {
        let peer = match to {
            Some(to) => to,
            None => self.socket.peer_addr()?,
        };
        let wide = i32::from(octet);
        let class = match peer.ip().to_canonical().is_ipv4() {
            true => ControlMessage::Ipv4Tos(&octet),
            false => ControlMessage::Ipv6TClass(&wide),
        };
        let to = to.map(SockaddrStorage::from);
        let (fd, parts) = (self.socket.as_raw_fd(), [IoSlice::new(data)]);
        let sent = sendmsg(fd, &parts, &[class], MsgFlags::MSG_DONTWAIT, to.as_ref())?;
        Ok(sent)
    }
}

impl AsFd for ClassedUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An address as the standard library has it.
pub(crate) fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
        (Some(v4), _) => Some(SocketAddrV4::from(*v4).into()),
        (None, Some(v6)) => Some(SocketAddrV6::from(*v6).into()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_keep_their_octet_over_both_versions_of_ip() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let local: SocketAddr = local.parse().unwrap();
            let (here, Ok(mut there)) = (ClassedUdp::bind(local), ClassedUdp::bind(local)) else {
                assert!(
                    local.is_ipv6(),
                    "only a host without IPv6 has no such address"
                );
                continue;
            };
            let mut here = here.unwrap();
            let mut buffer = [0; 16];
            let empty = here.receive(&mut buffer).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
            let to = there.local_addr().unwrap();
            // EF with ECT(1); best effort; a CE mark alone.
            for octet in [0xb9, 0, 3] {
                here.send(Some(to), octet, b"there").unwrap();
                let (length, from, got) = there.receive(&mut buffer).unwrap();
                assert_eq!((&buffer[..length], got), (&b"there"[..], octet));
                assert_eq!(from, here.local_addr().unwrap());
            }
            there.connect(here.local_addr().unwrap()).unwrap();
            there.send(None, 0x28, b"back").unwrap();
            assert_eq!(here.receive(&mut buffer).unwrap().2, 0x28);
        }
    }
}
