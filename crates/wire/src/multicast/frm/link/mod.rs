//! The engine's packets as FRM, and back.

mod heard;
mod said;

use core::net::SocketAddr;

use bytes::Bytes;
use layercast_core::Serial;
use thiserror::Error;

use super::{FrmBody, FrmError, FrmFlags, FrmIntegrity, FrmPacket};
use crate::multicast::{DataFlags, Packet};

/// One end of a stream of the engine that speaks FRM: turns the engine's packets into FRM's and back.
///
/// FRM has 32 bits of a number; the rest follows from the highest that went or came.
#[derive(Clone, Debug)]
pub struct FrmLink {
    /// What INIT says beside what the engine knows: the sender has it.
    setup: Option<FrmSetup>,
    session: Option<u64>,
    /// Highest number that went or came.
    near: u64,
}

/// What INIT says of a sender beside what the engine knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrmSetup {
    /// Name of the sender, at most 255 octets.
    pub name: Bytes,
    /// Where it takes replies.
    pub address: SocketAddr,
    /// Contingency factor of its poll timer in 1/256; more than 256.
    pub contingency: u16,
    /// How long it collects replies, milliseconds.
    pub wait_ms: u32,
    /// The members that must be present.
    pub integrity: FrmIntegrity,
}

/// Why a packet cannot be turned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrmLinkError {
    /// Not of this form.
    #[error(transparent)]
    Form(#[from] FrmError),
    /// FRM has no way to say it.
    #[error("FRM cannot say {0}")]
    Unsaid(&'static str),
    /// Of another session, of none that is known, or from the wrong side.
    #[error("an FRM packet from an unknown member")]
    Stranger,
    /// A number before the first packet.
    #[error("an FRM packet before the first")]
    Before,
}

impl FrmLink {
    /// The end of the sender of `session`.
    pub fn sender(session: u64, setup: FrmSetup) -> FrmLink {
        FrmLink {
            setup: Some(setup),
            session: Some(session),
            near: 0,
        }
    }

    /// The end of a receiver, for the first session that it hears of.
    pub fn receiver() -> FrmLink {
        FrmLink {
            setup: None,
            session: None,
            near: 0,
        }
    }

    /// Appends an engine's packet as FRM.
    ///
    /// Errors: FRM cannot say it; nothing is appended.
    pub fn encode(&mut self, packet: &Packet, out: &mut Vec<u8>) -> Result<(), FrmLinkError> {
        let body = self.said(&packet.body)?;
        let session = packet.session;
        Ok(FrmPacket { session, body }.encode_into(out)?)
    }

    /// The engine's packet that a datagram says.
    pub fn decode(&mut self, bytes: Bytes) -> Result<Packet, FrmLinkError> {
        let FrmPacket { session, body } = FrmPacket::decode(bytes)?;
        let opens = self.session.is_none() && matches!(body, FrmBody::Init(_));
        if !opens && self.session != Some(session) || body.from_sender() == self.setup.is_some() {
            return Err(FrmLinkError::Stranger);
        }
        self.session = Some(session);
        let body = self.heard(body)?;
        Ok(Packet { session, body })
    }

    /// The number nearest to what went or came that ends so.
    fn number(&self, serial: Serial) -> Result<u64, FrmLinkError> {
        let ahead = serial.diff(Serial(self.near as u32));
        self.near
            .checked_add_signed(ahead.into())
            .ok_or(FrmLinkError::Before)
    }
}

/// Flags of the engine and of FRM.
const FLAGS: [(DataFlags, FrmFlags); 2] = [
    (DataFlags::LAST, FrmFlags::END),
    (DataFlags::AGAIN, FrmFlags::AGAIN),
];
