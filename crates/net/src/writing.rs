use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use layercast_core::{FrameRate, Media, Serial, Span};
use layercast_media::{FlowWriter, OutputForm, Received, session_description};
use layercast_transport::mets::PlayedFrame;
use layercast_wire::Payload;

use crate::error::NetError;
use crate::output::OutputStats;

/// Bytes of a datagram of a transport stream: seven packets, as everybody does it.
const TS_DATAGRAM: usize = 7 * 188;
/// Datagrams sent at once: a large picture must not overrun the player's socket buffer.
const BURST: usize = 16;
/// Pause after each burst.
const BREATH: Duration = Duration::from_micros(500);
/// Frames per second of a flow that nobody announced.
const DEFAULT_RATE: FrameRate = FrameRate { num: 25, den: 1 };

/// What the output thread is given.
pub(crate) enum Item {
    /// What the frames to come are.
    Flow {
        name: String,
        media: Media,
        rate: FrameRate,
        /// How far key frames are apart.
        gop: Span,
    },
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
}

impl Outlet {
    pub fn stream(out: impl Write + Send + 'static) -> Outlet {
        Outlet::Stream(Box::new(out))
    }

    /// Writes what a frame added. Each at once: a player wants it now, and a killed process leaves
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
    pub fn open(to: SocketAddr, sdp: Option<PathBuf>) -> Result<DatagramOut, NetError> {
        let here: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        // Not connected: nobody may be listening yet, and that is no error.
        let socket = UdpSocket::bind(here).map_err(|source| NetError::bind(here, source))?;
        Ok(DatagramOut { socket, to, sdp })
    }

    fn send(&mut self, bytes: &[u8], ends: &[usize]) -> io::Result<()> {
        let mut sent = 0;
        let mut one = |datagram: &[u8]| {
            if sent > 0 && sent % BURST == 0 {
                thread::sleep(BREATH);
            }
            sent += 1;
            self.socket.send_to(datagram, self.to).map(|_| ())
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

/// Writes frames until there are no more, or nobody takes them.
pub(crate) fn write_stream(
    queue: &Receiver<Item>,
    form: OutputForm,
    mut outlet: Outlet,
) -> OutputStats {
    let mut stats = OutputStats::default();
    let mut flow = (String::new(), Media::Opaque, DEFAULT_RATE, Span::ZERO);
    let mut writer: Option<FlowWriter> = None;
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut written = Ok(());
    for item in queue {
        let frame = match item {
            // A flow stays what it is; if it is announced again, writing goes on.
            Item::Flow {
                name,
                media,
                rate,
                gop,
            } => {
                flow = (name, media, rate, gop);
                continue;
            }
            Item::Frame(frame) => frame,
            Item::End(last) => {
                if let Some(writer) = &mut writer {
                    bytes.clear();
                    ends.clear();
                    writer.end_at(last, &mut bytes, &mut ends);
                    written = outlet.write(&bytes, &ends);
                    stats.bytes += bytes.len() as u64;
                }
                continue;
            }
        };
        bytes.clear();
        ends.clear();
        let writer = writer.get_or_insert_with(|| {
            let mut writer = FlowWriter::new(flow.1, flow.2, form);
            if flow.3 > Span::ZERO {
                writer.set_gop(flow.3);
            }
            writer
        });
        // Synthetic frames are no video.
        if let Payload::Bytes(data) = &frame.payload {
            let received = Received {
                seq: frame.seq,
                layer: frame.layer,
                gop_start: frame.gop_start,
                emitted: frame.emitted,
                data,
            };
            writer.frame(&received, &mut bytes, &mut ends);
            if let Outlet::Datagrams(out) = &mut outlet
                && !bytes.is_empty()
            {
                written = out.describe(&flow.0, flow.1, data);
            }
        }
        written = written.and_then(|()| outlet.write(&bytes, &ends));
        if written.is_err() {
            break;
        }
        stats.bytes += bytes.len() as u64;
    }
    if let Some(writer) = &mut writer {
        if written.is_ok() {
            bytes.clear();
            writer.finish(&mut bytes);
            written = outlet.write(&bytes, &[]);
            stats.bytes += bytes.len() as u64;
        }
        stats.stream = writer.stats();
    }
    stats.error = written.err().map(|error| error.to_string());
    stats
}
