//! Videos that share the buffer of a link: what each policy loses, and how many pictures can still be decoded
//! (specs/mpeg-picture-quality.md 4, Q2 to Q4). Cells that are lost on the way, and those that parities bring back (Q6 to Q8).

mod decode;
mod loss;
mod matrix;
mod source;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_atm::{
    Cell, CellContract, Conformance, ExclpAction, ExclpError, FramePolicing, Peak, SharedBuffer,
    SharedBufferConfig, SharedBufferError, SharedPolicy, Sustained, Taken, Upc, Verdict,
};
use layercast_core::{CELL_BITS, Span, Time};
use layercast_fec::MatrixError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Aal5PlusError;
use decode::Decoding;
use source::Source;

pub use loss::{LossSetting, Losses, cells_of};
pub use matrix::{MatrixLoss, MatrixRun, MatrixSetting};

/// Picoseconds of a second.
const SECOND: f64 = 1e12;
/// GOPs before anything is counted: sources begin during the first.
const WARM_UP: f64 = 2.0;
/// Most sources, and most seconds.
const MAX_SOURCES: u16 = 1_000;
const MAX_SECONDS: f64 = 3_600.0;

/// How a source spreads its cells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Smoothing {
    /// Each picture over its frame time.
    None,
    /// Each GOP evenly over its time.
    Gop,
}

/// A policer of each video, whose contract is less than the video sends (Q5).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    /// What happens to the cells above the contract.
    pub action: PoliceAction,
    /// The rate of the video in parts of that of the contract, above 1.
    pub excess: f64,
    /// Cells that may follow each other without a pause.
    pub burst: u32,
}

/// What happens to cells above a contract.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoliceAction {
    /// [`ExclpAction::Discard`].
    Discard,
    /// [`ExclpAction::DemoteOne`].
    DemoteOne,
    /// [`ExclpAction::Tag`], although that conflicts with ExCLP.
    Tag,
}

impl Police {
    fn policer(self, bps: f64) -> Result<Upc, SettingError> {
        let period = CELL_BITS as f64 / bps;
        let contract = CellContract::Vbr {
            // A smoothed video sends at its mean rate; four times that is never exceeded.
            peak: Peak {
                period: Span::from_secs_f64(period / 4.0),
                tolerance: Span::ZERO,
            },
            sustained: Sustained {
                period: Span::from_secs_f64(period * self.excess),
                burst: self.burst,
            },
            conformance: Conformance::C,
        };
        let action = match self.action {
            PoliceAction::Discard => ExclpAction::Discard,
            PoliceAction::DemoteOne => ExclpAction::DemoteOne,
            PoliceAction::Tag => ExclpAction::Tag { allow: true },
        };
        Ok(Upc::exclp(&contract, FramePolicing::Cells, action)?)
    }
}

/// One run: GOPs of 12 pictures, references 3 apart, 30 pictures a second; 5 % of the cells are headers, 53 % data of I, 29 % of
/// P and 13 % of B pictures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// Videos, begun at random times.
    pub sources: u16,
    /// Rate of each, with the headers of cells.
    pub bps: f64,
    /// Their rate in parts of that of the link.
    pub load: f64,
    /// Which cells a full buffer discards.
    pub policy: SharedPolicy,
    /// How sources spread their cells.
    pub smoothing: Smoothing,
    /// Cells of the buffer.
    pub buffer: u32,
    /// Thresholds in percent of the buffer: S, I, P, B.
    pub thresholds: [u8; 4],
    /// How far below its threshold a class is taken again, in percent of the buffer.
    pub hysteresis: u8,
    /// Cells in the buffer from which on a whole GOP is refused, in percent of it.
    pub gop_threshold: u8,
    /// Class B is refused altogether (Q3).
    pub refuse_b: bool,
    /// A policer of each video.
    pub police: Option<Police>,
    /// Standard deviation of the sizes of pictures, in parts of the mean.
    pub deviation: f64,
    /// Time that is counted.
    pub seconds: f64,
    /// Seed.
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Setting {
        let buffer = SharedBufferConfig::default();
        Setting {
            sources: 100,
            bps: 2e6,
            load: 1.05,
            policy: SharedPolicy::ExClpEpd,
            smoothing: Smoothing::Gop,
            buffer: buffer.size,
            thresholds: buffer.thresholds,
            hysteresis: buffer.hysteresis,
            gop_threshold: buffer.gop_threshold,
            refuse_b: false,
            police: None,
            deviation: 0.2,
            seconds: 10.0,
            seed: 1,
        }
    }
}

/// What a run showed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Run {
    /// Lost cells of each class, in percent: S, I, P, B.
    pub loss_percent: [f64; 4],
    /// Share of the cells that arrived, in percent.
    pub share_percent: [f64; 4],
    /// Pictures that came whole, with all that they refer to, in percent.
    pub decodable_percent: f64,
    /// Pictures.
    pub pictures: u64,
    /// Cells of decodable pictures in cells that were sent, in percent.
    pub goodput_percent: f64,
    /// Wait of cells that were taken, median and 99 %, in microseconds.
    pub delay_us: [f64; 2],
    /// Mean number of cells that a cell finds in the buffer.
    pub mean_occupancy: f64,
    /// Cells that sources sent.
    pub cells: u64,
    /// Cells of them that came to the buffer: the others were policed.
    pub offered: u64,
}

/// Reason why a setting cannot be run.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum SettingError {
    /// A number is out of range.
    #[error("{what} of {value}: {range}")]
    Range {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it can be.
        range: &'static str,
    },
    /// The buffer cannot be.
    #[error(transparent)]
    Buffer(#[from] SharedBufferError),
    /// The stream does not go into cells.
    #[error(transparent)]
    Stream(#[from] Aal5PlusError),
    /// The policer cannot be.
    #[error(transparent)]
    Police(#[from] ExclpError),
    /// The parity matrix cannot be.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

impl Setting {
    /// Runs it.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn run(&self) -> Result<Run, SettingError> {
        self.validate()?;
        let buffer = SharedBuffer::new(SharedBufferConfig {
            size: self.buffer,
            policy: self.policy,
            thresholds: self.thresholds,
            hysteresis: self.hysteresis,
            gop_threshold: self.gop_threshold,
            ..SharedBufferConfig::default()
        })?;
        Ok(World::new(self, buffer)?.run())
    }

    fn validate(&self) -> Result<(), SettingError> {
        let positive = |most: f64| move |value: f64| value > 0.0 && value <= most;
        let check = |what, value: f64, is_good: &dyn Fn(f64) -> bool, range| match is_good(value) {
            true => Ok(()),
            false => Err(SettingError::Range { what, value, range }),
        };
        check(
            "sources",
            self.sources.into(),
            &positive(MAX_SOURCES.into()),
            "1 to 1000",
        )?;
        check("bps", self.bps, &positive(1e9), "more than 0, at most 10^9")?;
        check(
            "load",
            self.load,
            &positive(100.0),
            "more than 0, at most 100",
        )?;
        let seconds = positive(MAX_SECONDS);
        check(
            "seconds",
            self.seconds,
            &seconds,
            "more than 0, at most 3600",
        )?;
        check(
            "excess of a policer",
            self.police.map_or(1.0, |it| it.excess),
            &|it| (1.0..=100.0).contains(&it),
            "1 to 100",
        )?;
        check(
            "deviation",
            self.deviation,
            &|it| (0.0..=1.0).contains(&it),
            "0 to 1",
        )
    }
}

/// Sources, buffer and link.
struct World<'a> {
    setting: &'a Setting,
    sources: Vec<Source>,
    decoding: Vec<Decoding>,
    /// Next cell of each source.
    next: BinaryHeap<Reverse<(u64, u16)>>,
    buffer: SharedBuffer,
    /// Picoseconds of a cell on the link, and when the link is free.
    cell_time: f64,
    free: f64,
    /// Cells that an arriving one finds, by number.
    found: Vec<u64>,
    /// One for each source, if they are policed.
    policers: Vec<Upc>,
    /// Cells that sources sent, and those that were lost, by the class that the source gave them.
    received: [u64; 4],
    lost: [u64; 4],
    sent: u64,
    /// Cells that came to the buffer.
    offered: u64,
}

impl World<'_> {
    fn new(setting: &Setting, mut buffer: SharedBuffer) -> Result<World<'_>, SettingError> {
        buffer.force_refusal(setting.refuse_b);
        let link = f64::from(setting.sources) * setting.bps / setting.load;
        let sources = (0..setting.sources).map(|number| Source::new(setting, number));
        let sources: Vec<Source> = sources.collect();
        let next = sources
            .iter()
            .zip(0..)
            .map(|(it, number)| Reverse((it.next(), number)));
        let policers = { setting.police.iter() }.flat_map(|it| {
            let of = |_| it.policer(setting.bps);
            (0..setting.sources).map(of)
        });
        Ok(World {
            policers: policers.collect::<Result<_, _>>()?,
            received: [0; 4],
            lost: [0; 4],
            sent: 0,
            offered: 0,
            next: next.collect(),
            decoding: sources.iter().map(|_| Decoding::default()).collect(),
            sources,
            buffer,
            cell_time: CELL_BITS as f64 / link * SECOND,
            free: 0.0,
            found: vec![0; setting.buffer as usize + 1],
            setting,
        })
    }

    fn run(mut self) -> Run {
        let warm = (WARM_UP * source::GOP_SECONDS * SECOND) as u64;
        let end = warm + (self.setting.seconds * SECOND) as u64;
        while let Some(Reverse((at, number))) = self.next.pop() {
            if at >= end {
                break;
            }
            let is_counted = at >= warm;
            self.serve(at as f64, is_counted);
            self.arrive(at, number, is_counted);
            let source = &mut self.sources[usize::from(number)];
            source.advance();
            self.next.push(Reverse((source.next(), number)));
        }
        self.report()
    }

    /// The link sends until `now`.
    fn serve(&mut self, now: f64, is_counted: bool) {
        while self.free <= now {
            if self.buffer.dequeue().is_none() {
                self.free = now;
                return;
            }
            self.sent += u64::from(is_counted);
            self.free += self.cell_time;
        }
    }

    fn arrive(&mut self, at: u64, number: u16, is_counted: bool) {
        let source = &self.sources[usize::from(number)];
        let decoding = &mut self.decoding[usize::from(number)];
        let mut cell = source.cell(number);
        let class = source::class_of_frame(cell.frame);
        decoding.sent(source.picture(), is_counted);
        self.received[class.index()] += u64::from(is_counted);
        if let Some(policer) = self.policers.get_mut(usize::from(number))
            && let Verdict::Discard(_) = policer.police(Time::from_ps(at), &mut cell)
        {
            self.lose(cell, is_counted);
            return;
        }
        if is_counted {
            self.offered += 1;
            self.found[self.buffer.len() as usize] += 1;
        }
        debug_assert!(self.free >= at as f64 || self.buffer.is_empty());
        match self.buffer.enqueue(cell) {
            Taken::Queued => {}
            Taken::Discarded => self.lose(cell, is_counted),
            Taken::PushedOut(victim) => self.lose(victim, is_counted),
        }
        for place in 0..self.buffer.purged().len() {
            self.lose(self.buffer.purged()[place], is_counted);
        }
    }

    /// A cell is lost: it counts for the class that its source gave it.
    fn lose(&mut self, cell: Cell, is_counted: bool) {
        let class = source::class_of_frame(cell.frame);
        self.lost[class.index()] += u64::from(is_counted);
        self.decoding[usize::from(cell.vc.0)].lost(source::picture_of(cell.frame));
    }

    fn report(self) -> Run {
        let (received, lost) = (self.received, self.lost);
        let cells: u64 = received.iter().sum();
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let pictures = self
            .decoding
            .iter()
            .map(Decoding::count)
            .fold([0; 3], |sum, it| {
                [sum[0] + it[0], sum[1] + it[1], sum[2] + it[2]]
            });
        let taken: u64 = self.found.iter().sum();
        let quantile = |part: f64| {
            let mut sum = 0;
            let place = self.found.iter().position(|&count| {
                sum += count;
                sum as f64 >= part * taken as f64
            });
            place.unwrap_or(0) as f64 * self.cell_time / 1e6
        };
        let occupied: f64 = self
            .found
            .iter()
            .zip(0..)
            .map(|(&it, at)| it as f64 * f64::from(at))
            .sum();
        Run {
            loss_percent: std::array::from_fn(|at| percent(lost[at], received[at])),
            share_percent: received.map(|count| percent(count, cells)),
            decodable_percent: percent(pictures[1], pictures[0]),
            pictures: pictures[0],
            goodput_percent: percent(pictures[2], self.sent),
            delay_us: [quantile(0.5), quantile(0.99)],
            mean_occupancy: occupied / taken.max(1) as f64,
            cells,
            offered: self.offered,
        }
    }
}
