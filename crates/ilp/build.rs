//! Emits the loops that `layercast ilp calibrate` measures.

#[path = "src/generator.rs"]
#[allow(dead_code)]
mod generator;

use generator::{Language, Synthetic, emit, grid};

fn main() {
    println!("cargo::rerun-if-changed=src/generator.rs");
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = String::new();
    let mut table = String::new();
    for (n, state, instr) in grid() {
        let name = format!("n{n}_s{state}_a{instr}");
        let function = Synthetic::new(state, instr).expect("in range");
        text += &emit(&name, &vec![function; n], Language::Rust);
        table += &format!("({n}, {state}, {instr}, {name} as Loop),\n");
    }
    // Byte swap, trivial cipher and checksum with the parameters that the real ones have.
    let of = |state, instr, writes| Synthetic {
        state,
        instr,
        writes,
        indep: false,
    };
    let pair = [of(0, 1, true), of(0, 2, true), of(1, 2, false)];
    for (at, one) in pair.iter().enumerate() {
        text += &emit(&format!("pair_{at}"), &[*one], Language::Rust);
    }
    text += &emit("pair_fused", &pair, Language::Rust);
    text += &format!(
        "/// Functions, words of state, instructions.\npub const GRID: &[(usize, usize, usize, Loop)] = &[\n{table}];\n"
    );
    let folder = std::env::var_os("OUT_DIR").expect("cargo says where");
    let path = std::path::Path::new(&folder).join("loops.rs");
    std::fs::write(path, text).expect("the folder of cargo is writable");
}
