//! The configuration of the paper: its golden octets by every executor and by the emitted C, and what is reported about a wrong file.

use std::path::Path;
use std::process::Command;

use layercast_ilp::adu::{Adu, Sink, Source};
use layercast_ilp::config::{Config, emit_c, emit_rust, parse, undeclared};
use layercast_ilp::{Channel, Executor, IlpError, Keys, recv_adu, send_adu};

const PAPER: &str = include_str!("paper.cfg");
const EXECUTORS: [Executor; 3] = [Executor::Sequential, Executor::Ilp, Executor::Strip(8)];

/// A structure of three words, or of two.
#[derive(PartialEq, Debug)]
struct Words<const N: usize>([u32; N]);

impl<const N: usize> Adu for Words<N> {
    const MIN: usize = 4 * N;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        self.0.iter().try_for_each(|word| to.word(*word))
    }
    fn decode<S: Source>(from: &mut S) -> Result<Words<N>, IlpError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = from.word()?;
        }
        Ok(Words(words))
    }
}

fn keys() -> Keys {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
    Keys {
        key,
        nonce: [0; 12],
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// What each executor sends, if it is one thing and comes back.
fn wire<const N: usize>(config: &Config, words: [u32; N]) -> String {
    let sent = EXECUTORS.map(|executor| {
        let mut channel = Channel::new(config.chain(&keys()).expect("a chain"), executor);
        let mut out = [0; 64];
        let len = send_adu(&mut channel, &Words(words), &mut out).expect("there is room");
        let received = recv_adu::<_, Words<N>>(&mut channel, &out[..len]).expect("it was sent");
        assert_eq!(received.into_inner(), Words(words));
        hex(&out[..len])
    });
    assert!(sent.iter().all(|it| *it == sent[0]), "{sent:?}");
    sent[0].clone()
}

const GOLDEN_2: &str = "a6ac11c325b3a8900000794c";
const GOLDEN_3: &str = "a6ac11c325b3a89073d3a4932cd9a357000090b4";
const GOLDEN_SUM: &str = "0000000100000002000000030000fff9";

fn checksum_only() -> String {
    let (checksum, _) = PAPER.split_once("[ENCRYPTION]").expect("two blocks");
    checksum.to_owned()
}

#[test]
fn golden_octets_of_the_example() {
    let config = parse(PAPER).expect("the example of the paper");
    assert_eq!(config.words(), 2);
    assert_eq!(
        config.stages().collect::<Vec<_>>(),
        ["safer-k64", "checksum"]
    );
    assert_eq!(wire(&config, [1, 2]), GOLDEN_2);
    assert_eq!(wire(&config, [1, 2, 3]), GOLDEN_3);
    let alone = parse(&checksum_only()).expect("one block");
    assert_eq!(wire(&alone, [1, 2, 3]), GOLDEN_SUM);
}

const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include "if_ilp.c"
int main(int argc, char **argv) {
    static ILP_VAR_TYPE var;
    u_int words[16], out[64], back[16];
    size_t count = (size_t)argc - 1;
    for (int at = 1; at < argc; at++) words[at - 1] = strtoul(argv[at], 0, 10);
    for (int j = 0; j < 8; j++) saferk64_user_key[j] = 8 - j;
    ilp_init(&var);
    if (ilp_send_words(&var, out, out + 2, words, count)) return 2;
    u_int *end = ilp_send_words(&var, out, out + 64, words, count);
    for (u_char *p = (u_char *)out; p < (u_char *)end; p++) printf("%02x", *p);
    int level = ilp_receive_words(&var, out, end, back, count);
    for (size_t at = 0; at < count; at++) if (back[at] != words[at]) return 3;
    ((u_char *)out)[1] ^= 4;
    printf(" %d %d\n", level, ilp_receive_words(&var, out, end, back, count));
    return 0;
}
"#;

/// Emits C, compiles it, and runs it over these words.
fn run_c(text: &str, folder: &Path, words: &[&str]) -> String {
    let config = parse(text).expect("a configuration");
    for file in emit_c(&config, "if").expect("all macros are in the library") {
        std::fs::write(folder.join(file.name), file.text).expect("a file");
    }
    std::fs::write(folder.join("main.c"), MAIN).expect("a file");
    let compiled = Command::new("cc")
        .args([
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            "-Wno-unused-variable",
            "-Wno-unused-const-variable",
        ])
        .args(["-o", "main", "main.c", "ilp.c"])
        .current_dir(folder)
        .output()
        .expect("cc runs");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let ran = Command::new(folder.join("main"))
        .args(words)
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

#[test]
fn the_emitted_c_sends_the_golden_octets() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no cc");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ilp-emitted");
    std::fs::create_dir_all(&folder).expect("a folder");
    // The bottom stage tells that a bit of the encrypted data is not that of the sender.
    assert_eq!(
        run_c(PAPER, &folder, &["1", "2"]),
        format!("{GOLDEN_2} 0 1")
    );
    assert_eq!(
        run_c(PAPER, &folder, &["1", "2", "3"]),
        format!("{GOLDEN_3} 0 1")
    );
    let alone = run_c(&checksum_only(), &folder, &["1", "2", "3"]);
    assert_eq!(alone, format!("{GOLDEN_SUM} 0 1"));
    // Three stages, of which two have results and tables.
    let more = "[A]\nPOSITION=TOP\nNEXT=B\nLENGTH=4\nMACRONAME_S=crc32c\nMACRONAME_R=crc32c\nRESULT=(u_int, c, ~0u)\nVARIABLE=(u_int*, t)\nINIT=crc32c_ilp_init\nFINAL_S=(crc_final(c))\nFINAL_R=(crc_final(c))\n
        [B]\nNEXT=C\nLENGTH=4\nMACRONAME_S=pes_encrypt\nMACRONAME_R=pes_decrypt\n
        [C]\nPOSITION=BOTTOM\nLENGTH=4\nMACRONAME_S=crc32_aal5\nMACRONAME_R=crc32_aal5\nRESULT=(u_int, d, ~0u)\nVARIABLE=(u_int*, u)\nINIT=crc32_aal5_ilp_init\nFINAL_S=(crc_final(d))\nFINAL_R=(crc_final(d))\n";
    let config = parse(more).expect("a configuration");
    let found = run_c(more, &folder, &["7", "8", "9"]);
    assert_eq!(found, format!("{} 0 1", wire(&config, [7, 8, 9])));
}

#[test]
fn the_emitted_rust_names_the_stages_in_order() {
    let config = parse(PAPER).expect("the example of the paper");
    let file = emit_rust(&config, "if");
    assert_eq!(file.name, "if_ilp.rs");
    assert!(file.text.contains("pub struct If {\n    stage_0: ::layercast_ilp::stages::Safer,\n    stage_1: ::layercast_ilp::stages::Checksum,"));
}

#[test]
fn everything_that_is_wrong_is_told_with_its_line() {
    let told = |text: &str| -> Vec<String> {
        let faults = parse(text).expect_err("it is wrong");
        faults.iter().map(ToString::to_string).collect()
    };
    let has = |text: &str, wanted: &str| {
        let told = told(text);
        assert!(
            told.iter().any(|it| it.contains(wanted)),
            "{wanted}: {told:?}"
        );
    };
    has("", "0 blocks are POSITION=TOP");
    has(
        "LENGTH=4",
        "line 1: LENGTH: it stands before the first [NAME]",
    );
    has(
        &PAPER.replace("POSITION=TOP", "POSITION=MIDDLE"),
        "wanted is TOP or BOTTOM",
    );
    has(
        &PAPER.replace("POSITION=TOP", "POSITION=BOTTOM"),
        "2 blocks are POSITION=BOTTOM",
    );
    has(
        &PAPER.replace("NEXT=CHECKSUM", "NEXT=SUM"),
        "line 14: NEXT: there is no block [SUM]",
    );
    has(
        &PAPER.replace("NEXT=CHECKSUM", "NEXT=ENCRYPTION"),
        "in a circle at [ENCRYPTION]",
    );
    has(
        &PAPER.replace("NEXT=CHECKSUM\n", ""),
        "[ENCRYPTION] needs the name of the block below",
    );
    has(
        &PAPER.replace("POSITION=BOTTOM", "POSITION=BOTTOM\nNEXT=ENCRYPTION"),
        "nothing is below the bottom",
    );
    has(
        &PAPER.replace("[ENCRYPTION]", "[CHECKSUM]"),
        "there is a block of this name already",
    );
    for length in ["0", "6", "260", "many", "-4"] {
        has(
            &PAPER.replace("LENGTH=8", &format!("LENGTH={length}")),
            "a multiple of 4 octets up to 256",
        );
    }
    has(&PAPER.replace("LENGTH=8\n", ""), "[ENCRYPTION] has none");
    has(
        &PAPER.replace("LENGTH=8", "LENGTH=16"),
        "saferk64_encrypt takes 8 octets",
    );
    has(
        &PAPER.replace("LENGTH=8", "WIDTH=8"),
        "line 15: WIDTH: wanted is one of POSITION",
    );
    // A keyword that is misspelt is one fault, and no keyword is missing for it.
    let typo = told(&PAPER.replace("POSITION=TOP", "POSTION=TOP"));
    assert_eq!(typo.len(), 1, "{typo:?}");
    assert!(
        typo[0].starts_with("line ") && typo[0].ends_with("POSTION: did you mean POSITION?"),
        "{typo:?}"
    );
    // Each fault of a place has a line.
    let twice = told(&PAPER.replace("POSITION=TOP", "POSITION=BOTTOM"));
    assert!(twice.iter().all(|it| it.starts_with("line ")), "{twice:?}");
    has(
        &PAPER.replace("(u_int, xsum, 0)", "(struct x, xsum)"),
        "a scalar or a pointer to one",
    );
    has(
        &PAPER.replace("FINAL_S=(TCP_xsum_final(xsum))", "FINAL_S=(f(key))"),
        "key is no RESULT of [CHECKSUM]",
    );
    has(
        &PAPER.replace("_S=tcp_checksum", "_S=rot13"),
        "rot13 is not in the library",
    );
    has(
        &PAPER.replace("saferk64_decrypt", "saferk64_encrypt"),
        "does not undo",
    );
    has(
        &PAPER.replace("VARIABLE=(char*, key)\n", ""),
        "takes char*, u_int*, u_int*",
    );
    has(
        &PAPER.replace("u_int*, logtab", "u_int*, xsum"),
        "[ENCRYPTION] and [CHECKSUM] have one of this name each",
    );
    // All together.
    let many = told(
        &PAPER
            .replace("LENGTH=8", "LENGTH=6")
            .replace("FINAL_R=(TCP", "FINAL_R=TCP"),
    );
    assert_eq!(many.len(), 2, "{many:?}");
}

#[test]
fn functions_that_the_header_does_not_declare_are_named() {
    let config = parse(PAPER).expect("right");
    assert_eq!(undeclared(&config), []);
    let other = PAPER
        .replace("INIT=saferk64_ilp_init", "INIT=saferk64_init")
        .replace("FINAL_R=(TCP_xsum_final(xsum))", "FINAL_R=(mine(xsum))");
    let found = undeclared(&parse(&other).expect("a program may have its own"));
    let said: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    let has = |keyword: &str, end: &str| {
        let mut lines = said.iter();
        lines.any(|it| it.contains(keyword) && it.ends_with(end))
    };
    assert!(has("INIT", "did you mean saferk64_ilp_init?"), "{said:?}");
    assert!(has("FINAL_R", "the program must have it"), "{said:?}");
}

#[test]
fn names_that_the_emitted_code_cannot_have_are_refused() {
    let with = |name: &str, function: &str| {
        let text = checksum_only();
        assert!(
            text.contains("xsum") && text.contains("TCP_xsum_final"),
            "{text}"
        );
        parse(
            &text
                .replace("TCP_xsum_final(xsum)", &format!("{function}({name})"))
                .replace("xsum, 0", &format!("{name}, 0")),
        )
    };
    assert!(with("sum", "end").is_ok());
    for (name, why) in [
        ("double", "a keyword of C"),
        ("register", "a keyword of C"),
        ("dst", "a name of the emitted code"),
        ("buffer0", "a name of the emitted code"),
    ] {
        for faults in [with(name, "end"), with("sum", name)] {
            let faults = faults.expect_err(name);
            assert!(
                faults.iter().any(|it| it.problem.contains(why)),
                "{name}: {faults:?}"
            );
        }
    }
    let config = parse(&checksum_only()).expect("one block");
    let error = emit_c(&config, "common").expect_err("its own header");
    assert!(error.contains("overwrite common_ilp.h"), "{error}");
}
