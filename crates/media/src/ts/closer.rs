use layercast_core::{Span, Time};

use super::packet::{Adaptation, Packet, TS_PACKET, put};
use super::pes::{PesHeader, put_video};
use crate::h264::{nal, nals};

/// How long no video may follow the first picture until its access unit is ended.
/// Streams with shorter GOPs never need it, and ffmpeg looks for the video for 5 s.
const CLOSE_AFTER: Span = Span::from_secs(3);
/// An access unit delimiter, of any kind of pictures.
const DELIMITER: [u8; 6] = [0, 0, 0, 1, nal::DELIMITER, 0xF0];
/// Filler data: it means nothing, in any access unit.
const FILLER: [u8; 6] = [0, 0, 1, nal::FILLER, 0xFF, 0x80];

/// Ends the access unit of the first picture of an H.264 stream, where the pictures behind it are withheld.
///
/// A demultiplexer has a picture whole when the next one begins, and a player needs one to learn what the
/// video is. If key frames are far apart that takes longer than programs look for it (ffmpeg: 5 s). So 3
/// seconds after the first picture the delimiter of the next one is written ahead, with the time stamps that a
/// stream of even GOPs has there. If the next key frame comes at another time, programs that take the stamps of
/// the delimiter show this one picture too early or too late; the ones behind it are right.
#[derive(Default, Debug)]
pub(crate) struct Closer {
    state: State,
}

#[derive(Clone, Copy, Default, Debug)]
enum State {
    /// For the first picture.
    #[default]
    Waiting,
    Open {
        pid: u16,
        pts: u64,
        dts: u64,
        since: Time,
    },
    Done,
}

impl Closer {
    /// Looks at the packets of a frame emitted at `emitted`, before they are written. Gives the PID of the
    /// video and the time stamps with which the first picture has to be ended, if that is so.
    pub fn frame(&mut self, packets: &[u8], emitted: Time) -> Option<(u16, u64, u64)> {
        let mut packets = packets.chunks(TS_PACKET).filter_map(Packet::new);
        match self.state {
            State::Waiting => {
                self.state = packets
                    .find_map(|it| first(&it, emitted))
                    .unwrap_or(State::Done);
                None
            }
            State::Open { pid, .. } if packets.any(|it| it.pid() == pid && it.has_payload()) => {
                self.state = State::Done;
                None
            }
            State::Open {
                pid,
                pts,
                dts,
                since,
            } if emitted.since(since) >= CLOSE_AFTER => {
                self.state = State::Done;
                Some((pid, pts, dts))
            }
            State::Open { .. } | State::Done => None,
        }
    }
}

/// The packet that begins an H.264 picture.
fn first(packet: &Packet, since: Time) -> Option<State> {
    let payload = packet.starts().then(|| packet.payload())?;
    let header = PesHeader::parse(payload)?;
    let unit = payload.get(header.len..)?;
    let (_, first) = nals(unit).next()?;
    let is_delimiter = nal::kind(first) == nal::DELIMITER && unit.starts_with(&[0, 0]);
    let pts = header.pts?;
    let dts = header.dts.unwrap_or(pts);
    is_delimiter.then_some(State::Open {
        pid: packet.pid(),
        pts,
        dts,
        since,
    })
}

/// Appends the end of an access unit: the delimiter of the next one, `gop` behind `stamps` (PTS, DTS), and a PES
/// packet behind it, with which a demultiplexer takes the delimiter in. `counter` is the last one of the PID.
pub(crate) fn end_unit(
    pid: u16,
    counter: &mut u8,
    (pts, dts): (u64, u64),
    gop: Span,
    out: &mut Vec<u8>,
) {
    let ticks = gop.mul_div(90_000, 1_000_000_000_000).as_ps();
    let stamps = (pts.wrapping_add(ticks), dts.wrapping_add(ticks));
    let mut next = counter.wrapping_add(1) & 15;
    put_video(
        pid,
        &mut next,
        Adaptation::default(),
        stamps,
        [&DELIMITER, &[]],
        out,
    );
    let head = [0, 0, 1, 0xE0, 0, 3 + FILLER.len() as u8, 0x84, 0, 0];
    put(
        pid,
        true,
        next,
        Adaptation::default(),
        &[&head[..], &FILLER].concat(),
        out,
    );
    *counter = next;
}
