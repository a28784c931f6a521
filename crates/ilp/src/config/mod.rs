//! Configuration files of the paper: which manipulations, in what order, with which parameters and results
//! (specs/ilp-code-generation.md 2.4).

mod c;
mod names;
mod parse;
mod rust;
mod source;

pub use c::{emit as emit_c, undeclared};
pub use parse::parse;
pub use rust::emit as emit_rust;
pub use source::pipeline;

use std::fmt;

use crate::pipeline::{Chain, ChainError, lcm};
use crate::stages::Keys;

/// One data manipulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Name of the block.
    pub name: String,
    /// Line of its name.
    pub line: usize,
    /// Macro of the sender.
    pub send: String,
    /// Macro of the receiver.
    pub receive: String,
    /// Words of a unit.
    pub words: usize,
    /// Parameters and results in their order.
    pub parameters: Vec<Parameter>,
    /// What makes the results of the sender.
    pub final_send: Vec<Call>,
    /// What makes the results of the receiver.
    pub final_receive: Vec<Call>,
    /// What prepares the parameters once.
    pub init: Option<String>,
    /// The stage of the library.
    pub stage: &'static Known,
}

/// A parameter of a macro.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Type in C.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Its value at the begin of each loop.
    pub init: Option<String>,
    /// Whether it goes to the trailer.
    pub is_result: bool,
}

/// A function over results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Name of the function.
    pub function: String,
    /// Names of results.
    pub results: Vec<String>,
}

/// A manipulation that configuration files can name.
#[derive(PartialEq, Eq, Debug)]
pub struct Known {
    /// Macros of the sender and of the receiver.
    pub macros: [&'static str; 2],
    /// Words of a unit.
    pub words: usize,
    /// Types of its parameters in C.
    pub types: &'static [&'static str],
    /// The stage of the library.
    pub stage: &'static str,
    /// Its type in Rust.
    pub rust: &'static str,
    /// Whether `ilp.h` has its macros.
    pub in_c: bool,
}

const fn known(
    macros: [&'static str; 2],
    words: usize,
    types: &'static [&'static str],
    stage: &'static str,
    rust: &'static str,
    in_c: bool,
) -> Known {
    Known {
        macros,
        words,
        types,
        stage,
        rust,
        in_c,
    }
}

/// The manipulations that configuration files can name.
#[rustfmt::skip]
pub static KNOWN: &[Known] = &[
    known(["copy_word"; 2], 1, &[], "copy", "Copy", true),
    known(["byte_swap"; 2], 1, &[], "bswap", "ByteSwap", true),
    known(["tcp_checksum"; 2], 1, &["u_int"], "checksum", "Checksum", true),
    known(["xor_parity"; 2], 1, &["u_int"], "parity", "Parity", true),
    known(["crc32_aal5"; 2], 1, &["u_int", "u_int*"], "crc32-aal5", "Crc32Aal5", true),
    known(["crc32c"; 2], 1, &["u_int", "u_int*"], "crc32c", "Crc32c", true),
    known(["pes_encrypt", "pes_decrypt"], 1, &[], "pes", "Pes", true),
    known(["saferk64_encrypt", "saferk64_decrypt"], 2, &["char*", "u_int*", "u_int*"], "safer-k64", "Safer", true),
    known(["aes_ctr_xor"; 2], 4, &["void*"], "aes-ctr", "AesCtr", false),
    known(["chacha20_xor"; 2], 16, &["void*"], "chacha20", "ChaCha20", false),
    known(["poly1305_update"; 2], 4, &["void*"], "poly1305", "Poly1305", false),
];

/// A configuration that is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The manipulations from the top to the bottom.
    pub blocks: Vec<Block>,
}

impl Config {
    /// Words of a unit.
    #[must_use]
    pub fn words(&self) -> usize {
        self.blocks.iter().fold(1, |words, it| lcm(words, it.words))
    }

    /// The names of its stages, from the top.
    pub fn stages(&self) -> impl Iterator<Item = &'static str> {
        self.blocks.iter().map(|it| it.stage.stage)
    }

    /// Its stages, put together at run time.
    ///
    /// # Errors
    ///
    /// A unit that is too long, which [`parse()`] refuses.
    pub fn chain(&self, keys: &Keys) -> Result<Chain, ChainError> {
        Chain::of_names(self.stages(), keys)
    }
}

/// A fault of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Line from 1 on; 0 is the file as a whole.
    pub line: usize,
    /// The keyword, or the block.
    pub keyword: String,
    /// What is wrong, and what is wanted.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.keyword, self.problem),
            line => write!(f, "line {line}: {}: {}", self.keyword, self.problem),
        }
    }
}

/// The name of `known` that is most like `name`, if one is like it.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = known.map(|known| (strsim::normalized_damerau_levenshtein(name, known), known));
    let best = near.filter(|(near, _)| *near >= 0.7);
    best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1)
}

/// A source file that is emitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// Name of the file.
    pub name: String,
    /// Its text.
    pub text: String,
}
