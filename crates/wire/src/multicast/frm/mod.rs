//! FRM, the fully reliable multicast of de Rezende, Mauthe, Fdida and Hutchison: its packets as bytes.
//!
//! The paper names the fields and no format (specs/fully-reliable-multicast.md 2.1): this one is ours. All numbers are
//! big-endian; numbers of data packets are the lower 32 bits of those inside.
//!
//! ```text
//! | version (u8) | kind (u8) | length (u16) | session (u64) |                                        octets
//! 1 INIT     stamp (u64) packet size (u16) in order (u8) least release (u64) contingency (u16)
//!            wait, spread, silence (u32 each) source, parities (u16 each)
//!            integrity (u8 all or any, u8 count, conditions)
//!            address (u8 family, 4 or 16 octets, u16 port) name (u8 length, octets)      59 to 326 + conditions
//! 2 reply    member (u64) incarnation (u32) answer (u8) buffer (u32) stamp (u64)                           37
//! 3 DATA     seq (u32) flags (u8) [header of the code, 8 octets] data                         17 + [8] + data
//! 4 CNTL     sync (u32) stamp (u64) lseq, sent, spread (u32 each) flags (u8) count (u16)
//!            ejected members (u64 each)                                                    39 + 8 members
//! 5 ECHO     member (u64) sync (u32) stamp (u64) rseq, dseq, buffers, rate (u32 each) loss (u16) count (u16)
//!            gaps (u32 from, u32 to, each)                                                   52 + 8 gaps
//! 6 LEAVE    member (u64) reason (u8)                                                                      21
//! 7 EJECT    member (u64) reason (u8) mindseq (u32)                                                        25
//! 8 RELEASE  reason (u8)                                                                                   13
//! ```
//!
//! Nothing is authenticated and nothing but UDP's checksum protects it: a form for simulations, and for networks that
//! are trusted.

mod body;
mod codec;
mod init;
mod link;
mod packet;

pub use body::{FrmBody, FrmControl, FrmData, FrmEcho, FrmFlags, FrmReply};
pub use init::{FrmCondition, FrmInit, FrmIntegrity};
pub use link::{FrmLink, FrmLinkError, FrmSetup};
pub use packet::{FRM_HEADER, FRM_VERSION, FrmError, FrmPacket};
