//! The README shows what the documentation of this crate runs.

use std::fs;
use std::path::Path;

fn blocks<'a>(lines: impl Iterator<Item = &'a str>, begin: &str) -> Vec<Vec<&'a str>> {
    let mut blocks = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in lines {
        match &mut open {
            Some(_) if line.starts_with("```") => blocks.extend(open.take()),
            Some(block) => block.push(line),
            None if line == begin => open = Some(Vec::new()),
            None => {}
        }
    }
    blocks
}

#[test]
fn its_five_lines_are_the_doc_tests() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(here.join("../../README.md")).unwrap();
    let source = fs::read_to_string(here.join("src/lib.rs")).unwrap();
    let comments = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let run: Vec<Vec<&str>> = blocks(comments.map(|it| it.strip_prefix(' ').unwrap_or(it)), "```")
        .into_iter()
        .map(|block| {
            let shown = block.into_iter().filter(|line| !line.starts_with("# "));
            shown.collect()
        })
        .collect();
    let shown = blocks(readme.lines(), "```rust");
    assert_eq!(shown.len(), 2);
    for block in shown {
        assert!(block.len() <= 5, "{block:#?}");
        assert!(run.contains(&block), "{block:#?} is none of {run:#?}");
    }
}

#[test]
fn the_programs_of_the_manual_are_the_examples() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manual = fs::read_to_string(here.join("../../docs/src/reference/api.md")).unwrap();
    let shown: Vec<String> = blocks(manual.lines(), "```rust")
        .into_iter()
        .map(|block| block.join("\n") + "\n")
        .collect();
    let run = ["source", "sink"].map(|name| {
        let path = here.join("examples").join(name).with_extension("rs");
        fs::read_to_string(path).unwrap()
    });
    assert_eq!(shown, run);
}
