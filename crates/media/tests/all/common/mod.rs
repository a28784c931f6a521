//! What the tests with ffmpeg share.

pub mod mux;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

use layercast_media::LevelSummary;

/// Whether ffmpeg is there; says so once if it is not.
pub fn have_ffmpeg() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| have("ffmpeg", &["-version"]))
}

/// Whether GStreamer with its decoders is there; says so once if it is not.
pub fn have_gstreamer() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let is_there = |element| have("gst-inspect-1.0", &["--exists", element]);
    *FOUND.get_or_init(|| {
        ["tsdemux", "avdec_h264", "checksumsink"]
            .into_iter()
            .all(is_there)
    })
}

/// Whether a program runs to its end with these arguments.
fn have(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    let found = output.is_ok_and(|output| output.status.success());
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    let what = format!("{program} {}", args.join(" "));
    assert!(found || !required, "{what} is required and fails");
    if !found {
        eprintln!("skipped: {what} fails");
    }
    found
}

/// The clip of `make clips`, if it and ffmpeg are there; says so if they are not.
pub fn film() -> Option<PathBuf> {
    if !have_ffmpeg() {
        return None;
    }
    let film = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/demo/clip.m1v");
    if film.exists() {
        return Some(film);
    }
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "target/demo/clip.m1v is missing (make clips)");
    eprintln!("skipped: target/demo/clip.m1v is missing (make clips)");
    None
}

/// Whether all encoders and maps are to be tried (`LAYERCAST_LONG=1`).
pub fn is_long() -> bool {
    std::env::var("LAYERCAST_LONG").is_ok_and(|value| value == "1")
}

/// Whether an encoder is to be tried: one that always is, each of a long run, or the one of `LAYERCAST_ENCODER` alone.
pub fn is_wanted(name: &str, quick: bool) -> bool {
    let only = std::env::var("LAYERCAST_ENCODER").ok();
    (is_long() || quick) && only.is_none_or(|only| only == name)
}

/// The levels as the reference page has them: `70 % at 8.9`.
pub fn shares(levels: &[LevelSummary]) -> String {
    let of = |it: &LevelSummary| format!("{:.0} % at {:.1}", it.share_percent, it.fps);
    levels.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The file that one test writes: tests run at the same time, and one must not read what another is writing. Several tests that
/// need the same file make it in [`once`].
///
/// # Panics
///
/// Another test writes the file.
pub fn file(name: &str) -> PathBuf {
    static WRITERS: Mutex<BTreeMap<String, ThreadId>> = Mutex::new(BTreeMap::new());
    let this = std::thread::current().id();
    let mut writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    let writer = *writers.entry(name.to_owned()).or_insert(this);
    drop(writers);
    assert!(writer == this, "another test writes the file {name}");
    made(name)
}

/// A file that [`once`] has made.
pub fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// What `make` gives, made once for a `name`.
pub fn once(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    static KNOWN: Memory<String, Vec<u8>> = Mutex::new(BTreeMap::new());
    known(&KNOWN, name.to_owned(), make)
}

/// What was made before, by what it was made of.
type Memory<K, V> = Mutex<BTreeMap<K, Arc<OnceLock<V>>>>;

fn known<K: Ord, V: Clone>(memory: &Memory<K, V>, key: K, make: impl FnOnce() -> V) -> V {
    let mut all = memory.lock().unwrap_or_else(PoisonError::into_inner);
    let one = Arc::clone(all.entry(key).or_default());
    drop(all);
    one.get_or_init(make).clone()
}

/// Encodes a moving test picture at 25 frames/s into the file `name`.
///
/// Always the same one: what an encoder makes of a clip must not hang on whether `make clips` has run.
pub fn encode(name: &str, options: &str) -> Vec<u8> {
    once(&format!("{name}: {options}"), || {
        let path = file(name);
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-y", "-v", "error"]);
        command.args(["-f", "lavfi", "-i", "testsrc2=rate=25"]);
        command.args(["-r", "25", "-threads", "1"]);
        let status = command.args(options.split_whitespace()).arg(&path).status();
        assert!(status.expect("ffmpeg starts").success());
        std::fs::read(&path).expect("ffmpeg wrote the clip")
    })
}

/// The checksum of each decoded picture of the first video stream, in display order; decoding must not
/// print anything. `format` is ffmpeg's name of the container.
pub fn decode(format: &str, stream: &[u8]) -> Vec<String> {
    let (pictures, said) = run_decoder(format, stream);
    assert!(said.is_empty(), "{said}");
    pictures
}

/// The same, whatever the decoder has to say.
#[allow(dead_code, reason = "not every test file needs it")]
pub fn decode_anyway(format: &str, stream: &[u8]) -> Vec<String> {
    run_decoder(format, stream).0
}

fn run_decoder(format: &str, stream: &[u8]) -> (Vec<String>, String) {
    let arguments = [
        "-map",
        "0:v",
        "-fps_mode",
        "passthrough",
        "-f",
        "framemd5",
        "-",
    ];
    let (text, said) = run(format, stream, &arguments);
    (sums(&text), said)
}

/// What ffmpeg writes and says about a stream.
fn run(format: &str, stream: &[u8], arguments: &[&str]) -> (String, String) {
    let (bytes, said) = run_bytes(format, stream, arguments);
    (String::from_utf8_lossy(&bytes).into_owned(), said)
}

/// The same stream with the same arguments is given to ffmpeg once, since its start alone takes 70 ms.
fn run_bytes(format: &str, stream: &[u8], arguments: &[&str]) -> (Vec<u8>, String) {
    static KNOWN: Memory<u64, (Vec<u8>, String)> = Mutex::new(BTreeMap::new());
    let mut hasher = DefaultHasher::new();
    (format, stream, arguments).hash(&mut hasher);
    known(&KNOWN, hasher.finish(), || {
        run_bytes_again(format, stream, arguments)
    })
}

fn run_bytes_again(format: &str, stream: &[u8], arguments: &[&str]) -> (Vec<u8>, String) {
    let mut child = Command::new("ffmpeg")
        .args(["-v", "warning", "-f", format, "-i", "pipe:0"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let bytes = stream.to_vec();
    let feeding = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().expect("ffmpeg ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    feeding
        .join()
        .expect("a thread")
        .expect("ffmpeg read it all");
    (output.stdout, said)
}

fn sums(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit(' ').next().unwrap_or_default().to_string())
        .collect()
}

/// The checksums of one stream, e.g. `0:a`.
#[allow(dead_code, reason = "not every test file needs it")]
pub fn decode_stream(format: &str, stream: &[u8], map: &str) -> Vec<String> {
    let lines = run(format, stream, &["-map", map, "-f", "framemd5", "-"]);
    assert!(lines.1.is_empty(), "{}", lines.1);
    sums(&lines.0)
}

/// The SHA-256 of each decoded picture of the first video stream, in display order; decoding must not print anything.
pub fn decode_sha256(format: &str, stream: &[u8]) -> Vec<String> {
    decode_sha256_of(format, stream, "0:v")
}

/// The same of one stream, e.g. `0:v:1`.
pub fn decode_sha256_of(format: &str, stream: &[u8], map: &str) -> Vec<String> {
    let arguments = [
        "-map",
        map,
        "-fps_mode",
        "passthrough",
        "-pix_fmt",
        "yuv420p",
        "-f",
        "framehash",
        "-hash",
        "sha256",
        "-",
    ];
    let (text, said) = run(format, stream, &arguments);
    assert!(said.is_empty(), "{said}");
    sums(&text)
}

/// The video of a transport stream without a container.
pub fn elementary(stream: &[u8], format: &str) -> Vec<u8> {
    let arguments = ["-map", "0:v", "-c", "copy", "-f", format, "-"];
    let (bytes, said) = run_bytes("mpegts", stream, &arguments);
    assert!(said.is_empty(), "{said}");
    bytes
}

/// The checksum of each decoded picture of the first video stream by its presentation time, in ticks of 90 kHz; decoding must
/// not print anything.
#[allow(dead_code, reason = "not every test file needs it")]
pub fn decode_timed(format: &str, stream: &[u8]) -> Vec<(i64, String)> {
    let (text, said) = run(format, stream, &TIMED);
    assert!(said.is_empty(), "{said}");
    times_of(&text).into_iter().zip(sums(&text)).collect()
}

const TIMED: [&str; 10] = [
    "-map",
    "0:v",
    "-fps_mode",
    "passthrough",
    "-copyts",
    "-enc_time_base",
    "1:90000",
    "-f",
    "framemd5",
    "-",
];

/// Presentation times of the pictures, in ticks of 90 kHz.
#[allow(dead_code, reason = "not every test file needs it")]
pub fn times(format: &str, stream: &[u8]) -> Vec<i64> {
    let (text, _) = run(format, stream, &TIMED);
    times_of(&text)
}

fn times_of(text: &str) -> Vec<i64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split(',').nth(2)?.trim().parse().ok())
        .collect()
}
