//! Stages in a row.

use thiserror::Error;

use crate::stage::{AnyStage, MAX_RESULT, MAX_UNIT, Shape, load, store};
use crate::stages::{Keys, find};

/// Stages from the top, which the application is above, to the bottom, which the network is below.
///
/// `ilp_pipeline!` of `layercast-ilp-macros` writes one in which every stage is known to the compiler; a [`Chain`] is put
/// together at run time.
pub trait Pipeline {
    /// What is fixed of each stage, from the top.
    fn shapes(&self) -> &[Shape];

    /// Words of a unit: the lowest common multiple of the units of the stages.
    fn unit_words(&self) -> usize;

    /// Before the first unit of ADU number `adu`.
    fn begin(&mut self, adu: u64);

    /// One unit through all stages, downwards.
    fn fwd_unit(&mut self, unit: &mut [u32]);

    /// One unit through all stages, upwards.
    fn inv_unit(&mut self, unit: &mut [u32]);

    /// A loop of one stage alone over whole units, downwards.
    fn fwd_run(&mut self, stage: usize, octets: &mut [u8]);

    /// A loop of one stage alone over whole units, upwards.
    fn inv_run(&mut self, stage: usize, octets: &mut [u8]);

    /// The result of one stage.
    fn finish(&mut self, stage: usize) -> [u32; MAX_RESULT];

    /// One fused loop from one buffer to another, downwards: each word is read once and written once.
    #[inline]
    fn fwd_fused(&mut self, from: &[u8], to: &mut [u8]) {
        let words = self.unit_words();
        let mut unit = [0; MAX_UNIT];
        let unit = &mut unit[..words];
        let places = to.chunks_exact_mut(4 * words);
        for (octets, place) in from.chunks_exact(4 * words).zip(places) {
            load(octets, unit);
            self.fwd_unit(unit);
            store(unit, place);
        }
    }

    /// Words of all results.
    fn trailer_words(&self) -> usize {
        self.shapes().iter().map(|it| it.result_words).sum()
    }
}

/// How the stages of a pipeline are run over an ADU. All give the same octets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Executor {
    /// One loop for each stage over the whole ADU: the reference.
    Sequential,
    /// One loop with all stages in registers.
    #[default]
    Ilp,
    /// One loop for each stage over parts of this number of octets, which stay in the first-level cache.
    Strip(usize),
}

/// Octets of a strip where nothing else is said.
pub const STRIP: usize = 1_024;

impl Executor {
    /// Runs the stages over whole units in place, downwards.
    pub fn fwd<P: Pipeline + ?Sized>(self, pipeline: &mut P, octets: &mut [u8]) {
        let stages = pipeline.shapes().len();
        self.each(pipeline, octets, |pipeline, part, fused| match fused {
            true => pipeline.fwd_unit_of(part),
            false => (0..stages).for_each(|stage| pipeline.fwd_run(stage, part)),
        });
    }

    /// Runs the stages over whole units in place, upwards.
    pub fn inv<P: Pipeline + ?Sized>(self, pipeline: &mut P, octets: &mut [u8]) {
        let stages = pipeline.shapes().len();
        self.each(pipeline, octets, |pipeline, part, fused| match fused {
            true => pipeline.inv_unit_of(part),
            false => (0..stages)
                .rev()
                .for_each(|stage| pipeline.inv_run(stage, part)),
        });
    }

    #[inline(always)]
    fn each<P: Pipeline + ?Sized>(
        self,
        pipeline: &mut P,
        octets: &mut [u8],
        mut run: impl FnMut(&mut P, &mut [u8], bool),
    ) {
        let unit = 4 * pipeline.unit_words();
        let (part, fused) = match self {
            Executor::Sequential => (octets.len().max(unit), false),
            Executor::Ilp => (unit, true),
            Executor::Strip(of) => ((of / unit).max(1) * unit, false),
        };
        for part in octets.chunks_mut(part) {
            run(pipeline, part, fused);
        }
    }
}

/// One unit in memory through all stages.
trait UnitInMemory: Pipeline {
    #[inline(always)]
    fn fwd_unit_of(&mut self, octets: &mut [u8]) {
        let mut unit = [0; MAX_UNIT];
        let unit = &mut unit[..octets.len() / 4];
        load(octets, unit);
        self.fwd_unit(unit);
        store(unit, octets);
    }

    #[inline(always)]
    fn inv_unit_of(&mut self, octets: &mut [u8]) {
        let mut unit = [0; MAX_UNIT];
        let unit = &mut unit[..octets.len() / 4];
        load(octets, unit);
        self.inv_unit(unit);
        store(unit, octets);
    }
}

impl<P: Pipeline + ?Sized> UnitInMemory for P {}

/// The lowest common multiple of two numbers of words.
#[must_use]
pub const fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Why stages do not make a chain.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ChainError {
    /// No stage at all.
    #[error("a chain has one stage at least")]
    Empty,
    /// A name that the library does not have.
    #[error("{0} is no stage of the library: {list}", list = names())]
    Unknown(String),
    /// A unit above [`MAX_UNIT`] words.
    #[error(
        "the unit of the chain is {0} octets, and 256 are possible: run it in strips of its own"
    )]
    LcmTooLarge(usize),
}

/// The names of all stages.
fn names() -> String {
    let names: Vec<&str> = crate::stages::LIBRARY
        .iter()
        .map(|it| it.shape.name)
        .collect();
    names.join(", ")
}

/// The words of a unit of stages with these.
///
/// # Errors
///
/// No stage, or too many words.
pub fn unit_of(shapes: &[Shape]) -> Result<usize, ChainError> {
    let words = shapes.iter().fold(1, |words, it| lcm(words, it.words));
    match words {
        _ if shapes.is_empty() => Err(ChainError::Empty),
        words if words > MAX_UNIT => Err(ChainError::LcmTooLarge(4 * words)),
        words => Ok(words),
    }
}

/// A pipeline that is put together at run time. Its fused loop calls a function for each unit and stage: the executor
/// for it is [`Executor::Strip`], with a call for each strip and stage.
pub struct Chain {
    stages: Vec<Box<dyn AnyStage>>,
    shapes: Vec<Shape>,
    words: usize,
}

impl Chain {
    /// From stages, the top one first.
    ///
    /// # Errors
    ///
    /// No stage, or a unit that is too long.
    pub fn new(stages: Vec<Box<dyn AnyStage>>) -> Result<Chain, ChainError> {
        let shapes: Vec<Shape> = stages.iter().map(|it| it.shape()).collect();
        let words = unit_of(&shapes)?;
        Ok(Chain {
            stages,
            shapes,
            words,
        })
    }

    /// From names of the library, the top one first.
    ///
    /// # Errors
    ///
    /// As [`Chain::new`], and a name that is not in the library.
    pub fn of_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
        keys: &Keys,
    ) -> Result<Chain, ChainError> {
        let made = names.into_iter().map(|name| {
            let entry = find(name).ok_or_else(|| ChainError::Unknown(name.to_owned()))?;
            Ok((entry.make)(keys))
        });
        Chain::new(made.collect::<Result<_, ChainError>>()?)
    }
}

impl Pipeline for Chain {
    fn shapes(&self) -> &[Shape] {
        &self.shapes
    }
    fn unit_words(&self) -> usize {
        self.words
    }
    fn begin(&mut self, adu: u64) {
        self.stages.iter_mut().for_each(|stage| stage.begin(adu));
    }
    fn fwd_unit(&mut self, unit: &mut [u32]) {
        for (stage, shape) in self.stages.iter_mut().zip(&self.shapes) {
            unit.chunks_exact_mut(shape.words)
                .for_each(|words| stage.fwd(words));
        }
    }
    fn inv_unit(&mut self, unit: &mut [u32]) {
        for (stage, shape) in self.stages.iter_mut().zip(&self.shapes).rev() {
            unit.chunks_exact_mut(shape.words)
                .for_each(|words| stage.inv(words));
        }
    }
    fn fwd_run(&mut self, stage: usize, octets: &mut [u8]) {
        self.stages[stage].fwd_run(octets);
    }
    fn inv_run(&mut self, stage: usize, octets: &mut [u8]) {
        self.stages[stage].inv_run(octets);
    }
    fn finish(&mut self, stage: usize) -> [u32; MAX_RESULT] {
        self.stages[stage].finish()
    }
}
