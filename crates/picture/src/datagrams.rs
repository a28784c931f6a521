//! A transport stream in datagrams of one class each, as RTP carries it: seven packets at most (RFC 2250), fewer where the class
//! or the picture changes.

use layercast_core::{DataClass, Span};
use layercast_media::{ClassifierConfig, TsClassifier};
use thiserror::Error;

use crate::FrameMarking;
use crate::Smoothing;
use crate::group::PACKET;

/// Packets of a datagram at most: 1316 octets.
pub const MOST_PACKETS: usize = 7;
/// Octets of IPv4, UDP and RTP, with an extension of one octet for the marking (RFC 8285, RFC 9626).
const HEADERS: usize = 20 + 8 + 12 + 8;
/// Ticks of the clock of a program in a second, and those after which it begins again: 33 bits of 300 ticks.
const CLOCK: u64 = 27_000_000;
const WRAP: u64 = (1 << 33) * 300;
/// Clock references further apart are no measure of time.
const MOST_APART: u64 = CLOCK;

/// A datagram of a transport stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TsDatagram {
    /// Its first packet, and how many it has.
    pub first: usize,
    /// See `first`.
    pub packets: usize,
    /// What a network may know of it.
    pub marking: FrameMarking,
    /// The picture that it is of, in the order of the stream; `None`: tables, sound and what else is no video.
    pub picture: Option<u32>,
    /// When it is sent.
    pub at: Span,
}

impl TsDatagram {
    /// What it is to its picture.
    pub fn class(&self) -> DataClass {
        match self.picture {
            Some(_) => self.marking.class(),
            None => DataClass::System,
        }
    }

    /// Octets of it and of its headers down to IPv4.
    pub fn octets(&self) -> usize {
        HEADERS + self.packets * PACKET
    }
}

/// Why a stream has no datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TsDatagramsError {
    /// It has no video that can be read.
    #[error(
        "no video in it whose pictures are distinguished: a transport stream of MPEG-2, H.264, H.265 or AV1 has them"
    )]
    NoVideo,
    /// It has no clock.
    #[error(
        "no two clock references (PCR) in order: write it again with ffmpeg -i IN -c copy -f mpegts OUT.ts"
    )]
    NoClock,
}

/// The datagrams of a transport stream of one program.
#[derive(Clone, PartialEq, Debug)]
pub struct TsDatagrams {
    /// In the order of the stream.
    pub datagrams: Vec<TsDatagram>,
    /// The class of each picture.
    pub pictures: Vec<DataClass>,
    /// Time of the stream.
    pub length: Span,
}

/// What a packet is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    picture: Option<u32>,
    begins: bool,
}

impl TsDatagrams {
    /// Reads a stream, whose packets are sent as its clock says, or evenly over these pictures.
    ///
    /// # Errors
    /// It has no video, or no clock.
    pub fn of(
        packets: &[[u8; PACKET]],
        smoothing: Smoothing,
    ) -> Result<TsDatagrams, TsDatagramsError> {
        let (places, pictures) = places(packets);
        if pictures.is_empty() {
            return Err(TsDatagramsError::NoVideo);
        }
        let mut times = muxed(packets).ok_or(TsDatagramsError::NoClock)?;
        let length = times.pop().ok_or(TsDatagramsError::NoClock)?;
        if smoothing != Smoothing::None {
            smooth(&mut times, length, |number| {
                begun(&places[number], &pictures).is_some_and(|class| smoothing.begins(class))
            });
        }
        let mut stream = TsDatagrams {
            datagrams: Vec::new(),
            pictures,
            length: ticks(length),
        };
        for (number, (place, &at)) in places.iter().zip(&times).enumerate() {
            stream.take(number, *place, ticks(at));
        }
        stream.mark_ends();
        Ok(stream)
    }

    /// Adds a packet; a datagram is sent with its last packet.
    fn take(&mut self, number: usize, place: Place, at: Span) {
        if let Some(last) = self.datagrams.last_mut()
            && last.packets < MOST_PACKETS
            && last.picture == place.picture
        {
            last.packets += 1;
            last.at = at;
            return;
        }
        let class = place.picture.map(|it| self.pictures[it as usize]);
        self.datagrams.push(TsDatagram {
            first: number,
            packets: 1,
            marking: FrameMarking::of(class.unwrap_or_default(), place.begins, false),
            picture: place.picture,
            at,
        });
    }

    /// Marks the last datagram of each picture.
    fn mark_ends(&mut self) {
        let mut last = None;
        for datagram in self.datagrams.iter_mut().rev() {
            if let Some(picture) = datagram.picture
                && last != Some(picture)
            {
                datagram.marking.end = true;
                last = Some(picture);
            }
        }
    }
}

/// The picture that each packet is of, and the class of each picture: that of most of its octets.
fn places(packets: &[[u8; PACKET]]) -> (Vec<Place>, Vec<DataClass>) {
    let mut classifier = TsClassifier::new(ClassifierConfig::default());
    let mut octets: Vec<[usize; 4]> = Vec::new();
    let mut places = Vec::with_capacity(packets.len());
    for packet in packets {
        let mut counts = [0; 4];
        // A packet without a sync byte is of no picture.
        let _ = classifier.push(packet, |class, range| counts[class.index()] += range.len());
        let pid = u16::from_be_bytes([packet[1], packet[2]]) & 0x1FFF;
        if !classifier.videos().any(|(video, _)| video == pid) {
            places.push(Place {
                picture: None,
                begins: false,
            });
            continue;
        }
        let begins = packet[1] & 0x40 != 0;
        if begins {
            octets.push([0; 4]);
        }
        if let Some(sum) = octets.last_mut() {
            for (sum, count) in sum.iter_mut().zip(counts).skip(1) {
                *sum += count;
            }
        }
        places.push(Place {
            picture: octets.len().checked_sub(1).map(|it| it as u32),
            begins,
        });
    }
    let classes = octets.iter().map(|counts| {
        let most = DataClass::ALL[1..].iter().rev();
        let most = most.max_by_key(|class| counts[class.index()]);
        most.copied().unwrap_or_default()
    });
    (places, classes.collect())
}

/// The time of each packet in ticks, and that behind the last one: between clock references of one packet identifier evenly, beyond
/// them at the mean rate.
fn muxed(packets: &[[u8; PACKET]]) -> Option<Vec<u64>> {
    let mut clocks: Vec<(usize, u64)> = Vec::new();
    let mut of = None;
    let mut before = 0;
    for (number, packet) in packets.iter().enumerate() {
        let Some((pid, clock)) = clock(packet) else {
            continue;
        };
        if *of.get_or_insert(pid) != pid {
            continue;
        }
        let time = match clocks.last() {
            None => 0,
            Some(&(at, time)) => match (clock + WRAP - before) % WRAP {
                // A discontinuity: as if the mean rate continued.
                step if step == 0 || step > MOST_APART => match (number as u64 * time, at as u64) {
                    (_, 0) => time,
                    (product, at) => product / at,
                },
                step => time + step,
            },
        };
        before = clock;
        clocks.push((number, time));
    }
    let (&(first, _), &(last, end)) = (clocks.first()?, clocks.last()?);
    let span = (last - first) as u64;
    if span == 0 || end == 0 {
        return None;
    }
    let lead = first as u64 * end / span;
    let mut times = Vec::with_capacity(packets.len() + 1);
    times.extend((0..first).map(|number| number as u64 * end / span));
    for pair in clocks.windows(2) {
        let [(from, begin), (to, until)] = [pair[0], pair[1]];
        let steps = (to - from) as u64;
        times.extend((0..steps).map(|step| lead + begin + step * (until - begin) / steps));
    }
    let rest = packets.len() - last;
    times.extend((0..=rest).map(|step| lead + end + step as u64 * end / span));
    Some(times)
}

/// The clock reference of a packet, and its identifier.
fn clock(packet: &[u8; PACKET]) -> Option<(u16, u64)> {
    let has_field = packet[0] == 0x47 && packet[3] & 0x20 != 0;
    let has_clock = has_field && packet[4] >= 7 && packet[5] & 0x10 != 0;
    has_clock.then(|| {
        let [_, a, b, c, d, e, f] = [
            0, packet[6], packet[7], packet[8], packet[9], packet[10], packet[11],
        ];
        let base = u64::from(u32::from_be_bytes([a, b, c, d])) << 1 | u64::from(e >> 7);
        let pid = u16::from_be_bytes([packet[1], packet[2]]) & 0x1FFF;
        (pid, base * 300 + (u64::from(e & 1) << 8 | u64::from(f)))
    })
}

/// The class of the picture that begins with a packet.
fn begun(place: &Place, classes: &[DataClass]) -> Option<DataClass> {
    let picture = place.picture.filter(|_| place.begins)?;
    classes.get(picture as usize).copied()
}

/// Spreads the packets from each beginning to the next evenly over their time.
fn smooth(times: &mut [u64], length: u64, begins: impl Fn(usize) -> bool) {
    let mut edges: Vec<usize> = (0..times.len()).filter(|&number| begins(number)).collect();
    edges.push(times.len());
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let begin = times[from];
        let end = times.get(to).copied().unwrap_or(length);
        for (step, time) in times[from..to].iter_mut().enumerate() {
            *time = begin + step as u64 * end.saturating_sub(begin) / (to - from) as u64;
        }
    }
}

/// When each packet of a stream is sent, the class of the picture that begins with it, and the time of the whole stream.
pub(crate) struct Timeline {
    pub packets: Vec<(Span, Option<DataClass>)>,
    pub length: Span,
}

impl Timeline {
    /// Reads a stream.
    ///
    /// # Errors
    /// It has no clock.
    pub fn of(packets: &[[u8; PACKET]]) -> Result<Timeline, TsDatagramsError> {
        let mut times = muxed(packets).ok_or(TsDatagramsError::NoClock)?;
        let length = times.pop().ok_or(TsDatagramsError::NoClock)?;
        let (places, pictures) = places(packets);
        let of = |(time, place)| (ticks(time), begun(place, &pictures));
        Ok(Timeline {
            packets: times.into_iter().zip(&places).map(of).collect(),
            length: ticks(length),
        })
    }
}

fn ticks(ticks: u64) -> Span {
    Span::from_ps((u128::from(ticks) * 1_000_000_000_000 / u128::from(CLOCK)) as u64)
}
