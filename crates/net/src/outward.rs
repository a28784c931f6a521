use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// An address under which others reach a listener on `ip`: if that is any, the one that leads to the rest of
/// the world, if there is one. Nothing is sent to find out.
pub fn outward(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    let somewhere = SocketAddr::from(([192, 0, 2, 1], 9));
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| {
            socket.connect(somewhere)?;
            socket.local_addr()
        })
        .map_or(Ipv4Addr::LOCALHOST.into(), |addr| addr.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_replaced_by_one_that_can_be_called() {
        let own: IpAddr = [192, 168, 7, 9].into();
        assert_eq!(outward(own), own);
        assert!(!outward(Ipv4Addr::UNSPECIFIED.into()).is_unspecified());
    }
}
