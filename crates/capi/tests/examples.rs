//! The examples in C, built by the C compiler and run: what the source sends, the sink writes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

// The base layer is whole on a machine in time.
use flaky_test::flaky_test as real_time;

/// Builds an example beside the library of this test; `None` without a C compiler.
fn build(name: &str, folder: &Path) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = folder.join(name);
    let source = here.join("../../examples/c").join(name).with_extension("c");
    let built = Command::new("cc")
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-g",
        ])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover"])
        .arg("-I")
        .arg(here.join("include"))
        .arg(source)
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-llayercast_c")
        .arg("-o")
        .arg(&program)
        .output();
    match built {
        Ok(built) => {
            let messages = String::from_utf8_lossy(&built.stderr);
            assert!(built.status.success(), "cc {name}.c: {messages}");
            Some(program)
        }
        Err(error) if env::var("LAYERCAST_REQUIRE_TOOLS").as_deref() != Ok("1") => {
            println!("skipped: no C compiler ({error})");
            None
        }
        Err(error) => panic!("no C compiler: {error}"),
    }
}

/// Pictures with the start codes of MPEG-1: I P B B, each recognisable.
fn film() -> (Vec<u8>, Vec<Vec<u8>>) {
    let pictures: Vec<Vec<u8>> = (0..96_u8)
        .map(|number| {
            let kind = [1, 2, 3, 3][usize::from(number % 4)];
            let mut picture = match kind {
                1 => vec![0, 0, 1, 0xb3, 0x55, 0, 0, 1, 0xb8, 0x55],
                _ => vec![],
            };
            picture.extend([0, 0, 1, 0, 0, kind << 3]);
            picture.extend([number.max(2); 300]);
            picture
        })
        .collect();
    (pictures.concat(), pictures)
}

fn run(program: &Path, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end, but not forever.
fn end(mut child: Child, name: &str) -> String {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(40) {
            child.kill().unwrap();
            panic!("{name} does not end");
        }
        sleep(Duration::from_millis(20));
    }
    let mut messages = String::new();
    let mut errors = child.stderr.take().unwrap();
    errors.read_to_string(&mut messages).unwrap();
    assert!(child.wait().unwrap().success(), "{name}: {messages}");
    messages
}

/// A film in a file, and its pictures.
fn film_in(folder: &Path) -> (PathBuf, Vec<Vec<u8>>) {
    let (film, pictures) = film();
    let path = folder.join("film.m1v");
    fs::write(&path, film).unwrap();
    (path, pictures)
}

#[test]
fn the_programs_of_the_tutorial_are_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/src/tutorials/embed-c.md")).unwrap();
    let shown = page.split("\n```c\n").skip(1);
    let shown: Vec<&str> = shown.map(|it| it.split("```").next().unwrap()).collect();
    let examples = ["source", "sink"].map(|name| {
        let path = root.join("examples/c").join(name).with_extension("c");
        fs::read_to_string(path).unwrap()
    });
    assert_eq!(shown, examples);
}

#[real_time]
fn a_relay_in_c_sends_what_comes_on_standard_input() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi-relay");
    fs::create_dir_all(&folder).unwrap();
    let (Some(relay), Some(sink)) = (build("relay", &folder), build("sink", &folder)) else {
        return;
    };
    let (path, pictures) = film_in(&folder);
    let mut relay = Command::new(&relay)
        .arg("127.0.0.1:0")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .stdin(fs::File::open(&path).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(relay.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let mut sink = run(&sink, &[url.trim()]);
    let mut received = Vec::new();
    let mut out = sink.stdout.take().unwrap();
    out.read_to_end(&mut received).unwrap();
    assert_eq!(end(relay, "relay"), "");
    end(sink, "sink");
    // A picture is complete when the next one begins, so the last one is not sent.
    let base = pictures[..95].iter().step_by(4);
    let there = |picture: &Vec<u8>| received.windows(picture.len()).any(|at| at == picture);
    let whole: Vec<bool> = base.map(there).collect();
    let first = whole.iter().position(|&there| there).expect("a picture");
    assert!(
        first < 12 && whole[first..].iter().all(|&it| it),
        "{whole:?}"
    );
}

#[real_time]
fn a_sink_in_c_writes_what_a_source_in_c_sends() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    fs::create_dir_all(&folder).unwrap();
    let (Some(source), Some(sink)) = (build("source", &folder), build("sink", &folder)) else {
        return;
    };
    let (path, pictures) = film_in(&folder);
    let mut source = run(&source, &[path.to_str().unwrap(), "127.0.0.1:0"]);
    let mut url = String::new();
    let mut said = BufReader::new(source.stdout.take().unwrap());
    said.read_line(&mut url).unwrap();
    assert!(url.starts_with("layercasts://127.0.0.1:"), "{url}");
    let mut sink = run(&sink, &[url.trim()]);
    let mut received = Vec::new();
    let mut out = sink.stdout.take().unwrap();
    out.read_to_end(&mut received).unwrap();
    let (sent, messages) = (end(source, "source"), end(sink, "sink"));
    assert_eq!(sent, "");
    assert!(messages.contains("alarm on late frames: OK"), "{messages}");
    assert!(messages.contains("then ECLOSED"), "{messages}");
    assert!(messages.contains("LAYER_ADD"), "{messages}");
    // It came a little later than the first picture; from there on the base layer is whole.
    let whole: Vec<bool> = pictures
        .iter()
        .map(|picture| received.windows(picture.len()).any(|at| at == picture))
        .collect();
    let base: Vec<bool> = whole.iter().copied().step_by(4).collect();
    let first = base.iter().position(|&there| there).expect("a picture");
    assert!(first < 12, "{base:?}");
    assert!(base[first..].iter().all(|&there| there), "{base:?}");
    let all: usize = pictures
        .iter()
        .zip(&whole)
        .filter_map(|(picture, there)| there.then_some(picture.len()))
        .sum();
    assert_eq!(all, received.len(), "nothing but whole pictures");
}
