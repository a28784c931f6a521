use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use layercast_core::{Media, Serial};
use layercast_fec::{SmpteConfig, SmpteSender, SmpteStream};
use layercast_media::{OutputForm, Undecodable, session_description};
use layercast_mets::{PlayedFrame, PlayedStream, StreamKind};
use layercast_wire::Payload;

use crate::error::NetError;
use crate::output::OutputStats;

/// Bytes of a datagram of a transport stream: seven packets, the common number.
const TS_DATAGRAM: usize = 7 * 188;
/// Datagrams sent in one burst: a large picture must not overrun the player's socket buffer.
const BURST: usize = 16;
/// Pause after each burst.
const BREATH: Duration = Duration::from_micros(500);

/// What the output thread is given.
pub(crate) enum Item {
    /// What the frames to come are.
    Flow(String, StreamKind),
    Frame(PlayedFrame),
    /// The flow is over: this was the number of its last frame.
    End(Serial),
}

/// Where bytes go.
pub(crate) enum Outlet {
    Stream(Box<dyn Write + Send>),
    Datagrams(DatagramOut),
}

/// A socket that a player listens to.
pub(crate) struct DatagramOut {
    socket: UdpSocket,
    to: SocketAddr,
    sdp: Option<PathBuf>,
    parities: Option<Box<Parities>>,
}

/// Parities of SMPTE 2022-1 for what a socket sends.
pub(crate) struct Parities {
    sender: SmpteSender,
    columns: SocketAddr,
    rows: SocketAddr,
}

/// Where parities of SMPTE 2022-1 go whose media go to `media`; `what` fails otherwise.
pub(crate) fn beside(
    media: SocketAddr,
    stream: SmpteStream,
    what: &'static str,
) -> Result<SocketAddr, NetError> {
    let port = media.port().checked_add(stream.port_offset());
    let port = port.ok_or_else(|| {
        let problem = "parities have the ports 2 and 4 above the media: choose a port up to 65531";
        NetError::System {
            what,
            source: io::Error::new(io::ErrorKind::InvalidInput, problem),
        }
    })?;
    Ok(SocketAddr::new(media.ip(), port))
}

impl Parities {
    /// Parities for media that go to `media`; `seed` gives their first numbers.
    pub fn new(media: SocketAddr, config: SmpteConfig, seed: u64) -> Result<Parities, NetError> {
        let what = "sending parities";
        let sender = SmpteSender::new(config, seed).map_err(|error| NetError::System {
            what,
            source: io::Error::new(io::ErrorKind::InvalidInput, error.to_string()),
        })?;
        Ok(Parities {
            sender,
            columns: beside(media, SmpteStream::Columns, what)?,
            rows: beside(media, SmpteStream::Rows, what)?,
        })
    }

    /// Sends the parities that are ready.
    fn send(&mut self, socket: &UdpSocket) -> io::Result<()> {
        while let Some(packet) = self.sender.poll() {
            let to = match packet.stream {
                SmpteStream::Columns => self.columns,
                SmpteStream::Rows => self.rows,
            };
            socket.send_to(&packet.octets, to)?;
            self.sender.give_back(packet);
        }
        Ok(())
    }
}

impl Drop for DatagramOut {
    fn drop(&mut self) {
        if let Some(parities) = &mut self.parities {
            parities.sender.finish();
            // The media are over: nothing depends on whether the last parities come.
            let _ = parities.send(&self.socket);
        }
    }
}

impl Outlet {
    pub fn stream(out: impl Write + Send + 'static) -> Outlet {
        Outlet::Stream(Box::new(out))
    }

    /// Writes what a frame added. Each immediately: a player wants it now, and a killed process leaves
    /// whole pictures.
    fn write(&mut self, bytes: &[u8], ends: &[usize]) -> io::Result<()> {
        match self {
            Outlet::Stream(out) => out.write_all(bytes).and_then(|()| out.flush()),
            Outlet::Datagrams(out) => out.send(bytes, ends),
        }
    }
}

impl DatagramOut {
    /// A socket towards `to`, a player or a multicast group.
    pub fn open(
        to: SocketAddr,
        sdp: Option<PathBuf>,
        parities: Option<Parities>,
    ) -> Result<DatagramOut, NetError> {
        let here: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        // Not connected: a missing listener is no error.
        let socket = UdpSocket::bind(here).map_err(|source| NetError::bind(here, source))?;
        Ok(DatagramOut {
            socket,
            to,
            sdp,
            parities: parities.map(Box::new),
        })
    }

    fn send(&mut self, bytes: &[u8], ends: &[usize]) -> io::Result<()> {
        let mut sent = 0;
        let mut one = |datagram: &[u8]| {
            if sent > 0 && sent % BURST == 0 {
                thread::sleep(BREATH);
            }
            sent += 1;
            self.socket.send_to(datagram, self.to)?;
            let Some(parities) = &mut self.parities else {
                return Ok(());
            };
            parities.sender.push(datagram);
            parities.send(&self.socket)
        };
        if ends.is_empty() {
            return bytes.chunks(TS_DATAGRAM).try_for_each(one);
        }
        let mut start = 0;
        for &end in ends {
            one(&bytes[start..end])?;
            start = end;
        }
        Ok(())
    }

    /// Writes the session description, once.
    fn describe(&mut self, name: &str, media: Media, start: &[u8]) -> io::Result<()> {
        let Some(path) = self.sdp.take() else {
            return Ok(());
        };
        let (address, port) = (self.to.ip(), self.to.port());
        let text = session_description(name, media, address, port, start);
        fs::write(&path, text).map_err(|error| {
            let path = path.display();
            io::Error::new(error.kind(), format!("session description {path}: {error}"))
        })
    }
}

/// Writes frames until there are no more, or the output is gone. `known` has what was written so far.
pub(crate) fn write_stream(
    queue: &Receiver<Item>,
    (form, undecodable): (OutputForm, Undecodable),
    mut outlet: Outlet,
    known: &Mutex<OutputStats>,
) -> OutputStats {
    let mut stats = OutputStats::default();
    let mut stream = PlayedStream::new(form, undecodable);
    let mut flow = String::new();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut written = Ok(());
    for item in queue {
        bytes.clear();
        ends.clear();
        let is_frame = matches!(item, Item::Frame(_));
        let mut refused = None;
        match item {
            Item::Flow(name, kind) => {
                flow = name;
                refused = stream.set_kind(kind, &mut bytes).err();
            }
            Item::Frame(frame) => {
                stream.frame(&frame, &mut bytes, &mut ends);
                if let (Outlet::Datagrams(out), Payload::Bytes(data)) =
                    (&mut outlet, &frame.payload)
                    && !bytes.is_empty()
                {
                    written = out.describe(&flow, stream.kind().media, data);
                }
            }
            Item::End(last) => stream.end_at(last, &mut bytes, &mut ends),
        }
        // A frame that adds nothing shows all the same whether the output is still there.
        if is_frame || !bytes.is_empty() {
            written = written.and_then(|()| outlet.write(&bytes, &ends));
        }
        if let Some(problem) = refused {
            written = Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        if written.is_err() {
            break;
        }
        stats.bytes += bytes.len() as u64;
        stats.frames += u64::from(is_frame);
        stats.stream = stream.stats();
        known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&stats);
    }
    bytes.clear();
    stream.finish(&mut bytes);
    stats.stream = stream.stats();
    if written.is_ok() && !bytes.is_empty() {
        written = outlet.write(&bytes, &[]);
        stats.bytes += bytes.len() as u64;
    }
    if let Err(error) = written {
        stats.error_kind = Some(error.kind());
        stats.error = Some(error.to_string());
    }
    stats
}
