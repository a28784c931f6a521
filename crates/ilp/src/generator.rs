//! Synthetic data manipulations from parameters (specs/ilp-hazards.md 2.5): the same functions as loops of their own and
//! as one fused loop, in Rust or in C. The build script uses it, too: nothing but `std` here.

/// A synthetic function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthetic {
    /// Words of state.
    pub state: usize,
    /// Arithmetic instructions a word. One more than the words of state at least, if there are any.
    pub instr: usize,
    /// Whether it writes.
    pub writes: bool,
    /// Two temporaries in turn: the chain of dependencies is half as long.
    pub indep: bool,
}

/// The language of emitted source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// A function of atomic words, which no compiler makes vectors of.
    Rust,
    /// For `cc -O2 -fno-tree-vectorize`.
    C,
}

/// Most words of state of a function.
pub const MAX_STATE: usize = 64;
/// Most instructions of a function.
pub const MAX_INSTR: usize = 400;
/// Most functions of a loop.
pub const MAX_FUNCTIONS: usize = 16;

impl Synthetic {
    /// One that writes, with the instructions that its state needs at least.
    ///
    /// # Errors
    ///
    /// The field that is out of range.
    pub fn new(state: usize, instr: usize) -> Result<Synthetic, String> {
        if instr == 0 || instr > MAX_INSTR {
            return Err(format!("a is {instr}, and must be 1 to {MAX_INSTR}"));
        }
        if state > MAX_STATE {
            return Err(format!("s is {state}, and must be 0 to {MAX_STATE}"));
        }
        let instr = match state {
            0 => instr,
            state => instr.max(state + 1),
        };
        Ok(Synthetic {
            state,
            instr,
            writes: true,
            indep: false,
        })
    }
}

/// The constant of instruction `j` of a function without state.
pub fn constant(j: usize) -> u32 {
    0x9e37_79b9_u32.wrapping_mul(2 * j as u32 + 1)
}

/// Name of word `j` of the state of function `i`.
fn word(i: usize, j: usize) -> String {
    format!("s{i}_{j}")
}

/// The statements of function `i` on `w`.
fn body(function: &Synthetic, i: usize, language: Language) -> String {
    let (state, mut text) = (function.state, String::new());
    let temporary = |j: usize| match function.indep {
        true => format!("t{}", j % 2),
        false => "w".to_owned(),
    };
    let apply = |to: &str, by: &str, adds: bool| match (language, adds) {
        (Language::Rust, true) => format!("{to} = {to}.wrapping_add({by});"),
        (Language::Rust, false) => format!("{to} ^= {by};"),
        (Language::C, true) => format!("{to} += {by};"),
        (Language::C, false) => format!("{to} ^= {by};"),
    };
    if function.indep {
        text += match language {
            Language::Rust => "let (mut t0, mut t1) = (w, w);",
            Language::C => "t0 = w; t1 = w;",
        };
    }
    for j in 0..function.instr {
        let at = temporary(j);
        text += &match (state, language) {
            (0, Language::Rust) => format!(
                "{at} = {at}.rotate_left(5).wrapping_add({:#x});",
                constant(j)
            ),
            (0, Language::C) => format!(
                "{at} = (({at} << 5) | ({at} >> (8 * sizeof {at} - 5))) + {:#x}u;",
                constant(j)
            ),
            _ if j < state => apply(&word(i, j), &at, j % 2 == 0),
            _ => apply(&at, &word(i, (j - state) % state), j % 2 == 0),
        };
    }
    if function.indep {
        text += "w = t0 ^ t1;";
    }
    text
}

/// One loop with these functions: words of the first buffer are loaded, and stored to the second if a function writes.
pub fn emit(name: &str, functions: &[Synthetic], language: Language) -> String {
    let words: Vec<String> = functions
        .iter()
        .enumerate()
        .flat_map(|(i, function)| (0..function.state).map(move |j| word(i, j)))
        .collect();
    let bodies: Vec<String> = functions
        .iter()
        .enumerate()
        .map(|(i, function)| body(function, i, language))
        .collect();
    let body = bodies.join("\n");
    let (head, local, store) = match language {
        Language::Rust => (
            format!(
                "#[inline(never)]\n#[allow(unused_mut, unused_variables)]\npub fn {name}(input: &[AtomicU32], output: &[AtomicU32], state: &mut [u32]) {{"
            ),
            "let mut",
            "y.store(w, Relaxed);",
        ),
        Language::C => (
            format!(
                "__attribute__((noinline)) static void {name}(const word *input, word *output, size_t count, word *state) {{"
            ),
            "word",
            "output[k] = w;",
        ),
    };
    let each = match language {
        Language::Rust => "for (x, y) in input.iter().zip(output) {\nlet mut w = x.load(Relaxed);",
        Language::C => {
            "for (size_t k = 0; k < count; k++) {\nword w = input[k], t0, t1; (void)t0; (void)t1;"
        }
    };
    let mut text = head + "\n";
    for (at, word) in words.iter().enumerate() {
        text += &format!("{local} {word} = state[{at}];\n");
    }
    text += &format!("{each}\n{body}\n");
    if functions.iter().any(|it| it.writes) {
        text += &format!("{store}\n");
    }
    text += "}\n";
    for (at, word) in words.iter().enumerate() {
        text += &format!("state[{at}] = {word};\n");
    }
    text + "}\n"
}

/// The points of the experiments E1 to E3: functions, words of state, instructions, and whether they are measured cold, too.
pub fn points() -> Vec<(usize, usize, usize, bool)> {
    let e1 = [4, 10, 20, 40, 60, 80, 100].map(|instr| (3, 2, instr, true));
    let e2 = (1..=12).map(|state| (3, state, 10.max(state + 1), true));
    let e3 = (1..=8).flat_map(|n| [1, 2, 4, 6, 8].map(|state| (n, state, 10, false)));
    e1.into_iter().chain(e2).chain(e3).collect()
}

/// The loops that the program has compiled in, those of all points and of their functions alone: functions, words of state,
/// instructions.
pub fn grid() -> Vec<(usize, usize, usize)> {
    let mut grid = Vec::new();
    for (n, state, instr, _) in points() {
        for point in [(n, state, instr), (1, state, instr)] {
            if !grid.contains(&point) {
                grid.push(point);
            }
        }
    }
    grid
}

/// Functions of the random chains: words of state and instructions.
pub const KINDS: [(usize, usize); 6] = [(0, 4), (1, 8), (2, 20), (4, 10), (6, 16), (8, 24)];
/// Random chains.
pub const CHAINS: usize = 200;

/// Chains of two to four functions, as places in [`KINDS`]: drawn at random, no two alike, the same each time.
pub fn chains() -> Vec<Vec<usize>> {
    let mut draws = 0x9e37_79b9_7f4a_7c15_u64;
    // xorshift64* of Vigna.
    let mut below = |end: usize| {
        draws ^= draws >> 12;
        draws ^= draws << 25;
        draws ^= draws >> 27;
        (draws.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    };
    let mut chains: Vec<Vec<usize>> = Vec::new();
    while chains.len() < CHAINS {
        let chain = (0..2 + below(3)).map(|_| below(KINDS.len())).collect();
        if !chains.contains(&chain) {
            chains.push(chain);
        }
    }
    chains
}

/// The loops that the plans of the random chains are made of: one for each sequence of functions that is a part of a chain.
pub fn parts() -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for chain in chains() {
        for start in 0..chain.len() {
            for end in start + 1..=chain.len() {
                parts.push(chain[start..end].to_vec());
            }
        }
    }
    parts.sort();
    parts.dedup();
    parts
}
