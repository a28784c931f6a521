//! Videos that share the buffer of a link: what each policy loses, and how many pictures can still be decoded
//! (specs/mpeg-picture-quality.md 4, Q2 to Q4). Cells that are lost on the way, and those that parities bring back (Q6 to Q8).

mod adaptive;
mod blocks;
mod carried;
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

use crate::{Aal5PlusError, Smoothing, TsDatagramsError, VodFastStart, VodFastStartError};
use decode::Decoding;
use source::Sender;

pub use adaptive::{AdaptiveRun, AdaptiveSetting, AdaptiveStep};
pub use blocks::{BlockGeometry, BlockRun, BlockSetting};
pub use carried::{CarriedRun, CarriedSetting};
pub use loss::{LossSetting, Losses, cells_of};
pub use matrix::{MatrixLoss, MatrixRun, MatrixSetting};

/// Picoseconds of a second.
const SECOND: f64 = 1e12;
/// GOPs before anything is counted: sources begin during the first.
const WARM_UP: f64 = 2.0;
/// Most sources, and most seconds.
const MAX_SOURCES: u16 = 1_000;
const MAX_SECONDS: f64 = 3_600.0;

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
    /// A stored video beside them, whose session begins when counting begins (Q11).
    pub fast_start: Option<VodFastStart>,
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
            fast_start: None,
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
    /// The stored video, which is in none of the figures above but the mean occupancy and the delay.
    pub stored: Option<StoredRun>,
}

/// What became of a stored video.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StoredRun {
    /// Lost cells of each class, in percent: S, I, P, B.
    pub loss_percent: [f64; 4],
    /// Pictures that came whole, with all that they refer to, in percent.
    pub decodable_percent: f64,
    /// Time from the begin of the session until the first GOP has left the link, in milliseconds.
    pub first_gop_ms: f64,
    /// Film that the receiver has in store when the fast start ends, in seconds of the rate of the film.
    pub ahead_seconds: f64,
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
    /// The stream has no clock.
    #[error(transparent)]
    Clock(#[from] TsDatagramsError),
    /// The fast start cannot be.
    #[error(transparent)]
    FastStart(#[from] VodFastStartError),
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
        if let Some(start) = &self.fast_start {
            start.validate()?;
        }
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

/// Cells that one kind of video sent.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Those that sources sent, and those that were lost, by the class that the source gave them.
    received: [u64; 4],
    lost: [u64; 4],
}

/// Sources, buffer and link.
struct World<'a> {
    setting: &'a Setting,
    /// The stored video is the last one.
    sources: Vec<Sender>,
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
    /// Of live videos, and of the stored one.
    live: Counts,
    stored: Counts,
    /// When the first GOP of the stored video has left the link, and its cells that came while it was fast.
    first_gop: Option<f64>,
    fast_cells: u64,
    sent: u64,
    /// Cells that came to the buffer.
    offered: u64,
}

impl World<'_> {
    fn new(setting: &Setting, mut buffer: SharedBuffer) -> Result<World<'_>, SettingError> {
        buffer.force_refusal(setting.refuse_b);
        let link = f64::from(setting.sources) * setting.bps / setting.load;
        let sources = (0..setting.sources).map(|number| Sender::live(setting, number));
        let stored = setting
            .fast_start
            .map(|start| Sender::stored(setting, setting.sources, start, warm_up()));
        let mut sources: Vec<Sender> = sources.chain(stored).collect();
        let next = sources
            .iter_mut()
            .zip(0..)
            .map(|(it, number)| Reverse((it.next(), number)));
        let policers = { setting.police.iter() }.flat_map(|it| {
            let of = |_| it.policer(setting.bps);
            (0..setting.sources).map(of)
        });
        Ok(World {
            policers: policers.collect::<Result<_, _>>()?,
            live: Counts::default(),
            stored: Counts::default(),
            first_gop: None,
            fast_cells: 0,
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
        let warm = warm_up();
        let end = warm + (self.setting.seconds * SECOND) as u64;
        while let Some(Reverse((at, number))) = self.next.pop() {
            if at >= end {
                break;
            }
            let is_counted = at >= warm;
            self.serve(at as f64, is_counted);
            self.arrive(at, number, is_counted);
            let next = self.sources[usize::from(number)].next();
            self.next.push(Reverse((next, number)));
        }
        self.report()
    }

    /// The link sends until `now`.
    fn serve(&mut self, now: f64, is_counted: bool) {
        while self.free <= now {
            let Some(cell) = self.buffer.dequeue() else {
                self.free = now;
                return;
            };
            let is_live = cell.vc.0 < self.setting.sources;
            self.sent += u64::from(is_counted && is_live);
            self.free += self.cell_time;
        }
    }

    /// The counts of the kind of video of a circuit.
    fn counts(&mut self, number: u16) -> &mut Counts {
        match number < self.setting.sources {
            true => &mut self.live,
            false => &mut self.stored,
        }
    }

    fn arrive(&mut self, at: u64, number: u16, is_counted: bool) {
        let (mut cell, picture) = self.sources[usize::from(number)].send(at);
        let class = source::class_of_frame(cell.frame);
        self.decoding[usize::from(number)].sent(picture, is_counted);
        self.counts(number).received[class.index()] += u64::from(is_counted);
        if let Some(policer) = self.policers.get_mut(usize::from(number))
            && let Verdict::Discard(_) = policer.police(Time::from_ps(at), &mut cell)
        {
            self.lose(cell, is_counted);
            return;
        }
        if is_counted {
            self.offered += u64::from(number < self.setting.sources);
            self.found[self.buffer.len() as usize] += 1;
        }
        if number == self.setting.sources {
            self.watch(at, picture);
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

    /// A cell of the stored video comes.
    fn watch(&mut self, at: u64, picture: u32) {
        let since = (at - warm_up()) as f64;
        if picture < source::GOP {
            let wait = self.cell_time * f64::from(self.buffer.len() + 1);
            self.first_gop = Some(since + wait);
        }
        let fast = self.setting.fast_start.map_or(0.0, |it| it.first_seconds);
        self.fast_cells += u64::from(since <= fast * SECOND);
    }

    /// A cell is lost: it counts for the class that its source gave it.
    fn lose(&mut self, cell: Cell, is_counted: bool) {
        let class = source::class_of_frame(cell.frame);
        self.counts(cell.vc.0).lost[class.index()] += u64::from(is_counted);
        self.decoding[usize::from(cell.vc.0)].lost(source::picture_of(cell.frame));
    }

    fn report(self) -> Run {
        let Counts { received, .. } = self.live;
        let cells: u64 = received.iter().sum();
        let (live, stored) = self.decoding.split_at(self.setting.sources.into());
        let pictures = live.iter().map(Decoding::count).fold([0; 3], |sum, it| {
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
        let of_stored = |(decoding, start): (&Decoding, VodFastStart)| {
            let [pictures, decodable, _] = decoding.count();
            let lost: u64 = self.stored.lost.iter().sum();
            let all: u64 = self.stored.received.iter().sum();
            let came = 1.0 - lost as f64 / all.max(1) as f64;
            let seconds = (self.fast_cells * CELL_BITS) as f64 * came / start.then_bps as f64;
            StoredRun {
                loss_percent: self.stored.loss_percent(),
                decodable_percent: percent(decodable, pictures),
                first_gop_ms: self.first_gop.unwrap_or_default() / 1e9,
                ahead_seconds: seconds - start.first_seconds,
            }
        };
        Run {
            loss_percent: self.live.loss_percent(),
            share_percent: received.map(|count| percent(count, cells)),
            decodable_percent: percent(pictures[1], pictures[0]),
            pictures: pictures[0],
            goodput_percent: percent(pictures[2], self.sent),
            delay_us: [quantile(0.5), quantile(0.99)],
            mean_occupancy: occupied / taken.max(1) as f64,
            cells,
            offered: self.offered,
            stored: stored.first().zip(self.setting.fast_start).map(of_stored),
        }
    }
}

impl Counts {
    fn loss_percent(&self) -> [f64; 4] {
        std::array::from_fn(|at| percent(self.lost[at], self.received[at]))
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// When counting begins, in picoseconds.
fn warm_up() -> u64 {
    (WARM_UP * source::GOP_SECONDS * SECOND) as u64
}
