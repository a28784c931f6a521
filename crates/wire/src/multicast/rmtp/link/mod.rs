//! The engine's packets as RMTP, and back.

mod connect;
mod heard;
mod said;

use bytes::Bytes;
use thiserror::Error;

use super::{RmtpConnect, RmtpError, RmtpFlags, RmtpForm, RmtpPacket};
use crate::multicast::{DataFlags, MemberId, Packet};

/// One end of a session of the engine that speaks RMTP: turns the engine's packets into RMTP's and back.
///
/// RMTP says less than the engine: answers carry no name (the driver maps addresses to members), no time stamp
/// and no receipt; a poll has no number. Fields that RMTP lacks get its fixed behaviour: every member answers
/// immediately, in ranges.
#[derive(Clone, Debug)]
pub struct RmtpLink {
    form: RmtpForm,
    /// The server's session; a receiver's is the number of its connection.
    server: Option<u64>,
    /// Octets of the object and of a block, once the connection is known.
    sizes: Option<RmtpConnect>,
    /// Pass of the data that went or came last.
    round: u8,
    /// Pass in which a POLL went out last, and whether it was for those only that were postponed.
    polled: Option<(u8, bool)>,
    /// Pass of the measurement that runs.
    counting: u8,
}

/// Why a packet cannot be turned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RmtpLinkError {
    /// Not of this form.
    #[error(transparent)]
    Form(#[from] RmtpError),
    /// RMTP has no way to say it.
    #[error("RMTP cannot say {0}")]
    Unsaid(&'static str),
    /// Of another connection, of none that is known, or from the wrong side.
    #[error("an RMTP packet from an unknown member")]
    Stranger,
    /// Something beyond the end of the object, or a block of another size.
    #[error("an RMTP packet beyond its object")]
    Beyond,
}

impl RmtpLink {
    /// The end of the server, for a session of the engine: its lowest 16 bits are the connection.
    pub fn server(form: RmtpForm, session: u64) -> RmtpLink {
        RmtpLink {
            server: Some(session),
            ..RmtpLink::receiver(form)
        }
    }

    /// The end of a receiver, for one session.
    pub fn receiver(form: RmtpForm) -> RmtpLink {
        RmtpLink {
            form,
            server: None,
            sizes: None,
            round: 0,
            polled: None,
            counting: 0,
        }
    }

    /// Appends an engine's packet as RMTP.
    ///
    /// Errors: RMTP, or this form of it, cannot say it; nothing is appended.
    pub fn encode(&mut self, packet: &Packet, out: &mut Vec<u8>) -> Result<(), RmtpLinkError> {
        let body = self.body_of(packet)?;
        let connection = match self.form {
            RmtpForm::Paper96 => 0,
            _ => packet.session as u16,
        };
        let packet = RmtpPacket { connection, body };
        Ok(packet.encode_into(self.form, out)?)
    }

    /// The engine's packets that a datagram contains; several if a list is longer than the engine allows.
    /// `member` is the member that sent it; at a receiver, the receiver itself.
    pub fn decode(&mut self, member: MemberId, bytes: Bytes) -> Result<Vec<Packet>, RmtpLinkError> {
        let packet = RmtpPacket::decode(self.form, bytes)?;
        let session = match (self.server, self.form) {
            (Some(session), RmtpForm::Paper96) => session,
            (Some(session), _) if session as u16 != packet.connection => {
                return Err(RmtpLinkError::Stranger);
            }
            (Some(session), _) => session,
            (None, _) => packet.connection.into(),
        };
        let bodies = match self.server {
            Some(_) => self.heard_by_server(member, packet.body)?,
            None => vec![self.heard_by_receiver(member, packet.body)?],
        };
        let packets = bodies.into_iter().map(|body| Packet { session, body });
        Ok(packets.collect())
    }
}

/// Flags of the engine and of RMTP.
const FLAGS: [(DataFlags, RmtpFlags); 4] = [
    (DataFlags::LAST, RmtpFlags::LAST),
    (DataFlags::SEPARATE, RmtpFlags::SEPARATE),
    (DataFlags::START, RmtpFlags::START),
    (DataFlags::STOP, RmtpFlags::STOP),
];
