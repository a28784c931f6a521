//! PDU formats of Layercast: typed values that know their encoded length, encode themselves and
//! decode themselves.
//!
//! Every decoder is total: any byte string gives a value or a typed error, and a value that came
//! out of a decoder encodes to the bytes it came from (of IP, TCP, UDP and XTP: to the same value,
//! since what a host must ignore is not kept).
//!
//! ```
//! use bytes::Bytes;
//! use layercast_wire::IcmpMessage;
//!
//! let echo = IcmpMessage { kind: IcmpMessage::ECHO, code: 0, rest: [0, 1, 0, 7], data: Bytes::from_static(b"ping") };
//! let mut octets = Vec::new();
//! echo.encode_into(&mut octets);
//! assert_eq!(IcmpMessage::decode(octets.clone().into()), Ok(echo));
//! octets[8] ^= 1;
//! assert!(IcmpMessage::decode(octets.into()).is_err());
//! ```

mod aal5;
mod adapter;
mod assembly;
mod atm;
mod bounds;
mod checksum;
mod clock;
mod direction;
mod end_to_end;
mod epoch;
mod frame_crc;
mod icmp;
mod ip;
mod link;
mod mets;
pub mod multicast;
mod node_report;
mod one_cell;
mod parity;
mod passing;
mod payload;
mod pcapng;
mod policer;
mod secret;
mod signal;
mod signal_reader;
mod tcp;
mod tcp_options;
mod udp;
mod xtp;

/// What a refused join tells.
pub use layercast_core::{MeasuredLink, Refusal, Resource};

pub use aal5::{
    Frame, MAX_CELL_PAYLOAD, Mark, Reassembler, ReassemblyError, SegmentError, Segmenter, packet_of,
};
pub use adapter::{ADAPTER_LEN, AdapterError, AdapterKind, AdapterMsg};
pub use assembly::{Assembler, WholeFrame};
pub use atm::{ADAPTER_VCI, Cell, CellError, Pti};
pub use bounds::Bounds;
pub use clock::{ClockHop, ClockReading, ClockReport, SourceClockReport};
pub use direction::changes_direction;
pub use end_to_end::{Control, Downward, Identity, MAX_APP, MAX_PROOF, Opaque, Upward};
pub use epoch::Epoch;
pub use icmp::{ICMP_HEADER, IcmpMessage, PROTOCOL_ICMP};
pub use ip::{IPV4_HEADER, IpBody, IpError, Ipv4Packet};
pub use link::{
    Carriage, DATAGRAM_CELLS, DATAGRAM_PAYLOAD, DecodeError, LinkPdu, UDP_IP_HEADER,
    decode_datagram,
};
pub use mets::{
    Flags, FrameType, METS_HEADER, METS_VERSION, MetsError, MetsHeader, MetsPacket, Sound, Waited,
};
pub use node_report::{
    ChannelStats, NodeReport, PartKind, PartReport, RejectedPdus, RejectedSignals, SwitchReport,
    TimerReport, UdpStats,
};
pub use one_cell::{ONE_CELL, OneCell};
pub use parity::{BasePackets, BaseParities, ParityError, ParityTable, Run};
pub use passing::Passing;
pub use payload::Payload;
pub use pcapng::{Interface, PcapNg};
pub use policer::{ASKED, POLICER_HEADER, PolicerMsg, PolicerMsgError};
pub use secret::Secret;
pub use signal::{
    Agreed, EndToEndMs, FlowEnd, FlowInfo, Limit, LinkReport, MAX_LINE, MAX_NAME, MAX_TEXT,
    MAX_WAY, Member, MemberReport, MemberStats, PathReport, Signal, SignalError, Silence, Via,
};
pub use signal_reader::SignalReader;
pub use tcp::{PROTOCOL_TCP, TCP_HEADER, TcpFlags, TcpSegment};
pub use tcp_options::{MAX_SACK, SackBlocks, TcpOptions, Timestamps};
pub use udp::{PROTOCOL_UDP, UDP_HEADER, UdpDatagram};
pub use xtp::{
    PROTOCOL_XTP, XTP_HEADER, XtpAddress, XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpError,
    XtpKey, XtpOptions, XtpPacket, XtpService, XtpTraffic, XtpTrafficSpec,
};
