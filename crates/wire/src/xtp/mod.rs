//! XTP 4.0 (specs/xtp.md 2.1, 2.2): a header of 32 bytes, and what follows it for each kind of packet.

mod body;
mod codes;
mod options;
mod packet;
mod segments;

pub use body::{XtpBody, XtpControl};
pub use codes::{XtpDiagCode, XtpDiagValue, XtpService};
pub use options::{XtpKey, XtpOptions};
pub use packet::{PROTOCOL_XTP, XTP_HEADER, XtpError, XtpPacket};
pub use segments::{XtpAddress, XtpTraffic, XtpTrafficSpec};
