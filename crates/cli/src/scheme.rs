//! URLs of protocols that Layercast does not speak: which program bridges them.

use std::path::Path;

use crate::failure::Failure;

/// What a URL or path is given for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The media that a command reads: a file, and live for `serve`.
    Input,
    /// The media that a command writes.
    Output,
    /// A server or switch.
    Node,
    /// A file only.
    File,
}

/// The scheme of a URL, or `None` if the text is none.
pub fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(fine))
        .then_some(scheme)
}

/// The schemes that are taken at a place.
fn taken(place: Place) -> &'static [&'static str] {
    match place {
        Place::Input | Place::Output => &["udp", "rtp"],
        Place::Node => &["layercasts", "layercast", "xtp+daemon"],
        Place::File => &[],
    }
}

/// Whether a text begins as a URL that is taken at a place.
pub fn is_taken(text: &str, place: Place) -> bool {
    scheme(text).is_some_and(|given| taken(place).contains(&given))
}

/// Whether a path is a URL.
pub fn is_url(path: &Path) -> bool {
    path.to_str().and_then(scheme).is_some()
}

/// Whether a path is the URL of a file that is fetched from elsewhere, and ends.
pub fn is_fetched(path: &Path) -> bool {
    let given = path.to_str().and_then(scheme);
    given.is_some_and(|it| matches!(&*it.to_ascii_lowercase(), "http" | "https" | "ftp"))
}

/// Whether a path is a URL that is not taken at a place, however it is written: ffmpeg may know it.
pub fn is_foreign(path: &Path, place: Place) -> bool {
    let given = path.to_str().and_then(scheme);
    given.is_some_and(|it| !taken(place).contains(&&*it.to_ascii_lowercase()))
}

/// Refuses a path that is a URL which `place` does not take.
pub fn check_path(path: &Path, place: Place) -> Result<(), Failure> {
    match path.to_str() {
        Some(text) => check(text, place),
        None => Ok(()),
    }
}

/// Refuses a URL which `place` does not take: names what it takes, and a bridge if there is one.
pub fn check(text: &str, place: Place) -> Result<(), Failure> {
    let Some(given) = scheme(text) else {
        return Ok(());
    };
    let taken = taken(place);
    if taken.contains(&given) {
        return Ok(());
    }
    let lower = given.to_ascii_lowercase();
    if taken.contains(&lower.as_str()) {
        return Err(Failure::Usage(format!(
            "{text:?}: write the scheme in lower case, {lower}://"
        )));
    }
    let accepted = match place {
        Place::Input => "a file, - (standard input), udp://HOST:PORT or rtp://HOST:PORT",
        Place::Output => "a file, - (standard output), udp://HOST:PORT or rtp://HOST:PORT",
        Place::Node => {
            "the URL that the node printed: layercasts://HOST:PORT/FLOW?fp=.. or, without encryption, \
                        layercast://HOST:PORT/FLOW"
        }
        Place::File => "the path of a file",
    };
    let failure = Failure::wrong_use(format!(
        "{given}:// is not supported here; expected {accepted}"
    ));
    Err(match (place, bridge(&lower, text, place)) {
        (Place::Input | Place::Output, Some(bridge)) => failure.hint(bridge),
        (Place::File, _) if matches!(given, "udp" | "rtp") => failure.hint(format!(
            "serve takes live streams: layercast serve '{text}'"
        )),
        (Place::Node, _) if matches!(given, "udp" | "rtp") => failure.hint(format!(
            "media addresses are for serve and join --out: layercast serve '{text}'"
        )),
        _ => failure,
    })
}

/// The commands that bridge a protocol of ffmpeg or libsrt.
fn bridge(scheme: &str, url: &str, place: Place) -> Option<String> {
    let format = match scheme {
        "rtmp" | "rtmps" | "rtmpt" => "flv",
        "srt" | "tcp" | "http" | "https" | "rist" => "mpegts",
        "rtsp" | "rtsps" => "rtsp",
        "hls" | "ftp" | "sftp" | "pipe" | "mmsh" => "mpegts",
        _ => return None,
    };
    let mut text = match place {
        Place::Output => format!(
            "bridge it: layercast join URL --out - | ffmpeg -i - -c copy -f {format} '{url}'"
        ),
        _ => format!(
            "bridge it: ffmpeg -i '{url}' -c copy -f mpegts 'udp://127.0.0.1:5000?pkt_size=1316' & \
             layercast serve udp://127.0.0.1:5000"
        ),
    };
    if scheme == "srt" {
        text += match place {
            Place::Output => {
                ", or --out udp://127.0.0.1:6000 and srt-live-transmit udp://127.0.0.1:6000 in place of ffmpeg"
            }
            _ => ", or srt-live-transmit in place of ffmpeg",
        };
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_supported_or_no_url_passes() {
        for (text, place) in [
            ("udp://127.0.0.1:5000", Place::Input),
            ("rtp://@:5004", Place::Input),
            ("clip.ts", Place::Input),
            ("a/b:c.ts", Place::Output),
            ("-", Place::Output),
            ("layercasts://h:1/f?fp=any", Place::Node),
            ("127.0.0.1:7400/bunny", Place::Node),
        ] {
            assert!(check(text, place).is_ok(), "{text}");
        }
    }

    #[test]
    fn foreign_schemes_are_named_with_their_bridge() {
        for (text, place, parts) in [
            (
                "srt://h:9000",
                Place::Input,
                [
                    "srt:// is not supported",
                    "ffmpeg -i 'srt://h:9000' -c copy -f mpegts",
                ],
            ),
            (
                "srt://h:9000",
                Place::Input,
                ["udp://HOST:PORT", "srt-live-transmit"],
            ),
            (
                "rtmp://h/live",
                Place::Input,
                [
                    "rtmp:// is not supported",
                    "layercast serve udp://127.0.0.1:5000",
                ],
            ),
            (
                "http://h/a.ts",
                Place::Input,
                ["http:// is not supported", "ffmpeg -i 'http://h/a.ts'"],
            ),
            (
                "rtsp://h/a",
                Place::Input,
                ["rtsp:// is not supported", "ffmpeg -i"],
            ),
            (
                "srt://h:9000",
                Place::Output,
                ["--out - | ffmpeg", "-f mpegts 'srt://h:9000'"],
            ),
            (
                "rtmp://h/live",
                Place::Output,
                ["--out - | ffmpeg", "-f flv 'rtmp://h/live'"],
            ),
            (
                "gopher://h",
                Place::Input,
                ["gopher:// is not supported", "a file, - (standard input)"],
            ),
            ("UDP://h:1", Place::Input, ["lower case", "udp://"]),
            (
                "http://h:1",
                Place::Node,
                ["http:// is not supported", "layercasts://HOST:PORT"],
            ),
            (
                "udp://h:1",
                Place::Node,
                ["udp:// is not supported", "layercast serve 'udp://h:1'"],
            ),
            (
                "udp://h:1",
                Place::File,
                ["udp:// is not supported", "layercast serve 'udp://h:1'"],
            ),
        ] {
            let failure = check(text, place).unwrap_err();
            assert_eq!(failure.code(), 2, "{text}");
            let said = failure.to_string();
            for part in parts {
                assert!(said.contains(part), "{part:?} is not in {said:?}");
            }
        }
    }
}
