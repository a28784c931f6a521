//! What ffmpeg says when it fails, as a cause and a remedy.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::Ffmpeg;
use crate::child::{Ended, Kill};
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
    /// It did not end by itself.
    kill: Option<Kill>,
}

/// How lines begin that say that an output is not whole.
const CUT: [&str; 3] = [
    "av_interleaved_write_frame()",
    "Error writing trailer",
    "Error closing file",
];

impl Complaint {
    /// Reads the last lines that it wrote to standard error.
    pub fn new(ended: &Ended) -> Complaint {
        let Ended { status, said, kill } = ended;
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
            status: *status,
            is_cut,
            kill: *kill,
            cause: secret::hidden(&cause.join("; ")).into_owned(),
        }
    }

    /// Whether it ended without an error, and what it wrote is whole.
    pub fn is_fine(&self) -> bool {
        self.status.success() && !self.is_cut && self.kill.is_none()
    }

    /// The cause, and the exit status.
    pub fn in_words(&self) -> String {
        if let Some(Kill { after, was_stopped }) = self.kill {
            let how = match was_stopped {
                true => "was stopped by a signal and did not continue",
                false => "did not continue",
            };
            let seconds = after.as_secs();
            return format!(
                "ffmpeg {how} for {seconds} s, so it was killed{}",
                self.also()
            );
        }
        match self.cause.is_empty() || self.was_made_to_end() {
            true => format!("ffmpeg ended with {}", self.status),
            false if self.status.success() => format!("{} (ffmpeg)", self.cause),
            false => format!("{} (ffmpeg: {})", self.cause, self.status),
        }
    }

    /// Whether a signal from outside ended it: what it said before is not the cause. Other signals are crashes.
    fn was_made_to_end(&self) -> bool {
        use rustix::process::Signal;
        let outer = [Signal::HUP, Signal::INT, Signal::KILL, Signal::TERM];
        let signal = self.status.signal();
        signal.is_some_and(|it| outer.iter().any(|outer| outer.as_raw() == it))
    }

    /// Whether it ended by a signal, or did not continue: the other side has no part in that.
    pub fn was_killed(&self) -> bool {
        self.kill.is_some() || self.status.signal().is_some()
    }

    /// What it complained of before it was killed.
    fn also(&self) -> String {
        match self.cause.is_empty() {
            true => String::new(),
            false => format!("; before that it said: {}", self.cause),
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
        match (self.kill, self.status.signal()) {
            (
                Some(Kill {
                    was_stopped: true, ..
                }),
                _,
            ) => {
                return "something stopped it (SIGSTOP, Ctrl-Z, a debugger): run the command again, and let ffmpeg run".to_owned();
            }
            (Some(_), _) => {
                return format!(
                    "try the same with ffmpeg alone, and see where it waits: the other side of {url} may not answer"
                );
            }
            (None, Some(_)) => {
                return "something killed it: a person, or the kernel for want of memory (dmesg says so)".to_owned();
            }
            (None, None) => {}
        }
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
                "Error initializing bitstream filter",
                "the name is for another codec than the flow has: end it in .ts, or in .mkv",
            ),
            (
                "Could not write header",
                "its container does not carry this codec: write .mkv, which carries each, or .ts",
            ),
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

/// How lines begin or end that say that a packet of the input is not whole.
const TORN: [&str; 3] = ["File ended prematurely", "partial file", "Packet corrupt"];

/// That the input `name` ends or breaks off inside a packet, if ffmpeg `said` so.
pub fn torn(name: &str, said: &[String]) -> Option<String> {
    let mut texts = said.iter().map(|line| weighed(line).1);
    let cause = texts.find(|text| {
        TORN.iter()
            .any(|it| text.starts_with(it) || text.ends_with(it))
    })?;
    Some(format!(
        "warning: {name} ends or breaks off inside a packet (ffmpeg: {}); the packet is left out",
        cause.trim_end_matches('.')
    ))
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
    use super::*;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    fn complaint(lines: &[&str]) -> Complaint {
        ended(1 << 8, lines, None)
    }

    fn ended(status: i32, lines: &[&str], kill: Option<Kill>) -> Complaint {
        Complaint::new(&Ended {
            status: ExitStatus::from_raw(status),
            said: owned(lines),
            kill,
        })
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
        let full = "[error] Error writing trailer of file:a.mkv: No space left on device";
        let said = ended(0, &[full], None);
        assert!(!said.is_fine());
        assert!(
            said.in_words()
                .ends_with("No space left on device (ffmpeg)")
        );
        let order =
            "[mkv @ 0x1] [error] non monotonically increasing dts to muxer in stream 0: 5 >= 5";
        assert!(ended(0, &[order], None).is_fine());
    }

    #[test]
    fn a_program_that_was_killed_or_stopped_is_said_to_be_and_has_failed() {
        let ffmpeg = Ffmpeg {
            program: "ffmpeg".into(),
        };
        let kill = |was_stopped| {
            Some(Kill {
                after: std::time::Duration::from_secs(30),
                was_stopped,
            })
        };
        // Some programs end with success at SIGTERM.
        for (status, kill, says, helps) in [
            (
                0,
                kill(false),
                "did not continue for 30 s, so it was killed",
                "ffmpeg alone",
            ),
            (9, kill(true), "was stopped by a signal", "let ffmpeg run"),
            (9, None, "signal: 9 (SIGKILL)", "want of memory"),
        ] {
            let said = ended(status, &[], kill);
            assert!(!said.is_fine() && !said.is_final());
            assert!(said.in_words().contains(says), "{}", said.in_words());
            let remedy = said.remedy(&ffmpeg, "a.mp4");
            assert!(remedy.contains(helps), "{remedy}");
        }
    }

    #[test]
    fn what_ffmpeg_said_is_no_cause_of_a_signal_from_outside() {
        let line = ["[error] stream index 2 is not valid"];
        for signal in [1, 2, 9, 15] {
            let said = ended(signal, &line, None).in_words();
            let expected = format!("ffmpeg ended with signal: {signal} ");
            assert!(said.starts_with(&expected), "{said}");
            assert!(!said.contains("index"), "{said}");
        }
        // It has crashed.
        let said = ended(6, &line, None).in_words();
        assert!(said.contains("not valid (ffmpeg: signal: 6"), "{said}");
    }

    #[test]
    fn an_input_that_ends_inside_a_packet_is_said_to() {
        for said in [
            "[mov,mp4,m4a,3gp,3g2,mj2 @ 0x5] [error] stream 1, offset 0x2094e: partial file",
            "[matroska,webm @ 0x5] [error] File ended prematurely",
            "[matroska,webm @ 0x5] [error] File ended prematurely at pos. 132141 (0x2042d)",
            "[flv @ 0x5] [warning] Packet corrupt (stream = 0, dts = 2840), dropping it.",
        ] {
            let text =
                torn("a.mkv", &owned(&["[x @ 0x1] [warning] other", said])).expect("a warning");
            assert!(
                text.starts_with("warning: a.mkv ends or breaks off inside a packet"),
                "{text}"
            );
        }
        assert_eq!(torn("a.mkv", &owned(&["[error] Invalid data found"])), None);
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
