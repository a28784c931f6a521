//! RMTP of NTT and IBM (specs/rmtp-large-scale.md 2.1): the packets of 1996 and of the two Internet-Drafts.
//!
//! All numbers are big-endian. Every packet begins with its type, its whole length in octets and, from V1 on,
//! the connection it belongs to; what follows is that of its kind, here as V2 has it:
//!
//! ```text
//! | type (u16) | length (u16) | connection (u16) |                                                        octets
//!  1 DT     seq (u16) flags (u8) round (u8) [part (u16)] data                                       10 + [2] + data
//!  2 ACK    round (u8)                                                                                            7
//!  3 NACK   round (u8) reserved (u8) list                                                             8 + 2 symbols
//!  4 BUSY                                                                                                         6
//!  5 RRDY   list                                                                                      6 + 2 symbols
//!  6 ABORT                                                                                                        6
//!  7 POLL                                                                                                         6
//!  8 CONN   version (u8) reserved (u8) size (u32) blocks (u16) block size (u16) options                16 + options
//!  9 CACK   response (u16) options                                                                      8 + options
//! 10 REL                                                                                                          6
//! 11 RACK                                                                                                         6
//! 12 FREPO  start (u16) stop (u16) received (u32)                                                                14
//! 14 SUSP                                                                                                         6
//! ```
//!
//! A list has a symbol (u16) for a number, and three for a range: first, 0xFFFF, last. Nothing is
//! authenticated: any host that can send to the group can end a session. Use these forms in simulations and in
//! trusted networks.
//!
//! What the sources leave open and we decided: the packets of 1996 are those of V1 without the connection, the
//! NACK with a count of its symbols, which makes its header the 8 octets that the paper prints; the length of
//! an option is that of its value; bit 0 of the reserved octet of a NACK says that another NACK of the same
//! round follows.

mod body;
mod form;
mod link;
mod list;
mod options;
mod packet;
mod parse;

pub use body::{RmtpBody, RmtpConnect, RmtpData, RmtpFlags};
pub use form::RmtpForm;
pub use link::{RmtpLink, RmtpLinkError};
pub use list::RmtpList;
pub use options::RmtpOption;
pub use packet::{RmtpError, RmtpPacket};
