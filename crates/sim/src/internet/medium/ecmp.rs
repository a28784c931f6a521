//! Equal-cost multipath: packets of a flow take one of several equally short ways, which each router chooses by the hash of
//! their five-tuple and a salt of its own (RFC 2992; without the salt all routers choose alike, and ways stay unused).

use core::net::Ipv4Addr;

use layercast_core::{Stream, mix};
use layercast_wire::{PROTOCOL_TCP, PROTOCOL_UDP};
use rand_core::RngCore;

/// What tells flows between two hosts apart: the protocol, and the ports if it has any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Conversation {
    pub protocol: u8,
    pub ports: (u16, u16),
}

impl Conversation {
    /// Of a connection of TCP.
    pub const fn tcp(ports: (u16, u16)) -> Conversation {
        let protocol = PROTOCOL_TCP;
        Conversation { protocol, ports }
    }

    /// Of datagrams of UDP.
    pub const fn udp(ports: (u16, u16)) -> Conversation {
        let protocol = PROTOCOL_UDP;
        Conversation { protocol, ports }
    }

    /// The other direction of the same.
    pub fn back(self) -> Conversation {
        let (from, to) = self.ports;
        Conversation {
            ports: (to, from),
            ..self
        }
    }

    /// The hash of the five-tuple.
    #[inline]
    pub fn mark(self, src: Ipv4Addr, dst: Ipv4Addr) -> FlowMark {
        let addresses = u64::from(u32::from(src)) << 32 | u64::from(u32::from(dst));
        let (from, to) = (u64::from(self.ports.0), u64::from(self.ports.1));
        let rest = u64::from(self.protocol) << 32 | from << 16 | to;
        FlowMark((mix(mix(addresses) ^ rest) >> 32) as u32)
    }
}

/// What routers know the flow of a packet by: the hash of its five-tuple.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct FlowMark(pub u32);

impl FlowMark {
    /// Which of `ways` equally good ones the flow takes at a router with this salt.
    #[inline]
    pub fn choose(self, salt: u64, ways: usize) -> usize {
        let hash = mix(salt ^ u64::from(self.0)) >> 32;
        // Multiply-shift: uniform for every number of ways (Lemire 2019).
        ((hash * ways as u64) >> 32) as usize
    }
}

/// The salt of a router.
pub(crate) fn salt(seed: u64, router: &str) -> u64 {
    Stream::new(seed, &format!("ecmp/{router}")).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_choose_independently_of_each_other() {
        // Of flows that one router sends one way, the next sends as many each of its ways: chi-square of 4 times 4 cells.
        let salts = ["pod1-edge1", "pod1-agg1"].map(|name| salt(1, name));
        let mut counts = [[0_u32; 4]; 4];
        for n in 0..16_000_u32 {
            let ports = (49_152 + (n % 16) as u16, 5_001);
            let [src, dst] = [n / 16, 7 + n / 16].map(|host| (0x0A00_0001 + host).into());
            let mark = Conversation::tcp(ports).mark(src, dst);
            let [first, second] = salts.map(|salt| mark.choose(salt, 4));
            counts[first][second] += 1;
        }
        let square = |&count: &u32| (f64::from(count) - 1_000.0).powi(2) / 1_000.0;
        let chi: f64 = counts.iter().flatten().map(square).sum();
        // 99 % of 15 degrees of freedom.
        assert!(chi < 30.58, "{chi} {counts:?}");
    }

    #[test]
    fn directions_and_ports_are_other_flows() {
        let [a, b]: [Ipv4Addr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let one = Conversation::tcp((49_152, 5_001));
        let marks = [
            one.mark(a, b),
            one.back().mark(b, a),
            Conversation::tcp((49_153, 5_001)).mark(a, b),
            Conversation::udp((49_152, 5_001)).mark(a, b),
        ];
        for (n, mark) in marks.iter().enumerate() {
            assert!(!marks[..n].contains(mark), "{marks:?}");
        }
        assert_eq!(one.mark(a, b), one.mark(a, b));
    }
}
