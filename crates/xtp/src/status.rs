use serde::{Deserialize, Serialize};

use super::{XtpError, XtpEvent, XtpFailure};

/// The status of a context, as reported to its user so far.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ContextStatus {
    /// The peer has answered.
    pub connected: bool,
    /// The peer writes no more.
    pub peer_closed: bool,
    /// How often it was asked whether everything sent so far is settled.
    pub asked: u64,
    /// The last of these questions that was answered.
    pub settled: u64,
    /// The first byte that the transmitter of a group lets us have.
    pub joined: Option<u64>,
    /// Receivers that have everything, and that are gone without.
    pub receivers: (u64, u64),
    /// The peer's user has taken everything before this byte.
    pub delivered: u64,
    /// Why it was never opened, where that was taken for granted.
    pub unopened: Option<XtpError>,
    /// Why data were refused that had been taken.
    pub refused: Option<XtpError>,
    /// Over; with the reason if it broke off.
    pub over: Option<Result<(), XtpFailure>>,
}

impl ContextStatus {
    /// Notes what happened to the context.
    pub fn note(&mut self, event: &XtpEvent) {
        match *event {
            XtpEvent::Connected(_) => self.connected = true,
            XtpEvent::Delivered(_, at) => self.delivered = at,
            XtpEvent::Settled(_) => self.settled = self.asked,
            XtpEvent::Joined(_, first) => self.joined = Some(first),
            XtpEvent::ReceiverDone(..) => self.receivers.0 += 1,
            XtpEvent::ReceiverLost(..) => self.receivers.1 += 1,
            XtpEvent::PeerClosed(_) => self.peer_closed = true,
            XtpEvent::Closed(_) => self.over = Some(Ok(())),
            XtpEvent::Failed(_, why) => self.over = Some(Err(why)),
            _ => {}
        }
    }
}
