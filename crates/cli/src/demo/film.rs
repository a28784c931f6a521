//! The films of a demo: what a flow carries, and its pictures as ffmpeg decodes them.

use std::io;
use std::path::{Path, PathBuf};

use layercast_core::{Composition, Level};
use layercast_media::{Container, Map, Summary};
use layercast_sim::scenario::{ClipSpec, FlowEntry};

use super::decoder::{self, Decoded};
use crate::args::Via;
use crate::failure::Failure;
use crate::{probe, renditions};

/// The film of a flow.
#[derive(Debug)]
pub struct Film {
    /// Name of the flow.
    pub flow: String,
    /// What its layers are to each other.
    pub composition: Composition,
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub summary: Summary,
    /// The program of a transport stream with the best rendition.
    program: Option<u16>,
    /// When the flow starts, in seconds of the scenario.
    pub start_s: f64,
    pictures: Vec<Decoded>,
}

impl Film {
    /// The film of `flow`; `None` for traces and synthetic clips, which are no video.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(flow: &FlowEntry, folder: &Path) -> Result<Option<Film>, Failure> {
        let ClipSpec::File(path) = &flow.clip else {
            return Ok(None);
        };
        let path = folder.join(path);
        let (summary, program) = match flow.composition {
            Composition::Additive => {
                let clip = probe::read_clip(&path, None, Map::Auto, Via::None)?;
                (clip.summary(), None)
            }
            Composition::Alternative => {
                let stored = renditions::stored(&[&path])?;
                let best = stored.renditions.last().map(|it| it.id.program);
                (stored.summary(), best)
            }
        };
        Ok(Some(Film {
            flow: flow.name.clone(),
            composition: flow.composition,
            path,
            summary,
            program,
            start_s: flow.start.as_secs_f64(),
            pictures: Vec::new(),
        }))
    }

    /// Decodes it, as far as the questions below need that.
    ///
    /// # Errors
    /// ffmpeg cannot be started.
    pub fn decode(&mut self) -> io::Result<()> {
        // Where pictures have times, the time of the first is enough.
        let most = (self.places() == Places::Times).then_some(1);
        self.pictures = decoder::decode(&self.path, &self.pictures_in("0"), most)?.pictures;
        Ok(())
    }

    /// The pictures of input number `input`, in the words of ffmpeg.
    pub fn pictures_in(&self, input: &str) -> String {
        match self.program {
            Some(program) => format!("{input}:p:{program}:v:0"),
            None => format!("{input}:v:0"),
        }
    }

    /// Where its pictures have their place from.
    pub fn places(&self) -> Places {
        match self.summary.container {
            Container::MpegTs => Places::Times,
            Container::MpegEs | Container::MpegPs => Places::Numbers,
            _ => Places::Unknown,
        }
    }

    /// Seconds from its begin to picture `number`.
    pub fn seconds(&self, number: u64) -> f64 {
        number as f64 / self.summary.fps.max(1e-3)
    }

    /// The number of the picture at `at` seconds of the time stamps of the file; `None` before the first.
    pub fn number_at(&self, at: f64) -> Option<u64> {
        let begin = self.pictures.first()?.at;
        let number = ((at - begin) * self.summary.fps).round();
        (number >= 0.0).then_some(number as u64)
    }

    /// Whether picture `number` of an elementary stream is equal to the one before it. The film begins again at its end.
    pub fn is_still(&self, number: u64) -> bool {
        let count = self.pictures.len() as u64;
        let sum = |number: u64| {
            self.pictures
                .get((number % count) as usize)
                .map(|it| it.sum)
        };
        count > 0 && number > 0 && sum(number) == sum(number - 1)
    }

    /// The rendition of this size.
    pub fn level_of(&self, width: u32, height: u32) -> Option<Level> {
        let is_it =
            |it: &&layercast_media::RenditionSummary| (it.width, it.height) == (width, height);
        let found = self.summary.renditions.iter().rposition(|it| is_it(&it))?;
        Level::new(u8::try_from(found).ok()?)
    }
}

/// What tells which picture of the film a decoded one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Places {
    /// The number of the first one, and no picture is missing behind it: repeats replace those that did not come.
    Numbers,
    /// Time stamps.
    Times,
    /// Nothing.
    Unknown,
}
