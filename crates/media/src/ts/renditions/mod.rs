//! Whole renditions as the levels of one flow: programs of one transport stream, or several transport streams.

mod adopt;
mod lane;
mod merge;
mod note;
mod scan;

use bytes::Bytes;
use layercast_core::{Layer, Media, Time};

use self::lane::Lane;
use self::merge::Merge;
pub use self::note::{RenditionId, RenditionNote};
use self::scan::Scan;
use super::codec::VideoCodec;
use super::packet::TS_PACKET;
use super::silence::StreamChange;
use super::splitter::TsStats;
use crate::MediaError;
use crate::live::TimedFrame;
use crate::mpeg::es::Stream;

/// Most renditions of a flow, and least.
const MOST: usize = 3;
const LEAST: usize = 2;
/// Octets of a file that are read in one piece.
const PIECE: usize = 64 * TS_PACKET;

/// A rendition of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendition {
    /// Which it is.
    pub id: RenditionId,
    /// The level that it is.
    pub layer: Layer,
    /// Width, height and frames per second of its video; the first two are 0 if unknown.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Key frames that came at a time of key frames of every rendition.
    pub aligned: u64,
    /// Other key frames.
    pub alone: u64,
}

/// Reads the renditions of a flow.
///
/// A picture is a frame of the layer of its rendition, ordered by size. Sound and what else is beside the pictures comes once, from the
/// first rendition that has it. Frames come in the order of their time stamps, at one time from the lowest rendition upwards.
/// All renditions are put into the program of that first one: the same packet identifiers, the same tables. So a receiver that
/// goes from one rendition to another at a key frame has one stream.
///
/// A frame that receivers can start at is a key frame at a time at which each rendition has one.
#[derive(Debug)]
pub struct Renditions {
    scans: Vec<Scan>,
    /// Known once all tables are.
    merge: Option<Merge>,
    /// One transport stream whose programs are the renditions.
    of_programs: bool,
    /// Each is a file, and read as it is waited for.
    are_files: bool,
    problem: Option<String>,
}

impl Renditions {
    /// The programs of one transport stream: its input is 0.
    pub fn of_programs() -> Renditions {
        Renditions {
            scans: vec![Scan::default()],
            merge: None,
            of_programs: true,
            are_files: false,
            problem: None,
        }
    }

    /// This many transport streams, each with a rendition as its first program with video.
    pub fn of_inputs(count: usize) -> Renditions {
        Renditions {
            scans: (0..count).map(|_| Scan::default()).collect(),
            of_programs: false,
            ..Renditions::of_programs()
        }
    }

    /// The same of files, which are read as [`Renditions::awaited`] says: no picture is taken for missing because that of
    /// another rendition was read before, and the flow ends with the first file.
    pub fn of_files(count: usize) -> Renditions {
        Renditions {
            are_files: true,
            ..Renditions::of_inputs(count)
        }
    }

    /// The input of which bytes are waited for most: its media are behind those of the others.
    pub fn awaited(&self) -> Option<usize> {
        match &self.merge {
            Some(merge) => merge.awaited(),
            None => self.scans.iter().position(|it| !it.is_done()),
        }
    }

    /// Takes bytes of an input, cut anywhere. `now` is given of one that arrives live.
    pub fn push(&mut self, now: Option<Time>, input: usize, bytes: &[u8]) {
        if self.problem.is_some() {
            return;
        }
        match &mut self.merge {
            Some(merge) => merge.push(now, input, bytes),
            None => {
                let Some(scan) = self.scans.get_mut(input) else {
                    return;
                };
                scan.push(bytes);
                if self.scans.iter().all(Scan::is_done) {
                    self.begin(now);
                }
            }
        }
        self.look();
    }

    /// An input is over.
    pub fn finish(&mut self, input: usize) {
        if self.merge.is_none() && self.problem.is_none() {
            if let Some(scan) = self.scans.get_mut(input) {
                scan.finish();
            }
            if self.scans.iter().all(Scan::is_done) {
                self.begin(None);
            }
            // Inputs that were over before are not pushed to again.
            let over: Vec<usize> = (0..self.scans.len())
                .filter(|&it| self.scans[it].is_over() && it != input)
                .collect();
            if let Some(merge) = &mut self.merge {
                for it in over {
                    merge.finish(it);
                }
            }
        }
        if let Some(merge) = &mut self.merge {
            merge.finish(input);
        }
        self.look();
    }

    /// All inputs are over.
    pub fn finish_all(&mut self) {
        let inputs = match &self.merge {
            Some(merge) => merge.inputs(),
            None => self.scans.len(),
        };
        for input in 0..inputs {
            self.finish(input);
        }
    }

    /// The tables of all inputs are known: their renditions are.
    fn begin(&mut self, now: Option<Time>) {
        let mut lanes = Vec::new();
        for (input, scan) in self.scans.iter().enumerate() {
            let programs = scan.programs();
            let many = self.scans.len() > 1;
            let ids = programs.iter().map(|&(number, codec)| {
                let id = RenditionId {
                    input: many.then_some(input),
                    program: number,
                };
                (id, codec)
            });
            match self.of_programs {
                true => lanes.extend(ids),
                false => lanes.extend(ids.take(1)),
            }
            if !self.of_programs && programs.is_empty() {
                let what = format!("input {} has no program with video", input + 1);
                return self.fail(what);
            }
        }
        let first = lanes.first().map(|it| it.1);
        if let Some(other) = lanes.iter().find(|it| Some(it.1) != first) {
            let (name, of_first) = (other.1.name(), lanes[0].1.name());
            return self.fail(format!(
                "{} is {name} and {} is {of_first}: renditions of a flow have one codec",
                other.0, lanes[0].0
            ));
        }
        if !(LEAST..=MOST).contains(&lanes.len()) {
            let count = lanes.len();
            let programs = match count {
                1 => "program",
                _ => "programs",
            };
            let what = match self.of_programs {
                true => format!(
                    "the transport stream has {count} {programs} with video: renditions are 2 or 3 programs of one codec; \
                     --program NUMBER serves one program alone"
                ),
                false => format!("renditions are 2 or 3 inputs, and these are {count}"),
            };
            return self.fail(what);
        }
        let has_sound = |id: &RenditionId| {
            let scan = &self.scans[id.input.unwrap_or(0)];
            scan.has_others(id.program)
        };
        let main = lanes.iter().position(|(id, _)| has_sound(id)).unwrap_or(0);
        let scans = std::mem::take(&mut self.scans);
        let lanes = lanes.into_iter().enumerate().map(|(index, (id, _))| {
            let held = scans[id.input.unwrap_or(0)].held();
            Lane::new(id, index == main, held)
        });
        let mut merge = Merge::new(lanes.collect(), self.are_files);
        for (input, scan) in scans.iter().enumerate() {
            merge.push(now, input, scan.held());
        }
        self.merge = Some(merge);
        self.scans = scans.into_iter().map(Scan::emptied).collect();
    }

    fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
        self.scans.clear();
    }

    fn look(&mut self) {
        if let Some(problem) = self.merge.as_mut().and_then(|it| it.problem.take()) {
            self.merge = None;
            self.fail(problem);
        }
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.merge.as_mut()?.poll()
    }

    /// The next thing that a user should know.
    pub fn poll_note(&mut self) -> Option<RenditionNote> {
        self.merge.as_mut()?.poll_note()
    }

    /// The next stream beside the pictures that stopped or comes again.
    pub fn poll_change(&mut self) -> Option<StreamChange> {
        self.merge.as_mut()?.poll_change()
    }

    /// Why there is no flow of these inputs, whatever else comes.
    pub fn verdict(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Why there is no flow of these inputs; `None` while nothing speaks against it.
    pub fn problem(&self) -> Option<String> {
        let known = self.problem.clone();
        known.or_else(|| match &self.merge {
            None => {
                let missing = self.scans.iter().position(|it| !it.is_done())?;
                let scan = self.scans.get(missing)?;
                Some(match self.scans.len() {
                    1 => scan.problem(),
                    _ => format!("input {}: {}", missing + 1, scan.problem()),
                })
            }
            Some(merge) => merge.pending(),
        })
    }

    /// The codec of the video.
    pub fn codec(&self) -> Option<VideoCodec> {
        self.merge.as_ref()?.codec()
    }

    /// The renditions from the lowest level upwards, once their order is known.
    pub fn renditions(&self) -> Vec<Rendition> {
        self.merge.as_ref().map_or_else(Vec::new, Merge::renditions)
    }

    /// What it saw of the first input.
    pub fn stats(&self) -> TsStats {
        self.merge
            .as_ref()
            .map_or_else(TsStats::default, Merge::stats)
    }
}

impl Renditions {
    /// Of inputs that are finished: the first offset of a picture or packet that one ends inside.
    fn ends_inside(&self) -> Option<u64> {
        self.merge.as_ref()?.ends_inside()
    }
}

/// The frames of stored renditions, what they are, and what a user should know of them.
pub(crate) struct Stored {
    pub stream: Stream,
    pub codec: Option<VideoCodec>,
    pub renditions: Vec<Rendition>,
    pub notes: Vec<RenditionNote>,
}

/// Reads stored renditions: the programs of one file, or several files.
pub(crate) fn parse(files: &[Bytes]) -> Result<Stored, MediaError> {
    let mut renditions = match files.len() {
        1 => Renditions::of_programs(),
        count => Renditions::of_files(count),
    };
    let (mut timed, mut notes) = (Vec::new(), Vec::new());
    let mut left: Vec<&[u8]> = files.iter().map(|file| &file[..]).collect();
    while renditions.problem.is_none() {
        let is_left = |input: &usize| !left[*input].is_empty();
        let awaited = renditions.awaited().filter(is_left);
        let Some(input) = awaited.or_else(|| (0..left.len()).find(is_left)) else {
            break;
        };
        let (piece, rest) = left[input].split_at(left[input].len().min(PIECE));
        left[input] = rest;
        renditions.push(None, input, piece);
        if rest.is_empty() {
            renditions.finish(input);
        }
        timed.extend(std::iter::from_fn(|| renditions.poll()));
        notes.extend(std::iter::from_fn(|| renditions.poll_note()));
    }
    // Files without an octet were never read.
    renditions.finish_all();
    if timed.is_empty() || renditions.problem().is_some() {
        let problem = renditions.problem().unwrap_or_else(|| {
            "there is no time at which each rendition has a key frame".to_owned()
        });
        return Err(MediaError::Unusable { problem });
    }
    let levels = renditions.renditions();
    let top = levels.last();
    let crate::live::Timed { frames, rate, .. } = crate::live::on_a_timeline(timed);
    let stream = Stream {
        codec: Media::MpegTs,
        width: top.map_or(0, |it| it.width),
        height: top.map_or(0, |it| it.height),
        frame_rate: rate,
        frames,
        // Of several files, the one that ends first is named in a note.
        truncated: renditions.ends_inside().filter(|_| files.len() == 1),
    };
    Ok(Stored {
        stream,
        codec: renditions.codec(),
        renditions: levels,
        notes,
    })
}

/// How many programs of a transport stream have video.
pub fn video_programs(data: &[u8]) -> usize {
    let mut scan = Scan::default();
    for piece in data.chunks(PIECE) {
        scan.push(piece);
        if scan.is_done() {
            break;
        }
    }
    scan.finish();
    scan.programs().len()
}
