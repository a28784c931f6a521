//! Reliable multicast: the packets of the one engine (`layercast-multicast`) and their bytes.
//!
//! [`Packet`] is the superset that machines speak. Its own wire form has a version, a session id, a CRC-32 and
//! bounded lists:
//!
//! ```text
//!  0        1        2                 4                                   8
//! | version | kind   | flags (u16)     | CRC-32 of all with this field 0   | session (u64) | fields of the kind
//! ```

mod answer;
mod datagram;
mod form;
pub mod frm;
mod lists;
pub mod manifest;
mod packet;
mod parse;
pub mod rmtp;
#[cfg(test)]
mod tests;

pub use answer::{Accept, Count, Report, State, Tally};
pub use datagram::{
    Datagram, PATH_LEN, PathBody, PathCheck, SEALED_OVERHEAD, SealedBy, SealedHead,
};
pub use form::{MAX_LIST, MAX_NAME, PACKET_HEADER, PACKET_VERSION, PacketError};
pub use lists::{Needs, Spans};
pub use packet::{
    Ask, Body, Content, Data, DataFlags, Eject, MemberId, Object, Open, Packet, Poll, Reason,
    Symbol, Terms,
};
