//! How ffmpeg is called for an input.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::{scheme, secret};

/// Options that make a transport stream of media without encoding them, as soon as they come: nothing waits to be
/// interleaved, and no sound to fill a packet.
const REMUX: [&str; 17] = [
    "-sn",
    "-dn",
    "-c",
    "copy",
    "-muxdelay",
    "0",
    "-muxpreload",
    "0",
    "-max_interleave_delta",
    "1",
    "-pes_payload_size",
    "0",
    "-flush_packets",
    "1",
    "-f",
    "mpegts",
    "pipe:1",
];
/// The same of AV1, VP8 and VP9 in IVF.
const IVF: [&str; 9] = [
    "-map",
    "0:V:0",
    "-c",
    "copy",
    "-flush_packets",
    "1",
    "-f",
    "ivf",
    "pipe:1",
];
/// RTSP has no decoding times, and no times at all before its first report: pictures are decoded 0.3 s before they are shown, and in
/// the order in which they come.
const RTSP: [&str; 4] = [
    "-bsf:v",
    "setts=pts=if(eq(PTS\\,NOPTS)\\,if(eq(PREV_OUTPTS\\,NOPTS)\\,0\\,PREV_OUTPTS+1)\\,PTS):\
     dts=max(if(eq(PREV_OUTDTS\\,NOPTS)\\,NOPTS\\,PREV_OUTDTS+1)\\,if(eq(DTS\\,NOPTS)\\,if(eq(PTS\\,NOPTS)\\,0\\,PTS)-27000\\,DTS))",
    "-bsf:a",
    "setts=ts=if(eq(PTS\\,NOPTS)\\,if(eq(PREV_OUTPTS\\,NOPTS)\\,0\\,PREV_OUTPTS+1)\\,PTS)",
];
/// Media of the network are looked at no longer than their streams need to be known.
const BRIEF_LOOK: [&str; 2] = ["-fpsprobesize", "0"];
/// Options that pass bytes on as they come.
const PASS: [&str; 10] = [
    "-map",
    "0",
    "-c",
    "copy",
    "-flush_packets",
    "1",
    "-copy_unknown",
    "-f",
    "data",
    "pipe:1",
];

/// The side that begins, and what the end of the input means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file: it is read as fast as it is taken, and ends.
    Stored,
    /// Somebody else calls, and another one when that one has left.
    Listener,
    /// This side calls. An end is an end; after a failure it calls again.
    Caller,
}

/// The output of a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// Bytes, of a transport stream most of the time.
    Bytes,
    /// Bytes that can be asked for again, in any order.
    Seekable,
    /// Media.
    Media,
}

/// An input of ffmpeg.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// What the user wrote, without passwords.
    pub name: String,
    /// The side that begins.
    pub kind: Kind,
    /// The output of its protocol.
    pub carries: Carries,
    /// It comes in real time; else its pace tells.
    pub is_live: bool,
    /// The headers of its codec are put before each key frame.
    pub headers: bool,
    /// Its video is AV1, VP8 or VP9, which goes into IVF.
    pub is_bare: bool,
    /// Options of the protocol or device.
    options: Vec<&'static str>,
    /// What follows `-i`.
    opened: OsString,
}

impl Input {
    /// A file or device, or a URL of any protocol.
    pub fn new(path: &Path) -> Input {
        let text = path.to_str().unwrap_or_default();
        match scheme::scheme(text) {
            Some(scheme) => Input::url(text, scheme),
            None if is_camera(path) => Input {
                name: path.display().to_string(),
                kind: Kind::Caller,
                carries: Carries::Media,
                is_live: true,
                headers: false,
                is_bare: false,
                options: vec!["-f", "v4l2", "-input_format", "h264"],
                opened: path.into(),
            },
            None => Input {
                opened: file_name(path),
                kind: Kind::Stored,
                ..Input::media(path.display().to_string())
            },
        }
    }

    /// Media of any form that come through standard input.
    pub fn piped(name: &str) -> Input {
        Input {
            opened: "pipe:0".into(),
            kind: Kind::Stored,
            ..Input::media(name.to_owned())
        }
    }

    /// The session that the file at `path` describes: what it names is received.
    pub fn session(path: &Path) -> Input {
        Input {
            kind: Kind::Caller,
            is_live: true,
            options: vec!["-protocol_whitelist", "file,crypto,data,rtp,udp"],
            ..Input::new(path)
        }
    }

    fn media(name: String) -> Input {
        Input {
            opened: (&name).into(),
            name,
            kind: Kind::Caller,
            carries: Carries::Media,
            is_live: false,
            headers: false,
            is_bare: false,
            options: Vec::new(),
        }
    }

    fn url(text: &str, scheme: &str) -> Input {
        let scheme = scheme.to_ascii_lowercase();
        let listens = listens(text);
        let (carries, options) = match &*scheme {
            "srt" | "tcp" | "udp" | "udplite" | "rist" | "unix" | "sctp" => {
                (Carries::Bytes, vec![])
            }
            "http" | "https" if listens => (Carries::Bytes, vec!["-listen", "1"]),
            "http" | "https" => (Carries::Seekable, vec![]),
            "rtmp" | "rtmps" | "rtmpt" | "rtmpe" | "rtmpts" | "rtmpte" if listens => {
                (Carries::Media, vec!["-listen", "1"])
            }
            "rtsp" if listens => (Carries::Media, vec!["-rtsp_flags", "listen"]),
            "rtsp" | "rtsps" => (Carries::Media, vec!["-rtsp_flags", "prefer_tcp"]),
            _ => (Carries::Media, vec![]),
        };
        let is_stream = matches!(
            &*scheme,
            "srt" | "udp" | "udplite" | "rist" | "rtp" | "srtp" | "rtsp" | "rtsps"
        ) || scheme.starts_with("rtmp");
        let can_listen = is_stream || matches!(&*scheme, "tcp" | "http" | "https");
        let kind = match listens && can_listen {
            true => Kind::Listener,
            false => Kind::Caller,
        };
        Input {
            kind,
            carries,
            is_live: is_stream || kind == Kind::Listener,
            options,
            opened: opened(text),
            ..Input::media(secret::hidden(text).into_owned())
        }
    }

    /// The options and the name of the input, up to `-i URL`, for its media.
    pub fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = self.options.iter().map(OsString::from).collect();
        match self.kind {
            // Containers with decoding times only; and no part of a packet in which a file ends.
            Kind::Stored => {
                args.extend(["-fflags", "+genpts+discardcorrupt"].map(OsString::from));
            }
            Kind::Listener | Kind::Caller => args.extend(BRIEF_LOOK.map(OsString::from)),
        }
        args.extend(["-i".into(), self.opened.clone()]);
        args
    }

    /// All arguments that make a transport stream of it on standard output, or IVF.
    pub fn remuxed(&self) -> Vec<OsString> {
        let mut args = self.args();
        if self.is_bare {
            args.extend(IVF.map(OsString::from));
            return args;
        }
        if self
            .name
            .get(..4)
            .is_some_and(|it| it.eq_ignore_ascii_case("rtsp"))
        {
            args.extend(RTSP.map(OsString::from));
        }
        if self.kind == Kind::Stored {
            let all_sound = ["-map", "0:V:0?", "-map", "0:a?"];
            args.extend(all_sound.map(OsString::from));
        }
        if self.headers {
            args.extend(["-bsf:v", "dump_extra"].map(OsString::from));
        }
        args.extend(REMUX.map(OsString::from));
        args
    }

    /// All arguments that pass its bytes on to standard output.
    pub fn passed(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = ["-f", "data"].map(OsString::from).to_vec();
        args.extend(self.options.iter().map(OsString::from));
        args.extend(["-i".into(), self.opened.clone()]);
        args.extend(PASS.map(OsString::from));
        args
    }
}

/// A file as ffmpeg takes it: no protocol, whatever its name is.
pub fn file_name(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}

/// A URL as ffmpeg takes it: one that listens says so, and on which address.
pub fn opened(url: &str) -> OsString {
    if !listens(url) {
        return url.into();
    }
    let url = with_host(url);
    let scheme = scheme::scheme(&url).unwrap_or_default();
    let opened = match &*scheme.to_ascii_lowercase() {
        "srt" => with_option(&url, "mode", "listener"),
        "tcp" => with_option(&url, "listen", "1"),
        _ => url,
    };
    opened.into()
}

/// Whether `path` is a camera of Video4Linux.
pub fn is_camera(path: &Path) -> bool {
    let is_device = path
        .metadata()
        .is_ok_and(|meta| meta.file_type().is_char_device());
    is_device && (path.starts_with("/dev/v4l") || path.to_string_lossy().starts_with("/dev/video"))
}

/// The part between `//` and the path, and where it begins.
fn authority(url: &str) -> (usize, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = &url[start..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (start, &rest[..end])
}

/// Whether a URL waits to be called: it says so, or names no host.
fn listens(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut options = query
        .split('&')
        .map(|it| it.split_once('=').unwrap_or((it, "1")));
    if let Some((_, mode)) = options.clone().find(|(name, _)| *name == "mode") {
        return mode == "listener" || mode == "2";
    }
    if let Some((_, value)) = options.find(|(name, _)| *name == "listen") {
        return value != "0";
    }
    let (_, authority) = authority(url);
    let host = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
    // An address in brackets has colons.
    let host = match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
        Some(at) => &host[..at],
        None => host,
    };
    matches!(host, "" | "0.0.0.0" | "[::]" | "*")
}

/// The same URL with an address to listen on in the place of none.
fn with_host(url: &str) -> String {
    let (start, authority) = authority(url);
    match authority.strip_prefix('*').unwrap_or(authority) {
        rest if rest.is_empty() || rest.starts_with(':') => {
            let after = &url[start + authority.len()..];
            format!("{}0.0.0.0{rest}{after}", &url[..start])
        }
        _ => url.to_owned(),
    }
}

/// The same URL with an option that it does not have.
fn with_option(url: &str, name: &str, value: &str) -> String {
    let query = url.split_once('?').map(|(_, query)| query);
    let has = |query: &str| {
        query
            .split('&')
            .any(|it| it.split_once('=').map_or(it, |(name, _)| name) == name)
    };
    match query {
        Some(query) if has(query) => url.to_owned(),
        Some(_) => format!("{url}&{name}={value}"),
        None => format!("{url}?{name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_url_says_who_calls() {
        for (url, kind, opened) in [
            (
                "srt://:9000?mode=listener",
                Kind::Listener,
                "srt://0.0.0.0:9000?mode=listener",
            ),
            (
                "srt://:9000?latency=20000",
                Kind::Listener,
                "srt://0.0.0.0:9000?latency=20000&mode=listener",
            ),
            (
                "srt://:9000",
                Kind::Listener,
                "srt://0.0.0.0:9000?mode=listener",
            ),
            (
                "srt://[::]:9000",
                Kind::Listener,
                "srt://[::]:9000?mode=listener",
            ),
            ("srt://[::1]:9000", Kind::Caller, "srt://[::1]:9000"),
            ("srt://10.0.0.1:9000", Kind::Caller, "srt://10.0.0.1:9000"),
            (
                "srt://:9000?mode=caller",
                Kind::Caller,
                "srt://:9000?mode=caller",
            ),
            (
                "srt://10.0.0.1:9000?mode=listener",
                Kind::Listener,
                "srt://10.0.0.1:9000?mode=listener",
            ),
            ("tcp://:5000", Kind::Listener, "tcp://0.0.0.0:5000?listen=1"),
            (
                "rtmp://:1935/live",
                Kind::Listener,
                "rtmp://0.0.0.0:1935/live",
            ),
            (
                "rtmp://0.0.0.0/live/key",
                Kind::Listener,
                "rtmp://0.0.0.0/live/key",
            ),
            ("rtmp:///live", Kind::Listener, "rtmp://0.0.0.0/live"),
            ("rtmp://host/live", Kind::Caller, "rtmp://host/live"),
            (
                "rtsp://:8554/cam",
                Kind::Listener,
                "rtsp://0.0.0.0:8554/cam",
            ),
            ("rtsp://a:b@cam:554/1", Kind::Caller, "rtsp://a:b@cam:554/1"),
            ("http://host/a.m3u8", Kind::Caller, "http://host/a.m3u8"),
        ] {
            let input = Input::new(Path::new(url));
            assert_eq!(
                (input.kind, &*input.opened),
                (kind, OsStr::new(opened)),
                "{url}"
            );
            assert_eq!(input.name, secret::hidden(url));
        }
    }

    #[test]
    fn a_file_is_a_file_whatever_it_is_called() {
        let input = Input::new(Path::new("concat:a|-b.mp4"));
        assert_eq!(input.opened, "file:concat:a|-b.mp4");
        let args = input.remuxed();
        assert!(
            args.windows(2)
                .any(|it| it[0] == "-i" && it[1] == input.opened)
        );
    }
}
