use std::fmt;

use serde::{Deserialize, Serialize};

/// What an association is for (specs/xtp.md 2.2); numbers without a name are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct XtpService(pub u8);

impl XtpService {
    /// Not said.
    pub const UNSPECIFIED: XtpService = XtpService(0);
    /// One packet, no answer.
    pub const DATAGRAM: XtpService = XtpService(1);
    /// One packet and its acknowledgement.
    pub const ACKED_DATAGRAM: XtpService = XtpService(2);
    /// A question, an answer and its acknowledgement.
    pub const TRANSACTION: XtpService = XtpService(3);
    /// A reliable stream between two.
    pub const STREAM: XtpService = XtpService(4);
    /// A multicast stream without acknowledgements.
    pub const MULTICAST: XtpService = XtpService(5);
    /// A reliable stream to many.
    pub const RELIABLE_MULTICAST: XtpService = XtpService(6);
}

/// What a DIAG packet tells (specs/xtp.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct XtpDiagCode(pub u32);

impl XtpDiagCode {
    /// Context refused.
    pub const REFUSED: XtpDiagCode = XtpDiagCode(1);
    /// Context abandoned.
    pub const ABANDONED: XtpDiagCode = XtpDiagCode(2);
    /// Invalid context.
    pub const INVALID_CONTEXT: XtpDiagCode = XtpDiagCode(3);
    /// Request refused.
    pub const REQUEST_REFUSED: XtpDiagCode = XtpDiagCode(4);
    /// Join refused.
    pub const JOIN_REFUSED: XtpDiagCode = XtpDiagCode(5);
    /// Protocol error.
    pub const PROTOCOL: XtpDiagCode = XtpDiagCode(6);
    /// Maximum packet size error.
    pub const PACKET_SIZE: XtpDiagCode = XtpDiagCode(7);
}

impl fmt::Display for XtpDiagCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "context refused",
            2 => "context abandoned",
            3 => "invalid context",
            4 => "request refused",
            5 => "join refused",
            6 => "protocol error",
            7 => "maximum packet size error",
            code => return write!(f, "diagnosis {code}"),
        })
    }
}

/// Why (specs/xtp.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct XtpDiagValue(pub u32);

impl XtpDiagValue {
    /// Not said.
    pub const UNSPECIFIED: XtpDiagValue = XtpDiagValue(0);
    /// No listener.
    pub const NO_LISTENER: XtpDiagValue = XtpDiagValue(1);
    /// Options refused.
    pub const OPTIONS: XtpDiagValue = XtpDiagValue(2);
    /// Address format not supported.
    pub const ADDRESS_FORMAT: XtpDiagValue = XtpDiagValue(3);
    /// Malformed address.
    pub const ADDRESS: XtpDiagValue = XtpDiagValue(4);
    /// Traffic format not supported.
    pub const TRAFFIC_FORMAT: XtpDiagValue = XtpDiagValue(5);
    /// Traffic specification refused.
    pub const TRAFFIC_REFUSED: XtpDiagValue = XtpDiagValue(6);
    /// Malformed traffic specification.
    pub const TRAFFIC: XtpDiagValue = XtpDiagValue(7);
    /// No provider for the service.
    pub const NO_PROVIDER: XtpDiagValue = XtpDiagValue(8);
    /// No resource.
    pub const NO_RESOURCE: XtpDiagValue = XtpDiagValue(9);
    /// Host going down.
    pub const GOING_DOWN: XtpDiagValue = XtpDiagValue(10);
    /// Invalid retransmission request.
    pub const RETRANSMISSION: XtpDiagValue = XtpDiagValue(11);
    /// Context in improper state.
    pub const STATE: XtpDiagValue = XtpDiagValue(12);
    /// Join request denied.
    pub const JOIN: XtpDiagValue = XtpDiagValue(13);
}

impl fmt::Display for XtpDiagValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "unspecified",
            1 => "no listener",
            2 => "options refused",
            3 => "address format not supported",
            4 => "malformed address",
            5 => "traffic format not supported",
            6 => "traffic specification refused",
            7 => "malformed traffic specification",
            8 => "no provider for the service",
            9 => "no resource",
            10 => "host going down",
            11 => "invalid retransmission request",
            12 => "context in improper state",
            13 => "join request denied",
            value => return write!(f, "reason {value}"),
        })
    }
}
