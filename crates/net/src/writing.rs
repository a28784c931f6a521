use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use layercast_core::{Composition, FrameRate, Media, Serial, Span};
use layercast_fec::{SmpteConfig, SmpteSender, SmpteStream};
use layercast_media::{FlowWriter, OutputForm, Received, Undecodable, session_description};
use layercast_mets::PlayedFrame;
use layercast_wire::Payload;

use crate::error::NetError;
use crate::output::OutputStats;

/// Bytes of a datagram of a transport stream: seven packets, the common number.
const TS_DATAGRAM: usize = 7 * 188;
/// Datagrams sent in one burst: a large picture must not overrun the player's socket buffer.
const BURST: usize = 16;
/// Pause after each burst.
const BREATH: Duration = Duration::from_micros(500);
/// Frames per second of a flow without an announcement.
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
        /// What its layers are to each other.
        composition: Composition,
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

/// Numbers the frames of all counts in one count: the writers compare numbers, and those of two lives of a
/// flow say nothing of one another.
#[derive(Default)]
struct Numbers {
    count: u32,
    /// What to add to the numbers of this count.
    offset: u32,
    last: Option<Serial>,
}

/// A new count begins this far behind the one before, so that the writers see a gap: there are no references to
/// earlier frames.
const BREAK: u32 = 2;

impl Numbers {
    /// A number of the count at hand.
    fn in_count(&self, seq: Serial) -> Serial {
        Serial(seq.0.wrapping_add(self.offset))
    }

    fn of(&mut self, frame: &PlayedFrame) -> Serial {
        if let Some(last) = self.last.filter(|_| frame.count != self.count) {
            self.offset = last.plus(BREAK).0.wrapping_sub(frame.seq.0);
        }
        self.count = frame.count;
        let seq = self.in_count(frame.seq);
        if self.last.is_none_or(|last| seq.is_after(last)) {
            self.last = Some(seq);
        }
        seq
    }
}

/// Ends a stream, and adds up what was written.
fn end(mut writer: FlowWriter, outlet: &mut Outlet, stats: &mut OutputStats) -> io::Result<()> {
    let mut bytes = Vec::new();
    writer.finish(&mut bytes);
    stats.stream = stats.stream.plus(writer.stats());
    outlet.write(&bytes, &[])?;
    stats.bytes += bytes.len() as u64;
    Ok(())
}

/// Writes frames until there are no more, or the output is gone. `known` has what was written so far.
pub(crate) fn write_stream(
    queue: &Receiver<Item>,
    (form, undecodable): (OutputForm, Undecodable),
    mut outlet: Outlet,
    known: &Mutex<OutputStats>,
) -> OutputStats {
    let mut stats = OutputStats::default();
    let mut flow = (String::new(), Media::Opaque, DEFAULT_RATE, Span::ZERO);
    let mut composition = Composition::default();
    let mut writer: Option<FlowWriter> = None;
    let mut numbers = Numbers::default();
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut written = Ok(());
    for item in queue {
        let frame = match item {
            // A flow stays what it is; if it is announced again, writing continues.
            Item::Flow {
                name,
                media,
                rate,
                gop,
                composition: of_layers,
            } => {
                // Of another kind, it is another stream behind the first.
                let is_other = media != flow.1 || of_layers != composition;
                let ended = writer.take_if(|_| is_other);
                flow = (name, media, rate, gop);
                composition = of_layers;
                written = ended.map_or(Ok(()), |ended| end(ended, &mut outlet, &mut stats));
                if let Some(problem) = form.misfit(media) {
                    written = Err(io::Error::new(io::ErrorKind::Unsupported, problem));
                }
                match written {
                    Ok(()) => continue,
                    Err(_) => break,
                }
            }
            Item::Frame(frame) => frame,
            Item::End(last) => {
                if let Some(writer) = &mut writer {
                    bytes.clear();
                    ends.clear();
                    writer.end_at(numbers.in_count(last), &mut bytes, &mut ends);
                    written = outlet.write(&bytes, &ends);
                    stats.bytes += bytes.len() as u64;
                }
                continue;
            }
        };
        bytes.clear();
        ends.clear();
        let seq = numbers.of(&frame);
        let writer = writer.get_or_insert_with(|| {
            let mut writer = FlowWriter::new(flow.1, flow.2, form);
            writer.set_undecodable(undecodable);
            writer.set_composition(composition);
            if flow.3 > Span::ZERO {
                writer.set_gop(flow.3);
            }
            writer
        });
        // Synthetic frames are no video.
        if let Payload::Bytes(data) = &frame.payload {
            let received = Received {
                seq,
                layer: frame.layer,
                gop_start: frame.gop_start,
                sound: frame.sound,
                missing: frame.missing,
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
        stats.frames += 1;
        let stream = stats.stream.plus(writer.stats());
        *known.lock().unwrap_or_else(PoisonError::into_inner) = OutputStats {
            stream,
            ..stats.clone()
        };
    }
    match writer {
        Some(ended) if written.is_ok() => written = end(ended, &mut outlet, &mut stats),
        Some(broken) => stats.stream = stats.stream.plus(broken.stats()),
        None => {}
    }
    if let Err(error) = written {
        stats.error_kind = Some(error.kind());
        stats.error = Some(error.to_string());
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::{Layer, PerLayer, Span, Time};
    use layercast_wire::Waited;

    fn number(numbers: &mut Numbers, count: u32, seq: u32) -> u32 {
        let frame = PlayedFrame {
            seq: Serial(seq),
            count,
            layer: Layer::Base,
            gop_start: true,
            sound: false,
            missing: PerLayer::default(),
            again: false,
            awaited: None,
            payload: Payload::Zeros(1),
            damaged: false,
            emitted: Time::ZERO,
            arrived: Time::ZERO,
            deadline: Time::ZERO,
            delay: Span::ZERO,
            waited: Waited::default(),
        };
        numbers.of(&frame).0
    }

    #[test]
    fn numbers_of_another_count_go_on_behind_a_gap() {
        let mut numbers = Numbers::default();
        let mut all = |frames: &[(u32, u32)]| -> Vec<u32> {
            let frames = frames.iter();
            frames
                .map(|&(count, seq)| number(&mut numbers, count, seq))
                .collect()
        };
        assert_eq!(all(&[(0, 600), (0, 601), (0, 605)]), [600, 601, 605]);
        assert_eq!(all(&[(1, 0), (1, 1), (1, 4)]), [607, 608, 611]);
        // A frame of which others were dropped on the way here tells of its count all the same.
        assert_eq!(all(&[(3, u32::MAX), (3, 0)]), [613, 614]);
    }
}
