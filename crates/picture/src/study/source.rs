use layercast_atm::{Cell, FrameId, Vcid};
use layercast_core::{CELL_BITS, CELL_SIZE, DataClass, Span, Stream, Time};

use super::{SECOND, Setting};
use crate::{Smoother, Smoothing, VodFastStart};

/// Pictures of a GOP, in the order in which they are sent: I, B, B, P, B, B, P, ..
pub(super) const GOP: u32 = 12;
/// From one reference to the next.
pub(super) const DISTANCE: u32 = 3;
const PICTURES_PER_SECOND: f64 = 30.0;
pub(super) const GOP_SECONDS: f64 = GOP as f64 / PICTURES_PER_SECOND;
/// Shares of the cells that are data of I, P and B pictures; the others are headers.
const SHARES: [f64; 3] = [0.53, 0.29, 0.13];
const DATA: f64 = 0.95;
/// One cell in 20 is a header, and the cells between two are one frame.
const HEADER_EACH: u32 = 20;
/// Bits of the number of a frame in its picture; the others are that of the picture.
const FRAME_BITS: u32 = 12;

/// The picture that a frame is of.
pub(super) fn picture_of(frame: FrameId) -> u32 {
    frame.0 >> FRAME_BITS
}

/// The class of a picture by its place in the stream.
pub(super) fn class_of(picture: u32) -> DataClass {
    match picture % GOP {
        0 => DataClass::Intra,
        it if it.is_multiple_of(DISTANCE) => DataClass::Predicted,
        _ => DataClass::Bidirectional,
    }
}

/// The class that a source gives the cells of a frame.
pub(super) fn class_of_frame(frame: FrameId) -> DataClass {
    match frame.0.is_multiple_of(2) {
        true => DataClass::System,
        false => class_of(picture_of(frame)),
    }
}

/// A video as cells, each picture spread over its frame time.
#[derive(Debug)]
pub(super) struct Source {
    random: Stream,
    /// Mean cells of a picture of class I, P, B, headers included.
    means: [f64; 3],
    deviation: f64,
    /// Cells of each picture of the GOP.
    sizes: [u32; GOP as usize],
    picture: u32,
    /// The next cell of the picture.
    index: u32,
    /// When the GOP began, in picoseconds, and when its next cell comes.
    begun: f64,
    at: f64,
    spacing: f64,
}

impl Source {
    pub fn new(setting: &Setting, number: u16, bps: f64) -> Source {
        let mut random = Stream::new(setting.seed, &format!("source/{number}"));
        let cells = bps * GOP_SECONDS / CELL_BITS as f64;
        let counts = [
            1.0,
            f64::from(GOP / DISTANCE - 1),
            f64::from(GOP - GOP / DISTANCE),
        ];
        let means = [0, 1, 2].map(|kind| cells * SHARES[kind] / DATA / counts[kind]);
        let begun = random.unit() * GOP_SECONDS * SECOND;
        let mut source = Source {
            random,
            means,
            deviation: setting.deviation,
            sizes: [1; GOP as usize],
            picture: 0,
            index: 0,
            begun,
            at: begun,
            spacing: 0.0,
        };
        source.begin_gop();
        source
    }

    /// When the next cell comes, in picoseconds.
    pub fn next(&self) -> u64 {
        self.at as u64
    }

    /// The picture that the next cell is of.
    pub fn picture(&self) -> u32 {
        self.picture
    }

    /// The next cell, on a circuit of its own.
    pub fn cell(&self, number: u16) -> Cell {
        let size = self.size();
        let (block, place) = (self.index / HEADER_EACH, self.index % HEADER_EACH);
        let (frame, index, count, class) = match place {
            0 => (2 * block, 0, 1, DataClass::System),
            _ => {
                let count = (size - block * HEADER_EACH).min(HEADER_EACH) - 1;
                (2 * block + 1, place - 1, count, class_of(self.picture))
            }
        };
        let frame = FrameId(self.picture << FRAME_BITS | frame & ((1 << FRAME_BITS) - 1));
        Cell::of(frame, Vcid(number), index, count).with_class(class)
    }

    /// The next cell was sent.
    pub fn advance(&mut self) {
        self.index += 1;
        self.at += self.spacing;
        if self.index < self.size() {
            return;
        }
        self.index = 0;
        self.picture += 1;
        if self.picture.is_multiple_of(GOP) {
            self.begun += GOP_SECONDS * SECOND;
            self.at = self.begun;
            self.begin_gop();
        } else {
            self.begin_picture();
        }
    }

    /// The class of the picture that begins with the next cell.
    fn begins(&self) -> Option<DataClass> {
        (self.index == 0).then(|| class_of(self.picture))
    }

    fn size(&self) -> u32 {
        self.sizes[(self.picture % GOP) as usize]
    }

    fn begin_gop(&mut self) {
        for place in 0..GOP {
            let mean = self.means[match class_of(place) {
                DataClass::Intra => 0,
                DataClass::Predicted => 1,
                _ => 2,
            }];
            let size = mean * (1.0 + self.deviation * self.random.normal());
            self.sizes[place as usize] = size.round().max(2.0) as u32;
        }
        self.begin_picture();
    }

    fn begin_picture(&mut self) {
        let time = SECOND / PICTURES_PER_SECOND;
        self.at = self.begun + f64::from(self.picture % GOP) * time;
        self.spacing = time / f64::from(self.size());
    }
}

/// When the cells of a video are sent.
#[derive(Debug)]
enum Pacing {
    /// As they come.
    AsTheyCome,
    /// Smoothed; a cell waits with the picture that it is of.
    Smoothed(Box<Smoother<(Cell, u32)>>),
    /// By a fast start at this time, in picoseconds; and the octets of it that are sent.
    Fast(VodFastStart, u64, u64),
}

/// A video that sends its cells on a circuit.
#[derive(Debug)]
pub(super) struct Sender {
    source: Source,
    number: u16,
    pacing: Pacing,
}

impl Sender {
    /// A live video.
    pub fn live(setting: &Setting, number: u16) -> Sender {
        // GOPs end long before.
        let longest = Span::from_secs(10);
        let smoothing = setting.smoothing;
        Sender {
            source: Source::new(setting, number, setting.bps),
            number,
            pacing: match smoothing {
                Smoothing::None => Pacing::AsTheyCome,
                _ => Pacing::Smoothed(Box::new(Smoother::new(smoothing, longest))),
            },
        }
    }

    /// A stored video whose session begins at a time.
    pub fn stored(setting: &Setting, number: u16, start: VodFastStart, at: u64) -> Sender {
        Sender {
            source: Source::new(setting, number, start.then_bps as f64),
            number,
            pacing: Pacing::Fast(start, at, 0),
        }
    }

    /// When the next cell is sent, in picoseconds.
    pub fn next(&mut self) -> u64 {
        let (source, number) = (&mut self.source, self.number);
        match &mut self.pacing {
            Pacing::AsTheyCome => source.next(),
            Pacing::Fast(start, at, octets) => at.saturating_add(start.time_of(*octets).as_ps()),
            Pacing::Smoothed(smoother) => loop {
                let come = Time::from_ps(source.next());
                match smoother.next_timeout() {
                    Some(due) if due < come => return due.as_ps(),
                    _ => {
                        let item = (source.cell(number), source.picture());
                        smoother.push(come, item, source.begins());
                        source.advance();
                    }
                }
            },
        }
    }

    /// The cell that is sent now, and the picture that it is of.
    pub fn send(&mut self, now: u64) -> (Cell, u32) {
        if let Pacing::Smoothed(smoother) = &mut self.pacing
            && let Some(sent) = smoother.poll(Time::from_ps(now))
        {
            return sent;
        }
        if let Pacing::Fast(_, _, octets) = &mut self.pacing {
            *octets += CELL_SIZE as u64;
        }
        let sent = (self.source.cell(self.number), self.source.picture());
        self.source.advance();
        sent
    }
}
