//! What a stage of data manipulation is.

/// Most words of a unit, and of the unit of a whole chain: 256 octets (specs/ilp-code-generation.md 7).
pub const MAX_UNIT: usize = 64;

/// Most words that one stage adds to the trailer.
pub const MAX_RESULT: usize = 4;

/// A data manipulation that keeps the length: words go in, words come out, and a state may be left at the end.
///
/// A word is the *value* of four octets in network order, whatever the byte order of the host.
pub trait Stage {
    /// Name in chains and errors.
    const NAME: &'static str;
    /// Words of a unit.
    const WORDS: usize;
    /// Words that are carried from one unit to the next.
    const STATE_WORDS: usize;
    /// Arithmetic instructions a word.
    const INSTR_PER_WORD: u32;
    /// Words of the result, at most [`MAX_RESULT`].
    const RESULT_WORDS: usize = 0;
    /// Whether the words come out as they went in, so that a loop of this stage alone need not store.
    const READS_ONLY: bool;
    /// Whether [`Stage::fwd_run`] is the loop of a library, with the vector or CRC instructions of the processor: the model
    /// of [`crate::profile`] does not have its time.
    const LIBRARY_LOOP: bool = false;

    /// Before the first unit of ADU number `adu`. No cipher may see one number twice.
    #[inline(always)]
    fn begin(&mut self, adu: u64) {
        let _ = adu;
    }

    /// One unit on its way down to the network.
    fn fwd(&mut self, unit: &mut [u32]);

    /// One unit on its way up to the application: as downwards, unless the stage is no inverse of itself.
    #[inline(always)]
    fn inv(&mut self, unit: &mut [u32]) {
        self.fwd(unit);
    }

    /// The result over all units: the first [`Stage::RESULT_WORDS`] words.
    #[inline(always)]
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        [0; MAX_RESULT]
    }

    /// A loop of this stage alone over whole units, downwards.
    #[inline]
    fn fwd_run(&mut self, octets: &mut [u8]) {
        each_unit(octets, Self::WORDS, Self::READS_ONLY, |unit| {
            self.fwd(unit);
        });
    }

    /// A loop of this stage alone over whole units, upwards.
    #[inline]
    fn inv_run(&mut self, octets: &mut [u8]) {
        each_unit(octets, Self::WORDS, Self::READS_ONLY, |unit| {
            self.inv(unit);
        });
    }
}

/// Loads each unit of `words` words, has it changed, and stores it.
#[inline(always)]
pub fn each_unit(
    octets: &mut [u8],
    words: usize,
    reads_only: bool,
    mut change: impl FnMut(&mut [u32]),
) {
    let mut unit = [0; MAX_UNIT];
    let unit = &mut unit[..words];
    for place in octets.chunks_exact_mut(4 * words) {
        load(place, unit);
        change(unit);
        if !reads_only {
            store(unit, place);
        }
    }
}

/// Octets to the values of words.
#[inline(always)]
pub fn load(octets: &[u8], words: &mut [u32]) {
    for (word, four) in words.iter_mut().zip(octets.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*four);
    }
}

/// The values of words to octets.
#[inline(always)]
pub fn store(words: &[u32], octets: &mut [u8]) {
    for (word, four) in words.iter().zip(octets.as_chunks_mut::<4>().0) {
        *four = word.to_be_bytes();
    }
}

/// What is fixed of a stage, for planners and tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Name in chains and errors.
    pub name: &'static str,
    /// Words of a unit.
    pub words: usize,
    /// Words that are carried from one unit to the next.
    pub state_words: usize,
    /// Arithmetic instructions a word.
    pub instr_per_word: u32,
    /// Words of the result.
    pub result_words: usize,
    /// Whether the words come out as they went in.
    pub reads_only: bool,
    /// Whether its loop of its own is that of a library, with the vector or CRC instructions of the processor.
    pub library_loop: bool,
}

/// A stage of which the type is known at run time only.
pub trait AnyStage: Send {
    /// What is fixed.
    fn shape(&self) -> Shape;
    /// See [`Stage::begin`].
    fn begin(&mut self, adu: u64);
    /// See [`Stage::fwd`].
    fn fwd(&mut self, unit: &mut [u32]);
    /// See [`Stage::inv`].
    fn inv(&mut self, unit: &mut [u32]);
    /// See [`Stage::fwd_run`].
    fn fwd_run(&mut self, octets: &mut [u8]);
    /// See [`Stage::inv_run`].
    fn inv_run(&mut self, octets: &mut [u8]);
    /// See [`Stage::finish`].
    fn finish(&mut self) -> [u32; MAX_RESULT];
}

/// The shape of a stage.
#[must_use]
pub const fn shape<S: Stage + ?Sized>() -> Shape {
    assert!(S::WORDS > 0 && S::WORDS <= MAX_UNIT && S::RESULT_WORDS <= MAX_RESULT);
    Shape {
        name: S::NAME,
        words: S::WORDS,
        state_words: S::STATE_WORDS,
        instr_per_word: S::INSTR_PER_WORD,
        result_words: S::RESULT_WORDS,
        reads_only: S::READS_ONLY,
        library_loop: S::LIBRARY_LOOP,
    }
}

impl<S: Stage + Send> AnyStage for S {
    fn shape(&self) -> Shape {
        shape::<S>()
    }
    fn begin(&mut self, adu: u64) {
        Stage::begin(self, adu);
    }
    fn fwd(&mut self, unit: &mut [u32]) {
        Stage::fwd(self, unit);
    }
    fn inv(&mut self, unit: &mut [u32]) {
        Stage::inv(self, unit);
    }
    fn fwd_run(&mut self, octets: &mut [u8]) {
        Stage::fwd_run(self, octets);
    }
    fn inv_run(&mut self, octets: &mut [u8]) {
        Stage::inv_run(self, octets);
    }
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        Stage::finish(self)
    }
}
