//! Flows whose levels are whole renditions: what is given on the command line, and what is printed of them.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bytes::Bytes;
use layercast_core::Rate;
use layercast_media::{
    Clip, MediaError, Rendition, RenditionSummary, StoredRenditions, Way, renditions_of,
};
use layercast_net::LiveFrom;

use crate::failure::Failure;
use crate::input;
use crate::live::Input;
use crate::output::Table;
use crate::scheme;
use crate::units;

/// Most renditions of a flow, and least.
const MOST: usize = 3;
const LEAST: usize = 2;
/// Rows of a picture that are encoded.
const ROWS: std::ops::RangeInclusive<u32> = 32..=4_320;

/// What the option `--renditions` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Renditions {
    /// The programs of the input are renditions.
    Programs,
    /// They are encoded.
    Encoded(Vec<Wanted>),
}

/// A rendition that is to be encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its rows.
    pub height: u32,
    /// The rate of its video.
    pub rate: Rate,
}

/// Reads `programs`, or a list such as `180p:300k,360p:900k,720p:2500k`.
pub fn parse(text: &str) -> Result<Renditions, String> {
    if text == "programs" {
        return Ok(Renditions::Programs);
    }
    let mut all: Vec<Wanted> = Vec::new();
    for (index, item) in text.split(',').enumerate() {
        let at = format!("rendition {} ({item})", index + 1);
        let wanted = wanted(item).map_err(|problem| format!("{at}: {problem}"))?;
        if let Some(last) = all.last().filter(|last| wanted.rate <= last.rate) {
            return Err(format!(
                "{at}: its rate is not above the {} of the one before; give them from the lowest to the highest",
                last.rate
            ));
        }
        if let Some(last) = all.last().filter(|last| wanted.height < last.height) {
            return Err(format!(
                "{at}: it has fewer rows than the {}p of the one before; give them from the lowest to the highest",
                last.height
            ));
        }
        all.push(wanted);
    }
    match all.len() {
        LEAST..=MOST => Ok(Renditions::Encoded(all)),
        count => Err(format!(
            "{count} given: a flow has 2 or 3 renditions, such as 180p:300k,360p:900k,720p:2500k"
        )),
    }
}

fn wanted(item: &str) -> Result<Wanted, String> {
    let form = "expected ROWSp:RATE, such as 360p:900k, or programs";
    let (rows, rate) = item.split_once(':').ok_or(form)?;
    let rows = rows.strip_suffix('p').ok_or(form)?;
    let height: u32 = rows.parse().map_err(|_| form.to_owned())?;
    if !ROWS.contains(&height) || !height.is_multiple_of(2) {
        let (least, most) = (ROWS.start(), ROWS.end());
        return Err(format!(
            "{height} rows are no even number from {least} to {most}"
        ));
    }
    let rate = units::short_rate(rate).map_err(|problem| format!("its rate: {problem}"))?;
    match rate.as_bps() {
        0..10_000 => Err(format!("{rate} is less than 10 kbit/s")),
        _ => Ok(Wanted { height, rate }),
    }
}

/// What ffmpeg is to make of its input, behind `-i INPUT`: all renditions from one decoder, as programs of a transport
/// stream on standard output. Sound is encoded once.
///
/// Key frames come at whole seconds of the media and nowhere else, and the small buffer keeps them small. `veryfast` with
/// one reference encodes up to 720 rows in half a core.
pub fn encoding(all: &[Wanted]) -> Vec<OsString> {
    let mut args: Vec<String> = Vec::new();
    let split: String = (0..all.len()).map(|index| format!("[s{index}]")).collect();
    let mut graph = format!("[0:v:0]split={}{split}", all.len());
    for (index, wanted) in all.iter().enumerate() {
        graph.push_str(&format!(
            ";[s{index}]scale=-2:{},format=yuv420p[v{index}]",
            wanted.height
        ));
    }
    let mut put = |words: &[&str]| args.extend(words.iter().map(|it| (*it).to_owned()));
    put(&["-filter_complex", &graph]);
    for index in 0..all.len() {
        put(&["-map", &format!("[v{index}]")]);
    }
    put(&["-map", "0:a:0?", "-c:a", "aac", "-b:a", "96k", "-ac", "2"]);
    put(&[
        "-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-refs", "1",
    ]);
    put(&["-g", "1000", "-force_key_frames", "expr:gte(t,n_forced*1)"]);
    put(&[
        "-x264-params",
        // Without a pyramid `frame_num` shows a lost reference picture in more cases.
        "scenecut=0:open-gop=0:b-adapt=0:b-pyramid=none:rc-lookahead=10:ipratio=1.1",
    ]);
    for (index, wanted) in all.iter().enumerate() {
        let rate = wanted.rate.as_bps();
        let rate_of = |name: &str| format!("{name}:v:{index}");
        put(&[&rate_of("-b"), &rate.to_string()]);
        put(&[&rate_of("-maxrate"), &rate.to_string()]);
        put(&[&rate_of("-bufsize"), &(rate * 3 / 10).to_string()]);
    }
    for index in 0..all.len() {
        let sound = match index {
            0 => format!(":st={}", all.len()),
            _ => String::new(),
        };
        let program = format!("program_num={}:st={index}{sound}", index + 1);
        put(&["-program", &program]);
    }
    put(&[
        "-flush_packets",
        "1",
        "-muxdelay",
        "0.1",
        "-muxpreload",
        "0",
    ]);
    put(&["-f", "mpegts", "pipe:1"]);
    args.into_iter().map(OsString::from).collect()
}

/// Opens the inputs whose programs are renditions, or which are one each.
///
/// # Errors
/// One cannot be opened; some are live and others not; they are no renditions of one flow.
pub fn open(
    paths: &[&Path],
    open: impl Fn(&Path) -> Result<Input, Failure>,
) -> Result<Input, Failure> {
    check_distinct(paths)?;
    let is_live = |path: &&&Path| input::is_stream(path) || scheme::is_url(path);
    let live = paths.iter().filter(is_live).count();
    if live == 0 {
        return Ok(Input::Renditions(Box::new(stored(paths)?)));
    }
    if live < paths.len() {
        return Err(Failure::Usage(
            "renditions are all files or all live: --rendition names another kind of input than the first".into(),
        ));
    }
    let mut all = Vec::new();
    for path in paths {
        match open(path)? {
            Input::Live(from, through) if through.is_none() || paths.len() == 1 => {
                all.push((from, through));
            }
            Input::Live(..) => {
                let what = format!(
                    "{}: of several renditions none comes through ffmpeg; put them into one transport stream as programs",
                    path.display()
                );
                return Err(Failure::new(what).hint(
                    "ffmpeg -i A -i B -map 0 -map 1 -c copy -program program_num=1:st=0:st=1 -program program_num=2:st=2 -f mpegts ..",
                ));
            }
            _ => {
                let what = format!(
                    "{}: a rendition is a transport stream, and this is none",
                    path.display()
                );
                return Err(Failure::new(what));
            }
        }
    }
    Ok(match all.len() {
        1 => {
            let (from, through) = all.swap_remove(0);
            Input::Live(from, through)
        }
        _ => {
            let all = all.into_iter().map(|(from, _)| from).collect();
            Input::Live(LiveFrom::Several(all), None)
        }
    })
}

/// Refuses an input that is given twice, by whatever name: renditions differ.
fn check_distinct(paths: &[&Path]) -> Result<(), Failure> {
    let identity = |path: &Path| path.metadata().ok().map(|it| (it.dev(), it.ino()));
    for (index, path) in paths.iter().enumerate() {
        let is_same = |before: &&&Path| {
            let (one, other) = (identity(before), identity(path));
            *before == path || one.is_some() && one == other
        };
        if let Some(before) = paths[..index].iter().find(is_same) {
            return Err(Failure::Usage(format!(
                "{} and {} are the same input, and renditions differ: give each rendition once",
                before.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// Reads stored renditions.
///
/// # Errors
/// A file cannot be read, or they are no renditions of one flow.
pub fn stored(paths: &[&Path]) -> Result<StoredRenditions, Failure> {
    check_distinct(paths)?;
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let names = names.join(", ");
    let failed = |error: MediaError| match error {
        // No transport stream carries it as it is.
        MediaError::Foreign { remedy, .. } if remedy.way() == Way::Ivf => {
            let codec = remedy.codec.unwrap_or("of another codec");
            Failure::new(format!(
                "{names}: a rendition is MPEG-TS with H.264, H.265 or MPEG-2, and the video of one of these is {codec}"
            ))
            .hint(
                "encode each rendition, with key frames at common times: ffmpeg -i FILE -c:v libx264 -g 25 -sc_threshold 0 \
                 -c:a aac -f mpegts CLIP.ts",
            )
        }
        error => Failure::new(format!("{names}: {error}")),
    };
    parsed(paths)?.map_err(failed)
}

/// The same; what is wrong with what was read is no failure.
///
/// # Errors
/// A file cannot be read.
pub fn parsed(paths: &[&Path]) -> Result<Result<StoredRenditions, MediaError>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        files.push(Bytes::from(input::read(path, false)?));
    }
    Ok(Clip::of_renditions(&files))
}

/// The renditions of a clip as a table.
pub fn table(summaries: &[RenditionSummary]) -> String {
    let mut table = Table::new(&[
        "level",
        "rendition",
        "size",
        "frames/s",
        "mean Mbit/s",
        "key frame",
        "common key frames",
    ]);
    for it in summaries {
        let size = match (it.width, it.height) {
            (0, _) | (_, 0) => "-".to_owned(),
            (width, height) => format!("{width}x{height}"),
        };
        table.row([
            it.level.clone(),
            it.source.clone(),
            size,
            format!("{:.2}", it.fps),
            format!("{:.3}", it.mean_bps.as_bps() as f64 / 1e6),
            format!("{:.1} pictures", it.key_frame_ratio),
            format!("{} of {}", it.aligned, it.aligned + it.alone),
        ]);
    }
    table.render()
}

/// The renditions of a live flow in words: `BL 320x180 (program 1), ..`.
pub fn in_words(renditions: &[Rendition]) -> String {
    let all = renditions.iter().map(|it| {
        let size = match (it.width, it.height) {
            (0, _) | (_, 0) => String::new(),
            (width, height) => format!(" {width}x{height}"),
        };
        format!("{}{size} ({})", it.layer, it.id)
    });
    all.collect::<Vec<_>>().join(", ")
}

/// The table of stored renditions, and what is to be said of them.
pub fn describe(stored: &StoredRenditions) -> String {
    let notes: String = stored
        .notes
        .iter()
        .map(|note| format!("\n  note: {note}\n"))
        .collect();
    format!("\n{}{notes}", table(&renditions_of(stored)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_given_once_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let [one, link, other] = ["one.ts", "link.ts", "other.ts"].map(|it| folder.path().join(it));
        std::fs::write(&one, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::fs::hard_link(&one, &link).unwrap();
        let (pipe, url) = (Path::new("-"), Path::new("udp://:5000"));
        for twice in [[&one, &one], [&one, &link]] {
            let failure = check_distinct(&[&other, twice[0], twice[1]]).unwrap_err();
            assert_eq!(failure.code(), 2);
            assert!(failure.to_string().contains("the same input"), "{failure}");
            assert!(stored(&[twice[0], twice[1]]).is_err());
        }
        assert!(check_distinct(&[pipe, pipe]).is_err());
        assert!(check_distinct(&[url, url]).is_err());
        assert!(check_distinct(&[&one, &other, pipe, url]).is_ok());
    }

    #[test]
    fn a_rendition_of_a_codec_that_no_transport_stream_carries_is_to_be_encoded() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one.webm", "other.webm"].map(|it| folder.path().join(it));
        let mut webm = b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm".to_vec();
        webm.extend_from_slice(b"\x86\x85V_VP9");
        webm.resize(4_096, 0);
        std::fs::write(&one, &webm).unwrap();
        std::fs::write(&other, &webm).unwrap();
        let failure = stored(&[&one, &other]).map(|_| ()).unwrap_err();
        let said = failure.to_string();
        assert!(said.contains("MPEG-TS") && said.contains("VP9"), "{said}");
        assert!(
            said.contains("-f mpegts") && !said.contains("IVF"),
            "{said}"
        );
    }

    #[test]
    fn a_list_is_read_with_the_place_of_what_is_wrong() {
        let rate = |kbps: u64| Rate::from_bps(kbps * 1_000);
        let wanted = |height, kbps| Wanted {
            height,
            rate: rate(kbps),
        };
        let expected = vec![wanted(180, 300), wanted(360, 900), wanted(720, 2_500)];
        for text in [
            "180p:300k,360p:900k,720p:2500k",
            "180p:300kbit/s,360p:900k,720p:2.5M",
        ] {
            assert_eq!(
                parse(text),
                Ok(Renditions::Encoded(expected.clone())),
                "{text}"
            );
        }
        assert_eq!(parse("programs"), Ok(Renditions::Programs));
        for (text, place, part) in [
            (
                "180p:300k,360x:900k",
                "rendition 2 (360x:900k)",
                "expected ROWSp:RATE",
            ),
            (
                "180p:300k,720p",
                "rendition 2 (720p)",
                "expected ROWSp:RATE",
            ),
            (
                "181p:300k,720p:1M",
                "rendition 1 (181p:300k)",
                "no even number",
            ),
            (
                "180p:9,720p:1M",
                "rendition 1 (180p:9)",
                "less than 10 kbit/s",
            ),
            ("180p:fast,720p:1M", "rendition 1 (180p:fast)", "its rate"),
            (
                "180p:900k,360p:300k",
                "rendition 2 (360p:300k)",
                "not above",
            ),
            (
                "720p:300k,180p:900k",
                "rendition 2 (180p:900k)",
                "fewer rows than the 720p",
            ),
            (
                "180p:300k,360p:600k,240p:900k",
                "rendition 3 (240p:900k)",
                "fewer rows than the 360p",
            ),
            ("180p:300k", "1 given", "2 or 3"),
            ("90p:100k,180p:300k,360p:900k,720p:2M", "4 given", "2 or 3"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(
                problem.contains(place) && problem.contains(part),
                "{text}: {problem}"
            );
        }
    }

    #[test]
    fn each_rendition_is_a_program_of_one_encoder() {
        let Ok(Renditions::Encoded(all)) = parse("180p:300k,720p:2500k") else {
            panic!("a list");
        };
        let args = encoding(&all);
        let args: Vec<&str> = args.iter().filter_map(|it| it.to_str()).collect();
        let text = args.join(" ");
        for part in [
            "split=2[s0][s1];[s0]scale=-2:180,format=yuv420p[v0];[s1]scale=-2:720",
            "-map [v0] -map [v1] -map 0:a:0?",
            "-maxrate:v:1 2500000 -bufsize:v:1 750000",
            "-program program_num=1:st=0:st=2 -program program_num=2:st=1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
