//! The Rust back end: a pipeline of which the compiler knows every stage.

use std::fmt::Write as _;

use super::{Config, Emitted, pipeline};

/// The pipeline of a configuration, and how to make one from keys.
#[must_use]
pub fn emit(config: &Config, name: &str) -> Emitted {
    let type_name = camel(name);
    let types: Vec<String> = config
        .blocks
        .iter()
        .map(|block| format!("::layercast_ilp::stages::{}", block.stage.rust))
        .collect();
    let mut text = pipeline("pub", &type_name, &types);
    let make: Vec<String> = config
        .blocks
        .iter()
        .map(|block| match block.stage.rust {
            "Copy" => "::layercast_ilp::stages::Copy".to_owned(),
            "Safer" => "::layercast_ilp::stages::Safer::new(keys.short(), 6)".to_owned(),
            cipher @ ("AesCtr" | "ChaCha20" | "Poly1305") => {
                format!("::layercast_ilp::stages::{cipher}::new(keys)")
            }
            plain => format!("::layercast_ilp::stages::{plain}::default()"),
        })
        .collect();
    let uses = make.iter().any(|it| it.contains("keys"));
    let keys = if uses { "keys" } else { "_keys" };
    let written = write!(
        text,
        "impl {type_name} {{\n    /// With the keys of its ciphers.\n    #[must_use]\n    pub fn keyed({keys}: &::layercast_ilp::Keys) -> {type_name} {{\n        {type_name}::new({})\n    }}\n}}\n",
        make.join(", ")
    );
    written.expect("a string takes all");
    Emitted {
        name: format!("{name}_ilp.rs"),
        text,
    }
}

/// `if_name` to `IfName`.
fn camel(name: &str) -> String {
    let words = name.split(|it: char| !it.is_ascii_alphanumeric());
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    let joined: String = words.map(word).collect();
    match joined.starts_with(|it: char| it.is_ascii_alphabetic()) {
        true => joined,
        false => format!("Pipeline{joined}"),
    }
}
