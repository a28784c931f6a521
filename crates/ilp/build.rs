//! Emits the loops that `layercast ilp calibrate` and `layercast ilp measure` run.

#[path = "src/generator.rs"]
#[allow(dead_code)]
mod generator;
#[path = "src/config/source.rs"]
mod source;

use generator::{KINDS, Language, Synthetic, emit, grid, parts};

fn main() {
    println!("cargo::rerun-if-changed=src/generator.rs");
    println!("cargo::rerun-if-changed=src/config/source.rs");
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = String::new();
    let mut table = String::new();
    for (n, state, instr) in grid() {
        let name = format!("n{n}_s{state}_a{instr}");
        let function = Synthetic::new(state, instr).expect("in range");
        text += &emit(&name, &vec![function; n], Language::Rust);
        table += &format!("({n}, {state}, {instr}, {name} as Loop),\n");
    }
    let mut part_table = String::new();
    for (at, part) in parts().into_iter().enumerate() {
        let name = format!("part_{at}");
        let functions = part.iter().map(|kind| {
            let (state, instr) = KINDS[*kind];
            Synthetic::new(state, instr).expect("in range")
        });
        text += &emit(&name, &functions.collect::<Vec<_>>(), Language::Rust);
        part_table += &format!("(&{part:?}, {name} as Loop),\n");
    }
    // Byte swap, trivial cipher and checksum have one, three and one arithmetic instructions. A step without state has two, a
    // rotation and an addition; so these have five in sum, too.
    let of = |state, instr, writes| Synthetic {
        state,
        instr,
        writes,
        indep: false,
    };
    let pair = [of(0, 1, true), of(0, 1, true), of(1, 1, false)];
    for (at, one) in pair.iter().enumerate() {
        text += &emit(&format!("pair_{at}"), &[*one], Language::Rust);
    }
    text += &emit("pair_fused", &pair, Language::Rust);
    text += &format!(
        "/// Functions, as places in `KINDS`.\npub const PARTS: &[(&[usize], Loop)] = &[\n{part_table}];\n"
    );
    text += &format!(
        "/// Functions, words of state, instructions.\npub const GRID: &[(usize, usize, usize, Loop)] = &[\n{table}];\n"
    );
    let folder = std::env::var_os("OUT_DIR").expect("cargo says where");
    let folder = std::path::Path::new(&folder);
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).expect("the folder of cargo is writable");
    };
    write("loops.rs", text);
    let chains = CHAINS.iter().map(|(name, stages)| {
        let types = stages.iter().map(|it| format!("crate::stages::{it}"));
        source::pipeline("pub", name, &types.collect::<Vec<_>>())
    });
    write("chains.rs", chains.collect());
}

/// The chains of `layercast ilp measure`, by the names of their types.
const CHAINS: &[(&str, &[&str])] = &[
    ("Moved", &["Copy"]),
    ("Swapped", &["ByteSwap"]),
    ("Pessed", &["Pes"]),
    ("Safers", &["Safer"]),
    ("Aes", &["AesCtr"]),
    ("ChaCha", &["ChaCha20"]),
    ("Poly", &["Poly1305"]),
    ("Aal5", &["Crc32Aal5"]),
    ("Sum", &["Checksum"]),
    ("Xor", &["Parity"]),
    ("Crc", &["Crc32c"]),
    ("Seal", &["ChaCha20", "Poly1305"]),
    ("Trivial", &["ByteSwap", "Pes", "Checksum"]),
    ("SaferSum", &["ByteSwap", "Safer", "Checksum"]),
    ("ChaChaSum", &["ByteSwap", "ChaCha20", "Checksum"]),
];
