//! `layercast probe`: what is in a clip.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use layercast_core::{CellRate, Composition, FlowSpec, FrameRate, Layer, Media, Rate};
use layercast_media::{
    Advice, Clip, Container, DataSummary, Map, Picture, StoredRenditions, Summary, VideoCodec,
};

use crate::args::{self, Via};
use crate::classes;
use crate::failure::{Failure, Outcome};
use crate::ffmpeg::file;
use crate::input;
use crate::output::{Table, count, print, print_json};
use crate::renditions;
use crate::scheme;
use crate::signals;

/// Bytes in which the tables of a transport stream are looked for.
const SNIFF: u64 = 1 << 20;
/// Frames per second of a trace, which names none: that of the film clips of specs/mets.md 3.2.
const TRACE_RATE: FrameRate = FrameRate { num: 24, den: 1 };

/// Runs the command.
pub fn run(args: &args::Probe) -> Outcome {
    signals::exit_on_first()?;
    // What is fetched is read by ffmpeg.
    if args.reading.via == Via::None || !scheme::is_fetched(&args.file) {
        scheme::check_path(&args.file, scheme::Place::File)?;
    }
    if args.classes {
        return classes::run(args);
    }
    let found = renditions_in(args)?;
    if let Found::Renditions(stored) = &found {
        if args.json {
            return print_json(&stored.summary());
        }
        let how = match args.rendition.is_empty() {
            true => "\n  serve --renditions programs serves them as levels of one flow\n",
            false => "",
        };
        let (name, clip) = (args.file.display(), describe(&stored.clip));
        let table = renditions::describe(stored);
        return print(&format!("{name}\n{clip}{table}{how}"));
    }
    let clip = read_clip(&args.file, args.program, args.reading.map, args.reading.via)?;
    if args.json {
        return print_json(&clip.summary());
    }
    let mut advice = notes(&clip.advice());
    if let Found::Programs(why) = found {
        advice.push_str(&format!(
            "\n  note: several programs have video, and are no renditions: {why}\n"
        ));
    }
    print(&format!(
        "{}\n{}{advice}",
        args.file.display(),
        describe(&clip)
    ))
}

/// Renditions that a clip may have.
enum Found {
    /// They are given, or the programs of the file are.
    Renditions(Box<StoredRenditions>),
    /// The file has several programs that are none: why.
    Programs(String),
    /// A clip of another kind.
    None,
}

/// Looks for renditions.
fn renditions_in(args: &args::Probe) -> Result<Found, Failure> {
    let others = args.rendition.iter().map(|it| it.as_path());
    let all: Vec<&Path> = std::iter::once(args.file.as_path()).chain(others).collect();
    if all.len() > 1 {
        let stored = renditions::stored(&all)?;
        return Ok(Found::Renditions(Box::new(stored)));
    }
    let is_asked_for_one = args.program.is_some() || args.reading.map != Map::Auto;
    if is_asked_for_one || !args.file.is_file() {
        return Ok(Found::None);
    }
    let failed = |error| Failure::file(&args.file, "read", &error);
    let mut first = Vec::new();
    let file = File::open(&args.file).map_err(failed)?;
    file.take(SNIFF).read_to_end(&mut first).map_err(failed)?;
    if layercast_media::video_programs(&first) < 2 {
        return Ok(Found::None);
    }
    Ok(match renditions::parsed(&all)? {
        Ok(stored) => Found::Renditions(Box::new(stored)),
        Err(why) => Found::Programs(why.to_string()),
    })
}

/// What receivers of a stream do not get and what helps, as lines below its table.
pub fn notes(advice: &[Advice]) -> String {
    advice
        .iter()
        .map(|it| match it.is_warning() {
            true => format!("\n  warning: {it}\n"),
            false => format!("\n  note: {it}\n"),
        })
        .collect()
}

/// Reads a clip: MPEG video by its content, a frame-size trace by its name (`.trace`, `.txt`); `-` is
/// standard input. `program` is the one of a transport stream; pictures get layers as `map` says. Files of other forms are
/// read through ffmpeg, if `via` allows that.
pub fn read_clip(path: &Path, program: Option<u16>, map: Map, via: Via) -> Result<Clip, Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_trace = matches!(extension, Some("trace" | "txt"));
    if is_trace && map.needs_references() {
        let problem = map.misfit("a frame-size trace");
        return Err(Failure::new(format!("{}: {problem}", path.display())));
    }
    let bytes = read_bytes(path, is_trace, via)?;
    match (is_trace, std::str::from_utf8(&bytes)) {
        (true, Ok(text)) => {
            Clip::parse_trace(text, TRACE_RATE).map_err(|error| Failure::of(path, error))
        }
        _ => clip_of(path, bytes, program, map),
    }
}

/// The octets of a file; of a form that is not Layercast's own, those of the transport stream that ffmpeg makes of it.
pub fn read_bytes(path: &Path, is_trace: bool, via: Via) -> Result<Vec<u8>, Failure> {
    if is_trace || via == Via::None {
        return input::read(path, is_trace);
    }
    if input::is_stream(path) {
        let (first, rest) = input::begin(path, file::FRONT)?;
        return file::all_of_pipe(path, first, rest, via);
    }
    match file::open(path, via)? {
        file::File::Stored(bytes) => Ok(bytes),
        file::File::Own | file::File::Session(_) => input::read(path, false),
    }
}

/// The clip that `bytes` of the file at `path` are.
pub fn clip_of(
    path: &Path,
    bytes: Vec<u8>,
    program: Option<u16>,
    map: Map,
) -> Result<Clip, Failure> {
    Clip::of_program(bytes.into(), program, map).map_err(|error| Failure::of(path, error))
}

/// What the clip is, and its layers as a table.
pub fn describe(clip: &Clip) -> String {
    let summary = clip.summary();
    let mut text = format!("  {}\n\n", headline(&summary));
    let mut table = Table::new(&[
        "layer",
        "kind",
        "pictures",
        "bytes",
        "mean Mbit/s",
        "peak Mbit/s",
        "mean cells/s",
        "peak cells/s",
    ]);
    let spec = clip.flow_spec();
    for ((layer, cells), rates) in spec.layers.iter().zip(&summary.layers) {
        let mbps = |rate: Rate| format!("{:.3}", rate.as_bps() as f64 / 1e6);
        table.row([
            layer.to_string(),
            kinds(clip, layer),
            pictures_of(&summary, layer, rates.frames).to_string(),
            rates.bytes.to_string(),
            mbps(rates.mean_bps),
            mbps(rates.peak_bps),
            cells.mean.0.to_string(),
            cells.peak.0.to_string(),
        ]);
    }
    text.push_str(&table.render());
    if let Some(data) = &summary.data {
        let where_to = match clip.info.composition {
            Composition::Additive => "BL includes",
            Composition::Alternative => "each level includes",
        };
        text.push_str(&format!("\n  {where_to} {}\n", beside(data)));
        for stream in &data.streams {
            let language = stream.language.as_ref();
            let language = language.map_or_else(String::new, |it| format!(" ({it})"));
            let size = match stream.bytes {
                0 => "listed, and nothing of it came".to_owned(),
                bytes => format!("{:.1} kB", bytes as f64 / 1e3),
            };
            let (pid, kind) = (stream.pid, &stream.kind);
            text.push_str(&format!("    PID {pid}: {kind}{language}, {size}\n"));
        }
    }
    text.push_str(&format!("\n{}", levels(&summary)));
    text.push_str(&key_frame(&spec, summary.key_frame_ratio));
    if let Some(offset) = summary.truncated {
        text.push_str(&format!("\n  {}\n", ends_inside(summary.container, offset)));
    }
    if let Some(told) = damaged(summary.damaged) {
        text.push_str(&format!("\n  {told}\n"));
    }
    text
}

/// That packets of a clip are missing or damaged.
pub fn damaged(pictures: u64) -> Option<String> {
    let told = format!(
        "parts of the file are missing or damaged; receivers leave out {} and what refers to them (remedy: copy the file \
         again from its source)",
        count(pictures, "picture"),
    );
    (pictures > 0).then_some(told)
}

/// That a clip is cut off at its end.
pub fn ends_inside(container: Container, offset: u64) -> String {
    match container {
        Container::MpegTs => format!(
            "the file ends inside a picture or packet that begins at byte {offset}; receivers leave it out"
        ),
        _ => format!("the file ends inside a picture that begins at byte {offset}; it is left out"),
    }
}

/// What is beside the pictures: the tables of a transport stream are neither sound nor data.
fn beside(data: &DataSummary) -> String {
    let kbytes = |bytes: u64| bytes as f64 / 1e3;
    let media = data.bytes.saturating_sub(data.table_bytes);
    let packets = count(data.frames, "packet");
    match (media, data.table_bytes) {
        (0, tables @ 1..) => format!("{packets} of tables (PAT, PMT), {:.1} kB", kbytes(tables)),
        (media, 0) => format!("{packets} of sound and data, {:.1} kB", kbytes(media)),
        (media, tables) => format!(
            "{packets} of sound and data, {:.1} kB, and of tables (PAT, PMT), {:.1} kB",
            kbytes(media),
            kbytes(tables)
        ),
    }
}

/// The kinds of pictures in a layer: `I P`.
fn kinds(clip: &Clip, layer: Layer) -> String {
    let named = [(Picture::I, "I"), (Picture::P, "P"), (Picture::B, "B")];
    let is_there = |kind: Picture| {
        let mut frames = clip.frames.iter();
        frames.any(|it| it.layer() == layer && it.picture == kind)
    };
    let names = named.iter().filter(|(kind, _)| is_there(*kind));
    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => "-".to_owned(),
        false => names.join(" "),
    }
}

/// The pictures of a layer: what else is in the base layer is no picture.
fn pictures_of(summary: &Summary, layer: Layer, frames: u64) -> u64 {
    let data = summary.data.as_ref().map_or(0, |data| data.frames);
    match layer {
        Layer::Base => frames.saturating_sub(data),
        _ => frames,
    }
}

/// What the levels take on a link, as a table.
fn levels(summary: &Summary) -> String {
    let mut table = Table::new(&[
        "level",
        "pictures/s",
        "octets",
        "mean on a link",
        "peak",
        "link to try it",
        "--delay-max",
    ]);
    let least = |ms: u64| match ms {
        0..=1_000 => "1s".to_owned(),
        _ => format!("{:.1}s", ms.div_ceil(100) as f64 / 10.0),
    };
    for level in &summary.levels {
        let none = || "-".to_owned();
        table.row([
            level.name.clone(),
            format!("{:.1}", level.fps),
            format!("{:.0} %", level.share_percent),
            level.mean_bps.to_string(),
            level.peak_bps.to_string(),
            level.limit.clone().unwrap_or_else(none),
            level.delay_max_ms.map_or_else(none, least),
        ]);
    }
    let missing = match summary.levels.iter().any(|level| level.limit.is_none()) {
        true => "\n  -: no link shows this level alone, since the next one takes hardly more\n",
        false => "",
    };
    format!("{}{missing}", table.render())
}

/// What the largest key frame asks of the links: the source takes up to half of the delay bound to send it, and the
/// line of each link some of the rest.
fn key_frame(spec: &FlowSpec, ratio: f64) -> String {
    let burst = spec.layers.base.burst;
    if burst == 0 {
        return String::new();
    }
    // In half a second, the cells of the frame.
    let least = CellRate(burst.saturating_mul(2)).rate();
    let kbytes = f64::from(burst) * 48.0 / 1e3;
    format!(
        "\n  largest key frame {kbytes:.1} kB, {ratio:.1} times a mean picture: links slower than {least} need a serve --delay-max above the default of 1 s\n"
    )
}

fn headline(summary: &Summary) -> String {
    let codec = match summary.codec {
        Media::MpegTs => summary.video.map_or("MPEG-TS", VideoCodec::short),
        Media::Opaque => "frames",
        codec => codec.name(),
    };
    let container = match summary.container {
        Container::MpegEs => "elementary stream",
        Container::MpegPs => "program stream",
        Container::Trace => "frame-size trace",
        Container::H264 | Container::H265 => "byte stream",
        Container::Ivf => "IVF",
        Container::Obu => "OBU stream",
        Container::MpegTs => "transport stream",
        Container::Synthetic => "synthetic",
    };
    let size = match (summary.width, summary.height) {
        (0, _) | (_, 0) => String::new(),
        (width, height) => format!("{width}x{height}, "),
    };
    let pictures = summary.pictures;
    format!(
        "{codec}, {container}, {size}{:.2} frames/s, {} (I {}, P {}, B {}) in {}",
        summary.fps,
        count(pictures.i + pictures.p + pictures.b, "picture"),
        pictures.i,
        pictures.p,
        pictures.b,
        count(summary.gops, "GOP")
    )
}
