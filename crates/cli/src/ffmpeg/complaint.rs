//! What ffmpeg says when it fails, as a cause and a remedy.

use std::process::ExitStatus;

use super::Ffmpeg;
use crate::failure::Failure;
use crate::{scheme, secret};

/// Most causes that are reported of one end.
const CAUSES: usize = 3;

/// How ffmpeg ended.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// Its exit status.
    pub status: ExitStatus,
    /// What went wrong, in its words, without passwords.
    pub cause: String,
    /// What it wrote is not whole. ffmpeg 5.1 ends with success where only the last octets have no room.
    is_cut: bool,
}

/// How lines begin that say that an output is not whole.
const CUT: [&str; 3] = [
    "av_interleaved_write_frame()",
    "Error writing trailer",
    "Error closing file",
];

impl Complaint {
    /// Reads the last lines that it wrote to standard error.
    pub fn new(status: ExitStatus, said: &[String]) -> Complaint {
        let mut causes: Vec<&str> = Vec::new();
        for line in said {
            let (weight, text) = weighed(line);
            let is_error = weight.is_none_or(|it| matches!(it, "error" | "fatal" | "panic"));
            if is_error && !text.is_empty() && !causes.contains(&text) {
                causes.push(text);
            }
        }
        let is_cut = causes
            .iter()
            .any(|text| CUT.iter().any(|start| text.starts_with(start)));
        let cause = causes.split_off(causes.len().saturating_sub(CAUSES));
        Complaint {
            status,
            is_cut,
            cause: secret::hidden(&cause.join("; ")).into_owned(),
        }
    }

    /// Whether it ended without an error, and what it wrote is whole.
    pub fn is_fine(&self) -> bool {
        self.status.success() && !self.is_cut
    }

    /// The cause, and the exit status.
    pub fn in_words(&self) -> String {
        match self.cause.is_empty() {
            true => format!("ffmpeg ended with {}", self.status),
            false if self.status.success() => format!("{} (ffmpeg)", self.cause),
            false => format!("{} (ffmpeg: {})", self.cause, self.status),
        }
    }

    /// Whether calling it again cannot help: what it was given is wrong, or in use.
    pub fn is_final(&self) -> bool {
        const FINAL: [&str; 9] = [
            "Address already in use",
            "Cannot assign requested address",
            "Permission denied",
            "Protocol not found",
            "Failed to resolve hostname",
            "Port missing in uri",
            "Option ",
            "Unrecognized option",
            "Unknown ",
        ];
        FINAL.iter().any(|text| self.cause.contains(text))
    }

    /// What to do about it; `url` is what was opened.
    pub fn remedy(&self, ffmpeg: &Ffmpeg, url: &str) -> String {
        let scheme = scheme::scheme(url).unwrap_or_default();
        let has = |text: &str| self.cause.contains(text);
        if has("Protocol not found") {
            return format!(
                "{} has no protocol {scheme:?} (ffmpeg -protocols lists those it has): check the URL, or install an ffmpeg \
                 that was built with it",
                ffmpeg.version()
            );
        }
        if has("not on whitelist") {
            return "a playlist from the network may not name files of this machine, nor a file the network: give the URL of \
                    the playlist itself, or fetch it with ffmpeg and serve the file"
                .to_owned();
        }
        let table = [
            (
                "Address already in use",
                "stop the other program that listens there, or choose another port",
            ),
            (
                "Cannot assign requested address",
                "listen on an address of this machine, or on all: an empty host, as in srt://:9000",
            ),
            (
                "Failed to resolve hostname",
                "check the host name in the URL, and the name service",
            ),
            (
                "Connection refused",
                "check that the other side runs and listens at this address; to wait for it here, listen: an empty host, as in \
                 srt://:9000 or rtmp://:1935/live",
            ),
            (
                "Port missing in uri",
                "add the port: srt://HOST:PORT, or srt://:PORT to listen",
            ),
            ("No space left", "make room, or write to another disk"),
            ("No route to host", "check the address, and the network"),
            ("timed out", "check the address, and firewalls between"),
            (
                "Server returned 4",
                "check the path of the URL, and whether it needs a password",
            ),
            (
                "Invalid data found",
                "it is no media that ffmpeg knows: look at it with ffprobe",
            ),
            ("No such file", "check the path"),
            ("Permission denied", "check the permissions"),
            (
                "does not contain any stream",
                "it has neither video nor sound: look at it with ffprobe",
            ),
            (
                "matches no streams",
                "it has neither video nor sound: look at it with ffprobe",
            ),
            (
                "srt",
                "check host and port, the passphrase, and the mode (caller, listener)",
            ),
        ];
        let found = table.iter().find(|(text, _)| has(text));
        found.map_or_else(
            || format!("look at it with ffprobe '{url}'"),
            |(_, remedy)| (*remedy).to_owned(),
        )
    }

    /// The failure of a command that `verb`s `url`.
    pub fn failure(&self, ffmpeg: &Ffmpeg, verb: &str, url: &str) -> Failure {
        Failure::new(format!("cannot {verb} {url}: {}", self.in_words()))
            .hint(self.remedy(ffmpeg, url))
    }
}

/// Codecs that a transport stream does not carry so that players understand it, as ffmpeg names them in what it `said`.
pub fn foreign_codecs(said: &[String]) -> Vec<String> {
    let named = said.iter().filter_map(|line| {
        let (before, _) = line.split_once(", is muxed as a private data stream")?;
        let (_, codec) = before.rsplit_once("codec ")?;
        Some(codec.to_owned())
    });
    named.collect()
}

/// The weight of a line, if it has one, and its text without the names and addresses of the parts of ffmpeg.
fn weighed(line: &str) -> (Option<&str>, &str) {
    let (mut weight, mut rest) = (None, line);
    while let Some((tag, after)) = rest.strip_prefix('[').and_then(|it| it.split_once("] ")) {
        let is_part = tag.contains(" @ 0x");
        let is_weight = matches!(
            tag,
            "panic" | "fatal" | "error" | "warning" | "info" | "verbose" | "debug"
        );
        if !is_part && !is_weight {
            break;
        }
        if is_weight {
            weight = Some(tag);
        }
        rest = after;
    }
    (weight, rest.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    fn complaint(lines: &[&str]) -> Complaint {
        Complaint::new(ExitStatus::from_raw(1 << 8), &owned(lines))
    }

    #[test]
    fn the_cause_is_what_ffmpeg_calls_an_error() {
        let said = complaint(&[
            "[srt @ 0x558952b83140] [error] Connection to srt://127.0.0.1:9 failed: Input/output error",
            "[hls @ 0x5] [warning] something else",
            "[error] srt://127.0.0.1:9: Input/output error",
        ]);
        assert_eq!(
            said.in_words(),
            "Connection to srt://127.0.0.1:9 failed: Input/output error; srt://127.0.0.1:9: Input/output error (ffmpeg: \
             exit status: 1)"
        );
        assert!(!said.is_final() && !said.is_fine());
        let secret = complaint(&["[error] rtsp://ann:pw@camera/1: Connection refused"]);
        assert_eq!(secret.cause, "rtsp://ann:***@camera/1: Connection refused");
        assert_eq!(
            complaint(&[]).in_words(),
            "ffmpeg ended with exit status: 1"
        );
        let used = complaint(&["[tcp @ 0x1] [error] bind failed: Address already in use"]);
        assert!(used.is_final());
    }

    #[test]
    fn a_file_whose_end_has_no_room_is_not_written_whatever_the_status_says() {
        let success = ExitStatus::from_raw(0);
        let full = "[error] Error writing trailer of file:a.mkv: No space left on device";
        let said = Complaint::new(success, &owned(&[full]));
        assert!(!said.is_fine());
        assert!(
            said.in_words()
                .ends_with("No space left on device (ffmpeg)")
        );
        let order =
            "[mkv @ 0x1] [error] non monotonically increasing dts to muxer in stream 0: 5 >= 5";
        assert!(Complaint::new(success, &owned(&[order])).is_fine());
    }

    #[test]
    fn a_codec_that_is_not_carried_is_named() {
        let said = owned(&[
            "[mpegts @ 0x56] [warning] Stream 0, codec vp9, is muxed as a private data stream and may not be recognized upon \
             reading.",
            "[mpegts @ 0x56] [warning] Stream, is muxed as a private data stream: codec ",
        ]);
        assert_eq!(foreign_codecs(&said), ["vp9"]);
    }
}
