//! Chromium's WebCodecs as the judge: each level of each map of H.264 and AV1, and renditions behind their changes, in frames
//! that are those of ffmpeg's decode of the whole stream.
//!
//! `make test-browser` runs it; `make test` has no browser. Each access unit is an `EncodedVideoChunk` whose time stamp is the
//! place of the frame in the clip. Of the whole stream Chromium shows the frames of ffmpeg, in their order, so the time stamp
//! of each is known; of a level it shows the frame of the same time stamp. Frames are compared by the SHA-256 of their samples.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::{Level, PerLayer, Serial, Time};
use layercast_media::{Clip, FlowWriter, Map, OutputForm, Received};
use serde_json::{Value, json};

use crate::common::{self, film, shares};
use crate::{codecs, maps, renditions, temporal};

const PAGE: &str = include_str!("../browser/page.html");
/// Profiles and levels that hold all the streams.
const H264: &str = "avc1.640028";
const AV1: &str = "av01.0.04M.08";
const LEVELS: [Level; 3] = [Level::BASE, Level::E1, Level::FULL];
/// How long the browser may take for one stream.
const PATIENCE: Duration = Duration::from_secs(120);

/// A chunk: whether a decoder may start at it, its time stamp, and its bytes.
type Chunk = (bool, usize, Vec<u8>);
/// The frames that the browser shows: time stamp, size and checksum.
type Shown = Vec<(usize, (u64, u64), String)>;

/// A stream for the page, and where its answer goes.
struct Job {
    head: Value,
    bytes: Vec<u8>,
    answer: Sender<Value>,
}

/// Chromium with the page.
struct Browser {
    jobs: Option<Sender<Job>>,
    child: Child,
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers one request of the page.
fn answer(
    stream: &mut TcpStream,
    jobs: &Mutex<Receiver<Job>>,
    running: &Mutex<Option<Job>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let lock = |it: &Mutex<Option<Job>>| it.lock().unwrap_or_else(PoisonError::into_inner).take();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (kind, content) = match &*path {
        "/job" => {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let head = next.as_ref().map_or(Value::Null, |it| it.head.clone());
            *running.lock().unwrap_or_else(PoisonError::into_inner) = next.ok();
            ("application/json", head.to_string().into_bytes())
        }
        "/bytes" => {
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = running.as_ref().map(|it| it.bytes.clone());
            ("application/octet-stream", bytes.unwrap_or_default())
        }
        "/result" => {
            if let Some(job) = lock(running) {
                let result = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let _ = job.answer.send(result);
            }
            ("text/plain", Vec::new())
        }
        "/" => ("text/html", PAGE.as_bytes().to_vec()),
        _ => ("text/plain", Vec::new()),
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    )?;
    stream.write_all(&content)
}

impl Browser {
    /// Starts it, without a window; `profile` names its folder.
    fn start(profile: &str) -> Browser {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (jobs, queue) = channel();
        let (queue, running) = (Arc::new(Mutex::new(queue)), Arc::new(Mutex::new(None)));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (queue, running) = (Arc::clone(&queue), Arc::clone(&running));
                thread::spawn(move || drop(answer(&mut stream, &queue, &running)));
            }
        });
        let profile = common::file(profile);
        let _ = std::fs::remove_dir_all(&profile);
        let child = Command::new("chromium")
            .args(
                "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage"
                    .split(' '),
            )
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("http://127.0.0.1:{port}/"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromium starts (make test-browser installs it)");
        Browser {
            jobs: Some(jobs),
            child,
        }
    }

    /// What it shows of these chunks.
    fn shown(&self, codec: &str, chunks: &[Chunk]) -> Result<Shown, String> {
        let listed: Vec<Value> = chunks
            .iter()
            .map(|(is_key, time, data)| {
                json!([if *is_key { "key" } else { "delta" }, time, data.len()])
            })
            .collect();
        let (answer, heard) = channel();
        let job = Job {
            head: json!({"codec": codec, "chunks": listed}),
            bytes: chunks.iter().flat_map(|it| it.2.clone()).collect(),
            answer,
        };
        let jobs = self.jobs.as_ref().expect("it runs");
        jobs.send(job).expect("it runs");
        let result = heard
            .recv_timeout(PATIENCE)
            .map_err(|_| "no answer".to_owned())?;
        if let Some(failure) = result["failure"].as_str() {
            return Err(failure.to_owned());
        }
        let frames = result["frames"].as_array().cloned().unwrap_or_default();
        let of = |it: &Value| {
            let number = |at: usize| it[at].as_u64().unwrap_or(u64::MAX);
            let sum = it[4].as_str().unwrap_or_default().to_owned();
            (number(0) as usize, (number(1), number(2)), sum)
        };
        Ok(frames.iter().map(of).collect())
    }
}

/// What a receiver writes of a clip: a chunk for each frame.
fn chunks(clip: &Clip, form: OutputForm, level_of: impl Fn(usize) -> Level) -> Vec<Chunk> {
    let mut writer = FlowWriter::new(clip.info.codec, clip.info.frame_rate, form);
    let (mut gop, mut level) = (0, level_of(0));
    let (mut missing, mut chunks, mut ends) = (PerLayer::default(), Vec::new(), Vec::new());
    for (index, frame) in clip.frames.iter().enumerate() {
        if frame.gop_start {
            level = level_of(gop);
            gop += 1;
        }
        if !level.includes(frame.layer()) {
            missing[frame.layer()] += 1;
            continue;
        }
        let received = Received {
            seq: Serial(index as u32),
            layer: frame.layer(),
            gop_start: frame.gop_start,
            sound: false,
            missing: std::mem::take(&mut missing),
            emitted: Time::ZERO + clip.info.frame_rate.due(index as u64),
            data: frame.data.as_ref().expect("a real clip"),
        };
        let mut data = Vec::new();
        writer.frame(&received, &mut data, &mut ends);
        if !data.is_empty() {
            chunks.push((frame.gop_start, index, data));
        }
    }
    chunks
}

/// The checksums of the frames that ffmpeg decodes, in the order of their display.
fn by_ffmpeg(format: &str, data: &[u8]) -> Vec<String> {
    common::decode_sha256(format, data)
}

/// The verdict on one stream with one map: its levels, or what is wrong.
fn judged(
    browser: &Browser,
    data: &[u8],
    (format, codec): (&str, &str),
    map: Map,
) -> Result<String, String> {
    let clip =
        Clip::of_program(Bytes::copy_from_slice(data), None, map).map_err(|it| it.to_string())?;
    let form = if format == "h264" {
        OutputForm::Native
    } else {
        OutputForm::Obu
    };
    let expected = by_ffmpeg(format, data);
    let whole = browser.shown(codec, &chunks(&clip, form, |_| Level::FULL))?;
    let sums: Vec<&String> = whole.iter().map(|it| &it.2).collect();
    if sums != expected.iter().collect::<Vec<_>>() {
        let equal = sums
            .iter()
            .zip(&expected)
            .filter(|it| *it.0 == it.1)
            .count();
        return Err(format!(
            "of the whole stream {equal} of {} frames are those of ffmpeg, which has {}",
            sums.len(),
            expected.len()
        ));
    }
    let known: BTreeMap<usize, &String> = whole.iter().map(|it| (it.0, &it.2)).collect();
    let changing = |gop: usize| LEVELS[[2, 0, 1, 2, 0, 2, 1, 0][gop % 8]];
    let ways: [(&str, &dyn Fn(usize) -> Level); 3] = [
        ("BL", &|_| Level::BASE),
        ("BL+E1", &|_| Level::E1),
        ("levels that change", &changing),
    ];
    for (name, level_of) in ways {
        let chunks = chunks(&clip, form, level_of);
        let found = browser
            .shown(codec, &chunks)
            .map_err(|it| format!("{name}: {it}"))?;
        let wrong = found
            .iter()
            .filter(|it| known.get(&it.0) != Some(&&it.2))
            .count();
        if wrong > 0 || found.len() != chunks.len() {
            return Err(format!(
                "{name}: {} frames of {} chunks, {wrong} of them others than those of the whole stream",
                found.len(),
                chunks.len()
            ));
        }
    }
    Ok(shares(&clip.levels()))
}

/// Prints a row of the table of the reference, and keeps what is wrong.
fn row(wrong: &mut Vec<String>, name: &str, map: Map, verdict: &Result<String, String>) {
    match verdict {
        Ok(shares) => println!("| {name} | `{map}` | {shares} | identical |"),
        Err(why) => {
            println!("| {name} | `{map}` | - | {why} |");
            wrong.push(format!("{name} {map}: {why}"));
        }
    }
}

#[test]
#[ignore = "needs Chromium: make test-browser"]
fn chromium_shows_each_level_as_ffmpeg_shows_the_whole_stream() {
    let Some(film) = film() else { return };
    let browser = Browser::start("browser-levels");
    let mut wrong = Vec::new();
    for encoder in maps::ENCODERS
        .iter()
        .filter(|it| it.options.contains("libx264"))
    {
        if !is_chosen(encoder.name, encoder.options) {
            continue;
        }
        let data = common::elementary(&maps::encoded(&film, encoder), "h264");
        for map in [Map::Auto, Map::Ipb] {
            // The key frames alone of open GOPs have gaps in frame_num.
            if map == Map::Ipb && encoder.name.contains("open") {
                continue;
            }
            let verdict = judged(&browser, &data, ("h264", H264), map);
            row(&mut wrong, encoder.name, map, &verdict);
        }
    }
    for encoder in codecs::ENCODERS
        .iter()
        .filter(|it| it.options.contains("av1"))
    {
        if !is_chosen(encoder.name, encoder.options) {
            continue;
        }
        let data = codecs::encoded(encoder);
        for map in [Map::Auto, Map::Ipb] {
            let verdict = judged(&browser, &data, (encoder.format, AV1), map);
            row(&mut wrong, encoder.name, map, &verdict);
        }
    }
    for encoder in temporal::ENCODERS
        .iter()
        .filter(|it| is_chosen(it.name, ""))
    {
        let codec = match encoder.format {
            "h264" => H264,
            _ => AV1,
        };
        if let Some(data) = temporal::encoded(encoder) {
            let verdict = judged(&browser, &data, (encoder.format, codec), Map::Temporal);
            row(&mut wrong, encoder.name, Map::Temporal, &verdict);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Frames of 8 bits with 4:2:0 alone are compared. `LAYERCAST_ENCODER` names one encoder.
fn is_chosen(name: &str, options: &str) -> bool {
    let is_named = std::env::var("LAYERCAST_ENCODER").map_or(true, |only| only == name);
    is_named && !options.contains("-pix_fmt")
}

#[test]
#[ignore = "needs Chromium: make test-browser"]
fn chromium_shows_each_frame_of_renditions_that_change_fourteen_times() {
    let browser = Browser::start("browser-renditions");
    let (whole, path, _) = renditions::switched("renditions-browser");
    let written = common::elementary(&std::fs::read(path).expect("it"), "h264");
    let clip = Clip::parse(Bytes::from(written)).expect("a clip");
    let chunks = chunks(&clip, OutputForm::Native, |_| Level::FULL);
    let found = browser.shown(H264, &chunks).expect("frames");
    let whole = std::fs::read(whole).expect("it");
    let programs =
        [0, 1, 2].map(|index| common::decode_sha256_of("mpegts", &whole, &format!("0:v:{index}")));
    let expected = renditions::by_level(&programs);
    assert_eq!(found.len(), 500);
    let same = found
        .iter()
        .zip(&expected)
        .filter(|it| it.0.2 == *it.1)
        .count();
    assert_eq!(same, 500);
    let sizes: std::collections::BTreeSet<(u64, u64)> = found.iter().map(|it| it.1).collect();
    println!("| renditions of {sizes:?}, 14 changes in 20 s | - | 500 frames | identical |");
    assert_eq!(sizes.len(), 3);
}
