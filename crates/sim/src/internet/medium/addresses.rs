//! The addresses of groups.

use core::net::Ipv4Addr;

/// The groups of flows: 239.1.0.0 and what follows, one for each flow.
const FIRST_GROUP: u32 = 0xEF01_0000;

/// The address of the group of a flow.
pub(crate) fn group_address(flow: u32) -> Ipv4Addr {
    (FIRST_GROUP + flow).into()
}

/// The flow that has this address.
pub(crate) fn flow_of(address: Ipv4Addr) -> Option<u32> {
    let number = u32::from(address).checked_sub(FIRST_GROUP);
    number.filter(|_| address.is_multicast())
}
