use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use layercast_core::Span;
use layercast_wire::XtpService;
use layercast_xtp::{SendOptions, XtpConfig, XtpSocket};
use tokio::time::timeout;

use super::association::XtpAssociation;
use super::call::XtpCallError;
use super::host::{XtpHost, XtpListener};
use super::node::XtpNode;
use crate::channel::{
    ASK_EVERY, BytesIn, BytesOut, DEAD_AFTER, LineReceiver, LineSender, SignalChannel,
};
use crate::error::CallError;

/// The port of XTP on which nodes take calls.
const PORT: u16 = 7_400;
/// Callers that wait to be taken.
const BACKLOG: usize = 64;
/// Answers that may fail to come: it is the time without any that makes a neighbour a dead one.
const RETRIES: u32 = 64;
/// A node that takes calls over something else is silent, too.
const NO_ANSWER: &str = "no answer within 3 s over XTP, which nodes with --control xtp speak";

/// A [`SignalChannel`] of one JSON object per line on a reliable stream of XTP over UDP (specs/xtp.md 2.6), in the
/// clear.
pub struct XtpChannel {
    association: XtpAssociation,
}

/// Where a node takes calls over XTP.
pub(crate) struct XtpDoor {
    listener: XtpListener,
}

/// One half of a channel. With both of them it says good-bye.
pub struct XtpHalf {
    association: Arc<XtpAssociation>,
}

impl XtpChannel {
    /// Calls `addr`, from the address `from` if there is a choice.
    ///
    /// # Errors
    /// There is no answer, or not in XTP.
    pub async fn connect(addr: SocketAddr, from: Option<IpAddr>) -> Result<XtpChannel, CallError> {
        let unreachable = |reason: &dyn ToString| CallError::Unreachable(reason.to_string());
        let from = from.unwrap_or(match addr {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
        let node = XtpNode::udp(SocketAddr::new(from, 0)).map_err(|error| unreachable(&error))?;
        // A socket for each call: it lives as long as the association does.
        let association = XtpHost::new(node)
            .register(XtpService::STREAM)
            .configure(watchful)
            .connect(addr, PORT)
            .map_err(|error| unreachable(&error))?;
        match timeout(DEAD_AFTER, association.connected()).await {
            Ok(Ok(())) => Ok(XtpChannel { association }),
            Ok(Err(error)) => Err(CallError::NoAnswer(error.to_string())),
            Err(_) => Err(CallError::NoAnswer(NO_ANSWER.to_owned())),
        }
    }
}

impl XtpDoor {
    /// Takes calls on the socket of `node`.
    ///
    /// # Errors
    /// The socket broke.
    pub async fn open(node: XtpNode) -> io::Result<XtpDoor> {
        let registered = XtpHost::new(node).register(XtpService::STREAM);
        let listener = registered.configure(watchful).bind(PORT).listen(BACKLOG);
        let listener = listener.await.map_err(io::Error::other)?;
        Ok(XtpDoor { listener })
    }

    /// The next caller, and where it calls from.
    ///
    /// # Errors
    /// The socket broke: there will be no further caller.
    pub async fn accept(&self) -> io::Result<(XtpChannel, SocketAddr)> {
        loop {
            let accepted = self.listener.accept().await;
            let association = accepted.map_err(io::Error::other)?;
            // A caller that is gone again has no address.
            if let Some(XtpSocket { net, .. }) = association.remote().await {
                return Ok((XtpChannel { association }, net));
            }
        }
    }
}

impl XtpChannel {
    /// Turns the caller away.
    pub(crate) fn refuse(self) {
        self.association.abort();
    }
}

impl SignalChannel for XtpChannel {
    type Receiver = LineReceiver<XtpHalf>;
    type Sender = LineSender<XtpHalf>;

    fn split(self) -> (Self::Receiver, Self::Sender) {
        let association = Arc::new(self.association);
        let half = |association| XtpHalf { association };
        let receiver = LineReceiver::new(half(Arc::clone(&association)));
        (receiver, LineSender::new(half(association)))
    }
}

impl BytesIn for XtpHalf {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.association.receive(buffer.len()).await {
                Ok(Some(chunk)) if chunk.gap => {
                    return Err(io::Error::other("sends what may get lost"));
                }
                // A tag alone says nothing here.
                Ok(Some(chunk)) if chunk.data.is_empty() => {}
                Ok(Some(chunk)) => return Ok(chunk.data.copy_to(buffer)),
                Ok(None) => return Ok(0),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

impl BytesOut for XtpHalf {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let data = Bytes::copy_from_slice(bytes);
        let sent = self.association.send(data, &SendOptions::default()).await;
        sent.map_err(broken)
    }

    async fn end(&mut self) {
        if self.association.close_write().is_ok() {
            // Until the neighbour has everything: with the socket goes what is owed.
            let _ = self.association.settled().await;
        }
    }
}

fn broken(error: XtpCallError) -> io::Error {
    match error {
        XtpCallError::Socket(kind) => kind.into(),
        error => io::Error::other(error),
    }
}

/// Probes a silent neighbour, and gives up without an answer.
fn watchful(config: &mut XtpConfig) {
    let span = |it: std::time::Duration| Span::from_ms(it.as_millis() as u64);
    config.keep_alive = span(ASK_EVERY);
    config.give_up = span(DEAD_AFTER);
    config.retries = RETRIES;
    // A hello makes a node send media to where it comes from.
    config.validate_peer = true;
}
