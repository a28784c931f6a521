//! The C back end: the files of the paper (specs/ilp-code-generation.md 2.1, 2.6, 2.9).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Block, Call, Config, ConfigError, Emitted, nearest};

/// Macros of the library.
const LIBRARY_H: &str = include_str!("ilp.h");
/// Functions of the library.
const LIBRARY_C: &str = include_str!("ilp.c");

/// The macros and functions of a configuration with the library that they need.
///
/// # Errors
///
/// The name of a manipulation that is in the Rust library only, or a name with which one file would overwrite another.
pub fn emit(config: &Config, name: &str) -> Result<Vec<Emitted>, String> {
    if name.eq_ignore_ascii_case("common") {
        return Err(format!(
            "the emitted file {name}_ilp.h would overwrite common_ilp.h, which it includes: rename the configuration"
        ));
    }
    if let Some(block) = config.blocks.iter().find(|block| !block.stage.in_c) {
        return Err(format!(
            "{} of [{}] is in the Rust library only",
            block.send, block.name
        ));
    }
    let file = |name: String, text: String| Emitted { name, text };
    Ok(vec![
        file("ilp.h".to_owned(), LIBRARY_H.to_owned()),
        file("ilp.c".to_owned(), LIBRARY_C.to_owned()),
        file("common_ilp.h".to_owned(), common(config)),
        file(format!("{name}_ilp.h"), hooks(config)),
        file(format!("{name}_ilp.c"), whole(config, name)),
    ])
}

/// The functions that `ilp.h` declares.
fn declared() -> impl Iterator<Item = &'static str> {
    let lines = LIBRARY_H.lines().filter_map(|it| it.strip_prefix("void "));
    lines.filter_map(|it| it.split_once('(').map(|(name, _)| name))
}

/// Functions of INIT, FINAL_S and FINAL_R that `ilp.h` does not declare: a program that does not have them itself does
/// not link.
#[must_use]
pub fn undeclared(config: &Config) -> Vec<ConfigError> {
    let mut found = Vec::new();
    for block in &config.blocks {
        let names = |calls: &'_ [Call]| calls.iter().map(|it| it.function.clone()).collect();
        let places: [(&str, Vec<String>); 3] = [
            ("INIT", block.init.iter().cloned().collect()),
            ("FINAL_S", names(&block.final_send)),
            ("FINAL_R", names(&block.final_receive)),
        ];
        for (keyword, functions) in places {
            for function in functions {
                if declared().any(|it| it == function) {
                    continue;
                }
                let meant = match nearest(&function, declared()) {
                    Some(name) => format!("; did you mean {name}?"),
                    None => String::new(),
                };
                found.push(ConfigError {
                    line: block.line,
                    keyword: keyword.to_owned(),
                    problem: format!(
                        "ilp.h does not declare {function}, and [{}] calls it: the program must have it{meant}",
                        block.name
                    ),
                });
            }
        }
    }
    found
}

/// Parameters and results, each name once.
fn members(config: &Config) -> Vec<&super::Parameter> {
    let mut seen = BTreeSet::new();
    let all = config.blocks.iter().flat_map(|block| &block.parameters);
    all.filter(|it| seen.insert(&it.name)).collect()
}

fn common(config: &Config) -> String {
    let words = config.words();
    let mut text = "/* Emitted by layercast ilp emit. */\n#ifndef COMMON_ILP_H\n#define COMMON_ILP_H\n#include \"ilp.h\"\n\ntypedef struct {\n    u_int counter;\n".to_owned();
    for at in 0..words - 1 {
        text += &format!("    u_int buffer{at};\n    u_int *address{at};\n");
    }
    for member in members(config) {
        text += &format!("    {} {};\n", member.kind, member.name);
    }
    text += "} ILP_VAR_TYPE;\n\n/* Before each loop. */\n#define ilp_begin(ilp_ptr) do { (ilp_ptr)->counter = 0;";
    for member in members(config) {
        if let Some(init) = &member.init {
            text += &format!(" (ilp_ptr)->{} = {init};", member.name);
        }
    }
    text += " } while (0)\n\n/* Once. */\n#define ilp_init(ilp_ptr) do {";
    for block in &config.blocks {
        if let Some(init) = &block.init {
            let variables = block.parameters.iter().filter(|it| !it.is_result);
            let pointers: Vec<String> = variables
                .map(|it| format!("&(ilp_ptr)->{}", it.name))
                .collect();
            text += &format!(" {init}({});", pointers.join(", "));
        }
    }
    text += " } while (0)\n#endif\n";
    text
}

/// Name of word `at` of a unit of `count` words in the hook of the sender or the receiver.
fn register(at: usize, sends: bool, words: usize) -> String {
    match (sends, at) {
        (true, at) if at == words - 1 => "intreg".to_owned(),
        (true, at) => format!("(ilp_ptr)->buffer{at}"),
        (false, 0) => "intreg".to_owned(),
        (false, at) => format!("(ilp_ptr)->buffer{}", at - 1),
    }
}

/// The macros of one manipulation over a unit of `count` words.
fn manipulation(block: &Block, sends: bool, words: usize) -> String {
    let name = if sends { &block.send } else { &block.receive };
    let mut text = String::new();
    for first in (0..words).step_by(block.words) {
        let registers = (first..first + block.words).map(|at| register(at, sends, words));
        let parameters = block
            .parameters
            .iter()
            .map(|it| format!("(ilp_ptr)->{}", it.name));
        let all: Vec<String> = registers.chain(parameters).collect();
        text += &format!("        {name}({}); \\\n", all.join(", "));
    }
    text
}

fn hooks(config: &Config) -> String {
    let words = config.words();
    let mut text = "/* Emitted by layercast ilp emit. */\n#include \"common_ilp.h\"\n\n#define data_manipulations_send(intreg, dst, ilp_ptr) do { \\\n".to_owned();
    for at in 0..words - 1 {
        text += &format!(
            "    if ((ilp_ptr)->counter == {at}) {{ (ilp_ptr)->buffer{at} = (intreg); (ilp_ptr)->address{at} = (dst); (ilp_ptr)->counter = {}; }} else \\\n",
            at + 1
        );
    }
    text += "    { (ilp_ptr)->counter = 0; \\\n";
    for block in &config.blocks {
        text += &manipulation(block, true, words);
    }
    for at in 0..words - 1 {
        text += &format!("        writereg((ilp_ptr)->buffer{at}, (ilp_ptr)->address{at}); \\\n");
    }
    text += "        writereg(intreg, dst); \\\n    } } while (0)\n\n#define data_manipulations_recv(src, intreg, ilp_ptr) do { \\\n";
    text += match words {
        1 => "    { \\\n",
        _ => "    if ((ilp_ptr)->counter == 0) { \\\n",
    };
    for at in 0..words {
        text += &format!(
            "        readreg((src) + {at}, {}); \\\n",
            register(at, false, words)
        );
    }
    for block in config.blocks.iter().rev() {
        text += &manipulation(block, false, words);
    }
    text += &format!(
        "        (ilp_ptr)->counter = {}; \\\n    }}",
        usize::from(words > 1)
    );
    for at in 1..words {
        let next = (at + 1) % words;
        let counted = match next {
            0 => String::new(),
            _ => format!("if ((ilp_ptr)->counter == {at}) "),
        };
        text += &format!(
            " else {counted}{{ (intreg) = (ilp_ptr)->buffer{}; (ilp_ptr)->counter = {next}; }}",
            at - 1
        );
    }
    text += " } while (0)\n";
    text
}

/// The words of the trailer, from the top.
fn results(config: &Config) -> Vec<&str> {
    let all = config.blocks.iter().flat_map(|block| &block.parameters);
    all.filter(|it| it.is_result)
        .map(|it| it.name.as_str())
        .collect()
}

fn finals<'a>(config: &'a Config, of: impl Fn(&'a Block) -> &'a Vec<Call>) -> String {
    let mut text = String::new();
    for call in config.blocks.iter().flat_map(of) {
        let pointers: Vec<String> = call
            .results
            .iter()
            .map(|it| format!("&ilp_var->{it}"))
            .collect();
        text += &format!("    {}({});\n", call.function, pointers.join(", "));
    }
    text
}

/// Sending and receiving whole ADUs of `count` words.
fn whole(config: &Config, name: &str) -> String {
    let mut text = String::new();
    let words = config.words();
    let trailer = results(config);
    let written = (|| {
        writeln!(
            text,
            "/* Emitted by layercast ilp emit: whole ADUs, each a structure of u_int. */\n#include \"{name}_ilp.h\"\n"
        )?;
        writeln!(
            text,
            "/* The end of the buffer, or 0 if the ADU does not fit. */\nu_int *ilp_send_words(ILP_VAR_TYPE *ilp_var, u_int *buffer, u_int *bufferend, const u_int *words, size_t count) {{"
        )?;
        writeln!(
            text,
            "    size_t units = (count + {}) / {words};",
            words - 1
        )?;
        writeln!(
            text,
            "    u_int *write_ptr = buffer, intreg;\n    if ((size_t)(bufferend - buffer) < units * {words} + {}) return 0;",
            trailer.len()
        )?;
        writeln!(
            text,
            "    ilp_begin(ilp_var);\n    for (size_t at = 0; at < units * {words}; at++) {{\n        intreg = at < count ? words[at] : 0;\n        data_manipulations_send(intreg, write_ptr, ilp_var);\n        write_ptr++;\n    }}"
        )?;
        write!(text, "{}", finals(config, |block| &block.final_send))?;
        for result in &trailer {
            writeln!(
                text,
                "    writereg(ilp_var->{result}, write_ptr); write_ptr++;"
            )?;
        }
        writeln!(text, "    return write_ptr;\n}}\n")?;
        writeln!(
            text,
            "/* 0, the level of the lowest manipulation that differs, or -1 for a wrong length or padding. */\nint ilp_receive_words(ILP_VAR_TYPE *ilp_var, const u_int *buffer, const u_int *bufferend, u_int *words, size_t count) {{"
        )?;
        writeln!(
            text,
            "    size_t units = (count + {}) / {words};\n    const u_int *read_ptr = buffer;\n    u_int intreg, padding = 0, claimed;",
            words - 1
        )?;
        writeln!(text, "    int level = 0;\n    (void)claimed; (void)level;")?;
        writeln!(
            text,
            "    if ((size_t)(bufferend - buffer) != units * {words} + {}) return -1;",
            trailer.len()
        )?;
        writeln!(
            text,
            "    ilp_begin(ilp_var);\n    for (size_t at = 0; at < units * {words}; at++) {{\n        data_manipulations_recv(read_ptr, intreg, ilp_var);\n        read_ptr++;\n        if (at < count) words[at] = intreg; else padding |= intreg;\n    }}"
        )?;
        write!(text, "{}", finals(config, |block| &block.final_receive))?;
        for (at, block) in config.blocks.iter().enumerate() {
            let level = config.blocks.len() - at;
            for result in block.parameters.iter().filter(|it| it.is_result) {
                // The lowest comes last, and is the one that is claimed.
                writeln!(
                    text,
                    "    readreg(read_ptr, claimed); read_ptr++; if (claimed != ilp_var->{}) level = {level};",
                    result.name
                )?;
            }
        }
        writeln!(text, "    return level ? level : padding ? -1 : 0;\n}}")
    })();
    let _: std::fmt::Result = written;
    text
}
