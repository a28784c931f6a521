//! Ethernet of a TAP device: IPv4 in both directions, and every address query (ARP, RFC 826) is answered with
//! our address.

use std::net::Ipv4Addr;

/// An Ethernet address.
type Mac = [u8; 6];

/// Our address, locally administered.
const OURS: Mac = [0x02, b'L', b'C', 0, 0, 1];
const EVERYBODY: Mac = [0xff; 6];
/// Bytes of an Ethernet header.
pub const HEADER: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
/// Ethernet, IPv4, their lengths, request.
const REQUEST: [u8; 8] = [0, 1, 0x08, 0, 6, 4, 0, 1];
const REPLY: [u8; 8] = [0, 1, 0x08, 0, 6, 4, 0, 2];

/// The other side of the Ethernet that a TAP device is.
#[derive(Debug)]
pub struct Ethernet {
    /// The address of the host, which is not ours.
    host: Ipv4Addr,
    mac: Mac,
}

/// What to do with a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// It carries an IP packet, which starts after [`HEADER`].
    Packet,
    /// Answer with this one.
    Answer([u8; 42]),
    /// Nothing for us.
    Other,
}

impl Ethernet {
    /// The Ethernet on which a host has this address.
    pub fn new(host: Ipv4Addr) -> Ethernet {
        Ethernet {
            host,
            mac: EVERYBODY,
        }
    }

    /// A frame of the host.
    pub fn receive(&mut self, frame: &[u8]) -> Frame {
        let Some(head) = frame.first_chunk::<HEADER>() else {
            return Frame::Other;
        };
        self.mac.copy_from_slice(&head[6..12]);
        match [head[12], head[13]] {
            IPV4 if head[..6] == OURS => Frame::Packet,
            ARP => self.asked(frame).map_or(Frame::Other, Frame::Answer),
            _ => Frame::Other,
        }
    }

    fn asked(&self, frame: &[u8]) -> Option<[u8; 42]> {
        let arp = frame.get(HEADER..HEADER + 28)?;
        let (sender, target) = (arp.get(14..18)?, arp.get(24..28)?);
        // A host that queries its own address checks that it is unused (RFC 5227).
        if arp[..8] != REQUEST || target == self.host.octets() || sender == target {
            return None;
        }
        let mut answer = [0; 42];
        answer[..6].copy_from_slice(&self.mac);
        answer[6..12].copy_from_slice(&OURS);
        answer[12..14].copy_from_slice(&ARP);
        answer[14..22].copy_from_slice(&REPLY);
        answer[22..28].copy_from_slice(&OURS);
        answer[28..32].copy_from_slice(target);
        answer[32..38].copy_from_slice(&self.mac);
        answer[38..42].copy_from_slice(sender);
        Some(answer)
    }

    /// The header of a frame with an IP packet for the host.
    pub fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..6].copy_from_slice(&self.mac);
        header[6..12].copy_from_slice(&OURS);
        header[12..].copy_from_slice(&IPV4);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const MAC: Mac = [2, 1, 1, 1, 1, 1];

    fn asks(target: [u8; 4]) -> Vec<u8> {
        let arp = [&REQUEST[..], &MAC, &HOST.octets(), &[0; 6], &target].concat();
        [&EVERYBODY[..], &MAC, &ARP, &arp, &[0; 18]].concat()
    }

    #[test]
    fn all_addresses_but_its_own_are_here() {
        let mut ethernet = Ethernet::new(HOST);
        assert_eq!(ethernet.header()[..6], EVERYBODY);
        let Frame::Answer(answer) = ethernet.receive(&asks([10, 0, 0, 2])) else {
            panic!("no answer");
        };
        assert_eq!(answer[..6], MAC);
        assert_eq!(answer[20..22], [0, 2]);
        assert_eq!(
            (&answer[22..28], &answer[28..32]),
            (&OURS[..], &[10, 0, 0, 2][..])
        );
        assert_eq!(ethernet.receive(&asks(HOST.octets())), Frame::Other);
        assert_eq!(ethernet.header()[..6], MAC);
    }

    #[test]
    fn only_packets_for_us_are_taken() {
        let mut ethernet = Ethernet::new(HOST);
        let frame = |to: &[u8], kind: &[u8]| [to, &MAC, kind, &[0x45; 20]].concat();
        assert_eq!(ethernet.receive(&frame(&OURS, &IPV4)), Frame::Packet);
        assert_eq!(ethernet.receive(&frame(&EVERYBODY, &IPV4)), Frame::Other);
        assert_eq!(ethernet.receive(&frame(&OURS, &[0x86, 0xdd])), Frame::Other);
        for length in 0..60 {
            let short = &asks([10, 0, 0, 9])[..length];
            assert_eq!(
                ethernet.receive(short) == Frame::Other,
                length < 42,
                "{length}"
            );
        }
    }
}
